// Lines over a socket.
//
//     read ──> in: [ line \n line \n rest ] ──> on_line, on_line;  the rest moves to the front
//
// A line that does not end within the limit ends the wire: its sender is broken, or wants to fill our
// memory. Sending tries the socket first, since that of a host that waits for work is empty: the usual
// call costs one system call and no allocation.
//
// Invariants:
//   - `in` holds no newline before `scanned`.
//   - once `closed`, no callback runs; the struct goes with the pipe's close callback.

#include "plugin/host_wire.h"

#include <unistd.h>

#include "proto/host.h"

enum { READ_SIZE = 64 * 1024 };

struct host_wire {
    uv_pipe_t pipe;
    struct host_wire_cb cb;
    void *arg; // borrowed
    struct buf in;
    size_t scanned;
    bool closed;
};

struct pending {
    uv_write_t req;
    char bytes[];
};

static void on_closed(uv_handle_t *h)
{
    struct host_wire *w = container_of((uv_pipe_t *)h, struct host_wire, pipe);
    buf_fini(&w->in);
    free(w);
}

static void end(struct host_wire *w, int status)
{
    uv_read_stop((uv_stream_t *)&w->pipe);
    w->cb.on_end(w->arg, status);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    struct host_wire *w = container_of((uv_pipe_t *)h, struct host_wire, pipe);
    (void)suggested;
    char *room = buf_reserve(&w->in, READ_SIZE); // there is room: on_read() sees to it
    *out = uv_buf_init(room, room != NULL ? READ_SIZE : 0);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *read)
{
    struct host_wire *w = container_of((uv_pipe_t *)s, struct host_wire, pipe);
    (void)read;
    if (n < 0) {
        end(w, n == UV_EOF || n == UV_ECONNRESET ? 0 : (int)n);
        return;
    }
    buf_grow(&w->in, (size_t)n);
    size_t begin = 0;
    const char *newline;
    while (!w->closed && w->scanned < w->in.n &&
           (newline = memchr(w->in.p + w->scanned, '\n', w->in.n - w->scanned)) != NULL) {
        size_t at = (size_t)(newline - w->in.p);
        w->scanned = at + 1;
        w->cb.on_line(w->arg, (struct str){w->in.p + begin, at - begin});
        begin = at + 1;
    }
    buf_drop(&w->in, begin);
    w->scanned = w->in.n;
    if (!w->closed && w->in.n > HOST_LINE_MAX) {
        end(w, ERR_TOO_LARGE);
    }
}

static void on_written(uv_write_t *req, int status)
{
    (void)status; // a peer that left shows in on_read()
    free(container_of(req, struct pending, req));
}

int host_wire_open(struct host_wire **out, struct loop *l, int fd, const struct host_wire_cb *cb,
                   void *arg, struct err *e)
{
    *out = NULL;
    struct host_wire *w = xcalloc(1, sizeof *w);
    w->cb = *cb;
    w->arg = arg;
    buf_init(&w->in, HOST_LINE_MAX + 2 * READ_SIZE);
    uv_pipe_init(&l->uv, &w->pipe, 0); // cannot fail
    int rc = uv_pipe_open(&w->pipe, fd);
    if (rc == 0) {
        rc = uv_read_start((uv_stream_t *)&w->pipe, on_alloc, on_read);
    } else {
        close(fd);
    }
    if (rc < 0) {
        host_wire_close(w);
        return err_set(e, rc, "cannot use a host's socket: %s", uv_strerror(rc));
    }
    *out = w;
    return 0;
}

int host_wire_send(struct host_wire *w, struct str bytes, size_t max_unread)
{
    size_t waiting = uv_stream_get_write_queue_size((uv_stream_t *)&w->pipe);
    if (waiting > max_unread) {
        return UV_ENOBUFS;
    }
    uv_buf_t buf = {.base = (char *)(uintptr_t)bytes.p, .len = bytes.n};
    int n = uv_try_write((uv_stream_t *)&w->pipe, &buf, 1);
    if (n < 0 && n != UV_EAGAIN) {
        return n;
    }
    struct str rest = str_from(bytes, n > 0 ? (size_t)n : 0);
    if (rest.n == 0) {
        return 0;
    }
    struct pending *p = xmalloc(sizeof *p + rest.n); // what the socket did not take at once
    memcpy(p->bytes, rest.p, rest.n);
    buf = uv_buf_init(p->bytes, (unsigned)rest.n);
    int rc = uv_write(&p->req, (uv_stream_t *)&w->pipe, &buf, 1, on_written);
    if (rc < 0) {
        free(p);
    }
    return rc;
}

void host_wire_close(struct host_wire *w)
{
    if (w != NULL && !w->closed) {
        w->closed = true;
        uv_close((uv_handle_t *)&w->pipe, on_closed);
    }
}
