// The widgets that show: text, pane, status, diff, popups; and what all widgets draw with.

#include <assert.h>

#include "base/visible.h"
#include "term/diff.h"
#include "term/text.h"
#include "tui/widgets_int.h"

static const struct style accent = {.fg = STYLE_RGB(38, 150, 190)};
static const struct style dim = {.attrs = STYLE_DIM};

// ---- text ----------------------------------------------------------------------------------

struct flow {
    struct tui *t;
    struct rect r;
    bool wrap, draw;
    int skip;     // rows that are not shown
    int row, col; // where the next word goes, from the start of the text
};

static void flow_put(struct flow *f, struct str text, struct style style)
{
    int width = (int)text_width(text), row = f->row - f->skip;
    if (f->draw && row >= 0 && row < f->r.rows) {
        cells_put(&f->t->screen.next, f->r, f->r.row + row, f->r.col + f->col, text, style);
    }
    f->col += width;
}

static void flow_break(struct flow *f)
{
    f->row++;
    f->col = 0;
}

// One word with the blanks before it. A word that is longer than a row is cut.
static void flow_word(struct flow *f, struct str blanks, struct str word, struct style style)
{
    int wide = (int)text_width(word), gap = (int)text_width(blanks);
    if (f->wrap && f->col > 0 && f->col + gap + wide > f->r.cols) {
        flow_break(f);
    } else {
        flow_put(f, blanks, style);
    }
    while (f->wrap && word.n != 0 && f->col + (int)text_width(word) > f->r.cols && f->r.cols > 1) {
        size_t n = text_fit(word, (size_t)MAX(f->r.cols - f->col, 0), NULL);
        if (n == 0 && f->col == 0) {
            break;
        }
        flow_put(f, (struct str){word.p, n}, style);
        flow_break(f);
        word = str_from(word, n);
    }
    flow_put(f, word, style);
}

static void flow_line(struct flow *f, struct str line, struct style style)
{
    while (line.n != 0) {
        size_t gap = 0;
        while (gap < line.n && line.p[gap] == ' ') {
            gap++;
        }
        size_t end = gap;
        while (end < line.n && line.p[end] != ' ') {
            end++;
        }
        flow_word(f, (struct str){line.p, gap}, (struct str){line.p + gap, end - gap}, style);
        line = str_from(line, end);
    }
}

// Text may come from anywhere, also in the question whether a call may run: it is shown whole and commands nothing.
static void flow_text(struct flow *f, struct str given, struct style style)
{
    struct buf shown = {.max = SIZE_MAX};
    visible_add(&shown, given, true);
    struct str text = buf_str(&shown);
    while (text.n != 0) {
        bool feeds = str_index(text, '\n') >= 0;
        struct str line = str_cut(&text, '\n');
        for (bool tab = true; tab && line.n != 0;) {
            tab = str_index(line, '\t') >= 0;
            flow_line(f, str_cut(&line, '\t'), style);
            flow_line(f, tab ? STR("    ") : STR(""), style);
        }
        if (feeds) {
            flow_break(f);
        }
    }
    buf_fini(&shown);
}

/// Write text, wrapped at the width of `r`, from row `skip` on; returns the rows that all of it takes. `v` is a
/// string, or a list of strings and {text, style}. With `draw` false nothing is written.
static int write_text(struct tui *t, struct rect r, const struct json *v, struct style style,
                      bool wrap, int skip, bool draw)
{
    struct flow f = {.t = t, .r = r, .wrap = wrap, .skip = skip, .draw = draw};
    if (v != NULL && v->type == JSON_STR) {
        flow_text(&f, v->s, style);
    }
    json_foreach_item (it, v) {
        bool plain = it->type == JSON_STR;
        flow_text(&f, plain ? it->s : json_get_text(it, "text"),
                  plain ? style : node__style_of(it, style));
    }
    return f.row + (f.col > 0);
}

int draw__width(struct str text)
{
    struct buf shown = {.max = SIZE_MAX};
    visible_add(&shown, text, false);
    int width = (int)text_width(buf_str(&shown));
    buf_fini(&shown);
    return width;
}

