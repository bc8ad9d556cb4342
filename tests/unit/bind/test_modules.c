// Modules: which file is which, what a change reloads, in one transaction or not at all.

#include <unistd.h>

#include "unit/bind/lab.h"

// ---- names ------------------------------------------------------------------------------------

TEST(one_file_is_one_module)
{
    static const char *const rows[][2] = {
        {"lib/x.lua", "lib.x"},       {"foo/init.lua", "foo"}, {"user/init.lua", "user.init"},
        {"hub/init.lua", "hub.init"}, {"a/b/init.lua", "a.b"}, {"init.lua", "init"},
        {"a.b/c.lua", NULL},          {"x.txt", NULL},         {".lua", NULL},
        {"a//b.lua", NULL},           {"a b.lua", NULL},       {"init/init.lua", "init"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *name = files__module_of(str_of(rows[i][0]));
        if (rows[i][1] == NULL) {
            CHECK(name == NULL);
        } else {
            CHECK_STR(name, rows[i][1]);
        }
        free(name);
    }
}

TEST(a_module_has_one_name_only)
{
    lab_open((const char *const[]){"lib/x.lua", "return {n = 1}", "pack/init.lua", "return {n = 2}",
                                   "user/init.lua",
                                   "local p = require 'pack' return {n = p.n, "
                                   "x = pcall(require, 'x'), i = pcall(require, 'pack.init')}",
                                   NULL});
    CHECK(lab.report->ok);
    CHECK_STR(lab_eval("return require('lib.x').n"), "1");
    CHECK_STR(lab_eval("return require('user.init').n"), "2");
    CHECK_STR(lab_eval("return require('user.init').x"), "false");
    CHECK_STR(lab_eval("return require('user.init').i"), "false");
    CHECK_STR(lab_eval("return require('../lib/x')"), "error: invalid module name '../lib/x'");
    lab_close();
}

TEST(the_users_file_comes_before_the_shipped_one_and_gives_way_again)
{
    lab_open((const char *const[]){"dev/lib/x.lua", "return {by = 'shipped'}", NULL});
    CHECK_STR(lab_eval("return require('lib.x').by"), "shipped");
    lab_change("lib/x.lua", "return {by = 'user'}");
    CHECK_INT(lab_state("lua:lib.x"), GEN_CHANGED);
    CHECK_STR(lab_eval("return require('lib.x').by"), "user");
    lab_remove("lib/x.lua");
    lab_reload();
    CHECK_INT(lab_state("lua:lib.x"), GEN_CHANGED);
    CHECK_STR(lab_eval("return require('lib.x').by"), "shipped");
    lab_close();
}

TEST(the_binary_holds_a_load_order_that_loads)
{
    lab_open_builtin((const char *const[]){"user/init.lua",
                                           "return {here = safe_require('nope') == nil}", NULL});
    CHECK(lab.report->ok);
    static const char *const units[] = {"lua:hub.init",   "lua:hub.state",    "lua:hub.hooks",
                                        "lua:hub.loader", "lua:lib.commands", "lua:user.init"};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        CHECK_INT(lab_revision(units[i]), 1);
    }
    CHECK_STR(lab_eval("return require('user.init').here"), "true");
    CHECK_STR(lab_eval("return require('hub.state') == state"), "true");
    CHECK_STR(lab_eval("return #loader.list() >= 6"), "true");
    lab_close();
}

// ---- what a change reloads --------------------------------------------------------------------

TEST(a_save_reloads_the_module_and_all_that_require_it_dependency_first)
{
    lab_open((const char *const[]){"lib/a.lua", "say('a1') return {n = 1}", "lib/b.lua",
                                   "say('b') return {n = require('lib.a').n}", "lib/c.lua",
                                   "say('c') return {n = require('lib.b').n}", "lib/z.lua",
                                   "say('z') return {}", NULL});
    rig_hush();
    lab_save("lib/a.lua", "say('a2') return {n = 2}");
    lab_wait_revision("lua:lib.a", 2);
    CHECK_STR(buf_z(&rig.said), "a2\nb\nc\n");
    CHECK_INT(lab_revision("lua:lib.c"), 2);
    CHECK_INT(lab_revision("lua:lib.z"), 1);
    CHECK_STR(lab_eval("return require('lib.c').n"), "2");
    lab_close();
}

