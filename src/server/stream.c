// An event stream on a connection: a reader of the hub's one log, and nothing of its own.
//
//     event log ──peek──> span of whole frames ──> kernel ──next──> ...
//                              └ not taken: copied once, reader parked until it has left
//
// A reader that keeps up costs no memory at all. One that does not costs one span, then falls behind
// in the log until the log no longer holds its place: the log tells it so (stream.gap), or reads a session's
// journal for it. The connection closes a reader that does not read for `write_ms`.
//
// Invariant: the reader is parked exactly while the connection is blocked.

#include <assert.h>

#include "server/server_int.h"

enum {
    SPAN_BYTES = 64 * 1024,
    SPANS_PER_TURN = 4, // then others have their turn
};

struct stream {
    struct conn *conn;
    struct event_reader *reader;
    struct loop_task *more;
    bool chunked;
};

static void pump(struct conn *c);

static void stream_end(struct conn *c)
{
    const struct stream *st = c->state;
    conn__end_stream(c, st->chunked);
}

// The span as one chunk; frames are never torn between chunks by us. Readers that keep up all get the
// same span in one turn, so it is made once and leaves with a plain write.
static struct str chunk_of(struct server *s, struct str span)
{
    struct buf *b = &s->chunk;
    bool same =
        b->n == s->chunk_head + span.n + 2 && memcmp(b->p + s->chunk_head, span.p, span.n) == 0;
    if (!same) {
        buf_clear(b);
        buf_addf(b, "%zx\r\n", span.n);
        s->chunk_head = b->n;
        buf_adds(b, span);
        buf_adds(b, STR("\r\n"));
        assert(buf_ok(b)); // the log gives no larger frames
    }
    return buf_str(b);
}

static void on_more(void *arg)
{
    struct stream *st = arg;
    st->more = NULL;
    pump(st->conn);
}

static void pump(struct conn *c)
{
    struct stream *st = c->state;
    size_t sent = 0;
    for (; !conn__blocked(c) && sent < SPANS_PER_TURN; sent++) {
        struct str span = event_reader_peek(st->reader, SPAN_BYTES);
        if (span.n == 0) {
            break;
        }
        conn__send(c, st->chunked ? chunk_of(c->server, span) : span);
        if (c->closing) {
            return; // and `st` with it
        }
        event_reader_next(st->reader);
    }
    event_reader_park(st->reader, conn__blocked(c));
    if (!conn__blocked(c) && event_reader_ended(st->reader)) {
        stream_end(c);
        return;
    }
    if (sent == SPANS_PER_TURN && !conn__blocked(c) && st->more == NULL) {
        st->more = loop_defer(c->server->loop, on_more, st);
    }
    conn__heartbeat(c);
}

static void on_wake(void *arg)
{
    struct stream *st = arg;
    pump(st->conn);
}

static void stream_on_deadline(struct conn *c)
{
    const struct stream *st = c->state;
    conn__show_life(c, st->chunked);
}

static void stream_on_gone(struct conn *c)
{
    struct stream *st = c->state;
    event_reader_close(st->reader);
    if (st->more != NULL) {
        loop_cancel(c->server->loop, st->more);
    }
    free(st);
    c->state = NULL;
}

static const struct conn_proto stream = {
    .on_read = conn__ignore,
    .on_eof = conn__close,
    .on_drain = pump,
    .on_deadline = stream_on_deadline,
    .on_gone = stream_on_gone,
    .on_end = stream_end,
};

void stream__start(struct conn *c, const struct event_filter *f, uint64_t after, bool chunked)
{
    struct stream *st = xcalloc(1, sizeof *st);
    st->conn = c;
    st->chunked = chunked;
    st->reader = event_reader_open(c->server->events, after, f, on_wake, st);
    conn__take(c, &stream, st);
    conn__flush(c);
    if (!c->closing) {
        pump(c);
    }
}
