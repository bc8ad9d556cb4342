#pragma once

// One child process of a test: started, fed, waited for.

#include "base/buf.h"
#include "loop/proc.h"
#include "unit/loop.h"
#include "unit/loop/loop_programs.h" // made by meson: where the launcher and the test program lie

static struct loop l;

/// One child: what it wrote and how it ended.
struct run {
    struct proc *p;
    struct buf out, err;
    int out_ends, err_ends;
    int exits;
    struct proc_exit x;
    char why[240];
    size_t pause_after; // pause when this much has come; 0: never
};

static inline void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct run *r = arg;
    CHECK(p == r->p && r->exits == 0);
    if (bytes.n == 0) {
        *(which == 1 ? &r->out_ends : &r->err_ends) += 1;
        return;
    }
    CHECK_INT(which == 1 ? r->out_ends : r->err_ends, 0);
    buf_adds(which == 1 ? &r->out : &r->err, bytes);
    if (r->pause_after != 0 && r->out.n >= r->pause_after) {
        proc_pause(p, true);
    }
}

static inline void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct run *r = arg;
    CHECK(p == r->p);
    r->exits++;
    r->x = *x;
    snprintf(r->why, sizeof r->why, "%s", x->why != NULL ? x->why : "");
}

static const struct proc_cb callbacks = {.on_output = on_output, .on_exit = on_exit_cb};
static const char *const plain_env[] = {"PATH=/usr/bin:/bin", NULL};

static inline void begin(void)
{
    struct err e = {0};
    if (proc_setup_at(LOOP_LAUNCHER, &e) != 0) { // first of all, as in the hub
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
}

static inline void start(struct run *r, const struct proc_opts *o)
{
    struct err e = {0};
    memset(r, 0, sizeof *r);
    buf_init(&r->out, 64 << 20);
    buf_init(&r->err, 1 << 20);
    if (proc_spawn(&r->p, &l, o, &callbacks, r, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
}

/// Options for a shell script with pipes for its output.
static inline struct proc_opts shell(const char *script)
{
    static const char *argv[4] = {"/bin/sh", "-c", NULL, NULL};
    argv[2] = script;
    return (struct proc_opts){.argv = argv, .env = plain_env, .out = PROC_PIPE, .err = PROC_PIPE};
}

static inline void end(struct run *r)
{
    loop_run(&l);
    CHECK_INT(r->exits, 1);
    buf_fini(&r->out);
    buf_fini(&r->err);
}

static inline void finish(void)
{
    TEST_LOOP_END(&l);
    proc_teardown();
}

static inline void wait_for_output(struct run *r, const char *text)
{
    while (strstr(buf_z(&r->out), text) == NULL) {
        CHECK_INT(r->exits, 0);
        loop_run_once(&l, true);
    }
}
