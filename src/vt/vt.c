// The screen: libvterm's callbacks into the grid, and what others read of it.
//
// libvterm's state layer knows where the cursor goes and what moves; it keeps no cells. Its screen layer
// moves every cell for each line that is scrolled, which costs four fifths of the speed. What libvterm is
// told at all is decided in feed.c.

#include <assert.h>

#include "base/utf8.h"
#include "vt/vt_int.h"

// ---- libvterm's callbacks ------------------------------------------------------------------

void vt__sweep_clusters(struct vt *v)
{
    struct clusters kept = {0};
    struct grid *grids[] = {&v->main, &v->alternate};
    for (size_t g = 0; g < ARRAY_LEN(grids); g++) {
        for (int row = 0; row < grids[g]->n_rows; row++) {
            struct grid_row *r = &grids[g]->rows[row];
            for (int col = 0; col < r->used; col++) {
                uint32_t points[CLUSTER_POINTS];
                if ((r->cells[col].text & CLUSTER_BIT) != 0) {
                    cluster_get(&v->clusters, r->cells[col].text, points);
                    r->cells[col].text = cluster_add(&kept, points);
                }
            }
        }
    }
    free(v->clusters.slots);
    v->clusters = kept;
}

/// A character that follows the end of a row without any movement was wrapped.
static void note_wrap(struct vt *v, VTermPos pos)
{
    if (v->pending && pos.col == 0 && pos.row == v->pending_row + 1) {
        struct grid_row *r = &v->on->rows[v->pending_row];
        r->wrapped = true;
        r->used = MIN(r->used, v->pending_end); // a column that a wide character left is no blank
    }
}

static int on_glyph(VTermGlyphInfo *info, VTermPos pos, void *user)
{
    struct vt *v = user;
    int cols = v->on->n_cols, width = MIN(info->width, cols - pos.col);
    if (width <= 0 || pos.row < 0 || pos.row >= v->on->n_rows || pos.col < 0) {
        return 1;
    }
    note_wrap(v, pos);
    v->last = info->chars[0];
    struct vt_cell *c = grid_put(v->on, pos.row, pos.col, width);
    *c = v->pen;
    c->width = (uint8_t)width;
    if (info->chars[0] != ' ') {
        c->text = info->chars[0];
    } else if ((c->attrs & VT_ON_BLANKS) == 0) { // nothing to see but `bg`
        c->fg = c->attrs = 0;
    }
    if (width == 2) {
        c[1] = v->pen;
        c[1].text = c[1].width = 0;
    }
    v->pending_end = pos.col + width;
    v->pending_row = pos.row;
    v->pending_col = v->pending_end == cols ? pos.col : v->pending_end;
    v->pending = v->pending_end >= cols - 1;
    v->edge = v->pending_end == cols;
    v->edge_row = pos.row;
    v->edge_col = pos.col; // where the cursor waits: of a wide character on its first half
    return 1;
}

static int on_cursor(VTermPos pos, VTermPos old, int visible, void *user)
{
    struct vt *v = user;
    (void)old;
    (void)visible;
    v->pos = pos;
    v->pending = v->pending && pos.row == v->pending_row && pos.col == v->pending_col;
    v->edge = v->edge && pos.row == v->edge_row && pos.col == v->edge_col;
    return 1;
}

/// libvterm's rectangles come from the program's numbers: cut one to the screen. False: nothing is left.
static bool cut_rect(const struct vt *v, VTermRect *r)
{
    r->start_row = MAX(r->start_row, 0);
    r->start_col = MAX(r->start_col, 0);
    r->end_row = MIN(r->end_row, v->on->n_rows);
    r->end_col = MIN(r->end_col, v->on->n_cols);
    return r->start_row < r->end_row && r->start_col < r->end_col;
}

static int on_scroll(VTermRect r, int down, int right, void *user)
{
    struct vt *v = user;
    if (!cut_rect(v, &r)) {
        return 1;
    }
    grid_scroll(v->on, r.start_row, r.end_row, r.start_col, r.end_col, down, right, v->pen.bg);
    if (v->pending && v->pending_row >= r.start_row && v->pending_row < r.end_row) {
        v->pending_row -= down;
        v->pending = v->pending_row >= r.start_row;
    }
    return 1;
}

static int on_erase(VTermRect r, int selective, void *user)
{
    struct vt *v = user;
    (void)selective; // nothing is protected
    if (cut_rect(v, &r)) {
        grid_erase(v->on, r.start_row, r.end_row, r.start_col, r.end_col, v->pen.bg);
    }
    return 1;
}

static int on_bell(void *user)
{
    struct vt *v = user;
    if (v->cb.bell != NULL) {
        v->cb.bell(v->arg);
    }
    return 1;
}

bool vt__is_phantom(const struct vt *v)
{
    return v->pending && v->pending_end == v->on->n_cols && v->pos.row == v->pending_row;
}

/// libvterm has the new size. Where the cursor is now is told to it afterwards.
static int on_resize(int rows, int cols, VTermPos *delta, void *user)
{
    struct vt *v = user;
    struct grid_pos at = {v->pos.row, vt__is_phantom(v) ? v->pending_end : v->pos.col},
                    unused = {0, 0};
    (void)delta;
    grid_resize(&v->main, rows, cols, v->on == &v->main ? &at : &unused);
    grid_resize(&v->alternate, rows, cols, &at);
    v->pos = (VTermPos){MIN(at.row, rows - 1), MIN(at.col, cols - 1)};
    v->saved.pos.row = MIN(v->saved.pos.row, rows - 1);
    v->saved.pos.col = MIN(v->saved.pos.col, cols - 1);
    v->pending = false;
    v->top = v->bottom = 0;
    v->row = xreallocarray(v->row, (size_t)cols, sizeof *v->row);
    return 1;
}

