// The keeper: a process that owns one terminal and outlives the hub.
//
//     started ── started again, in a session of its own ──> program runs ── it ends, or is killed ──> 15 s ──> gone
//                                                  └── socket and hub are gone, abandon_s ──> killed
//
//     program ──> master ──> vt ──> clean bytes ──> tail ──> viewers
//
// The process that the hub starts starts the keeper, and ends when the keeper has answered, so the keeper is no child of the
// hub. An idle keeper does not wake up: the only timers are those above.
//
// The keeper reads the program no faster than its viewers take the output, so that none of them loses bytes. A
// viewer that takes nothing for STALL_MS is not waited for any longer, and gets a snapshot later.

#include "keep/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/path.h"
#include "base/time.h"
#include "keep/keeper_int.h"

enum {
    STAY_MS = 15000,    // after the program's end
    GRACE_MS = 2000,    // from HUP to KILL
    STALL_MS = 1000,    // that the program waits for viewers
    TELL_MS = 500,      // between two titles
    NOTICES = 4,        // notifications in that time
    TURN_BYTES = 16384, // read before others have their turn
    TOLD_FD = 3         // closed when the answer is written
};

// ---- the end -------------------------------------------------------------------------------

static void leave(void *arg)
{
    struct keeper *k = arg;
    if (!k->leaving) {
        k->leaving = true;
        unlink(k->spec.socket);
        loop_stop(&k->loop);
    }
}

/// Signal every process of the program's session: jobs have groups of their own.
static void signal_session(const struct keeper *k, int signum)
{
    struct folder f = folder_open("/proc");
    kill(-k->pid, signum);
    while (folder_next(&f)) {
        int64_t pid;
        if (str_to_i64(str_of(f.name), &pid) && pid > 1 && getsid((pid_t)pid) == (pid_t)k->pid) {
            kill((pid_t)pid, signum);
        }
    }
}

static void on_kill_late(void *arg)
{
    struct keeper *k = arg;
    signal_session(k, SIGKILL);
}

void keeper__kill(struct keeper *k)
{
    if (k->exited) {
        signal_session(k, SIGKILL); // its background jobs
        leave(k);
        return;
    }
    if (!timer_running(&k->killing)) {
        k->lost = true; // no longer than needed from here on
        timer_start(&k->killing, GRACE_MS);
        signal_session(k, SIGHUP);
        signal_session(k, SIGTERM);
        signal_session(k, SIGCONT);
    }
}

static void on_term(int signum, void *arg)
{
    (void)signum;
    keeper__kill(arg);
}

static void on_going(void *arg)
{
    keeper__kill(arg);
}

void keeper__check_abandoned(struct keeper *k)
{
    bool alone = !view__has_hub(k) && access(k->spec.socket, F_OK) != 0;
    if (k->exited || k->leaving) {
        return;
    }
    if (!alone) {
        timer_stop(&k->going);
    } else if (!timer_running(&k->going)) {
        timer_start(&k->going, k->spec.abandon_ms);
    }
}

// ---- the terminal --------------------------------------------------------------------------

static void poll_master(struct keeper *k);

static void on_stalled(void *arg)
{
    struct keeper *k = arg;
    view__give_up_slow(k);
    poll_master(k);
}

static void end_of_output(struct keeper *k)
{
    if (k->exited && !k->drained) {
        k->drained = true;
        view__pump(k);
        timer_start(&k->going, STAY_MS);
        if (k->lost) { // it was killed
            signal_session(k, SIGKILL);
            timer_start(&k->going, 0);
        }
    }
}

/// Read what is there, a turn's worth. Returns false when nothing is left.
static bool read_master(struct keeper *k)
{
    static char bytes[TURN_BYTES];
    size_t n = 0;
    ssize_t got = 0;
    while (n < sizeof bytes && (got = read(k->pty.master, bytes + n, sizeof bytes - n)) > 0) {
        n += (size_t)got;
    }
    buf_clear(&k->clean);
    vt_feed(k->vt, (struct str){bytes, n}, &k->clean);
    tail_add(&k->tail, buf_str(&k->clean));
    view__pump(k);
    return got > 0 || (got < 0 && errno == EINTR);
}

