// The grid of one screen.
//
// Rows are scrolled by moving their pointers, never their cells. A row knows how far it was written:
// blanking one costs nothing, and a short line is packed into the history as a short line.
//
// Invariants:
//   - cells[used..cols) count as blank, whatever they hold.
//   - a cell of width 2 is followed by one of width 0 in the same row, and no other cell has width 0.

#include "vt/grid.h"

#include <assert.h>

#include "base/vec.h"

static const struct vt_cell blank = {.width = 1};

void grid_init(struct grid *g, int rows, int cols, struct history *h, struct clusters *c)
{
    *g = (struct grid){.n_rows = rows, .n_cols = cols, .history = h, .clusters = c};
    g->rows = xcalloc((size_t)rows, sizeof *g->rows);
    for (int i = 0; i < rows; i++) {
        g->rows[i].cells = xcalloc((size_t)cols, sizeof(struct vt_cell));
    }
}

void grid_fini(struct grid *g)
{
    for (int i = 0; i < g->n_rows; i++) {
        free(g->rows[i].cells);
    }
    free(g->rows);
    *g = (struct grid){0};
}

// ---- cells ---------------------------------------------------------------------------------

/// Blank what is between `used` and `col`, so that cells up to there can be written one by one.
static void extend(struct grid_row *r, int col)
{
    for (; r->used < col; r->used++) {
        r->cells[r->used] = blank;
    }
}

/// A wide character is about to lose the half on one side of `col`: blank both.
static void split(struct grid_row *r, int col)
{
    if (col > 0 && col < r->used && r->cells[col].width == 0) {
        r->cells[col - 1] = (struct vt_cell){.bg = r->cells[col - 1].bg, .width = 1};
        r->cells[col] = (struct vt_cell){.bg = r->cells[col].bg, .width = 1};
    }
}

struct vt_cell *grid_put(struct grid *g, int row, int col, int width)
{
    struct grid_row *r = &g->rows[row];
    assert(row >= 0 && row < g->n_rows && col >= 0 && width >= 1 && col + width <= g->n_cols);
    extend(r, col);
    split(r, col);
    split(r, col + width);
    r->used = MAX(r->used, col + width);
    if (col + width == g->n_cols) {
        r->wrapped = false;
    }
    return &r->cells[col];
}

static void erase_row(struct grid *g, struct grid_row *r, int col, int end_col, uint32_t bg)
{
    if (end_col == g->n_cols) {
        r->wrapped = false;
    }
    r->mark = r->mark && col > 0;
    split(r, col);
    if (end_col == g->n_cols && bg == 0) {
        r->used = MIN(r->used, col);
        return;
    }
    extend(r, end_col);
    split(r, end_col);
    for (int i = col; i < end_col; i++) {
        r->cells[i] = (struct vt_cell){.bg = bg, .width = 1};
    }
}

void grid_erase(struct grid *g, int row, int end_row, int col, int end_col, uint32_t bg)
{
    assert(row >= 0 && end_row <= g->n_rows && col >= 0 && end_col <= g->n_cols);
    for (int i = row; i < end_row && col < end_col; i++) {
        erase_row(g, &g->rows[i], col, end_col, bg);
    }
}

int grid_length(const struct vt_cell *cells, int n)
{
    while (n > 0 && cells[n - 1].text == 0 && cells[n - 1].width == 1 && cells[n - 1].bg == 0 &&
           cells[n - 1].attrs == 0) {
        n--;
    }
    return n;
}

const struct vt_cell *grid_cells(struct grid *g, int row)
{
    struct grid_row *r = &g->rows[row];
    assert(row >= 0 && row < g->n_rows);
    for (int i = r->used; i < g->n_cols; i++) {
        r->cells[i] = blank;
    }
    return r->cells;
}

// ---- scrolling -----------------------------------------------------------------------------

/// An unfinished line keeps its blanks: they are between its words.
static int row_length(const struct grid_row *r)
{
    return r->wrapped ? r->used : grid_length(r->cells, r->used);
}

static void push_row(struct grid *g, const struct grid_row *r)
{
    history_push(g->history, g->clusters, r->cells, row_length(r), r->wrapped, r->mark);
}

