// The hub's standard streams, so that using them never stops the loop.
//
// Plugins have Lua's `io`: io.read() would wait for the terminal that the hub was started from, io.write() for
// a reader of the hub's output, and the whole hub would wait too. So standard input is empty, and output that
// does not fit into the pipe at once is an error for the plugin that writes.
//
// Only the C library's streams are replaced. The descriptors stay as they are: setting O_NONBLOCK on them
// would set it for the shell that started us too, and a crash report goes there directly.

#include "base/streams.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/// A pipe that is ready takes PIPE_BUF bytes without waiting, never less.
static ssize_t put(void *cookie, const char *bytes, size_t n)
{
    struct pollfd p = {.fd = (int)(intptr_t)cookie, .events = POLLOUT};
    size_t done = 0;
    while (done < n && poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0) {
        ssize_t w = write(p.fd, bytes + done, n - done < PIPE_BUF ? n - done : PIPE_BUF);
        if (w <= 0) {
            return (ssize_t)done;
        }
        done += (size_t)w;
    }
    if (done < n) {
        errno = EAGAIN;
    }
    return (ssize_t)done;
}

static FILE *open_stream(int fd, FILE *before)
{
    FILE *f = fopencookie((void *)(intptr_t)fd, "w", (cookie_io_functions_t){.write = put});
    return f != NULL ? f : before;
}

void streams_own(void)
{
    fflush(NULL);
    stdout = open_stream(STDOUT_FILENO, stdout);
    stderr = open_stream(STDERR_FILENO, stderr);
    setvbuf(stderr, NULL, _IONBF, 0);
    if (freopen("/dev/null", "re", stdin) == NULL) {
        fclose(stdin); // reading fails then, and does not wait either
    }
}
