// Cells, and drawing on them.
//
// A wide character takes two cells: the left one has it, the right one is empty. Whatever overwrites one
// half blanks the other, so a grid never holds half a character.

#include "term/cells.h"

#include <assert.h>

#include "base/utf8.h"
#include "term/text.h"

static const struct term_cell blank = {.n = 1, .width = 1, .text = " "};

// ---- life ----------------------------------------------------------------------------------

void cells_init(struct cells *g)
{
    static_assert(sizeof(struct term_cell) == sizeof(struct style) + 2 + CELL_TEXT, "no padding");
    *g = (struct cells){0};
}

void cells_fini(struct cells *g)
{
    free(g->cells);
    cells_init(g);
}

void cells_resize(struct cells *g, int rows, int cols)
{
    assert(rows >= 1 && cols >= 1);
    g->cells = xreallocarray(g->cells, (size_t)rows * (size_t)cols, sizeof *g->cells);
    g->rows = rows;
    g->cols = cols;
    cells_clear(g);
}

void cells_clear(struct cells *g)
{
    for (size_t i = 0; i < (size_t)g->rows * (size_t)g->cols; i++) {
        g->cells[i] = blank;
    }
    g->cursor_shown = false;
    g->cursor_row = g->cursor_col = 0;
}

void cells_copy(struct cells *to, const struct cells *from)
{
    if (to->rows != from->rows || to->cols != from->cols) {
        cells_resize(to, from->rows, from->cols);
    }
    memcpy(to->cells, from->cells, (size_t)from->rows * (size_t)from->cols * sizeof *from->cells);
    to->cursor_row = from->cursor_row;
    to->cursor_col = from->cursor_col;
    to->cursor_shown = from->cursor_shown;
}

struct term_cell *cells_at(const struct cells *g, int row, int col)
{
    assert(row >= 0 && row < g->rows && col >= 0 && col < g->cols);
    return &g->cells[(size_t)row * (size_t)g->cols + (size_t)col];
}

struct rect rect_clip(struct rect a, struct rect b)
{
    int top = MAX(a.row, b.row), left = MAX(a.col, b.col);
    int bottom = MIN(a.row + a.rows, b.row + b.rows), right = MIN(a.col + a.cols, b.col + b.cols);
    return (struct rect){top, left, MAX(bottom - top, 0), MAX(right - left, 0)};
}

// ---- colours in text -----------------------------------------------------------------------

static style_color extended(const unsigned *v, size_t n, size_t *used)
{
    if (n >= 3 && v[1] == 5) {
        *used = 3;
        return STYLE_INDEX(v[2] & 255);
    }
    if (n >= 5 && v[1] == 2) {
        *used = 5;
        return STYLE_RGB(v[2] & 255, v[3] & 255, v[4] & 255);
    }
    *used = n;
    return 0;
}

static void apply_one(struct style *s, unsigned v)
{
    static const uint32_t on[] = {[1] = STYLE_BOLD,      [2] = STYLE_DIM,     [3] = STYLE_ITALIC,
                                  [4] = STYLE_UNDERLINE, [7] = STYLE_REVERSE, [9] = STYLE_STRIKE};
    static const uint32_t off[] = {[22] = STYLE_BOLD | STYLE_DIM,
                                   [23] = STYLE_ITALIC,
                                   [24] = STYLE_UNDERLINE,
                                   [27] = STYLE_REVERSE,
                                   [29] = STYLE_STRIKE};
    if (v == 0) {
        *s = (struct style){0};
    } else if (v < ARRAY_LEN(on)) {
        s->attrs |= on[v];
    } else if (v < ARRAY_LEN(off)) {
        s->attrs &= ~off[v];
    } else if (v >= 30 && v <= 39) {
        s->fg = v == 39 ? 0 : STYLE_INDEX(v - 30);
    } else if (v >= 40 && v <= 49) {
        s->bg = v == 49 ? 0 : STYLE_INDEX(v - 40);
    } else if (v >= 90 && v <= 97) {
        s->fg = STYLE_INDEX(v - 90 + 8);
    } else if (v >= 100 && v <= 107) {
        s->bg = STYLE_INDEX(v - 100 + 8);
    }
}

void style_apply(struct style *style, struct str parameters)
{
    unsigned v[16] = {0};
    size_t n = 0;
    while (n == 0 || (parameters.n != 0 && n < ARRAY_LEN(v))) {
        uint64_t value = 0;
        struct str part = str_cut(&parameters, ';');
        v[n++] = str_to_u64(part, &value) && value < 256 ? (unsigned)value : 0;
    }
    for (size_t i = 0, used = 1; i < n; i += used, used = 1) {
        if (v[i] == 38) {
            style->fg = extended(v + i, n - i, &used);
        } else if (v[i] == 48) {
            style->bg = extended(v + i, n - i, &used);
        } else {
            apply_one(style, v[i]);
        }
    }
}

// ---- drawing -------------------------------------------------------------------------------

