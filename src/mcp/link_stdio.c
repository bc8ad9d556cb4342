// A server that is a program of ours: one message a line, on its standard streams.
//
//     lane: secrets, box ──> spawn (supervised, in the box) ──> lines ──> on_text
//     close: stdin is closed ── 2 s ──> TERM ── 1 s ──> KILL of all that it started
//
// Its environment is made here: a few variables that programs cannot do without, and what the spec names. It runs
// in the box of [sandbox], with its `cwd` as working directory: writable only where that setting lets tools write.
// What runs outside of the box is kept from it as from tools (trust/guard.h), as it is when the server starts.
//
// Invariants:
//   - `preparing` exactly while the lane has the link; `proc` exactly while the process lives. The memory goes when
//     it is closed and neither holds.

#include <assert.h>
#include <signal.h>

#include "base/log.h"
#include "config/home.h"
#include "loop/proc.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "mcp/link.h"
#include "rpc/rpc.h"
#include "sandbox/box.h"
#include "trust/guard.h"

enum { TAIL_MAX = 2048, SERVER_PROCESSES = 512 };

struct link_stdio {
    struct mcp_link base;
    struct mcp_world *world;
    struct mcp_link_cb cb;
    void *arg;
    bool closed, preparing, ended;
    struct arena arena; // of everything until `proc`
    const char **argv, **env;
    const struct mcp_pair *pairs; // of the environment, with secrets still to be filled in
    size_t n_pairs;
    const char *secrets;
    struct box_policy policy;
    vec(const char *) plugins, followed;
    uint64_t memory, processes;
    struct box *box;
    struct err why;
    struct proc *proc;
    struct timer grace;
    struct rpc_lines lines;
    struct buf tail;   // the last of stderr
    struct buf queued; // lines for a process that does not run yet
};

static struct link_stdio *of(struct mcp_link *l)
{
    return container_of(l, struct link_stdio, base);
}

static void free_if_idle(struct link_stdio *l)
{
    if (!l->closed || l->preparing || l->proc != NULL) {
        return;
    }
    timer_stop(&l->grace);
    box_free(l->box);
    rpc_lines_fini(&l->lines);
    buf_fini(&l->tail);
    buf_fini(&l->queued);
    vec_fini(&l->plugins);
    vec_fini(&l->followed);
    arena_fini(&l->arena);
    free(l);
}

static void end(struct link_stdio *l, const struct err *e)
{
    if (!l->ended && !l->closed) {
        l->ended = true;
        l->cb.on_end(l->arg, e);
    }
}

// ---- the process ----------------------------------------------------------------------------

static void on_stdout(struct link_stdio *l, struct str bytes)
{
    struct str line;
    rpc_lines_feed(&l->lines, bytes);
    while (!l->closed && !l->ended && rpc_lines_next(&l->lines, &line)) {
        l->cb.on_text(l->arg, line);
    }
    if (!l->closed && rpc_lines_over(&l->lines)) {
        struct err e;
        err_set(&e, ERR_TOO_LARGE, "it sent a message above %d MiB", MCP_LINE_MAX >> 20);
        proc_kill(l->proc, SIGKILL);
        end(l, &e);
    }
}

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct link_stdio *l = arg;
    (void)p;
    if (which == 1 && !l->closed && !l->ended) {
        on_stdout(l, bytes);
    } else if (which == 2) {
        struct str last = bytes.n > TAIL_MAX ? str_from(bytes, bytes.n - TAIL_MAX) : bytes;
        if (l->tail.n + last.n > TAIL_MAX) {
            buf_drop(&l->tail, l->tail.n + last.n - TAIL_MAX);
        }
        buf_adds(&l->tail, last);
    }
}

/// The last line that it wrote to stderr, which usually says why.
static struct str last_words(const struct link_stdio *l)
{
    struct str said = str_trim(buf_str(&l->tail));
    const char *newline = said.n != 0 ? memrchr(said.p, '\n', said.n) : NULL;
    return newline != NULL ? str_trim(str_from(said, (size_t)(newline + 1 - said.p))) : said;
}

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct link_stdio *l = arg;
    struct str said = last_words(l);
    struct err e = {0};
    (void)p;
    l->proc = NULL;
    if (!x->launched && x->no_box != 0) {
        box_explain(x->no_box, -x->code, &e);
    } else if (!x->launched) {
        err_set(&e, x->code, "%s", x->why);
    } else if (x->signal != 0) {
        err_set(&e, UV_EPIPE, "it was ended by signal %d%s" STR_FMT, x->signal,
                said.n != 0 ? ": " : "", STR_ARG(said));
    } else {
        err_set(&e, UV_EPIPE, "it exited with %d%s" STR_FMT, x->code, said.n != 0 ? ": " : "",
                STR_ARG(said));
    }
    end(l, &e);
    free_if_idle(l);
}

