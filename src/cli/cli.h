#pragma once

#include "config/home.h"
#include "term/color.h"

// The command line. main() hands over here; what is above this folder is reached through cli_host.

/// What `afloat hub` was asked for; NULL where nothing was said. Borrowed for the call.
struct cli_hub_opts {
    const char *home;
    const char *listen;
    const char *profile;
    const char *repo;
    bool safe;
};

/// What `afloat tui` was asked for. Borrowed for the call.
struct cli_tui_opts {
    const struct home *home;
    const char *project; // absolute
    enum color_depth color;
    bool safe;
};

struct cli;
struct cli_host {
    const char *version;
    const char *(*build_id)(void); // of this program
    /// Run the hub in the foreground until it is told to stop; returns the exit code.
    int (*run_hub)(const struct cli_hub_opts *opts);
    /// Run the full-screen interface until the user leaves. Returns 0 or a negative code.
    int (*run_tui)(const struct cli_tui_opts *opts, struct err *e);
    /// The commands with a dialogue, see chat/chat.h, and the tour. Each returns the exit code.
    int (*chat)(struct cli *c);
    int (*attach_session)(struct cli *c);
    int (*run)(struct cli *c);
    int (*attach_run)(struct cli *c);
    int (*demo)(struct cli *c);
    /// Be the process that runs one improvement; returns the exit code.
    int (*run_host_lua)(const char *path);
    /// Be the process of a plugin in `lang` (python, node, c), or of its validation; returns the exit code.
    int (*run_host_script)(const char *lang, bool validate);
    /// Be the process that owns one terminal; returns the exit code.
    int (*run_keeper)(bool stays);
    /// Be the process that validates one plugin; returns the exit code.
    int (*run_validate)(void);
};

/// Run one command and return the exit code of the process.
int cli_main(int argc, char **argv, const struct cli_host *host);
