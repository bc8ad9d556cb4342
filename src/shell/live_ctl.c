// What the control socket is asked (shell/ctl.h has the list).

#include <assert.h>
#include <unistd.h>

#include "base/json.h"
#include "shell/live_int.h"
#include "watch/watch.h"

enum { OUTPUT_MAX = 4 << 20 }; // of a task

// ---- answers -------------------------------------------------------------------------------

static void write_status(struct live *v, struct jw *w)
{
    struct run *r = v->run;
    size_t n_inputs;
    env_coord_get_inputs(r->coord, &n_inputs);
    jw_obj(w);
    jw_kstrz(w, "session", v->dir.id);
    jw_kint(w, "pid", getpid());
    jw_kint(w, "shell_pid", session_shell_pid(v->session));
    jw_kstrz(w, "shell", v->program);
    jw_kstrz(w, "project", r->project.root);
    jw_kstrz(w, "state", status_state_name(v->state));
    jw_kbool(w, "paused", env_coord_is_paused(r->coord));
    jw_kint(w, "generation", r->result != NULL ? (int64_t)r->result->generation : 0);
    jw_kint(w, "applied", (int64_t)v->applied);
    jw_kint(w, "inputs", (int64_t)n_inputs);
    jw_kstrz(w, "watching", watcher_stats(r->watcher).swept == 0 ? "native" : "degraded: polling");
    env_write_changed(w, (const char *const *)r->changed, r->n_changed);
    jw_kint(w, "duration_ms", r->result != NULL ? (int64_t)r->result->duration_ms : 0);
    if (r->failure != NULL) {
        jw_kstrz(w, "error", r->failure);
    }
    jw_end_obj(w);
}

static void write_error(struct live *v, struct jw *w)
{
    jw_obj(w);
    jw_kstrz(w, "error", v->run->failure);
    jw_end_obj(w);
}

static void write_inputs(struct live *v, struct jw *w)
{
    static const char *const kinds[] = {"file", "dir", "missing"};
    size_t n;
    const struct env_input *inputs = env_coord_get_inputs(v->run->coord, &n);
    jw_obj(w);
    jw_karr(w, "inputs");
    for (size_t i = 0; i < n; i++) {
        jw_obj(w);
        jw_kstrz(w, "path", inputs[i].path);
        jw_kstrz(w, "kind", kinds[inputs[i].kind]);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    jw_end_obj(w);
}

typedef void write_fn(struct live *v, struct jw *w);

static void answer(struct live *v, struct ctl_call *call, write_fn *write)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    write(v, &w);
    ctl_answer(call, buf_str(&out));
    buf_fini(&out);
}

void live__answer_waiting(struct live *v)
{
    while (v->waiting.n != 0) {
        answer(v, vec_pop(&v->waiting), write_status);
    }
}

// ---- tasks ---------------------------------------------------------------------------------

static void answer_task(struct live_task *t, bool ok)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    jw_obj(&w);
    jw_kstrz(&w, "task", t->name);
    if (ok && t->left.n != 0) {
        jw_kbool(&w, "queued", true);
    } else {
        jw_kint(&w, "exit", !ok);
    }
    if (t->output.n != 0) {
        jw_kstr(&w, "output", buf_str(&t->output));
    }
    if (t->failed != NULL) {
        jw_kstrz(&w, "error", t->failed);
    }
    jw_end_obj(&w);
    ctl_answer(t->call, buf_str(&out));
    buf_fini(&out);
}

static void task_free(struct live_task *t)
{
    struct live *v = t->live;
    vec_drop(&v->tasks, t);
    env_tasks_close(t->tasks);
    vec_fini_each(&t->left, free);
    buf_fini(&t->output);
    free(t->failed);
    free(t->name);
    free(t);
}