int draw__cut(struct tui *t, struct rect r, int col, struct str text, struct style style)
{
    struct buf shown = {.max = SIZE_MAX}, cut = {.max = SIZE_MAX};
    visible_add(&shown, text, false);
    text_add_cut(&cut, buf_str(&shown), (size_t)MAX(r.col + r.cols - col, 0));
    int width = cells_put(&t->screen.next, r, r.row, col, buf_str(&cut), style);
    buf_fini(&shown);
    buf_fini(&cut);
    return width;
}

void draw__lines(struct tui *t, struct rect r, struct str lines, int skip, struct style style)
{
    for (int row = -skip; lines.n != 0 && row < r.rows; row++) {
        struct str line = str_cut(&lines, '\n');
        if (row >= 0) {
            cells_put(&t->screen.next, r, r.row + row, r.col, line, style);
        }
    }
}

// A mark in the border, where there is one: how far down this is.
void draw__more(struct tui *t, struct rect r, int top, int total)
{
    if (total > r.rows && r.rows > 2) {
        int at = (int)((int64_t)top * (r.rows - 1) / MAX(total - r.rows, 1));
        struct rect edge = {r.row, r.col + r.cols, r.rows, 1};
        cells_put(&t->screen.next, edge, r.row + MIN(MAX(at, 0), r.rows - 1), r.col + r.cols,
                  STR("┃"), accent);
    }
}

// ---- scrolling -----------------------------------------------------------------------------

// A node that counts rows from its end keeps showing the same rows when new ones come, unless it is at its end.
int scroll__of(struct tui *t, const struct node *n, int total)
{
    struct kept *k = kept__of(t, n->id);
    int at = ui__get_int(t->ui, "scroll", n->id, 0), more = total - k->top;
    if (n->widget->from_end && at > 0 && more != 0) {
        at = MAX(at + more, 0);
        ui__set_int(t->ui, "scroll", n->id, at);
    }
    k->top = total;
    return MIN(MAX(at, 0), MAX(total - n->inner.rows, 0));
}

bool scroll__step(const struct node *n, const struct key *k, int *rows)
{
    static const struct {
        enum key_code code;
        int rows, pages;
    } keys[] = {{KEY_UP, -1, 0},       {KEY_DOWN, 1, 0},        {KEY_PAGE_UP, 0, -1},
                {KEY_PAGE_DOWN, 0, 1}, {KEY_HOME, -1000000, 0}, {KEY_END, 1000000, 0}};
    for (size_t i = 0; i < ARRAY_LEN(keys) && k->mods == 0; i++) {
        if (keys[i].code == k->code) {
            *rows = keys[i].rows + keys[i].pages * MAX(n->inner.rows - 1, 1);
            return true;
        }
    }
    return false;
}

bool scroll__key(struct tui *t, struct node *n, const struct key *k)
{
    int rows;
    bool moves = scroll__step(n, k, &rows);
    if (moves) {
        scroll__by(t, n, rows);
    }
    return moves;
}

void scroll__by(struct tui *t, const struct node *n, int rows)
{
    int total = kept__of(t, n->id)->top; // what was drawn last
    int at = scroll__of(t, n, total) + (n->widget->from_end ? -rows : rows);
    ui__set_int(t->ui, "scroll", n->id, MIN(MAX(at, 0), MAX(total - n->inner.rows, 0)));
    app__changed(t, true);
}

void scroll__mouse(struct tui *t, struct node *n, const struct key *k)
{
    if (k->mouse.kind == MOUSE_UP || k->mouse.kind == MOUSE_DOWN) {
        scroll__by(t, n, k->mouse.kind == MOUSE_UP ? -3 : 3);
    }
}

// ---- text, diff ------------------------------------------------------------------------------

int text__rows(struct tui *t, struct str text, int cols)
{
    const struct json v = {.type = JSON_STR, .s = text};
    return write_text(t, (struct rect){0, 0, 1, cols}, &v, (struct style){0}, true, 0, false);
}

