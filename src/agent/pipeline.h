#pragma once

#include "base/vec.h"
#include "hook/args.h"
#include "hook/run.h"

// One hook point raised for a turn, in the caller's storage.

struct pipe;
/// The handlers have run: `p->run.result` is how, p->args.values are the values they left. Never called
/// after pipe_cancel().
typedef void pipe_done(struct pipe *p, void *arg);

/// A handler of `unit` (may be NULL) failed; `run->fault` says how.
typedef void pipe_failed(void *arg, const char *unit, const struct hook *h,
                         const struct hook_run *run);

/// What to raise. `a`, `b` are the arguments after ctx; NULL: there is none.
struct pipe_opts {
    const struct hook_set *hooks;
    struct loop *loop;
    enum hook_point_id point;
    struct hook_ctx *ctx;
    struct arena *arena;
    const struct json *a, *b;
    struct str subject; // a tool's name
    pipe_done *done;    // may be called before this returns; NULL for a point that may not wait
    void *arg;
    pipe_failed *failed; // may be NULL
    void *failed_arg;
};

struct pipe {
    struct hook_run run;
    struct hook_args args;
    bool running;
    vec(const char *) changed_by; // units, once each; borrowed from the generation
    struct pipe_opts o;
};

/// Does the point have handlers? If not, callers need not build its arguments.
bool pipe_heard(const struct hook_set *hooks, enum hook_point_id point);
/// Run the handlers. Without any the result is HOOK_KEEP, and `done` is called from inside.
void pipe_start(struct pipe *p, const struct pipe_opts *o);
/// Cancel the handlers that run.
void pipe_cancel(struct pipe *p);
/// Free it; no handler runs.
void pipe_fini(struct pipe *p);

/// The last argument, as the handlers left it.
const struct json *pipe_value(const struct pipe *p);
/// The unit whose handler answered or refused; NULL: none did.
const char *pipe_by(const struct pipe *p);
/// Write the member `changed_by`: the units that changed the value.
void pipe_write_changed(const struct pipe *p, struct jw *w);
