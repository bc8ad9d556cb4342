#pragma once

#include "base/sha256.h"
#include "base/str.h"
#include "loop/loop.h"

// The past of units that are one text each and no plugins: modules and improvements. Their versions are
// kept beside those of plugins and gone back to together with them, and the last good one of a file
// serves after a restart. All of it belongs to the loop thread.

struct plugins;

/// One version. What is given is copied; what is got is borrowed until the loop turns.
struct past_text {
    const char *path, *layer;
    const char *hash; // see past_hash()
    const char *note; // the member's own, kept with it; NULL: none
    struct str bytes;
    uint64_t revision;
};

/// The hash that names a version: of the file's name and its bytes.
void past_hash(const char *path, struct str bytes, char out[SHA256_HEX]);

struct past_member {
    const char *prefix; // of the names of its units
    /// Fill in what serves as `unit` out of a file of the user's, without its bytes; false: nothing does.
    bool (*serving)(void *arg, const char *unit, struct past_text *out);
    /// The hash of the text in the file of `unit`; "" if there is no file.
    void (*on_disk)(void *arg, const char *unit, char out[SHA256_HEX]);
    /// Another version of `unit` is held than before, or none: see past_held(). A run follows.
    void (*held)(void *arg, const char *unit);
};

/// Before the loop turns. The files of the member are below `dir`; everything is borrowed until the engine is closed.
void past_join(struct plugins *ps, const struct past_member *m, const char *dir, void *arg);
/// Call `cb` when what was kept is known, which may be at once; once, also when the hub stops.
void past_await(struct plugins *ps, loop_fn *cb, void *arg);

/// `t` (its path, hash and bytes) serves and is the text of its file: keep it as the last good one.
void past_keep(struct plugins *ps, const struct past_text *t);
/// The version of `path` that was good when the hub stopped, until another one is; false: none was.
bool past_good(const struct plugins *ps, const char *path, struct str *bytes);

/// A version that an undo brought back.
struct past_held {
    bool out;         // nothing serves in its place
    const char *over; // hash of the text in the file then: another one ends the hold
    struct past_text text;
};
/// The version of `unit` that is held; false: none is. Texts are borrowed until the next run.
bool past_held(const struct plugins *ps, const char *unit, struct past_held *out);
/// The next unit that begins with `prefix` and is held; NULL: no other. `*at` is 0 at first.
const char *past_next_held(const struct plugins *ps, const char *prefix, size_t *at);
/// End the hold of `unit`: its file changed, or a reload was forced.
void past_unhold(struct plugins *ps, const char *unit);
