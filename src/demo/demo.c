// The tour: what works, shown by doing it.
//
// It runs in a temporary directory with a home and a project of its own and claims nothing by itself: the
// lines after `$` are commands as one would type them, lines after a bar are files that it saves as a user
// would, every other indented line was printed by a real command. A command that does not end or print as it
// should ends the tour with an error.
//
//     demo_tour[] ── save a file ─┬─ spawn ── pipe ────────────┬── indented on stdout ── pause
//                                 └─ type into a shell ── pty ─┘
//
// The hub loads a saved file in its own time, so the effect of a save is waited for. On a terminal there is a
// pause after each step, by the number of lines to read; Space ends it. --fast leaves the pauses out, and so
// does a stdout that is no terminal.
//
// Invariant: however the tour ends (Ctrl-C and a vanished terminal included), its shell and its hub are ended
// before its directory is removed, and the terminal is as it was.

#include "demo/demo.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/path.h"
#include "base/time.h"
#include "cli/ask.h"
#include "client/holder.h"
#include "client/interrupt.h"
#include "view/table.h"

enum {
    OUTPUT_MAX = 1 << 20,
    END_MS = 10000,
    UNTIL_MS = 20000,
    AGAIN_MS = 20,
    PAUSE_MS = 900,      // to read the command,
    PAUSE_LINE_MS = 220, // each line of what it printed,
    PAUSE_MOST_MS = 4500 // and no longer
};

struct demo {
    struct cli *c;
    struct arena arena;
    char *dir, *project; // `dir` holds all of it
    struct home home;    // the private one
    char **env;
    const char *kept; // the word that "@" is replaced by
    bool paced, verbose;
    struct termios before; // of the terminal, when paced
    pid_t shell;           // 0: none
    int pty;               // the shell's terminal
    struct buf typed;      // what the shell printed since the last line was typed
};

// ---- running commands ----------------------------------------------------------------------

