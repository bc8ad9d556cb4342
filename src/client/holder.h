#pragma once

#include <sys/types.h>

#include "config/home.h"

/// The process that is this home's hub, whether it answers or not; 0 when there is none. The number
/// in hub.lock counts only while that process has the lock file open: a number that a dead hub left
/// may belong to another program by now.
pid_t holder_find(const struct home *h);

/// The process that keeps hubs out of the home, such as `fsck` and `store import`; 0 when there is none. It must not be
/// stopped as a hub is.
pid_t holder_find_tool(const struct home *h);

/// Returns 0 when holder_find() can know, also when there is no home, else ERR_DENIED with `e`: the home belongs to another
/// user, and nothing can be said about its hub.
int holder_look(const struct home *h, struct err *e) MUST_CHECK;

/// Does systemd listen for the hub? The unit afloat.socket makes HOLDER_SYSTEMD in the runtime directory, a link to the
/// socket that is there as long as it listens.
bool holder_is_systemd(const struct home *h);
#define HOLDER_SYSTEMD "systemd.sock"
/// Is there no hub, but systemd listens in its place, so that a connection would start one?
bool holder_is_dormant(const struct home *h);

/// Wait until process `pid` is gone: 0, ERR_TIMEOUT at `deadline_ns` (0 is never) or -EINTR.
int holder_wait_gone(pid_t pid, uint64_t deadline_ns) MUST_CHECK;
