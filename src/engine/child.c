// The process of an engine: prepared on the lane, started in the box, read line by line, ended for certain.
//
//     start ──> lane: directory, files, box ──> spawn ──> lines
//     close: stdin is closed ── CLOSE_MS ──> TERM ── KILL_MS ──> KILL of all that it started
//
// Its variables are those of a command of the session, without what would steer the engine elsewhere. In a box without
// network it has 127.0.0.1 only, where the gateway listens.
//
// Invariants:
//   - `preparing` exactly while the lane has it, `proc` exactly while the process lives. It is freed, and its owner told,
//     when it is closed and neither holds; not from inside of engine_child_close().

#include "engine/child.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>

#include "agent/tool.h"
#include "base/arena.h"
#include "base/path.h"
#include "base/redact.h"
#include "loop/proc.h"
#include "loop/timer.h"
#include "rpc/rpc.h"
#include "sandbox/box.h"

enum {
    LINE_MAX_BYTES = 16 << 20,
    TAIL_MAX = 2048, // of stderr
    CLOSE_MS = 2000, // from closing stdin to TERM
    KILL_MS = 1000,  // from TERM to KILL
    PROCESSES = 64   // that an engine needs for itself, threads not counted
};

struct engine_child {
    struct engine_world *world;
    struct engine_child_cb cb;
    void *arg;
    const struct engine_cb *owner;
    void *owner_arg;
    bool closed, preparing, ended, paused;
    struct arena arena;
    const char *const *argv, *const *env, *const *plugins, *const *followed;
    const char *dir;
    struct engine_file *files;
    size_t n_files;
    struct box_policy policy;
    uint64_t memory, processes;
    struct box *box;
    struct err why;
    struct gateway *gateway;
    struct proc *proc;
    struct timer grace;
    struct rpc_lines lines;
    struct buf tail, queued;
};

static void reap(void *arg)
{
    struct engine_child *c = arg;
    const struct engine_cb *owner = c->owner;
    void *owner_arg = c->owner_arg;
    assert(c->closed && !c->preparing && c->proc == NULL);
    timer_stop(&c->grace);
    gateway_close(c->gateway);
    box_free(c->box);
    grants_unref(c->policy.grants);
    rpc_lines_fini(&c->lines);
    buf_fini(&c->tail);
    buf_fini(&c->queued);
    arena_fini(&c->arena);
    free(c);
    owner->on_reaped(owner_arg);
}

static void end(struct engine_child *c, const struct err *e)
{
    if (!c->ended && !c->closed) {
        c->ended = true;
        c->cb.on_end(c->arg, e);
    }
}

// ---- the process ----------------------------------------------------------------------------

static void on_stdout(struct engine_child *c, struct str bytes)
{
    struct str line;
    rpc_lines_feed(&c->lines, bytes);
    while (!c->closed && !c->ended && rpc_lines_next(&c->lines, &line)) {
        c->cb.on_line(c->arg, line);
    }
    if (!c->closed && !c->ended && rpc_lines_over(&c->lines)) {
        struct err e;
        err_set(&e, ERR_TOO_LARGE, "the engine sent a line above %d MiB", LINE_MAX_BYTES >> 20);
        proc_kill(c->proc, SIGKILL);
        end(c, &e);
    }
}

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct engine_child *c = arg;
    (void)p;
    if (which == 1 && !c->closed && !c->ended) {
        on_stdout(c, bytes);
    } else if (which == 2) {
        struct str last = bytes.n > TAIL_MAX ? str_from(bytes, bytes.n - TAIL_MAX) : bytes;
        if (c->tail.n + last.n > TAIL_MAX) {
            buf_drop(&c->tail, c->tail.n + last.n - TAIL_MAX);
        }
        buf_adds(&c->tail, last);
    }
}

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct engine_child *c = arg;
    struct err e = {0};
    struct buf
        words; // the last line that it wrote to stderr, which usually says why; without secrets
    struct str said = str_trim(buf_str(&c->tail));
    const char *newline = said.n != 0 ? memrchr(said.p, '\n', said.n) : NULL;
    (void)p;
    c->proc = NULL;
    buf_init(&words, SIZE_MAX);
    if (said.n != 0) {
        buf_addz(&words, ": ");
        redact_text(&words,
                    newline != NULL ? str_from(said, (size_t)(newline + 1 - said.p)) : said);
    }
    if (!x->launched && x->no_box != 0) {
        box_explain(x->no_box, -x->code, &e);
    } else if (!x->launched) {
        err_set(&e, x->code, "%s", x->why);
    } else if (x->limit != 0) {
        err_set(&e, UV_EPIPE, "the engine and its commands took too much %s and were ended",
                x->limit == 1 ? "processes" : "memory");
    } else if (x->signal != 0) {
        err_set(&e, UV_EPIPE, "the engine was ended by signal %d%s", x->signal, buf_z(&words));
    } else {
        err_set(&e, UV_EPIPE, "the engine exited with %d%s", x->code, buf_z(&words));
    }
    buf_fini(&words);
    if (c->closed) {
        reap(c);
    } else {
        end(c, &e); // who hears it closes it
    }
}

