#pragma once

#include <poll.h>

#include "base/err.h"

// Waiting that Ctrl-C can end. Before interrupt_catch() the signals have their usual effect.

/// From now on SIGINT, SIGTERM and SIGHUP end no more than the waits below. They stay blocked
/// outside of these waits, so that none can slip in between a look and a wait. Once per process.
void interrupt_catch(void);

/// The signal that came, or 0.
int interrupt_seen(void);
/// The same, and forget it: the waits below wait again. For a caller that has handled it.
int interrupt_take(void);

/// Act as if SIGINT came, for a Ctrl-C that was read as a key. Returns -EINTR, with which the caller ends its wait.
int interrupt_raise(void) MUST_CHECK;

/// Wait until one of `fds` is ready (returns 1), the monotonic clock has reached `deadline_ns` (0;
/// a deadline of 0 is never) or a caught signal came (-EINTR, also when it came earlier).
int interrupt_wait(struct pollfd *fds, nfds_t n, uint64_t deadline_ns) MUST_CHECK;

/// Wait for `ms` milliseconds; 0, or -EINTR.
int interrupt_pause(unsigned ms) MUST_CHECK;

/// The monotonic time `ms` from now, for interrupt_wait().
uint64_t interrupt_deadline(uint64_t ms);
