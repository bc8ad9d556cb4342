#pragma once

#include "base/err.h"
#include "base/str.h"

// The name of a workspace: the last part of a path, made into a name of a-z, 0-9 and `-`. Pure functions.

enum { SLUG_MAX = 64, SLUG_TEXT = SLUG_MAX + 1, SLUG_HASH_MAX = 48 }; // TEXT: with the NUL

/// The slug of an absolute path: last part, lower case, all but a-z0-9- becomes `-`, runs collapsed, ends
/// trimmed; "project" if nothing is left. Cut so that slug_taken() has room. Returns `out`.
const char *slug_of(const char *path, char out[SLUG_TEXT]);

/// The same with `-` and the first `digits` (8 to SLUG_HASH_MAX) hex digits of the path's SHA-256: for a
/// slug that another path has already.
const char *slug_taken(const char *path, unsigned digits, char out[SLUG_TEXT]);

/// True for what --project takes: `^[a-z0-9][a-z0-9-]{0,63}$`. slug_check() is ERR_INVALID with a message.
bool slug_valid(struct str s);
int slug_check(struct str s, struct err *e) MUST_CHECK;
