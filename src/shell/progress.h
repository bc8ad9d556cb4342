#pragma once

#include "base/str.h"
#include "loop/loop.h"
#include "loop/timer.h"

/// What is shown on stderr while the first environment is built and its tasks run. On a terminal the
/// last line says what is running, and lines above it are what was printed; elsewhere there are only lines.
/// Storage of the caller, loop thread.
struct progress {
    bool live; // there is a line that moves
    bool quiet;
    unsigned frame;
    char *text; // of the moving line, NULL for none
    uint64_t since_ns;
    struct timer tick;
};

/// `terminal`: stderr is a terminal that we may draw on.
void progress_init(struct progress *p, struct loop *l, bool terminal, bool quiet);
/// What is running now; NULL for nothing.
void progress_set(struct progress *p, const char *text);
/// A line that stays: control characters in it are left out.
void progress_line(struct progress *p, struct str line);
/// Take the moving line away. Nothing is drawn after this.
void progress_fini(struct progress *p);
