#pragma once

#include "agent/retry.h"
#include "base/json.h"
#include "loop/loop.h"

// One call for all model providers.
//
//     struct provider_ask ask = {.choice = &session->choice, .request = request, .n = 3};
//     rc = provider_start(&call, service, &ask, &callbacks, arg, &e);
//
// on_delta is called for each piece of the answer, then exactly one of on_done and on_fail. Failed
// tries are repeated (retry.h, docs/internals/providers.md). Callbacks are called from the loop's
// deferred queue or from timers, never from inside a function of this header; they may cancel, pause,
// or start other calls. Call all functions on the loop thread; none blocks.
//
// The request, in the neutral form that hooks see and requests.jsonl keeps:
//
//     {"model": "...",                      left out or "": the choice's
//      "system": "...",
//      "messages": [
//        {"role": "user", "content": "text"},
//        {"role": "assistant", "content": [
//          {"type": "reasoning", "kind": "anthropic", "data": {...}},
//          {"type": "text", "text": "..."},
//          {"type": "tool_call", "id": "...", "name": "...", "input": {...}}]},
//        {"role": "tool", "content": [
//          {"type": "tool_result", "tool_call_id": "...", "output": "...", "success": true}]}],
//      "tools": [{"name": "...", "description": "...", "input_schema": {...}}],
//      "params": {"max_tokens": 1000, ...}}
//
// `content` is a text or a list of items. Roles are user, assistant, tool and system (a remark in
// between); tool_result may be in a user's message too. An assistant message is the `content` of a
// response, unchanged: reasoning items are opaque, go back to the API that made them (`kind`) and are
// left out for any other. Each tool_call needs its tool_result before the next assistant message; APIs
// refuse a request without. Members of `params` are sent as they are and replace our own;
// `max_tokens` is translated.

struct hook_ctx;
struct providers;       // the service, see agent/providers.h
struct provider_choice; // which provider, model and key, see there
struct provider_call;

// ---- what comes back ------------------------------------------------------------------------

/// A piece of the answer: exactly one of the three is there. Texts are well-formed UTF-8; all is borrowed.
struct provider_delta {
    struct str text;
    struct str reasoning;      // for the user; what goes back to the model is in response.content
    const struct json *sealed; // the item of a complete block of reasoning, which goes back
};

/// Tokens; -1 is unknown. `cached` is part of `input`, `reasoning` of `output`.
struct provider_usage {
    int64_t input, cached, output, reasoning;
};

/// One call of a tool, as the model asked for it.
struct provider_tool_call {
    struct str id, name;
    const struct json *input; // an object, always
    struct str raw;           // what the model wrote; empty means {}
    /// Why what the model wrote is not an object (`input` is {} then): do not run the call, but answer it with this
    /// text as a failed result, so that the model can mend it. NULL: it is one.
    const char *bad_input;
};

/// How much of an answer's text is kept in memory, some 256,000 tokens; deltas continue beyond. Clients and the model
/// are told how much of a longer answer is missing.
enum { PROVIDER_TEXT_MAX = 1024 * 1024 };

/// The whole answer; borrowed for the call of on_done. Callers that show or store deltas need not collect them.
struct provider_response {
    struct str text;        // all of it, or the first PROVIDER_TEXT_MAX bytes
    uint64_t text_left_out; // bytes beyond that
    struct json content;    // an array: what an assistant message holds, see above
    const struct provider_tool_call *tool_calls;
    size_t n_tool_calls;
    struct provider_usage usage;
    const char *stop_reason; // end_turn, tool_use, max_tokens, refusal or pause_turn
};

