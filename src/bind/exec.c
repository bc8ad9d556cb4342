// exec{cmd, args, cwd, env, stdin, timeout_s, sandbox}: run a program and return its output.
//
// Commands are argument arrays; no shell is involved unless `cmd` is one. The program and all it
// started end with the request: when time is up, when the unit that asked leaves, when the hub ends.
// Up to 1 MiB of each output stream is kept; the rest is discarded, and a last line says so. A few commands of a unit run
// at once, more wait in line (quota.c); the time of a command counts from its start.
//
//     start ── sandbox? ──no──────────────────────> spawn ──> output ──> answer
//                 └─yes─> lane: the box ── made? ──yes─┘
//                                             └─no──> nil, why; nothing is run

#include "bind/exec.h"

#include <signal.h>

#include <lauxlib.h>

#include "base/path.h"
#include "bind/bind_int.h"
#include "bind/faces.h"
#include "config/home.h"
#include "loop/launch.h"
#include "loop/proc.h"
#include "plugin/sessions.h"
#include "trust/guard.h"

enum {
    OUTPUT_MAX = 1 << 20,
    GRACE_MS = 2000,
    ARGS_MAX = 4096,
    TEXTS_MAX =
        2 << 20, // bytes of all arguments, and of all variables; Linux takes no more by default
};

#define MARKER "\n[cut after 1 MiB]"

struct exec {
    struct bind_op op;
    struct loop *loop;
    struct arena arena; // of `spec`, `policy` and `outside`
    struct exec_spec spec;
    struct box_policy policy;
    struct trust_outside outside;
    uint64_t memory, processes; // limits of a box
    struct box *box;            // NULL: none, or not yet
    struct err no_box;          // why it could not be made
    struct proc *p;             // NULL until it is started
    struct timer timer;
    bool timed_out;
    struct buf out, err;
    exec_push *push;
};

// ---- the child --------------------------------------------------------------------------------

static void exec_free(struct bind_op *op)
{
    struct exec *x = container_of(op, struct exec, op);
    timer_stop(&x->timer);
    box_free(x->box);
    buf_fini(&x->out);
    buf_fini(&x->err);
    arena_fini(&x->arena);
    free(x);
}

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    (void)p;
    struct exec *x = arg;
    struct buf *b = which == 1 ? &x->out : &x->err;
    assert(which == 1 || which == 2);
    if (bytes.n == 0 || b->n > OUTPUT_MAX) {
        return; // the end, or the marker is there already
    }
    size_t room = OUTPUT_MAX - b->n;
    buf_add(b, bytes.p, MIN(bytes.n, room));
    if (bytes.n > room) {
        buf_addz(b, MARKER);
    }
}

/// The message for one that ran out of time. Caller frees.
static char *late(const struct exec *x)
{
    return xasprintf("exec: '%s' ran out of time after %g s", x->spec.shown,
                     (double)x->spec.timeout_ms / 1000);
}

static int push_exit(lua_State *L, const struct exec *x, const struct proc_exit *how)
{
    if (!how->launched && how->no_box != 0) {
        struct err e = {0};
        box_explain(how->no_box, -how->code, "leave 'sandbox' out", &e);
        return args_fail(L, "exec: cannot start '%s': %s", x->spec.shown, e.msg);
    }
    if (how->limit != 0) {
        return args_fail(L, "exec: '%s' was ended: it took too many %s", x->spec.shown,
                         how->limit == LAUNCH_LIMIT_MEMORY
                             ? "MiB of memory ([limits] command_mb)"
                             : "processes ([limits] command_processes)");
    }
    if (!how->launched) {
        return args_fail(L, "exec: cannot start '%s': %s", x->spec.shown,
                         how->why != NULL ? how->why : err_text(how->code));
    }
    if (x->timed_out) {
        char *text = late(x);
        lua_pushnil(L);
        lua_pushstring(L, text);
        free(text);
        return 2;
    }
    struct exec_result r = {how->code, how->signal, buf_str(&x->out), buf_str(&x->err)};
    return x->push(L, &r);
}

static void on_exit_cb(struct proc *p, const struct proc_exit *how, void *arg)
{
    (void)p;
    struct exec *x = arg;
    lua_State *L = bind__op_answer_begin(&x->op);
    if (L != NULL) {
        bind__op_answer(&x->op, push_exit(L, x, how));
    }
    exec_free(&x->op);
}

static const struct proc_cb callbacks = {.on_output = on_output, .on_exit = on_exit_cb};

static void on_timeout(void *arg)
{
    struct exec *x = arg;
    x->timed_out = true;
    if (x->p != NULL) {
        proc_end(x->p, GRACE_MS);
    } else { // its box is still being made, in a directory that may never answer: on_box() frees it
        char *text = late(x);
        bind__op_fail(&x->op, text);
        free(text);
    }
}

static void exec_cancel(struct bind_op *op)
{
    struct exec *x = container_of(op, struct exec, op);
    timer_stop(&x->timer);
    if (x->p != NULL) {
        proc_end(x->p, GRACE_MS);
    } // on_exit_cb() or on_box() frees it
}