static void on_listen(struct proc *p, uv_stream_t *from, void *arg)
{
    struct engine_child *c = arg;
    (void)p;
    gateway_listen(c->gateway, from);
}

static void spawn(struct engine_child *c)
{
    static const struct proc_cb cb = {
        .on_output = on_output, .on_listen = on_listen, .on_exit = on_exit_cb};
    bool boxed = box_rules(c->box) != NULL;
    struct proc_opts o = {.argv = c->argv,
                          .env = c->env,
                          .cwd = box_dir(c->box),
                          .in = PROC_PIPE,
                          .out = PROC_PIPE,
                          .err = PROC_PIPE,
                          .supervise = true,
                          .box = box_rules(c->box),
                          .network = boxed && box_network(c->box),
                          .loopback = boxed && !box_network(c->box) && c->gateway != NULL,
                          .box_memory = boxed ? c->memory : 0,
                          .process_limit =
                              boxed && c->processes != 0 ? c->processes + PROCESSES : 0};
    struct err e = {0};
    if (proc_spawn(&c->proc, c->world->loop, &o, &cb, c, &e) < 0) {
        end(c, &e);
        return;
    }
    proc_pause(c->proc, c->paused);
    (void)!proc_write(c->proc, buf_str(&c->queued));
    buf_fini(&c->queued);
    buf_init(&c->queued, SIZE_MAX);
}

// ---- before it runs -------------------------------------------------------------------------

static void prepare(void *arg) // on the lane
{
    struct engine_child *c = arg;
    int rc = path_mkdirs(c->dir, 0700, &c->why);
    for (size_t i = 0; rc == 0 && i < c->n_files; i++) {
        char *path = path_join(c->dir, c->files[i].name);
        rc = path_write_atomic(path, c->files[i].text, 0600, &c->why);
        free(path);
    }
    if (rc == 0) {
        rc = tool_make_box(&c->box, &c->policy, c->plugins, c->followed, &c->why);
    }
    c->why.code = rc;
}

static void on_prepared(void *arg)
{
    struct engine_child *c = arg;
    c->preparing = false;
    if (c->closed) {
        reap(c);
    } else if (c->why.code != 0) {
        end(c, &c->why);
    } else {
        spawn(c);
    }
}

