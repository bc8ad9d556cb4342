#pragma once

#include "base/err.h"
#include "net/http_client.h"

// A WebSocket of ours to a server, over the HTTP client's connections: names, proxies and TLS are as there.
//
//     rc = ws_client_open(&ws, client, &(struct ws_client_request){.url = "wss://..."}, &cb, arg, &e);
//
// Callbacks come from the loop's queue or a timer, never from inside a call of ours. Loop thread only.

struct ws_client;

/// Read during ws_client_open() only.
struct ws_client_request {
    const char *url;                   // ws:// or wss://
    const struct http_header *headers; // more of the handshake
    size_t n_headers;
    const char *ca_file; // as in struct http_request
};

struct ws_client_cb {
    void (*on_open)(void *arg);
    void (*on_message)(void *arg, struct str bytes, bool binary);
    /// The connection has ended; exactly once unless freed before. Only ws_client_free() may follow. `message` NULL: it
    /// was closed with `code` and `reason`; else it could not be opened or broke, and `code` is 1006.
    void (*on_end)(void *arg, int code, struct str reason, const char *message);
};

/// Begin to connect; `arg` is borrowed until ws_client_free(). On failure `*out` is NULL.
int ws_client_open(struct ws_client **out, struct http_client *c, struct loop *l,
                   const struct ws_client_request *q, const struct ws_client_cb *cb, void *arg,
                   struct err *e) MUST_CHECK;
/// Send a message, after on_open. A negative code: it is not open (any more), or too much waits to be sent.
int ws_client_send(struct ws_client *w, struct str bytes, bool binary) MUST_CHECK;
/// Close it in good order: on_end follows, within two seconds whatever the server does.
void ws_client_close(struct ws_client *w, int code, struct str reason);
/// End it now; no callback follows. May be called in one. NULL is allowed.
void ws_client_free(struct ws_client *w);
