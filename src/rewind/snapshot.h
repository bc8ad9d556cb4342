#pragma once

#include <sys/stat.h>

#include "git/git.h"
#include "rewind/record.h"

// A checkout at one moment: its commit, and the files that differed from that commit, with their contents stored. With
// git, every file of the checkout can be restored from it. Everything here blocks.

/// When these are equal, the file has not changed.
struct snapshot_stamp {
    uint64_t dev, ino, size, mode;
    int64_t mtime_ns, ctime_ns;
};

struct snapshot_file {
    char *path; // from the root
    struct kept_state state;
    struct snapshot_stamp stamp;
};

struct snapshot {
    char *root, *head;               // NULL: there is none yet; `head` "" for no commit
    vec(struct snapshot_file) files; // by path
};

/// Free what it holds; leaves it empty.
void snapshot_fini(struct snapshot *s);

/// Take a snapshot of the files that `status` lists; contents go to `store`. Files that have not changed since `old` (may
/// be empty) are not read again.
int snapshot_take(struct snapshot *out, const struct snapshot *old, const struct git_status *status,
                  const struct kept_store *store, struct err *e) MUST_CHECK;

/// Append what changed between `old` and `now`; `status` is the list since old's commit that `now` was taken from. Changes
/// of files that were clean before have `open` set: their `before` is in that commit, and the caller takes it from there.
/// Strings are in `a`.
void snapshot_compare(const struct snapshot *old, const struct snapshot *now,
                      const struct git_status *status, struct arena *a, rewind_changes *out);

/// Save a snapshot to a file and load it, so that a command that a crash interrupted can be settled later. Stamps are not
/// saved. A missing or damaged file gives an empty snapshot.
int snapshot_save(const struct snapshot *s, const char *path, struct err *e) MUST_CHECK;
void snapshot_load(struct snapshot *s, const char *path);
