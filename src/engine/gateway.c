// From an engine's process to the provider of its session.
//
//     engine ── HTTP on 127.0.0.1 ──> gateway ── HTTPS, with the provider's key ──> provider
//            <── head, body as it comes ──     <── head, body as it comes ──
//
// An engine has to reach its model, and its commands must not reach the network, nor the key of the provider. So the
// process talks to this gateway only: in a box without network the launcher makes the listening socket in the
// box's own network and hands it to us (launch.h, -l); else we listen on 127.0.0.1. A request needs the key that was
// made for this process, which is worth nothing elsewhere and nothing when the process is gone.
//
// A provider that speaks what the engine speaks is asked as it is. For any other kind the Responses API of the hub itself
// (modelserver/) is asked, in the name of the session.
//
// Only the requests that a model is asked with are passed on: one method, a few paths. Each connection carries one request.
//
// Invariants:
//   - a connection is in `conns` until its handle is closed; `call` exactly while the provider is asked.
//   - the gateway goes when it was closed and its last handle is.

#include "engine/gateway.h"

#include <assert.h>

#include "base/log.h"
#include "base/random.h"
#include "loop/launch.h"
#include "net/http1.h"
#include "net/http_client.h"

enum { BODY_MAX = 64 << 20, QUEUE_MAX = 1 << 20, KEY_BYTES = 24 };

/// What may be asked, and where it goes.
static const struct route {
    const char *kind;          // of the provider
    const char *path, *behind; // the path here, and the one after base_url there
    const char *key_header, *key_prefix;
} routes[] = {
    {"openai-responses", "/v1/responses", "/responses", "authorization", "Bearer "},
    {"anthropic", "/v1/messages", "/v1/messages", "x-api-key", ""},
    {"anthropic", "/v1/messages/count_tokens", "/v1/messages/count_tokens", "x-api-key", ""},
};

/// The Responses API for providers of any other kind: the hub's own model server translates.
static const struct route through_hub = {NULL, "/v1/responses", NULL, "afloat-session", ""};

struct gateway {
    struct engine_world *world;
    uv_tcp_t server;
    bool closed;
    unsigned n_handles;
    char url[64], key[2 * KEY_BYTES + 1];
    char *session, *kind, *base_url, *provider_key;
    vec(struct conn *) conns;
    gateway_request *serve; // /mcp; NULL: nothing is there
    void *serve_arg;
};

struct gateway_ticket {
    struct conn *c; // NULL: the peer is gone
};

struct conn {
    struct gateway *g;
    uv_tcp_t tcp;
    struct http1 parser;
    struct buf body;
    struct http_call *call;
    struct gateway_ticket *ticket; // the engine's code has it; NULL: it does not
    bool paused, head_sent, over;
};

struct sending {
    uv_write_t req;
    char *bytes;
};

// ---- ending -------------------------------------------------------------------------------------

static void handle_gone(struct gateway *g)
{
    assert(g->n_handles != 0);
    if (--g->n_handles == 0 && g->closed) {
        free(g->session);
        free(g->kind);
        free(g->base_url);
        if (g->provider_key != NULL) {
            explicit_bzero(g->provider_key, strlen(g->provider_key));
        }
        free(g->provider_key);
        vec_fini(&g->conns);
        free(g);
    }
}

static void on_conn_closed(uv_handle_t *h)
{
    struct conn *c = h->data;
    struct gateway *g = c->g;
    assert(c->over && c->call == NULL && c->ticket == NULL);
    vec_drop(&g->conns, c);
    http1_fini(&c->parser);
    buf_fini(&c->body);
    free(c);
    handle_gone(g);
}

static void conn_close(struct conn *c)
{
    if (c->over) {
        return;
    }
    c->over = true;
    if (c->call != NULL) {
        http_client_cancel(c->call);
        c->call = NULL;
    }
    if (c->ticket != NULL) {
        c->ticket->c = NULL;
        c->ticket = NULL;
    }
    uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
}

// ---- back to the engine -------------------------------------------------------------------------

