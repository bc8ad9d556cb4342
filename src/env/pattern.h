#pragma once

#include "base/arena.h"

/// Which files a path stands for: `/p/go.mod` for itself, `/p/db/*.sql` for those names in /p/db,
/// `/p/src/**/*.c` for those names in /p/src and in all directories below, `/p/src/**` for all files there.
struct env_pattern {
    const char *dir;  // the part before the first `*`, up to its last slash
    const char *name; // `*` stands for any run of bytes
    bool deep;        // in all directories below, too
};

/// Split the absolute `path`; strings are in `a`.
struct env_pattern env_pattern_of(struct arena *a, const char *path);