TEST(links_that_lead_in_circles_are_not_followed_round)
{
    lab_open((const char *const[]){"lib/deep/x.lua", "return {n = 1}", NULL});
    for (int i = 0; i < 8; i++) { // eight ways at each of sixteen levels
        char *path = xasprintf("%s/lua/lib/deep/l%d", rig.home.dir, i);
        CHECK_INT(symlink(i % 2 == 0 ? "." : "../../lib", path), 0);
        free(path);
    }
    lab_save("lib/deep/y.lua", "return {n = 2}");
    lab_change("user/init.lua", "return {n = require('lib.deep.y').n}");
    CHECK(lab.report->ok);
    CHECK_STR(lab_eval("return require('user.init').n"), "2");
    lab_close();
}

TEST(a_table_that_a_module_returns_again_stands_for_itself)
{
    lab_open((const char *const[]){"lib/x.lua", "_G.kept = {n = 1} return kept", NULL});
    lab_change("lib/x.lua", "return {n = 2, old = true}");
    lab_eval("_G.second = require('lib.x')");
    lab_change("lib/x.lua", "kept.n = 3 return kept");
    CHECK(lab.report->ok);
    CHECK_STR(lab_eval("return require('lib.x').n"), "3");
    CHECK_STR(lab_eval("return tostring(require('lib.x').none)"), "nil");
    CHECK_STR(lab_eval("second.n = 4 return require('lib.x').n"), "4");
    lab_close();
}

TEST(a_file_that_nobody_loaded_is_not_run_by_a_save)
{
    lab_open((const char *const[]){"user/init.lua", "return {}", NULL});
    lab_save("user/never.lua", "say('ran')");
    lab_save("user/init.lua", "return {n = 2}"); // what follows it proves that the first was seen
    lab_wait_revision("lua:user.init", 2);
    lab_reload();
    CHECK(!rig_said("ran"));
    CHECK_INT(lab_revision("lua:user.never"), 0);
    lab_ask(&(struct gen_request){
        .trigger = "test", .wait_all = true, .names = &STR("user.never"), .n_names = 1});
    CHECK(rig_said("ran")); // asked for by name it is
    lab_close();
}

TEST(user_init_is_loaded_when_it_appears)
{
    lab_open(NULL);
    CHECK_INT(lab_revision("lua:user.init"), 0);
    lab_save("user/init.lua", "say('here')");
    lab_wait_revision("lua:user.init", 1);
    CHECK(rig_said("here"));
    lab_close();
}

TEST(a_broken_user_init_is_a_diagnostic_and_is_loaded_when_mended)
{
    lab_open((const char *const[]){"lib/good.lua", "return {}", "user/init.lua",
                                   "local g = require('lib.good')\nerror('broken')", NULL});
    CHECK(!lab.report->ok);
    CHECK_INT(lab_state("lua:user.init"), GEN_FAILED);
    CHECK_INT(lab_diag("lua:user.init")->line, 2);
    CHECK_INT(lab_revision("lua:lib.good"), 1); // what it required is not taken down with it
    lab_save("user/init.lua", "return {}");
    lab_wait_revision("lua:user.init", 1);
    lab_reload();
    CHECK(lab.report->ok);
    lab_close();
}

TEST(a_missing_dependency_is_found_when_it_comes)
{
    lab_open((const char *const[]){"user/init.lua", "return {n = require('user.dep').n}", NULL});
    CHECK_INT(lab_state("lua:user.init"), GEN_FAILED);
    lab_save("user/dep.lua", "return {n = 5}");
    lab_wait_revision("lua:user.init", 1);
    CHECK_STR(lab_eval("return require('user.init').n"), "5");
    lab_close();
}