static void on_written(uv_write_t *req, int status)
{
    struct sending *s = (struct sending *)req;
    struct conn *c = req->handle->data;
    free(s->bytes);
    free(s);
    if (c->over) {
        return;
    }
    if (status < 0) {
        conn_close(c);
    } else if (c->paused && c->call != NULL && c->tcp.write_queue_size < QUEUE_MAX / 2) {
        c->paused = false;
        http_client_pause(c->call, false);
    } else if (c->call == NULL && c->head_sent && c->tcp.write_queue_size == 0) {
        conn_close(c); // all is said
    }
}

static void send_bytes(struct conn *c, struct buf *bytes)
{
    struct sending *s = xcalloc(1, sizeof *s);
    size_t n;
    s->bytes = buf_take(bytes, &n);
    uv_buf_t b = uv_buf_init(s->bytes, (unsigned)n);
    if (c->over || uv_write(&s->req, (uv_stream_t *)&c->tcp, &b, 1, on_written) < 0) {
        free(s->bytes);
        free(s);
        conn_close(c);
    } else if (c->call != NULL && !c->paused && c->tcp.write_queue_size > QUEUE_MAX) {
        c->paused = true;
        http_client_pause(c->call, true);
    }
}

/// An answer of our own, in the form that both kinds of providers have.
static void answer(struct conn *c, int status, const char *text)
{
    struct buf out = {.max = SIZE_MAX}, body = {.max = SIZE_MAX};
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_kstrz(&w, "type", "error");
    jw_kobj(&w, "error");
    jw_kstrz(&w, "type", "gateway_error");
    jw_kstrz(&w, "message", text);
    jw_end_obj(&w);
    jw_end_obj(&w);
    buf_addf(&out,
             "HTTP/1.1 %d Gateway\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n"
             "connection: close\r\n\r\n",
             status, body.n);
    buf_adds(&out, buf_str(&body));
    buf_fini(&body);
    c->head_sent = true;
    send_bytes(c, &out);
}

/// What says how the message travels is between two neighbours only; the body is decoded already.
static bool is_ours(struct str name)
{
    static const char *const names[] = {"connection",        "keep-alive", "transfer-encoding",
                                        "content-length",    "upgrade",    "host",
                                        "proxy-connection",  "te",         "trailer",
                                        "content-encoding",  "set-cookie", "authorization",
                                        "x-api-key",         "expect",     "accept-encoding",
                                        "proxy-authenticate"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (str_caseeqz(name, names[i])) {
            return true;
        }
    }
    return false;
}

static void on_head(struct http_call *call, const struct http_reply *r, void *arg)
{
    struct conn *c = arg;
    struct buf out = {.max = SIZE_MAX};
    (void)call;
    buf_addf(&out, "HTTP/1.1 %d Provider\r\nconnection: close\r\n", r->status);
    for (size_t i = 0; i < r->n_headers; i++) {
        if (!is_ours(r->headers[i].name)) {
            buf_addf(&out, STR_FMT ": " STR_FMT "\r\n", STR_ARG(r->headers[i].name),
                     STR_ARG(r->headers[i].value));
        }
    }
    buf_addz(&out, "transfer-encoding: chunked\r\n\r\n");
    c->head_sent = true;
    send_bytes(c, &out);
}

static void on_body(struct http_call *call, struct str bytes, void *arg)
{
    struct conn *c = arg;
    struct buf out = {.max = SIZE_MAX};
    (void)call;
    buf_addf(&out, "%zx\r\n", bytes.n);
    buf_adds(&out, bytes);
    buf_addz(&out, "\r\n");
    send_bytes(c, &out);
}

static void on_done(struct http_call *call, int rc, const struct http_reply *r, const struct err *e,
                    void *arg)
{
    struct conn *c = arg;
    struct buf out = {.max = SIZE_MAX};
    (void)call;
    (void)r;
    c->call = NULL;
    if (rc < 0 && !c->head_sent) {
        answer(c, 502, e->msg);
    } else if (rc < 0) {
        conn_close(c); // cut off, as it was for us
    } else {
        buf_addz(&out, "0\r\n\r\n");
        send_bytes(c, &out);
    }
}

// ---- to the provider ----------------------------------------------------------------------------

static const struct route *find_route(const struct gateway *g, struct str path)
{
    if (g->kind[0] == '\0') { // it has its own model
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (strcmp(routes[i].kind, g->kind) == 0 && str_eqz(path, routes[i].path)) {
            return &routes[i];
        }
    }
    return str_eqz(path, through_hub.path) ? &through_hub : NULL;
}

