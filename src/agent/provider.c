// One call to a provider: its tries, one after the other, until an answer is whole.
//
//     provider_start ──> [queue] ──> try ── head ── bytes ──> sse ──> wire ──> on_delta
//                                     ^                                  │
//                        on_retry ────┤ wait <── failed, idle, cut ──────┤
//                                     │                                  │ end marker
//                        on_fail <────┘ no more tries                    └──> on_done
//
// Deltas can be taken back: they are void after on_retry. Calls of tools cannot, so they are handed out only after
// the end marker. So a request whose stream was cut can be repeated at any point, and no tool runs twice.
//
// A try makes progress when its head or the end of a line arrives. Bytes alone do not count, or a server that sends
// one now and then could hold us for ever.
//
// Invariants:
//   - `idle` runs exactly while `running && !paused`.
//   - once `gone`, no callback is made; the call is freed by the function that set `busy`, else at once.
//   - a try's reply exists while `trying`, on_done included.

#include <assert.h>

#include "agent/provider_int.h"
#include "base/log.h"
#include "base/random.h"
#include "base/redact.h"

enum {
    EVENT_MAX = 10 * 1024 * 1024 + 64 * 1024, // an event of 10 MiB passes, with its frame
    PLAIN_MAX = 64 * 1024,                    // of an answer that is no stream
    BODY_MAX = 64 * 1024 * 1024,              // of a request
};

// ---- the life of a try ----------------------------------------------------------------------

static void stop_transport(struct provider_call *call, bool clean)
{
    if (call->running) {
        call->running = false;
        timer_stop(&call->idle);
        call->kind->transport->stop(call, clean);
    }
}

static void end_try(struct provider_call *call)
{
    stop_transport(call, false);
    if (call->trying) {
        call->trying = false;
        sse_fini(&call->sse);
        wire_reply_fini(&call->reply);
        buf_fini(&call->plain);
    }
}

static void free_call(struct provider_call *call)
{
    end_try(call);
    timer_stop(&call->wait);
    if (call->task != NULL) {
        loop_cancel(call->service->loop, call->task);
    }
    if (call->kind->transport->close != NULL) {
        call->kind->transport->close(call);
    }
    if (call->key != NULL) {
        explicit_bzero(call->key, strlen(call->key));
        free(call->key);
    }
    assert(call->service->n_calls != 0);
    call->service->n_calls--;
    buf_fini(&call->body);
    free(call);
}

static void progress(struct provider_call *call)
{
    if (call->running && !call->paused) {
        timer_start(&call->idle, call->choice->retry.idle_ms);
    }
}

// ---- failing --------------------------------------------------------------------------------

// The key was refused: read its file or secret again, once. True: it has another key now.
static bool read_new_key(struct provider_call *call, const struct provider_error *e)
{
    if (e->fault != PROVIDER_AUTH || call->reread) {
        return false;
    }
    call->reread = true;
    char *key = provider__read_key(call->choice);
    if (key == NULL || strcmp(key, call->choice->key) == 0) {
        free(key);
        return false;
    }
    call->key = key;
    return true;
}

void provider__fail(struct provider_call *call, struct provider_error *e)
{
    uint64_t dice, wait_ms = 0;
    bool again = read_new_key(call, e);
    bool void_told = call->told && call->cb.on_retry == NULL; // deltas that cannot be taken back
    if (call->asked_ms != 0) { // the headers are more exact than the message
        e->retry_after_ms = call->asked_ms;
    }
    e->tries = call->retry.failed + 1;
    end_try(call);
    random_bytes(&dice, sizeof dice);
    again = again || (!void_told && provider__worth_retry(e->fault) &&
                      retry_next(&call->retry, &call->choice->retry, loop_now(call->service->loop),
                                 e->retry_after_ms, dice, &wait_ms));
    log_warn(LOG_AGENT, "provider=%s fault=%s status=%d try=%u wait_ms=%llu message=%s",
             call->choice->provider, provider_fault_name(e->fault), e->status, e->tries,
             (unsigned long long)wait_ms, LOGQ(str_of(e->message)).z);
    call->busy = true;
    if (!again) {
        call->cb.on_fail(call, e, call->arg);
    } else if (call->cb.on_retry != NULL) {
        call->cb.on_retry(call, e, wait_ms, call->arg);
    }
    call->busy = false;
    if (!again || call->gone) {
        free_call(call);
    } else {
        timer_start(&call->wait, wait_ms);
    }
}