/// What went wrong: FAULT(ID, "name for events", worth another try)
#define PROVIDER_FAULTS(X)                                                                         \
    X(UNREACHABLE, "PROVIDER_UNREACHABLE", true)   /* no connection, no TLS, no answer */          \
    X(OVERLOADED, "PROVIDER_OVERLOADED", true)     /* 408, 409, 5xx, or the same in the stream */  \
    X(RATE_LIMITED, "PROVIDER_RATE_LIMITED", true) /* 429 */                                       \
    X(CUT, "PROVIDER_CUT", true)                   /* the stream ended before the answer did */    \
    X(IDLE, "PROVIDER_IDLE", true)                 /* no progress for retry.idle_ms */             \
    X(QUOTA, "PROVIDER_QUOTA", false)              /* out of credit: the user has to act */        \
    X(AUTH, "PROVIDER_AUTH", false)                /* no key, or one that is refused */            \
    X(CONTEXT, "CONTEXT_OVERFLOW", false)          /* the request is too long: compact it */       \
    X(REJECTED, "PROVIDER_REJECTED", false)        /* the API refuses the request */               \
    X(TOO_LARGE, "PROVIDER_TOO_LARGE", false)      /* the answer passes our bounds */              \
    X(SCENARIO, "SCENARIO_FAILED", false)          /* the scripted model cannot play its part */   \
    X(PLUGIN, "PLUGIN_FAILED", false)              /* the code of a plugin's provider failed */

enum provider_fault {
#define X(id, name, retry) PROVIDER_##id,
    PROVIDER_FAULTS(X)
#undef X
        PROVIDER_FAULT__COUNT
};

/// The name in events and errors: "PROVIDER_AUTH".
const char *provider_fault_name(enum provider_fault fault);

struct provider_error {
    enum provider_fault fault;
    int status;              // of HTTP; 0 when there was none
    unsigned tries;          // made so far
    uint64_t retry_after_ms; // what the provider asked for, or 0
    char message[480];       // for the user, one line; never holds a key
};

/// `arg` is borrowed from provider_start() to on_done, on_fail or provider_cancel().
struct provider_cb {
    /// NULL: on_done is enough.
    void (*on_delta)(struct provider_call *call, const struct provider_delta *d, void *arg);
    /// The try failed with `why`; the next one begins in `wait_ms`. All deltas since the start, or since the last
    /// on_retry, are void: the model will not know them, and the answer begins again. A caller that journals them
    /// marks them as aborted. Calls of tools come with on_done only, so none has to be undone. NULL: deltas cannot be
    /// taken back, so a try that has given one is not repeated.
    void (*on_retry)(struct provider_call *call, const struct provider_error *why, uint64_t wait_ms,
                     void *arg);
    void (*on_done)(struct provider_call *call, const struct provider_response *r, void *arg);
    /// No more tries; deltas since the last on_retry are void as there.
    void (*on_fail)(struct provider_call *call, const struct provider_error *why, void *arg);
};

// ---- asking ---------------------------------------------------------------------------------

/// Read during provider_start() only, except for `choice`, which must stay until the call is over.
struct provider_ask {
    const struct provider_choice *choice;
    const struct json *request;
    uint64_t n; // the number of the request in its session, from 1, for the scripted provider
    /// Of the turn, for a plugin's provider; stays as long as `choice`. NULL: it is asked outside of a turn.
    struct hook_ctx *ctx;
};

/// Begin a call. Returns ERR_INVALID, and no callback follows, for a request that is not in the neutral form (a
/// hook may have made it); all other failures come by on_fail. The call is freed when on_done or on_fail returns.
int provider_start(struct provider_call **out, struct providers *s, const struct provider_ask *ask,
                   const struct provider_cb *cb, void *arg, struct err *e) MUST_CHECK;
/// End it now; no callback follows. Not after on_done or on_fail; inside them it does nothing.
void provider_cancel(struct provider_call *call);
/// The text of the answer so far, borrowed until the next callback or provider_cancel(); empty while no try runs.
struct str provider_text(const struct provider_call *call);
/// Pause or resume receiving, for a caller that cannot keep up. While paused there are no deltas and no idle time-out.
void provider_pause(struct provider_call *call, bool paused);

/// Write a member that counts tokens; null when `n` is negative: unknown.
void provider_write_tokens(struct jw *w, const char *key, int64_t n);
/// Write {input, cached, output, reasoning}, null for what is unknown; the object is open already.
void provider_write_usage(struct jw *w, const struct provider_usage *u);
/// Read them back; -1 for what is null or missing.
struct provider_usage provider_read_usage(const struct json *v);
/// Write the error as {code, message, status?, tries}.
void provider_write_error(struct jw *w, const struct provider_error *e);
