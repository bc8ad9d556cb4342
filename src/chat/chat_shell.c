// A line that begins with '!': a command of the user's, in the session's directory and on the terminal, which is
// given back for so long. What it prints goes to the model with the next message; with '!!' it does not.
//
//     keys ──────────────> command                           the terminal is its input and controls it,
//     terminal <── we <── pseudo-terminal <── its output     so Ctrl-C and Ctrl-Z are as usual
//                  └──> t->ran, the first and the last of it
//
// Programs that draw set the modes of the terminal they write to; ours is not the one that is typed on, so what
// they set is copied to that.

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "base/utf8.h"
#include "chat/chat_int.h"
#include "client/interrupt.h"
#include "pty/pty.h"
#include "pty/tty.h"

enum { HALF = 8 << 10 };

extern char **environ;

/// A command, and what it has printed: the beginning, and the end of the rest.
struct ran {
    struct chat *t;
    pid_t pid;
    int gone; // readable when it has ended
    struct pty pty;
    struct termios seen; // the modes of the pseudo-terminal, as they were copied last
    struct buf head, tail;
    uint64_t left_out;
};

// Signals have their usual effect in the command, whatever we do with them.
static int spawn(struct ran *c, const char *line)
{
    const char *shell = getenv("SHELL"), *dir = c->t->gauge.dir;
    shell = shell != NULL && shell[0] == '/' ? shell : "/bin/sh";
    char *argv[] = {(char *)(uintptr_t)shell, (char[]){"-c"}, (char *)(uintptr_t)line, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_adddup2(&actions, c->pty.slave, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, c->pty.slave, STDERR_FILENO);
    if (dir[0] == '/') {
        posix_spawn_file_actions_addchdir_np(&actions, dir);
    }
    int rc = posix_spawn(&c->pid, shell, &actions, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return -rc;
}

// ---- its output ----------------------------------------------------------------------------

static void cut_tail(struct ran *c)
{
    size_t more = c->tail.n > HALF ? c->tail.n - HALF : 0;
    c->left_out += more;
    buf_drop(&c->tail, more);
}

static void keep(struct ran *c, struct str bytes)
{
    assert(c->head.n <= HALF);
    size_t n = MIN(bytes.n, HALF - c->head.n);
    buf_add(&c->head, bytes.p, n);
    buf_adds(&c->tail, str_from(bytes, n));
    if (c->tail.n > 2 * HALF) {
        cut_tail(c);
    }
}

/// What the program has set on the terminal that it writes to.
static void copy_modes(struct ran *c)
{
    struct termios now, real;
    if (tcgetattr(c->pty.slave, &now) != 0 ||
        (now.c_lflag == c->seen.c_lflag && now.c_iflag == c->seen.c_iflag) ||
        tcgetattr(STDIN_FILENO, &real) != 0) {
        return;
    }
    c->seen = now;
    real.c_lflag = now.c_lflag;
    real.c_iflag = now.c_iflag;
    memcpy(real.c_cc, now.c_cc, sizeof real.c_cc);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &real);
}

/// Copy what there is to the terminal. False: nothing was there.
static bool relay(struct ran *c)
{
    char bytes[16 << 10];
    ssize_t n = read(c->pty.master, bytes, sizeof bytes);
    if (n <= 0) {
        return false;
    }
    copy_modes(c);
    struct str said = {bytes, (size_t)n};
    (void)!path_write_fd(STDOUT_FILENO, said);
    keep(c, said);
    return true;
}

static void follow_window(struct ran *c)
{
    struct winsize size = tty_size(STDIN_FILENO);
    char signal[256];
    (void)!read(c->t->resized, signal, sizeof signal);
    pty_resize(&c->pty, &size);
    kill(c->pid, SIGWINCH); // it may have looked too early
}

/// Until the command has ended and everything it printed was shown.
static int wait_for(struct ran *c)
{
    assert(c->pid > 0);
    int status = 0;
    struct pollfd fds[] = {{.fd = c->gone, .events = POLLIN},
                           {.fd = c->pty.master, .events = POLLIN},
                           {.fd = c->t->resized, .events = POLLIN}};
    do {
        if (poll(fds, ARRAY_LEN(fds), -1) < 0) {
            continue;
        }
        if (fds[2].revents != 0) {
            follow_window(c);
        }
        while (relay(c)) {
        }
    } while ((fds[0].revents & POLLIN) == 0);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    while (relay(c)) {
    }
    return status;
}

// ---- for the model -------------------------------------------------------------------------

/// The length of the escape sequence at the start of `s`.
static size_t escape_length(struct str s)
{
    size_t n = 2;
    if (s.n < 2) {
        return s.n;
    }
    if (s.p[1] == '[') {
        while (n < s.n && (s.p[n] < '@' || s.p[n] > '~')) {
            n++;
        }
        return MIN(n + 1, s.n);
    }
    if (s.p[1] == ']' || s.p[1] == 'P') {
        while (n < s.n && s.p[n] != '\a' && (s.p[n - 1] != '\033' || s.p[n] != '\\')) {
            n++;
        }
        return MIN(n + 1, s.n);
    }
    return n;
}

/// Text as a person would read it: without sequences and control characters.
static void add_plain(struct buf *out, struct str s)
{
    while (s.n != 0) {
        uint32_t cp = 0;
        size_t n = s.p[0] == '\033' ? escape_length(s) : utf8_decode(s, &cp);
        bool line = s.p[0] == '\n' || (s.p[0] == '\r' && (s.n == 1 || s.p[1] != '\n'));
        if (line) {
            buf_addc(out, '\n');
        } else if (s.p[0] == '\t' || ((unsigned char)s.p[0] >= ' ' && s.p[0] != 0x7f)) {
            buf_add(out, s.p, cp != 0xFFFD || n == 3 ? n : 0);
        }
        s = str_from(s, n);
    }
}

static void tell_model(struct ran *c, const char *line, const char *end)
{
    struct buf *said = &c->t->ran;
    bool drew = memmem(buf_z(&c->head), c->head.n, "\033[?1049h", 8) != NULL;
    if (said->n > (size_t)4 * HALF) { // many commands without a message: the last ones count
        buf_clear(said);
    }
    buf_addf(said, "[I ran a command in the working directory:]\n$ %s\n", line);
    if (drew) {
        buf_addz(said, "[a full-screen program]\n");
    } else {
        cut_tail(c);
        add_plain(said, buf_str(&c->head));
        if (c->left_out != 0) {
            buf_addf(said, "\n[%llu bytes left out]\n", (unsigned long long)c->left_out);
        }
        add_plain(said, buf_str(&c->tail));
        buf_addz(said, said->p[said->n - 1] != '\n' ? "\n" : "");
    }
    buf_addf(said, "[%s]\n\n", end);
    out_note(&c->t->c->out, "the model reads this with your next message");
}

void chat__shell(struct chat *t, struct str line)
{
    struct out *o = &t->c->out;
    bool tells = line.n == 0 || line.p[0] != '!';
    char *command = str_dup(str_trim(tells ? line : str_from(line, 1)));
    struct ran c = {.t = t, .gone = -1};
    struct winsize size = tty_size(STDIN_FILENO);
    struct err e = {0};
    struct termios modes;
    char end[64] = "exit code 0";
    buf_init(&c.head, SIZE_MAX);
    buf_init(&c.tail, SIZE_MAX);
    chat__screen_end(t);
    bool known = tcgetattr(STDIN_FILENO, &modes) == 0;
    c.seen = modes;
    c.seen.c_oflag &= ~(tcflag_t)OPOST; // the terminal itself does that
    int rc = pty_open(&c.pty, &size, known ? &c.seen : NULL, &e), status = 0;
    if (rc == 0 && (rc = spawn(&c, command)) < 0) {
        err_set(&e, rc, "%s", err_text(rc));
    }
    if (rc == 0) {
        c.gone = (int)syscall(SYS_pidfd_open, c.pid, 0);
        status = wait_for(&c);
    }
    if (known) {
        tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
    }
    chat__screen_begin(t);
    if (interrupt_pause(1) < 0 && interrupt_seen() == SIGINT) {
        interrupt_take(); // Ctrl-C was for the command
    }
    if (rc < 0) {
        out_error(o, "cannot run '%s': %s", command, e.msg);
    } else if (WIFSIGNALED(status)) {
        snprintf(end, sizeof end, "ended by signal %d", WTERMSIG(status));
    } else {
        snprintf(end, sizeof end, "exit code %d", WEXITSTATUS(status));
    }
    if (rc == 0 && status != 0) {
        out_note(o, "%s", end);
    }
    if (rc == 0 && tells) {
        tell_model(&c, command, end);
    }
    pty_close(&c.pty);
    if (c.gone >= 0) {
        close(c.gone);
    }
    buf_fini(&c.head);
    buf_fini(&c.tail);
    free(command);
}
