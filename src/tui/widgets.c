// The table of widgets, the input, and what widgets keep between frames.

#include <assert.h>

#include "base/time.h"
#include "tui/widgets_int.h"
#include "view/history.h"

// ---- what is kept --------------------------------------------------------------------------

struct kept *kept__of(struct tui *t, struct str id)
{
    struct kept *k = NULL;
    vec_foreach (it, &t->kept) {
        k = str_eq(id, (*it)->id) ? *it : k;
    }
    if (k == NULL) {
        k = xcalloc(1, sizeof *k);
        k->id = (struct str){str_dup(id), id.n};
        edit_init(&k->edit);
        vec_push(&t->kept, k);
    }
    if (k->since_ns == 0 || k->frame + 1 < t->frame) {
        k->since_ns = time_mono_ns();
    }
    k->frame = t->frame;
    return k;
}

void kept__fini(struct tui *t)
{
    vec_foreach (it, &t->kept) {
        struct kept *k = *it;
        edit_fini(&k->edit);
        menu_close(&k->menu);
        free(k->history);
        free((char *)(uintptr_t)k->id.p);
        free(k);
    }
    vec_fini(&t->kept);
    t->held = NULL;
}

// ---- input ---------------------------------------------------------------------------------

// The history of an input that has one is that of the project, which its chats have too.
static const char *history_of(struct tui *t, const struct node *n, struct kept *k)
{
    bool wanted = json_bool(json_get(n->v, "history"), false);
    if (wanted && !k->has_history) {
        k->has_history = true;
        k->history = history_path(t->o->home->dir, t->o->project);
        history_load(&k->edit, k->history);
    }
    return wanted ? k->history : NULL;
}

// What Lua wrote into `_tui_state.input` is what is in the input.
static struct edit *edit_of(struct tui *t, const struct node *n)
{
    struct kept *k = kept__of(t, n->id);
    struct edit *ed = &k->edit;
    struct str text = ui__get_str(t->ui, "input", n->id);
    const char *history = history_of(t, n, k);
    if (!str_eq(text, edit_text(ed))) { // what was sent can be had back
        history_add(ed, text.n == 0 ? history : NULL, str_trim(edit_text(ed)));
        edit_start(ed);
        edit_replace(ed, 0, text);
    }
    return ed;
}

static int input_fit(struct tui *t, struct node *n, bool rows, int other)
{
    struct edit *ed = edit_of(t, n);
    struct buf lines = {.max = SIZE_MAX};
    if (!rows) {
        return other;
    }
    edit_lines(ed, &lines, "> ", (size_t)MAX(node__int(n, "rows", 1), 1), (size_t)MAX(other, 1));
    int count = (int)str_lines(buf_str(&lines));
    buf_fini(&lines);
    return count;
}

void input__draw(struct tui *t, struct node *n)
{
    struct edit *ed = edit_of(t, n);
    struct rect r = n->inner;
    struct buf lines = {.max = SIZE_MAX};
    bool focused = input__focused(t) == n;
    if (r.rows < 1 || r.cols < 1) {
        return;
    }
    struct edit_place at = edit_lines(ed, &lines, "> ", (size_t)r.rows, (size_t)r.cols);
    draw__lines(t, r, buf_str(&lines), 0, n->style);
    if (edit_text(ed).n == 0 && !ed->searching) {
        draw__cut(t, r, r.col + 2, node__str(n, "placeholder"), (struct style){.attrs = STYLE_DIM});
    }
    if (focused) {
        t->screen.next.cursor_shown = true;
        t->screen.next.cursor_row = MIN(r.row + (int)at.row, t->screen.next.rows - 1);
        t->screen.next.cursor_col = MIN(r.col + (int)at.col, t->screen.next.cols - 1);
    }
    buf_fini(&lines);
}

// The commands that the layout names.
static void offer_commands(void *arg, struct menu *m, char kind, struct str start)
{
    const struct node *n = arg;
    json_foreach_item (it, json_get(n->v, "commands")) {
        struct str name = json_str(it, "");
        if (kind == '/' && name.n >= start.n && memcmp(name.p, start.p, start.n) == 0) {
            menu_offer(m, name);
        }
    }
}

