#include "unit/bind/plug.h"

static struct arena arena;
static char progress[200];

static void on_progress(void *arg, struct str text)
{
    (void)arg;
    size_t n = strlen(progress);
    snprintf(progress + n, sizeof progress - n, STR_FMT ";", STR_ARG(text));
}

static struct hook_ctx ctx_of(void)
{
    progress[0] = '\0';
    return (struct hook_ctx){.session_id = STR("s-1"),
                             .working_dir = STR("/w"),
                             .depth = 2,
                             .arena = &arena,
                             .progress = on_progress};
}

static const struct hook_stats *stats_of(enum gen_kind kind, const char *name)
{
    const struct gen_item *it = gen_item_find(gen_current(rig.engine), kind, str_of(name));
    return ((const struct gen_target *)gen_item_face(it))->stats(gen_item_data(it));
}

// ---- tools ------------------------------------------------------------------------------------

TEST(whatever_a_tool_returns_is_a_result)
{
    static const struct {
        const char *returns, *expect;
    } cases[] = {
        {"'text'", "{\"output\":\"text\",\"success\":true}"},
        {"6", "{\"output\":\"6\",\"success\":true}"},
        {"true", "{\"output\":\"true\",\"success\":true}"},
        {"{a=1}", "{\"output\":\"{\\\"a\\\":1}\",\"success\":true}"},
        {"json.array{}", "{\"output\":\"[]\",\"success\":true}"},
        {"{output='o'}", "{\"output\":\"o\",\"success\":true}"},
        {"{output={1}, success=false}", "{\"output\":\"[1]\",\"success\":false}"},
        {"{output='', error='e'}", "{\"output\":\"\",\"success\":false,\"error\":\"e\"}"},
        {"{content={{type='image'}}}",
         "{\"output\":\"[image]\",\"success\":true,\"content\":[{\"type\":\"image\"}]}"},
        {"nil, 'why'", "{\"output\":\"\",\"success\":false,\"error\":\"why\"}"},
        {"nil", "{\"output\":\"\",\"success\":true}"},
        {"'\\255'", "{\"output\":\"\xEF\xBF\xBD\",\"success\":true}"},
        {"print", "!value: a function cannot be sent (x.lua:1)"},
        {"error('oh')", "!oh (x.lua:1)"},
    };
    plug_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        plug_load("x", rig_code("tool{name='t', run=function() return %s end}", cases[i].returns));
        CHECK_STR(plug_call(GEN_TOOL, "t", "{}"), cases[i].expect);
    }
    plug_close();
}

TEST(input_is_checked_before_lua_is_entered_and_defaults_are_filled_in)
{
    plug_open(NULL);
    plug_load("x",
              "tool{name='t', input={n='integer', s={type='string', default='d'}, o='string?'},"
              "run=function(ctx, i) log.info('entered') return i.n .. i.s .. tostring(i.o) end}");
    CHECK_STR(plug_call(GEN_TOOL, "t", "{\"n\":1}"), "{\"output\":\"1dnil\",\"success\":true}");
    plug_call(GEN_TOOL, "t", "{\"n\":\"1\"}");
    CHECK_INT(plug_status, ERR_INVALID);
    plug_call(GEN_TOOL, "t", "{}");
    CHECK_INT(plug_status, ERR_INVALID);
    plug_call(GEN_TOOL, "t", "{\"n\":1,\"x\":1}");
    CHECK_INT(plug_status, ERR_INVALID);
    CHECK_INT(plug_said("x", "entered"), 1);
    plug_close();
}

TEST(a_tool_has_a_ctx_with_progress_and_may_wait)
{
    plug_open(NULL);
    struct hook_ctx ctx = ctx_of();
    plug_ctx = &ctx;
    plug_load("x", "tool{name='t', run=function(ctx) kept = ctx.progress ctx.progress('one') "
                   "timer.sleep(0.001) ctx.progress('two') ctx.state.n = 1 "
                   "return ctx.session_id .. ctx.depth end}"
                   "tool{name='late', run=function() return kept('three') end}");
    CHECK_STR(plug_call(GEN_TOOL, "t", "{}"), "{\"output\":\"s-12\",\"success\":true}");
    CHECK_STR(progress, "one;two;");
    CHECK_INT(json_int(json_get(ctx.state, "n"), 0), 1);
    CHECK_STR(plug_call(GEN_TOOL, "late", "{}"), "{\"output\":\"false\",\"success\":true}");
    CHECK_STR(progress, "one;two;"); // of a call that has ended nothing is heard
    arena_fini(&arena);
    plug_close();
}

