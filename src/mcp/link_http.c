// A server at an address: Streamable HTTP.
//
//     each message ── POST ──> JSON, or a stream of events, or 202
//     since the handshake, where there are sessions ── GET ──> what the server tells on its own
//     close ── DELETE of the session
//
// The headers are filled with secrets on the lane, once, before the first message; until then messages wait. A
// request that fails is lost alone. A session that the server does not know any more, and a server that refuses
// connections, end the link: the owner begins anew.

#include <assert.h>

#include "config/home.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "mcp/link.h"
#include "net/http_client.h"
#include "net/sse.h"
#include "rpc/rpc.h"

enum { OWN_HEADERS = 7, LISTEN_MS = 1000, LISTEN_MAX_MS = 60000, CONNECT_MS = 10000 };

struct link_http {
    struct mcp_link base;
    const struct mcp_world *world;
    struct mcp_link_cb cb;
    void *arg;
    char *name, *url, *secrets;
    bool closed, preparing, prepared, ended, modern;
    struct mcp_pair *headers; // heap; filled on the lane
    size_t n_headers;
    struct err why;
    char *session;    // NULL: none
    char version[16]; // agreed on; "" before
    vec(struct post *) posts;
    struct timer again; // the GET's next try
    uint64_t pause_ms;
};

/// A request under way, or one that waits for the headers.
struct post {
    struct link_http *l;
    struct http_call *call; // NULL: it waits
    int64_t id;
    char *text; // NULL: the GET
    char *method, *about;
    bool events; // the answer is a stream
    int status;
    struct sse_parser sse;
    struct buf body;
};

static struct link_http *of(struct mcp_link *l)
{
    return container_of(l, struct link_http, base);
}

static void post_free_now(void *arg)
{
    struct post *q = arg;
    sse_fini(&q->sse);
    buf_fini(&q->body);
    free(q->text);
    free(q->method);
    free(q->about);
    free(q);
}

/// Later: its own text may be what is being read.
static void post_free(struct post *q)
{
    loop_defer(q->l->world->loop, post_free_now, q);
}

static void drop(struct post *q)
{
    struct link_http *l = q->l;
    for (size_t i = 0; i < l->posts.n; i++) {
        if (l->posts.p[i] == q) {
            vec_remove(&l->posts, i);
            break;
        }
    }
    post_free(q);
}

static void free_now(void *arg)
{
    struct link_http *l = arg;
    for (size_t i = 0; i < l->n_headers; i++) {
        char *value = (char *)(uintptr_t)l->headers[i].value;
        explicit_bzero(value, strlen(value));
        free(value);
        free((char *)(uintptr_t)l->headers[i].name);
    }
    free(l->headers);
    vec_fini(&l->posts);
    free(l->session);
    free(l->name);
    free(l->url);
    free(l->secrets);
    free(l);
}

static void free_if_idle(struct link_http *l)
{
    if (l->closed && !l->preparing) {
        loop_defer(l->world->loop, free_now, l); // after its posts, and after who reads from it
    }
}

static void end(struct link_http *l, const struct err *e)
{
    if (!l->ended && !l->closed) {
        l->ended = true;
        l->cb.on_end(l->arg, e);
    }
}

// ---- answers --------------------------------------------------------------------------------

static int on_event(void *arg, const struct sse_event *ev)
{
    struct post *q = arg;
    struct link_http *l = q->l;
    if (l->closed || l->ended) {
        return UV_ECANCELED;
    }
    if (str_eqz(ev->event, "message") && ev->data.n != 0) {
        l->cb.on_text(l->arg, ev->data);
    }
    return l->closed ? UV_ECANCELED : 0;
}

static void on_head(struct http_call *call, const struct http_reply *reply, void *arg)
{
    struct post *q = arg;
    struct link_http *l = q->l;
    struct str type = http_reply_get(reply, "content-type");
    struct str session = http_reply_get(reply, "mcp-session-id");
    (void)call;
    q->status = reply->status;
    q->events = str_starts(type, "text/event-stream") && q->status / 100 == 2;
    if (session.n != 0 && session.n < 1024 && l->session == NULL) {
        l->session = str_dup(session);
    }
}

static void on_body(struct http_call *call, struct str bytes, void *arg)
{
    struct post *q = arg;
    struct link_http *l = q->l;
    struct err e = {0};
    (void)call;
    if (!q->events) {
        buf_adds(&q->body, bytes);
    } else if (sse_feed(&q->sse, bytes, &e) == ERR_TOO_LARGE) {
        err_set(&e, ERR_TOO_LARGE, "it sent a message above %d MiB", MCP_LINE_MAX >> 20);
        end(l, &e);
    }
}

/// Does the body answer the request `id`?
static bool answers(struct str body, int64_t id)
{
    struct arena a;
    struct rpc_packet packet;
    bool found = false;
    arena_init(&a);
    if (rpc_parse(&packet, &a, body, NULL) == 0) {
        for (size_t i = 0; i < packet.n && !found; i++) {
            const struct json *own = packet.messages[i].id;
            found = own != NULL && own->type == JSON_INT && own->i == id;
        }
    }
    arena_fini(&a);
    return found;
}

