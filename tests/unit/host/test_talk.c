// The far end's side of the protocol: every message of the hub, and what it makes of nonsense.

#include "unit/host/far.h"

static const char LOADED[] = "\"type\":\"loaded\",\"metadata\":{\"api\":\"1.0\",\"name\":\"x\"}";

TEST(a_file_that_loads_says_so_after_what_it_registered)
{
    far_begin();
    const char *said = far_load("hooks.on('on_done', 'a', function() end)");
    CHECK_SAYS(said, "\"type\":\"register\",\"kind\":\"hook\",\"point\":\"on_done\",\"handler\":0");
    CHECK(strstr(said, "register") < strstr(said, LOADED));
    CHECK_SAYS(far_load("x = 1"), "loaded already");
    far_end();
}

TEST(a_file_that_does_not_compile_fails_with_path_and_line)
{
    far_begin();
    const char *said = far_load("local a = 1\nlocal b = = 2");
    CHECK_SAYS(said, "\"type\":\"failed\"");
    CHECK_SAYS(said, "\"code\":\"LOAD_FAILED\"");
    CHECK_SAYS(said, "x.lua");
    CHECK_SAYS(said, "\"line\":2");
    far_end();
}

TEST(a_file_that_throws_fails)
{
    far_begin();
    CHECK_SAYS(far_load("error('no wind')"), "no wind");
    far_end();
}

TEST(an_endless_load_fails_with_its_own_code)
{
    far_begin();
    CHECK_SAYS(far_load("while true do end"), "LOAD_TIMEOUT");
    far_end();
}

TEST(a_hook_answers_with_what_its_handler_returned)
{
    far_begin();
    far_load("hooks.intercept('on_final', 'a', function(ctx, text) return text .. ctx.who end)");
    CHECK_SAYS(far_say("{\"type\":\"hook\",\"id\":7,\"point\":\"on_final\",\"handler\":0,"
                       "\"ctx\":{\"who\":\"!\"},\"args\":[\"hi\"]}"),
               "{\"type\":\"result\",\"id\":7,\"value\":\"hi!\"}");
    far_end();
}

TEST(an_observer_answers_nothing_whatever_it_returns)
{
    far_begin();
    far_load("hooks.on('on_final', 'a', function(ctx, text) return 'changed' end)");
    CHECK_SAYS(far_say("{\"type\":\"hook\",\"id\":1,\"handler\":0,\"ctx\":{},\"args\":[\"hi\"]}"),
               "\"value\":null");
    far_end();
}

TEST(a_handler_that_throws_is_an_error_with_its_place)
{
    far_begin();
    far_load("hooks.on('on_done', 'a', function()\n error('boom') end)");
    const char *said = far_say("{\"type\":\"hook\",\"id\":3,\"handler\":0,\"ctx\":{},\"args\":[]}");
    CHECK_SAYS(said, "{\"type\":\"error\",\"id\":3,\"message\":\"boom\",\"code\":\"HOOK_FAILED\"");
    CHECK_SAYS(said, "\"line\":2");
    far_end();
}

TEST(a_hook_that_is_not_there_is_an_error)
{
    far_begin();
    far_load("tool{name='t', run=function() end}");
    CHECK_SAYS(far_say("{\"type\":\"hook\",\"id\":3,\"handler\":0}"),
               "no such handler"); // a tool's
    CHECK_SAYS(far_say("{\"type\":\"hook\",\"id\":3,\"handler\":99}"), "no such handler");
    CHECK_SAYS(far_say("{\"type\":\"hook\",\"id\":3,\"handler\":-1}"), "no such handler");
    far_end();
}

TEST(a_tool_answers_with_a_value_or_its_own_message)
{
    far_begin();
    const char *said = far_load("tool{name='roll', description='d', input={sides='integer'},"
                                "run=function(ctx, i) if i.sides then return i.sides end "
                                "return nil, 'no sides' end}");
    CHECK_SAYS(said,
               "\"kind\":\"tool\",\"name\":\"roll\",\"description\":\"d\",\"input\":{\"sides\":"
               "\"integer\"}}");
    CHECK_SAYS(far_say("{\"type\":\"tool\",\"id\":1,\"name\":\"roll\",\"input\":{\"sides\":6}}"),
               "{\"type\":\"result\",\"id\":1,\"value\":6}");
    CHECK_SAYS(far_say("{\"type\":\"tool\",\"id\":2,\"name\":\"roll\",\"ctx\":{},\"input\":{}}"),
               "{\"type\":\"error\",\"id\":2,\"message\":\"no sides\"}");
    CHECK_SAYS(far_say("{\"type\":\"tool\",\"id\":3,\"name\":\"row\",\"input\":{}}"),
               "no such tool");
    far_end();
}

TEST(a_value_that_cannot_travel_is_an_error)
{
    far_begin();
    far_load("hooks.intercept('on_final', 'a', function() return {print} end)");
    CHECK_SAYS(far_say("{\"type\":\"hook\",\"id\":1,\"handler\":0,\"args\":[]}"),
               "a function cannot be sent");
    far_end();
}

