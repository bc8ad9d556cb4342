#include "base/str.h"
#include "unit/test.h"

TEST(an_empty_string_without_bytes_is_like_any_empty_string)
{
    CHECK(str_eq(STR_NULL, STR("")));
    CHECK(str_eqz(STR_NULL, ""));
    CHECK(str_caseeqz(STR_NULL, ""));
    CHECK(str_starts(STR_NULL, ""));
    CHECK(str_ends(STR_NULL, ""));
    CHECK(!str_starts(STR_NULL, "a"));
    CHECK(!str_ends(STR_NULL, "a"));
    CHECK_INT(str_cmp(STR_NULL, STR("")), 0);
    CHECK_INT(str_index(STR_NULL, 'a'), -1);
    CHECK(str_eqz(str_trim(STR_NULL), ""));
    CHECK(str_eqz(str_from(STR_NULL, 3), ""));
    CHECK(str_glob(STR_NULL, STR_NULL));
    CHECK(str_eq_secret(STR_NULL, STR("")));
    char *copy = str_dup(STR_NULL);
    CHECK_STR(copy, "");
    free(copy);
}

TEST(case_is_folded_for_ascii_only)
{
    CHECK(str_caseeqz(STR("Content-TYPE"), "content-type"));
    CHECK(!str_caseeqz(STR("content"), "content-type"));
    CHECK(!str_caseeqz(STR("content-type"), "content"));
    CHECK(!str_caseeqz(STR("[@"), "{`"));
    CHECK(!str_caseeqz(STR("\xC4"), "\xE4"));
    CHECK(!str_caseeqz(STR("a\0b"), "a"));
}

TEST(comparing_puts_prefixes_first)
{
    CHECK(str_cmp(STR("a"), STR("ab")) < 0);
    CHECK(str_cmp(STR("b"), STR("ab")) > 0);
    CHECK(str_cmp(STR("\xFF"), STR("a")) > 0);
    CHECK(str_starts(STR("abc"), "ab") && !str_starts(STR("abc"), "bc"));
    CHECK(str_ends(STR("abc"), "bc") && !str_ends(STR("abc"), "ab"));
    CHECK(!str_ends(STR("c"), "bc"));
}

TEST(cutting_tells_an_empty_rest_from_none)
{
    struct str rest = STR("a=b=");
    CHECK_SPAN(str_cut(&rest, '='), "a");
    CHECK_SPAN(str_cut(&rest, '='), "b");
    CHECK(rest.p != NULL && rest.n == 0);
    CHECK_SPAN(str_cut(&rest, '='), "");
    CHECK(rest.p == NULL);
}

TEST(trimming_takes_both_ends)
{
    CHECK(str_eqz(str_trim(STR(" \t\r\na b\n ")), "a b"));
    CHECK(str_eqz(str_trim(STR(" \n ")), ""));
    CHECK(str_eqz(str_from(STR("abc"), 1), "bc"));
    CHECK(str_eqz(str_from(STR("abc"), 9), ""));
}

TEST(numbers_are_whole_or_refused)
{
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } rows[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"007", true, 7},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1x", false, 0},
        {"--1", false, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t v = -7;
        bool good = str_to_i64(str_of(rows[i].text), &v);
        if (good != rows[i].good || v != (good ? rows[i].value : -7)) {
            test_fail(__FILE__, __LINE__, "'%s' gave %d and %lld", rows[i].text, good,
                      (long long)v);
        }
    }
    uint64_t u;
    CHECK(str_to_u64(STR("18446744073709551615"), &u) && u == UINT64_MAX);
    CHECK(!str_to_u64(STR("18446744073709551616"), &u));
    CHECK(!str_to_u64(STR("-1"), &u));
}

