#include "term/text.h"
#include "unit/test.h"

#define FAMILY "\U0001F469\u200D\U0001F469\u200D\U0001F467"
#define WAVE   "\U0001F44B\U0001F3FD"
#define FLAG   "\U0001F1E9\U0001F1EA"
#define ACCENT "e\u0301"
#define SUN    "\u2600\uFE0F"

TEST(a_cluster_is_what_a_reader_sees_as_one_character)
{
    static const struct {
        const char *text;
        size_t n, width;
    } rows[] = {{"ab", 1, 1},
                {ACCENT "x", sizeof ACCENT - 1, 1},
                {"\u6F22\u5B57", 3, 2},
                {FAMILY "x", sizeof FAMILY - 1, 2},
                {WAVE WAVE, sizeof WAVE - 1, 2},
                {FLAG FLAG, sizeof FLAG - 1, 2},
                {SUN "x", sizeof SUN - 1, 2},
                {"\033[1;36mx", 7, 0},
                {"\033[2J", 1, 0},
                {"\u0301x", 2, 0},
                {"\n\u0301", 1, 0},
                {"", 0, 0}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t width = 99;
        CHECK_INT(text_cluster(str_of(rows[i].text), &width), rows[i].n);
        CHECK_INT(width, rows[i].width);
    }
}

TEST(widths_add_up_and_colours_have_none)
{
    CHECK_INT(text_width(STR("abc")), 3);
    CHECK_INT(text_width(STR("\033[1mabc\033[0m")), 3);
    CHECK_INT(text_width(STR(ACCENT FLAG "\u6F22" FAMILY)), 7);
    CHECK_INT(text_width(STR("")), 0);
}

TEST(the_cluster_before_a_place_is_found)
{
    struct str s = STR("a" ACCENT FAMILY FLAG FLAG "\nz");
    size_t at = s.n, starts[8], n = 0;
    while (at > 0) {
        at = text_before(s, at);
        starts[n++] = at;
    }
    CHECK_INT(n, 7);
    CHECK_INT(starts[0], s.n - 1);
    CHECK_INT(starts[1], s.n - 2);
    CHECK_INT(starts[2], s.n - 2 - (sizeof FLAG - 1));
    CHECK_INT(starts[4], 1 + sizeof ACCENT - 1);
    CHECK_INT(starts[5], 1);
    CHECK_INT(text_before(s, 0), 0);
}

static void check_cut(const char *text, size_t cols, const char *expected)
{
    struct buf out;
    buf_init(&out, 1 << 10);
    text_add_cut(&out, str_of(text), cols);
    CHECK_STR(buf_z(&out), expected);
    buf_fini(&out);
}

TEST(a_text_that_is_too_wide_is_cut_between_clusters)
{
    check_cut("abcdef", 6, "abcdef");
    check_cut("abcdef", 5, "abcd…");
    check_cut("\u6F22\u5B57\u6F22", 4, "\u6F22…"); // half of a character is none
    check_cut("a" FAMILY "b", 3, "a…");
    check_cut("\033[1mabcdef\033[0m", 3, "\033[1mab\033[0m…");
    check_cut("abc", 0, "");
}
