#pragma once

#include "base/json.h"
#include "base/sha256.h"

// What a path holds, and a store of contents, so that a path can get back what it held. Everything here blocks; only one
// thread at a time may use a store.

enum { KEPT_FILE_MAX = 16 << 20 }; // bytes of one file; a larger one is not kept

enum kept_kind {
    KEPT_ABSENT, // no file: nothing, or a directory, whose files are paths of their own
    KEPT_FILE,
    KEPT_LINK,
    KEPT_NOT, // something that is not kept: a large file, a repository inside, a device
};

/// What a path holds. Two states are equal when all members are.
struct kept_state {
    enum kept_kind kind;
    uint32_t mode; // of a file
    // of a file's bytes, of a link's target, or of a large file's size and times
    char hash[SHA256_HEX];
};

/// Are both states equal?
bool kept_same(const struct kept_state *a, const struct kept_state *b);
/// Write a state as the member `key` of the open object.
void kept_write(struct jw *w, const char *key, const struct kept_state *s);
/// Read a state; KEPT_NOT for anything that kept_write() does not write.
struct kept_state kept_read(const struct json *v);

/// Contents by hash: one file for each, below `dir`.
struct kept_store {
    char *dir;
};

/// Find out what `rel` below `dirfd` holds; if `store` is not NULL, store its content there. Links are not followed: a path
/// behind one is absent. What cannot be read is KEPT_NOT. Fails only when the store cannot be written.
int kept_look(const struct kept_store *store, int dirfd, const char *rel, struct kept_state *out,
              struct err *e) MUST_CHECK;
/// Restore `rel` to `state`, in one step, by a rename. Missing directories are created; directories that a deletion leaves
/// empty are removed, and so is an empty one at `rel`. ERR_CORRUPT: the stored content is damaged or missing; ERR_CONFLICT:
/// the path is a directory that is not empty.
int kept_put(const struct kept_store *store, int dirfd, const char *rel,
             const struct kept_state *state, struct err *e) MUST_CHECK;
/// How many bytes the store has.
uint64_t kept_bytes(const struct kept_store *store);
/// Remove the contents for which `wanted` returns false.
void kept_sweep(const struct kept_store *store, bool (*wanted)(void *arg, const char *hash),
                void *arg);
