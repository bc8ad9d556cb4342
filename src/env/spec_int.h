#pragma once

#include "env/spec.h"

// Shared by the readers of env.toml, the evaluator and the search for a project.

/// The list of strings under `key` of `table`: `*n` of them in the arena, expanded by `vars`. Absent is
/// an empty list; anything but strings is ERR_INVALID that names unit, line and key.
int env__strings(struct arena *a, const struct env_unit *u, const struct toml *table,
                 const char *key, const struct env_vars *vars, const char ***out, size_t *n,
                 struct err *e) MUST_CHECK;

/// Fail with "FILE: line N: ..." for the place of `at`.
int env__bad(const struct env_unit *u, const struct toml *at, struct err *e, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/// An absolute path: `~` expanded, relative ones from `dir`; cleaned. In the arena.
const char *env__path(struct arena *a, const char *dir, const char *path);

/// The nearest directory from `dir` (absolute, clean) up that holds one of `names`; NULL when none does. The
/// caller frees it. Blocks.
char *env__nearest(const char *dir, const char *const *names, size_t n);

/// Only the keys of the NULL-terminated list may be in `table` (NULL is allowed).
int env__known(const struct env_unit *u, const struct toml *table, const char *what,
               const char *const *keys, struct err *e) MUST_CHECK;

/// Gather the `[[task]]` tables of all units into `s->tasks`, later ones of the same name in place of
/// earlier ones, sorted so that each comes after those it waits for. ERR_INVALID for an unknown name
/// or a circle.
int env__tasks_read(struct env_spec *s, const struct env_vars *vars, struct err *e) MUST_CHECK;
/// Copy the tasks of `s` into the result.
void env__tasks_copy(struct env_result *r, const struct env_spec *s);
