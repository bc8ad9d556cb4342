#pragma once

#include "base/vec.h"
#include "client/incoming.h"
#include "rpc/rpc.h"

// What the files of the stdio bridge share: bridge.c decides, wire.c speaks HTTP to the hub, out.c speaks to
// the client.

/// One request to the hub, on a connection of its own, driven by poll().
struct wire {
    int fd;
    struct buf out; // not yet sent
    struct incoming in;
    struct client_answer answer; // its status is 0 while there is no head
    struct err fault;            // what was wrong with it
    /// A message of a stream; borrowed for the call. The wire must not be freed inside.
    void (*message)(struct wire *w, struct str message);
    void *owner;
    struct wire *next;
    // what it is for; the bridge's
    int what;
    char *line;               // as the client wrote it; NULL: it is ours
    struct arena arena;       // of the ids
    const struct json *id;    // of a single request; NULL: none
    const struct json *wants; // `notifications` of subscriptions/listen; NULL: another request
    bool again;               // it was sent before: its acknowledgement is not news
};

/// Connect to the socket (a path) or HOST:PORT and queue the request. `headers` are lines with CR LF. NULL: no hub listens.
struct wire *wire__open(const char *address, const char *method, const char *headers,
                        struct str body);
void wire__free(struct wire *w);
/// Its descriptor is ready: send and receive. 0: more will come; 1: the answer is complete; negative: it broke.
int wire__run(struct wire *w, short events);
/// What to wait for.
short wire__events(const struct wire *w);

/// The bridge; see bridge.c.
struct bridge {
    const char *address; // the hub's socket, or HOST:PORT
    const char *header;  // of every request, with its line end: the project, or the key
    struct rpc_lines in;
    struct wire *wires;
    size_t n_wires;
    char *hello;                // the client's `initialize`; NULL: it is of the stateless era
    char session[64];           // "": none
    char version[16];           // agreed on
    bool ready;                 // the client has said `initialized`
    bool joining;               // a new session is on its way
    vec(char *) waiting;        // lines that need it
    vec(struct wire *) dormant; // subscriptions/listen that lost the hub; never connected
    uint64_t retry_at;          // 0: nothing to retry
    unsigned retry_ms;
    bool over; // the client is gone, or its input is broken
    uint64_t
        close_at; // stdin has ended: answers that are on their way have until then; 0: it has not
    int fault;    // why it ended; 0: nothing is wrong
};

/// Write one message to the client.
void bridge__say(struct bridge *b, struct str message);
/// Answer the request `id` (NULL: it could not be read) with an error.
void bridge__error(struct bridge *b, const struct json *id, int64_t code, struct str text);
/// Answer every request of a line with an error.
void bridge__fail(struct bridge *b, const char *line, int64_t code, const char *text);
/// Say that a list has changed; `subscription` is the id of a listener's request, or NULL.
void bridge__changed(struct bridge *b, const char *method, const struct json *subscription);
