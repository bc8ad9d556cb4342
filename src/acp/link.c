// What the editor does for the tools of its session: the other end of editor/ in the hub.
//
//     POST /editor ──> stream: ready ──> request {read, write, terminal} ──> methods of the editor ──> PUT /editor
//
// The connection is there as long as the session is open here. When the hub was restarted it is made again with the
// next prompt. A command in a terminal is several methods: create, wait_for_exit, output, release; the call that it
// belongs to shows the terminal meanwhile.
//
// Invariants:
//   - an errand is in `errands` until its answer was sent, or the hub no longer wants it.
//   - an errand that is `dropped` answers nothing; the editor's answer under way frees it.

#include <assert.h>

#include "acp/acp_int.h"

struct acp_errand {
    struct acp_session *s;
    int64_t id; // the hub's
    struct arena arena;
    const struct json *params;
    char *terminal; // NULL: none
    struct timer timer;
    struct buf answer; // members of the result, as far as they are known
    bool dropped, timed_out;
};

static void errand_free(struct acp_errand *r)
{
    timer_stop(&r->timer);
    arena_fini(&r->arena);
    buf_fini(&r->answer);
    free(r->terminal);
    free(r);
}

/// Send what became of it, `member` being "result" or "error" with its JSON, and free it.
static void finish(struct acp_errand *r, const char *member, struct str json)
{
    assert(json.n != 0);
    struct acp *a = r->s->acp;
    if (!r->dropped && !a->closed) {
        struct buf body = {.max = SIZE_MAX};
        buf_addf(&body, "{\"session\":\"%s\",\"request\":%lld,\"%s\":" STR_FMT "}", r->s->id,
                 (long long)r->id, member, STR_ARG(json));
        acp__call(a, "PUT", "/editor", buf_str(&body), NULL, NULL);
        buf_fini(&body);
    }
    if (!r->dropped) {
        vec_drop(&r->s->errands, r);
    }
    errand_free(r);
}

// ---- files --------------------------------------------------------------------------------------

static void on_file(void *arg, const struct json *result)
{
    struct acp_errand *r = arg;
    struct buf text = {.max = SIZE_MAX};
    if (result == NULL) {
        finish(r, "error", STR("\"the editor refused\""));
    } else if (result->type == JSON_OBJ) {
        json_write(&text, result, 0);
        finish(r, "result", buf_str(&text));
    } else { // a file that was written may be answered with null
        finish(r, "result", STR("{}"));
    }
    buf_fini(&text);
}

/// Ask for the file with the members of our params that `keys` names, or about the terminal.
static void ask_with(struct acp_errand *r, const char *method, const char *const *keys, size_t n,
                     acp_asked *done)
{
    struct acp_message m;
    struct jw *w = acp__ask(&m, r->s->acp, r->s->id, method);
    for (size_t i = 0; i < n; i++) {
        jw_kvalue(w, keys[i], json_get(r->params, keys[i]));
    }
    if (r->terminal != NULL) {
        jw_kstrz(w, "terminalId", r->terminal);
    }
    acp__ask_end(&m, done, r);
}

static void run_read(struct acp_errand *r)
{
    static const char *const keys[] = {"path"};
    ask_with(r, "fs/read_text_file", keys, ARRAY_LEN(keys), on_file);
}

static void run_write(struct acp_errand *r)
{
    static const char *const keys[] = {"path", "content"};
    ask_with(r, "fs/write_text_file", keys, ARRAY_LEN(keys), on_file);
}

// ---- terminals ----------------------------------------------------------------------------------

static void on_released(void *arg, const struct json *result)
{
    struct acp_errand *r = arg;
    (void)result;
    if (r->answer.n != 0) {
        finish(r, "result", buf_str(&r->answer));
    } else {
        finish(r, "error", STR("\"the editor did not return the output of the command\""));
    }
}

static void release(struct acp_errand *r)
{
    timer_stop(&r->timer);
    ask_with(r, "terminal/release", NULL, 0, on_released);
}

