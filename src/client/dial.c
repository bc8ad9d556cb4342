// Connections that can be waited for and given up.

#include "client/dial.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sock.h"
#include "base/str.h"
#include "client/interrupt.h"

enum { RETRY_MS = 5 };

static int unreachable(struct err *e, const char *where, int code)
{
    return err_set(e, ERR_UNREACHABLE, "cannot connect to '%s': %s", where, err_text(code));
}

// While the queue of a Unix socket is full, connect() fails at once: there is nothing to poll for.
static int connect_retrying(int fd, const struct sockaddr_un *sa, uint64_t deadline_ns)
{
    while (connect(fd, (const struct sockaddr *)sa, sizeof *sa) < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
        int rc = interrupt_pause(RETRY_MS);
        if (rc < 0) {
            return rc;
        }
        if (interrupt_deadline(0) >= deadline_ns) {
            return ERR_TIMEOUT;
        }
    }
    return 0;
}

static int dial_sockaddr(const struct sockaddr_un *sa, const char *path, uint64_t deadline_ns,
                         struct err *e)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_sys(e, "cannot create a socket");
    }
    int rc = connect_retrying(fd, sa, deadline_ns);
    if (rc == 0) {
        return fd;
    }
    close(fd);
    if (rc == ERR_TIMEOUT) {
        return err_set(e, rc, "timed out connecting to '%s'", path);
    }
    if (rc == -EINTR) {
        return err_set(e, rc, "interrupted");
    }
    return unreachable(e, path, rc);
}

int dial_unix(const char *path, uint64_t deadline_ns, struct err *e)
{
    struct sockaddr_un sa;
    int dir, rc = sock_address(&sa, path, &dir, e);
    if (rc == 0) {
        rc = dial_sockaddr(&sa, path, deadline_ns, e);
    } else if (rc != -ENAMETOOLONG) { // its directory cannot be entered
        rc = unreachable(e, path, rc);
    }
    if (dir >= 0) {
        close(dir);
    }
    return rc;
}

// ---- TCP -----------------------------------------------------------------------------------

static int resolve(struct addrinfo **out, const char *address, struct err *e)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address || colon[1] == '\0') {
        return err_set(e, ERR_INVALID, "'%s' is not HOST:PORT", address);
    }
    struct str host = {address, (size_t)(colon - address)};
    if (str_starts(host, "[") && str_ends(host, "]")) {
        host = (struct str){host.p + 1, host.n - 2};
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    char *name = str_dup(str_eqz(host, "localhost") ? STR("127.0.0.1") : host);
    int rc = getaddrinfo(name, colon + 1, &hints, out);
    free(name);
    return rc == 0
               ? 0
               : err_set(e, ERR_INVALID, "'%s' is not an address: %s", address, gai_strerror(rc));
}

static int finish_connect(int fd, const char *address, uint64_t deadline_ns, struct err *e)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int rc = interrupt_wait(&p, 1, deadline_ns);
    if (rc < 0) {
        return err_set(e, rc, "interrupted");
    }
    if (rc == 0) {
        return err_set(e, ERR_TIMEOUT, "timed out connecting to '%s'", address);
    }
    int fault = 0;
    socklen_t n = sizeof fault;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &n);
    return fault == 0 ? 0 : unreachable(e, address, -fault);
}

int dial_tcp(const char *address, uint64_t deadline_ns, struct err *e)
{
    struct addrinfo *ai = NULL;
    int rc = resolve(&ai, address, e);
    if (rc < 0) {
        return rc;
    }
    assert(ai != NULL);
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        rc = err_sys(e, "cannot create a socket");
    } else if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0) {
        rc = errno == EINPROGRESS ? finish_connect(fd, address, deadline_ns, e)
                                  : unreachable(e, address, -errno);
    }
    freeaddrinfo(ai);
    if (rc < 0 && fd >= 0) {
        close(fd);
    }
    return rc < 0 ? rc : fd;
}
