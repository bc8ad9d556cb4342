#pragma once

#include <stddef.h>

#include "base/err.h"

// Shared objects that are loaded when they are needed, and never linked.

/// A function, and the offset of its pointer in a table of function pointers.
struct library_function {
    const char *name;
    size_t at;
};

/// A library, in the words of messages: "USE needs NAME: install PACKAGE", "install PACKAGE VERSION or newer".
struct library {
    const char *use, *name, *package, *version;
    const struct library_function *functions;
    size_t n;
};

/// Load the shared object `soname` and fill in `table`. It is never closed again: threads of it may still run its code,
/// and it may have handlers at exit. ERR_UNSUPPORTED when it is missing or lacks a function; `table` is then
/// not to be used.
int library_load(void *table, const struct library *l, const char *soname,
                 struct err *e) MUST_CHECK;
