// The traps that other systems of this kind fell into, each as a test; the names are those of the
// study: T1 teardown before compile, T3 gutted classes, T4 half files, T5 stale references, T6 windows
// without a handler, T7 ways of saving, T8 and T14 leaks, T11 and T12 code that does not end.

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/path.h"
#include "unit/bind/lab.h"

// ---- T1: nothing is torn down before the new code has proved itself ------------------------------

static const char with_callbacks[] = "local M = {v = %d}\n"
                                     "function M._before_reload() say('before', %d, M.v) end\n"
                                     "function M._after_reload() say('after', %d, M.v) end\n"
                                     "function M._before_unload() say('unload', %d) end\n"
                                     "hooks.on('ping', 'x', function() say('pong', %d) end)\n"
                                     "return M";

static const char *callbacks(int v)
{
    static char text[2][1024];
    static unsigned at;
    char *out = text[at++ % 2];
    snprintf(out, sizeof text[0], with_callbacks, v, v, v, v, v);
    return out;
}

TEST(before_reload_is_called_only_when_the_new_code_has_loaded)
{
    lab_open((const char *const[]){"user/init.lua", callbacks(1), NULL});
    rig_hush();
    lab_change("user/init.lua", "local M = {");
    lab_change("user/init.lua", "error('thrown')");
    lab_change("user/init.lua", "");
    CHECK_STR(buf_z(&rig.said), "");
    lab_eval("hooks.notify('ping')");
    CHECK_STR(buf_z(&rig.said), "pong 1\n"); // its registrations are as they were
    rig_hush();
    lab_change("user/init.lua", callbacks(2));
    CHECK_STR(buf_z(&rig.said), "before 1 1\nafter 2 2\n"); // the old one still saw its own fields
    lab_close();
}

TEST(callbacks_that_fail_are_warnings_and_stop_nothing)
{
    lab_open_with(
        (const char *const[]){"limits.lua_ms=500", NULL},
        (const char *const[]){
            "user/init.lua", "return {n = 1, _before_reload = function() error('old') end}", NULL});
    lab_change("user/init.lua", "return {n = 2, _after_reload = function() error('new') end}");
    CHECK(lab.report->ok);
    CHECK_INT(lab.report->n_diags, 2);
    CHECK_INT(lab.report->diags[0].code, DIAG_SHUTDOWN_FAILED);
    CHECK_STR(lab.report->diags[0].message, "_before_reload: old");
    CHECK_INT(lab.report->diags[1].code, DIAG_START_FAILED);
    CHECK_STR(lab_eval("return require('user.init').n"), "2");
    lab_change("user/init.lua",
               "return {n = 3, _before_reload = function() while true do end end}");
    CHECK_INT(lab.report->n_diags, 0); // they belong to the report of their commit
    lab_change("user/init.lua", "return {n = 4}");
    CHECK_INT(lab.report->diags[0].code, DIAG_SHUTDOWN_TIMEOUT);
    CHECK_STR(lab_eval("return require('user.init').n"), "4");
    lab_close();
}

TEST(before_unload_is_called_when_the_hub_stops_and_cannot_begin_anything)
{
    lab_open_builtin(
        (const char *const[]){"user/init.lua",
                              "return {_before_unload = function()\n"
                              "  local ok, why = loader.reload('user.init', print)\n"
                              "  local f = io.open('left', 'w') f:write(tostring(why)) f:close()\n"
                              "end}",
                              NULL});
    struct buf text;
    buf_init(&text, SIZE_MAX);
    CHECK_INT(chdir(test_dir()), 0);
    lab_close();
    CHECK_INT(path_read("left", &text, NULL), 0);
    CHECK_STR(buf_z(&text), "the hub is stopping");
    buf_fini(&text);
}

// ---- T3: classes ---------------------------------------------------------------------------------

static const char class_v1[] = "local C = state.class('Boat')\nC.count = 7\n"
                               "function C.new() return setmetatable({}, C) end\n"
                               "function C:name() return 'one' end\n"
                               "function C:old() return 'old' end\n"
                               "C.__tostring = function() return 'boat' end\n"
                               "state.get('boat', C.new())\nreturn C";