static void on_task_progress(const struct env_task_progress *p, void *arg)
{
    struct live_task *t = arg;
    if (p->state == ENV_TASK_IN_SHELL) {
        vec_push(&t->left, xstrdup(p->task->name));
    } else if (p->state == ENV_TASK_OUTPUT && t->output.n < OUTPUT_MAX) {
        buf_addf(&t->output, "%s\n", p->text);
    } else if (p->state == ENV_TASK_FAILED && t->failed == NULL) {
        t->failed = xasprintf("task %s: failed: %s", p->task->name, p->text);
    }
}

/// What could be run without the shell is over; the rest waits for its next prompt.
static void on_task_end(const struct env_tasks_end *end, void *arg)
{
    struct live_task *t = arg;
    struct err e;
    int rc = 0;
    live__take_exports(t->live, end);
    for (size_t i = 0; end->ok && rc == 0 && i < t->left.n; i++) {
        rc = live__offer_task(t->live, t->left.p[i], true, &e);
    }
    if (rc < 0) {
        ctl_fail(t->call, e.code, e.msg);
    } else {
        answer_task(t, end->ok);
    }
    task_free(t);
}

static int start_task(struct live *v, struct ctl_call *call, const char *name, struct err *e)
{
    struct live_task *t = xcalloc(1, sizeof *t);
    assert(v->run->built != NULL);
    *t = (struct live_task){.live = v, .call = call, .name = xstrdup(name)};
    buf_init(&t->output, SIZE_MAX);
    const struct env_tasks_opts o = {.loop = &v->run->loop,
                                     .result = v->run->built,
                                     .base = (const char *const *)environ,
                                     .root = v->run->project.root,
                                     .only = name,
                                     .force = true,
                                     .progress = on_task_progress,
                                     .end = on_task_end,
                                     .arg = t};
    vec_push(&v->tasks, t);
    int rc = env_tasks_open(&t->tasks, &o, e);
    if (rc < 0) {
        task_free(t);
    }
    return rc;
}

// ---- questions -----------------------------------------------------------------------------

static void on_reload(struct live *v, struct ctl_call *call, const char *arg)
{
    live__reload(v, arg != NULL && strcmp(arg, "force") == 0);
    vec_push(&v->waiting, call);
}

static void on_pause(struct live *v, struct ctl_call *call, const char *arg)
{
    (void)arg;
    env_coord_pause(v->run->coord);
    live__show(v, STATUS_PAUSED);
    answer(v, call, write_status);
}

static void on_resume(struct live *v, struct ctl_call *call, const char *arg)
{
    (void)arg;
    env_coord_resume(v->run->coord);
    live__show(v, v->run->failure != NULL ? STATUS_FAILED : STATUS_WATCHING);
    answer(v, call, write_status);
}

static void on_task(struct live *v, struct ctl_call *call, const char *arg)
{
    struct err e;
    int rc = v->run->built == NULL ? err_set(&e, ERR_NOT_FOUND, "there is no environment yet")
                                   : start_task(v, call, arg != NULL ? arg : "", &e);
    if (rc < 0) {
        ctl_fail(call, e.code, e.msg);
    }
}

void live__on_call(struct ctl_call *call, const char *op, const char *arg, void *data)
{
    static const struct {
        const char *op;
        write_fn *write; // answers at once, or `fn` acts first
        void (*fn)(struct live *v, struct ctl_call *call, const char *arg);
    } rows[] = {
        {"status", write_status, NULL}, {"error", write_error, NULL},
        {"inputs", write_inputs, NULL}, {"reload", NULL, on_reload},
        {"pause", NULL, on_pause},      {"resume", NULL, on_resume},
        {"task", NULL, on_task},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(op, rows[i].op) != 0) {
            continue;
        }
        if (rows[i].write != NULL) {
            answer(data, call, rows[i].write);
        } else {
            rows[i].fn(data, call, arg);
        }
        return;
    }
    ctl_fail(call, ERR_USAGE, "unknown operation of the shell's control socket");
}

void live__end_calls(struct live *v)
{
    while (v->tasks.n != 0) {
        task_free(*vec_last(&v->tasks));
    }
    vec_fini(&v->tasks);
    vec_fini(&v->waiting);
}
