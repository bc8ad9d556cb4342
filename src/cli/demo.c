// The tour: what works, shown by doing it.
//
// It has a home of its own that is gone afterwards, and says nothing about the program by itself:
// the headings name what is done next, every line below them is what a command of ours printed just
// then. A command that does not end as it should ends the tour.
//
//     steps[] ── spawn ourselves ── pipe ── indented on stdout
//                 └ AFLOAT_HOME = the private home, no other AFLOAT_*
//
// Invariant: however the tour ends (Ctrl-C and a vanished terminal included), its hub is ended
// before its home is removed.

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "cli/cli_int.h"
#include "client/holder.h"
#include "client/interrupt.h"

enum { MOST_WORDS = 8, OUTPUT_MAX = 1 << 20, END_MS = 10000 };

struct step {
    const char *heading; // NULL: goes on under the last one
    const char *words[MOST_WORDS];
    int exit;  // what the command must end with
    bool kill; // kill -9 the hub before
};

// clang-format off
static const struct step tour[] = {
    {.heading = "Start a hub in the background, and look at it",
     .words = {"start"}},
    {.words = {"status"}},
    {.heading = "Put events on the stream, and read them back",
     .words = {"events", "emit", "user.demo", "{\"n\":1}"}},
    {.words = {"events", "emit", "user.demo", "{\"n\":2}"}},
    {.words = {"events", "--types", "user.*"}},
    {.heading = "Switch a feature",
     .words = {"feature", "disable", "plugins"}},
    {.words = {"feature", "list"}},
    {.heading = "kill -9 the hub, and look at what is left",
     .words = {"status"}, .exit = EXIT_UNREACHABLE, .kill = true},
    {.heading = "Ask again: is there a hub, is the choice kept, do event ids go on?",
     .words = {"feature", "list"}},
    {.words = {"events", "emit", "user.demo", "{\"n\":3}"}},
    {.words = {"events", "--types", "user.*,hub.*"}},
    {.words = {"feature", "enable", "plugins"}},
    {.heading = "Open it for a browser, then try what a hostile page or program would",
     .words = {"open", "--quiet"}},
    {.words = {"api", "GET", "/feature", "--tcp"}, .exit = EXIT_NOT_ALLOWED},
    {.words = {"api", "GET", "/healthz", "--tcp", "--header", "Host: evil.example"},
     .exit = EXIT_NOT_ALLOWED},
    {.words = {"api", "GET", "/feature", "--header", "Origin: http://evil.example"},
     .exit = EXIT_NOT_ALLOWED},
    {.heading = "Check this machine",
     .words = {"doctor"}},
};

static const struct step ending[] = {
    {.heading = "Stop the hub, and check what it stored",
     .words = {"stop", "--wait"}},
    {.words = {"fsck"}},
    {.words = {"status"}, .exit = EXIT_UNREACHABLE},
};
// clang-format on

struct demo {
    struct cli *c;
    struct arena arena;
    struct home home; // the private one
    char **env;
    bool verbose;
};

// ---- running ourselves ---------------------------------------------------------------------

static char **make_environment(struct demo *d)
{
    vec(char *) all = {0};
    for (char **v = environ; *v != NULL; v++) {
        if (!str_starts(str_of(*v), "AFLOAT_")) {
            vec_push(&all, *v);
        }
    }
    vec_push(&all, arena_printf(&d->arena, "AFLOAT_HOME=%s", d->home.dir));
    vec_push(&all, NULL);
    return all.p;
}

static int spawn(struct demo *d, const char *const *words, int out, pid_t *pid)
{
    char *argv[MOST_WORDS + 2] = {arena_strdup(&d->arena, STR("afloat"))};
    for (size_t i = 0; i < MOST_WORDS && words[i] != NULL; i++) {
        argv[i + 1] = arena_strdup(&d->arena, str_of(words[i]));
    }
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&fa);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&fa, out, STDERR_FILENO);
    int rc = posix_spawn(pid, "/proc/self/exe", &fa, &attr, argv, d->env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&fa);
    return -rc;
}

// All that the command prints. The hub it may start keeps no end of the pipe, so this ends with it.
static int gather(int fd, struct buf *out)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (;;) {
        char chunk[4096];
        int rc = interrupt_wait(&p, 1, 0);
        ssize_t n = rc < 0 ? rc : read(fd, chunk, sizeof chunk);
        if (n <= 0) {
            return (int)n;
        }
        buf_add(out, chunk, (size_t)n);
    }
}

