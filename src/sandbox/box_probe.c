// Whether a box can be had on this machine, found out by making one.
//
// Reading settings of the kernel would be a guess: containers, security modules and distributions
// each have their own way to forbid a part of it.

#include "loop/loop.h"
#include "loop/proc.h"
#include "sandbox/box.h"

struct probe {
    struct proc *proc;
    struct proc_exit exit;
    char why[240];
};

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct probe *probe = arg;
    (void)p;
    probe->exit = *x;
    snprintf(probe->why, sizeof probe->why, "%s", x->why != NULL ? x->why : "");
}

static int judge(const struct probe *p, struct err *e)
{
    if (p->exit.no_box != 0) {
        return box_explain(p->exit.no_box, -p->exit.code, e);
    }
    if (!p->exit.launched || p->exit.code != 0) {
        return err_set(e, ERR_UNSUPPORTED, "no sandbox: %s",
                       p->exit.launched ? "a command in it fails" : p->why);
    }
    return 0;
}

static int run(struct loop *l, const struct box *b, struct err *e)
{
    static const char *const argv[] = {"/bin/true", NULL};
    static const struct proc_cb cb = {.on_exit = on_exit_cb};
    struct probe probe = {0};
    const struct proc_opts opts = {.argv = argv, .supervise = true, .box = box_rules(b)};
    int rc = proc_spawn(&probe.proc, l, &opts, &cb, &probe, e);
    loop_run(l);
    return rc < 0 ? rc : judge(&probe, e);
}

int box_probe(struct err *e)
{
    const struct box_policy policy = {.mode = BOX_READ_ONLY, .working_dir = "/"};
    struct loop l;
    struct box *b = NULL;
    int rc = loop_init(&l, NULL, e);
    if (rc < 0) {
        return rc;
    }
    rc = proc_setup(e);
    if (rc == 0) {
        rc = box_new(&b, &policy, e);
    }
    if (rc == 0) {
        rc = run(&l, b, e);
    }
    box_free(b);
    proc_teardown();
    int closed = loop_close(&l, rc == 0 ? e : NULL);
    return rc < 0 ? rc : closed;
}
