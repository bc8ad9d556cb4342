// The tour: what works, shown by doing it.
//
// It runs in a temporary home and claims nothing by itself: headings name what is done next, lines after a
// bar are files that it saves as a user would, every other line was printed by a real command. A command
// that does not end as it should ends the tour.
//
//     steps[] ── save a file ── spawn ourselves ── pipe ── indented on stdout
//                                └ AFLOAT_HOME = the private home, no other AFLOAT_*
//
// The hub loads a saved file in its own time, so the effect of a save is asked for until it is there; only
// the last answer is shown.
//
// Invariant: however the tour ends (Ctrl-C and a vanished terminal included), its hub is ended
// before its home is removed.

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/path.h"
#include "base/time.h"
#include "cli/cli_int.h"
#include "client/holder.h"
#include "client/interrupt.h"

enum { MOST_WORDS = 8, OUTPUT_MAX = 1 << 20, END_MS = 10000, UNTIL_MS = 10000, AGAIN_MS = 5 };

struct step {
    const char *heading; // NULL: continues under the last one
    const char *words[MOST_WORDS];
    const char *until; // asked again until it prints this; NULL: asked once
    const char *file;  // saved before, under the home; NULL: none
    const char *text;  // of that file
    int exit;          // what the command must end with
    bool kill;         // kill -9 the hub before
};

static const char hello[] = "on(\"user.ask\", function(q)\n"
                            "  events.emit(\"user.answer\", { text = \"hello \" .. q.name })\n"
                            "end)\n"
                            "events.emit(\"user.ready\", { version = 1 })\n";

static const char good_day[] =
    "on(\"user.ask\", function(q)\n"
    "  events.emit(\"user.answer\", { text = \"good day \" .. q.name })\n"
    "end)\n"
    "events.on(\"improvement.found\", function(f) events.emit(\"user.found\", f) end)\n"
    "events.emit(\"user.ready\", { version = 2 })\n";

static const char broken[] = "on(\"user.ask\", function(q)\n"
                             "  events.emit(\"user.answer\", { text = \"good night \" q.name })\n"
                             "end)\n";

static const char curious[] =
    "timer.after(0, function()\n"
    "  for _, path in ipairs { \"/etc/passwd\", \"../user/init.lua\" } do\n"
    "    local text, why = fs.read(path)\n"
    "    events.emit(\"improvement.found\", { found = text or why })\n"
    "  end\n"
    "end)\n";

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
    {.heading = "Ask again: is there a hub, is the choice kept, do event ids continue?",
     .words = {"feature", "list"}},
    {.words = {"events", "emit", "user.demo", "{\"n\":3}"}},
    {.words = {"events", "--types", "user.*,hub.*"}},
    {.words = {"feature", "enable", "plugins"}},
    {.heading = "Save Lua into the running hub, and ask it something",
     .file = "lua/user/init.lua", .text = hello,
     .words = {"events", "--types", "user.ready"}, .until = "\"version\":1"},
    {.words = {"events", "emit", "user.ask", "{\"name\":\"Ada\"}"}},
    {.words = {"events", "--types", "user.answer"}, .until = "Ada"},
    {.heading = "Save it again with another answer",
     .file = "lua/user/init.lua", .text = good_day,
     .words = {"events", "--types", "user.ready"}, .until = "\"version\":2"},
    {.words = {"events", "emit", "user.ask", "{\"name\":\"Grace\"}"}},
    {.words = {"events", "--types", "user.answer"}, .until = "Grace"},
    {.heading = "Save a broken one: what is said, and who answers?",
     .file = "lua/user/init.lua", .text = broken,
     .words = {"reload"}, .exit = EXIT_RELOAD},
    {.words = {"events", "emit", "user.ask", "{\"name\":\"Edsger\"}"}},
    {.words = {"events", "--types", "user.answer"}, .until = "Edsger"},
    {.heading = "Drop in code as an agent would, which tries to read files outside",
     .file = "lua/improvements/curious.lua", .text = curious,
     .words = {"events", "--types", "user.found"}, .until = "init.lua"},
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
    struct buf line = {.max = OUTPUT_MAX};
    buf_addz(&line, "afloat");
    for (size_t i = 0; i < MOST_WORDS && words[i] != NULL; i++) {
        bool quote = strpbrk(words[i], " {}*\"'") != NULL;
        buf_addf(&line, quote ? " '%s'" : " %s", words[i]);
    }
    char *text = arena_strdup(&d->arena, buf_str(&line));
    buf_fini(&line);
    return text;
}

