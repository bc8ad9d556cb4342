#pragma once

#include "base/base.h"

/// A file of the source tree as the binary holds it; tables of these are made by tools/embed.py and end
/// with a NULL `rel`.
struct shipped {
    const char *rel; // below its directory: "lib/agent.lua"
    const char *text;
    size_t n;
};