TEST(a_star_matches_any_run)
{
    CHECK(str_glob(STR("*"), STR("")));
    CHECK(str_glob(STR("a*c"), STR("abbc")));
    CHECK(str_glob(STR("a*c"), STR("ac")));
    CHECK(str_glob(STR("*ab"), STR("aab")));
    CHECK(str_glob(STR("a**b*"), STR("axbxb")));
    CHECK(str_glob(STR("*.lua"), STR("x.lua")));
    CHECK(!str_glob(STR("a*c"), STR("acb")));
    CHECK(!str_glob(STR("a"), STR("ab")));
    CHECK(!str_glob(STR("ab"), STR("a")));
    CHECK(!str_glob(STR(""), STR("a")));
}

TEST(many_stars_do_not_take_forever)
{
    static char text[20000], pattern[2001];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < 2000; i++) {
        pattern[i] = i % 2 != 0 ? '*' : 'a';
    }
    pattern[2000] = 'b';
    CHECK(!str_glob((struct str){pattern, sizeof pattern}, (struct str){text, sizeof text}));
}

TEST(the_nearest_word_is_a_likely_slip)
{
    static const char *const words[] = {"session", "bot", "plugin", "x"};
    CHECK_STR(str_nearest(STR("sesion"), words, 4), "session");
    CHECK_STR(str_nearest(STR("seession"), words, 4), "session");
    CHECK_STR(str_nearest(STR("pulgin"), words, 4), "plugin");
    CHECK_STR(str_nearest(STR("bto"), words, 4), "bot");
    CHECK_STR(str_nearest(STR("x"), words, 4), "x");
    CHECK(str_nearest(STR("daemon"), words, 4) == NULL);
    CHECK(str_nearest(STR("cat"), words, 4) == NULL);
}

TEST(one_letter_is_never_a_slip_for_another)
{
    static const char *const words[] = {"x", "ab"};
    CHECK(str_nearest(STR("y"), words, 2) == NULL);
    CHECK(str_nearest(STR("a"), words, 2) == NULL);
    CHECK(str_nearest(STR(""), words, 2) == NULL);
}

TEST(an_endless_word_is_near_to_nothing)
{
    static const char *const words[] = {"a"};
    static char text[100000];
    memset(text, 'a', sizeof text);
    CHECK(str_nearest((struct str){text, sizeof text}, words, 1) == NULL);
}

TEST(secrets_are_equal_only_when_all_of_them_is)
{
    CHECK(str_eq_secret(STR("abc"), STR("abc")));
    CHECK(!str_eq_secret(STR("abc"), STR("abd")));
    CHECK(!str_eq_secret(STR("abc"), STR("ab")));
    CHECK(!str_eq_secret(STR("ab"), STR("abc")));
    CHECK(!str_eq_secret(STR("abab"), STR("ab")));
    CHECK(!str_eq_secret(STR(""), STR("a")));
    CHECK(!str_eq_secret(STR("\0"), STR("")));
}

TEST(a_word_is_found_in_a_list_and_a_list_is_sorted)
{
    const char *words[] = {"pear", "apple", "fig"};
    CHECK_INT(str_lookup(STR("fig"), words, 3), 2);
    CHECK_INT(str_lookup(STR("fi"), words, 3), -1);
    CHECK_INT(str_lookup(STR("fig"), NULL, 0), -1);
    str_sort(words, 3);
    CHECK_STR(words[0], "apple");
    CHECK_STR(words[1], "fig");
    CHECK_STR(words[2], "pear");
    str_sort(NULL, 0);
}

TEST(a_variable_is_found_by_its_whole_name)
{
    static const char *const env[] = {"PATHS=a", "PATH=b=c", "EMPTY=", "PATH=second", NULL};
    CHECK_STR(str_env(env, "PATH"), "b=c");
    CHECK_STR(str_env(env, "EMPTY"), "");
    CHECK(str_env(env, "PAT") == NULL && str_env(NULL, "PATH") == NULL);
    CHECK_INT(str_count(env), 4);
    CHECK_INT(str_count(NULL), 0);
}
