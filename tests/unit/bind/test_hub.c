#include "unit/bind/rig.h"

// An agent that answers in the next turn of the loop, or when the test says so.

static struct {
    bool slow; // answers wait for fake_answer()
    bind_answer_cb *cb;
    void *arg;
    const char *json, *why; // what it answers
    struct buf heard;       // "id: text" of messages, a line each
} fake;

static void fake_answer(void *arg)
{
    (void)arg;
    bind_answer_cb *cb = fake.cb;
    fake.cb = NULL;
    cb(fake.arg, str_of(fake.json), fake.why);
}

static void fake_ask(bind_answer_cb *cb, void *arg)
{
    CHECK(fake.cb == NULL);
    fake.cb = cb;
    fake.arg = arg;
    if (!fake.slow) {
        loop_defer(&l, fake_answer, NULL);
    }
}

static void fake_list(void *arg, bind_answer_cb *cb, void *cb_arg)
{
    CHECK(arg == &fake);
    fake_ask(cb, cb_arg);
}

static void fake_send(void *arg, struct str id, struct str text, bind_answer_cb *cb, void *cb_arg)
{
    CHECK(arg == &fake);
    buf_addf(&fake.heard, STR_FMT ": " STR_FMT "\n", STR_ARG(id), STR_ARG(text));
    fake_ask(cb, cb_arg);
}

static void hub_open(const char *json, const char *why)
{
    struct bind_sessions s = {.list = fake_list, .send = fake_send, .arg = &fake};
    memset(&fake, 0, sizeof fake);
    fake.json = json;
    fake.why = why;
    buf_init(&fake.heard, SIZE_MAX);
    rig_open();
    bind_set_sessions(rig.bind, &s);
}

static void hub_close(void)
{
    rig_close();
    buf_fini(&fake.heard);
}

TEST(sessions_come_as_a_list_of_rows)
{
    hub_open("{\"sessions\":[{\"id\":\"b\",\"state\":\"idle\"},{\"id\":\"a\",\"title\":null}]}",
             NULL);
    rig_run("local t = hub.sessions() say(#t, t[1].id, t[1].state, t[2].id)");
    CHECK(rig_said("2 b idle a"));
    rig_hush();
    rig_load("a", "say(hub.sessions(function(t, why) say('called', t[2].id, why) end))");
    rig_wait("called a nil");
    CHECK(rig_said("true"));
    fake.json = "{\"sessions\":[]}";
    rig_run("say(json.encode(hub.sessions()))");
    CHECK(rig_said("[]"));
    CHECK(strstr(rig_fault("b", "hub.sessions()"), "cannot wait here") != NULL);
    hub_close();
}

TEST(a_list_that_does_not_come_is_nil_and_why)
{
    hub_open("", "the store is full");
    rig_run("say(hub.sessions())");
    CHECK(rig_said("nil hub.sessions: the store is full"));
    fake.why = NULL;
    rig_run("local t, why = hub.sessions() say(t, why:match('^hub.sessions: ') ~= nil)");
    CHECK(rig_said("nil true"));
    hub_close();
}

TEST(a_message_is_sent_as_text_that_a_model_can_read)
{
    hub_open("", NULL);
    rig_run("say(hub.send('s1', 'good morning')) say(hub.send('s1', 'a\\xff!'))");
    CHECK_STR(buf_z(&rig.said), "true\ntrue\nend\n");
    CHECK_STR(buf_z(&fake.heard), "s1: good morning\ns1: a\xEF\xBF\xBD!\n");
    rig_hush();
    rig_load("a", "hub.send('s2', 'x', function(ok, why) say('sent', ok, why) end)");
    rig_wait("sent true nil");
    fake.why = "there is no session 's3'";
    rig_run("say(hub.send('s3', 'x'))");
    CHECK(rig_said("nil hub.send: there is no session 's3'"));
    hub_close();
}

TEST(what_is_no_message_does_not_reach_the_agent)
{
    hub_open("", NULL);
    rig_run("say(hub.send('s', '')) say(hub.send('s', ('x'):rep(1048577))) "
            "for _, f in ipairs{ function() hub.send(nil, 'x') end, function() hub.send('s') end, "
            "function() hub.send('s', 'a\\0b') end, function() hub.send('s', 'x', 1) end } do "
            "say(select(2, pcall(f))) end");
    CHECK_STR(buf_z(&fake.heard), "");
    CHECK(rig_said("nil hub.send: a message has 1 to 1048576 bytes"));
    CHECK(strstr(buf_z(&rig.said), "hub.send: session must be a string, not nil") != NULL);
    CHECK(strstr(buf_z(&rig.said), "hub.send: text must be a string, not nil") != NULL);
    hub_close();
}

TEST(without_an_agent_there_are_no_sessions)
{
    hub_open("", NULL);
    bind_set_sessions(rig.bind, NULL);
    rig_run("say(hub.sessions()) say(hub.send('s', 'x'))");
    CHECK(rig_said("nil hub.sessions: the hub is starting or stopping: there are none now"));
    CHECK(rig_said("nil hub.send: the hub is starting or stopping: send it later"));
    hub_close();
}

/// Load `code` as unit "a" and wait until it has asked.
static void ask(const char *code)
{
    fake.slow = true;
    rig_load("a", code);
    while (fake.cb == NULL) {
        loop_run_once(&l, true);
    }
}

TEST(an_answer_for_a_unit_that_has_left_reaches_nobody)
{
    hub_open("{\"sessions\":[]}", NULL);
    ask("hub.sessions(function() say('late') end)");
    rig_load("a", "say('new')");
    fake_answer(NULL);
    ask("hub.send('s', 'x', function() say('late') end)");
    rig_remove("a");
    fake_answer(NULL);
    rig_settle();
    CHECK_STR(buf_z(&rig.said), "new\n");
    hub_close();
}

static void check_stop_ends(const char *code)
{
    hub_open("{\"sessions\":[]}", NULL);
    ask(code);
    hub_close();
    fake_answer(NULL); // a request that was freed, or answered, shows under a sanitizer
}

TEST(an_answer_that_outlives_lua_reaches_nobody)
{
    check_stop_ends("timer.after(0, function() hub.sessions() error('late') end)");
    check_stop_ends("timer.after(0, function() hub.send('s', 'x') error('late') end)");
    check_stop_ends("hub.send('s', 'x', error)");
}
