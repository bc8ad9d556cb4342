// What the sandbox adds to starting a program, for `make bench`.
//
//     bench_sandbox LAUNCHER DIR N
//
// Starts /bin/true N times each way, in turn: plain (the launcher becomes it), supervised, and in a
// box whose working directory is DIR (with a .git, without .afloat). Prints one JSON object: for each
// way the median, and the fastest, in microseconds from asking to its end.

#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "loop/proc.h"
#include "sandbox/box.h"

enum way { PLAIN, SUPERVISED, BOXED, N_WAYS };

static struct loop l;
static bool over;

static NORETURN void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_sandbox: %s: %s\n", what, why);
    exit(1);
}

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    (void)p;
    (void)arg;
    if (!x->launched || x->code != 0) {
        die("cannot run /bin/true", x->why != NULL ? x->why : "it failed");
    }
    over = true;
}

static double run(enum way way, const struct box *box)
{
    static const char *const argv[] = {"/bin/true", NULL};
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    static const struct proc_cb cb = {.on_exit = on_exit_cb};
    const struct proc_opts opts = {
        .argv = argv,
        .env = env,
        .cwd = box_dir(box),
        .supervise = way != PLAIN,
        .box = way == BOXED ? box_rules(box) : NULL,
    };
    struct proc *p;
    struct err e = {0};
    uint64_t start = time_mono_ns();
    if (proc_spawn(&p, &l, &opts, &cb, NULL, &e) < 0) {
        die("cannot start", e.msg);
    }
    over = false;
    while (!over) {
        loop_run_once(&l, true);
    }
    return (double)(time_mono_ns() - start) / 1000;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *name, double *times, size_t n, const char *end)
{
    qsort(times, n, sizeof *times, by_value);
    printf("\"%s\": {\"median\": %.0f, \"fastest\": %.0f}%s", name, times[n / 2], times[0], end);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct box *box = NULL;
    size_t n = argc == 4 ? (size_t)atol(argv[3]) : 0;
    if (n == 0) {
        die("usage", "bench_sandbox LAUNCHER DIR N");
    }
    const struct box_policy policy = {.mode = BOX_WORKSPACE_WRITE, .working_dir = argv[2]};
    if (proc_setup_at(argv[1], &e) < 0 || loop_init(&l, NULL, &e) < 0 ||
        box_new(&box, &policy, &e) < 0) {
        die("cannot begin", e.msg);
    }
    double *times[N_WAYS];
    for (int way = 0; way < N_WAYS; way++) {
        times[way] = xcalloc(n, sizeof(double));
    }
    for (size_t i = 0; i < n; i++) {
        for (int way = 0; way < N_WAYS; way++) {
            times[way][i] = run((enum way)way, box);
        }
    }
    printf("{");
    print("plain", times[PLAIN], n, ", ");
    print("supervised", times[SUPERVISED], n, ", ");
    print("boxed", times[BOXED], n, "}\n");
    return 0;
}