// ---- the request ------------------------------------------------------------------------------

static int spawn(struct exec *x, struct err *e)
{
    const struct exec_spec *spec = &x->spec;
    assert(x->p == NULL && spec->boxed == (x->box != NULL));
    struct proc_opts opts = {
        .argv = spec->argv,
        .env = spec->env != NULL ? spec->env : bind__environment(&x->arena, spec->boxed),
        .cwd = x->box != NULL ? box_dir(x->box) : spec->cwd,
        .in = spec->stdin_text.p != NULL ? PROC_PIPE : PROC_NULL,
        .out = PROC_PIPE,
        .err = PROC_PIPE,
        .supervise = true,
        .box = x->box != NULL ? box_rules(x->box) : NULL,
        .box_memory = x->memory,
        .process_limit = x->processes,
    };
    int rc = proc_spawn(&x->p, x->loop, &opts, &callbacks, x, e);
    if (rc < 0) {
        return rc;
    }
    if (spec->stdin_text.p != NULL) {
        proc_write(x->p, spec->stdin_text);
        proc_close_stdin(x->p);
    }
    return 0;
}

static void make_box(void *arg) // on the lane
{
    struct exec *x = arg;
    struct err *e = &x->no_box;
    const char *why = NULL;
    (void)box_choose_mode(x->policy.mode, x->policy.working_dir, x->policy.home, &why);
    if (why != NULL) {
        struct str rest = str_of(why), cause = str_cut(&rest, ':');
        err_set(e, ERR_DENIED, "%.*s: name another cwd, or use sandbox = \"read-only\"",
                (int)cause.n, cause.p);
    } else {
        e->code = trust_make_box(&x->box, &x->policy, &x->outside, e);
    }
}

static void on_box(void *arg)
{
    struct exec *x = arg;
    struct err *e = &x->no_box;
    if (!x->op.over && e->code == 0) {
        e->code = spawn(x, e);
    }
    if (x->p == NULL) {
        char *text = xasprintf("exec: cannot start '%s': %s", x->spec.shown, e->msg);
        bind__op_fail(&x->op, text); // says nothing to code that is gone
        free(text);
        exec_free(&x->op);
    }
}

static int exec_start(struct bind_op *op, struct err *e)
{
    struct exec *x = container_of(op, struct exec, op);
    if (x->spec.timeout_ms != 0) {
        timer_start(&x->timer, x->spec.timeout_ms);
    }
    if (!x->spec.boxed) {
        return spawn(x, e);
    }
    // hidden, guarded and limited is what it is for a session's tools
    const struct bind *b = op->o->bind;
    const struct hub_parts *hub = b->o.hub;
    const struct config *c = hub->config->now;
    x->policy = (struct box_policy){
        .mode = x->spec.mode,
        .working_dir = x->spec.cwd,
        .hide = arena_copy_list(&x->arena, config_strings(c, "sandbox.hide")),
        .home = hub->home->dir,
        .runtime = hub->home->runtime,
    };
    x->memory = (uint64_t)config_int(c, "limits.command_mb") << 20;
    x->processes = (uint64_t)config_int(c, "limits.command_processes");
    x->outside = trust_list_outside(hub->trust, hub->home->dir, plugin_view_loaded,
                                    &(struct plugin_view){.plugins = b->all_plugins}, &x->arena);
    work_submit(op->o->bind->files, work_mount_key(x->spec.cwd), make_box, on_box, x);
    return 0;
}

static const struct bind_op_kind exec_kind = {
    .line = LINE_EXEC, .start = exec_start, .cancel = exec_cancel, .free = exec_free};

int exec_run(lua_State *L, struct arena *a, const struct exec_spec *spec, int callback,
             exec_push *push)
{
    struct exec *x = xcalloc(1, sizeof *x);
    x->arena = *a;
    *a = (struct arena){0};
    x->spec = *spec;
    x->loop = bind_of(L)->o.hub->loop;
    x->push = push;
    buf_init(&x->out, OUTPUT_MAX + sizeof MARKER);
    buf_init(&x->err, OUTPUT_MAX + sizeof MARKER);
    timer_init(&x->timer, x->loop, on_timeout, x);
    bind__note_write(L, NULL); // the command may write anything
    return bind__op_run(L, &x->op, &exec_kind, "exec", sizeof *x + x->arena.used, callback);
}

static int push_result(lua_State *L, const struct exec_result *r)
{
    lua_createtable(L, 0, 4);
    if (r->signal != 0) {
        value_set_int(L, "signal", r->signal);
    } else {
        value_set_int(L, "code", r->code);
    }
    lua_pushlstring(L, r->out.p, r->out.n);
    lua_setfield(L, -2, "stdout");
    lua_pushlstring(L, r->err.p, r->err.n);
    lua_setfield(L, -2, "stderr");
    return 1;
}

// ---- its options: everything is copied to the scratch, because reading them may raise ------------

