#include "unit/bind/ops.h"

TEST(sessions_come_as_a_list_of_rows)
{
    fake_open("{\"sessions\":[{\"id\":\"b\",\"state\":\"idle\"},{\"id\":\"a\",\"title\":null}]}");
    rig_run("local t = hub.sessions() say(#t, t[1].id, t[1].state, t[2].id)");
    CHECK(rig_said("2 b idle a"));
    CHECK_STR(buf_z(&fake.heard), "session.list {\"limit\":1000}\n");
    rig_hush();
    rig_load("a", "say(hub.sessions(function(t, why) say('called', t[2].id, why) end))");
    rig_wait("called a nil");
    CHECK(rig_said("true"));
    fake.json = "{\"sessions\":[]}";
    rig_run("say(json.encode(hub.sessions()))");
    CHECK(rig_said("[]"));
    CHECK(strstr(rig_fault("b", "hub.sessions()"), "cannot wait here") != NULL);
    fake_close();
}

TEST(a_list_that_does_not_come_is_nil_and_why)
{
    fake_open("");
    fake_fails(PROBLEM_STORE_FAILED, "the store is full");
    rig_run("say(hub.sessions())");
    CHECK(rig_said("nil hub.sessions: the store is full STORE_FAILED"));
    fake.why = NULL;
    rig_run(
        "local t, why, code = hub.sessions() say(t, why:match('^hub.sessions: ') ~= nil, code)");
    CHECK(rig_said("nil true INTERNAL"));
    fake_close();
}

TEST(a_message_is_sent_as_text_that_a_model_can_read)
{
    fake_open("{}");
    rig_run("say(hub.send('s1', 'good morning')) say(hub.send('s1', 'a\\xff!'))");
    CHECK_STR(buf_z(&rig.said), "true\ntrue\nend\n");
    CHECK(strstr(buf_z(&fake.heard), "\"text\":\"good morning\"") != NULL);
    CHECK(strstr(buf_z(&fake.heard), "\"id\":\"s1\"") != NULL);
    CHECK(strstr(buf_z(&fake.heard), "\"text\":\"a\xEF\xBF\xBD!\"") != NULL);
    rig_hush();
    rig_load("a", "hub.send('s2', 'x', function(ok, why) say('sent', ok, why) end)");
    rig_wait("sent true nil");
    fake_fails(PROBLEM_NOT_FOUND, "there is no session 's3'");
    rig_run("say(hub.send('s3', 'x'))");
    CHECK(rig_said("nil hub.send: there is no session 's3' NOT_FOUND"));
    fake_close();
}

TEST(what_is_no_message_does_not_reach_the_agent)
{
    fake_open("{}");
    rig_run("say(hub.send('s', '')) say(hub.send('s', ('x'):rep(1048577))) "
            "for _, f in ipairs{ function() hub.send(nil, 'x') end, function() hub.send('s') end, "
            "function() hub.send('s', 'a\\0b') end, function() hub.send('s', 'x', 1) end } do "
            "say(select(2, pcall(f))) end");
    CHECK_STR(buf_z(&fake.heard), "");
    CHECK(rig_said("nil hub.send: a message has 1 to 1048576 bytes"));
    CHECK(strstr(buf_z(&rig.said), "hub.send: session must be a string, not nil") != NULL);
    CHECK(strstr(buf_z(&rig.said), "hub.send: text must be a string, not nil") != NULL);
    fake_close();
}

TEST(without_a_hub_that_serves_there_are_no_operations)
{
    fake_open("{}");
    bind_set_ops(rig.bind, NULL, NULL);
    rig_run("say(hub.sessions()) say(hub.send('s', 'x')) say(hub.bot.list())");
    CHECK(rig_said("nil hub.sessions: the hub is starting or stopping; try again later STOPPING"));
    CHECK(rig_said("nil hub.send: the hub is starting or stopping; try again later STOPPING"));
    CHECK(rig_said("nil hub.bot.list: the hub is starting or stopping; try again later STOPPING"));
    fake_close();
}

TEST(an_answer_for_a_unit_that_has_left_reaches_nobody)
{
    fake_open("{\"sessions\":[]}");
    fake_ask("hub.sessions(function() say('late') end)");
    rig_load("a", "say('new')");
    fake_answer(NULL);
    fake_ask("hub.send('s', 'x', function() say('late') end)");
    rig_remove("a");
    fake_answer(NULL);
    rig_settle();
    CHECK_STR(buf_z(&rig.said), "new\n");
    fake_close();
}

static void check_stop_ends(const char *code)
{
    fake_open("{\"sessions\":[]}");
    fake_ask(code);
    fake_close();
    fake_answer(NULL); // a request that was freed, or answered, shows under a sanitizer
}

TEST(an_answer_that_outlives_lua_reaches_nobody)
{
    check_stop_ends("timer.after(0, function() hub.sessions() error('late') end)");
    check_stop_ends("timer.after(0, function() hub.send('s', 'x') error('late') end)");
    check_stop_ends("hub.send('s', 'x', error)");
}

// ---- the table as Lua sees it ---------------------------------------------------------------------