TEST(an_event_reaches_those_who_listen)
{
    far_begin();
    CHECK_SAYS(
        far_load("events.on('improvement.ping', function(d) log.info('got ' .. d.n) end)\n"
                 "gone = events.on('improvement.*', function(d) log.info('any ' .. d.n) end)"),
        "\"kind\":\"event\",\"name\":\"improvement.ping\"");
    const char *said =
        far_say("{\"type\":\"event\",\"name\":\"improvement.ping\",\"data\":{\"n\":1}}");
    CHECK_SAYS(said, "got 1");
    CHECK_SAYS(said, "any 1");
    CHECK(strstr(far_say("{\"type\":\"event\",\"name\":\"improvement.pong\",\"data\":{\"n\":1}}"),
                 "got") == NULL);
    far_end();
}

TEST(a_cancelled_tool_is_answered_once)
{
    far_begin();
    far_load("tool{name='wait', run=function() timer.sleep(1000) return 1 end}");
    CHECK_STR(far_say("{\"type\":\"tool\",\"id\":5,\"name\":\"wait\",\"input\":{}}"), "");
    CHECK_INT(far.jobs.n, 1);
    CHECK_STR(far_say("{\"type\":\"cancel\",\"id\":5}"),
              "{\"type\":\"error\",\"id\":5,\"message\":\"cancelled\"}\n");
    CHECK_INT(far.jobs.n, 0);
    CHECK_INT(far.waits.n, 0);
    CHECK_STR(far_say("{\"type\":\"cancel\",\"id\":5}"), "");
    far_end();
}

TEST(shutdown_is_answered_and_open_ids_go_on)
{
    far_begin();
    far_load("tool{name='nap', run=function() timer.sleep(0) return 'rested' end}\n"
             "timer.every(0.01, function() log.info('tick') end)");
    far_say("{\"type\":\"event\",\"name\":\"plugin_start\",\"data\":{}}");
    CHECK_STR(far_say("{\"type\":\"tool\",\"id\":1,\"name\":\"nap\",\"input\":{}}"), "");
    CHECK_SAYS(far_say("{\"type\":\"shutdown\",\"id\":2,\"reason\":\"reload\"}"),
               "{\"type\":\"result\",\"id\":2");
    CHECK(far__next_ms(&far) <= 1); // the nap; no timer counts any more
    CHECK_STR(far_turn(), "{\"type\":\"result\",\"id\":1,\"value\":\"rested\"}\n");
    CHECK_INT(far__next_ms(&far), -1);
    far_end();
}

TEST(an_operation_waits_for_its_answer)
{
    far_begin();
    far_load("tool{name='w', run=function() local l, e = hub.get_worktrees() return l or e end}");
    CHECK_SAYS(far_say("{\"type\":\"tool\",\"id\":1,\"name\":\"w\",\"input\":{}}"),
               "{\"type\":\"call\",\"id\":1,\"op\":\"worktree.list\",\"params\":{}}");
    CHECK_STR(far_say("{\"type\":\"result\",\"id\":99,\"value\":[1]}"), ""); // nobody's
    CHECK_SAYS(far_say("{\"type\":\"result\",\"id\":1,\"value\":[]}"), "\"id\":1,\"value\":[]");
    far_say("{\"type\":\"tool\",\"id\":2,\"name\":\"w\",\"input\":{}}");
    CHECK_SAYS(far_say("{\"type\":\"error\",\"id\":2,\"message\":\"not now\"}"), "\"not now\"");
    far_end();
}

TEST(unknown_messages_are_answered_with_an_error)
{
    far_begin();
    CHECK_STR(far_say("{\"type\":\"dance\",\"id\":4}"),
              "{\"type\":\"error\",\"id\":4,\"message\":\"unknown message\"}\n");
    CHECK_SAYS(far_say("{\"id\":4}"), "unknown message");
    CHECK_SAYS(far_say("[1,2]"), "unknown message");
    CHECK_SAYS(far_say("{\"type\":\"load\"}"), "cannot read"); // its file is not there
    CHECK_SAYS(far_say("not json"), "\"type\":\"error\"");
    CHECK_STR(far_say("{\"type\":\"error\",\"message\":\"never answered\"}"), "");
    far_end();
}

TEST(timers_wait_for_the_start_of_their_version)
{
    far_begin();
    far_load("timer.after(0, function() log.info('fired') end)");
    far__fire_due(&far);
    CHECK_STR(far_heard(), "");
    CHECK_INT(far__next_ms(&far), -1);
    far_say("{\"type\":\"event\",\"name\":\"plugin_start\",\"data\":{\"reason\":\"start\"}}");
    CHECK_SAYS(far_turn(), "fired");
    CHECK_INT(far.timers.n, 0);
    far_end();
}

TEST(a_limit_in_a_timer_is_told_without_an_id)
{
    far_begin();
    far_load("timer.after(0, function() while true do end end)");
    far_say("{\"type\":\"event\",\"name\":\"plugin_start\"}");
    const char *said = far_turn();
    CHECK_SAYS(said, "{\"type\":\"error\",\"message\"");
    CHECK_SAYS(said, "HOOK_TIMEOUT");
    far_end();
}
