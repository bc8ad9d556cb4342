#pragma once

#include <assert.h>

#include "base/base.h"

/// A file of the source tree as the binary holds it; tables of these are made by tools/embed.py and end
/// with a NULL `rel`.
struct shipped {
    const char *rel; // below its directory: "lib/agent.lua"
    const char *text;
    size_t n;
};

/// The file of that name, which must be in the table `all`.
static inline const struct shipped *shipped_get(const struct shipped *all, const char *rel)
{
    while (all->rel != NULL && strcmp(all->rel, rel) != 0) {
        all++;
    }
    assert(all->rel != NULL);
    return all;
}
