#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>

#include "unit/base/json_help.h"

static void check_refused(const char *text, size_t n, const char *message)
{
    struct json *v = (struct json *)&mem;
    struct err e = {0};
    char *exact = xmalloc(n); // so that ASan sees a read behind the end
    memcpy(exact, text, n);
    CHECK_INT(json_parse(&v, &mem, (struct str){exact, n}, NULL, &e), ERR_PARSE);
    CHECK(v == NULL);
    CHECK_STR(e.msg, message);
    free(exact);
}

#define REFUSED(text, message) check_refused(text, sizeof(text) - 1, message)

// ---- values -------------------------------------------------------------------------------

TEST(every_kind_of_value_is_read)
{
    CHECK_INT(parse("null")->type, JSON_NULL);
    CHECK_INT(parse("true")->b, true);
    CHECK_INT(parse(" false\n")->type, JSON_BOOL);
    CHECK_INT(parse("\t-17 ")->i, -17);
    CHECK(parse("2.5")->d == 2.5);
    CHECK_SPAN(parse("\"hi\"")->s, "hi");
    CHECK_INT(parse("[]")->n, 0);
    CHECK_INT(parse("{ }")->n, 0);
    struct json *v = parse("[1, {\"a\": [true, null], \"b\": \"x\"}, []]");
    CHECK_INT(v->n, 3);
    CHECK_INT(v->items[1].type, JSON_OBJ);
    CHECK_INT(v->items[1].n, 2);
    CHECK_SPAN(v->items[1].members[1].key, "b");
    CHECK_INT(v->items[1].members[0].value.items[1].type, JSON_NULL);
    CHECK_INT(v->items[2].type, JSON_ARR);
}

TEST(plain_strings_point_into_the_text)
{
    const char *text = "[\"a string that is longer than sixteen bytes\"]";
    CHECK(parse(text)->items[0].s.p == text + 2);
}

TEST(escapes_are_decoded)
{
    CHECK_SPAN(parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")->s, "\"\\/\b\f\n\r\t");
    CHECK_SPAN(parse("\"\\u0041\\u00e9\\u20AC\"")->s, "A\xc3\xa9\xe2\x82\xac");
    CHECK_SPAN(parse("\"\\ud834\\udd1e!\"")->s, "\xf0\x9d\x84\x9e!");
    CHECK_SPAN(parse("\"sixteen and more plain bytes, then \\n one, then sixteen more\"")->s,
               "sixteen and more plain bytes, then \n one, then sixteen more");
    struct str nul = parse("\"a\\u0000b\"")->s;
    CHECK_INT(nul.n, 3);
    CHECK(memcmp(nul.p, "a\0b", 3) == 0);
    CHECK_SPAN(parse("{\"\\u006b\":1}")->members[0].key, "k");
}

TEST(text_above_ascii_is_kept_as_it_is)
{
    CHECK_SPAN(parse("\"Grüße, 你好, 😀, \xef\xbf\xbd\"")->s, "Grüße, 你好, 😀, \xef\xbf\xbd");
}

TEST(a_special_byte_is_found_at_every_place_of_a_block)
{
    for (size_t n = 0; n < 70; n++) {
        char text[120], plain[100];
        memset(plain, 'x', sizeof plain);
        plain[n] = '\0';
        snprintf(text, sizeof text, "\"%s\"", plain);
        CHECK_SPAN(parse(text)->s, plain);
        snprintf(text, sizeof text, "\"%s\\n\"", plain);
        plain[n] = '\n';
        plain[n + 1] = '\0';
        CHECK_SPAN(parse(text)->s, plain);
        snprintf(text, sizeof text, "\"%.*s\x1f\"", (int)n, plain);
        struct json *v;
        CHECK_INT(json_parse(&v, &mem, str_of(text), NULL, NULL), ERR_PARSE);
    }
}

// ---- numbers ------------------------------------------------------------------------------

