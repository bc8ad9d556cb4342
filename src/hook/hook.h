#pragma once

#include "base/err.h"
#include "hook/points.h"
#include "hook/stats.h"

// One handler of a hook point. All of hook/ belongs to the loop thread.

struct hook_run;

/// What a handler says when it ends. In order of strength from HOOK_KEEP to HOOK_DENY.
enum hook_answer {
    HOOK_KEEP,    // nothing (nil): the value stays, the next is asked
    HOOK_VALUE,   // chain: the arguments now hold the new value; first: here is the answer
    HOOK_ALLOW,   // veto
    HOOK_ASK,     // veto: a person decides
    HOOK_DENY,    // veto; `fault.msg` of the run says why. Also the result of a blocked run
    HOOK_FAILED,  // it threw; `fault` of the run says what and where
    HOOK_TIMEOUT, // it ran out of time
    HOOK_STALE,   // what ran it is gone, and it with it
    HOOK_LATER,   // only from enter(): hook_run_answer() follows
};

/// What runs handlers: Lua in the hub, a child process, a test.
struct hook_target {
    /// Run the handler on `run->args` within `run->timeout_ms` and say how it ended. The target
    /// alone knows what the arguments are. It changes them only when it answers HOOK_VALUE in a
    /// chain: the values that the handler returned replace the first ones, the others stay; nil in
    /// first place is HOOK_KEEP, and what a handler wrote before it failed is not kept.
    /// HOOK_LATER (only when `run->may_wait`) is followed by one hook_run_answer(), never from
    /// inside enter().
    enum hook_answer (*enter)(void *data, struct hook_run *run);
    /// The answer is not needed any more: out of time, or the run was cancelled. `run` is not
    /// answered after this. NULL for targets that never answer later.
    void (*cancel)(void *data, struct hook_run *run);
    /// The last reference to the handler went. NULL: nothing to do.
    void (*release)(void *data);
};

enum hook_on_error {
    HOOK_CONTINUE, // the run continues with the previous value
    HOOK_BLOCK,    // the run ends with HOOK_DENY
};

enum { HOOK_TIMEOUT_MS = 1000, HOOK_STRIKES = 3 };

/// How a handler is run, and by whom.
struct hook_terms {
    int priority;        // higher runs first
    uint32_t timeout_ms; // 0: *limit_ms
    /// Read at every call, so that it may change; borrowed. NULL: HOOK_TIMEOUT_MS.
    const uint32_t *limit_ms;
    enum hook_on_error on_error;
    const struct hook_target *target;
    void *data;     // the target's; released through it
    void *owner;    // whose it is, for listeners; not looked at
    uint64_t order; // of registration: decides among equals, and the highest replaces
};

/// What a registration says. Strings are copied.
struct hook_spec {
    struct str point; // a point of points.def by its full name, or a free event
    enum hook_kind kind;
    struct str name;   // a later handler of the same (point, kind, name) replaces it; may be empty
    struct str filter; // glob on the run's subject (a tool's name); empty: everything
    struct hook_terms terms;
};

/// Shared: sets hold references. Read-only outside hook/.
struct hook {
    char *point;
    enum hook_kind kind;
    char *name;              // NULL: none
    char *filter;            // NULL: everything
    struct hook_terms terms; // its limit_ms is not NULL

    unsigned refs;
    bool gone;       // taken back: never entered again, whatever set still lists it
    bool disabled;   // by its owner, until enabled
    bool struck_out; // HOOK_STRIKES time-outs in a row
    unsigned strikes;
    struct hook_stats stats;
    char *last_error; // NULL: none so far
};

/// Check `spec` (a point of points.def has one kind, and a free event is observed or chained) and
/// make a handler with one reference. On failure `data` was not taken over.
int hook_new(struct hook **out, const struct hook_spec *spec, struct err *e) MUST_CHECK;
/// Share it; hook_unref() ends that.
struct hook *hook_ref(struct hook *h);
void hook_unref(struct hook *h); // NULL is allowed

/// Take it back: from here it is not entered any more, also by runs that are under way.
void hook_off(struct hook *h);
/// Switch it off or on. Switching on also forgives time-outs.
void hook_enable(struct hook *h, bool on);
/// Would it be entered now?
bool hook_is_live(const struct hook *h);