TEST(a_tool_runs_out_of_time_and_is_counted)
{
    plug_open((const char *[]){"limits.tool_ms=20", NULL});
    plug_load("x", "tool{name='t', run=function() timer.sleep(100) end}");
    for (int i = 0; i < 4; i++) { // unlike a route it is never switched off
        plug_call(GEN_TOOL, "t", "{}");
        CHECK_INT(plug_status, ERR_TIMEOUT);
    }
    CHECK_INT(stats_of(GEN_TOOL, "t")->count, 4);
    CHECK_INT(stats_of(GEN_TOOL, "t")->errors, 4);
    plug_close();
}

static void never(struct gen_call *c, int status, const struct json *v, const struct err *e)
{
    (void)c;
    (void)status;
    (void)v;
    (void)e;
    test_fail(__FILE__, __LINE__, "a call that was given up has answered");
}

TEST(a_call_that_is_given_up_says_nothing_more)
{
    plug_open(NULL);
    plug_load("x", "tool{name='t', run=function(ctx) local p = ctx.progress timer.sleep(100) end}");
    struct gen *g = gen_pin(gen_current(rig.engine));
    struct gen_item *it = gen_item_find(g, GEN_TOOL, STR("t"));
    const struct gen_target *face = gen_item_face(it);
    struct json input = {.type = JSON_OBJ};
    struct gen_call c = {.input = &input, .done = never};
    face->call(gen_item_data(it), &c);
    face->cancel(gen_item_data(it), &c);
    gen_unpin(g);
    rig_settle();
    plug_close();
}

static char landed[100];

static void on_landed(struct gen_call *c, int status, const struct json *v, const struct err *e)
{
    (void)c;
    struct str output = json_str(json_get(v, "output"), e != NULL ? e->msg : "");
    snprintf(landed, sizeof landed, "%d " STR_FMT, status, STR_ARG(output));
}

TEST(a_call_in_flight_ends_on_the_old_code)
{
    plug_open(NULL);
    plug_load("x", "tool{name='t', run=function() timer.sleep(0.05) return 'old' end}");
    struct gen *g = gen_pin(gen_current(rig.engine));
    struct gen_item *it = gen_item_find(g, GEN_TOOL, STR("t"));
    struct json input = {.type = JSON_OBJ};
    struct gen_call c = {.input = &input, .done = on_landed};
    landed[0] = '\0';
    ((const struct gen_target *)gen_item_face(it))->call(gen_item_data(it), &c);
    plug_load("x", "tool{name='t', run=function() return 'new' end}");
    CHECK_STR(landed, "");
    CHECK_STR(plug_call(GEN_TOOL, "t", "{}"), "{\"output\":\"new\",\"success\":true}");
    while (landed[0] == '\0') {
        loop_run_once(&l, true);
    }
    CHECK_STR(landed, "0 old");
    gen_unpin(g);
    plug_close();
}

// ---- commands, prompts, flags -----------------------------------------------------------------

TEST(commands_and_prompt_sections_answer)
{
    plug_open(NULL);
    struct hook_ctx ctx = ctx_of();
    plug_ctx = &ctx;
    plug_load(
        "x",
        "command{name='c', run=function(args, ctx) return {got=args[1], at=ctx.working_dir} end}"
        "command{name='bad', run=function() return nil, 'no' end}"
        "prompt('fixed') prompt{text=function(ctx) return 'for ' .. ctx.session_id end}"
        "prompt{id='list', text=function() return {} end}");
    CHECK(strstr(plug_call(GEN_COMMAND, "c", "[\"a\"]"), "\"got\":\"a\"") != NULL);
    CHECK_STR(plug_call(GEN_COMMAND, "bad", "[]"), "!no");
    CHECK(strstr(plug_items("x"), "prompt x {\"priority\":0,\"text\":\"fixed\"}") != NULL);
    CHECK_STR(plug_call(GEN_PROMPT, "x-2", "null"), "\"for s-1\"");
    plug_call(GEN_PROMPT, "list", "null");
    CHECK_INT(plug_status, ERR_INVALID);
    arena_fini(&arena);
    plug_close();
}

