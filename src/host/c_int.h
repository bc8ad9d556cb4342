#pragma once

#include "base/json.h"

// What the files of the C host share: making a library of a plugin's sources, and running it.

/// What is wrong with the sources. Strings are the caller's to free.
struct c_fault {
    char *message, *path; // path NULL: that of the plugin
    int line;
};
void c_fault_fini(struct c_fault *f);

/// Compile the files of a `load` message, unless that was done before. Returns the path of the library, which the caller
/// frees; NULL and `fault`. `warnings` gets what the compiler says besides. Blocks.
char *c_build(const struct json *load, struct buf *warnings, struct c_fault *fault);

/// From now on a signal that ends the process writes to stderr where it was in the library at `path`.
void c_trace_crashes(const char *path);
