// Tools that are programs: the shell, and grep for search_files.
//
// Every program runs under a supervisor, in the session's box unless that is danger-full-access. When the program
// ends, times out or is interrupted, or the hub dies, everything that it started ends too. stdout and stderr are
// one pipe: the model reads what a terminal would have shown, in that order.

#include <errno.h>
#include <unistd.h>

#include "agent/tool_int.h"
#include "base/path.h"
#include "base/utf8.h"
#include "loop/launch.h"

enum { GRACE_MS = 2000, NAME_LEN = 100 };

// ---- what to run, on the lane ----------------------------------------------------------------

static char *text_of(struct tool_job *c, const struct json *v, const char *fallback)
{
    return arena_strdup(&c->arena, json_str(v, fallback));
}

static int check_text(const struct json *v, const char *what, struct err *e)
{
    struct str s = json_str(v, "");
    if (memchr(s.p, '\0', s.n) != NULL) {
        return err_set(e, ERR_INVALID, "%s holds a NUL byte, which cannot be passed to a program",
                       what);
    }
    return 0;
}

static int choose_dir(struct tool_job *c, struct err *e)
{
    const struct json *cwd = json_get(c->input, "cwd");
    char *path, *real;
    c->command.cwd = box_dir(c->box);
    if (cwd == NULL) {
        return 0;
    }
    int rc = check_text(cwd, "cwd", e);
    if (rc < 0) {
        return rc;
    }
    const char *asked = text_of(c, cwd, "");
    // the box has a /tmp of its own, which we cannot look into
    if (path_below("/tmp", asked) != NULL) {
        c->command.cwd = asked;
        return 0;
    }
    rc = tool__path(c, json_str(cwd, ""), &path, e);
    int fd = rc == 0 ? tool__open(c, path, true, &real, e) : rc;
    if (fd < 0) {
        return fd;
    }
    close(fd);
    c->command.cwd = real;
    return 0;
}

static int run_shell(struct tool_job *c, struct err *e)
{
    const struct json *cmd = json_get(c->input, "cmd");
    const struct json *limit = json_get(c->input, "timeout_s");
    int rc = check_text(cmd, "cmd", e);
    if (rc == 0) {
        rc = choose_dir(c, e);
    }
    if (rc < 0) {
        return rc;
    }
    double seconds = json_double(limit != NULL ? limit : json_get(c->input, "timeout"), 0);
    if (seconds > 0) {
        c->env.timeout_ms = MAX(1, (uint64_t)(seconds * 1000));
    }
    const char **argv = arena_calloc(&c->arena, 4, sizeof *argv);
    argv[0] = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
    argv[1] = "-c";
    argv[2] = text_of(c, cmd, "");
    c->command.argv = argv;
    return 0;
}

const struct tool_ops tool_SHELL = {
    .start = tool__start_job, .cancel = tool__cancel_job, .work = run_shell};

static int search_files(struct tool_job *c, struct err *e)
{
    const struct json *glob = json_get(c->input, "glob");
    size_t n = 0;
    static const char *const texts[] = {"pattern", "path", "glob"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        int rc = check_text(json_get(c->input, texts[i]), texts[i], e);
        if (rc < 0) {
            return rc;
        }
    }
    char *expanded = path_expand_home(text_of(c, json_get(c->input, "path"), "."));
    char *path = arena_strdup(&c->arena, str_of(expanded));
    free(expanded);
    const char **argv = arena_calloc(&c->arena, 10, sizeof *argv);
    argv[n++] = access("/usr/bin/grep", X_OK) == 0
                    ? "/usr/bin/grep" // whatever PATH the session has
                : access("/bin/grep", X_OK) == 0 ? "/bin/grep"
                                                 : "grep";
    argv[n++] = "-rIHnE";
    argv[n++] = "--devices=skip"; // opening a FIFO would wait for a writer
    argv[n++] = "--exclude-dir=.git";
    if (glob != NULL) {
        argv[n++] = arena_printf(&c->arena, "--include=" STR_FMT, STR_ARG(json_str(glob, "")));
    }
    argv[n++] = "-e";
    argv[n++] = text_of(c, json_get(c->input, "pattern"), "");
    argv[n++] = "--";
    argv[n++] = path[0] == '-' ? arena_printf(&c->arena, "./%s", path) : path; // "-" would be stdin
    c->command.argv = argv;
    c->command.cwd = box_dir(c->box);
    c->command.nothing = 1; // grep found no match
    return 0;
}

