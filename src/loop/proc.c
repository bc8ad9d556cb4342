// Starting programs and learning how they ended.
//
//     proc_spawn ── uv_spawn("/proc/self/fd/N") ──> afloat-launch ──> program
//         │ pipes for stdin, stdout, stderr; the channel (see launch.h)
//         ▼
//     running ── process gone, channel closed, not paused ──> drain pipes ──> close ──> on_exit
//
// Three things end in any order: the process (SIGCHLD), the channel, the streams. All callbacks only note what
// ended and look again from the deferred queue; only there, when process and channel are both over, what is
// still in the pipes is delivered and everything is closed. The last handle that has closed calls on_exit. So a
// stream which a grandchild keeps open cannot hold back the end, and nothing that was written before is lost.
//
// Invariants:
//   - `n_handles` counts the uv handles not closed yet; the struct goes with the last one.
//   - on_exit is called exactly once for each proc_spawn() that succeeded.
//   - the launcher's descriptor is above all numbers given to children, so that arranging these in the child
//     cannot overwrite it.

#include "loop/proc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/path.h"
#include "loop/proc_int.h"

enum { STREAMS = 3, CHANNEL = LAUNCH_CHANNEL_FD, N_STDIO, LAUNCHER_FD_MIN = 64, OPTIONS_MAX = 17 };

static struct {
    int fd;       // of the launcher, O_PATH; 0 before proc_setup()
    rlim_t files; // soft limit before the hub raised its own
    mode_t umask;
    bool has_umask;
} launcher;

// ---- ending --------------------------------------------------------------------------------

static void on_closed(uv_handle_t *h)
{
    struct proc *p = h->data;
    assert(p->n_handles != 0);
    if (--p->n_handles != 0) {
        return;
    }
    if (p->running) {
        p->cb.on_exit(p, &p->result, p->arg);
    }
    free(p->program);
    free(p->cwd);
    free(p);
}

void proc__adopt(struct proc *p, uv_handle_t *h)
{
    h->data = p;
    p->n_handles++;
}

void proc__drop(uv_handle_t *h)
{
    uv_close(h, on_closed);
}

static void close_all(struct proc *p)
{
    assert(!p->closing);
    p->closing = true;
    timer_stop(&p->grace);
    if (p->step != NULL) {
        loop_cancel(p->loop, p->step);
    }
    proc__stream_close(&p->in);
    proc__stream_close(&p->out);
    proc__stream_close(&p->err);
    proc__drop((uv_handle_t *)&p->channel);
    if (p->process.data != NULL) { // else we did not come as far as spawning
        proc__drop((uv_handle_t *)&p->process);
    }
}

static void on_step(void *arg)
{
    struct proc *p = arg;
    p->step = NULL;
    if (!p->exited || !p->channel_over) {
        return;
    }
    proc__stream_drain(&p->out);
    proc__stream_drain(&p->err);
    if (!p->paused && !p->closing) {
        close_all(p);
    }
}

void proc__kick(struct proc *p)
{
    if (p->step == NULL && !p->closing) {
        p->step = loop_defer(p->loop, on_step, p);
    }
}

static void on_process_exit(uv_process_t *process, int64_t status, int signum)
{
    struct proc *p = container_of(process, struct proc, process);
    p->exited = true;
    if (!p->supervised && p->result.launched) {
        p->result.code = signum != 0 ? -1 : (int)status;
        p->result.signal = signum;
    } else if (p->supervised && signum != 0) {
        p->result.signal = signum; // the supervisor itself was killed; no report follows
    }
    proc__kick(p);
}

// ---- the channel ---------------------------------------------------------------------------

static void take_report(struct proc *p, const struct launch_report *r)
{
    if (r->kind == LAUNCH_LISTENS) {
        if (uv_pipe_pending_count(&p->channel) != 0 && p->cb.on_listen != NULL) {
            p->cb.on_listen(p, (uv_stream_t *)&p->channel, p->arg);
        }
    } else if (r->kind == LAUNCH_LIMITED) {
        p->result.limit = r->value;
    } else if (r->kind == LAUNCH_ENDED) {
        if (p->result.launched) {
            p->result.signal = WIFSIGNALED(r->value) ? WTERMSIG(r->value) : 0;
            p->result.code = WIFEXITED(r->value) ? WEXITSTATUS(r->value) : -1;
        }
    } else { // a failure
        int code = -r->value;
        const char *what = r->kind == LAUNCH_NO_DIR       ? "enter"
                           : r->kind == LAUNCH_NO_PROGRAM ? "run"
                                                          : "prepare";
        err_set(&p->why, code, "cannot %s '%s': %s", what,
                r->kind == LAUNCH_NO_DIR ? p->cwd : p->program, uv_strerror(code));
        p->result = (struct proc_exit){.code = code,
                                       .why = p->why.msg,
                                       .no_box = r->kind >= LAUNCH_NO_NAMESPACE ? r->kind : 0};
    }
}

