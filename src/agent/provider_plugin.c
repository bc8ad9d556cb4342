// Providers that plugins offer: provider{name, models, stream}.
//
//     start ┄> stream(ctx, request, emit) in the newest generation, which is pinned until the try is over
//                └ emit ──> queue ┄┄deferred┄┄> provider__event() ──> on_delta ...
//                └ returns, throws ──────┄┄┄┄┄> provider__end(), provider__fail()
//
// A stream has a wire format of its own (wire_plugin): the request is the neutral one; an event is a text or an object
// with `text`, `reasoning`, `tool_call`, `tool_calls`, `usage`, `stop_reason` or `error`; the return value is one more
// event. emit() is called from inside the plugin's code, which the readers of a delta may not enter or end. So events
// are queued as text and taken from the loop; while the call is paused they stay in the queue.
//
// A stream may take up to an hour; one that is silent for retry.idle_ms fails like any provider.
//
// Invariants:
//   - `gen` is pinned from begin() to stop(), so that code and item outlive the stream.
//   - once `ended`, the plugin's call is over; else stop() cancels it.

#include <assert.h>

#include "agent/make.h"
#include "agent/provider_int.h"
#include "gen/engine.h"
#include "hook/args.h"

enum { STREAM_MS = 60 * 60 * 1000, QUEUE_MAX = 16 * 1024 * 1024 };

// ---- the wire format ----------------------------------------------------------------------------

static const char *const event_keys[] = {"text",  "reasoning",   "tool_call", "tool_calls",
                                         "usage", "stop_reason", "error"};
static const char *const stop_reasons[] = {"end_turn", "tool_use", "max_tokens", "refusal",
                                           "pause_turn"};

static void write_request(struct jw *w, const struct json *request, struct str model)
{
    jw_kstr(w, "model", model);
    json_foreach_member (m, request) {
        if (!str_eqz(m->key, "model")) {
            jw_key_str(w, m->key);
            jw_value(w, &m->value);
        }
    }
}

static int check_call(const struct json *call, struct err *e)
{
    const struct json *input = json_get(call, "input");
    if (json_get_text(call, "name").n == 0) {
        return err_set(e, ERR_INVALID, "a tool call needs a text 'name'");
    }
    if (input != NULL && input->type != JSON_OBJ && input->type != JSON_STR &&
        !(input->type == JSON_ARR && input->n == 0)) {
        return err_set(e, ERR_INVALID, "the 'input' of a tool call must be an object");
    }
    return 0;
}

static int check_member(const struct json_member *m, struct err *e)
{
    static const enum json_type types[] = {JSON_STR, JSON_STR, JSON_OBJ, JSON_ARR,
                                           JSON_OBJ, JSON_STR, JSON_OBJ};
    const struct json *v = &m->value;
    ptrdiff_t key = str_lookup(m->key, event_keys, ARRAY_LEN(event_keys));
    if (key < 0) {
        const char *near = str_nearest(m->key, event_keys, ARRAY_LEN(event_keys));
        return err_set(e, ERR_INVALID, "an event has no member '%.*s'%s%s%s",
                       (int)MIN(m->key.n, 60), m->key.p, near != NULL ? "; did you mean '" : "",
                       near != NULL ? near : "", near != NULL ? "'?" : "");
    }
    bool empty = v->type == JSON_NULL || (v->type == JSON_OBJ && v->n == 0);
    if (v->type != types[key] && !empty) {
        return err_set(e, ERR_INVALID, "'%s' must be of type %s", event_keys[key],
                       json_type_name(&(struct json){.type = types[key]}));
    }
    if (str_eqz(m->key, "stop_reason") && v->type == JSON_STR &&
        str_lookup(v->s, stop_reasons, ARRAY_LEN(stop_reasons)) < 0) {
        return err_set(e, ERR_INVALID,
                       "'stop_reason' must be end_turn, tool_use, max_tokens, refusal or "
                       "pause_turn");
    }
    int rc = str_eqz(m->key, "tool_call") ? check_call(v, e) : 0;
    json_foreach_item (call, v) {
        rc = rc == 0 ? check_call(call, e) : rc;
    }
    return rc;
}

