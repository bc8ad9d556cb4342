// One HTTP exchange of the stdio bridge, without waiting.

#include <errno.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bridge/bridge_int.h"
#include "client/client.h"
#include "client/dial.h"
#include "client/interrupt.h"

enum { CHUNK = 64 << 10, DIAL_MS = 2000 };

static int on_event(void *arg, const struct sse_event *ev)
{
    struct wire *w = arg;
    if (ev->data.n != 0) {
        w->message(w, ev->data);
    }
    return 0;
}

static int on_body(void *arg, struct str bytes)
{
    struct wire *w = arg;
    if (w->stream) {
        return sse_feed(&w->sse, bytes, NULL);
    }
    buf_adds(&w->body, bytes);
    return buf_ok(&w->body) ? 0 : ERR_TOO_LARGE;
}

static void on_head(struct wire *w)
{
    struct str type = http1_get(&w->http, "Content-Type"),
               id = http1_get(&w->http, "Mcp-Session-Id");
    struct str name = str_trim(str_cut(&type, ';'));
    w->status = w->http.status;
    w->stream = w->status / 100 == 2 && str_caseeqz(name, "text/event-stream");
    w->json = str_caseeqz(name, "application/json");
    snprintf(w->session, sizeof w->session, STR_FMT, STR_ARG(id));
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
    buf_init(&w->body, CLIENT_BODY_MAX);
    http1_init(&w->http, HTTP1_RESPONSE, NULL, on_body, w);
    sse_init(&w->sse, CLIENT_EVENT_MAX, on_event, w);
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
    sse_fini(&w->sse);
    http1_fini(&w->http);
    buf_fini(&w->out);
    buf_fini(&w->body);
    arena_fini(&w->arena);
    free(w->line);
    free(w);
}

static int take(struct wire *w, struct str bytes)
{
    while (bytes.n != 0) {
        enum http1_state before = w->http.state;
        if (http1_feed(&w->http, &bytes, NULL) < 0) {
            return -EPROTO;
        }
        if (before == HTTP1_HEAD && w->http.state != HTTP1_HEAD) {
            on_head(w);
        }
        if (w->http.state == HTTP1_END) {
            return 1;
        }
    }
    return 0;
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
        return w->status != 0 && http1_finish(&w->http, NULL) == 0 ? 1 : -ECONNRESET;
    }
    return take(w, (struct str){chunk, (size_t)n});
}

short wire__events(const struct wire *w)
{
    return (short)(POLLIN | (w->out.n != 0 ? POLLOUT : 0));
}
