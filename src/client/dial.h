#pragma once

#include "base/err.h"

/// Connect to the Unix socket at `path`, of any length. Returns a close-on-exec, non-blocking
/// descriptor, ERR_UNREACHABLE when no process listens there, ERR_TIMEOUT at `deadline_ns`, or -EINTR.
int dial_unix(const char *path, uint64_t deadline_ns, struct err *e) MUST_CHECK;

/// The same for "HOST:PORT" with a numeric address (`[::1]:80`) or `localhost`.
int dial_tcp(const char *address, uint64_t deadline_ns, struct err *e) MUST_CHECK;
