// The standard streams of a child: real pipes, not the sockets that libuv would make, because
// programs open /dev/stdin and ask what kind of file they were given.
//
// Reading uses one buffer for all children: libuv fills it and calls us at once, and on_output may
// keep nothing of it. Writing keeps a copy of what did not fit into the pipe.
//
// Invariants:
//   - a stream is read exactly while it is open and the proc is not paused.
//   - the end of a stream is delivered once, as the last thing, while it is still open.

#include <errno.h>
#include <unistd.h>

#include "loop/proc_int.h"

enum {
    READ_SIZE = 64 << 10,
    DRAIN_MAX = 1 << 20, // the largest pipe an ordinary user can make
    QUEUE_MAX = 16 << 20
};

static char read_buf[READ_SIZE]; // shared by all children; the loop thread's

struct write_req {
    uv_write_t req;
    struct proc_stream *s;
    char bytes[];
};

static void deliver(struct proc_stream *s, struct str bytes)
{
    struct proc *p = s->proc;
    if (p->cb.on_output != NULL) {
        p->cb.on_output(p, s->which, bytes, p->arg);
    }
}

static void end(struct proc_stream *s)
{
    deliver(s, STR_NULL);
    proc__stream_close(s);
    proc__kick(s->proc);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    (void)h;
    (void)suggested;
    *buf = uv_buf_init(read_buf, sizeof read_buf);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct proc_stream *s = container_of(stream, struct proc_stream, pipe);
    if (n > 0) {
        deliver(s, (struct str){buf->base, (size_t)n});
    } else if (n < 0) {
        end(s);
    }
}

static void on_written(uv_write_t *req, int status)
{
    struct write_req *w = container_of(req, struct write_req, req);
    struct proc_stream *s = w->s;
    free(w);
    bool all = s->ending && uv_stream_get_write_queue_size((uv_stream_t *)&s->pipe) == 0;
    if (status < 0 || all) {
        proc__stream_close(s);
    }
}

static int pipe_open(struct proc *p, struct proc_stream *s, int *child_fd)
{
    int fds[2];
    bool in = s->which == 0;
    int rc = uv_pipe(fds, in ? 0 : UV_NONBLOCK_PIPE, in ? UV_NONBLOCK_PIPE : 0);
    if (rc < 0) {
        return rc;
    }
    *child_fd = in ? fds[0] : fds[1];
    uv_pipe_init(&p->loop->uv, &s->pipe, 0);
    proc__adopt(p, (uv_handle_t *)&s->pipe);
    s->open = true;
    rc = uv_pipe_open(&s->pipe, in ? fds[1] : fds[0]);
    if (rc < 0) {
        close(in ? fds[1] : fds[0]);
    }
    return rc;
}

int proc__stream_open(struct proc *p, struct proc_stream *s, int which, enum proc_stdio kind,
                      int fd, uv_stdio_container_t *c, int *child_fd)
{
    int rc = 0;
    s->proc = p;
    s->which = which;
    *child_fd = -1;
    if (kind == PROC_NULL) {
        c->flags = UV_IGNORE;
        return 0;
    }
    if (kind == PROC_PIPE) {
        rc = pipe_open(p, s, child_fd);
        fd = *child_fd;
    }
    c->flags = UV_INHERIT_FD;
    c->data.fd = kind == PROC_INHERIT ? which : fd;
    return rc;
}

void proc__stream_read(struct proc_stream *s, bool on)
{
    if (!s->open || s->which == 0) {
        return;
    }
    if (!on) {
        uv_read_stop((uv_stream_t *)&s->pipe);
    } else if (uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read) < 0) {
        end(s);
    }
}

void proc__stream_drain(struct proc_stream *s)
{
    uv_os_fd_t fd;
    size_t total = 0;
    if (!s->open || uv_fileno((uv_handle_t *)&s->pipe, &fd) < 0) {
        return;
    }
    proc__stream_read(s, false);
    while (!s->proc->paused && total < DRAIN_MAX) {
        ssize_t n = read(fd, read_buf, sizeof read_buf);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        total += (size_t)n;
        deliver(s, (struct str){read_buf, (size_t)n});
    }
    if (!s->proc->paused) {
        end(s);
    }
}

void proc__stream_close(struct proc_stream *s)
{
    if (s->open) {
        s->open = false;
        proc__drop((uv_handle_t *)&s->pipe);
    }
}

int proc_write(struct proc *p, struct str bytes)
{
    struct proc_stream *s = &p->in;
    if (!s->open || s->ending || bytes.n == 0) {
        return 0;
    }
    size_t queued = uv_stream_get_write_queue_size((uv_stream_t *)&s->pipe);
    if (bytes.n > QUEUE_MAX - queued) {
        return UV_ENOBUFS;
    }
    struct write_req *w = xmalloc(sizeof *w + bytes.n);
    w->s = s;
    memcpy(w->bytes, bytes.p, bytes.n);
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)bytes.n);
    if (uv_write(&w->req, (uv_stream_t *)&s->pipe, &buf, 1, on_written) < 0) {
        free(w);
        proc__stream_close(s);
    }
    return 0;
}

void proc_close_stdin(struct proc *p)
{
    struct proc_stream *s = &p->in;
    s->ending = true;
    if (s->open && uv_stream_get_write_queue_size((uv_stream_t *)&s->pipe) == 0) {
        proc__stream_close(s);
    }
}
