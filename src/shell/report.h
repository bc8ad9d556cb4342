#pragma once

#include "env/env.h"

// What a shell tells the hub about its environment, when one runs: events env.*. Loop thread; nothing
// here waits or fails.

struct report;

/// `shell` is the session's name, `pid` that of the process whose end is the end of it. Strings are
/// copied. Never NULL.
struct report *report_open(struct loop *l, const char *socket, const char *shell,
                           const char *project, int pid);
void report_close(struct report *r); // NULL is allowed

/// Report a message of the coordinator, or that the shell has applied generation `generation`.
void report_building(struct report *r, const struct env_building *m);
void report_ready(struct report *r, const struct env_ready *m);
void report_failed(struct report *r, const struct env_failed *m);
void report_applied(struct report *r, uint64_t generation);
