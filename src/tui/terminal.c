// Terminals of keepers, as a part of the screen.
//
//     keeper's socket ── chan ──> vt: the program's screen ──> cells
//     keys ── as bytes of a terminal ──> keeper
//
// The connection goes to the keeper itself, so a hub that restarts does not matter here. A terminal is connected while
// it is on the screen: what is not drawn for a frame is let go, and its keeper keeps the screen.

#include <assert.h>

#include "base/sock.h"
#include "base/utf8.h"
#include "keep/chan.h"
#include "tui/widgets_int.h"
#include "vt/vt.h"

enum { HISTORY = 2000 };

struct terminal {
    struct tui *t;
    char id[TUI_ID];
    struct chan *chan; // NULL: not connected
    struct vt *vt;     // NULL until the first snapshot
    int rows, cols;    // as we asked for
    unsigned frame;    // when it was last drawn
    char over[128];    // why there is nothing more to see; "": there is
};

// ---- the keeper ----------------------------------------------------------------------------

static void on_size(struct terminal *m, struct str p)
{
    uint64_t rows, cols;
    if (m->vt != NULL && wire_get(&p, 2, &rows) && wire_get(&p, 2, &cols)) {
        vt_resize(m->vt, (int)rows, (int)cols);
    }
}

static void on_snapshot(struct terminal *m, struct str p)
{
    uint64_t offset, rows, cols;
    if (wire_get(&p, 8, &offset) && wire_get(&p, 2, &rows) && wire_get(&p, 2, &cols)) {
        vt_free(m->vt);
        m->vt = vt_new((int)rows, (int)cols, HISTORY, NULL, NULL);
        vt_feed(m->vt, p, NULL);
    }
}

static void on_msg(struct chan *c, const struct wire_msg *msg, void *arg)
{
    struct terminal *m = arg;
    struct str p = msg->payload;
    uint64_t number;
    (void)c;
    if (msg->type == WIRE_SNAPSHOT) {
        on_snapshot(m, p);
    } else if (msg->type == WIRE_OUTPUT && m->vt != NULL && wire_get(&p, 8, &number)) {
        vt_feed(m->vt, p, NULL);
    } else if (msg->type == WIRE_RESIZE) {
        on_size(m, p);
    } else if (msg->type == WIRE_EXIT && wire_get(&p, 4, &number)) {
        snprintf(m->over, sizeof m->over, "the program has ended with status %llu",
                 (unsigned long long)number);
    } else if (msg->type == WIRE_REFUSED) {
        snprintf(m->over, sizeof m->over, STR_FMT, (int)MIN(p.n, 120), p.p);
    }
    app__changed(m->t, false);
}

static void on_end(struct chan *c, void *arg)
{
    struct terminal *m = arg;
    assert(c == m->chan);
    chan_close(m->chan);
    m->chan = NULL;
    if (m->over[0] == '\0') {
        snprintf(m->over, sizeof m->over, "the terminal is gone");
    }
    app__changed(m->t, false);
}

static void connect_to(struct terminal *m)
{
    static const struct chan_cb cb = {.on_msg = on_msg, .on_end = on_end};
    char *path = xasprintf("%s/pty/%s.sock", m->t->o->home->runtime, m->id);
    struct err e = {0};
    int fd = sock_connect(path, &e);
    free(path);
    if (fd >= 0 && chan_open(&m->chan, &m->t->loop, fd, WIRE_FROM_KEEPER, &cb, m, &e) == 0) {
        chan_attach(m->chan, -1, HISTORY, (uint16_t)m->rows, (uint16_t)m->cols);
    } else {
        snprintf(m->over, sizeof m->over, "%.120s", e.msg);
    }
}

// ---- which are connected -------------------------------------------------------------------

static bool is_id(struct str id)
{
    for (size_t i = 0; i < id.n; i++) {
        bool plain = (id.p[i] >= '0' && id.p[i] <= '9') || (id.p[i] >= 'a' && id.p[i] <= 'z');
        if (!plain) {
            return false;
        }
    }
    return id.n > 0 && id.n < TUI_ID;
}

