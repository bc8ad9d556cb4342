#pragma once

#include "base/buf.h"
#include "store/tree.h"

/// Append what differs between two versions of an item, file by file, as a unified diff. `path`, which
/// may be empty, is put before the names; either tree may be NULL: nothing. The text is in the form of
/// visible_add().
void trust_diff(struct buf *out, const char *path, const struct tree *before,
                const struct tree *after);
