// A connection: bytes in, bytes out, time-outs, and an end. The protocol on it (struct conn_proto) decides what the bytes
// mean.
//
//     read ──> proto->on_read        conn->out ──flush──> kernel
//                                                └ the rest ─> struct write ──> on_drain
//
// TCP and Unix sockets differ in how they are accepted and in nothing else. Each has its own limit
// on connections, so a flood on TCP leaves the owner's socket free. A caller on TCP that has not
// shown the token is a stranger: only a few strangers may be connected, and each must send a request soon. All
// connections read into one buffer of the server, so a protocol copies what it wants to keep. Most answers leave with
// one send(2) and no allocation that outlives it.
//
// Invariants:
//   - at most one struct write is under way; while it is, `stall_at` is set.
//   - the timer, while it runs, is due no later than the earlier of `deadline` and `stall_at`; it
//     may be due earlier and then starts itself again.
//   - on_drain comes after a write that had to wait, and after uncorking when nothing waits.
//   - after conn__close() no protocol is called; memory goes back when libuv is done with the handle.

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "net/sse.h"
#include "server/server_int.h"

enum {
    LINGER_MS = 3000,
    OUT_MAX = 96 * 1024 * 1024,
    OVERFLOW_CONNECTIONS = 16,
    IDLE_TALK = 64 * 1024, // bytes that the peer of a stream may send before it is closed
};

struct write {
    uv_write_t req;
    struct conn *conn;
    char *p;
    size_t n;
};

// ---- time ----------------------------------------------------------------------------------

/// Have the timer come for the earlier of the two times that are set.
static void arm(struct conn *c)
{
    bool both = c->deadline != 0 && c->stall_at != 0;
    uint64_t due = both ? MIN(c->deadline, c->stall_at) : MAX(c->deadline, c->stall_at);
    if (due == 0 || c->closing || (timer_running(&c->timer) && c->timer.due <= due)) {
        return;
    }
    uint64_t now = loop_now(c->server->loop);
    timer_start(&c->timer, due > now ? due - now : 0);
}

static size_t unwritten(const struct conn *c)
{
    return uv_stream_get_write_queue_size(&c->io.stream);
}

static void watch_stall(struct conn *c)
{
    c->stall_left = unwritten(c);
    c->stall_at = loop_now(c->server->loop) + c->server->limits.write_ms;
    arm(c);
}

static void on_timer(void *arg)
{
    struct conn *c = arg;
    uint64_t now = loop_now(c->server->loop);
    if (c->stall_at != 0 && now >= c->stall_at) {
        if (unwritten(c) >= c->stall_left) {
            log_debug(LOG_HTTP, "msg=\"peer does not read, closed\" unwritten=%zu", unwritten(c));
            conn__close(c);
            return;
        }
        watch_stall(c);
    }
    if (c->deadline != 0 && now >= c->deadline) {
        c->deadline = 0;
        c->proto->on_deadline(c);
    }
    arm(c);
}

// ---- writing -------------------------------------------------------------------------------

static void write_free(struct write *w)
{
    free(w->p);
    free(w);
}

static void on_written(uv_write_t *req, int status)
{
    struct write *w = container_of(req, struct write, req);
    struct conn *c = w->conn;
    assert(c->write == w);
    c->server->counts.bytes_out += status == 0 ? w->n : 0;
    c->write = NULL;
    c->stall_at = 0;
    write_free(w);
    if (c->closing) {
        return;
    }
    if (status < 0) {
        conn__close(c);
        return;
    }
    if (c->out.n != 0) {
        conn__flush(c);
    }
    if (!conn__blocked(c) && !c->closing) {
        c->proto->on_drain(c);
    }
}

// `w` owns the bytes from here on; the first `done` of them have left already.
static void write_rest(struct conn *c, struct write *w, size_t done)
{
    assert(c->write == NULL && done < w->n);
    uv_buf_t b = uv_buf_init(w->p + done, (unsigned)(w->n - done));
    w->conn = c;
    w->n -= done;
    int rc = uv_write(&w->req, &c->io.stream, &b, 1, on_written);
    if (rc < 0) {
        write_free(w);
        conn__close(c);
        return;
    }
    c->write = w;
    watch_stall(c);
}

// Straight to the kernel: with nothing queued libuv would do the same, but with write(2), which costs
// more on a socket. Returns the bytes taken, 0 when there is no room, or a negative code.
static ssize_t try_write(struct conn *c, struct str bytes)
{
    uv_os_fd_t fd;
    assert(c->write == NULL);
    int rc = uv_fileno(&c->io.handle, &fd);
    if (rc < 0) {
        return rc;
    }
    ssize_t n = send(fd, bytes.p, bytes.n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
        c->server->counts.bytes_out += (uint64_t)n;
        return n;
    }
    return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : -errno;
}

// ---- lingering: the last answer is on its way, what still arrives is not for us ---------------

// The write side is shut and the peer's bytes are read and dropped: closing with unread bytes would
// reset the connection and the peer might never see the answer.
static void linger_shut(struct conn *c)
{
    uv_os_fd_t fd;
    conn__deadline(c, loop_now(c->server->loop) + LINGER_MS);
    if (uv_fileno(&c->io.handle, &fd) == 0 && shutdown(fd, SHUT_WR) < 0) {
        conn__close(c);
    }
}

