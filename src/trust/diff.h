#pragma once

#include "base/buf.h"
#include "store/tree.h"

/// Append what differs between two versions of an item, file by file, as a unified diff. `path`, which
/// may be empty, is put before the names; either tree may be NULL: nothing. The text is for a terminal although it comes from
/// strangers: control characters and those that change the direction of writing are spelt out.
void trust_diff(struct buf *out, const char *path, const struct tree *before,
                const struct tree *after);
/// Append `s` with these characters spelt out; line ends too.
void trust_diff_escape(struct buf *out, struct str s);
