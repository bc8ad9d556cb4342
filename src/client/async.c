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
#include <strings.h>
#include <unistd.h>

#include "client/client_int.h"
#include "client/dial.h"
#include "client/interrupt.h"
#include "loop/timer.h"
#include "net/sse.h"

enum { CHUNK = 64 << 10, DIAL_MS = 1000 };

struct async {
    uv_pipe_t pipe;
    uv_write_t write;
    struct buf request;
    struct http1 http;
    struct sse_parser sse;
    struct client_answer answer;
    struct timer late;
    unsigned timeout_ms;
    bool streaming;
    int stopped; // why the body ended before its end
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
    sse_fini(&a->sse);
    http1_fini(&a->http);
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
    int rc = a->streaming ? err_set(&a->fault, -ETIMEDOUT, "the hub has fallen silent")
                          : err_set(&a->fault, ERR_TIMEOUT, "the hub did not answer in time");
    finish(a, rc);
}

// ---- what comes in -------------------------------------------------------------------------

static int on_event(void *arg, const struct sse_event *ev)
{
    struct async *a = arg;
    struct client_event out = {.id = ev->id, .type = ev->event, .data = ev->data};
    a->event(&out, a->arg);
    return a->done != NULL ? 0 : -ECANCELED; // it may have closed us
}

static int on_body(void *arg, struct str bytes)
{
    struct async *a = arg;
    if (a->streaming) {
        a->stopped = sse_feed(&a->sse, bytes, &a->fault);
        return a->stopped;
    }
    buf_adds(&a->answer.body, bytes);
    if (!buf_ok(&a->answer.body)) {
        a->stopped = err_set(&a->fault, ERR_TOO_LARGE, "the answer is larger than %d MiB",
                             CLIENT_BODY_MAX >> 20);
    }
    return a->stopped;
}

// Returns 1 when the answer is complete, 0 when more must come.
static int take_bytes(struct async *a, struct str bytes)
{
    while (bytes.n != 0) {
        enum http1_state before = a->http.state;
        int rc = http1_feed(&a->http, &bytes, &a->fault);
        if (rc < 0) {
            return a->stopped != 0 ? a->stopped : err_prefix(&a->fault, "the hub's answer");
        }
        if (a->http.state == HTTP1_END && a->http.status / 100 == 1) {
            http1_next(&a->http, false); // an interim answer
            continue;
        }
        if (before == HTTP1_HEAD && a->http.state != HTTP1_HEAD) {
            client__take_head(&a->answer, &a->http);
            a->streaming = a->event != NULL && a->answer.status / 100 == 2 &&
                           strcasecmp(a->answer.type, "text/event-stream") == 0;
        }
        if (a->http.state == HTTP1_END) {
            return 1;
        }
    }
    return 0;
}

static int take_end(struct async *a)
{
    if (http1_between(&a->http) && a->http.state == HTTP1_HEAD) {
        return err_set(&a->fault, -ECONNRESET, "the hub closed the connection without an answer");
    }
    return http1_finish(&a->http, NULL) < 0
               ? err_set(&a->fault, -ECONNRESET, "lost the connection to the hub during its answer")
               : 1;
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    struct async *a = container_of((uv_pipe_t *)s, struct async, pipe);
    (void)b;
    if (n == 0) {
        return;
    }
    int rc = n > 0 ? take_bytes(a, (struct str){a->chunk, (size_t)n}) : take_end(a);
    if (a->done == NULL) {
        return; // a callback has closed us
    }
    if (rc != 0) {
        finish(a, rc < 0 ? rc : 0);
    } else {
        timer_start(&a->late, a->streaming ? CLIENT_SILENCE_MS : a->timeout_ms);
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
    (void)status; // a hub that closed on us may have answered before: what can be read says more
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
    http1_init(&a->http, HTTP1_RESPONSE, NULL, on_body, a);
    http1_next(&a->http, strcmp(r->method, "HEAD") == 0);
    sse_init(&a->sse, CLIENT_EVENT_MAX, on_event, a);
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
