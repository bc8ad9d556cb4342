#pragma once

#include "env/env.h"
#include "env/vars.h"

// Programs that build an environment themselves: what to run, and what their answer means.

struct env_delegate {
    const char *name;
    const char *argv[8];
    const char *const *inputs; // NULL-terminated, relative to the root: always watched
    /// Read `text`, the output of `who`, into `vars` (which hold the environment it was started with).
    int (*read)(struct env_vars *vars, const char *who, struct str text, struct err *e);
    bool evaluates; // it runs programs of the project only in its own sandbox
    bool traces;    // it prints which files it evaluates, see env_nix_evaluated()
};

/// nix and devenv only: the bash text that their shells run at the start, `shellHook` (devenv: enterShell)
/// with the functions and the builder's variables it may use; in the arena, empty when there is none.
struct str env_nix_hook(struct arena *a, struct str answer);

/// nix only: the path of the file that it evaluates, as this line on stderr says; empty: the line says something else.
struct str env_nix_evaluated(struct str line);

/// The delegate of that name, or NULL.
const struct env_delegate *env_delegate_find(const char *name);

/// direnv only: the program's answer holds its list of watched files in a packed form. Returns that
/// form, in the arena, also from the answer of a failed run; NULL when there is none.
const char *env_direnv_watches(struct arena *a, struct str text);
/// What `direnv show_dump` printed for it: calls `cb` for each file.
int env_direnv_read_dump(struct str text,
                         void (*cb)(const char *path, enum env_kind kind, void *arg), void *arg,
                         struct err *e) MUST_CHECK;
