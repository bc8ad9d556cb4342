#pragma once

#include <stdint.h>

#include "base/vec.h"

// What code read while it loaded, beside its own files. A change there makes what was loaded stale, as a
// change of the code does.

struct plugin_input {
    char *path;    // absolute
    uint64_t mark; // of what was there when it was read
    bool own;      // the code wrote it as it loaded: a product, and no input
};
struct plugin_inputs {
    vec(struct plugin_input) list; // each path once
};

/// Note that `path` is about to be read. Blocks for as long as reading it takes.
void plugin_inputs_add(struct plugin_inputs *in, const char *path);
/// Note that `path` is about to be written.
void plugin_inputs_own(struct plugin_inputs *in, const char *path);
void plugin_inputs_fini(struct plugin_inputs *in);

/// A number for what `path` holds: the bytes of a file, the names in a directory; 0 when there is
/// nothing. Blocks.
uint64_t plugin_input_mark(const char *path);