/// ERR_INVALID when it is no event.
static int check_event(const struct json *event, struct err *e)
{
    if (event->type == JSON_STR || event->type == JSON_NULL) {
        return 0;
    }
    if (event->type != JSON_OBJ) {
        return err_set(e, ERR_INVALID, "an event must be a text or an object, not %s",
                       json_type_name(event));
    }
    json_foreach_member (m, event) {
        int rc = check_member(m, e);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static void take_call(struct wire_reply *r, const struct json *call)
{
    const struct json *input = json_get(call, "input");
    struct buf text = {.max = SIZE_MAX};
    if (call == NULL || call->type != JSON_OBJ || !wire_reply_fits(r)) {
        return;
    }
    struct wire_item *item = wire_reply_add(r, WIRE_CALL, (int64_t)r->items.n);
    item->id = wire_reply_keep(r, json_get_text(call, "id"));
    item->name = wire_reply_keep(r, json_get_text(call, "name"));
    if (input != NULL && input->type == JSON_OBJ) {
        json_write(&text, input, 0);
    }
    wire_reply_append(r, &item->body,
                      input != NULL && input->type == JSON_STR ? input->s : buf_str(&text));
    buf_fini(&text);
}

/// `error` is {message, code?, status?, retry_after?}: `code` may be one of our faults, `status` is as of HTTP.
static void read_event(struct wire_reply *r, const struct json *event)
{
    const struct json *usage = json_get(event, "usage"), *error = json_get(event, "error");
    int64_t *const counts[] = {&r->usage.input, &r->usage.cached, &r->usage.output,
                               &r->usage.reasoning};
    static const char *const names[] = {"input", "cached", "output", "reasoning"};
    wire_reply_reasoning(r, json_get_text(event, "reasoning"));
    wire_reply_text(r, 0, event->type == JSON_STR ? event->s : json_get_text(event, "text"));
    take_call(r, json_get(event, "tool_call"));
    json_foreach_item (call, json_get(event, "tool_calls")) {
        take_call(r, call);
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct json *n = json_get(usage, names[i]);
        *counts[i] = n != NULL ? wire_tokens(n) : *counts[i];
    }
    ptrdiff_t at =
        str_lookup(json_get_text(event, "stop_reason"), stop_reasons, ARRAY_LEN(stop_reasons));
    r->stop_reason = at >= 0 ? stop_reasons[at] : r->stop_reason;
    if (error != NULL && error->type == JSON_OBJ) {
        double after = json_double(json_get(error, "retry_after"), 0);
        int64_t status = json_int(json_get(error, "status"), 0);
        wire_reply_fail(r, error);
        if (status == 0 && r->fault.code.n == 0) {
            status = 400; // without a code or a status there is no other try
        }
        r->fault.status = status >= 400 && status < 600 ? (int)status : 0;
        r->fault.wait_ms = after > 0 && after < 1e6 ? (uint64_t)(after * 1000) : 0;
    }
}

const struct wire wire_plugin = {.kind = "plugin", .write = write_request, .event = read_event};

// ---- the providers that plugins offer -------------------------------------------------------------

void providers_set_offers(struct providers *s, const struct provider_offers *offers)
{
    s->offers = *offers;
}

static bool reaches(const struct providers *s, const struct gen_item *it, const char *dir)
{
    return gen_item_kind(it) == GEN_PROVIDER && !gen_item_is_off(it) &&
           s->offers.reaches(s->offers.arg, gen_item_unit(it), dir != NULL ? dir : "/");
}

struct gen_item *provider__offer(const struct providers *s, struct str name, const char *dir)
{
    struct gen_item *it = s != NULL && s->offers.engine != NULL
                              ? gen_item_find(gen_current(s->offers.engine), GEN_PROVIDER, name)
                              : NULL;
    return it != NULL && reaches(s, it, dir) ? it : NULL;
}

void provider__add_offers(const struct providers *s, const char *dir, struct provider_names *out)
{
    const struct gen *g =
        s != NULL && s->offers.engine != NULL ? gen_current(s->offers.engine) : NULL;
    struct gen_walk all = gen_walk(g, GEN_PROVIDER);
    for (const struct gen_item *it; (it = gen_walk_next(&all)) != NULL;) {
        if (reaches(s, it, dir) && gen_item_is_plain(g, it)) {
            vec_push(out, gen_item_name(it));
        }
    }
}

size_t provider__offer_models(const struct gen_item *it, struct arena *a, const char ***out)
{
    const struct json *models = json_get(gen_item_read_about(it, a), "models");
    size_t n = 0;
    *out = arena_calloc(a, (size_t)(models != NULL ? models->n : 0) + 1, sizeof **out);
    json_foreach_item (name, models) {
        if (name->type == JSON_STR) {
            (*out)[n++] = arena_strdup(a, name->s);
        }
    }
    return n;
}

// ---- one try --------------------------------------------------------------------------------------

struct told {
    struct provider_call *call;
    struct gen *gen;
    struct gen_item *item; // NULL: nothing was asked yet
    struct gen_call stream;
    struct arena arena; // of the request
    struct buf queue;   // events that were not taken yet, one per line
    struct loop_task *task;
    bool ended;
    int status; // of the stream, once it ended
    struct err why;
};

static void on_task(void *arg);

static void schedule(struct told *t)
{
    if (t->task == NULL && !t->call->paused) {
        t->task = loop_defer(t->call->service->loop, on_task, t);
    }
}

static int add_event(struct told *t, const struct json *event, struct err *e)
{
    int rc = check_event(event, e);
    if (rc == 0) {
        json_write(&t->queue, event, 0);
        buf_addc(&t->queue, '\n');
        if (!buf_ok(&t->queue)) {
            rc = err_set(e, ERR_TOO_LARGE, "more than %d MiB of events are waiting to be read",
                         QUEUE_MAX >> 20);
        }
    }
    return rc;
}

static int on_emit(struct gen_call *stream, const struct json *event, struct err *e)
{
    struct told *t = stream->arg;
    int rc = add_event(t, event, e);
    schedule(t);
    return rc;
}

static void on_done(struct gen_call *stream, int status, const struct json *output,
                    const struct err *e)
{
    struct told *t = stream->arg;
    t->ended = true;
    t->status = status;
    if (status < 0) {
        t->why = *e;
    } else if (output != NULL) {
        t->status = add_event(t, output, &t->why);
    }
    schedule(t);
}

static void begin(struct told *t)
{
    struct provider_call *call = t->call;
    const struct provider_choice *ch = call->choice;
    struct json *request = NULL;
    t->gen = gen_pin(gen_current(call->service->offers.engine));
    t->item = provider__offer(call->service, str_of(ch->provider), ch->dir);
    const struct json_opts deep = {.max_depth =
                                       JSON_DEPTH_MAX}; // a schema in it may use all of JSON_DEPTH
    int rc = json_parse(&request, &t->arena, buf_str(&call->body), &deep, NULL);
    assert(rc == 0); // we wrote it
    (void)rc;
    if (t->item == NULL) {
        struct provider_error why;
        provider__fault(&why, PROVIDER_PLUGIN, ch->provider, "is not offered by any plugin now");
        provider__fail(call, &why);
        return;
    }
    const struct gen_target *face = gen_item_face(t->item);
    t->stream = (struct gen_call){.input = request,
                                  .ctx = call->ctx,
                                  .timeout_ms = STREAM_MS,
                                  .done = on_done,
                                  .emit = on_emit,
                                  .arg = t};
    face->call(gen_item_data(t->item), &t->stream);
}

/// Take the events in the queue. False: the try is over, and `t` is freed.
static bool tell(struct told *t)
{
    struct buf queue = t->queue;
    struct str rest = buf_str(&queue);
    bool alive = true;
    buf_init(&t->queue, QUEUE_MAX);
    while (rest.n != 0 && alive) {
        struct str line = str_cut(&rest, '\n');
        struct json *event = NULL;
        if (t->call->paused) { // by the last event: the rest stays in the queue
            buf_adds(&t->queue, line);
            buf_addc(&t->queue, '\n');
            continue;
        }
        int rc = json_parse(&event, &t->call->reply.scratch, line, NULL, NULL);
        alive = rc != 0 || provider__event(t->call, event);
    }
    buf_fini(&queue);
    return alive;
}

static void on_task(void *arg)
{
    struct told *t = arg;
    t->task = NULL;
    if (t->gen == NULL) {
        begin(t);
        return;
    }
    if (!tell(t) || !t->ended || t->queue.n != 0) {
        return;
    }
    if (t->status < 0) {
        struct provider_error why;
        provider__fault(&why, PROVIDER_PLUGIN, t->call->choice->provider,
                        "failed in plugin '%s': %s", gen_item_unit(t->item)->name, t->why.msg);
        provider__fail(t->call, &why);
    } else {
        provider__end(t->call, 0, &(struct err){0});
    }
}

static int plugin_start(struct provider_call *call, struct err *e)
{
    struct told *t = xcalloc(1, sizeof *t);
    (void)e;
    *t = (struct told){.call = call, .queue = {.max = QUEUE_MAX}};
    call->transport = t;
    call->stream = true;
    call->status = 200;
    call->reply.finished = true; // a stream that returns is complete
    schedule(t);
    return 0;
}

static void plugin_stop(struct provider_call *call, bool clean)
{
    struct told *t = call->transport;
    (void)clean;
    call->transport = NULL;
    if (t->item != NULL && !t->ended) {
        const struct gen_target *face = gen_item_face(t->item);
        face->cancel(gen_item_data(t->item), &t->stream);
    }
    if (t->task != NULL) { // after the cancel: code that ends there may still emit
        loop_cancel(call->service->loop, t->task);
    }
    gen_unpin(t->gen);
    arena_fini(&t->arena);
    buf_fini(&t->queue);
    free(t);
}

static void plugin_pause(struct provider_call *call, bool paused)
{
    struct told *t = call->transport;
    if (!paused) {
        schedule(t);
    } else if (t->task != NULL && t->gen != NULL) {
        loop_cancel(call->service->loop, t->task);
        t->task = NULL;
    }
}

const struct provider_transport provider_transport_plugin = {
    .start = plugin_start,
    .stop = plugin_stop,
    .pause = plugin_pause,
};
