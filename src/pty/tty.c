// The guard of the user's terminal.
//
//     as it was ── tty_take ──> quiet or raw ── tty_give_back ──> as it was
//                                    │
//                                    └── exit(), a deadly signal: the same, by atexit and handlers
//
// Most users cannot repair a raw terminal whose program is gone, so giving it back must not depend on every caller.
// The handlers do only what is allowed in a signal handler: write and tcsetattr. SIGKILL cannot be caught; the shell we came from then mends its terminal itself.
//
// TCSANOW always: TCSAFLUSH would drop what was typed ahead, which belongs to the shell that is about
// to start, and TCSADRAIN would wait for a terminal that was stopped with Ctrl-S.

#include "pty/tty.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT_ROWS = 24, DEFAULT_COLS = 80 };

static struct {
    volatile sig_atomic_t taken;
    int fd;
    struct termios before;
    int flags; // of the descriptor
    char farewell[TTY_FAREWELL_MAX];
    volatile sig_atomic_t n_farewell;
    bool armed;
} tty; // a handler can reach nothing but a static

static const int deadly[] = {SIGSEGV, SIGBUS,  SIGILL, SIGFPE, SIGABRT,
                             SIGINT,  SIGTERM, SIGHUP, SIGQUIT};

static void on_deadly(int signum)
{
    tty_give_back();
    signal(signum, SIG_DFL);
    raise(signum);
}

/// Signals that have a handler already, of a sanitizer say, keep it: it exits, and atexit gives the terminal
/// back.
static void arm(void)
{
    struct sigaction sa = {.sa_handler = on_deadly, .sa_flags = (int)SA_RESETHAND}, old;
    if (tty.armed) {
        return;
    }
    tty.armed = true;
    for (size_t i = 0; i < ARRAY_LEN(deadly); i++) {
        if (sigaction(deadly[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) {
            sigaction(deadly[i], &sa, NULL);
        }
    }
    if (atexit(tty_give_back) != 0) {
        abort();
    }
}

bool tty_in_foreground(int fd)
{
    return isatty(fd) && tcgetpgrp(fd) == getpgrp();
}

struct winsize tty_size(int fd)
{
    struct winsize w = {0};
    if (ioctl(fd, TIOCGWINSZ, &w) != 0 || w.ws_row == 0 || w.ws_col == 0) {
        w.ws_row = DEFAULT_ROWS;
        w.ws_col = DEFAULT_COLS;
    }
    return w;
}

int tty_take(int fd, enum tty_mode mode, struct err *e)
{
    struct termios t;
    if (!tty_in_foreground(fd)) {
        return err_set(e, -EAGAIN, "we are not in the foreground of the terminal");
    }
    if (!tty.taken && tcgetattr(fd, &tty.before) != 0) {
        return err_sys(e, "cannot read the terminal's modes");
    }
    t = tty.before;
    t.c_lflag &= ~(tcflag_t)ECHO;
    if (mode != TTY_QUIET) {
        cfmakeraw(&t);
        t.c_oflag = mode == TTY_KEYS ? tty.before.c_oflag : t.c_oflag;
        t.c_cc[VMIN] = 1;
        t.c_cc[VTIME] = 0;
    }
    arm();
    tty.fd = fd;
    tty.flags = tty.taken ? tty.flags : fcntl(fd, F_GETFL);
    tty.taken = 1; // before the change: a signal in between gives back what is unchanged
    return tcsetattr(fd, TCSANOW, &t) != 0 ? err_sys(e, "cannot change the terminal's modes") : 0;
}

void tty_give_back(void)
{
    int saved = errno;
    if (tty.taken && tty_in_foreground(tty.fd)) { // else it is another job's now
        ssize_t n = write(tty.fd, tty.farewell, (size_t)tty.n_farewell);
        (void)n; // a terminal that is gone needs no farewell
        tcsetattr(tty.fd, TCSANOW, &tty.before);
    }
    if (tty.taken) {
        fcntl(tty.fd, F_SETFL, tty.flags);
    }
    tty.taken = 0;
    errno = saved;
}

const struct termios *tty_modes(void)
{
    return tty.taken ? &tty.before : NULL;
}

void tty_set_farewell(struct str bytes)
{
    tty.n_farewell = 0; // first: a signal now finds none rather than half of one
    assert(bytes.n <= sizeof tty.farewell);
    if (bytes.n != 0) {
        memcpy(tty.farewell, bytes.p, bytes.n);
    }
    tty.n_farewell = (sig_atomic_t)bytes.n;
}

int tty_reopen(int fd, struct err *e)
{
    char path[32];
    struct stat was, is;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (again >= 0 && fstat(fd, &was) == 0 && fstat(again, &is) == 0 && was.st_rdev == is.st_rdev) {
        return again;
    }
    if (again >= 0) {
        close(again);
    }
    again = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return again < 0 ? err_sys(e, "cannot keep the terminal open") : again;
}
