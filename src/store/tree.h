#pragma once

#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/vec.h"

// A plugin's files, read once: a directory or a single file in memory, with one hash over all of it.
// The bytes that were hashed are those that are kept, trusted and run; the path is not read again. A tree
// belongs to no thread: a worker reads it and hands it over.

enum {
    TREE_FILES = 2048,         // files of a tree
    TREE_BYTES = 32 << 20,     // of all of them
    TREE_FILE_BYTES = 8 << 20, // of one
    TREE_DEPTH = 16,
};

struct tree_file {
    const char *path; // relative to the root, with `/`; of a single file its name
    struct str bytes;
    bool executable;
};

struct tree {
    struct arena arena;
    bool is_file;                // a single file
    vec(struct tree_file) files; // sorted by path
    char hash[SHA256_HEX];       // over names, executable bits and bytes; equal trees, equal hashes
    /// A path of it that another user owns or may write, in the arena; NULL: none. The directory that it is
    /// in counts too: a user who can write that can replace it.
    const char *foreign;
    const char *link; // a symbolic link that was followed, in the arena; NULL: there was none
};

/// Read the file or directory `path`. Skipped: version control (`.git`, `.hg`, `.svn`), `node_modules`,
/// `__pycache__`, editors' leavings (`*~`, `.*.swp`, `.#*`, `4913`), sockets, FIFOs and devices. A
/// symbolic link is followed inside the tree only. Blocks. ERR_NOT_FOUND when it does not exist;
/// ERR_DENIED for a link that leads out ("symbolic link 'x' leads out of the plugin");
/// ERR_TOO_LARGE; ERR_CONFLICT when files changed during the reading, twice in a row.
/// On failure `t` holds nothing.
int tree_read(struct tree *t, const char *path, struct err *e) MUST_CHECK;
/// The same for a path in the directory `root`, which is real: ERR_DENIED when a link on the way, also one that is put
/// there meanwhile, leads out of `root`.
int tree_read_beneath(struct tree *t, const char *root, const char *path, struct err *e) MUST_CHECK;
/// Free its files. It may be read into again.
void tree_fini(struct tree *t);
/// Does another user than root own it, or may one write it? A group that has the user's own number is the
/// user's alone.
bool tree_is_foreign(const struct stat *st);

/// The tree of a single file of that name with these bytes, which are copied.
void tree_of_file(struct tree *t, const char *name, struct str bytes);

/// All of it as a text, appended to `out`; and the tree that such a text holds, with the hash of its files, which
/// the caller compares. ERR_DENIED for a path that leads out, ERR_CORRUPT, ERR_TOO_LARGE; then `t` holds nothing.
void tree_to_text(const struct tree *t, struct buf *out);
int tree_of_text(struct tree *t, struct str text, struct err *e) MUST_CHECK;

/// Let a file of the tree (its path if that is a single file: any) have these bytes, which are copied, whatever
/// was read. False when it is not there or has them already.
bool tree_put(struct tree *t, struct str path, struct str bytes);

/// The file of that relative path; NULL when there is none.
const struct tree_file *tree_find(const struct tree *t, struct str path);