/// libuv reads straight into the report under way; two never mix.
static void on_channel_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    struct proc *p = h->data;
    (void)suggested;
    *buf =
        uv_buf_init((char *)&p->report + p->n_report, (unsigned)(sizeof p->report - p->n_report));
}

static void on_channel_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct proc *p = container_of(stream, struct proc, channel);
    (void)buf;
    if (n < 0) {
        uv_read_stop(stream);
        p->channel_over = true;
        proc__kick(p);
        return;
    }
    p->n_report += (size_t)n;
    assert(p->n_report <= sizeof p->report);
    if (p->n_report == sizeof p->report) {
        p->n_report = 0;
        take_report(p, &p->report);
    }
}

// ---- starting ------------------------------------------------------------------------------

/// A list as libuv wants it: pointers that it could write through, and does not.
static char **pointers(struct arena *a, const char *const *list)
{
    size_t n = str_count(list);
    char **out = arena_calloc(a, n + 1, sizeof *out);
    if (n != 0) {
        memcpy(out, list, n * sizeof *out);
    }
    return out;
}

static void add_number(struct arena *a, char **args, size_t *n, char letter, uint64_t value)
{
    if (value != 0) {
        args[(*n)++] = arena_printf(a, "-%c%llu", letter, (unsigned long long)value);
    }
}

static void add_word(struct arena *a, char **args, size_t *n, const char *word)
{
    args[(*n)++] = arena_strdup(a, str_of(word));
}

/// The launcher's command line: its options, then the program's own words.
static char **command_line(struct arena *a, const struct proc_opts *o)
{
    size_t max = OPTIONS_MAX + 2 * str_count(o->box), words = str_count(o->argv), n = 0;
    char **args = arena_calloc(a, max + words + 1, sizeof *args);
    add_word(a, args, &n, "afloat-launch");
    if (o->supervise) {
        add_word(a, args, &n, "-s");
    }
    if (o->fd3 != 0) {
        add_word(a, args, &n, "-3");
    }
    if (o->terminal) {
        add_word(a, args, &n, "-c");
    }
    add_word(a, args, &n, "-d");
    add_word(a, args, &n, o->cwd != NULL ? o->cwd : "/");
    if (o->umask != NULL || launcher.has_umask) {
        args[n++] =
            arena_printf(a, "-k%u", (unsigned)(o->umask != NULL ? *o->umask : launcher.umask));
    }
    add_number(a, args, &n, 'f', o->file_limit != 0 ? o->file_limit : launcher.files);
#define X(letter, resource, member) add_number(a, args, &n, letter, o->member);
    LAUNCH_LIMITS(X)
#undef X
    assert(o->box == NULL || o->supervise);
    if (o->box != NULL) {
        add_word(a, args, &n, "-x");
        add_number(a, args, &n, 'M', o->box_memory);
    }
    for (size_t i = 0; i < str_count(o->box); i++) {
        add_word(a, args, &n, "-b");
        add_word(a, args, &n, o->box[i]);
    }
    if (o->network || o->loopback) {
        assert(!o->network || !o->loopback);
        add_word(a, args, &n, o->network ? "-n" : "-l");
    }
    add_word(a, args, &n, "--");
    assert(n <= max);
    memcpy(args + n, o->argv, words * sizeof *args);
    return args;
}

static int start(struct proc *p, const struct proc_opts *o)
{
    uv_stdio_container_t stdio[N_STDIO];
    int child_fds[STREAMS] = {-1, -1, -1};
    uv_pipe_init(&p->loop->uv, &p->channel, o->loopback);
    proc__adopt(p, (uv_handle_t *)&p->channel);
    int rc = proc__stream_open(p, &p->in, 0, o->in, o->in_fd, &stdio[0], &child_fds[0]);
    if (rc == 0) {
        rc = proc__stream_open(p, &p->out, 1, o->out, o->out_fd, &stdio[1], &child_fds[1]);
    }
    if (rc == 0 && o->err == PROC_STDOUT) {
        stdio[2] = stdio[1];
    } else if (rc == 0) {
        rc = proc__stream_open(p, &p->err, 2, o->err, o->err_fd, &stdio[2], &child_fds[2]);
    }
    stdio[LAUNCH_EXTRA_FD].flags = o->fd3 != 0 ? UV_INHERIT_FD : UV_IGNORE;
    stdio[LAUNCH_EXTRA_FD].data.fd = o->fd3;
    stdio[CHANNEL].flags = UV_CREATE_PIPE | UV_READABLE_PIPE | UV_WRITABLE_PIPE;
    stdio[CHANNEL].data.stream = (uv_stream_t *)&p->channel;
    if (rc == 0) {
        char file[64];
        struct arena a = {0};
        snprintf(file, sizeof file, "/proc/self/fd/%d", launcher.fd);
        const uv_process_options_t opts = {
            .file = file,
            .args = command_line(&a, o),
            .env = pointers(&a, o->env),
            .stdio = stdio,
            .stdio_count = N_STDIO,
            .exit_cb = on_process_exit,
            .flags = UV_PROCESS_DETACHED, // a new session before we return: kill(-pid) is safe
        };
        rc = uv_spawn(&p->loop->uv, &p->process, &opts);
        proc__adopt(p, (uv_handle_t *)&p->process);
        arena_fini(&a);
    }
    for (int i = 0; i < STREAMS; i++) {
        if (child_fds[i] >= 0) {
            close(child_fds[i]);
        }
    }
    return rc;
}

