// The terminal: keys in, frames out.
//
// It has a descriptor of our own that never blocks. What the terminal does not take at once waits in `out`, and no
// further frame is made until it has: a slow terminal gets fewer frames, not a queue of old ones.

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/visible.h"
#include "pty/tty.h"
#include "term/charset.h"
#include "tui/tui_int.h"
#include "vt/vt.h"

enum { ESC_MS = 40, READ_SIZE = 16 << 10 };

// alternate screen, no wrapping, paste, focus, mouse with dragging and exact cells, kitty's keys; and back
static const char modes_on[] =
    "\033[?1049h\033[?7l\033[?2004h\033[?1004h\033[?1002h\033[?1006h\033[>1u\033[H\033[2J";
static const char modes_off[] =
    "\033[?2026l\033[<u\033[?1006l\033[?1003l\033[?1002l\033[?1000l\033[?1004l\033[?"
    "2004l\033[0m\033[r\033[?7h\033[?25h\033[?1049l";

static void watch(struct tui *t);

static void take_key(struct tui *t, const struct key *k)
{
    if (k->code == KEY_FOCUS_IN || k->code == KEY_FOCUS_OUT) {
        t->screen.unfocused = k->code == KEY_FOCUS_OUT;
        return;
    }
    app__settle(t);
    input__key(t, k);
    app__hurry(t);
}

static void on_esc(void *arg)
{
    struct tui *t = arg;
    struct key k;
    if (keys_waits(&t->screen.keys)) {
        keys_timeout(&t->screen.keys, &k);
        take_key(t, &k);
    }
}

static void read_keys(struct tui *t)
{
    static char bytes[READ_SIZE];
    struct key k;
    ssize_t n = read(t->screen.fd, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        app__quit(t, -EIO); // the terminal is gone
        return;
    }
    struct str rest = {bytes, n > 0 ? (size_t)n : 0};
    while (!t->over && keys_next(&t->screen.keys, &rest, &k)) {
        take_key(t, &k);
    }
    if (keys_waits(&t->screen.keys)) {
        timer_start(&t->screen.esc, ESC_MS);
    }
}

static void write_out(struct tui *t)
{
    struct screen *s = &t->screen;
    while (s->out.n != 0) {
        ssize_t n = write(s->fd, s->out.p, s->out.n);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno != EAGAIN) {
            app__quit(t, -errno);
        }
        if (n <= 0) {
            break;
        }
        buf_drop(&s->out, (size_t)n);
    }
}

static void on_ready(uv_poll_t *p, int status, int events)
{
    struct tui *t = container_of(p, struct tui, screen.poll);
    if (status < 0 || (events & UV_READABLE) != 0) {
        read_keys(t);
    }
    if ((events & UV_WRITABLE) != 0 && !t->over) {
        write_out(t);
        watch(t);
        if (screen__is_ready(t) && (t->draw_due || t->layout_due)) {
            app__changed(t, t->layout_due);
        }
    }
}

static void watch(struct tui *t)
{
    if (!t->over) {
        uv_poll_start(&t->screen.poll, UV_READABLE | (t->screen.out.n != 0 ? UV_WRITABLE : 0),
                      on_ready);
    }
}

bool screen__is_ready(const struct tui *t)
{
    return t->screen.out.n == 0;
}

bool screen__take_size(struct tui *t)
{
    struct winsize w = tty_size(t->screen.fd);
    int rows = MIN(MAX(w.ws_row, 1), VT_ROWS_MAX), cols = MIN(MAX(w.ws_col, 1), VT_COLS_MAX);
    if (rows == t->screen.next.rows && cols == t->screen.next.cols) {
        return false;
    }
    cells_resize(&t->screen.next, rows, cols);
    cells_resize(&t->screen.shown, rows, cols);
    t->screen.whole = true;
    return true;
}

void screen__show(struct tui *t)
{
    struct screen *s = &t->screen;
    struct buf diff = {.max = SIZE_MAX};
    if (s->moves != terminal__wants_moves(t)) { // the two modes are one of the terminal's
        s->moves = !s->moves;
        buf_addz(&s->out, s->moves ? "\033[?1003h" : "\033[?1003l\033[?1002h");
    }
    cells_diff(&s->shown, &s->next, s->whole, t->o->color, &diff);
    if (diff.n != 0) {
        buf_addz(&s->out, "\033[?2026h");
        buf_addz(&s->out, s->whole ? "\033[0m\033[H\033[2J" : "");
        (charset_is_utf8() ? buf_adds : charset_add_ascii)(&s->out, buf_str(&diff));
        buf_addz(&s->out, "\033[?2026l");
    }
    buf_fini(&diff);
    cells_copy(&s->shown, &s->next);
    s->whole = false;
    write_out(t);
    watch(t);
}

void screen__notify(struct tui *t, struct str what)
{
    struct buf safe;
    if (t->screen.unfocused) {
        buf_init(&safe, 256);
        visible_add(&safe, what, false);
        out_add_notice(&t->screen.out, buf_z(&safe));
        buf_fini(&safe);
        write_out(t);
        watch(t);
    }
}

int screen__open(struct tui *t, struct err *e)
{
    struct screen *s = &t->screen;
    cells_init(&s->shown);
    cells_init(&s->next);
    buf_init(&s->out, SIZE_MAX);
    timer_init(&s->esc, &t->loop, on_esc, t);
    int rc = tty_take(STDIN_FILENO, TTY_RAW, e);
    if (rc < 0) {
        return rc;
    }
    tty_set_farewell(str_of(modes_off));
    s->fd = tty_reopen(STDIN_FILENO, e);
    if (s->fd < 0) {
        tty_give_back();
        return s->fd;
    }
    fcntl(s->fd, F_SETFL, fcntl(s->fd, F_GETFL) | O_NONBLOCK);
    rc = uv_poll_init(&t->loop.uv, &s->poll, s->fd);
    if (rc < 0) {
        close(s->fd);
        tty_give_back();
        return err_set(e, rc, "cannot wait for the terminal: %s", err_text(rc));
    }
    s->open = true;
    buf_addz(&s->out, modes_on);
    screen__take_size(t);
    write_out(t);
    watch(t);
    return 0;
}

void screen__close(struct tui *t)
{
    struct screen *s = &t->screen;
    timer_stop(&s->esc);
    if (s->open) {
        uv_poll_stop(&s->poll);
        uv_close((uv_handle_t *)&s->poll, NULL);
        s->open = false;
        close(s->fd);
        tty_give_back();
    }
    cells_fini(&s->shown);
    cells_fini(&s->next);
    buf_fini(&s->out);
}
