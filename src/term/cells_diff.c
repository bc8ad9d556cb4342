// From one screen to another with few bytes.
//
//     1. a band of rows that moved up or down is scrolled (a region, SU or SD), if that saves bytes
//     2. row by row, runs of cells that differ are written; what is blank to the end is erased
//     3. between runs the cursor goes the cheapest way: a few cells written again, CR, LF, CUF or CUP
//
// A terminal's cursor stays in the last column after writing there, and where it is then is not the same
// everywhere: the place counts as unknown, and the next move is absolute.
//
// Erased cells get no background here: terminals differ in which one they would give them.

#include <assert.h>

#include "term/cells.h"

enum { GAP_MAX = 8, ERASE_MIN = 9, SCROLL_ROWS = 3, SCROLL_BYTES = 64 };

/// Rows of the terminal that are scrolled before anything is written.
struct band {
    int top, bottom; // of the region, both in it
    int up;          // by how many rows it moves; negative: down; 0: nothing is scrolled
    int saved;       // rows that need not be written
};

struct writer {
    struct buf *out;
    enum color_depth depth;
    const struct cells *old; // NULL: what the terminal shows is not known
    const struct cells *new;
    struct band band;
    const struct term_cell *blank; // a row of them, for what scrolling brings in
    int row, col;                  // of the cursor; row -1: unknown
    struct style style;
};

