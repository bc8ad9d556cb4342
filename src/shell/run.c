// `afloat shell`, from the command line to the exit code.
//
//     find the project ── trust ── first build ── tasks ──┬── interactive: session (live.c)
//                                                         └── else: the program takes our place
//
// Without a terminal that we are in the foreground of, there is no prompt to show anything at: that is like
// --no-reload. The program then replaces our process (become.c).

#include <assert.h>
#include <unistd.h>

#include "base/path.h"
#include "base/visible.h"
#include "env/gate.h"
#include "loop/proc.h"
#include "pty/tty.h"
#include "shell/consent.h"
#include "shell/live_int.h"
#include "shell/report.h"
#include "watch/watch.h"

enum { EXIT_INTERRUPTED = 130 };

void run__settle_result(struct run *r)
{
    assert(r->built != NULL);
    env_result_unref(r->result);
    r->result = r->n_exports == 0 ? env_result_ref(r->built)
                                  : env_result_with(r->built, (const char *const *)environ,
                                                    r->exports, r->n_exports);
}

void run__add_exports(struct run *r, const struct env_tasks_end *end)
{
    const struct env_var *old = r->exports;
    r->exports = arena_calloc(&r->arena, r->n_exports + end->n_exports + 1, sizeof *r->exports);
    for (size_t i = 0; i < r->n_exports; i++) {
        r->exports[i] = old[i];
    }
    for (size_t i = 0; i < end->n_exports; i++) {
        const struct env_var *new = &end->exports[i];
        size_t at = 0;
        while (at < r->n_exports && strcmp(r->exports[at].name, new->name) != 0) {
            at++;
        }
        r->n_exports += at == r->n_exports;
        r->exports[at] = (struct env_var){.name = arena_strdup(&r->arena, str_of(new->name)),
                                          .value = arena_strdup(&r->arena, str_of(new->value))};
    }
}

// ---- messages of the coordinator -----------------------------------------------------------

static void keep_changed(struct run *r, const char *const *changed, size_t n)
{
    for (size_t i = 0; i < r->n_changed; i++) {
        free(r->changed[i]);
    }
    free(r->changed);
    r->changed = xcalloc(n + 1, sizeof *r->changed);
    r->n_changed = n;
    for (size_t i = 0; i < n; i++) {
        r->changed[i] = xstrdup(changed[i]);
    }
}

static void keep_failure(struct run *r, int code, const char *text)
{
    free(r->failure);
    r->failure = text != NULL ? xstrdup(text) : NULL;
    r->failure_code = code;
}

static void on_building(const struct env_building *m, void *arg)
{
    struct run *r = arg;
    keep_changed(r, m->changed, m->n_changed);
    if (r->live != NULL) {
        report_building(r->report, m);
        live__building(r->live);
    }
}

static void on_ready(const struct env_ready *m, void *arg)
{
    struct run *r = arg;
    env_result_unref(r->built);
    r->built = env_result_ref(m->result);
    run__settle_result(r);
    keep_changed(r, m->changed, m->n_changed);
    keep_failure(r, 0, NULL);
    r->settled = true;
    if (r->live != NULL) {
        report_ready(r->report, m);
        live__ready(r->live);
    }
}

static void on_failed(const struct env_failed *m, void *arg)
{
    struct run *r = arg;
    keep_changed(r, m->changed, m->n_changed);
    keep_failure(r, m->code, m->text);
    r->settled = true;
    if (r->live != NULL) {
        report_failed(r->report, m);
        live__failed(r->live);
    }
}

static void on_unchanged(void *arg)
{
    struct run *r = arg;
    if (r->live != NULL) {
        live__unchanged(r->live);
    }
}

static void on_log(struct str line, void *arg)
{
    struct run *r = arg;
    if (r->live == NULL) {
        progress_line(&r->progress, line);
    } else if (str_starts(line, "afloat: ")) { // what we say ourselves; the rest is in 'env error'
        char *text = str_dup(line);
        live__note(r->live, NULL, text);
        free(text);
    }
}

/// The kernel does not report changes: files are looked at from time to time.
static void on_degraded(const struct watch_warning *w, void *arg)
{
    struct run *r = arg;
    char *text = xasprintf("afloat: %s; %s", w->message, w->remedy);
    if (r->live != NULL) {
        live__note(r->live, NULL, text);
    } else {
        progress_line(&r->progress, str_of(text));
    }
    free(text);
}

// ---- what to run ---------------------------------------------------------------------------

const char *run__shell(const struct shell_opts *o, enum env_dialect *d)
{
    const char *program = o->program != NULL ? o->program : getenv("SHELL");
    if (program != NULL && program[0] != '\0' && env_dialect_of(program, d) && *d != ENV_SH) {
        return program;
    }
    *d = ENV_BASH;
    return "bash";
}

/// True when the entry names a variable that one of `more` sets.
static bool is_set_by(const char *entry, const char *const *more)
{
    size_t n = strcspn(entry, "=");
    for (; more != NULL && *more != NULL; more++) {
        if (strncmp(entry, *more, n) == 0 && (*more)[n] == '=') {
            return true;
        }
    }
    return false;
}

/// `base` without what `more` sets, then `more`; one block.
static char **overlay(char *const *base, const char *const *more)
{
    const char *const *lists[] = {(const char *const *)base, more};
    size_t n = 0, bytes = 0, k = 0;
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; lists[l][i] != NULL; i++, n++) {
            bytes += strlen(lists[l][i]) + 1;
        }
    }
    char **out = xmalloc((n + 1) * sizeof *out + bytes);
    char *at = (char *)(out + n + 1);
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; lists[l][i] != NULL; i++) {
            if (l == 1 || !is_set_by(lists[l][i], more)) {
                out[k++] = at;
                at = stpcpy(at, lists[l][i]) + 1;
            }
        }
    }
    out[k] = NULL;
    return out;
}

