// Tasks as processes.

#include "env/child.h"
#include "env/task.h"

struct env_exec {
    struct env_child *child;
    struct env_exec_opts o;
};

static bool on_line(struct str line, void *arg)
{
    struct env_exec *x = arg;
    x->o.on_line(line, x->o.arg);
    return true;
}

static void on_end(const struct env_child_end *end, void *arg)
{
    static const char full[] = "No space left on device"; // what the user must know about
    struct env_exec *x = arg;
    struct env_exec_opts o = x->o;
    free(x);
    bool disk = end->code != 0 && end->tail.n != 0 &&
                memmem(end->tail.p, end->tail.n, full, sizeof full - 1) != NULL;
    char *why = xasprintf("%s%s", end->why, disk ? ": the disk is full" : "");
    o.on_end(end->code, why, o.arg);
    free(why);
}

static int exec_start(struct env_exec **out, const struct env_exec_opts *o, struct err *e)
{
    const char *const argv[] = {"/bin/sh", "-c", o->command, NULL};
    struct env_exec *x = xcalloc(1, sizeof *x);
    struct env_child_opts c = {.loop = o->loop,
                               .argv = argv,
                               .env = o->env,
                               .cwd = o->cwd,
                               .on_line = on_line,
                               .on_end = on_end,
                               .arg = x};
    x->o = *o;
    int rc = env_child_start(&x->child, &c, e);
    if (rc != 0) {
        free(x);
        return rc;
    }
    *out = x;
    return 0;
}

static void exec_cancel(struct env_exec *x)
{
    env_child_kill(x->child);
}

static void exec_drop(struct env_exec *x)
{
    env_child_drop(x->child);
    free(x);
}

const struct env_executor env_executor_proc = {
    .start = exec_start, .cancel = exec_cancel, .drop = exec_drop};
