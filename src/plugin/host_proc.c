// A plugin in a process of its own.
//
//     host_proc_open ── socket pair ── spawn (supervised) ── load
//     fault:  KILL of all that it started
//     close:  the socket is closed ── 2 s ──> TERM ── 1 s ──> KILL of all that it started
//
// host_talk.c speaks the protocol; this file carries its lines. The process may end at any time, before, after or
// without the end of its socket: only its exit counts. The struct is freed when the owner has closed the host and the
// process has been reaped.

#include "plugin/host_proc.h"

#include <assert.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop/proc.h"
#include "plugin/host_talk.h"
#include "plugin/host_wire.h"
#include "proto/host.h"

enum { TAIL_MAX = 512 };

struct host_proc {
    struct host_talk talk;
    struct proc *proc;      // NULL once reaped
    struct host_wire *wire; // NULL once closed
    struct timer grace;     // closed: until TERM
    struct buf tail;        // the last of what it wrote to stderr
};

static struct host_proc *proc_of(struct host_talk *t)
{
    return container_of(t, struct host_proc, talk);
}

// ---- the talk's way ------------------------------------------------------------------------

static int way_send(struct host_talk *t, struct str bytes, size_t max_unread)
{
    struct host_proc *h = proc_of(t);
    return h->wire != NULL ? host_wire_send(h->wire, bytes, max_unread) : UV_EPIPE;
}

static void way_stop(struct host_talk *t)
{
    struct host_proc *h = proc_of(t);
    host_wire_close(h->wire);
    h->wire = NULL;
    if (h->proc != NULL) {
        proc_kill(h->proc, SIGKILL);
    }
}

static void on_grace_over(void *arg)
{
    struct host_proc *h = arg;
    if (h->proc != NULL) {
        proc_end(h->proc, HOST_KILL_MS);
    }
}

static void way_close(struct host_talk *t)
{
    struct host_proc *h = proc_of(t);
    host_wire_close(h->wire);
    h->wire = NULL;
    if (h->proc != NULL) {
        timer_start(&h->grace, HOST_CLOSE_MS);
    }
}

static void free_now(void *arg)
{
    struct host_proc *h = arg;
    h->talk.task = NULL;
    timer_stop(&h->grace);
    host_talk_fini(&h->talk);
    buf_fini(&h->tail);
    free(h);
}

static void way_idle(struct host_talk *t)
{
    if (t->closed && t->task == NULL && proc_of(t)->proc == NULL) {
        t->task = loop_defer(t->loop, free_now, proc_of(t));
    }
}

static const struct host_talk_way way = {
    .send = way_send,
    .stop = way_stop,
    .close = way_close,
    .idle = way_idle,
};

// ---- the socket and the process ------------------------------------------------------------

static void on_line(void *arg, struct str line)
{
    struct host_proc *h = arg;
    host_talk_line(&h->talk, line);
}

static void on_wire_end(void *arg, int status)
{
    struct host_proc *h = arg;
    if (status == ERR_TOO_LARGE) {
        host_talk_doom(&h->talk, DIAG_HOST_CRASHED, "the host of '%s' sent a line above %d MiB",
                       h->talk.name, HOST_LINE_MAX >> 20);
    } else {
        host_talk_gone(&h->talk);
    }
}

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct host_proc *h = arg;
    (void)p;
    (void)which;
    host_talk_unasked(&h->talk, bytes.n);
    struct str last = bytes.n > TAIL_MAX ? str_from(bytes, bytes.n - TAIL_MAX) : bytes;
    if (h->tail.n + last.n > TAIL_MAX) {
        buf_drop(&h->tail, h->tail.n + last.n - TAIL_MAX);
    }
    buf_adds(&h->tail, last);
}

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct host_proc *h = arg;
    struct str said = str_trim(buf_str(&h->tail));
    (void)p;
    h->proc = NULL;
    if (!x->launched) {
        host_talk_doom(&h->talk, DIAG_HOST_CRASHED, "%s", x->why);
    } else {
        host_talk_doom(&h->talk, DIAG_HOST_CRASHED, "the host of '%s' %s %d%s" STR_FMT,
                       h->talk.name, x->signal != 0 ? "was ended by signal" : "exited with",
                       x->signal != 0 ? x->signal : x->code, said.n != 0 ? ": " : "",
                       STR_ARG(said));
    }
    way_idle(&h->talk);
}

/// Its environment is ours to make: of the hub's own only the time zone goes over, and what the owner names.
static int spawn(struct host_proc *h, const struct host_proc_opts *o, int fd, struct err *e)
{
    static const struct proc_cb cb = {.on_output = on_output, .on_exit = on_exit_cb};
    const char *tz = getenv("TZ");
    char *plugin = xasprintf("AFLOAT_PLUGIN=%s", o->name);
    char *zone = tz != NULL ? xasprintf("TZ=%s", tz) : NULL;
    assert(h->proc == NULL && o->argv[0] != NULL);
    vec(const char *) env = {0};
    vec_push(&env, plugin);
    vec_push(&env, "LC_ALL=C.UTF-8");
    for (size_t i = 0; o->env != NULL && o->env[i] != NULL; i++) {
        vec_push(&env, o->env[i]);
    }
    if (zone != NULL) {
        vec_push(&env, zone);
    }
    vec_push(&env, NULL);
    const struct proc_opts opts = {
        .argv = o->argv,
        .env = env.p,
        .cwd = o->cwd,
        .err = PROC_PIPE,
        .fd3 = fd,
        .supervise = true,
        .file_limit = o->file_limit,
        .cpu_limit_s = o->cpu_limit_s,
        .process_limit = o->process_limit,
        .file_size_limit = o->file_size_limit,
        .memory_limit = o->memory_limit,
    };
    int rc = proc_spawn(&h->proc, h->talk.loop, &opts, &cb, h, e);
    vec_fini(&env);
    free(plugin);
    free(zone);
    return rc;
}

int host_proc_open(struct host **out, struct loop *l, const struct host_proc_opts *opts,
                   const struct host_owner *owner, void *arg, struct err *e)
{
    static const struct host_wire_cb cb = {.on_line = on_line, .on_end = on_wire_end};
    struct host_proc *h = xcalloc(1, sizeof *h);
    int pair[2], rc;
    *out = NULL;
    host_talk_init(&h->talk, l, &way, opts->name, owner, arg);
    h->talk.end_on_limit = opts->end_on_limit;
    buf_init(&h->tail, TAIL_MAX);
    timer_init(&h->grace, l, on_grace_over, h);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        rc = err_sys(e, "cannot make a socket for the host of '%s'", opts->name);
    } else {
        rc = host_wire_open(&h->wire, l, pair[0], &cb, h, e);
        rc = rc == 0 ? spawn(h, opts, pair[1], e) : rc;
        close(pair[1]);
    }
    if (rc < 0) {
        host_close(&h->talk.host);
        return rc;
    }
    host_talk_load(&h->talk, opts->load, opts->load_ms != 0 ? opts->load_ms : HOST_LOAD_MS);
    *out = &h->talk.host;
    return 0;
}

int host_proc_pid(struct host *h)
{
    struct proc *p = proc_of(container_of(h, struct host_talk, host))->proc;
    return p != NULL ? proc_pid(p) : 0;
}
