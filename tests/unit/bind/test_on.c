#include "unit/bind/rig.h"

static size_t hooks_of(const char *point, enum hook_kind kind)
{
    const struct hook_list *list =
        hook_set_get(gen_hooks(gen_current(rig.engine)), str_of(point), kind);
    return list != NULL ? list->n : 0;
}

TEST(on_registers_for_points_with_their_kind_and_options)
{
    rig_open();
    rig_load("a",
             "on('tool_call', function() end) h = on_tool_call({tool = 'shell', priority = 10, "
             "timeout_ms = 50, on_error = 'block'}, function() end) on_begin(function() end)"
             "on('on_permission', function() end)");
    CHECK_INT(hooks_of("on_tool_call", HOOK_CHAIN), 2);
    const struct hook *h =
        hook_set_get(gen_hooks(gen_current(rig.engine)), STR("on_tool_call"), HOOK_CHAIN)->hooks[0];
    CHECK_STR(h->filter, "shell");
    CHECK_INT(h->terms.priority, 10);
    CHECK_INT(h->terms.timeout_ms, 50);
    CHECK_INT(h->terms.on_error, HOOK_BLOCK);
    CHECK_INT(hooks_of("on_begin", HOOK_OBSERVE), 1);
    CHECK_INT(hooks_of("on_permission", HOOK_VETO), 1);
    rig_load("b", "say(h:off(), h:off())");
    CHECK(rig_said("true false"));
    CHECK_INT(hooks_of("on_tool_call", HOOK_CHAIN), 1);
    rig_close();
}

TEST(on_subscribes_to_events_and_an_unknown_name_is_an_error_with_the_nearest)
{
    rig_open();
    rig_load("a", "h = on('feature.changed', function(e) say('one', e.name) end)"
                  "on('feature.*', function(e) say('all', e.name) end) on('user.x', say)");
    event_emit(rig.events, STR("feature.changed"), STR_NULL, STR("\"name\":\"x\""));
    rig_wait("one x");
    rig_wait("all x");
    rig_load("b", "say(h.off(), h:off())");
    CHECK(rig_said("true false"));
    CHECK(strstr(rig_fault("b", "on('feature.chagned', print)"),
                 "there is no hook point or event 'feature.chagned' (did you mean "
                 "'feature.changed'?)") != NULL);
    CHECK(strstr(rig_fault("b", "on('on_tool_cal', print)"), "'on_tool_call'?)") != NULL);
    CHECK(strstr(rig_fault("b", "on('tool_cal', print)"), "'tool_call'?)") != NULL);
    CHECK(strstr(rig_fault("b", "on('finl', print)"), "'final'?)") != NULL);
    CHECK(strstr(rig_fault("b", "on('begin')"), "on: the handler must be a function") != NULL);
    rig_close();
}

TEST(a_unit_hears_of_its_own_start_and_shutdown)
{
    rig_open();
    rig_load("a", "on('plugin_start', function(e) timer.sleep(0.001) say('start', e.reason) end)"
                  "on('plugin_shutdown', function(e) say('stop', e.reason) end)");
    CHECK(rig_said("start start"));
    rig_load("a", "on('plugin_start', function(e) say('start', e.reason) end)"
                  "on('plugin_shutdown', function(e) error('x') end)");
    CHECK(rig_said("stop reload") && rig_said("start reload"));
    rig_remove("a");
    rig_close();
}
