#include "base/time.h"
#include "unit/bind/plug.h"

#define TOOL(name) plug_call(GEN_TOOL, name, "{}")
#define CHECK_HAS(text, part)                                                                      \
    do {                                                                                           \
        const char *has_text = (text);                                                             \
        if (strstr(has_text, part) == NULL) {                                                      \
            test_fail(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", part, has_text);              \
        }                                                                                          \
    } while (0)

static const char RETURNS[] = "tool{name='t', run=function() return %s end}";

// ---- the three forms ------------------------------------------------------------------------

#define PARTS                                                                                      \
    "api='1.0', name='x', hooks={on_tool_call={run=f, tool='shell', priority=7}, final=f},"        \
    "tools={{name='t', description='d', input={n='integer', s='string?'}, run=f}},"                \
    "routes={['GET /a/:b']=f}, commands={{name='c', run=f}}, prompt={id='p', text='hello'},"       \
    "preserve_ui='k', on={['plugin.loaded']=f}"

TEST(a_plugin_that_registers_returns_a_table_or_a_function_has_the_same_items)
{
    char first[16384];
    plug_open(NULL);
    plug_load("x", "local function f() end "
                   "plugin{api='1.0', name='x'} "
                   "on_tool_call({tool='shell', priority=7}, f) on_final(f) "
                   "tool{name='t', description='d', input={s='string?', n='integer'}, run=f} "
                   "route('get', '/a/:b', f) command{name='c', run=f} "
                   "prompt{id='p', text='hello'} preserve_ui('k') on('plugin.loaded', f)");
    snprintf(first, sizeof first, "%s", plug_items("x"));
    CHECK_HAS(first, "tool t {\"description\":\"d\",\"input_schema\":");
    CHECK_HAS(first, "route GET /a/:b");
    CHECK_HAS(first, "output ui-key:k");
    plug_load("x", "local function f() end return {" PARTS "}");
    CHECK_STR(plug_items("x"), first);
    plug_load("x", "local function f() end return function(options, ctx) "
                   "assert(type(options) == 'table' and ctx.name == 'x') return {" PARTS "} end");
    CHECK_STR(plug_items("x"), first);
    plug_close();
}

TEST(an_unknown_hook_of_a_table_is_an_error_with_the_nearest)
{
    plug_open(NULL);
    CHECK_HAS(plug_fault("x", "return {hooks={on_tol_call=print}}")->message,
              "did you mean 'on_tool_call'");
    plug_close();
}

TEST(a_plugin_for_another_api_is_refused_and_the_manifest_wins)
{
    plug_open(NULL);
    CHECK_INT(plug_fault("x", "plugin{api='2.0'}")->code, DIAG_API_INCOMPATIBLE);
    CHECK_HAS(plug_diag("x")->message, "Incompatible plugin API version: 2.0 (expected 1.0)");
    plug_files("y", (const char *[]){"init.lua", "plugin{api='2.0'}", "plugin.json",
                                     "{\"api\":\"1.0\"}", NULL});
    CHECK(plug_unit("y") != NULL);
    plug_close();
}

// ---- loads that fail ------------------------------------------------------------------------

// T2: a failed reload left the module without its tools, hooks and timers.
TEST(a_version_that_fails_leaves_the_one_before_whole)
{
    char before[16384];
    plug_open(NULL);
    plug_load("x",
              "state.set('k', 'old') timer.every(1000, function() end) on_final(function() end) "
              "tool{name='t', run=function() return state.get('k') end}");
    snprintf(before, sizeof before, "%s", plug_items("x"));
    const struct gen_diag *d = plug_fault("x", "state.set('k', 'new')\n"
                                               "tool{name='t', run=function() return 'new' end}\n"
                                               "route('GET', '/', function() end)\n"
                                               "error('oh no')");
    CHECK_INT(d->code, DIAG_LOAD_FAILED);
    CHECK_INT(d->line, 4);
    CHECK_STR(d->path, "/plugins/x.lua");
    CHECK_STR(d->message, "oh no");
    CHECK_STR(plug_items("x"), before);
    CHECK_STR(TOOL("t"), "{\"output\":\"old\",\"success\":true}");
    plug_close();
}

TEST(every_way_to_fail_has_its_code_path_and_line)
{
    static const struct {
        const char *code;
        enum gen_code expect;
        int line;
    } cases[] = {
        {"local x =\n= 1", DIAG_LOAD_FAILED, 2},
        {"\nwhile true do end", DIAG_LOAD_TIMEOUT, 2},
        {"local t = {}\nfor i = 1, 1e9 do t[i] = ('x'):rep(65536) .. i end", DIAG_MEMORY_LIMIT, 2},
        {"\n\ntimer.sleep(1)", DIAG_LOAD_FAILED, 3},
        {"tool{name='T', run=print}", DIAG_LOAD_FAILED, 1},
        {"tool{name='t'}", DIAG_LOAD_FAILED, 1},
        {"tool{name='t', input={n='int'}, run=print}", DIAG_LOAD_FAILED, 1},
        {"route('GET', 'x', print)", DIAG_LOAD_FAILED, 1},
        {"return function() return function() end end", DIAG_LOAD_FAILED, 0},
    };
    plug_open((const char *[]){"limits.load_ms=1000", "limits.memory_mb=4", NULL});
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct gen_diag *d = plug_fault("x", cases[i].code);
        if (d == NULL || d->code != cases[i].expect || strcmp(d->path, "/plugins/x.lua") != 0 ||
            (cases[i].line != 0 && d->line != cases[i].line)) {
            test_fail(__FILE__, __LINE__, "case %zu: %s %s:%d %s", i,
                      d ? gen_code_name(d->code) : "none", d ? d->path : "", d ? d->line : 0,
                      d ? d->message : "");
        }
    }
    plug_load("x", rig_code(RETURNS, "1")); // and it can be mended
    plug_close();
}

TEST(an_empty_file_where_there_was_a_plugin_is_not_taken)
{
    plug_open(NULL);
    plug_load("x", rig_code(RETURNS, "1"));
    CHECK_INT(plug_fault("x", " \n\t")->code, DIAG_EMPTY_MODULE);
    CHECK_STR(TOOL("t"), "{\"output\":\"1\",\"success\":true}");
    plug_load("new", "");
    plug_close();
}

TEST(a_traceback_is_in_the_plugins_log)
{
    plug_open(NULL);
    plug_fault("x", "local function deep() error('oh') end\ndeep()");
    struct buf out;
    struct jw w;
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_arr(&w);
    bind_log_write(rig.bind, STR("x"), &w);
    jw_end_arr(&w);
    CHECK_HAS(buf_z(&out), "/plugins/x.lua:2: in main chunk");
    buf_fini(&out);
    plug_close();
}

// ---- versions and state ---------------------------------------------------------------------

// T16: a plugin's file ran twice, and its effects happened twice.
TEST(a_file_runs_once_for_each_version)
{
    plug_open(NULL);
    plug_load("x", "log.info('ran')");
    CHECK_INT(plug_said("x", "ran"), 1);
    plug_load("x", "log.info('ran')");
    CHECK_INT(plug_said("x", "ran"), 2);
    plug_close();
}

TEST(state_survives_reload_and_removal_and_globals_do_not)
{
    plug_open(NULL);
    plug_load("x", "state.set('n', {1}) leak = 1");
    plug_load("x", "local n = state.get('n') n[#n + 1] = 2 "
                   "tool{name='t', run=function() return #state.get('n') .. tostring(leak) end}");
    CHECK_STR(TOOL("t"), "{\"output\":\"2nil\",\"success\":true}");
    plug_remove("x");
    CHECK(plug_unit("x") == NULL);
    rig_settle();
    plug_load("x", "tool{name='t', run=function() return #require('hub.state').get('n') end}");
    CHECK_STR(TOOL("t"), "{\"output\":\"2\",\"success\":true}");
    plug_close();
}

TEST(a_dry_run_changes_nothing)
{
    plug_open(NULL);
    plug_load("x", "state.set('k', 1) tool{name='t', run=function() return state.get('k') end}");
    plug_try("x", "state.set('k', 2) tool{name='t', run=function() return 'no' end}", true);
    CHECK_STR(TOOL("t"), "{\"output\":\"1\",\"success\":true}");
    plug_close();
}

TEST(start_and_shutdown_are_told_with_reasons_and_their_faults_reported)
{
    plug_open(NULL);
    plug_load("x", "on('plugin_start', function(ev) log.info('up ' .. ev.reason) end)"
                   "on('plugin_shutdown', function(ev) error('cannot ' .. ev.reason) end)");
    CHECK_INT(plug_said("x", "up start"), 1);
    plug_load("x", "on('plugin_start', function(ev) log.info('up ' .. ev.reason) end)");
    CHECK_INT(plug_said("x", "up reload"), 1);
    CHECK_INT(plug_diag("x")->code, DIAG_SHUTDOWN_FAILED);
    CHECK_STR(plug_diag("x")->message, "cannot reload");
    plug_load("x", "on('plugin_start', function(ev) error('late') end)");
    CHECK_INT(plug_diag("x")->code, DIAG_START_FAILED);
    plug_close();
}

// ---- require --------------------------------------------------------------------------------

// T17: plugins shared one path, so that one's `util` was the other's.
TEST(functions_of_a_plugins_table_are_called_as_those_of_a_module)
{
    static const char told[] =
        "local M = {} local function say(w) return function() log.info(w) end end\n"
        "M._before_reload = say('before') M._after_reload = say('after')\n"
        "M._before_unload = say('unload') return M";
    plug_open(NULL);
    plug_load("x", told);
    CHECK_INT(plug_said("x", "after"), 0); // it came, and was not reloaded
    plug_load("x", "return {_after_reload = function() error('oh') end}");
    CHECK_INT(plug_said("x", "before"), 1);
    CHECK_INT(plug_diag("x")->code, DIAG_START_FAILED);
    CHECK_STR(plug_diag("x")->message, "_after_reload: oh");
    plug_load("x", told);
    CHECK_INT(plug_said("x", "after"), 1);
    plug_remove("x");
    CHECK_INT(plug_said("x", "unload"), 1);
    CHECK_INT(plug_said("x", "before"), 1);
    plug_close();
}

TEST(two_plugins_have_a_util_each)
{
    static const char server[] = "tool{name=require('util').name, run=function() "
                                 "return require('util').name .. require('a.b') end}";
    plug_open(NULL);
    plug_files("x", (const char *[]){"init.lua", server, "util.lua", "return {name='one'}",
                                     "a/b.lua", "return 1", NULL});
    plug_files("y", (const char *[]){"init.lua", server, "util.lua", "return {name='two'}",
                                     "a/b/init.lua", "return 2", NULL});
    CHECK_STR(TOOL("one"), "{\"output\":\"one1\",\"success\":true}");
    CHECK_STR(TOOL("two"), "{\"output\":\"two2\",\"success\":true}");
    plug_close();
}

TEST(a_file_is_run_once_a_version_and_comes_from_memory)
{
    plug_open(NULL);
    const char *files[] = {"init.lua",
                           "assert(require('m') == require('m'))"
                           "assert(require('json') == json)",
                           "m.lua", "log.info('m ran') return {}", NULL};
    plug_files("x", files);
    CHECK_INT(plug_said("x", "m ran"), 1);
    plug_files("x", files);
    CHECK_INT(plug_said("x", "m ran"), 2);
    plug_close();
}

TEST(a_fault_in_a_required_file_is_told_with_its_place)
{
    plug_open(NULL);
    plug_files("x",
               (const char *[]){"init.lua", "require('m')", "m.lua", "\n\nerror('bad')", NULL});
    CHECK_STR(plug_diag("x")->path, "/plugins/x/m.lua");
    CHECK_INT(plug_diag("x")->line, 3);
    plug_files("x", (const char *[]){"init.lua", "require('a')", "a.lua", "require('b')", "b.lua",
                                     "require('a')", NULL});
    CHECK_INT(plug_diag("x")->code, DIAG_MODULE_CYCLE);
    CHECK_HAS(plug_diag("x")->message, "a -> b -> a");
    CHECK_HAS(plug_fault("x", "require('../../etc/passwd')")->message,
              "invalid module name '../../etc/passwd'");
    CHECK_HAS(plug_fault("x", "require('nothing')")->message, "'nothing' not found");
    plug_close();
}

TEST(a_required_file_that_failed_can_be_asked_for_again)
{
    plug_open(NULL);
    plug_files(
        "x", (const char *[]){"init.lua",
                              "local ok, why = pcall(require, 'm') assert(not ok)"
                              "ready = true tool{name='t', run=function() return require('m') end}",
                              "m.lua", "if not ready then error('early') end return 5", NULL});
    CHECK_STR(TOOL("t"), "{\"output\":\"5\",\"success\":true}");
    plug_close();
}

TEST(a_plugin_sees_what_another_returned_and_its_newest_version)
{
    plug_open(NULL);
    plug_load("user", "local y = require('plugin.lib') tool{name='t', run=function() "
                      "return y.sides .. '/' .. y.twice({n=4}).n end}"
                      "tool{name='bad', run=function() y.fail() end}"
                      "tool{name='other', run=function() return tostring(y['sides\\0']) end}"
                      "tool{name='write', run=function() y.sides = 1 end}");
    CHECK_HAS(TOOL("t"), "plugin 'lib' is not available");
    plug_load("lib", "return {sides=6, twice=function(t) return {n=t.n*2} end, "
                     "fail=function() error('inside') end}");
    CHECK_STR(TOOL("t"), "{\"output\":\"6/8\",\"success\":true}");
    CHECK_STR(TOOL("other"), "{\"output\":\"nil\",\"success\":true}");
    plug_load("lib", "return {sides=7, twice=function(t) return {n=t.n*3} end}");
    CHECK_STR(TOOL("t"), "{\"output\":\"7/12\",\"success\":true}");
    CHECK_HAS(TOOL("bad"), "attempt to call a nil value");
    CHECK_HAS(TOOL("write"), "cannot be written to");
    plug_remove("lib");
    CHECK_HAS(TOOL("t"), "plugin 'lib' is not available");
    plug_close();
}

TEST(plugins_that_call_each_other_without_end_are_stopped)
{
    plug_open(NULL);
    plug_load("a", "return {f=function() return require('plugin.b').f() end}");
    plug_load("b", "tool{name='t', run=function() return require('plugin.a').f() end}"
                   "return {f=function() return require('plugin.a').f() end}");
    CHECK_HAS(TOOL("t"), "too deep");
    plug_close();
}

// ---- names and namespaces -------------------------------------------------------------------

TEST(a_second_registration_of_a_name_is_a_warning_and_the_first_stays)
{
    plug_open(NULL);
    plug_load("x", "tool{name='t', run=function() return 'first' end}\n"
                   "local h, why = tool{name='t', run=function() return 'second' end}\n"
                   "assert(h == nil and why)\n"
                   "route('GET', '/', function() return 1 end) route('GET', '/', function() end)");
    CHECK_STR(TOOL("t"), "{\"output\":\"first\",\"success\":true}");
    CHECK(rig_noted("x", DIAG_TOOL_CONFLICT, "'t' is already registered"));
    CHECK(rig_noted("x", DIAG_ROUTE_CONFLICT, "'GET /' is already registered"));
    plug_close();
}

TEST(what_is_registered_late_can_be_taken_back)
{
    plug_open(NULL);
    plug_load("x", "local h tool{name='make', run=function() "
                   "h = tool{name='late', run=function() return 1 end} end}"
                   "tool{name='take', run=function() return h:off() end}");
    TOOL("make");
    CHECK_STR(TOOL("late"), "{\"output\":\"1\",\"success\":true}");
    CHECK_STR(TOOL("take"), "{\"output\":\"true\",\"success\":true}");
    CHECK(gen_item_find(gen_current(rig.engine), GEN_TOOL, STR("late")) == NULL);
    plug_close();
}

TEST(store_and_secrets_are_the_plugins_own)
{
    static const char code[] =
        "tool{name='get', run=function() return store.get('k') or 'nothing' end}"
        "tool{name='set', run=function() store.set('k', 'mine') end}"
        "tool{name='secret', run=function() return secrets.get('KEY') end}";
    plug_open(NULL);
    plug_load("x", code);
    TOOL("set");
    CHECK_STR(TOOL("get"), "{\"output\":\"mine\",\"success\":true}");
    CHECK_HAS(TOOL("secret"), "may not read 'KEY': add \\\"secret:KEY\\\"");
    plug_remove("x");
    plug_set("/some/project", "[\"secret:KEY\"]");
    plug_load("x", code);
    CHECK_STR(TOOL("get"), "{\"output\":\"nothing\",\"success\":true}");
    CHECK(strstr(TOOL("secret"), "may not read") == NULL);
    plug_close();
}

TEST(a_failed_load_that_set_many_keys_is_undone_at_once)
{
    plug_open((const char *[]){"limits.load_ms=60000", NULL});
    uint64_t began = time_mono_ns();
    const struct gen_diag *d =
        plug_fault("x", "for i = 1, 30000 do state.set('k' .. i, i) end error('no')");
    CHECK_STR(d->message, "no");
    CHECK((time_mono_ns() - began) / 1000000 < 2000);
    plug_close();
}
