#pragma once

#include "base/json.h"
#include "base/log.h"
#include "gen/diag.h"

// A host is one running version of one plugin, whatever runs it. Who needs the plugin calls it
// through this face; what the plugin says by itself reaches its owner. Everything belongs to the
// loop thread.
//
//     owner ── host_call(hook, tool) ──> host ──> code        code ── result ──> host_call.done
//     owner <── on_register, on_loaded, on_log, on_call, on_end ── host

struct host;
struct host_call;

/// What went wrong in the plugin. Strings are borrowed for the call; path may be NULL.
struct host_fault {
    enum gen_code code;
    const char *message;
    const char *path;
    int line;         // 0: not known
    const char *hook; // what ran, of a fault that answers no call; NULL: not known
};

/// The same as a diagnostic, whose strings are borrowed; `path` stands in for one that is not known.
static inline struct gen_diag host_diag(const struct host_fault *f, const char *path)
{
    return (struct gen_diag){
        .code = f->code,
        .path = f->path != NULL && f->path[0] != '\0' ? f->path : path,
        .line = f->line,
        .hook = f->hook,
        .message = f->message,
    };
}

/// The member `line` of a message from outside; 0 when it is none.
static inline int host_line(const struct json *m)
{
    int64_t line = json_int(json_get(m, "line"), 0);
    return line > 0 && line < INT32_MAX ? (int)line : 0;
}

/// The answer, once, never from inside host_call(): 0 and `value` (may be NULL), or a negative code
/// and `fault`. `c` may be reused or freed inside.
typedef void host_call_done(struct host_call *c, int status, const struct json *value,
                            const struct host_fault *fault);

/// One call, in the caller's storage until `done` or host_cancel().
struct host_call {
    uint32_t timeout_ms; // the call ends with ERR_TIMEOUT then
    host_call_done *done;
    /// The code reports progress, any number of times before `done`. May be NULL.
    void (*progress)(struct host_call *c, struct str text);
    /// A provider's stream says a piece of its answer. A negative code and `e`: it cannot be taken, so the call is
    /// given up. NULL: it is no provider.
    int (*emit)(struct host_call *c, const struct json *event, struct err *e);
    const struct json *answer; // inside `done` of an answered call: the whole message
    int64_t id;                // the host's; 0 while not under way
};

/// What a host tells its owner. None is called after host_close(). All but on_end, on_loaded and
/// on_failed may be NULL: the host is told that there is no such thing.
struct host_owner {
    /// A contribution, before on_loaded. `what` is the whole message. Refuse with a negative code.
    int (*on_register)(void *arg, const struct json *what, struct err *e);
    /// One more, after on_loaded. NULL: none is taken then.
    int (*on_add)(void *arg, const struct json *what, struct err *e);
    /// It takes back what it registered under its number `ref`. NULL: nothing can be taken back.
    int (*on_unregister)(void *arg, int64_t ref, struct err *e);
    void (*on_loaded)(void *arg, const struct json *metadata);
    void (*on_failed)(void *arg, const struct host_fault *fault);
    void (*on_log)(void *arg, enum log_level level, struct str text);
    /// Code failed that answers no call: a timer, an event handler. NULL: on_log gets the message.
    void (*on_fault)(void *arg, const struct host_fault *fault);
    /// The code asks for operation `op`; answer with host_answer(), now or later.
    void (*on_call)(void *arg, int64_t id, struct str op, const struct json *params);
    /// A value to give to the next version.
    void (*on_state)(void *arg, struct str key, const struct json *value);
    /// It is over without having been asked: crashed, hung, flooded us or passed a limit. All calls
    /// have ended with an error. Only host_close() is left.
    void (*on_end)(void *arg, const struct host_fault *fault);
};

struct host_ops {
    void (*call)(struct host *h, struct host_call *c, const char *type, struct str fields);
    void (*cancel)(struct host *h, struct host_call *c);
    void (*answer)(struct host *h, int64_t id, int status, struct str text);
    void (*tell)(struct host *h, const char *type, struct str fields);
    bool (*alive)(struct host *h);
    void (*close)(struct host *h);
};

struct host {
    const struct host_ops *ops;
};

/// Begin a call: `type` is "hook", "tool", "route", "command", "prompt", "provider", "mcp_prompt", "mcp_resource" or
/// "shutdown", `fields` the text of a JSON object without its braces, `type` and `id`. Fails through `done`.
static inline void host_call(struct host *h, struct host_call *c, const char *type,
                             struct str fields)
{
    h->ops->call(h, c, type, fields);
}

/// Give a call up; `done` is not called after this. A call that is not under way is left alone.
static inline void host_cancel(struct host *h, struct host_call *c)
{
    h->ops->cancel(h, c);
}

/// Answer an on_call(): 0 and a JSON text, or a negative code and a message.
static inline void host_answer(struct host *h, int64_t id, int status, struct str text)
{
    h->ops->answer(h, id, status, text);
}

/// Say something that is not answered; `fields` are as in host_call(). A host that does not read loses it.
static inline void host_tell(struct host *h, const char *type, struct str fields)
{
    h->ops->tell(h, type, fields);
}

/// Tell the code that something happened; `data` is a JSON text.
void host_event(struct host *h, struct str name, struct str data);

/// Can it be called? False once it ended.
static inline bool host_alive(struct host *h)
{
    return h->ops->alive(h);
}

/// Let go of it: nothing is called back after this, whatever runs it is ended in good order, and
/// its memory goes by itself. Calls under way must be cancelled or over. NULL is allowed.
static inline void host_close(struct host *h)
{
    if (h != NULL) {
        h->ops->close(h);
    }
}
