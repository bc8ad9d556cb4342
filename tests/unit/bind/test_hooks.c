#include "unit/bind/rig.h"

TEST(notify_delivers_exactly_as_many_arguments_as_were_given)
{
    rig_open();
    rig_load("a", "hooks.on('e', 'h', function(...) say(select('#', ...), ...) end)");
    rig_load("b", "say(hooks.notify('e', 1, nil, 3)) hooks.notify('e') hooks.notify('e', nil)"
                  "hooks.notify('e', 1, nil)");
    CHECK_STR(buf_z(&rig.said), "3 1 nil 3\n1\n0\n1 nil\n2 1 nil\n");
    rig_close();
}

TEST(an_interceptor_that_returns_only_its_first_value_keeps_the_others)
{
    rig_open();
    rig_load("a", "hooks.intercept('e', 'one', function(a, b, c) return a + 1 end)"
                  "hooks.intercept('e', 'two', function() end)"
                  "hooks.intercept('e', 'three', function(a, b) return nil, 'lost' end)");
    rig_load("b", "say(hooks.call('e', 1, nil, 3)) say(hooks.call('nobody', 1, nil, 3, nil))");
    CHECK_STR(buf_z(&rig.said), "2 nil 3\n1 nil 3 nil\n");
    rig_load("c", "hooks.intercept('e', 'four', function(a) return a, 'b', nil, 'too many' end)");
    rig_hush();
    rig_load("b", "say(hooks.call('e', 1, nil, 3))");
    CHECK_STR(buf_z(&rig.said), "2 b nil\n");
    rig_close();
}

TEST(handlers_run_by_priority_then_by_order)
{
    rig_open();
    rig_load("a",
             "hooks.on('e', '1', function() say(1) end) hooks.on('e', '2', function() say(2) end)"
             "hooks.on('e', '3', function() say(3) end, {priority = 5})");
    rig_load("b", "hooks.notify('e')");
    CHECK_STR(buf_z(&rig.said), "3\n1\n2\n");
    rig_close();
}

TEST(a_handler_of_the_same_event_and_name_replaces_and_off_takes_back)
{
    rig_open();
    rig_load("a", "say(hooks.on('e', 'x', function() say('old') end))"
                  "hooks.on('e', 'x', function() say('new') end)"
                  "hooks.on('e', 'y', function() say('y') end)");
    rig_load("b",
             "hooks.notify('e') say(hooks.off('e', 'x'), hooks.off('e', 'x')) hooks.notify('e')");
    CHECK_STR(buf_z(&rig.said), "true\nnew\ny\ntrue false\ny\n");
    rig_load("c", "hooks.intercept('e', 'i', function(v) return v .. '!' end) ");
    rig_hush();
    rig_load(
        "b",
        "say(hooks.call('e', 'v')) say(hooks.unintercept('e', 'i')) say(hooks.call('e', 'v'))");
    CHECK_STR(buf_z(&rig.said), "v!\ntrue\nv\n");
    rig_close();
}

TEST(disabled_handlers_do_not_run_until_enabled)
{
    rig_open();
    rig_load("a", "hooks.on('e', 'x', function() say('x') end)");
    rig_load("b",
             "say(hooks.disable('e', 'x'), hooks.disable('e', 'no')) hooks.notify('e')"
             "say(hooks.list('e')[1].enabled) hooks.enable('e', 'x') hooks.notify('e')"
             "local h = hooks.list()[1] say(h.event, h.name, h.kind, h.unit, h.count, h.enabled)");
    CHECK_STR(buf_z(&rig.said), "true false\nfalse\nx\ne x observe a 1 true\n");
    rig_close();
}

TEST(a_handler_that_throws_is_a_diagnostic_and_the_next_runs)
{
    rig_open();
    rig_load("a", "hooks.on('e', 'x', function() error('broken') end)\n"
                  "hooks.on('e', 'y', function() say('y') end)"
                  "hooks.intercept('e', 'z', function() error('stop') end, {on_error = 'block'})");
    rig_load("b", "say(hooks.notify('e')) say(hooks.call('e', 1))");
    CHECK_STR(buf_z(&rig.said), "y\n1\nnil stop\n");
    CHECK(rig_noted("a", DIAG_HOOK_FAILED, "hook 'e': broken"));
    CHECK(rig_noted("a", DIAG_HOOK_FAILED, "hook 'e': stop"));
    rig_close();
}

TEST(handlers_may_wait_and_call_waits_for_them)
{
    rig_open();
    rig_load("a", "hooks.intercept('e', 'x', function(v) timer.sleep(0.001) return v .. 'x' end)"
                  "hooks.intercept('e', 'y', function(v) return v .. 'y' end)"
                  "hooks.on('e', 'z', function(v) timer.sleep(0.001) say('seen', v) end)");
    rig_run("say(hooks.call('e', 'v')) say(hooks.notify('e', 'n'))");
    CHECK(rig_said("vxy") && rig_said("0"));
    rig_wait("seen n");
    rig_hush();
    rig_load("b", "say(hooks.call('e', 'w'))"); // nobody may wait while a file loads
    CHECK_STR(buf_z(&rig.said), "wy\n");
    rig_close();
}