static void write_master(struct keeper *k)
{
    ssize_t n = 1;
    while (k->input.n != 0 && n > 0) {
        n = write(k->pty.master, k->input.p, k->input.n);
        buf_drop(&k->input, n > 0 ? (size_t)n : 0);
    }
    k->input.over = false; // what did not fit is lost, what comes next is not
}

static void on_master(uv_poll_t *p, int status, int events)
{
    struct keeper *k = p->data;
    if (status == 0 && (events & UV_WRITABLE) != 0) {
        write_master(k);
    }
    bool more = status != 0 || (events & UV_READABLE) == 0 || read_master(k);
    if (!more && k->exited) {
        end_of_output(k);
    }
    poll_master(k);
}

/// Ask for what we can use now: not for output while viewers are behind.
static void poll_master(struct keeper *k)
{
    if (k->leaving || k->drained) {
        uv_poll_stop(&k->poll);
        return;
    }
    bool behind = view__is_behind(k);
    if (behind && !timer_running(&k->stalled)) {
        timer_start(&k->stalled, STALL_MS);
    } else if (!behind) {
        timer_stop(&k->stalled);
    }
    k->held = behind;
    int want = (behind ? 0 : UV_READABLE) | (k->input.n != 0 ? UV_WRITABLE : 0);
    if (want == 0) {
        uv_poll_stop(&k->poll);
    } else {
        uv_poll_start(&k->poll, want, on_master);
    }
}

void keeper__type(struct keeper *k, struct str bytes)
{
    if (!k->exited) {
        buf_adds(&k->input, bytes); // dropped when the program reads nothing and too much waits
        write_master(k);
        poll_master(k);
    }
}

void keeper__resize(struct keeper *k, int rows, int cols)
{
    struct winsize w = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    vt_resize(k->vt, rows, cols);
    pty_resize(&k->pty, &w);
}

void keeper__viewers_moved(struct keeper *k)
{
    if (k->held) {
        poll_master(k);
    }
}

// ---- the program ---------------------------------------------------------------------------

static void on_exit_program(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct keeper *k = arg;
    (void)p;
    k->program = NULL;
    k->exited = true;
    k->status = !x->launched ? 127 : x->signal != 0 ? 128 + x->signal : x->code;
    timer_stop(&k->killing);
    if (!x->launched && x->why != NULL) {
        tail_add(&k->tail, str_of(x->why));
    }
    if (!read_master(k)) { // all that it wrote is in the terminal already
        end_of_output(k);
    }
    poll_master(k);
}

static int start_program(struct keeper *k, struct err *e)
{
    static const struct proc_cb cb = {.on_exit = on_exit_program};
    struct winsize w = {.ws_row = (unsigned short)k->spec.rows,
                        .ws_col = (unsigned short)k->spec.cols};
    int rc = pty_open(&k->pty, &w, NULL, e);
    if (rc < 0) {
        return rc;
    }
    struct proc_opts o = {.argv = k->spec.argv,
                          .env = k->spec.env,
                          .cwd = k->spec.cwd,
                          .in = PROC_FD,
                          .out = PROC_FD,
                          .err = PROC_FD,
                          .in_fd = k->pty.slave,
                          .out_fd = k->pty.slave,
                          .err_fd = k->pty.slave,
                          .terminal = true};
    rc = proc_spawn(&k->program, &k->loop, &o, &cb, k, e);
    k->pid = rc == 0 ? proc_pid(k->program) : 0;
    return rc;
}

// ---- what the screen tells -----------------------------------------------------------------

