// Keys: to the widget in focus, or to an action.
//
//     key ──> a widget that types has it, but for the keys of a few actions (ui__press reserved)
//         ──> any other widget first, then the bindings
//
// The focus is the id in `_tui_state.focus`. While a popup is open only what is in the topmost one can have it. A node that
// a button of the mouse was pressed on gets what follows until the button is released, wherever the pointer is.

#include "base/utf8.h"
#include "tui/tui_int.h"

// ---- names ---------------------------------------------------------------------------------

void input__name(struct buf *out, const struct key *k)
{
    static const char *const names[] = {
        [KEY_ENTER] = "enter",   [KEY_TAB] = "tab",        [KEY_BACKSPACE] = "backspace",
        [KEY_ESC] = "esc",       [KEY_UP] = "up",          [KEY_DOWN] = "down",
        [KEY_RIGHT] = "right",   [KEY_LEFT] = "left",      [KEY_HOME] = "home",
        [KEY_END] = "end",       [KEY_PAGE_UP] = "pageup", [KEY_PAGE_DOWN] = "pagedown",
        [KEY_INSERT] = "insert", [KEY_DELETE] = "delete"};
    char text[4];
    bool shown = k->code == KEY_CHAR && k->cp != ' ';
    buf_addz(out, (k->mods & KEY_CTRL) != 0 ? "ctrl+" : "");
    buf_addz(out, (k->mods & KEY_ALT) != 0 ? "alt+" : "");
    buf_addz(out, (k->mods & KEY_SHIFT) != 0 && !shown ? "shift+" : ""); // 'A' says it already
    if (shown) {
        buf_add(out, text, utf8_encode(k->cp, text));
    } else if (k->code == KEY_CHAR) {
        buf_addz(out, "space");
    } else if (k->code == KEY_FUNCTION) {
        buf_addf(out, "f%u", k->cp);
    } else if (k->code < ARRAY_LEN(names) && names[k->code] != NULL) {
        buf_addz(out, names[k->code]);
    }
}

// ---- the focus -----------------------------------------------------------------------------

static bool can_focus(const struct node *n)
{
    bool scrolls = json_bool(json_get(n->v, "scroll"), false);
    return n->id.n != 0 && n->at.rows > 0 && n->at.cols > 0 && (n->widget->focuses || scrolls);
}

// The first node of the topmost layer: popups are at the end of the list.
static size_t layer(const struct tui *t)
{
    size_t from = 0;
    for (size_t i = 0; i < t->nodes.n; i++) {
        from = t->nodes.p[i]->popup ? i : from;
    }
    return from;
}

struct node *input__focused(struct tui *t)
{
    struct str id = t->ui != NULL ? ui__get_str(t->ui, NULL, STR("focus")) : STR_NULL;
    struct node *first = NULL;
    for (size_t i = layer(t); i < t->nodes.n; i++) {
        struct node *n = t->nodes.p[i];
        if (can_focus(n)) {
            first = first != NULL ? first : n;
            if (str_eq(n->id, id)) {
                return n;
            }
        }
    }
    return first;
}

void input__move(struct tui *t, int by)
{
    vec(struct node *) ring = {0};
    struct node *now = input__focused(t);
    size_t at = 0;
    for (size_t i = layer(t); i < t->nodes.n; i++) {
        if (can_focus(t->nodes.p[i])) {
            at = t->nodes.p[i] == now ? ring.n : at;
            vec_push(&ring, t->nodes.p[i]);
        }
    }
    if (ring.n != 0) {
        size_t to = (at + (by > 0 ? 1 : ring.n - 1)) % ring.n;
        ui__set_str(t->ui, NULL, STR("focus"), ring.p[to]->id);
        app__changed(t, true);
    }
    vec_fini(&ring);
}

// ---- the mouse -----------------------------------------------------------------------------

static struct node *node_at(const struct tui *t, const struct key_mouse *m)
{
    struct node *found = NULL;
    for (size_t i = layer(t); i < t->nodes.n; i++) {
        struct node *n = t->nodes.p[i];
        bool inside = m->row >= n->at.row && m->row < n->at.row + n->at.rows &&
                      m->col >= n->at.col && m->col < n->at.col + n->at.cols;
        found = inside ? n : found;
    }
    return found;
}

static bool ask_lua(struct tui *t, const struct key_mouse *m, const struct node *n)
{
    static const char *const kinds[] = {
        [MOUSE_PRESS] = "press", [MOUSE_RELEASE] = "release", [MOUSE_DRAG] = "drag",
        [MOUSE_MOVE] = "move",   [MOUSE_UP] = "up",           [MOUSE_DOWN] = "down"};
    struct str id = n != NULL ? n->id : STR("");
    struct str widget = str_of(n != NULL ? n->widget->name : "");
    struct json_member members[] = {
        {STR("type"), {.type = JSON_STR, .s = str_of(kinds[m->kind])}},
        {STR("button"), {.type = JSON_INT, .i = m->button}},
        {STR("row"), {.type = JSON_INT, .i = m->row + 1}},
        {STR("col"), {.type = JSON_INT, .i = m->col + 1}},
        {STR("id"), {.type = JSON_STR, .s = id}},
        {STR("widget"), {.type = JSON_STR, .s = widget}},
    };
    return ui__mouse(t->ui,
                     &(struct json){.type = JSON_OBJ, .n = ARRAY_LEN(members), .members = members});
}

static struct node *held_node(const struct tui *t)
{
    for (size_t i = layer(t); i < t->nodes.n; i++) {
        if (t->held != NULL && str_eq(t->nodes.p[i]->id, t->held->id)) {
            return t->nodes.p[i];
        }
    }
    return NULL;
}

static void mouse(struct tui *t, const struct key *k)
{
    const struct key_mouse *m = &k->mouse;
    struct node *n = node_at(t, m);
    if (ask_lua(t, m, n)) {
        app__changed(t, true);
        return;
    }
    if (m->kind == MOUSE_PRESS) {
        t->held = n != NULL && n->id.n != 0 ? kept__of(t, n->id) : NULL;
    } else if (m->kind == MOUSE_DRAG || m->kind == MOUSE_RELEASE) {
        n = held_node(t);
    }
    if (n != NULL && m->kind == MOUSE_PRESS && can_focus(n)) {
        ui__set_str(t->ui, NULL, STR("focus"), n->id);
        app__changed(t, true);
    }
    if (n != NULL && n->widget->mouse != NULL) {
        n->widget->mouse(t, n, k);
    }
    if (m->kind == MOUSE_RELEASE) {
        t->held = NULL;
    }
}

// ---- keys ----------------------------------------------------------------------------------

void input__key(struct tui *t, const struct key *k)
{
    struct node *n = input__focused(t);
    struct buf name = {.max = 64};
    if (t->ui == NULL || k->code == KEY_OTHER) {
        return;
    }
    if (k->code == KEY_MOUSE) {
        mouse(t, k);
        return;
    }
    input__name(&name, k);
    bool types = n != NULL && n->widget->types;
    bool used = n != NULL && n->widget->first != NULL && n->widget->first(t, n, k);
    used = used || (types && ui__press(t->ui, buf_z(&name), true));
    if (!used && n != NULL && n->widget->key != NULL) {
        used = n->widget->key(t, n, k);
    }
    if (!used && k->code != KEY_PASTE) {
        ui__press(t->ui, buf_z(&name), false);
    }
    buf_fini(&name);
}
