#pragma once

#include "base/base.h"

/// A file of runtime/lua as the binary holds it; made by tools/embed.py.
struct shipped {
    const char *rel; // "lib/agent.lua"
    const char *text;
    size_t n;
};
extern const struct shipped shipped_lua[]; // ends with a NULL rel
