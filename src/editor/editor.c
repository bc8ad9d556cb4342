// The hub's end of an editor's connection.
//
//     POST ──> the session, its servers ──> stream: ready ──┬─ a tool asks ──> request ──> PUT ──> the tool continues
//                                                           ├─ it gives up ──> cancel
//                                                           └─ the peer is gone ──> the tool is told, servers end
//
// What editors are asked is neither in the journal nor in an event: the files that pass here concern no other client.
// A second editor for the same session takes the place of the first.
//
// Invariants:
//   - `serving` exactly while agent/ has the editor's face; only then there are asks.
//   - an editor is freed when its peer is gone and nothing is under way for it (`waiting`).

#include "editor/editor.h"

#include <assert.h>

#include "agent/agent.h"
#include "base/vec.h"
#include "loop/timer.h"
#include "mcp/mcp.h"
#include "net/sse.h"
#include "proto/problems.h"

enum { READ_MS = 10 * 1000, WRITE_MS = 60 * 1000, EDITORS_MAX = 256 };

struct editor {
    struct editors *all;
    char *session;
    struct mount_call *m; // NULL: the peer is gone
    struct agent_editor face;
    struct arena arena;
    const struct json *servers; // of the request; NULL: none
    bool waiting;               // for the session or for its servers
    bool serving;
    vec(struct editor_ask *) asks;
    int64_t last;
};

struct editor_ask {
    struct editor *ed;
    int64_t id;
    struct timer timer;
    agent_editor_cb *done;
    void *arg;
};

struct editors {
    struct editors_opts o;
    struct server_mount mount;
    vec(struct editor *) list;
    bool closed; // goes with the last editor
};

// ---- what is asked ------------------------------------------------------------------------------

static void send_event(struct editor *ed, const char *event, struct str data)
{
    struct buf frame = {.max = SIZE_MAX};
    sse_write(&frame, STR_NULL, str_of(event), data);
    mount_send(ed->m, buf_str(&frame));
    buf_fini(&frame);
}

static void send_cancel(struct editor *ed, int64_t id)
{
    char data[40];
    snprintf(data, sizeof data, "{\"request\":%lld}", (long long)id);
    if (ed->m != NULL) {
        send_event(ed, "cancel", str_of(data));
    }
}

/// Take the i-th out of the list and answer it.
static void end_ask(struct editor *ed, size_t i, const struct json *result, const char *why)
{
    struct editor_ask *q = ed->asks.p[i];
    agent_editor_cb *done = q->done;
    void *arg = q->arg;
    vec_remove(&ed->asks, i);
    timer_stop(&q->timer);
    free(q);
    if (done != NULL) {
        done(arg, result, why);
    }
}

static void on_late(void *arg)
{
    struct editor_ask *q = arg;
    struct editor *ed = q->ed;
    for (size_t i = 0; i < ed->asks.n; i++) {
        if (ed->asks.p[i] == q) {
            send_cancel(ed, q->id);
            end_ask(ed, i, NULL, "the editor does not answer");
            return;
        }
    }
}

static void ask(void *arg, const char *method, struct str params, agent_editor_cb *done,
                void *done_arg)
{
    struct editor *ed = arg;
    struct editor_ask *q = xcalloc(1, sizeof *q);
    struct buf data = {.max = SIZE_MAX};
    bool reads = strcmp(method, "read") == 0, writes = strcmp(method, "write") == 0;
    assert(ed->serving);
    *q = (struct editor_ask){.ed = ed, .id = ++ed->last, .done = done, .arg = done_arg};
    timer_init(&q->timer, ed->all->o.loop, on_late, q);
    if (reads || writes) { // a command has its own limit
        timer_start(&q->timer, reads ? READ_MS : WRITE_MS);
    }
    vec_push(&ed->asks, q);
    if (ed->m == NULL) {
        return; // it is leaving: drop() answers this one, too
    }
    buf_addf(&data, "{\"request\":%lld,\"method\":\"%s\",\"params\":", (long long)q->id, method);
    buf_adds(&data, params);
    buf_addc(&data, '}');
    send_event(ed, "request", buf_str(&data));
    buf_fini(&data);
}

