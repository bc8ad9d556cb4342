// The hub's side of the protocol with a test at the other end and a clock that moves when told: every
// message both ways, and whatever a hostile host may say instead.

#include "plugin/host_proc.h"
#include "plugin/host_talk.h"
#include "unit/loop.h"

static struct test_clock time_;
static struct loop l;
static struct host_talk t;

static struct {
    struct buf sent;
    int stops, closes;
    int send_rc;
    size_t unread;
} way;

static struct {
    int registered, loaded, failed, ended, calls;
    int refuse;
    struct host_fault fault; // strings are copies
    char message[200], path[100];
    char last[400]; // of log, state, metadata or call
    int64_t call_id;
    bool close_on_fail;
} own;

// ---- the other end ---------------------------------------------------------------------------

static int way_send(struct host_talk *talk, struct str bytes, size_t max_unread)
{
    CHECK(talk == &t && bytes.p[bytes.n - 1] == '\n');
    CHECK(memchr(bytes.p, '\n', bytes.n - 1) == NULL);
    int rc = way.unread > max_unread ? UV_ENOBUFS : way.send_rc;
    if (rc == 0) {
        buf_adds(&way.sent, bytes);
    }
    return rc;
}

static void way_stop(struct host_talk *talk)
{
    (void)talk;
    way.stops++;
}

static void way_close(struct host_talk *talk)
{
    (void)talk;
    way.closes++;
}

static void way_idle(struct host_talk *talk)
{
    (void)talk; // the test's own memory
}

static const struct host_talk_way fake_way = {
    .send = way_send, .stop = way_stop, .close = way_close, .idle = way_idle};

// ---- the owner -------------------------------------------------------------------------------

static int on_register(void *arg, const struct json *what, struct err *e)
{
    (void)arg;
    (void)what;
    own.registered++;
    return own.refuse != 0 ? err_set(e, own.refuse, "not you") : 0;
}

static void keep(const struct json *v)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    json_write(&text, v, 0);
    snprintf(own.last, sizeof own.last, "%s", buf_z(&text));
    buf_fini(&text);
}

static void on_loaded(void *arg, const struct json *metadata)
{
    (void)arg;
    own.loaded++;
    keep(metadata);
}

static void note_fault(const struct host_fault *f)
{
    own.fault = *f;
    snprintf(own.message, sizeof own.message, "%s", f->message);
    snprintf(own.path, sizeof own.path, "%s", f->path != NULL ? f->path : "");
}

static void on_failed(void *arg, const struct host_fault *f)
{
    (void)arg;
    own.failed++;
    note_fault(f);
    if (own.close_on_fail) {
        host_close(&t.host);
    }
}

static void on_log(void *arg, enum log_level level, struct str text)
{
    (void)arg;
    snprintf(own.last, sizeof own.last, "%s " STR_FMT, log_level_name(level), STR_ARG(text));
}

static void on_call(void *arg, int64_t id, struct str op, const struct json *params)
{
    (void)arg;
    (void)params;
    own.calls++;
    own.call_id = id;
    snprintf(own.last, sizeof own.last, STR_FMT, STR_ARG(op));
}

static void on_state(void *arg, struct str key, const struct json *value)
{
    (void)arg;
    (void)key;
    keep(value);
}

static void on_end(void *arg, const struct host_fault *f)
{
    (void)arg;
    own.ended++;
    note_fault(f);
}

static const struct host_owner owner = {
    .on_register = on_register,
    .on_loaded = on_loaded,
    .on_failed = on_failed,
    .on_log = on_log,
    .on_call = on_call,
    .on_state = on_state,
    .on_end = on_end,
};

// ---- helpers ---------------------------------------------------------------------------------

static void begin_as(const struct host_owner *o)
{
    memset(&own, 0, sizeof own);
    memset(&way, 0, sizeof way);
    buf_init(&way.sent, SIZE_MAX);
    test_clock_init(&time_);
    CHECK_INT(loop_init(&l, &time_.clock, NULL), 0);
    host_talk_init(&t, &l, &fake_way, "x", o, NULL);
    host_talk_load(&t, STR("\"path\":\"/p\""), 5000);
}

static void begin(void)
{
    begin_as(&owner);
}

