// A session whose turns an outside agent runs: the test itself plays the agent.

#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_int.h"
#include "unit/agent/rig.h"

static char home[400], work[400];

/// What the agent was told, in order, as one line each.
static struct stand_in {
    struct engine_thread base;
    const struct engine_cb *cb;
    void *arg;
    bool open;
    unsigned opened, turns, closed;
    struct buf log;
} stand_in;

static void told(const char *what, struct str a, struct str b)
{
    buf_addf(&stand_in.log, "%s " STR_FMT " " STR_FMT "\n", what, STR_ARG(a), STR_ARG(b));
}

static void on_turn(struct engine_thread *t, const struct engine_turn *in)
{
    (void)t;
    stand_in.turns++;
    told("turn", in->text, in->system.n != 0 ? STR("system") : STR(""));
}

static void on_steer(struct engine_thread *t, struct str text)
{
    (void)t;
    told("steer", text, STR(""));
}

static void on_interrupt(struct engine_thread *t)
{
    (void)t;
    told("interrupt", STR(""), STR(""));
}

static void on_pause(struct engine_thread *t, bool paused)
{
    (void)t;
    told("pause", paused ? STR("on") : STR("off"), STR(""));
}

static void on_allow(struct engine_thread *t, struct str id, const struct json *input)
{
    (void)t;
    told("allow", id, input != NULL ? STR("changed") : STR(""));
}

static void on_refuse(struct engine_thread *t, struct str id, struct str reason)
{
    (void)t;
    told("refuse", id, reason);
}

static void on_answer(struct engine_thread *t, struct str id, struct str output, bool success)
{
    (void)t;
    (void)output;
    told("answer", id, success ? STR("ok") : STR("failed"));
}

static void on_close(struct engine_thread *t)
{
    (void)t;
    stand_in.open = false;
    stand_in.closed++;
}

static struct engine_thread *open_stand_in(struct engine_world *w, const struct engine_spec *q,
                                           const struct engine_cb *cb, void *arg)
{
    static const struct engine_ops ops = {.turn = on_turn,
                                          .steer = on_steer,
                                          .interrupt = on_interrupt,
                                          .pause = on_pause,
                                          .allow = on_allow,
                                          .refuse = on_refuse,
                                          .answer = on_answer,
                                          .close = on_close};
    (void)w;
    CHECK(!stand_in.open);
    stand_in.base.ops = &ops;
    stand_in.cb = cb;
    stand_in.arg = arg;
    stand_in.open = true;
    stand_in.opened++;
    told("open", str_of(q->thread != NULL ? q->thread : "-"), q->past);
    return &stand_in.base;
}

static const struct engine_kind kind = {
    .name = "stand-in", .program = "/bin/true", .install = "make stand-in", .open = open_stand_in};

static struct session *begin(struct rig *r, const char *permission)
{
    static const struct engine_kind *const kinds[] = {&kind, NULL};
    snprintf(home, sizeof home, "%s/home", test_dir());
    snprintf(work, sizeof work, "%s/work", test_dir());
    CHECK_INT(mkdir(home, 0700), 0);
    CHECK_INT(mkdir(work, 0700), 0);
    rig_open(r, home);
    r->permission = permission;
    stand_in = (struct stand_in){0};
    buf_init(&stand_in.log, SIZE_MAX);
    agent_set_engines(r->agent, kinds, NULL);
    CHECK(rig_new(r, work, "{\"text\":\"the scripted model\"}\n"));
    struct session *s = rig_get(r, r->id);
    CHECK(rig_patch(r, s, "{\"engine\":\"stand-in\"}"));
    return s;
}

static void end(struct rig *r)
{
    rig_close(r);
    CHECK(!stand_in.open);
    CHECK_INT(stand_in.opened, stand_in.closed);
    buf_fini(&stand_in.log);
}

static bool has_turns(const void *arg)
{
    return stand_in.turns == *(const unsigned *)arg;
}

