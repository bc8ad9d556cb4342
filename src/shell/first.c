// Before the first prompt: the environment is built and its tasks run, with progress on the terminal.
//
// Echo is off meanwhile, so that what is typed ahead does not mix with the progress line; it stays in the
// terminal, and the shell reads it later. Ctrl-C stops the build and starts the shell without it.

#include <assert.h>
#include <signal.h>
#include <unistd.h>

#include "loop/signal.h"
#include "pty/tty.h"
#include "shell/run_int.h"

static void on_interrupt(int signum, void *arg)
{
    struct run *r = arg;
    (void)signum;
    r->interrupted = true;
    if (r->tasks != NULL) {
        env_tasks_cancel(r->tasks);
    } else if (!r->settled) {
        env_coord_interrupt(r->coord);
    }
}

// ---- tasks ---------------------------------------------------------------------------------

static void on_task(const struct env_task_progress *p, void *arg)
{
    struct run *r = arg;
    struct buf line = {.max = SIZE_MAX};
    const char *word = p->state == ENV_TASK_DONE      ? "done"
                       : p->state == ENV_TASK_FAILED  ? "failed"
                       : p->state == ENV_TASK_BLOCKED ? "not run"
                                                      : NULL;
    if (p->state == ENV_TASK_IN_SHELL) {
        vec_push(&r->left, arena_strdup(&r->arena, str_of(p->task->name)));
        return;
    }
    if (p->state == ENV_TASK_STARTED) {
        buf_addf(&line, "task %s (%zu of %zu)", p->task->name, p->done + 1, p->total);
        progress_set(&r->progress, buf_z(&line));
    } else if (p->state == ENV_TASK_OUTPUT) {
        buf_addf(&line, "%s: %s", p->task->name, p->text);
        progress_line(&r->progress, buf_str(&line));
    } else if (word != NULL) {
        buf_addf(&line, "task %s %s%s%s", p->task->name, word, p->text[0] != '\0' ? ": " : "",
                 p->text);
        progress_line(&r->progress, buf_str(&line));
    }
    buf_fini(&line);
}

static void on_tasks_end(const struct env_tasks_end *end, void *arg)
{
    struct run *r = arg;
    run__add_exports(r, end);
    r->tasks_ok = end->ok;
    r->tasks_over = true;
    env_tasks_close(r->tasks);
    r->tasks = NULL;
}

static void run_tasks(struct run *r)
{
    assert(r->built != NULL && r->tasks == NULL);
    const struct env_tasks_opts o = {.loop = &r->loop,
                                     .result = r->built,
                                     .base = (const char *const *)environ,
                                     .root = r->project.root,
                                     .in_shell = !r->interactive,
                                     .progress = on_task,
                                     .end = on_tasks_end,
                                     .arg = r};
    struct err e;
    if (env_tasks_open(&r->tasks, &o, &e) < 0) {
        progress_line(&r->progress, str_of(e.msg));
        return;
    }
    while (!r->tasks_over) {
        loop_run_once(&r->loop, true);
    }
    run__settle_result(r);
}

// ---- the build -----------------------------------------------------------------------------

void first__build(struct run *r)
{
    struct signal_watch *watch = NULL;
    struct err e;
    bool mine = r->terminal && tty_take(STDIN_FILENO, TTY_QUIET, &e) == 0;
    int rc = signal_open(&watch, &r->loop, SIGINT, on_interrupt, r, &e);
    (void)rc; // without it Ctrl-C ends us, as other signals do now: the terminal is given back
    progress_init(&r->progress, &r->loop, r->terminal, r->o->quiet);
    progress_set(&r->progress, "building the environment");
    env_coord_reload(r->coord, true);
    while (!r->settled) {
        loop_run_once(&r->loop, true);
    }
    progress_set(&r->progress, NULL);
    for (size_t i = 0; r->built != NULL && i < r->built->messages.n; i++) {
        progress_line(&r->progress, str_of(r->built->messages.p[i]));
    }
    r->tasks_ok = true;
    if (r->built != NULL && r->built->tasks.n != 0 && !r->interrupted) {
        run_tasks(r);
    }
    progress_fini(&r->progress);
    signal_close(watch);
    if (mine) {
        tty_give_back();
    }
}
