#include "unit/base/json_help.h"

TEST(getters_answer_absent_to_null_and_to_the_wrong_type)
{
    const struct json *wrong[] = {NULL,        parse("null"), parse("7"),   parse("\"s\""),
                                  parse("[]"), parse("{}"),   parse("2.5"), parse("true")};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        CHECK(json_get(wrong[i], "a") == NULL);
        CHECK(json_at(wrong[i], 0) == NULL);
        CHECK(json_ptr(wrong[i], "/a") == NULL);
        CHECK(json_ptr(wrong[i], "/0") == NULL);
        json_foreach_item (it, wrong[i]) {
            test_fail(__FILE__, __LINE__, "an item in %zu", i);
        }
        json_foreach_member (it, wrong[i]) {
            test_fail(__FILE__, __LINE__, "a member in %zu", i);
        }
    }
    CHECK_SPAN(json_str(wrong[2], "fallback"), "fallback");
    CHECK(json_str(NULL, NULL).p == NULL);
    CHECK_INT(json_int(wrong[3], 5), 5);
    CHECK_INT(json_int(wrong[6], 5), 5);
    CHECK(json_double(wrong[7], 0.5) == 0.5);
    CHECK_INT(json_bool(wrong[2], true), true);
    json_foreach_item (it, parse("{\"a\":1}")) {
        test_fail(__FILE__, __LINE__, "an object has no items");
    }
    json_foreach_member (it, parse("[1]")) {
        test_fail(__FILE__, __LINE__, "an array has no members");
    }
}

TEST(getters_find_what_is_there)
{
    struct json *v = parse("{\"s\":\"x\",\"i\":3,\"d\":4.0,\"b\":true,\"l\":[10,20]}");
    CHECK_SPAN(json_str(json_get(v, "s"), NULL), "x");
    CHECK_SPAN(json_get_text(v, "s"), "x");
    CHECK_SPAN(json_get_text(v, "i"), "");
    CHECK_SPAN(json_get_text(NULL, "s"), "");
    CHECK_INT(json_int(json_get_str(v, STR("i")), 0), 3);
    CHECK_INT(json_int(json_get(v, "d"), 0), 4);
    CHECK(json_double(json_get(v, "i"), 0) == 3);
    CHECK(json_double(json_get(v, "d"), 0) == 4);
    CHECK_INT(json_bool(json_get(v, "b"), false), true);
    CHECK_INT(json_int(json_at(json_get(v, "l"), 1), 0), 20);
    CHECK(json_at(json_get(v, "l"), 2) == NULL);
    int64_t sum = 0;
    json_foreach_item (it, json_get(v, "l")) {
        sum += it->i;
    }
    CHECK_INT(sum, 30);
    size_t members = 0;
    json_foreach_member (it, v) {
        members += it->key.n;
    }
    CHECK_INT(members, 5);
}

TEST(a_double_counts_as_an_integer_only_where_it_is_one)
{
    CHECK_INT(json_int(parse("-9223372036854775808.0"), 1), INT64_MIN);
    CHECK_INT(json_int(parse("9223372036854775808.0"), 1), 1);
    CHECK_INT(json_int(parse("-1e300"), 1), 1);
    CHECK_INT(json_int(parse("0.5"), 1), 1);
    CHECK_INT(json_int(parse("1e3"), 1), 1000);
}

TEST(pointers_follow_rfc_6901)
{
    struct json *v = parse("{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\"e^f\":3,"
                           "\"g|h\":4,\"i\\\\j\":5,\"k\\\"l\":6,\" \":7,\"m~n\":8,\"~1\":9,"
                           "\"o\":{\"\":{\"p\":10}}}");
    CHECK(json_ptr(v, "") == v);
    CHECK_INT(json_ptr(v, "/foo")->n, 2);
    CHECK_SPAN(json_ptr(v, "/foo/0")->s, "bar");
    CHECK_INT(json_ptr(v, "/")->i, 0);
    CHECK_INT(json_ptr(v, "/a~1b")->i, 1);
    CHECK_INT(json_ptr(v, "/c%d")->i, 2);
    CHECK_INT(json_ptr(v, "/i\\j")->i, 5);
    CHECK_INT(json_ptr(v, "/k\"l")->i, 6);
    CHECK_INT(json_ptr(v, "/ ")->i, 7);
    CHECK_INT(json_ptr(v, "/m~0n")->i, 8);
    CHECK_INT(json_ptr(v, "/~01")->i, 9);
    CHECK_INT(json_ptr(v, "/o//p")->i, 10);
}

