// Whether a box can be made on this machine, found out by making one.
//
// Kernel settings alone would not tell: containers, security modules and distributions each have their own way to
// forbid a part of it.

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

static int run(struct loop *l, const struct box *b, struct err *e)
{
    static const char *const argv[] = {"/bin/true", NULL};
    static const struct proc_cb cb = {.on_exit = on_exit_cb};
    struct probe probe = {0};
    const struct proc_opts opts = {.argv = argv, .supervise = true, .box = box_rules(b)};
    int rc = proc_spawn(&probe.proc, l, &opts, &cb, &probe, e);
    loop_run(l);
    if (rc < 0) {
        return rc;
    }
    if (probe.exit.no_box != 0) {
        return box_explain(probe.exit.no_box, -probe.exit.code, BOX_INSTEAD, e);
    }
    return probe.exit.launched && probe.exit.code == 0
               ? 0
               : err_set(e, ERR_UNSUPPORTED, "no sandbox: %s",
                         probe.exit.launched ? "a command in it fails" : probe.why);
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
    rc = rc == 0 ? box_new(&b, &policy, e) : rc;
    rc = rc == 0 ? run(&l, b, e) : rc;
    box_free(b);
    proc_teardown();
    int closed = loop_close(&l, rc == 0 ? e : NULL);
    return rc < 0 ? rc : closed;
}