static void forget(void *arg, void *done_arg)
{
    struct editor *ed = arg;
    for (size_t i = 0; i < ed->asks.n; i++) {
        if (ed->asks.p[i]->arg == done_arg) {
            send_cancel(ed, ed->asks.p[i]->id);
            ed->asks.p[i]->done = NULL;
            end_ask(ed, i, NULL, NULL);
            return;
        }
    }
}

// ---- life ---------------------------------------------------------------------------------------

static struct editor *find(const struct editors *e, struct str session)
{
    vec_foreach (it, &e->list) {
        if (str_eqz(session, (*it)->session) && (*it)->m != NULL) {
            return *it;
        }
    }
    return NULL;
}

static void editors_free(struct editors *e)
{
    vec_fini(&e->list);
    free(e);
}

static void editor_free(struct editor *ed)
{
    struct editors *e = ed->all;
    assert(!ed->serving && ed->asks.n == 0);
    vec_drop(&e->list, ed);
    vec_fini(&ed->asks);
    arena_fini(&ed->arena);
    free(ed->session);
    free(ed);
    if (e->closed && e->list.n == 0) {
        editors_free(e);
    }
}

/// The editor is gone, or another one takes its place: what waits for it continues without it.
static void drop(struct editor *ed)
{
    ed->m = NULL;
    while (ed->asks.n != 0) {
        end_ask(ed, 0, NULL, NULL);
    }
    if (ed->serving) {
        ed->serving = false;
        agent_set_editor(ed->all->o.agent, str_of(ed->session), NULL);
        if (ed->all->o.mcp != NULL) {
            mcp_lend(ed->all->o.mcp, ed->session, NULL, NULL, NULL, NULL);
        }
    }
    if (!ed->waiting) {
        editor_free(ed);
    }
}

static void refuse(struct mount_call *m, enum problem p, const char *detail)
{
    struct buf body = {.max = SIZE_MAX};
    problem_write(&body, p, str_of(detail), NULL);
    mount_reply(m, problems[p].status, "application/problem+json", NULL, buf_str(&body));
    buf_fini(&body);
}

static void on_servers(void *arg)
{
    struct editor *ed = arg;
    ed->waiting = false;
    if (ed->m == NULL) {
        editor_free(ed);
        return;
    }
    mount_stream(ed->m, NULL);
    send_event(ed, "ready", STR("{}"));
}

/// The session is known: it has the editor from here on.
static void on_session(void *arg, struct session *s, const struct agent_no *no)
{
    struct editor *ed = arg;
    struct mount_call *m = ed->m;
    if (s == NULL || m == NULL) {
        ed->waiting = false;
        ed->m = NULL;
        if (m != NULL) {
            refuse(m, no->problem, no->detail);
        }
        editor_free(ed);
        return;
    }
    ed->serving = true;
    agent_set_editor(ed->all->o.agent, str_of(ed->session), &ed->face);
    if (ed->all->o.mcp != NULL) {
        mcp_lend(ed->all->o.mcp, ed->session, agent_session_dir(s), ed->servers, on_servers, ed);
    } else {
        on_servers(ed);
    }
}

// ---- requests -----------------------------------------------------------------------------------

