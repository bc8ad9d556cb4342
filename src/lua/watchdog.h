#pragma once

#include "base/err.h"

// A thread that notices when Lua code keeps the loop thread beyond its time.
//
// The limits end almost everything in time. What they cannot end (one call into C that takes seconds: a
// collection of many weak tables, a read from a dead mount) stops the whole hub, and the thread that
// is stuck cannot say so. The watchdog does: in the log at once, and in a file if it takes long, so that a
// hub that had to be killed knows at its next start which code not to run again.

struct watchdog;

/// Lua code that did not end in time. Texts are cut where they are too long.
struct watchdog_stall {
    char unit[128];    // whose code, "" when unknown
    char content[80];  // what vm_owner_set_content() said about it, or ""
    char path[1024];   // where it was; "" when unknown
    int line;          // 0 when unknown
    uint64_t ms;       // how long the code ran, so far or in all
    uint64_t ended_ns; // monotonic; 0: it still runs
};

/// Start the thread. It watches the entries of the thread that calls this; one a process. `mark` (copied) is
/// the file that exists while code has been stuck for long: see watchdog_read().
int watchdog_open(struct watchdog **out, const char *mark, struct err *e) MUST_CHECK;
/// End the thread. NULL is allowed.
void watchdog_close(struct watchdog *w);

/// Called on the watchdog's thread, about every 50 ms while code is stuck and once when that has ended (`ended_ns` is set).
typedef void watchdog_cb(void *arg, const struct watchdog_stall *s);
/// Call `cb` from now on; NULL: no longer. When it returns, the one of before does not run and never will again.
void watchdog_tell(struct watchdog *w, watchdog_cb *cb, void *arg);

/// The last stall; false when there was none.
bool watchdog_last(struct watchdog *w, struct watchdog_stall *out);

/// What a hub that was killed left in `mark`. False when there is nothing, or nothing of use.
bool watchdog_read(const char *mark, struct watchdog_stall *out);