/// Print each line of `text` after `before`.
static void show_lines(struct out *o, const char *before, enum out_tint tint, struct str text)
{
    while (text.n != 0) {
        out_add(o, str_of(before));
        out_tinted(o, tint, str_cut(&text, '\n'));
        out_add(o, STR("\n"));
    }
}

static void show_heading(struct demo *d, const struct step *s)
{
    if (s->heading != NULL) {
        out_add(&d->c->out, STR("\n"));
        out_tinted(&d->c->out, OUT_BOLD, str_of(s->heading));
        out_add(&d->c->out, STR("\n"));
    }
    if (s->file != NULL) {
        show_lines(&d->c->out, "  > ", OUT_DIM, str_of(s->file));
        show_lines(&d->c->out, "  | ", OUT_DIM, str_of(s->text));
    }
    if (d->verbose) {
        show_lines(&d->c->out, "  $ ", OUT_DIM, str_of(command_line(d, s->words)));
    }
    out_flush(&d->c->out);
}

// ---- a step --------------------------------------------------------------------------------

/// What has to happen before the command: the hub is killed, a file is saved.
static int prepare(struct demo *d, const struct step *s)
{
    struct err e = {0};
    int rc = 0;
    if (s->file != NULL) {
        char *path = arena_printf(&d->arena, "%s/%s", d->home.dir, s->file);
        rc = path_mkdirs(arena_strdup(&d->arena, path_dir(str_of(path))), 0700, &e);
        rc = rc == 0 ? path_write_atomic(path, str_of(s->text), 0600, &e) : rc;
        if (rc < 0) {
            return cli__fail(d->c, &e);
        }
    }
    pid_t pid = s->kill ? holder_find(&d->home) : 0;
    if (pid != 0 && kill(pid, SIGKILL) == 0) {
        rc = holder_wait_gone(pid, 0);
    }
    return rc < 0 ? cli__exit_of(rc) : EXIT_OK;
}

// Run the command, again and again if it has to print something first.
static int run_until(struct demo *d, const struct step *s, struct buf *out, int *code)
{
    uint64_t deadline = interrupt_deadline(UNTIL_MS);
    for (;;) {
        buf_clear(out);
        int rc = run(d, s->words, out, code);
        if (rc < 0 || s->until == NULL || *code != s->exit || strstr(buf_z(out), s->until)) {
            return rc;
        }
        rc = time_mono_ns() < deadline ? interrupt_pause(AGAIN_MS) : ERR_TIMEOUT;
        if (rc < 0) {
            return rc;
        }
    }
}

static int take_step(struct demo *d, const struct step *s)
{
    assert(s->words[0] != NULL && (s->file == NULL) == (s->text == NULL));
    struct buf output = {.max = OUTPUT_MAX};
    int code = 0;
    show_heading(d, s);
    int failed = prepare(d, s);
    if (failed != EXIT_OK) {
        return failed;
    }
    int rc = run_until(d, s, &output, &code);
    show_lines(&d->c->out, "    ", OUT_PLAIN, buf_str(&output));
    out_flush(&d->c->out);
    buf_fini(&output);
    if (rc == -EINTR || d->c->out.fault == EINTR) {
        return EXIT_INTERRUPTED;
    }
    if (rc == ERR_TIMEOUT) {
        out_error(&d->c->out, "the demo ends here: '%s' never printed '%s'",
                  command_line(d, s->words), s->until);
        return EXIT_FAILED;
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
    signal(SIGPIPE, SIG_IGN); // a reader that stops must not keep us from removing the private home
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
