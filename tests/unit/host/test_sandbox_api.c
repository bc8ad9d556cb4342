// What a file in the sandbox sees: exactly the list, and each of it with its own refusals.

#include "unit/host/far.h"

/// Run `body` in a tool and give what it returned as JSON text.
static const char *eval(const char *body)
{
    struct buf source;
    buf_init(&source, SIZE_MAX);
    buf_addf(&source, "tool{name='t', run=function(ctx, input) %s end}", body);
    CHECK_SAYS(far_load(buf_z(&source)), "loaded");
    buf_fini(&source);
    return far_say("{\"type\":\"tool\",\"id\":1,\"name\":\"t\",\"input\":{}}");
}

TEST(the_globals_are_exactly_the_list)
{
    far_begin();
    const char *said = eval("local t = {} for k in pairs(_G) do t[#t + 1] = k end table.sort(t) "
                            "return table.concat(t, ' ')");
    CHECK_SAYS(
        said, "\"value\":\"_G _VERSION assert collectgarbage config coroutine error events fs "
              "getmetatable hooks hub ipairs json load log math next os pairs pcall print rawequal "
              "rawget rawlen rawset select setmetatable string table timer tonumber tool tostring "
              "type utf8 warn xpcall\"");
    far_end();
}

TEST(members_of_the_libraries_are_exactly_the_list)
{
    far_begin();
    const char *said = eval("local t = {} for _, lib in ipairs{'config', 'events', 'fs', 'hooks', "
                            "'hub', 'os', 'timer'} do for k in pairs(_G[lib]) do "
                            "t[#t + 1] = lib .. '.' .. k end end table.sort(t) "
                            "return table.concat(t, ' ')");
    CHECK_SAYS(said,
               "\"value\":\"config.all config.data_dir config.get config.lua_path events.emit "
               "events.off events.on fs.append fs.copy fs.exists fs.is_dir fs.list fs.mkdir "
               "fs.read fs.remove fs.rename fs.stat fs.write hooks.intercept hooks.off hooks.on "
               "hooks.unintercept hub.get_worktrees os.clock os.date os.difftime os.time "
               "timer.after timer.cancel timer.every timer.sleep\"");
    far_end();
}

TEST(only_the_open_points_can_be_hooked)
{
    far_begin();
    const char *said = far_load(
        "for _, p in ipairs{'on_before_model', 'on_tool_call', 'on_permission', 'on_resolve_tool', "
        "'before_pty_spawn', 'filter_agent_env', 'after_agent_create', 'shutdown'} do\n"
        "  local ok, e = hooks.on(p, 'x', function() end)\n"
        "  assert(ok == nil and e:find('not open'), p)\n"
        "  ok, e = hooks.intercept(p, 'x', function() end)\n"
        "  assert(ok == nil and e:find('not open'), p)\n"
        "end\n"
        "local ok, e = hooks.intercept('on_begin', 'x', function() end)\n"
        "assert(ok == nil and e:find('observed only'))\n"
        "assert(hooks.on('user_message', 'x', function() end) == true)");
    CHECK_SAYS(said, "\"type\":\"loaded\"");
    CHECK_INT(far.handlers.n, 1);
    far_end();
}

TEST(only_own_events_can_be_emitted_and_only_open_ones_heard)
{
    far_begin();
    const char *said = far_load(
        "for _, n in ipairs{'hub.started', 'message.delta', 'outgoing_signal', 'improvements'} do\n"
        "  local ok, e = events.emit(n, {})\n"
        "  assert(ok == nil and e:find('improvement'), n)\n"
        "end\n"
        "for _, n in ipairs{'message.delta', 'outgoing_signal', '*', 'tool.called'} do\n"
        "  local ok, e = events.on(n, function() end)\n"
        "  assert(ok == nil and e:find('not open'), n)\n"
        "end\n"
        "assert(events.on('generation.committed', function() end))\n"
        "assert(events.emit('improvement.x', {a = 1}))");
    CHECK_SAYS(said,
               "\"op\":\"event.emit\",\"params\":{\"name\":\"improvement.x\",\"data\":{\"a\":1}}");
    CHECK_SAYS(said, "\"type\":\"loaded\"");
    far_end();
}

TEST(nothing_can_be_registered_after_loading)
{
    far_begin();
    const char *said = eval("local a = pcall(hooks.on, 'on_done', 'x', function() end) "
                            "local b = pcall(events.on, 'improvement.x', function() end) "
                            "local c = pcall(tool, {name='u', run=function() end}) "
                            "return {a, b, c}");
    CHECK_SAYS(said, "[false,false,false]");
    CHECK(strstr(said, "register") == NULL);
    far_end();
}

TEST(registrations_have_a_bound)
{
    far_begin();
    CHECK_SAYS(far_load("for i = 1, 1000 do hooks.on('on_done', 'n' .. i, function() end) end"),
               "hooks.on: no more than 256 registrations at once");
    far_end();
}

TEST(a_handler_taken_off_is_not_run)
{
    far_begin();
    far_load("hooks.on('on_done', 'a', function() log.info('ran') end)\n"
             "assert(hooks.off('on_done', 'a') == true)\n"
             "assert(hooks.off('on_done', 'a') == false)");
    CHECK_SAYS(far_say("{\"type\":\"hook\",\"id\":1,\"handler\":0}"), "no such handler");
    far_end();
}

TEST(config_is_a_copy_of_what_came_with_load)
{
    far_begin();
    CHECK_SAYS(eval("config.all()['model.name'] = nil "
                    "return {config.get('model.name'), config.get('a.b'), config.get('no', 'd'), "
                    "config.all()['model.name'], config.lua_path(), config.data_dir(), "
                    "config.get('no.such') == nil}"),
               "[\"m1\",7,\"d\",\"m1\",\"/home/lua\",\"/home\",true]");
    far_end();
}

TEST(timers_have_a_bound_and_a_smallest_step)
{
    far_begin();
    far_load("local id = timer.every(0, function() end)\n"
             "assert(timer.cancel(id) == true and timer.cancel(id) == false)\n"
             "timer.every(0, function() end)");
    far_say("{\"type\":\"event\",\"name\":\"plugin_start\"}");
    int ms = far__next_ms(&far);
    CHECK(ms > 0 && ms <= FAR__TIMER_MIN_MS);
    far_end();
    far_begin();
    CHECK_SAYS(far_load("for i = 1, 1000 do timer.after(1, function() end) end"),
               "timer.after: no more than 256 timers at once");
    far_end();
    far_begin();
    CHECK_SAYS(far_load("timer.after(0/0, function() end)"), "between 0 and ten years");
    far_end();
}

TEST(waiting_while_the_file_loads_is_refused)
{
    far_begin();
    CHECK_SAYS(far_load("timer.sleep(1)"), "cannot wait here");
    far_end();
}

TEST(local_time_is_known_without_files)
{
    far_begin();
    CHECK_SAYS(eval("return os.date('!%Y-%m-%d', 0) .. type(os.time()) .. type(os.date('%H'))"),
               "1970-01-01numberstring");
    far_end();
}