/// Say it, and wait until the agent has the turn.
static void say(struct rig *r, struct session *s, const char *text)
{
    unsigned n = stand_in.turns + 1;
    rig_begin(r, s, text);
    rig_until(r, has_turns, &n);
}

static bool has_logged(const void *text)
{
    return strstr(buf_z(&stand_in.log), text) != NULL;
}

static void speak(const char *text)
{
    struct provider_delta d = {.text = str_of(text), .reasoning = STR("")};
    stand_in.cb->on_delta(stand_in.arg, &d);
}

static void call(const char *id, const char *tool, const char *input, enum engine_runner runner)
{
    struct arena a = {0};
    struct json *v;
    CHECK_INT(json_parse(&v, &a, arena_str(&a, str_of(input)), NULL, NULL), 0);
    struct engine_call c = {.id = str_of(id),
                            .tool = str_of(tool),
                            .input = v,
                            .runner = runner,
                            .effect = TOOL_RUNS,
                            .diff = STR("")};
    stand_in.cb->on_call(stand_in.arg, &c);
    arena_fini(&a);
}

static void finish(const char *text)
{
    stand_in.cb->on_message(stand_in.arg, str_of(text));
    stand_in.cb->on_end(stand_in.arg, ENGINE_COMPLETED, STR(""));
}

static void on_events(void *arg, struct str json, const struct agent_no *no)
{
    struct rig *r = arg;
    CHECK(no == NULL);
    buf_clear(&r->text);
    buf_adds(&r->text, json);
    r->answered = true;
}

/// The journal, as JSON.
static const char *journal(struct rig *r, struct session *s)
{
    r->answered = false;
    agent_events(s, 0, 1000, on_events, r);
    rig_wait(r, &r->answered);
    return buf_z(&r->text);
}

/// Are these in the text in this order?
static bool in_order(const char *text, const char *const *parts)
{
    for (; *parts != NULL && text != NULL; parts++) {
        text = strstr(text, *parts);
    }
    return text != NULL;
}

static void on_done(void *arg, const struct agent_no *no)
{
    CHECK(no == NULL);
    *(bool *)arg = true;
}

TEST(what_an_engine_says_is_in_the_journal_in_our_words)
{
    struct rig r;
    struct session *s = begin(&r, "auto");
    say(&r, s, "hello");
    stand_in.cb->on_thread(stand_in.arg, STR("th-1"), false);
    speak("Let me ");
    speak("look.");
    stand_in.cb->on_message(stand_in.arg, STR("Let me look."));
    call("c1", "shell", "{\"cmd\":\"ls\"}", ENGINE_ASKS);
    rig_until(&r, has_logged, "allow c1");
    stand_in.cb->on_progress(stand_in.arg, STR("c1"), STR("a.txt\n"));
    stand_in.cb->on_result(stand_in.arg, STR("c1"), STR("a.txt\n"), STR(""), STR(""));
    stand_in.cb->on_usage(stand_in.arg, &(struct provider_usage){100, 40, 7, 2}, 1000);
    call("c2", "todo", "{\"items\":[{\"text\":\"x\",\"state\":\"done\"}]}", ENGINE_OURS);
    rig_until(&r, has_logged, "answer c2 ok");
    stand_in.cb->on_usage(stand_in.arg, &(struct provider_usage){200, 0, 3, 0}, 1000);
    finish("One file.");
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"state\":\"completed\",\"text\":\"One file.\"") != NULL);
    CHECK(strstr(buf_z(&r.text), "\"input\":300,\"cached\":40,\"output\":10") != NULL);
    CHECK_STR(s->engine_thread, "th-1");
    static const char *const order[] = {"turn.started",
                                        "\"type\":\"message.delta\"",
                                        "\"text\":\"Let me look.\"",
                                        "\"type\":\"tool.called\"",
                                        "\"type\":\"tool.progress\"",
                                        "\"type\":\"tool.completed\"",
                                        "\"type\":\"usage.updated\"",
                                        "todo.updated",
                                        "\"type\":\"message.completed\"",
                                        "\"type\":\"turn.completed\"",
                                        NULL};
    CHECK(in_order(journal(&r, s), order));
    say(&r, s, "again"); // the same process has the next turn
    finish("Yes.");
    rig_wait(&r, &r.answered);
    CHECK_INT(stand_in.opened, 1);
    end(&r);
}

