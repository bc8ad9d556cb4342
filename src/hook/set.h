#pragma once

#include "hook/hook.h"

// An immutable set of handlers in the order in which they run: priority (higher first), then the
// owner's rank, then order of registration. A dispatch runs on one list of one set, so that a handler
// added meanwhile (it is in a newer set) does not run, and one taken back does not either.

struct hook_set;

/// A handler and the place of its owner in the load order or in a session's list.
struct hook_place {
    struct hook *hook; // borrowed; the set takes a reference of its own
    size_t rank;
};

/// Told about each fault of a handler. `switched_off`: it was the last of HOOK_STRIKES time-outs in
/// a row. `run->fault` says what happened. The handler may be taken back inside, the set not freed.
typedef void hook_fault_cb(void *arg, struct hook *h, enum hook_answer how,
                           const struct hook_run *run, bool switched_off);

/// What keeps a set, and what its handlers need, alive while a run is inside it.
struct hook_keeper {
    void (*pin)(void *arg);   // NULL: the code that starts runs keeps the set
    void (*unpin)(void *arg); // may free the set
    hook_fault_cb *fault;     // may be NULL
    void *arg;
};

/// The handlers of one (point, kind). There is no list without handlers.
struct hook_list {
    const struct hook_keeper *keeper; // of the set; its functions may be NULL
    const char *point;
    enum hook_kind kind;
    size_t n;
    struct hook **hooks; // each with a reference of the set
};

/// Build a set. Handlers that are gone are left out; of several with the same (point, kind, name)
/// only the one registered last is in. `keeper` is copied, NULL for none.
struct hook_set *hook_set_new(const struct hook_place *places, size_t n,
                              const struct hook_keeper *keeper);
void hook_set_free(struct hook_set *s); // no run may be inside; NULL is allowed

/// The handlers of a point; NULL when there are none: then the caller need not build arguments.
/// Valid as long as the set.
const struct hook_list *hook_set_get(const struct hook_set *s, struct str point,
                                     enum hook_kind kind);
/// The handler of that name, or NULL.
struct hook *hook_set_find(const struct hook_set *s, struct str point, enum hook_kind kind,
                           struct str name);
/// Walk the lists: `size_t at = 0; while ((l = hook_set_next(s, &at)) != NULL)`, in no order.
const struct hook_list *hook_set_next(const struct hook_set *s, size_t *at);