static void on_idle(void *arg)
{
    struct provider_call *call = arg;
    struct provider_error e;
    provider__fault(&e, PROVIDER_IDLE, call->choice->provider, "was silent for %llu s",
                    (unsigned long long)(call->choice->retry.idle_ms / 1000));
    provider__fail(call, &e);
}

// ---- succeeding -----------------------------------------------------------------------------

static void succeed(struct provider_call *call)
{
    struct provider_response r;
    stop_transport(call, true);
    wire_reply_finish(&call->reply, call->kind->wire->kind, &r);
    call->busy = true;
    call->cb.on_done(call, &r, call->arg);
    free_call(call);
}

static void on_delta(void *arg, const struct provider_delta *d)
{
    struct provider_call *call = arg;
    if (!call->gone && call->cb.on_delta != NULL) {
        call->told = true;
        call->cb.on_delta(call, d, call->arg);
    }
}

static int on_event(void *arg, const struct sse_event *ev)
{
    struct provider_call *call = arg;
    int rc = wire_event(call->kind->wire, &call->reply, ev, &call->feed);
    return rc != 0 ? rc : call->reply.ended || call->reply.failed;
}

// ---- what transports report -----------------------------------------------------------------

const char *provider__key(const struct provider_call *call)
{
    return call->key != NULL ? call->key : call->choice->key;
}

void provider__head(struct provider_call *call, const struct http_reply *reply)
{
    struct str type = http_reply_get(reply, "content-type");
    call->status = reply->status;
    call->stream = reply->status == 200 && !str_starts(type, "application/json");
    call->asked_ms =
        reply->status == 200 ? 0 : provider__asked_ms(reply, loop_wall(call->service->loop));
    progress(call);
}

/// Something was read, with `rc`: end the try if it is complete or failed. False: it is over, and perhaps the call.
static bool settle(struct provider_call *call, int rc)
{
    struct provider_error e;
    if (call->gone) {
        free_call(call);
    } else if (call->reply.failed) {
        provider__judge(&e, call->choice->provider, call->status, &call->reply.fault);
        provider__fail(call, &e);
    } else if (rc < 0) {
        provider__judge_rc(&e, call->choice->provider, true, &call->feed);
        provider__fail(call, &e);
    } else if (call->reply.ended) {
        succeed(call);
    } else {
        return true;
    }
    return false;
}

void provider__bytes(struct provider_call *call, struct str bytes)
{
    if (!call->stream) {
        buf_add(&call->plain, bytes.p, MIN(bytes.n, PLAIN_MAX - call->plain.n));
        return;
    }
    if (str_index(bytes, '\n') >= 0 || str_index(bytes, '\r') >= 0) {
        progress(call);
    }
    call->busy = true;
    int rc = sse_feed(&call->sse, bytes, &call->feed);
    call->busy = false;
    (void)settle(call, rc);
}

bool provider__event(struct provider_call *call, const struct json *event)
{
    int rc = 0;
    progress(call);
    call->busy = true;
    call->kind->wire->event(&call->reply, event);
    call->busy = false;
    arena_fini(&call->reply.scratch);
    if (!wire_reply_fits(&call->reply)) {
        rc = err_set(&call->feed, ERR_TOO_LARGE, "the answer has too many parts");
    }
    return settle(call, rc);
}

void provider__end(struct provider_call *call, int rc, const struct err *e)
{
    const char *who = call->choice->provider;
    struct provider_error why;
    if (rc != 0) {
        provider__judge_rc(&why, who, call->status != 0, e);
    } else if (!call->stream) {
        provider__judge_body(&why, who, call->status, buf_str(&call->plain));
    } else if (call->reply.finished) {
        succeed(call);
        return;
    } else {
        provider__fault(&why, PROVIDER_CUT, who, "ended before its answer was complete");
    }
    provider__fail(call, &why);
}

