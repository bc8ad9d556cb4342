#include "base/time.h"
#include "unit/bind/plug.h"

static const char CALL[] =
    "{\"tool_name\":\"shell\",\"tool_call_id\":\"c1\",\"input\":{\"cmd\":\"ls\"},"
    "\"extra\":1}";
static struct arena arena;

static struct hook_ctx ctx_of(void)
{
    return (struct hook_ctx){.session_id = STR("s-1"), .arena = &arena};
}

static bool is_json(const char *a, const char *b)
{
    struct arena t = {0};
    struct json *x, *y;
    CHECK_INT(json_parse(&x, &t, str_of(a), NULL, NULL), 0);
    CHECK_INT(json_parse(&y, &t, str_of(b), NULL, NULL), 0);
    bool same = json_equal(x, y);
    arena_fini(&t);
    return same;
}

#define CHECK_JSON(a, b)                                                                           \
    do {                                                                                           \
        const char *json_a = (a);                                                                  \
        if (!is_json(json_a, b)) {                                                                 \
            test_fail(__FILE__, __LINE__, "%s, not %s", json_a, b);                                \
        }                                                                                          \
    } while (0)

TEST(a_returned_record_replaces_the_call_and_keeps_what_it_does_not_name)
{
    plug_open(NULL);
    plug_load(
        "x",
        "on_tool_call({tool='sh*'}, function(ctx, call) call.input.timeout = 30 return call end)");
    CHECK_JSON(plug_raise(POINT_TOOL_CALL, CALL, NULL),
               "{\"tool_name\":\"shell\",\"tool_call_id\":\"c1\",\"extra\":1,"
               "\"input\":{\"cmd\":\"ls\",\"timeout\":30}}");
    CHECK_INT(plug_run.result, HOOK_VALUE);
    plug_load("x", "on_tool_call(function(ctx, call) return ToolCall{tool_name='other'} end)");
    CHECK_JSON(plug_raise(POINT_TOOL_CALL, CALL, NULL), "{\"tool_name\":\"other\",\"input\":{}}");
    plug_load("x", "on_tool_call(function(ctx, call) local c = call.input.cmd return call end)");
    plug_raise(POINT_TOOL_CALL, CALL, NULL);
    CHECK_INT(plug_run.result, HOOK_KEEP); // nothing is different
    plug_close();
}

TEST(a_change_that_is_not_returned_is_dropped_and_said_once)
{
    plug_open(NULL);
    plug_load("x", "\non_tool_call(function(ctx, call) call.input.cmd = 'rm' end)");
    CHECK_JSON(plug_raise(POINT_TOOL_CALL, CALL, NULL), CALL);
    CHECK(rig_noted("x", DIAG_CHANGE_DROPPED,
                    "changed `call` but returned nothing: add `return call`"));
    size_t n = plug_unit("x")->diags.n;
    CHECK_INT(plug_unit("x")->diags.p[n - 1].line, 2);
    plug_raise(POINT_TOOL_CALL, CALL, NULL);
    CHECK_INT(plug_unit("x")->diags.n, n);
    plug_load("x", "on_tool_call(function(ctx, call) local c = call.input.cmd end)");
    plug_raise(POINT_TOOL_CALL, CALL, NULL);
    CHECK(!rig_noted("x", DIAG_CHANGE_DROPPED, "")); // reading is no change
    plug_close();
}

TEST(state_and_memory_count_at_any_depth_unless_the_handler_throws)
{
    plug_open(NULL);
    struct hook_ctx ctx = ctx_of();
    plug_ctx = &ctx;
    plug_load("x",
              "on_begin(function(ctx) ctx.state.a = {b={}} table.insert(ctx.memory, 'note') end)"
              "on_begin(function(ctx) ctx.state.a.b.c = 1 end)"
              "on_begin(function(ctx) ctx.state.a = 'gone' error('oh') end)"
              "on_done(function(ctx) ctx.state.f = print end)");
    plug_raise(POINT_BEGIN, NULL, NULL);
    CHECK_INT(json_int(json_ptr(ctx.state, "/a/b/c"), 0), 1);
    CHECK(str_eqz(json_str(json_at(ctx.memory, 0), ""), "note"));
    CHECK_INT(plug_run.failed, 1);
    plug_raise(POINT_DONE, NULL, NULL);
    CHECK_INT(plug_run.failed, 1);
    CHECK(strstr(plug_run.fault.msg, "a function cannot be sent") != NULL);
    arena_fini(&arena);
    plug_close();
}

TEST(integer_keys_of_state_come_back_as_integers)
{
    plug_open(NULL);
    struct hook_ctx ctx = ctx_of();
    struct buf b;
    struct jw w;
    plug_ctx = &ctx;
    plug_load("x",
              "on_begin(function(ctx) ctx.state[1] = 'one' ctx.state.seen = {[7]='a', ['7']='b'} "
              "ctx.state.list = {1, 2} end)"
              "on_begin(function(ctx) ctx.state.list[9] = true end)"
              "on_begin(function(ctx) local s = ctx.state "
              "ctx.state.ok = s[1] == 'one' and s['1'] == nil and s.seen[7] == 'a' and "
              "s.seen['7'] == 'b' and s.list[2] == 2 and s.list[9] end)");
    plug_raise(POINT_BEGIN, NULL, NULL);
    CHECK_STR(plug_run.fault.msg, "");
    CHECK(json_bool(json_get(ctx.state, "ok"), false));
    buf_init(&b, SIZE_MAX);
    jw_init(&w, &b);
    jw_value(&w, ctx.state); // as it leaves Lua
    CHECK(strstr(buf_z(&b), "\"1\":\"one\"") != NULL);
    buf_fini(&b);
    arena_fini(&arena);
    plug_close();
}