static void spawn(struct link_stdio *l)
{
    static const struct proc_cb cb = {.on_output = on_output, .on_exit = on_exit_cb};
    bool boxed = box_rules(l->box) != NULL;
    struct proc_opts o = {.argv = l->argv,
                          .env = l->env,
                          .cwd = box_dir(l->box),
                          .in = PROC_PIPE,
                          .out = PROC_PIPE,
                          .err = PROC_PIPE,
                          .supervise = true,
                          .box = box_rules(l->box),
                          .network = box_network(l->box),
                          .box_memory = boxed ? l->memory : 0,
                          .process_limit = boxed ? l->processes : 0};
    struct err e = {0};
    if (proc_spawn(&l->proc, l->world->loop, &o, &cb, l, &e) < 0) {
        end(l, &e);
        return;
    }
    (void)!proc_write(l->proc, buf_str(&l->queued));
    buf_fini(&l->queued);
}

// ---- before it runs -------------------------------------------------------------------------

/// On the lane.
static int fill_environment(struct link_stdio *l, struct err *e)
{
    size_t n = 0;
    int rc = 0;
    while (l->env[n] != NULL) {
        n++;
    }
    for (size_t i = 0; rc == 0 && i < l->n_pairs; i++) {
        char *value = NULL;
        rc = mcp_fill_secrets(l->secrets, l->pairs[i].value, &value, e);
        if (rc == 0) {
            l->env[n++] = arena_printf(&l->arena, "%s=%s", l->pairs[i].name, value);
            explicit_bzero(value, strlen(value));
        }
        free(value);
    }
    return rc;
}

static void prepare(void *arg) // on the lane
{
    struct link_stdio *l = arg;
    struct trust_guards g = {0};
    vec(const char *) guard = {0};
    const char *why;
    if (l->policy.mode != BOX_FULL_ACCESS) {
        l->policy.mode =
            box_choose_mode(l->policy.mode, l->policy.working_dir, l->world->home->dir, &why);
    }
    trust_guards_read(&g, l->world->home->dir, l->followed.p);
    for (size_t i = 0; l->plugins.p[i] != NULL; i++) {
        vec_push(&guard, l->plugins.p[i]);
    }
    for (size_t i = 0; g.paths.p[i] != NULL; i++) {
        vec_push(&guard, g.paths.p[i]);
    }
    vec_push(&guard, NULL);
    l->policy.guard = guard.p;
    int rc = box_new(&l->box, &l->policy, &l->why);
    l->policy.guard = NULL;
    trust_guards_fini(&g);
    vec_fini(&guard);
    l->why.code = rc == 0 ? fill_environment(l, &l->why) : rc;
}

static void on_prepared(void *arg)
{
    struct link_stdio *l = arg;
    l->preparing = false;
    if (l->closed) {
        free_if_idle(l);
    } else if (l->why.code != 0) {
        end(l, &l->why);
    } else {
        spawn(l);
    }
}

/// What programs cannot do without: no key of the user's is among it.
static void make_environment(struct link_stdio *l, const struct mcp_spec *s)
{
    static const char *const kept[] = {"PATH",  "HOME", "USER",   "LOGNAME",
                                       "SHELL", "LANG", "LC_ALL", "TZ"};
    size_t n = 0;
    l->env = arena_calloc(&l->arena, ARRAY_LEN(kept) + s->n_env + 1, sizeof *l->env);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const char *value = getenv(kept[i]);
        bool given = false;
        for (size_t k = 0; k < s->n_env && !given; k++) {
            given = strcmp(s->env[k].name, kept[i]) == 0;
        }
        if (value != NULL && !given) {
            l->env[n++] = arena_printf(&l->arena, "%s=%s", kept[i], value);
        }
    }
    struct mcp_pair *pairs = arena_calloc(&l->arena, s->n_env + 1, sizeof *pairs);
    for (size_t i = 0; i < s->n_env; i++) {
        pairs[i] = (struct mcp_pair){arena_strdup(&l->arena, str_of(s->env[i].name)),
                                     arena_strdup(&l->arena, str_of(s->env[i].value))};
    }
    l->pairs = pairs;
    l->n_pairs = s->n_env;
}

static const char *const *copy_list(struct link_stdio *l, const char *const *list, size_t n)
{
    const char **copy = arena_calloc(&l->arena, n + 1, sizeof *copy);
    for (size_t i = 0; i < n; i++) {
        copy[i] = arena_strdup(&l->arena, str_of(list[i]));
    }
    return copy;
}