TEST(a_deleted_file_unloads_its_module_with_all_it_registered)
{
    lab_open((const char *const[]){"lib/x.lua",
                                   "hooks.on('ping', 'x', function() say('x') end)\n"
                                   "return {n = 1, _before_unload = function() say('bye') end}",
                                   NULL});
    lab_remove("lib/x.lua");
    lab_reload();
    CHECK(lab.report->ok);
    CHECK_INT(lab_state("lua:lib.x"), GEN_REMOVED);
    CHECK_INT(lab_revision("lua:lib.x"), 0);
    CHECK(rig_said("bye"));
    rig_hush();
    lab_eval("hooks.notify('ping')");
    CHECK(!rig_said("x"));
    CHECK(strstr(lab_eval("return require('lib.x').n"), "not found") != NULL);
    lab_save("lib/x.lua", "return {n = 2}");
    lab_wait_revision("lua:lib.x", 1);
    CHECK_STR(lab_eval("return require('lib.x').n"), "2");
    lab_close();
}

TEST(who_cannot_do_without_a_deleted_file_goes_on_and_is_named)
{
    lab_open((const char *const[]){
        "user/x.lua", "hooks.on('ping', 'x', function() say('x') end) return {n = 1}",
        "user/init.lua",
        "local x = require('user.x') hooks.on('ping', 'i', function() say('init', x.n) end)",
        NULL});
    lab_remove("user/x.lua");
    lab_reload();
    CHECK_INT(lab_revision("lua:user.x"), 0);
    CHECK_INT(lab_state("lua:user.init"), GEN_FAILED);
    CHECK(strstr(lab_diag("lua:user.init")->message, "'user.x' not found") != NULL);
    lab_eval("hooks.notify('ping')");
    CHECK_STR(buf_z(&rig.said), "init 1\n");
    lab_change("user/x.lua", "return {n = 2}");
    CHECK(lab.report->ok);
    lab_eval("hooks.notify('ping')");
    CHECK(rig_said("init 2"));
    lab_close();
}

TEST(a_module_that_nobody_requires_any_more_is_unloaded_with_what_it_required)
{
    lab_open((const char *const[]){
        "user/deep.lua", "hooks.on('ping', 'd', function() say('deep') end) return {}",
        "user/x.lua", "hooks.on('ping', 'x', function() say('x') end) return require('user.deep')",
        "user/shared.lua", "return {}", "user/named.lua", "return {}", "user/init.lua",
        "require('user.x') require('user.shared')", NULL});
    lab_ask(&(struct gen_request){
        .trigger = "test", .wait_all = true, .names = &STR("user.named"), .n_names = 1});
    lab_ask(&(struct gen_request){.trigger = "test", .wait_all = true, .dry_run = true});
    CHECK_INT(lab.report->n_diags, 0);
    lab_save("user/init.lua", "require('user.shared') error('not yet')"); // x is still required
    lab_reload();
    CHECK_INT(lab_revision("lua:user.x"), 1);
    lab_save("user/init.lua", "require('user.shared') -- require('user.x')");
    lab_ask(&(struct gen_request){.trigger = "test", .wait_all = true, .dry_run = true});
    CHECK_INT(lab_state("lua:user.x"), GEN_REMOVED);
    lab_reload();
    CHECK(lab.report->ok);
    CHECK_INT(lab_state("lua:user.x"), GEN_REMOVED);
    CHECK_INT(lab_state("lua:user.deep"), GEN_REMOVED);
    CHECK_INT(lab_revision("lua:user.shared"), 1);
    CHECK_INT(lab_revision("lua:user.named"), 1); // somebody asked for it
    lab_eval("hooks.notify('ping')");
    CHECK_STR(buf_z(&rig.said), "");
    lab_change("user/init.lua", "require('user.x')"); // and back
    CHECK_INT(lab_revision("lua:user.x"), 1);
    CHECK_INT(lab_revision("lua:user.shared"), 0);
    lab_eval("hooks.notify('ping')");
    CHECK_STR(buf_z(&rig.said), "deep\nx\n");
    lab_close();
}