static void post(struct editors *e, struct mount_call *m, const struct json *v, struct arena *a)
{
    struct str session = json_str(json_get(v, "session"), "");
    const struct json *servers = json_get(v, "mcp_servers");
    if (session.n == 0 || (servers != NULL && servers->type != JSON_ARR)) {
        refuse(m, PROBLEM_INVALID_BODY, "'session' must be an id, and 'mcp_servers' a list");
        return;
    }
    if (e->list.n >= EDITORS_MAX) {
        refuse(m, PROBLEM_RATE_LIMITED, "there are too many editors");
        return;
    }
    struct editor *before = find(e, session);
    if (before != NULL) {
        struct mount_call *old = before->m;
        bool streams = before->serving && !before->waiting;
        mount_set_data(old, NULL);
        drop(before);
        if (streams) {
            mount_end(old);
        } else {
            refuse(old, PROBLEM_CONFLICT, "another editor took the session");
        }
    }
    struct editor *ed = xcalloc(1, sizeof *ed);
    *ed = (struct editor){.all = e, .session = str_dup(session), .m = m, .waiting = true};
    ed->face = (struct agent_editor){.reads = json_bool(json_get(v, "reads"), false),
                                     .writes = json_bool(json_get(v, "writes"), false),
                                     .terminals = json_bool(json_get(v, "terminals"), false),
                                     .ask = ask,
                                     .forget = forget,
                                     .arg = ed};
    ed->arena = *a;
    *a = (struct arena){0};
    ed->servers = servers;
    vec_push(&e->list, ed);
    mount_set_data(m, ed);
    agent_session_get(e->o.agent, str_of(ed->session), on_session, ed);
}

static void put(struct editors *e, struct mount_call *m, const struct json *v, struct arena *a)
{
    struct editor *ed = find(e, json_str(json_get(v, "session"), ""));
    int64_t id = json_int(json_get(v, "request"), 0);
    const struct json *result = json_get(v, "result");
    bool taken = false;
    for (size_t i = 0; ed != NULL && i < ed->asks.n && !taken; i++) {
        taken = ed->asks.p[i]->id == id;
        if (taken) {
            const char *why = arena_strdup(a, json_str(json_get(v, "error"), "it failed"));
            end_ask(ed, i, result, result != NULL ? NULL : why);
        }
    }
    mount_reply(m, 200, "application/json", NULL,
                taken ? STR("{\"taken\":true}") : STR("{\"taken\":false}"));
}

static void on_request(void *arg, struct mount_call *m)
{
    static const struct {
        const char *method;
        void (*run)(struct editors *e, struct mount_call *m, const struct json *v, struct arena *a);
    } runs[] = {{"POST", post}, {"PUT", put}};
    struct arena a = {0};
    struct json *v;
    struct err why = {0};
    size_t i = 0;
    while (i < ARRAY_LEN(runs) && strcmp(mount_method(m), runs[i].method) != 0) {
        i++;
    }
    if (i == ARRAY_LEN(runs)) {
        refuse(m, PROBLEM_METHOD_NOT_ALLOWED, "POST connects an editor, PUT answers a request");
    } else if (json_parse(&v, &a, arena_str(&a, mount_body(m)), NULL, &why) < 0) {
        refuse(m, PROBLEM_INVALID_JSON, why.msg);
    } else {
        runs[i].run(arg, m, v, &a);
    }
    arena_fini(&a);
}

static void on_gone(void *arg, struct mount_call *m)
{
    struct editor *ed = mount_data(m);
    (void)arg;
    if (ed != NULL) {
        drop(ed);
    }
}

// ---- public -------------------------------------------------------------------------------------

struct editors *editors_open(const struct editors_opts *o)
{
    struct editors *e = xcalloc(1, sizeof *e);
    e->o = *o;
    e->mount =
        (struct server_mount){.path = "/editor", .request = on_request, .gone = on_gone, .arg = e};
    return e;
}

const struct server_mount *editors_mount(const struct editors *e)
{
    return &e->mount;
}

void editors_close(struct editors *e)
{
    if (e == NULL) {
        return;
    }
    for (size_t i = e->list.n; i > 0; i--) {
        drop(e->list.p[i - 1]);
    }
    e->closed = true;
    if (e->list.n == 0) {
        editors_free(e);
    }
}
