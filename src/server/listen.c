// Listening, on the Unix socket and on TCP.
//
// The socket's file is never reachable by others, and its path may have any length: base/sock.h.

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sock.h"
#include "server/server_int.h"

enum { BACKLOG = 1024 };

static void accept_one(void *arg)
{
    struct listener *l = arg;
    l->accepting = NULL;
    conn__accept(l->server, &l->io.stream, l->over_socket);
}

// libuv calls this until no connection waits, and peers can connect faster than we accept. It does
// not call again before uv_accept(). On TCP a deferred task calls that, one connection each time the
// queue is drained, so that a flood of connections takes its turn like everything else.
static void on_connection(uv_stream_t *stream, int status)
{
    struct listener *l = stream->data;
    if (status < 0) {
        log_warn(LOG_HTTP, "msg=\"cannot accept\" error=%s", uv_strerror(status));
    } else if (l->over_socket) {
        accept_one(l);
    } else {
        l->accepting = loop_defer(l->server->loop, accept_one, l);
    }
}

static void on_closed(uv_handle_t *h)
{
    struct listener *l = h->data;
    struct server *s = l->server;
    free(l);
    server__handle_closed(s);
}

static struct listener *listener_new(struct server *s, bool over_socket)
{
    struct listener *l = xcalloc(1, sizeof *l);
    l->server = s;
    l->over_socket = over_socket;
    server__socket_init(s, &l->io, over_socket, l);
    return l;
}

static void discard(struct listener *l)
{
    if (l->accepting != NULL) {
        loop_cancel(l->server->loop, l->accepting);
    }
    uv_close(&l->io.handle, on_closed);
}

void listener__close(struct server *s, struct listener **listener)
{
    struct listener *l = *listener;
    *listener = NULL;
    if (l == NULL) {
        return;
    }
    if (l->over_socket) {
        server_drop_socket(s);
    }
    door__listen(s, l->over_socket, NULL);
    discard(l);
}

// ---- the Unix socket -----------------------------------------------------------------------

static int bind_unix(const char *path, struct err *e)
{
    struct stat st;
    if (lstat(path, &st) == 0) { // left by a hub that is gone
        if (!S_ISSOCK(st.st_mode)) {
            return err_set(e, UV_EEXIST,
                           "cannot listen on '%s': the file exists and is not a socket", path);
        }
        if (unlink(path) < 0) {
            return err_sys(e, "cannot remove '%s'", path);
        }
    } else if (errno != ENOENT) {
        return err_sys(e, "cannot look at '%s'", path);
    }
    return sock_bind(path, e);
}

int server_listen_unix(struct server *s, const char *path, struct err *e)
{
    int fd = inherit__socket(path);
    struct stat st;
    bool inherited = fd >= 0;
    fd = inherited ? fd : bind_unix(path, e);
    if (fd < 0) {
        return fd;
    }
    struct listener *l = listener_new(s, true);
    int rc = uv_pipe_open(&l->io.pipe, fd);
    if (rc < 0) {
        close(fd);
    } else {
        rc = uv_listen(&l->io.stream, BACKLOG, on_connection);
    }
    if (rc < 0 || lstat(path, &st) < 0) {
        discard(l);
        return err_set(e, rc < 0 ? rc : UV_ENOENT, "cannot listen on '%s'", path);
    }
    free(s->socket_path);
    s->socket_path = NULL; // an earlier listener's file is gone, and its inode may be ours now
    listener__close(s, &s->unix_listener);
    s->socket_path = xstrdup(path);
    s->socket_inherited = inherited;
    s->socket_dev = st.st_dev;
    s->socket_ino = st.st_ino;
    s->unix_listener = l;
    door__listen(s, true, &l->io.handle);
    return 0;
}

bool server_socket_in_place(const struct server *s)
{
    struct stat st;
    return s->socket_path != NULL && lstat(s->socket_path, &st) == 0 &&
           st.st_dev == s->socket_dev && st.st_ino == s->socket_ino;
}

void server_drop_socket(struct server *s)
{
    if (server_socket_in_place(s) && !s->socket_inherited) {
        unlink(s->socket_path);
    }
}

// ---- TCP -------------------------------------------------------------------------------------

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