static char **make_environment(struct demo *d)
{
    static const char *const own[] = {
        "HOME=%s",    "HISTFILE=/dev/null",    "TERM=dumb",
        "NO_COLOR=1", "GIT_CONFIG_NOSYSTEM=1", "AFLOAT_PROVIDER=scripted"};
    static const char *const replaced[] = {
        "AFLOAT_", "HOME=",     "HISTFILE=", "TERM=",           "NO_COLOR=",
        "GIT_",    "BASH_ENV=", "ENV=",      "PROMPT_COMMAND=", "SHELL="};
    vec(char *) all = {0};
    for (char **v = environ; *v != NULL; v++) {
        bool ours = false;
        for (size_t i = 0; i < ARRAY_LEN(replaced) && !ours; i++) {
            ours = str_starts(str_of(*v), replaced[i]);
        }
        if (!ours) {
            vec_push(&all, *v);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        vec_push(&all, i == 0 ? arena_printf(&d->arena, "HOME=%s", d->dir)
                              : arena_strdup(&d->arena, str_of(own[i])));
    }
    vec_push(&all, arena_printf(&d->arena, "AFLOAT_HOME=%s", d->home.dir));
    vec_push(&all, NULL);
    return all.p;
}

/// Start `words` in the project. Its output goes to `out`, or with `tty` it gets that terminal for itself.
static int spawn(struct demo *d, const char *const *words, int out, const char *tty, pid_t *pid)
{
    char *argv[DEMO_WORDS + 1] = {0};
    for (size_t i = 0; i < DEMO_WORDS && words[i] != NULL; i++) {
        argv[i] = arena_strdup(&d->arena, str_of(strcmp(words[i], "@") == 0 ? d->kept : words[i]));
    }
    bool ours = strcmp(argv[0], "afloat") == 0;
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t attr;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&fa);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(
        &attr, (short)(POSIX_SPAWN_SETSIGMASK | (tty != NULL ? POSIX_SPAWN_SETSID : 0)));
    posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, tty != NULL ? tty : "/dev/null",
                                     tty != NULL ? O_RDWR : O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, tty != NULL ? STDIN_FILENO : out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&fa, tty != NULL ? STDIN_FILENO : out, STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(&fa, d->project);
    int rc = ours ? posix_spawn(pid, "/proc/self/exe", &fa, &attr, argv, d->env)
                  : posix_spawnp(pid, argv[0], &fa, &attr, argv, d->env);
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
    int rc = spawn(d, words, ends[1], NULL, &pid);
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

/// Run the command, again and again if it has to print something first.
static int run_until(struct demo *d, const struct demo_step *s, struct buf *out, int *code)
{
    assert(s->words[0] != NULL);
    uint64_t deadline = interrupt_deadline(UNTIL_MS);
    for (;;) {
        buf_clear(out);
        int rc = run(d, s->words, out, code);
        if (rc < 0 || s->until == NULL || *code != s->exit ||
            strstr(buf_z(out), s->until) != NULL) {
            return rc;
        }
        rc = time_mono_ns() < deadline ? interrupt_pause(AGAIN_MS) : ERR_TIMEOUT;
        if (rc < 0) {
            return rc;
        }
    }
}

// ---- the shell that stays open -------------------------------------------------------------

/// Read what the shell prints, up to `mark` or, without one, to its end. Carriage returns are left out.
static int read_shell(struct demo *d, const char *mark)
{
    uint64_t deadline = interrupt_deadline(UNTIL_MS);
    struct pollfd p = {.fd = d->pty, .events = POLLIN};
    while (mark == NULL || strstr(buf_z(&d->typed), mark) == NULL) {
        char chunk[4096];
        int rc = interrupt_wait(&p, 1, deadline);
        if (rc <= 0) {
            return rc < 0 ? rc : ERR_TIMEOUT;
        }
        ssize_t n = read(d->pty, chunk, sizeof chunk);
        if (n <= 0) { // a terminal that no process has open reads as EIO
            return mark == NULL ? 0 : -EPIPE;
        }
        for (ssize_t i = 0; i < n; i++) {
            if (chunk[i] != '\r' && chunk[i] != '\a') {
                buf_addc(&d->typed, chunk[i]);
            }
        }
    }
    return 0;
}

static void end_shell(struct demo *d)
{
    if (d->shell != 0) {
        close(d->pty); // hangs it up
        kill(d->shell, SIGTERM);
        while (waitpid(d->shell, NULL, 0) < 0 && errno == EINTR) {
        }
        d->shell = 0;
    }
}

static const char prompt[] =
    "(afloat) $ "; // by the .bashrc of the place, and the mark of our shells

static int begin_shell(struct demo *d)
{
    assert(d->shell == 0);
    static const char *const words[DEMO_WORDS] = {"afloat", "shell", "--shell", "/bin/bash"};
    char name[64];
    d->pty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (d->pty < 0 || grantpt(d->pty) != 0 || unlockpt(d->pty) != 0 ||
        ptsname_r(d->pty, name, sizeof name) != 0) {
        return -errno;
    }
    int rc = spawn(d, words, -1, name, &d->shell);
    if (rc < 0) {
        close(d->pty);
        d->shell = 0;
        return rc;
    }
    return read_shell(d, prompt);
}

/// Type a line and wait for the prompt after it; again, until the expected text was printed: a saved file takes a moment
/// to reach the shell. The last output, with the echo of the typed line, is left in `d->typed`.
static int type_line(struct demo *d, const struct demo_step *s)
{
    assert(s->typed != NULL);
    int rc = d->shell == 0 ? begin_shell(d) : 0;
    bool ends = strcmp(s->typed, "exit") == 0;
    char *line = arena_printf(&d->arena, "%s\n", s->typed);
    const char *after = ends ? NULL : arena_printf(&d->arena, "\n%s", prompt);
    uint64_t deadline = interrupt_deadline(UNTIL_MS);
    for (bool done = false; rc == 0 && !done;) {
        buf_clear(&d->typed);
        rc = write(d->pty, line, strlen(line)) < 0 ? -errno : read_shell(d, after);
        done = s->until == NULL || strstr(buf_z(&d->typed), s->until) != NULL;
        if (rc == 0 && !done) {
            rc = time_mono_ns() < deadline ? interrupt_pause(AGAIN_MS) : ERR_TIMEOUT;
        }
    }
    if (ends) {
        end_shell(d);
    }
    return rc;
}

// ---- showing -------------------------------------------------------------------------------

static const char *command_line(struct demo *d, const struct demo_step *s)
{
    struct buf line = {.max = OUTPUT_MAX};
    buf_addz(&line, s->typed != NULL ? s->typed : "");
    for (size_t i = 0; i < DEMO_WORDS && s->words[i] != NULL; i++) {
        const char *word = strcmp(s->words[i], "@") == 0 ? d->kept : s->words[i];
        buf_addf(&line, strpbrk(word, " {}*\"") != NULL ? "%s'%s'" : "%s%s", i != 0 ? " " : "",
                 word);
    }
    const char *text = arena_strdup(&d->arena, buf_str(&line));
    buf_fini(&line);
    return text;
}

/// Print a file that was saved, each line after a bar.
static void show_file(struct out *o, struct str text)
{
    while (text.n != 0) {
        out_add(o, STR("  | "));
        out_tinted(o, OUT_DIM, str_cut(&text, '\n'));
        out_add(o, STR("\n"));
    }
}

/// Print what a command printed. A terminal that is too narrow for a line gets it in rows that end with words.
static void show_lines(struct out *o, struct str text)
{
    while (text.n != 0) {
        out_add(o, STR("    "));
        table_print_text(o, str_cut(&text, '\n'), 4);
    }
}

/// A pause to read so many lines, which Space ends.
static int pause_for(struct demo *d, size_t lines)
{
    uint64_t ms = MIN((uint64_t)PAUSE_MS + lines * PAUSE_LINE_MS, (uint64_t)PAUSE_MOST_MS);
    uint64_t deadline = interrupt_deadline(ms);
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    out_flush(&d->c->out);
    while (d->paced) {
        char key;
        int rc = interrupt_wait(&p, 1, deadline);
        if (rc <= 0) {
            return rc;
        }
        if (read(STDIN_FILENO, &key, 1) != 1 || key == ' ') {
            return 0;
        }
    }
    return 0;
}

static void show_next(struct out *o)
{
    struct table t;
    table_init(&t, 2);
    for (const struct demo_next *n = demo_next; n->command != NULL; n++) {
        table_addf(&t, "  %s", n->command);
        table_addf(&t, "%s", n->text);
    }
    table_print(&t, o);
    table_fini(&t);
}

/// Show the next step before it runs.
static int announce(struct demo *d, const struct demo_step *s)
{
    struct out *o = &d->c->out;
    size_t lines = 0;
    if (s->heading != NULL || s->text != NULL) {
        out_add(o, STR("\n"));
    }
    if (s->heading != NULL) {
        out_tinted(o, OUT_BOLD, str_of(s->heading));
        out_add(o, STR("\n"));
    }
    if (s->text != NULL) {
        table_print_text(o, str_of(s->text), 0);
        lines += 2;
    }
    if (s->file != NULL) {
        const char *name = str_starts(str_of(s->file), "~/") ? s->file + 2 : s->file;
        out_addf(o, "\n  saved %s%s:\n", name != s->file ? "~/.afloat/" : "", name);
        show_file(o, str_of(s->content));
        lines += str_lines(str_of(s->content));
    }
    if (s->kill) {
        out_addf(o, "\n  $ kill -9 %d\n", (int)holder_find(&d->home));
    }
    if (!s->quiet) {
        out_add(o, STR("\n  $ "));
        out_tinted(o, OUT_GREEN, str_of(command_line(d, s)));
        out_add(o, STR("\n"));
    }
    return lines != 0 ? pause_for(d, lines) : 0;
}

// ---- a step --------------------------------------------------------------------------------

/// Prepare the command: save a file, kill the hub.
static int prepare(struct demo *d, const struct demo_step *s)
{
    struct err e = {0};
    int rc = 0;
    if (s->file != NULL) {
        bool home = str_starts(str_of(s->file), "~/");
        char *path = arena_printf(&d->arena, "%s/%s", home ? d->home.dir : d->project,
                                  home ? s->file + 2 : s->file);
        rc = path_mkdirs(arena_strdup(&d->arena, path_dir(str_of(path))), 0700, &e);
        rc = rc == 0 ? path_write_atomic(path, str_of(s->content), 0600, &e) : rc;
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

/// Keep the word of `output` that follows `mark`.
static void keep_word(struct demo *d, const char *mark, const char *output)
{
    const char *at = strstr(output, mark);
    if (at != NULL) {
        struct str rest = str_of(at + strlen(mark));
        d->kept = arena_strdup(&d->arena, str_cut(&rest, ' '));
    }
}

/// Show what the step printed. Of a shell the first line is the one that was typed, and the last its prompt.
static int show_output(struct demo *d, const struct demo_step *s, struct str text)
{
    if (s->quiet) {
        return 0;
    }
    if (s->typed != NULL) {
        str_cut(&text, '\n');
        text.n -= str_ends(text, prompt) ? strlen(prompt) : 0;
    }
    show_lines(&d->c->out, text);
    return pause_for(d, str_lines(text));
}

static int take_step(struct demo *d, const struct demo_step *s)
{
    assert((s->words[0] != NULL) != (s->typed != NULL));
    assert((s->file == NULL) == (s->content == NULL));
    struct buf output = {.max = OUTPUT_MAX};
    int code = s->exit, rc = announce(d, s);
    uint64_t began = time_mono_ns();
    int failed = prepare(d, s);
    if (failed != EXIT_OK) {
        return failed;
    }
    if (rc == 0) {
        rc = s->typed != NULL ? type_line(d, s) : run_until(d, s, &output, &code);
    }
    uint64_t took = (time_mono_ns() - began) / 1000000;
    struct str text = buf_str(s->typed != NULL ? &d->typed : &output);
    if (s->keep != NULL) {
        keep_word(d, s->keep, buf_z(&output));
    }
    int shown = show_output(d, s, text);
    if (d->verbose && !s->quiet) {
        out_addf(&d->c->out, "    (%" PRIu64 " ms)\n", took);
    }
    buf_fini(&output);
    if (rc == -EINTR || shown == -EINTR || d->c->out.fault == EINTR) {
        return EXIT_INTERRUPTED;
    }
    if (rc == ERR_TIMEOUT || rc == -EPIPE) {
        out_error(&d->c->out, "the demo ends here: '%s' %s%s%s", command_line(d, s),
                  s->until != NULL ? "never printed '" : "did not end in time",
                  s->until != NULL ? s->until : "", s->until != NULL ? "'" : "");
        return EXIT_FAILED;
    }
    if (rc < 0 || code != s->exit) {
        out_error(&d->c->out,
                  rc == -ENOENT ? "the demo ends here: '%s' cannot be run: is it installed?"
                                : "the demo ends here: '%s' gave exit code %d instead of %d",
                  command_line(d, s), rc < 0 ? rc : code, s->exit);
        return EXIT_FAILED;
    }
    return d->c->out.fault != 0 ? EXIT_FAILED : EXIT_OK;
}

static int take_steps(struct demo *d, const struct demo_step *steps, size_t n)
{
    int code = EXIT_OK;
    for (size_t i = 0; i < n && code == EXIT_OK; i++) {
        code = take_step(d, &steps[i]);
    }
    return code;
}

// ---- the private place ---------------------------------------------------------------------

/// The directory with its home, and a project that is a git repository with one file.
static int make_place(struct demo *d, struct err *e)
{
    static const struct demo_step begin[] = {
        {.words = {"git", "init", "-q", "."}, .quiet = true},
        {.words = {"git", "config", "user.name", "You"}, .quiet = true},
        {.words = {"git", "config", "user.email", "you@localhost"}, .quiet = true},
        {.words = {"git", "add", "notes.txt"}, .quiet = true},
        {.words = {"git", "commit", "-qm", "Begin"}, .quiet = true},
    };
    const char *tmp = getenv("TMPDIR");
    d->dir = arena_printf(&d->arena, "%s/afloat-demo-XXXXXX",
                          tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
    if (mkdtemp(d->dir) == NULL) {
        err_sys(e, "cannot make a directory for the demo at '%s'", d->dir);
        d->dir = NULL;
        cli__fail(d->c, e);
        return EXIT_FAILED; // whatever is missing, the user did not ask for it
    }
    char *home = arena_printf(&d->arena, "%s/.afloat", d->dir);
    d->project = arena_printf(&d->arena, "%s/project", d->dir);
    unsetenv("AFLOAT_RUNTIME"); // the private home has its own
    int rc = path_mkdirs(home, 0700, e);
    rc = rc == 0 ? path_mkdirs(d->project, 0755, e) : rc;
    rc = rc == 0 ? path_write_atomic(arena_printf(&d->arena, "%s/.bashrc", d->dir),
                                     STR("PS1='$ '\n"), 0600, e)
                 : rc;
    rc = rc == 0 ? path_write_atomic(arena_printf(&d->arena, "%s/notes.txt", d->project),
                                     STR("hello from the tour\n"), 0644, e)
                 : rc;
    rc = rc == 0 ? home_resolve(&d->home, home, e) : rc;
    if (rc < 0) {
        return cli__fail(d->c, e);
    }
    d->env = make_environment(d);
    return take_steps(d, begin, ARRAY_LEN(begin));
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
    static const struct demo_step show = {.heading = "Look at it in a browser; Ctrl-C ends it",
                                          .words = {"afloat", "open"}};
    int code = take_step(d, &show);
    if (code == EXIT_OK && interrupt_wait(NULL, 0, 0) == -EINTR) {
        out_note(&d->c->out, "the demo's hub and home are being removed");
    }
    return code;
}

/// Take keys one by one and unseen while the tour is paced.
static void set_keys(struct demo *d)
{
    d->paced = d->paced && tcgetattr(STDIN_FILENO, &d->before) == 0;
    if (d->paced) {
        struct termios now = d->before;
        now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &now);
    }
}

int demo_main(struct cli *c)
{
    bool terminal = c->out.terminal && isatty(STDIN_FILENO) == 1;
    struct demo d = {.c = c,
                     .typed = {.max = OUTPUT_MAX},
                     .kept = "",
                     .verbose = args_has(&c->args, FLAG_VERBOSE),
                     .paced = terminal && !args_has(&c->args, FLAG_FAST)};
    struct err e = {0};
    signal(SIGPIPE, SIG_IGN); // a reader that stops must not keep us from removing the private home
    interrupt_catch();
    set_keys(&d);
    int code = make_place(&d, &e);
    if (code == EXIT_OK) {
        table_print_text(&c->out,
                         STR("A tour of Afloat, a workbench for AI agents in which everything "
                             "changes while it runs."),
                         0);
        table_print_text(&c->out, STR("It uses a private directory and removes it at the end."), 0);
        out_add(&c->out, d.paced ? STR("Press Space to skip ahead, Ctrl-C to stop.\n") : STR(""));
        code = take_steps(&d, demo_tour, n_demo_tour);
    }
    if (code == EXIT_OK) {
        out_add(&c->out, STR("\n"));
        out_tinted(&c->out, OUT_BOLD, STR("What to type next"));
        out_add(&c->out, STR("\n"));
        show_next(&c->out);
        out_flush(&c->out);
        bool stays = args_has(&c->args, FLAG_SERVE) && terminal;
        code = stays ? serve(&d) : take_steps(&d, demo_ending, n_demo_ending);
    }
    end_shell(&d);
    if (d.home.dir != NULL) {
        end_hub(&d.home);
        home_fini(&d.home);
    }
    if (d.dir != NULL && path_remove_tree(d.dir, &e) < 0) {
        out_note(&c->out, "%s", e.msg);
    }
    if (d.paced) {
        tcsetattr(STDIN_FILENO, TCSANOW, &d.before);
    }
    free(d.env);
    buf_fini(&d.typed);
    arena_fini(&d.arena);
    return code;
}
