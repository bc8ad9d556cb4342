// One request, one answer, over a connection of its own.
//
//     request text ── send ──> hub ── recv ──> http1 ──┬─> answer.body
//                                                      └─> sse ──> callback, event by event
//
// A connection to a Unix socket costs some twenty microseconds, so none is kept: there is no state
// between calls, and a hub that was restarted in the meantime is no special case.
//
// A refusal may arrive while a large body is still being sent. Then sending ends: the hub does not
// want the rest.

#include "client/client.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "client/client_int.h"
#include "client/dial.h"
#include "client/incoming.h"
#include "client/interrupt.h"

enum { HEAD_MAX = 64 << 10, CHUNK = 64 << 10 };

struct exchange {
    const struct client_request *r;
    struct client_answer *a;
    client_event_cb *cb; // NULL: streams are taken as plain bodies
    void *arg;
    int fd;
    uint64_t deadline; // pushed back by every sign of life once the answer is a stream
    struct incoming in;
    struct err *e;
};

// ---- what goes out -------------------------------------------------------------------------

static bool plain(const char *z, char lowest)
{
    for (; *z != '\0'; z++) {
        if ((unsigned char)*z < (unsigned char)lowest || *z == 0x7F) {
            return false;
        }
    }
    return true;
}

// Nothing a caller passes on may become a header or a request of its own.
static int check_request(const struct client_request *r, struct err *e)
{
    for (const char *p = r->method; *p != '\0' || p == r->method; p++) {
        if (*p < 'A' || *p > 'Z') {
            return err_set(e, ERR_INVALID, "'%s' is not a method", r->method);
        }
    }
    if (r->path[0] != '/' || !plain(r->path, '!')) {
        return err_set(e, ERR_INVALID, "'%s' is not a path: it begins with / and has no blanks",
                       r->path);
    }
    for (size_t i = 0; r->headers != NULL && r->headers[i] != NULL; i++) {
        if (strchr(r->headers[i], ':') == NULL || !plain(r->headers[i], ' ')) {
            return err_set(e, ERR_INVALID, "'%s' is not a header: it reads 'Name: value'",
                           r->headers[i]);
        }
    }
    return 0;
}

static bool has_header(const struct client_request *r, const char *name)
{
    for (size_t i = 0; r->headers != NULL && r->headers[i] != NULL; i++) {
        struct str rest = str_of(r->headers[i]);
        if (str_caseeqz(str_cut(&rest, ':'), name)) {
            return true;
        }
    }
    return false;
}

static void write_head(struct buf *out, const struct client_peer *to,
                       const struct client_request *r)
{
    buf_addf(out, "%s %s HTTP/1.1\r\n", r->method, r->path);
    if (!has_header(r, "Host")) {
        buf_addf(out, "Host: %s\r\n", to->tcp != NULL ? to->tcp : "afloat");
    }
    if (!has_header(r, "Accept")) {
        buf_addf(out, "Accept: %s\r\n", r->accept != NULL ? r->accept : "application/json");
    }
    if (r->body.n != 0 && !has_header(r, "Content-Type")) {
        buf_addz(out, "Content-Type: application/json\r\n");
    }
    if (r->body.n != 0 || strcmp(r->method, "GET") != 0) {
        buf_addf(out, "Content-Length: %zu\r\n", r->body.n);
    }
    for (size_t i = 0; r->headers != NULL && r->headers[i] != NULL; i++) {
        buf_addf(out, "%s\r\n", r->headers[i]);
    }
    buf_addz(out, "Connection: close\r\n\r\n");
}

// Wait for the connection, and for what `watch` waits for. Returns the connection's events, or a
// negative code.
static int wait_for(struct exchange *x, short events)
{
    struct client_watch none = {.fds = {{.fd = -1}, {.fd = -1}}};
    struct client_watch *w = x->r->watch != NULL ? x->r->watch : &none;
    for (;;) {
        struct pollfd p[] = {{.fd = x->fd, .events = events}, w->fds[0], w->fds[1]};
        bool due = w->due_ns != 0 && w->due_ns < x->deadline;
        int rc = interrupt_wait(p, ARRAY_LEN(p), due ? w->due_ns : x->deadline);
        if (rc < 0) {
            return err_set(x->e, rc, "interrupted");
        }
        if (rc == 0 && !due) {
            return incoming_late(&x->in);
        }
        w->fds[0].revents = p[1].revents;
        w->fds[1].revents = p[2].revents;
        bool ready = p[1].revents != 0 || p[2].revents != 0;
        bool late = due && time_mono_ns() >= w->due_ns; // also when the hub never pauses
        int stop = late || ready ? w->run(w) : 0;
        assert(stop <= 0);
        if (stop != 0) {
            return err_set(x->e, stop, "interrupted by another event");
        }
        if (p[0].revents != 0) {
            return p[0].revents;
        }
    }
}

