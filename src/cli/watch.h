#pragma once

#include "cli/cli_int.h"

/// Print events as they come until Ctrl-C; survives restarts of the hub. The filters may be NULL.
/// Returns the exit code.
int watch__follow(struct cli *c, const char *types, const char *session, const char *after);
