// The program's output, obeyed: tokens in, libvterm and notes out.
//
//     bytes ── scan ──> token ──┬─ text, movements, erasing ──> libvterm ── callbacks ──> grid
//                               ├─ modes, region ─────────────> noted here, and libvterm
//                               ├─ style, charset ────────────> kept here
//                               ├─ questions ─────────────────> libvterm, which answers; not to `clean`
//                               └─ all else ──────────────────> dropped
//
// What a program may do is a list of what this file can note and a snapshot can repeat, not a list of what
// is bad. So a viewer that saw all bytes and one that began with a snapshot show the same, and what we do
// not know (clipboard, window sizes, printing, images, keyboard protocols) reaches no terminal of the user.
// Resets are written out as the modes that they reset, for the same reason.

#include "base/utf8.h"
#include "vt/vt_int.h"

const struct vt_mode_info vt__modes[VT_MODE__COUNT] = {
#define X(n, initial) [VT_MODE_##n] = {n, initial},
    VT_MODES(X)
#undef X
};

enum { NUMBERS_MAX = 16 };

int vt__mode_index(unsigned number)
{
    for (int i = 0; i < VT_MODE__COUNT; i++) {
        if (vt__modes[i].number == number) {
            return i;
        }
    }
    return -1;
}

// ---- what is told ---------------------------------------------------------------------------

/// Put libvterm's cursor where ours is. The carriage return ends its wait after the last column, which a movement to
/// the same place would not. Never in origin mode: see vt__put_plain().
static void catch_up(struct vt *v)
{
    char place[32];
    VTermPos at = v->pos;
    bool pending = v->pending;
    int n = snprintf(place, sizeof place, "\r\033[%d;%dH", at.row + 1, at.col + 1);
    vterm_input_write(v->term, place, (size_t)n);
    v->pos = at;
    v->pending = pending;
    v->ahead = v->edge = false;
}

void vt__tell(struct vt *v, struct str bytes)
{
    if (bytes.n == 0) {
        return;
    }
    if (v->ahead) {
        catch_up(v);
    }
    vterm_input_write(v->term, bytes.p, bytes.n);
    vterm_state_get_cursorpos(v->state, &v->pos); // its callback misses some movements
    v->pos.row = vt__clamp(v->pos.row, 0, v->on->n_rows - 1);
    v->pos.col = vt__clamp(v->pos.col, 0, v->on->n_cols - 1);
}

static void pass(struct vt *v, struct str bytes, struct buf *clean)
{
    vt__tell(v, bytes);
    if (clean != NULL) {
        buf_adds(clean, bytes);
    }
}

static void pass_z(struct vt *v, const char *bytes, struct buf *clean)
{
    pass(v, str_of(bytes), clean);
}

/// Obey a sequence of our own in place of the program's.
static void expand(struct vt *v, const char *bytes, struct buf *clean)
{
    struct scan s;
    scan_init(&s);
    vt__run(v, &s, str_of(bytes), clean);
    scan_fini(&s);
}

static void save_cursor(struct vt *v)
{
    v->saved = (struct vt_saved){v->pos, v->pen};
}

/// libvterm has gone back to the saved cursor. Terminals differ in what they do with one that is now outside
/// of the screen or, in origin mode, of the region: it is put where it may be, for all.
static void after_restore(struct vt *v, struct buf *clean)
{
    bool origin = v->modes[VT_MODE_6] && v->top != 0;
    int top = origin ? v->top - 1 : 0, bottom = origin ? v->bottom : v->on->n_rows;
    VTermPos at;
    char bytes[32];
    v->pen = v->saved.pen;
    v->pending = false;
    vterm_state_get_cursorpos(v->state, &at);
    if (at.row < top || at.row >= bottom || at.col >= v->on->n_cols) {
        snprintf(bytes, sizeof bytes, "\033[%d;%dH", vt__clamp(at.row, top, bottom - 1) - top + 1,
                 MIN(at.col, v->on->n_cols - 1) + 1);
        pass_z(v, bytes, clean);
    }
}