static void say(const char *line)
{
    host_talk_line(&t, str_of(line));
}

static void begin_loaded(void)
{
    begin();
    say("{\"type\":\"loaded\"}");
    buf_clear(&way.sent);
}

static void finish(void)
{
    test_loop_settle(&l);
    if (!t.closed) {
        host_close(&t.host);
    }
    host_talk_fini(&t);
    buf_fini(&way.sent);
    TEST_LOOP_END(&l);
}

struct asked {
    struct host_call call;
    int dones, status;
    char value[100], message[200];
    bool again; // ask once more from inside
};

static void on_answer(struct host_call *c, int status, const struct json *value,
                      const struct host_fault *f)
{
    struct asked *a = container_of(c, struct asked, call);
    struct buf text;
    CHECK((status < 0) == (f != NULL));
    a->dones++;
    a->status = status;
    snprintf(a->message, sizeof a->message, "%s", f != NULL ? f->message : "");
    buf_init(&text, SIZE_MAX);
    json_write(&text, value, 0);
    snprintf(a->value, sizeof a->value, "%s", buf_z(&text));
    buf_fini(&text);
    if (a->again) {
        a->again = false;
        host_call(&t.host, c, "hook", STR("\"point\":\"p\""));
    }
}

static void ask(struct asked *a, uint32_t ms)
{
    memset(a, 0, sizeof *a);
    a->call = (struct host_call){.timeout_ms = ms, .done = on_answer};
    host_call(&t.host, &a->call, "hook", STR("\"point\":\"p\""));
}

// ---- every message ---------------------------------------------------------------------------

TEST(load_is_sent_first_and_loaded_ends_it)
{
    begin();
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"load\",\"path\":\"/p\"}\n");
    say("{\"type\":\"register\",\"kind\":\"hook\",\"unheard\":1}");
    say("{\"type\":\"loaded\",\"metadata\":{\"api\":\"1.0\"},\"unheard\":1}");
    CHECK_INT(own.registered, 1);
    CHECK_INT(own.loaded, 1);
    CHECK_STR(own.last, "{\"api\":\"1.0\"}");
    say("{\"type\":\"loaded\"}"); // once is enough
    say("{\"type\":\"failed\"}");
    CHECK_INT(own.loaded, 1);
    CHECK_INT(own.failed, 0);
    test_clock_advance(&time_, &l, 60000);
    CHECK_INT(own.ended, 0);
    finish();
}

TEST(failed_brings_message_path_line_and_code)
{
    begin();
    own.close_on_fail = true;
    say("{\"type\":\"failed\",\"message\":\"no\",\"path\":\"/"
        "p\",\"line\":7,\"code\":\"MEMORY_LIMIT\"}");
    CHECK_INT(own.failed, 1);
    CHECK_STR(own.message, "no");
    CHECK_STR(own.path, "/p");
    CHECK_INT(own.fault.line, 7);
    CHECK_INT(own.fault.code, DIAG_MEMORY_LIMIT);
    finish();
}

TEST(a_code_that_a_host_may_not_use_is_not_believed)
{
    begin();
    say("{\"type\":\"failed\",\"code\":\"UNTRUSTED\",\"line\":-5,\"path\":7}");
    CHECK_INT(own.fault.code, DIAG_LOAD_FAILED);
    CHECK_INT(own.fault.line, 0);
    CHECK_STR(own.message, "no reason given");
    finish();
}

TEST(a_refused_registration_is_answered_with_an_error)
{
    begin();
    buf_clear(&way.sent);
    own.refuse = ERR_DENIED;
    say("{\"type\":\"register\",\"kind\":\"hook\"}");
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"error\",\"message\":\"not you\"}\n");
    finish();
}

TEST(register_after_loaded_reaches_nobody)
{
    begin_loaded();
    say("{\"type\":\"register\",\"kind\":\"hook\",\"point\":\"on_permission\"}");
    CHECK_INT(own.registered, 0);
    CHECK_STR(buf_z(&way.sent),
              "{\"type\":\"error\",\"message\":\"register comes before loaded\"}\n");
    finish();
}