/// A shell sets its title at every prompt: viewers hear of the last one only, twice a second. Of a burst of
/// bells they hear one in that time, of notifications the first few.
static void on_telling(void *arg)
{
    struct keeper *k = arg;
    k->bells = k->notices = 0;
    if (strcmp(k->title_told, vt_title(k->vt)) != 0) {
        free(k->title_told);
        k->title_told = xstrdup(vt_title(k->vt));
        view__note(k, WIRE_TITLE, str_of(k->title_told));
    }
    view__note(k, WIRE_DIRECTORY, str_of(vt_directory(k->vt)));
}

static void tell_soon(struct keeper *k)
{
    if (!timer_running(&k->telling)) {
        timer_start(&k->telling, TELL_MS);
    }
}

static void on_title(struct str title, void *arg)
{
    (void)title;
    tell_soon(arg);
}

static void on_bell(void *arg)
{
    struct keeper *k = arg;
    if (k->bells++ == 0) {
        view__note(k, WIRE_BELL, STR_NULL);
        tell_soon(k);
    }
}

static void on_notify(struct str title, struct str body, void *arg)
{
    struct keeper *k = arg;
    struct buf text = {.max = 4096};
    if (k->notices++ >= NOTICES) {
        return;
    }
    buf_adds(&text, title);
    buf_addc(&text, '\n');
    buf_adds(&text, body);
    view__note(k, WIRE_NOTIFY, buf_str(&text));
    tell_soon(k);
    buf_fini(&text);
}

static void on_mark(char kind, int status, void *arg)
{
    char text[32];
    snprintf(text, sizeof text, "%c %d", kind, status);
    view__note(arg, WIRE_MARK, str_of(text));
}

static void on_answer(struct str bytes, void *arg)
{
    struct keeper *k = arg;
    buf_adds(&k->input, bytes); // written when the bytes at hand were read
}

static const struct vt_cb screen = {.title = on_title,
                                    .directory = on_title,
                                    .bell = on_bell,
                                    .notify = on_notify,
                                    .mark = on_mark,
                                    .answer = on_answer};

void keeper__row(struct keeper *k, struct buf *out)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "id", k->spec.id);
    jw_kint(&w, "pid", k->pid);
    jw_kint(&w, "keeper_pid", getpid());
    jw_kstrz(&w, "cmd", k->spec.argv[0]);
    jw_karr(&w, "args");
    for (size_t i = 1; k->spec.argv[i] != NULL; i++) {
        jw_strz(&w, k->spec.argv[i]);
    }
    jw_end_arr(&w);
    jw_kstrz(&w, "cwd", k->spec.cwd);
    jw_kint(&w, "rows", vt_rows(k->vt));
    jw_kint(&w, "cols", vt_cols(k->vt));
    jw_kint(&w, "started_ms", k->started_ms);
    jw_kstrz(&w, "title", vt_title(k->vt));
    jw_kstrz(&w, "directory", vt_directory(k->vt));
    jw_kint(&w, "offset", (int64_t)k->tail.end);
    jw_key(&w, "status");
    if (k->exited) {
        jw_int(&w, k->status);
    } else {
        jw_null(&w);
    }
    jw_key(&w, "about");
    jw_value(&w, k->spec.about);
    jw_end_obj(&w);
}

// ---- life ----------------------------------------------------------------------------------

static void on_watch(uv_fs_event_t *w, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    (void)status;
    keeper__check_abandoned(w->data);
}

static void init_handles(struct keeper *k)
{
    timer_init(&k->going, &k->loop, on_going, k);
    timer_init(&k->killing, &k->loop, on_kill_late, k);
    timer_init(&k->stalled, &k->loop, on_stalled, k);
    timer_init(&k->telling, &k->loop, on_telling, k);
    k->title_told = xstrdup("");
    buf_init(&k->clean, SIZE_MAX);
    buf_init(&k->input, 1 << 20);
    tail_init(&k->tail, TAIL_BYTES);
    k->vt = vt_new(k->spec.rows, k->spec.cols, k->spec.history, &screen, k);
    k->started_ms = loop_wall(&k->loop);
}

