#include "trust/diff.h"
#include "unit/test.h"

/// The diff of two single files named "f".
static const char *diff(const char *before, const char *after)
{
    static char text[8192];
    struct tree a = {.is_file = true}, b = {.is_file = true};
    struct tree_file x = {"f", str_of(before), false}, y = {"f", str_of(after), false};
    struct buf out;
    buf_init(&out, SIZE_MAX);
    vec_push(&a.files, x);
    vec_push(&b.files, y);
    trust_diff(&out, "f", &a, &b);
    snprintf(text, sizeof text, "%s", buf_z(&out));
    buf_fini(&out);
    tree_fini(&a);
    tree_fini(&b);
    return text;
}

TEST(equal_files_have_no_diff)
{
    CHECK_STR(diff("a\nb\n", "a\nb\n"), "");
}

TEST(a_changed_line_stands_between_its_neighbours)
{
    CHECK_STR(diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
              "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST(changes_far_apart_make_two_hunks_and_near_ones_one)
{
    CHECK_STR(diff("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n"),
              "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n"
              "@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
    CHECK_STR(diff("a\n1\n2\nb\n", "A\n1\n2\nB\n"),
              "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n-b\n+B\n");
}

TEST(adding_to_nothing_and_taking_all)
{
    CHECK_STR(diff("", "a\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
    CHECK_STR(diff("a\n", ""), "--- f\n+++ f\n@@ -1,1 +0,0 @@\n-a\n");
    CHECK_STR(diff("a\nb\nc\n", "a\nc\n"), "--- f\n+++ f\n@@ -1,3 +1,2 @@\n a\n-b\n c\n");
}

TEST(a_lost_line_end_is_said)
{
    CHECK_STR(diff("a\n", "a"), "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n+a\n"
                                "\\ No newline at end of file\n");
}

TEST(what_would_fool_the_reader_is_spelt_out)
{
    CHECK_STR(diff("", "x\x1b[2K\r\xe2\x80\xae y\n"),
              "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+x\\x1b[2K\\x0d\\u202e y\n");
    CHECK_STR(diff("", "a\tb\n"), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\tb\n");
    CHECK(strstr(diff("", "\xff\n"), "binary") != NULL);
}

TEST(files_that_come_and_go_are_named)
{
    struct tree a = {0}, b = {0};
    struct tree_file gone = {"old.lua", STR("x\n"), false}, come = {"new.lua", STR("y\n"), false};
    struct tree_file keep = {"same", STR("z"), false}, run = {"same", STR("z"), true};
    struct buf out;
    buf_init(&out, SIZE_MAX);
    vec_push(&a.files, gone);
    vec_push(&a.files, keep);
    vec_push(&b.files, come);
    vec_push(&b.files, run);
    trust_diff(&out, "p", &a, &b);
    CHECK_STR(buf_z(&out), "--- (none)\n+++ p/new.lua\n@@ -0,0 +1,1 @@\n+y\n"
                           "--- p/old.lua\n+++ (none)\n@@ -1,1 +0,0 @@\n-x\n"
                           "--- p/same\n+++ p/same\nis now executable\n");
    buf_fini(&out);
    tree_fini(&a);
    tree_fini(&b);
}

TEST(a_middle_too_large_to_compare_is_replaced_whole)
{
    struct buf a, b;
    buf_init(&a, SIZE_MAX);
    buf_init(&b, SIZE_MAX);
    for (int i = 0; i < 3000; i++) {
        buf_addf(&a, "a%d\n", i);
        buf_addf(&b, "b%d\n", i);
    }
    CHECK(strstr(diff(buf_z(&a), buf_z(&b)), "@@ -1,3000 +1,3000 @@\n-a0\n") != NULL);
    buf_fini(&a);
    buf_fini(&b);
}
