#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/vec.h"

// A set of plugins: which contents are at which places. It names contents by hash and holds none of them.

enum { PLUGIN_SET_MAX = 256 }; // items

struct set_item {
    const char
        *place; // relative to the home, or to the project: "plugins/x.lua", ".afloat/plugins/y"
    const char *project;   // its root, absolute; NULL: the user's
    char hash[SHA256_HEX]; // "": nothing is there
};

/// Strings are in the arena. Zeroed memory is an empty set.
struct plugin_set {
    struct arena arena;
    vec(struct set_item) items;
};

/// Free the items; the set is empty afterwards.
void plugin_set_fini(struct plugin_set *s);
/// Add a copy. `hash` is "" or 64 digits.
void plugin_set_add(struct plugin_set *s, const char *place, const char *project, const char *hash);
void plugin_set_copy(struct plugin_set *to, const struct plugin_set *from); // `to` is empty
/// The item of the same place and project; NULL: there is none.
const struct set_item *plugin_set_find(const struct plugin_set *s, const struct set_item *like);
/// Its hash, "" when there is none.
const char *plugin_set_hash(const struct plugin_set *s, const struct set_item *like);
/// As an array of objects.
void plugin_set_write(const struct plugin_set *s, struct jw *w);
/// Read such an array into an empty `s`. ERR_DENIED for a place where no plugin of the user or of a project
/// can be, ERR_CORRUPT, ERR_TOO_LARGE; then `s` is empty.
int plugin_set_read(struct plugin_set *s, const struct json *from, struct err *e) MUST_CHECK;
/// Could `place` be that of a plugin of the user's (`project` NULL), or of a project's?
bool plugin_set_may_hold(struct str place, const char *project);
