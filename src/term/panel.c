// Rows that are drawn in place.
//
//     | printed for good     |
//     |----------------------|
//     | row 0                |  the cursor is in one of them: so many rows up begins the panel
//     | > input_             |
//     | status               |
//
// A window that becomes narrower wraps the rows that were drawn; all common terminals but xterm do. How
// many rows they are then follows from their widths, so that exactly they are erased and nothing is
// printed twice. A row that is wider than the window is cut. While rows are drawn wrapping is off: a
// character whose width the terminal sees otherwise is cut at the edge instead of adding a row.

#include "term/panel.h"

#include <assert.h>

#include "term/text.h"

static const char wrap_off[] = "\033[?7l", wrap_on[] = "\033[?7h";

// How many rows the cursor is below the first one in a window of this width.
static size_t rows_above(const struct panel *p, size_t cols)
{
    struct str rest = buf_str(&p->lines);
    size_t above = 0;
    if (cols >= p->cols) {
        return p->row;
    }
    for (size_t i = 0; i < p->row; i++) {
        size_t width = text_width(str_cut(&rest, '\n'));
        width = MIN(width, p->cols);
        above += width > cols ? (width + cols - 1) / cols : 1;
    }
    return above + p->col / cols;
}

static void move_rows(struct buf *out, size_t from, size_t to)
{
    if (from > to) {
        buf_addf(out, "\033[%zuA", from - to);
    } else if (to > from) {
        buf_addf(out, "\033[%zuB", to - from);
    }
}

// Clear this row and those below. tmux keeps what ESC [ J clears at the top of the screen in its scrollback,
// so that sequence is never sent from the first row of the panel. The line feed makes a row where a lower
// window took it: tmux drops the rows below the cursor first.
static void clear_rows(struct buf *out, bool several)
{
    buf_addz(out, several ? "\033[K\n\033[J\033[1A" : "\033[K");
}

void panel_init(struct panel *p)
{
    *p = (struct panel){0};
    buf_init(&p->lines, SIZE_MAX);
}

void panel_fini(struct panel *p)
{
    buf_fini(&p->lines);
}

void panel_resized(struct panel *p)
{
    p->stale = true;
}

void panel_erase(struct panel *p, struct buf *out, size_t cols)
{
    assert(p->rows == 0 || p->row < p->rows);
    if (p->rows != 0) {
        buf_addc(out, '\r');
        move_rows(out, rows_above(p, cols), 0);
        clear_rows(out, p->rows > 1 || cols < p->cols);
    }
    p->rows = p->row = p->col = 0;
    p->stale = false;
    buf_clear(&p->lines);
}

// The index of the first row that is not the same in both.
static size_t first_change(struct str old, struct str new)
{
    size_t i = 0;
    while (old.n != 0 && new.n != 0 && str_eq(str_cut(&old, '\n'), str_cut(&new, '\n'))) {
        i++;
    }
    return i;
}

void panel_draw(struct panel *p, struct buf *out, struct str lines, size_t row, size_t col,
                size_t cols)
{
    size_t rows = str_lines(lines), from;
    assert(str_ends(lines, "\n") && cols > 0 && row < rows);
    if (cols != p->cols || p->stale) {
        panel_erase(p, out, cols);
    }
    bool same = str_eq(buf_str(&p->lines), lines);
    if (same && row == p->row && col == p->col) {
        return;
    }
    from = MIN(first_change(buf_str(&p->lines), lines), rows - 1);
    from = p->rows == 0 ? 0 : MIN(from, p->rows - 1);
    buf_addc(out, '\r');
    if (same) {
        move_rows(out, p->row, row);
    } else {
        struct str rest = lines;
        for (size_t i = 0; i < from; i++) {
            str_cut(&rest, '\n');
        }
        move_rows(out, p->row, from);
        clear_rows(out, p->rows > from + 1);
        buf_addz(out, wrap_off);
        for (const char *before = ""; rest.n != 0; before = "\r\n") {
            buf_addz(out, before);
            text_add_cut(out, str_cut(&rest, '\n'), cols);
        }
        buf_addf(out, "%s\r", wrap_on);
        move_rows(out, rows - 1, row);
    }
    if (col > 0) {
        buf_addf(out, "\033[%zuC", col);
    }
    buf_clear(&p->lines);
    buf_adds(&p->lines, lines);
    *p = (struct panel){.lines = p->lines, .rows = rows, .row = row, .col = col, .cols = cols};
}