/// Does the request have the key of this process, in either of the headers that engines use?
static bool is_authorized(const struct conn *c)
{
    struct str bearer = http1_get(&c->parser, "authorization");
    struct str key = http1_get(&c->parser, "x-api-key");
    key = key.p == NULL && str_starts(bearer, "Bearer ") ? str_from(bearer, 7) : key;
    return str_eq_secret(key, str_of(c->g->key));
}

static void forward(struct conn *c)
{
    static const struct http_cb cb = {.on_head = on_head, .on_body = on_body, .on_done = on_done};
    struct gateway *g = c->g;
    struct str query = http1_target(&c->parser), path = str_cut(&query, '?');
    const struct route *to = find_route(g, path);
    vec(struct http_header) headers = {0};
    struct err e = {0};
    if (!is_authorized(c)) {
        answer(c, 401, "this is the way of another program to its model");
        return;
    }
    if (g->serve != NULL && str_eqz(path, "/mcp")) {
        if (c->parser.method != HTTP_POST) {
            answer(c, 405, "only POST is for this path");
            return;
        }
        c->ticket = xcalloc(1, sizeof *c->ticket);
        c->ticket->c = c;
        g->serve(g->serve_arg, buf_str(&c->body), c->ticket);
        return;
    }
    if (to == NULL || c->parser.method != HTTP_POST) {
        answer(c, 404, "only requests to the model are passed on");
        return;
    }
    for (size_t i = 0; i < http1_count(&c->parser); i++) {
        struct http_header h = {http1_name(&c->parser, i), http1_value(&c->parser, i)};
        if (!is_ours(h.name) || str_caseeqz(h.name, "content-encoding")) {
            vec_push(&headers, h);
        }
    }
    bool inside = to == &through_hub;
    const char *secret = inside ? g->session : g->provider_key;
    char *key = secret != NULL ? xasprintf("%s%s", to->key_prefix, secret) : NULL;
    char *url = inside ? xasprintf("http://localhost%s", to->path)
                       : xasprintf("%s%s%s" STR_FMT, g->base_url, to->behind,
                                   query.n != 0 ? "?" : "", STR_ARG(query));
    if (key != NULL) {
        vec_push(&headers, ((struct http_header){str_of(to->key_header), str_of(key)}));
    }
    struct http_request q = {.method = "POST",
                             .url = url,
                             .headers = headers.p,
                             .n_headers = headers.n,
                             .body = buf_str(&c->body),
                             .socket = inside ? g->world->socket : NULL,
                             .max_body = UINT64_MAX};
    if (http_client_send(&c->call, g->world->http, &q, &cb, c, &e) < 0) {
        c->call = NULL;
        answer(c, 502, e.msg);
    }
    if (key != NULL) {
        explicit_bzero(key, strlen(key));
    }
    free(key);
    free(url);
    vec_fini(&headers);
}

// ---- from the engine ----------------------------------------------------------------------------

static int on_request_body(void *arg, struct str bytes)
{
    struct conn *c = arg;
    if (c->body.n + bytes.n > BODY_MAX) {
        return -1;
    }
    buf_adds(&c->body, bytes);
    return 0;
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    (void)h;
    *buf = uv_buf_init(xmalloc(suggested), (unsigned)suggested);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct conn *c = stream->data;
    struct err e = {0};
    struct str bytes = {buf->base, n > 0 ? (size_t)n : 0};
    bool was_over = c->parser.state == HTTP1_END;
    if (n < 0) {
        conn_close(c);
    }
    while (!c->over && bytes.n != 0 && c->parser.state != HTTP1_END) {
        if (http1_feed(&c->parser, &bytes, &e) < 0) {
            answer(c, 400, e.msg);
            uv_read_stop(stream);
            break;
        }
    }
    if (!c->over && !was_over && c->parser.state == HTTP1_END) {
        forward(c);
    }
    free(buf->base);
}

