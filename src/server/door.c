// Answering while the loop thread cannot.
//
// Lua code may keep the loop thread in one call into C for seconds (lua/watchdog.c). Every connection belongs to that
// thread, so no client could ask what is wrong. Meanwhile the thread of the watchdog calls server_stalled():
//
//     listener ── accept ──> held ── GET /healthz ──> answered here, closed
//                              └─── anything else ──> given to the loop when the stall is over
//
// A request is only looked at (MSG_PEEK), never taken: the loop reads it from its first byte, as if it had just come.
//
// Invariants: everything in `struct door` is under its lock; the door has its own descriptors for the listeners,
// closed together with them; what is held is handed to the loop before the server closes.

#include "server/door.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "net/http1.h"
#include "server/server_int.h"

enum { HELD_MAX = 64, PEEK_BYTES = 4096 };

static void take_over(uv_async_t *bell)
{
    struct server *s = bell->data;
    struct door *d = &s->door;
    struct door__conn held[HELD_MAX];
    pthread_mutex_lock(&d->lock);
    size_t n = d->n_held;
    memcpy(held, d->held, n * sizeof *held);
    d->n_held = 0;
    pthread_mutex_unlock(&d->lock);
    for (size_t i = 0; i < n; i++) {
        conn__adopt(s, held[i].fd, held[i].over_socket);
    }
}

static void on_bell_closed(uv_handle_t *bell)
{
    server__handle_closed(bell->data);
}

void door__open(struct server *s)
{
    struct door *d = &s->door;
    pthread_mutex_init(&d->lock, NULL);
    d->listeners[false] = d->listeners[true] = -1;
    d->held = xcalloc(HELD_MAX, sizeof *d->held);
    int rc = uv_async_init(&s->loop->uv, &d->bell, take_over);
    assert(rc == 0); // it fails only where the loop could not be made
    (void)rc;
    uv_unref((uv_handle_t *)&d->bell);
    d->bell.data = s;
    s->open_handles++;
}

void door__close(struct server *s)
{
    take_over(&s->door.bell); // they are turned away like all that come now
    uv_close((uv_handle_t *)&s->door.bell, on_bell_closed);
}

void door__fini(struct door *d)
{
    assert(d->n_held == 0 && d->listeners[false] < 0 && d->listeners[true] < 0);
    pthread_mutex_destroy(&d->lock);
    free(d->held);
}

void door__listen(struct server *s, bool over_socket, const uv_handle_t *listener)
{
    struct door *d = &s->door;
    uv_os_fd_t fd = -1;
    pthread_mutex_lock(&d->lock);
    if (d->listeners[over_socket] >= 0) {
        close(d->listeners[over_socket]);
    }
    d->listeners[over_socket] =
        listener != NULL && uv_fileno(listener, &fd) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    d->local = s->hosts.local;
    pthread_mutex_unlock(&d->lock);
}

// ---- on the watchdog's thread --------------------------------------------------------------------

static void accept_all(struct door *d, bool over_socket)
{
    size_t max = over_socket ? HELD_MAX : HELD_MAX / 2; // the rest is for the owner
    while (d->listeners[over_socket] >= 0 && d->n_held < max) {
        int fd = accept4(d->listeners[over_socket], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        d->held[d->n_held++] = (struct door__conn){.fd = fd, .over_socket = over_socket};
    }
}

/// Is the whole head there, and does it ask for the hub's health under a name of ours? Others wait for the loop, which
/// knows how to refuse.
static bool asks_for_health(const struct door *d, const struct door__conn *c)
{
    char bytes[PEEK_BYTES];
    struct http1 p;
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t len = sizeof peer;
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    struct str head = {bytes, n > 0 ? (size_t)n : 0};
    http1_init(&p, HTTP1_REQUEST, NULL, NULL, NULL);
    bool ours = http1_feed(&p, &head, NULL) == 0 && p.state == HTTP1_END && p.method == HTTP_GET &&
                str_eqz(http1_target(&p), "/healthz");
    if (ours && c->over_socket) {
        ours =
            getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid();
    } else if (ours) {
        ours = hosts__local(&d->local, http1_get(&p, "host"));
    }
    http1_fini(&p);
    return ours;
}

static void answer(const struct door__conn *c, server_health_cb *write, void *arg)
{
    char bytes[PEEK_BYTES];
    struct buf body = {.max = SIZE_MAX}, out = {.max = SIZE_MAX};
    struct jw w = {.out = &body};
    write(arg, c->over_socket, &w);
    buf_addf(&out,
             "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"
             "Connection: close\r\nContent-Length: %zu\r\n\r\n" STR_FMT,
             body.n, STR_ARG(buf_str(&body)));
    // read what was asked: closed with bytes unread, a socket is reset, and the answer may be lost with it
    if (recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT) < 0 ||
        send(c->fd, out.p, out.n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        log_debug(LOG_HTTP, "stalled answer=failed errno=%d", errno);
    }
    close(c->fd);
    buf_fini(&out);
    buf_fini(&body);
}

void server_stalled(struct server *s, server_health_cb *write, void *arg)
{
    struct door *d = &s->door;
    size_t kept = 0;
    pthread_mutex_lock(&d->lock);
    accept_all(d, true);
    accept_all(d, false);
    for (size_t i = 0; i < d->n_held; i++) {
        if (asks_for_health(d, &d->held[i])) {
            answer(&d->held[i], write, arg);
        } else {
            d->held[kept++] = d->held[i];
        }
    }
    d->n_held = kept;
    pthread_mutex_unlock(&d->lock);
}

void server_stall_ended(struct server *s)
{
    uv_async_send(&s->door.bell);
}