static const struct json *chosen;
static char asked[100];

static const struct json *choose(void *arg, struct str key)
{
    (void)arg;
    snprintf(asked, sizeof asked, STR_FMT, STR_ARG(key));
    return chosen;
}

TEST(a_flag_is_what_was_chosen_else_its_default)
{
    const struct json yes = {.type = JSON_BOOL, .b = true};
    const struct json text = {.type = JSON_STR, .s = STR("x")};
    rig_choice = choose;
    plug_open(NULL);
    plug_load("x",
              "local v = flag{name='verbose'} local n = flag{name='n', type='integer', default=3}"
              "tool{name='t', run=function() return tostring(v()) .. n() end}");
    chosen = NULL;
    CHECK_STR(plug_call(GEN_TOOL, "t", "{}"), "{\"output\":\"false3\",\"success\":true}");
    CHECK_STR(asked, "flags.x.n");
    chosen = &yes;
    CHECK_STR(plug_call(GEN_TOOL, "t", "{}"), "{\"output\":\"true3\",\"success\":true}");
    chosen = &text; // of the wrong type
    CHECK_STR(plug_call(GEN_TOOL, "t", "{}"), "{\"output\":\"false3\",\"success\":true}");
    CHECK_INT(plug_fault("y", "flag{name='a', type='integer', default='x'}")->code,
              DIAG_LOAD_FAILED);
    plug_close();
}

TEST(an_offer_that_is_too_large_as_json_is_refused)
{
    static const char *const codes[] = {
        "prompt(big)",
        "prompt{text=big}",
        "command{name='c', description=big, run=print}",
        "flag{name='f', type='string', default=big}",
        "tool{name='t', description=big, run=print}",
        "provider{name='p', description=big, stream=print}",
        "mcp.prompt{name='m', description=big, get=print}",
        "mcp.resource{uri='a://b', name='r', description=big, read=print}",
    };
    plug_open((const char *[]){"limits.memory_mb=256", NULL});
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        const struct gen_diag *d =
            plug_fault("x", rig_code("local big = ('\"'):rep(9000000) %s", codes[i]));
        CHECK(strstr(d->message, "is larger than 16 MiB as JSON") != NULL);
    }
    plug_close();
}

// ---- routes -----------------------------------------------------------------------------------

TEST(a_route_gets_the_request)
{
    plug_open(NULL);
    plug_load("x",
              "route('POST', '/a/:b/*', function(r) return r.method .. r.path .. r.params.b .. "
              "r.params['*'] .. r.query.q .. r.headers['x-a'] .. r.body .. r.json.n .. "
              "tostring(r.nothing) end)");
    CHECK_STR(plug_route("x", "POST", "/a/1/2/3", "q=a%20b+c&x", "{\"n\":7}"),
              "200 content-type=application/json \"POST/a/1/2/312/3a b c1, 2{\\\"n\\\":7}7nil\"");
    plug_close();
}

TEST(whatever_a_route_returns_is_an_answer)
{
    static const struct {
        const char *returns, *expect;
    } cases[] = {
        {"nil", "204 "},
        {"{a=1}", "200 content-type=application/json {\"a\":1}"},
        {"'text'", "200 content-type=application/json \"text\""},
        {"{status='open'}", "200 content-type=application/json {\"status\":\"open\"}"},
        {"{status=404}", "404 "},
        {"response{body='hi'}", "200 content-type=text/plain; charset=utf-8 hi"},
        {"{status=201, headers={['X-B']='1'}, body={1}}",
         "201 X-B=1 content-type=application/json [1]"},
        {"response{headers={['content-type']='a/b'}, body='\\255'}", "200 content-type=a/b \xff"},
        {"response{headers={['set-cookie']={'a','b'}}}", "200 set-cookie=a set-cookie=b "},
        {"response{headers={['x']='a\\r\\nb: c'}}",
         "!an answer cannot have the header 'x' like this (x.lua:1)"},
        {"response{headers={['x y']='a'}}",
         "!an answer cannot have the header 'x y' like this (x.lua:1)"},
        {"{status=99}", "!a status is 200 to 599, not 99 (x.lua:1)"},
        {"{status=204, body='x'}", "!an answer with status 204 has no body (x.lua:1)"},
        {"{f=print}", "!value.f: a function cannot be sent (x.lua:1)"},
    };
    plug_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        plug_load("x", rig_code("route('GET', '/', function() return %s end)", cases[i].returns));
        CHECK_STR(plug_route("x", "GET", "/", "", ""), cases[i].expect);
    }
    plug_close();
}