static int open_all(struct keeper *k, struct err *e)
{
    int rc = loop_init(&k->loop, NULL, e);
    if (rc < 0 || (rc = proc_setup(e)) < 0) {
        return rc;
    }
    init_handles(k);
    rc = view__listen(k, e);
    if (rc < 0 || (rc = start_program(k, e)) < 0) {
        return rc;
    }
    rc = uv_poll_init(&k->loop.uv, &k->poll, k->pty.master);
    k->poll.data = k->watch.data = k;
    struct str dir = path_dir(str_of(k->spec.socket));
    char *parent = str_dup(dir);
    if (rc == 0 && uv_fs_event_init(&k->loop.uv, &k->watch) == 0) {
        uv_fs_event_start(&k->watch, on_watch, parent,
                          0); // without it a lost socket is not noticed
    }
    free(parent);
    if (rc < 0) {
        return err_set(e, rc, "cannot watch the terminal: %s", uv_strerror(rc));
    }
    poll_master(k);
    return signal_open(&k->term, &k->loop, SIGTERM, on_term, k, e);
}

static void answer(const struct keeper *k, const struct err *e)
{
    struct buf out = {.max = 4096};
    struct jw w = {.out = &out};
    jw_obj(&w);
    if (e == NULL) {
        jw_kint(&w, "pid", k->pid);
    } else {
        jw_kint(&w, "code", e->code);
        jw_kstrz(&w, "error", e->msg);
    }
    jw_end_obj(&w);
    buf_addc(&out, '\n');
    ssize_t n = write(STDOUT_FILENO, out.p, out.n);
    (void)n; // when the hub is gone, the terminal runs all the same
    buf_fini(&out);
}

/// The standard streams belong to the process that started us.
static void drop_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && null >= 0; fd++) {
        dup2(null, fd);
    }
    if (null > 2) {
        close(null);
    }
}

static int read_stdin(struct buf *out)
{
    char bytes[4096];
    ssize_t n;
    while ((n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR)) {
        buf_add(out, bytes, n > 0 ? (size_t)n : 0);
    }
    return buf_ok(out) ? 0 : -E2BIG;
}

/// Be the keeper. The process that started us waits until TOLD_FD closes.
static int stay(void)
{
    static struct keeper k;
    struct buf in = {.max = 16 << 20};
    struct err e = {.code = ERR_TOO_LARGE, .msg = "what to run is too large"};
    prctl(PR_SET_NAME, "afloat-keep", 0, 0, 0);
    int rc = read_stdin(&in) < 0 ? e.code : spec__read(&k.spec, buf_str(&in), &e);
    if (rc == 0) {
        rc = open_all(&k, &e);
    }
    buf_fini(&in);
    answer(&k, rc < 0 ? &e : NULL);
    drop_streams();
    close(TOLD_FD);
    if (rc < 0) {
        return 1;
    }
    loop_run(&k.loop);
    if (!k.exited) {
        signal_session(&k, SIGKILL);
    }
    return 0; // the kernel takes the rest
}

/// Start the keeper in its own session, and wait for its answer. The keeper stays when we end.
static int leave_behind(void)
{
    char *const argv[] = {(char[]){"afloat"}, (char[]){"keep"}, (char[]){"stay"}, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    int told[2], rc = 1;
    pid_t pid;
    char byte;
    if (pipe2(told, O_CLOEXEC) != 0) {
        return 1;
    }
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    if (posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID) == 0 &&
        posix_spawn_file_actions_adddup2(&files, told[1], TOLD_FD) == 0) {
        rc = posix_spawn(&pid, "/proc/self/exe", &files, &attr, argv, environ);
    }
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    close(told[1]);
    while (rc == 0 && read(told[0], &byte, 1) < 0 && errno == EINTR) {
    }
    return rc == 0 ? 0 : 1;
}

int keeper_main(bool stays)
{
    return stays ? stay() : leave_behind();
}
