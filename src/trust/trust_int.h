#pragma once

#include "base/map.h"
#include "trust/trust.h"

// What the files of this folder share: the book in memory.

/// An item of a place with every hash trusted for it, the latest at the end.
struct trust__item {
    enum trust_kind kind;
    const char *path;
    int64_t trusted_at; // of the latest, milliseconds since 1970
    vec(const char *) hashes;
};

struct trust__place {
    const char *path;
    bool follow;
    vec(struct trust__item *) items;
    struct map by_key; // the same, by kind and path
};

struct trust__listener {
    trust_cb *cb;
    void *arg;
};

struct trust__book {
    struct arena arena; // all strings and structs
    vec(struct trust__place *) places;
    struct map by_path; // the same
};

struct trust {
    char *home;
    char *worktrees; // real path of `home`/worktrees, where nothing is followed
    struct trust__book book;
    vec(struct trust__listener) listeners;
};

void trust__book_fini(struct trust__book *b); // leaves it empty, as zeroed
/// NULL when there is none.
struct trust__place *trust__find(const struct trust__book *b, const char *path);
struct trust__item *trust__find_item(const struct trust__place *p, enum trust_kind kind,
                                     const char *path);
/// Find or make. The strings are copied.
struct trust__place *trust__place(struct trust__book *b, const char *path);
struct trust__item *trust__item(struct trust__book *b, struct trust__place *p, enum trust_kind kind,
                                const char *path);
/// Put `hash` at the end; one that is there already moves.
void trust__add_hash(struct trust__book *b, struct trust__item *it, const char *hash);

/// Forget a place; false when it is not there.
bool trust__forget(struct trust__book *b, const char *path);

/// The text of trust.json, and back. A text that is not exactly such a document: ERR_CORRUPT, of a
/// later version ERR_UNSUPPORTED; `b`, which must be empty, then stays so.
void trust__encode(const struct trust__book *b, struct buf *out);
int trust__decode(struct trust__book *b, struct str text, struct err *e) MUST_CHECK;

/// Call `each` with the token of every provider that has a file among those of the environment `t`.
void trust__env_tokens(const struct tree *t, void (*each)(void *arg, const char *token), void *arg);

/// Call `each` with the absolute paths of the environment's files at `root`, also of those that it names and
/// that are missing. Blocks.
void trust__env_names(const char *root, void (*each)(void *arg, const char *path), void *arg);