TEST(integers_are_exact_up_to_the_edges_of_int64)
{
    CHECK_INT(parse("9223372036854775807")->i, INT64_MAX);
    CHECK_INT(parse("-9223372036854775808")->i, INT64_MIN);
    CHECK_INT(parse("9007199254740993")->i, 9007199254740993);
    CHECK_INT(parse("0")->i, 0);
    CHECK_INT(parse("-0")->type, JSON_INT);
}

TEST(integers_beyond_int64_become_doubles)
{
    CHECK_INT(parse("9223372036854775808")->type, JSON_DOUBLE);
    CHECK(parse("9223372036854775808")->d == 0x1p63);
    CHECK(parse("-9223372036854775809")->d == -0x1p63);
    CHECK(parse("100000000000000000000")->d == 1e20);
    CHECK(parse("-123456789012345678901234567890")->d == -123456789012345678901234567890.0);
}

TEST(a_fraction_or_an_exponent_makes_a_double)
{
    CHECK_INT(parse("1.0")->type, JSON_DOUBLE);
    CHECK_INT(parse("1e2")->type, JSON_DOUBLE);
    CHECK(parse("1e2")->d == 100);
    CHECK(parse("-0.0")->d == 0 && signbit(parse("-0.0")->d) != 0);
    CHECK(parse("12.5E-1")->d == 1.25);
    CHECK(parse("12.5e+1")->d == 125);
}

TEST(too_large_numbers_are_refused_and_too_small_ones_are_zero)
{
    REFUSED("[1e309]", "line 1, column 2: number is too large");
    REFUSED("-1e400", "line 1, column 1: number is too large");
    REFUSED("1e99999999999999999999", "line 1, column 1: number is too large");
    CHECK(parse("1e308")->d == 1e308);
    CHECK(parse("1.7976931348623157e308")->d == DBL_MAX);
    CHECK(parse("1e-400")->d == 0);
    CHECK(parse("123e-99999999999999999999")->d == 0);
    CHECK(parse("0e999999999999")->d == 0);
    CHECK(parse("0.0e400")->d == 0);
    CHECK(parse("4.9406564584124654e-324")->d == 0x1p-1074);
}

TEST(an_exponent_can_undo_many_zeros)
{
    char text[3000];
    memset(text, '0', sizeof text);
    text[1] = '.';
    snprintf(text + 2500, 500, "25e2500");
    CHECK(parse(text)->d == 25);
    memset(text + 1, '0', 2000);
    text[0] = '3';
    snprintf(text + 2001, 500, "e-2000");
    CHECK(parse(text)->d == 3);
}

TEST(half_way_cases_look_at_digits_far_behind)
{
    // 1 + 2^-53 lies exactly between 1 and the next double: to even, unless anything follows
    char text[2000] = "1.00000000000000011102230246251565404236316680908203125";
    CHECK(parse(text)->d == 1);
    size_t n = strlen(text);
    memset(text + n, '0', 1500);
    CHECK(parse(text)->d == 1);
    text[n + 1499] = '1';
    CHECK(parse(text)->d == 1 + DBL_EPSILON);
}

TEST(doubles_are_rounded_as_strtod_does)
{
    static const char *const hard[] = {
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "9007199254740993.0",
        "9007199254740992.9999999",
        "1e23",
        "8.5e22",
        "0.1",
        "123456789012345.678",
        "6.02214076e23",
        "1.7976931348623158e308",
        "179769313486231580793e288",
        "5e-324",
        "2.5e-324",
        "1.5e-5",
        "9999999999999999999.9",
        "0.000001234e-300",
    };
    for (size_t i = 0; i < ARRAY_LEN(hard); i++) {
        CHECK(parse(hard[i])->d == strtod(hard[i], NULL));
    }
    uint64_t seed = 20240607;
    for (int i = 0; i < 20000; i++) {
        char text[64];
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        snprintf(text, sizeof text, "%" PRIu64 ".%u%se%d", seed >> (seed % 60),
                 (unsigned)(seed % 997), i % 2 == 0 ? "" : "00031415926",
                 (int)(seed >> 33) % 600 - 320);
        CHECK(parse(text)->d == strtod(text, NULL));
    }
}

