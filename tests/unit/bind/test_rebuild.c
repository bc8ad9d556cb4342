// A Lua state that is full for good: a new one takes its place, with what served and what was kept.

#include "bind/bind_int.h"
#include "unit/bind/lab.h"

#define HOARD "for i = 1, 1e9 do _G.hoard[#_G.hoard + 1] = {i} end"

static const char *const small[] = {"limits.memory_mb=4", "limits.lua_ms=20000", NULL};

/// Run the loop until the state that was there is replaced and all runs are over.
static void wait_rebuilt(const struct space *old)
{
    while (lab.modules->space == old || gen_is_running(rig.engine)) {
        loop_run_once(&l, true);
    }
    rig_settle();
    lab.report = gen_last_report(rig.engine);
}

static void fill(void)
{
    const struct space *old = lab.modules->space;
    uint64_t before = gen_number(gen_current(rig.engine));
    lab_eval("hooks.notify('fill')");
    CHECK(vm_get_stats(old->vm).dead);
    wait_rebuilt(old);
    CHECK(gen_number(gen_current(rig.engine)) > before);
}

#define FILLER                                                                                     \
    "lib/filler.lua", "_G.hoard = {} hooks.on('fill', 'x', function() " HOARD " end) return {}"

TEST(modules_hooks_and_data_live_on_in_a_new_state)
{
    lab_open_with(small, (const char *const[]){
                             FILLER, "lib/b.lua",
                             "local t = state.get('b') t.loads = (t.loads or 0) + 1\n"
                             "hooks.intercept('ask', 'b', function() return t.loads end)\n"
                             "return {c = require('lib.c')}",
                             "lib/c.lua",
                             "local C = state.class('C') function C:hi() return self.n end\n"
                             "state.get('one', setmetatable({n = 5}, C)) return C",
                             NULL});
    size_t items = lab_items();
    fill();
    CHECK_STR(lab_eval("return hooks.call('ask', 0)"), "2"); // one handler, over the same table
    CHECK_STR(lab_eval("return state.get('one'):hi()"), "5");
    CHECK_STR(lab_eval("return require('lib.b').c == require('lib.c')"), "true");
    CHECK_STR(lab_eval("return #hoard"), "0");
    CHECK_INT(lab_items(), items);
    CHECK_INT(lab_revision("lua:lib.b"), 2);
    CHECK_INT(lab_revision("lua:hub.init"), 2);
    const struct gen_diag *d = lab_diag("lua:lib.filler");
    CHECK(d != NULL && d->code == DIAG_MEMORY_LIMIT && strstr(d->message, "made anew") != NULL);
    CHECK_INT(lab.report->n_diags, 1);
    CHECK_INT(lab.report->n_needs, 0);
    lab_change("lib/b.lua", "return {n = 3}"); // and reloads go on as ever
    CHECK_STR(lab_eval("return require('lib.b').n"), "3");
    lab_close();
}

TEST(what_cannot_be_carried_is_in_the_report)
{
    lab_open_with(small,
                  (const char *const[]){FILLER, "lib/b.lua", "state.get('cb', {f = print})", NULL});
    fill();
    const struct gen_diag *d = lab_diag("lua:lib.filler");
    CHECK(d != NULL && strstr(d->message, "lost: cb.f (function)") != NULL);
    lab_close();
}

TEST(code_that_waits_in_the_old_state_ends_with_a_stale_handle)
{
    static const char *const waiting[] = {
        "timer.after(0, function() state.set('in', 1) timer.sleep(3600) state.set('on', 1) end)",
        "hooks.on('wait', 'x', function() state.set('in', 1) timer.sleep(3600) end)\n"
        "timer.after(0, function() hooks.notify('wait') end)",
        "hooks.intercept('wait', 'x', function() state.set('in', 1) timer.sleep(3600) end)\n"
        "timer.after(0, function() hooks.call('wait', 1) state.set('on', 1) end)",
    };
    for (size_t i = 0; i < ARRAY_LEN(waiting); i++) {
        char *code = xasprintf("if state.get('times', {}).n then return {} end\n"
                               "state.get('times').n = 1\n%s\nreturn {}",
                               waiting[i]);
        lab_open_with(small, (const char *const[]){FILLER, "lib/w.lua", code, NULL});
        while (strcmp(lab_eval("return #state.keys()"), "2") != 0) {
            loop_run_once(&l, true);
        }
        struct gen_unit *old = gen_unit_find(gen_current(rig.engine), STR("lua:lib.w"));
        struct gen *pin = gen_pin(gen_current(rig.engine));
        fill();
        bool stale = false;
        for (size_t k = 0; k < old->diags.n; k++) {
            stale = stale || old->diags.p[k].code == DIAG_STALE_HANDLE;
        }
        CHECK(stale);
        CHECK_STR(lab_eval("return state.get('on', 'never')"), "never");
        gen_unpin(pin);
        lab_close();
        free(code);
    }
}

