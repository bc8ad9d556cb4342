// memory.json: what is kept, what is refused, what is set aside.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bot/memory.h"
#include "unit/bot/home.h"

static const char *dir(void)
{
    return at("w");
}

/// All entries as "key=text;".
static const char *all(void)
{
    static struct buf out;
    struct memory m;
    struct err e = {0};
    buf_fini(&out);
    buf_init(&out, SIZE_MAX);
    int rc = memory_load(&m, NULL, dir(), &e);
    if (rc < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    vec_foreach (it, &m.list) {
        buf_addf(&out, STR_FMT "=" STR_FMT ";", STR_ARG(it->key), STR_ARG(it->text));
    }
    memory_fini(&m);
    return buf_z(&out);
}

TEST(memory_is_set_read_removed_and_cleared)
{
    size_t n;
    struct err e = {0};
    CHECK_STR(all(), ""); // not even a directory
    make_dir("w");
    CHECK_INT(memory_set(NULL, dir(), STR("b"), STR("two"), NULL, NULL), 0);
    CHECK_INT(memory_set(NULL, dir(), STR("a"), STR("one"), NULL, NULL), 0);
    CHECK_INT(memory_set(NULL, dir(), STR("b"), STR("2"), NULL, NULL), 0);
    CHECK_STR(all(), "a=one;b=2;");
    CHECK_STR(text_of(at("w/memory.json")),
              "{\n  \"entries\": {\n    \"b\": \"2\",\n    \"a\": \"one\"\n  }\n}\n");
    CHECK_INT(memory_remove(NULL, dir(), STR("b"), NULL, NULL), 0);
    CHECK_INT(memory_remove(NULL, dir(), STR("b"), NULL, &e), ERR_NOT_FOUND);
    CHECK_STR(e.msg, "nothing is remembered as 'b'");
    CHECK_STR(all(), "a=one;");
    CHECK_INT(memory_clear(NULL, dir(), &n, NULL, NULL), 0);
    CHECK_INT(n, 1);
    CHECK_STR(all(), "");
}

TEST(what_we_do_not_know_stays)
{
    put_file("w/memory.json",
             "{\"version\": 3, \"entries\": {\"n\": 5, \"o\": {\"x\": [1]}}, \"z\": null}");
    CHECK_STR(all(), "n=5;o={\"x\":[1]};");
    CHECK_INT(memory_set(NULL, dir(), STR("k"), STR("v"), NULL, NULL), 0);
    CHECK_STR(all(), "k=v;n=5;o={\"x\":[1]};");
    CHECK(strstr(text_of(at("w/memory.json")), "\"version\": 3") != NULL);
    CHECK(strstr(text_of(at("w/memory.json")), "\"z\": null") != NULL);
}

/// The one file that was set aside; its name is in a static buffer.
static const char *aside(void)
{
    static char name[1024];
    char pattern[1024];
    snprintf(pattern, sizeof pattern, "ls %s/memory.json.corrupt-* 2>/dev/null", dir());
    FILE *f = popen(pattern, "r");
    name[0] = '\0';
    if (fgets(name, sizeof name, f) != NULL) {
        name[strcspn(name, "\n")] = '\0';
    }
    pclose(f);
    return name;
}

TEST(a_damaged_file_is_set_aside_whole_and_told)
{
    static const char *const bad[] = {"{\"entries\": {\"a\": ", "[1]", "{\"entries\": []}", "",
                                      "nul\xFF"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct memory m;
        put_file("w/memory.json", bad[i]);
        CHECK_INT(memory_load(&m, NULL, dir(), NULL), 0);
        CHECK_INT(m.list.n, 0);
        CHECK(strstr(m.note, "the memory was damaged (") != NULL);
        CHECK(strstr(m.note, aside()) != NULL);
        memory_fini(&m);
        CHECK(!is_there(at("w/memory.json")));
        CHECK_STR(text_of(aside()), bad[i]);
        CHECK_INT(unlink(aside()), 0);
    }
}

TEST(a_change_of_a_damaged_file_sets_it_aside_first)
{
    char note[300];
    put_file("w/memory.json", "half {");
    CHECK_INT(memory_set(NULL, dir(), STR("k"), STR("v"), note, NULL), 0);
    CHECK(strstr(note, "corrupt-") != NULL);
    CHECK_STR(all(), "k=v;");
    CHECK_STR(text_of(aside()), "half {");
    CHECK_INT(memory_set(NULL, dir(), STR("k"), STR("w"), note, NULL), 0);
    CHECK_STR(note, "");
}

TEST(limits_have_clear_errors)
{
    struct err e = {0};
    char *big = xmalloc(MEMORY_VALUE + 1);
    make_dir("w");
    memset(big, 'x', MEMORY_VALUE + 1);
    CHECK_INT(memory_set(NULL, dir(), (struct str){big, MEMORY_KEY}, STR("v"), NULL, NULL), 0);
    CHECK_INT(memory_set(NULL, dir(), (struct str){big, MEMORY_KEY + 1}, STR("v"), NULL, &e),
              ERR_TOO_LARGE);
    CHECK_STR(e.msg, "a key of the memory has at most 200 bytes");
    CHECK_INT(memory_set(NULL, dir(), STR("k"), (struct str){big, MEMORY_VALUE}, NULL, NULL), 0);
    CHECK_INT(memory_set(NULL, dir(), STR("k"), (struct str){big, MEMORY_VALUE + 1}, NULL, &e),
              ERR_TOO_LARGE);
    CHECK_STR(e.msg, "a value of the memory has at most 65536 bytes, this has 65537");
    CHECK_INT(memory_set(NULL, dir(), STR(""), STR("v"), NULL, &e), ERR_INVALID);
    CHECK_INT(memory_set(NULL, dir(), STR("a\nb"), STR("v"), NULL, &e), ERR_INVALID);
    CHECK_INT(memory_set(NULL, dir(), STR("k"), STR("\xFF"), NULL, &e), ERR_INVALID);
    free(big);
}

TEST(a_full_memory_takes_no_new_keys_and_keeps_the_old)
{
    struct buf b;
    struct err e = {0};
    buf_init(&b, SIZE_MAX);
    buf_addz(&b, "{\"entries\": {");
    for (int i = 0; i < MEMORY_ENTRIES; i++) {
        buf_addf(&b, "%s\"k%d\": \"v\"", i != 0 ? "," : "", i);
    }
    buf_addz(&b, "}}");
    put_bytes("w/memory.json", buf_str(&b));
    buf_fini(&b);
    CHECK_INT(memory_set(NULL, dir(), STR("new"), STR("v"), NULL, &e), ERR_TOO_LARGE);
    CHECK_STR(e.msg, "the memory is full (1000 entries): remove something first");
    CHECK_INT(memory_set(NULL, dir(), STR("k5"), STR("w"), NULL, NULL), 0);
    CHECK_INT(memory_remove(NULL, dir(), STR("k6"), NULL, NULL), 0);
    CHECK_INT(memory_set(NULL, dir(), STR("new"), STR("v"), NULL, NULL), 0);
}

enum { PROCESSES = 4, CHANGES = 10 };

static void hammer(int i)
{
    for (int k = 0; k < CHANGES; k++) {
        char key[32];
        snprintf(key, sizeof key, "p%d-%d", i, k);
        CHECK_INT(memory_set(NULL, dir(), str_of(key), STR("v"), NULL, NULL), 0);
        if (k > 0) { // and take out the one before, so that both kinds of change meet
            snprintf(key, sizeof key, "p%d-%d", i, k - 1);
            CHECK_INT(memory_remove(NULL, dir(), str_of(key), NULL, NULL), 0);
        }
    }
}

TEST(processes_that_change_at_once_lose_nothing)
{
    make_dir("w");
    in_processes(PROCESSES, hammer);
    CHECK_STR(all(), "p0-9=v;p1-9=v;p2-9=v;p3-9=v;");
}

TEST(a_writer_that_is_killed_leaves_a_whole_file_and_no_lock)
{
    int loops = test_loops(8);
    make_dir("w");
    for (int i = 0; i < loops; i++) {
        int ready[2];
        char one;
        CHECK_INT(pipe(ready), 0);
        pid_t pid = fork();
        if (pid == 0) {
            for (int k = 0;; k++) {
                char value[300];
                memset(value, 'a' + k % 26, sizeof value);
                if (memory_set(NULL, dir(), STR("k"), (struct str){value, sizeof value}, NULL,
                               NULL) < 0) {
                    _exit(1);
                }
                if (k == i % 5 && write(ready[1], "x", 1) != 1) {
                    _exit(1);
                }
            }
        }
        CHECK(read(ready[0], &one, 1) == 1);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(ready[0]);
        close(ready[1]);
        struct memory m;
        CHECK_INT(memory_load(&m, NULL, dir(), NULL), 0);
        CHECK_STR(m.note, "");
        CHECK_INT(m.list.n, 1);
        CHECK_INT(m.list.p[0].text.n, 300);
        memory_fini(&m);
        CHECK_INT(memory_set(NULL, dir(), STR("k"), STR("v"), NULL, NULL), 0);
    }
}

TEST(a_merge_adds_what_is_missing_and_changes_nothing)
{
    struct arena a = {0};
    struct json *more;
    struct memory_merge m;
    put_file("w/memory.json", "{\"entries\": {\"a\": \"mine\"}}");
    CHECK_INT(json_parse(&more, &a, STR("{\"a\": \"theirs\", \"b\": 2, \"\": \"x\"}"), NULL, NULL),
              0);
    CHECK_INT(memory_merge(NULL, dir(), more, &m, NULL), 0);
    CHECK(m.added == 1 && m.kept == 1 && m.refused == 1);
    CHECK_STR(all(), "a=mine;b=2;");
    arena_fini(&a);
}
