// Run one program of a build.
//
//     stdout, stderr ──> lines ──> on_line, and the last of them kept for messages
//     (keep_stdout: stdout ──> one buffer)
//     descriptor 3   ──> on_side
//     exit and end of descriptor 3 ──> on_end
//
// The program is supervised: when it is stopped, ends by itself or we die, all that it started ends too, so
// that no build survives its shell. Hence descriptor 3 ends with the program, and we wait for both ends.

#include "env/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/path.h"
#include "loop/proc.h"
#include "loop/timer.h"
#include "sandbox/box.h"

enum { LINE_MAX_BYTES = 4096, TAIL_MAX = 256 << 10 };

struct env_child {
    struct proc *proc; // NULL once it has ended
    struct env_child_opts o;
    char *name; // argv[0]
    uv_pipe_t side;
    bool side_open;
    struct timer timeout;
    struct buf out;
    struct buf line[2]; // of stdout and stderr, begun
    struct buf tail;
    struct err fault; // the first thing that went wrong
    bool dropped;
    char side_bytes[16384];
};

/// Where a fault goes: the first one counts.
static struct err *first_fault(struct env_child *c)
{
    return c->fault.code == 0 ? &c->fault : NULL;
}

static void finish(struct env_child *c)
{
    if (c->proc != NULL || c->side_open) {
        return;
    }
    timer_stop(&c->timeout);
    if (!c->dropped) {
        struct env_child_end end = {.code = c->fault.code,
                                    .why = c->fault.msg,
                                    .out = buf_str(&c->out),
                                    .tail = buf_str(&c->tail)};
        c->o.on_end(&end, c->o.arg);
    }
    for (int i = 0; i < 2; i++) {
        buf_fini(&c->line[i]);
    }
    buf_fini(&c->out);
    buf_fini(&c->tail);
    free(c->name);
    free(c);
}

// ---- lines -----------------------------------------------------------------------------------

static void end_line(struct env_child *c, struct buf *line)
{
    struct str text = buf_str(line);
    if (text.n != 0 && text.p[text.n - 1] == '\r') {
        text.n--;
    }
    if (c->tail.n > 2 * (size_t)TAIL_MAX) { // seldom: each time all of it moves
        buf_drop(&c->tail, c->tail.n - TAIL_MAX);
    }
    if (c->o.on_line == NULL || c->dropped || c->o.on_line(text, c->o.arg)) {
        buf_adds(&c->tail, text);
        buf_addc(&c->tail, '\n');
    }
    buf_clear(line);
}

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct env_child *c = arg;
    (void)p;
    assert(which == 1 || which == 2);
    if (which == 1 && c->o.keep_stdout) {
        buf_adds(&c->out, bytes);
        if (!buf_ok(&c->out)) {
            err_set(first_fault(c), ERR_TOO_LARGE, "it printed more than 8 MiB");
            env_child_kill(c);
        }
        return;
    }
    struct buf *line = &c->line[which - 1];
    for (size_t i = 0; i < bytes.n; i++) {
        if (bytes.p[i] != '\n') {
            buf_addc(line, bytes.p[i]);
        }
        if (bytes.p[i] == '\n' || line->n == LINE_MAX_BYTES) {
            end_line(c, line);
        }
    }
    if (bytes.n == 0 && line->n != 0) {
        end_line(c, line);
    }
}

// ---- descriptor 3 ----------------------------------------------------------------------------

static void on_side_closed(uv_handle_t *h)
{
    struct env_child *c = container_of((uv_pipe_t *)(void *)h, struct env_child, side);
    c->side_open = false;
    finish(c);
}

static void close_side(struct env_child *c)
{
    if (c->side_open && !uv_is_closing((uv_handle_t *)&c->side)) {
        uv_close((uv_handle_t *)&c->side, on_side_closed);
    }
}

static void on_side_alloc(uv_handle_t *h, size_t hint, uv_buf_t *out)
{
    struct env_child *c = container_of((uv_pipe_t *)(void *)h, struct env_child, side);
    (void)hint;
    *out = uv_buf_init(c->side_bytes, sizeof c->side_bytes);
}

static void on_side_read(uv_stream_t *s, ssize_t n, const uv_buf_t *bytes)
{
    struct env_child *c = container_of((uv_pipe_t *)(void *)s, struct env_child, side);
    struct err e = {0};
    if (n < 0) {
        close_side(c);
    } else if (n > 0 && !c->dropped && c->fault.code == 0) {
        int rc = c->o.on_side((struct str){bytes->base, (size_t)n}, c->o.arg, &e);
        if (rc != 0) {
            err_set(&c->fault, rc, "%s", e.msg);
            env_child_kill(c);
        }
    }
}

