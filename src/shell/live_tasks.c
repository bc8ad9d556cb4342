// Tasks whose inputs change run again.
//
//     a watched input changes ──> a moment later all such tasks are looked at (their hash decides)
//         │                           └── those that changed run, beside the shell; exports are offered
//         └ of a task for the shell ──> the shell runs it at its next prompt
//
// If an input changes while they run, its task is looked at when they are over. A new environment may bring other
// tasks, and an input may have changed before its task was known, so tasks are looked at then, too. The prompt shows
// one line for each task; what a task prints is not shown.

#include <assert.h>

#include "env/pattern.h"
#include "shell/live_int.h"
#include "watch/ignore.h"
#include "watch/watch.h"

enum { FOLD_MS = 50 }; // changes that come together

struct task_watch {
    struct live *live;
    struct watch *watch;
    char *task, *path; // the input of which task
    bool in_shell;     // the shell runs that task itself
    bool wanted;       // by the newest environment
};

static void on_progress(const struct env_task_progress *p, void *arg)
{
    struct live *v = arg;
    char *line = NULL;
    if (p->state == ENV_TASK_DONE) {
        line = xasprintf("afloat: task %s done", p->task->name);
    } else if (p->state == ENV_TASK_FAILED || p->state == ENV_TASK_BLOCKED) {
        line = xasprintf("afloat: task %s failed: %s", p->task->name, p->text);
    }
    if (line != NULL) { // of one task only the newest: the user may not have had a prompt for hours
        char *slot = xasprintf("task %s", p->task->name);
        live__note(v, slot, line);
        free(slot);
    }
    free(line);
}

static void on_end(const struct env_tasks_end *end, void *arg)
{
    struct live *v = arg;
    live__take_exports(v, end);
    env_tasks_close(v->again);
    v->again = NULL;
    if (v->again_due) {
        timer_start(&v->again_timer, FOLD_MS);
    }
}

void live__run_again(void *arg)
{
    struct live *v = arg;
    struct err e;
    const struct env_tasks_opts o = {.loop = &v->run->loop,
                                     .result = v->run->built,
                                     .base = (const char *const *)environ,
                                     .root = v->run->project.root,
                                     .again = true,
                                     .progress = on_progress,
                                     .end = on_end,
                                     .arg = v};
    v->again_due = v->again != NULL;
    if (v->again == NULL && env_tasks_open(&v->again, &o, &e) < 0) {
        live__note(v, NULL, e.msg);
    }
}

static void on_change(struct watch *w, const struct watch_batch *batch, void *arg)
{
    struct task_watch *t = arg;
    struct err e;
    (void)w;
    if (batch->first) {
        return;
    }
    if (!t->in_shell) {
        timer_start(&t->live->again_timer, FOLD_MS);
    } else if (offers_count_task(t->live->offers, t->task) < 2 && // one may be running
               live__offer_task(t->live, t->task, false, &e) == 0) {
        session_poke(t->live->session);
    }
}

/// The watch of an input of that task, NULL for none.
static struct task_watch *find(struct live *v, const struct env_task *task, const char *path)
{
    vec_foreach (t, &v->watched) {
        if ((*t)->in_shell == task->in_shell && strcmp((*t)->task, task->name) == 0 &&
            strcmp((*t)->path, path) == 0) {
            return *t;
        }
    }
    return NULL;
}

static struct task_watch *watch_one(struct live *v, const struct env_task *task, const char *path)
{
    assert(v->run->watcher != NULL);
    struct task_watch *t = xcalloc(1, sizeof *t);
    struct arena a = {0};
    struct env_pattern p = env_pattern_of(&a, path);
    static const char *const none[] = {NULL};
    const struct watch_opts o = {.path = p.dir,
                                 .pattern = p.name,
                                 .recursive = p.deep,
                                 .ignore = strchr(path, '*') != NULL ? watch_ignore_default : none};
    struct err e;
    *t = (struct task_watch){
        .live = v, .task = xstrdup(task->name), .path = xstrdup(path), .in_shell = task->in_shell};
    vec_push(&v->watched, t);
    if (watch_open(&t->watch, v->run->watcher, &o, on_change, t, &e) != 0) {
        live__note(v, NULL, e.msg);
    }
    arena_fini(&a);
    return t;
}

/// Close the watches of inputs that no task has any more.
static void unwatch_rest(struct live *v)
{
    size_t kept = 0;
    vec_foreach (it, &v->watched) {
        struct task_watch *t = *it;
        if (t->wanted) {
            t->wanted = false;
            v->watched.p[kept++] = t;
            continue;
        }
        watch_close(t->watch);
        free(t->task);
        free(t->path);
        free(t);
    }
    v->watched.n = kept;
}

void live__watch_tasks(struct live *v, bool look)
{
    bool others = false;
    if (v->run->built == NULL) {
        return;
    }
    vec_foreach (task, &v->run->built->tasks) {
        for (const char **in = task->inputs; *in != NULL; in++) {
            struct task_watch *t = find(v, task, *in);
            others = others || (t == NULL && !task->in_shell);
            t = t != NULL ? t : watch_one(v, task, *in);
            t->wanted = true;
        }
    }
    unwatch_rest(v);
    if (look && others) {
        timer_start(&v->again_timer, FOLD_MS);
    }
}

void live__end_tasks(struct live *v)
{
    timer_stop(&v->again_timer);
    env_tasks_close(v->again);
    v->again = NULL;
    unwatch_rest(v);
    vec_fini(&v->watched);
}
