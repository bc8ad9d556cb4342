// History, packed.
//
// 10,000 lines as cells would take 25 MB; packed they take about what the program wrote. A line is a
// stream of bytes, starting and ending in the default style:
//
//     STYLE flags [attrs] [fg] [bg]    the cells that follow look like this; what is left out is default. A colour
//                                      of the palette is one byte, others are four
//     PLAIN                            the cells that follow are in the default style
//     WIDE                             the next cell takes two columns
//     CLUSTER n                        the next cell has n code points
//     text as UTF-8, a space for an empty cell
//
// The four marks are below space, so they are no text. A line that never ends is closed at LINE_BYTES
// bytes. The oldest lines go when there are more than `max`, or when they take more than BYTES_A_LINE each.
//
// Lines are short and many, so they are not allocated one by one: they are stored one after the other in blocks, and
// a block is freed with the last line in it. Lines are added at the end and removed at both ends: `used` of the
// newest block is where its newest line ends.

#include "vt/history.h"

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>

#include "base/utf8.h"
#include "base/vec.h"

enum { STYLE = 1, WIDE = 2, CLUSTER = 3, PLAIN = 4 };
enum { HAS_ATTRS = 1, HAS_FG = 2, HAS_BG = 4, SHORT_FG = 8, SHORT_BG = 16 };
enum { LINE_BYTES = 16384, BYTES_A_LINE = 256, BLOCK_BYTES = 16000 };

struct history_line {
    uint32_t n;    // bytes
    uint16_t cols; // columns in all
    bool open : 1, mark : 1, wide : 1;
    unsigned char bytes[];
};

struct history_block {
    struct history_block *prev, *next; // older, newer
    uint32_t size, used;               // bytes
    uint32_t lines;                    // never 0
    unsigned char bytes[];
};
static_assert(offsetof(struct history_block, bytes) % alignof(struct history_line) == 0, "lines");

void history_init(struct history *h, size_t max)
{
    *h = (struct history){.max = max, .scratch = {.max = SIZE_MAX}};
}

