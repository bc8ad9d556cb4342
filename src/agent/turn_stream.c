// The stream of one request: what the model says, journaled while it says it.
//
// Pieces of the stream are journaled as they come. Those of one turn of the loop become one event, and while an event
// is being written the next pieces are collected. A model that is faster than the disk is paused at DELTA_MAX bytes,
// so memory does not depend on the length of its answer.
//
//     on_delta ──> delta.text ──deferred──> message.delta ──written──> the next one
//
// When a try fails its pieces are void: message.aborted says so, and the answer begins again. An answer that an
// interrupt or a steering message cuts off becomes a message with `cut`, and the model is told of it: the user has
// read it, and may refer to it.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"

enum { DELTA_MAX = 64 * 1024 };

static void write_delta(struct turn *t);

/// Pause or resume the provider or the engine.
static void pause_source(struct turn *t, bool paused)
{
    const struct session_engine *live = t->s->live;
    if (t->delta.paused == paused) {
        return;
    }
    t->delta.paused = paused;
    if (t->call != NULL) {
        provider_pause(t->call, paused);
    } else if (live != NULL) {
        live->thread->ops->pause(live->thread, paused);
    }
}

static void on_delta_written(void *arg, int status, const struct err *e)
{
    struct turn *t = arg;
    t->delta.writing = false;
    if (status < 0 && t->call != NULL) { // what cannot be journaled cannot be shown: stop
        turn__cancel_model(t);
        turn__fail(t, "STORE_FAILED", "%s: %s", note__fault(e), e->msg);
        return;
    }
    if (status < 0 && t->step == TURN_ENGINE) {
        turn__stop_engine(t, "STORE_FAILED",
                          arena_printf(&t->step_arena, "%s: %s", note__fault(e), e->msg));
    }
    write_delta(t);
    pause_source(t, false);
}

/// Journal the pieces collected so far.
static void write_delta(struct turn *t)
{
    struct turn_delta *d = &t->delta;
    struct note n;
    if (d->text.n != 0) {
        struct jw *w = note__begin(&n, t->s, t, EVENT_MESSAGE_DELTA);
        jw_kstr(w, d->reasoning ? "reasoning" : "text", buf_str(&d->text));
        buf_clear(&d->text);
        d->writing = true;
        note__end(&n, STORE_WRITTEN, on_delta_written, t);
    }
}

static void on_delta_task(void *arg)
{
    struct turn *t = arg;
    t->delta.task = NULL;
    if (!t->delta.writing) {
        write_delta(t);
    }
}

void turn__flush_deltas(struct turn *t)
{
    redact_flush(&t->delta.secrets, &t->delta.text);
    if (t->delta.task != NULL) {
        loop_cancel(t->s->agent->o.hub->loop, t->delta.task);
        t->delta.task = NULL;
    }
    write_delta(t);
}

/// Run the handlers of on_model_delta, which may not wait.
static void raise_delta(struct turn *t, const char *kind, struct str text)
{
    struct pipe p = {0};
    struct arena a = {0};
    struct json *delta = make_obj(&a, 1);
    make_put(delta, kind, make_str(text));
    struct pipe_opts o = {.hooks = t->site.hooks,
                          .point = POINT_MODEL_DELTA,
                          .ctx = &t->ctx,
                          .arena = &a,
                          .a = delta,
                          .failed = turn__hook_failed,
                          .failed_arg = t};
    pipe_start(&p, &o);
    pipe_fini(&p);
    arena_fini(&a);
}

void turn__delta(struct turn *t, const struct provider_delta *piece)
{
    struct turn_delta *d = &t->delta;
    struct buf clean = {.max = SIZE_MAX};
    bool reasoning = piece->reasoning.n != 0;
    struct str text = reasoning ? piece->reasoning : piece->text;
    if (t->compacting || piece->sealed != NULL) {
        return;
    }
    if (pipe_heard(t->site.hooks, POINT_MODEL_DELTA)) {
        raise_delta(t, reasoning ? "reasoning" : "text", text);
    }
    if (d->reasoning != reasoning) {
        redact_flush(&d->secrets, &d->text);
        write_delta(t);
        d->reasoning = reasoning;
    }
    buf_adds(&d->text, redact_feed(&d->secrets, &clean, text));
    buf_fini(&clean);
    if (!d->writing && d->task == NULL) {
        d->task = loop_defer(t->s->agent->o.hub->loop, on_delta_task, t);
    }
    if (d->text.n > DELTA_MAX && d->writing) {
        pause_source(t, true);
    }
}

static void on_delta(struct provider_call *call, const struct provider_delta *piece, void *arg)
{
    (void)call;
    turn__delta(arg, piece);
}

static void on_retry(struct provider_call *call, const struct provider_error *why, uint64_t wait_ms,
                     void *arg)
{
    struct turn *t = arg;
    struct note n;
    (void)call;
    turn__flush_deltas(t);
    struct jw *w = note__begin(&n, t->s, t, EVENT_MESSAGE_ABORTED);
    jw_key(w, "error");
    provider_write_error(w, why);
    jw_kint(w, "retry_in_ms", (int64_t)wait_ms);
    note__end(&n, STORE_WRITTEN, NULL, NULL);
}

