// The tree that the layout returned: checked, then arranged.
//
// What comes from Lua may be anything. It is checked whole before anything is drawn, so that a wrong
// field is an error with a place ("children[2].child: ...") and never half a screen.
//
// Sizes: along a row or column a node has a number of cells, a share in percent, what it needs ("fit"), or else an
// equal part of what is left. Where there is too little room, nodes shrink to what is left, in order.

#include <assert.h>

#include "tui/tui_int.h"

enum { DEPTH_MAX = 40 };

// ---- styles --------------------------------------------------------------------------------

static const struct {
    const char *name;
    style_color color;
} colors[] = {
    {"default", 0},
    {"black", STYLE_INDEX(0)},
    {"red", STYLE_INDEX(1)},
    {"green", STYLE_INDEX(2)},
    {"yellow", STYLE_INDEX(3)},
    {"blue", STYLE_INDEX(4)},
    {"magenta", STYLE_INDEX(5)},
    {"cyan", STYLE_INDEX(6)},
    {"white", STYLE_INDEX(7)},
    {"grey", STYLE_INDEX(8)},
    {"gray", STYLE_INDEX(8)},
    {"accent", STYLE_RGB(38, 150, 190)},
    {"good", STYLE_INDEX(2)},
    {"warn", STYLE_INDEX(3)},
    {"bad", STYLE_INDEX(1)},
};

static const struct {
    const char *name;
    uint32_t attr;
} attrs[] = {
    {"bold", STYLE_BOLD},           {"dim", STYLE_DIM},         {"italic", STYLE_ITALIC},
    {"underline", STYLE_UNDERLINE}, {"reverse", STYLE_REVERSE}, {"strike", STYLE_STRIKE},
};

static bool find_color(struct str name, style_color *out)
{
    unsigned rgb;
    char end;
    for (size_t i = 0; i < ARRAY_LEN(colors); i++) {
        if (str_eqz(name, colors[i].name)) {
            *out = colors[i].color;
            return true;
        }
    }
    char *z = str_dup(name);
    bool hex = name.n == 7 && sscanf(z, "#%6x%c", &rgb, &end) == 1;
    free(z);
    if (hex) {
        *out = 0x2000000u | rgb;
    }
    return hex;
}

static uint32_t find_attr(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(attrs); i++) {
        if (str_eqz(name, attrs[i].name)) {
            return attrs[i].attr;
        }
    }
    return 0;
}

static int style_word(struct style *s, struct str word, struct err *e)
{
    uint32_t attr = find_attr(word);
    s->attrs |= attr;
    if (attr == 0 && !find_color(word, &s->fg)) {
        return err_set(e, ERR_INVALID, "unknown style '" STR_FMT "'", STR_ARG(word));
    }
    return 0;
}

static int style_member(struct style *s, const struct json_member *m, struct err *e)
{
    bool fg = str_eqz(m->key, "fg"), bg = str_eqz(m->key, "bg");
    style_color *to = fg ? &s->fg : &s->bg;
    if (fg || bg) {
        bool index = m->value.type == JSON_INT && m->value.i >= 0 && m->value.i < 256;
        if (index) {
            *to = STYLE_INDEX(m->value.i);
        }
        return index || find_color(json_str(&m->value, ""), to)
                   ? 0
                   : err_set(e, ERR_INVALID, "unknown colour of '" STR_FMT "'", STR_ARG(m->key));
    }
    uint32_t attr = find_attr(m->key);
    if (attr == 0) {
        return err_set(e, ERR_INVALID, "unknown style '" STR_FMT "'", STR_ARG(m->key));
    }
    s->attrs = json_bool(&m->value, false) ? s->attrs | attr : s->attrs & ~attr;
    return 0;
}

int node__style(struct style *out, const struct json *v, struct style otherwise, struct err *e)
{
    *out = otherwise;
    int rc = 0;
    for (struct str rest = json_str(v, ""), word; rc == 0 && rest.n != 0;) {
        word = str_cut(&rest, ' ');
        rc = word.n != 0 ? style_word(out, word, e) : 0;
    }
    json_foreach_member (m, v) {
        rc = rc == 0 ? style_member(out, m, e) : rc;
    }
    return rc;
}

struct style node__style_of(const struct json *v, struct style otherwise)
{
    struct style s;
    struct err e;
    return node__style(&s, json_get(v, "style"), otherwise, &e) < 0 ? otherwise : s;
}

// ---- fields --------------------------------------------------------------------------------

static const char common_fields[] = "type:s id:s size:si style:so border:b ";

struct str node__str(const struct node *n, const char *key)
{
    return json_get_text(n->v, key);
}

int node__int(const struct node *n, const char *key, int otherwise)
{
    int64_t v = json_int(json_get(n->v, key), otherwise);
    return v < -100000 || v > 100000 ? otherwise : (int)v;
}