TEST(a_call_is_answered_by_its_id)
{
    struct asked a, b;
    begin_loaded();
    ask(&a, 1000);
    ask(&b, 1000);
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"hook\",\"id\":1,\"point\":\"p\"}\n"
                                "{\"type\":\"hook\",\"id\":2,\"point\":\"p\"}\n");
    say("{\"type\":\"result\",\"id\":2,\"value\":\"two\"}");
    CHECK_INT(a.dones, 0);
    CHECK_STR(b.value, "\"two\"");
    say("{\"type\":\"error\",\"id\":1,\"message\":\"boom\"}");
    CHECK_INT(a.status, ERR_INVALID);
    CHECK_STR(a.message, "boom");
    finish();
}

TEST(forged_and_doubled_answers_reach_nobody)
{
    struct asked a;
    begin_loaded();
    ask(&a, 1000);
    say("{\"type\":\"result\",\"id\":99,\"value\":1}");
    say("{\"type\":\"result\",\"id\":0,\"value\":1}");
    say("{\"type\":\"result\",\"id\":-1,\"value\":1}");
    say("{\"type\":\"result\",\"id\":\"1\",\"value\":1}");
    say("{\"type\":\"result\",\"value\":1}");
    say("{\"type\":\"result\",\"id\":9223372036854775807,\"value\":1}");
    CHECK_INT(a.dones, 0);
    say("{\"type\":\"result\",\"id\":1,\"value\":1}");
    say("{\"type\":\"result\",\"id\":1,\"value\":2}");
    say("{\"type\":\"error\",\"id\":1,\"message\":\"late\"}");
    CHECK_INT(a.dones, 1);
    CHECK_STR(a.value, "1");
    finish();
}

TEST(an_answer_cannot_end_the_loading)
{
    begin();
    say("{\"type\":\"result\",\"id\":0}");
    say("{\"type\":\"error\",\"id\":0,\"message\":\"x\"}");
    test_clock_advance(&time_, &l, 5000);
    test_loop_settle(&l);
    CHECK_INT(own.ended, 1);
    CHECK_INT(own.fault.code, DIAG_LOAD_TIMEOUT);
    finish();
}

TEST(log_call_and_state_reach_the_owner)
{
    begin_loaded();
    say("{\"type\":\"log\",\"level\":\"warn\",\"text\":\"hm\"}");
    CHECK_STR(own.last, "warn hm");
    say("{\"type\":\"log\",\"level\":\"shout\",\"text\":\"hm\"}");
    CHECK_STR(own.last, "info hm");
    say("{\"type\":\"call\",\"id\":4,\"op\":\"worktree.list\",\"params\":{}}");
    CHECK_STR(own.last, "worktree.list");
    host_answer(&t.host, own.call_id, 0, STR("[\n]"));
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"result\",\"id\":4,\"value\":[ ]}\n");
    buf_clear(&way.sent);
    host_answer(&t.host, 5, ERR_DENIED, STR("no \"way\""));
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"error\",\"id\":5,\"message\":\"no \\\"way\\\"\"}\n");
    say("{\"type\":\"state\",\"key\":\"k\",\"value\":[1]}");
    CHECK_STR(own.last, "[1]");
    finish();
}

TEST(what_the_owner_does_not_offer_is_answered_with_an_error)
{
    static const struct host_owner bare = {
        .on_loaded = on_loaded, .on_failed = on_failed, .on_end = on_end};
    begin_as(&bare);
    buf_clear(&way.sent);
    say("{\"type\":\"register\",\"kind\":\"hook\"}");
    say("{\"type\":\"call\",\"id\":4,\"op\":\"x\"}");
    say("{\"type\":\"state\",\"key\":\"k\"}");
    say("{\"type\":\"unregister\",\"ref\":1}");
    say("{\"type\":\"log\",\"text\":\"x\"}");
    CHECK_STR(buf_z(&way.sent),
              "{\"type\":\"error\",\"message\":\"nothing can be registered here\"}\n"
              "{\"type\":\"error\",\"id\":4,\"message\":\"no operation can be called here\"}\n"
              "{\"type\":\"error\",\"message\":\"no state is kept here\"}\n"
              "{\"type\":\"error\",\"message\":\"nothing can be taken back here\"}\n");
    finish();
}

