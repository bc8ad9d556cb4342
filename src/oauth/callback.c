// The address on this machine that the browser comes back to: GET /callback?code=...&state=...
//
// Every process on this machine can connect. Only a request with our state counts; others get 400 and change nothing.
// One request a connection, small ones only. A silent connection delays neither others nor the end.
//
// The browser that brings the code gets its answer when the login has ended and its result is known.

#include <assert.h>

#include "base/url.h"
#include "base/vec.h"
#include "loop/timer.h"
#include "oauth/oauth_int.h"

enum { REQUEST_MAX = 16 << 10, BACKLOG = 8, VISITS_MAX = 64 };

struct oauth_callback {
    uv_tcp_t listener;
    struct loop *loop;
    char *state;
    int port;
    struct timer timer;
    oauth_back *back;
    void *arg;
    bool closed;
    struct visit *bringer;       // of the answer; it waits for the end of the login
    unsigned refs;               // the listener, and each visit
    vec(struct visit *) waiting; // those whose request is not complete, the oldest first
};

struct visit {
    uv_tcp_t tcp;
    struct oauth_callback *owner;
    uv_write_t write;
    struct buf in, out;
};

static void unref(struct oauth_callback *c)
{
    assert(c->refs > 0);
    if (--c->refs == 0) {
        vec_fini(&c->waiting);
        free(c->state);
        free(c);
    }
}

static void on_visit_closed(uv_handle_t *h)
{
    struct visit *v = container_of((uv_tcp_t *)h, struct visit, tcp);
    unref(v->owner);
    buf_fini(&v->in);
    buf_fini(&v->out);
    free(v);
}

static void leave(struct visit *v)
{
    vec_drop(&v->owner->waiting, v);
    if (!uv_is_closing((uv_handle_t *)&v->tcp)) {
        uv_close((uv_handle_t *)&v->tcp, on_visit_closed);
    }
}

static void on_written(uv_write_t *req, int status)
{
    (void)status;
    leave(container_of(req, struct visit, write));
}

static void answer(struct visit *v, int status, const char *text)
{
    assert(v->out.n == 0);
    buf_addf(&v->out,
             "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
             "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s",
             status, status == 200 ? "OK" : "Bad Request", strlen(text), text);
    uv_buf_t b = uv_buf_init(v->out.p, (unsigned)v->out.n);
    if (uv_write(&v->write, (uv_stream_t *)&v->tcp, &b, 1, on_written) < 0) {
        leave(v);
    }
}

/// A value of a query, decoded. Caller frees; NULL: there is none.
static char *value_of(struct str query, const char *key)
{
    while (query.n != 0) {
        struct str value = str_cut(&query, '&');
        if (!str_eqz(str_cut(&value, '='), key) || value.p == NULL) {
            continue;
        }
        struct buf text = {.max = SIZE_MAX};
        url_decode(&text, value, true);
        char *out = str_dup(buf_str(&text));
        buf_fini(&text);
        return out;
    }
    return NULL;
}

static void take_request(struct visit *v)
{
    struct oauth_callback *c = v->owner;
    struct str line = buf_str(&v->in);
    line = str_cut(&line, '\r');
    str_cut(&line, ' ');
    struct str target = str_cut(&line, ' '), query = target;
    bool ours = str_eqz(str_cut(&query, '?'), "/callback");
    char *state = value_of(query, "state"), *code = value_of(query, "code");
    char *error = value_of(query, "error"), *issuer = value_of(query, "iss");
    if (!ours || state == NULL || !str_eq_secret(str_of(state), str_of(c->state)) ||
        (code == NULL && error == NULL) || c->bringer != NULL) {
        answer(v, 400, "This is not the answer to a login.\n");
    } else {
        struct err e = {0};
        if (code == NULL) {
            err_set(&e, ERR_DENIED, "the authorization server refused: %.120s", error);
        }
        c->bringer = v;
        timer_stop(&c->timer);
        c->back(c->arg, code, issuer, code != NULL ? NULL : &e);
    }
    free(state);
    free(code);
    free(error);
    free(issuer);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    struct visit *v = container_of((uv_tcp_t *)h, struct visit, tcp);
    (void)suggested;
    char *room = buf_reserve(&v->in, 4096);
    *out = uv_buf_init(room, room != NULL ? 4096 : 0);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct visit *v = container_of((uv_tcp_t *)s, struct visit, tcp);
    (void)buf;
    if (n < 0) {
        leave(v);
        return;
    }
    buf_grow(&v->in, (size_t)n);
    if (strstr(buf_z(&v->in), "\r\n\r\n") != NULL) {
        uv_read_stop(s);
        vec_drop(&v->owner->waiting, v);
        take_request(v);
    }
}