// The types that a list of fields gives to `key`; empty: it has no such field.
static struct str types_of(const char *fields, struct str key)
{
    for (struct str rest = str_of(fields); rest.n != 0;) {
        struct str types = str_cut(&rest, ' '), name = str_cut(&types, ':');
        if (str_eq(name, key)) {
            return types;
        }
    }
    return STR_NULL;
}

static bool is_of_type(const struct json *v, char type)
{
    switch (type) {
    case 's': return v->type == JSON_STR;
    case 'i': return v->type == JSON_INT;
    case 'b': return v->type == JSON_BOOL;
    case 'a':
    case 'X': return v->type == JSON_ARR || (v->type == JSON_OBJ && v->n == 0);
    default: return v->type == JSON_OBJ;
    }
}

static int check_field(const struct widget *w, const struct json_member *m, struct err *e)
{
    struct str types = types_of(common_fields, m->key);
    types = types.n != 0 ? types : types_of(w->fields, m->key);
    if (types.n == 0) {
        return err_set(e, ERR_INVALID, "'%s' has no field '" STR_FMT "'", w->name, STR_ARG(m->key));
    }
    for (size_t i = 0; i < types.n; i++) {
        if (is_of_type(&m->value, types.p[i])) {
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "field '" STR_FMT "' of '%s' cannot be of type %s",
                   STR_ARG(m->key), w->name, json_type_name(&m->value));
}

static int parse_size(struct node *n, struct err *e)
{
    const struct json *v = json_get(n->v, "size");
    struct str s = json_str(v, "");
    uint64_t percent;
    if (v == NULL) {
        n->kind = strcmp(n->widget->name, "status") == 0 ? SIZE_FIT : SIZE_SHARE;
    } else if (v->type == JSON_INT && v->i >= 0 && v->i < 10000) {
        n->kind = SIZE_CELLS;
        n->size = (int)v->i;
    } else if (str_eqz(s, "fit")) {
        n->kind = SIZE_FIT;
    } else if (str_ends(s, "%") && str_to_u64((struct str){s.p, s.n - 1}, &percent) &&
               percent <= 100) {
        n->kind = SIZE_PERCENT;
        n->size = (int)percent;
    } else {
        return err_set(e, ERR_INVALID, "size is a number of cells, \"N%%\" or \"fit\"");
    }
    return 0;
}

// ---- parsing -------------------------------------------------------------------------------

struct parse {
    struct arena *a;
    unsigned counts[32]; // of nodes without an id, by widget
    struct err *e;
};

static const struct widget *find_widget(struct str type)
{
    for (size_t i = 0; i < n_widgets; i++) {
        if (str_eqz(type, widgets[i].name)) {
            return &widgets[i];
        }
    }
    return NULL;
}

static int unknown_type(struct str type, struct err *e)
{
    const char *names[32];
    assert(n_widgets <= ARRAY_LEN(names));
    for (size_t i = 0; i < n_widgets; i++) {
        names[i] = widgets[i].name;
    }
    const char *near = str_nearest(type, names, n_widgets);
    return err_set(e, ERR_INVALID, "unknown node type '" STR_FMT "'%s%s%s", STR_ARG(type),
                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
}

static int parse_node(struct parse *p, struct node **out, const struct json *v, unsigned depth);

static int parse_children(struct parse *p, struct node *n, unsigned depth)
{
    const struct json *child = json_get(n->v, "child");
    struct node **end = &n->first;
    int rc = 0, i = 0;
    if (child != NULL) {
        rc = parse_node(p, end, child, depth + 1);
        return rc < 0 ? err_prefix(p->e, "child") : 0;
    }
    json_foreach_item (it, json_get(n->v, "children")) {
        i++;
        rc = parse_node(p, end, it, depth + 1);
        if (rc < 0) {
            return err_prefix(p->e, "children[%d]", i);
        }
        end = &(*end)->next;
    }
    return 0;
}

static int parse_node(struct parse *p, struct node **out, const struct json *v, unsigned depth)
{
    if (v == NULL || v->type != JSON_OBJ) {
        return err_set(p->e, ERR_INVALID, "a node is a table with a field 'type', not %s",
                       v == NULL ? "nil" : json_type_name(v));
    }
    if (depth > DEPTH_MAX) {
        return err_set(p->e, ERR_INVALID, "more than %d nodes inside each other", DEPTH_MAX);
    }
    struct str type = json_get_text(v, "type");
    const struct widget *w = find_widget(type);
    if (w == NULL) {
        return unknown_type(type, p->e);
    }
    struct node *n = arena_calloc(p->a, 1, sizeof *n);
    n->widget = w;
    n->v = v;
    json_foreach_member (m, v) {
        if (check_field(w, m, p->e) < 0) {
            return p->e->code;
        }
    }
    n->popup = str_eqz(type, "popup");
    n->border = json_bool(json_get(v, "border"), str_eqz(type, "pane") || n->popup);
    n->id = node__str(n, "id");
    if (n->id.n == 0 && w->focuses) {
        unsigned *count = &p->counts[w - widgets];
        n->id = str_of(arena_printf(p->a, "%s%u", w->name, ++*count));
    }
    if (node__style(&n->style, json_get(v, "style"), (struct style){0}, p->e) < 0 ||
        parse_size(n, p->e) < 0) {
        return p->e->code;
    }
    *out = n;
    return parse_children(p, n, depth);
}

int node__parse(struct node **out, struct arena *a, const struct json *v, struct err *e)
{
    struct parse p = {.a = a, .e = e};
    *out = NULL;
    int rc = parse_node(&p, out, v, 0);
    return rc < 0 ? err_prefix(e, "the layout") : 0;
}

// ---- arranging -----------------------------------------------------------------------------

static int fit_of(struct tui *t, struct node *n, bool rows, int other)
{
    int frame = n->border ? 2 : 0, most = 0;
    if (n->widget->fit != NULL) {
        return n->widget->fit(t, n, rows, other - frame) + frame;
    }
    for (struct node *c = n->first; c != NULL; c = c->next) { // of a pane or a column
        int fit = c->kind == SIZE_CELLS ? c->size : fit_of(t, c, rows, other - frame);
        bool sums = rows == (strcmp(n->widget->name, "column") == 0);
        most = sums ? most + fit : MAX(most, fit);
    }
    return MAX(most, n->first == NULL) + frame;
}

static int wanted(struct tui *t, struct node *n, bool rows, int all, int other)
{
    return n->kind == SIZE_CELLS     ? n->size
           : n->kind == SIZE_PERCENT ? all * n->size / 100
           : n->kind == SIZE_FIT     ? fit_of(t, n, rows, other)
                                     : 0;
}

static void arrange(struct tui *t, struct node *n, struct rect at);

// Nodes with a size of their own come first; the others share what is left.
static void arrange_line(struct tui *t, struct node *n, bool rows)
{
    struct rect r = n->inner;
    int all = rows ? r.rows : r.cols, other = rows ? r.cols : r.rows, left = all, shares = 0;
    for (struct node *c = n->first; c != NULL; c = c->next) {
        if (!c->popup) {
            shares += c->kind == SIZE_SHARE;
            left -= wanted(t, c, rows, all, other);
        }
    }
    int at = 0;
    left = MAX(left, shares); // a row each, at least
    for (struct node *c = n->first; c != NULL; c = c->next) {
        if (c->popup) {
            continue;
        }
        int size = wanted(t, c, rows, all, other);
        if (c->kind == SIZE_SHARE) {
            size = left / shares;
            left -= size;
            shares--;
        }
        size = MIN(MAX(size, 0), all - at);
        arrange(t, c,
                rows ? (struct rect){r.row + at, r.col, size, r.cols}
                     : (struct rect){r.row, r.col + at, r.rows, size});
        at += size;
    }
}

// A popup's size; a small window has no room to waste.
static int extent(const struct node *n, const char *key, int all, int small)
{
    const struct json *v = json_get(n->v, key);
    struct str s = json_str(v, "");
    uint64_t percent = 60;
    if (all < small) {
        return all;
    }
    if (v != NULL && v->type == JSON_INT) {
        return (int)MIN(MAX(v->i, 3), all);
    }
    if (!str_ends(s, "%") || !str_to_u64((struct str){s.p, s.n - 1}, &percent)) {
        percent = 60;
    }
    return all * (int)MIN(MAX(percent, 10), 100) / 100;
}

static void arrange_popup(struct tui *t, struct node *n)
{
    int rows = t->screen.next.rows, cols = t->screen.next.cols;
    int high = extent(n, "height", rows, 16), wide = extent(n, "width", cols, 50);
    arrange(t, n, (struct rect){(rows - high) / 2, (cols - wide) / 2, high, wide});
}

static void arrange(struct tui *t, struct node *n, struct rect at)
{
    n->at = n->inner = at;
    if (n->border) {
        n->inner = (struct rect){at.row + 1, at.col + 1, MAX(at.rows - 2, 0), MAX(at.cols - 2, 0)};
    }
    bool row = strcmp(n->widget->name, "row") == 0;
    if (row || strcmp(n->widget->name, "column") == 0) {
        arrange_line(t, n, !row);
    } else if (n->first != NULL) {
        arrange(t, n->first, n->inner);
    }
    for (struct node *c = n->first; c != NULL; c = c->next) {
        if (c->popup) {
            arrange_popup(t, c);
        }
    }
}

// Popups are above everything that is not in one, wherever they are in the tree.
static void list(struct tui *t, struct node *n, bool above, bool popups)
{
    above = above || n->popup;
    if (above == popups) {
        vec_push(&t->nodes, n);
    }
    for (struct node *c = n->first; c != NULL; c = c->next) {
        list(t, c, above, popups);
    }
}

void node__arrange(struct tui *t, int rows, int cols)
{
    assert(t->tree != NULL);
    arrange(t, t->tree, (struct rect){0, 0, rows, cols});
    t->nodes.n = 0;
    list(t, t->tree, false, false);
    list(t, t->tree, false, true);
}