TEST(a_protected_module_is_refused_and_needs_a_restart)
{
    lab_open((const char *const[]){"dev/hub/thing.lua", "return {n = 1}", NULL});
    lab_change("hub/thing.lua", "say('ran') return {n = 2}");
    CHECK_INT(lab_diag("lua:hub.thing")->code, DIAG_PROTECTED);
    CHECK(lab_needs("lua:hub.thing", GEN_HUB_RESTART));
    CHECK_STR(lab_eval("return require('hub.thing').n"), "1");
    CHECK(!rig_said("ran"));
    lab_remove("hub/thing.lua");
    lab_reload();
    CHECK_INT(lab.report->n_diags, 0);
    lab_close();
}

TEST(nothing_changed_is_no_new_generation)
{
    lab_open((const char *const[]){"user/init.lua", "return {}", NULL});
    uint64_t before = gen_number(gen_current(rig.engine));
    lab_change("user/init.lua", "return {}");
    CHECK(!lab.report->committed);
    CHECK_INT(gen_number(gen_current(rig.engine)), before);
    lab_ask(&(struct gen_request){.trigger = "test", .wait_all = true, .force = true});
    CHECK_INT(lab_revision("lua:user.init"), 2);
    lab_close();
}

// ---- what fails ---------------------------------------------------------------------------------

TEST(a_failure_throws_the_whole_group_away_and_no_other)
{
    lab_open((const char *const[]){"lib/a.lua", "return {v = 1}", "lib/b.lua",
                                   "return {v = require('lib.a').v}", "lib/z.lua", "return {v = 1}",
                                   NULL});
    lab_save("lib/a.lua", "return {v = 2}");
    lab_save("lib/b.lua", "local a = require('lib.a')\n\nerror('b ' .. a.v)");
    lab_save("lib/z.lua", "return {v = 2}");
    lab_reload();
    CHECK(!lab.report->ok);
    CHECK_STR(lab_eval("return require('lib.a').v"), "1");
    CHECK_STR(lab_eval("return require('lib.b').v"), "1");
    CHECK_STR(lab_eval("return require('lib.z').v"), "2");
    const struct gen_diag *d = lab_diag("lua:lib.b");
    CHECK_INT(d->code, DIAG_LOAD_FAILED);
    CHECK_STR(d->message, "b 2");
    CHECK_INT(d->line, 3);
    CHECK(strstr(d->path, "lib/b.lua") != NULL);
    CHECK_INT(lab_state("lua:lib.a"), GEN_FAILED); // its text is not what runs
    CHECK_STR(lab_diag("lua:lib.a")->message, "not taken, because 'lua:lib.b' failed to load");
    lab_change("lib/b.lua", "return {v = require('lib.a').v}"); // back to what serves: a may go on
    CHECK(lab.report->ok);
    CHECK_STR(lab_eval("return require('lib.b').v"), "2");
    lab_close();
}

TEST(a_dependent_that_fails_with_the_new_dependency_keeps_both_old)
{
    lab_open((const char *const[]){"lib/a.lua", "return {f = function() return 1 end}", "lib/b.lua",
                                   "return {v = require('lib.a').f()}", NULL});
    lab_change("lib/a.lua", "return {}"); // no f any more
    CHECK_INT(lab_state("lua:lib.b"), GEN_FAILED);
    CHECK_STR(lab_eval("return require('lib.a').f()"), "1");
    CHECK_INT(lab_revision("lua:lib.a"), 1);
    lab_close();
}

static const char unfit[] = "assert(require('user.a').v == 1, 'b wants 1') return {v = 1}";
static const char three[] =
    "local a, b, y = require('user.a'), require('user.b'), require('user.y')\n"
    "return {v = function() return a.v .. b.v .. y.v end}";

TEST(a_sound_save_is_taken_while_others_do_not_fit_together)
{
    lab_open((const char *const[]){"user/a.lua", "return {v = 1}", "user/b.lua", unfit,
                                   "user/y.lua", "return {v = 1}", "user/init.lua", three, NULL});
    lab_change("user/a.lua", "return {v = 2}");
    CHECK_INT(lab_state("lua:user.b"), GEN_FAILED);
    lab_change("user/y.lua", "return {v = 2}");
    CHECK_STR(lab_eval("return require('user.init').v()"), "112");
    CHECK_INT(lab_state("lua:user.a"), GEN_FAILED); // still waiting for b
    CHECK_INT(lab_state("lua:user.init"), GEN_CHANGED);
    CHECK(lab_diag("lua:user.init") == NULL);
    lab_change("user/b.lua", "return {v = 2, a = require('user.a').v}");
    CHECK(lab.report->ok);
    CHECK_STR(lab_eval("return require('user.init').v()"), "222");
    lab_close();
}

