#include "base/linediff.h"
#include "term/diff.h"
#include "term/text.h"
#include "unit/test.h"

static void check_diff(const char *diff, struct diff_look look, const char *expected)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    diff_render(&out, str_of(diff), &look);
    CHECK_STR(buf_z(&out), expected);
    buf_fini(&out);
}

static const char one[] = "--- a/f\n+++ b/f\n@@ -7,3 +7,4 @@\n int a;\n-int old_name = 1;\n"
                          "+int new_name = 1;\n+int b;\n }\n";

TEST(a_narrow_window_has_one_column)
{
    check_diff(one, (struct diff_look){.cols = 80, .rows = 99},
               "  --- a/f\n  +++ b/f\n  @@ -7,3 +7,4 @@\n   int a;\n  -int old_name = 1;\n"
               "  +int new_name = 1;\n  +int b;\n   }\n");
    check_diff(one, (struct diff_look){.cols = 14, .rows = 99},
               "  --- a/f\n  +++ b/f\n  @@ -7,3 +7,…\n   int a;\n  -int old_nam\n  e = 1;\n"
               "  +int new_nam\n  e = 1;\n  +int b;\n   }\n");
}

TEST(a_long_line_continues_in_its_colour)
{
    check_diff("@@ -0,0 +1 @@\n+echo ok; rm -rf /\n",
               (struct diff_look){.cols = 12, .rows = 99, .color = COLOR_16},
               "  \033[2m@@ -0,0 +…\033[0m\n  \033[32m+echo ok; \033[0m\n"
               "  \033[32mrm -rf /\033[0m\n");
    check_diff("@@ -0,0 +1 @@\n+echo ok; rm -rf /\n", (struct diff_look){.cols = 12, .rows = 2},
               "  @@ -0,0 +…\n  +echo ok; \n  … 1 more line\n");
}

TEST(a_hunk_has_one_column_where_two_would_waste_or_hide)
{
    struct diff_look look = {.cols = 120, .rows = 99};
    check_diff("@@ -0,0 +1,2 @@\n+int a;\n+int b;\n", look,
               "  @@ -0,0 +1,2 @@\n  +int a;\n  +int b;\n");
    check_diff("@@ -1 +1 @@\n-a\n+a line of more than fifty columns does not fit into one half\n",
               look,
               "  @@ -1 +1 @@\n  -a\n"
               "  +a line of more than fifty columns does not fit into one half\n");
}

TEST(changed_words_are_marked)
{
    check_diff("@@ -1 +1 @@\n-int old = 1;\n+int new = 1;\n",
               (struct diff_look){.cols = 80, .rows = 99, .color = COLOR_16},
               "  \033[2m@@ -1 +1 @@\033[0m\n"
               "  \033[31m-int \033[31;7mold\033[0m\033[31m = 1;\033[0m\n"
               "  \033[32m+int \033[32;7mnew\033[0m\033[32m = 1;\033[0m\n");
    // lines that have little in common are not taken apart
    check_diff("@@ -1 +1 @@\n-alpha beta\n+1 2 3 4 5 6 7\n",
               (struct diff_look){.cols = 80, .rows = 99, .color = COLOR_16},
               "  \033[2m@@ -1 +1 @@\033[0m\n  \033[31m-alpha beta\033[0m\n"
               "  \033[32m+1 2 3 4 5 6 7\033[0m\n");
}

TEST(a_wide_window_shows_old_and_new_side_by_side)
{
    struct diff_look look = {.cols = 120, .rows = 99};
    struct buf out;
    buf_init(&out, 1 << 16);
    diff_render(&out, str_of(one), &look);
    struct str rest = buf_str(&out), rows[8] = {{0}};
    for (size_t i = 0; i < ARRAY_LEN(rows) && rest.n != 0; i++) {
        rows[i] = str_cut(&rest, '\n');
    }
    CHECK_SPAN(rows[3],
               "      7  int a;                                             │     7  int a;");
    CHECK_SPAN(
        rows[4],
        "      8 -int old_name = 1;                                  │     8 +int new_name = 1;");
    CHECK_SPAN(rows[5],
               "                                                            │     9 +int b;");
    CHECK_SPAN(rows[6], "      9  }                                                  │    10  }");
    buf_fini(&out);
}

TEST(a_line_number_that_does_not_fit_is_left_out)
{
    struct diff_look look = {.cols = 140, .rows = 99};
    struct buf out;
    buf_init(&out, 1 << 16);
    diff_render(&out, STR("--- a/f\n+++ b/f\n@@ -99999,2 +6666666666667,2 @@\n one\n two\n"),
                &look);
    CHECK(strstr(buf_z(&out), "  99999  one") != NULL && strstr(buf_z(&out), "100000") == NULL);
    CHECK(strstr(buf_z(&out), "66666667 ") == NULL);
    for (struct str rest = buf_str(&out); rest.n != 0;) {
        CHECK(text_width(str_cut(&rest, '\n')) <= look.cols);
    }
    buf_fini(&out);
}

TEST(too_many_rows_are_counted)
{
    check_diff(one, (struct diff_look){.cols = 80, .rows = 4},
               "  --- a/f\n  +++ b/f\n  @@ -7,3 +7,4 @@\n   int a;\n  … 4 more lines\n");
    check_diff("", (struct diff_look){.cols = 80, .rows = 4}, "");
}

TEST(a_file_cannot_command_the_terminal)
{
    check_diff("--- a/\x1b[2J\n+++ b/f\n@@ -1 +1 @@\n-a\x1b[31m\tb\n+\xe2\x80\xae\x07\n",
               (struct diff_look){.cols = 80, .rows = 99},
               "  --- a/\\x1b[2J\n  +++ b/f\n  @@ -1 +1 @@\n  -a\\x1b[31m    b\n  +\\u202e\\x07\n");
}

TEST(lines_that_look_like_headers_are_lines_below_a_hunk)
{
    check_diff("--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n--- x\n-\n\\ No newline at end of file\n+++ y\n",
               (struct diff_look){.cols = 80, .rows = 99},
               "  --- a/f\n  +++ b/f\n  @@ -1,2 +1 @@\n  --- x\n  -\n  +++ y\n");
}

TEST(nothing_of_a_line_with_control_characters_is_cut)
{
    struct diff_look look = {.cols = 120, .rows = 99};
    struct buf diff = {.max = SIZE_MAX}, out = {.max = SIZE_MAX};
    buf_addz(&diff, "@@ -1 +1 @@\n-a\n+");
    for (int i = 0; i < 6; i++) {
        buf_addz(&diff, "\x1b[31m\xe2\x80\x8b"); // no columns as they are, 14 as they are shown
    }
    buf_addz(&diff, "; rm -rf x\n");
    diff_render(&out, buf_str(&diff), &look);
    CHECK(strstr(buf_z(&out), "rm -rf x\n") != NULL && strstr(buf_z(&out), "…") == NULL);
    buf_fini(&diff);
    buf_fini(&out);
}
