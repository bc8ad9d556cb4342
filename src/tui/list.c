// Widgets that one chooses from: list, table, palette.
//
// What is chosen is remembered in `_tui_state.selected` by the item's id, where it has one: when the list is
// sorted anew, the choice stays on what was chosen and not on its place.

#include <assert.h>

#include "base/time.h"
#include "tui/widgets_int.h"

enum { GUARD_NS = 400 * 1000000 };

static const struct style dim = {.attrs = STYLE_DIM};
static const struct style accent = {.fg = STYLE_RGB(38, 150, 190)};

/// What a widget offers: all of its items, or those that fit what was typed.
struct offers {
    const struct json *items;
    vec(uint32_t) shown;
    size_t at; // the chosen one, an index into `shown`
};

static struct str text_of(const struct json *item)
{
    return item->type == JSON_STR ? item->s : json_get_text(item, "text");
}

// ---- what fits -----------------------------------------------------------------------------

static bool contains(struct str text, struct str word)
{
    for (size_t i = 0; i + word.n <= text.n; i++) {
        if (strncasecmp(text.p + i, word.p, word.n) == 0) {
            return true;
        }
    }
    return false;
}

// Every word must be somewhere; lower is better. -1: it does not fit.
static int rank(const struct json *item, struct str query)
{
    struct str text = text_of(item), more = json_get_text(item, "secondary");
    int all = 0;
    while (query.n != 0) {
        struct str word = str_cut(&query, ' ');
        bool starts = word.n <= text.n && word.n != 0 && strncasecmp(text.p, word.p, word.n) == 0;
        int one = word.n == 0 || starts  ? 0
                  : contains(text, word) ? 1
                  : contains(more, word) ? 2
                                         : -1;
        if (one < 0) {
            return -1;
        }
        all = MAX(all, one);
    }
    return all;
}

static void find_chosen(struct tui *t, const struct node *n, struct offers *o)
{
    struct str id = ui__get_str(t->ui, "selected", n->id);
    int index = node__int(n, "selected", ui__get_int(t->ui, "selected", n->id, 1));
    o->at = o->shown.n != 0 ? MIN((size_t)MAX(index, 1), o->shown.n) - 1 : 0;
    for (size_t i = 0; i < o->shown.n && id.n != 0; i++) {
        if (str_eq(json_get_text(json_at(o->items, o->shown.p[i]), "id"), id)) {
            o->at = i;
            return;
        }
    }
}

static struct offers offers_of(struct tui *t, const struct node *n)
{
    bool table = strcmp(n->widget->name, "table") == 0;
    bool palette = strcmp(n->widget->name, "palette") == 0;
    struct offers o = {.items = json_get(n->v, table ? "rows" : "items")};
    struct str query = palette ? ui__get_str(t->ui, "input", n->id) : STR_NULL;
    for (int want = 0; want <= (query.n != 0 ? 2 : 0); want++) {
        uint32_t i = 0;
        json_foreach_item (it, o.items) {
            if (query.n == 0 || rank(it, query) == want) {
                vec_push(&o.shown, i);
            }
            i++;
        }
    }
    find_chosen(t, n, &o);
    return o;
}

static const struct json *chosen(const struct offers *o)
{
    return o->at < o->shown.n ? json_at(o->items, o->shown.p[o->at]) : NULL;
}

const struct json *list__chosen(struct tui *t, const struct node *n, size_t *number)
{
    struct offers o = offers_of(t, n);
    const struct json *item = chosen(&o);
    *number = item != NULL ? o.at + 1 : 0;
    vec_fini(&o.shown);
    return json_get(item, "id");
}

// ---- choosing ------------------------------------------------------------------------------

// Run the action that the node names in `key`, with the id of an item or else its number.
static void act(struct tui *t, const struct node *n, const char *key, const struct offers *o)
{
    const struct json *item = chosen(o), *id = json_get(item, "id");
    struct json number = {.type = JSON_INT, .i = (int64_t)o->at + 1};
    if (node__str(n, key).n != 0) {
        ui__act(t->ui, node__str(n, key), item == NULL ? NULL : id != NULL ? id : &number);
    }
}

static void choose(struct tui *t, const struct node *n, struct offers *o, int64_t at)
{
    if (o->shown.n == 0) {
        return;
    }
    size_t before = o->at;
    o->at = (size_t)MIN(MAX(at, 0), (int64_t)o->shown.n - 1);
    struct str id = json_get_text(chosen(o), "id");
    if (id.n != 0) {
        ui__set_str(t->ui, "selected", n->id, id);
    } else {
        ui__set_int(t->ui, "selected", n->id, (int)o->at + 1);
    }
    app__changed(t, true);
    if (before != o->at) {
        act(t, n, "select", o);
    }
}

// A list that guards takes no decision until it has been on the screen for a moment: a key that was meant for
// something else decides nothing.
static void decide(struct tui *t, const struct node *n, const struct offers *o)
{
    bool guarded = json_bool(json_get(n->v, "guard"), false) &&
                   time_mono_ns() < kept__of(t, n->id)->since_ns + GUARD_NS;
    if (!guarded) {
        act(t, n, "action", o);
    }
}