TEST(live_instances_get_new_methods_at_commit_and_only_then)
{
    lab_open((const char *const[]){"lib/boat.lua", class_v1, NULL});
    CHECK_STR(lab_eval("return state.get('boat'):name()"), "one");
    lab_change("lib/boat.lua",
               "local C = state.class('Boat')\nfunction C:name() return 'half' end\nerror('no')");
    CHECK_STR(lab_eval("return state.get('boat'):name()"), "one");
    CHECK_STR(lab_eval("return state.get('boat'):old()"), "old");
    CHECK_STR(lab_eval("return tostring(state.get('boat'))"), "boat");
    lab_change(
        "lib/boat.lua",
        "local C = state.class('Boat')\nfunction C:name() return 'two ' .. C.count end\nreturn C");
    CHECK(lab.report->ok);
    CHECK_STR(lab_eval("return state.get('boat'):name()"), "two 7"); // what is no function stays
    CHECK_STR(lab_eval("return state.get('boat').old"), "nil");
    lab_close();
}

// ---- hub.state -----------------------------------------------------------------------------------

TEST(a_class_that_others_ask_for_keeps_its_methods)
{
    lab_open((const char *const[]){
        "lib/def.lua",
        "local A = state.class('A') function A:hi() return 'hi' end function A:old() end\n"
        "state.class('A').again = function() return 'again' end\n"
        "_G.a = setmetatable({}, A) return A",
        "lib/more.lua",
        "require('lib.def') local A = state.class('A') function A:more() return 'more' end return "
        "{}",
        NULL});
    CHECK_STR(lab_eval("return a:hi() .. a:more() .. a.again()"), "himoreagain");
    CHECK_STR(lab_eval("return state.class('A') == getmetatable(a) and a:hi()"), "hi"); // a handler
    lab_change("lib/more.lua", "local A = state.class('A') return {}"); // drops its own only
    CHECK_STR(lab_eval("return a:hi() .. tostring(a.more)"), "hinil");
    lab_change("lib/def.lua",
               "local A = state.class('A') function A:hi() return 'ho' end return A");
    CHECK_STR(lab_eval("return a:hi() .. tostring(a.old) .. tostring(a.again)"), "honilnil");
    lab_close();
}

TEST(state_keeps_identity_and_what_it_was_given)
{
    lab_open(NULL);
    CHECK_STR(lab_eval("return state.get('a') == state.get('a')"), "true");
    CHECK_STR(lab_eval("return state.get('f', false)"), "false");
    CHECK_STR(lab_eval("return state.get('f', 1)"), "false");
    CHECK_STR(lab_eval("state.set('n', 3) return state.get('n', 4)"), "3");
    CHECK_STR(lab_eval("state.clear('n') return state.get('n', 4)"), "4");
    CHECK_STR(lab_eval("return table.concat(state.keys(), ' ')"), "a f n");
    CHECK_STR(lab_eval("return pcall(state.get, {})"), "false");
    CHECK_STR(lab_eval("return pcall(state.class, 'n')"), "false");
    lab_close();
}

TEST(what_a_failed_load_changed_in_the_state_is_undone)
{
    lab_open((const char *const[]){
        "lib/x.lua", "state.set('kept', 'old') state.set('gone', 1) return {}", NULL});
    lab_change("lib/x.lua",
               "state.set('kept', 'new') state.set('kept', 'newer') state.clear('gone')\n"
               "state.get('fresh', {}) state.class('Fresh') error('no')");
    CHECK_STR(lab_eval("return state.get('kept')"), "old");
    CHECK_STR(lab_eval("return state.get('gone', 'nothing')"), "1");
    CHECK_STR(lab_eval("return table.concat(state.keys(), ' ')"), "gone kept");
    lab_change("lib/x.lua", "state.set('kept', 'new') return {}");
    CHECK_STR(lab_eval("return state.get('kept')"), "new");
    lab_close();
}

TEST(modules_that_write_the_same_key_stand_and_fall_together)
{
    lab_open(
        (const char *const[]){"lib/a.lua", "return {v = 1}", "lib/b.lua", "return {v = 1}", NULL});
    lab_save("lib/a.lua", "state.set('shared', 'a') return {v = 2}");
    lab_save("lib/b.lua", "state.set('shared', 'b') error('no')");
    lab_reload();
    CHECK_STR(lab_eval("return require('lib.a').v"), "1");
    CHECK_STR(lab_eval("return #state.keys()"), "0");
    lab_change("lib/b.lua", "return {v = 2}");
    CHECK_STR(lab_eval("return require('lib.b').v"), "2");
    lab_close();
}

// ---- T4: half files ------------------------------------------------------------------------------

TEST(a_file_that_is_written_in_pieces_is_never_loaded_half)
{
    lab_open((const char *const[]){"lib/x.lua", "say('v1') return {n = 1}", NULL});
    rig_hush();
    char *path = xasprintf("%s/home/lua/lib/x.lua", test_dir());
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC); // empty now, as an editor leaves it
    CHECK_INT(write(fd, "say('half')\n", 12), 12);
    for (int i = 0; i < 20; i++) {
        loop_run_once(&l, false);
    }
    CHECK_INT(write(fd, "say('v2') return {n = 2}", 24), 24);
    close(fd);
    lab_wait_revision("lua:lib.x", 2);
    CHECK_STR(buf_z(&rig.said), "half\nv2\n"); // one reload, of the whole file
    CHECK_INT(lab_revision("lua:lib.x"), 2);
    free(path);
    lab_close();
}