/// Add `u` to the sum; a number that was unknown once stays unknown.
static void add_usage(struct provider_usage *sum, const struct provider_usage *u)
{
    int64_t *const sums[] = {&sum->input, &sum->cached, &sum->output, &sum->reasoning};
    const int64_t more[] = {u->input, u->cached, u->output, u->reasoning};
    for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
        *sums[i] = *sums[i] < 0 || more[i] < 0 ? -1 : *sums[i] + more[i];
    }
}

static const struct json *copy_calls(struct turn *t, const struct provider_response *r)
{
    struct json *list = make_arr(&t->step_arena, r->n_tool_calls);
    for (size_t i = 0; i < r->n_tool_calls; i++) {
        const struct provider_tool_call *c = &r->tool_calls[i];
        struct json *call = make_obj(&t->step_arena, 4);
        make_put(call, "id", make_str(arena_str(&t->step_arena, c->id)));
        make_put(call, "name", make_str(arena_str(&t->step_arena, c->name)));
        make_put(call, "input", *json_clone(&t->step_arena, c->input));
        if (c->bad_input != NULL) {
            make_put(call, "bad_input", make_str(arena_str(&t->step_arena, str_of(c->bad_input))));
        }
        make_push(list, *call);
    }
    return list;
}

void turn__count(struct turn *t, const struct provider_usage *u, bool talks)
{
    double cost = provider_cost(&t->s->choice, u);
    bool counted = talks && u->input >= 0 && u->output >= 0;
    t->s->context = counted ? u->input + u->output : t->s->context;
    // a subagent's cost is its parent's too
    for (struct turn *it = t; it != NULL; it = turn__parent(it)) {
        struct session *s = it->s;
        struct note n;
        add_usage(&s->usage, u);
        add_usage(&it->usage, u);
        s->cost += cost; // NAN stays NAN
        it->cost += cost;
        struct jw *w = note__begin(&n, s, it, EVENT_USAGE_UPDATED);
        agent__session_write_usage(w, &s->usage, s->cost);
        agent__session_write_context(w, s);
        jw_kint(w, "request", (int64_t)s->requests);
        note__end(&n, STORE_WRITTEN, NULL, NULL);
    }
}

static void on_response(struct provider_call *call, const struct provider_response *r, void *arg)
{
    struct turn *t = arg;
    (void)call;
    t->call = NULL;
    turn__flush_deltas(t);
    turn__count(t, &r->usage, !t->compacting);
    if (t->compacting) {
        turn__compact_reply(t, r->text);
        return;
    }
    struct json *content = json_clone(&t->step_arena, &r->content);
    t->reply = (struct turn_reply){
        .text = turn__share_text(&t->step_arena, content, r->text),
        .content = content,
        .calls = copy_calls(t, r),
        .stop_reason = arena_str(&t->step_arena, str_of(r->stop_reason)),
        .usage = r->usage,
        .left_out = r->text_left_out,
    };
    turn__go(t, TURN_AFTER_MODEL);
}

static void on_fail(struct provider_call *call, const struct provider_error *why, void *arg)
{
    struct turn *t = arg;
    (void)call;
    t->call = NULL;
    turn__flush_deltas(t);
    if (why->fault == PROVIDER_CONTEXT && !t->compacted && !t->compacting) {
        t->refused = true;
        turn__go(t, TURN_COMPACT);
        return;
    }
    turn__fail(t, provider_fault_name(why->fault), "%s", why->message);
}

void turn__ask(struct turn *t)
{
    static const struct provider_cb callbacks = {
        .on_delta = on_delta, .on_retry = on_retry, .on_done = on_response, .on_fail = on_fail};
    struct session *s = t->s;
    assert(t->call == NULL && t->request != NULL);
    struct provider_ask q = {
        .choice = &s->choice, .request = turn__fill_pictures(t), .n = s->requests, .ctx = &t->ctx};
    struct err e = {0};
    if (!t->compacting) {
        t->step = TURN_MODEL;
    }
    if (provider_start(&t->call, s->agent->o.providers, &q, &callbacks, t, &e) < 0) {
        t->call = NULL;
        turn__fail(t, "INVALID_REQUEST", "%s", e.msg);
    }
}

void turn__cancel_model(struct turn *t)
{
    if (t->call != NULL) {
        provider_cancel(t->call);
        t->call = NULL;
    }
    turn__flush_deltas(t);
}

bool turn__cut_model(struct turn *t)
{
    struct str said = t->call != NULL ? provider_text(t->call) : STR_NULL;
    said = arena_str(&t->step_arena, said);
    turn__cancel_model(t);
    if (str_trim(said).n == 0) { // APIs take no message of spaces alone
        return false;
    }
    turn__set_reply(t, said);
    t->reply.cut = true;
    turn__note_reply(t, said, NULL);
    return true;
}
