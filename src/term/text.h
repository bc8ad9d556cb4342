#pragma once

#include "base/buf.h"

// Text as columns of a terminal. A cluster is what a reader sees as one character: a letter with its
// marks, an emoji with everything joined to it, the two letters of a flag.
//
// The text may hold colour sequences of ours (ESC [ ... m): they take no columns and are never split.

/// Length of the colour sequence (ESC [ ... m) at the start of `s`; 0: there is none.
size_t text_color(struct str s);

/// Length in bytes of the first cluster of `s`, 0 when `s` is empty; `*width` is set to its columns.
/// A colour sequence is a cluster without columns.
size_t text_cluster(struct str s, size_t *width);

/// Offset of the cluster that ends at `at` or holds it; 0 when `at` is 0.
size_t text_before(struct str s, size_t at);

/// Columns that `s` takes on a terminal.
size_t text_width(struct str s);

/// Length of the longest start of `s` that fits into `cols` columns; `*width` (may be NULL) is set to
/// its columns.
size_t text_fit(struct str s, size_t cols, size_t *width);

/// Append `s`, cut with '…' if it is wider than `cols`. Colours are reset after a cut.
void text_add_cut(struct buf *out, struct str s, size_t cols);
