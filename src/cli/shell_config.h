#pragma once

#include "cli/cli_int.h"
#include "shell/status.h"

/// The settings of `[shell]`, for all commands that build environments.
struct shell_config {
    bool marker;
    enum status_mode status;
    uint64_t build_timeout_ms;
};

/// Read them as they count in `dir`, with those of a trusted project. A broken file is no reason to be without a shell: it is said on stderr, and the built-in
/// values count.
struct shell_config shell_config_read(struct cli *c, const char *dir);
