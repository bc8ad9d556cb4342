// One build, from files to a difference.
//
//     worker:  read env.toml and all it names ── may these files be used? (gate)
//        │ no: failed, with nothing run
//        v
//     delegate (direnv, devenv, nix, mise)     a program; direnv: a second one for its watch list
//        v
//     nix, devenv: shellHook                   bash with provider.bash
//        v
//     env.toml evaluated on top                in memory
//        v
//     script on top of that                    bash with provider.bash
//        v
//     difference from the outer environment ──> on_done
//
// Each step is one function that starts it and one that continues after it. Inputs are reported as soon as
// they are known, so that a failed or cancelled build still leaves something to watch. What programs print
// goes to on_log and into the text of a failure; it is never an answer.

#include "env/build.h"

#include <assert.h>
#include <unistd.h>

#include "base/path.h"
#include "env/child.h"
#include "env/delegate.h"
#include "env/paths.h"
#include "env/result.h"
#include "env/shipped.h"
#include "env/spec_int.h"
#include "env/wire.h"

struct env_build {
    struct env_build_opts o;
    char *root;
    struct arena arena;
    struct env_vars base, now;
    struct env_spec spec;
    bool on_lane; // a job is
    bool cancelled;
    struct err read_err; // of the job
    int read_rc;
    char *path;              // PATH for a delegate that only evaluates; NULL: as it is
    struct env_child *child; // what runs now
    const struct env_delegate *delegate;
    char *copy;           // of the root, which nix evaluates in its store; NULL: not known yet
    struct buf evaluated; // files of the project, one a line, that no text names
    struct env_wire wire;
    struct str answer; // of the delegate
    struct err fault;  // of the delegate, kept while its watch list is asked for
    char *tail;        // what it printed last
    vec(const char *) messages;
    vec(struct env_var) functions;
};

static void build_free(struct env_build *b)
{
    assert(!b->on_lane);
    env_spec_fini(&b->spec);
    env_wire_fini(&b->wire);
    env_vars_fini(&b->base);
    env_vars_fini(&b->now);
    vec_fini(&b->messages);
    vec_fini(&b->functions);
    buf_fini(&b->evaluated);
    arena_fini(&b->arena);
    free(b->tail);
    free(b->root);
    free(b);
}

static void fail(struct env_build *b, int code, const char *why, struct str tail)
{
    struct buf text = {.max = SIZE_MAX};
    buf_addz(&text, why);
    buf_addc(&text, '\n');
    buf_adds(&text, tail);
    b->o.on_done(NULL, code, buf_z(&text), b->o.arg);
    buf_fini(&text);
    build_free(b);
}

static void succeed(struct env_build *b)
{
    struct err e = {0};
    if (env_vars_check(&b->now, &e) != 0) {
        fail(b, e.code, e.msg, STR_NULL);
        return;
    }
    struct env_result *r = env_result_new();
    env_result_diff(r, &b->base, &b->now);
    vec_foreach (m, &b->messages) {
        vec_push(&r->messages, arena_strdup(&r->arena, str_of(*m)));
    }
    r->provider = b->delegate != NULL      ? b->delegate->name
                  : b->spec.script != NULL ? "script"
                                           : "toml";
    env_result_add_functions(r, b->functions.p, b->functions.n);
    env__tasks_copy(r, &b->spec);
    b->o.on_done(r, 0, "", b->o.arg);
    env_result_unref(r);
    build_free(b);
}

static void add_input(struct env_build *b, const char *path, enum env_kind kind, bool guess)
{
    struct env_input in = {
        .path = env__path(&b->arena, b->root, path), .kind = kind, .guess = guess};
    b->o.on_input(&in, b->o.arg);
}

static bool on_line(struct str line, void *arg)
{
    struct env_build *b = arg;
    b->o.on_log(line, b->o.arg);
    return true;
}

static bool is_allowed(const struct env_build *b, const char *path)
{
    bool allowed = !b->spec.exact;
    for (size_t i = 0; i < b->spec.allowed.n && !allowed; i++) {
        allowed = strcmp(b->spec.allowed.p[i], path) == 0;
    }
    for (size_t i = 0; i < b->spec.allowed.n && !allowed; i++) { // nix resolves links
        char *real = realpath(b->spec.allowed.p[i], NULL);
        allowed = real != NULL && strcmp(real, path) == 0;
        free(real);
    }
    return allowed;
}

