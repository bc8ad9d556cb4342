#pragma once

#include "base/str.h"

// Ignore rules, the useful part of .gitignore:
//
//     *.tmp        a name, at any depth
//     build/       the same, directories only
//     docs/*.pdf   with a slash inside or in front: the path from the watched directory on
//     !keep.tmp    the opposite; the last rule that fits decides
//
// `*` stands for any run of bytes, slashes included. Files below an ignored directory are never looked up.

/// Version control, package trees, and what editors leave beside a file while they save it.
extern const char *const watch_ignore_default[];

/// True when `rel`, a path relative to the watched directory, is ignored by the NULL-terminated
/// `rules`.
bool ignore_match(const char *const *rules, struct str rel, bool is_dir);
