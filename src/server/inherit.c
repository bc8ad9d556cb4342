// A socket that the hub inherits from the program that started it: systemd's socket activation.
//
// The unit afloat.socket listens from login on, and the first connection starts the hub with the listening
// socket as descriptor 3. It belongs to systemd: the hub accepts on it and never removes its file, so that the next
// connection after a stop starts the next hub. Environment: LISTEN_PID is ours, LISTEN_FDS how many there are.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "server/server_int.h"

enum { FIRST = 3, MOST = 16 };

/// Is `fd` a Unix socket that listens at `path`?
static bool listens_at(int fd, const char *path)
{
    struct sockaddr_un addr = {0};
    socklen_t n = sizeof addr, size = sizeof(int);
    int listens = 0;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
           getsockname(fd, (struct sockaddr *)(void *)&addr, &n) == 0 &&
           addr.sun_family == AF_UNIX && strncmp(addr.sun_path, path, sizeof addr.sun_path) == 0;
}

/// A number in the environment; 0 when the variable is not set.
static long number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : 0;
}

int inherit__socket(const char *path)
{
    long n = number("LISTEN_PID") == (long)getpid() ? MIN(number("LISTEN_FDS"), MOST) : 0;
    int found = -1;
    for (int fd = FIRST; fd < FIRST + n; fd++) {
        fcntl(fd, F_SETFD, FD_CLOEXEC); // not for the programs that the hub starts
        if (found < 0 && listens_at(fd, path)) {
            found = fd;
        }
    }
    if (n > 0 && found < 0) {
        log_warn(LOG_HUB, "socket=passed-over path=%s; the unit listens elsewhere",
                 LOGQ(str_of(path)).z);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return found;
}
