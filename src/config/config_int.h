#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "config/config.h"
#include "config/schema_int.h"

// How a configuration is put together by load.c. Private to config/.

struct config__slot {
    struct config_entry entry;
    const struct schema__key *key; // NULL for an element of an array of tables
    const char *const *list;       // the elements of a list of strings, else NULL
};

struct config {
    struct arena arena;          // slots and all they point to
    struct map index;            // key -> slot
    struct config__slot **slots; // the same, sorted; NULL until config__finish()
    size_t n;
    size_t elements[SCHEMA_ARRAYS]; // of each array of tables so far
    const char *left_out;           // the file that was broken last, of the system or the user
};

/// Set `entry.key`, replacing the value of a lower layer. Everything `entry` points to must live as
/// long as `c`.
void config__put(struct config *c, const struct schema__key *key, struct config_entry entry);

/// Sort, once everything is there.
void config__finish(struct config *c);
