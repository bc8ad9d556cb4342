// A try over HTTP.
//
// An answer is complete at its end marker, a moment before its connection is ready for the next request. Waiting
// for that would delay the turn; closing the connection would cost the next request a new TLS handshake. So the rest
// of the answer, normally nothing, is read and discarded, for DRAIN_MS at most.
//
//     http_try.call ──> provider.c        complete: call = NULL, the try is one of `drains`

#include <assert.h>

#include "agent/provider_int.h"
#include "base/list.h"

enum { DRAIN_MS = 2000, CONNECT_MS = 30 * 1000 };

struct http_try {
    struct provider_call *call; // NULL: it is complete, and its connection is drained
    struct http_call *http;
    struct providers *service;
    struct http_try *prev, *next; // among the drains
    struct timer limit;           // of draining
};

static void forget(struct http_try *t)
{
    if (t->call == NULL) {
        list_remove(&t->service->drains, t);
    }
    timer_stop(&t->limit);
    free(t);
}

static void hang_up(void *arg)
{
    struct http_try *t = arg;
    http_client_cancel(t->http);
    forget(t);
}

static void on_head(struct http_call *http, const struct http_reply *reply, void *arg)
{
    struct http_try *t = arg;
    (void)http;
    if (t->call != NULL) {
        provider__head(t->call, reply);
    }
}

static void on_body(struct http_call *http, struct str bytes, void *arg)
{
    struct http_try *t = arg;
    (void)http;
    if (t->call != NULL) {
        provider__bytes(t->call, bytes);
    }
}

static void on_done(struct http_call *http, int rc, const struct http_reply *reply,
                    const struct err *e, void *arg)
{
    struct http_try *t = arg;
    struct provider_call *call = t->call;
    (void)http;
    (void)reply;
    forget(t);
    if (call != NULL) {
        call->transport = NULL;
        provider__end(call, rc, e);
    }
}

static int http_start(struct provider_call *call, struct err *e)
{
    static const struct http_cb cb = {.on_head = on_head, .on_body = on_body, .on_done = on_done};
    struct http_header headers[PROVIDER_HEADERS_MAX];
    struct http_request q;
    struct arena a = {0};
    struct http_try *t = xcalloc(1, sizeof *t);
    t->call = call;
    t->service = call->service;
    timer_init(&t->limit, t->service->loop, hang_up, t);
    provider__http_request(&q, headers, &a, call->choice, call->kind->path, provider__key(call));
    q.method = "POST";
    q.body = buf_str(&call->body);
    int rc = http_client_send(&t->http, t->service->client, &q, &cb, t, e);
    arena_fini(&a);
    if (rc != 0) {
        forget(t);
        return rc;
    }
    call->transport = t;
    return 0;
}

static void http_stop(struct provider_call *call, bool clean)
{
    struct http_try *t = call->transport;
    call->transport = NULL;
    if (t == NULL) {
        return; // it has ended by itself
    }
    if (clean) {
        http_client_pause(t->http, false);
        t->call = NULL;
        list_add(&t->service->drains, t);
        timer_start(&t->limit, DRAIN_MS);
    } else {
        hang_up(t);
    }
}

static void http_pause(struct provider_call *call, bool paused)
{
    struct http_try *t = call->transport;
    if (t != NULL) {
        http_client_pause(t->http, paused);
    }
}

const struct provider_transport provider_transport_http = {
    .start = http_start,
    .stop = http_stop,
    .pause = http_pause,
};

static void add_header(struct http_request *q, struct http_header *headers, struct str name,
                       const char *value)
{
    assert(q->n_headers < PROVIDER_HEADERS_MAX);
    headers[q->n_headers++] = (struct http_header){name, str_of(value)};
}

void provider__http_request(struct http_request *q,
                            struct http_header headers[PROVIDER_HEADERS_MAX], struct arena *a,
                            const struct provider_choice *choice, const char *path, const char *key)
{
    // users write "https://host" and "https://host/v1"; both have "/v1/messages"
    bool doubled = str_starts(str_of(path), "/v1/") && str_ends(str_of(choice->base_url), "/v1");
    *q = (struct http_request){.headers = headers, .connect_ms = CONNECT_MS};
    q->url = arena_printf(a, "%s%s", choice->base_url, doubled ? path + 3 : path);
    add_header(q, headers, STR("Content-Type"), "application/json");
    add_header(q, headers, STR("Accept"), "text/event-stream, application/json");
    if (choice->impl->own_key_header) {
        add_header(q, headers, STR("anthropic-version"), "2023-06-01");
    }
    if (key != NULL && choice->impl->own_key_header) {
        add_header(q, headers, STR("x-api-key"), key);
    } else if (key != NULL) {
        add_header(q, headers, STR("Authorization"), arena_printf(a, "Bearer %s", key));
    }
}

void provider__http_close_drains(struct providers *s)
{
    while (s->drains != NULL) {
        hang_up(s->drains);
    }
}
