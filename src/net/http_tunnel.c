// A call that only connects (http_request.tunnel): names, proxies and TLS are libcurl's work, the bytes are the caller's.
//
//     connected ──> on_ready        uv_poll ──> easy_recv ──> in ──> on_body
//                                   http_client_write() ──> out ──> easy_send
//
// curl does not watch the socket of such a call once it is connected, so there is a uv_poll here. TLS may hold bytes that
// are no longer in the socket: we read until curl has no more, and read again when the caller has taken what was there.
//
// Invariant: the poll is closed before the easy handle goes, which closes the socket.

#include <assert.h>

#include "net/http_client_int.h"

enum { READ_BYTES = 16 * 1024, UNSENT_MAX = 16 * 1024 * 1024 };

struct http_tunnel {
    uv_poll_t poll;
    struct http_call *call; // NULL once closed
    struct buf out;         // not sent yet
};

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch_socket(struct http_tunnel *t)
{
    int events =
        (http_call__is_full(t->call) ? 0 : UV_READABLE) | (t->out.n != 0 ? UV_WRITABLE : 0);
    if (events != 0) {
        uv_poll_start(&t->poll, events, on_poll);
    } else {
        uv_poll_stop(&t->poll);
    }
}

static void fail(struct http_tunnel *t, CURLcode code)
{
    http_call__finished(t->call, code);
}

/// Take what has come, as far as the caller can. False: it is over.
static bool receive(struct http_tunnel *t)
{
    struct http_call *call = t->call;
    char bytes[READ_BYTES];
    while (!call->over && !http_call__is_full(call)) {
        size_t n = 0;
        CURLcode code = call->curl->easy_recv(call->easy, bytes, sizeof bytes, &n);
        if (code == CURLE_AGAIN) {
            return true;
        }
        if (code == CURLE_OK && n != 0) {
            http_call__take(call, (struct str){bytes, n});
        } else if (code == CURLE_OK) {
            http_call__end(call);
        } else {
            fail(t, code);
        }
    }
    return !call->over;
}

static bool send_rest(struct http_tunnel *t)
{
    struct http_call *call = t->call;
    while (t->out.n != 0 && !call->over) {
        size_t n = 0;
        CURLcode code = call->curl->easy_send(call->easy, t->out.p, t->out.n, &n);
        if (code == CURLE_AGAIN) {
            return true;
        }
        if (code != CURLE_OK) {
            fail(t, code);
        }
        buf_drop(&t->out, n);
    }
    return !call->over;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct http_tunnel *t = container_of(poll, struct http_tunnel, poll);
    (void)status; // the read below reports it
    (void)events;
    if (send_rest(t) && receive(t)) {
        watch_socket(t);
    } else {
        uv_poll_stop(poll);
    }
}

static void on_closed(uv_handle_t *h)
{
    struct http_tunnel *t = container_of(h, struct http_tunnel, poll);
    buf_fini(&t->out);
    free(t);
}

int http_tunnel__open(struct http_call *call, struct err *e)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    struct http_tunnel *t = xcalloc(1, sizeof *t);
    assert(call->tunnel == NULL);
    call->curl->easy_getinfo(call->easy, CURLINFO_ACTIVESOCKET, &fd);
    int rc = fd != CURL_SOCKET_BAD ? uv_poll_init(&call->client->loop->uv, &t->poll, fd) : UV_EBADF;
    if (rc < 0) {
        free(t);
        return err_set(e, rc, "its socket cannot be watched");
    }
    t->call = call;
    buf_init(&t->out, UNSENT_MAX);
    call->tunnel = t;
    watch_socket(t);
    return 0;
}

void http_tunnel__resume(struct http_call *call)
{
    assert(call->tunnel != NULL && call->tunnel->call == call);
    if (receive(call->tunnel)) {
        watch_socket(call->tunnel);
    }
}

void http_tunnel__close(struct http_call *call)
{
    struct http_tunnel *t = call->tunnel;
    assert(t != NULL && t->call == call);
    call->tunnel = NULL;
    t->call = NULL;
    uv_poll_stop(&t->poll);
    uv_close((uv_handle_t *)&t->poll, on_closed);
}

int http_client_write(struct http_call *call, struct str bytes)
{
    struct http_tunnel *t = call->tunnel;
    if (t == NULL || call->over) {
        return UV_EPIPE;
    }
    if (bytes.n > UNSENT_MAX - t->out.n) {
        return ERR_TOO_LARGE;
    }
    buf_adds(&t->out, bytes);
    if (send_rest(t)) {
        watch_socket(t);
    }
    return 0;
}