static const VTermStateCallbacks callbacks = {
    .putglyph = on_glyph,
    .movecursor = on_cursor,
    .scrollrect = on_scroll,
    .erase = on_erase,
    .bell = on_bell,
};

/// While the size changes: the cursor that libvterm moves meanwhile is not ours.
static const VTermStateCallbacks resizing = {.resize = on_resize};

static void on_answer(const char *bytes, size_t n, void *user)
{
    struct vt *v = user;
    if (v->cb.answer != NULL) {
        v->cb.answer((struct str){bytes, n}, v->arg);
    }
}

// ---- public --------------------------------------------------------------------------------

struct vt *vt_new(int rows, int cols, size_t history, const struct vt_cb *cb, void *arg)
{
    struct vt *v = xcalloc(1, sizeof *v);
    rows = vt__clamp(rows, 2, VT_ROWS_MAX);
    cols = vt__clamp(cols, 3, VT_COLS_MAX);
    v->cb = cb != NULL ? *cb : (struct vt_cb){0};
    v->arg = arg;
    scan_init(&v->scan);
    history_init(&v->history, history);
    grid_init(&v->main, rows, cols, &v->history, &v->clusters);
    grid_init(&v->alternate, rows, cols, NULL, &v->clusters);
    v->on = &v->main;
    v->row = xcalloc((size_t)cols, sizeof *v->row);
    v->pen.width = v->saved.pen.width = 1;
    v->shape = VT_BLOCK;
    v->charsets[0] = v->charsets[1] = 'B';
    for (int i = 0; i < VT_MODE__COUNT; i++) {
        v->modes[i] = vt__modes[i].initial;
    }
    v->term = vterm_new(rows, cols);
    if (v->term == NULL) {
        abort(); // out of memory
    }
    vterm_set_utf8(v->term, 1);
    vterm_output_set_callback(v->term, on_answer, v);
    v->state = vterm_obtain_state(v->term);
    vterm_state_set_callbacks(v->state, &callbacks, v);
    vterm_state_reset(v->state, 1);
    return v;
}

void vt_free(struct vt *v)
{
    if (v != NULL) {
        vterm_free(v->term);
        scan_fini(&v->scan);
        grid_fini(&v->main);
        grid_fini(&v->alternate);
        history_fini(&v->history);
        free(v->clusters.slots);
        free(v->row);
        free(v);
    }
}

void vt_feed(struct vt *v, struct str bytes, struct buf *clean)
{
    vt__run(v, &v->scan, bytes, clean);
}

void vt_resize(struct vt *v, int rows, int cols)
{
    rows = vt__clamp(rows, 2, VT_ROWS_MAX);
    cols = vt__clamp(cols, 3, VT_COLS_MAX);
    if (rows != v->on->n_rows || cols != v->on->n_cols) {
        char bytes[32];
        vterm_state_set_callbacks(v->state, &resizing, v);
        vterm_set_size(v->term, rows, cols);
        vterm_state_set_callbacks(v->state, &callbacks, v);
        // the region is all rows again, here and in every terminal
        snprintf(bytes, sizeof bytes, "\033[r\033[%d;%dH", v->pos.row + 1, v->pos.col + 1);
        vt__tell(v, str_of(bytes));
    }
}

int vt_rows(const struct vt *v)
{
    return v->on->n_rows;
}

int vt_cols(const struct vt *v)
{
    return v->on->n_cols;
}

const struct vt_cell *vt_row(struct vt *v, int row)
{
    assert(row < v->on->n_rows);
    if (row >= 0) {
        return grid_cells(v->on, row);
    }
    if (clusters_full(&v->clusters)) {
        vt__sweep_clusters(v);
    }
    history_row(&v->history, &v->clusters, v->on->n_cols, -row, v->row);
    return v->row;
}

int vt_history(struct vt *v)
{
    return vt_alternate(v) ? 0 : history_rows(&v->history, v->on->n_cols);
}

bool vt_row_wrapped(struct vt *v, int row)
{
    assert(row < v->on->n_rows);
    return row >= 0 ? v->on->rows[row].wrapped
                    : history_row(&v->history, &v->clusters, v->on->n_cols, -row, v->row);
}

size_t vt_cell_text(const struct vt *v, const struct vt_cell *c, char out[VT_TEXT_MAX])
{
    uint32_t points[CLUSTER_POINTS];
    size_t n = 0;
    cluster_get(&v->clusters, c->text, points);
    for (size_t i = 0; i < CLUSTER_POINTS && points[i] != 0; i++) {
        n += utf8_encode(points[i], out + n);
    }
    out[n] = '\0';
    return n;
}

struct vt_cursor vt_get_cursor(const struct vt *v)
{
    return (struct vt_cursor){v->pos.row, v->pos.col, v->modes[VT_MODE_25], v->shape};
}

const char *vt_title(const struct vt *v)
{
    return v->title;
}

const char *vt_directory(const struct vt *v)
{
    return v->directory;
}

bool vt_alternate(const struct vt *v)
{
    return v->on == &v->alternate;
}

bool vt_mode(const struct vt *v, unsigned mode)
{
    int i = vt__mode_index(mode);
    return i >= 0 && v->modes[i];
}
