#include "unit/bind/rig.h"

TEST(after_fires_once_and_every_again_and_again)
{
    struct test_clock clock;
    test_clock_init(&clock);
    rig_open_with(NULL, &clock.clock);
    rig_load("a", "n = 0 timer.after(1.5, function() say('once') end)"
                  "timer.every(0.5, function() n = n + 1 say('beat', n) end)");
    for (int i = 0; i < 4; i++) {
        test_clock_advance(&clock, &l, 500);
        rig_settle();
    }
    CHECK_STR(buf_z(&rig.said), "beat 1\nbeat 2\nonce\nbeat 3\nbeat 4\n");
    rig_close();
}

TEST(timers_of_one_moment_fire_in_the_order_in_which_they_were_written)
{
    rig_open();
    rig_load("a", "for i = 1, 5 do timer.after(0, function() say(i) end) end "
                  "timer.after(0.001, function() say('end') end)");
    rig_wait("end");
    CHECK_STR(buf_z(&rig.said), "1\n2\n3\n4\n5\nend\n");
    rig_close();
}

TEST(a_cancelled_timer_does_not_fire)
{
    struct test_clock clock;
    test_clock_init(&clock);
    rig_open_with(NULL, &clock.clock);
    rig_load("a", "local a = timer.after(1, function() say('a') end)"
                  "local b = timer.every(1, function() say('b') end)"
                  "timer.after(1, function() say('c') end)"
                  "say(timer.cancel(a), timer.cancel(b), timer.cancel(b), timer.cancel(99))");
    test_clock_advance(&clock, &l, 5000);
    rig_settle();
    CHECK_STR(buf_z(&rig.said), "true true false false\nc\n");
    rig_close();
}

TEST(a_timer_may_cancel_itself)
{
    rig_open();
    rig_load("a", "local n, id = 0 id = timer.every(0.001, function() n = n + 1 "
                  "if n == 3 then say(timer.cancel(id)) timer.sleep(0.001) say('end') end end)");
    rig_wait("end");
    CHECK_STR(buf_z(&rig.said), "true\nend\n");
    rig_close();
}

TEST(every_waits_for_its_handler)
{
    rig_open();
    rig_load("a", "local inside, n = 0, 0 timer.every(0.001, function() inside = inside + 1 "
                  "if inside > 1 then say('overlaps') end timer.sleep(0.005) inside = inside - 1 "
                  "n = n + 1 if n == 5 then say('end') end end)");
    rig_wait("end");
    CHECK(!rig_said("overlaps"));
    rig_close();
}

TEST(sleep_returns_in_a_handler_and_says_why_it_cannot_at_load)
{
    rig_open();
    CHECK(strstr(rig_fault("a", "timer.sleep(1)"),
                 "cannot wait here: a file that loads cannot be suspended") != NULL);
    rig_run("timer.sleep(0.001) say('slept')");
    CHECK(rig_said("slept"));
    rig_run("table.sort({2, 1}, function(a, b) timer.sleep(0.001) return a < b end)");
    CHECK(strstr(buf_z(&rig.said), "cannot wait here: inside a callback of table.sort") != NULL);
    rig_close();
}

TEST(a_sleep_in_a_coroutine_of_the_handlers_own_returns_too)
{
    rig_open();
    rig_run("local co = coroutine.wrap(function() timer.sleep(0.001) coroutine.yield('a') "
            "timer.sleep(0.001) return 'b' end) say(co(), co())");
    CHECK(rig_said("a b"));
    rig_close();
}

TEST(timer_arguments_are_checked)
{
    rig_open();
    rig_run("for _, f in ipairs{ function() timer.after('x', print) end,"
            "function() timer.after(1) end, function() timer.every(-1, print) end,"
            "function() timer.after(0/0, print) end, function() timer.sleep() end } do "
            "say(select(2, pcall(f))) end");
    CHECK(
        strstr(buf_z(&rig.said), "timer.after: the time must be a number of seconds, not string"));
    CHECK(strstr(buf_z(&rig.said), "timer.after: the handler must be a function, not nil"));
    CHECK(strstr(buf_z(&rig.said), "timer.every: the time must be between 0 and ten years"));
    CHECK(strstr(buf_z(&rig.said), "timer.after: the time must be between 0 and ten years"));
    CHECK(strstr(buf_z(&rig.said), "timer.sleep: the time must be a number of seconds, not nil"));
    rig_close();
}

TEST(a_timer_that_runs_out_of_time_three_times_in_a_row_is_switched_off)
{
    static const char *const flags[] = {"limits.lua_ms=100", NULL};
    rig_open_with(flags, NULL);
    rig_load("a", "n = 0 timer.every(0.001, function() n = n + 1 say('turn', n) "
                  "while n ~= 2 do end end) timer.every(0.001, function() say('other', n) end)");
    rig_wait("other 5"); // 1 hangs, 2 ends well, 3 to 5 hang
    rig_hush();
    rig_wait("other 5");
    CHECK(!rig_said("turn 6"));
    CHECK(rig_noted("a", DIAG_HOOK_DISABLED, "timer handler ran out of time 3 times"));
    rig_close();
}

TEST(a_handler_that_waits_too_long_is_given_up)
{
    static const char *const flags[] = {"limits.tool_ms=20", NULL};
    rig_open_with(flags, NULL);
    rig_load("a", "timer.after(0, function() local c <close> = setmetatable({}, {__close = "
                  "function() say('closed') end}) timer.sleep(3600) say('woken') end)");
    rig_wait("closed");
    CHECK(rig_noted("a", DIAG_HOOK_TIMEOUT, "ran out of time after 20 ms"));
    CHECK(!rig_said("woken"));
    rig_close();
}

TEST(an_id_reaches_only_what_the_running_unit_owns)
{
    struct test_clock clock;
    test_clock_init(&clock);
    rig_open_with(NULL, &clock.clock);
    rig_load("a", rig_code("timer.after(1, function() say('once') end) "
                           "beat = timer.every(1, function() say('beat') end) "
                           "events.on('ping', function() say('pong') end) "
                           "watch.directory('%s', function() end)",
                           rig_path("")));
    size_t registrations = gen_unit_count(gen_at(gen_current(rig.engine), 0));
    const char *guess = "for id = 1, 99 do if timer.cancel(id) or events.off(id) or "
                        "watch.unwatch(id) then say('reached', id) end end say('guessed')";
    rig_load("b", guess);
    rig_load("other", guess);
    CHECK_STR(buf_z(&rig.said), "guessed\nguessed\n");
    CHECK_INT(gen_unit_count(gen_at(gen_current(rig.engine), 0)), registrations);
    rig_load("c", "events.emit('ping')");
    test_clock_advance(&clock, &l, 1000);
    rig_settle();
    CHECK(rig_said("once") && rig_said("beat") && rig_said("pong"));
    rig_close();
}