static void make_policy(struct link_stdio *l, const struct mcp_spec *s)
{
    struct mcp_world *w = l->world;
    const struct config *c = w->config->now;
    const char *home = getenv("HOME");
    size_t n_writable, n_hide;
    const char *const *writable = config_strings(c, "sandbox.writable", &n_writable);
    const char *const *hide = config_strings(c, "sandbox.hide", &n_hide);
    enum box_mode mode = BOX_WORKSPACE_WRITE;
    (void)box_mode_parse(str_of(config_str(c, "sandbox.mode")), &mode);
    mode = s->project != NULL ? MIN(mode, BOX_WORKSPACE_WRITE) : mode;
    l->policy =
        (struct box_policy){.mode = s->sandbox ? mode : BOX_FULL_ACCESS,
                            .network = config_bool(c, "sandbox.network"),
                            .working_dir = arena_strdup(&l->arena, str_of(s->cwd != NULL ? s->cwd
                                                                          : home != NULL ? home
                                                                                         : "/")),
                            .writable = copy_list(l, writable, n_writable),
                            .hide = copy_list(l, hide, n_hide),
                            .home = w->home->dir,
                            .runtime = w->home->runtime};
    l->memory = (uint64_t)config_int(c, "limits.command_mb") << 20;
    l->processes = SERVER_PROCESSES;
}

static void add_plugin(void *to, const char *path)
{
    struct link_stdio *l = to;
    vec_push(&l->plugins, arena_strdup(&l->arena, str_of(path)));
}

static void add_place(void *to, const char *path)
{
    struct link_stdio *l = to;
    vec_push(&l->followed, arena_strdup(&l->arena, str_of(path)));
}

// ---- the link -------------------------------------------------------------------------------

static void link_send(struct mcp_link *base, struct str text, const struct mcp_about *about)
{
    struct link_stdio *l = of(base);
    struct buf line = {.max = SIZE_MAX};
    (void)about;
    buf_adds(&line, text);
    buf_addc(&line, '\n');
    if (l->proc == NULL) {
        buf_adds(&l->queued, buf_str(&line));
    } else if (proc_write(l->proc, buf_str(&line)) == UV_ENOBUFS) {
        struct err e;
        err_set(&e, UV_ENOBUFS, "it does not read what it is sent");
        proc_kill(l->proc, SIGKILL);
        end(l, &e);
    }
    buf_fini(&line);
}

static void on_grace_over(void *arg)
{
    struct link_stdio *l = arg;
    if (l->proc != NULL) {
        proc_end(l->proc, MCP_KILL_MS);
    }
}

static void link_close(struct mcp_link *base)
{
    struct link_stdio *l = of(base);
    assert(!l->closed);
    l->closed = true;
    if (l->proc != NULL) {
        proc_close_stdin(l->proc);
        timer_start(&l->grace, MCP_CLOSE_MS);
    }
    free_if_idle(l);
}

static struct str link_said(struct mcp_link *base)
{
    return buf_str(&of(base)->tail);
}

static int link_pid(struct mcp_link *base)
{
    const struct link_stdio *l = of(base);
    return l->proc != NULL ? proc_pid(l->proc) : 0;
}

static const struct mcp_link_ops ops = {
    .send = link_send, .close = link_close, .said = link_said, .pid = link_pid};

struct mcp_link *mcp_link_stdio(struct mcp_world *w, const struct mcp_spec *s,
                                const struct mcp_link_cb *cb, void *arg)
{
    struct link_stdio *l = xcalloc(1, sizeof *l);
    size_t n = 0;
    assert(s->command != NULL);
    l->base.ops = &ops;
    l->world = w;
    l->cb = *cb;
    l->arg = arg;
    arena_init(&l->arena);
    rpc_lines_init(&l->lines, MCP_LINE_MAX);
    buf_init(&l->tail, TAIL_MAX);
    buf_init(&l->queued, MCP_LINE_MAX);
    timer_init(&l->grace, w->loop, on_grace_over, l);
    while (s->args[n] != NULL) {
        n++;
    }
    l->argv = arena_calloc(&l->arena, n + 2, sizeof *l->argv);
    l->argv[0] = arena_strdup(&l->arena, str_of(s->command));
    for (size_t i = 0; i < n; i++) {
        l->argv[i + 1] = arena_strdup(&l->arena, str_of(s->args[i]));
    }
    l->secrets = w->home->secrets;
    make_environment(l, s);
    make_policy(l, s);
    w->guarded(w->arg, add_plugin, add_place, l);
    vec_push(&l->plugins, NULL);
    vec_push(&l->followed, NULL);
    l->preparing = true;
    work_submit(w->lane, work_mount_key(l->policy.working_dir), prepare, on_prepared, l);
    return &l->base;
}