TEST(a_sound_save_is_taken_below_a_file_that_is_broken)
{
    lab_open((const char *const[]){
        "user/y.lua", "return {v = 1}", "user/init.lua",
        "local y = require('user.y') return {v = function() return y.v end}", NULL});
    lab_change("user/init.lua", "local y = require('user.y') oh no");
    CHECK_INT(lab_state("lua:user.init"), GEN_FAILED);
    lab_change("user/y.lua", "return {v = 2}");
    CHECK_STR(lab_eval("return require('user.init').v()"), "2");
    CHECK_INT(lab_diag("lua:user.init")->code, DIAG_LOAD_FAILED); // its file is as broken as before
    CHECK(lab_diag("lua:user.y") == NULL);
    lab_change("user/init.lua", "return {v = function() return 'mended' end}");
    CHECK(lab.report->ok);
    CHECK_STR(lab_eval("return require('user.init').v()"), "mended");
    lab_close();
}

TEST(modules_that_require_each_other_are_told_the_chain)
{
    lab_open((const char *const[]){
        "lib/a.lua", "require 'lib.b' return {}", "lib/b.lua", "require 'lib.c' return {}",
        "lib/c.lua", "require 'lib.a' return {}", "lib/self.lua", "require 'lib.self'", NULL});
    const struct gen_diag *d = lab_diag("lua:lib.c");
    CHECK_INT(d->code, DIAG_MODULE_CYCLE);
    CHECK_STR(d->message, "modules require each other: lib.a -> lib.b -> lib.c -> lib.a");
    CHECK_STR(lab_diag("lua:lib.self")->message,
              "modules require each other: lib.self -> lib.self");
    lab_change("lib/c.lua", "return {n = 3}");
    CHECK_INT(lab_revision("lua:lib.a"), 1);
    CHECK_INT(lab_revision("lua:lib.c"), 1);
    lab_close();
}

TEST(an_empty_file_where_a_module_was_is_a_failure)
{
    lab_open(
        (const char *const[]){"lib/x.lua", "return {n = 1}", "user/init.lua", "say('hi')", NULL});
    static const char *const empty[] = {"", " \n", "-- nothing\n", "return nil", "return true"};
    for (size_t i = 0; i < ARRAY_LEN(empty); i++) {
        lab_change("lib/x.lua", empty[i]);
        CHECK_INT(lab_diag("lua:lib.x")->code, DIAG_EMPTY_MODULE);
        CHECK_STR(lab_eval("return require('lib.x').n"), "1");
    }
    lab_change("lib/x.lua", "return function() end");
    CHECK_INT(lab_diag("lua:lib.x")->code, DIAG_LOAD_FAILED);
    lab_change("user/init.lua", "\n"); // it never returned anything, and is empty now all the same
    CHECK_INT(lab_diag("lua:user.init")->code, DIAG_EMPTY_MODULE);
    lab_close();
}

TEST(code_that_never_ends_is_a_diagnostic)
{
    lab_open_with(
        (const char *const[]){"limits.load_ms=500", NULL},
        (const char *const[]){"user/init.lua", "return {n = 1}", "lib/ok.lua", "return {}", NULL});
    lab_save("lib/ok.lua", "return {n = 2}");
    lab_change("user/init.lua", "while true do end");
    CHECK_INT(lab_diag("lua:user.init")->code, DIAG_LOAD_TIMEOUT);
    CHECK_STR(lab_eval("return require('user.init').n"), "1");
    CHECK_STR(lab_eval("return require('lib.ok').n"), "2");
    lab_close();
}

