// One request, one answer, on a loop.
//
//     open: dial, write ──> hub ──> on_read ──> http1 ──┬─> answer.body ──> done
//                                                       └─> sse ──> event ... done
//
// A Unix socket connects at once, so only reading and writing are asynchronous. Each read hands over
// what came and returns to the loop: a hub that sends without a pause starves nothing else.
//
// Invariant: `done` is NULL once it was called or the request was closed, and nothing is called then.

#include "client/async.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "client/client_int.h"
#include "client/dial.h"
#include "client/incoming.h"
#include "client/interrupt.h"
#include "loop/timer.h"

enum { CHUNK = 64 << 10, DIAL_MS = 1000 };

struct async {
    uv_pipe_t pipe;
    uv_write_t write;
    struct buf request;
    struct incoming in;
    struct client_answer answer;
    struct timer late;
    unsigned timeout_ms;
    async_event_cb *event;
    async_done_cb *done; // NULL: over
    void *arg;
    struct err fault;
    char chunk[CHUNK];
};

static void on_closed(uv_handle_t *h)
{
    struct async *a = container_of((uv_pipe_t *)h, struct async, pipe);
    buf_fini(&a->request);
    incoming_fini(&a->in);
    client_answer_fini(&a->answer);
    free(a);
}

static void shut(struct async *a)
{
    timer_stop(&a->late);
    a->done = NULL;
    uv_close((uv_handle_t *)&a->pipe, on_closed);
}

static void finish(struct async *a, int rc)
{
    async_done_cb *done = a->done;
    assert(done != NULL);
    a->done = NULL; // before the call: it may look for us, but not end us twice
    done(rc, &a->answer, &a->fault, a->arg);
    shut(a);
}

static void on_late(void *arg)
{
    struct async *a = arg;
    finish(a, incoming_late(&a->in));
}

// ---- what comes in -------------------------------------------------------------------------

static int on_event(const struct client_event *ev, void *arg)
{
    struct async *a = arg;
    a->event(ev, a->arg);
    return a->done != NULL ? 0 : -ECANCELED; // it may have closed us
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    struct async *a = container_of((uv_pipe_t *)s, struct async, pipe);
    (void)b;
    if (n == 0) {
        return;
    }
    int rc =
        n > 0 ? incoming_take(&a->in, (struct str){a->chunk, (size_t)n}) : incoming_end(&a->in);
    if (a->done == NULL) {
        return; // a callback has closed us
    }
    if (rc != 0) {
        finish(a, rc < 0 ? rc : 0);
    } else {
        timer_start(&a->late, a->in.streaming ? CLIENT_SILENCE_MS : a->timeout_ms);
    }
}

static void on_room(uv_handle_t *h, size_t want, uv_buf_t *b)
{
    struct async *a = container_of((uv_pipe_t *)h, struct async, pipe);
    (void)want;
    *b = uv_buf_init(a->chunk, sizeof a->chunk);
}

// ---- public --------------------------------------------------------------------------------

static void on_written(uv_write_t *w, int status)
{
    (void)w;
    (void)status; // the hub may have answered before it closed: on_read() finds out
}

static struct async *begin(struct loop *l, const struct client_request *r, async_event_cb *event,
                           async_done_cb *done, void *arg)
{
    struct async *a = xcalloc(1, sizeof *a);
    a->event = event;
    a->done = done;
    a->arg = arg;
    a->timeout_ms = r->timeout_ms != 0 ? r->timeout_ms : CLIENT_TIMEOUT_MS;
    client_answer_init(&a->answer);
    incoming_init(&a->in, r->method, &a->answer, event != NULL ? on_event : NULL, a, &a->fault);
    timer_init(&a->late, l, on_late, a);
    return a;
}

int async_open(struct async **out, struct loop *l, const struct client_peer *to,
               const struct client_request *r, async_event_cb *event, async_done_cb *done,
               void *arg, struct err *e)
{
    struct buf request;
    assert(done != NULL && to->socket != NULL);
    *out = NULL;
    int rc = client__write_head(&request, to, r, e);
    if (rc < 0) {
        return rc;
    }
    int fd = dial_unix(to->socket, interrupt_deadline(DIAL_MS), e);
    if (fd < 0) {
        buf_fini(&request);
        return fd;
    }
    struct async *a = begin(l, r, event, done, arg);
    a->request = request;
    a->request.max = SIZE_MAX;
    buf_adds(&a->request, r->body);
    uv_buf_t b = uv_buf_init(a->request.p, (unsigned)a->request.n);
    uv_pipe_init(&l->uv, &a->pipe, 0);
    rc = uv_pipe_open(&a->pipe, fd);
    rc = rc == 0 ? uv_write(&a->write, (uv_stream_t *)&a->pipe, &b, 1, on_written) : rc;
    rc = rc == 0 ? uv_read_start((uv_stream_t *)&a->pipe, on_room, on_read) : rc;
    assert(rc == 0); // a connected socket and a handle of our own
    timer_start(&a->late, a->timeout_ms);
    *out = a;
    return 0;
}

void async_close(struct async *a)
{
    if (a != NULL && a->done != NULL) {
        shut(a);
    }
}
