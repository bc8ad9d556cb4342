#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/buf.h"
#include "loop/proc.h"
#include "pty/pty.h"
#include "pty_programs.h"
#include "unit/loop.h"

static const struct winsize window = {
    .ws_row = 33, .ws_col = 101, .ws_xpixel = 1010, .ws_ypixel = 660};

struct child {
    bool over;
    struct proc_exit x;
};

static void on_exit_child(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct child *c = arg;
    (void)p;
    c->over = true;
    c->x = *x;
}

static const char *read_all(int master)
{
    static char text[4096];
    size_t have = 0;
    for (ssize_t n; (n = read(master, text + have, sizeof text - 1 - have)) > 0;) {
        have += (size_t)n;
    }
    text[have] = '\0';
    return text;
}

/// Run `script` on a pseudo-terminal of its own and return what it said.
static const char *run_script(const char *script, bool terminal)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct pty p;
    struct loop l;
    struct child c = {0};
    struct proc *proc;
    CHECK_INT(proc_setup_at(PTY_LAUNCHER, NULL), 0);
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(pty_open(&p, &window, NULL, NULL), 0);
    struct proc_opts o = {.argv = argv, .env = env, .in = PROC_FD, .out = PROC_FD, .err = PROC_FD};
    o.in_fd = o.out_fd = o.err_fd = p.slave;
    o.terminal = terminal;
    const struct proc_cb cb = {.on_exit = on_exit_child};
    CHECK_INT(proc_spawn(&proc, &l, &o, &cb, &c, NULL), 0);
    TEST_LOOP_END(&l);
    CHECK(c.over && c.x.launched);
    close(p.slave); // nobody has it any more: reading ends behind the last byte, and waits for that
    p.slave = -1;
    fcntl(p.master, F_SETFL, fcntl(p.master, F_GETFL) & ~O_NONBLOCK);
    const char *text = read_all(p.master);
    pty_close(&p);
    proc_teardown();
    return text;
}

TEST(a_program_gets_the_terminal_as_its_controlling_one)
{
    CHECK_STR(run_script("echo here >/dev/tty", true), "here\r\n");
}

TEST(without_being_asked_for_there_is_no_controlling_terminal)
{
    CHECK(strstr(run_script("echo here >/dev/tty", false), "/dev/tty") != NULL);
}

TEST(a_program_on_a_terminal_keeps_its_core_dumps)
{
    char limit[64];
    FILE *f = popen("ulimit -Hc", "r"); // NOLINT(cert-env33-c): a fixed text
    CHECK(fgets(limit, sizeof limit, f) != NULL);
    pclose(f);
    limit[strcspn(limit, "\n")] = '\0';
    char want[80];
    snprintf(want, sizeof want, "%s\r\n", limit);
    CHECK_STR(run_script("ulimit -Hc", true), want);
}

TEST(the_size_has_its_pixels)
{
    struct pty p;
    struct winsize got, next = {.ws_row = 5, .ws_col = 6, .ws_xpixel = 7, .ws_ypixel = 8};
    CHECK_INT(pty_open(&p, &window, NULL, NULL), 0);
    CHECK_INT(ioctl(p.slave, TIOCGWINSZ, &got), 0);
    CHECK(memcmp(&got, &window, sizeof got) == 0);
    pty_resize(&p, &next);
    CHECK_INT(ioctl(p.slave, TIOCGWINSZ, &got), 0);
    CHECK(memcmp(&got, &next, sizeof got) == 0);
    pty_close(&p);
}

TEST(the_modes_are_those_given)
{
    struct pty p, q;
    struct termios t;
    CHECK_INT(pty_open(&p, &window, NULL, NULL), 0);
    CHECK_INT(tcgetattr(p.slave, &t), 0);
    CHECK((t.c_lflag & ECHO) != 0);
    t.c_lflag &= ~(tcflag_t)ECHO;
    t.c_cc[VERASE] = 'x';
    CHECK_INT(pty_open(&q, &window, &t, NULL), 0);
    CHECK_INT(tcgetattr(q.slave, &t), 0);
    CHECK((t.c_lflag & ECHO) == 0 && t.c_cc[VERASE] == 'x');
    pty_close(&p);
    pty_close(&q);
}