static bool is_replaced(const char *variable, const char *const *by)
{
    size_t n = strcspn(variable, "=") + 1;
    for (; by != NULL && *by != NULL; by++) {
        if (strncmp(variable, *by, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_left_out(const char *variable, const char *const *prefixes)
{
    for (; prefixes != NULL && *prefixes != NULL; prefixes++) {
        if (str_starts(str_of(variable), *prefixes)) {
            return true;
        }
    }
    return false;
}

/// The client's TMPDIR does not exist in a box.
static const char *const *make_environment(struct engine_child *c,
                                           const struct engine_child_spec *q)
{
    vec(const char *) env = {0};
    bool boxed = c->policy.mode != BOX_FULL_ACCESS;
    for (const char *const *it = q->place->environment; *it != NULL; it++) {
        bool tmp = boxed && str_starts(str_of(*it), "TMPDIR=");
        if (!tmp && !is_replaced(*it, q->env) && !is_left_out(*it, q->without)) {
            vec_push(&env, *it);
        }
    }
    for (const char *const *it = q->env; *it != NULL; it++) {
        vec_push(&env, *it);
    }
    if (boxed) {
        vec_push(&env, "TMPDIR=/tmp");
    }
    vec_push(&env, NULL);
    const char *const *copy = tool_copy_list(&c->arena, env.p);
    vec_fini(&env);
    return copy;
}

// ---- public -------------------------------------------------------------------------------------

bool engine_child_boxed(const struct tool_env *place)
{
    return place->policy->mode != BOX_FULL_ACCESS && !place->policy->network;
}

static void on_grace_over(void *arg)
{
    struct engine_child *c = arg;
    if (c->proc != NULL) {
        proc_end(c->proc, KILL_MS);
    }
}

struct engine_child *engine_child_start(struct engine_world *w, const struct engine_child_spec *q,
                                        const struct engine_child_cb *cb, void *arg)
{
    struct engine_child *c = xcalloc(1, sizeof *c);
    assert(q->argv[0] != NULL && q->dir[0] == '/');
    c->world = w;
    c->cb = *cb;
    c->arg = arg;
    arena_init(&c->arena);
    rpc_lines_init(&c->lines, LINE_MAX_BYTES);
    buf_init(&c->tail, SIZE_MAX);
    buf_init(&c->queued, SIZE_MAX);
    timer_init(&c->grace, w->loop, on_grace_over, c);
    c->argv = tool_copy_list(&c->arena, q->argv);
    c->dir = arena_strdup(&c->arena, str_of(q->dir));
    c->plugins = tool_copy_list(&c->arena, q->place->plugins);
    c->followed = tool_copy_list(&c->arena, q->place->followed);
    c->memory = q->place->memory;
    c->processes = q->place->processes;
    c->policy = tool_copy_policy(&c->arena, q->place->policy);
    c->policy.own = c->dir;
    c->env = make_environment(c, q);
    c->n_files = q->n_files;
    c->files = arena_calloc(&c->arena, q->n_files + 1, sizeof *c->files);
    for (size_t i = 0; i < q->n_files; i++) {
        c->files[i] = (struct engine_file){arena_strdup(&c->arena, str_of(q->files[i].name)),
                                           arena_str(&c->arena, q->files[i].text)};
    }
    c->gateway = q->gateway;
    c->owner = q->owner;
    c->owner_arg = q->owner_arg;
    c->owner->on_spawn(c->owner_arg);
    c->preparing = true;
    work_submit(w->lane, work_mount_key(c->policy.working_dir), prepare, on_prepared, c);
    return c;
}

void engine_child_send(struct engine_child *c, struct str line)
{
    struct buf out;
    if (c->closed || c->ended) {
        return;
    }
    buf_init(&out, SIZE_MAX);
    buf_adds(&out, line);
    buf_addc(&out, '\n');
    if (c->proc == NULL) {
        buf_adds(&c->queued, buf_str(&out));
    } else if (proc_write(c->proc, buf_str(&out)) == UV_ENOBUFS) {
        proc_kill(c->proc, SIGKILL); // it does not read: on_end follows
    }
    buf_fini(&out);
}

struct jw *engine_line_new(struct engine_line *line)
{
    buf_init(&line->text, SIZE_MAX);
    jw_init(&line->w, &line->text);
    return &line->w;
}

void engine_line_flush(struct engine_child *c, struct engine_line *line)
{
    engine_child_send(c, buf_str(&line->text));
    buf_fini(&line->text);
}

struct jw *engine_line_begin(struct engine_line *line)
{
    jw_obj(engine_line_new(line));
    return &line->w;
}

void engine_line_send(struct engine_child *c, struct engine_line *line)
{
    jw_end_obj(&line->w);
    engine_line_flush(c, line);
}

const char *const *engine_argv(struct arena *a, const char *const *own, const char *const *more)
{
    vec(const char *) list = {0};
    assert(own[0] != NULL);
    for (; *own != NULL; own++) {
        vec_push(&list, *own);
    }
    for (; more != NULL && *more != NULL; more++) {
        vec_push(&list, *more);
    }
    vec_push(&list, NULL);
    const char *const *argv = tool_copy_list(a, list.p);
    vec_fini(&list);
    return argv;
}

void engine_add_past(struct buf *out, const char *past)
{
    if (past[0] != '\0') {
        buf_addf(out, "The conversation so far, before you took over:\n\n%s\nIt goes on:\n\n",
                 past);
    }
}

void engine_die(const struct engine_cb **cb, void *arg, const struct err *e)
{
    const struct engine_cb *was = *cb;
    *cb = NULL;
    if (was != NULL) {
        was->on_died(arg, e);
    }
}

void engine_child_pause(struct engine_child *c, bool paused)
{
    c->paused = paused;
    if (c->proc != NULL) {
        proc_pause(c->proc, paused);
    }
}

void engine_child_close(struct engine_child *c)
{
    assert(!c->closed);
    c->closed = true;
    if (c->proc != NULL) {
        proc_pause(c->proc, false);
        proc_close_stdin(c->proc);
        timer_start(&c->grace, c->ended ? 0 : CLOSE_MS);
    } else if (!c->preparing) {
        loop_defer(c->world->loop, reap, c);
    }
}