// Make the pipe; the end for the program goes to `*theirs`, which the caller closes.
static int open_side(struct env_child *c, int *theirs, struct err *e)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return err_sys(e, "cannot make a pipe");
    }
    int rc = uv_pipe_init(&c->o.loop->uv, &c->side, 0);
    c->side_open = rc == 0;
    if (rc == 0 && (rc = uv_pipe_open(&c->side, fds[0])) != 0) {
        close(fds[0]);
    }
    rc = rc == 0 ? uv_read_start((uv_stream_t *)&c->side, on_side_alloc, on_side_read) : rc;
    if (rc != 0) {
        close(fds[1]);
        return err_set(e, rc, "cannot read from a pipe: %s", uv_strerror(rc));
    }
    *theirs = fds[1];
    return 0;
}

// ---- life ------------------------------------------------------------------------------------

static void on_proc_exit(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct env_child *c = arg;
    (void)p;
    c->proc = NULL;
    if (!x->launched) {
        err_set(first_fault(c), x->code, "cannot start '%s': %s", c->name,
                x->code == -ENOENT ? "it is not installed" : x->why);
    } else if (x->signal != 0) {
        err_set(first_fault(c), ERR_INVALID, "'%s' was ended by signal %d", c->name, x->signal);
    } else if (x->code != 0) {
        err_set(first_fault(c), ERR_INVALID, "'%s' ended with status %d", c->name, x->code);
    }
    finish(c);
}

static void on_timeout(void *arg)
{
    struct env_child *c = arg;
    err_set(first_fault(c), ERR_TIMEOUT, "'%s' took longer than %llu s", c->name,
            (unsigned long long)(c->o.timeout_ms / 1000));
    env_child_kill(c);
}

static int spawn(struct env_child *c, int side, struct err *e)
{
    static const struct proc_cb cb = {.on_output = on_output, .on_exit = on_proc_exit};
    struct str text = c->o.input;
    int rc = 0, input = text.n != 0 ? memfd_create("afloat-input", MFD_CLOEXEC) : -1;
    if (text.n != 0 && input < 0) {
        return err_sys(e, "cannot make a file in memory");
    }
    if (input >= 0 && (path_write_fd(input, text) < 0 || lseek(input, 0, SEEK_SET) != 0)) {
        rc = err_sys(e, "cannot write to memory");
    }
    struct proc_opts o = {.argv = c->o.argv,
                          .env = c->o.env,
                          .cwd = c->o.cwd,
                          .in = input >= 0 ? PROC_FD : PROC_NULL,
                          .in_fd = input,
                          .out = PROC_PIPE,
                          .err = PROC_PIPE,
                          .fd3 = side,
                          .supervise = true,
                          .box = c->o.box != NULL ? box_rules(c->o.box) : NULL,
                          .network = c->o.box != NULL && box_network(c->o.box)};
    rc = rc == 0 ? proc_spawn(&c->proc, c->o.loop, &o, &cb, c, e) : rc;
    if (input >= 0) {
        close(input);
    }
    return rc;
}

int env_child_start(struct env_child **out, const struct env_child_opts *o, struct err *e)
{
    struct env_child *c = xcalloc(1, sizeof *c);
    int side = 0;
    assert(o->on_end != NULL && (!o->side_channel || o->on_side != NULL));
    c->o = *o;
    c->name = xstrdup(o->argv[0]);
    c->out.max = ENV_CHILD_KEEP_MAX;
    c->line[0].max = c->line[1].max = c->tail.max = SIZE_MAX;
    timer_init(&c->timeout, o->loop, on_timeout, c);
    int rc = o->side_channel ? open_side(c, &side, e) : 0;
    rc = rc == 0 ? spawn(c, side, e) : rc;
    if (side > 0) {
        close(side);
    }
    if (rc != 0) {
        c->dropped = true;
        close_side(c);
        finish(c);
        return rc;
    }
    if (o->timeout_ms != 0) {
        timer_start(&c->timeout, o->timeout_ms);
    }
    *out = c;
    return 0;
}

void env_child_kill(struct env_child *c)
{
    err_set(first_fault(c), -ECANCELED, "interrupted");
    if (c->proc != NULL) {
        proc_end(c->proc, ENV_CHILD_GRACE_MS);
    }
}

void env_child_drop(struct env_child *c)
{
    c->dropped = true;
    timer_stop(&c->timeout);
    env_child_kill(c);
}
