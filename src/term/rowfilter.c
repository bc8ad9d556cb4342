// A rewriting filter that reserves the bottom line.
//
// The terminal's scrolling region is 1..rows-1, so text, line feeds, inserted and deleted lines stay out
// of the last row by themselves. What is left are the sequences that set the region, name a row, erase
// the screen, reset the terminal or change screens. Only these are looked at:
//
//     CSI t;b r            region: b is cut to rows-1
//     CSI y;x H, f  CSI y d    row is cut to rows-1
//     CSI J, CSI ? J       erased: the row is drawn again
//     CSI ! p, ESC c, ESC # 8, CSI ? 3 h/l    reset: region and row again
//     CSI ? 47, 1047, 1049 h/l     the alternate screen has all rows
//     CSI 18 t             how many rows: answered by us, the terminal would count ours
//     CSI ? 2048 h/l, CSI ? 2048 $ p    reports of the size by the terminal: made by us for the same reason
//
// All else passes as it came. Only a control sequence is held, until its last byte and at most ROWFILTER_HELD
// bytes: a longer one is none of those above. Strings (OSC, DCS, APC: titles, links, clipboard, images) are
// never held.
//
// It does not follow the cursor. A program that leaves its own region and moves down below it can
// reach the row; the row is drawn again afterwards.

#include "term/rowfilter.h"

#include <assert.h>

enum state {
    GROUND,
    ESCAPE,       // ESC came
    ESCAPE_INTER, // ESC and intermediate bytes
    CONTROL,      // CSI came, kept in `held`
    CONTROL_LONG, // CSI too long to be one of ours: passed on as it comes
    STRING,       // OSC, DCS, APC, PM, SOS
    STRING_ESC,   // ESC in one: the end if a backslash follows
};

enum { PARAMS_MAX = 16, ROWS_MIN = 4, BEL = 7, CAN = 24, SUB = 26, ESC = 27 };

enum { MODE_REPORTS = 2048 };

/// A control sequence, taken apart.
struct control {
    char prefix; // of "<=>?", or 0
    char inter;  // intermediate byte, or 0
    char final;
    unsigned params[PARAMS_MAX]; // 0 where none was given
    unsigned n;
    bool odd; // has subparameters, or more than we count: not one of ours
};

// ---- what we emit --------------------------------------------------------------------------

static unsigned usable(const struct rowfilter *f)
{
    return f->rows >= ROWS_MIN ? f->rows - 1 : f->rows;
}

/// Setting the region moves the cursor, so it is put back.
static void add_region(const struct rowfilter *f, struct buf *out)
{
    buf_addf(out, "\0337\033[1;%ur\0338", usable(f));
}

static void flush_held(struct rowfilter *f, struct buf *out)
{
    assert(f->n_held <= sizeof f->held);
    buf_add(out, f->held, f->n_held);
    f->n_held = 0;
}

// ---- control sequences ---------------------------------------------------------------------

static void parse_params(struct control *c, struct str s)
{
    c->n = 1;
    for (size_t i = 0; i < s.n; i++) {
        unsigned *p = &c->params[c->n - 1];
        if (s.p[i] >= '0' && s.p[i] <= '9') {
            *p = MIN(*p * 10 + (unsigned)(s.p[i] - '0'), 99999u);
        } else if (s.p[i] == ';' && c->n < PARAMS_MAX) {
            c->n++;
        } else {
            c->odd = true;
        }
    }
}

/// `s` is what follows the CSI, last byte included.
static struct control parse_control(struct str s)
{
    struct control c = {.final = s.p[s.n - 1]};
    s.n--;
    if (s.n != 0 && s.p[0] >= '<' && s.p[0] <= '?') {
        c.prefix = s.p[0];
        s = str_from(s, 1);
    }
    if (s.n != 0 && s.p[s.n - 1] >= ' ' && s.p[s.n - 1] <= '/') {
        c.inter = s.p[--s.n];
    }
    parse_params(&c, s);
    return c;
}

static bool has_param(const struct control *c, unsigned value)
{
    for (unsigned i = 0; i < c->n; i++) {
        if (c->params[i] == value) {
            return true;
        }
    }
    return false;
}

// ---- the size ------------------------------------------------------------------------------