static int run(struct demo *d, const char *const *words, struct buf *out, int *code)
{
    int ends[2], status = 0;
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return -errno;
    }
    int rc = spawn(d, words, ends[1], &pid);
    close(ends[1]);
    if (rc == 0) {
        rc = gather(ends[0], out);
        if (rc < 0) {
            kill(pid, SIGTERM);
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        *code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    close(ends[0]);
    return rc;
}

// ---- showing -------------------------------------------------------------------------------

static char *command_line(struct demo *d, const char *const *words)
{
    struct buf line;
    buf_init(&line, OUTPUT_MAX);
    buf_addz(&line, "afloat");
    for (size_t i = 0; i < MOST_WORDS && words[i] != NULL; i++) {
        bool quote = strpbrk(words[i], " {}*\"'") != NULL;
        buf_addf(&line, quote ? " '%s'" : " %s", words[i]);
    }
    char *text = arena_strdup(&d->arena, buf_str(&line));
    buf_fini(&line);
    return text;
}

static void show_lines(struct out *o, struct str text)
{
    while (text.n != 0) {
        out_add(o, STR("    "));
        out_text(o, str_cut(&text, '\n'));
        out_add(o, STR("\n"));
    }
    out_flush(o);
}

static void show_heading(struct demo *d, const struct step *s)
{
    if (s->heading != NULL) {
        out_add(&d->c->out, STR("\n"));
        out_tinted(&d->c->out, OUT_BOLD, str_of(s->heading));
        out_add(&d->c->out, STR("\n"));
    }
    if (d->verbose) {
        out_add(&d->c->out, STR("  $ "));
        out_tinted(&d->c->out, OUT_DIM, str_of(command_line(d, s->words)));
        out_add(&d->c->out, STR("\n"));
    }
    out_flush(&d->c->out);
}

static int take_step(struct demo *d, const struct step *s)
{
    struct buf output;
    int code = 0;
    show_heading(d, s);
    if (s->kill) {
        pid_t pid = holder_find(&d->home);
        int rc = pid != 0 && kill(pid, SIGKILL) == 0 ? holder_wait_gone(pid, 0) : 0;
        if (rc < 0) {
            return cli__exit_of(rc);
        }
    }
    buf_init(&output, OUTPUT_MAX);
    int rc = run(d, s->words, &output, &code);
    show_lines(&d->c->out, buf_str(&output));
    buf_fini(&output);
    if (rc == -EINTR || d->c->out.fault == EINTR) {
        return EXIT_INTERRUPTED;
    }
    if (rc < 0 || code != s->exit) {
        out_error(&d->c->out, "the demo ends here: '%s' gave exit code %d instead of %d",
                  command_line(d, s->words), rc < 0 ? rc : code, s->exit);
        return EXIT_FAILED;
    }
    return d->c->out.fault != 0 ? EXIT_FAILED : EXIT_OK;
}

static int take_steps(struct demo *d, const struct step *steps, size_t n)
{
    int code = EXIT_OK;
    for (size_t i = 0; i < n && code == EXIT_OK; i++) {
        code = take_step(d, &steps[i]);
    }
    return code;
}

// ---- the private home ----------------------------------------------------------------------

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    (void)at;
    return flag == FTW_DP ? rmdir(path) : unlink(path);
}

static int make_home(struct demo *d, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = arena_printf(&d->arena, "%s/afloat-demo-XXXXXX",
                             tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(dir) == NULL) {
        return err_sys(e, "cannot make a directory for the demo at '%s'", dir);
    }
    unsetenv("AFLOAT_RUNTIME"); // the private home has its own
    int rc = home_resolve(&d->home, dir, e);
    if (rc < 0) {
        rmdir(dir);
    }
    return rc;
}

// Not by a command of ours: this must work after Ctrl-C, and when the tour failed.
static void end_hub(const struct home *h)
{
    pid_t pid = holder_find(h);
    int fd = pid != 0 ? pidfd_open(pid, 0) : -1;
    if (fd < 0) {
        return;
    }
    struct pollfd p = {.fd = fd, .events = POLLIN};
    kill(pid, SIGTERM);
    if (poll(&p, 1, END_MS) == 0) {
        kill(pid, SIGKILL);
        poll(&p, 1, END_MS);
    }
    close(fd);
}

static int serve(struct demo *d)
{
    static const struct step show = {.heading = "Look at it in a browser; Ctrl-C ends it",
                                     .words = {"open"}};
    int code = take_step(d, &show);
    if (code == EXIT_OK && interrupt_wait(NULL, 0, 0) == -EINTR) {
        out_note(&d->c->out, "the demo's hub and home are being removed");
    }
    return code;
}

int cmd_demo(struct cli *c)
{
    struct demo d = {.c = c, .verbose = args_has(&c->args, FLAG_VERBOSE)};
    struct err e = {0};
    bool stays = args_has(&c->args, FLAG_SERVE) && c->out.terminal && isatty(STDIN_FILENO) == 1;
    arena_init(&d.arena);
    signal(SIGPIPE, SIG_IGN); // a reader that goes must not leave the private home behind
    interrupt_catch();
    int code = make_home(&d, &e) < 0 ? cli__fail(c, &e) : EXIT_OK;
    if (code == EXIT_OK) {
        d.env = make_environment(&d);
        code = take_steps(&d, tour, ARRAY_LEN(tour));
        if (code == EXIT_OK) {
            code = stays ? serve(&d) : take_steps(&d, ending, ARRAY_LEN(ending));
        }
        end_hub(&d.home);
        nftw(d.home.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        home_fini(&d.home);
        free(d.env);
    }
    arena_fini(&d.arena);
    return code;
}
