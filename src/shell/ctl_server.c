// Answering on the control socket.
//
// A connection is one question and one answer. The socket is in a directory that only its owner can enter,
// so the caller is the user. Still, a question has a maximum size, and one that is not JSON gets an error.
//
// Invariants:
//   - a call is freed when its handle has closed *and* (it was answered, was never asked, or the server
//     is gone): a call that is kept for later may be answered even if the caller has disconnected.

#include "shell/ctl_server.h"

#include <assert.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "base/sock.h"
#include "base/vec.h"

enum { QUESTION_MAX = 64 << 10, BACKLOG = 16 };

struct ctl_server {
    struct loop *loop;
    uv_pipe_t pipe;
    ctl_fn *fn;
    void *data; // borrowed
    vec(struct ctl_call *) calls;
};

struct ctl_call {
    struct ctl_server *server; // NULL once that is closed
    uv_pipe_t pipe;
    uv_write_t write;
    struct buf in, out;
    bool asked, answered, closing, closed;
    char chunk[4096];
};

// ---- life of a call ------------------------------------------------------------------------

static void release(struct ctl_call *c)
{
    assert(!c->closed || c->closing);
    if (!c->closed || (c->asked && !c->answered && c->server != NULL)) {
        return;
    }
    if (c->server != NULL) {
        vec_drop(&c->server->calls, c);
    }
    buf_fini(&c->in);
    buf_fini(&c->out);
    free(c);
}

static void on_closed(uv_handle_t *h)
{
    struct ctl_call *c = h->data;
    c->closed = true;
    release(c);
}

static void hang_up(struct ctl_call *c)
{
    if (!c->closing) {
        c->closing = true;
        uv_close((uv_handle_t *)&c->pipe, on_closed);
    }
}

static void on_written(uv_write_t *req, int status)
{
    (void)status;
    hang_up(container_of(req, struct ctl_call, write));
}

/// `c->out` is complete.
static void respond(struct ctl_call *c)
{
    uv_buf_t b = uv_buf_init(c->out.p, (unsigned)c->out.n);
    assert(c->asked && !c->answered); // one answer for one question
    c->answered = true;
    if (c->closing || uv_write(&c->write, (uv_stream_t *)&c->pipe, &b, 1, on_written) < 0) {
        hang_up(c);
        release(c);
    }
}

// ---- the question --------------------------------------------------------------------------

static void ask(struct ctl_call *c)
{
    struct arena a = {0};
    struct json *v;
    struct err e;
    assert(!c->asked && c->server != NULL);
    c->asked = true;
    uv_read_stop((uv_stream_t *)&c->pipe);
    if (json_parse(&v, &a, str_trim(buf_str(&c->in)), NULL, &e) < 0) {
        ctl_fail(c, ERR_PARSE, e.msg);
    } else {
        struct str op = json_get_text(v, "op");
        const struct json *arg = json_get(v, "arg");
        c->server->fn(c, arena_strdup(&a, op),
                      arg != NULL ? arena_strdup(&a, json_str(arg, "")) : NULL, c->server->data);
    }
    arena_fini(&a);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct ctl_call *c = h->data;
    (void)suggested;
    *buf = uv_buf_init(c->chunk, sizeof c->chunk);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct ctl_call *c = stream->data;
    if (n < 0) {
        hang_up(c);
        return;
    }
    buf_add(&c->in, buf->base, (size_t)n);
    if (!buf_ok(&c->in)) {
        hang_up(c);
    } else if (memchr(buf->base, '\n', (size_t)n) != NULL) {
        ask(c);
    }
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct ctl_server *s = stream->data;
    if (status < 0) {
        return;
    }
    struct ctl_call *c = xcalloc(1, sizeof *c);
    c->server = s;
    buf_init(&c->in, QUESTION_MAX);
    buf_init(&c->out, SIZE_MAX);
    int rc = uv_pipe_init(&s->loop->uv, &c->pipe, 0); // touches nothing yet
    c->pipe.data = c;
    vec_push(&s->calls, c);
    if (rc < 0 || uv_accept(stream, (uv_stream_t *)&c->pipe) < 0 ||
        uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) < 0) {
        hang_up(c);
    }
}

// ---- the socket ----------------------------------------------------------------------------

static void on_server_closed(uv_handle_t *h)
{
    struct ctl_server *s = h->data;
    vec_fini(&s->calls);
    free(s);
}

int ctl_server_open(struct ctl_server **out, struct loop *l, const struct shell_dir *d, ctl_fn *fn,
                    void *data, struct err *e)
{
    *out = NULL;
    char *path = path_join(d->path, "ctl.sock");
    int fd = sock_bind(path, e);
    free(path);
    if (fd < 0) {
        return fd;
    }
    struct ctl_server *s = xcalloc(1, sizeof *s);
    *s = (struct ctl_server){.loop = l, .fn = fn, .data = data};
    int rc = uv_pipe_init(&l->uv, &s->pipe, 0);
    s->pipe.data = s;
    rc = rc == 0 ? uv_pipe_open(&s->pipe, fd) : rc;
    if (rc < 0) {
        close(fd);
    }
    rc = rc == 0 ? uv_listen((uv_stream_t *)&s->pipe, BACKLOG, on_connection) : rc;
    if (rc < 0) {
        ctl_server_close(s);
        return err_set(e, rc, "cannot listen in '%s': %s", d->path, uv_strerror(rc));
    }
    *out = s;
    return 0;
}

void ctl_server_close(struct ctl_server *s)
{
    if (s == NULL) {
        return;
    }
    while (s->calls.n != 0) {
        struct ctl_call *c = vec_pop(&s->calls);
        c->server = NULL;
        if (c->closed) {
            release(c);
        } else {
            hang_up(c);
        }
    }
    uv_close((uv_handle_t *)&s->pipe, on_server_closed);
}

void ctl_answer(struct ctl_call *call, struct str json)
{
    buf_adds(&call->out, json);
    buf_addc(&call->out, '\n');
    respond(call);
}

void ctl_fail(struct ctl_call *call, int code, const char *text)
{
    struct jw w = {.out = &call->out};
    jw_obj(&w);
    jw_kstrz(&w, "error", text);
    jw_kint(&w, "error_code", code);
    jw_end_obj(&w);
    buf_addc(&call->out, '\n');
    respond(call);
}
