// Run the tasks of a project.
//
//     waiting ── all it comes after are over ──> printing ──> asking ──> running ──> over
//        │                                       (inputs)    (status)                 │
//        └ one of them failed: blocked            same: skipped  0: skipped        failed
//
// Tasks that do not need each other run at the same time, RUNNING_MAX of them. One that fails blocks only
// those that come after it. Tasks for the interactive shell, and all that come after one, are only listed at
// the end, when it is known that nothing they come after failed: the session runs them.
//
// A task writes its results to two files in a private directory that we remove at the end:
// AFLOAT_TASK_EXPORTS_FILE (dotenv; variables for the shell and for later tasks) and
// AFLOAT_TASK_OUTPUT_FILE (JSON; later tasks find all of them in AFLOAT_TASKS_OUTPUTS).

#include "env/task.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "base/json.h"
#include "base/path.h"
#include "env/dotenv.h"
#include "env/result.h"
#include "loop/work.h"

enum {
    RUNNING_MAX = 8,
    FILE_MAX = 1 << 20,
    OUTPUTS_MAX = ENV_ENTRY_MAX - sizeof "AFLOAT_TASKS_OUTPUTS={}",
};

enum step { WAITING, PRINTING, ASKING, RUNNING, OVER, FAILED, SHELL };

struct task_job {
    struct env_tasks *all;
    const struct env_task *task;
    enum step step;
    bool wanted; // not for the shell, and asked for
    bool left;   // for the shell, and asked for
    struct env_exec *exec;
    char print[SHA256_HEX];
    char *files[2]; // of outputs and exports
};

struct env_tasks {
    struct env_tasks_opts o;
    char *root;
    char *dir; // for the files; NULL until the first task
    struct arena arena;
    struct env_vars base, exports;
    struct buf outputs; // members of a JSON object
    struct lane *lane;
    struct task_job *jobs;
    size_t n, n_wanted, n_over;
    size_t printing; // jobs on the lane
    bool cancelled, closed, ended;
    const char *failed;
    struct loop_task *task;
};

static void pump_soon(struct env_tasks *t);

static void say(struct task_job *j, enum env_task_state state, const char *text)
{
    struct env_tasks *t = j->all;
    struct env_task_progress p = {
        .task = j->task, .state = state, .text = text, .done = t->n_over, .total = t->n_wanted};
    t->o.progress(&p, t->o.arg);
}

static struct task_job *job_of(struct env_tasks *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->jobs[i].task->name, name) == 0) {
            return &t->jobs[i];
        }
    }
    return NULL;
}

static void over(struct task_job *j, enum env_task_state state, const char *text)
{
    struct env_tasks *t = j->all;
    assert(j->step < OVER);
    bool bad = state == ENV_TASK_FAILED || state == ENV_TASK_BLOCKED;
    j->step = bad ? FAILED : OVER;
    t->n_over++;
    if (bad && t->failed == NULL) {
        t->failed = j->task->name;
    }
    say(j, state, text);
    pump_soon(t);
}

// ---- what a task made ------------------------------------------------------------------------

static void remove_files(struct task_job *j)
{
    for (size_t i = 0; i < ARRAY_LEN(j->files); i++) {
        if (j->files[i] != NULL) {
            unlink(j->files[i]);
            free(j->files[i]);
            j->files[i] = NULL;
        }
    }
}

static int take_exports(struct task_job *j, struct err *e)
{
    struct env_tasks *t = j->all;
    struct buf text = {.max = FILE_MAX};
    struct err why = {0};
    int rc = path_read(j->files[1], &text, e);
    if (rc == 0 && env_dotenv_read(&t->exports, buf_str(&text), &why) != 0) {
        rc = err_set(e, ERR_PARSE, "its exports: %s", why.msg);
    }
    rc = rc == 0 ? env_vars_check(&t->exports, e) : rc;
    buf_fini(&text);
    return rc == -ENOENT ? 0 : rc;
}