// "HOST:PORT" with a numeric host or "localhost"; IPv6 in brackets.
static int parse_address(const char *text, union address *out, struct err *e)
{
    struct str s = str_of(text);
    char host[64];
    uint64_t port;
    const char *colon = strrchr(text, ':');
    if (colon == NULL || !str_to_u64(str_of(colon + 1), &port) || port > 65535) {
        return err_set(e, ERR_INVALID, "'%s' is not HOST:PORT", text);
    }
    s.n = (size_t)(colon - text);
    if (s.n > 2 && s.p[0] == '[' && s.p[s.n - 1] == ']') {
        snprintf(host, sizeof host, "%.*s", (int)(s.n - 2), s.p + 1);
        if (uv_ip6_addr(host, (int)port, &out->v6) == 0) {
            return 0;
        }
    } else {
        snprintf(host, sizeof host, STR_FMT,
                 STR_ARG(str_eqz(s, "localhost") ? STR("127.0.0.1") : s));
        if (uv_ip4_addr(host, (int)port, &out->v4) == 0) {
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "'%s' is not a numeric address with a port", text);
}

/// `*out` is NULL exactly when this fails.
static int try_listen(struct server *s, const union address *a, struct listener **out)
{
    struct listener *l = listener_new(s, false);
    int rc = uv_tcp_bind(&l->io.tcp, &a->any, 0);
    if (rc == 0) {
        rc = uv_listen(&l->io.stream, BACKLOG, on_connection);
    }
    if (rc < 0) {
        discard(l);
        l = NULL;
    }
    *out = l;
    return rc;
}

// Read back what we got: the port may have been chosen by the kernel.
static void note_address(struct server *s, struct listener *l)
{
    union address a = {.any.sa_family = AF_UNSPEC};
    char host[48];
    int n = sizeof a;
    uv_tcp_getsockname(&l->io.tcp, &a.any, &n);
    bool v6 = a.any.sa_family == AF_INET6;
    pthread_mutex_lock(&s->door.lock); // read on the watchdog's thread too
    if (v6) {
        uv_ip6_name(&a.v6, host, sizeof host);
    } else {
        uv_ip4_name(&a.v4, host, sizeof host);
    }
    snprintf(s->hosts.local.port, sizeof s->hosts.local.port, "%u",
             ntohs(v6 ? a.v6.sin6_port : a.v4.sin_port));
    snprintf(s->tcp_address, sizeof s->tcp_address, "%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
             s->hosts.local.port);
    memcpy(s->hosts.local.listen, s->tcp_address, sizeof s->hosts.local.listen);
    pthread_mutex_unlock(&s->door.lock);
}

static in_port_t *port_of(union address *a)
{
    return a->any.sa_family == AF_INET6 ? &a->v6.sin6_port : &a->v4.sin_port;
}

// Open `a` beside the listener that is there. Where that one has the port itself (127.0.0.1 and 0.0.0.0 exclude each
// other) it makes room first, and is opened again if `a` cannot be opened even then.
static int open_tcp(struct server *s, union address *a, bool exact, struct listener **out)
{
    union address old = {.any.sa_family = AF_UNSPEC};
    int n = sizeof old;
    int rc = try_listen(s, a, out);
    if (rc == UV_EADDRINUSE && s->tcp_listener != NULL &&
        uv_tcp_getsockname(&s->tcp_listener->io.tcp, &old.any, &n) == 0 &&
        *port_of(&old) == *port_of(a)) {
        listener__close(s, &s->tcp_listener);
        rc = try_listen(s, a, out);
        if (rc < 0 && try_listen(s, &old, &s->tcp_listener) == 0) {
            door__listen(s, false, &s->tcp_listener->io.handle);
        }
    }
    if (rc == UV_EADDRINUSE && !exact) {
        *port_of(a) = 0;
        rc = try_listen(s, a, out);
    }
    return rc;
}

void server_close_tcp(struct server *s)
{
    listener__close(s, &s->tcp_listener);
    pthread_mutex_lock(&s->door.lock);
    s->tcp_address[0] = s->hosts.local.listen[0] = s->hosts.local.port[0] = '\0';
    pthread_mutex_unlock(&s->door.lock);
}

int server_listen_tcp(struct server *s, const char *address, bool exact, struct err *e)
{
    union address a = {.any.sa_family = AF_UNSPEC};
    struct listener *l;
    int rc = parse_address(address, &a, e);
    if (rc < 0) {
        return rc;
    }
    bool loopback = a.any.sa_family == AF_INET ? ntohl(a.v4.sin_addr.s_addr) >> 24 == 127
                                               : IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr);
    if (!loopback && s->hosts.public_origin == NULL) {
        return err_set(e, ERR_DENIED,
                       "'%s' can be reached from outside: set behind_proxy = true and public_url, "
                       "or listen on 127.0.0.1",
                       address);
    }
    if (strcmp(address, s->tcp_address) == 0) {
        return 0;
    }
    if (s->closing) { // its end would wait for this listener
        return err_set(e, ERR_UNREACHABLE, "the hub is stopping");
    }
    rc = open_tcp(s, &a, exact, &l);
    if (rc < 0) {
        if (s->tcp_listener == NULL) {
            server_close_tcp(s); // the one that made room could not come back
        }
        return err_set(e, rc, "cannot listen on '%s': %s", address, uv_strerror(rc));
    }
    listener__close(s, &s->tcp_listener);
    s->tcp_listener = l;
    note_address(s, l);
    door__listen(s, false, &l->io.handle);
    return 0;
}

const char *server_tcp_address(const struct server *s)
{
    return s->tcp_address;
}
