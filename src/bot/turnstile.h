#pragma once

#include "base/vec.h"

// One at a time for each repository: whoever makes or removes a worktree. Git itself fails when it meets a
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

/// Call `enter` when nobody else is inside for `repo`: now, or from another's turnstile_leave(). `arg` is
/// also what it is known by.
void turnstile_enter(struct turnstile *t, const char *repo, turnstile_fn *enter, void *arg);
/// Leave, and let the next one in; also for one who still waits. Who is not there is none.
void turnstile_leave(struct turnstile *t, const void *arg);
void turnstile_fini(struct turnstile *t);