static int take_output(struct task_job *j, struct err *e)
{
    struct env_tasks *t = j->all;
    struct buf text = {.max = FILE_MAX}, member = {.max = OUTPUTS_MAX - t->outputs.n};
    struct arena a = {0};
    struct json *doc;
    struct err why = {0};
    int rc = path_read(j->files[0], &text, e);
    if (rc == 0 && text.n != 0) {
        rc = json_parse(&doc, &a, buf_str(&text), NULL, &why);
        if (rc == 0) {
            buf_addz(&member, t->outputs.n != 0 ? "," : "");
            struct jw w = {.out = &member};
            jw_strz(&w, j->task->name);
            buf_addc(&member, ':');
            json_write(&member, doc, 0);
        } else {
            err_set(e, rc, "its output is not JSON: %s", why.msg);
        }
    }
    if (buf_ok(&member)) {
        buf_adds(&t->outputs, buf_str(&member));
    } else {
        rc = err_set(e, ERR_TOO_LARGE,
                     "its output is too large: those of all tasks must fit into %d bytes",
                     OUTPUTS_MAX);
    }
    arena_fini(&a);
    buf_fini(&member);
    buf_fini(&text);
    return rc == -ENOENT ? 0 : rc;
}

static char *print_path(const struct task_job *j)
{
    char *name = str_dup(str_of(j->task->name));
    for (char *p = name; *p != '\0'; p++) {
        *p = *p == '/' ? '_' : *p;
    }
    char *path = xasprintf("%s/.afloat/state/tasks/%s", j->all->root, name);
    free(name);
    return path;
}

// ---- running ---------------------------------------------------------------------------------

static int make_files(struct task_job *j, struct err *e)
{
    struct env_tasks *t = j->all;
    if (t->dir == NULL) {
        const char *tmp = env_vars_get(&t->base, STR("TMPDIR"));
        t->dir = path_join(tmp != NULL && tmp[0] == '/' ? tmp : "/tmp", "afloat-tasks-XXXXXX");
        if (mkdtemp(t->dir) == NULL) {
            int rc = err_sys(e, "cannot make '%s'", t->dir);
            free(t->dir);
            t->dir = NULL;
            return rc;
        }
    }
    j->files[0] = xasprintf("%s/output-%zu", t->dir, (size_t)(j - t->jobs));
    j->files[1] = xasprintf("%s/exports-%zu", t->dir, (size_t)(j - t->jobs));
    return 0;
}

static char **make_env(struct task_job *j)
{
    struct env_tasks *t = j->all;
    struct env_vars vars;
    struct arena a = {0};
    env_vars_init(&vars, &a);
    env_vars_copy(&vars, &t->base);
    env_result_apply(t->o.result, &vars);
    env_vars_copy(&vars, &t->exports);
    for (size_t i = 0; i < j->task->n_env; i++) {
        env_vars_set(&vars, str_of(j->task->env[i].name), str_of(j->task->env[i].value));
    }
    const char *own[] = {arena_printf(&a, "AFLOAT_TASK_OUTPUT_FILE=%s", j->files[0]),
                         arena_printf(&a, "AFLOAT_TASK_EXPORTS_FILE=%s", j->files[1]),
                         arena_printf(&a, "AFLOAT_TASKS_OUTPUTS={%s}", buf_z(&t->outputs)),
                         arena_printf(&a, "AFLOAT_PROJECT=%s", t->root),
                         arena_printf(&a, "AFLOAT_STATE=%s/.afloat/state", t->root),
                         arena_printf(&a, "PWD=%s", j->task->cwd)};
    char **env = env_vars_block(&vars, own, ARRAY_LEN(own));
    env_vars_fini(&vars);
    arena_fini(&a);
    return env;
}

static void on_line(struct str line, void *arg)
{
    struct task_job *j = arg;
    char *text = str_dup(line);
    if (j->step == RUNNING) {
        say(j, ENV_TASK_OUTPUT, text);
    }
    free(text);
}

static void on_end(int code, const char *why, void *arg);

static void run(struct task_job *j, enum step step, const char *command)
{
    struct env_tasks *t = j->all;
    struct err e = {0};
    int rc = j->files[0] == NULL ? make_files(j, &e) : 0;
    if (rc == 0) {
        char **env = make_env(j);
        struct env_exec_opts o = {.loop = t->o.loop,
                                  .command = command,
                                  .cwd = j->task->cwd,
                                  .env = (const char *const *)env,
                                  .on_line = on_line,
                                  .on_end = on_end,
                                  .arg = j};
        j->step = step;
        rc = t->o.executor->start(&j->exec, &o, &e);
        free(env);
    }
    if (rc != 0) {
        over(j, ENV_TASK_FAILED, e.msg);
    }
}

static void start_run(struct task_job *j)
{
    say(j, ENV_TASK_STARTED, "");
    if (!j->all->closed) {
        run(j, RUNNING, j->task->run);
    }
}

