// plugins{...}: plugins that are part of one of the hub's modules.

#include "bind/bind_int.h"
#include "unit/bind/lab.h"
#include "unit/bind/plug.h"

#define INIT            "user/init.lua"
#define HAS(text, part) (strstr(text, part) != NULL)

static void open_init(const char *text)
{
    lab_open((const char *const[]){INIT, text, NULL});
}

static const char *call(const char *tool)
{
    return plug_call(GEN_TOOL, tool, "{}");
}

TEST(a_table_and_a_function_are_units_of_their_own)
{
    open_init("plugins { {name = 'a', tools = {t = function() return 1 end}},\n"
              "  function(ctx) assert(ctx.name == 'init-2') tool{name = 'u', run = function() "
              "return 2 end} end }");
    CHECK_STR(plug_unit("a")->origin, "init");
    CHECK_STR(plug_unit("a")->layer, "user");
    CHECK(HAS(plug_unit("a")->path, INIT));
    CHECK_STR(call("t"), "{\"output\":\"1\",\"success\":true}");
    CHECK_STR(call("init-2:u"), "{\"output\":\"2\",\"success\":true}");
    CHECK_INT(lab_revision("lua:user.init"), 1);
    lab_close();
}

#define PARTS                                                                                      \
    "api='1.0', name='x', hooks={on_tool_call={run=f, tool='shell', priority=7}, final=f},"        \
    "tools={{name='t', description='d', input={n='integer', s='string?'}, run=f}},"                \
    "routes={['GET /a/:b']=f}, commands={{name='c', run=f}}, prompt={id='p', text='hello'},"       \
    "preserve_ui='k', on={['plugin.loaded']=f}"

TEST(what_is_inside_contributes_what_the_same_plugin_does_as_a_file)
{
    static char file[16384];
    plug_open(NULL);
    plug_load("x", "local function f() end return {" PARTS "}");
    snprintf(file, sizeof file, "%s", plug_items("x"));
    plug_close();
    open_init("local function f() end plugins { {" PARTS "} }");
    CHECK_STR(plug_items("x"), file);
    lab_change(INIT, "local function f() end plugins { function(ctx) return {" PARTS "} end }");
    CHECK(plug_unit("x") == NULL);
    CHECK_STR(plug_items("init-1"), file);
    lab_close();
}

TEST(they_are_replaced_and_go_with_the_version_that_names_them)
{
    open_init("plugins { {name = 'a', tools = {t = function() return 1 end}}, {name = 'b'} }");
    lab_change(INIT, "plugins { {name = 'a', tools = {t = function() return 2 end}} }");
    CHECK_INT(lab_revision("a"), 2);
    CHECK(plug_unit("b") == NULL);
    CHECK_STR(call("t"), "{\"output\":\"2\",\"success\":true}");
    lab_change(INIT, "plugins { {name = 'a', tools = {t = function() return 3 end}} } error('no')");
    CHECK_INT(lab_revision("a"), 2);
    CHECK_STR(call("t"), "{\"output\":\"2\",\"success\":true}");
    lab_change(INIT, "return {}");
    CHECK(plug_unit("a") == NULL);
    CHECK_INT(lab_revision("lua:user.init"), 3);
    lab_close();
}

TEST(a_broken_one_fails_alone_and_its_last_good_version_goes_on)
{
    open_init("plugins { {name = 'a', tools = {t = function() return 1 end}},\n"
              "{name = 'b', hooks = {on_tol_call = print}}, 7, {name = 'No'}, {name = 'a'},\n"
              "{path = 3}, {path = ''}, {module = 'lib.none'}, function()\n error('oh') end,\n"
              "{name = 'init-1'},"
              "{name = 'c', tools = {u = function() return 1 end}} }");
    CHECK_INT(lab_revision("lua:user.init"), 1);
    CHECK(plug_unit("a") != NULL && plug_unit("c") != NULL && plug_unit("b") == NULL);
    CHECK(HAS(lab_diag("b")->message, "did you mean 'on_tool_call'"));
    CHECK_INT(lab_diag("init-3")->code, DIAG_MANIFEST_INVALID);
    CHECK_INT(lab_diag("init-4")->code, DIAG_NAME_INVALID);
    CHECK_INT(lab_diag("init-5")->code, DIAG_NAME_DUPLICATE);
    CHECK_INT(lab_diag("init-6")->code, DIAG_MANIFEST_INVALID);
    CHECK(HAS(lab_diag("init-7")->message, "empty"));
    CHECK(HAS(lab_diag("init-8")->message, "there is no module 'lib.none'"));
    CHECK_INT(lab_diag("init-9")->line, 4);
    CHECK_INT(lab_diag("init-10")->code, DIAG_NAME_INVALID); // names by place are ours
    CHECK_STR(lab_diag("init-9")->origin, "init");
    lab_change(INIT, "plugins { {name = 'a', tools = {t = 5}} }");
    CHECK_INT(lab_state("a"), GEN_FAILED);
    CHECK_STR(call("t"), "{\"output\":\"1\",\"success\":true}"); // its last good version
    CHECK(lab_diag("b") == NULL && lab_diag("init-9") == NULL);
    lab_change(INIT, "return {}");
    CHECK(plug_unit("a") == NULL && lab_diag("a") == NULL);
    lab_close();
}

