#pragma once

#include "vt/history.h"

// The rows of one screen.

struct grid_row {
    struct vt_cell *cells; // `cols` of them; those from `used` on are blank, whatever memory holds
    int used;
    bool wrapped; // continues in the next row
    bool mark;    // a prompt begins here
};

struct grid {
    struct grid_row *rows;
    int n_rows, n_cols;
    struct history *history; // where rows go that leave at the top; NULL: nowhere
    struct clusters *clusters;
};

/// A position that follows its character through a change of size.
struct grid_pos {
    int row, col;
};

/// An empty grid; `h` takes the rows that scroll out of it, `c` holds its long clusters. Both are borrowed.
void grid_init(struct grid *g, int rows, int cols, struct history *h, struct clusters *c);
/// Free its rows.
void grid_fini(struct grid *g);

/// A cell to be written; what is between `used` and it becomes blank. Cutting a wide character in two
/// blanks its other half.
struct vt_cell *grid_put(struct grid *g, int row, int col, int width);

/// Blank a rectangle, with background `bg`.
void grid_erase(struct grid *g, int row, int end_row, int col, int end_col, uint32_t bg);

/// Move the contents of a rectangle up by `down` rows and left by `right` columns (negative: the other way);
/// what comes in is blank with background `bg`. Whole rows that leave a screen with history at its top
/// enter it.
void grid_scroll(struct grid *g, int row, int end_row, int col, int end_col, int down, int right,
                 uint32_t bg);

/// How many of the `n` cells count: those up to the last that is not blank.
int grid_length(const struct vt_cell *cells, int n);

/// The cells of a row, blanks filled in.
const struct vt_cell *grid_cells(struct grid *g, int row);

/// Another size. A grid with history wraps its lines anew and moves `*at` with its character; rows come
/// from and go to the history. Another grid is cut or filled at its right and bottom.
void grid_resize(struct grid *g, int rows, int cols, struct grid_pos *at);
