#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/linediff.h"
#include "base/path.h"
#include "unit/test.h"

static const char *diff(const char *before, const char *after)
{
    static char text[4096];
    struct buf out;
    buf_init(&out, sizeof text - 1);
    linediff_write(&out, STR("f"), str_of(before), str_of(after));
    snprintf(text, sizeof text, "%s", buf_z(&out));
    buf_fini(&out);
    return text;
}

#define HEAD "--- a/f\n+++ b/f\n"

TEST(equal_texts_have_no_diff)
{
    CHECK_STR(diff("", ""), "");
    CHECK_STR(diff("a\nb\n", "a\nb\n"), "");
}

TEST(changes_have_three_lines_around_them)
{
    CHECK_STR(diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nX\n6\n7\n8\n9\n"),
              HEAD "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n");
    CHECK_STR(diff("", "a\nb\n"), HEAD "@@ -0,0 +1,2 @@\n+a\n+b\n");
    CHECK_STR(diff("a\nb\n", ""), HEAD "@@ -1,2 +0,0 @@\n-a\n-b\n");
    CHECK_STR(diff("a\n", "a\nb\n"), HEAD "@@ -1,1 +1,2 @@\n a\n+b\n");
}

TEST(a_last_line_without_a_line_feed_is_said)
{
    CHECK_STR(diff("a", "a\n"), HEAD "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n");
    CHECK_STR(diff("a\nb", "x\nb"),
              HEAD "@@ -1,2 +1,2 @@\n-a\n+x\n b\n\\ No newline at end of file\n");
}

TEST(changes_far_apart_are_hunks_of_their_own)
{
    const char *text = diff("a\n1\n2\n3\n4\n5\n6\n7\n8\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\n8\nB\n");
    CHECK_STR(text,
              HEAD "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -7,4 +7,4 @@\n 6\n 7\n 8\n-b\n+B\n");
}

static void random_text(struct buf *out, unsigned *seed, unsigned lines)
{
    unsigned n = (unsigned)rand_r(seed) % (lines + 1);
    for (unsigned i = 0; i < n; i++) {
        buf_addf(out, "%d%s", rand_r(seed) % 6, i + 1 == n && rand_r(seed) % 4 == 0 ? "" : "\n");
    }
}

/// `patch` (of git) makes the second text out of the first and our diff.
static void check_applies(struct str before, struct str after)
{
    char dir[300], file[320], patch[320];
    struct buf out, made;
    struct err e = {0};
    snprintf(dir, sizeof dir, "%s", test_dir());
    snprintf(file, sizeof file, "%s/f", dir);
    snprintf(patch, sizeof patch, "%s/p", dir);
    buf_init(&out, SIZE_MAX);
    buf_init(&made, SIZE_MAX);
    linediff_write(&out, STR("f"), before, after);
    if (out.n != 0) {
        CHECK_INT(path_write_atomic(file, before, 0600, &e), 0);
        CHECK_INT(path_write_atomic(patch, buf_str(&out), 0600, &e), 0);
        pid_t child = fork();
        if (child == 0) {
            if (chdir(dir) == 0) {
                execlp("git", "git", "apply", "--unsafe-paths", "--whitespace=nowarn", "p",
                       (char *)NULL);
            }
            _exit(127);
        }
        int status = 0;
        CHECK_INT(waitpid(child, &status, 0), child);
        CHECK_INT(status, 0);
        CHECK_INT(path_read(file, &made, &e), 0);
        CHECK(str_eq(buf_str(&made), after));
    }
    buf_fini(&out);
    buf_fini(&made);
}

TEST(git_applies_what_we_write)
{
    unsigned seed = 7;
    for (int i = 0; i < test_loops(40); i++) {
        struct buf a, b;
        buf_init(&a, SIZE_MAX);
        buf_init(&b, SIZE_MAX);
        buf_addz(&a,
                 "first\n"); // git tells an empty file from a missing one by a header of its own
        buf_addz(&b, "first\n");
        random_text(&a, &seed, i % 4 == 0 ? 300 : 20);
        random_text(&b, &seed, i % 4 == 0 ? 300 : 20);
        check_applies(buf_str(&a), buf_str(&b));
        buf_fini(&a);
        buf_fini(&b);
    }
}

TEST(texts_that_share_nothing_are_replaced_as_a_whole)
{
    struct buf a, b, out;
    buf_init(&a, SIZE_MAX);
    buf_init(&b, SIZE_MAX);
    buf_init(&out, SIZE_MAX);
    for (int i = 0; i < 3000; i++) {
        buf_addf(&a, "a%d\n", i);
        buf_addf(&b, "b%d\n", i);
    }
    linediff_write(&out, STR("f"), buf_str(&a), buf_str(&b));
    CHECK(strstr(buf_z(&out), "@@ -1,3000 +1,3000 @@\n-a0\n") != NULL);
    buf_fini(&a);
    buf_fini(&b);
    buf_fini(&out);
}