TEST(a_file_that_is_too_large_or_unreadable_is_a_diagnostic)
{
    lab_open((const char *const[]){"lib/x.lua", "return {n = 1}", NULL});
    char *big = xmalloc(VM_CHUNK_MAX + 32);
    memset(big, ' ', VM_CHUNK_MAX + 31);
    big[VM_CHUNK_MAX + 31] = '\0';
    lab_change("lib/x.lua", big);
    free(big);
    CHECK_INT(lab_state("lua:lib.x"), GEN_FAILED);
    CHECK_STR(lab_eval("return require('lib.x').n"), "1");
    lab_close();
}

TEST(what_a_module_does_to_a_library_is_its_own)
{
    lab_open((const char *const[]){"lib/x.lua", "return {}", "lib/y.lua",
                                   "return {f = function() return string.format('%d', 7) end}",
                                   NULL});
    lab_change("lib/x.lua", "string.format = nil hooks.on = nil error('half-way')");
    CHECK_STR(lab_eval("return require('lib.y').f()"), "7");
    lab_change("lib/x.lua",
               "string.shout = function() return 'x' end\n"
               "return {f = function() return string.shout() .. string.rep('y', 2) end}");
    CHECK_STR(lab_eval("return require('lib.x').f() .. tostring(string.shout)"), "xyynil");
    CHECK_STR(lab_eval("return tostring(('x').shout)"), "nil");
    static const char *const ways[] = {"_G.string.format = nil",
                                       "require('json').encode = nil",
                                       "package.loaded.string.format = nil",
                                       "_G.pairs = nil",
                                       "package.loaded.json = {}",
                                       "_G.string = nil",
                                       "getmetatable(string).__index = {}",
                                       "getmetatable('').__index.format = nil",
                                       "hub.loader.list = nil",
                                       "require('hub.state').get = nil"};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) { // what all share can be read only
        lab_change("lib/x.lua", ways[i]);
        CHECK_INT(lab_state("lua:lib.x"), GEN_FAILED);
    }
    CHECK_STR(lab_eval("return string.format('%d', 8) .. json.encode({1})"), "8[1]");
    CHECK_STR(lab_eval("local n = 0 for k in pairs(math) do n = n + 1 end return n > 20"), "true");
    CHECK_STR(lab_eval("_G.mine = 1 return mine"), "1"); // said to be for all
    lab_close();
}

TEST(globals_of_a_module_are_its_own)
{
    lab_open((const char *const[]){"lib/a.lua",
                                   "counter = 1 return {get = function() return counter end}",
                                   "lib/b.lua", "return {seen = counter}", NULL});
    CHECK_STR(lab_eval("return require('lib.a').get()"), "1");
    CHECK_STR(lab_eval("return require('lib.b').seen"), "nil");
    CHECK_STR(lab_eval("return counter"), "nil");
    lab_change("lib/a.lua", "leak = 1 error('x')");
    CHECK_STR(lab_eval("return leak"), "nil");
    lab_close();
}

// ---- dry runs, late requires --------------------------------------------------------------------

TEST(a_dry_run_reports_and_touches_nothing)
{
    lab_open((const char *const[]){"lib/a.lua", "state.get('log', {}).n = 1 return {n = 1}",
                                   "lib/b.lua", "return {a = require('lib.a')}", NULL});
    size_t items = lab_items();
    struct gen_request dry = {.trigger = "test", .wait_all = true, .dry_run = true};
    lab_save(
        "lib/a.lua",
        "state.get('log', {}).n = 2 state.set('more', 1) hooks.on('e', 'n', print) return {n = 2}");
    lab_ask(&dry);
    CHECK(lab.report->ok && lab.report->dry_run && !lab.report->committed);
    CHECK_INT(lab_state("lua:lib.a"), GEN_CHANGED);
    CHECK_INT(lab_state("lua:lib.b"), GEN_CHANGED);
    CHECK_STR(lab_eval("return require('lib.a').n"), "1");
    CHECK_STR(lab_eval("return state.get('log').n"), "1");
    CHECK_STR(lab_eval("return #state.keys()"), "1");
    CHECK_INT(lab_items(), items);
    lab_save("lib/a.lua", "error('no')");
    lab_ask(&dry);
    CHECK_INT(lab_state("lua:lib.a"), GEN_FAILED);
    lab_reload();
    CHECK_INT(lab_state("lua:lib.a"), GEN_FAILED);
    lab_close();
}

