// What one unit may have at once.

#include "bind/bind_int.h"
#include "unit/bind/rig.h"

TEST(timers_are_bounded_for_each_unit)
{
    rig_open();
    rig_load("a",
             "local ids = {}\nfor i = 1, 2000 do\n  local id, why = timer.after(1000, print)\n"
             "  if id == nil then say(#ids, why) break end\n  ids[#ids + 1] = id\nend\n"
             "for i = 1, 10 do timer.cancel(ids[i]) end\n"
             "for i = 1, 10 do assert(timer.every(1000, print)) end say(timer.every(1, print))");
    CHECK(rig_said("1024 timer: no more than 1024 timers at once"));
    CHECK(rig_said("nil timer: no more than 1024 timers at once"));
    CHECK(rig_noted("a", DIAG_LIMIT_REACHED, "no more than 1024 timers at once"));
    rig_load("b", "say(type(timer.after(1000, print)))"); // every unit has its own
    CHECK(rig_said("number"));
    rig_close();
}

TEST(subscriptions_watches_and_hooks_are_bounded)
{
    rig_open();
    rig_load("a", "local function fill(f) for i = 1, 2000 do local ok, why = f(i)\n"
                  "if not ok then say(i, why) return end end end\n"
                  "fill(function() return events.on('mine', print) end)\n"
                  "fill(function() return watch.directory('/no/such', print) end)\n"
                  "fill(function(i) return hooks.on('e', 'h' .. i, print) end)\n"
                  "say(on('turn.completed', print))");
    CHECK(rig_said("1025 event: no more than 1024 event handlers at once"));
    CHECK(rig_said("257 watch: no more than 256 watches at once"));
    CHECK(rig_said("1025 hooks.on: no more than 1024 hooks at once"));
    CHECK(rig_said("nil event: no more than 1024 event handlers at once"));
    rig_close();
}

TEST(events_that_nobody_takes_are_bounded_for_all_handlers_of_a_unit)
{
    rig_open();
    rig_load("a", "for i = 1, 40 do events.on('mine', function(d) timer.sleep(1000) end) end");
    rig_load("b", "local s = ('x'):rep(1000000) for i = 1, 3 do events.emit('mine', s) end");
    CHECK(rig_noted("a", DIAG_LIMIT_REACHED, "more than 16 MiB are queued"));
    rig_close();
}

TEST(a_timer_goes_on_while_the_queues_of_its_unit_are_full)
{
    rig_open();
    rig_load("a", "for i = 1, 40 do events.on('mine', function(d) timer.sleep(1000) end) end\n"
                  "timer.every(0.01, function() say('tick') end)");
    rig_load("b", "for i = 6, 0, -1 do local s = ('x'):rep(10 ^ i // 1 | 0)\n"
                  "for _ = 1, 5 do events.emit('mine', s) end end events.emit('mine')");
    CHECK(rig_noted("a", DIAG_LIMIT_REACHED, "more than 16 MiB are queued"));
    rig_load("c", "local n = 0 timer.every(0.1, function() n = n + 1 say('beat', n) end)");
    rig_wait("beat 1");
    rig_hush();
    rig_wait("beat 3");
    CHECK(rig_said("tick"));
    rig_close();
}

TEST(the_end_of_a_connection_is_told_while_the_queues_of_its_unit_are_full)
{
    rig_open();
    rig_load("a",
             "for i = 1, 4 do events.on('mine', function(d) timer.sleep(1000) end) end\n"
             "events.on('go', function()\n"
             "local url = 'ws://127.0.0.1:1/'\n"
             "local function close(code) say('closed', code) end\n"
             "websocket.connect(url, {on_error = function() say('failed') end, on_close = close})\n"
             "end)");
    rig_load("b", "events.emit('mine')"); // from now on they sleep, and take nothing
    rig_load("c", "for i = 6, 0, -1 do local s = ('x'):rep(10 ^ i // 1 | 0)\n"
                  "for _ = 1, 5 do events.emit('mine', s) end end");
    CHECK(rig_noted("a", DIAG_LIMIT_REACHED, "more than 16 MiB are queued"));
    rig_load("d", "events.emit('go')");
    rig_wait("closed 1006");
    CHECK(rig_said("failed"));
    rig_close();
}

TEST(a_handler_that_is_switched_off_gives_its_queue_back)
{
    static const char *const flags[] = {"limits.tool_ms=20", NULL};
    rig_open_with(flags, NULL);
    rig_load("a", "local n = 0 events.on('slow', function() timer.sleep(1000) end)\n"
                  "events.on('quick', function() n = n + 1 say('quick', n) end)");
    rig_load("b", "local s = ('x'):rep(1000000) for i = 1, 16 do events.emit('slow', s) end");
    while (!rig_noted("a", DIAG_HOOK_DISABLED, "event handler ran out of time 3 times")) {
        loop_run_once(&l, true);
    }
    rig_load("b", "local s = ('x'):rep(1000000) for i = 1, 8 do events.emit('quick', s) end");
    rig_wait("quick 3");
    rig_settle();
    CHECK(rig_said("quick 8"));
    rig_close();
}