// Items with a key of their own are chosen with it at once.
static bool press_item(struct tui *t, const struct node *n, struct offers *o, const struct key *k)
{
    for (size_t i = 0; i < o->shown.n && k->code == KEY_CHAR && k->mods == 0; i++) {
        struct str key = json_get_text(json_at(o->items, o->shown.p[i]), "key");
        if (key.n == 1 && (uint32_t)(unsigned char)key.p[0] == k->cp) {
            o->at = i;
            decide(t, n, o);
            return true;
        }
    }
    return false;
}

// A list that is all to be seen leaves the keys for pages to what is beside it.
static bool move_key(struct tui *t, const struct node *n, struct offers *o, const struct key *k)
{
    int rows;
    bool pages = k->code == KEY_PAGE_UP || k->code == KEY_PAGE_DOWN;
    bool moves = scroll__step(n, k, &rows) && !(pages && (int)o->shown.n <= n->inner.rows);
    if (moves) {
        choose(t, n, o, (int64_t)o->at + rows);
    }
    return moves;
}

bool list__key(struct tui *t, struct node *n, const struct key *k)
{
    struct offers o = offers_of(t, n);
    bool used = move_key(t, n, &o, k) || press_item(t, n, &o, k);
    if (!used && k->code == KEY_ENTER && k->mods == 0 && node__str(n, "action").n != 0) {
        used = true;
        choose(t, n, &o, (int64_t)o.at); // what comes above it later is not chosen
        decide(t, n, &o);
    }
    vec_fini(&o.shown);
    return used;
}

void list__mouse(struct tui *t, struct node *n, const struct key *k)
{
    const struct key_mouse *m = &k->mouse;
    struct offers o = offers_of(t, n);
    int head = strcmp(n->widget->name, "list") != 0; // a table's columns, a palette's input
    int row = m->row - n->inner.row - head + kept__of(t, n->id)->top;
    if (m->kind == MOUSE_UP || m->kind == MOUSE_DOWN) {
        choose(t, n, &o, (int64_t)o.at + (m->kind == MOUSE_UP ? -1 : 1));
    } else if (m->kind == MOUSE_PRESS && m->button == 1 && row >= 0 && row < (int)o.shown.n) {
        bool again = (size_t)row == o.at;
        choose(t, n, &o, row);
        if (again) {
            decide(t, n, &o);
        }
    }
    vec_fini(&o.shown);
}

// ---- drawing -------------------------------------------------------------------------------

// Scroll so far that the chosen row can be seen, and no further.
static int top_of(struct tui *t, const struct node *n, const struct offers *o, int rows)
{
    struct kept *k = kept__of(t, n->id);
    int at = (int)o->at, most = MAX((int)o->shown.n - rows, 0);
    k->top = at < k->top ? at : at >= k->top + rows ? at - rows + 1 : k->top;
    k->top = MIN(MAX(k->top, 0), most);
    return k->top;
}

static struct style chosen_style(struct tui *t, const struct node *n, struct style s)
{
    if (input__focused(t) == n) {
        s.attrs = (s.attrs & ~(uint32_t)STYLE_DIM) | STYLE_REVERSE;
    } else {
        s.attrs |= STYLE_BOLD;
    }
    return s;
}

// | mark key text ...            secondary |
static void draw_item(struct tui *t, const struct node *n, const struct json *item, struct rect r,
                      bool is_chosen)
{
    struct style own = node__style_of(item, n->style);
    struct style style = is_chosen ? chosen_style(t, n, n->style) : n->style;
    struct style mark = is_chosen ? chosen_style(t, n, own) : own;
    struct str more = json_get_text(item, "secondary"), key = json_get_text(item, "key"),
               sign = json_get_text(item, "mark");
    int col = r.col, wide = draw__width(more);
    cells_fill(&t->screen.next, r, is_chosen ? style : (struct style){0});
    if (sign.n != 0) {
        col += draw__cut(t, r, col, sign, mark) + 1;
    }
    if (key.n != 0) {
        struct style letter = {.attrs = STYLE_BOLD | style.attrs, .fg = accent.fg};
        col += draw__cut(t, r, col + 1, key, letter) + 3;
    }
    bool palette = strcmp(n->widget->name, "palette") == 0;
    int column = palette ? MIN(MAX(r.cols / 3, 18), 30) : 0;
    if (palette && r.cols > 2 * column) {
        draw__cut(t, (struct rect){r.row, r.col, 1, column}, col, text_of(item), style);
        draw__cut(t, r, r.col + column + 1, more, is_chosen ? style : dim);
        return;
    }
    bool room = wide > 0 && wide + 8 < r.col + r.cols - col;
    struct rect left = {r.row, r.col, 1, r.cols - (room ? wide + 1 : 0)};
    draw__cut(t, left, col, text_of(item), sign.n == 0 && !is_chosen ? own : style);
    if (room) {
        struct style end = is_chosen ? style : (own.fg != 0 ? own : dim);
        draw__cut(t, r, r.col + r.cols - wide, more, end);
    }
}