static struct terminal *find(struct tui *t, struct str id)
{
    vec_foreach (m, &t->terminals) {
        if (str_eqz(id, (*m)->id)) {
            return *m;
        }
    }
    return NULL;
}

static void terminal_free(struct terminal *m)
{
    chan_close(m->chan);
    vt_free(m->vt);
    free(m);
}

void terminal__sweep(struct tui *t, bool all)
{
    for (size_t i = t->terminals.n; i-- > 0;) {
        if (all || t->terminals.p[i]->frame != t->frame) {
            terminal_free(t->terminals.p[i]);
            vec_remove(&t->terminals, i);
        }
    }
    if (all) {
        vec_fini(&t->terminals);
    }
}

// The terminal that a node shows, connected, and told how much room it has.
static struct terminal *terminal_of(struct tui *t, const struct node *n)
{
    struct str id = node__str(n, "pty");
    struct terminal *m = find(t, id);
    if (m == NULL && is_id(id)) {
        m = xcalloc(1, sizeof *m);
        m->t = t;
        memcpy(m->id, id.p, id.n);
        m->rows = n->inner.rows;
        m->cols = n->inner.cols;
        vec_push(&t->terminals, m);
        connect_to(m);
    } else if (m != NULL && m->chan != NULL &&
               (m->rows != n->inner.rows || m->cols != n->inner.cols)) {
        m->rows = n->inner.rows;
        m->cols = n->inner.cols;
        chan_resize(m->chan, (uint16_t)m->rows, (uint16_t)m->cols);
    }
    return m;
}

// ---- drawing -------------------------------------------------------------------------------

// Colours have the same form in both; so have the first attributes.
static struct style style_of(const struct vt_cell *c)
{
    static_assert(VT_INDEXED == STYLE_INDEX(0) && VT_RGB == STYLE_RGB(0, 0, 0), "colours");
    static_assert((int)VT_BOLD == (int)STYLE_BOLD && (int)VT_UNDERLINE == (int)STYLE_UNDERLINE,
                  "attributes");
    uint32_t attrs = c->attrs & (VT_BOLD | VT_DIM | VT_ITALIC | VT_UNDERLINE);
    attrs |= (c->attrs & VT_REVERSE) != 0 ? STYLE_REVERSE : 0u;
    attrs |= (c->attrs & VT_STRIKE) != 0 ? STYLE_STRIKE : 0u;
    return (struct style){.fg = c->fg, .bg = c->bg, .attrs = attrs};
}

static void draw_row(struct terminal *m, struct rect r, int row, int from)
{
    const struct vt_cell *cells = vt_row(m->vt, from);
    int cols = MIN(vt_cols(m->vt), r.cols);
    for (int col = 0; col < cols; col++) {
        char text[VT_TEXT_MAX];
        size_t n = vt_cell_text(m->vt, &cells[col], text);
        bool hidden = (cells[col].attrs & VT_HIDDEN) != 0 || n == 0;
        if (cells[col].width != 0) {
            cells_put(&m->t->screen.next, r, r.row + row, r.col + col,
                      hidden ? STR(" ") : (struct str){text, n}, style_of(&cells[col]));
        }
    }
}

static void draw_cursor(struct terminal *m, struct rect r)
{
    struct vt_cursor c = vt_get_cursor(m->vt);
    if (c.visible && c.row < r.rows && c.col < r.cols) {
        m->t->screen.next.cursor_shown = true;
        m->t->screen.next.cursor_row = r.row + c.row;
        m->t->screen.next.cursor_col = r.col + c.col;
    }
}

void terminal__draw(struct tui *t, struct node *n)
{
    struct rect r = n->inner;
    struct terminal *m = r.rows > 0 && r.cols > 0 ? terminal_of(t, n) : NULL;
    if (m == NULL) {
        return;
    }
    m->frame = t->frame;
    if (m->vt != NULL) {
        int history = vt_history(m->vt), total = history + r.rows;
        int back = scroll__of(t, n, total);
        for (int row = 0; row < r.rows; row++) {
            int from = row - back;
            if (from < vt_rows(m->vt) && from >= -history) {
                draw_row(m, r, row, from);
            }
        }
        draw__more(t, r, total - r.rows - back, total);
        if (input__focused(t) == n && back == 0 && m->over[0] == '\0') {
            draw_cursor(m, r);
        }
    }
    if (m->over[0] != '\0') {
        struct style style = {.attrs = STYLE_REVERSE};
        cells_put(&t->screen.next, r, r.row + r.rows - 1, r.col, str_of(m->over), style);
    }
}