static void on_output(void *arg, const struct json *result)
{
    struct acp_errand *r = arg;
    const struct json *status = json_get(result, "exitStatus");
    struct jw w;
    if (result != NULL) {
        jw_init(&w, &r->answer);
        jw_obj(&w);
        jw_kstr(&w, "output", json_get_text(result, "output"));
        jw_kbool(&w, "truncated", json_bool(json_get(result, "truncated"), false));
        jw_kvalue(&w, "exit_code", json_get(status, "exitCode"));
        jw_kvalue(&w, "signal", json_get(status, "signal"));
        jw_kbool(&w, "timed_out", r->timed_out);
        jw_end_obj(&w);
    }
    release(r);
}

static void on_exited(void *arg, const struct json *result)
{
    struct acp_errand *r = arg;
    (void)result; // the output says how it ended, too
    if (r->dropped) {
        release(r);
    } else {
        ask_with(r, "terminal/output", NULL, 0, on_output);
    }
}

static void on_killed(void *arg, const struct json *result)
{
    (void)arg;
    (void)result; // wait_for_exit is answered
}

static void kill_terminal(struct acp_errand *r)
{
    assert(r->terminal != NULL);
    struct acp_message m;
    jw_kstrz(acp__ask(&m, r->s->acp, r->s->id, "terminal/kill"), "terminalId", r->terminal);
    acp__ask_end(&m, on_killed, NULL); // the errand may be gone when that is answered
}

static void on_late(void *arg)
{
    struct acp_errand *r = arg;
    r->timed_out = true;
    kill_terminal(r);
}

static void show_terminal(const struct acp_errand *r)
{
    assert(r->terminal != NULL);
    struct acp_message u;
    struct jw *w = acp__update(&u, r->s->acp, r->s->id, "tool_call_update");
    acp__write_call_id(w, json_get_text(r->params, "turn"), json_get_text(r->params, "call_id"));
    jw_karr(w, "content");
    jw_obj(w);
    jw_kstrz(w, "type", "terminal");
    jw_kstrz(w, "terminalId", r->terminal);
    jw_end_obj(w);
    jw_end_arr(w);
    acp__update_end(&u);
}

static void on_terminal(void *arg, const struct json *result)
{
    struct acp_errand *r = arg;
    struct str id = json_get_text(result, "terminalId");
    if (id.n == 0) {
        finish(r, "error", STR("\"the editor did not open a terminal\""));
        return;
    }
    r->terminal = str_dup(id);
    if (r->dropped) {
        kill_terminal(r);
    } else {
        show_terminal(r);
        timer_start(&r->timer, (uint64_t)json_int(json_get(r->params, "timeout_ms"), 1));
    }
    ask_with(r, "terminal/wait_for_exit", NULL, 0, on_exited);
}

static void run_terminal(struct acp_errand *r)
{
    struct acp_message m;
    struct jw *w = acp__ask(&m, r->s->acp, r->s->id, "terminal/create");
    jw_kstrz(w, "command", "/bin/sh");
    jw_karr(w, "args");
    jw_strz(w, "-c");
    jw_str(w, json_get_text(r->params, "cmd"));
    jw_end_arr(w);
    jw_kvalue(w, "cwd", json_get(r->params, "cwd"));
    jw_kvalue(w, "env", json_get(r->params, "env"));
    jw_kvalue(w, "outputByteLimit", json_get(r->params, "limit"));
    acp__ask_end(&m, on_terminal, r);
}

// ---- the connection -----------------------------------------------------------------------------

/// The hub does not want the answer. The editor's answer under way frees the errand.
static void drop(struct acp_errand *r)
{
    r->dropped = true;
    vec_drop(&r->s->errands, r);
    if (r->terminal != NULL) {
        kill_terminal(r);
    }
}

