#pragma once

#include "base/err.h"

/// The paths of all files of a home. All are absolute; freed by home_fini().
struct home {
    char *dir;       // AFLOAT_HOME, default ~/.afloat
    char *runtime;   // AFLOAT_RUNTIME; else dir/run if the home was named, else
                     // $XDG_RUNTIME_DIR/afloat, else dir/run
    char *socket;    // runtime/hub.sock
    char *pid;       // runtime/hub.pid
    char *lock;      // dir/hub.lock
    char *config;    // dir/config.toml
    char *choices;   // dir/choices.json
    char *token;     // dir/token
    char *secrets;   // dir/secrets.json
    char *log;       // dir/logs/hub.log
    char *state;     // dir/state
    char *sessions;  // dir/sessions
    bool dir_is_set; // AFLOAT_HOME or --home was given
};

/// Work the paths out. `dir` is the value of --home, or NULL; then AFLOAT_HOME, then ~/.afloat.
/// Touches no file.
int home_resolve(struct home *h, const char *dir, struct err *e) MUST_CHECK;
void home_fini(struct home *h); // frees the strings; a zeroed one is allowed

/// Create the missing directories (0700) and refuse a home or runtime directory that belongs to
/// another user or that others can write to; the error names the command that fixes it.
int home_prepare(const struct home *h, struct err *e) MUST_CHECK;