static int explain(const struct link_http *l, const struct post *q, struct err *e)
{
    if (q->status == 401 || q->status == 403) {
        return err_set(e, ERR_DENIED, "it wants you to log in (HTTP %d): run 'afloat mcp login %s'",
                       q->status, l->name);
    }
    return err_set(e, UV_EPROTO, "it answered with HTTP %d", q->status);
}

static void listen_on(struct link_http *l);

static void on_listen_again(void *arg)
{
    listen_on(arg);
}

/// The stream of what the server tells on its own has ended.
static void on_unheard(struct link_http *l, const struct post *q, int rc)
{
    if (!l->ended && (rc < 0 || q->status == 200)) { // 405: it has none
        l->pause_ms = MIN(l->pause_ms * 2, (uint64_t)LISTEN_MAX_MS);
        timer_start(&l->again, MAX(l->pause_ms, q->sse.retry_ms));
    }
}

/// The answer to `q` is complete.
static void judge(struct link_http *l, struct post *q)
{
    struct err e = {0};
    bool good = q->status / 100 == 2, answered = answers(buf_str(&q->body), q->id);
    bool unknown =
        l->session != NULL && !l->modern && (q->status == 404 || (q->status == 400 && !answered));
    if (good || answered) {
        if (q->body.n != 0) {
            l->cb.on_text(l->arg, buf_str(&q->body));
        }
        err_set(&e, UV_EPROTO, "it ended the stream without an answer");
    } else {
        explain(l, q, &e);
    }
    if (!l->closed && q->id != 0) {
        l->cb.on_lost(l->arg, q->id, &e); // unless it was answered
    }
    if (unknown && !good) {
        err_set(&e, UV_EPIPE, "it does not know our session any more");
        end(l, &e);
    }
}

static void on_done(struct http_call *call, int rc, const struct http_reply *reply,
                    const struct err *fault, void *arg)
{
    struct post *q = arg;
    struct link_http *l = q->l;
    (void)call;
    (void)reply;
    q->call = NULL;
    if (q->text == NULL) {
        on_unheard(l, q, rc);
    } else if (rc == 0) {
        judge(l, q);
    } else {
        if (q->id != 0) {
            l->cb.on_lost(l->arg, q->id, fault);
        }
        if (!l->closed && rc == UV_ECONNREFUSED) {
            end(l, fault);
        }
    }
    if (!l->closed) { // else it was dropped
        drop(q);
    }
}

// ---- requests -------------------------------------------------------------------------------

static size_t fill_headers(const struct link_http *l, const struct post *q, struct http_header *h)
{
    size_t n = 0;
    h[n++] = (struct http_header){STR("Accept"), q->text != NULL
                                                     ? STR("application/json, text/event-stream")
                                                     : STR("text/event-stream")};
    if (q->text != NULL) {
        h[n++] = (struct http_header){STR("Content-Type"), STR("application/json")};
    }
    if (l->session != NULL && !l->modern) {
        h[n++] = (struct http_header){STR("Mcp-Session-Id"), str_of(l->session)};
    }
    if (l->version[0] != '\0' || strcmp(q->method, "server/discover") == 0) {
        h[n++] =
            (struct http_header){STR("MCP-Protocol-Version"),
                                 l->version[0] != '\0' ? str_of(l->version) : STR("2026-07-28")};
    }
    if ((l->modern || l->version[0] == '\0') && q->method[0] != '\0') {
        h[n++] = (struct http_header){STR("Mcp-Method"), str_of(q->method)};
    }
    if (l->modern && q->about[0] != '\0') {
        h[n++] = (struct http_header){STR("Mcp-Name"), str_of(q->about)};
    }
    assert(n <= OWN_HEADERS);
    for (size_t i = 0; i < l->n_headers; i++) {
        h[n++] = (struct http_header){str_of(l->headers[i].name), str_of(l->headers[i].value)};
    }
    return n;
}

static void start(struct post *q)
{
    static const struct http_cb cb = {.on_head = on_head, .on_body = on_body, .on_done = on_done};
    struct link_http *l = q->l;
    struct http_header *h = xcalloc(OWN_HEADERS + l->n_headers, sizeof *h);
    struct http_request r = {.method = q->text != NULL ? "POST" : "GET",
                             .url = l->url,
                             .headers = h,
                             .n_headers = fill_headers(l, q, h),
                             .body = str_of(q->text),
                             .connect_ms = CONNECT_MS};
    struct err e = {0};
    int rc = http_client_send(&q->call, l->world->http, &r, &cb, q, &e);
    free(h);
    if (rc < 0) {
        int64_t id = q->id;
        drop(q);
        if (id != 0) {
            l->cb.on_lost(l->arg, id, &e);
        }
    }
}

/// A header has one line.
static char *header_text(struct str s)
{
    char *z = str_dup(s);
    for (char *p = z; *p != '\0'; p++) {
        *p = (unsigned char)*p < ' ' || *p == 0x7F ? '?' : *p;
    }
    return z;
}