static void on_connection(uv_stream_t *s, int status)
{
    struct oauth_callback *c = container_of((uv_tcp_t *)s, struct oauth_callback, listener);
    if (status < 0) {
        return;
    }
    struct visit *v = xcalloc(1, sizeof *v);
    v->owner = c;
    c->refs++;
    buf_init(&v->in, REQUEST_MAX);
    buf_init(&v->out, SIZE_MAX);
    if (c->waiting.n == VISITS_MAX) {
        leave(c->waiting.p[0]);
    }
    vec_push(&c->waiting, v);
    uv_tcp_init(&c->loop->uv, &v->tcp);
    if (uv_accept(s, (uv_stream_t *)&v->tcp) < 0 ||
        uv_read_start((uv_stream_t *)&v->tcp, on_alloc, on_read) < 0) {
        leave(v);
    }
}

static void on_late(void *arg)
{
    struct oauth_callback *c = arg;
    struct err e;
    err_set(&e, ERR_TIMEOUT, "no login within %d minutes", OAUTH_PERSON_MS / 60000);
    c->back(c->arg, NULL, NULL, &e);
}

static void on_closed(uv_handle_t *h)
{
    unref(container_of((uv_tcp_t *)h, struct oauth_callback, listener));
}

int oauth__callback_open(struct oauth_callback **out, struct loop *l, const char *state,
                         oauth_back *back, void *arg, struct err *e)
{
    assert(state[0] != '\0' && back != NULL);
    struct oauth_callback *c = xcalloc(1, sizeof *c);
    struct sockaddr_in at;
    int n = sizeof at;
    *out = NULL;
    c->refs = 1;
    c->loop = l;
    c->state = xstrdup(state);
    c->back = back;
    c->arg = arg;
    timer_init(&c->timer, l, on_late, c);
    uv_tcp_init(&l->uv, &c->listener);
    uv_ip4_addr("127.0.0.1", 0, &at);
    int rc = uv_tcp_bind(&c->listener, (const struct sockaddr *)&at, 0);
    rc = rc == 0 ? uv_listen((uv_stream_t *)&c->listener, BACKLOG, on_connection) : rc;
    rc = rc == 0 ? uv_tcp_getsockname(&c->listener, (struct sockaddr *)&at, &n) : rc;
    if (rc < 0) {
        oauth__callback_close(c, NULL);
        return err_set(e, rc, "cannot listen on 127.0.0.1: %s", uv_strerror(rc));
    }
    c->port = ntohs(at.sin_port);
    timer_start(&c->timer, OAUTH_PERSON_MS);
    *out = c;
    return 0;
}

int oauth__callback_port(const struct oauth_callback *c)
{
    return c->port;
}

void oauth__callback_close(struct oauth_callback *c, const struct err *why)
{
    if (c != NULL && !c->closed) {
        c->closed = true;
        timer_stop(&c->timer);
        if (c->bringer != NULL) {
            char *text = why != NULL
                             ? xasprintf("Not logged in: %s. You can close this page.\n", why->msg)
                             : xstrdup("Logged in. You can close this page.\n");
            answer(c->bringer, 200, text);
            free(text);
        }
        while (c->waiting.n != 0) {
            leave(c->waiting.p[0]);
        }
        uv_close((uv_handle_t *)&c->listener, on_closed);
    }
}