/// nix evaluates a copy of the project, beginning with its flake.nix; other files are those of its inputs.
static void note_evaluated(struct env_build *b, const char *file)
{
    if (b->copy == NULL && str_eqz(path_base(str_of(file)), "flake.nix")) {
        b->copy = arena_strdup(&b->arena, path_dir(str_of(file)));
    }
    const char *rel = b->copy != NULL ? path_below(b->copy, file) : NULL;
    const char *path = rel != NULL ? env__path(&b->arena, b->root, rel) : NULL;
    if (path == NULL) {
        return;
    }
    if (!env_spec_has_read(&b->spec, path)) {
        add_input(b, path, ENV_FILE, false);
        buf_addf(&b->evaluated, "%s\n", path);
    }
    if (b->fault.code == 0 && !is_allowed(b, path)) {
        err_set(&b->fault, ERR_DENIED,
                "'%s' is evaluated, and it is not among the trusted files: write its path as a "
                "literal, or follow the project ('afloat trust --follow')",
                rel);
        env_child_kill(b->child);
    }
}

static bool on_nix_line(struct str line, void *arg)
{
    struct env_build *b = arg;
    struct str file = b->delegate->traces ? env_nix_evaluated(line) : STR_NULL;
    if (file.n == 0) {
        return on_line(line, arg);
    }
    note_evaluated(b, arena_strdup(&b->arena, file));
    return false;
}

// Start a program in the environment that was built so far, in its box unless it only evaluates.
static int run(struct env_build *b, const char *const *argv, bool side, struct str input,
               void (*then)(const struct env_child_end *end, void *arg),
               int (*on_side)(struct str bytes, void *arg, struct err *e), struct err *e)
{
    bool evaluates = !side && b->delegate->evaluates;
    const char *own[] = {arena_printf(&b->arena, "PWD=%s", b->root),
                         arena_printf(&b->arena, "AFLOAT_PROJECT=%s", b->root),
                         arena_printf(&b->arena, "AFLOAT_STATE=%s/.afloat/state", b->root)};
    struct env_vars vars;
    assert(b->child == NULL);
    env_vars_init(&vars, &b->arena);
    env_vars_copy(&vars, &b->now);
    if (evaluates && b->path != NULL) {
        env_vars_set(&vars, STR("PATH"), str_of(b->path));
    }
    char **env = env_vars_block(&vars, own, ARRAY_LEN(own));
    env_vars_fini(&vars);
    struct env_child_opts o = {.loop = b->o.loop,
                               .argv = argv,
                               .env = (const char *const *)env,
                               .cwd = b->root,
                               .box = evaluates ? NULL : b->spec.box,
                               .timeout_ms = b->o.timeout_ms,
                               .keep_stdout = !side,
                               .side_channel = side,
                               .input = input,
                               .on_line = evaluates ? on_nix_line : on_line,
                               .on_side = on_side,
                               .on_end = then,
                               .arg = b};
    int rc = env_child_start(&b->child, &o, e);
    free(env);
    return rc;
}

// ---- the script ------------------------------------------------------------------------------

static void on_wire_input(const char *path, enum env_kind kind, void *arg)
{
    add_input(arg, path, kind, kind == ENV_FILE); // an input without a kind counts as a file
}

static int on_script_side(struct str bytes, void *arg, struct err *e)
{
    struct env_build *b = arg;
    return env_wire_feed(&b->wire, bytes, e);
}

/// Take over the environment that bash left after running `what`; false: the build has failed.
static bool take_environment(struct env_build *b, const struct env_child_end *end, const char *what)
{
    struct err e = {0};
    b->child = NULL;
    if (end->code != 0) {
        fail(b, end->code, arena_printf(&b->arena, "%s: %s", what, end->why), end->tail);
        return false;
    }
    int rc = env_wire_end(&b->wire, &e);
    if (rc != 0) {
        fail(b, rc, e.msg, end->tail);
        return false;
    }
    vec_foreach (m, &b->wire.answer->messages) {
        vec_push(&b->messages, arena_strdup(&b->arena, str_of(*m)));
    }
    vec_foreach (f, &b->wire.functions) {
        struct env_var copy = {arena_strdup(&b->arena, str_of(f->name)),
                               arena_strdup(&b->arena, str_of(f->value))};
        vec_push(&b->functions, copy);
    }
    env_wire_apply(&b->wire, &b->now);
    return true;
}

