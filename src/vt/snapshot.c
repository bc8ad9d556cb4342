// A screen as bytes that draw it.
//
// Rows are written one after the other as a program would, wrapped lines without a line end, so that the
// terminal that reads them knows what was one line and can wrap it anew itself. Styles, modes and the
// cursor come after the text, in an order in which none undoes another:
//
//     modes off, screen cleared
//     history and main screen
//     [ cursor as it was saved, alternate screen on, its rows ]
//     saved cursor, region, modes, title, cursor shape, cursor, style

#include <assert.h>

#include "vt/vt_int.h"

void vt_reset_modes(struct buf *out)
{
    buf_addz(out, "\033[?1049l\033[4l\033[20l\033[r");
    for (int i = 0; i < VT_MODE__COUNT; i++) {
        buf_addf(out, "\033[?%u%c", vt__modes[i].number, vt__modes[i].initial ? 'h' : 'l');
    }
    buf_addz(out, "\033[m\033(B\033)B\017\033>\033[0 q\033]8;;\033\\");
}

static void add_style(struct buf *out, struct vt_cell *style, const struct vt_cell *cell)
{
    if (!vt__style_fits(style, cell)) {
        vt__add_pen(out, cell);
        *style = *cell;
    }
}

static void add_cells(const struct vt *v, const struct vt_cell *cells, int n, struct buf *out)
{
    struct vt_cell style = {.width = 1};
    char text[VT_TEXT_MAX];
    for (int i = 0; i < n; i++) {
        if (cells[i].width != 0) {
            size_t len = vt_cell_text(v, &cells[i], text);
            add_style(out, &style, &cells[i]);
            buf_adds(out, len != 0 ? (struct str){text, len} : STR(" "));
        }
    }
    if (style.fg != 0 || style.bg != 0 || style.attrs != 0) {
        buf_addz(out, "\033[m");
    }
}

static void add_screen(struct vt *v, int from, struct buf *out)
{
    int rows = vt_rows(v), cols = vt_cols(v);
    bool continues = false; // only a character brings us into this row
    for (int row = from; row < rows; row++) {
        bool wrapped = row + 1 < rows && vt_row_wrapped(v, row);
        bool wide = wrapped && vt_row(v, row + 1)[0].width == 2; // it may have left a column
        const struct vt_cell *cells = vt_row(v, row);
        int least = !wrapped ? continues : wide ? cols - 1 : cols;
        int n = MAX(grid_length(cells, cols), least);
        add_cells(v, cells, n, out);
        if (continues && n < cols) { // the row came in with the background of its first character
            buf_addz(out, "\033[K");
        }
        if (!wrapped && row + 1 < rows) {
            buf_addz(out, "\r\n");
        }
        continues = wrapped;
    }
}

static void add_cursor_at(struct buf *out, VTermPos pos, int top)
{
    buf_addf(out, "\033[%d;%dH", MAX(pos.row - top, 0) + 1, pos.col + 1);
}

/// The main screen while the other is shown, then the switch.
static void add_main(struct vt *v, struct buf *out)
{
    struct grid *on = v->on;
    v->on = &v->main;
    add_screen(v, 0, out);
    add_cursor_at(out, v->saved.pos, 0);
    vt__add_pen(out, &v->saved.pen);
    v->on = on;
    buf_addf(out, "\033[?%uh\033[m\033[H\033[2J", v->alternate_by);
}

/// A cursor after the last column, where the next character will be wrapped: only writing gets it there.
static void add_cursor(struct vt *v, struct buf *out)
{
    int top = v->modes[VT_MODE_6] && v->top != 0 ? v->top - 1 : 0;
    add_cursor_at(out, v->pos, top);
    if (vt__is_phantom(v)) {
        const struct vt_cell *cells = vt_row(v, v->pos.row);
        int col = v->pos.col - (cells[v->pos.col].width == 0);
        add_cursor_at(out, (VTermPos){v->pos.row, col}, top);
        vt__add_pen(out, &cells[col]);
        char text[VT_TEXT_MAX];
        size_t len = vt_cell_text(v, &cells[col], text);
        buf_adds(out, len != 0 ? (struct str){text, len} : STR(" "));
    }
}

static void add_modes(struct vt *v, struct buf *out)
{
    if (v->top != 0) {
        buf_addf(out, "\033[%d;%dr", v->top, v->bottom);
    }
    for (int i = 0; i < VT_MODE__COUNT; i++) {
        if (v->modes[i] != vt__modes[i].initial && i != VT_MODE_2026) {
            buf_addf(out, "\033[?%u%c", vt__modes[i].number, v->modes[i] ? 'h' : 'l');
        }
    }
    buf_addz(out, v->insert ? "\033[4h" : "");
    buf_addz(out, v->newline ? "\033[20h" : "");
    buf_addz(out, v->keypad ? "\033=" : "");
}

void vt_snapshot(struct vt *v, int history, struct buf *out)
{
    int have = history_rows(&v->history, vt_cols(v)), from = -MIN(history, have);
    vt_reset_modes(out);
    buf_addz(out, "\033[H\033[2J");
    if (vt_alternate(v)) {
        add_main(v, out);
        from = 0;
    }
    add_screen(v, from, out);
    if (!vt_alternate(v) || v->alternate_by != 1049) {
        add_cursor_at(out, v->saved.pos, 0);
        vt__add_pen(out, &v->saved.pen);
        buf_addz(out, "\0337\033[m");
    }
    add_modes(v, out);
    if (v->title[0] != '\0') {
        buf_addf(out, "\033]2;%s\033\\", v->title);
    }
    if (v->blink || v->shape != VT_BLOCK) {
        buf_addf(out, "\033[%d q", (int)v->shape * 2 - (v->blink ? 1 : 0));
    }
    add_cursor(v, out);
    vt__add_pen(out, &v->pen);
}