// ---- T5: references ------------------------------------------------------------------------------

static const char counter_module[] =
    "return {count = 0, version = %d, 'one', 'two', "
    "add = function(self) self.count = self.count + 1 return self.count end}";

TEST(a_module_has_one_copy_of_its_fields_however_it_is_held)
{
    char text[512];
    snprintf(text, sizeof text, counter_module, 1);
    lab_open((const char *const[]){"lib/c.lua", text, NULL});
    lab_eval("_G.holders = {require('lib.c')}"); // a holder that is never reloaded
    for (int v = 2; v <= 4; v++) {
        lab_eval("holders[#holders].count = holders[#holders].count + 1");
        snprintf(text, sizeof text, counter_module, v);
        lab_change("lib/c.lua", text);
        CHECK(lab.report->ok);
        lab_eval("table.insert(holders, require('lib.c'))");
        CHECK_STR(lab_eval("for _, h in ipairs(holders) do h:add() h.count = h.count + 1 end "
                           "return require('lib.c').count == 2 * #holders"),
                  "true");
        CHECK_STR(lab_eval("return holders[1].version == require('lib.c').version"), "true");
    }
    CHECK_STR(
        lab_eval(
            "return holders[1].count == holders[4].count and holders[2].count == holders[3].count"),
        "true");
    CHECK_STR(lab_eval("return #holders[1]"), "2");
    CHECK_STR(lab_eval("local n = 0 for k in pairs(holders[1]) do n = n + 1 end return n"), "5");
    CHECK_STR(lab_eval("holders[1].added = 'seen' return require('lib.c').added"), "seen");
    CHECK_STR(lab_eval("return rawget(holders[1], 'count')"), "nil");
    lab_close();
}

TEST(an_old_table_can_be_called_and_printed_as_the_new_one)
{
    lab_open((const char *const[]){
        "lib/f.lua", "return setmetatable({}, {__call = function(_, a) return 'one ' .. a end})",
        NULL});
    lab_eval("_G.held = require('lib.f')");
    lab_change("lib/f.lua",
               "return setmetatable({}, {__call = function(_, a) return 'two ' .. a end, "
               "__tostring = function() return 'I' end})");
    CHECK_STR(lab_eval("return held('x')"), "two x");
    CHECK_STR(lab_eval("return tostring(held)"), "I");
    lab_close();
}

TEST(a_table_that_a_module_only_lent_is_not_emptied)
{
    lab_open((const char *const[]){"lib/data.lua", "return state.get('data', {n = 1})", NULL});
    lab_change("lib/data.lua", "return {n = 2}");
    CHECK_STR(lab_eval("return state.get('data').n"), "1");
    CHECK_STR(lab_eval("return require('lib.data').n"), "2");
    lab_close();
}

// ---- T6: no window -------------------------------------------------------------------------------

TEST(exactly_one_handler_answers_at_every_moment_of_a_reload)
{
    static const char text[] =
        "hooks.on('tick', 'h', function(where) say('v%d', where) end)\n"
        "hooks.notify('tick', 'load %d')\n"
        "return {_before_reload = function() hooks.notify('tick', 'before') end,\n"
        "_after_reload = function() hooks.notify('tick', 'after') end}";
    char v1[512], v2[512];
    snprintf(v1, sizeof v1, text, 1, 1);
    snprintf(v2, sizeof v2, text, 2, 2);
    lab_open((const char *const[]){"user/init.lua", v1, NULL});
    rig_hush();
    lab_change("user/init.lua", v2);
    CHECK_STR(buf_z(&rig.said), "v1 load 2\nv2 before\nv2 after\n");
    lab_close();
}

// ---- T7: ways of saving --------------------------------------------------------------------------

TEST(a_save_is_seen_however_it_is_made)
{
    lab_open((const char *const[]){"user/init.lua", "return {n = 1}", NULL});
    char *path = xasprintf("%s/home/lua/user/init.lua", test_dir());
    char *other = xasprintf("%s/elsewhere.lua", test_dir());
    lab_save("user/init.lua", "return {n = 2}"); // rename over
    lab_wait_revision("lua:user.init", 2);
    lab_write_over("user/init.lua", "return {n = 3}"); // in place
    lab_wait_revision("lua:user.init", 3);
    rig_write("elsewhere.lua", "return {n = 4}");
    CHECK_INT(rename(other, path), 0); // from another directory
    lab_wait_revision("lua:user.init", 4);
    lab_remove("user/init.lua"); // removed and made again
    lab_write_over("user/init.lua", "return {n = 5}");
    lab_wait_revision("lua:user.init", 5);
    CHECK_STR(lab_eval("return require('user.init').n"), "5");
    free(path);
    free(other);
    lab_close();
}