/// Run `file` in bash, or `text` when `file` is "-".
static void start_bash(struct env_build *b, const char *file, struct str text,
                       void (*then)(const struct env_child_end *end, void *arg))
{
    struct err e = {0};
    vec(const char *) argv = {0};
    const char *const words[] = {"bash",
                                 "--noprofile",
                                 "--norc",
                                 "-c",
                                 shipped_get(shipped_env, "provider.bash")->text,
                                 "afloat",
                                 file,
                                 b->spec.exact ? "exact" : "any"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        vec_push(&argv, words[i]);
    }
    vec_foreach (path, &b->spec.allowed) {
        vec_push(&argv, *path);
    }
    vec_push(&argv, NULL);
    env_wire_fini(&b->wire);
    env_wire_init(&b->wire);
    b->wire.on_input = on_wire_input;
    b->wire.arg = b;
    int rc = run(b, argv.p, true, text, then, on_script_side, &e);
    vec_fini(&argv);
    if (rc != 0) {
        fail(b, rc, e.msg, STR_NULL);
    }
}

static void on_script_end(const struct env_child_end *end, void *arg)
{
    struct env_build *b = arg;
    const char *what = arena_printf(&b->arena, "script '%s'", path_base(str_of(b->spec.script)).p);
    if (take_environment(b, end, what)) {
        succeed(b);
    }
}

static void evaluate(struct env_build *b)
{
    struct err e = {0};
    int rc = env_spec_eval(&b->spec, &b->now, &e);
    rc = rc == 0 ? env_vars_check(&b->now, &e) : rc;
    if (rc != 0) {
        fail(b, rc, e.msg, STR_NULL);
    } else if (b->spec.script != NULL) {
        start_bash(b, b->spec.script, STR_NULL, on_script_end);
    } else {
        succeed(b);
    }
}

// ---- the delegate ----------------------------------------------------------------------------

static void on_hook_end(const struct env_child_end *end, void *arg)
{
    struct env_build *b = arg;
    if (take_environment(b, end, "shellHook")) {
        evaluate(b);
    }
}

static void read_delegate(struct env_build *b)
{
    struct err e = b->fault;
    int rc = e.code;
    if (rc == 0) {
        rc = b->delegate->read(&b->now, b->delegate->name, b->answer, &e);
    }
    if (rc != 0) {
        fail(b, rc, e.msg, str_of(b->tail));
        return;
    }
    struct str hook = b->delegate->evaluates ? env_nix_hook(&b->arena, b->answer) : STR_NULL;
    if (hook.n != 0) {
        start_bash(b, "-", hook, on_hook_end);
    } else {
        evaluate(b);
    }
}

static void on_dump_input(const char *path, enum env_kind kind, void *arg)
{
    add_input(arg, path, kind, false);
}

static void on_dump_end(const struct env_child_end *end, void *arg)
{
    struct env_build *b = arg;
    struct err e = {0};
    b->child = NULL;
    if (end->code != 0 || env_direnv_read_dump(end->out, on_dump_input, b, &e) != 0) {
        b->o.on_log(
            STR("afloat: direnv did not list the files that it read; only .envrc is watched"),
            b->o.arg);
    }
    read_delegate(b);
}

/// Where programs of the project may store files. Best effort: a project may be read-only.
static void make_state(const struct env_build *b)
{
    char *dir = path_join(b->root, ".afloat/state"), *ignore = path_join(dir, ".gitignore");
    if (access(dir, F_OK) != 0 && path_mkdirs(dir, 0755, NULL) == 0) {
        (void)!path_write_atomic(ignore, STR("*\n"), 0644, NULL);
    }
    free(ignore);
    free(dir);
}

// On a worker. Sandboxed commands must not write what runs here (trust__env_names); of files that no text names only
// we know.
static void list_evaluated(void *arg)
{
    struct env_build *b = arg;
    char *list = path_join(b->root, ".afloat/state/evaluated");
    if (b->evaluated.n == 0) {
        unlink(list);
    } else {
        make_state(b);
        (void)!path_write_atomic(list, buf_str(&b->evaluated), 0644, NULL);
    }
    free(list);
}

static void on_evaluated_listed(void *arg)
{
    struct env_build *b = arg;
    b->on_lane = false;
    if (b->cancelled) {
        build_free(b);
    } else {
        read_delegate(b);
    }
}

