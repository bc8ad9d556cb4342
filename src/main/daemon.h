#pragma once

#include "base/base.h"

struct daemon_opts {
    const char *home;    // --home, or NULL
    const char *listen;  // --listen, or NULL: as configured
    const char *profile; // --profile, or NULL
    const char *repo;    // --repo, or NULL: the project to open
    bool safe;           // --safe: no user Lua, no plugins, no improvements
    const char *version;
    const char *build;
};

/// Run the hub in the foreground until it is stopped. Prints one line
/// `ready socket=PATH http=ADDR generation=N` on stdout. Returns the exit code.
int daemon_run(const struct daemon_opts *opts);