void proc_set_umask(mode_t mask)
{
    launcher.umask = mask;
    launcher.has_umask = true;
}

mode_t proc_umask(void)
{
    if (launcher.has_umask) {
        return launcher.umask;
    }
    mode_t mask = umask(077); // there is no other way to ask
    umask(mask);
    return mask;
}

bool proc_umask_parse(struct str text, mode_t *out)
{
    mode_t mask = 0;
    bool good = text.n != 0 && text.n <= 4;
    for (size_t i = 0; i < text.n && good; i++) {
        good = text.p[i] >= '0' && text.p[i] <= '7';
        mask = mask << 3 | (mode_t)(text.p[i] - '0');
    }
    good = good && mask <= 0777;
    *out = good ? mask : *out;
    return good;
}

static void on_grace_over(void *arg)
{
    proc_kill(arg, SIGKILL);
}

char *proc_launcher_path(struct err *e)
{
    char *program = path_own_program(e), *path = NULL;
    if (program != NULL) {
        path = xasprintf(STR_FMT "/afloat-launch", STR_ARG(path_dir(str_of(program))));
    }
    free(program);
    return path;
}

int proc_setup(struct err *e)
{
    char *path = proc_launcher_path(e);
    int rc = path != NULL ? proc_setup_at(path, e) : UV_ENOENT;
    free(path);
    return rc;
}

int proc_setup_at(const char *path, struct err *e)
{
    struct rlimit files;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(e, "cannot open launcher '%s'", path);
    }
    int high = fcntl(fd, F_DUPFD_CLOEXEC, LAUNCHER_FD_MIN);
    close(fd);
    if (high < 0 || getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return err_sys(e, "cannot keep launcher '%s' open", path);
    }
    launcher.fd = high;
    launcher.files = files.rlim_cur;
    return 0;
}

void proc_teardown(void)
{
    if (launcher.fd != 0) {
        close(launcher.fd);
        launcher.fd = 0;
    }
}

int proc_spawn(struct proc **out, struct loop *l, const struct proc_opts *opts,
               const struct proc_cb *cb, void *arg, struct err *e)
{
    assert(launcher.fd != 0 && opts->argv[0] != NULL);
    struct proc *p = xcalloc(1, sizeof *p);
    p->loop = l;
    p->cb = *cb;
    p->arg = arg;
    p->supervised = opts->supervise;
    p->program = xstrdup(opts->argv[0]);
    p->cwd = xstrdup(opts->cwd != NULL ? opts->cwd : "/");
    p->result = (struct proc_exit){.code = -1, .launched = true};
    timer_init(&p->grace, l, on_grace_over, p);
    *out = NULL;
    int rc = start(p, opts);
    if (rc < 0) {
        err_set(e, rc, "cannot start launcher for '%s': %s", opts->argv[0], uv_strerror(rc));
        close_all(p);
        return rc;
    }
    p->running = true;
    *out = p;
    proc__stream_read(&p->out, true);
    proc__stream_read(&p->err, true);
    if (uv_read_start((uv_stream_t *)&p->channel, on_channel_alloc, on_channel_read) < 0) {
        p->channel_over = true;
    }
    return 0;
}

void proc_pause(struct proc *p, bool paused)
{
    if (p->paused == paused || p->closing) {
        return;
    }
    p->paused = paused;
    proc__stream_read(&p->out, !paused);
    proc__stream_read(&p->err, !paused);
    proc__kick(p);
}

void proc_kill(struct proc *p, int signum)
{
    struct launch_order order = {.signal = signum};
    if (p->exited || p->closing) {
        return;
    }
    if (p->supervised) {
        uv_buf_t buf = uv_buf_init((char *)&order, sizeof order);
        uv_try_write((uv_stream_t *)&p->channel, &buf, 1); // fails only when it is ending already
    } else {
        kill(-p->process.pid, signum);
    }
}

void proc_end(struct proc *p, uint64_t grace_ms)
{
    if (!p->exited && !p->closing) {
        proc_kill(p, SIGTERM);
        timer_start(&p->grace, grace_ms);
    }
}

int proc_pid(const struct proc *p)
{
    return p->process.pid;
}
