#include "unit/net/web.h"

#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

struct loop l;
struct http_client *client;

// ---- names ---------------------------------------------------------------------------------

static sem_t dns_begun, dns_gate;

typedef int getaddrinfo_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

// Found before the C library's by whatever is loaded into this program, libcurl included.
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **res)
{
    getaddrinfo_fn *real;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    if (name != NULL && str_ends(str_of(name), ".test")) {
        if (strcmp(name, "missing.test") == 0) {
            return EAI_NONAME;
        }
        if (strcmp(name, "slow.test") == 0) {
            sem_post(&dns_begun);
            sem_wait(&dns_gate);
        }
        name = "127.0.0.1";
    }
    return real(name, service, hints, res);
}

void web_dns_release(void)
{
    sem_post(&dns_gate);
}

void web_dns_await(void)
{
    while (sem_trywait(&dns_begun) != 0) {
        loop_run_once(&l, false);
    }
}

// ---- the server ----------------------------------------------------------------------------

static void on_conn_closed(uv_handle_t *h)
{
    struct web_conn *conn = container_of(h, struct web_conn, tcp);
    buf_fini(&conn->in);
    buf_fini(&conn->body);
    free(conn);
}

static void conn_forget(struct web_conn *conn)
{
    struct web_conn **at = &conn->web->conns;
    while (*at != conn) {
        at = &(*at)->next;
    }
    *at = conn->next;
    conn->web->closes++;
    if (conn->web->last == conn) {
        conn->web->last = NULL;
    }
}

static void conn_close(struct web_conn *conn)
{
    conn_forget(conn);
    uv_close((uv_handle_t *)&conn->tcp, on_conn_closed);
}

static size_t body_length(const char *head)
{
    const char *at = strcasestr(head, "\r\ncontent-length: ");
    return at != NULL ? (size_t)strtoul(at + 18, NULL, 10) : 0;
}

static bool take_request(struct web_conn *conn)
{
    struct web *w = conn->web;
    const char *end = strstr(buf_z(&conn->in), "\r\n\r\n");
    if (end == NULL) {
        return false;
    }
    size_t n = (size_t)(end - conn->in.p) + 4;
    buf_clear(&w->head);
    buf_add(&w->head, conn->in.p, n);
    size_t body = body_length(buf_z(&w->head));
    if (conn->in.n < n + body) {
        return false;
    }
    buf_clear(&conn->body);
    buf_add(&conn->body, conn->in.p + n, body);
    buf_drop(&conn->in, n + body);
    w->requests++;
    w->last = conn;
    w->answer(conn, buf_z(&w->head));
    return true;
}

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *out)
{
    static char space[65536];
    (void)h;
    (void)n;
    *out = uv_buf_init(space, sizeof space);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    struct web_conn *conn = container_of(s, struct web_conn, tcp);
    if (n < 0) {
        conn_close(conn);
        return;
    }
    buf_add(&conn->in, b->base, (size_t)n);
    while (!uv_is_closing((uv_handle_t *)s) && take_request(conn)) {
    }
}

static void on_connection(uv_stream_t *s, int status)
{
    struct web *w = container_of(s, struct web, tcp);
    struct web_conn *conn = xcalloc(1, sizeof *conn);
    CHECK_INT(status, 0);
    buf_init(&conn->in, SIZE_MAX);
    buf_init(&conn->body, SIZE_MAX);
    conn->web = w;
    conn->next = w->conns;
    w->conns = conn;
    uv_tcp_init(&l.uv, &conn->tcp);
    CHECK_INT(uv_accept(s, (uv_stream_t *)&conn->tcp), 0);
    uv_tcp_nodelay(&conn->tcp, 1);
    w->accepts++;
    if (w->greeting != NULL) {
        uv_buf_t b = uv_buf_init((char *)(uintptr_t)w->greeting, (unsigned)strlen(w->greeting));
        CHECK_INT(uv_try_write((uv_stream_t *)&conn->tcp, &b, 1), (long long)b.len);
    }
    if (!w->deaf) {
        uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
    }
}

void web_open(struct web *w, web_fn *answer)
{
    struct sockaddr_in a;
    int n = sizeof a;
    *w = (struct web){.answer = answer};
    buf_init(&w->head, SIZE_MAX);
    uv_ip4_addr("127.0.0.1", 0, &a);
    uv_tcp_init(&l.uv, &w->tcp);
    CHECK_INT(uv_tcp_bind(&w->tcp, (const struct sockaddr *)&a, 0), 0);
    CHECK_INT(uv_listen((uv_stream_t *)&w->tcp, 256, on_connection), 0);
    CHECK_INT(uv_tcp_getsockname(&w->tcp, (struct sockaddr *)&a, &n), 0);
    w->port = ntohs(a.sin_port);
}

void web_close(struct web *w)
{
    while (w->conns != NULL) {
        conn_close(w->conns);
    }
    uv_close((uv_handle_t *)&w->tcp, NULL);
    buf_fini(&w->head);
}

struct say {
    uv_write_t req;
    struct web_conn *conn;
    bool last;
    char bytes[];
};

