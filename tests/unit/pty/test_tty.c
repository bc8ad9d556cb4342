#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pty/pty.h"
#include "pty/tty.h"
#include "unit/test.h"

// Each test plays its part in a child that has a pseudo-terminal as its own; the parent looks at what
// the terminal is left like.

static struct pty pty;
static struct termios before;

static void open_terminal(void)
{
    const struct winsize w = {.ws_row = 24, .ws_col = 80};
    CHECK_INT(pty_open(&pty, &w, NULL, NULL), 0);
    CHECK_INT(tcgetattr(pty.slave, &before), 0);
}

/// Run `part` on the terminal; returns how it ended.
static int play(void (*part)(void))
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        setsid();
        prctl(PR_SET_DUMPABLE, 0);
        if (ioctl(pty.slave, TIOCSCTTY, 0) != 0) {
            _exit(99);
        }
        part();
        _exit(0);
    }
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return status;
}

static void check_restored(void)
{
    struct termios now;
    CHECK_INT(tcgetattr(pty.slave, &now), 0);
    CHECK_INT(now.c_lflag, before.c_lflag);
    CHECK_INT(now.c_iflag, before.c_iflag);
    CHECK_INT(now.c_oflag, before.c_oflag);
}

static void take_and_look(void)
{
    struct termios t;
    if (tty_take(pty.slave, TTY_RAW, NULL) != 0 || tcgetattr(pty.slave, &t) != 0) {
        _exit(1);
    }
    _exit((t.c_lflag & (ECHO | ICANON | ISIG)) == 0 && (t.c_oflag & OPOST) == 0 ? 0 : 2);
}

TEST(raw_is_raw)
{
    open_terminal();
    CHECK_INT(play(take_and_look), 0);
    pty_close(&pty);
}

static void take_and_exit(void)
{
    exit(tty_take(pty.slave, TTY_RAW, NULL) == 0 ? 0 : 1); // NOLINT(concurrency-mt-unsafe)
}

TEST(exit_gives_the_terminal_back)
{
    open_terminal();
    CHECK_INT(play(take_and_exit), 0);
    check_restored();
    pty_close(&pty);
}

static void take_and_crash(void)
{
    tty_set_farewell(STR("bye"));
    if (tty_take(pty.slave, TTY_RAW, NULL) == 0) {
        raise(SIGABRT);
    }
}

TEST(a_crash_gives_the_terminal_back_with_the_farewell)
{
    char text[16];
    open_terminal();
    int status = play(take_and_crash);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    check_restored();
    CHECK_INT(read(pty.master, text, sizeof text), 3);
    CHECK(memcmp(text, "bye", 3) == 0);
    pty_close(&pty);
}

static void take_keys(void)
{
    struct termios t;
    if (tty_take(pty.slave, TTY_KEYS, NULL) != 0 || tcgetattr(pty.slave, &t) != 0) {
        _exit(1);
    }
    bool quiet = (t.c_lflag & (ECHO | ICANON | ISIG | IEXTEN)) == 0;
    bool plain = (t.c_iflag & (ICRNL | IXON)) == 0;
    _exit(quiet && plain && (t.c_oflag & OPOST) != 0 && t.c_cc[VMIN] == 1 ? 0 : 2);
}

TEST(keys_come_one_by_one_and_ctrl_c_is_one_of_them)
{
    open_terminal();
    CHECK_INT(play(take_keys), 0);
    pty_close(&pty);
}

static void type_ahead(void)
{
    char text[16];
    if (tty_take(pty.slave, TTY_QUIET, NULL) != 0 || tty_take(pty.slave, TTY_RAW, NULL) != 0) {
        _exit(1);
    }
    fcntl(pty.slave, F_SETFL, O_RDWR | O_NONBLOCK); // lost, it must fail and not wait
    _exit(read(pty.slave, text, sizeof text) == 4 && memcmp(text, "ls -", 4) == 0 ? 0 : 2);
}

TEST(what_was_typed_ahead_is_kept)
{
    open_terminal();
    CHECK_INT(write(pty.master, "ls -", 4), 4);
    CHECK_INT(play(type_ahead), 0);
    pty_close(&pty);
}

static void from_quiet_to_raw_and_back(void)
{
    if (tty_take(pty.slave, TTY_QUIET, NULL) != 0 || tty_take(pty.slave, TTY_RAW, NULL) != 0) {
        _exit(1);
    }
    tty_give_back();
    tty_give_back();
    _exit(tty_modes() == NULL ? 0 : 2);
}

TEST(the_modes_of_the_beginning_come_back_whatever_was_in_between)
{
    open_terminal();
    CHECK_INT(play(from_quiet_to_raw_and_back), 0);
    check_restored();
    pty_close(&pty);
}

static void as_background_job(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        _exit(tty_take(pty.slave, TTY_RAW, NULL) == -EAGAIN ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

TEST(a_background_job_does_not_touch_the_terminal_and_is_not_stopped)
{
    open_terminal();
    CHECK_INT(play(as_background_job), 0);
    check_restored();
    pty_close(&pty);
}

TEST(a_terminal_opened_again_blocks_or_not_by_itself)
{
    open_terminal();
    int again = tty_reopen(pty.slave, NULL);
    CHECK(again >= 0);
    CHECK((fcntl(again, F_GETFL) & O_NONBLOCK) != 0);
    CHECK((fcntl(pty.slave, F_GETFL) & O_NONBLOCK) == 0);
    close(again);
    pty_close(&pty);
}

static void leave_it_blocking(void)
{
    if (tty_take(pty.slave, TTY_RAW, NULL) != 0) {
        _exit(1);
    }
    fcntl(pty.slave, F_SETFL, fcntl(pty.slave, F_GETFL) | O_NONBLOCK);
    tty_give_back();
    _exit((fcntl(pty.slave, F_GETFL) & O_NONBLOCK) == 0 ? 0 : 2);
}

TEST(given_back_it_blocks_again)
{
    open_terminal();
    CHECK_INT(play(leave_it_blocking), 0);
    pty_close(&pty);
}
