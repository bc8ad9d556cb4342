// A program that talks in lines.
//
//     start ──> lane: prepare ──> spawn ──> lines ──> on_line        stderr ──> tail, for the message at its end
//     close: stdin is closed ── CLOSE_MS ──> TERM ── KILL_MS ──> KILL of all that it started ──> on_gone
//
// Invariants:
//   - `preparing` exactly while the lane has it, `proc` is set exactly while the process lives; never both.
//   - on_gone is called when it is closed and has neither, and nothing after that.

#include "sandbox/lineproc.h"

#include <assert.h>
#include <signal.h>

#include "base/redact.h"

enum {
    LINE_BYTES = 16 << 20,
    TAIL_BYTES = 2048,
    CLOSE_MS = 2000, // from closing stdin to TERM
    KILL_MS = 1000,  // from TERM to KILL
};

static void gone(void *arg)
{
    struct lineproc *p = arg;
    assert(p->closed && !p->preparing && p->proc == NULL);
    box_free(p->box);
    rpc_lines_fini(&p->lines);
    buf_fini(&p->tail);
    buf_fini(&p->queued);
    p->cb->on_gone(p->arg);
}

static void end(struct lineproc *p, const struct err *e)
{
    assert(!p->ended && !p->closed);
    p->ended = true;
    p->cb->on_end(p->arg, e);
}

// ---- while it runs --------------------------------------------------------------------------

static void give_up(struct lineproc *p, int code, const char *what)
{
    if (p->fault.code == 0) {
        err_set(&p->fault, code, "%s %s", p->who, what);
        proc_kill(p->proc, SIGKILL);
    }
}

static void pass(struct lineproc *p, struct str bytes)
{
    if (proc_write(p->proc, bytes) == UV_ENOBUFS) {
        give_up(p, UV_ENOBUFS, "does not read what it is sent");
    }
}

static void on_output(struct proc *proc, int which, struct str bytes, void *arg)
{
    struct lineproc *p = arg;
    struct str line;
    (void)proc;
    if (which == 1 && !p->closed && p->fault.code == 0) {
        rpc_lines_feed(&p->lines, bytes);
        while (!p->closed && rpc_lines_next(&p->lines, &line)) {
            p->cb->on_line(p->arg, line);
        }
        if (!p->closed && rpc_lines_over(&p->lines)) {
            give_up(p, ERR_TOO_LARGE, "sent a line above 16 MiB");
        }
    } else if (which == 2) {
        struct str last = bytes.n > TAIL_BYTES ? str_from(bytes, bytes.n - TAIL_BYTES) : bytes;
        if (p->tail.n + last.n > TAIL_BYTES) {
            buf_drop(&p->tail, p->tail.n + last.n - TAIL_BYTES);
        }
        buf_adds(&p->tail, last);
    }
}

/// The last line that it wrote to stderr, which usually says why; without secrets.
static void add_last_words(const struct lineproc *p, struct buf *out)
{
    struct str said = str_trim(buf_str(&p->tail));
    const char *newline = said.n != 0 ? memrchr(said.p, '\n', said.n) : NULL;
    if (said.n != 0) {
        buf_addz(out, ": ");
        redact_text(out, newline != NULL ? str_from(said, (size_t)(newline + 1 - said.p)) : said);
    }
}

static void on_exit_cb(struct proc *proc, const struct proc_exit *x, void *arg)
{
    struct lineproc *p = arg;
    struct err e = p->fault;
    struct buf words = {.max = SIZE_MAX};
    assert(p->proc == proc);
    p->proc = NULL;
    timer_stop(&p->grace);
    add_last_words(p, &words);
    if (e.code != 0) {
        // we have ended it, and said why
    } else if (!x->launched && x->no_box != 0) {
        box_explain(x->no_box, -x->code, BOX_INSTEAD, &e);
    } else if (!x->launched) {
        err_set(&e, x->code, "%s", x->why);
    } else if (x->limit != 0) {
        err_set(&e, UV_EPIPE, "%s and its commands took too much %s and were ended", p->who,
                x->limit == 1 ? "processes" : "memory");
    } else if (x->signal != 0) {
        err_set(&e, UV_EPIPE, "%s was ended by signal %d%s", p->who, x->signal, buf_z(&words));
    } else {
        err_set(&e, UV_EPIPE, "%s exited with %d%s", p->who, x->code, buf_z(&words));
    }
    buf_fini(&words);
    if (p->closed) {
        gone(p);
    } else {
        end(p, &e);
    }
}