static struct bind_reg *reg_of(const char *what)
{
    size_t at = 0;
    struct str id;
    void *r;
    while (map_next(&rig.bind->regs, &at, &id, &r)) {
        if (strcmp(((struct bind_reg *)r)->ops->what, what) == 0) {
            return r;
        }
    }
    return NULL;
}

TEST(a_queue_that_is_never_empty_does_not_grow_with_what_was_taken)
{
    rig_open();
    rig_load("a", "local n = 0 events.on('mine', function() n = n + 1\n"
                  "if n < 20000 then events.emit('mine', n) else say('end') end end)\n"
                  "timer.after(0, function() events.emit('mine', 1) events.emit('mine', 2) end)");
    rig_wait("end");
    CHECK(reg_of("event")->queue.cap < 1000);
    rig_close();
}

TEST(commands_beyond_those_that_run_wait_and_beyond_those_are_refused)
{
    rig_open();
    rig_load("a", "local n, left, why = 0, 0\nfor i = 1, 300 do\n"
                  "local ok, w = exec({cmd = 'true'}, function(r) n = n + r.code left = left - 1\n"
                  "if left == 0 then say('all', n) end end)\n"
                  "if ok then left = left + 1 else why = w end end say(left, why)");
    CHECK(rig_said("272 exec: 16 commands are running and 256 are waiting already"));
    CHECK(rig_noted("a", DIAG_LIMIT_REACHED, "16 commands are running"));
    rig_wait("all 0");
    rig_close();
}

TEST(a_command_that_cannot_start_after_waiting_is_answered)
{
    rig_open();
    rig_load("a", "local function tell(r, why) say(why) end\n"
                  "for i = 1, 16 do\n"
                  "exec({cmd = 'sleep', args = {'100'}, timeout_s = 0.2}, tell) end\n"
                  "exec({cmd = '/no/such'}, tell)");
    const char *last = NULL;
    while ((last = strstr(buf_z(&rig.said), "exec: cannot start '/no/such'")) == NULL) {
        loop_run_once(&l, true);
    }
    const char *first = strstr(buf_z(&rig.said), "exec: 'sleep' ran out of time");
    CHECK(first != NULL && first < last); // it waited until one of them was over
    rig_close();
}

TEST(requests_that_wait_go_with_their_unit)
{
    rig_open();
    rig_load("a", "for i = 1, 40 do exec({cmd = 'sleep', args = {'100'}}, say) end\n"
                  "for i = 1, 100 do http.get('http://127.0.0.1:1/', print) end\n"
                  "for i = 1, 100 do fs.read('/etc/passwd', print) end");
    CHECK_INT(rig_children(), 16); // the others wait
    rig_remove("a");
    while (rig_children() != 0) {
        loop_run_once(&l, true);
    }
    CHECK_STR(buf_z(&rig.said), "");
    rig_close();
}

TEST(what_a_unit_makes_c_keep_counts_as_its_memory)
{
    const char *const flags[] = {"limits.memory_mb=4", NULL};
    rig_open_with(flags, NULL);
    size_t before = vm_get_stats(rig.vm).memory;
    rig_load("a", "for i = 1, 1000 do assert(timer.after(1000, print)) end");
    CHECK(vm_get_stats(rig.vm).memory > before + 1000 * 700);
    rig_remove("a");
    rig_load(
        "a",
        "local s = ('x'):rep(900000) local n = 0\n"
        "for i = 1, 8 do local ok, why = exec({cmd = 'sleep', args = {'9'}, stdin = s}, print)\n"
        "if not ok then say(i > 1, why) break end end");
    CHECK(rig_said("true exec: no room for it in the memory limit of 4 MiB"));
    rig_remove("a");
    rig_load("a", "local s = ('x'):rep(900000)\n"
                  "for i = 1, 8 do local ok, why = store.set('k' .. i, s, print)\n"
                  "if not ok then say(i > 1, why) break end end");
    CHECK(rig_said("true store.set: no room for it in the memory limit of 4 MiB"));
    rig_remove("a");
    rig_load("a",
             "local s = ('x'):rep(900000)\n"
             "for i = 1, 8 do local ok, why = hub.session.message({id = 's', text = s}, print)\n"
             "if not ok then say(i > 1, why) break end end");
    CHECK(rig_said("true hub.session.message: no room for it in the memory limit of 4 MiB"));
    rig_close();
}

TEST(a_changed_limit_reaches_what_is_loaded)
{
    rig_open();
    rig_load("a", "hooks.on('fill', 'h', function() say(#('x'):rep(900000)) end)\n"
                  "hooks.on('nap', 'h', function() timer.sleep(1000) say('woke') end)");
    bind_notify(rig.bind, "fill", NULL);
    rig_wait("900000");
    const char *const flags[] = {"limits.memory_mb=2", "limits.hook_ms=200", NULL};
    struct config *c = rig_config(flags);
    config_put(&rig.settings, c, NULL);
    bind_notify(rig.bind, "fill", NULL);
    bind_notify(rig.bind, "nap", NULL);
    while (!rig_noted("a", DIAG_HOOK_TIMEOUT, "after 200 ms") ||
           !rig_noted("a", DIAG_HOOK_FAILED, "resulting string too large")) {
        loop_run_once(&l, true);
    }
    config_put(&rig.settings, rig.config, NULL);
    config_free(c);
    rig_close();
}
