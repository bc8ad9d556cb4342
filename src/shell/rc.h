#pragma once

#include "base/arena.h"
#include "env/env.h"

/// How to start an interactive shell that runs the user's own rc files and then has our hook.
struct rc_start {
    const char **argv; // NULL-terminated
    const char **env;  // "NAME=value" to set on top of the environment, NULL-terminated
};

/// Write the rc files for shell `program` of dialect `d` into `dir`, which is ours alone, and say in `out`
/// how to start it. What is there of an earlier start is replaced, each file in one step. `outer` is the
/// environment that the shell will get. Strings live in `a` or are the caller's.
int rc_prepare(struct rc_start *out, struct arena *a, const char *dir, const char *program,
               enum env_dialect d, bool marker, const char *const *outer, struct err *e) MUST_CHECK;