static void switch_screen(struct vt *v, unsigned mode, bool on, struct buf *clean)
{
    char bytes[16];
    snprintf(bytes, sizeof bytes, "\033[?%u%c", mode, on ? 'h' : 'l');
    if (on == vt_alternate(v)) {
        return;
    }
    if (on && mode == 1049) {
        save_cursor(v);
    }
    v->on = on ? &v->alternate : &v->main; // libvterm erases the one that is entered
    v->alternate_by = on ? mode : 0;
    v->pending = false;
    pass_z(v, bytes, clean);
    if (!on && mode == 1049) {
        after_restore(v, clean);
    }
}

/// The last column may change while the cursor waits after it. Terminals differ in what they do with the
/// next character then, so the cursor is put on that column for all.
static void settle(struct vt *v, struct buf *clean)
{
    char bytes[32];
    if (!vt__is_phantom(v)) {
        return;
    }
    int top = v->modes[VT_MODE_6] && v->top != 0 ? v->top - 1 : 0;
    snprintf(bytes, sizeof bytes, "\033[%d;%dH", v->pos.row - top + 1, v->pos.col + 1);
    pass_z(v, bytes, clean);
    v->pending = false;
}

static void set_private_mode(struct vt *v, unsigned mode, bool on, struct buf *clean)
{
    char bytes[16];
    int i = vt__mode_index(mode);
    if (mode == 47 || mode == 1047 || mode == 1049) {
        switch_screen(v, mode == 1049 ? 1049 : 1047, on, clean);
    } else if (mode == 1048) {
        expand(v, on ? "\0337" : "\0338", clean);
    } else if (i >= 0) {
        v->modes[i] = on;
        snprintf(bytes, sizeof bytes, "\033[?%u%c", mode, on ? 'h' : 'l');
        if (i == VT_MODE_7) {
            settle(v, clean);
        }
        pass_z(v, bytes, clean);
    }
}

static void on_modes(struct vt *v, const struct scan_token *t, struct buf *clean)
{
    unsigned n[NUMBERS_MAX], count = scan_numbers(t->params, n, NUMBERS_MAX);
    bool on = t->final == 'h';
    for (unsigned i = 0; i < count; i++) {
        if (t->prefix == '?') {
            set_private_mode(v, n[i], on, clean);
        } else if (n[i] == 4 || n[i] == 20) {
            *(n[i] == 4 ? &v->insert : &v->newline) = on;
            pass_z(v, n[i] == 4 ? on ? "\033[4h" : "\033[4l" : on ? "\033[20h" : "\033[20l", clean);
        }
    }
}

static void on_region(struct vt *v, const struct scan_token *t, struct buf *clean)
{
    unsigned n[2] = {0, 0};
    scan_numbers(t->params, n, 2);
    int last = v->on->n_rows;
    int top = MAX((int)n[0], 1), bottom = n[1] == 0 ? last : MIN((int)n[1], last);
    if (top >= bottom) {
        return;
    }
    v->top = top == 1 && bottom == last ? 0 : top;
    v->bottom = v->top == 0 ? 0 : bottom;
    pass(v, t->bytes, clean);
}

static void restore_cursor(struct vt *v, struct buf *clean)
{
    pass_z(v, "\0338", clean);
    after_restore(v, clean);
}

/// CSI ! p: the modes go, the screen stays.
static void soft_reset(struct vt *v, struct buf *clean)
{
    char bytes[128];
    snprintf(bytes, sizeof bytes,
             "\033[4l\033[20l\033[?1l\033[?6l\033[?7h\033[?25h\033[r\033[m\033(B\033)B\017\033>"
             "\033[0 q\033[%d;%dH",
             v->pos.row + 1, v->pos.col + 1);
    expand(v, bytes, clean);
}

static void on_shape(struct vt *v, const struct scan_token *t, struct buf *clean)
{
    unsigned n[1];
    scan_numbers(t->params, n, 1);
    if (n[0] <= 6) {
        v->shape = n[0] <= 2 ? VT_BLOCK : n[0] <= 4 ? VT_UNDERSCORE : VT_BAR;
        v->blink = n[0] % 2 == 1;
        pass(v, t->bytes, clean);
    }
}

