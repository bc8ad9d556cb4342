#pragma once

#include "base/base.h"

// Why an entry into Lua failed, as diagnostics show it.

#define FAULT_MAP(X)                                                                               \
    X(LOAD_FAILED)                                                                                 \
    X(LOAD_TIMEOUT)                                                                                \
    X(HOOK_FAILED)                                                                                 \
    X(HOOK_TIMEOUT)                                                                                \
    X(MEMORY_LIMIT)                                                                                \
    X(STALE_HANDLE)

enum fault_code {
#define X(name) FAULT_##name,
    FAULT_MAP(X)
#undef X
};

/// Texts are UTF-8 and never NULL, but for `path`.
struct fault {
    enum fault_code code;
    char *message;   // without the place
    char *path;      // of the file, NULL when the code came from no file
    int line;        // 0 when unknown
    char *traceback; // "path:line: in 'name'" a line, innermost first; may be ""
};

/// NULL is allowed.
void fault_free(struct fault *f);
/// "HOOK_TIMEOUT"
const char *fault_name(enum fault_code code);