static bool same_style(const struct style *a, const struct style *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool same_cell(const struct term_cell *a, const struct term_cell *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool is_clear(const struct term_cell *c)
{
    static const struct style none;
    return c->n == 1 && c->text[0] == ' ' && same_style(&c->style, &none);
}

// ---- styles --------------------------------------------------------------------------------

// The nearest of the 6 x 6 x 6 colours and the greys.
static unsigned nearest_256(style_color c)
{
    unsigned r = c >> 16 & 255, g = c >> 8 & 255, b = c & 255;
    if (r == g && g == b && r >= 8 && r <= 238) {
        return 232 + (r - 8) / 10;
    }
    return 16 + 36 * ((r * 5 + 127) / 255) + 6 * ((g * 5 + 127) / 255) + (b * 5 + 127) / 255;
}

static unsigned nearest_16(unsigned index)
{
    if (index < 16) {
        return index;
    }
    if (index >= 232) {
        return index < 238 ? 8 : index < 250 ? 7 : 15;
    }
    unsigned r = (index - 16) / 36, g = (index - 16) / 6 % 6, b = (index - 16) % 6;
    unsigned bright = MAX(r, MAX(g, b)) > 3 ? 8 : 0;
    return bright + (r > 2 ? 1u : 0) + (g > 2 ? 2u : 0) + (b > 2 ? 4u : 0);
}

static void add_color(struct buf *out, const struct writer *w, style_color c, unsigned base)
{
    unsigned index = c >> 24 == 2 ? nearest_256(c) : c & 255;
    if (c == 0) {
        buf_addf(out, ";%u", base + 9);
    } else if (c >> 24 == 2 && w->depth == COLOR_TRUE) {
        buf_addf(out, ";%u;2;%u;%u;%u", base + 8, c >> 16 & 255, c >> 8 & 255, c & 255);
    } else if (index >= 16 && w->depth >= COLOR_256) {
        buf_addf(out, ";%u;5;%u", base + 8, index);
    } else {
        index = nearest_16(index);
        buf_addf(out, ";%u", index < 8 ? base + index : base + 60 + index - 8);
    }
}

static void add_attrs(struct buf *out, uint32_t attrs)
{
    static const char *const codes[] = {";1", ";2", ";3", ";4", ";7", ";9"};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        buf_addz(out, (attrs & 1u << i) != 0 ? codes[i] : "");
    }
}

static void add_colors(struct buf *out, const struct writer *w, const struct style *from,
                       const struct style *to)
{
    if (w->depth != COLOR_NONE && to->fg != from->fg) {
        add_color(out, w, to->fg, 30);
    }
    if (w->depth != COLOR_NONE && to->bg != from->bg) {
        add_color(out, w, to->bg, 40);
    }
}

// Attributes are only added; to take one away all are switched off first.
static void set_style(struct writer *w, const struct style *to)
{
    static const struct style none;
    struct buf codes = {.max = SIZE_MAX};
    if (same_style(&w->style, to)) {
        return;
    }
    bool reset = (w->style.attrs & ~to->attrs) != 0 || same_style(to, &none);
    const struct style *from = reset ? &none : &w->style;
    add_attrs(&codes, to->attrs & ~from->attrs);
    add_colors(&codes, w, from, to);
    if (reset) {
        buf_addf(w->out, codes.n != 0 ? "\033[0%s" : "\033[%s", buf_z(&codes));
    } else if (codes.n != 0) {
        buf_addf(w->out, "\033[%s", buf_z(&codes) + 1);
    }
    buf_addz(w->out, reset || codes.n != 0 ? "m" : "");
    buf_fini(&codes);
    w->style = *to;
}

// A blank does not show the foreground, so any foreground may stay on.
static bool shows_alike(const struct writer *w, const struct term_cell *c)
{
    bool blank = c->n == 1 && c->text[0] == ' ' && (c->style.attrs & STYLE_ON_BLANKS) == 0;
    return blank ? w->style.bg == c->style.bg && (w->style.attrs & STYLE_ON_BLANKS) == 0
                 : same_style(&c->style, &w->style);
}

// ---- moving --------------------------------------------------------------------------------

// Writing the cells between here and there again is cheaper than a sequence, if no style changes.
static bool write_gap(struct writer *w, int col)
{
    size_t bytes = 0;
    for (int at = w->col; at < col; at++) {
        const struct term_cell *c = cells_at(w->new, w->row, at);
        bytes += c->n;
        if (c->width != 1 || !shows_alike(w, c)) {
            return false;
        }
    }
    if (bytes > (col - w->col < 10 ? 4 : 5)) {
        return false;
    }
    for (int at = w->col; at < col; at++) {
        const struct term_cell *c = cells_at(w->new, w->row, at);
        buf_add(w->out, c->text, c->n);
    }
    return true;
}

static void move(struct writer *w, int row, int col)
{
    if (w->row == row && w->col == col) {
        return;
    }
    if (w->row >= 0 && row == w->row + 1 && col == 0) {
        buf_addz(w->out, "\r\n");
    } else if (w->row == row && col == 0) {
        buf_addc(w->out, '\r');
    } else if (w->row == row && col > w->col) {
        if (col - w->col > GAP_MAX || !write_gap(w, col)) {
            buf_addf(w->out, col - w->col > 1 ? "\033[%dC" : "\033[C", col - w->col);
        }
    } else if (col == 0) {
        buf_addf(w->out, row > 0 ? "\033[%dH" : "\033[H", row + 1);
    } else {
        buf_addf(w->out, "\033[%d;%dH", row + 1, col + 1);
    }
    w->row = row;
    w->col = col;
}

// ---- rows ----------------------------------------------------------------------------------

static void write_cell(struct writer *w, int row, int col)
{
    const struct term_cell *c = cells_at(w->new, row, col);
    assert(c->width != 0);
    move(w, row, col);
    if (!shows_alike(w, c)) {
        set_style(w, &c->style);
    }
    buf_add(w->out, c->text, c->n);
    w->col += c->width;
    w->row = w->col >= w->new->cols ? -1 : w->row;
}

// What the terminal shows in a row before it is written; NULL: that is not known.
static const struct term_cell *old_row(const struct writer *w, int row)
{
    const struct band *b = &w->band;
    if (w->old == NULL || b->up == 0 || row < b->top || row > b->bottom) {
        return w->old != NULL ? cells_at(w->old, row, 0) : NULL;
    }
    int from = row + b->up;
    return from >= b->top && from <= b->bottom ? cells_at(w->old, from, 0) : w->blank;
}

// Cells from `col` on that are clear in the new row; `*changed` of them, up to the last, are to be written.
static int clear_run(const struct writer *w, const struct term_cell *was, int row, int col,
                     int *changed)
{
    const struct term_cell *now = cells_at(w->new, row, 0);
    int n = 0;
    *changed = 0;
    while (col + n < w->new->cols && is_clear(&now[col + n])) {
        if (was == NULL || !is_clear(&was[col + n])) {
            *changed = n + 1;
        }
        n++;
    }
    return n;
}

// Erase a run of blanks from `col` on, if that is shorter than writing them. Returns how many were.
static int erase(struct writer *w, const struct term_cell *was, int row, int col)
{
    int changed, n = clear_run(w, was, row, col, &changed);
    bool to_end = col + n == w->new->cols;
    if (changed == 0 || changed < (to_end ? 4 : ERASE_MIN)) {
        return 0;
    }
    move(w, row, col);
    if (!shows_alike(w, cells_at(w->new, row, col))) {
        set_style(w, &cells_at(w->new, row, col)->style);
    }
    buf_addf(w->out, to_end ? "\033[K" : "\033[%dX", changed);
    return to_end ? n : changed;
}

static void write_row(struct writer *w, int row)
{
    const struct term_cell *was = old_row(w, row), *now = cells_at(w->new, row, 0);
    int cols = w->new->cols;
    if (was != NULL && memcmp(was, now, (size_t)cols * sizeof *now) == 0) {
        return;
    }
    for (int col = 0; col < cols;) {
        const struct term_cell *c = &now[col];
        // a wide character whose right half alone differs is written whole
        bool same = was != NULL && same_cell(&was[col], c) &&
                    (c->width != 2 || same_cell(&was[col + 1], c + 1));
        int erased = !same && is_clear(c) ? erase(w, was, row, col) : 0;
        if (!same && erased == 0) {
            write_cell(w, row, col);
        }
        col += erased != 0 ? erased : MAX(c->width, 1);
    }
}

static void write_rows(struct writer *w)
{
    static const struct style none;
    w->row = -1;
    for (int row = 0; row < w->new->rows; row++) {
        write_row(w, row);
    }
    set_style(w, &none);
}

// ---- scrolling -----------------------------------------------------------------------------

// What a row shows, near enough: rows are compared cell by cell when they are written.
static uint64_t hash_row(const struct cells *g, int row)
{
    const struct term_cell *c = cells_at(g, row, 0);
    uint64_t h = 14695981039346656037u;
    for (int col = 0; col < g->cols; col++, c++) {
        uint64_t text;
        memcpy(&text, &c->n, sizeof text); // with the width, and the first bytes
        uint64_t colors = (uint64_t)c->style.fg << 32 | c->style.bg;
        h = (h ^ text ^ colors * 31 ^ (uint64_t)c->style.attrs << 56) * 1099511628211u;
        h ^= h >> 29;
    }
    return h;
}

// The band of rows of `new` for which scrolling `old` up by `up` rows saves most: each row that is then in place
// counts, each that was in place and no longer is counts against it.
static void find_band(const uint64_t *a, const uint64_t *b, int rows, int up, struct band *best)
{
    int first = MAX(0, -up), last = MIN(rows, rows - up), saved = 0, start = first;
    for (int i = first; i < last; i++) {
        bool moved = b[i] == a[i + up], stays = b[i] == a[i];
        saved += moved && !stays ? 1 : stays && !moved ? -1 : 0;
        if (saved <= 0) {
            saved = 0;
            start = i + 1;
        } else if (saved > best->saved) {
            *best = (struct band){MIN(start, start + up), MAX(i, i + up), up, saved};
        }
    }
}

static struct band find_scroll(const struct cells *old, const struct cells *new)
{
    struct band best = {.saved = 0};
    int rows = new->rows;
    uint64_t *a = xcalloc((size_t)rows * 2, sizeof *a), *b = a + rows;
    int differ = 0;
    for (int i = 0; i < rows; i++) {
        a[i] = hash_row(old, i);
        b[i] = hash_row(new, i);
        differ += a[i] != b[i];
    }
    for (int up = 1; up < rows && differ >= SCROLL_ROWS; up++) {
        find_band(a, b, rows, up, &best);
        find_band(a, b, rows, -up, &best);
    }
    free(a);
    return best;
}

// Scroll first, then write, if a scroll saves bytes. False: none does, and nothing was written.
static bool try_scroll(struct writer *w)
{
    w->band = find_scroll(w->old, w->new);
    if (w->band.saved < SCROLL_ROWS) {
        return false;
    }
    struct cells blank;
    cells_init(&blank);
    cells_resize(&blank, 1, w->new->cols);
    w->blank = cells_at(&blank, 0, 0);
    buf_addf(w->out, "\033[%d;%dr\033[%d%c\033[r", w->band.top + 1, w->band.bottom + 1,
             abs(w->band.up), w->band.up > 0 ? 'S' : 'T');
    write_rows(w);
    cells_fini(&blank);
    return true;
}

// ---- public --------------------------------------------------------------------------------

static void add_cursor(const struct cells *old, const struct cells *new, bool whole, bool moved,
                       struct buf *out)
{
    bool place = old->cursor_row != new->cursor_row || old->cursor_col != new->cursor_col;
    if (new->cursor_shown && (place || moved || whole || !old->cursor_shown)) {
        buf_addf(out, "\033[%d;%dH", new->cursor_row + 1, new->cursor_col + 1);
    }
    if (whole || old->cursor_shown != new->cursor_shown) {
        buf_addz(out, new->cursor_shown ? "\033[?25h" : "\033[?25l");
    }
}

void cells_diff(const struct cells *old, const struct cells *new, bool whole,
                enum color_depth depth, struct buf *out)
{
    assert(whole || (old->rows == new->rows && old->cols == new->cols));
    struct buf plain = {.max = SIZE_MAX}, scrolled = {.max = SIZE_MAX};
    struct writer w = {
        .out = &plain, .depth = depth, .old = whole ? NULL : old, .new = new, .row = -1};
    struct writer v = w;
    v.out = &scrolled;
    write_rows(&w);
    bool shorter = !whole && plain.n > SCROLL_BYTES && try_scroll(&v) && scrolled.n < plain.n;
    buf_adds(out, buf_str(shorter ? &scrolled : &plain));
    add_cursor(old, new, whole, plain.n != 0, out);
    buf_fini(&plain);
    buf_fini(&scrolled);
}
