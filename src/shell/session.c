// A shell on the user's terminal, through a pseudo-terminal.
//
//     session_open ── terminal raw, shell spawned ──> running
//     running ── the shell exits ──> what it wrote is delivered ──> over
//     running ── HUP, TERM, INT, QUIT, or the terminal is gone ──> shell gets HUP, later KILL ──> over
//     running ── TSTP ──> terminal given back, we stop ── CONT, in the foreground ──> running
//
// The terminal is given back before on_exit, so that the callback may print. A shell that was hung up and does
// not end is killed after two seconds; its background jobs live on, as they do when any terminal is closed.
//
// We write no byte into the pseudo-terminal that the user did not type, with one exception: with a row, we answer
// a program that asks for the size of the terminal.

#include "shell/session.h"

#include <assert.h>
#include <signal.h>
#include <unistd.h>

#include "loop/proc.h"
#include "loop/signal.h"
#include "loop/timer.h"
#include "pty/pty.h"
#include "pty/pump.h"
#include "pty/tty.h"
#include "term/rowfilter.h"

// A program that saves the cursor restores it at once; if it has not after SAVED_MS, it never will.
enum { KILL_AFTER_MS = 2000, SAVED_MS = 1000, EXIT_MISSING = 127, EXIT_SIGNAL = 128 };

static const int ends[] = {SIGHUP, SIGTERM, SIGINT, SIGQUIT};

struct session {
    struct loop *loop;
    struct session_opts o;
    struct pty pty;
    struct proc *shell; // NULL once it is gone
    struct pump *pump;
    int in_fd, out_fd; // the user's terminal, opened by ourselves
    int code;
    struct err why;
    bool started, over;
    bool hung_up;            // `code` is decided, and what the shell still prints is not read
    bool row;                // the bottom line is ours
    struct rowfilter filter; // with a row
    struct buf row_text;
    struct timer kill_timer, saved_timer;
    struct signal_watch *on_resize, *on_stop, *on_end[ARRAY_LEN(ends)];
};

// ---- the end -------------------------------------------------------------------------------

static void finish(struct session *s)
{
    if (s->over) {
        return;
    }
    s->over = true;
    timer_stop(&s->kill_timer);
    timer_stop(&s->saved_timer);
    tty_give_back();
    s->o.on_exit(s, s->code, s->started ? NULL : s->why.msg, s->o.arg);
}

static void on_kill_timer(void *arg)
{
    struct session *s = arg;
    if (s->shell != NULL) {
        proc_kill(s->shell, SIGKILL);
    }
}

/// End the shell as a closed terminal does. `code` is ours then, not the shell's.
static void hang_up(struct session *s, int code)
{
    if (s->over || s->hung_up) {
        return;
    }
    s->hung_up = true;
    s->code = code;
    if (s->shell == NULL) {
        finish(s);
        return;
    }
    proc_kill(s->shell, SIGHUP);
    proc_kill(s->shell, SIGCONT); // a stopped one hears nothing
    timer_start(&s->kill_timer, KILL_AFTER_MS);
}

static void on_shell_exit(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct session *s = arg;
    assert(p == s->shell && !s->over);
    s->shell = NULL;
    s->started = x->launched;
    if (!x->launched) {
        err_set(&s->why, x->code, "%s", x->why);
    }
    if (s->hung_up) {
        finish(s);
        return;
    }
    s->code = !x->launched ? EXIT_MISSING : x->signal != 0 ? EXIT_SIGNAL + x->signal : x->code;
    pump_finish(s->pump);
}

static void on_pump_end(struct pump *p, enum pump_end how, void *arg)
{
    struct session *s = arg;
    (void)p;
    if (how == PUMP_HANGUP) {
        hang_up(s, EXIT_SIGNAL + SIGHUP);
    } else {
        finish(s);
    }
}

static void on_end_signal(int signum, void *arg)
{
    hang_up(arg, EXIT_SIGNAL + signum);
}

// ---- the row -------------------------------------------------------------------------------

/// The window as the programs in it see it: without our row, unless one has the alternate screen.
static struct winsize inner_size(const struct session *s)
{
    struct winsize w = tty_size(s->out_fd);
    if (s->row && rowfilter_is_active(&s->filter)) {
        w.ws_ypixel = (unsigned short)(w.ws_ypixel / w.ws_row * (w.ws_row - 1));
        w.ws_row--;
    }
    return w;
}