/// Switch to a locale with a decimal comma, one of the system's or made for this test.
static bool use_decimal_comma(void)
{
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        char command[600];
        snprintf(command, sizeof command,
                 "localedef --no-archive -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>&1", test_dir());
        FILE *made = popen(command, "r");
        if (made == NULL || pclose(made) != 0) {
            return false;
        }
        setenv("LOCPATH", test_dir(), 1);
        setlocale(LC_NUMERIC, "de_DE.UTF-8");
    }
    return strcmp(localeconv()->decimal_point, ",") == 0;
}

TEST(numbers_do_not_depend_on_the_locale)
{
    if (!use_decimal_comma()) {
        test_skip("no locale with a decimal comma here, and localedef cannot make one");
    }
    CHECK(parse("1.5")->d == 1.5);
    CHECK(parse("1.00000000000000011102230246251565404236316680908203126")->d == 1 + DBL_EPSILON);
    check_written(parse("[1.5,0.1,1e300]"), 0, "[1.5,0.1,1e+300]");
}

// ---- refusals -----------------------------------------------------------------------------

TEST(errors_say_where_and_what)
{
    REFUSED("{\n \"a\": 1,\n \"b\": 2 \"c\"", "line 3, column 9: expected ',' or '}'");
    REFUSED("[1 2]", "line 1, column 4: expected ',' or ']'");
    REFUSED("[1,]", "line 1, column 4: expected a value");
    REFUSED("[1", "line 1, column 3: expected ',' or ']' but the text ends");
    REFUSED("{\"a\":1,}", "line 1, column 8: expected a key in quotes");
    REFUSED("{a:1}", "line 1, column 2: expected a key in quotes");
    REFUSED("{\"a\" 1}", "line 1, column 6: expected ':'");
    REFUSED("", "line 1, column 1: expected a value but the text ends");
    REFUSED("\n\n  ", "line 3, column 3: expected a value but the text ends");
    REFUSED("1 1", "line 1, column 3: expected the end of the text");
    REFUSED("tru", "line 1, column 1: expected a value");
    REFUSED("nulL", "line 1, column 1: expected a value");
    REFUSED("[\"äöü\" x]", "line 1, column 8: expected ',' or ']'");
    REFUSED("\xef\xbb\xbf{}", "line 1, column 1: expected a value");
    REFUSED("\0", "line 1, column 1: expected a value");
    REFUSED("[1\0]", "line 1, column 3: expected ',' or ']'");
}

TEST(bad_strings_are_refused)
{
    REFUSED("\"abc", "line 1, column 1: string is not closed");
    REFUSED("\"abc\\", "line 1, column 1: string is not closed");
    REFUSED("\"abc\\\"", "line 1, column 1: string is not closed");
    REFUSED("\"a\nb\"", "line 1, column 3: control character in a string");
    REFUSED("\"a\0b\"", "line 1, column 3: control character in a string");
    REFUSED("\"\\x41\"", "line 1, column 2: invalid escape");
    REFUSED("\"\\\0\"", "line 1, column 2: invalid escape");
    REFUSED("\"\\u12g4\"", "line 1, column 2: invalid escape");
    REFUSED("\"\\u123\"", "line 1, column 2: invalid escape");
    REFUSED("'a'", "line 1, column 1: expected a value");
}

TEST(lone_surrogates_are_refused)
{
    REFUSED("\"\\ud800\"", "line 1, column 2: lone surrogate");
    REFUSED("\"\\udc00\"", "line 1, column 2: lone surrogate");
    REFUSED("\"\\ud800x\"", "line 1, column 2: lone surrogate");
    REFUSED("\"\\ud800\\n\"", "line 1, column 2: lone surrogate");
    REFUSED("\"\\ud800\\u0041\"", "line 1, column 2: lone surrogate");
    REFUSED("\"\\ud800\\ud800\"", "line 1, column 2: lone surrogate");
    REFUSED("\"\\ud800\\udc0\"", "line 1, column 2: lone surrogate");
}

