#pragma once

#include "hook/set.h"
#include "loop/timer.h"

// One dispatch: the handlers of a list, one after another, in the caller's storage.
//
//     struct hook_run run;
//     if (hook_run_start(&run, &(struct hook_run_opts){.list = list, .args = &args, ...})) {
//         use(run.result);        // the usual case: no handler waited, nothing was allocated
//     } else {
//         return;                 // `done` comes; `run` and `args` must stay where they are
//     }

/// What went wrong in a handler, filled in by its target.
struct hook_fault {
    int line; // 0: not known
    char path[256];
    char msg[512];        // also the reason of a HOOK_DENY
    char traceback[1000]; // innermost first; "" when there is none
};

/// Called on the loop thread when a run that had to wait is over. `run` may be reused or freed.
typedef void hook_run_done(struct hook_run *run, void *arg);

struct hook_run_opts {
    const struct hook_list *list;
    struct loop *loop;  // for the deadlines of handlers that answer later; NULL unless may_wait
    void *args;         // handed to the targets, never looked at; borrowed until the end
    struct str subject; // what filters look at (a tool's name); borrowed until the end
    bool may_wait;
    hook_run_done *done;  // NULL unless may_wait
    hook_fault_cb *fault; // called besides the set's own listener, with `arg`; may be NULL
    void *arg;
};

struct hook_run {
    // for targets
    void *args;
    struct hook *hook;   // the handler that is inside
    uint32_t timeout_ms; // its time in all
    uint64_t since_ns;   // when it was entered, monotonic
    bool may_wait;
    struct hook_fault fault; // of the handler that was inside last; msg "" when it is content
    void *target_data;       // the target's own, while one of its handlers is inside

    // for callers, once it is over
    enum hook_answer
        result;      // KEEP; VALUE: something was changed or answered; veto: ALLOW, ASK, DENY
    struct hook *by; // the handler that answered or refused (first, veto, blocked); else NULL
    size_t ran;      // handlers that ran to their end
    size_t failed;   // handlers that did not

    // private
    const struct hook_list *list;
    struct loop *loop;
    struct str subject;
    size_t at; // next handler
    struct timer deadline;
    hook_run_done *done;
    hook_fault_cb *on_fault;
    void *arg;
    bool entering, waiting;
};

/// Run the handlers of `o->list`. True: it is over, `done` will not be called. False: a handler
/// answers later; `done` is called once, unless hook_run_cancel() comes first.
bool hook_run_start(struct hook_run *run, const struct hook_run_opts *o) MUST_CHECK;

/// The answer of a handler that said HOOK_LATER; the run continues and may end (`done`) inside this
/// call.
void hook_run_answer(struct hook_run *run, enum hook_answer answer);

/// Give a waiting run up: the handler inside is cancelled, no other is entered, `done` is not
/// called.
void hook_run_cancel(struct hook_run *run);

/// Fill in `run->fault`; for targets. `path` may be NULL; another path than before drops the traceback.
void hook_run_fault(struct hook_run *run, const char *path, int line, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/// Add the traceback; what is too long is cut.
void hook_run_traceback(struct hook_run *run, const char *text);