TEST(pointers_that_lead_nowhere_find_nothing)
{
    static const char *const nowhere[] = {"/x",
                                          "l",
                                          "/l/2",
                                          "/l/-",
                                          "/l/01",
                                          "/l/+1",
                                          "/l/1 ",
                                          "/l/",
                                          "/m~n",
                                          "/m~2n",
                                          "/m~",
                                          "/l/0/x",
                                          "/l/18446744073709551616"};
    struct json *v = parse("{\"l\":[1,2],\"m~n\":8,\"m\":1}");
    CHECK_INT(json_ptr(v, "/l/1")->i, 2);
    for (size_t i = 0; i < ARRAY_LEN(nowhere); i++) {
        if (json_ptr(v, nowhere[i]) != NULL) {
            test_fail(__FILE__, __LINE__, "'%s' found something", nowhere[i]);
        }
    }
}

TEST(types_have_names)
{
    CHECK_STR(json_type_name(NULL), "absent");
    CHECK_STR(json_type_name(parse("null")), "null");
    CHECK_STR(json_type_name(parse("false")), "boolean");
    CHECK_STR(json_type_name(parse("1")), "integer");
    CHECK_STR(json_type_name(parse("1.0")), "number");
    CHECK_STR(json_type_name(parse("\"\"")), "string");
    CHECK_STR(json_type_name(parse("[]")), "array");
    CHECK_STR(json_type_name(parse("{}")), "object");
}

TEST(equality_is_of_values_not_of_texts)
{
    static const struct {
        const char *a, *b;
        bool equal;
    } rows[] = {
        {"1", "1.0", true},
        {"1", "1.5", false},
        {"-0.0", "0", true},
        {"9007199254740993", "9007199254740992.0", false},
        {"0.1", "0.10", true},
        {"0.1", "0.2", false},
        {"1e300", "1", false},
        {"1", "1e300", false},
        {"\"a\"", "\"\\u0061\"", true},
        {"\"a\"", "\"b\"", false},
        {"true", "false", false},
        {"null", "null", true},
        {"null", "false", false},
        {"[1,2]", "[1,2]", true},
        {"[1,2]", "[2,1]", false},
        {"[1,2]", "[1]", false},
        {"[]", "{}", false},
        {"{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":1,\"c\":3,\"b\":2}", true},
        {"{\"a\":1,\"b\":2}", "{\"b\":1,\"a\":2}", false},
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
        {"{\"a\":1}", "{\"a\":2}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (json_equal(parse(rows[i].a), parse(rows[i].b)) != rows[i].equal) {
            test_fail(__FILE__, __LINE__, "%s and %s", rows[i].a, rows[i].b);
        }
    }
    CHECK(json_equal(NULL, NULL));
    CHECK(!json_equal(parse("null"), NULL));
}

TEST(a_member_is_set_in_its_place_added_or_left_out)
{
    const struct json *obj = parse("{\"a\":1,\"b\":2,\"c\":3}"), *value = parse("[4]");
    check_written(json_with(&mem, obj, STR("b"), value), 0, "{\"a\":1,\"b\":[4],\"c\":3}");
    check_written(json_with(&mem, obj, STR("d"), value), 0, "{\"a\":1,\"b\":2,\"c\":3,\"d\":[4]}");
    check_written(json_with(&mem, obj, STR("a"), NULL), 0, "{\"b\":2,\"c\":3}");
    check_written(json_with(&mem, obj, STR("d"), NULL), 0, "{\"a\":1,\"b\":2,\"c\":3}");
    check_written(json_with(&mem, NULL, STR("a"), value), 0, "{\"a\":[4]}");
    check_written(json_with(&mem, parse("[1,2]"), STR("a"), value), 0, "{\"a\":[4]}");
    check_written(obj, 0, "{\"a\":1,\"b\":2,\"c\":3}"); // as it was
}