static void reverse(struct grid_row *rows, int n)
{
    for (int i = 0; i < n / 2; i++) {
        struct grid_row r = rows[i];
        rows[i] = rows[n - 1 - i];
        rows[n - 1 - i] = r;
    }
}

/// Move the first `n` rows of [row, end) to its end.
static void rotate(struct grid *g, int row, int end, int n)
{
    if (n == 1) {
        struct grid_row first = g->rows[row];
        memmove(&g->rows[row], &g->rows[row + 1], (size_t)(end - row - 1) * sizeof *g->rows);
        g->rows[end - 1] = first;
        return;
    }
    reverse(&g->rows[row], n);
    reverse(&g->rows[row + n], end - row - n);
    reverse(&g->rows[row], end - row);
}

static void scroll_rows(struct grid *g, int row, int end_row, int down, uint32_t bg)
{
    int height = end_row - row, n = down > 0 ? down : -down;
    if (row > 0) {
        g->rows[row - 1].wrapped = false; // another row follows it now
    }
    if (down > 0) {
        for (int i = row; i < row + n && row == 0 && g->history != NULL; i++) {
            push_row(g, &g->rows[i]);
        }
        rotate(g, row, end_row, n);
        grid_erase(g, end_row - n, end_row, 0, g->n_cols, bg);
    } else {
        rotate(g, row, end_row, height - n);
        grid_erase(g, row, row + n, 0, g->n_cols, bg);
        g->rows[end_row - 1].wrapped = false;
    }
}

/// Fewer columns than all, or sideways: cell by cell.
static void scroll_cells(struct grid *g, int row, int end_row, int col, int end_col, int down,
                         int right)
{
    int height = end_row - row, width = end_col - col;
    for (int k = 0; k < height; k++) {
        int to = down >= 0 ? row + k : end_row - 1 - k;
        int from = to + down;
        struct grid_row *t = &g->rows[to];
        extend(t, end_col);
        split(t, col);
        split(t, end_col);
        t->wrapped = t->wrapped && end_col < g->n_cols;
        if (from < row || from >= end_row) {
            continue;
        }
        struct grid_row *f = &g->rows[from];
        int start = MAX(0, -right), n = width - (right < 0 ? -right : right);
        extend(f, end_col);
        split(f, col);
        split(f, end_col);
        split(f, col + start + right);
        split(f, col + start + right + n);
        memmove(&t->cells[col + start], &f->cells[col + start + right],
                (size_t)n * sizeof(struct vt_cell));
    }
}

void grid_scroll(struct grid *g, int row, int end_row, int col, int end_col, int down, int right,
                 uint32_t bg)
{
    int height = end_row - row, width = end_col - col;
    down = MAX(-height, MIN(height, down));
    right = MAX(-width, MIN(width, right));
    assert(row >= 0 && end_row <= g->n_rows && height > 0 && width > 0);
    if (right == 0 && width == g->n_cols) {
        if (down != 0) {
            scroll_rows(g, row, end_row, down, bg);
        }
        return;
    }
    scroll_cells(g, row, end_row, col, end_col, down, right);
    if (down != 0) {
        grid_erase(g, down > 0 ? end_row - down : row, down > 0 ? end_row : row - down, col,
                   end_col, bg);
    }
    if (right != 0) {
        grid_erase(g, row, end_row, right > 0 ? end_col - right : col,
                   right > 0 ? end_col : col - right, bg);
    }
}

// ---- size ----------------------------------------------------------------------------------

static void crop(struct grid *g, int rows, int cols)
{
    struct grid n;
    grid_init(&n, rows, cols, g->history, g->clusters);
    for (int i = 0; i < MIN(rows, g->n_rows); i++) {
        int used = MIN(cols, g->rows[i].used);
        split(&g->rows[i], used);
        memcpy(n.rows[i].cells, g->rows[i].cells, (size_t)used * sizeof(struct vt_cell));
        n.rows[i].used = used;
    }
    grid_fini(g);
    *g = n;
}

/// Rows on their way into a grid of another width, top first; a vec.
struct flow {
    struct grid_row *p;
    size_t n, cap;
    int cols;
};

static void flow_begin_row(struct flow *f, bool mark)
{
    struct grid_row r = {.mark = mark};
    r.cells = xcalloc((size_t)f->cols, sizeof(struct vt_cell));
    vec_push(f, r);
}

