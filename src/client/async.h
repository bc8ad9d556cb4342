#pragma once

#include "client/client.h"
#include "loop/loop.h"

// Talking to the hub from a loop: nothing blocks, and many requests may be on their way.

struct async;

/// One event of a stream, borrowed for the call. It may close the request.
typedef void async_event_cb(const struct client_event *ev, void *arg);

/// The answer is complete (`rc` 0, every HTTP status is a success), or there is none: `rc` and `e` say why,
/// as with client_stream(). Called once; the request is closed after it. `a` is borrowed for the call.
typedef void async_done_cb(int rc, const struct client_answer *a, const struct err *e, void *arg);

/// Send `r`, whose `watch` is not used; everything is borrowed for this call only, `arg` until the end. A 2xx answer
/// of type text/event-stream goes to `event`, event by event, if that is not NULL. Fails as client_call()
/// does when the hub cannot be reached; `done` is not called then. Loop thread.
int async_open(struct async **out, struct loop *l, const struct client_peer *to,
               const struct client_request *r, async_event_cb *event, async_done_cb *done,
               void *arg, struct err *e) MUST_CHECK;

/// Give up: nothing is called any more. Memory goes when the loop has closed the connection. NULL is allowed.
void async_close(struct async *a);
