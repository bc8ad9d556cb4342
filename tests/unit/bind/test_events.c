#include "unit/bind/rig.h"

TEST(an_event_reaches_subscribers_of_all_units_as_a_copy)
{
    rig_open();
    rig_load("a", "events.on('mine', function(v, name) say('a', v.x[1], name) v.x[1] = 9 end)");
    rig_load("b", "events.on('mine', function(v) say('b', v.x[1]) end)");
    rig_load("other", "events.on('mine', function(v) say('other', v.x[1]) end)");
    rig_load("c", "local t = {x = {1}} say(events.emit('mine', t)) t.x[1] = 5");
    rig_wait("a 1 mine");
    rig_wait("b 1");
    rig_wait("other 1");
    rig_close();
}

TEST(a_subscriber_gets_events_of_the_hubs_stream)
{
    rig_open();
    rig_load("a",
             "events.on('feature.changed', function(e, name) say(name, e.type, e.name, e.id > 0)"
             " end) events.on('feature.*', function(e, name) say('pattern', name) end)");
    event_emit(rig.events, STR("feature.changed"), STR_NULL, STR("\"name\":\"x\""));
    rig_wait("feature.changed feature.changed x true");
    rig_wait("pattern feature.changed");
    rig_close();
}

TEST(only_user_events_go_from_lua_to_the_stream)
{
    rig_open();
    uint64_t before = event_last_id(rig.events);
    rig_load("s", "events.on('user.*', function(v, name) say('got', v[2], name) end)");
    rig_load("a", "say(events.emit('plain', 1)) say(events.emit('user.done', {1, 2}))"
                  "say(events.emit('hub.started')) say(events.emit('user.Bad', 1))"
                  "say(events.emit('x', print)) say(select(2, pcall(events.emit, '')))");
    CHECK_INT(event_last_id(rig.events), before + 1);
    CHECK(rig_said(
        "nil events.emit: 'hub.started' is an event of the hub and cannot be emitted by plugins"));
    CHECK(strstr(buf_z(&rig.said), "nil events.emit: 'user.Bad'") != NULL);
    CHECK(strstr(buf_z(&rig.said), "nil events.emit: value: a function cannot be sent") != NULL);
    CHECK(strstr(buf_z(&rig.said), "events.emit: a name has 1 to 64 bytes") != NULL);
    rig_wait("got 2 user.done");
    rig_close();
}

TEST(a_subscriber_that_waits_gets_its_events_in_order)
{
    rig_open();
    rig_load(
        "a",
        "events.on('n', function(v) timer.sleep((6 - v) / 500) say(v) if v == 5 then say('end') end"
        " end)");
    rig_load("b", "for i = 1, 5 do events.emit('n', i) end");
    rig_wait("end");
    CHECK_STR(buf_z(&rig.said), "1\n2\n3\n4\n5\nend\n");
    rig_close();
}

TEST(off_ends_a_subscription)
{
    rig_open();
    rig_load("a", "local id = events.on('n', function() say('off') end)"
                  "events.on('n', function(v) say('on', v) end)"
                  "say(events.off(id), events.off(id), events.off('x'))");
    rig_load("b", "events.emit('n', 'v')");
    rig_wait("on v");
    CHECK(rig_said("true false false"));
    CHECK(!rig_said("off"));
    rig_close();
}