static void on_listen(struct proc *proc, uv_stream_t *from, void *arg)
{
    struct lineproc *p = arg;
    (void)proc;
    p->cb->on_listen(p->arg, from);
}

static void on_grace_over(void *arg)
{
    struct lineproc *p = arg;
    assert(p->proc != NULL);
    proc_end(p->proc, KILL_MS);
}

// ---- before it runs -------------------------------------------------------------------------

static void spawn(struct lineproc *p)
{
    static const struct proc_cb cb = {
        .on_output = on_output, .on_listen = on_listen, .on_exit = on_exit_cb};
    bool boxed = box_rules(p->box) != NULL;
    bool network = boxed && box_network(p->box);
    struct proc_opts o = {.argv = p->argv,
                          .env = p->env,
                          .cwd = box_dir(p->box),
                          .in = PROC_PIPE,
                          .out = PROC_PIPE,
                          .err = PROC_PIPE,
                          .supervise = true,
                          .box = box_rules(p->box),
                          .network = network,
                          .loopback = boxed && !network && p->loopback,
                          .box_memory = boxed ? p->memory : 0,
                          .process_limit = boxed ? p->processes : 0};
    struct err e = {0};
    if (proc_spawn(&p->proc, p->loop, &o, &cb, p, &e) < 0) {
        end(p, &e);
        return;
    }
    proc_pause(p->proc, p->paused);
    pass(p, buf_str(&p->queued));
    buf_fini(&p->queued);
}

static void prepare(void *arg) // on the lane
{
    struct lineproc *p = arg;
    p->fault.code = p->cb->prepare(p->arg, &p->box, &p->fault);
}

static void on_prepared(void *arg)
{
    struct lineproc *p = arg;
    p->preparing = false;
    if (p->closed) {
        gone(p);
    } else if (p->fault.code != 0) {
        end(p, &p->fault);
    } else {
        spawn(p);
    }
}

// ---- public ---------------------------------------------------------------------------------

void lineproc_init(struct lineproc *p, struct loop *l, const char *who,
                   const struct lineproc_cb *cb, void *arg)
{
    *p = (struct lineproc){.loop = l, .cb = cb, .arg = arg, .who = who};
    rpc_lines_init(&p->lines, LINE_BYTES);
    buf_init(&p->tail, TAIL_BYTES);
    buf_init(&p->queued, SIZE_MAX);
    timer_init(&p->grace, l, on_grace_over, p);
}

void lineproc_start(struct lineproc *p, struct lane *lane, uint64_t key)
{
    assert(p->argv != NULL && !p->preparing && p->box == NULL && !p->closed);
    p->preparing = true;
    work_submit(lane, key, prepare, on_prepared, p);
}

void lineproc_send(struct lineproc *p, struct str line)
{
    if (p->ended || p->closed) {
        return;
    }
    struct buf out = {.max = SIZE_MAX};
    struct buf *to = p->proc == NULL ? &p->queued : &out;
    buf_adds(to, line);
    buf_addc(to, '\n');
    if (p->proc != NULL) {
        pass(p, buf_str(&out));
    }
    buf_fini(&out);
}

void lineproc_pause(struct lineproc *p, bool paused)
{
    p->paused = paused;
    if (p->proc != NULL) {
        proc_pause(p->proc, paused);
    }
}

void lineproc_close(struct lineproc *p)
{
    assert(!p->closed);
    p->closed = true;
    if (p->proc != NULL) {
        proc_pause(p->proc, false);
        proc_close_stdin(p->proc);
        timer_start(&p->grace, CLOSE_MS);
    } else if (!p->preparing) {
        loop_defer(p->loop, gone, p);
    }
}
