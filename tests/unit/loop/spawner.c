// A stand-in for the hub: starts a supervised script and waits for it. The test kills it with -9.
//
//     spawner LAUNCHER SCRIPT      descriptor 3 is passed on to the script

#include "loop/proc.h"

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    (void)p;
    (void)x;
    (void)arg;
}

int main(int argc, char **argv)
{
    struct loop l;
    struct proc *p;
    struct err e = {0};
    const struct proc_cb cb = {.on_exit = on_exit_cb};
    if (argc != 3 || loop_init(&l, NULL, &e) != 0 || proc_setup_at(argv[1], &e) != 0) {
        fprintf(stderr, "spawner: %s\n", e.msg);
        return 2;
    }
    const char *const script[] = {"/bin/sh", "-c", argv[2], NULL};
    const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    const struct proc_opts o = {.argv = script,
                                .env = env,
                                .out = PROC_INHERIT,
                                .err = PROC_INHERIT,
                                .fd3 = 3,
                                .supervise = true};
    if (proc_spawn(&p, &l, &o, &cb, NULL, &e) != 0) {
        fprintf(stderr, "spawner: %s\n", e.msg);
        return 2;
    }
    loop_run(&l);
    proc_teardown();
    return loop_close(&l, NULL) != 0;
}
