#pragma once

#include "base/sha256.h"
#include "gen/diag.h"
#include "loop/loop.h"
#include "store/tree.h"

// The web side of plugins: which files it is made of, and turning TypeScript and JSX into one module that a
// browser runs. Everything belongs to the loop thread, but for front_hash() and what else only reads a tree.

struct front;

/// What the compiler made of one tree. Never changes.
struct front_output {
    unsigned refs;
    char *js, *css, *map; // NUL-terminated; css: NULL without style; map: of the js, may be NULL
    size_t n_js, n_css, n_map;
};
/// One more owner, one less; the last one frees it. NULL is allowed for unref.
struct front_output *front_output_ref(struct front_output *o);
void front_output_unref(struct front_output *o);

/// Does a browser need this entry compiled? `.tsx`, `.ts` and `.jsx` do; a plain `.js` is served as it is.
bool front_needs_build(const char *entry);
/// A hash over everything of the tree that a page could be given: equal hashes, equal web sides.
void front_hash(const struct tree *t, const char *entry, char out[SHA256_HEX]);
/// The content type of a file that belongs to a web side; NULL: it never does, and is not served.
const char *front_type(struct str path);

/// Nothing runs until something is built.
struct front *front_open(struct loop *l);
/// Builds under way fail at once, with their callback; the process ends. NULL is allowed.
void front_close(struct front *f);

/// Exactly one of `out` (a reference that is the callback's) and `fault` (borrowed) is set. A fault has the code
/// FRONT_BUILD_FAILED, the source "front", and a path relative to the tree where the compiler named one.
/// `missing`: there is no compiler, and nothing is wrong with the plugin.
typedef void front_built(void *arg, struct front_output *out, const struct gen_diag *fault,
                         bool missing);
/// Bundle `entry` of `t` with all that it imports; both are borrowed until `cb`, which is never called from inside
/// this function. The compiler sees the files of the tree and nothing else.
void front_build(struct front *f, const struct tree *t, const char *entry, front_built *cb,
                 void *arg);
