#pragma once

#include <sys/types.h>

#include "base/err.h"

// Directories that were granted once, and what they were then.
//
// A grant names a directory by its path, but a sandboxed command may rename what it can write and put something
// else there. So a path is turned into a directory once; from then on it stands for that
// directory only. The box, the file tools and git jobs ask here, and each grant has one meaning for all
// of them. docs/internals/sandbox.md says why this is enough.

struct grants; // of one session, shared by its calls

/// A granted directory. Borrowed from its grants.
struct grant {
    const char *path; // real path
    dev_t dev;
    ino_t ino;
};

/// The caller ends it with grants_unref(). Counted on the loop thread only.
struct grants *grants_new(void);
struct grants *grants_ref(struct grants *a);
void grants_unref(struct grants *a); // NULL is allowed

/// Close the descriptors of a session that rests; what each path stands for stays known.
void grants_rest(struct grants *a); // NULL is allowed

/// Find what `path` (absolute, or beginning with `~/`) stands for: on the first call the directory that is
/// there, later that same directory. On any thread; blocks. ERR_NOT_FOUND when nothing is there;
/// ERR_CONFLICT when it is another directory now, or a link; ERR_DENIED when the path leads through a
/// symbolic link that this user can replace.
int grants_find(struct grants *a, const char *path, struct grant *out, struct err *e) MUST_CHECK;