/// Raise when the texts under `key`, which have grown by `n` bytes, are too many.
static void check_texts(lua_State *L, const char *key, size_t *sum, size_t n)
{
    *sum += n;
    if (*sum > TEXTS_MAX) {
        luaL_error(L, "exec: '%s' is larger than 2 MiB: give large texts as stdin", key);
    }
}

static const char **read_args(lua_State *L, struct arena *a, const char *cmd)
{
    size_t n = 0, sum = 0;
    if (args_field(L, 1, "args")) {
        luaL_argexpected(L, lua_istable(L, -1), 1, "'args' as a list");
        n = lua_rawlen(L, -1);
    }
    if (n > ARGS_MAX) {
        luaL_error(L, "exec: more than %d arguments", ARGS_MAX);
    }
    const char **argv = arena_calloc(a, n + 2, sizeof *argv);
    argv[0] = cmd;
    for (size_t i = 1; i <= n; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i);
        if (lua_type(L, -1) == LUA_TNUMBER) {
            lua_tostring(L, -1);
        }
        struct str arg = str_of(args_z(L, -1, "exec", "an argument"));
        check_texts(L, "args", &sum, arg.n);
        argv[i] = arena_strdup(a, arg);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return argv;
}

static const char **read_env(lua_State *L, struct arena *a)
{
    size_t n = 0, sum = 0;
    if (!args_field(L, 1, "env")) {
        lua_pop(L, 1);
        return NULL;
    }
    luaL_argexpected(L, lua_istable(L, -1), 1, "'env' as a table");
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
        n++;
    }
    const char **env = arena_calloc(a, n + 1, sizeof *env);
    n = 0;
    for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
        const char *name = args_z(L, -2, "exec", "the name of a variable");
        if (name[0] == '\0' || strchr(name, '=') != NULL) {
            luaL_error(L, "exec: '%s' cannot be the name of a variable", name);
        }
        const char *value = args_z(L, -1, "exec", "the value of a variable");
        check_texts(L, "env", &sum, strlen(name) + strlen(value));
        env[n++] = arena_printf(a, "%s=%s", name, value);
    }
    lua_pop(L, 1);
    return env;
}

/// `sandbox`: true or the name of a mode; false and nil are none. Without a directory `true` opens nothing for writing.
static void read_sandbox(lua_State *L, struct exec_spec *spec)
{
    spec->mode = spec->cwd != NULL ? BOX_WORKSPACE_WRITE : BOX_READ_ONLY;
    args_field(L, 1, "sandbox");
    if (lua_type(L, -1) == LUA_TSTRING) {
        spec->boxed = true;
        if (!box_mode_parse(args_str(L, -1, "exec", "sandbox"), &spec->mode) ||
            spec->mode == BOX_FULL_ACCESS) {
            luaL_error(L, "exec: sandbox must be true, \"workspace-write\" or \"read-only\"");
        }
    } else {
        luaL_argexpected(L, lua_isnoneornil(L, -1) || lua_isboolean(L, -1), 1,
                         "'sandbox' as true or a mode");
        spec->boxed = lua_toboolean(L, -1);
    }
    if (spec->boxed && spec->cwd == NULL) {
        if (spec->mode == BOX_WORKSPACE_WRITE) {
            luaL_error(L, "exec: sandbox \"workspace-write\" needs a cwd");
        }
        spec->cwd = "/";
    }
}

static int l_exec(lua_State *L)
{
    static const char *const keys[] = {"cmd",   "args",      "cwd",     "env",
                                       "stdin", "timeout_s", "sandbox", NULL};
    if (!lua_istable(L, 1)) {
        return luaL_error(L, "exec: expects a table: exec{cmd = \"ls\", args = {\"-l\"}}");
    }
    args_keys(L, 1, "exec", keys);
    bind__op_check(L, 2, "exec");
    lua_settop(L, 2);
    struct arena *a = &args_scratch(L)->arena;
    struct exec_spec spec = {0};
    args_field(L, 1, "cmd");
    spec.shown = arena_strdup(a, str_of(args_z(L, -1, "exec", "cmd")));
    spec.argv = read_args(L, a, spec.shown);
    spec.env = read_env(L, a);
    if (args_field(L, 1, "cwd")) {
        char *full = path_expand_home(args_z(L, -1, "exec", "cwd"));
        spec.cwd = arena_strdup(a, str_of(full));
        free(full);
        if (spec.cwd[0] != '/') {
            return luaL_error(L, "exec: cwd must be an absolute path");
        }
    }
    read_sandbox(L, &spec);
    if (args_field(L, 1, "timeout_s")) {
        spec.timeout_ms = args_ms(L, -1, "exec", "timeout_s");
    }
    if (args_field(L, 1, "stdin")) {
        spec.stdin_text = arena_str(a, args_str(L, -1, "exec", "stdin"));
    }
    return exec_run(L, a, &spec, 2, push_result);
}

int face_exec(lua_State *L)
{
    lua_pushcfunction(L, l_exec);
    return 1;
}