/// CSI b: the character before it again. libvterm would repeat one without columns for ever.
static void repeat(struct vt *v, struct str params, struct buf *clean)
{
    unsigned n[1];
    char text[4];
    size_t len = v->last != 0 ? utf8_encode(v->last, text) : 0;
    scan_numbers(params, n, 1);
    for (int i = MIN(MAX((int)n[0], 1), v->on->n_cols); i > 0 && len != 0; i--) {
        pass(v, (struct str){text, len}, clean);
    }
}

/// Control sequences without prefix and intermediate byte.
static void on_plain_control(struct vt *v, const struct scan_token *t, struct buf *clean)
{
    if (t->final == 'm') {
        vt__set_pen(&v->pen, t->params);
        if (clean != NULL) {
            buf_adds(clean, t->bytes);
        }
    } else if (t->final == 'h' || t->final == 'l') {
        on_modes(v, t, clean);
    } else if (t->final == 'r') {
        on_region(v, t, clean);
    } else if ((t->final == 's' || t->final == 'u') && t->params.n == 0) {
        expand(v, t->final == 's' ? "\0337" : "\0338", clean);
    } else if (t->final == 'J' && str_eqz(t->params, "3")) {
        history_fini(&v->history);
        pass(v, t->bytes, clean);
    } else if (t->final == 'b') {
        repeat(v, t->params, clean);
    } else if (t->final == 'c' || t->final == 'n') {
        vt__tell(v, t->bytes);
    } else if (strchr("@ABCDEFGHIJKLMPSXZ`adef", t->final) != NULL ||
               (t->final == 'T' && str_index(t->params, ';') < 0)) {
        if (strchr("@JKLMPSTX", t->final) != NULL) {
            settle(v, clean);
        }
        pass(v, t->bytes, clean);
        // a movement ends the wait for the next character even where it leads nowhere
        v->pending = v->pending && strchr("ABCDEFGH`adef", t->final) == NULL;
    }
}

static void on_control(struct vt *v, const struct scan_token *t, struct buf *clean)
{
    char p = t->prefix, i = t->inter, f = t->final;
    if (p == 0 && i == 0) {
        on_plain_control(v, t, clean);
    } else if (p == '?' && i == 0 && (f == 'h' || f == 'l')) {
        on_modes(v, t, clean);
    } else if (p == '?' && i == 0 && (f == 'J' || f == 'K')) {
        settle(v, clean);
        pass(v, t->bytes, clean);
    } else if ((p == '?' && i == '$' && f == 'p') || (p == '>' && i == 0 && f == 'c') ||
               (p == '?' && i == 0 && f == 'n' && str_eqz(t->params, "6"))) {
        vt__tell(v, t->bytes);
    } else if (p == 0 && i == '!' && f == 'p') {
        soft_reset(v, clean);
    } else if (p == 0 && i == ' ' && f == 'q') {
        on_shape(v, t, clean);
    } else if (p == 0 && i == '\'' && (f == '}' || f == '~')) {
        settle(v, clean);
        pass(v, t->bytes, clean);
    }
}

static void on_escape(struct vt *v, const struct scan_token *t, struct buf *clean)
{
    if (t->inter == '(' || t->inter == ')') {
        v->charsets[t->inter == ')'] = t->final;
        return;
    }
    if (t->inter == 0 && t->final == '7') {
        save_cursor(v);
    } else if (t->inter == 0 && t->final == '8') {
        restore_cursor(v, clean);
        return;
    } else if (t->inter == 0 && (t->final == '=' || t->final == '>')) {
        v->keypad = t->final == '=';
    } else if (t->inter == 0 && t->final == 'c') {
        struct buf reset = {.max = SIZE_MAX};
        vt_reset_modes(&reset);
        buf_addz(&reset, "\033[H\0337\033[2J");
        expand(v, buf_z(&reset), clean);
        buf_fini(&reset);
        return;
    } else if (t->inter != 0 || strchr("DEM", t->final) == NULL) {
        return;
    }
    pass(v, t->bytes, clean);
}