TEST(a_module_required_late_belongs_to_who_required_it_and_is_reloaded)
{
    lab_open((const char *const[]){
        "user/late.lua", "hooks.on('ping', 'late', function() say('late 1') end) return {n = 1}",
        "user/init.lua",
        "hooks.on('go', 'go', function() say(require('user.late').n) end) return {}", NULL});
    CHECK_INT(lab_revision("lua:user.late"), 0);
    lab_eval("hooks.notify('go') hooks.notify('ping')");
    CHECK_STR(buf_z(&rig.said), "1\nlate 1\n");
    rig_hush();
    lab_save("user/late.lua",
             "hooks.on('ping', 'late', function() say('late 2') end) return {n = 2}");
    lab_wait_revision("lua:user.late", 1);
    lab_eval("hooks.notify('go') hooks.notify('ping')");
    CHECK_STR(buf_z(&rig.said), "2\nlate 2\n");
    CHECK_INT(lab_revision("lua:user.init"), 2); // it stands on it
    lab_close();
}

TEST(a_guest_that_fails_inside_another_guest_leaves_nothing_in_hub_state)
{
    lab_open((const char *const[]){"user/broken.lua",
                                   "state.set('x', 'broken') state.set('y', 'broken') error('no')",
                                   "user/late.lua",
                                   "state.set('x', 'late') local ok = pcall(require, 'user.broken')"
                                   " say(tostring(ok), state.get('x'), state.get('y', 'none')) "
                                   "state.set('y', 'late') return {}",
                                   "user/init.lua",
                                   "hooks.on('go', 'go', function() require('user.late')"
                                   " say(state.get('x'), state.get('y')) end) return {}",
                                   NULL});
    lab_eval("hooks.notify('go')");
    CHECK_STR(buf_z(&rig.said), "false late none\nlate late\n");
    lab_change("user/init.lua", "return {n = 2}"); // it is judged without the guest that failed
    CHECK_INT(lab_revision("lua:user.init"), 2);
    lab_close();
}

TEST(a_guest_is_loaded_again_when_its_host_is_replaced)
{
    lab_open((const char *const[]){
        "user/late.lua", "hooks.on('ping', 'late', function() say('late') end) return {}",
        "lib/other.lua", "return {late = function() return require('user.late') end}",
        "user/init.lua",
        "local o = require('lib.other')\n"
        "hooks.on('go', 'go', function() o.late() end) return {}",
        NULL});
    lab_eval("hooks.notify('go') hooks.notify('ping')");
    lab_save("user/late.lua", "error('no')");
    lab_change("user/init.lua", "return {n = 2}"); // without its guest the host does not go either
    CHECK_INT(lab_revision("lua:user.init"), 1);
    lab_save("user/late.lua", "hooks.on('ping', 'late', function() say('late') end) return {}");
    lab_change("user/init.lua", "return {n = 3}");
    CHECK(lab.report->ok);
    CHECK_INT(lab_revision("lua:user.late"), 1); // it has a unit of its own now
    lab_eval("hooks.notify('ping')");
    CHECK_STR(buf_z(&rig.said), "late\nlate\n");
    lab_close();
}

TEST(a_module_required_by_code_that_leaves_is_there_for_those_that_come)
{
    lab_open((const char *const[]){
        "user/late.lua", "return {n = 1}", "user/init.lua",
        "local M = {} function M._before_reload() say(require('user.late').n) end return M", NULL});
    lab_change("user/init.lua",
               "hooks.on('go', 'go', function() say('new', require('user.late').n) end) return {}");
    CHECK(rig_said("1"));
    rig_settle(); // the old version is gone, and what it took in with it
    lab_eval("hooks.notify('go')");
    CHECK(rig_said("new 1"));
    lab_change("user/late.lua", "return {n = 2}");
    CHECK(lab.report->ok);
    lab_ask(&(struct gen_request){.trigger = "test", .wait_all = true, .force = true});
    CHECK(lab.report->ok);
    lab_eval("hooks.notify('go')");
    CHECK(rig_said("new 2"));
    lab_close();
}