// ---- T8, T14: nothing is left behind ---------------------------------------------------------------

static size_t open_files(void)
{
    size_t n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

TEST(many_reloads_leave_registrations_files_and_memory_as_they_were)
{
    const char *loops = getenv("AFLOAT_LOOPS");
    int n = 500 * (loops != NULL ? atoi(loops) : 1); // 20 in the long run: 10,000
    char text[1024];
    lab_open((const char *const[]){"user/init.lua", "return {}", NULL});
    size_t memory = 0, items = 0, files = 0;
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text,
                 "hooks.on('e', 'x', function() end) timer.every(100, function() end)\n"
                 "watch.directory('%s', {}, function() end) events.on('hub.*', function() end)\n"
                 "state.class('C').f = function() end return {n = %d}",
                 test_dir(), i);
        lab_write_over("user/init.lua", text); // no sync: it is the reloads that are many
        lab_reload();
        CHECK(lab.report->ok);
        if (i == n / 2) {
            lab_eval("collectgarbage()");
            memory = modules_get_stats(lab.modules).memory;
            items = lab_items();
            files = open_files();
        }
    }
    lab_eval("collectgarbage()");
    while (open_files() > files) { // a thread may still be reading what was saved last
        loop_run_once(&l, false);
    }
    size_t end = modules_get_stats(lab.modules).memory;
    printf("     %d reloads: Lua %zu -> %zu bytes, %zu -> %zu registrations, %zu -> %zu files\n", n,
           memory, end, items, lab_items(), files, open_files());
    CHECK_INT(lab_items(), items);
    CHECK(end < memory + 16 * 1024);
    lab_close();
}

// ---- T11, T12: code that waits or does not end ------------------------------------------------------

TEST(a_file_that_loads_may_not_wait)
{
    lab_open((const char *const[]){"user/init.lua", "timer.sleep(1)", NULL});
    CHECK(strstr(lab_diag("lua:user.init")->message, "cannot wait here") != NULL);
    lab_close();
}

TEST(loader_reload_waits_in_a_handler_and_says_what_happened)
{
    lab_open_builtin((const char *const[]){
        "user/x.lua", "say('x') return {}", "user/init.lua",
        "require('user.x') say(loader.reload('hub.state'))\n"
        "say(loader.reload('user.none'))\n"
        "local state = require('hub.state')\n"
        "if not state.get('once', false) then state.set('once', true)\n"
        "timer.after(0.001, function() local ok, report = loader.reload('user.x')\n"
        "say('reloaded', ok, report.trigger, report.changed[1]) end) end",
        NULL});
    CHECK(rig_said("false PROTECTED"));
    CHECK(rig_said("nil there is no module 'user.none'"));
    rig_wait("reloaded true lua lua:user.x");
    lab_close();
}

TEST(what_a_module_notified_of_in_a_dry_run_outlives_its_state)
{
    lab_open((const char *const[]){"lib/a.lua",
                                   "hooks.on('e', 'wait', function()\n"
                                   "  while not state.get('go') do timer.sleep(0.001) end\n"
                                   "end, {timeout_ms = 60000})\n"
                                   "hooks.on('e', 'look', function(t) say('n', t.n) end)",
                                   "lib/b.lua", "state.set('go', false)", NULL});
    modules_stop(lab.modules); // the watcher would load it, too
    lab_save("lib/b.lua", "hooks.notify('e', {n = 1})");
    lab_ask(&(struct gen_request){.trigger = "test", .wait_all = true, .dry_run = true});
    rig_settle();
    CHECK_STR(buf_z(&rig.said), "");
    lab_eval("state.set('go', true)");
    rig_wait("n 1");
    lab_close();
}

TEST(a_key_of_the_state_with_a_nul_byte_is_refused)
{
    lab_open(NULL);
    CHECK_STR(lab_eval("state.set('a', 1) local all = '' "
                       "for _, f in ipairs{state.get, state.set, state.clear, state.class} do "
                       "all = all .. tostring((pcall(f, 'a\\0b', {}))) end "
                       "return all .. tostring(state.get('a')) .. #state.keys()"),
              "falsefalsefalsefalse11");
    lab_close();
}