int text__fit(struct tui *t, struct node *n, bool rows, int other)
{
    bool wrap = json_bool(json_get(n->v, "wrap"), true);
    struct rect r = {0, 0, 1, rows ? other : 1000};
    return rows ? write_text(t, r, json_get(n->v, "text"), n->style, wrap, 0, false) : other;
}

void text__draw(struct tui *t, struct node *n)
{
    bool wrap = json_bool(json_get(n->v, "wrap"), true);
    const struct json *text = json_get(n->v, "text");
    int skip = 0;
    if (json_bool(json_get(n->v, "scroll"), false) && n->id.n != 0) {
        int total = write_text(t, n->inner, text, n->style, wrap, 0, false);
        skip = scroll__of(t, n, total);
        draw__more(t, n->inner, skip, total);
    }
    write_text(t, n->inner, text, n->style, wrap, skip, true);
}

void diff__draw(struct tui *t, struct node *n)
{
    struct diff_look look = {
        .cols = (size_t)MAX(n->inner.cols, 1), .rows = 100000, .color = COLOR_TRUE};
    struct buf lines = {.max = SIZE_MAX};
    diff_render(&lines, str_trim(node__str(n, "text")), &look);
    int total = (int)str_lines(buf_str(&lines));
    int skip = scroll__of(t, n, total);
    draw__lines(t, n->inner, buf_str(&lines), skip, n->style);
    draw__more(t, n->inner, skip, total);
    buf_fini(&lines);
}

// ---- frames --------------------------------------------------------------------------------

// The node that has or holds the focus has a bright border.
static bool holds(const struct node *n, const struct node *focused)
{
    bool found = n == focused;
    for (const struct node *c = n->first; c != NULL && !found; c = c->next) {
        found = holds(c, focused);
    }
    return found;
}

static void draw_frame(struct tui *t, struct node *n)
{
    struct rect all = {0, 0, t->screen.next.rows, t->screen.next.cols};
    static const struct style none;
    if (n->popup) {
        cells_fill(&t->screen.next, n->at, none);
    }
    if (!n->border) {
        return;
    }
    bool lit = holds(n, input__focused(t));
    struct style line = lit ? accent : dim;
    if (memcmp(&n->style, &none, sizeof none) != 0) {
        line = n->style;
    }
    cells_box(&t->screen.next, n->at, all, line);
    struct str title = node__str(n, "title");
    if (title.n != 0 && n->at.cols > 6 &&
        n->at.rows > 1) { // else there is no border to write it in
        struct rect row = {n->at.row, n->at.col, 1, n->at.cols - 3};
        int col = n->at.col + 3;
        line.attrs = (line.attrs & ~(uint32_t)STYLE_DIM) | (lit ? STYLE_BOLD : 0u);
        cells_put(&t->screen.next, all, row.row, col - 1, STR(" "), line);
        col += draw__cut(t, row, col, title, line);
        cells_put(&t->screen.next, all, row.row, col, STR(" "), line);
    }
}

void draw__node(struct tui *t, struct node *n)
{
    draw_frame(t, n);
    n->widget->draw(t, n);
}

static int spans_width(const struct json *v)
{
    int wide = v != NULL && v->type == JSON_STR ? draw__width(v->s) : 0;
    json_foreach_item (it, v) {
        wide += draw__width(it->type == JSON_STR ? it->s : json_get_text(it, "text"));
    }
    return wide;
}

void status__draw(struct tui *t, struct node *n)
{
    struct rect r = n->inner;
    const struct json *left = json_get(n->v, "left"), *right = json_get(n->v, "right");
    int wide = spans_width(right);
    bool fits = wide + 12 < r.cols;
    struct rect a = {r.row, r.col + 1, r.rows, r.cols - 2 - (fits ? wide + 2 : 0)};
    write_text(t, a, left, n->style, false, 0, true);
    if (spans_width(left) > a.cols && a.cols > 0) {
        cells_put(&t->screen.next, a, a.row, a.col + a.cols - 1, STR("…"), dim);
    }
    if (fits) {
        struct rect b = {r.row, r.col + r.cols - wide - 1, r.rows, wide};
        write_text(t, b, right, dim, false, 0, true);
    }
}