static int send_all(struct exchange *x, struct str bytes)
{
    while (bytes.n != 0) {
        ssize_t n = send(x->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (n >= 0) {
            bytes = str_from(bytes, (size_t)n);
        } else if (errno == EAGAIN) {
            int rc = wait_for(x, POLLIN | POLLOUT);
            if (rc < 0 || (rc & POLLIN) != 0) {
                return rc < 0 ? rc : 0;
            }
        } else if (errno != EINTR) {
            return 0; // the hub has closed: its answer can still be read
        }
    }
    return 0;
}

// ---- what comes in -------------------------------------------------------------------------

static int take_some(struct exchange *x, char *chunk)
{
    int rc = wait_for(x, POLLIN);
    if (rc < 0) {
        return rc;
    }
    ssize_t n = recv(x->fd, chunk, CHUNK, 0);
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR
                   ? 0
                   : err_set(x->e, -ECONNRESET, "the connection to the hub broke: %s",
                             err_text(-errno));
    }
    if (n == 0) {
        return incoming_end(&x->in);
    }
    rc = incoming_take(&x->in, (struct str){chunk, (size_t)n});
    if (x->in.streaming) {
        x->deadline = interrupt_deadline(CLIENT_SILENCE_MS);
    }
    return rc;
}

static int take_answer(struct exchange *x)
{
    char *chunk = xmalloc(CHUNK);
    int rc = 0;
    while (rc == 0) {
        rc = take_some(x, chunk);
    }
    free(chunk);
    return x->in.stopped != 0 ? x->in.stopped : MIN(rc, 0);
}

int client__write_head(struct buf *out, const struct client_peer *to,
                       const struct client_request *r, struct err *e)
{
    int rc = check_request(r, e);
    if (rc == 0) {
        buf_init(out, HEAD_MAX);
        write_head(out, to, r);
        rc = buf_ok(out) ? 0 : err_set(e, ERR_INVALID, "the request's head is too large");
        if (rc < 0) {
            buf_fini(out);
        }
    }
    return rc;
}

static int talk(struct exchange *x, struct buf *head)
{
    int rc = send_all(x, buf_str(head));
    if (rc == 0) {
        rc = send_all(x, x->r->body);
    }
    return rc < 0 ? rc : take_answer(x);
}

static int run(struct exchange *x, const struct client_peer *to)
{
    struct buf head;
    int rc = client__write_head(&head, to, x->r, x->e);
    if (rc < 0) {
        return rc;
    }
    buf_clear(&x->a->body);
    x->deadline = interrupt_deadline(x->r->timeout_ms != 0 ? x->r->timeout_ms : CLIENT_TIMEOUT_MS);
    x->fd = to->tcp != NULL ? dial_tcp(to->tcp, x->deadline, x->e)
                            : dial_unix(to->socket, x->deadline, x->e);
    if (x->fd < 0) {
        buf_fini(&head);
        return x->fd;
    }
    incoming_init(&x->in, x->r->method, x->a, x->cb, x->arg, x->e);
    rc = talk(x, &head);
    buf_fini(&head);
    incoming_fini(&x->in);
    close(x->fd);
    return rc;
}

// ---- public --------------------------------------------------------------------------------

void client_answer_init(struct client_answer *a)
{
    *a = (struct client_answer){0};
    buf_init(&a->body, CLIENT_BODY_MAX);
}

void client_answer_fini(struct client_answer *a)
{
    buf_fini(&a->body);
}

int client_call(const struct client_peer *to, const struct client_request *r,
                struct client_answer *a, struct err *e)
{
    struct err own = {0};
    struct exchange x = {.r = r, .a = a, .e = e != NULL ? e : &own};
    return run(&x, to);
}

int client_stream(const struct client_peer *to, const struct client_request *r,
                  struct client_answer *a, client_event_cb *cb, void *arg, struct err *e)
{
    struct err own = {0};
    struct exchange x = {.r = r, .a = a, .cb = cb, .arg = arg, .e = e != NULL ? e : &own};
    return run(&x, to);
}
