// The pipeline that every call of a tool goes through, with or without a session, whatever runs the tool.
//
//     on_tool_call ─> schema ─> tool.called ─> on_permission ─> user?  ─> on_resolve_tool ─┬─> run ─┐
//                                    └─ synced: may begin ────────────────────────────────────┘      │
//                       site->ended <─ on_tool_result <─ result <────────────────────────────────────┘
//
// What runs is the call as on_tool_call left it, checked against the schema again; the journal has both forms.
// Calls of a turn are journaled, and a tool begins only when its tool.called is synced to disk. A call without
// a turn (tool_call_outside.c) has no journal, and cannot ask the user. A model may make a thousand calls at
// once; of the jobs, which need processes and files, AT_ONCE run at a time. A subagent weighs as much as several
// jobs.
//
// Invariants:
//   - every call ends in end_call(), once; nothing of the call is used after site->ended.
//   - a call is not freed while an event of it is on its way into the journal.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "base/schema.h"
#include "base/time.h"

enum { PROGRESS_MAX = 256 * 1024, AT_ONCE = 32 };

struct session *tool_call__session(const struct call_site *site)
{
    return site->turn != NULL ? site->turn->s : NULL;
}

void tool_call__raise(struct tool_call *c, enum hook_point_id point, const struct json *b,
                      pipe_done *done)
{
    struct call_site *site = c->site;
    struct pipe_opts o = {.hooks = site->hooks,
                          .loop = site->agent->o.hub->loop,
                          .point = point,
                          .ctx = site->ctx,
                          .arena = site->arena,
                          .a = tool_call__about(c),
                          .b = b,
                          .subject = json_get_text(tool_call__about(c), "tool_name"),
                          .done = done,
                          .arg = c,
                          .failed = site->turn != NULL ? turn__hook_failed : NULL,
                          .failed_arg = site->turn};
    pipe_start(&c->pipe, &o);
}

// ---- the end ------------------------------------------------------------------------------------

static void end_call(struct tool_call *c)
{
    assert(!c->over && c->result != NULL);
    c->over = true;
    assert(c->look == NULL && c->asking == ASK_NOTHING && c->site->n_running >= c->weight);
    agent__call_kept(c);
    c->site->n_running -= c->weight;
    c->site->ended(c);
}

static void set_result(struct tool_call *c, struct str output, bool success, const char *error)
{
    struct arena *a = c->site->arena;
    struct json *r = make_obj(a, 5);
    make_put(r, "tool_call_id", make_str(c->id));
    make_put(r, "tool_name", make_str(c->name));
    make_put(r, "output", make_str(arena_str(a, output)));
    make_put(r, "success", make_bool(success));
    if (error != NULL) {
        make_put(r, "error", make_str(arena_str(a, str_of(error))));
    }
    c->result = r;
}

static void end_cancelled(struct tool_call *c)
{
    c->end = CALL_CANCELLED;
    set_result(c, STR(""), false, "interrupted");
    c->pipe.changed_by.n = 0;
    end_call(c);
}

static void on_tool_result(struct pipe *p, void *arg)
{
    struct tool_call *c = arg;
    c->result = pipe_value(p);
    if (p->run.result == HOOK_DENY) {
        set_result(c, STR(""), false, "a plugin's on_tool_result failed and blocks the result");
    }
    end_call(c);
}

/// c->result is set: run on_tool_result, then end the call.
static void finish(struct tool_call *c)
{
    if (c->cancelled) {
        end_cancelled(c);
    } else {
        tool_call__raise(c, POINT_TOOL_RESULT, c->result, on_tool_result);
    }
}

void tool_call__finish_as(struct tool_call *c, struct str output, bool success, const char *error)
{
    set_result(c, output, success, error);
    finish(c);
}

void tool_call__fail(struct tool_call *c, enum call_end end, const char *error)
{
    c->end = end;
    tool_call__finish_as(c, STR(""), false, error);
}

void tool_call_finish(struct tool_call *c, struct str output, const char *error)
{
    tool_call__finish_as(c, output, error == NULL, error);
}

/// Stands for a call whose work cannot be stopped.
struct tool_ticket {
    struct tool_call *c; // NULL: the call was cancelled
    struct agent *agent;
};

struct tool_ticket *tool_call_ticket(struct tool_call *c)
{
    struct tool_ticket *t = xmalloc(sizeof *t);
    assert(c->ticket == NULL);
    *t = (struct tool_ticket){.c = c, .agent = c->site->agent};
    c->ticket = t;
    agent__hold(t->agent);
    return t;
}

void tool_ticket_finish(struct tool_ticket *t, struct str output, const char *error)
{
    struct agent *a = t->agent;
    if (t->c != NULL) {
        t->c->ticket = NULL;
        tool_call_finish(t->c, output, error);
    }
    free(t);
    agent__release(a);
}

