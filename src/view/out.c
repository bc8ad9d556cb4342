// Printing for people and for programs.
//
//     out_add(), a command's own writes ──> data ──settle──> data[0..safe) ──flush──> stdout
//     out_control() ─────────────────────────────────────────────┘
//
// On a terminal everything that commands print passes visible_add() on its way out, so no command
// can forget it; only the escape sequences given to out_control() reach the terminal as they are.
// A pipe or file gets the bytes unchanged.
//
// While a command draws, data is written by out_frame() alone: rows off, data, rows on, marked as one
// piece for terminals that know such marks (mode 2026), so that nothing flickers.

#include "view/out.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/visible.h"
#include "client/interrupt.h"
#include "pty/tty.h"
#include "term/charset.h"

enum { FLUSH_AT = 64 << 10, DATA_MAX = 1 << 30 };

// ---- stdout --------------------------------------------------------------------------------

static enum color_depth wants_color(enum out_color color)
{
    const char *term = getenv("TERM"), *colorterm = getenv("COLORTERM");
    if (color == OUT_ALWAYS) {
        return MAX(color_depth_of(term, colorterm, NULL), COLOR_16);
    }
    return color == OUT_AUTO && isatty(STDOUT_FILENO) == 1
               ? color_depth_of(term, colorterm, getenv("NO_COLOR"))
               : COLOR_NONE;
}

void out_init(struct out *o, enum out_color color, bool quiet)
{
    *o = (struct out){.quiet = quiet};
    buf_init(&o->data, DATA_MAX);
    panel_init(&o->panel);
    o->terminal = isatty(STDOUT_FILENO) == 1;
    o->ascii = o->terminal && !charset_is_utf8();
    o->color = wants_color(color);
}

void out_init_rows(struct out *o, enum color_depth color)
{
    *o = (struct out){.color = color, .terminal = true, .drawing = true, .gathers = true};
    buf_init(&o->data, DATA_MAX);
    panel_init(&o->panel);
}

void out_fini(struct out *o)
{
    panel_fini(&o->panel);
    buf_fini(&o->data);
}

// Make what was added since the last call fit for the terminal.
static void settle(struct out *o)
{
    if (o->terminal && o->safe < o->data.n) {
        struct buf shown = {.max = SIZE_MAX};
        visible_add(&shown, str_from(buf_str(&o->data), o->safe), true);
        buf_cut(&o->data, o->safe);
        buf_adds(&o->data, buf_str(&shown));
        buf_fini(&shown);
    }
    o->safe = o->data.n;
}

static void flush_some(struct out *o)
{
    if (o->data.n > FLUSH_AT) {
        out_flush(o);
    }
}

void out_add(struct out *o, struct str bytes)
{
    buf_adds(&o->data, bytes);
    flush_some(o);
}

void out_addf(struct out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = xvasprintf(fmt, ap);
    va_end(ap);
    out_add(o, str_of(text));
    free(text);
}

void out_control(struct out *o, struct str sequences)
{
    settle(o);
    buf_adds(&o->data, sequences);
    o->safe = o->data.n;
}

void out_text(struct out *o, struct str text)
{
    visible_add(&o->data, text, false);
    flush_some(o);
}

void out_tinted(struct out *o, enum out_tint tint, struct str text)
{
    assert(tint <= OUT_RED);
    static const enum color_role roles[] = {[OUT_BOLD] = COLOR_BOLD,
                                            [OUT_DIM] = COLOR_DIM,
                                            [OUT_GREEN] = COLOR_GOOD,
                                            [OUT_YELLOW] = COLOR_WARN,
                                            [OUT_RED] = COLOR_BAD};
    bool dress = o->color != COLOR_NONE && tint != OUT_PLAIN;
    if (dress) {
        out_control(o, str_of(color_on(o->color, roles[tint])));
    }
    out_text(o, text);
    if (dress) {
        out_control(o, str_of(color_off(o->color)));
    }
}

void out_body(struct out *o, struct str body)
{
    out_add(o, body);
    if (o->terminal && body.n != 0 && !str_ends(body, "\n")) {
        out_add(o, STR("\n"));
    }
}