/// A value that fits the type.
static const char *sample(char type)
{
    switch (type) {
    case 'i':
    case 'n': return "1";
    case 'b': return "true";
    case 'a': return "json.array{'x'}";
    case 'o': return "{k = 1}";
    default: return "'x'";
    }
}

/// hub.NAME{...} with every parameter that a plugin may set.
static void write_call(struct buf *code, const struct op *op)
{
    struct str rest = str_of(op->params);
    struct op_param p;
    buf_addf(code, "hub.%s%s{", op->name, op->name == ops[OP_SESSION_END].name ? "_" : "");
    while (op_next_param(op, &rest, &p)) {
        if (!p.of_person) {
            buf_addf(code, "['" STR_FMT "'] = %s, ", STR_ARG(p.name), sample(p.type));
        }
    }
    buf_addz(code, "}");
}

TEST(every_operation_for_lua_is_called_with_its_parameters)
{
    fake_open("{\"fine\":true,\"rows\":[]}"); // lists that are cut to a page have rows
    for (size_t i = 0; i < OP__COUNT; i++) {
        if ((ops[i].flags & OP_LUA) == 0) {
            continue;
        }
        struct buf code;
        buf_init(&code, SIZE_MAX);
        buf_clear(&fake.heard);
        rig_hush();
        buf_addz(&code, "local r, why = ");
        write_call(&code, &ops[i]);
        buf_addz(&code, " say(r and r.fine, why)");
        rig_run(buf_z(&code));
        CHECK(rig_said("true nil"));
        CHECK(str_starts(buf_str(&fake.heard), ops[i].name));
        buf_fini(&code);
    }
    fake_close();
}

TEST(other_operations_do_not_exist)
{
    fake_open("{}");
    for (size_t i = 0; i < OP__COUNT; i++) {
        if ((ops[i].flags & OP_LUA) != 0 || strncmp(ops[i].name, "hub.", 4) == 0) {
            continue;
        }
        const char *dot = strchr(ops[i].name, '.');
        int n = (int)(dot != NULL ? dot - ops[i].name : (ptrdiff_t)strlen(ops[i].name));
        rig_hush();
        rig_run(rig_code("local noun = hub['%.*s'] say(noun and noun['%s'])", n, ops[i].name,
                         dot != NULL ? dot + 1 : ""));
        CHECK(rig_said("nil"));
    }
    rig_run("say(hub.hub, hub.nope, hub[1], hub.generation(), type(hub.session.list))");
    CHECK(strstr(buf_z(&rig.said), "nil nil nil ") != NULL);
    CHECK(strstr(buf_z(&rig.said), " function") != NULL);
    CHECK_STR(buf_z(&fake.heard), "");
    fake_close();
}

TEST(a_refusal_carries_the_code_of_its_problem)
{
    fake_open("{}");
    rig_run(
        "say(hub.session.show{}) say(hub.session.show{id = 5}) say(hub.session.show{idd = 'x'}) "
        "say(hub.session.new{permission = 'allow'}) say(hub.session.show('x')) "
        "say(hub.session.show{id = print})");
    CHECK(rig_said("nil hub.session.show: 'id' is missing INVALID_BODY"));
    CHECK(rig_said("nil hub.session.show: 'id' must be string, not integer INVALID_BODY"));
    CHECK(rig_said("nil hub.session.show: unknown field 'idd'; did you mean 'id'? UNKNOWN_FIELD"));
    CHECK(rig_said("nil hub.session.new: 'permission' is for the user to decide; a plugin cannot "
                   "set it FORBIDDEN"));
    CHECK(rig_said(
        "nil hub.session.show: parameters must be a table with named fields INVALID_BODY"));
    CHECK(strstr(buf_z(&rig.said), "a function cannot be sent INVALID_BODY") != NULL);
    CHECK_STR(buf_z(&fake.heard), "");
    fake_fails(PROBLEM_SESSION_ENDED, "session 's' has ended");
    rig_run("say(hub.session.steer{id = 's', text = 'x'})");
    CHECK(rig_said("nil hub.session.steer: session 's' has ended SESSION_ENDED"));
    fake_close();
}

TEST(an_operation_without_a_verb_is_a_call_of_its_noun)
{
    fake_open("{\"ok\":true}");
    rig_run("say(hub.reload{names = {'a'}}.ok) say(hub.reload.last().ok) say(hub.reload().ok)");
    CHECK_STR(buf_z(&rig.said), "true\ntrue\ntrue\nend\n");
    CHECK_STR(buf_z(&fake.heard), "reload {\"names\":[\"a\"]}\nreload.last {}\nreload {}\n");
    rig_load("a", "hub.doctor(function(r) say('healthy', r.ok) end)");
    rig_wait("healthy true");
    fake_close();
}

TEST(a_noun_can_be_listed_and_not_changed)
{
    fake_open("{}");
    rig_run("local n = 0 for verb, fn in pairs(hub.memory) do n = n + 1 end say(n) "
            "say(pcall(function() hub.memory.list = print end))");
    CHECK(rig_said("5"));
    CHECK(strstr(buf_z(&rig.said), "is read-only") != NULL);
    fake_close();
}