TEST(a_route_that_is_too_slow_three_times_is_switched_off)
{
    plug_open((const char *[]){"limits.tool_ms=100", NULL});
    plug_load("x", "route('GET', '/', function(r) if r.query.slow then timer.sleep(100) end end)");
    for (int i = 0; i < 2; i++) {
        plug_route("x", "GET", "/", "slow=1", "");
        CHECK_INT(plug_status, ERR_TIMEOUT);
    }
    CHECK_STR(plug_route("x", "GET", "/", "", ""), "204 "); // not in a row
    for (int i = 0; i < 3; i++) {
        plug_route("x", "GET", "/", "slow=1", "");
        CHECK_INT(plug_status, ERR_TIMEOUT);
    }
    plug_route("x", "GET", "/", "", "");
    CHECK_INT(plug_status, ERR_DENIED);
    CHECK(rig_noted("x", DIAG_HOOK_DISABLED, "ran out of time 3 times"));
    plug_load("x", "route('GET', '/', function(r) end)");
    CHECK_STR(plug_route("x", "GET", "/", "", ""), "204 ");
    plug_close();
}

// ---- questions ----------------------------------------------------------------------------------

static struct hook_ask *pending; // the question under way; NULL: none

static int on_ask(void *arg, struct hook_ask *ask, const struct json *requests,
                  const struct json **answers, struct err *e)
{
    (void)arg;
    (void)requests;
    (void)answers;
    (void)e;
    pending = ask;
    return 1;
}

static void on_forget(void *arg, struct hook_ask *ask)
{
    (void)arg;
    CHECK(pending == ask);
    pending = NULL;
}

static const struct hook_caller asker = {.ask = on_ask, .forget = on_forget};

TEST(a_question_of_other_code_ends_with_the_call_whose_ctx_asked_it)
{
    plug_open(NULL);
    struct hook_ctx ctx = ctx_of();
    ctx.caller = &asker;
    plug_ctx = &ctx;
    plug_load("x", "tool{name='t', run=function(c)\n"
                   "  timer.after(0, function() log.info('asked', c.ask{k = {method = 'm'}}) end)\n"
                   "  timer.sleep(0.05) return 'done' end}");
    CHECK_STR(plug_call(GEN_TOOL, "t", "{}"), "{\"output\":\"done\",\"success\":true}");
    if (pending != NULL) { // as a client would that answers now
        pending->answered(pending, NULL, &(struct err){.msg = "too late"});
    }
    while (plug_said("x", "asked nil ctx.ask: the call that asked has ended") == 0) {
        loop_run_once(&l, true);
    }
    CHECK(pending == NULL);
    plug_ctx = NULL;
    arena_fini(&arena);
    plug_close();
}

TEST(a_question_is_answered_and_its_time_does_not_count)
{
    const char *const flags[] = {"limits.tool_ms=100", NULL};
    plug_open(flags);
    struct hook_ctx ctx = ctx_of();
    ctx.caller = &asker;
    plug_ctx = &ctx;
    plug_load("x", "tool{name='t', run=function(c)\n"
                   "  return tostring(c.ask{k = {method = 'm'}}) end}\n"
                   "timer.every(0.05, function() log.info('beat') end)");
    struct json input = {.type = JSON_OBJ};
    struct gen *g = gen_pin(gen_current(rig.engine));
    struct gen_item *it = gen_item_find(g, GEN_TOOL, STR("t"));
    struct gen_call c = {.input = &input, .ctx = plug_ctx, .done = on_landed};
    landed[0] = '\0';
    ((const struct gen_target *)gen_item_face(it))->call(gen_item_data(it), &c);
    while (plug_said("x", "beat") < 4) { // twice as long as a tool may take
        loop_run_once(&l, true);
    }
    CHECK_STR(landed, "");
    CHECK(pending != NULL);
    pending->answered(pending, NULL, &(struct err){.msg = "no"});
    CHECK_STR(landed, "0 nil");
    gen_unpin(g);
    pending = NULL;
    plug_ctx = NULL;
    arena_fini(&arena);
    plug_close();
}
