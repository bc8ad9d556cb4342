#pragma once

#include "base/vec.h"

// One worktree at a time is made or removed in each repository. Git itself fails when it meets a
// worktree that another git has only half made ("failed to read .git/worktrees/.../commondir"). Loop thread.

typedef void turnstile_fn(void *arg);

struct turnstile_guest {
    char *repo;
    turnstile_fn *enter;
    void *arg;
};

/// The caller's storage; zeroed memory is an empty one.
struct turnstile {
    vec(struct turnstile_guest) guests; // of one repository the first is inside
};

/// Call `enter` when no other guest is inside for `repo`: now, or from another's turnstile_leave(). `arg` also
/// identifies the guest.
void turnstile_enter(struct turnstile *t, const char *repo, turnstile_fn *enter, void *arg);
/// Leave, and let the next guest in; also for a guest that still waits. An unknown guest is ignored.
void turnstile_leave(struct turnstile *t, const void *arg);
void turnstile_fini(struct turnstile *t);