// ---- starting -------------------------------------------------------------------------------

static void begin_try(void *arg)
{
    struct provider_call *call = arg;
    struct err e = {0};
    assert(!call->trying && !call->running && !call->gone);
    call->task = NULL;
    call->trying = true;
    call->told = call->stream = false;
    call->status = 0;
    call->asked_ms = 0;
    call->feed = (struct err){0};
    buf_init(&call->plain, PLAIN_MAX);
    sse_init(&call->sse, EVENT_MAX, on_event, call);
    wire_reply_init(&call->reply, on_delta, call);
    call->reply.n = call->n;
    if (call->kind->transport->start(call, &e) != 0) {
        struct provider_error why;
        provider__judge_rc(&why, call->choice->provider, false, &e);
        provider__fail(call, &why);
        return;
    }
    call->running = true;
    if (call->paused) {
        call->kind->transport->pause(call, true);
    }
    progress(call);
}

int provider_start(struct provider_call **out, struct providers *s, const struct provider_ask *ask,
                   const struct provider_cb *cb, void *arg, struct err *e)
{
    struct provider_call *call = xcalloc(1, sizeof *call);
    *call = (struct provider_call){.service = s,
                                   .choice = ask->choice,
                                   .kind = ask->choice->impl,
                                   .ctx = ask->ctx,
                                   .n = ask->n,
                                   .cb = *cb,
                                   .arg = arg};
    *out = NULL;
    buf_init(&call->body, BODY_MAX);
    int rc = wire_check(ask->request, e);
    if (rc == 0) {
        struct str model = json_get_text(ask->request, "model");
        wire_write(call->kind->wire, &call->body, ask->request,
                   model.n != 0 ? model : str_of(call->choice->model));
        redact_json(&call->body);
    }
    if (rc == 0 && !buf_ok(&call->body)) {
        rc = err_set(e, ERR_INVALID, "the request is larger than %d bytes", BODY_MAX);
    }
    if (rc != 0) {
        buf_fini(&call->body);
        free(call);
        return rc;
    }
    s->n_calls++;
    timer_init(&call->wait, s->loop, begin_try, call);
    timer_init(&call->idle, s->loop, on_idle, call);
    if (call->kind->transport->open != NULL) {
        call->kind->transport->open(call, ask);
    }
    call->task = loop_defer(s->loop, begin_try, call);
    *out = call;
    return 0;
}

void provider_cancel(struct provider_call *call)
{
    assert(!call->gone);
    call->gone = true;
    if (!call->busy) {
        free_call(call);
    }
}

struct str provider_text(const struct provider_call *call)
{
    return call->trying ? buf_str(&call->reply.text) : STR_NULL;
}

void provider_pause(struct provider_call *call, bool paused)
{
    if (call->paused == paused) {
        return;
    }
    call->paused = paused;
    if (!call->running) {
        return;
    }
    call->kind->transport->pause(call, paused);
    timer_stop(&call->idle);
    progress(call);
}

void provider_write_tokens(struct jw *w, const char *key, int64_t n)
{
    jw_kint_or_null(w, key, n >= 0, n);
}

void provider_write_usage(struct jw *w, const struct provider_usage *u)
{
    provider_write_tokens(w, "input", u->input);
    provider_write_tokens(w, "cached", u->cached);
    provider_write_tokens(w, "output", u->output);
    provider_write_tokens(w, "reasoning", u->reasoning);
}

struct provider_usage provider_read_usage(const struct json *v)
{
    return (struct provider_usage){.input = json_int(json_get(v, "input"), -1),
                                   .cached = json_int(json_get(v, "cached"), -1),
                                   .output = json_int(json_get(v, "output"), -1),
                                   .reasoning = json_int(json_get(v, "reasoning"), -1)};
}

void provider_write_error(struct jw *w, const struct provider_error *e)
{
    jw_obj(w);
    jw_kstrz(w, "code", provider_fault_name(e->fault));
    jw_kstrz(w, "message", e->message);
    if (e->status != 0) {
        jw_kint(w, "status", e->status);
    }
    jw_kint(w, "tries", e->tries);
    jw_end_obj(w);
}
