#pragma once

#include "base/err.h"

// A terminal of a keeper, shown on the user's own.

/// How it ended; all empty: the keeper was lost.
struct attach_end {
    bool ended; // the program did, with `status`
    int status;
    bool detached; // the user left, or the user's terminal is gone
    char why[200]; // the keeper's, when it refused
};

/// Show the terminal whose keeper listens at `socket` on stdin and stdout until its program ends, the key that sends
/// the byte `detach` was pressed twice, or the keeper is lost. Blocks, with a loop of its own.
int attach_run(const char *socket, int detach, struct attach_end *out, struct err *e) MUST_CHECK;