static void draw_items(struct tui *t, struct node *n, struct offers *o, struct rect r)
{
    int top = top_of(t, n, o, MAX(r.rows, 1));
    for (int row = 0; row < r.rows && (size_t)(top + row) < o->shown.n; row++) {
        size_t i = (size_t)(top + row);
        draw_item(t, n, json_at(o->items, o->shown.p[i]),
                  (struct rect){r.row + row, r.col, 1, r.cols}, i == o->at);
    }
    if (o->shown.n == 0) {
        draw__cut(t, r, r.col, node__str(n, "empty"), dim);
    }
    draw__more(t, r, top, (int)o->shown.n);
}

int list__fit(struct tui *t, struct node *n, bool rows, int other)
{
    (void)t;
    const struct json *items = json_get(n->v, "items");
    return rows ? MAX(items != NULL ? (int)items->n : 0, 1) : other;
}

void list__draw(struct tui *t, struct node *n)
{
    struct offers o = offers_of(t, n);
    draw_items(t, n, &o, n->inner);
    vec_fini(&o.shown);
}

void palette__draw(struct tui *t, struct node *n)
{
    struct offers o = offers_of(t, n);
    struct rect r = n->inner, rest = {r.row + 1, r.col, MAX(r.rows - 1, 0), r.cols};
    n->inner.rows = MIN(r.rows, 1);
    input__draw(t, n);
    n->inner = r;
    draw_items(t, n, &o, rest);
    vec_fini(&o.shown);
}

bool palette__key(struct tui *t, struct node *n, const struct key *k)
{
    struct offers o = offers_of(t, n);
    bool used = k->code != KEY_HOME && k->code != KEY_END && move_key(t, n, &o, k);
    if (!used && k->code == KEY_ENTER) {
        used = true;
        act(t, n, "action", &o);
    } else if (!used && k->code == KEY_ESC && node__str(n, "cancel").n != 0) {
        used = true;
        ui__act(t->ui, node__str(n, "cancel"), NULL);
    }
    vec_fini(&o.shown);
    if (!used) {
        used = input__edit(t, n, k);
        ui__set_int(t->ui, "selected", n->id, 1); // the best of what fits now
    }
    return used;
}

// ---- tables --------------------------------------------------------------------------------

static struct str cell(const struct json *row, size_t i)
{
    char key[24];
    snprintf(key, sizeof key, "%zu", i + 1);
    return json_str(row->type == JSON_ARR ? json_at(row, i) : json_get(row, key), "");
}

// Columns are as wide as what is in them; the last one has the rest.
static void measure(const struct json *columns, const struct json *rows, int *wide, size_t n,
                    int all)
{
    for (size_t i = 0; i < n; i++) {
        wide[i] = draw__width(json_str(json_at(columns, i), ""));
        json_foreach_item (row, rows) {
            wide[i] = MAX(wide[i], draw__width(cell(row, i)));
        }
        wide[i] = i + 1 < n ? MIN(wide[i], MAX(all / 3, 6)) : all;
    }
}

static void draw_row(struct tui *t, struct rect r, const struct json *row, bool head,
                     const int *wide, size_t n, struct style style)
{
    for (size_t i = 0, col = (size_t)r.col; i < n; i++) {
        struct rect part = rect_clip(r, (struct rect){r.row, (int)col, 1, wide[i]});
        draw__cut(t, part, (int)col, head ? json_str(json_at(row, i), "") : cell(row, i), style);
        col += (size_t)wide[i] + 2;
    }
}

void table__draw(struct tui *t, struct node *n)
{
    enum { COLUMNS = 16 };
    int wide[COLUMNS];
    struct offers o = offers_of(t, n);
    struct rect r = n->inner;
    const struct json *columns = json_get(n->v, "columns");
    size_t count = MIN(columns != NULL ? columns->n : 0, (size_t)COLUMNS);
    measure(columns, o.items, wide, count, r.cols);
    if (r.rows > 0) {
        draw_row(t, (struct rect){r.row, r.col, 1, r.cols}, columns, true, wide, count, dim);
    }
    int top = top_of(t, n, &o, MAX(r.rows - 1, 1));
    for (int row = 0; row + 1 < r.rows && (size_t)(top + row) < o.shown.n; row++) {
        const struct json *item = json_at(o.items, o.shown.p[top + row]);
        struct rect line = {r.row + 1 + row, r.col, 1, r.cols};
        bool is_chosen = (size_t)(top + row) == o.at;
        struct style style = node__style_of(item, n->style);
        style = is_chosen ? chosen_style(t, n, style) : style;
        cells_fill(&t->screen.next, line, is_chosen ? style : (struct style){0});
        draw_row(t, line, item, false, wide, count, style);
    }
    if (o.shown.n == 0) {
        draw__cut(t, (struct rect){r.row + 1, r.col, r.rows > 1, r.cols}, r.col,
                  node__str(n, "empty"), dim);
    }
    draw__more(t, (struct rect){r.row + 1, r.col, MAX(r.rows - 1, 0), r.cols}, top, (int)o.shown.n);
    vec_fini(&o.shown);
}
