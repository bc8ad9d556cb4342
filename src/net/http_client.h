#pragma once

#include "base/str.h"
#include "loop/loop.h"

// An HTTP and HTTPS client on the loop, for providers and plugins.
//
//     struct http_request q = {.url = "https://example.com/v1", .timeout_ms = 30000};
//     rc = http_client_send(&call, client, &q, &callbacks, arg, &e);
//
// Callbacks come from the loop's deferred queue, never from inside a call of ours: they may send,
// cancel, pause or close whatever they like. Everything here belongs to the loop thread.

struct http_client;
struct http_call; // one request under way

struct http_header {
    struct str name, value;
};

/// Read during http_client_send() only; zeroed members have the meaning in brackets.
struct http_request {
    const char *method; // [GET]
    const char *url;    // absolute, http or https
    const struct http_header *headers;
    size_t n_headers;
    struct str body;       // sent with its length; p NULL: none
    uint64_t timeout_ms;   // for all of it [none]
    uint64_t connect_ms;   // name, connection and TLS of each hop [30 s]
    uint64_t idle_ms;      // without any byte, in either direction [none]; rests while paused
    uint64_t max_body;     // [collected: 8 MiB; streamed: none]
    bool follow_redirects; // at most 10, never from https to http; see below
    bool same_host;        // but not to another host: such a redirect is the answer
    bool public_only; // only public addresses (net/address.h), and no proxy; others: ERR_DENIED
    bool tunnel; // only connect: bytes go both ways until the call ends, see http_client_write()
    const char *socket; // path of a Unix socket to connect to; the URL's host is only a name [none]
    const char *proxy; // URL, or "" for none [http_proxy, https_proxy, no_proxy of our environment]
    const char *ca_file; // PEM file of certificates to trust [the system's]
};
// A redirect to another origin (scheme, host or port) takes only headers along that cannot be
// credentials: Accept, Accept-*, Content-Type, Content-Language.

/// What has arrived of the answer. All of it is borrowed for the call.
struct http_reply {
    int status; // 0 while there is no head
    const struct http_header *headers;
    size_t n_headers;
    struct str body; // of a finished call without on_body
};

/// The value of the first header `name` (ASCII case ignored); `p` NULL in it when there is none.
struct str http_reply_get(const struct http_reply *reply, const char *name);

struct http_cb {
    /// The final head: not of 1xx answers, nor of redirects that are followed. May be NULL.
    void (*on_head)(struct http_call *call, const struct http_reply *reply, void *arg);
    /// Bytes of the body as they arrive. NULL: they are collected for on_done.
    void (*on_body)(struct http_call *call, struct str bytes, void *arg);
    /// Exactly once, unless cancelled; the call is freed when it returns. `rc` is 0 for every complete
    /// answer whatever its status; else negative and `e` says what happened (`e` is never NULL):
    /// UV_EAI_NONAME, UV_ECONNREFUSED or other numbers of libuv, UV_ECONNRESET (cut off), UV_EPROTO
    /// (TLS or HTTP/2), ERR_DENIED (certificate), ERR_TIMEOUT, ERR_TOO_LARGE, ERR_PARSE, ERR_INVALID.
    void (*on_done)(struct http_call *call, int rc, const struct http_reply *reply,
                    const struct err *e, void *arg);
    /// A tunnel is connected; on_body brings what the peer says.
    void (*on_ready)(struct http_call *call, void *arg);
};

/// `user_agent` ("afloat/1.2") is copied. Costs nothing until the first request.
struct http_client *http_client_open(struct loop *l, const char *user_agent);
/// Calls under way are cancelled, connections closed; may come from a callback. NULL is allowed.
void http_client_close(struct http_client *c);

/// Begin a request. `arg` is borrowed until on_done or http_client_cancel(). On failure (ERR_INVALID
/// for what the request says, ERR_UNSUPPORTED without libcurl) `*out` is NULL and no callback follows.
int http_client_send(struct http_call **out, struct http_client *c, const struct http_request *q,
                     const struct http_cb *cb, void *arg, struct err *e) MUST_CHECK;
/// Send bytes through a tunnel after on_ready; copied. UV_EPIPE when it has ended, ERR_TOO_LARGE when more than 16 MiB
/// would wait to be sent; what goes wrong later is told by on_done.
int http_client_write(struct http_call *call, struct str bytes) MUST_CHECK;
/// End a call now; no callback follows. Not after on_done has returned.
void http_client_cancel(struct http_call *call);
/// Stop receiving, or continue. While paused the peer is held back and no callback comes, except on_done
/// when time is up.
void http_client_pause(struct http_call *call, bool paused);