void tool_call__cancel(struct tool_call *c)
{
    if (c->over) {
        return;
    }
    c->cancelled = true;
    pipe_cancel(&c->pipe);
    tool_call__stop_looking(c);
    tool_call__stop_asking(c);
    if (c->ticket != NULL) {
        c->ticket->c = NULL;
        c->ticket = NULL;
    }
    if (!c->keeping && (c->entry == NULL || c->entry->tool->ops->cancel == NULL ||
                        c->entry->tool->ops->cancel(c))) {
        end_cancelled(c);
    }
}

// ---- running it ---------------------------------------------------------------------------------

const struct json *tool_call_input(const struct tool_call *c)
{
    return json_get(c->call, "input");
}

struct session *tool_call_session(const struct tool_call *c)
{
    return tool_call__session(c->site);
}

void *tool_call_data(const struct tool_call *c)
{
    return c->entry->data;
}

static void on_told(void *arg, int status, const struct err *e)
{
    struct tool_call *c = arg;
    (void)status;
    (void)e;
    c->telling = false;
}

/// Pieces that come while one is being written, and those beyond PROGRESS_MAX, are dropped.
void tool_call__tell_progress(struct tool_call *c, struct str text)
{
    struct turn *t = c->site->turn;
    struct buf clean = {.max = SIZE_MAX};
    struct note n;
    struct str shown = t != NULL ? redact_feed(&c->secrets, &clean, text) : STR_NULL;
    if (!c->telling && !c->over && shown.n != 0 && c->progress + shown.n <= PROGRESS_MAX) {
        c->telling = true;
        c->progress += shown.n;
        struct jw *w = note__begin(&n, t->s, t, EVENT_TOOL_PROGRESS);
        jw_kstr(w, "call_id", c->id);
        jw_kstr(w, "text", shown);
        note__end(&n, STORE_WRITTEN, on_told, c);
    }
    buf_fini(&clean);
}

static void on_kept(void *arg, const char *note)
{
    struct tool_call *c = arg;
    (void)note; // it is in the record, and a rewind shows it
    c->keeping = false;
    agent__release(c->site->agent);
    if (c->cancelled) {
        end_cancelled(c);
    } else {
        c->since_ns = time_mono_ns();
        c->entry->tool->ops->start(c);
    }
}

/// Run the tool: it is allowed, and its tool.called is synced. The files that it is about to change are kept first, so
/// that a rewind can restore them.
static void run(struct tool_call *c)
{
    assert(c->allowed && c->synced && !c->over);
    const struct tool_ops *ops = c->entry->tool->ops;
    unsigned weight = ops->work != NULL ? 1 : ops->weight;
    c->in_line = weight != 0 && c->site->n_running + weight > AT_ONCE;
    if (c->in_line) {
        return;
    }
    c->weight = weight;
    c->site->n_running += weight;
    c->since_ns = time_mono_ns();
    c->keeping = agent__call_keep(c, on_kept);
    if (c->keeping) {
        agent__hold(c->site->agent);
    } else {
        c->entry->tool->ops->start(c);
    }
}

static void run_if_ready(struct tool_call *c)
{
    if (!c->allowed || c->over) {
        return;
    }
    if (c->lost != NULL) {
        tool_call__fail(c, CALL_BROKEN, c->lost);
    } else if (c->synced) {
        run(c);
    }
}

void tool_call__start_waiting(struct call_site *site)
{
    for (size_t i = 0; i < site->calls.n && site->n_running < AT_ONCE; i++) {
        struct tool_call *c = site->calls.p[i];
        if (c->in_line && !c->over && !c->cancelled) {
            run(c);
        }
    }
}

// ---- before it runs -----------------------------------------------------------------------------

static void on_resolve(struct pipe *p, void *arg)
{
    struct tool_call *c = arg;
    if (p->run.result == HOOK_VALUE) {
        c->resolved_by = pipe_by(p);
        c->result = pipe_value(p);
        finish(c);
    } else if (p->run.result == HOOK_DENY) {
        tool_call__fail(c, CALL_BROKEN, "a plugin's on_resolve_tool failed and blocks the call");
    } else {
        c->allowed = true;
        run_if_ready(c);
    }
}

void tool_call__resolve(struct tool_call *c)
{
    tool_call__raise(c, POINT_RESOLVE_TOOL, NULL, on_resolve);
}

void tool_call__go_on(struct tool_call *c)
{
    assert(!c->over && c->asking == ASK_NOTHING);
    c->consented = c->guarded;
    if (c->allowed) { // its job stopped to ask: run it again
        c->entry->tool->ops->start(c);
    } else {
        tool_call__resolve(c);
    }
}

static void on_called(void *arg, int status, const struct err *e)
{
    struct tool_call *c = arg;
    c->synced = status == 0;
    if (status < 0 && !c->over) {
        c->lost = arena_strdup(c->site->arena, str_of(e->msg));
    }
    run_if_ready(c);
}

