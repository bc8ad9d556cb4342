// Calls of the hub's operations, over its socket.
//
// A hub that is gone is started again, once for each call: editors stay open for days. The events of a turn come as
// the answer to the message that began it.

#include <assert.h>

#include "acp/acp_int.h"

struct acp_call {
    struct acp *acp;
    char *method, *path, *body;
    bool tried;
    acp_called *done;
    void *arg;
};

enum { URL_MAX = 512 };

static void call_free(struct acp_call *c)
{
    struct acp *a = c->acp;
    vec_drop(&a->calls, c);
    free(c->method);
    free(c->path);
    free(c->body);
    free(c);
}

static void end_call(struct acp_call *c, const struct json *v, const char *why)
{
    acp_called *done = c->done;
    void *arg = c->arg;
    call_free(c);
    if (done != NULL) {
        done(arg, v, why);
    }
}

/// The detail and hint of a problem in one line; NULL for a 2xx answer. `*v` is the body.
static const char *explain(struct arena *a, int status, struct str body, struct json **v)
{
    *v = NULL;
    (void)!json_parse(v, a, arena_str(a, body), NULL, NULL);
    struct str detail = json_get_text(*v, "detail");
    struct str hint = json_get_text(*v, "hint");
    if (status / 100 == 2) {
        return NULL;
    }
    return detail.n != 0 ? arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(detail),
                                        hint.n != 0 ? "; " : "", STR_ARG(hint))
                         : arena_printf(a, "the hub answered with status %d", status);
}

bool acp__send(struct acp *a, const char *method, const char *path, struct str body,
               const char *accept, const struct http_cb *cb, void *arg, struct http_call **out)
{
    assert(path[0] == '/');
    struct http_header headers[] = {{STR("Accept"), str_of(accept)},
                                    {STR("Content-Type"), STR("application/json")}};
    char url[URL_MAX];
    snprintf(url, sizeof url, "http://hub%s", path);
    struct http_request q = {.method = method,
                             .url = url,
                             .headers = headers,
                             .n_headers = body.n != 0 ? 2 : 1,
                             .body = body.n != 0 ? body : STR_NULL,
                             .max_body = cb->on_body == NULL ? (uint64_t)64 << 20 : UINT64_MAX,
                             .proxy = "",
                             .socket = a->socket};
    return a->http != NULL && http_client_send(out, a->http, &q, cb, arg, NULL) == 0;
}

bool acp__revive(struct acp *a, bool *tried, const struct err **fault, struct err *e)
{
    if (*tried) {
        return false;
    }
    *tried = true;
    *fault = e;
    return a->o.start(a->o.arg, e) == 0;
}

static void begin(struct acp_call *c);

static void on_done(struct http_call *call, int rc, const struct http_reply *reply,
                    const struct err *fault, void *arg)
{
    struct acp_call *c = arg;
    struct arena a = {0};
    struct err e = {0};
    struct json *v = NULL;
    (void)call;
    if (rc < 0 && rc != UV_ECONNRESET && acp__revive(c->acp, &c->tried, &fault, &e)) {
        begin(c);
        return;
    }
    const char *why = rc < 0 ? fault->msg : explain(&a, reply->status, reply->body, &v);
    end_call(c, why == NULL ? v : NULL, why);
    arena_fini(&a);
}

static void begin(struct acp_call *c)
{
    static const struct http_cb cb = {.on_done = on_done};
    struct http_call *call;
    if (!acp__send(c->acp, c->method, c->path, str_of(c->body), "application/json", &cb, c,
                   &call)) {
        end_call(c, NULL, "the hub cannot be asked");
    }
}

void acp__call(struct acp *a, const char *method, const char *path, struct str body,
               acp_called *done, void *arg)
{
    struct acp_call *c = xcalloc(1, sizeof *c);
    *c = (struct acp_call){.acp = a,
                           .method = xstrdup(method),
                           .path = xstrdup(path),
                           .body = str_dup(body),
                           .done = done,
                           .arg = arg};
    vec_push(&a->calls, c);
    begin(c);
}

void acp__calls_end(struct acp *a)
{
    assert(a->http == NULL);
    while (a->calls.n != 0) {
        end_call(a->calls.p[0], NULL, "the editor is gone");
    }
}

// ---- the events of a turn -----------------------------------------------------------------------

static int on_event(void *arg, const struct sse_event *ev)
{
    struct acp_session *s = arg;
    struct arena a = {0};
    struct json *v = NULL;
    if (json_parse(&v, &a, ev->data, NULL, NULL) == 0) {
        acp__event(s, ev->event, v);
    }
    arena_fini(&a);
    return s->stream == NULL ? UV_ECANCELED : 0;
}

static void on_head(struct http_call *call, const struct http_reply *reply, void *arg)
{
    struct acp_session *s = arg;
    (void)call;
    s->status = reply->status;
}

static void on_body(struct http_call *call, struct str bytes, void *arg)
{
    struct acp_session *s = arg;
    (void)call;
    if (s->status / 100 == 2) {
        (void)!sse_feed(&s->sse, bytes, NULL);
    } else {
        buf_adds(&s->problem, bytes);
    }
}

static void begin_stream(struct acp_session *s);

static void on_stream_done(struct http_call *call, int rc, const struct http_reply *reply,
                           const struct err *fault, void *arg)
{
    struct acp_session *s = arg;
    struct arena a = {0};
    struct err e = {0};
    struct json *v;
    (void)call;
    (void)reply;
    s->stream = NULL;
    if (rc < 0 && s->status == 0 && rc != UV_ECONNRESET &&
        acp__revive(s->acp, &s->tried, &fault, &e)) {
        begin_stream(s);
        return;
    }
    const char *why = rc < 0 ? fault->msg : explain(&a, s->status, buf_str(&s->problem), &v);
    acp__stream_ended(s, why);
    arena_fini(&a);
}

static void begin_stream(struct acp_session *s)
{
    static const struct http_cb cb = {
        .on_head = on_head, .on_body = on_body, .on_done = on_stream_done};
    sse_fini(&s->sse);
    sse_init(&s->sse, 32 << 20, on_event, s);
    buf_clear(&s->problem);
    s->status = 0;
    if (!acp__send(s->acp, "POST", s->path, str_of(s->body), "text/event-stream", &cb, s,
                   &s->stream)) {
        acp__stream_ended(s, "the hub cannot be asked");
    }
}

void acp__follow(struct acp_session *s, const char *path, struct str body)
{
    assert(s->stream == NULL);
    free(s->path);
    free(s->body);
    s->path = xstrdup(path);
    s->body = str_dup(body);
    s->tried = false;
    begin_stream(s);
}

void acp__unfollow(struct acp_session *s)
{
    if (s->stream != NULL) {
        http_client_cancel(s->stream);
        s->stream = NULL;
    }
}
