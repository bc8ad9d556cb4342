#pragma once

#include "base/buf.h"
#include "term/color.h"

// A unified diff for people: changed words are marked, and in a wide window old and new stand side by
// side. The text may come from anywhere: nothing of it can command the terminal.

struct diff_look {
    // longer lines continue in the next row; from DIFF_WIDE on, old and new are side by side where they fit
    size_t cols;
    size_t rows; // at most; a last line says how many are missing
    enum color_depth color;
};

enum { DIFF_WIDE = 120 };

/// Append `diff`, as linediff_write() or git makes it, as lines that end in a line feed.
void diff_render(struct buf *out, struct str diff, const struct diff_look *look);
