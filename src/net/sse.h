#pragma once

#include "base/buf.h"
#include "base/err.h"

// Server-sent events (WHATWG HTML, 9.2): the writer of frames, and a parser for clients and
// providers that takes bytes as they arrive.

/// Append one frame. Empty `id` or `event` is left out; `data` of several lines gives several data
/// lines. `id` and `event` must hold no line breaks (asserted: they are ours).
void sse_write(struct buf *out, struct str id, struct str event, struct str data);
/// Append a comment, which keeps a silent stream alive. `text` must hold no line breaks.
void sse_write_comment(struct buf *out, const char *text);

/// One event, borrowed for the call. `event` is "message" when the frame named none; `id` is the
/// last one seen on the stream, also by an earlier frame.
struct sse_event {
    struct str event, data, id;
};
/// Anything but 0 ends the parse and is returned by sse_feed().
typedef int sse_cb(void *arg, const struct sse_event *ev);

struct sse_parser {
    uint64_t retry_ms; // what the server asked for, or 0
    // private
    sse_cb *cb;
    void *arg;
    struct buf line, event, data, id;
    uint8_t bom;   // bytes of a byte order mark seen; 3 once that is settled
    bool after_cr; // a LF now belongs to the CR before it
    bool has_data;
};

/// `max` bounds the bytes of one line and of one event's data.
void sse_init(struct sse_parser *p, size_t max, sse_cb *cb, void *arg);
/// Free its buffers.
void sse_fini(struct sse_parser *p);
/// Take bytes in, calling back for each complete event. An event cut off by the end of the stream
/// is not delivered. Fails with ERR_TOO_LARGE past the bound.
int sse_feed(struct sse_parser *p, struct str bytes, struct err *e) MUST_CHECK;
