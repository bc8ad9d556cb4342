#pragma once

#include "base/err.h"

// Tells whether anything in a tree of directories was touched since it was armed, without looking at the
// files: the kernel queues a notice for each change before the change's system call returns.

struct tripwire;

enum tripped {
    TRIPWIRE_STILL, // nothing was touched
    TRIPWIRE_FILES, // something was
    TRIPWIRE_DIRS,  // and directories came or went: it does not see all of the tree any more
};

/// Watch every directory beneath `root` but `.git` and those in `skip` (from the root, ending with a
/// slash). NULL when that is too much for the kernel or the tree is too large: then the caller must
/// look for itself. Blocks.
struct tripwire *tripwire_arm(const char *root, const char *const *skip, size_t n_skip);
/// What happened since it was armed or asked last. Does not block.
enum tripped tripwire_ask(struct tripwire *w);
void tripwire_free(struct tripwire *w); // NULL is allowed