// Write all of `data` and empty it. A pipe that poll() calls writable takes this much at least without
// blocking: so Ctrl-C is heard while a slow reader holds us up.
static void write_out(struct out *o)
{
    if (o->ascii) {
        struct buf plain = {.max = SIZE_MAX};
        charset_add_ascii(&plain, buf_str(&o->data));
        buf_clear(&o->data);
        buf_adds(&o->data, buf_str(&plain));
        buf_fini(&plain);
    }
    struct str rest = buf_str(&o->data);
    while (rest.n != 0 && o->fault == 0) {
        struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
        if (interrupt_wait(&p, 1, 0) < 0) {
            o->fault = EINTR;
            break;
        }
        ssize_t n = write(STDOUT_FILENO, rest.p, MIN(rest.n, (size_t)PIPE_BUF));
        if (n >= 0) {
            rest = str_from(rest, (size_t)n);
        } else if (errno != EINTR && errno != EAGAIN) {
            o->fault = errno;
        }
    }
    if (o->fault == EINTR) { // kept for a command that continues after Ctrl-C, see out_resume()
        buf_drop(&o->data, o->data.n - rest.n);
    } else {
        buf_clear(&o->data);
    }
    o->safe = o->unsent = o->data.n;
}

// Put what takes the rows off the screen before the data, but after what is unsent: the rows may be in it.
static void lift_rows(struct out *o)
{
    if (o->panel.rows != 0) {
        struct buf all = {.max = SIZE_MAX};
        buf_add(&all, o->data.p, o->unsent);
        panel_erase(&o->panel, &all, tty_size(STDOUT_FILENO).ws_col);
        buf_adds(&all, str_from(buf_str(&o->data), o->unsent));
        buf_clear(&o->data);
        buf_adds(&o->data, buf_str(&all));
        buf_fini(&all);
    }
}

bool out_flush(struct out *o)
{
    settle(o);
    if (!o->drawing) {
        write_out(o);
    }
    return o->fault == 0;
}

void out_begin(struct out *o)
{
    out_flush(o);
    o->drawing = true;
}

void out_resized(struct out *o)
{
    panel_resized(&o->panel);
}

void out_frame(struct out *o, struct str lines, size_t row, size_t col)
{
    static const char piece_on[] = "\033[?2026h", piece_off[] = "\033[?2026l";
    size_t cols = tty_size(STDOUT_FILENO).ws_col;
    assert(o->drawing);
    settle(o);
    if (o->data.n != 0) {
        lift_rows(o);
    }
    struct buf frame = {.max = SIZE_MAX};
    buf_addz(&frame, piece_on);
    buf_adds(&frame, buf_str(&o->data));
    panel_draw(&o->panel, &frame, lines, row, col, cols);
    if (frame.n > sizeof piece_on - 1) {
        buf_addz(&frame, piece_off);
        buf_clear(&o->data);
        buf_adds(&o->data, buf_str(&frame));
        write_out(o);
    }
    buf_fini(&frame);
}

void out_end(struct out *o)
{
    settle(o);
    lift_rows(o);
    write_out(o);
    o->drawing = false;
}

void out_resume(struct out *o)
{
    o->fault = o->fault == EINTR ? 0 : o->fault;
}

void out_add_notice(struct buf *out, const char *what)
{
    const char *term = getenv("TERM"), *vte = getenv("VTE_VERSION");
    bool urxvt = vte != NULL || (term != NULL && strncmp(term, "rxvt", 4) == 0);
    bool tmux = getenv("TMUX") != NULL;
    buf_addf(out, "\a%s\033]%s%s\a%s", tmux ? "\033Ptmux;\033" : "",
             urxvt ? "777;notify;Afloat;" : "9;Afloat: ", what, tmux ? "\033\\" : "");
}

// ---- stderr --------------------------------------------------------------------------------

// One write a line, so that lines of several programs do not mix.
static void say(struct out *o, const char *before, const char *fmt, va_list ap) PRINTF_LIKE(3, 0);
static void say(struct out *o, const char *before, const char *fmt, va_list ap)
{
    char *text = xvasprintf(fmt, ap);
    if (o->gathers) {
        out_tinted(o, OUT_YELLOW, str_of(text));
        out_add(o, STR("\n"));
    } else {
        settle(o); // what was printed before comes first, where both go to one terminal
        lift_rows(o);
        write_out(o);
        visible_say("%s%s", before, text);
    }
    free(text);
}

void out_note(struct out *o, const char *fmt, ...)
{
    if (o->quiet) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    say(o, "afloat: ", fmt, ap);
    va_end(ap);
}

void out_error(struct out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(o, "afloat: ", fmt, ap);
    va_end(ap);
}

void out_hint(struct out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!o->quiet) {
        say(o, "", fmt, ap);
    }
    va_end(ap);
}