TEST(every_point_has_its_arguments_and_its_kind_of_answer)
{
    static const struct {
        enum hook_point_id point;
        const char *first, *second, *handler, *expect; // expect NULL: it fails
    } cases[] = {
        {POINT_FINAL, "\"a\"", NULL, "function(c, t) return t .. 'b' end", "\"ab\""},
        {POINT_FINAL, "\"a\"", NULL, "function(c, t) return {} end", NULL},
        {POINT_USER_MESSAGE, "\"a\"", NULL, "function(c, t) return t:upper() end", "\"A\""},
        {POINT_BEFORE_MODEL, "{\"messages\":[]}", NULL,
         "function(c, r) table.insert(r.messages, {role='user', content='x'}) return r end",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"},
        {POINT_BEFORE_MODEL, "{\"messages\":[]}", NULL,
         "function(c, r) return {response={text='no model'}} end",
         "{\"response\":{\"text\":\"no model\"}}"},
        {POINT_BEFORE_MODEL, "{\"messages\":[]}", NULL,
         "function(c, r) r.messages = 1 return r end", NULL},
        {POINT_AFTER_MODEL, "{\"text\":\"a\"}", NULL, "function(c, r) r.text = 'b' return r end",
         "{\"text\":\"b\"}"},
        {POINT_TOOL_CALL, CALL, NULL, "function(c, call) return {tool_name='x'} end", NULL},
        {POINT_TOOL_RESULT, CALL, "{\"output\":\"long\",\"success\":true}",
         "function(c, call, r) assert(call.tool_name == 'shell') r.output = r.output:sub(1, 2) "
         "return r end",
         "{\"output\":\"lo\",\"success\":true,\"tool_call_id\":\"c1\",\"tool_name\":\"shell\"}"},
        {POINT_RESOLVE_TOOL, CALL, NULL,
         "function(c, call) return {output='blocked', success=false, error='policy'} end",
         "{\"output\":\"blocked\",\"success\":false,\"error\":\"policy\",\"tool_call_id\":\"c1\","
         "\"tool_name\":\"shell\"}"},
    };
    plug_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        plug_load("x", rig_code("%s(%s)", hook_points[cases[i].point].name, cases[i].handler));
        const char *got = plug_raise(cases[i].point, cases[i].first, cases[i].second);
        if (cases[i].expect == NULL) {
            CHECK_INT(plug_run.failed, 1);
        } else if (!is_json(got, cases[i].expect)) {
            test_fail(__FILE__, __LINE__, "case %zu: %s (%s)", i, got, plug_run.fault.msg);
        }
    }
    plug_close();
}

TEST(a_veto_denies_and_a_throw_denies_too)
{
    plug_open(NULL);
    plug_load("x", "on_permission(function(c, call) return 'deny', 'not ' .. call.tool_name end)");
    plug_raise(POINT_PERMISSION, CALL, NULL);
    CHECK_INT(plug_run.result, HOOK_DENY);
    CHECK_STR(plug_run.fault.msg, "not shell");
    plug_load("x", "on_permission(function(c, call) error('oh') end)");
    plug_raise(POINT_PERMISSION, CALL, NULL);
    CHECK_INT(plug_run.result, HOOK_DENY);
    plug_close();
}

TEST(a_handler_may_wait_and_a_record_ends_with_its_call)
{
    plug_open(NULL);
    plug_load(
        "x",
        "on_tool_call(function(ctx, call) kept = call timer.sleep(0.001) "
        "call.input = {cmd='slow'} return call end)"
        "on_final(function() return tostring(pcall(function() return kept.tool_name end)) end)");
    CHECK(strstr(plug_raise(POINT_TOOL_CALL, CALL, NULL), "slow") != NULL);
    CHECK_STR(plug_raise(POINT_FINAL, "\"x\"", NULL), "\"false\"");
    plug_close();
}

TEST(a_dispatch_of_handlers_that_do_not_wait_allocates_no_more_and_more)
{
    plug_open(NULL);
    plug_load("x", "on_tool_call(function(ctx, call) end)");
    int n = test_loops(20000);
    const struct hook_list *list =
        hook_set_get(gen_hooks(gen_current(rig.engine)), STR("on_tool_call"), HOOK_CHAIN);
    struct arena a = {0};
    struct json *v;
    CHECK_INT(json_parse(&v, &a, str_of(CALL), NULL, NULL), 0);
    struct hook_ctx ctx = ctx_of();
    struct hook_args args = {
        .point = POINT_TOOL_CALL, .ctx = &ctx, .values = {v}, .n = 1, .arena = &a};
    struct hook_run_opts opts = {.list = list, .args = &args, .subject = STR("shell")};
    size_t used = a.used;
    uint64_t began = time_mono_ns();
    for (int i = 0; i < n; i++) {
        CHECK(hook_run_start(&plug_run, &opts));
    }
    printf("     %.3f us a dispatch\n", (double)(time_mono_ns() - began) / 1000 / n);
    CHECK_INT(a.used, used);
    CHECK_INT(arena.used, 0);
    CHECK_INT(plug_run.ran, 1);
    arena_fini(&arena);
    arena_fini(&a);
    plug_close();
}