TEST(invalid_utf8_is_refused)
{
    REFUSED("\"\xff\"", "line 1, column 2: invalid UTF-8");
    REFUSED("\"\xc0\xaf\"", "line 1, column 2: invalid UTF-8");
    REFUSED("\"\xed\xa0\x80\"", "line 1, column 2: invalid UTF-8");
    REFUSED("\"\xf4\x90\x80\x80\"", "line 1, column 2: invalid UTF-8");
    REFUSED("\"a\xc3\xa9\xe2\x82\"", "line 1, column 4: invalid UTF-8");
    REFUSED("{\"\x80\":1}", "line 1, column 3: invalid UTF-8");
}

TEST(bad_numbers_are_refused)
{
    static const char *const bad[] = {"-",    "01",   "-01", "00",  "1.",       ".5",
                                      "1.e1", "1e",   "1e+", "1E-", "+1",       "1.5.",
                                      "--1",  "0x10", "1_0", "NaN", "-Infinity"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct json *v;
        struct err e;
        if (json_parse(&v, &mem, str_of(bad[i]), NULL, &e) != ERR_PARSE) {
            test_fail(__FILE__, __LINE__, "'%s' was accepted", bad[i]);
        }
    }
    REFUSED("[01]", "line 1, column 2: invalid number");
}

TEST(no_beginning_of_a_text_is_accepted_or_read_past)
{
    static const char text[] = "{\"k\\n\":[1,-2.5e-3,\"\\ud83d\\ude00 und ein längerer Text\",true,"
                               "null,{}],\"sixteen bytes and some more\":false}";
    parse(text);
    for (size_t n = 0; n < sizeof text - 1; n++) {
        struct json *v;
        char *exact = xmalloc(n);
        memcpy(exact, text, n);
        CHECK_INT(json_parse(&v, &mem, (struct str){exact, n}, NULL, NULL), ERR_PARSE);
        free(exact);
    }
}

TEST(depth_is_limited)
{
    struct json_opts two = {.max_depth = 2};
    struct json *v;
    struct err e;
    CHECK_INT(json_parse(&v, &mem, STR("[[1],{}]"), &two, &e), 0);
    CHECK_INT(json_parse(&v, &mem, STR("[[1],{\"a\":[]}]"), &two, &e), ERR_PARSE);
    CHECK_STR(e.msg, "line 1, column 11: nested deeper than 2 levels");

    char text[2 * JSON_DEPTH + 3];
    memset(text, '[', JSON_DEPTH);
    memset(text + JSON_DEPTH, ']', JSON_DEPTH);
    CHECK_INT(json_parse(&v, &mem, (struct str){text, 2 * JSON_DEPTH}, NULL, &e), 0);
    memset(text, '[', JSON_DEPTH + 1);
    memset(text + JSON_DEPTH + 1, ']', JSON_DEPTH + 1);
    CHECK_INT(json_parse(&v, &mem, (struct str){text, 2 * JSON_DEPTH + 2}, NULL, &e), ERR_PARSE);
    CHECK_STR(e.msg, "line 1, column 129: nested deeper than 128 levels");
}

TEST(the_deepest_allowed_text_is_read_compared_and_written)
{
    enum { D = JSON_DEPTH_MAX };
    struct json_opts deep = {.max_depth = D};
    struct json *v, *again;
    struct buf text, out;
    buf_init(&text, 1 << 16);
    buf_init(&out, 1 << 16);
    for (int i = 0; i < D; i++) {
        buf_addz(&text, "{\"k\":");
    }
    buf_addc(&text, '0');
    for (int i = 0; i < D; i++) {
        buf_addc(&text, '}');
    }
    CHECK_INT(json_parse(&v, &mem, buf_str(&text), &deep, NULL), 0);
    CHECK_INT(json_parse(&again, &mem, buf_str(&text), &deep, NULL), 0);
    CHECK(json_equal(v, again));
    struct jw w;
    jw_init(&w, &out);
    jw_value(&w, v);
    CHECK_STR(buf_z(&out), buf_z(&text));
    buf_fini(&text);
    buf_fini(&out);
}

