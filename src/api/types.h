#pragma once

#include "base/json.h"
#include "base/vec.h"
#include "trust/trust.h"

// Session types: `<layer>/sessions/<type>/init.lua`, found in the layers that plugins have, later ones first
// by name. Plain data: read on a lane, judged on the loop thread. What they say is up to Lua (policy.c).

struct session_type {
    const char *name, *layer;
    const char *path; // of its init.lua
    const char *rel;  // of its directory, below the project's root; NULL: the user's own
    struct tree tree; // its files
    int status;       // negative: it cannot be read, because of `e`
    struct err e;
    bool trusted;
};

struct session_types {
    struct arena arena;
    struct trust_place place;      // of the directory; empty: it is in no project
    vec(struct session_type) list; // lowest layer first
};

/// Read the types that count in `dir` (absolute; NULL: only the user's). Blocks. The caller ends it with types_fini().
void types_read(struct session_types *t, const char *home, const char *profile, const char *dir);
/// Decide which of them may be used.
void types_judge(struct session_types *t, const struct trust *trust);
/// The one that counts; NULL with `e` filled in: there is none, it is not trusted, or cannot be read.
const struct session_type *types_find(const struct session_types *t, struct str name,
                                      struct err *e);
/// Is there a later one of the same name that may be used?
bool types_is_shadowed(const struct session_types *t, const struct session_type *it);
void types_fini(struct session_types *t);

/// The text of its init.lua.
struct str types_source(const struct session_type *it);