/// The one text of the input that describes the call best.
static struct str input_line(const struct tool_call *c)
{
    static const char *const keys[] = {"cmd",    "path", "pattern", "url",
                                       "prompt", "name", "question"};
    const struct json *v = NULL;
    for (size_t i = 0; i < ARRAY_LEN(keys) && v == NULL; i++) {
        v = json_get(tool_call_input(c), keys[i]);
    }
    return json_str(v, "");
}

/// Journal tool.called. `p` is the pipe of on_tool_call; NULL: that was not raised.
static void note_call(struct tool_call *c, const struct pipe *p)
{
    struct turn *t = c->site->turn;
    struct note n;
    if (t == NULL) {
        c->synced = true;
        return;
    }
    struct jw *w = note__begin(&n, t->s, t, EVENT_TOOL_CALLED);
    jw_kstr(w, "call_id", c->id);
    jw_kstr(w, "tool", c->name);
    jw_kvalue(w, "input", json_get(c->call, "input"));
    if (p != NULL && p->run.result == HOOK_VALUE) {
        jw_kvalue(w, "original_input", c->said);
        pipe_write_changed(p, w);
    }
    c->noted = true;
    note__end(&n, STORE_SYNCED, on_called, c);
    task__tell(t, c->name, input_line(c));
}

/// Set name and input. A plugin's tool has two names, `roll` and `dice:roll`; handlers, rules and the user see the one
/// that the model was told, or a handler that guards `roll` would miss `dice:roll`.
static void set_call(struct tool_call *c, struct str name, const struct json *input)
{
    struct json *call = make_obj(c->site->arena, 3);
    c->entry = toolbox_find(&c->site->tools, name);
    c->entry = c->errand != NULL ? turn__engine_entry(c, name, c->entry) : c->entry;
    c->name = c->entry != NULL ? c->entry->name : name;
    make_put(call, "tool_name", make_str(c->name));
    make_put(call, "tool_call_id", make_str(c->id));
    make_put(call, "input", *input);
    c->call = call;
}

/// Is there such a tool, and does the input fit?
static int check_call(struct tool_call *c, struct err *e)
{
    if (c->entry == NULL) {
        return err_set(e, ERR_NOT_FOUND, "there is no tool '%.*s'", (int)MIN(c->name.n, (size_t)64),
                       c->name.p);
    }
    int rc = schema_check(c->entry->schema, e);
    if (rc < 0) {
        return c->entry->foreign || rc == ERR_UNSUPPORTED ? 0 : rc;
    }
    return schema_fit(c->entry->schema, json_get(c->call, "input"), "input", e);
}

static void on_tool_call(struct pipe *p, void *arg)
{
    struct tool_call *c = arg;
    struct err e = {0};
    const char *by = pipe_by(p);
    if (p->run.result == HOOK_VALUE) { // the id cannot change: the model knows the call by it
        struct str name = json_get_text(pipe_value(p), "tool_name");
        const struct json *input = json_get(pipe_value(p), "input");
        const struct tool_entry *tool = toolbox_find(&c->site->tools, name);
        set_call(c, name,
                 tool != NULL ? schema_arrays(tool->schema, input, c->site->arena) : input);
    }
    int rc = check_call(c, &e);
    note_call(c, p);
    if (p->run.result == HOOK_DENY) {
        c->denied_by = by != NULL ? by : "a plugin";
        c->reason = arena_strdup(c->site->arena, str_of(p->run.fault.msg));
        err_set(&e, ERR_DENIED, "blocked by '%s': %.180s", c->denied_by, c->reason);
        tool_call__fail(c, CALL_DENIED, e.msg);
    } else if (rc < 0) {
        tool_call__fail(c, CALL_UNFIT, e.msg);
    } else {
        tool_call__permit(c);
    }
}

struct tool_call *tool_call__new(struct call_site *site, struct str id, const struct json *said)
{
    struct tool_call *c = xcalloc(1, sizeof *c);
    c->site = site;
    c->id = id;
    c->said = said;
    c->since_ns = time_mono_ns();
    redact_stream_init(&c->secrets);
    vec_push(&site->calls, c);
    return c;
}

void tool_call__begin(struct tool_call *c, struct str name, const char *bad_input)
{
    set_call(c, name, c->said);
    if (bad_input != NULL) {
        note_call(c, NULL);
        tool_call__fail(c, CALL_UNFIT, bad_input);
    } else {
        tool_call__raise(c, POINT_TOOL_CALL, NULL, on_tool_call);
    }
}

void tool_call__free(struct tool_call *c)
{
    assert(c->over && c->job == NULL && !c->calling && c->ticket == NULL && c->inquiries == NULL);
    tool_call__drop_decision(c);
    pipe_fini(&c->pipe);
    redact_stream_fini(&c->secrets);
    free(c);
}

void tool_call__site_fini(struct call_site *site)
{
    assert(site->n_running == 0);
    hook_set_free(site->hooks);
    gen_unpin(site->gen);
    toolbox_fini(&site->tools);
    vec_fini(&site->calls);
}