// What was queued goes out first, also to a peer that has closed its side.
static void linger_on_eof(struct conn *c)
{
    c->eof = true;
    if (!conn__blocked(c)) {
        conn__close(c);
    }
}

static void linger_on_drain(struct conn *c)
{
    if (c->eof) {
        conn__close(c);
    } else {
        linger_shut(c);
    }
}

static void linger_on_read(struct conn *c, struct str bytes)
{
    (void)c;
    (void)bytes;
}

static void linger_on_gone(struct conn *c)
{
    (void)c;
}

static const struct conn_proto linger = {
    .on_read = linger_on_read,
    .on_eof = linger_on_eof,
    .on_drain = linger_on_drain,
    .on_deadline = conn__close, // set once all has left; until then `stall_at` watches
    .on_gone = linger_on_gone,
};

// ---- reading, opening, closing ---------------------------------------------------------------

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *b)
{
    struct conn *c = h->data;
    (void)suggested;
    *b = uv_buf_init(c->server->read_buf, READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct conn *c = stream->data;
    if (c->closing || n == 0) {
        return;
    }
    if (n > 0) {
        c->proto->on_read(c, (struct str){b->base, (size_t)n});
    } else if (n == UV_EOF) {
        c->proto->on_eof(c);
    } else {
        conn__close(c);
    }
}

static void on_closed(uv_handle_t *h)
{
    struct conn *c = h->data;
    struct server *s = c->server;
    assert(c->write == NULL); // libuv cancels writes before it calls us
    buf_fini(&c->out);
    free(c);
    server__handle_closed(s);
}

static struct conn *conn_new(struct server *s, bool over_socket)
{
    struct conn *c = xcalloc(1, sizeof *c);
    c->server = s;
    c->over_socket = over_socket;
    c->stranger = !over_socket;
    buf_init(&c->out, OUT_MAX);
    timer_init(&c->timer, s->loop, on_timer, c);
    server__socket_init(s, &c->io, over_socket, c);
    list_add(&s->conns, c);
    s->n_conns[over_socket]++;
    s->n_strangers += c->stranger;
    return c;
}

static bool is_own_user(struct conn *c)
{
    uv_os_fd_t fd;
    struct ucred peer;
    socklen_t n = sizeof peer;
    if (uv_fileno(&c->io.handle, &fd) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0) {
        return false;
    }
    if (peer.uid != geteuid()) {
        log_warn(LOG_AUTH, "msg=\"another user on the socket\" uid=%u pid=%d", peer.uid, peer.pid);
        return false;
    }
    return true;
}

// Answer without having read anything, and end.
static void turn_away(struct conn *c, enum problem p, const char *why)
{
    struct buf body = {.max = 4096};
    struct refusal no = {.problem = p};
    snprintf(no.detail, sizeof no.detail, "%s", why);
    respond__problem(&body, &no);
    struct reply r = {.status = problems[p].status,
                      .type = "application/problem+json",
                      .body = buf_str(&body),
                      .retry_after_s = p == PROBLEM_TOO_BUSY ? 1 : 0};
    respond__write(c, &r);
    buf_fini(&body);
    c->server->counts.refused++;
    conn__finish(c);
}

// By how many connections this listener is over its bounds; 0 or less: there is room.
static ssize_t excess(const struct server *s, bool over_socket)
{
    ssize_t over = (ssize_t)s->n_conns[over_socket] - (ssize_t)s->most[over_socket];
    return over_socket ? over : MAX(over, (ssize_t)s->n_strangers - (ssize_t)s->limits.strangers);
}

// `c` is open, or `rc` says why it is not.
static void begin(struct conn *c, int rc)
{
    struct server *s = c->server;
    bool over_socket = c->over_socket;
    c->proto = &linger;
    if (rc < 0 || s->closing || excess(s, over_socket) > OVERFLOW_CONNECTIONS) {
        conn__close(c);
        return;
    }
    if (!over_socket) {
        uv_tcp_nodelay(&c->io.tcp, 1);
    }
    s->counts.connections++;
    if (over_socket && !is_own_user(c)) {
        turn_away(c, PROBLEM_FORBIDDEN, "this socket serves its own user only");
    } else if (excess(s, over_socket) > 0) {
        turn_away(c, PROBLEM_TOO_BUSY, "there are too many connections");
    } else {
        http__start(c);
    }
}

void conn__accept(struct server *s, uv_stream_t *listener, bool over_socket)
{
    struct conn *c = conn_new(s, over_socket);
    begin(c, uv_accept(listener, &c->io.stream));
}

void conn__adopt(struct server *s, int fd, bool over_socket)
{
    struct conn *c = conn_new(s, over_socket);
    int rc = over_socket ? uv_pipe_open(&c->io.pipe, fd) : uv_tcp_open(&c->io.tcp, fd);
    if (rc < 0) {
        close(fd);
    }
    begin(c, rc);
}

void conn__cork(struct conn *c, bool on)
{
    c->corked = on;
    conn__flush(c);
    if (!on && !conn__blocked(c) && !c->closing) {
        c->proto->on_drain(c);
    }
}

void conn__flush(struct conn *c)
{
    if (c->closing || c->corked || c->write != NULL || c->out.n == 0) {
        return;
    }
    struct str all = buf_str(&c->out);
    ssize_t n = buf_ok(&c->out) ? try_write(c, all) : UV_ENOBUFS;
    if (n < 0) {
        conn__close(c);
        return;
    }
    if ((size_t)n == all.n) {
        buf_fini(&c->out);
        return;
    }
    struct write *w = xcalloc(1, sizeof *w);
    w->p = buf_take(&c->out, &w->n);
    write_rest(c, w, (size_t)n);
}

void conn__send(struct conn *c, struct str bytes)
{
    conn__flush(c);
    if (c->closing) {
        return;
    }
    ssize_t done = conn__blocked(c) ? 0 : try_write(c, bytes);
    if (done < 0) {
        conn__close(c);
        return;
    }
    buf_adds(&c->out, str_from(bytes, (size_t)done));
    conn__flush(c);
}

bool conn__blocked(const struct conn *c)
{
    return c->write != NULL || c->out.n != 0;
}

void conn__read(struct conn *c, bool on)
{
    if (c->closing) {
        return;
    }
    if (!on) {
        uv_read_stop(&c->io.stream);
    } else if (!uv_is_active(&c->io.handle) &&
               uv_read_start(&c->io.stream, on_alloc, on_read) < 0) {
        conn__close(c);
    }
}

void conn__deadline(struct conn *c, uint64_t at)
{
    c->deadline = at;
    arm(c);
}

void conn__know(struct conn *c)
{
    c->server->n_strangers -= c->stranger;
    c->stranger = false;
}

void conn__heartbeat(struct conn *c)
{
    conn__deadline(c, loop_now(c->server->loop) + c->server->limits.heartbeat_ms);
}

void conn__send_body(struct conn *c, struct str bytes, bool chunked)
{
    if (chunked) {
        buf_addf(&c->out, "%zx\r\n", bytes.n);
    }
    buf_adds(&c->out, bytes);
    buf_addz(&c->out, chunked ? "\r\n" : "");
    conn__flush(c);
}

void conn__show_life(struct conn *c, bool chunked)
{
    struct buf comment = {.max = 64};
    if (!conn__blocked(c)) {
        sse_write_comment(&comment, "still here");
        conn__send_body(c, buf_str(&comment), chunked);
        buf_fini(&comment);
    }
    if (!c->closing) {
        conn__heartbeat(c);
    }
}

void conn__ignore(struct conn *c, struct str bytes)
{
    assert(!c->closing);
    c->ignored += bytes.n;
    if (c->ignored > IDLE_TALK) {
        conn__close(c);
    }
}

/// End the protocol of the connection.
static void leave(struct conn *c)
{
    size_t *streams = &c->server->counts.streams;
    bool is_stream = c->proto->on_end != NULL;
    assert(*streams >= is_stream);
    *streams -= is_stream;
    c->proto->on_gone(c);
}

void conn__take(struct conn *c, const struct conn_proto *proto, void *state)
{
    assert(!c->closing);
    leave(c);
    c->deadline = 0;
    c->ignored = 0;
    c->proto = proto;
    c->state = state;
    c->server->counts.streams += proto->on_end != NULL;
    conn__read(c, true); // also after a protocol that had stopped: the peer's end must be noticed
}

void conn__finish(struct conn *c)
{
    if (c->closing || c->finishing) {
        return;
    }
    c->finishing = true;
    conn__take(c, &linger, NULL);
    conn__flush(c);
    if (!conn__blocked(c) && !c->closing) {
        linger_shut(c);
    }
}

void conn__end_stream(struct conn *c, bool chunked)
{
    buf_addz(&c->out, chunked ? "0\r\n\r\n" : "");
    conn__finish(c);
}

void conn__close(struct conn *c)
{
    if (c->closing) {
        return;
    }
    c->closing = true;
    timer_stop(&c->timer);
    leave(c);
    c->proto = &linger;
    struct server *s = c->server;
    list_remove(&s->conns, c);
    assert(s->n_conns[c->over_socket] != 0);
    s->n_conns[c->over_socket]--;
    s->n_strangers -= c->stranger;
    uv_close(&c->io.handle, on_closed);
}

void conn__peer(const struct conn *c, char *out, size_t n)
{
    struct sockaddr_storage addr;
    int size = sizeof addr;
    snprintf(out, n, "%s", c->over_socket ? "unix" : "unknown");
    if (c->over_socket ||
        uv_tcp_getpeername(&c->io.tcp, (struct sockaddr *)(void *)&addr, &size) < 0) {
        return;
    }
    if (addr.ss_family == AF_INET6) {
        uv_ip6_name((const struct sockaddr_in6 *)(const void *)&addr, out, n);
    } else {
        uv_ip4_name((const struct sockaddr_in *)(const void *)&addr, out, n);
    }
}
