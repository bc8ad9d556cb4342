#pragma once

#include "vt/cluster.h"

// Lines that left the screen, packed: text as UTF-8 with a mark where the style changes. A line is kept as
// the program wrote it, however many rows it took; rows of a width are cut out when they are read.

struct history_line;
struct history_block;

/// Where rows were last read, so that reading on from there does not begin at the newest line each time. It holds
/// until a line comes or goes; `cols` 0: nothing was read since.
struct history_seen {
    int cols;
    int total;       // rows of all lines; 0: not counted
    size_t line;     // its number; that after the newest: no line yet
    int newer, rows; // rows of the lines after it, and its own
};

struct history {
    struct history_line **ring; // `max` entries, made with the first line
    size_t max, first, n;
    struct history_block *oldest, *newest; // what the lines are in
    size_t bytes;                          // of all lines
    struct history_seen seen;
    struct buf scratch;
};

/// Cells of one line, of any length; a vec.
struct vt_cells {
    struct vt_cell *p;
    size_t n, cap;
};

/// Attributes that are seen on a blank; text colours are not.
enum { VT_ON_BLANKS = VT_UNDERLINE | VT_REVERSE | VT_STRIKE };

/// True when `cell` looks the same written in the style of `style`: of a blank, text colours are not seen.
bool vt__style_fits(const struct vt_cell *style, const struct vt_cell *cell);

/// Start empty; free all lines and leave an empty history.
void history_init(struct history *h, size_t max);
void history_fini(struct history *h);

/// Add a row of `n` cells. `open`: the line continues with the next row that is pushed. `mark`: a prompt
/// begins in this row.
void history_push(struct history *h, const struct clusters *c, const struct vt_cell *cells, int n,
                  bool open, bool mark);

/// True when the newest line continues on the screen.
bool history_is_open(const struct history *h);
/// Take the newest line out: its cells replace those of `to`, without right halves of wide characters. False
/// when there is none.
bool history_pop(struct history *h, struct clusters *c, struct vt_cells *to, bool *mark);

/// How many rows the lines take at this width.
int history_rows(struct history *h, int cols);
/// Decode row `back` (1: the newest) at width `cols` into `out`, blanks included. Returns true when it
/// continues in the next row. The row must exist.
bool history_row(struct history *h, struct clusters *c, int cols, int back, struct vt_cell *out);