static void take_request(struct acp_session *s, const struct json *v)
{
    static const struct {
        const char *method;
        void (*run)(struct acp_errand *r);
    } runs[] = {{"read", run_read}, {"write", run_write}, {"terminal", run_terminal}};
    struct str method = json_get_text(v, "method");
    struct acp_errand *r = xcalloc(1, sizeof *r);
    buf_init(&r->answer, SIZE_MAX);
    r->s = s;
    r->id = json_int(json_get(v, "request"), 0);
    r->params = json_clone(&r->arena, json_get(v, "params"));
    timer_init(&r->timer, &s->acp->loop, on_late, r);
    vec_push(&s->errands, r);
    for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
        if (str_eqz(method, runs[i].method)) {
            runs[i].run(r);
            return;
        }
    }
    finish(r, "error", STR("\"this program is older than the hub\""));
}

static void drop_errands(struct acp_session *s)
{
    while (s->errands.n != 0) {
        drop(s->errands.p[s->errands.n - 1]);
    }
}

/// Call `done` of acp__link(): the connection is there, or cannot be had.
static void ready(struct acp_session *s)
{
    loop_fn *done = s->link_done;
    void *arg = s->link_arg;
    s->link_done = NULL;
    if (done != NULL) {
        done(arg);
    }
}

static int on_event(void *arg, const struct sse_event *ev)
{
    struct acp_session *s = arg;
    struct arena a = {0};
    struct json *v = NULL;
    if (json_parse(&v, &a, ev->data, NULL, NULL) < 0) { // of another program
    } else if (str_eqz(ev->event, "ready")) {
        ready(s);
    } else if (str_eqz(ev->event, "request")) {
        take_request(s, v);
    } else if (str_eqz(ev->event, "cancel")) {
        for (size_t i = 0; i < s->errands.n; i++) {
            if (s->errands.p[i]->id == json_int(json_get(v, "request"), 0)) {
                drop(s->errands.p[i]);
                break;
            }
        }
    }
    arena_fini(&a);
    return s->link == NULL ? UV_ECANCELED : 0;
}

static void on_body(struct http_call *call, struct str bytes, void *arg)
{
    struct acp_session *s = arg;
    (void)call;
    (void)!sse_feed(&s->link_sse, bytes, NULL);
}

static void begin(struct acp_session *s);

static void on_done(struct http_call *call, int rc, const struct http_reply *reply,
                    const struct err *e, void *arg)
{
    struct acp_session *s = arg;
    struct err why;
    (void)call;
    (void)reply;
    s->link = NULL;
    drop_errands(s); // without it tools use the files on disk
    if (rc < 0 && s->link_done != NULL && !s->acp->closed &&
        acp__revive(s->acp, &s->link_tried, &e, &why)) {
        begin(s);
        return;
    }
    ready(s);
}

static void begin(struct acp_session *s)
{
    static const struct http_cb cb = {.on_body = on_body, .on_done = on_done};
    struct acp *a = s->acp;
    struct buf body = {.max = SIZE_MAX};
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_kstrz(&w, "session", s->id);
    jw_kbool(&w, "reads", a->reads_files);
    jw_kbool(&w, "writes", a->writes_files);
    jw_kbool(&w, "terminals", a->terminals);
    if (s->servers != NULL) {
        jw_key(&w, "mcp_servers");
        jw_raw(&w, str_of(s->servers));
    }
    jw_end_obj(&w);
    sse_fini(&s->link_sse);
    sse_init(&s->link_sse, 64 << 20, on_event, s);
    if (!acp__send(a, "POST", "/editor", buf_str(&body), "text/event-stream", &cb, s, &s->link)) {
        s->link = NULL;
        ready(s);
    }
    buf_fini(&body);
}

void acp__link(struct acp_session *s, loop_fn *done, void *arg)
{
    const struct acp *a = s->acp;
    assert(s->link_done == NULL);
    if (s->link != NULL ||
        !(a->reads_files || a->writes_files || a->terminals || s->servers != NULL)) {
        done(arg);
        return;
    }
    s->link_done = done;
    s->link_arg = arg;
    s->link_tried = false;
    begin(s);
}

void acp__link_drop(struct acp_session *s)
{
    drop_errands(s);
    if (s->link != NULL) {
        http_client_cancel(s->link);
        s->link = NULL;
    }
    ready(s);
}
