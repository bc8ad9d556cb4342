#pragma once

#include "env/env.h"
#include "env/vars.h"

/// Fill `set`, `unset`, `prepend` and `append` of `r` with what makes `now` of `base`. Strings are
/// copied into the result.
void env_result_diff(struct env_result *r, const struct env_vars *base, const struct env_vars *now);

/// Add functions, copied.
void env_result_add_functions(struct env_result *r, const struct env_var *functions, size_t n);

/// Apply the four lists to `vars`.
void env_result_apply(const struct env_result *r, struct env_vars *vars);

/// The list of that name, or NULL.
const struct env_list *env_list_find(const struct env_list *lists, size_t n, const char *name);
