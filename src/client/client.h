#pragma once

#include <poll.h>

#include "base/buf.h"
#include "base/err.h"

// Talking to the hub: blocking, one connection per request, for one thread.

enum {
    CLIENT_TIMEOUT_MS = 30000,   // for a whole answer
    CLIENT_LONG_MS = 90000000,   // where only the hub limits it: longer than its limits can be
    CLIENT_SILENCE_MS = 45000,   // of a stream: the hub sends a comment every 15 s
    CLIENT_BODY_MAX = 64 << 20,  // of an answer
    CLIENT_EVENT_MAX = 32 << 20, // of one event of a stream
};

/// Where the hub is: exactly one of the two is set.
struct client_peer {
    const char *socket; // path of its Unix socket
    const char *tcp;    // HOST:PORT
};

/// What else is waited for while an answer is on its way. When one of `fds` is ready, or the monotonic
/// clock has reached `due_ns` (0: never), `run` is called; it may change both. A negative code
/// from it ends the request and is its result; else it returns 0.
struct client_watch {
    struct pollfd fds[2]; // a negative descriptor is left out
    uint64_t due_ns;
    int (*run)(struct client_watch *w);
};

/// A request. Everything is borrowed for the call; only method and path must be set.
struct client_request {
    const char *method;
    const char *path;           // with its query; must not hold spaces or control characters
    const char *accept;         // NULL: application/json
    const char *const *headers; // "Name: value", NULL at the end; "Host: x" replaces ours
    struct str body;            // JSON; empty: none is sent
    unsigned timeout_ms;        // 0: CLIENT_TIMEOUT_MS
    struct client_watch *watch; // NULL: nothing else
};

struct client_answer {
    int status;
    char type[80];   // content type, without parameters
    char build[80];  // build id of the hub, "" when it did not say
    struct buf body; // empty when the answer was a stream
};

/// One event of a stream; borrowed for the call. Return 0 to continue, anything else ends the stream
/// and becomes the result of client_stream().
struct client_event {
    struct str id, type, data;
};
typedef int client_event_cb(const struct client_event *ev, void *arg);

/// Make `a` empty, for one call; end it with client_answer_fini().
void client_answer_init(struct client_answer *a);
void client_answer_fini(struct client_answer *a);

/// Send `r` and take the whole answer; every HTTP status is a success here. Fails with
/// ERR_UNREACHABLE (no hub listens: nothing was sent), -ECONNRESET (the connection broke: the hub may
/// have acted), ERR_TIMEOUT, ERR_TOO_LARGE, ERR_PARSE (not HTTP), ERR_INVALID (a request that
/// cannot be sent), what `watch` says or -EINTR (see interrupt.h).
int client_call(const struct client_peer *to, const struct client_request *r,
                struct client_answer *a, struct err *e) MUST_CHECK;

/// The same, but a 2xx answer of type text/event-stream is given to `cb` event by event as it
/// comes. Returns 0 when the hub ended the stream, -ECONNRESET when it broke, -ETIMEDOUT when it
/// fell silent.
int client_stream(const struct client_peer *to, const struct client_request *r,
                  struct client_answer *a, client_event_cb *cb, void *arg,
                  struct err *e) MUST_CHECK;