static void on_end(int code, const char *why, void *arg)
{
    struct task_job *j = arg;
    j->exec = NULL;
    if (j->step == RUNNING) {
        struct err e = {0};
        int rc = code != 0 ? err_set(&e, code, "%s", why) : take_exports(j, &e);
        rc = rc == 0 ? take_output(j, &e) : rc;
        remove_files(j);
        if (rc == 0 && j->print[0] != '\0') { // best effort: without it the task runs again
            char *path = print_path(j), *dir = str_dup(path_dir(str_of(path)));
            if (path_mkdirs(dir, 0700, NULL) == 0) {
                (void)!path_write_atomic(path, str_of(j->print), 0600, NULL);
            }
            free(dir);
            free(path);
        }
        over(j, rc == 0 ? ENV_TASK_DONE : ENV_TASK_FAILED, rc == 0 ? "" : e.msg);
    } else if (j->all->cancelled) {
        over(j, ENV_TASK_FAILED, "interrupted");
    } else if (code == 0) {
        over(j, ENV_TASK_SKIPPED, "");
    } else {
        start_run(j);
    }
}

static bool same_as_last(struct task_job *j)
{
    struct buf old = {.max = SHA256_HEX};
    char *path = print_path(j);
    bool same =
        j->print[0] != '\0' && path_read(path, &old, NULL) == 0 && str_eqz(buf_str(&old), j->print);
    buf_fini(&old);
    free(path);
    return same;
}

static void print_job(void *arg)
{
    struct task_job *j = arg;
    env_task_print(j->task, j->print);
}

static void tasks_free(void *arg);

static void on_printed(void *arg)
{
    struct task_job *j = arg;
    struct env_tasks *t = j->all;
    t->printing--;
    if (t->closed) {
        tasks_free(t);
    } else if (t->cancelled) {
        over(j, ENV_TASK_FAILED, "interrupted");
    } else if (!t->o.force && same_as_last(j)) {
        over(j, ENV_TASK_SKIPPED, "");
    } else if (!t->o.force && j->task->status != NULL) {
        run(j, ASKING, j->task->status);
    } else {
        start_run(j);
    }
}

// ---- the graph -------------------------------------------------------------------------------

// NULL: it may start. "": it must wait. Else the name of one that failed.
static const char *held_by(struct task_job *j)
{
    const char *held = NULL;
    for (const char **name = j->task->after; *name != NULL; name++) {
        struct task_job *first = job_of(j->all, *name);
        assert(first != NULL);
        if (first->step == FAILED) {
            return *name;
        }
        held = first->wanted && first->step != OVER ? "" : held;
    }
    return held;
}

// What is left for the shell, in order; one that comes after a failed one is not run there either.
static void say_for_shell(struct env_tasks *t)
{
    for (size_t i = 0; i < t->n && !t->closed; i++) {
        struct task_job *j = &t->jobs[i];
        if (!j->left) {
            continue;
        }
        const char *held = held_by(j);
        if (t->cancelled || (held != NULL && held[0] != '\0')) {
            j->step = FAILED;
            say(j, ENV_TASK_BLOCKED, t->cancelled ? "interrupted" : held);
        } else {
            say(j, ENV_TASK_IN_SHELL, "");
        }
    }
}

static void pump(void *arg)
{
    struct env_tasks *t = arg;
    size_t running = 0;
    t->task = NULL;
    for (size_t i = 0; i < t->n; i++) {
        running += t->jobs[i].step >= PRINTING && t->jobs[i].step <= RUNNING;
    }
    for (size_t i = 0; i < t->n && !t->closed; i++) {
        struct task_job *j = &t->jobs[i];
        if (j->wanted && j->step == WAITING && running < RUNNING_MAX) {
            const char *held = held_by(j);
            if (t->cancelled) {
                over(j, ENV_TASK_BLOCKED, "interrupted");
            } else if (held == NULL) {
                j->step = PRINTING;
                t->printing++;
                work_submit(t->lane, 0, print_job, on_printed, j);
            } else if (held[0] != '\0') {
                over(j, ENV_TASK_BLOCKED, held);
            }
            running += j->step == PRINTING;
        }
    }
    if (t->n_over != t->n_wanted || t->ended || t->closed) {
        return;
    }
    say_for_shell(t);
    if (t->closed) {
        return;
    }
    size_t n;
    const char **names = env_vars_names(&t->exports, &n);
    struct env_var *vars = arena_calloc(&t->arena, n + 1, sizeof *vars);
    for (size_t i = 0; i < n; i++) {
        vars[i] = (struct env_var){names[i], env_vars_get(&t->exports, str_of(names[i]))};
    }
    struct env_tasks_end m = {.ok = t->failed == NULL && !t->cancelled,
                              .exports = vars,
                              .n_exports = n,
                              .failed = t->failed};
    t->ended = true;
    t->o.end(&m, t->o.arg);
}

