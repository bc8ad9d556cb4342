// libcurl's multi handle on our loop: the client's connections.
//
// curl does no I/O by itself here. It names the sockets to watch and the time of its next call; we
// hold a uv_poll per socket and one timer, and call it back:
//
//     on_socket ──> uv_poll ──> on_poll ──┐
//     on_clock ───> timer ────> on_timer ─┴─> multi_socket_action ──> bytes to http_call.c
//                                              └─> multi_info_read ──> http_call__finished()
//
// All calls of a loop share the multi handle, and so its connections, name cache and TLS sessions.
// Kept connections would need a look now and then; instead the whole handle goes when nothing was
// under way for a minute, and an idle hub has neither sockets nor timers here.
//
// Invariants:
//   - no callback of a user runs inside curl: a caller of ours may remove handles at once.
//   - `linger` runs exactly while there is a multi handle without transfers.
//   - a uv_poll is closed before curl closes its socket (CURL_POLL_REMOVE).

#include <assert.h>

#include "base/log.h"
#include "net/http_client_int.h"

enum {
    LINGER_MS = 60 * 1000,
    CONNECTIONS_MAX = 256, // descriptors; further calls wait for a free one
    KEPT_MAX = 32,
};

struct sock {
    uv_poll_t poll;
    struct http_client *client;
    int events; // of uv
};

static void act(struct http_client *c, curl_socket_t fd, int events)
{
    int n; // running, then left
    const CURLMsg *m;
    CURLMcode code = c->curl->multi_socket_action(c->multi, fd, events, &n);
    if (code != CURLM_OK) {
        log_warn(LOG_HTTP, "curl=%s", LOGQ(str_of(c->curl->multi_strerror(code))).z);
    }
    while ((m = c->curl->multi_info_read(c->multi, &n)) != NULL) {
        if (m->msg == CURLMSG_DONE) {
            CURLcode result = m->data.result;
            struct http_call *call = NULL;
            c->curl->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &call);
            http_call__finished(call, result); // `m` may be gone after it
        }
    }
}

static void on_timer(void *arg)
{
    act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct sock *s = container_of(poll, struct sock, poll);
    // an error is left to curl's next read, which brings the bytes that came before it first
    bool in = status < 0 || (events & UV_READABLE) != 0;
    bool out = status < 0 || (events & UV_WRITABLE) != 0;
    uv_os_fd_t fd;
    uv_fileno((uv_handle_t *)poll, &fd);
    act(s->client, fd, (in ? CURL_CSELECT_IN : 0) | (out ? CURL_CSELECT_OUT : 0));
    // uv has stopped listening, but curl need not have read all of them
    if (status < 0 && !uv_is_closing((uv_handle_t *)poll)) {
        uv_poll_start(&s->poll, s->events, on_poll);
    }
}

static void on_sock_closed(uv_handle_t *h)
{
    free(container_of(h, struct sock, poll));
}

static struct sock *sock_open(struct http_client *c, curl_socket_t fd)
{
    struct sock *s = xcalloc(1, sizeof *s);
    s->client = c;
    if (uv_poll_init(&c->loop->uv, &s->poll, fd) < 0) {
        free(s);
        return NULL;
    }
    c->curl->multi_assign(c->multi, fd, s);
    return s;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *sock)
{
    struct http_client *c = arg;
    struct sock *s = sock;
    if (what == CURL_POLL_REMOVE) {
        if (s != NULL) {
            c->curl->multi_assign(c->multi, fd, NULL);
            uv_close((uv_handle_t *)&s->poll, on_sock_closed);
        }
        return 0;
    }
    if (s == NULL && (s = sock_open(c, fd)) == NULL) {
        struct http_call *call = NULL;
        c->curl->easy_getinfo(easy, CURLINFO_PRIVATE, &call);
        if (call != NULL) { // not a handle of curl's own
            http_call__fail(call, UV_EIO, "its socket cannot be watched");
        }
        return 0; // an error here would be the end of all other calls
    }
    s->events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    uv_poll_start(&s->poll, s->events, on_poll);
    return 0;
}

static int on_clock(CURLM *multi, long ms, void *arg)
{
    struct http_client *c = arg;
    (void)multi;
    if (ms < 0) {
        timer_stop(&c->clock);
    } else {
        timer_start(&c->clock, (uint64_t)ms);
    }
    return 0;
}

static void close_multi(void *arg)
{
    struct http_client *c = arg;
    if (c->multi != NULL) {
        c->curl->multi_cleanup(c->multi);
        c->multi = NULL;
    }
    timer_stop(&c->clock);
    timer_stop(&c->linger);
}

static int open_multi(struct http_client *c, struct err *e)
{
    c->multi = c->curl->multi_init();
    if (c->multi == NULL) {
        return err_set(e, UV_ENFILE, "libcurl cannot be set up");
    }
    c->curl->multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    c->curl->multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    c->curl->multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_clock);
    c->curl->multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    // streams that share a connection make curl keep 32 MiB for one that is paused
    c->curl->multi_setopt(c->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    c->curl->multi_setopt(c->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
    c->curl->multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)KEPT_MAX);
    return 0;
}

static void linger_if_idle(struct http_client *c)
{
    if (c->n_transfers == 0) {
        timer_start(&c->linger, LINGER_MS);
    }
}

int http_client__start(struct http_call *call, struct err *e)
{
    struct http_client *c = call->client;
    int rc = c->multi == NULL ? open_multi(c, e) : 0;
    if (rc < 0) {
        return rc;
    }
    CURLMcode code = c->curl->multi_add_handle(c->multi, call->easy);
    if (code != CURLM_OK) {
        linger_if_idle(c);
        return err_set(e, UV_EIO, "libcurl cannot begin a request: %s",
                       c->curl->multi_strerror(code));
    }
    call->started = true;
    c->n_transfers++;
    timer_stop(&c->linger);
    return 0;
}

void http_client__stop(struct http_call *call)
{
    struct http_client *c = call->client;
    if (call->tunnel != NULL) {
        http_tunnel__close(call);
    }
    if (call->started) {
        call->started = false;
        assert(c->multi != NULL && c->n_transfers != 0);
        c->curl->multi_remove_handle(c->multi, call->easy);
        c->n_transfers--;
        linger_if_idle(c);
    }
    if (call->easy != NULL) {
        c->curl->easy_cleanup(call->easy);
        call->easy = NULL;
    }
    c->curl->slist_free_all(call->lines);
    call->lines = NULL;
}

struct http_client *http_client_open(struct loop *l, const char *user_agent)
{
    struct http_client *c = xcalloc(1, sizeof *c);
    c->loop = l;
    c->user_agent = xstrdup(user_agent);
    timer_init(&c->clock, l, on_timer, c);
    timer_init(&c->linger, l, close_multi, c);
    return c;
}

void http_client_close(struct http_client *c)
{
    if (c == NULL) {
        return;
    }
    while (c->calls != NULL) {
        http_client_cancel(c->calls);
    }
    assert(c->n_transfers == 0);
    close_multi(c);
    free(c->user_agent);
    free(c);
}

int http_client_send(struct http_call **out, struct http_client *c, const struct http_request *q,
                     const struct http_cb *cb, void *arg, struct err *e)
{
    *out = NULL;
    if (c->curl == NULL) {
        c->curl = curl_api_get(e);
    }
    if (c->curl == NULL) {
        return ERR_UNSUPPORTED;
    }
    return http_call__open(out, c, q, cb, arg, e);
}