static void draw_row(struct session *s, struct buf *out)
{
    assert(s->row);
    if (!s->filter.damaged || s->row_text.n == 0) {
        return;
    }
    if (rowfilter_may_draw(&s->filter)) {
        rowfilter_draw(&s->filter, buf_str(&s->row_text), out);
    } else if (!timer_running(&s->saved_timer)) {
        timer_start(&s->saved_timer, SAVED_MS);
    }
}

/// Draw the row now, if it may be drawn.
static void redraw(struct session *s)
{
    struct buf out = {.max = SIZE_MAX};
    draw_row(s, &out);
    pump_inject(s->pump, buf_str(&out));
    buf_fini(&out);
}

static void on_saved_timer(void *arg)
{
    struct session *s = arg;
    rowfilter_forget_cursor(&s->filter);
    redraw(s);
}

/// The pump's bytes on their way to the terminal.
static void filter_output(struct str bytes, struct buf *to, void *arg)
{
    struct session *s = arg;
    struct buf back = {.max = SIZE_MAX};
    bool before = s->filter.alternate;
    if (bytes.n == 0) {
        rowfilter_end(&s->filter, to);
        return;
    }
    rowfilter_feed(&s->filter, bytes, to, &back);
    pump_answer(s->pump, buf_str(&back));
    buf_fini(&back);
    draw_row(s, to);
    if (s->filter.alternate != before) {
        struct winsize w = inner_size(s);
        pty_resize(&s->pty, &w);
    }
}

/// Bytes that give the bottom line back, however we end.
static void set_farewell(struct session *s)
{
    struct buf out = {.max = SIZE_MAX};
    rowfilter_leave(&s->filter, &out);
    tty_set_farewell(buf_str(&out));
    buf_fini(&out);
}

/// Keep the bottom line from now on.
static void take_row(struct session *s)
{
    struct winsize w = tty_size(s->out_fd);
    struct buf out = {.max = SIZE_MAX};
    rowfilter_begin(&s->filter, w.ws_row, w.ws_col, &out);
    s->filter.x = w.ws_xpixel;
    s->filter.y = w.ws_ypixel;
    draw_row(s, &out);
    pump_inject(s->pump, buf_str(&out));
    buf_fini(&out);
    set_farewell(s);
}

// ---- the window and stopping ---------------------------------------------------------------

static void resize(struct session *s)
{
    struct winsize w = tty_size(s->out_fd);
    struct buf out = {.max = SIZE_MAX}, report = {.max = SIZE_MAX};
    if (s->row) {
        rowfilter_resize(&s->filter, w.ws_row, w.ws_col, &out);
        s->filter.x = w.ws_xpixel;
        s->filter.y = w.ws_ypixel;
        pump_inject(s->pump, buf_str(&out));
        rowfilter_report(&s->filter, &report);
        pump_answer(s->pump, buf_str(&report));
        set_farewell(s);
        buf_clear(&s->row_text); // it may be too wide now
    }
    w = inner_size(s);
    pty_resize(&s->pty, &w);
    buf_fini(&out);
    buf_fini(&report);
}

static void on_resize_signal(int signum, void *arg)
{
    struct session *s = arg;
    (void)signum;
    resize(s);
    if (s->o.on_resize != NULL) {
        s->o.on_resize(s, s->o.arg);
    }
}

/// Stopped from outside, we must not leave a raw terminal to the shell we came from. Continued in the
/// background we stop again, as any program does that wants a terminal which is another job's.
static void on_stop_signal(int signum, void *arg)
{
    struct session *s = arg;
    (void)signum;
    pump_pause(s->pump, true);
    tty_give_back();
    do {
        raise(SIGSTOP);
    } while (isatty(s->in_fd) && !tty_in_foreground(s->o.terminal_in));
    if (tty_take(s->o.terminal_in, TTY_RAW, &s->why) < 0) {
        hang_up(s, EXIT_SIGNAL + SIGHUP);
        return;
    }
    pump_pause(s->pump, false);
    if (s->row) {
        take_row(s);
    }
    resize(s);
}

// ---- the start -----------------------------------------------------------------------------

