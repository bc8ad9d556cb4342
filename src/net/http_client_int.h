#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "loop/timer.h"
#include "net/curl_api.h"
#include "net/http_client.h"

// What the files of the client know of each other:
//
//     http_client.c    connections: the multi handle, its sockets and its clock
//     http_call.c      one call: what arrives, redirects, time-outs, callbacks
//     http_tunnel.c    a call that only connects: bytes both ways
//     http_request.c   what is sent: checks, headers, options of the easy handle

struct http_client {
    struct loop *loop;
    char *user_agent;
    const struct curl_api *curl; // NULL until the first request
    CURLM *multi;                // NULL while nothing is under way and no connection kept
    struct timer clock;          // when curl wants to be called
    struct timer linger;         // runs exactly while there is a multi but no transfer
    struct http_call *calls;     // all that are not freed or cancelled
    size_t n_transfers;          // easy handles in `multi`
};

// Where a request goes; strings in the call's arena.
struct http_target {
    const char *url, *scheme, *host, *port;
};

struct http_call {
    struct http_client *client; // not to be used once `gone`
    struct http_call *prev, *next;
    struct http_cb cb;
    void *arg; // borrowed
    struct loop_task *step;
    struct timer total, idle;

    // the request
    struct arena arena;
    struct http_request q; // a copy in the arena
    struct http_target target;
    unsigned hops; // redirects followed
    bool crossed;  // one of them left the origin: credentials stay behind for good

    // the transfer
    const struct curl_api *curl;
    CURL *easy;                 // NULL while there is none
    struct http_tunnel *tunnel; // NULL: no tunnel, or not connected yet
    bool connected;             // a tunnel is; step() opens it
    bool started;               // `easy` is in the client's multi handle
    struct curl_slist *lines;
    char curl_says[CURL_ERROR_SIZE];

    // the answer
    struct http_reply reply;
    vec(struct http_header) headers; // in the arena
    size_t head_bytes;               // of all heads and trailers together
    uint64_t body_bytes;
    uint64_t active_ms;  // when the last byte came
    curl_off_t uploaded; // as the watchdog saw it last
    struct buf in;       // not delivered yet
    bool head_done;      // the final head of this hop is complete
    bool redirecting;    // and it sends us elsewhere
    bool head_told;
    bool stuck;  // curl was told to wait
    bool paused; // by the user
    bool over;   // `rc` and `e` are final; on_done is owed
    bool busy;   // a callback is on the stack
    bool gone;   // cancelled: free as soon as not busy
    int rc;
    struct err e;
};

/// Copy `q` into the call's arena and check it.
int http_request__copy(struct http_call *call, const struct http_request *q,
                       struct err *e) MUST_CHECK;
/// Fill in `*t` from an absolute URL.
int http_request__target(struct http_call *call, struct http_target *t, const char *url,
                         struct err *e) MUST_CHECK;
/// Make the easy handle for `target`. On failure there is none.
int http_request__open(struct http_call *call, struct err *e) MUST_CHECK;

/// Begin the transfer of the easy handle.
int http_client__start(struct http_call *call, struct err *e) MUST_CHECK;
/// End it and free the easy handle; nothing when there is none.
void http_client__stop(struct http_call *call);

/// Begin a call, see http_client_send(); the client's table of functions is there.
int http_call__open(struct http_call **out, struct http_client *c, const struct http_request *q,
                    const struct http_cb *cb, void *arg, struct err *e) MUST_CHECK;
/// The transfer is complete as far as curl is concerned.
void http_call__finished(struct http_call *call, CURLcode code);
/// A tunnel: bytes came; the peer has ended it; has the caller enough?
void http_call__take(struct http_call *call, struct str bytes);
void http_call__end(struct http_call *call);
bool http_call__is_full(const struct http_call *call);

/// Watch the connected socket of a tunnel; read on when the caller has taken what was there; stop.
int http_tunnel__open(struct http_call *call, struct err *e) MUST_CHECK;
void http_tunnel__resume(struct http_call *call);
void http_tunnel__close(struct http_call *call);

/// End the call as failed, unless it is over already; may be called from inside curl.
void http_call__fail(struct http_call *call, int code, const char *why);
