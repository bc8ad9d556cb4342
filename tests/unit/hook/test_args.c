#include "hook/args.h"
#include "unit/test.h"

static struct arena a;
static struct err e;

static const struct json *parse(const char *text)
{
    struct json *v;
    CHECK_INT(json_parse(&v, &a, str_of(text), NULL, NULL), 0);
    return v;
}

static int take(enum hook_point_id point, const char *was, const char *now, const char *expect)
{
    struct hook_args args = {.point = point, .values = {parse(was)}, .n = 1, .arena = &a};
    const struct json *before = args.values[0];
    e = (struct err){0};
    int rc = hook_args_take(&args, parse(now), &e);
    if (rc < 0) {
        CHECK(args.values[0] == before);
        CHECK(e.msg[0] != '\0');
    } else {
        CHECK(json_equal(args.values[0], parse(expect != NULL ? expect : now)));
    }
    return rc;
}

TEST(what_is_of_its_points_kind_is_taken)
{
    CHECK_INT(take(POINT_FINAL, "\"a\"", "\"b\"", NULL), 0);
    CHECK_INT(take(POINT_TOOL_CALL, "{}", "{\"tool_name\":\"x\",\"input\":{},\"y\":1}", NULL), 0);
    CHECK_INT(
        take(POINT_AFTER_MODEL, "{}", "{\"tool_calls\":[{\"name\":\"x\",\"input\":{}}]}", NULL), 0);
    CHECK_INT(take(POINT_BEFORE_MODEL, "{}", "{\"messages\":[{\"role\":\"user\"}]}", NULL), 0);
    CHECK_INT(take(POINT_BEFORE_MODEL, "{}", "{\"response\":{\"text\":\"x\"}}", NULL), 0);
    CHECK_INT(take(POINT_RESOLVE_TOOL, "{\"tool_call_id\":\"1\"}", "{\"output\":\"x\"}",
                   "{\"output\":\"x\",\"success\":true,\"tool_call_id\":\"1\"}"),
              0);
    arena_fini(&a);
}

TEST(what_is_not_is_refused_and_changes_nothing)
{
    static const struct {
        enum hook_point_id point;
        const char *value;
    } cases[] = {
        {POINT_FINAL, "1"},
        {POINT_COMPACT, "null"},
        {POINT_TOOL_CALL, "\"x\""},
        {POINT_TOOL_CALL, "{\"tool_name\":\"x\"}"},
        {POINT_TOOL_CALL, "{\"tool_name\":\"x\",\"input\":[]}"},
        {POINT_TOOL_CALL, "{\"tool_name\":1,\"input\":{}}"},
        {POINT_RESOLVE_TOOL, "{\"success\":true}"},
        {POINT_RESOLVE_TOOL, "{\"output\":\"x\",\"success\":\"yes\"}"},
        {POINT_BEFORE_MODEL, "{}"},
        {POINT_BEFORE_MODEL, "{\"messages\":[1]}"},
        {POINT_BEFORE_MODEL, "{\"response\":{\"text\":1}}"},
        {POINT_AFTER_MODEL, "{\"tool_calls\":[{\"name\":\"x\"}]}"},
        {POINT_BEGIN, "{}"},
        {POINT_PERMISSION, "\"allow\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (take(cases[i].point, "{}", cases[i].value, NULL) != ERR_INVALID) {
            test_fail(__FILE__, __LINE__, "case %zu was taken", i);
        }
    }
    arena_fini(&a);
}

