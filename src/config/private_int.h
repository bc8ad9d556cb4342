#pragma once

#include "base/buf.h"
#include "base/err.h"

/// Append a file to `out`, up to its maximum, if no other user may read or write it.
/// ERR_NOT_FOUND when it is missing; ERR_DENIED, with the command that fixes it, when it is not a
/// regular file, belongs to another user or has a mode wider than 0600.
int private__read(const char *path, struct buf *out, struct err *e) MUST_CHECK;