static int watch_signals(struct session *s, struct err *e)
{
    int rc = signal_open(&s->on_resize, s->loop, SIGWINCH, on_resize_signal, s, e);
    if (rc == 0) {
        rc = signal_open(&s->on_stop, s->loop, SIGTSTP, on_stop_signal, s, e);
    }
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(ends); i++) {
        rc = signal_open(&s->on_end[i], s->loop, ends[i], on_end_signal, s, e);
    }
    return rc;
}

static int open_terminals(struct session *s, struct err *e)
{
    int rc = tty_take(s->o.terminal_in, TTY_RAW, e);
    if (rc == 0) {
        rc = s->in_fd = tty_reopen(s->o.terminal_in, e);
    }
    if (rc >= 0) {
        rc = s->out_fd = tty_reopen(s->o.terminal_out, e);
    }
    if (rc < 0) {
        return rc;
    }
    struct winsize whole = tty_size(s->out_fd);
    rowfilter_init(&s->filter, whole.ws_row, whole.ws_col);
    struct winsize w = inner_size(s);
    return pty_open(&s->pty, &w, tty_modes(), e);
}

static int start(struct session *s, struct err *e)
{
    const struct pump_cb cb = {.on_end = on_pump_end, .filter = s->row ? filter_output : NULL};
    const struct proc_cb shell_cb = {.on_exit = on_shell_exit};
    int rc = open_terminals(s, e);
    if (rc == 0) {
        rc = watch_signals(s, e);
    }
    if (rc == 0) {
        rc = pump_open(&s->pump, s->loop, s->in_fd, s->out_fd, s->pty.master, &cb, s, e);
    }
    if (rc == 0 && s->row) {
        take_row(s);
    }
    const struct proc_opts shell = {.argv = s->o.argv,
                                    .env = s->o.env,
                                    .cwd = s->o.cwd,
                                    .in = PROC_FD,
                                    .out = PROC_FD,
                                    .err = PROC_FD,
                                    .in_fd = s->pty.slave,
                                    .out_fd = s->pty.slave,
                                    .err_fd = s->pty.slave,
                                    .terminal = true};
    return rc == 0 ? proc_spawn(&s->shell, s->loop, &shell, &shell_cb, s, e) : rc;
}

// ---- public --------------------------------------------------------------------------------

int session_open(struct session **out, const struct session_opts *o, struct err *e)
{
    assert(o->on_exit != NULL && o->argv[0] != NULL);
    struct session *s = xcalloc(1, sizeof *s);
    *s = (struct session){.loop = o->loop, .o = *o, .in_fd = -1, .out_fd = -1};
    s->pty = (struct pty){.master = -1, .slave = -1};
    s->row = o->status == STATUS_ROW;
    buf_init(&s->row_text, SIZE_MAX);
    timer_init(&s->kill_timer, o->loop, on_kill_timer, s);
    timer_init(&s->saved_timer, o->loop, on_saved_timer, s);
    int rc = start(s, e);
    *out = s;
    if (rc < 0) {
        *out = NULL;
        tty_give_back();
        session_close(s);
    }
    return rc;
}

void session_close(struct session *s)
{
    if (s == NULL) {
        return;
    }
    timer_stop(&s->kill_timer);
    timer_stop(&s->saved_timer);
    pump_close(s->pump);
    signal_close(s->on_resize);
    signal_close(s->on_stop);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        signal_close(s->on_end[i]);
    }
    pty_close(&s->pty);
    buf_fini(&s->row_text);
    tty_set_farewell(STR_NULL);
    if (s->in_fd >= 0) {
        close(s->in_fd);
    }
    if (s->out_fd >= 0) {
        close(s->out_fd);
    }
    free(s);
}

void session_poke(struct session *s)
{
    if (s->shell != NULL) {
        kill(proc_pid(s->shell), SIGURG);
    }
}

void session_show(struct session *s, const struct status *st)
{
    if (s->row && !s->over) {
        buf_clear(&s->row_text);
        status_render(st, s->filter.cols, &s->row_text);
        s->filter.damaged = true;
        redraw(s);
    }
}

int session_shell_pid(const struct session *s)
{
    return s->shell != NULL ? proc_pid(s->shell) : 0;
}