TEST(state_and_memory_are_copied_or_neither_is)
{
    struct arena short_lived = {0};
    struct json *state;
    struct hook_ctx c = {.arena = &a};
    CHECK_INT(json_parse(&state, &short_lived, STR("{\"k\":[\"v\"]}"), NULL, NULL), 0);
    CHECK_INT(hook_ctx_take(&c, &(struct hook_seen){c.state, c.memory}, state,
                            parse("[\"x\",{\"role\":\"user\",\"content\":\"y\"}]"), &e),
              0);
    arena_fini(&short_lived); // ASan sees it when something still points there
    CHECK(json_equal(c.state, parse("{\"k\":[\"v\"]}")));
    CHECK_INT(c.memory->n, 2);
    CHECK_INT(
        hook_ctx_take(&c, &(struct hook_seen){c.state, c.memory}, parse("{}"), parse("[1]"), &e),
        ERR_INVALID);
    CHECK_INT(
        hook_ctx_take(&c, &(struct hook_seen){c.state, c.memory}, parse("[1]"), parse("[]"), &e),
        ERR_INVALID);
    CHECK_INT(c.state->n, 1);
    CHECK_INT(c.memory->n, 2);
    CHECK_INT(hook_ctx_take(&c, &(struct hook_seen){c.state, c.memory}, NULL, parse("{}"), &e),
              0); // an empty table of Lua
    CHECK_INT(c.memory->type, JSON_ARR);
    arena_fini(&a);
}

TEST(handlers_that_waited_at_the_same_time_lose_nothing_of_each_other)
{
    struct hook_ctx c = {
        .arena = &a, .state = parse("{\"n\":1,\"gone\":2}"), .memory = parse("[\"m\"]")};
    struct hook_seen both = {c.state, c.memory};
    CHECK_INT(hook_ctx_take(&c, &both, parse("{\"n\":1,\"a\":1}"), parse("[\"m\",\"a\"]"), &e), 0);
    CHECK_INT(
        hook_ctx_take(&c, &both, parse("{\"n\":7,\"gone\":2,\"b\":1}"), parse("[\"m\",\"b\"]"), &e),
        0);
    CHECK(json_equal(c.state, parse("{\"n\":7,\"a\":1,\"b\":1}")));
    CHECK(json_equal(c.memory, parse("[\"m\",\"a\",\"b\"]")));
    CHECK_INT(hook_ctx_take(&c, &both, NULL, parse("[\"new\"]"), &e), 0); // no longer what it was
    CHECK(json_equal(c.memory, parse("[\"new\"]")));
    CHECK_INT(hook_ctx_take(&c, &both, parse("{\"n\":9,\"gone\":2}"), NULL, &e), 0);
    CHECK(json_equal(c.state, parse("{\"n\":9,\"a\":1,\"b\":1}"))); // of one member the last wins
    arena_fini(&a);
}

TEST(a_key_with_a_nul_byte_is_not_cut_there_when_states_are_merged)
{
    struct hook_ctx c = {.arena = &a, .state = parse("{\"k\":1,\"k\\u0000a\":2}")};
    struct hook_seen both = {c.state, NULL};
    CHECK_INT(hook_ctx_take(&c, &both, parse("{\"k\":1,\"k\\u0000a\":2,\"x\":1}"), NULL, &e), 0);
    CHECK_INT(
        hook_ctx_take(&c, &both, parse("{\"k\":1,\"k\\u0000a\":3,\"k\\u0000b\":4}"), NULL, &e), 0);
    CHECK(json_equal(c.state, parse("{\"k\":1,\"k\\u0000a\":3,\"x\":1,\"k\\u0000b\":4}")));
    arena_fini(&a);
}

TEST(they_travel_as_ctx_and_args)
{
    struct buf out;
    struct jw w;
    buf_init(&out, SIZE_MAX);
    struct hook_ctx c = {.session_id = STR("s"), .depth = 1, .state = parse("{\"n\":1}")};
    struct hook_args args = {
        .point = POINT_TOOL_RESULT, .ctx = &c, .values = {parse("{}"), parse("{\"o\":2}")}, .n = 2};
    jw_init(&w, &out);
    jw_obj(&w);
    hook_args_write(&args, &w);
    jw_end_obj(&w);
    CHECK_STR(buf_z(&out), "{\"ctx\":{\"session_id\":\"s\",\"depth\":1,\"state\":{\"n\":1}},"
                           "\"args\":[{},{\"o\":2}]}");
    buf_fini(&out);
    arena_fini(&a);
}
