#pragma once

#include "config/config_int.h"

// One file of settings, read and checked but not yet in force. Private to config/.

/// A checked setting.
struct layer__value {
    const struct schema__key *key;     // NULL: an element of `array`
    const char *text;                  // the full key, NULL for an element
    const char *name;                  // the user's name for the `*`, or NULL
    const struct schema__array *array; // NULL: not an element
    struct json *json;
    uint32_t line, col;
};

struct layer {
    struct config *c; // its arena holds everything
    struct config_diags *d;
    enum config_origin origin;
    const char *path;
    const char *text; // what the file holds; NULL: it is read
    bool broken;      // an error was found: nothing of it may be used
    vec(struct layer__value) values;
};

void layer__init(struct layer *l, struct config *c, struct config_diags *d,
                 enum config_origin origin, const char *path);

/// Read the file at `l->path` and stage its values. A missing file stages none; problems go to
/// `l->d`. `policy` (may be NULL) gets the values of a [policy] table; an error in either breaks
/// both.
void layer__read(struct layer *l, struct layer *policy);
