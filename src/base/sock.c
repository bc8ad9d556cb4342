// Unix sockets. A path that is too long for an address is reached through a descriptor of its directory, as
// /proc/self/fd/N/NAME.
//
// The file of a socket must never be reachable by others, not even between its creation and a chmod: on Linux the
// mode of a socket's descriptor is what bind(2) gives its file, so it is set before.

#include "base/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int sock_address(struct sockaddr_un *out, const char *path, int *dir, struct err *e)
{
    const char *slash = strrchr(path, '/');
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    *dir = -1;
    if (strlen(path) < sizeof out->sun_path) {
        memcpy(out->sun_path, path, strlen(path));
        return 0;
    }
    if (slash != NULL) {
        char *parent = xstrndup(path, (size_t)(slash - path));
        *dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int rc = *dir < 0 ? err_sys(e, "cannot open '%s'", parent) : 0;
        free(parent);
        if (rc < 0) {
            return rc;
        }
    }
    int n = snprintf(out->sun_path, sizeof out->sun_path, "/proc/self/fd/%d%s", *dir,
                     slash != NULL ? slash : path);
    return (size_t)n >= sizeof out->sun_path
               ? err_set(e, -ENAMETOOLONG, "the name '%s' is too long for a socket",
                         slash != NULL ? slash + 1 : path)
               : 0;
}

static int open_at(const char *path, int (*attach)(int, const struct sockaddr *, socklen_t),
                   const char *what, struct err *e)
{
    struct sockaddr_un a;
    int dir = -1, fd = -1;
    int rc = sock_address(&a, path, &dir, e);
    if (rc == 0) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || fchmod(fd, 0600) != 0 ||
            attach(fd, (const struct sockaddr *)(const void *)&a, sizeof a) != 0) {
            rc = err_sys(e, "cannot %s '%s'", what, path);
        }
    }
    if (dir >= 0) {
        close(dir);
    }
    if (rc < 0 && fd >= 0) {
        close(fd);
    }
    return rc < 0 ? rc : fd;
}

int sock_bind(const char *path, struct err *e)
{
    return open_at(path, bind, "bind", e);
}

int sock_listen(const char *path, struct err *e)
{
    int fd = sock_bind(path, e);
    if (fd >= 0 && listen(fd, 64) != 0) {
        int rc = err_sys(e, "cannot listen on '%s'", path);
        close(fd);
        return rc;
    }
    return fd;
}

int sock_connect(const char *path, struct err *e)
{
    return open_at(path, connect, "connect to", e);
}

bool sock_is_ours(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}