const struct tool_ops tool_SEARCH_FILES = {
    .start = tool__start_job, .cancel = tool__cancel_job, .work = search_files};

// ---- its end ---------------------------------------------------------------------------------

/// Add why a command failed in the sandbox: a model that does not know tries ten other ways.
static void explain(struct tool_job *c)
{
    static const struct {
        const char *sign, *and;
        const char *hint;
        bool offline;
    } rows[] = {
        {"Network is unreachable", "", "the network is off in this sandbox", true},
        {"resolve host", "", "the network is off in this sandbox", true},
        {"resolution", "", "the network is off in this sandbox", true},
        {"resolving", "", "the network is off in this sandbox", true},
        {"connect to", "", "the network is off in this sandbox", true},
        {"Read-only file system", ".git/", ".git can only be read in this sandbox", false},
        {"No space left on device", "", "the disk is full", false},
    };
    const char *text = buf_z(&c->text);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strstr(text, rows[i].sign) != NULL && strstr(text, rows[i].and) != NULL &&
            !(rows[i].offline && box_network(c->box))) {
            buf_addf(&c->text, "[%s]\n", rows[i].hint);
            return;
        }
    }
}

/// Why the command failed, in the arena; NULL: it succeeded.
static const char *judge(struct tool_job *c)
{
    const struct proc_exit *x = &c->exit;
    if (!x->launched) {
        if (x->no_box != 0 &&
            box_explain(x->no_box, -x->code, BOX_INSTEAD, &c->why) == ERR_UNSUPPORTED) {
            return arena_printf(&c->arena, "SANDBOX_UNAVAILABLE: %s", c->why.msg);
        }
        return c->why.msg;
    }
    if (c->timed_out) {
        return arena_printf(&c->arena, "timed out after %g s", (double)c->env.timeout_ms / 1000);
    }
    if (c->interrupted) {
        return "interrupted";
    }
    if (x->limit == LAUNCH_LIMIT_MEMORY) {
        return arena_printf(&c->arena,
                            "ended: it took more than %llu MiB of memory ([limits] command_mb)",
                            (unsigned long long)(c->env.memory >> 20));
    }
    if (x->limit == LAUNCH_LIMIT_PROCESSES) {
        return arena_printf(&c->arena,
                            "ended: it had more than %llu processes ([limits] command_processes)",
                            (unsigned long long)c->env.processes);
    }
    if (x->signal != 0) {
        return arena_printf(&c->arena, "signal %d", x->signal);
    }
    return x->code != 0 ? arena_printf(&c->arena, "exit %d", x->code) : NULL;
}

static void on_output_done(void *arg)
{
    struct tool_job *c = arg;
    struct tool_result r = {0};
    tool_output_text(c->output, &c->text);
    if (c->command.nothing != 0 && c->exit.code == c->command.nothing && c->text.n == 0) {
        buf_addz(&c->text, "no matches\n");
        c->exit.code = 0;
    }
    r.error = judge(c);
    r.success = r.error == NULL;
    if (!r.success && box_rules(c->box) != NULL) {
        explain(c);
    }
    if (box_has_guards(c->box) && strstr(buf_z(&c->text), "Read-only file system") != NULL) {
        // the kernel's message says neither why nor what to do
        buf_addz(&c->text, "[plugins that the hub loads and scripts of a followed project are "
                           "read-only for commands; write_file and edit_file ask the user]\n");
    }
    r.output = buf_str(&c->text);
    tool__finish(c, &r);
}

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct tool_job *c = arg;
    (void)p;
    c->exit = *x;
    c->proc = NULL;
    timer_stop(&c->timer);
    if (x->why != NULL) {
        err_set(&c->why, x->code, "%s", x->why);
    }
    tool_output_end(c->output, on_output_done, c);
}