static void show_menu(struct tui *t, const struct menu *m)
{
    struct buf text = {.max = 1024};
    for (size_t i = 0; i < m->names.n && text.n < 500; i++) {
        buf_addf(&text, "%s%s", i > 0 ? "  " : "", m->names.p[i]);
    }
    app__note(t, buf_str(&text), "");
    buf_fini(&text);
}

/// Ctrl+Space, or Right at the end: complete what is typed; false when there is nothing to complete.
static bool input_complete(struct tui *t, struct node *n, const struct key *k)
{
    struct edit *ed = edit_of(t, n);
    struct menu *m = &kept__of(t, n->id)->menu;
    size_t before = edit_text(ed).n;
    bool space = k->cp == ' ' || k->cp == '@'; // with Ctrl one byte, NUL, is both
    bool asked = (k->code == KEY_CHAR && space && k->mods == KEY_CTRL) ||
                 (k->code == KEY_RIGHT && k->mods == 0 && ed->at == before && !ed->searching);
    bool wanted = asked && json_bool(json_get(n->v, "complete"), false);
    if (!wanted) {
        menu_close(m);
        return false;
    }
    menu_complete(m, ed, t->o->project, offer_commands, n);
    if (m->names.n == 0 && edit_text(ed).n == before) {
        return false;
    }
    show_menu(t, m);
    ui__set_str(t->ui, "input", n->id, edit_text(ed));
    app__changed(t, true);
    return true;
}

bool input__edit(struct tui *t, struct node *n, const struct key *k)
{
    struct edit *ed = edit_of(t, n);
    enum edit_result r = edit_key(ed, k);
    if (r == EDIT_DONE) {
        ui__act(t->ui, node__str(n, "submit"), NULL);
    } else if (r == EDIT_INTERRUPT && edit_text(ed).n != 0) {
        edit_start(ed);
    } else if (r == EDIT_INTERRUPT) {
        app__note(t, STR("Ctrl+Q leaves"), "");
    } else if (r == EDIT_CLEAR) {
        t->screen.whole = true;
    }
    if (r != EDIT_DONE) {
        ui__set_str(t->ui, "input", n->id, edit_text(ed));
    }
    app__changed(t, true);
    return r != EDIT_UNUSED && r != EDIT_COMPLETE;
}

// ---- the table -----------------------------------------------------------------------------

static void draw_nothing(struct tui *t, struct node *n)
{
    (void)t;
    (void)n;
}

// clang-format off
const struct widget widgets[] = {
    {.name = "row", .fields = "children:X", .draw = draw_nothing},
    {.name = "column", .fields = "children:X", .draw = draw_nothing},
    {.name = "pane", .fields = "title:s child:x", .draw = draw_nothing},
    {.name = "popup", .fields = "title:s child:x width:si height:si", .draw = draw_nothing},
    {.name = "text", .fields = "text:sa wrap:b scroll:b", .draw = text__draw, .fit = text__fit,
     .key = scroll__key, .mouse = scroll__mouse},
    {.name = "status", .fields = "left:sa right:sa", .draw = status__draw},
    {.name = "list", .fields = "items:a selected:i empty:s action:s select:s guard:b", .focuses = true,
     .draw = list__draw, .fit = list__fit, .key = list__key, .mouse = list__mouse},
    {.name = "table", .fields = "columns:a rows:a selected:i empty:s action:s select:s", .focuses = true,
     .draw = table__draw, .key = list__key, .mouse = list__mouse},
    {.name = "input", .fields = "placeholder:s submit:s rows:i complete:b commands:a history:b", .focuses = true, .types = true,
     .draw = input__draw, .fit = input_fit, .first = input_complete, .key = input__edit},
    {.name = "palette", .fields = "items:a placeholder:s action:s cancel:s select:s empty:s", .focuses = true, .types = true,
     .draw = palette__draw, .key = palette__key, .mouse = list__mouse},
    {.name = "diff", .fields = "text:s", .focuses = true, .draw = diff__draw, .key = scroll__key, .mouse = scroll__mouse},
    {.name = "terminal", .fields = "pty:s", .focuses = true, .types = true, .from_end = true, .draw = terminal__draw,
     .key = terminal__key, .mouse = terminal__mouse},
    {.name = "conversation", .fields = "", .focuses = true, .from_end = true, .draw = talk__draw, .key = scroll__key,
     .mouse = scroll__mouse},
};
// clang-format on
const size_t n_widgets = ARRAY_LEN(widgets);
