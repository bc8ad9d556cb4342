#include "base/schema.h"
#include "unit/base/json_help.h"

static struct err err;

/// What schema_check() says, "" for nothing.
static const char *check(const char *schema)
{
    err = (struct err){0};
    int rc = schema_check(parse(schema), &err);
    CHECK_INT(rc, err.code);
    CHECK(rc == 0 || rc == ERR_INVALID);
    return err.msg;
}

/// What schema_fit() says of a value.
static const char *fit(const char *schema, const char *value)
{
    CHECK_STR(check(schema), "");
    err = (struct err){0};
    int rc = schema_fit(parse(schema), parse(value), "in", &err);
    CHECK_INT(rc, err.code);
    CHECK_INT(schema_fit(parse(schema), parse(value), "in", NULL), rc);
    return err.msg;
}

static void check_filled(const char *schema, const char *value, const char *expected)
{
    check_written(schema_defaults(parse(schema), parse(value), &mem), 0, expected);
}

TEST(every_type_takes_its_values_and_no_others)
{
    static const char *const values[] = {"\"s\"", "1", "1.5", "true", "[]", "{}", "null"};
    static const struct {
        const char *type, *spoken, *takes; // a letter per value
    } rows[] = {
        {"string", "a string", "y------"}, {"integer", "an integer", "-y-----"},
        {"number", "a number", "-yy----"}, {"boolean", "a boolean", "---y---"},
        {"array", "an array", "----y--"},  {"object", "an object", "-----y-"},
        {"null", "null", "------y"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char schema[60], wanted[60];
        snprintf(schema, sizeof schema, "{\"type\":\"%s\"}", rows[i].type);
        snprintf(wanted, sizeof wanted, "in: must be %s, is ", rows[i].spoken);
        for (size_t k = 0; k < ARRAY_LEN(values); k++) {
            const char *said = fit(schema, values[k]);
            CHECK(rows[i].takes[k] == 'y' ? said[0] == '\0' : strstr(said, wanted) == said);
        }
    }
}

TEST(a_number_without_a_fraction_is_an_integer)
{
    CHECK_STR(fit("{\"type\":\"integer\"}", "1.0"), "");
    CHECK_STR(fit("{\"type\":\"integer\"}", "1e300"), "");
    CHECK_STR(fit("{\"type\":\"integer\"}", "1.5"), "in: must be an integer, is a number");
}

TEST(a_list_of_types_takes_each_of_them)
{
    CHECK_STR(fit("{\"type\":[\"string\",\"null\"]}", "null"), "");
    CHECK_STR(fit("{\"type\":[\"string\",\"null\"]}", "1"),
              "in: must be a string or null, is an integer");
}

TEST(a_member_that_does_not_fit_is_named_by_its_path)
{
    const char *schema = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"array\",\"items\":"
                         "{\"properties\":{\"n\":{\"type\":\"integer\"}}}}}}";
    CHECK_STR(fit(schema, "{\"a\":[{\"n\":1},{}]}"), "");
    CHECK_STR(fit(schema, "{\"a\":[{\"n\":1},{\"n\":\"x\"}]}"),
              "in.a[1].n: must be an integer, is a string");
}

TEST(the_type_is_complained_about_before_its_members)
{
    CHECK_STR(fit("{\"required\":[\"a\"],\"type\":\"object\"}", "[]"),
              "in: must be an object, is an array");
    CHECK_STR(fit("{\"required\":[\"a\"]}", "[]"), ""); // speaks about objects only
}

TEST(a_required_member_is_missed_by_name)
{
    CHECK_STR(fit("{\"required\":[\"a\",\"b\"]}", "{\"a\":null,\"b\":1}"), "");
    CHECK_STR(fit("{\"required\":[\"a\",\"b\"]}", "{\"a\":null}"), "in.b: is required");
}

TEST(members_that_nobody_named_are_refused_or_checked_when_the_schema_says_so)
{
    CHECK_STR(fit("{\"properties\":{\"sides\":{}}}", "{\"other\":1}"), "");
    CHECK_STR(fit("{\"properties\":{\"sides\":{}},\"additionalProperties\":true}", "{\"x\":1}"),
              "");
    CHECK_STR(fit("{\"properties\":{\"sides\":{}},\"additionalProperties\":false}",
                  "{\"sides\":1,\"side\":2}"),
              "in.side: is not known (did you mean 'sides'?)");
    CHECK_STR(fit("{\"properties\":{\"a\":{}},\"additionalProperties\":{\"type\":\"string\"}}",
                  "{\"a\":1,\"b\":\"x\",\"c\":2}"),
              "in.c: must be a string, is an integer");
}

TEST(an_enum_lists_what_it_takes)
{
    CHECK_STR(fit("{\"enum\":[\"a\",1,null]}", "1.0"), "");
    CHECK_STR(fit("{\"enum\":[\"a\",1,null]}", "\"b\""), "in: must be one of \"a\", 1, null");
    CHECK_STR(fit("{\"const\":{\"k\":[1]}}", "{\"k\":[1]}"), "");
    CHECK_STR(fit("{\"const\":{\"k\":[1]}}", "{\"k\":[2]}"), "in: must be {\"k\":[1]}");
}

TEST(bounds_of_numbers_are_kept_at_the_bound_itself)
{
    CHECK_STR(fit("{\"minimum\":1,\"maximum\":3}", "1"), "");
    CHECK_STR(fit("{\"minimum\":1,\"maximum\":3}", "3.0"), "");
    CHECK_STR(fit("{\"minimum\":1}", "0.5"), "in: must be at least 1, is 0.5");
    CHECK_STR(fit("{\"maximum\":3}", "4"), "in: must be at most 3, is 4");
    CHECK_STR(fit("{\"exclusiveMinimum\":1}", "1"), "in: must be more than 1, is 1");
    CHECK_STR(fit("{\"exclusiveMaximum\":1}", "1"), "in: must be less than 1, is 1");
    CHECK_STR(fit("{\"minimum\":9007199254740993}", "9007199254740992"),
              "in: must be at least 9007199254740993, is 9007199254740992");
    CHECK_STR(fit("{\"minimum\":1}", "\"a string\""), "");
}

TEST(lengths_count_characters_and_items)
{
    CHECK_STR(fit("{\"minLength\":2,\"maxLength\":2}", "\"\xc3\xa9\xe2\x82\xac\""), "");
    CHECK_STR(fit("{\"minLength\":2}", "\"\xe2\x82\xac\""),
              "in: must have at least 2 characters, has 1");
    CHECK_STR(fit("{\"maxLength\":1}", "\"ab\""), "in: must have at most 1 characters, has 2");
    CHECK_STR(fit("{\"minItems\":1}", "[]"), "in: must have at least 1 items, has 0");
    CHECK_STR(fit("{\"maxItems\":1}", "[1,2]"), "in: must have at most 1 items, has 2");
    CHECK_STR(fit("{\"minItems\":1,\"minLength\":1}", "{}"), "");
}

TEST(forms_are_combined)
{
    const char *forms = "[{\"type\":\"integer\"},{\"minimum\":5},{\"type\":\"string\"}]";
    char schema[120];
    snprintf(schema, sizeof schema, "{\"anyOf\":%s}", forms);
    CHECK_STR(fit(schema, "7"), "");
    CHECK_STR(fit(schema, "1.5"), "in: fits none of the 3 forms allowed");
    snprintf(schema, sizeof schema, "{\"oneOf\":%s}", forms);
    CHECK_STR(fit(schema, "1"), "");
    CHECK_STR(fit(schema, "1.5"), "in: fits none of the 3 forms allowed");
    CHECK_STR(fit(schema, "7"), "in: fits 2 forms, must fit exactly one");
    CHECK_STR(fit("{\"allOf\":[{\"minimum\":1},{\"maximum\":2}]}", "2"), "");
    CHECK_STR(fit("{\"allOf\":[{\"minimum\":1},{\"maximum\":2}]}", "3"),
              "in: must be at most 2, is 3");
}

TEST(forms_inside_forms_are_tried_once)
{
    struct buf schema = {.max = SIZE_MAX};
    for (int i = 0; i < 30; i++) {
        buf_addz(&schema, "{\"oneOf\":[");
    }
    buf_addz(&schema, "{\"type\":\"string\"}");
    for (int i = 0; i < 30; i++) {
        buf_addz(&schema, "]}");
    }
    CHECK_STR(fit(buf_z(&schema), "\"text\""), "");
    CHECK_STR(fit(buf_z(&schema), "1"), "in: fits none of the 1 forms allowed");
    buf_fini(&schema);
}

TEST(what_only_describes_says_nothing_about_validity)
{
    CHECK_STR(fit("{\"title\":\"t\",\"description\":\"d\",\"format\":\"date\",\"examples\":[1],"
                  "\"$schema\":\"s\",\"x-order\":1,\"default\":1}",
                  "[]"),
              "");
}

TEST(no_schema_fits_everything_and_no_value_is_null)
{
    CHECK_INT(schema_fit(NULL, parse("1"), "in", NULL), 0);
    CHECK_INT(schema_check(NULL, NULL), 0);
    CHECK_INT(schema_fit(parse("{\"type\":\"null\"}"), NULL, "in", NULL), 0);
    CHECK_INT(schema_fit(parse("{\"type\":\"object\"}"), NULL, "in", NULL), ERR_INVALID);
}

TEST(a_malformed_schema_is_refused_with_its_place)
{
    static const struct {
        const char *schema, *said;
    } rows[] = {
        {"[]", "must be an object, is an array"},
        {"{\"type\":\"int\"}", "unknown type 'int' (did you mean 'integer'?)"},
        {"{\"type\":\"strng\"}", "unknown type 'strng' (did you mean 'string'?)"},
        {"{\"type\":1}", "'type' must be a string or a list of strings"},
        {"{\"type\":[]}", "type: must not be empty"},
        {"{\"type\":[\"string\",\"dict\"]}", "unknown type 'dict' (did you mean 'object'?)"},
        {"{\"propertys\":{}}", "unknown keyword 'propertys' (did you mean 'properties'?)"},
        {"{\"patern\":\"a\"}", "unknown keyword 'patern'"},
        {"{\"properties\":[]}", "properties: must be an object, is an array"},
        {"{\"properties\":{\"n\":{\"type\":\"x\"}}}", "properties.n: unknown type 'x'"},
        {"{\"items\":[]}", "items: must be an object, is an array"},
        {"{\"required\":\"a\"}", "required: must be an array of strings, is a string"},
        {"{\"required\":[1]}", "required: must be an array of strings, is an integer"},
        {"{\"additionalProperties\":1}", "additionalProperties: must be an object, is an integer"},
        {"{\"enum\":{}}", "enum: must be an array, is an object"},
        {"{\"enum\":[]}", "enum: must not be empty"},
        {"{\"minimum\":\"1\"}", "minimum: must be a number, is a string"},
        {"{\"minLength\":-1}", "minLength: must be an integer of at least 0"},
        {"{\"maxItems\":1.5}", "maxItems: must be an integer of at least 0"},
        {"{\"anyOf\":[]}", "anyOf: must not be empty"},
        {"{\"oneOf\":[{},{\"type\":\"x\"}]}", "oneOf[1]: unknown type 'x'"},
        {"{\"allOf\":[{\"items\":{\"enum\":1}}]}",
         "allOf[0].items.enum: must be an array, is an integer"},
        {"{\"description\":1}", "description: must be a string, is an integer"},
        {"{\"type\":\"integer\",\"default\":\"x\"}", "default: must be an integer, is a string"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_STR(check(rows[i].schema), rows[i].said);
    }
}

TEST(what_the_standard_has_and_we_have_not_is_told_from_errors)
{
    static const char *const rows[] = {
        "{\"$ref\":\"#\"}", "{\"pattern\":\"a\"}", "{\"properties\":{\"n\":true}}",
        "{\"type\":\"object\",\"$defs\":{\"a\":{\"type\":\"int\"}}}"};
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_INT(schema_check(parse(rows[i]), &e), ERR_UNSUPPORTED);
    }
    CHECK_INT(schema_check(parse("{\"propertys\":{},\"$ref\":\"#\"}"), &e), ERR_INVALID);
    CHECK_INT(schema_check(
                  parse("{\"properties\":{\"a\":{\"$ref\":\"#\"},\"b\":{\"type\":\"int\"}}}"), &e),
              ERR_INVALID);
    CHECK_STR(e.msg, "properties.b: unknown type 'int' (did you mean 'integer'?)");
    CHECK_STR(check("{\"$id\":\"x\",\"deprecated\":true,\"readOnly\":false}"), "");
}

TEST(a_hostile_name_neither_breaks_nor_fills_the_message)
{
    char schema[700], key[500];
    memset(key, 'k', sizeof key);
    snprintf(schema, sizeof schema, "{\"properties\":{\"%.*s\":{\"type\":1}}}", 500, key);
    CHECK(strlen(check(schema)) < sizeof err.msg);
    CHECK(strstr(err.msg, "'type' must be") != NULL);
    CHECK_STR(check("{\"properties\":{\"a\\n\\u0007b\":1}}"),
              "properties.a??b: must be an object, is an integer");
}

TEST(defaults_fill_absent_members_only)
{
    const char *schema =
        "{\"properties\":{\"a\":{\"default\":1},\"b\":{\"default\":[2]},\"c\":{}}}";
    check_filled(schema, "{}", "{\"a\":1,\"b\":[2]}");
    check_filled(schema, "{\"b\":null,\"z\":0}", "{\"b\":null,\"z\":0,\"a\":1}");
}

TEST(defaults_reach_into_members_items_and_other_defaults)
{
    const char *inner = "{\"properties\":{\"n\":{\"default\":1}}}";
    char schema[200];
    snprintf(schema, sizeof schema,
             "{\"properties\":{\"o\":%s,\"l\":{\"items\":%s},\"d\":{\"default\":{},"
             "\"properties\":{\"m\":{\"default\":2}}}}}",
             inner, inner);
    check_filled(schema, "{\"o\":{},\"l\":[{\"n\":0},{}]}",
                 "{\"o\":{\"n\":1},\"l\":[{\"n\":0},{\"n\":1}],\"d\":{\"m\":2}}");
    check_filled(schema, "{}", "{\"d\":{\"m\":2}}"); // an absent object is not invented
}

TEST(what_has_nothing_to_fill_is_shared_and_what_has_is_copied)
{
    const struct json *schema = parse("{\"properties\":{\"a\":{\"default\":1}}}");
    const struct json *full = parse("{\"a\":2}"), *empty = parse("{}");
    CHECK(schema_defaults(schema, full, &mem) == full);
    CHECK(schema_defaults(schema, empty, &mem) != empty);
    CHECK_INT(empty->n, 0);
    CHECK(schema_defaults(schema, NULL, &mem) == NULL);
    CHECK(schema_defaults(NULL, full, &mem) == full);
}

/// `n` times `one` with commas between, in `before` and `after`.
static const struct json *parse_many(const char *before, const char *one, size_t n,
                                     const char *after)
{
    struct buf text = {.max = SIZE_MAX};
    buf_addz(&text, before);
    for (size_t i = 0; i < n; i++) {
        buf_addf(&text, "%s%s", i == 0 ? "" : ",", one);
    }
    buf_addz(&text, after);
    const struct json *v = parse(arena_strdup(&mem, buf_str(&text))); // which borrows its strings
    buf_fini(&text);
    return v;
}

TEST(what_would_take_too_long_to_check_does_not_fit)
{
    struct err e = {0};
    const struct json *many = parse_many("[", "1", 100000, "]");
    const struct json *forms = parse_many("{\"items\":{\"anyOf\":[", "{\"type\":\"string\"}", 3000,
                                          ",{\"type\":\"integer\"}]}}");
    CHECK_INT(schema_fit(parse("{\"items\":{\"type\":\"integer\"}}"), many, "x", &e), 0);
    uint64_t began = test_cpu_ns();
    CHECK_INT(schema_fit(forms, many, "x", &e), ERR_INVALID);
    CHECK_STR(e.msg, "x: is too large to be checked against its schema");
    const struct json *words = parse_many("{\"items\":{\"enum\":[", "\"w\"", 30000, ",1]}}");
    CHECK_INT(schema_fit(words, many, "x", &e), ERR_INVALID);
    const struct json *text = &(struct json){
        .type = JSON_STR, .s = {memset(arena_alloc(&mem, 1 << 20), 'a', 1 << 20), 1 << 20}};
    const struct json *lengths = parse_many("{\"anyOf\":[", "{\"maxLength\":5}", 5000, "]}");
    CHECK_INT(schema_fit(lengths, text, "x", &e), ERR_INVALID);
    CHECK(test_cpu_ns() - began < 5 * UINT64_C(1000000000)); // was minutes
}

TEST(defaults_do_not_multiply_without_end)
{
    struct buf props = {.max = SIZE_MAX};
    struct err e = {0};
    for (int i = 0; i < 4000; i++) {
        buf_addf(&props, "%s\"p%d\":{\"default\":1}", i == 0 ? "" : ",", i);
    }
    struct str inner = buf_str(&props);
    const struct json *schema =
        parse(arena_printf(&mem, "{\"items\":{\"properties\":{" STR_FMT "}}}", STR_ARG(inner)));
    const struct json *many = parse_many("[", "{}", 100000, "]");
    CHECK_INT(schema_fit(schema, many, "x", &e), ERR_INVALID);
    const struct json *filled = schema_defaults(schema, many, &mem); // all of them would be 16 GB
    CHECK_INT(json_at(filled, 0)->n, 4000);
    CHECK_INT(json_at(filled, 99999)->n, 0);
    buf_fini(&props);
}

TEST(an_empty_object_becomes_an_array_only_where_the_schema_wants_one)
{
    const struct json *schema = parse("{\"properties\":{\"a\":{\"type\":\"array\",\"items\":{"
                                      "\"type\":\"array\"}},\"o\":{\"type\":"
                                      "\"object\"},\"b\":{\"type\":[\"array\",\"null\"]},\"e\":{"
                                      "\"type\":[\"array\",\"object\"]}}}");
    check_written(
        schema_arrays(schema, parse("{\"a\":{},\"o\":{},\"b\":{},\"e\":{},\"x\":{}}"), &mem), 0,
        "{\"a\":[],\"o\":{},\"b\":[],\"e\":{},\"x\":{}}");
    check_written(schema_arrays(schema, parse("{\"a\":[{},[1]]}"), &mem), 0, "{\"a\":[[],[1]]}");
    const struct json *fine = parse("{\"a\":[],\"o\":{}}");
    CHECK(schema_arrays(schema, fine, &mem) == fine);
    CHECK(schema_arrays(NULL, fine, &mem) == fine);
}

TEST(the_short_form_is_a_schema_of_an_object)
{
    check_written(schema_from_short(&mem, parse("{\"n\":\"integer\",\"s\":\"string?\","
                                                "\"l\":{\"type\":\"array\",\"default\":{}},"
                                                "\"e\":{\"type\":\"string?\",\"enum\":[\"a\"]}}")),
                  0,
                  "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"},"
                  "\"s\":{\"type\":\"string\"},\"l\":{\"type\":\"array\",\"default\":[]},"
                  "\"e\":{\"type\":\"string\",\"enum\":[\"a\"]}},\"required\":[\"n\"],"
                  "\"additionalProperties\":false}");
}

// Lua makes U+FFFD of each byte that is no UTF-8, so a plugin can give one name twice; and its values may be as
// deep as a JSON text can be.
TEST(no_short_form_ends_the_program)
{
    struct json_member twice[] = {{STR("\xef\xbf\xbd"), {.type = JSON_STR, .s = STR("string")}},
                                  {STR("\xef\xbf\xbd"), {.type = JSON_STR, .s = STR("integer")}}};
    struct json input = {.type = JSON_OBJ, .n = 2, .members = twice};
    const struct json *schema = schema_from_short(&mem, &input);
    CHECK_INT(schema_check(schema, NULL), 0);
    CHECK_INT(json_get(schema, "properties")->n, 1);
    struct buf deep = {.max = SIZE_MAX};
    buf_addz(&deep, "{\"a\":{\"type\":\"array\",\"examples\":");
    for (int i = 0; i < JSON_DEPTH - 2; i++) {
        buf_addc(&deep, '[');
    }
    for (int i = 0; i < JSON_DEPTH - 2; i++) {
        buf_addc(&deep, ']');
    }
    buf_addz(&deep, "}}");
    CHECK_INT(schema_check(schema_from_short(&mem, parse(buf_z(&deep))), NULL), 0);
    buf_fini(&deep);
}