// ---- its run ---------------------------------------------------------------------------------

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct tool_job *c = arg;
    (void)which;
    if (bytes.n == 0) {
        return;
    }
    if (!tool_output_add(c->output, bytes)) {
        proc_pause(p, true);
    }
    if (c->cb.on_progress == NULL) {
        return;
    }
    // A character that was cut in two waits in `cut` for its other half.
    struct buf text = {.max = SIZE_MAX};
    buf_adds(&c->cut, bytes);
    size_t n = utf8_cut(c->cut.p, c->cut.n, c->cut.n);
    tool_output_clean(&text, (struct str){c->cut.p, n});
    buf_drop(&c->cut, n);
    if (text.n != 0) {
        c->cb.on_progress(c, buf_str(&text), c->arg);
    }
    buf_fini(&text);
}

static void on_room(void *arg)
{
    struct tool_job *c = arg;
    if (c->proc != NULL) {
        proc_pause(c->proc, false);
    }
}

static void on_timeout(void *arg)
{
    struct tool_job *c = arg;
    c->timed_out = true;
    tool__stop(c);
}

/// The environment of a command in a box, where the client's TMPDIR does not exist.
static const char *const *command_env(struct tool_job *c)
{
    size_t n = str_count(c->env.environment), kept = 0;
    const char **env = arena_calloc(&c->arena, n + 2, sizeof *env);
    for (size_t i = 0; i < n; i++) {
        if (!str_starts(str_of(c->env.environment[i]), "TMPDIR=")) {
            env[kept++] = c->env.environment[i];
        }
    }
    env[kept] = "TMPDIR=/tmp";
    return env;
}

char *tool__output_path(struct arena *a, const char *dir, struct str id)
{
    char name[NAME_LEN + 1];
    size_t n = MIN(id.n, NAME_LEN);
    for (size_t i = 0; i < n; i++) {
        char ch = id.p[i];
        bool plain = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                     (ch >= '0' && ch <= '9') || ch == '-' || ch == '_' || (ch == '.' && i > 0);
        name[i] = (char)(plain ? ch : '_');
    }
    name[n] = '\0';
    return arena_printf(a, "%s/%s.txt", dir, n != 0 ? name : "_");
}

void tool__spawn(struct tool_job *c)
{
    static const struct proc_cb cb = {.on_output = on_output, .on_exit = on_exit_cb};
    bool boxed = box_rules(c->box) != NULL;
    const struct proc_opts opts = {
        .argv = c->command.argv,
        .env = boxed ? command_env(c) : c->env.environment,
        .cwd = c->command.cwd,
        .out = PROC_PIPE,
        .err = PROC_STDOUT,
        .supervise = true,
        .box = box_rules(c->box),
        .network = boxed && box_network(c->box),
        .process_limit = boxed ? c->env.processes : 0,
        .box_memory = boxed ? c->env.memory : 0,
        .umask = &c->umask,
    };
    struct str id = str_of(c->env.call_id != NULL ? c->env.call_id : "");
    char *path = tool__output_path(&c->arena, c->env.outputs_dir, id);
    c->output = tool_output_new(c->env.lane, path, on_room, c);
    timer_init(&c->timer, c->env.loop, on_timeout, c);
    if (proc_spawn(&c->proc, c->env.loop, &opts, &cb, c, &c->why) < 0) {
        struct tool_result r = {.error = c->why.msg};
        tool__finish(c, &r);
        return;
    }
    timer_start(&c->timer, c->env.timeout_ms);
}

void tool__stop(struct tool_job *c)
{
    proc_pause(c->proc, false); // read what it still prints while it ends
    proc_end(c->proc, GRACE_MS);
}