static void pump_soon(struct env_tasks *t)
{
    if (t->task == NULL && !t->closed) {
        t->task = loop_defer(t->o.loop, pump, t);
    }
}

static void want(struct env_tasks *t, struct task_job *j)
{
    if (j->wanted) {
        return; // by another way, with all that it comes after
    }
    j->wanted = true;
    for (const char **name = j->task->after; *name != NULL; name++) {
        want(t, job_of(t, *name));
    }
}

static void tasks_free(void *arg)
{
    struct env_tasks *t = arg;
    if (t->printing != 0) {
        return;
    }
    for (size_t i = 0; i < t->n; i++) {
        remove_files(&t->jobs[i]);
    }
    if (t->dir != NULL) {
        rmdir(t->dir);
        free(t->dir);
    }
    lane_close(t->lane);
    buf_fini(&t->outputs);
    env_vars_fini(&t->base);
    env_vars_fini(&t->exports);
    arena_fini(&t->arena);
    env_result_unref(t->o.result);
    free(t->jobs);
    free(t->root);
    free(t);
}

int env_tasks_open(struct env_tasks **out, const struct env_tasks_opts *o, struct err *e)
{
    struct env_tasks *t = xcalloc(1, sizeof *t);
    t->o = *o;
    t->o.result = env_result_ref(o->result);
    t->o.executor = o->executor != NULL ? o->executor : &env_executor_proc;
    t->root = xstrdup(o->root);
    env_vars_init(&t->base, &t->arena);
    env_vars_init(&t->exports, &t->arena);
    env_vars_add_environ(&t->base, o->base);
    buf_init(&t->outputs, OUTPUTS_MAX);
    t->lane = lane_open(o->loop, "tasks", 2);
    t->n = o->result->tasks.n;
    t->jobs = xcalloc(t->n + 1, sizeof *t->jobs);
    for (size_t i = 0; i < t->n; i++) {
        const struct env_task *task = &o->result->tasks.p[i];
        bool wanted = o->again ? task->inputs[0] != NULL && !task->in_shell : o->only == NULL;
        t->jobs[i] = (struct task_job){.all = t, .task = task, .wanted = wanted};
    }
    struct task_job *only = o->only != NULL ? job_of(t, o->only) : NULL;
    if (o->only != NULL && only == NULL) {
        int rc = err_set(e, ERR_NOT_FOUND, "there is no task '%s'", o->only);
        tasks_free(t);
        return rc;
    }
    if (only != NULL) {
        want(t, only);
    }
    // Tasks for the shell, and those that come after one, are not ours.
    for (size_t i = 0; i < t->n; i++) {
        struct task_job *j = &t->jobs[i];
        bool shell = j->task->in_shell;
        for (const char **name = j->task->after; *name != NULL; name++) {
            shell = shell || job_of(t, *name)->step == SHELL;
        }
        if (shell && !t->o.in_shell) {
            j->step = SHELL;
            j->left = j->wanted;
            j->wanted = false;
        }
        t->n_wanted += j->wanted;
    }
    pump_soon(t);
    *out = t;
    return 0;
}

void env_tasks_cancel(struct env_tasks *t)
{
    t->cancelled = true;
    for (size_t i = 0; i < t->n; i++) {
        if (t->jobs[i].exec != NULL) {
            t->o.executor->cancel(t->jobs[i].exec);
        }
    }
    pump_soon(t);
}

void env_tasks_close(struct env_tasks *t)
{
    if (t == NULL || t->closed) {
        return;
    }
    t->closed = true;
    if (t->task != NULL) {
        loop_cancel(t->o.loop, t->task);
    }
    for (size_t i = 0; i < t->n; i++) {
        if (t->jobs[i].exec != NULL) {
            t->o.executor->drop(t->jobs[i].exec);
            t->jobs[i].exec = NULL;
        }
    }
    if (t->printing == 0) {
        loop_defer(t->o.loop, tasks_free, t);
    }
}
