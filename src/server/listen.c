// Listening, on the Unix socket and on TCP.
//
// The socket's file must never be reachable by others, not even between its creation and a chmod:
// on Linux the mode of a socket's descriptor is what bind(2) gives its file, so it is set before.
// sun_path has 108 bytes; a longer path is bound through a descriptor of its directory, as
// /proc/self/fd/N/hub.sock.

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "server/server_int.h"

enum { BACKLOG = 1024 };

static void accept_one(void *arg)
{
    struct listener *l = arg;
    l->accepting = NULL;
    conn__accept(l->server, &l->io.stream, l->over_socket);
}

// libuv calls this until no connection waits, and peers can connect faster than we accept. It does
// not call again before uv_accept(): on TCP that comes from a deferred task, one a drain, so that a
// flood of connections takes its turn like everything else.
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
    if (l->accepting != NULL) {
        loop_cancel(s->loop, l->accepting);
    }
    uv_close(&l->io.handle, on_closed);
}

// ---- the Unix socket -----------------------------------------------------------------------

// The address to bind `path` by. `*dir` is a descriptor to close afterwards, or -1.
static int address_of(const char *path, struct sockaddr_un *addr, int *dir, struct err *e)
{
    const char *slash = strrchr(path, '/');
    *addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    *dir = -1;
    if (strlen(path) < sizeof addr->sun_path) {
        memcpy(addr->sun_path, path, strlen(path));
        return 0;
    }
    if (slash == NULL) {
        return err_set(e, UV_ENAMETOOLONG, "the name '%s' is too long for a socket", path);
    }
    char *parent = xstrndup(path, (size_t)(slash - path));
    *dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc = *dir < 0 ? err_sys(e, "cannot open '%s'", parent) : 0;
    free(parent);
    int n = snprintf(addr->sun_path, sizeof addr->sun_path, "/proc/self/fd/%d%s", *dir, slash);
    if (rc == 0 && (size_t)n >= sizeof addr->sun_path) {
        close(*dir);
        rc = err_set(e, UV_ENAMETOOLONG, "the name '%s' is too long for a socket", slash + 1);
    }
    return rc;
}

static int bind_unix(const char *path, int *out, struct err *e)
{
    struct sockaddr_un addr;
    struct stat st;
    int dir = -1, rc;
    if (lstat(path, &st) == 0) { // left by a hub that is gone
        if (!S_ISSOCK(st.st_mode)) {
            return err_set(e, UV_EEXIST, "'%s' is in the way and is no socket", path);
        }
        if (unlink(path) < 0) {
            return err_sys(e, "cannot remove '%s'", path);
        }
    } else if (errno != ENOENT) {
        return err_sys(e, "cannot look at '%s'", path);
    }
    rc = address_of(path, &addr, &dir, e);
    if (rc < 0) {
        return rc;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || fchmod(fd, 0600) < 0 ||
        bind(fd, (const struct sockaddr *)(const void *)&addr, sizeof addr) < 0) {
        rc = err_sys(e, "cannot bind '%s'", path);
    }
    if (dir >= 0) {
        close(dir);
    }
    if (rc < 0 && fd >= 0) {
        close(fd);
    }
    *out = fd;
    return rc;
}

int server_listen_unix(struct server *s, const char *path, struct err *e)
{
    int fd = inherit__socket(path);
    struct stat st;
    bool inherited = fd >= 0;
    int rc = inherited ? 0 : bind_unix(path, &fd, e);
    if (rc < 0) {
        return rc;
    }
    struct listener *l = listener_new(s, true);
    rc = uv_pipe_open(&l->io.pipe, fd);
    if (rc < 0) {
        close(fd);
    } else {
        rc = uv_listen(&l->io.stream, BACKLOG, on_connection);
    }
    if (rc < 0 || lstat(path, &st) < 0) {
        listener__close(s, &l);
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

static int try_listen(struct server *s, const union address *a, struct listener **out)
{
    struct listener *l = listener_new(s, false);
    int rc = uv_tcp_bind(&l->io.tcp, &a->any, 0);
    if (rc == 0) {
        rc = uv_listen(&l->io.stream, BACKLOG, on_connection);
    }
    if (rc < 0) {
        listener__close(s, &l);
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

int server_listen_tcp(struct server *s, const char *address, bool exact, struct err *e)
{
    union address a = {.any.sa_family = AF_UNSPEC};
    struct listener *l;
    if (s->tcp_listener != NULL) {
        return err_set(e, UV_EALREADY, "already listening on %s", s->tcp_address);
    }
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
    rc = try_listen(s, &a, &l);
    if (rc == UV_EADDRINUSE && !exact) {
        *(a.any.sa_family == AF_INET6 ? &a.v6.sin6_port : &a.v4.sin_port) = 0;
        rc = try_listen(s, &a, &l);
    }
    if (rc < 0) {
        return err_set(e, rc, "cannot listen on '%s': %s", address, uv_strerror(rc));
    }
    s->tcp_listener = l;
    note_address(s, l);
    door__listen(s, false, &l->io.handle);
    return 0;
}

const char *server_tcp_address(const struct server *s)
{
    return s->tcp_address;
}
