#pragma once

#include "env/env.h"

// Variables that are lists with colons: whose element is whose.

/// Split at colons; an empty or NULL value has no elements. `*n` pieces in the arena.
const char **env_paths_split(struct arena *a, const char *value, size_t *n);
char *env_paths_join(struct arena *a, const char *const *items, size_t n);

/// `value` with `front` before it and `back` after it, none of them twice; in the arena.
char *env_paths_put(struct arena *a, const char *value, const struct env_list *front,
                    const struct env_list *back);

/// Which elements of `now` were put before and after those of `base`. False when that does not describe
/// `now`, which has a new empty element, or too many: it is then a plain value.
bool env_paths_diff(struct arena *a, const char *base, const char *now, struct env_list *front,
                    struct env_list *back);