TEST(a_module_required_by_a_handler_that_drains_lives_on_with_the_new_version)
{
    lab_open((const char *const[]){
        "user/late.lua", "hooks.on('ping', 'late', function() say('late') end) return {n = 1}",
        "user/init.lua",
        rig_code("timer.after(0.001, function() say('in')\n"
                 "  repeat timer.sleep(0.001) until fs.exists('%s')\n"
                 "  say(require('user.late').n) end) return {}",
                 rig_path("go")),
        NULL});
    rig_wait("in");
    lab_change("user/init.lua", "return {n = 2}");
    rig_write("go", "");
    rig_wait("1"); // said by the version that was replaced
    rig_settle();
    lab_eval("hooks.notify('ping')");
    CHECK(rig_said("late"));
    lab_change("user/late.lua", "return {n = 2}");
    CHECK(lab.report->ok);
    CHECK_INT(lab_revision("lua:user.late"), 1);
    lab_close();
}

TEST(a_late_require_that_fails_is_an_error_where_it_was_asked_for)
{
    lab_open((const char *const[]){
        "user/late.lua", "state.set('half', 1) error('no')", "user/init.lua",
        "hooks.on('go', 'go', function() say(select(2, pcall(require, 'user.late'))) end)", NULL});
    lab_eval("hooks.notify('go')");
    CHECK(strstr(buf_z(&rig.said), "module 'user.late' failed to load: no") != NULL);
    CHECK_STR(lab_eval("return #state.keys()"), "0");
    lab_close();
}

// ---- the shipped libraries ----------------------------------------------------------------------

TEST(a_command_belongs_to_the_module_that_registered_it)
{
    static const char text[] = "local c = require 'lib.commands'\n"
                               "c.register('greet', function(a) return 'hello ' .. a.who end)";
    lab_open_builtin((const char *const[]){"user/init.lua", text, NULL});
    CHECK_STR(lab_eval("return require('lib.commands').run('greet', {who = 'you'})"), "hello you");
    CHECK_STR(lab_eval("return select(2, require('lib.commands').run('none'))"),
              "no command 'none' answered");
    lab_change("user/init.lua", "local c = require 'lib.commands' return {}");
    CHECK_STR(lab_eval("return require('lib.commands').run('greet', {who = 'you'})"), "nil");
    lab_close();
}

TEST(the_resolver_finds_what_lies_in_the_layers_and_later_ones_win)
{
    lab_open_builtin(
        (const char *const[]){"../plugins/a.lua", "return 1", "../plugins/b.lua", "return 1",
                              "../profiles/default/plugins/b.lua", "return 2", "user/init.lua",
                              "local found = require('lib.config_resolver').resolve_all()\n"
                              "return {a = found.a.layer, b = found.b.layer}",
                              NULL});
    CHECK(lab.report->ok);
    CHECK_STR(lab_eval("return require('user.init').a"), "user");
    CHECK_STR(lab_eval("return require('user.init').b"), "user-profile");
    lab_close();
}

// ---- too many files -----------------------------------------------------------------------------

TEST(files_beyond_the_limit_are_left_out_with_a_warning)
{
    lab_open((const char *const[]){"lib/x.lua", "return {n = 1}", NULL});
    CHECK_INT(lab.report->n_diags, 0);
    modules_stop(lab.modules);
    for (int i = 0; i < FILES_MAX; i++) {
        char name[32];
        snprintf(name, sizeof name, "many/m%d.lua", i);
        lab_write_over(name, "");
    }
    lab_reload();
    CHECK_INT(lab.report->n_diags, 1);
    CHECK_INT(lab.report->diags[0].code, DIAG_WATCH_DEGRADED);
    CHECK(strstr(lab.report->diags[0].message, "more than 4096 Lua files") != NULL);
    CHECK_STR(lab_eval("return require('lib.x').n"), "1"); // not seen is not gone
    CHECK_INT(lab_state("lua:lib.x"), GEN_KEPT);
    lab_remove("many/m0.lua");
    lab_reload();
    CHECK_INT(lab.report->n_diags, 0);
    lab_close();
}
