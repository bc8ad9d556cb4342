#pragma once

#include "base/buf.h"
#include "term/color.h"

// A screen as cells: what a full-screen interface draws on. Pure: it appends bytes and reads nothing.
//
//     draw ──> next grid ──┐
//                          ├── cells_diff() ──> bytes that turn the one screen into the other
//     what is shown ───────┘
//
// Popups are drawn last, over what is below them.

enum { CELL_TEXT = 30 }; // bytes of a cluster; longer ones are cut between characters

enum style_attr {
    STYLE_BOLD = 1,
    STYLE_DIM = 2,
    STYLE_ITALIC = 4,
    STYLE_UNDERLINE = 8,
    STYLE_REVERSE = 16,
    STYLE_STRIKE = 32,
};

/// A colour: 0 is the terminal's own, else one of 256 or 24 bits of red, green and blue.
typedef uint32_t style_color;
#define STYLE_INDEX(i)     (0x1000000u | (uint32_t)(i))
#define STYLE_RGB(r, g, b) (0x2000000u | (uint32_t)(r) << 16 | (uint32_t)(g) << 8 | (uint32_t)(b))

/// Attributes that show on a blank. Others, and the foreground, a blank cell never has.
enum { STYLE_ON_BLANKS = STYLE_UNDERLINE | STYLE_REVERSE | STYLE_STRIKE };

/// Zeroed it is the terminal's own.
struct style {
    style_color fg, bg;
    uint32_t attrs; // of enum style_attr
};

/// One cell. Without padding, so that bytes can be compared. No cell holds a control character:
/// nothing that is drawn can command the terminal.
struct term_cell {
    struct style style;
    uint8_t n;     // bytes of `text`; 0 in the right half of a wide character
    uint8_t width; // 1 or 2; 0 in the right half
    char text[CELL_TEXT];
};

/// A part of the screen; may reach beyond it.
struct rect {
    int row, col, rows, cols;
};

struct cells {
    int rows, cols;
    struct term_cell *cells; // rows * cols
    int cursor_row, cursor_col;
    bool cursor_shown;
};

/// An empty grid of 0 x 0. The caller ends it with cells_fini().
void cells_init(struct cells *g);
void cells_fini(struct cells *g);
/// Give it a size (at least 1 x 1) and make it blank.
void cells_resize(struct cells *g, int rows, int cols);
/// Make it blank, without a cursor.
void cells_clear(struct cells *g);
/// Make `to` the same as `from`.
void cells_copy(struct cells *to, const struct cells *from);

/// The cell at a place inside the grid.
struct term_cell *cells_at(const struct cells *g, int row, int col);

/// The part that both have; rows and cols are never negative.
struct rect rect_clip(struct rect a, struct rect b);

/// Blank the part of `r` that is on the screen, in this style.
void cells_fill(struct cells *g, struct rect r, struct style style);
/// Write one row of text at `row` and `col`, what is outside of `clip` left out. Colour sequences of ours
/// change the style from there on; control characters and marks of writing direction are left out.
/// Returns the columns that the whole text takes.
int cells_put(struct cells *g, struct rect clip, int row, int col, struct str text,
              struct style style);
/// A box of lines round `r`, inside it; nothing when it is smaller than 2 x 2.
void cells_box(struct cells *g, struct rect r, struct rect clip, struct style style);

/// Read the parameters of a colour sequence ("1;38;5;38") into `style`.
void style_apply(struct style *style, struct str parameters);

/// Append the bytes that turn a terminal that shows `old` into one that shows `new`, of the same size. Both
/// sides of it: no colour is on, wrapping is off, no scroll region is set. With `whole` the terminal
/// shows something else, and all is written.
void cells_diff(const struct cells *old, const struct cells *new, bool whole,
                enum color_depth depth, struct buf *out);