/// A character without columns of its own belongs to the one left of the cursor.
static void attach(struct vt *v, uint32_t point)
{
    struct grid_row *r = &v->on->rows[v->pos.row];
    uint32_t points[CLUSTER_POINTS];
    int col = vt__is_phantom(v) ? v->pos.col : v->pos.col - 1;
    unsigned n = 0;
    col -= col > 0 && col < r->used && r->cells[col].width == 0;
    if (col < 0 || col >= r->used || r->cells[col].text == 0) {
        return;
    }
    if (clusters_full(&v->clusters)) {
        vt__sweep_clusters(v);
    }
    cluster_get(&v->clusters, r->cells[col].text, points);
    while (n < CLUSTER_POINTS && points[n] != 0) {
        n++;
    }
    if (n < CLUSTER_POINTS) {
        points[n] = point;
        r->cells[col].text = cluster_add(&v->clusters, points);
    }
}

/// libvterm loses such characters when they come in a call of their own, so it is never given any. They
/// begin at U+0300.
static void tell_points(struct vt *v, struct str bytes)
{
    size_t begin = 0;
    for (size_t i = 0; i < bytes.n; i++) {
        uint32_t point;
        if ((unsigned char)bytes.p[i] < 0xcc) {
            continue;
        }
        size_t len = utf8_decode(str_from(bytes, i), &point);
        if (utf8_char_width(point) == 0) {
            vt__tell(v, (struct str){bytes.p + begin, i - begin});
            attach(v, point);
            begin = i + len;
        }
        i += len - 1;
    }
    vt__tell(v, str_from(bytes, begin));
}

/// Plain text by the short way; what stops that, up to the end of its line, by libvterm.
static void tell_text(struct vt *v, struct str bytes)
{
    for (;;) {
        bytes = str_from(bytes, vt__put_plain(v, bytes));
        if (bytes.n == 0) {
            return;
        }
        const char *end = memchr(bytes.p, '\n', bytes.n);
        size_t n = end != NULL ? (size_t)(end - bytes.p) + 1 : bytes.n;
        tell_points(v, (struct str){bytes.p, n});
        bytes = str_from(bytes, n);
    }
}

/// Line drawing (DEC special graphics): what '_' to '~' stand for.
static const char *const drawing[] = {
    " ",      "\u25c6", "\u2592", "\u2409", "\u240c", "\u240d", "\u240a", "\u00b0",
    "\u00b1", "\u2424", "\u240b", "\u2518", "\u2510", "\u250c", "\u2514", "\u253c",
    "\u23ba", "\u23bb", "\u2500", "\u23bc", "\u23bd", "\u251c", "\u2524", "\u2534",
    "\u252c", "\u2502", "\u2264", "\u2265", "\u03c0", "\u2260", "\u00a3", "\u00b7",
};

/// Charsets end here: libvterm confuses them with UTF-8, and a viewer needs none.
static void on_text(struct vt *v, struct str bytes, struct buf *clean)
{
    if (bytes.n == 1 && (bytes.p[0] == 14 || bytes.p[0] == 15)) {
        v->shifted = bytes.p[0] == 14;
        return;
    }
    struct buf text = {.max = SIZE_MAX};
    for (size_t i = 0; v->charsets[v->shifted] == '0' && i < bytes.n; i++) {
        if (bytes.p[i] >= '_' && bytes.p[i] <= '~') {
            buf_addz(&text, drawing[bytes.p[i] - '_']);
        } else {
            buf_addc(&text, bytes.p[i]);
        }
    }
    bytes = text.n != 0 ? buf_str(&text) : bytes;
    tell_text(v, bytes);
    if (clean != NULL) {
        buf_adds(clean, bytes);
    }
    buf_fini(&text);
}

void vt__run(struct vt *v, struct scan *s, struct str bytes, struct buf *clean)
{
    struct scan_token t;
    while (scan_next(s, &bytes, &t)) {
        if (t.kind == SCAN_TEXT) {
            on_text(v, t.bytes, clean);
        } else if (t.kind == SCAN_CONTROL) {
            on_control(v, &t, clean);
        } else if (t.kind == SCAN_ESCAPE) {
            on_escape(v, &t, clean);
        } else if (t.final == ']') {
            vt__on_osc(v, t.params, clean);
        }
    }
}
