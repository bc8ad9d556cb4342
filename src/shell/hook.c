// The background process of `afloat hook`.
//
// It never touches the shell: it writes numbered files, and the shell looks for the next number at its
// prompt, which costs one test and no process. A signal that does nothing by default (SIGURG, for which
// the hook has a trap) lets the shell look before its next command too. Files are removed when they are
// acknowledged, and all of them at the end, since they may hold secrets.
//
// What there is to say waits in a file of its own, for the prompt: a signal may come while the user types.

#include "shell/hook.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "base/visible.h"
#include "env/render.h"
#include "env/shipped.h"
#include "loop/signal.h"
#include "loop/timer.h"
#include "shell/dir.h"
#include "shell/report.h"
#include "watch/watch.h"

enum {
    LOOK_MS = 1000,  // whether the shell lives, where the kernel cannot tell
    RETRY_MS = 1000, // what could not be written: the disk is full
};

/// What a note tells: why the last build failed, or that the kernel does not report changes.
enum note { NOTE_FAILED, NOTE_WATCH };

struct serve {
    const struct hook_opts *o;
    struct loop loop;
    struct watcher *watcher;
    struct watch *watch; // of the directory
    struct env_coord *coord;
    struct env_session *session;
    struct report *report;
    unsigned long n, acked; // of the last file; those up to `acked` are removed
    uint64_t offered;       // generation in the last file
    char *notes[2];         // what the shell has not shown yet, by enum note; NULL: nothing
    uv_poll_t shell;
    int shell_fd; // -1: none
    struct timer look, retry;
    struct signal_watch *term;
    bool over;
};

static void stop(struct serve *s)
{
    if (s->over) {
        return;
    }
    s->over = true;
    timer_stop(&s->look);
    timer_stop(&s->retry);
    report_close(s->report);
    env_coord_close(s->coord);
    watch_close(s->watch);
    watcher_close(s->watcher);
    signal_close(s->term);
    if (s->shell_fd >= 0) {
        uv_close((uv_handle_t *)&s->shell, NULL);
    }
}

// ---- the shell's life ------------------------------------------------------------------------

static void on_shell_end(uv_poll_t *p, int status, int events)
{
    (void)status;
    (void)events;
    stop(container_of(p, struct serve, shell));
}

static void on_look(void *arg)
{
    struct serve *s = arg;
    if (kill(s->o->pid, 0) != 0 && errno == ESRCH) {
        stop(s);
    } else {
        timer_start(&s->look, LOOK_MS);
    }
}

static void on_term(int signum, void *arg)
{
    (void)signum;
    stop(arg);
}

// ---- files -----------------------------------------------------------------------------------

static void remove_file(const struct serve *s, const char *name)
{
    char *path = path_join(s->o->dir, name);
    unlink(path);
    free(path);
}

// True when it is there. Until then the shell keeps what it has; without a directory we are of no use.
static bool write_file(struct serve *s, const char *name, struct str text)
{
    struct err e = {0};
    int rc = env_render_write(s->o->dir, name, text, &e);
    if (rc == -ENOENT || rc == ERR_DENIED) {
        stop(s);
    } else if (rc != 0) {
        timer_start(&s->retry, RETRY_MS);
    }
    return rc == 0;
}

static void file_name(char out[32], unsigned long n)
{
    snprintf(out, 32, "env.%lu", n);
}

// Offer one text under the next number, and let the shell know. It takes the newest of the files that it has not
// taken; those before it only have to be there, so they are emptied.
static void offer(struct serve *s, struct str text, uint64_t generation)
{
    char name[32];
    file_name(name, s->n + 1);
    if (!write_file(s, name, text)) {
        return;
    }
    if (s->n > s->acked) {
        file_name(name, s->n);
        (void)!env_render_write(s->o->dir, name, STR_NULL, NULL); // else it stays as large as it is
    }
    s->n++;
    s->offered = generation;
    kill(s->o->pid, SIGURG);
}

// What takes it back is there before the result is: a shell may leave as soon as it has it.
static void offer_result(struct serve *s, struct env_result *r)
{
    struct buf text = {.max = SIZE_MAX}, leave = {.max = SIZE_MAX};
    env_session_render(s->session, r, s->o->dialect, &text);
    env_session_render(s->session, NULL, s->o->dialect, &leave);
    if (write_file(s, "leave", buf_str(&leave))) {
        offer(s, buf_str(&text), r->generation);
    }
    buf_fini(&text);
    buf_fini(&leave);
}

static void on_retry(void *arg)
{
    struct serve *s = arg;
    struct env_result *r = env_coord_get_result(s->coord);
    if (r != NULL) {
        offer_result(s, r);
    }
}

// Have the first line of `text` printed at the next prompt, in place of the last one of its kind; NULL: print none.
static void set_note(struct serve *s, enum note which, const char *text)
{
    struct buf lines = {.max = SIZE_MAX}, out = {.max = SIZE_MAX};
    free(s->notes[which]);
    s->notes[which] = text != NULL ? xstrdup(text) : NULL;
    for (size_t i = 0; i < ARRAY_LEN(s->notes); i++) {
        struct str rest = str_of(s->notes[i]);
        if (rest.n != 0) {
            buf_addz(&lines, lines.n != 0 ? "\nafloat: " : "afloat: ");
            visible_add(&lines, str_cut(&rest, '\n'), false);
        }
    }
    if (lines.n != 0) {
        env_render_note(s->o->dialect, buf_z(&lines), &out);
        (void)!write_file(s, "note", buf_str(&out)); // a full disk: the next one may fit
    } else {
        remove_file(s, "note");
    }
    buf_fini(&out);
    buf_fini(&lines);
}