// The style of a blank: what cannot be seen of it is left out, so that blanks that look the same are the same.
static struct style on_blank(struct style s)
{
    bool shows = (s.attrs & STYLE_ON_BLANKS) != 0;
    return shows ? s : (struct style){.bg = s.bg};
}

// What overwrites one half of a wide character takes the other away.
static void split_wide(struct cells *g, int row, int col)
{
    struct term_cell *c = cells_at(g, row, col);
    if (c->width == 0 && col > 0) {
        struct style style = on_blank(c[-1].style);
        c[-1] = blank;
        c[-1].style = style;
    } else if (c->width == 2 && col + 1 < g->cols) {
        struct style style = on_blank(c[1].style);
        c[1] = blank;
        c[1].style = style;
    }
}

// Characters that change how a terminal shows others.
static bool is_hidden(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7F && cp < 0xA0) || cp == 0x61C || cp == 0x200E || cp == 0x200F ||
           (cp >= 0x2028 && cp <= 0x202E) || (cp >= 0x2060 && cp <= 0x206F) || cp == 0xFEFF;
}

// Keep what may be shown of a cluster, as much as a cell holds.
static void set_text(struct term_cell *c, struct str cluster)
{
    c->n = 0;
    memset(c->text, 0, sizeof c->text);
    while (cluster.n != 0) {
        uint32_t cp;
        size_t n = utf8_decode(cluster, &cp);
        if (!is_hidden(cp) && c->n + n <= CELL_TEXT && (n > 1 || (cluster.p[0] & 0x80) == 0)) {
            memcpy(c->text + c->n, cluster.p, n);
            c->n = (uint8_t)(c->n + n);
        }
        cluster = str_from(cluster, n);
    }
    if (c->n == 0) {
        *c = (struct term_cell){.style = c->style, .n = 1, .width = c->width, .text = "?"};
    }
}

static void put_cluster(struct cells *g, int row, int col, struct str cluster, int width,
                        struct style style)
{
    style = cluster.p[0] == ' ' ? on_blank(style) : style;
    assert(width == 1 || width == 2);
    bool plain = cluster.n == 1 && (cluster.p[0] & 0x80) == 0;
    if (plain && cells_at(g, row, col)->width == 1) { // most text is this
        *cells_at(g, row, col) =
            (struct term_cell){.style = style, .n = 1, .width = 1, .text = {cluster.p[0]}};
        return;
    }
    for (int i = 0; i < width; i++) {
        split_wide(g, row, col + i);
    }
    struct term_cell *c = cells_at(g, row, col);
    c->style = style;
    c->width = (uint8_t)width;
    set_text(c, cluster);
    if (width == 2) {
        c[1] = (struct term_cell){.style = style};
    }
}

void cells_fill(struct cells *g, struct rect r, struct style style)
{
    struct rect seen = rect_clip(r, (struct rect){0, 0, g->rows, g->cols});
    style = on_blank(style);
    for (int row = seen.row; row < seen.row + seen.rows && seen.cols > 0; row++) {
        split_wide(g, row, seen.col);
        split_wide(g, row, seen.col + seen.cols - 1);
        for (int col = seen.col; col < seen.col + seen.cols; col++) {
            struct term_cell *c = cells_at(g, row, col);
            *c = blank;
            c->style = style;
        }
    }
}

int cells_put(struct cells *g, struct rect clip, int row, int col, struct str text,
              struct style style)
{
    struct rect seen = rect_clip(clip, (struct rect){0, 0, g->rows, g->cols});
    struct style now = style;
    bool in_rows = row >= seen.row && row < seen.row + seen.rows;
    int at = col;
    while (text.n != 0) {
        size_t width, n = text_cluster(text, &width);
        if (n > 1 && text.p[0] == '\033') {
            style_apply(&now, (struct str){text.p + 2, n - 3});
            now = str_eqz((struct str){text.p + 2, n - 3}, "0") || n == 3 ? style : now;
        } else if (width > 0) {
            bool fits = at >= seen.col && at + (int)width <= seen.col + seen.cols;
            if (in_rows && fits) {
                put_cluster(g, row, at, (struct str){text.p, n}, (int)width, now);
            }
            at += (int)width;
        }
        text = str_from(text, n);
    }
    return at - col;
}

void cells_box(struct cells *g, struct rect r, struct rect clip, struct style style)
{
    if (r.rows < 2 || r.cols < 2) {
        return;
    }
    int bottom = r.row + r.rows - 1, right = r.col + r.cols - 1;
    for (int col = r.col + 1; col < right; col++) {
        cells_put(g, clip, r.row, col, STR("─"), style);
        cells_put(g, clip, bottom, col, STR("─"), style);
    }
    for (int row = r.row + 1; row < bottom; row++) {
        cells_put(g, clip, row, r.col, STR("│"), style);
        cells_put(g, clip, row, right, STR("│"), style);
    }
    cells_put(g, clip, r.row, r.col, STR("╭"), style);
    cells_put(g, clip, r.row, right, STR("╮"), style);
    cells_put(g, clip, bottom, r.col, STR("╰"), style);
    cells_put(g, clip, bottom, right, STR("╯"), style);
}
