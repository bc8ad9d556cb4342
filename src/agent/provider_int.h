#pragma once

#include "agent/providers.h"
#include "agent/wire.h"
#include "loop/timer.h"
#include "net/http_client.h"

// What the files of providers share:
//
//     provider.c          one call: tries, retries, time-outs, callbacks
//     provider_fault.c    what a failure means, and how long the provider wants us to wait
//     provider_http.c     a try over HTTP; the connection is drained for the next one
//     provider_scripted.c a try played from a scenario
//     provider_plugin.c   a try that a plugin answers
//     provider_models.c   GET models
//     providers.c         choosing

/// How the bytes of an answer come. A transport reports to provider__head(), provider__bytes() and provider__end(),
/// from the loop's queue or a timer. provider__end(), and provider__bytes() of a stream (status 200), may end the try
/// before they return, so a transport calls them last.
struct provider_transport {
    /// Keep what is needed of the request. May be NULL, as may close.
    void (*open)(struct provider_call *call, const struct provider_ask *ask);
    void (*close)(struct provider_call *call);
    /// Begin a try. After a failure stop() is not called.
    int (*start)(struct provider_call *call, struct err *e);
    /// End a try, complete or not. `clean`: the answer is complete; the rest may be read, so that the connection can
    /// be used again.
    void (*stop)(struct provider_call *call, bool clean);
    void (*pause)(struct provider_call *call, bool paused);
};

extern const struct provider_transport provider_transport_http, provider_transport_scripted,
    provider_transport_plugin;
extern const struct wire wire_plugin; // what plugins' providers say

/// One row per value of providers.*.kind.
struct provider_kind {
    const char *name;
    const struct wire *wire;
    const struct provider_transport *transport;
    const char *path;        // appended to base_url
    const char *models_path; // the same; NULL: none
    bool own_key_header;     // x-api-key and a version, not a bearer token
};

struct providers {
    struct loop *loop;
    struct http_client *client; // borrowed
    struct lane *lane;          // reads scenarios; made on first use
    struct provider_offers offers;
    struct http_try *drains; // answers that are complete, whose connection is being emptied
    size_t n_calls;          // under way
};

struct provider_call {
    struct providers *service;
    const struct provider_choice *choice; // borrowed
    const struct provider_kind *kind;
    struct provider_cb cb;
    void *arg;
    struct hook_ctx *ctx;   // borrowed; NULL: none
    uint64_t n;             // of the request in its session
    struct buf body;        // the request, the same for every try
    char *key;              // read again after a refusal; NULL: the choice's
    struct loop_task *task; // the first try is about to begin
    struct timer wait;      // for the next try
    struct timer idle;      // runs exactly while a try does and is not paused
    struct retry retry;
    bool paused;
    bool reread; // the key was read again
    bool busy;   // a callback is on the stack
    bool gone;   // cancelled: free as soon as not busy

    // the try
    bool trying;       // transport, sse and reply are in use
    bool running;      // the transport has not been stopped
    bool told;         // on_delta was called
    bool stream;       // the body is a stream of events; else it is kept in `plain`
    int status;        // 0 while there is no head
    uint64_t asked_ms; // the wait that the head asks for before another try
    struct buf plain;
    struct sse_parser sse;
    struct wire_reply reply;
    struct err feed; // why feeding ended
    void *transport; // private to the transport, for a try
    void *played;    // private to the transport, for the whole call
};

/// The key to send, or NULL.
const char *provider__key(const struct provider_call *call);
/// The answer's head, borrowed for the call.
void provider__head(struct provider_call *call, const struct http_reply *reply);
/// A piece of the body. May end the try, and the call.
void provider__bytes(struct provider_call *call, struct str bytes);
/// An event that did not come as bytes. False: the try is over, and perhaps the call.
bool provider__event(struct provider_call *call, const struct json *event);
/// The try failed for this reason.
void provider__fail(struct provider_call *call, struct provider_error *why);
/// The answer's end; `rc` 0 when it ended well, else `e` says how not.
void provider__end(struct provider_call *call, int rc, const struct err *e);

// ---- faults ---------------------------------------------------------------------------------

/// Tell what a failure means. `fault` is the API's error, `who` the provider's name for the message.
void provider__judge(struct provider_error *out, const char *who, int status,
                     const struct wire_fault *fault);
/// The same for an answer that is no stream.
void provider__judge_body(struct provider_error *out, const char *who, int status, struct str body);
/// A failure of our own: "'who' text".
void provider__fault(struct provider_error *out, enum provider_fault fault, const char *who,
                     const char *fmt, ...) PRINTF_LIKE(4, 5);
/// The same for a request that failed with `e`.
void provider__judge_rc(struct provider_error *out, const char *who, bool had_head,
                        const struct err *e);
/// May another try help?
bool provider__worth_retry(enum provider_fault fault);
/// How long the head of a refusal asks us to wait; 0 when it does not say.
uint64_t provider__asked_ms(const struct http_reply *reply, int64_t wall_ms);

// ---- HTTP -----------------------------------------------------------------------------------

enum { PROVIDER_HEADERS_MAX = 4 };

/// URL and headers of a request. Strings are in `a`.
void provider__http_request(struct http_request *q,
                            struct http_header headers[PROVIDER_HEADERS_MAX], struct arena *a,
                            const struct provider_choice *choice, const char *path,
                            const char *key);
/// Close all connections that are being drained.
void provider__http_close_drains(struct providers *s);

// ---- plugins --------------------------------------------------------------------------------

/// The provider of that name that a plugin offers in `dir` (NULL: everywhere); NULL: there is none. Borrowed until the
/// loop turns.
struct gen_item *provider__offer(const struct providers *s, struct str name, const char *dir);
/// Append the names of all of them, in load order.
void provider__add_offers(const struct providers *s, const char *dir, struct provider_names *out);
/// The names of its models, in `a`, in the plugin's order; returns how many. 0: it takes any name.
size_t provider__offer_models(const struct gen_item *it, struct arena *a, const char ***out);

// ---- keys -----------------------------------------------------------------------------------

/// Read the key of `choice` again from its file or secret. NULL when it comes from elsewhere or
/// cannot be read. The caller frees it.
char *provider__read_key(const struct provider_choice *choice);