static void flow_cell(struct flow *f, const struct vt_cell *cell)
{
    int width = MIN(cell->width, f->cols);
    if (vec_last(f)->used + width > f->cols) {
        vec_last(f)->wrapped = true;
        flow_begin_row(f, false);
    }
    struct grid_row *r = vec_last(f);
    r->cells[r->used] = *cell;
    if (width == 2) {
        r->cells[r->used + 1] = *cell;
        r->cells[r->used + 1].text = r->cells[r->used + 1].width = 0;
    }
    r->used += width;
}

/// The newest line of the history, as rows.
static bool flow_history(struct flow *f, struct grid *g)
{
    struct vt_cells line = {0};
    bool mark;
    if (!history_pop(g->history, g->clusters, &line, &mark)) {
        return false;
    }
    flow_begin_row(f, mark);
    for (size_t i = 0; i < line.n; i++) {
        flow_cell(f, &line.p[i]);
    }
    vec_fini(&line);
    return true;
}

/// All rows of the grid up to `last`; `at` becomes the new position of its character.
static void flow_screen(struct flow *f, struct grid *g, int last, struct grid_pos *at)
{
    struct grid_pos to = *at;
    bool joined = history_is_open(g->history) && flow_history(f, g);
    for (int row = 0; row <= last; row++) {
        struct grid_row *r = &g->rows[row];
        int n = row_length(r);
        if (!joined) {
            flow_begin_row(f, r->mark);
        }
        grid_cells(g, row);
        n = row == at->row ? MAX(n, MIN(at->col, g->n_cols)) : n;
        for (int col = 0; col < n; col++) {
            if (r->cells[col].width != 0) {
                flow_cell(f, &r->cells[col]);
            }
            if (row == at->row && col == at->col) {
                to = (struct grid_pos){(int)f->n - 1, vec_last(f)->used - 1};
            }
        }
        if (row == at->row && at->col >= n) {
            to = (struct grid_pos){(int)f->n - 1, vec_last(f)->used};
        }
        joined = r->wrapped;
    }
    *at = to;
}

/// Fill `room` rows above the flow from the history.
static void pull(struct flow *f, struct grid *g, int room, struct grid_pos *at)
{
    struct flow above = {.cols = f->cols};
    while (room > 0) {
        above.n = 0;
        if (!flow_history(&above, g)) {
            break;
        }
        int n = (int)above.n, take = MIN(n, room);
        for (int i = 0; i < n - take; i++) {
            push_row(g, &above.p[i]);
            free(above.p[i].cells);
        }
        vec_reserve(f, f->n + (size_t)take);
        memmove(f->p + take, f->p, f->n * sizeof *f->p);
        memcpy(f->p, above.p + n - take, (size_t)take * sizeof *f->p);
        f->n += (size_t)take;
        at->row += take;
        room -= take;
    }
    vec_fini(&above);
}

static int last_used(const struct grid *g)
{
    int last = g->n_rows - 1;
    while (last > 0 && row_length(&g->rows[last]) == 0) {
        last--;
    }
    return last;
}

void grid_resize(struct grid *g, int rows, int cols, struct grid_pos *at)
{
    struct grid n;
    struct flow f = {.cols = cols};
    if (g->history == NULL) {
        crop(g, rows, cols);
        return;
    }
    int last = MAX(last_used(g), MIN(at->row, g->n_rows - 1));
    bool full = last == g->n_rows - 1;
    flow_screen(&f, g, last, at);
    if (full && (int)f.n < rows) {
        pull(&f, g, rows - (int)f.n, at);
    }
    grid_init(&n, rows, cols, g->history, g->clusters);
    int over = MIN(MAX(0, (int)f.n - rows), at->row); // the cursor's row stays
    for (int i = 0; i < (int)f.n; i++) {
        if (i < over) {
            push_row(g, &f.p[i]);
        }
        if (i < over || i >= over + rows) {
            free(f.p[i].cells);
            continue;
        }
        free(n.rows[i - over].cells);
        n.rows[i - over] = f.p[i];
    }
    at->row -= over;
    at->col = MIN(at->col, cols - 1);
    vec_fini(&f);
    grid_fini(g);
    *g = n;
}
