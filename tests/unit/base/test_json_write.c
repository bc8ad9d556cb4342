#include <float.h>
#include <math.h>

#include "unit/base/json_help.h"

TEST(a_stream_of_calls_makes_a_document)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 4096);
    jw_init(&w, &out);
    jw_obj(&w);
    jw_kint(&w, "min", INT64_MIN);
    jw_kbool(&w, "yes", true);
    jw_kstr(&w, "str", STR("a\0b"));
    jw_kstrz(&w, "none", NULL);
    jw_key_str(&w, STR("list"));
    jw_arr(&w);
    jw_uint(&w, UINT64_MAX);
    jw_int(&w, 0);
    jw_bool(&w, false);
    jw_null(&w);
    jw_double(&w, 0.1);
    jw_strf(&w, "%d%%", 50);
    jw_obj(&w);
    jw_end_obj(&w);
    jw_arr(&w);
    jw_end_arr(&w);
    jw_raw(&w, STR("{\"raw\":1}"));
    jw_value(&w, parse("[1,{\"a\":[]}]"));
    jw_value(&w, NULL);
    jw_end_arr(&w);
    jw_kstrz(&w, "end", "");
    jw_end_obj(&w);
    CHECK(buf_ok(&out));
    CHECK_STR(buf_z(&out),
              "{\"min\":-9223372036854775808,\"yes\":true,\"str\":\"a\\u0000b\",\"none\":null,"
              "\"list\":[18446744073709551615,0,false,null,0.1,\"50%\",{},[],{\"raw\":1},"
              "[1,{\"a\":[]}],null],\"end\":\"\"}");
    buf_fini(&out);
}

TEST(containers_nest_256_deep)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 4096);
    jw_init(&w, &out);
    for (int i = 0; i < 128; i++) {
        jw_arr(&w);
        jw_obj(&w);
        jw_key(&w, "k");
    }
    jw_null(&w);
    for (int i = 0; i < 128; i++) {
        jw_end_obj(&w);
        jw_end_arr(&w);
    }
    struct json_opts deep = {.max_depth = 256};
    struct json *v;
    CHECK_INT(json_parse(&v, &mem, buf_str(&out), &deep, NULL), 0);
    buf_fini(&out);
}

static void check_string(struct str s, const char *expected)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 4096);
    jw_init(&w, &out);
    jw_str(&w, s);
    CHECK_STR(buf_z(&out), expected);
    buf_fini(&out);
}

TEST(only_what_must_be_escaped_is)
{
    check_string(STR("\"\\/\b\f\n\r\t"), "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
    check_string(STR("\0\x01\x1f\x7f"), "\"\\u0000\\u0001\\u001f\x7f\"");
    check_string(STR("é€😀\xe2\x80\xa8\xe2\x80\xa9"), "\"é€😀\xe2\x80\xa8\xe2\x80\xa9\"");
    check_string(STR_NULL, "\"\"");
    check_string(STR("sixteen and more plain bytes\nand again more than sixteen"),
                 "\"sixteen and more plain bytes\\nand again more than sixteen\"");
}

TEST(bad_utf8_is_written_as_the_replacement_character)
{
    check_string(STR("a\xff"), "\"a\xef\xbf\xbd\"");
    check_string(STR("\xc3"), "\"\xef\xbf\xbd\"");
    check_string(STR("\xc3\xa9\xc3x"), "\"\xc3\xa9\xef\xbf\xbdx\"");
    check_string(STR("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void check_double(double d, const char *expected)
{
    struct json v = {.type = JSON_DOUBLE, .d = d};
    check_written(&v, 0, expected);
    if (isfinite(d)) {
        struct json *again = parse(expected);
        CHECK_INT(again->type, JSON_DOUBLE);
        CHECK(again->d == d && signbit(again->d) == signbit(d));
    }
}

TEST(doubles_are_short_and_stay_doubles)
{
    check_double(0.1, "0.1");
    check_double(1, "1.0");
    check_double(-0.0, "-0.0");
    check_double(100, "100.0");
    check_double(1e15, "1e+15");
    check_double(123456789012345680.0, "1.2345678901234568e+17");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(0.1 + 0.2, "0.30000000000000004");
    check_double(1e-7, "1e-07");
    check_double(DBL_MAX, "1.7976931348623157e+308");
    check_double(0x1p63, "9.223372036854776e+18");
    check_double((double)NAN, "null");
    check_double((double)-INFINITY, "null");
}

TEST(doubles_read_back_bit_by_bit)
{
    uint64_t bits = 88172645463325252;
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        double d;
        memcpy(&d, &bits, sizeof d);
        if (!isfinite(d)) {
            continue;
        }
        struct buf out;
        struct jw w;
        buf_init(&out, 64);
        jw_init(&w, &out);
        jw_double(&w, d);
        struct json *v = parse(buf_z(&out));
        CHECK_INT(v->type, JSON_DOUBLE);
        CHECK(memcmp(&v->d, &d, sizeof d) == 0);
        buf_fini(&out);
    }
}

TEST(values_are_the_same_after_writing)
{
    struct json *v = parse("{\"a\":[1,-2,3.5,1e300,\"x\\u0000\\n\\\"\\\\é\",null,true,false],"
                           "\"\":{},\"e\":[],\"n\":[[[]],{\"k\":[{}]}]}");
    check_same_after_writing(v, 0);
    check_same_after_writing(v, 2);
    check_written(parse("[ 1 , { \"a\" : [ ] , \"b\" : { } } ]"), 0, "[1,{\"a\":[],\"b\":{}}]");
}

TEST(pretty_text_is_indented)
{
    check_written(parse("{\"a\":[1,2],\"b\":{\"c\":null},\"d\":[],\"e\":{}}"), 2,
                  "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {\n    \"c\": null\n  },\n"
                  "  \"d\": [],\n  \"e\": {}\n}");
    check_written(NULL, 2, "null");
}

TEST(a_full_buffer_shows)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 8);
    jw_init(&w, &out);
    jw_strz(&w, "longer than eight");
    CHECK(!buf_ok(&out));
    CHECK(out.n <= 8);
    buf_fini(&out);
}
