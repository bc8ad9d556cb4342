#include <stdalign.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "unit/test.h"

TEST(every_object_is_aligned_and_apart_from_the_others)
{
    struct arena a = {0};
    unsigned char *all[300];
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i] = arena_alloc(&a, i);
        CHECK_INT((uintptr_t)all[i] % alignof(max_align_t), 0);
        memset(all[i], (int)(i & 0xFF), i);
    }
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        for (size_t k = 0; k < i; k++) {
            CHECK_INT(all[i][k], i & 0xFF);
        }
    }
    arena_fini(&a);
    CHECK(a.head == NULL && a.used == 0);
}

TEST(a_large_object_does_not_waste_the_current_block)
{
    struct arena a = {0};
    char *first = arena_alloc(&a, 16);
    memset(arena_alloc(&a, 1 << 20), 1, 1 << 20);
    char *second = arena_alloc(&a, 16);
    CHECK_INT(second - first, 16);
    CHECK_INT(a.used, (1 << 20) + 32);
    arena_fini(&a);
}

TEST(a_large_object_may_come_first)
{
    struct arena a = {0};
    memset(arena_alloc(&a, 1 << 20), 1, 1 << 20);
    memset(arena_alloc(&a, 100), 2, 100);
    arena_fini(&a);
}

TEST(texts_are_copied_with_their_end)
{
    struct arena a = {0};
    CHECK_STR(arena_strdup(&a, (struct str){"abcd", 2}), "ab");
    CHECK_STR(arena_strdup(&a, STR_NULL), "");
    CHECK(str_eqz(arena_str(&a, STR("xyz")), "xyz"));
    CHECK_STR(arena_printf(&a, "%d-%s", 7, "a longer text than that"), "7-a longer text than that");
    unsigned *zero = arena_calloc(&a, 1000, sizeof *zero);
    for (size_t i = 0; i < 1000; i++) {
        CHECK_INT(zero[i], 0);
    }
    arena_fini(&a);
}

// The process ends, with the allocator's complaint, instead of getting less than it asked for.
static void check_dies(size_t n, size_t size)
{
    int pipes[2], status;
    char said[4096] = "";
    CHECK_INT(pipe(pipes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct arena a = {0};
        dup2(pipes[1], STDERR_FILENO);
        _exit((size == 1 ? arena_alloc(&a, n) : arena_calloc(&a, n, size)) == NULL);
    }
    close(pipes[1]);
    FILE *f = fdopen(pipes[0], "r");
    CHECK(f != NULL && fread(said, 1, sizeof said - 1, f) > 0); // up to the end
    fclose(f);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(status != 0);
    CHECK(strstr(said, "out of memory") != NULL || strstr(said, "allocation size") != NULL);
}

TEST(impossible_amounts_end_the_process)
{
    check_dies(SIZE_MAX, 1);
    check_dies(SIZE_MAX - 15, 1); // the header of a block would make the sum wrap
    check_dies(SIZE_MAX - 30, 1);
    check_dies(SIZE_MAX / 2 + 2, 2);
}

TEST(a_copied_list_has_its_own_strings_and_an_end)
{
    char word[] = "one";
    const char *list[] = {word, "two", NULL};
    struct arena a = {0};
    const char **copy = arena_copy_list(&a, list), **none = arena_copy_list(&a, NULL);
    word[0] = 'O';
    CHECK_STR(copy[0], "one");
    CHECK_STR(copy[1], "two");
    CHECK(copy[2] == NULL && none[0] == NULL);
    arena_fini(&a);
}
