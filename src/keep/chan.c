// A framed connection over a Unix socket.
//
// One write is under way at a time; what is sent meanwhile waits in `queue` and leaves with the next. How
// much may wait is the owner's business (chan_unsent()).

#include "keep/chan.h"

#include <assert.h>
#include <unistd.h>

struct chan {
    uv_pipe_t pipe;
    uv_write_t request;
    struct wire wire;
    struct buf sending, queue;
    bool writing, closed, ended, paused;
    const struct chan_cb *cb;
    void *arg;
};

static char read_bytes[64 * 1024]; // of all connections: copied before the next read

static void on_closed(uv_handle_t *h)
{
    struct chan *c = container_of((uv_pipe_t *)(void *)h, struct chan, pipe);
    wire_fini(&c->wire);
    buf_fini(&c->sending);
    buf_fini(&c->queue);
    free(c);
}

static void end(struct chan *c)
{
    if (!c->closed && !c->ended) {
        c->ended = true;
        uv_read_stop((uv_stream_t *)&c->pipe);
        c->cb->on_end(c, c->arg);
    }
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *out)
{
    (void)h;
    (void)size;
    *out = uv_buf_init(read_bytes, sizeof read_bytes);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *bytes)
{
    struct chan *c = container_of((uv_pipe_t *)(void *)s, struct chan, pipe);
    struct wire_msg m;
    if (n < 0) {
        end(c);
        return;
    }
    wire_feed(&c->wire, (struct str){bytes->base, (size_t)n});
    int rc = 0;
    while (!c->closed && !c->ended && (rc = wire_next(&c->wire, &m)) > 0) {
        c->cb->on_msg(c, &m, c->arg); // the memory stays until the loop's next turn
    }
    if (rc < 0) {
        end(c);
    }
}

static void flush(struct chan *c);

static void on_written(uv_write_t *r, int status)
{
    struct chan *c = container_of(r, struct chan, request);
    c->writing = false;
    buf_clear(&c->sending);
    if (c->closed) {
        return;
    }
    if (status < 0) {
        end(c);
        return;
    }
    flush(c);
    if (!c->writing && c->cb->on_drain != NULL) {
        c->cb->on_drain(c, c->arg);
    }
}

static void flush(struct chan *c)
{
    if (c->writing || c->closed || c->queue.n == 0) {
        return;
    }
    struct buf b = c->sending;
    c->sending = c->queue;
    c->queue = b;
    uv_buf_t bytes = uv_buf_init(c->sending.p, (unsigned)c->sending.n);
    c->writing = uv_write(&c->request, (uv_stream_t *)&c->pipe, &bytes, 1, on_written) == 0;
}

int chan_open(struct chan **out, struct loop *l, int fd, size_t max, const struct chan_cb *cb,
              void *arg, struct err *e)
{
    struct chan *c = xcalloc(1, sizeof *c);
    c->cb = cb;
    c->arg = arg;
    wire_init(&c->wire, max);
    buf_init(&c->sending, SIZE_MAX);
    buf_init(&c->queue, SIZE_MAX);
    uv_pipe_init(&l->uv, &c->pipe, 0);
    int rc = uv_pipe_open(&c->pipe, fd);
    if (rc == 0) {
        rc = uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read);
    } else {
        close(fd);
    }
    if (rc < 0) {
        c->closed = true;
        uv_close((uv_handle_t *)&c->pipe, on_closed);
        *out = NULL;
        return err_set(e, rc, "cannot use a connection: %s", uv_strerror(rc));
    }
    *out = c;
    return 0;
}

void chan_send(struct chan *c, enum wire_type type, struct str a, struct str b)
{
    assert(!c->closed);
    if (!c->ended) {
        wire_add(&c->queue, type, a, b);
        flush(c);
    }
}

void chan_hello(struct chan *c, enum wire_role role)
{
    assert(!c->closed);
    wire_add_hello(&c->queue, role);
    flush(c);
}

void chan_attach(struct chan *c, int64_t offset, uint32_t history, uint16_t rows, uint16_t cols)
{
    struct buf attach = {.max = 32};
    chan_hello(c, WIRE_VIEWER);
    wire_put(&attach, offset >= 0, 1);
    wire_put(&attach, (uint64_t)MAX(offset, 0), 8);
    wire_put(&attach, history, 4);
    wire_put(&attach, rows, 2);
    wire_put(&attach, cols, 2);
    chan_send(c, WIRE_ATTACH, buf_str(&attach), STR_NULL);
    buf_fini(&attach);
}

void chan_resize(struct chan *c, uint16_t rows, uint16_t cols)
{
    struct buf size = {.max = 16};
    wire_put(&size, rows, 2);
    wire_put(&size, cols, 2);
    chan_send(c, WIRE_RESIZE, buf_str(&size), STR_NULL);
    buf_fini(&size);
}

size_t chan_unsent(const struct chan *c)
{
    return c->sending.n + c->queue.n;
}

void chan_pause(struct chan *c, bool paused)
{
    if (paused == c->paused || c->closed || c->ended) {
        return;
    }
    c->paused = paused;
    if (paused) {
        uv_read_stop((uv_stream_t *)&c->pipe);
    } else {
        uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read);
    }
}

void chan_close(struct chan *c)
{
    if (c != NULL && !c->closed) {
        c->closed = true;
        uv_close((uv_handle_t *)&c->pipe, on_closed);
    }
}