// ---- keys ----------------------------------------------------------------------------------

static void add_final(struct buf *out, const struct key *k, char final, bool application)
{
    if (k->mods != 0) {
        buf_addf(out, "\033[1;%u%c", k->mods + 1, final);
    } else {
        buf_addf(out, "\033%c%c", application ? 'O' : '[', final);
    }
}

static void add_number(struct buf *out, const struct key *k, unsigned number)
{
    if (k->mods != 0) {
        buf_addf(out, "\033[%u;%u~", number, k->mods + 1);
    } else {
        buf_addf(out, "\033[%u~", number);
    }
}

static void add_char(struct buf *out, const struct key *k)
{
    char text[4];
    buf_addz(out, (k->mods & KEY_ALT) != 0 ? "\033" : "");
    if ((k->mods & KEY_CTRL) != 0 && k->cp < 0x80) {
        buf_addc(out, k->cp == ' ' ? '\0' : k->cp == '?' ? '\x7f' : (char)(k->cp & 0x1f));
    } else {
        buf_add(out, text, utf8_encode(k->cp, text));
    }
}

static const struct {
    enum key_code code;
    char final;      // ESC [ A, with modifiers ESC [ 1 ; 5 A
    unsigned number; // ESC [ 5 ~
    const char *text;
} sequences[] = {
    {KEY_ENTER, 0, 0, "\r"},   {KEY_BACKSPACE, 0, 0, "\x7f"}, {KEY_ESC, 0, 0, "\033"},
    {KEY_TAB, 0, 0, "\t"},     {KEY_UP, 'A', 0, NULL},        {KEY_DOWN, 'B', 0, NULL},
    {KEY_RIGHT, 'C', 0, NULL}, {KEY_LEFT, 'D', 0, NULL},      {KEY_HOME, 'H', 0, NULL},
    {KEY_END, 'F', 0, NULL},   {KEY_INSERT, 0, 2, NULL},      {KEY_DELETE, 0, 3, NULL},
    {KEY_PAGE_UP, 0, 5, NULL}, {KEY_PAGE_DOWN, 0, 6, NULL},
};

void terminal__add_key(struct buf *out, const struct key *k, bool application, bool paste)
{
    static const unsigned char functions[] = {11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 23, 24};
    if (k->code == KEY_CHAR) {
        add_char(out, k);
    } else if (k->code == KEY_PASTE) {
        buf_addz(out, paste ? "\033[200~" : "");
        buf_adds(out, k->text);
        buf_addz(out, paste ? "\033[201~" : "");
    } else if (k->code == KEY_FUNCTION && k->cp >= 1 && k->cp <= 4) {
        add_final(out, k, (char)('P' + k->cp - 1), true);
    } else if (k->code == KEY_FUNCTION && k->cp <= ARRAY_LEN(functions)) {
        add_number(out, k, functions[k->cp - 1]);
    }
    for (size_t i = 0; i < ARRAY_LEN(sequences); i++) {
        if (sequences[i].code == k->code && sequences[i].text != NULL) {
            buf_addz(out, (k->mods & KEY_ALT) != 0 ? "\033" : "");
            buf_addz(out, sequences[i].text);
        } else if (sequences[i].code == k->code && sequences[i].number != 0) {
            add_number(out, k, sequences[i].number);
        } else if (sequences[i].code == k->code) {
            add_final(out, k, sequences[i].final, application);
        }
    }
}

bool terminal__key(struct tui *t, struct node *n, const struct key *k)
{
    struct terminal *m = find(t, node__str(n, "pty"));
    struct buf bytes = {.max = SIZE_MAX};
    if (m == NULL || m->chan == NULL || m->over[0] != '\0') {
        return false;
    }
    terminal__add_key(&bytes, k, m->vt != NULL && vt_mode(m->vt, 1),
                      m->vt != NULL && vt_mode(m->vt, 2004));
    if (bytes.n != 0) {
        ui__set_int(t->ui, "scroll", n->id, 0); // back to where it is typed
        chan_send(m->chan, WIRE_INPUT, buf_str(&bytes), STR_NULL);
    }
    buf_fini(&bytes);
    return true;
}