TEST(a_dispatch_that_its_caller_cannot_wait_for_goes_on_alone)
{
    rig_open();
    rig_load("a", "hooks.intercept('e', 'x', function(v) timer.sleep(0.001) say('slept') end)");
    rig_run("local t = setmetatable({}, {__index = function() return hooks.call('e', 1) end}) "
            "say(select(2, pcall(function() return t.x end)))");
    CHECK(strstr(buf_z(&rig.said), "cannot wait here: inside a metamethod") != NULL);
    rig_wait("slept");
    rig_close();
}

TEST(arguments_are_shared_inside_a_state_and_copied_to_another)
{
    rig_open();
    rig_load("a", "hooks.on('e', 'x', function(t) t.n = t.n + 1 say('a', t:double()) end)"
                  "hooks.intercept('f', 'x', function(t, s) return {n = t.n + 1} end)");
    rig_load("other", "hooks.on('e', 'y', function(t) t.n = 100 say('other', t.n, t.double) end)"
                      "hooks.intercept('f', 'y', function(t, s) return {n = t.n * 2} end)");
    rig_load("b", "local t = setmetatable({n = 1}, {__index = {double = function(t) return t.n * 2 "
                  "end}}) hooks.notify('e', t) say('b', t.n) "
                  "local r, s = hooks.call('f', {n = 3}, 's') say(r.n, s)");
    CHECK(rig_said("a 4") && rig_said("other 100 nil") && rig_said("b 2") && rig_said("8 s"));
    rig_close();
}

TEST(the_agents_points_cannot_be_raised_and_have_one_kind)
{
    rig_open();
    rig_run(
        "say(select(2, pcall(hooks.notify, 'on_begin'))) "
        "say(hooks.on('on_tool_call', 'x', print)) say(hooks.intercept('tool_call', 'x', print))"
        "say(hooks.unintercept('on_tool_call', 'x')) say(select(2, pcall(hooks.on, 'e', 'x')))"
        "say(select(2, pcall(hooks.on, 'e', 'x', print, {prio = 1})))"
        "say(select(2, pcall(hooks.on, 'e', nil, print)))");
    CHECK(strstr(buf_z(&rig.said), "'on_begin' is a point of the agent") != NULL);
    CHECK(strstr(buf_z(&rig.said), "nil hooks.on: hook point 'on_tool_call' is of kind chain") !=
          NULL);
    CHECK(rig_said("true"));
    CHECK(strstr(buf_z(&rig.said), "hooks.on: the handler must be a function, not nil") != NULL);
    CHECK(strstr(buf_z(&rig.said), "hooks.on: unknown option 'prio'") != NULL);
    CHECK(strstr(buf_z(&rig.said), "hooks.on: name must be a string, not nil") != NULL);
    rig_close();
}

TEST(c_code_notifies_with_a_json_value)
{
    struct arena a = {0};
    struct json *v;
    rig_open();
    rig_load("a",
             "hooks.on('file_changed', 'x', function(...) say(select('#', ...), (...).path) end)"
             "hooks.on('shutdown', 'x', function(...) say('args', select('#', ...)) end)");
    CHECK_INT(json_parse(&v, &a, STR("{\"path\":\"/x\"}"), NULL, NULL), 0);
    bind_notify(rig.bind, "file_changed", v);
    bind_notify(rig.bind, "shutdown", NULL);
    bind_notify(rig.bind, "nobody", v);
    arena_fini(&a);
    CHECK_STR(buf_z(&rig.said), "1 /x\nargs 0\n");
    rig_close();
}

TEST(the_value_of_c_code_is_there_for_handlers_that_come_later)
{
    struct arena a = {0};
    struct json *v;
    rig_open();
    rig_load("a", "hooks.on('file_changed', 'x', function() timer.sleep(0.001) end)"
                  "hooks.on('file_changed', 'y', function(v) say(v.path) end)");
    CHECK_INT(json_parse(&v, &a, STR("{\"path\":\"/x\"}"), NULL, NULL), 0);
    bind_notify(rig.bind, "file_changed", v);
    arena_fini(&a);
    rig_wait("/x");
    rig_close();
}

TEST(dispatches_that_wait_for_each_other_end_when_the_hub_stops)
{
    rig_open();
    rig_load("a", "hooks.intercept('save', 'x', function(v) say('in', v) timer.sleep(3600) end)"
                  "hooks.on('shutdown', 'x', function() hooks.call('save', 1) end)"
                  "hooks.on('shutdown', 'y', function() say('not reached') end)");
    bind_notify(rig.bind, "shutdown", NULL);
    bind_notify(rig.bind, "shutdown", NULL);
    CHECK_STR(buf_z(&rig.said), "in 1\nin 1\n");
    rig_close();
}