char **run__environ(const struct run *r, const char *const *more)
{
    struct arena a = {0};
    vec(const char *) ours = {0};
    vec_push(&ours, "AFLOAT_SHELL=1");
    vec_push(&ours, arena_printf(&a, "AFLOAT_PROJECT=%s", r->project.root));
    vec_push(&ours, arena_printf(&a, "AFLOAT_STATE=%s/.afloat/state", r->project.root));
    if (r->result != NULL) {
        vec_push(&ours, "AFLOAT_ENV_GENERATION=1");
    }
    for (; more != NULL && *more != NULL; more++) {
        vec_push(&ours, *more);
    }
    vec_push(&ours, NULL);
    char **base = env_result_environ(r->result, (const char *const *)environ);
    char **out = overlay(base, ours.p);
    free(base);
    vec_fini(&ours);
    arena_fini(&a);
    return out;
}

// ---- the whole -----------------------------------------------------------------------------

static void close_run(struct run *r)
{
    env_tasks_close(r->tasks);
    if (r->coord != NULL) {
        env_coord_close(r->coord);
    }
    watcher_close(r->watcher);
    keep_changed(r, NULL, 0);
    free(r->changed);
    keep_failure(r, 0, NULL);
    env_result_unref(r->result);
    env_result_unref(r->built);
    env_project_fini(&r->project);
    vec_fini(&r->left);
    arena_fini(&r->arena);
    loop_run(&r->loop); // what was closed ends
    int rc = loop_close(&r->loop, NULL);
    (void)rc; // the process ends now
    proc_teardown();
}

/// The first line of a text, for a message of one line.
static struct str first_line(const char *text)
{
    struct str rest = str_of(text);
    return str_cut(&rest, '\n');
}

static void say_failure(const struct run *r)
{
    if (r->interrupted) {
        fputs("afloat: interrupted; this shell has the outer environment\n", stderr);
    } else if (r->failure != NULL) {
        struct str line = first_line(r->failure);
        visible_say("afloat: the environment failed, this shell has the outer one: " STR_FMT,
                    STR_ARG(line));
        fputs("afloat: 'afloat env error' says more\n", stderr);
    } else if (!r->tasks_ok) {
        fputs("afloat: a task failed; 'afloat env task NAME' runs it again\n", stderr);
    }
}

/// Without a session: a program runs only in a complete environment. A user at a terminal is told what
/// failed and gets a shell anyway, as with a session.
static int run_program(struct run *r, struct err *e)
{
    if (become__is_interactive(r)) {
        say_failure(r);
        return become__run(r, e);
    }
    if (r->interrupted) {
        return EXIT_INTERRUPTED;
    }
    if (r->failure != NULL) {
        struct str line = first_line(r->failure);
        int code = r->failure_code == ERR_DENIED ? ERR_DENIED : ERR_INVALID;
        return err_set(e, code, "the environment failed: " STR_FMT, STR_ARG(line));
    }
    if (!r->tasks_ok) {
        return err_set(e, ERR_INVALID, "a task of the environment failed");
    }
    return become__run(r, e);
}

static int run_trusted(struct run *r, const struct env_gate *gate, struct err *e)
{
    const struct env_coord_opts o = {.loop = &r->loop,
                                     .watcher = r->watcher,
                                     .root = r->project.root,
                                     .base = (const char *const *)environ,
                                     .gate = gate,
                                     .timeout_ms = r->o->build_timeout_ms,
                                     .cb = {.building = on_building,
                                            .ready = on_ready,
                                            .failed = on_failed,
                                            .log = on_log,
                                            .unchanged = on_unchanged},
                                     .arg = r};
    int rc;
    r->coord = env_coord_open(&o);
    first__build(r);
    if (r->failure != NULL && r->failure_code == ERR_DENIED) {
        rc = err_set(e, ERR_DENIED, "%s", r->failure);
    } else if (r->interactive) {
        say_failure(r);
        rc = live__run(r, e);
    } else {
        rc = run_program(r, e);
    }
    env_coord_close(r->coord);
    r->coord = NULL;
    return rc;
}

int shell_run(const struct shell_opts *o, struct err *e)
{
    struct run r = {.o = o};
    struct env_gate gate;
    enum env_dialect d;
    bool in = tty_in_foreground(STDIN_FILENO);
    r.terminal = in && isatty(STDERR_FILENO);
    r.interactive =
        o->reload && o->words == NULL && o->string == NULL && in && isatty(STDOUT_FILENO);
    if (o->program != NULL && (!env_dialect_of(o->program, &d) || d == ENV_SH)) {
        return err_set(e, ERR_USAGE, "'--shell' takes bash, zsh or fish, not '%s'", o->program);
    }
    int rc = env_project_find(&r.project, o->cwd, e);
    rc = rc == 0 ? proc_setup(e) : rc;
    rc = rc == 0 ? loop_init(&r.loop, NULL, e) : rc;
    if (rc < 0) {
        env_project_fini(&r.project);
        return rc;
    }
    r.watcher = r.interactive ? watcher_open(&r.loop, on_degraded, &r) : NULL;
    env_gate_trust_init(&gate, o->home->dir);
    rc = consent_get(&gate, o->home, r.project.root, o->may_ask && r.terminal, e);
    rc = rc == 0 ? run_trusted(&r, &gate, e) : rc;
    env_gate_trust_fini(&gate);
    close_run(&r);
    return rc;
}
