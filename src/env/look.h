#pragma once

#include <sys/stat.h>

#include "base/sha256.h"
#include "loop/work.h"

// What files are now, found by a worker: for a caller that asks before the watcher has seen a save.

struct env_look;

struct env_looked {
    char *path;
    // known from the last look, and found by this one; zeros: never looked
    struct timespec changed; // with the next two: the file was not touched since
    ino_t inode;
    off_t size;
    bool there;                // as a file
    uint8_t hash[SHA256_SIZE]; // zeros when it is not there, cannot be read or is too large
};

/// Called once on the loop thread; `all` is borrowed for the call.
typedef void env_look_fn(const struct env_looked *all, size_t n, void *arg);

/// Look at `all` (copied with its paths) on `lane`, in one go. The look ends by itself after `fn`.
struct env_look *env_look_start(struct lane *lane, const struct env_looked *all, size_t n,
                                env_look_fn *fn, void *arg);
/// No callback follows. NULL is allowed.
void env_look_drop(struct env_look *k);
