#pragma once

#include "net/http1.h"
#include "net/sse.h"
#include "rpc/rpc.h"

// What the files of the stdio bridge share: bridge.c decides, bridge_wire.c speaks HTTP.

/// One request to the hub, on a connection of its own, driven by poll().
struct wire {
    int fd;
    struct buf out; // not yet sent
    struct http1 http;
    struct sse_parser sse;
    struct buf body; // of an answer that is no stream
    int status;      // 0 while there is no head
    bool stream;
    bool json;        // the body says that it is JSON
    char session[64]; // of the header Mcp-Session-Id, "" without one
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

/// Connect to the hub's socket and queue the request. `headers` are lines with CR LF. NULL: nobody is there.
struct wire *wire__open(const char *socket, const char *method, const char *headers,
                        struct str body);
void wire__free(struct wire *w);
/// Its descriptor is ready: send and receive. 0: more will come; 1: the answer is complete; negative: it broke.
int wire__run(struct wire *w, short events);
/// What to wait for.
short wire__events(const struct wire *w);
