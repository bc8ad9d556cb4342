#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/map.h"
#include "unit/test.h"

static char one, two; // values: any addresses

static struct str key_of(unsigned i, char room[16])
{
    snprintf(room, 16, "key-%u", i);
    return str_of(room);
}

TEST(the_hash_is_siphash_1_3)
{
    static const uint64_t zero[2] = {0, 0};
    static const uint64_t counting[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
    char all[64];
    for (size_t i = 0; i < sizeof all; i++) {
        all[i] = (char)i;
    }
    CHECK(map_hash_seeded(counting, STR_NULL) == 0xabac0158050fc4dcu);
    CHECK(map_hash_seeded(zero, STR("a")) == 0x407448d2b89b1813u);
    CHECK(map_hash_seeded(zero, STR("abcdefg")) == 0x6db12aae9070f506u);
    CHECK(map_hash_seeded(zero, STR("abcdefgh")) == 0x3f7b849c0b8e35eau);
    CHECK(map_hash_seeded(zero, STR("abcdefghi")) == 0xf89b34a3d11eb6e5u);
    CHECK(map_hash_seeded(zero, (struct str){all, sizeof all}) == 0x75e05fd5bbc870c6u);
}

TEST(the_seed_is_not_the_same_in_two_processes)
{
    int pipes[2];
    uint64_t theirs, ours;
    CHECK_INT(pipe(pipes), 0);
    pid_t pid = fork(); // before the first hash of this process, which draws the seed
    if (pid == 0) {
        theirs = map_hash(STR("x"));
        _exit(write(pipes[1], &theirs, sizeof theirs) != (ssize_t)sizeof theirs);
    }
    ours = map_hash(STR("x"));
    CHECK_INT(read(pipes[0], &theirs, sizeof theirs), sizeof theirs);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK(ours != theirs);
    CHECK(ours == map_hash(STR("x")));
}

TEST(a_key_is_found_until_it_is_removed)
{
    struct map m;
    map_init(&m);
    CHECK(map_get(&m, STR("a")) == NULL);
    CHECK(map_remove(&m, STR("a")) == NULL);
    CHECK(map_set(&m, STR("a"), &one) == NULL);
    CHECK(map_set(&m, STR("a"), &two) == &one);
    CHECK_INT(m.n, 1);
    CHECK(map_get(&m, STR("a")) == &two);
    CHECK(map_remove(&m, STR("a")) == &two);
    CHECK(map_get(&m, STR("a")) == NULL);
    CHECK_INT(m.n, 0);
    map_fini(&m);
}

TEST(keys_are_copied_and_may_hold_any_bytes)
{
    struct map m;
    char name[] = "first";
    map_init(&m);
    map_set(&m, str_of(name), &one);
    name[0] = 'F';
    CHECK(map_get(&m, STR("first")) == &one);
    map_set(&m, STR("a\0b"), &one);
    map_set(&m, STR("a\0c"), &two);
    map_set(&m, STR_NULL, &two);
    CHECK(map_get(&m, STR("a\0b")) == &one);
    CHECK(map_get(&m, STR("a\0c")) == &two);
    CHECK(map_get(&m, STR("")) == &two);
    CHECK(map_get(&m, STR("a")) == NULL);
    map_fini(&m);
}

// Against a plain array as a model, with enough keys to grow several times.
TEST(random_sets_and_removals_agree_with_an_array)
{
    enum { KEYS = 3000, STEPS = 60000 };
    static char *model[KEYS];
    struct map m;
    unsigned random = 1, held = 0;
    map_init(&m);
    for (unsigned i = 0; i < STEPS; i++) {
        char room[16];
        random = random * 1664525 + 1013904223;
        unsigned k = (random >> 8) % KEYS;
        struct str key = key_of(k, room);
        char *value = random >> 31 ? &one : &two;
        CHECK(map_get(&m, key) == model[k]);
        if ((random >> 29 & 1) != 0) {
            CHECK(map_set(&m, key, value) == model[k]);
            held += model[k] == NULL;
            model[k] = value;
        } else {
            CHECK(map_remove(&m, key) == model[k]);
            held -= model[k] != NULL;
            model[k] = NULL;
        }
        CHECK_INT(m.n, held);
    }
    map_fini(&m);
}

TEST(keys_that_come_and_go_do_not_grow_the_table)
{
    struct map m;
    char room[16];
    map_init(&m);
    for (unsigned i = 0; i < 20000; i++) {
        map_set(&m, key_of(i, room), &one);
        if (i >= 4) {
            CHECK(map_remove(&m, key_of(i - 4, room)) == &one);
        }
    }
    CHECK_INT(m.n, 4);
    CHECK_INT(m.cap, 16);
    map_fini(&m);
}

TEST(a_walk_meets_every_key_once_and_may_remove_it)
{
    enum { KEYS = 500 };
    struct map m;
    char room[16];
    unsigned seen[KEYS] = {0};
    map_init(&m);
    for (unsigned i = 0; i < KEYS; i++) {
        map_set(&m, key_of(i, room), &one);
    }
    struct str key;
    void *value;
    for (size_t at = 0; map_next(&m, &at, &key, &value);) {
        uint64_t i;
        CHECK(value == &one);
        CHECK(str_to_u64(str_from(key, 4), &i) && i < KEYS);
        seen[i]++;
        if (i % 2 == 0) {
            map_remove(&m, key_of((unsigned)i, room));
        }
    }
    for (unsigned i = 0; i < KEYS; i++) {
        CHECK_INT(seen[i], 1);
        CHECK((map_get(&m, key_of(i, room)) != NULL) == (i % 2 != 0));
    }
    map_fini(&m);
}

TEST(each_value_is_freed_with_the_map)
{
    struct map m = {0};
    char room[32];
    for (unsigned i = 0; i < 100; i++) {
        map_set(&m, key_of(i, room), xstrdup("value")); // the sanitizer counts them
    }
    map_fini_each(&m, free);
    CHECK_INT(m.n, 0);
    CHECK(map_get(&m, key_of(1, room)) == NULL);
}

TEST(a_null_value_is_a_bug)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct map m;
        close(STDERR_FILENO);
        map_init(&m);
        map_set(&m, STR("a"), NULL);
        _exit(0);
    }
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