TEST(their_life_is_told_and_their_code_may_require)
{
    lab_open((const char *const[]){
        INIT,
        "plugins { {name = 'a', tools = {t = function() return require('lib.late').n end}, on = {\n"
        "plugin_start = function(ev) log.info('up ' .. ev.reason) end,\n"
        "plugin_shutdown = function(ev) log.info('down ' .. ev.reason) end}} }",
        "lib/late.lua", "return {n = 9}", NULL});
    CHECK_INT(plug_said("a", "up start"), 1);
    CHECK_STR(call("t"), "{\"output\":\"9\",\"success\":true}");
    lab_change(INIT, "plugins { {name = 'a'} }");
    CHECK_INT(plug_said("a", "down reload"), 1);
    lab_close();
}

TEST(a_dry_run_says_what_would_come_and_nothing_comes)
{
    open_init("return {}");
    lab_save(INIT, "plugins { {name = 'a'} }");
    const struct gen_report *r = lab_ask(&(struct gen_request){.trigger = "test", .dry_run = true});
    CHECK(!r->committed && plug_unit("a") == NULL);
    CHECK_INT(lab_state("a"), GEN_ADDED);
    lab_close();
}

TEST(the_name_of_one_inside_reloads_its_module)
{
    open_init("plugins { {name = 'a'} }");
    struct str name = STR("a");
    lab_ask(&(struct gen_request){
        .trigger = "test", .wait_all = true, .force = true, .names = &name, .n_names = 1});
    CHECK_INT(lab_revision("a"), 2);
    lab_close();
}

TEST(plugins_is_said_by_a_file_that_loads_and_by_nobody_else)
{
    lab_open((const char *const[]){"lib/other.lua", "plugins {}", INIT,
                                   "plugins { function() plugins {} end }\n"
                                   "tried = pcall(tool, {name = 'x', run = print})\n"
                                   "assert(not tried)\n"
                                   "_G.later = function() return pcall(plugins, {}) end\n"
                                   "assert(not pcall(require, 'lib.other'))",
                                   NULL});
    CHECK(HAS(lab_diag("init-1")->message, "while it loads"));
    CHECK_STR(lab_eval("return later()"), "false");
    lab_close();
}

TEST(they_come_back_in_a_new_state_when_the_old_one_is_full)
{
    static const char *const small[] = {"limits.memory_mb=4", "limits.lua_ms=20000", NULL};
    lab_open_with(small, (const char *const[]){
                             INIT,
                             "plugins { {name = 'a', tools = {t = function() return 1 end}},\n"
                             "{name = 'b', tools = {fill = function() _G.h = {}\n"
                             "for i = 1, 1e9 do _G.h[i] = {i} end end}} }",
                             NULL});
    const struct space *old = lab.modules->space;
    call("fill");
    while (lab.modules->space == old || gen_is_running(rig.engine)) {
        loop_run_once(&l, true);
    }
    rig_settle();
    lab.report = gen_last_report(rig.engine);
    CHECK_STR(call("t"), "{\"output\":\"1\",\"success\":true}");
    CHECK_INT(lab_revision("a"), 2);
    CHECK_INT(lab_diag("lua:user.init")->code, DIAG_MEMORY_LIMIT); // it is part of that file
    lab_close();
}