void history_fini(struct history *h)
{
    for (struct history_block *b = h->oldest, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    free(h->ring);
    buf_fini(&h->scratch);
    history_init(h, h->max);
}

static struct history_line **line_at(const struct history *h, size_t i)
{
    assert(i < h->n);
    return &h->ring[(h->first + i) % h->max];
}

// ---- blocks --------------------------------------------------------------------------------

static size_t line_size(size_t n)
{
    size_t align = alignof(struct history_line);
    return (offsetof(struct history_line, bytes) + n + align - 1) / align * align;
}

/// Room for a line of `n` bytes after the newest one, in a new block if the newest has too little.
static struct history_line *add_room(struct history *h, size_t n)
{
    struct history_block *b = h->newest;
    size_t size = line_size(n);
    if (b == NULL || b->size - b->used < size) {
        size_t bytes = MAX(size, (size_t)BLOCK_BYTES);
        b = xmalloc(sizeof *b + bytes);
        *b = (struct history_block){.prev = h->newest, .size = (uint32_t)bytes};
        *(h->newest != NULL ? &h->newest->next : &h->oldest) = b;
        h->newest = b;
    }
    struct history_line *l = (void *)(b->bytes + b->used);
    b->used += (uint32_t)size;
    b->lines++;
    return l;
}

/// A line of this block is gone.
static void drop_line(struct history *h, struct history_block *b)
{
    assert(b->lines > 0);
    if (--b->lines == 0) {
        *(b->prev != NULL ? &b->prev->next : &h->oldest) = b->next;
        *(b->next != NULL ? &b->next->prev : &h->newest) = b->prev;
        free(b);
    }
}

/// The newest line with room for `n` bytes in all, where it is or in a block of its own.
static struct history_line *grow_newest(struct history *h, struct history_line *l, size_t n)
{
    struct history_block *b = h->newest;
    size_t at = (size_t)((unsigned char *)l - b->bytes);
    assert(at + line_size(l->n) == b->used);
    b->used = (uint32_t)(at + line_size(n));
    if (b->used <= b->size) {
        return l;
    }
    b->used = b->size; // so that the room is in another block
    struct history_line *moved = add_room(h, n);
    memcpy(moved, l, line_size(l->n));
    b->used = (uint32_t)at;
    drop_line(h, b);
    return moved;
}

// ---- writing -------------------------------------------------------------------------------

static void add_color(struct buf *b, uint32_t color, bool is_short)
{
    if (is_short) {
        buf_addc(b, (char)(color & 255));
    } else if (color != 0) {
        buf_add(b, &color, sizeof color);
    }
}

static void add_style(struct buf *b, const struct vt_cell *c)
{
    bool short_fg = (c->fg & VT_COLOR_KIND) == VT_INDEXED,
         short_bg = (c->bg & VT_COLOR_KIND) == VT_INDEXED;
    int flags = (c->attrs != 0 ? HAS_ATTRS : 0) | (c->fg != 0 ? HAS_FG : 0) |
                (c->bg != 0 ? HAS_BG : 0) | (short_fg ? SHORT_FG : 0) | (short_bg ? SHORT_BG : 0);
    if (flags == 0) {
        buf_addc(b, PLAIN);
        return;
    }
    buf_addc(b, STYLE);
    buf_addc(b, (char)flags);
    buf_add(b, &c->attrs, c->attrs != 0 ? sizeof c->attrs : 0);
    add_color(b, c->fg, short_fg);
    add_color(b, c->bg, short_bg);
}

static void add_text(struct buf *b, const struct clusters *c, uint32_t text)
{
    uint32_t points[CLUSTER_POINTS];
    char utf8[4];
    unsigned n = 1;
    cluster_get(c, text, points);
    while (n < CLUSTER_POINTS && points[n] != 0) {
        n++;
    }
    if (n > 1) {
        buf_addc(b, CLUSTER);
        buf_addc(b, (char)n);
    }
    for (unsigned i = 0; i < n; i++) {
        buf_add(b, utf8, utf8_encode(points[i] != 0 ? points[i] : ' ', utf8));
    }
}

bool vt__style_fits(const struct vt_cell *style, const struct vt_cell *cell)
{
    bool blank = cell->text == 0 && ((style->attrs | cell->attrs) & VT_ON_BLANKS) == 0;
    return style->bg == cell->bg &&
           (blank || (style->attrs == cell->attrs && style->fg == cell->fg));
}

/// Append the cells at the front that are ASCII in this very style; nearly all are. Returns how many.
static int pack_run(struct buf *b, const struct vt_cell *style, const struct vt_cell *cells, int n)
{
    char *to = buf_reserve(b, (size_t)n);
    int i = 0;
    for (; i < n && cells[i].width == 1 && cells[i].text < 128; i++) {
        bool same =
            cells[i].fg == style->fg && cells[i].bg == style->bg && cells[i].attrs == style->attrs;
        if (!same && !vt__style_fits(style, &cells[i])) {
            break;
        }
        to[i] = cells[i].text != 0 ? (char)cells[i].text : ' ';
    }
    buf_grow(b, (size_t)i);
    return i;
}

static void pack(struct buf *b, const struct clusters *c, const struct vt_cell *cells, int n)
{
    static const struct vt_cell plain;
    const struct vt_cell *style = &plain;
    for (int i = 0; i < n; i++) {
        i += pack_run(b, style, cells + i, n - i);
        if (i == n) {
            break;
        }
        const struct vt_cell *cell = &cells[i];
        if (cell->width == 0) {
            continue;
        }
        if (!vt__style_fits(style, cell)) {
            add_style(b, cell);
            style = cell;
        }
        if (cell->width == 2) {
            buf_addc(b, WIDE);
        }
        if (cell->text < 128) {
            buf_addc(b, cell->text != 0 ? (char)cell->text : ' ');
        } else {
            add_text(b, c, cell->text);
        }
    }
    if (style != &plain) {
        add_style(b, &plain);
    }
}

static void drop_oldest(struct history *h)
{
    assert(h->n != 0 && h->bytes >= (*line_at(h, 0))->n);
    h->bytes -= (*line_at(h, 0))->n;
    drop_line(h, h->oldest);
    h->first = (h->first + 1) % h->max;
    h->n--;
}

static struct history_line *new_line(struct history *h, size_t n)
{
    if (h->ring == NULL) {
        h->ring = xcalloc(h->max, sizeof(struct history_line *));
    }
    if (h->n == h->max) {
        drop_oldest(h);
    }
    struct history_line *l = add_room(h, n);
    *l = (struct history_line){0};
    h->n++;
    *line_at(h, h->n - 1) = l;
    return l;
}

void history_push(struct history *h, const struct clusters *c, const struct vt_cell *cells, int n,
                  bool open, bool mark)
{
    struct buf *b = &h->scratch;
    if (h->max == 0) {
        return;
    }
    buf_clear(b);
    h->seen.cols = 0;
    pack(b, c, cells, n);
    struct history_line *l = h->n != 0 ? *line_at(h, h->n - 1) : NULL;
    if (l != NULL && l->open && l->n < LINE_BYTES) {
        l = grow_newest(h, l, l->n + b->n);
        *line_at(h, h->n - 1) = l;
    } else {
        l = new_line(h, b->n);
    }
    if (b->n != 0) {
        memcpy(l->bytes + l->n, b->p, b->n);
    }
    l->n += (uint32_t)b->n;
    assert(l->cols + n <= UINT16_MAX); // each column takes a byte at least
    l->cols = (uint16_t)(l->cols + n);
    l->open = open;
    l->mark |= mark;
    for (int i = 0; i < n && !l->wide; i++) {
        l->wide = cells[i].width == 2;
    }
    h->bytes += b->n;
    while (h->bytes > h->max * BYTES_A_LINE && h->n > 1) {
        drop_oldest(h);
    }
}

// ---- reading -------------------------------------------------------------------------------

struct reader {
    const unsigned char *p, *end;
    struct vt_cell style; // of the next cell
};

static struct reader reader_of(const struct history_line *l)
{
    return (struct reader){l->bytes, l->bytes + l->n, {0}};
}

static uint32_t read_color(struct reader *r, bool is_short)
{
    uint32_t color;
    if (is_short) {
        return VT_INDEXED | *r->p++;
    }
    memcpy(&color, r->p, sizeof color);
    r->p += sizeof color;
    return color;
}

static void read_style(struct reader *r)
{
    int flags = *r->p++;
    r->style = (struct vt_cell){0};
    if (flags & HAS_ATTRS) {
        memcpy(&r->style.attrs, r->p, sizeof r->style.attrs);
        r->p += sizeof r->style.attrs;
    }
    if (flags & HAS_FG) {
        r->style.fg = read_color(r, (flags & SHORT_FG) != 0);
    }
    if (flags & HAS_BG) {
        r->style.bg = read_color(r, (flags & SHORT_BG) != 0);
    }
}

static uint32_t read_point(struct reader *r)
{
    uint32_t point;
    r->p += utf8_decode((struct str){(const char *)r->p, (size_t)(r->end - r->p)}, &point);
    return point;
}

/// The next cell; false at the end. With `c` NULL its text is not wanted.
static bool read_cell(struct reader *r, struct clusters *c, struct vt_cell *out)
{
    uint32_t points[CLUSTER_POINTS] = {0};
    unsigned n = 1;
    uint8_t width = 1;
    for (; r->p < r->end && *r->p < ' '; assert(r->p <= r->end)) {
        unsigned char what = *r->p++;
        if (what == STYLE) {
            read_style(r);
        } else if (what == PLAIN) {
            r->style = (struct vt_cell){0};
        } else if (what == WIDE) {
            width = 2;
        } else {
            n = *r->p++;
        }
    }
    if (r->p == r->end) {
        return false;
    }
    assert(n <= CLUSTER_POINTS);
    for (unsigned i = 0; i < n; i++) {
        points[i] = read_point(r);
    }
    *out = r->style;
    out->text = c == NULL || (points[0] == ' ' && n == 1) ? 0 : cluster_add(c, points);
    out->width = width;
    return true;
}

bool history_is_open(const struct history *h)
{
    return h->n != 0 && (*line_at(h, h->n - 1))->open;
}

bool history_pop(struct history *h, struct clusters *c, struct vt_cells *to, bool *mark)
{
    if (h->n == 0) {
        return false;
    }
    struct history_line *l = *line_at(h, h->n - 1);
    struct reader r = reader_of(l);
    struct vt_cell cell;
    to->n = 0;
    while (read_cell(&r, c, &cell)) {
        vec_push(to, cell);
    }
    *mark = l->mark;
    assert(h->n != 0 && h->bytes >= l->n);
    h->bytes -= l->n;
    h->n--;
    h->seen.cols = 0;
    h->newest->used -= (uint32_t)line_size(l->n);
    drop_line(h, h->newest);
    return true;
}

static int line_rows(const struct history_line *l, int cols)
{
    if (!l->wide) {
        return l->cols == 0 ? 1 : ((int)l->cols + cols - 1) / cols;
    }
    struct reader r = reader_of(l);
    struct vt_cell cell;
    int rows = 1, col = 0;
    while (read_cell(&r, NULL, &cell)) {
        if (col + cell.width > cols) {
            rows++;
            col = 0;
        }
        col += cell.width;
    }
    return rows;
}

static struct history_seen *seen_at(struct history *h, int cols)
{
    if (h->seen.cols != cols) {
        h->seen = (struct history_seen){.cols = cols, .line = h->n};
    }
    return &h->seen;
}

int history_rows(struct history *h, int cols)
{
    struct history_seen *s = seen_at(h, cols);
    bool counted = s->total != 0;
    for (size_t i = 0; !counted && i < h->n; i++) {
        s->total += line_rows(*line_at(h, i), cols);
    }
    return s->total;
}

/// Decode the row with number `row` of a line.
static void cut_row(const struct history_line *l, struct clusters *c, int cols, int row,
                    struct vt_cell *out)
{
    struct reader r = reader_of(l);
    struct vt_cell cell;
    int at = 0, col = 0;
    while (at <= row && read_cell(&r, c, &cell)) {
        if (col + cell.width > cols) {
            at++;
            col = 0;
        }
        if (at == row) {
            out[col] = cell;
            if (cell.width == 2) {
                out[col + 1] = (struct vt_cell){.fg = cell.fg, .bg = cell.bg, .attrs = cell.attrs};
            }
        }
        col += cell.width;
    }
}

bool history_row(struct history *h, struct clusters *c, int cols, int back, struct vt_cell *out)
{
    struct history_seen *s = seen_at(h, cols);
    assert(back >= 1 && cols >= 2);
    for (int col = 0; col < cols; col++) {
        out[col] = (struct vt_cell){.width = 1};
    }
    while (back <= s->newer) {
        assert(s->line + 1 < h->n);
        s->rows = line_rows(*line_at(h, ++s->line), cols);
        s->newer -= s->rows;
    }
    while (back > s->newer + s->rows) {
        assert(s->line > 0);
        s->newer += s->rows;
        s->rows = line_rows(*line_at(h, --s->line), cols);
    }
    const struct history_line *l = *line_at(h, s->line);
    int below = back - s->newer - 1; // rows of this line after the one that is wanted
    cut_row(l, c, cols, s->rows - 1 - below, out);
    return below > 0 || (l->open && s->line + 1 == h->n);
}
