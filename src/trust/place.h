#pragma once

#include "base/err.h"

// The project of a directory. The *root* is the directory with the project's files; the *place* is what trust is
// kept for: the same directory, or that of the main repository when the root is a linked git worktree.

struct trust_place {
    char *root;   // real path
    char *place;  // real path
    bool foreign; // another user owns the root or its `.afloat`, or may write there: never followed
};

/// Find the project that contains `dir`: the nearest directory, from `dir` up, that holds `.afloat/` or
/// `.git`. `home` (AFLOAT_HOME; NULL for none) and `~/.afloat` are no project's `.afloat/`. A `.git`
/// file is believed only when the repository that it names points back. Never runs git. Blocks.
/// ERR_NOT_FOUND when there is none or `dir` does not exist; `p` is then empty. The caller ends it with
/// trust_place_fini().
int trust_place_of(struct trust_place *p, const char *home, const char *dir,
                   struct err *e) MUST_CHECK;
/// The same for taking trust back: a directory that is gone, or no project any more, is its own place.
int trust_place_named(struct trust_place *p, const char *home, const char *dir,
                      struct err *e) MUST_CHECK;
void trust_place_fini(struct trust_place *p); // leaves it empty