static void add(struct link_http *l, struct str text, const struct mcp_about *about)
{
    struct post *q = xcalloc(1, sizeof *q);
    q->l = l;
    q->id = about->id;
    q->text = text.p != NULL ? str_dup(text) : NULL;
    q->method = xstrdup(about->method != NULL ? about->method : "");
    q->about = header_text(about->name);
    buf_init(&q->body, MCP_LINE_MAX);
    sse_init(&q->sse, MCP_LINE_MAX, on_event, q);
    vec_push(&l->posts, q);
    if (l->prepared) {
        start(q);
    }
}

static void listen_on(struct link_http *l)
{
    add(l, STR_NULL, &(struct mcp_about){0});
}

// ---- before the first -----------------------------------------------------------------------

static void prepare(void *arg) // on the lane
{
    struct link_http *l = arg;
    for (size_t i = 0; l->why.code == 0 && i < l->n_headers; i++) {
        char *value = NULL;
        l->why.code = mcp_fill_secrets(l->secrets, l->headers[i].value, &value, &l->why);
        if (value != NULL) {
            free((char *)(uintptr_t)l->headers[i].value);
            l->headers[i].value = value;
        }
    }
}

static void on_prepared(void *arg)
{
    struct link_http *l = arg;
    l->preparing = false;
    l->prepared = true;
    if (l->closed) {
        free_if_idle(l);
    } else if (l->why.code != 0) {
        end(l, &l->why);
    } else {
        for (size_t i = 0; !l->closed && i < l->posts.n;) {
            struct post *q = l->posts.p[i];
            start(q);
            i += i < l->posts.n && l->posts.p[i] == q; // else it failed and was dropped
        }
    }
}

// ---- the link -------------------------------------------------------------------------------

static void link_send(struct mcp_link *base, struct str text, const struct mcp_about *about)
{
    struct link_http *l = of(base);
    if (!l->ended) {
        add(l, text, about);
    }
}

static void link_forget(struct mcp_link *base, int64_t id)
{
    struct link_http *l = of(base);
    vec_foreach (it, &l->posts) {
        struct post *q = *it;
        if (q->id == id) {
            if (q->call != NULL) {
                http_client_cancel(q->call);
            }
            drop(q);
            return;
        }
    }
}

static void link_agreed(struct mcp_link *base, const char *version, bool modern)
{
    struct link_http *l = of(base);
    snprintf(l->version, sizeof l->version, "%s", version);
    l->modern = modern;
    if (!modern) {
        listen_on(l);
    }
}

static void on_goodbye(struct http_call *call, int rc, const struct http_reply *reply,
                       const struct err *e, void *arg)
{
    (void)call;
    (void)rc;
    (void)reply;
    (void)e;
    (void)arg;
}

static void say_goodbye(struct link_http *l)
{
    static const struct http_cb cb = {.on_done = on_goodbye};
    struct post q = {.l = l, .method = (char[]){""}, .about = (char[]){""}};
    struct http_header *h = xcalloc(OWN_HEADERS + l->n_headers, sizeof *h);
    struct http_request r = {.method = "DELETE",
                             .url = l->url,
                             .headers = h,
                             .n_headers = fill_headers(l, &q, h),
                             .timeout_ms = MCP_CLOSE_MS};
    struct http_call *call;
    (void)!http_client_send(&call, l->world->http, &r, &cb, NULL, NULL);
    free(h);
}

static void link_close(struct mcp_link *base)
{
    struct link_http *l = of(base);
    assert(!l->closed);
    l->closed = true;
    timer_stop(&l->again);
    if (l->session != NULL && !l->modern && l->world->http != NULL) {
        say_goodbye(l);
    }
    while (l->posts.n != 0) {
        struct post *q = vec_pop(&l->posts);
        if (q->call != NULL) {
            http_client_cancel(q->call);
        }
        post_free(q);
    }
    free_if_idle(l);
}

static const struct mcp_link_ops ops = {
    .send = link_send, .forget = link_forget, .agreed = link_agreed, .close = link_close};

struct mcp_link *mcp_link_http(const struct mcp_world *w, const struct mcp_spec *s,
                               const struct mcp_link_cb *cb, void *arg)
{
    struct link_http *l = xcalloc(1, sizeof *l);
    assert(s->url != NULL);
    l->base.ops = &ops;
    l->world = w;
    l->cb = *cb;
    l->arg = arg;
    l->name = xstrdup(s->name);
    l->url = xstrdup(s->url);
    l->secrets = xstrdup(w->home->secrets);
    l->pause_ms = LISTEN_MS;
    l->headers = xcalloc(s->n_headers + 1, sizeof *l->headers);
    l->n_headers = s->n_headers;
    for (size_t i = 0; i < s->n_headers; i++) {
        l->headers[i] =
            (struct mcp_pair){xstrdup(s->headers[i].name), xstrdup(s->headers[i].value)};
    }
    timer_init(&l->again, w->loop, on_listen_again, l);
    l->preparing = true;
    work_submit(w->lane, 0, prepare, on_prepared, l);
    return &l->base;
}