/// Rows that the program has.
static unsigned program_rows(const struct rowfilter *f)
{
    return rowfilter_is_active(f) ? usable(f) : f->rows;
}

/// Write a mode sequence anew, without the mode that is ours.
static void strip_reports(struct rowfilter *f, struct control *c)
{
    unsigned n = 0;
    size_t at = 0;
    for (unsigned i = 0; i < c->n; i++) {
        if (c->params[i] != MODE_REPORTS) {
            c->params[n++] = c->params[i];
        }
    }
    c->n = n;
    for (unsigned i = 0; i < n; i++) { // PARAMS_MAX numbers of 5 digits fit
        at += (size_t)snprintf(f->held + at, sizeof f->held - at, "%s%u", i == 0 ? "\033[?" : ";",
                               c->params[i]);
    }
    if (n != 0) {
        f->held[at++] = c->final;
    }
    f->n_held = at;
}

/// Answer a question about the size instead of passing it on. False: it is no such question.
static bool answer_size(struct rowfilter *f, const struct control *c, struct buf *back)
{
    bool one = !c->odd && c->n == 1;
    if (one && c->prefix == 0 && c->inter == 0 && c->final == 't' && c->params[0] == 18) {
        buf_addf(back, "\033[8;%u;%ut", program_rows(f), f->cols);
    } else if (one && c->prefix == '?' && c->inter == '$' && c->final == 'p' &&
               c->params[0] == MODE_REPORTS) {
        buf_addf(back, "\033[?%d;%d$y", MODE_REPORTS, f->reports ? 1 : 2);
    } else {
        return false;
    }
    f->n_held = 0;
    return true;
}

// ---- modes and movements -------------------------------------------------------------------

static bool is_screen_switch(const struct control *c)
{
    return has_param(c, 47) || has_param(c, 1047) || has_param(c, 1049);
}

/// The region is the terminal's, not the screen's: it is widened before the one is entered, and
/// narrowed after it is left, so that the cursor which the switch saves is the program's.
static void switch_screen(struct rowfilter *f, bool on, struct buf *out, struct buf *back)
{
    bool change = on != f->alternate;
    if (on && change && rowfilter_is_active(f)) {
        buf_addz(out, "\0337\033[r\0338");
    }
    flush_held(f, out);
    f->alternate = on;
    f->bottom = 0;
    f->saved = false;
    if (!on && change && rowfilter_is_active(f)) {
        add_region(f, out);
        f->damaged = true;
    }
    if (change) {
        rowfilter_report(f, back);
    }
}

static void private_mode(struct rowfilter *f, struct control *c, struct buf *out, struct buf *back)
{
    bool on = c->final == 'h';
    if (has_param(c, MODE_REPORTS)) {
        strip_reports(f, c);
        f->reports = on;
        rowfilter_report(f, back);
    }
    if (is_screen_switch(c)) {
        switch_screen(f, on, out, back);
        return;
    }
    flush_held(f, out);
    f->origin = has_param(c, 6) ? on : f->origin;
    f->synchronized = has_param(c, 2026) ? on : f->synchronized;
    if (has_param(c, 3) && rowfilter_is_active(f)) { // another width: the screen is erased
        add_region(f, out);
        f->damaged = true;
    }
}

static void set_region(struct rowfilter *f, const struct control *c, struct buf *out)
{
    unsigned last = usable(f);
    unsigned top = c->params[0], bottom = c->n > 1 ? c->params[1] : 0;
    f->bottom = bottom < last ? bottom : 0;
    if (bottom != 0 && bottom <= last) {
        flush_held(f, out);
        return;
    }
    f->n_held = 0;
    buf_addf(out, "\033[%u;%ur", MAX(MIN(top, last - 1), 1u), last);
}

/// Row and column of a cursor movement; only a row that is ours is changed.
static void move_to(struct rowfilter *f, const struct control *c, struct buf *out)
{
    unsigned last = usable(f);
    if (f->origin || c->params[0] <= last) {
        flush_held(f, out);
        return;
    }
    f->n_held = 0;
    if (c->final == 'd' || c->n < 2) {
        buf_addf(out, "\033[%u%c", last, c->final);
    } else {
        buf_addf(out, "\033[%u;%u%c", last, c->params[1], c->final);
    }
}

