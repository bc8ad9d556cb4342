#pragma once

#include <sys/stat.h>

#include "git/git.h"
#include "rewind/record.h"

// A checkout at one moment: its commit, and the files that were not as in that commit, with their contents
// kept. Together with git it gives every file of the checkout back. Everything here blocks.

/// When these are the same, so is the file.
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

/// Take one of what `status` lists, contents kept in `store`. Files that have not changed since `old`
/// (may be empty) are not read again.
int snapshot_take(struct snapshot *out, const struct snapshot *old, const struct git_status *status,
                  const struct kept_store *store, struct err *e) MUST_CHECK;

/// What was changed between `old` and `now`, where `status` is the list that `now` was taken of, since
/// old's commit. Changes of files that were clean before have `open` set: their `before` is in that commit,
/// and the caller gets it from there. Strings are in `a`.
void snapshot_compare(const struct snapshot *old, const struct snapshot *now,
                      const struct git_status *status, struct arena *a, rewind_changes *out);

/// The same from and to a file, so that a command that a kill interrupted can be settled later. Stamps are
/// not kept. A file that is missing or damaged is an empty snapshot.
int snapshot_save(const struct snapshot *s, const char *path, struct err *e) MUST_CHECK;
void snapshot_load(struct snapshot *s, const char *path);