static void on_degraded(const struct watch_warning *w, void *arg)
{
    char *text = xasprintf("%s; %s", w->message, w->remedy);
    set_note(arg, NOTE_WATCH, text);
    free(text);
}

static void forget_notes(struct serve *s)
{
    for (size_t i = 0; i < ARRAY_LEN(s->notes); i++) {
        free(s->notes[i]);
        s->notes[i] = NULL;
    }
}

static void take_ack(struct serve *s, const char *name)
{
    uint64_t n;
    if (!str_to_u64(str_of(name + strlen("ack.")), &n) || n > s->n) {
        return;
    }
    remove_file(s, name);
    while (s->acked < n) {
        char old[32];
        file_name(old, ++s->acked);
        remove_file(s, old);
    }
    if (n == s->n) { // else the shell takes a newer one right now
        env_session_applied(s->session, s->offered);
        report_applied(s->report, s->offered);
    }
}

static void on_dir(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct serve *s = arg;
    (void)w;
    for (size_t i = 0; i < batch->n && !s->over; i++) {
        const char *name = strrchr(batch->changes[i].path, '/') + 1;
        if (batch->changes[i].kind == WATCH_DELETED) {
            continue;
        }
        if (strcmp(name, "stop") == 0) {
            stop(s);
        } else if (strcmp(name, "note") == 0 && batch->changes[i].size == 0) { // shown
            forget_notes(s);
        } else if (strncmp(name, "ack.", 4) == 0) {
            take_ack(s, name);
        }
    }
}

// ---- the coordinator -------------------------------------------------------------------------

static void on_building(const struct env_building *m, void *arg)
{
    struct serve *s = arg;
    report_building(s->report, m);
}

static void on_ready(const struct env_ready *m, void *arg)
{
    struct serve *s = arg;
    report_ready(s->report, m);
    set_note(s, NOTE_FAILED, NULL);
    offer_result(s, m->result);
}

static void on_failed(const struct env_failed *m, void *arg)
{
    struct serve *s = arg;
    report_failed(s->report, m);
    set_note(s, NOTE_FAILED, m->text);
}

static void start(struct serve *s)
{
    static const char *const none[] = {NULL};
    struct watch_opts w = {.path = s->o->dir, .ignore = none};
    struct env_coord_opts c = {
        .loop = &s->loop,
        .watcher = s->watcher,
        .root = s->o->root,
        .base = s->o->base,
        .gate = s->o->gate,
        .timeout_ms = s->o->build_timeout_ms,
        .cb = {.building = on_building, .ready = on_ready, .failed = on_failed},
        .arg = s};
    struct str id = path_base(str_of(s->o->dir));
    char pid[24];
    int n = snprintf(pid, sizeof pid, "%d\n", getpid()); // by this the shell sees that we live
    if (!write_file(s, "pid", (struct str){pid, (size_t)n}) && s->over) {
        return;
    }
    s->report = report_open(&s->loop, s->o->socket, id.p, s->o->root, s->o->pid);
    s->coord = env_coord_open(&c);
    s->shell_fd = (int)syscall(SYS_pidfd_open, s->o->pid, 0);
    if (s->shell_fd >= 0 && uv_poll_init(&s->loop.uv, &s->shell, s->shell_fd) == 0) {
        uv_poll_start(&s->shell, UV_READABLE, on_shell_end);
    } else {
        s->shell_fd = -1;
        timer_start(&s->look, 0);
    }
    if (signal_open(&s->term, &s->loop, SIGTERM, on_term, s, NULL) != 0 ||
        watch_open(&s->watch, s->watcher, &w, on_dir, s, NULL) != 0) {
        stop(s);
        return;
    }
    env_coord_reload(s->coord, true);
}

static int run(struct serve *s, struct err *e)
{
    int rc = loop_init(&s->loop, NULL, e);
    if (rc != 0) {
        return rc;
    }
    timer_init(&s->look, &s->loop, on_look, s);
    timer_init(&s->retry, &s->loop, on_retry, s);
    s->watcher = watcher_open(&s->loop, on_degraded, s);
    s->session = env_session_new(s->o->base);
    start(s);
    loop_run(&s->loop);
    env_session_free(s->session);
    forget_notes(s);
    if (s->shell_fd >= 0) {
        close(s->shell_fd);
    }
    return loop_close(&s->loop, e);
}

int hook_serve(const struct hook_opts *o, struct err *e)
{
    // the terminal is the shell's: its keys and its hang-up must not end us before our files are removed
    static const int keys[] = {SIGHUP, SIGINT, SIGQUIT, SIGTTOU};
    struct serve s = {.o = o, .shell_fd = -1};
    struct shell_dir dir;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        signal(keys[i], SIG_IGN);
    }
    int rc = shell_dir_make(&dir, o->dir, e);
    if (rc == 0) {
        rc = run(&s, e);
        shell_dir_close(&dir);
    }
    return rc;
}

void hook_text(enum env_dialect d, const char *program, const char *base, struct buf *out)
{
    static const char *const files[] = {
        [ENV_BASH] = "hook.bash", [ENV_ZSH] = "hook.zsh", [ENV_FISH] = "hook.fish"};
    bool fish = d == ENV_FISH;
    env_render_prelude(d, out);
    buf_addz(out, fish ? "\nset -g __afloat_hook_program " : "\n__afloat_hook_program=");
    env_quote(out, d, program);
    buf_addz(out, fish ? "\nset -g __afloat_hook_base " : "\n__afloat_hook_base=");
    env_quote(out, d, base);
    buf_addf(out, fish ? "\nset -g __afloat_hook_id %llx\n" : "\n__afloat_hook_id=%llx\n",
             (unsigned long long)time_wall_ms()); // a process id alone may come again
    buf_addz(out, shipped_get(shipped_env, files[d])->text);
}