/// A control sequence is complete in `held`.
static void on_control(struct rowfilter *f, struct buf *out, struct buf *back)
{
    struct control c = parse_control((struct str){f->held + 2, f->n_held - 2});
    bool plain = !c.odd && c.prefix == 0 && c.inter == 0;
    if (!c.odd && c.prefix == '?' && c.inter == 0 && (c.final == 'h' || c.final == 'l')) {
        private_mode(f, &c, out, back);
    } else if (answer_size(f, &c, back)) {
        return;
    } else if (!rowfilter_is_active(f)) {
        flush_held(f, out);
    } else if (plain && c.final == 'r') {
        set_region(f, &c, out);
    } else if (plain && (c.final == 'H' || c.final == 'f' || c.final == 'd')) {
        move_to(f, &c, out);
    } else {
        flush_held(f, out);
    }
    if (c.inter == '!' && c.final == 'p') { // soft reset: the region goes, the screen stays
        f->origin = f->saved = false;
        f->bottom = 0;
        if (rowfilter_is_active(f)) {
            add_region(f, out);
        }
    }
    f->saved = plain && c.final == 's' ? true : plain && c.final == 'u' ? false : f->saved;
    bool erases = c.final == 'J' && c.inter == 0 && (c.prefix == 0 || c.prefix == '?');
    bool below = f->bottom != 0 && (c.final == 'B' || c.final == 'E' || c.final == 'e');
    f->damaged |= rowfilter_is_active(f) && (erases || below);
}

// ---- escape sequences ----------------------------------------------------------------------

static void reset_all(struct rowfilter *f, struct buf *out)
{
    f->origin = f->saved = f->alternate = f->synchronized = f->reports = false;
    f->bottom = 0;
    if (rowfilter_is_active(f)) {
        add_region(f, out);
        f->damaged = true;
    }
}

/// The byte after ESC.
static void on_escape(struct rowfilter *f, char c, struct buf *out)
{
    f->held[f->n_held++] = c;
    if (c == '[') {
        f->state = CONTROL;
        return;
    }
    flush_held(f, out);
    f->state = GROUND;
    if (strchr("]PX^_", c) != NULL && c != '\0') {
        f->state = STRING;
    } else if (c >= ' ' && c <= '/') {
        f->state = ESCAPE_INTER;
        f->held[0] = c; // the next byte alone would not say what it ends
    } else if (c == 'c') {
        reset_all(f, out);
    } else if (c == '7' || c == '8') {
        f->saved = c == '7';
    }
}

static void on_escape_inter(struct rowfilter *f, char c, struct buf *out)
{
    buf_addc(out, c);
    if (c >= ' ' && c <= '/') {
        return;
    }
    f->state = GROUND;
    if (f->held[0] == '#' && c == '8' &&
        rowfilter_is_active(f)) { // the screen is filled, the region gone
        f->bottom = 0;
        add_region(f, out);
        f->damaged = true;
    }
}

// ---- bytes ---------------------------------------------------------------------------------

/// How many bytes of a character are still to come.
static unsigned missing_after(unsigned missing, unsigned char c)
{
    if ((c & 0xc0) == 0x80) {
        return missing != 0 ? missing - 1 : 0;
    }
    return c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
}

static void on_control_byte(struct rowfilter *f, char c, struct buf *out, struct buf *back)
{
    if (c == CAN || c == SUB) { // gives up the sequence
        flush_held(f, out);
        buf_addc(out, c);
        f->state = GROUND;
        return;
    }
    if (c >= 0 && c < ' ') { // terminals obey it at once, in the middle of the sequence
        buf_addc(out, c);
        return;
    }
    f->held[f->n_held++] = c;
    if (c >= '@' && c <= '~') {
        f->state = GROUND;
        on_control(f, out, back);
    } else if (f->n_held == sizeof f->held) {
        flush_held(f, out);
        f->state = CONTROL_LONG;
    }
}

static void begin_escape(struct rowfilter *f, struct buf *out)
{
    flush_held(f, out);
    f->held[f->n_held++] = ESC;
    f->state = ESCAPE;
}