static void on_connection(uv_stream_t *server, int status)
{
    struct gateway *g = server->data;
    if (status < 0) {
        return;
    }
    struct conn *c = xcalloc(1, sizeof *c);
    c->g = g;
    vec_push(&g->conns, c);
    http1_init(&c->parser, HTTP1_REQUEST, NULL, on_request_body, c);
    buf_init(&c->body, SIZE_MAX);
    uv_tcp_init(&g->world->loop->uv, &c->tcp);
    c->tcp.data = c;
    g->n_handles++;
    if (g->closed || uv_accept(server, (uv_stream_t *)&c->tcp) < 0 ||
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) < 0) {
        conn_close(c);
    }
}

// ---- public -------------------------------------------------------------------------------------

void gateway_serve(struct gateway *g, gateway_request *request, void *arg)
{
    g->serve = request;
    g->serve_arg = arg;
}

void gateway_answer(struct gateway_ticket *t, struct str json)
{
    struct conn *c = t->c;
    struct buf out = {.max = SIZE_MAX};
    assert(c == NULL || c->ticket == t);
    free(t);
    if (c == NULL) {
        return;
    }
    c->ticket = NULL;
    buf_addf(&out, "HTTP/1.1 %s\r\n%scontent-length: %zu\r\nconnection: close\r\n\r\n",
             json.n != 0 ? "200 OK" : "202 Accepted",
             json.n != 0 ? "content-type: application/json\r\n" : "", json.n);
    buf_adds(&out, json);
    c->head_sent = true;
    send_bytes(c, &out);
}

static int listen_here(struct gateway *g)
{
    struct sockaddr_in at, got;
    int n = sizeof got;
    uv_ip4_addr("127.0.0.1", 0, &at);
    int rc = uv_tcp_bind(&g->server, (const struct sockaddr *)&at, 0);
    rc = rc == 0 ? uv_listen((uv_stream_t *)&g->server, 64, on_connection) : rc;
    rc = rc == 0 ? uv_tcp_getsockname(&g->server, (struct sockaddr *)&got, &n) : rc;
    if (rc == 0) {
        snprintf(g->url, sizeof g->url, "http://127.0.0.1:%d", ntohs(got.sin_port));
    }
    return rc;
}

struct gateway *gateway_open(struct engine_world *w, const struct engine_spec *q, bool boxed,
                             struct err *e)
{
    const struct provider_choice *choice = q->choice;
    struct gateway *g = xcalloc(1, sizeof *g);
    const char *key = choice != NULL ? provider_choice_key(choice) : NULL;
    const char *base_url = choice != NULL ? choice->base_url : NULL;
    *g = (struct gateway){.world = w,
                          .n_handles = 1,
                          .session = xstrdup(q->session),
                          .kind = xstrdup(choice != NULL ? choice->kind : ""),
                          .base_url = xstrdup(base_url != NULL ? base_url : ""),
                          .provider_key = key != NULL ? xstrdup(key) : NULL};
    uv_tcp_init(&w->loop->uv, &g->server);
    g->server.data = g;
    snprintf(g->url, sizeof g->url, "http://127.0.0.1:%d", LAUNCH_PORT);
    random_hex(g->key, sizeof g->key);
    int rc = boxed ? 0 : listen_here(g);
    if (rc < 0) {
        err_set(e, rc, "cannot listen for the engine: %s", uv_strerror(rc));
        gateway_close(g);
        return NULL;
    }
    return g;
}

void gateway_listen(struct gateway *g, uv_stream_t *from)
{
    int rc = uv_accept(from, (uv_stream_t *)&g->server);
    rc = rc == 0 ? uv_listen((uv_stream_t *)&g->server, 64, on_connection) : rc;
    if (rc < 0) {
        log_warn(LOG_HUB, "engine=gateway cannot listen: %s", uv_strerror(rc));
    }
}

const char *gateway_url(const struct gateway *g)
{
    return g->url;
}

const char *gateway_key(const struct gateway *g)
{
    return g->key;
}

static void on_server_closed(uv_handle_t *h)
{
    handle_gone(h->data);
}

void gateway_close(struct gateway *g)
{
    if (g != NULL) {
        assert(!g->closed);
        g->closed = true;
        vec_foreach (c, &g->conns) {
            conn_close(*c); // they leave the list later
        }
        uv_close((uv_handle_t *)&g->server, on_server_closed);
    }
}