static void on_delegate_end(const struct env_child_end *end, void *arg)
{
    struct env_build *b = arg;
    struct err e = {0};
    b->child = NULL;
    b->answer = arena_str(&b->arena, end->out);
    b->tail = str_dup(b->fault.code == 0 ? end->tail : STR_NULL); // we have ended it: no news
    if (end->code != 0 && b->fault.code == 0) {
        err_set(&b->fault, end->code, "%s", end->why);
    }
    const char *watches =
        strcmp(b->delegate->name, "direnv") == 0 ? env_direnv_watches(&b->arena, b->answer) : NULL;
    const char *const argv[] = {"direnv", "show_dump", watches, NULL};
    if (b->delegate->traces && b->fault.code == 0 && !b->spec.exact) {
        b->on_lane = true;
        work_submit(b->o.lane, work_mount_key(b->root), list_evaluated, on_evaluated_listed, b);
    } else if (watches == NULL || run(b, argv, false, STR_NULL, on_dump_end, NULL, &e) != 0) {
        read_delegate(b);
    }
}

// ---- reading ---------------------------------------------------------------------------------

// On a worker.
static void read_files(void *arg)
{
    struct env_build *b = arg;
    const struct env_spec *s = &b->spec;
    b->read_rc = env_spec_read(&b->spec, b->root, &b->base, &b->read_err);
    if (b->read_rc == 0) {
        b->read_rc = b->o.gate->check(&b->spec, b->o.gate->arg, &b->read_err);
    }
    if (b->read_rc != 0) {
        return;
    }
    if (s->described && (s->script != NULL || s->tasks.n != 0)) {
        make_state(b);
    }
    if (s->wary && s->delegate != NULL) { // PATH without directories of the project
        size_t n, kept = 0;
        const char **dirs = env_paths_split(&b->arena, env_vars_get(&b->base, STR("PATH")), &n);
        for (size_t i = 0; i < n; i++) {
            char *real = realpath(dirs[i], NULL);
            if (real != NULL && path_below(b->root, real) == NULL) {
                dirs[kept++] = dirs[i];
            }
            free(real);
        }
        b->path = env_paths_join(&b->arena, dirs, kept);
    }
}

static void on_files_read(void *arg)
{
    struct env_build *b = arg;
    b->on_lane = false;
    if (b->cancelled) {
        build_free(b);
        return;
    }
    vec_foreach (in, &b->spec.inputs) {
        b->o.on_input(in, b->o.arg);
    }
    if (b->read_rc != 0) {
        fail(b, b->read_rc, b->read_err.msg, STR_NULL);
        return;
    }
    if (b->spec.delegate == NULL) {
        evaluate(b);
        return;
    }
    struct err e = {0};
    b->delegate = env_delegate_find(b->spec.delegate);
    assert(b->delegate != NULL);
    for (const char *const *in = b->delegate->inputs; *in != NULL; in++) {
        add_input(b, *in, ENV_FILE, true);
    }
    int rc = run(b, b->delegate->argv, false, STR_NULL, on_delegate_end, NULL, &e);
    if (rc != 0) {
        fail(b, rc, e.msg, STR_NULL);
    }
}

static struct env_build *build_start(const struct env_build_opts *o)
{
    struct env_build *b = xcalloc(1, sizeof *b);
    b->o = *o;
    b->root = xstrdup(o->root);
    env_vars_init(&b->base, &b->arena);
    env_vars_init(&b->now, &b->arena);
    env_vars_add_environ(&b->base, o->base);
    env_vars_copy(&b->now, &b->base);
    env_wire_init(&b->wire);
    b->evaluated.max = SIZE_MAX;
    b->on_lane = true;
    work_submit(o->lane, work_mount_key(b->root), read_files, on_files_read, b);
    return b;
}

static void build_cancel(struct env_build *b)
{
    b->cancelled = true;
    if (b->child != NULL) {
        env_child_drop(b->child);
    }
    if (!b->on_lane) {
        build_free(b);
    }
}

static bool build_runs_programs(const struct env_build *b)
{
    return !b->on_lane && (b->spec.delegate != NULL || b->spec.script != NULL);
}

const struct env_builder env_builder = {
    .build = build_start,
    .cancel = build_cancel,
    .runs_programs = build_runs_programs,
};