static void on_passed_byte(struct rowfilter *f, char c, struct buf *out)
{
    buf_addc(out, c);
    switch (f->state) {
    case CONTROL_LONG:
        f->state = (c >= '@' && c <= '~') || c == CAN || c == SUB ? GROUND : CONTROL_LONG;
        break;
    case STRING:
        f->state = c == ESC ? STRING_ESC : c == BEL || c == CAN || c == SUB ? GROUND : STRING;
        break;
    case STRING_ESC: f->state = c == '\\' ? GROUND : c == ESC ? STRING_ESC : STRING; break;
    default: f->characters = missing_after(f->characters, (unsigned char)c);
    }
}

static void on_byte(struct rowfilter *f, char c, struct buf *out, struct buf *back)
{
    bool string = f->state == STRING || f->state == STRING_ESC;
    if (c == ESC && !string) {
        begin_escape(f, out);
        return;
    }
    switch (f->state) {
    case ESCAPE: on_escape(f, c, out); break;
    case ESCAPE_INTER: on_escape_inter(f, c, out); break;
    case CONTROL: on_control_byte(f, c, out, back); break;
    default: on_passed_byte(f, c, out);
    }
}

// ---- public --------------------------------------------------------------------------------

void rowfilter_init(struct rowfilter *f, unsigned rows, unsigned cols)
{
    *f = (struct rowfilter){.rows = rows, .cols = cols};
}

void rowfilter_feed(struct rowfilter *f, struct str in, struct buf *out, struct buf *back)
{
    size_t i = 0;
    while (i < in.n) {
        size_t run = i;
        while (f->state == GROUND && run < in.n && (unsigned char)in.p[run] >= ' ' &&
               (unsigned char)in.p[run] < 0x7f) {
            run++; // plain text, the most of it, in one piece
        }
        if (run != i) {
            buf_add(out, in.p + i, run - i);
            f->characters = 0;
            i = run;
        } else {
            on_byte(f, in.p[i++], out, back);
        }
    }
}

void rowfilter_end(struct rowfilter *f, struct buf *out)
{
    flush_held(f, out);
    f->state = GROUND;
}

void rowfilter_resize(struct rowfilter *f, unsigned rows, unsigned cols, struct buf *out)
{
    unsigned old = f->rows;
    if (rowfilter_is_active(f) && rows > old) { // our line would stay behind in the middle
        buf_addf(out, "\0337\033[?6l\033[%u;1H\033[2K\0338", old);
    }
    f->rows = rows;
    f->cols = cols;
    f->bottom = 0;
    if (rowfilter_is_active(f)) {
        add_region(f, out);
        f->damaged = true;
    }
}

void rowfilter_report(const struct rowfilter *f, struct buf *back)
{
    unsigned rows = program_rows(f);
    if (f->reports) {
        buf_addf(back, "\033[48;%u;%u;%u;%ut", rows, f->cols,
                 f->rows != 0 ? f->y / f->rows * rows : 0, f->x);
    }
}

void rowfilter_begin(struct rowfilter *f, unsigned rows, unsigned cols, struct buf *out)
{
    f->rows = rows;
    f->cols = cols;
    if (rowfilter_is_active(f)) {
        buf_addz(out, "\n\033[A");
        add_region(f, out);
        f->damaged = true;
    }
}

void rowfilter_leave(const struct rowfilter *f, struct buf *out)
{
    if (f->rows >= ROWS_MIN) {
        buf_addf(out, "\0337\033[?6l\033[r\033[%u;1H\033[2K\0338", f->rows);
    }
}

void rowfilter_forget_cursor(struct rowfilter *f)
{
    f->saved = false;
}

bool rowfilter_is_active(const struct rowfilter *f)
{
    return f->rows >= ROWS_MIN && !f->alternate;
}

bool rowfilter_may_draw(const struct rowfilter *f)
{
    return rowfilter_is_active(f) && f->state == GROUND && f->characters == 0 && !f->saved &&
           !f->synchronized;
}

void rowfilter_draw(struct rowfilter *f, struct str text, struct buf *out)
{
    f->damaged = false;
    buf_addf(out, "\0337\033[?6l\033[%u;1H\033[m", f->rows);
    buf_adds(out, text);
    buf_addz(out, "\0338");
}