static size_t states_alive(void)
{
    return vm_get_stats(lab.modules->space->vm).memory;
}

TEST(nothing_of_the_old_state_stays)
{
    // every state, unit and version that is left behind is a leak that the sanitizer reports; what
    // is held on to is seen here
    lab_open_with(small, (const char *const[]){FILLER, "lib/t.lua",
                                               "timer.every(3600, function() end)\n"
                                               "watch.add(config.data_dir(), {}, function() end)\n"
                                               "events.on('user.x', function() end) return {}",
                                               NULL});
    size_t items = lab_items(), regs = rig.bind->regs.n, owners = rig.bind->owners.n;
    size_t memory = states_alive();
    lab_save("lib/filler.lua",
             "_G.hoard = {} hooks.on('fill', 'x', function() " HOARD " end) return {2}");
    lab_wait_revision("lua:lib.filler", 2);
    fill();
    CHECK_INT(lab_items(), items);
    CHECK_INT(rig.bind->regs.n, regs);
    CHECK_INT(rig.bind->owners.n, owners);
    CHECK(states_alive() < memory * 2);
    lab_close();
}

TEST(a_module_that_fills_every_state_is_left_out_until_it_changes)
{
    lab_open_with(small,
                  (const char *const[]){FILLER, "lib/b.lua", "return {n = 1}", "lib/user.lua",
                                        "require('lib.filler') return {}", NULL});
    fill();
    CHECK_INT(lab_revision("lua:lib.filler"), 2); // once may happen
    fill();
    CHECK_INT(lab_revision("lua:lib.filler"), 0);
    CHECK_INT(lab_state("lua:lib.filler"), GEN_FAILED);
    CHECK_INT(lab_diag("lua:lib.filler")->code, DIAG_MEMORY_LIMIT);
    CHECK_INT(lab_state("lua:lib.user"), GEN_FAILED); // it cannot do without
    CHECK_STR(lab_eval("return require('lib.b').n"), "1");
    CHECK_STR(lab_eval("return hooks.notify('fill')"), "0");
    lab_reload();
    CHECK_INT(lab_revision("lua:lib.filler"), 0);
    lab_change("lib/filler.lua", "return {n = 2}");
    CHECK(lab_diag("lua:lib.filler") == NULL);
    CHECK_INT(lab_state("lua:lib.user"), GEN_ADDED);
    CHECK(lab.report->ok); // nothing of it stands against anybody
    lab_close();
}

TEST(a_save_that_fills_the_state_leaves_the_last_good_version_and_no_loop)
{
    lab_open_with(small, (const char *const[]){"lib/b.lua", "return {n = 1}", "lib/x.lua",
                                               "return {n = 1}", NULL});
    lab_save("lib/x.lua", "_G.hoard = {} " HOARD);
    while (modules__get(lab.modules->space, STR("lib.x"))->banned == NULL ||
           vm_get_stats(lab.modules->space->vm).dead || gen_is_running(rig.engine)) {
        loop_run_once(&l, true); // it is tried, and tried once more in a new state
    }
    const struct space *sp = lab.modules->space;
    lab_reload();
    CHECK(lab.modules->space == sp && !vm_get_stats(sp->vm).dead);
    CHECK_INT(lab_state("lua:lib.x"), GEN_FAILED);
    CHECK_INT(lab_diag("lua:lib.x")->code, DIAG_MEMORY_LIMIT);
    CHECK_STR(lab_eval("return require('lib.x').n + require('lib.b').n"), "2");
    CHECK_STR(lab_eval("return hoard == nil"), "true");
    lab_change("lib/x.lua", "return {n = 5}");
    CHECK_STR(lab_eval("return require('lib.x').n"), "5");
    lab_close();
}

