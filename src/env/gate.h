#pragma once

#include "env/spec.h"

/// Decides whether the files of a project may be used. Nothing in them is evaluated or run before that.
struct env_gate {
    /// 0, or ERR_DENIED with a message that says what to type. Called on a worker: it may block, and
    /// may touch only what `arg` owns. It may add inputs to the spec, on which its answer depends.
    int (*check)(struct env_spec *s, void *arg, struct err *e);
    void *arg;
};

/// The gate that asks the user's trust book, `$AFLOAT_HOME/trust.json` (see trust/trust.h), at every
/// build. A project that only has an `.envrc` passes: direnv keeps a list of its own. `home` is copied;
/// end it with env_gate_trust_fini().
void env_gate_trust_init(struct env_gate *g, const char *home);
void env_gate_trust_fini(struct env_gate *g);
/// The same gate for builds that no user at a shell has begun. Where programs of the project would run, it is
/// not enough that the place is followed: a model that may write the project's files may have written them.
/// Their present content must have been trusted; and since they may read files that are not hashed, they run in
/// a box (env_spec.box), see env_gate_unattended_set(). `runtime` is AFLOAT_RUNTIME, copied.
void env_gate_unattended_init(struct env_gate *g, const char *home, const char *runtime);
/// What the box is from the next build on: none at all without `boxed`; `hide`, NULL at its end, is copied. On the
/// loop thread.
void env_gate_unattended_set(struct env_gate *g, bool boxed, bool network, const char *const *hide);

/// May the project that `root` belongs to be followed for the sake of its environment? Following is for a whole
/// place: where it brings more, as plugins that run in the hub, that takes a word for all of it. Blocks.
bool env_gate_may_follow(const char *home, const char *root);
/// Trust the environment files of the project at `root` as they are now, and with `follow` whatever the place
/// will hold. Blocks. ERR_NOT_FOUND when there are none; ERR_DENIED where it may not be followed.
int env_gate_allow(const char *home, const char *root, bool follow, struct err *e) MUST_CHECK;
/// Forget the project that `root` belongs to, with all that was trusted of it. Blocks. ERR_NOT_FOUND when it was
/// not trusted.
int env_gate_deny(const char *home, const char *root, struct err *e) MUST_CHECK;