TEST(a_person_decides_about_what_an_engine_wants_to_run)
{
    struct rig r;
    struct session *s = begin(&r, "ask");
    say(&r, s, "hello");
    call("c1", "shell", "{\"cmd\":\"rm x\"}", ENGINE_ASKS);
    rig_wait(&r, &r.answered); // it waits for a person
    CHECK(strstr(buf_z(&r.text), "\"state\":\"waiting\"") != NULL);
    CHECK(!has_logged("allow"));
    struct agent_decision d = {.allow = false, .reason = STR("not that")};
    bool decided = false;
    agent_wait(s, "t1", rig_outcome, &r);
    agent_decide(s, STR("p1"), &d, on_done, &decided);
    rig_until(&r, has_logged, "refuse c1 denied by the user: not that");
    r.answered = false;
    finish("Then not.");
    rig_wait(&r, &r.answered);
    CHECK(decided);
    CHECK(strstr(buf_z(&r.text), "\"success\":false") != NULL);
    end(&r);
}

TEST(an_engine_that_runs_what_is_not_allowed_is_stopped)
{
    struct rig r;
    struct session *s = begin(&r, "deny");
    say(&r, s, "hello");
    call("c1", "shell", "{\"cmd\":\"rm x\"}", ENGINE_RAN);
    rig_until(&r, has_logged, "interrupt");
    stand_in.cb->on_end(stand_in.arg, ENGINE_INTERRUPTED, STR(""));
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"code\":\"PERMISSION_DENIED\"") != NULL);
    end(&r);
}

TEST(what_a_broken_stream_said_is_void)
{
    struct rig r;
    struct session *s = begin(&r, "auto");
    say(&r, s, "hello");
    speak("half of");
    stand_in.cb->on_void(stand_in.arg, STR("cut"));
    finish("All of it.");
    rig_wait(&r, &r.answered);
    static const char *const order[] = {"half of", "message.aborted", "ENGINE_RETRY", "All of it.",
                                        NULL};
    CHECK(in_order(journal(&r, s), order));
    end(&r);
}

TEST(an_engine_that_dies_fails_its_turn_and_the_next_one_resumes)
{
    struct rig r;
    struct session *s = begin(&r, "auto");
    struct err e;
    say(&r, s, "hello");
    stand_in.cb->on_thread(stand_in.arg, STR("th-1"), false);
    call("c1", "shell", "{\"cmd\":\"sleep 9\"}", ENGINE_ASKS);
    rig_until(&r, has_logged, "allow c1");
    err_set(&e, UV_EPIPE, "it was ended by signal 9");
    stand_in.cb->on_died(stand_in.arg, &e);
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"code\":\"ENGINE_FAILED\",\"message\":\"it was ended by signal "
                                 "9\"") != NULL);
    CHECK(strstr(buf_z(&r.text), "\"error\":\"interrupted\"") != NULL); // the call has an end
    say(&r, s, "again");
    CHECK(has_logged("open th-1"));
    finish("Back.");
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "Back.") != NULL);
    end(&r);
}