static int on_unregister(void *arg, int64_t ref, struct err *e)
{
    (void)arg;
    snprintf(own.last, sizeof own.last, "%d", (int)ref);
    return ref == 7 ? 0 : err_set(e, ERR_NOT_FOUND, "there is none");
}

TEST(what_is_taken_back_reaches_the_owner_by_its_number)
{
    static const struct host_owner takes = {.on_loaded = on_loaded,
                                            .on_failed = on_failed,
                                            .on_end = on_end,
                                            .on_unregister = on_unregister};
    begin_as(&takes);
    buf_clear(&way.sent);
    say("{\"type\":\"unregister\",\"ref\":7}");
    CHECK_STR(own.last, "7");
    CHECK_STR(buf_z(&way.sent), "");
    say("{\"type\":\"unregister\"}");
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"error\",\"message\":\"there is none\"}\n");
    finish();
}

TEST(events_are_one_way)
{
    begin_loaded();
    host_event(&t.host, STR("a\"b"), STR("{\"n\":1}"));
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"event\",\"name\":\"a\\\"b\",\"data\":{\"n\":1}}\n");
    finish();
}

TEST(an_unknown_message_is_answered_with_an_error_and_an_error_never)
{
    begin_loaded();
    say("{\"type\":\"dance\",\"id\":3}");
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"error\",\"id\":3,\"message\":\"unknown message\"}\n");
    buf_clear(&way.sent);
    say("{\"type\":\"error\",\"message\":\"what?\"}");
    CHECK_INT(way.sent.n, 0);
    CHECK_STR(own.last, "error what?");
    finish();
}

// ---- time ------------------------------------------------------------------------------------

TEST(a_caller_is_told_in_time_and_a_late_answer_is_taken)
{
    struct asked a;
    begin_loaded();
    ask(&a, 100);
    buf_clear(&way.sent);
    test_clock_advance(&time_, &l, 99);
    CHECK_INT(a.dones, 0);
    test_clock_advance(&time_, &l, 1);
    CHECK_INT(a.status, ERR_TIMEOUT);
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"cancel\",\"id\":1}\n");
    test_clock_advance(&time_, &l, 500);
    say("{\"type\":\"error\",\"id\":1,\"message\":\"cancelled\"}");
    test_clock_advance(&time_, &l, 60000);
    CHECK_INT(a.dones, 1);
    CHECK_INT(own.ended, 0); // it answered: it does not hang
    finish();
}

TEST(an_id_that_stays_open_means_that_the_host_hangs)
{
    struct asked a, b;
    begin_loaded();
    ask(&a, 100);
    ask(&b, 5000);
    test_clock_advance(&time_, &l, 100 + HOST_HANG_MS);
    test_loop_settle(&l);
    CHECK_INT(own.ended, 1);
    CHECK_INT(way.stops, 1);
    CHECK(strstr(own.message, "hangs") != NULL);
    CHECK_INT(a.dones, 1);
    CHECK_INT(b.dones, 1);
    CHECK_INT(b.status, UV_EPIPE);
    finish();
}

TEST(a_call_that_is_given_up_is_cancelled_and_forgotten)
{
    struct asked a;
    begin_loaded();
    ask(&a, 100);
    host_cancel(&t.host, &a.call);
    host_cancel(&t.host, &a.call); // not under way any more
    say("{\"type\":\"result\",\"id\":1,\"value\":1}");
    test_clock_advance(&time_, &l, 60000);
    CHECK_INT(a.dones, 0);
    CHECK_INT(own.ended, 0);
    finish();
}

TEST(a_call_may_be_made_from_inside_an_answer)
{
    struct asked a;
    begin_loaded();
    ask(&a, 100);
    a.again = true;
    say("{\"type\":\"result\",\"id\":1,\"value\":1}");
    say("{\"type\":\"result\",\"id\":2,\"value\":2}");
    CHECK_INT(a.dones, 2);
    CHECK_STR(a.value, "2");
    finish();
}

// ---- the end ---------------------------------------------------------------------------------

TEST(a_line_that_is_no_message_ends_the_host)
{
    static const char *const lines[] = {"", "x", "[1]", "7", "{\"type\":", "\xff", "null"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        begin_loaded();
        say(lines[i]);
        test_loop_settle(&l);
        CHECK_INT(own.ended, 1);
        CHECK_INT(own.fault.code, DIAG_HOST_CRASHED);
        finish();
    }
}

