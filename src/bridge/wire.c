// One HTTP exchange of the stdio bridge, without waiting.

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bridge/bridge_int.h"
#include "client/dial.h"
#include "client/interrupt.h"

enum { CHUNK = 64 << 10, DIAL_MS = 2000 };

static int on_event(const struct client_event *ev, void *arg)
{
    struct wire *w = arg;
    if (ev->data.n != 0) {
        w->message(w, ev->data);
    }
    return 0;
}

struct wire *wire__open(const char *address, const char *method, const char *headers,
                        struct str body)
{
    uint64_t deadline = interrupt_deadline(DIAL_MS);
    int fd =
        address[0] == '/' ? dial_unix(address, deadline, NULL) : dial_tcp(address, deadline, NULL);
    if (fd < 0) {
        return NULL;
    }
    struct wire *w = xcalloc(1, sizeof *w);
    w->fd = fd;
    buf_init(&w->out, SIZE_MAX);
    client_answer_init(&w->answer);
    incoming_init(&w->in, method, &w->answer, on_event, w, &w->fault);
    buf_addf(&w->out, "%s /mcp HTTP/1.1\r\nHost: afloat\r\nConnection: close\r\n%s", method,
             headers);
    if (body.n != 0) {
        buf_addf(&w->out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body.n);
    }
    buf_addz(&w->out, "\r\n");
    buf_adds(&w->out, body);
    return w;
}

void wire__free(struct wire *w)
{
    close(w->fd);
    incoming_fini(&w->in);
    client_answer_fini(&w->answer);
    buf_fini(&w->out);
    arena_fini(&w->arena);
    free(w->line);
    free(w);
}

int wire__run(struct wire *w, short events)
{
    char chunk[CHUNK];
    if ((events & POLLOUT) != 0 && w->out.n != 0) {
        ssize_t n = send(w->fd, w->out.p, w->out.n, MSG_NOSIGNAL);
        if (n > 0) {
            buf_drop(&w->out, (size_t)n);
        } else if (n < 0 && errno != EAGAIN && errno != EINTR && errno != EPIPE) {
            return -errno;
        }
    }
    if ((events & (POLLIN | POLLHUP | POLLERR)) == 0) {
        return 0;
    }
    ssize_t n = recv(w->fd, chunk, sizeof chunk, 0);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    }
    if (n == 0) {
        return incoming_end(&w->in);
    }
    return incoming_take(&w->in, (struct str){chunk, (size_t)n});
}

short wire__events(const struct wire *w)
{
    return (short)(POLLIN | (w->out.n != 0 ? POLLOUT : 0));
}
