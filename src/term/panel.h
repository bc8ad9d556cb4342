#pragma once

#include "base/buf.h"

// The rows at the end of what was printed: an input, a status. They are drawn in place, what is printed
// for good goes above them, and the terminal keeps its scrollback. Pure: appends what to write.

struct panel {
    struct buf lines; // as drawn, each with a line feed
    size_t rows;      // of them; 0: nothing is drawn, and the cursor is at the start of a row
    size_t row, col;  // of the cursor
    size_t cols;      // the width it was drawn for
    bool stale;       // the window changed since, and may have dropped rows
};

/// Nothing is drawn yet. The caller ends it with panel_fini().
void panel_init(struct panel *p);
/// Free what it holds; the screen stays as it is.
void panel_fini(struct panel *p);

/// The window got another size: the next panel_draw() writes every row.
void panel_resized(struct panel *p);

/// Append what takes it off the screen; the cursor is then where its first row began.
void panel_erase(struct panel *p, struct buf *out, size_t cols);

/// Append what shows `lines`, each with a line feed and at most `cols` wide, with the cursor at `row`
/// and `col`; only rows from the first that changed are written. There is at least one line.
void panel_draw(struct panel *p, struct buf *out, struct str lines, size_t row, size_t col,
                size_t cols);
