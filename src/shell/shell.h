#pragma once

#include "base/err.h"
#include "config/home.h"
#include "shell/status.h"

// `afloat shell`: the user's shell, or one program, in the environment of the project.

struct shell_opts {
    const struct home *home;
    const char *cwd;     // absolute
    const char *program; // of the shell; NULL: $SHELL when it is one of ours, else bash
    const char *string;  // -c; NULL: none
    char *const *words;  // a program and its arguments, NULL-terminated; NULL: none
    enum status_mode status;
    bool reload;  // false: --no-reload
    bool may_ask; // false: --no-input
    bool quiet;
    uint64_t build_timeout_ms; // of a program that builds; 0: the usual
    bool marker;               // show in the prompt that this is an Afloat shell
};

/// Run it. Returns the exit code of the process, or a negative code with `e` filled in: ERR_DENIED when
/// the project is not trusted. A program that is run without a shell of ours takes our place: then this
/// does not return.
int shell_run(const struct shell_opts *o, struct err *e) MUST_CHECK;
