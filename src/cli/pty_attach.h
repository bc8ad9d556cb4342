#pragma once

#include "cli/cli_int.h"

/// Show the terminal `id` on ours until its program ends (its exit status is returned),
/// the detach key is pressed twice (0), or it is lost (1). Says what happened on stderr.
int pty_attach(struct cli *c, const char *id);
