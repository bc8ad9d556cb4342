#pragma once

#include "client/client.h"
#include "net/http1.h"
#include "net/sse.h"

/// An answer on its way. Its users read `http`, `streaming` and `stopped`.
struct incoming {
    struct http1 http;
    struct sse_parser sse;
    struct client_answer *answer;
    client_event_cb *cb;
    void *arg;
    struct err *e;
    bool streaming; // the answer is a stream of events for `cb`
    int stopped;    // why it was not read to its end: a code, or the callback's answer; 0: it was
};

/// Read the answer to a request with `method` into `answer`; events go to `cb`. With `cb` NULL a stream is taken as a
/// plain body. All are borrowed until incoming_fini(), and so is `in`: it must not move.
void incoming_init(struct incoming *in, const char *method, struct client_answer *answer,
                   client_event_cb *cb, void *arg, struct err *e);
void incoming_fini(struct incoming *in);
/// Take bytes in. 0: more must come; 1: the answer is complete; else why it ended.
int incoming_take(struct incoming *in, struct str bytes) MUST_CHECK;
/// The hub has closed the connection. 1: that completes the answer; else negative.
int incoming_end(struct incoming *in) MUST_CHECK;
/// Time is up; returns a negative code.
int incoming_late(struct incoming *in);