TEST(a_million_open_brackets_are_refused_at_once)
{
    size_t n = 1000000;
    char *text = xmalloc(n);
    memset(text, '[', n);
    struct json *v;
    CHECK_INT(json_parse(&v, &mem, (struct str){text, n}, NULL, NULL), ERR_PARSE);
    CHECK(mem.used < 4096);
    free(text);
}

// ---- repeated keys ------------------------------------------------------------------------

TEST(a_repeated_key_is_refused_where_it_stands)
{
    REFUSED("{\"a\":1,\n \"b\":2,\n \"a\":3}", "line 3, column 2: duplicate key");
    REFUSED("{\"a\":1, \"\\u0061\":3}", "line 1, column 9: duplicate key");
    REFUSED("[{\"\":{}, \"\":0}]", "line 1, column 10: duplicate key");
    parse("{\"a\":{\"a\":1},\"A\":[{\"a\":1},{\"a\":1}]}");
}

TEST(the_last_of_repeated_keys_wins_at_the_first_place)
{
    const char *text = "{\"a\":1,\"b\":2,\"a\":3,\"c\":{\"x\":0,\"x\":1},\"a\":[]}";
    check_written(parse_with(text, strlen(text), JSON_DUP_LAST), 0,
                  "{\"a\":[],\"b\":2,\"c\":{\"x\":1}}");
}

static char *object_of(size_t n, size_t distinct, size_t *length)
{
    struct buf b;
    buf_init(&b, 1 << 26);
    for (size_t i = 0; i < n; i++) {
        buf_addf(&b, "%c\"key %zu\":%zu", i == 0 ? '{' : ',', i % distinct, i);
    }
    buf_addc(&b, '}');
    return buf_take(&b, length);
}

TEST(repeated_keys_are_found_in_objects_of_every_size)
{
    for (size_t n = 2; n < 150; n++) {
        size_t length;
        char *text = object_of(n, n - 1, &length);
        struct json *v;
        struct err e;
        CHECK_INT(json_parse(&v, &mem, (struct str){text, length}, NULL, &e), ERR_PARSE);
        CHECK(strstr(e.msg, "duplicate key") != NULL);
        v = parse_with(text, length, JSON_DUP_LAST);
        CHECK_INT(v->n, n - 1);
        CHECK_INT(v->members[0].value.i, n - 1);
        CHECK_SPAN(v->members[0].key, "key 0");
        free(text);
        text = object_of(n, n, &length);
        CHECK_INT(parse_with(text, length, JSON_DUP_REJECT)->n, n);
        free(text);
    }
}

TEST(a_huge_object_costs_a_few_looks_a_key)
{
    enum { N = 200000 };
    size_t length, dup;
    char *text = object_of(N, N, &length);
    struct json *v = parse_with(text, length, JSON_DUP_REJECT);
    CHECK_INT(v->n, N);
    struct json__keys keys = {0};
    CHECK_INT(json__keys_fold(&keys, v->members, N, &dup), N);
    CHECK_INT(dup, N);
    CHECK(keys.visits < 2 * N);
    json__keys_fini(&keys);
    free(text);
}

TEST(a_huge_object_of_one_key_is_folded)
{
    enum { N = 200000 };
    size_t length;
    char *text = object_of(N, 1, &length);
    struct json *v = parse_with(text, length, JSON_DUP_LAST);
    CHECK_INT(v->n, 1);
    CHECK_INT(v->members[0].value.i, N - 1);
    free(text);
}