// ---- the mouse -----------------------------------------------------------------------------

// What the program asked to be told: 0 nothing, 1 buttons, 2 also dragging, 3 every movement.
static int wants_mouse(const struct vt *vt)
{
    return vt_mode(vt, 1003) ? 3 : vt_mode(vt, 1002) ? 2 : vt_mode(vt, 1000) ? 1 : 0;
}

bool terminal__wants_moves(const struct tui *t)
{
    vec_foreach (m, &t->terminals) {
        if ((*m)->vt != NULL && (*m)->over[0] == '\0' && wants_mouse((*m)->vt) == 3) {
            return true;
        }
    }
    return false;
}

void terminal__add_mouse(struct buf *out, const struct key *k, int row, int col, bool sgr)
{
    static_assert(KEY_SHIFT == 1 && KEY_ALT == 2 && KEY_CTRL == 4,
                  "as in mouse reports, from bit 2");
    const struct key_mouse *m = &k->mouse;
    bool wheel = m->kind == MOUSE_UP || m->kind == MOUSE_DOWN, released = m->kind == MOUSE_RELEASE;
    int button = wheel ? 64 + (m->kind == MOUSE_DOWN) : m->button != 0 ? m->button - 1 : 3;
    int more = (int)(k->mods << 2) + (m->kind == MOUSE_DRAG || m->kind == MOUSE_MOVE ? 32 : 0);
    if (sgr) {
        buf_addf(out, "\033[<%d;%d;%d%c", button + more, col + 1, row + 1, released ? 'm' : 'M');
    } else if (row < 223 && col < 223) { // the old form has no more room
        buf_addf(out, "\033[M%c%c%c", (char)(32 + (released ? 3 : button) + more), (char)(33 + col),
                 (char)(33 + row));
    }
}

// What began inside is told to its end: the pointer outside is at the edge.
void terminal__mouse(struct tui *t, struct node *n, const struct key *k)
{
    const struct key_mouse *m = &k->mouse;
    struct terminal *it = find(t, node__str(n, "pty"));
    struct buf bytes = {.max = 256};
    if (it == NULL || it->vt == NULL || it->chan == NULL) {
        return;
    }
    int rows = MIN(n->inner.rows, vt_rows(it->vt)), cols = MIN(n->inner.cols, vt_cols(it->vt));
    int row = MAX(MIN(m->row - n->inner.row, rows - 1), 0);
    int col = MAX(MIN(m->col - n->inner.col, cols - 1), 0);
    bool inside = m->row == n->inner.row + row && m->col == n->inner.col + col;
    bool wheel = m->kind == MOUSE_UP || m->kind == MOUSE_DOWN;
    if (!inside && m->kind != MOUSE_DRAG && m->kind != MOUSE_RELEASE) {
        return;
    }
    int wants = it->over[0] == '\0' ? wants_mouse(it->vt) : 0;
    bool told = m->kind == MOUSE_DRAG   ? wants >= 2
                : m->kind == MOUSE_MOVE ? wants >= 3
                                        : wants >= 1;
    if (told) {
        terminal__add_mouse(&bytes, k, row, col, vt_mode(it->vt, 1006));
    } else if (wheel && wants == 0 && vt_alternate(it->vt)) { // a pager: as arrow keys
        struct key arrow = {.code = m->kind == MOUSE_UP ? KEY_UP : KEY_DOWN};
        for (int i = 0; i < 3; i++) {
            terminal__add_key(&bytes, &arrow, vt_mode(it->vt, 1), false);
        }
    } else if (wheel && wants == 0) {
        scroll__mouse(t, n, k);
    }
    if (bytes.n != 0) {
        chan_send(it->chan, WIRE_INPUT, buf_str(&bytes), STR_NULL);
    }
    buf_fini(&bytes);
}
