// The short way for what nearly all output is: ASCII text, carriage returns and line feeds.
//
// libvterm decodes text, asks for the width of each character and calls back for it; for plain text within a row
// the answer is known. So it is written into the grid here, and libvterm hears of it later: before it is given
// anything, it is told where the cursor is (`ahead`, vt__tell()). What could wrap, insert, or depend on a region
// is left to it: the last column is never written here, so the cursor never waits after it. Where it does, after what
// libvterm has written (`edge`), only a carriage return leads back to the short way.

#include <assert.h>

#include "vt/vt_int.h"

static bool is_printable(char c)
{
    return c >= ' ' && c < 0x7f;
}

/// Write `n` characters from the cursor on; they end before the last column.
static void put_run(struct vt *v, const char *text, int n)
{
    struct vt_cell *c = grid_put(v->on, v->pos.row, v->pos.col, n);
    struct vt_cell cell = v->pen, gap = v->pen;
    cell.width = gap.width = 1;
    if ((gap.attrs & VT_ON_BLANKS) == 0) {
        gap.fg = gap.attrs = 0; // nothing to see but `bg`
    }
    gap.text = 0;
    for (int i = 0; i < n; i++) {
        cell.text = (uint32_t)(unsigned char)text[i];
        c[i] = text[i] == ' ' ? gap : cell;
    }
    v->last = (uint32_t)(unsigned char)text[n - 1];
    v->pos.col += n;
    v->pending_end = v->pending_col = v->pos.col;
    v->pending_row = v->pos.row;
    v->pending = v->pending_end >= v->on->n_cols - 1;
}

static void line_feed(struct vt *v)
{
    if (v->pos.row + 1 < v->on->n_rows) {
        v->pos.row++;
    } else {
        grid_scroll(v->on, 0, v->on->n_rows, 0, v->on->n_cols, 1, 0, v->pen.bg);
        v->pending_row--;
    }
}

size_t vt__put_plain(struct vt *v, struct str bytes)
{
    size_t i = 0;
    if (v->insert || v->newline || v->top != 0 || v->modes[VT_MODE_6]) {
        return 0;
    }
    while (i < bytes.n) {
        char c = bytes.p[i];
        int room = v->on->n_cols - 1 - v->pos.col, n = 0;
        if (c != '\r' && v->edge && !v->ahead) {
            break;
        }
        if (c == '\r' || c == '\n') {
            if (c == '\r') {
                v->pos.col = 0;
            } else {
                line_feed(v);
            }
            v->pending = v->pending && v->pos.row == v->pending_row && v->pos.col == v->pending_col;
            v->ahead = true;
            i++;
            continue;
        }
        while (n < room && i + (size_t)n < bytes.n && is_printable(bytes.p[i + (size_t)n])) {
            n++;
        }
        if (n == 0) {
            break;
        }
        put_run(v, bytes.p + i, n);
        v->ahead = true;
        i += (size_t)n;
    }
    return i;
}