TEST(a_flood_ends_the_host_and_a_trickle_does_not)
{
    begin_loaded();
    for (int s = 0; s < 10; s++) {
        for (int i = 0; i < 4000; i++) {
            say("{\"type\":\"log\",\"text\":\"x\"}");
        }
        test_clock_advance(&time_, &l, 1000);
    }
    test_loop_settle(&l);
    CHECK_INT(own.ended, 0);
    for (int i = 0; i < 5001; i++) {
        say("{\"type\":\"result\",\"id\":77}"); // answers that nobody asked for count too
    }
    test_loop_settle(&l);
    CHECK_INT(own.ended, 1);
    CHECK(strstr(own.message, "flooded") != NULL);
    finish();
}

TEST(a_host_that_does_not_read_is_ended)
{
    begin_loaded();
    struct asked a;
    way.unread = HOST_UNREAD_MAX + 1;
    ask(&a, 100);
    test_loop_settle(&l);
    CHECK_INT(own.ended, 1);
    finish();
}

TEST(events_do_not_pile_up_for_a_host_that_does_not_read)
{
    begin_loaded();
    way.unread = HOST_EVENTS_MAX + 1;
    host_event(&t.host, STR("a"), STR("1"));
    test_clock_advance(&time_, &l, HOST_DEAF_MS);
    host_event(&t.host, STR("a"), STR("2"));
    CHECK_INT(way.sent.n, 0);
    CHECK_INT(own.ended, 0); // it may only be busy
    way.unread = 0;
    host_event(&t.host, STR("a"), STR("3"));
    CHECK_STR(buf_z(&way.sent), "{\"type\":\"event\",\"name\":\"a\",\"data\":3}\n");
    way.unread = HOST_EVENTS_MAX + 1;
    host_event(&t.host, STR("a"), STR("4"));
    test_clock_advance(&time_, &l, HOST_DEAF_MS + 1);
    host_event(&t.host, STR("a"), STR("5"));
    test_loop_settle(&l);
    CHECK_INT(own.ended, 1); // it has not read for long
    finish();
}

TEST(a_limit_ends_a_host_only_where_that_was_asked_for)
{
    struct asked a;
    for (int strict = 0; strict < 2; strict++) {
        begin_loaded();
        t.end_on_limit = strict == 1;
        ask(&a, 100);
        say("{\"type\":\"error\",\"id\":1,\"message\":\"too long\",\"code\":\"HOOK_TIMEOUT\"}");
        test_loop_settle(&l);
        CHECK_INT(a.dones, 1);
        CHECK_INT(own.ended, strict);
        CHECK_INT(way.stops, strict);
        finish();
    }
}

TEST(calls_after_the_end_fail_from_the_queue)
{
    struct asked a;
    begin_loaded();
    host_talk_doom(&t, DIAG_HOST_CRASHED, "gone");
    test_loop_settle(&l);
    CHECK(!host_alive(&t.host));
    ask(&a, 100);
    CHECK_INT(a.dones, 0);
    test_loop_settle(&l);
    CHECK_INT(a.status, UV_EPIPE);
    CHECK_STR(a.message, "gone");
    CHECK_INT(own.ended, 1); // told once
    finish();
}

TEST(a_closed_socket_without_an_exit_is_an_end_too)
{
    begin_loaded();
    host_talk_gone(&t);
    host_talk_gone(&t);
    test_clock_advance(&time_, &l, HOST_HANG_MS);
    test_loop_settle(&l);
    CHECK_INT(own.ended, 1);
    CHECK(strstr(own.message, "closed its socket") != NULL);
    finish();
}

TEST(nothing_is_told_to_an_owner_who_let_go)
{
    begin_loaded();
    host_close(&t.host);
    say("{\"type\":\"log\",\"text\":\"x\"}");
    say("x");
    host_talk_doom(&t, DIAG_HOST_CRASHED, "gone");
    test_loop_settle(&l);
    CHECK_STR(own.last, "null"); // of loaded
    CHECK_INT(own.ended, 0);
    finish();
}