TEST(a_turn_is_interrupted_and_a_deaf_engine_is_ended)
{
    struct rig r;
    struct session *s = begin(&r, "auto");
    say(&r, s, "hello");
    agent_interrupt(s);
    rig_until(&r, has_logged, "interrupt");
    stand_in.cb->on_end(stand_in.arg, ENGINE_INTERRUPTED, STR(""));
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"state\":\"interrupted\"") != NULL);
    buf_clear(&stand_in.log);
    say(&r, s, "again");
    agent_interrupt(s);
    rig_until(&r, has_logged, "interrupt");
    CHECK(stand_in.open);
    agent_interrupt(s); // it took no notice
    rig_wait(&r, &r.answered);
    CHECK(!stand_in.open);
    CHECK(strstr(buf_z(&r.text), "\"state\":\"interrupted\"") != NULL);
    end(&r);
}

TEST(the_limit_of_steps_holds_for_an_engine)
{
    struct rig r;
    struct session *s = begin(&r, "auto");
    CHECK(rig_patch(&r, s, "{\"max_steps\":1}"));
    say(&r, s, "hello");
    call("c1", "shell", "{\"cmd\":\"ls\"}", ENGINE_ASKS);
    rig_until(&r, has_logged, "allow c1");
    CHECK(!has_logged("interrupt"));
    stand_in.cb->on_usage(stand_in.arg, &(struct provider_usage){1, 0, 1, 0}, 0);
    CHECK(has_logged("interrupt")); // the result would go back with another request
    stand_in.cb->on_end(stand_in.arg, ENGINE_INTERRUPTED, STR(""));
    rig_wait(&r, &r.answered);
    CHECK(strstr(buf_z(&r.text), "\"code\":\"LIMIT_REACHED\"") != NULL);
    end(&r);
}

static void on_rewound(void *arg, const struct rewind_result *result, const struct agent_no *no)
{
    (void)result;
    CHECK(no == NULL);
    *(bool *)arg = true;
}

TEST(after_a_rewind_a_new_thread_is_told_the_past)
{
    struct rig r;
    struct session *s = begin(&r, "auto");
    bool rewound = false;
    say(&r, s, "first question");
    stand_in.cb->on_thread(stand_in.arg, STR("th-1"), false);
    finish("first answer");
    rig_wait(&r, &r.answered);
    say(&r, s, "second question");
    finish("second answer");
    rig_wait(&r, &r.answered);
    struct agent_rewind wish = {.to = STR("t2"), .conversation = true};
    agent_rewind(s, &wish, on_rewound, &rewound);
    rig_wait(&r, &rewound);
    CHECK(s->engine_thread == NULL && !stand_in.open);
    buf_clear(&stand_in.log);
    say(&r, s, "third question");
    static const char *const order[] = {"open - ", "first question", "first answer",
                                        "turn third question", NULL};
    CHECK(in_order(buf_z(&stand_in.log), order));
    CHECK(!has_logged("second"));
    finish("third answer");
    rig_wait(&r, &r.answered);
    end(&r);
}

TEST(steering_reaches_the_engine)
{
    struct rig r;
    struct session *s = begin(&r, "auto");
    bool steered = false;
    say(&r, s, "hello");
    agent_steer(s, STR("and be short"), on_done, &steered);
    CHECK(has_logged("steer and be short"));
    finish("Short.");
    rig_wait(&r, &r.answered);
    CHECK(steered);
    CHECK(strstr(journal(&r, s), "\"steer\":true") != NULL);
    end(&r);
}

TEST(a_missing_program_is_named_with_the_command_that_installs_it)
{
    static const struct engine_kind missing = {.name = "absent",
                                               .program = "no-such-program-here",
                                               .install = "npm install -g absent",
                                               .open = open_stand_in};
    static const struct engine_kind *const kinds[] = {&missing, NULL};
    struct rig r;
    struct session *s = begin(&r, "auto");
    agent_set_engines(r.agent, kinds, NULL);
    CHECK(rig_patch(&r, s, "{\"engine\":\"absent\"}"));
    CHECK(rig_send(&r, r.id, "hello"));
    CHECK(strstr(buf_z(&r.text), "npm install -g absent") != NULL);
    CHECK(strstr(buf_z(&r.text), "\"code\":\"ENGINE_MISSING\"") != NULL);
    end(&r);
}
