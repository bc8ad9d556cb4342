#pragma once

#include "base/json.h"
#include "base/sha256.h"

// What a path holds, and contents that are kept so that it can hold them again. Everything here blocks;
// a store is used by one thread at a time.

enum { KEPT_FILE_MAX = 16 << 20 }; // bytes of one file; a larger one is not kept

enum kept_kind {
    KEPT_ABSENT,
    KEPT_FILE,
    KEPT_LINK,
    KEPT_NOT, // there is something that is not kept: a large file, a directory, a device
};

/// What a path holds. Two states are the same when all members are.
struct kept_state {
    enum kept_kind kind;
    uint32_t mode; // of a file
    // of a file's bytes, of a link's target, or of a large file's size and times
    char hash[SHA256_HEX];
};

/// Do both hold the same?
bool kept_same(const struct kept_state *a, const struct kept_state *b);
/// Write a state as the member `key` of the open object.
void kept_write(struct jw *w, const char *key, const struct kept_state *s);
/// KEPT_NOT for anything that kept_write() does not write.
struct kept_state kept_read(const struct json *v);

/// Contents by hash, a file each beneath `dir`.
struct kept_store {
    char *dir;
};

/// Find what `rel` beneath `dirfd` holds. With a store its content is kept there as well. Links are not
/// followed: what lies behind one is absent. Whatever cannot be read is KEPT_NOT; an error is only
/// a store that cannot be written.
int kept_look(const struct kept_store *store, int dirfd, const char *rel, struct kept_state *out,
              struct err *e) MUST_CHECK;
/// Let `rel` hold `state` again: each path changes at once, by a rename. Directories on the way are made;
/// those that get empty by a deletion are removed. ERR_CORRUPT when the kept content is damaged or gone;
/// ERR_CONFLICT when a directory stands there.
int kept_put(const struct kept_store *store, int dirfd, const char *rel,
             const struct kept_state *state, struct err *e) MUST_CHECK;
/// Bytes of all that is kept.
uint64_t kept_bytes(const struct kept_store *store);
/// Remove contents for which `wanted` is false.
void kept_sweep(const struct kept_store *store, bool (*wanted)(void *arg, const char *hash),
                void *arg);