static void on_said(uv_write_t *req, int status)
{
    struct say *s = container_of(req, struct say, req);
    if (s->last && status == 0 && !uv_is_closing((uv_handle_t *)&s->conn->tcp)) {
        conn_close(s->conn);
    }
    free(s);
}

static void say(struct web_conn *conn, const char *p, size_t n, bool last)
{
    struct say *s = xmalloc(sizeof *s + n);
    s->conn = conn;
    s->last = last;
    if (n != 0) {
        memcpy(s->bytes, p, n);
    }
    uv_buf_t b = uv_buf_init(s->bytes, (unsigned)n);
    CHECK_INT(uv_write(&s->req, (uv_stream_t *)&conn->tcp, &b, 1, on_said), 0);
}

void web_say_bytes(struct web_conn *conn, const char *p, size_t n)
{
    say(conn, p, n, false);
}

void web_say(struct web_conn *conn, const char *text)
{
    say(conn, text, strlen(text), false);
}

void web_hang_up(struct web_conn *conn)
{
    say(conn, NULL, 0, true);
}

void web_reset(struct web_conn *conn)
{
    conn_forget(conn);
    CHECK_INT(uv_tcp_close_reset(&conn->tcp, on_conn_closed), 0);
}

void web_ok(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
}

void web_silent(struct web_conn *conn, const char *head)
{
    (void)conn;
    (void)head;
}

const char *web_url(const struct web *w, const char *path)
{
    static char ring[8][256];
    static unsigned at;
    char *out = ring[at++ % 8];
    snprintf(out, sizeof ring[0], "http://127.0.0.1:%d%s", w->port, path);
    return out;
}

bool web_header(const char *head, const char *line)
{
    char wanted[512];
    snprintf(wanted, sizeof wanted, "\r\n%s\r\n", line);
    return strcasestr(head, wanted) != NULL;
}

// ---- one call ------------------------------------------------------------------------------

static void run_hook(struct fetch *f, const char *where)
{
    if (f->hook != NULL) {
        f->hook(f, where);
    }
}

static void write_headers(struct buf *out, const struct http_reply *reply)
{
    for (size_t i = 0; i < reply->n_headers; i++) {
        buf_addf(out, STR_FMT "=" STR_FMT "\n", STR_ARG(reply->headers[i].name),
                 STR_ARG(reply->headers[i].value));
    }
}

static void on_head(struct http_call *call, const struct http_reply *reply, void *arg)
{
    struct fetch *f = arg;
    CHECK(f->call == NULL || call == f->call);
    CHECK(f->heads == 0 && f->bodies == 0 && f->dones == 0);
    f->heads++;
    f->status = reply->status;
    write_headers(&f->head, reply);
    run_hook(f, "head");
}

static void on_body(struct http_call *call, struct str bytes, void *arg)
{
    struct fetch *f = arg;
    CHECK(call == f->call && f->heads == 1 && f->dones == 0 && bytes.n != 0);
    f->bodies++;
    f->most = MAX(f->most, bytes.n);
    buf_adds(&f->body, bytes);
    run_hook(f, "body");
}

static void on_done(struct http_call *call, int rc, const struct http_reply *reply,
                    const struct err *e, void *arg)
{
    struct fetch *f = arg;
    CHECK(call == f->call && f->dones == 0 && e != NULL);
    CHECK_INT(reply->status, f->heads != 0 ? f->status : 0);
    CHECK_INT(e->code, rc);
    struct buf head;
    buf_init(&head, SIZE_MAX);
    write_headers(&head, reply);
    CHECK_STR(buf_z(&head), buf_z(&f->head)); // as it was told first
    buf_fini(&head);
    f->dones++;
    f->rc = rc;
    f->e = *e;
    if (f->bodies == 0) {
        buf_adds(&f->body, reply->body);
    }
    run_hook(f, "done");
}

const struct http_cb fetch_collect = {.on_head = on_head, .on_done = on_done};
const struct http_cb fetch_stream = {.on_head = on_head, .on_body = on_body, .on_done = on_done};

void fetch_begin(struct fetch *f, const struct http_request *q, const struct http_cb *cb)
{
    struct err e = {0};
    f->on = f->on != NULL ? f->on : client;
    buf_init(&f->head, SIZE_MAX);
    buf_init(&f->body, SIZE_MAX);
    if (http_client_send(&f->call, f->on, q, cb, f, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    CHECK_INT(f->heads + f->bodies + f->dones, 0); // never from inside the call
}

void fetch_wait(struct fetch *f)
{
    while (f->dones == 0) {
        loop_run_once(&l, true);
    }
}

void fetch(struct fetch *f, const struct http_request *q, const struct http_cb *cb)
{
    fetch_begin(f, q, cb);
    fetch_wait(f);
}

void fetch_end(struct fetch *f)
{
    buf_fini(&f->head);
    buf_fini(&f->body);
}

void web_begin(const struct loop_clock *clock)
{
    sem_init(&dns_begun, 0, 0);
    sem_init(&dns_gate, 0, 0);
    unsetenv("http_proxy");
    unsetenv("https_proxy");
    CHECK_INT(loop_init(&l, clock, NULL), 0);
    client = http_client_open(&l, "afloat/test");
}

void web_end(void)
{
    http_client_close(client);
    client = NULL;
    TEST_LOOP_END(&l);
}
