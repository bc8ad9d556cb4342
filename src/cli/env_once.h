#pragma once

#include "cli/cli_int.h"
#include "env/env.h"

// The environment of a project, built once by a command: for a terminal without an Afloat shell.

struct env_once {
    struct env_project project;
    char **outer;              // the environment it is built on; free()
    struct env_result *result; // NULL: it failed
    int code;                  // of the failure
    char *error;               // text of the failure, NULL when there is none
    struct env_input *inputs;  // all that were looked at, also by a failed build
    size_t n_inputs;
    struct arena arena;
};

/// Find the project of `dir` (NULL: the working directory) and build its environment, on that of the
/// Afloat shell whose wrapper has process id `wrapper` (0: on our own). 0 also when the build failed: see
/// `result`. What providers print goes to stderr. End it with env_once_fini(), on failure too.
int env_once_build(struct env_once *o, struct cli *c, const char *dir, int wrapper,
                   struct err *e) MUST_CHECK;
void env_once_fini(struct env_once *o);

/// Run a task of the result, with what it comes after. Returns the exit code of the command.
int env_once_task(struct env_once *o, struct cli *c, const char *name);
