// Unix sockets of keepers. A path that is too long for an address is reached through a descriptor of its
// directory.

#include "keep/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/// The address of `path`. `*dir` is a descriptor to close afterwards, or -1.
static int address_of(const char *path, struct sockaddr_un *a, int *dir, struct err *e)
{
    const char *slash = strrchr(path, '/');
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    *dir = -1;
    if (strlen(path) < sizeof a->sun_path) {
        memcpy(a->sun_path, path, strlen(path));
        return 0;
    }
    char *parent = xstrndup(path, slash != NULL ? (size_t)(slash - path) : 0);
    *dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc = *dir < 0 ? err_sys(e, "cannot open '%s'", parent) : 0;
    free(parent);
    int n = snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d%s", *dir, slash);
    return rc == 0 && (size_t)n >= sizeof a->sun_path
               ? err_set(e, -ENAMETOOLONG, "the name of '%s' is too long for a socket", path)
               : rc;
}

static int open_at(const char *path, int (*attach)(int, const struct sockaddr *, socklen_t),
                   const char *what, struct err *e)
{
    struct sockaddr_un a;
    int dir = -1, fd = -1;
    int rc = address_of(path, &a, &dir, e);
    if (rc == 0) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        // the mode of a socket is what bind gives its file
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

int sock_listen(const char *path, struct err *e)
{
    int fd = open_at(path, bind, "bind", e);
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