TEST(a_module_that_fills_the_new_state_at_load_is_left_out_and_the_innocent_serve)
{
    // it served, and now it cannot be loaded: it tests for what only the first state has
    lab_open_with(small,
                  (const char *const[]){
                      FILLER, "lib/a.lua", "return {n = 1}", "lib/bomb.lua",
                      "if state.get('seen', {}).n then _G.big = {}\n"
                      "for i = 1, 1e9 do _G.big[i] = {i} if i == 40000 then break end end end\n"
                      "state.get('seen').n = 1 return {}",
                      "lib/z.lua", "local t = {} for i = 1, 12000 do t[i] = {i} end return {t = t}",
                      NULL});
    CHECK(lab.report->ok);
    fill();
    CHECK_STR(lab_eval("return require('lib.a').n + #require('lib.z').t"), "12001");
    CHECK_INT(lab_revision("lua:lib.bomb"), 0);
    CHECK_INT(lab_state("lua:lib.bomb"), GEN_FAILED);
    CHECK_INT(lab_diag("lua:lib.bomb")->code, DIAG_MEMORY_LIMIT);
    CHECK(!vm_get_stats(lab.modules->space->vm).dead);
    lab_close();
}

TEST(the_first_load_survives_a_bomb_in_it)
{
    lab_open_with(small,
                  (const char *const[]){"lib/a.lua", "_G.hoard = {} " HOARD, "lib/b.lua",
                                        "return {n = 1}", "user/init.lua", "return {n = 2}", NULL});
    while (lab_revision("lua:user.init") == 0) {
        loop_run_once(&l, true);
    }
    CHECK_STR(lab_eval("return require('lib.b').n + require('user.init').n"), "3");
    lab_reload();
    CHECK_INT(lab_state("lua:lib.a"), GEN_FAILED);
    lab_close();
}

TEST(the_text_that_served_is_loaded_not_the_broken_file)
{
    lab_open_with(small, (const char *const[]){
                             FILLER, "lib/x.lua", "return {n = 1}", "user/late.lua",
                             "return {n = 2}", "user/init.lua",
                             "hooks.on('go', 'go', function() require('user.late') end)", NULL});
    lab_eval("hooks.notify('go')");
    lab_change("lib/x.lua", "return {");
    CHECK_INT(lab_state("lua:lib.x"), GEN_FAILED);
    fill();
    CHECK_INT(lab_revision("lua:user.late"), 1); // what running code required is there, too
    CHECK_STR(lab_eval("return require('lib.x').n + require('user.late').n"), "3");
    lab_reload();
    CHECK_INT(lab_state("lua:lib.x"), GEN_FAILED); // what is wrong with the file is still said
    CHECK_INT(lab_diag("lua:lib.x")->code, DIAG_LOAD_FAILED);
    lab_close();
}

TEST(a_dry_run_that_fills_its_state_leaves_the_hubs_alone)
{
    lab_open_with(small, (const char *const[]){"lib/x.lua", "return {n = 1}", NULL});
    const struct space *sp = lab.modules->space;
    modules_stop(lab.modules);
    lab_save("lib/x.lua", "_G.hoard = {} " HOARD);
    lab_ask(&(struct gen_request){.trigger = "test", .dry_run = true});
    CHECK_INT(lab_diag("lua:lib.x")->code, DIAG_MEMORY_LIMIT);
    rig_settle();
    CHECK(lab.modules->space == sp && !vm_get_stats(sp->vm).dead);
    CHECK_STR(lab_eval("return require('lib.x').n"), "1");
    lab_close();
}

TEST(a_file_that_fills_the_state_when_running_code_requires_it_is_undone)
{
    lab_open_with(small, (const char *const[]){
                             "user/late.lua",
                             "local t = state.get(('k'):rep(1 << 19), {})\n"
                             "for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
                             "user/init.lua",
                             "hooks.on('go', 'go', function() require('user.late') end)", NULL});
    const struct space *old = lab.modules->space;
    lab_eval("hooks.notify('go')");
    CHECK(vm_get_stats(old->vm).dead);
    wait_rebuilt(old);
    CHECK_STR(lab_eval("return #state.keys()"), "0");
    lab_close();
}
