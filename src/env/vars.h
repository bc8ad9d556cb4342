#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"

/// An environment under construction: names and values, in the caller's arena. Names that no shell can hold
/// (`BASH_FUNC_x%%`) and those that belong to the shell itself (see env_name_is_free()) are never added.
struct env_vars {
    struct map map; // name -> NUL-terminated value in the arena
    struct arena *arena;
};

enum { ENV_ENTRY_MAX = 131072 }; // bytes of one "NAME=value" with its NUL that exec() takes

/// Start empty in `a`, which outlives it.
void env_vars_init(struct env_vars *v, struct arena *a);
void env_vars_fini(struct env_vars *v);

/// Set (copies), remove, get (NULL when not set).
void env_vars_set(struct env_vars *v, struct str name, struct str value);
void env_vars_unset(struct env_vars *v, struct str name);
const char *env_vars_get(const struct env_vars *v, struct str name);
/// Add "NAME=value" entries, a NULL-terminated array; later ones win.
void env_vars_add_environ(struct env_vars *v, const char *const *entries);
void env_vars_copy(struct env_vars *to, const struct env_vars *from);
/// All names, sorted by bytes, in the arena; `*n` of them.
const char **env_vars_names(const struct env_vars *v, size_t *n);
/// As one block that the caller frees with free(): the `n` entries of `first`, then "NAME=value" sorted
/// by name, NULL-terminated.
char **env_vars_block(const struct env_vars *v, const char *const *first, size_t n);

/// Would exec() take it as an environment? ERR_TOO_LARGE, naming the variable, when one is larger than the
/// kernel takes, or all together leave no room for arguments.
int env_vars_check(const struct env_vars *v, struct err *e) MUST_CHECK;

/// [A-Za-z_][A-Za-z0-9_]*, at most 255 bytes.
bool env_name_ok(struct str name);
/// True when one of the patterns, separated by spaces, matches: `*` stands for any run of bytes.
bool env_name_in(struct str name, const char *patterns);
/// False for variables that a project must not touch because the shell lives by them: PWD, SHLVL,
/// IFS, BASH*, PS1, PROMPT_COMMAND, fish's own, direnv's bookkeeping, our AFLOAT_SHELL and others.
bool env_name_is_free(struct str name);
/// True for a variable that is a list with colons: PATH, MANPATH, PKG_CONFIG_PATH and so on.
bool env_name_is_list(struct str name);
