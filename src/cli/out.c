// Printing for people and for programs.
//
//     out_add(), a command's own writes ──> data ──settle──> data[0..safe) ──flush──> stdout
//     out_control() ─────────────────────────────────────────────┘
//
// On a terminal everything that commands print passes visible_add() on its way out, so no command
// can forget it; only the escape sequences given to out_control() reach the terminal as they are.
// A pipe or file gets the bytes unchanged.

#include "cli/out.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/visible.h"
#include "client/interrupt.h"

enum { FLUSH_AT = 64 << 10, DATA_MAX = 1 << 30 };

// ---- stdout --------------------------------------------------------------------------------

static bool wants_color(enum out_color color)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (color != OUT_AUTO) {
        return color == OUT_ALWAYS;
    }
    return (no == NULL || no[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0 &&
           isatty(STDOUT_FILENO) == 1;
}

void out_init(struct out *o, enum out_color color, bool quiet)
{
    *o = (struct out){.quiet = quiet};
    buf_init(&o->data, DATA_MAX);
    o->terminal = isatty(STDOUT_FILENO) == 1;
    o->color = wants_color(color);
}

void out_fini(struct out *o)
{
    buf_fini(&o->data);
}

// Make what was added since the last call fit for the terminal.
static void settle(struct out *o)
{
    if (o->terminal && o->safe < o->data.n) {
        struct buf shown;
        buf_init(&shown, SIZE_MAX);
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
    char *text = NULL;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0) {
        abort();
    }
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
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m",
                                        "\033[32m", "\033[33m", "\033[31m"};
    bool dress = o->color && tint != OUT_PLAIN;
    if (dress) {
        out_control(o, str_of(codes[tint]));
    }
    out_text(o, text);
    if (dress) {
        out_control(o, STR("\033[0m"));
    }
}

void out_body(struct out *o, struct str body)
{
    out_add(o, body);
    if (o->terminal && body.n != 0 && !str_ends(body, "\n")) {
        out_add(o, STR("\n"));
    }
}

// A pipe that poll() calls writable takes this much at least without blocking: so Ctrl-C is heard
// while a slow reader holds us up.
bool out_flush(struct out *o)
{
    settle(o);
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
    if (o->fault == EINTR) { // who goes on after Ctrl-C, see out_resume(), loses nothing
        buf_drop(&o->data, o->data.n - rest.n);
    } else {
        buf_clear(&o->data);
    }
    o->safe = o->data.n;
    return o->fault == 0;
}

void out_resume(struct out *o)
{
    o->fault = o->fault == EINTR ? 0 : o->fault;
}

// ---- stderr --------------------------------------------------------------------------------

// One write a line, so that lines of several programs do not mix.
static void say(struct out *o, const char *before, const char *fmt, va_list ap) PRINTF_LIKE(3, 0);
static void say(struct out *o, const char *before, const char *fmt, va_list ap)
{
    out_flush(o); // what was printed before comes first, where both go to one terminal
    char *text = NULL;
    if (vasprintf(&text, fmt, ap) < 0) {
        abort();
    }
    struct buf line;
    buf_init(&line, DATA_MAX);
    buf_addz(&line, before);
    visible_add(&line, str_of(text), false);
    buf_addc(&line, '\n');
    ssize_t n = write(STDERR_FILENO, line.p, line.n);
    (void)n; // nobody is left who could be told
    buf_fini(&line);
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
