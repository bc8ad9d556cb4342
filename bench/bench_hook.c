// The round trip of a sandboxed hook, for `make bench`.
//
//     bench_hook AFLOAT LAUNCHER HOME COUNT
//
// Serves HOME/lua/improvements as the hub does, with AFLOAT (`afloat host lua`) in its sandbox, and
// dispatches the chain on_final COUNT times, one after another: arguments out as JSON, through the
// socket, into Lua, and the answer back. Prints one JSON object.

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/path.h"
#include "base/time.h"
#include "hook/args.h"
#include "hook/run.h"
#include "loop/proc.h"
#include "plugin/improvements.h"

enum { WARM_UP = 500, LOAD_MS = 10000 };

static const char PROGRAM[] =
    "hooks.intercept('on_final', 'a', function(ctx, text) return nil end)";

static void die(const char *what, const struct err *e)
{
    fprintf(stderr, "bench_hook: %s: %s\n", what, e->msg);
    exit(1);
}

// ---- what improvements ask of the hub ----------------------------------------------------------

static void on_config(void *arg, struct buf *out)
{
    (void)arg;
    buf_addz(out, "{}");
}

static int on_call(void *arg, const struct improvement_call *c, struct buf *answer)
{
    (void)arg;
    (void)c;
    (void)answer;
    return ERR_UNSUPPORTED;
}

// ---- one dispatch -----------------------------------------------------------------------------

static void on_done(struct hook_run *run, void *arg)
{
    (void)run;
    *(bool *)arg = true;
}

static const struct hook_list *find_hooks(struct gen_engine *engine)
{
    const struct hook_point *p = hook_point_find(STR("on_final"));
    return hook_set_get(gen_hooks(gen_current(engine)), STR("on_final"), p->kind);
}

/// What it carries is ctx and one text, which the handler never changes.
static uint64_t dispatch(struct loop *loop, const struct hook_list *list)
{
    const struct json text = {.type = JSON_STR, .s = STR("hi")};
    struct hook_ctx ctx = {.session_id = STR("s-1")};
    struct hook_args args = {.point = POINT_FINAL, .ctx = &ctx, .values = {&text}, .n = 1};
    struct hook_run run;
    struct err e = {0};
    bool done = false;
    const struct hook_run_opts opts = {
        .list = list, .loop = loop, .args = &args, .may_wait = true, .done = on_done, .arg = &done};
    uint64_t start = time_mono_ns();
    if (!hook_run_start(&run, &opts)) {
        while (!done) {
            loop_run_once(loop, true);
        }
    }
    if (run.failed != 0 || run.ran != 1) {
        err_set(&e, ERR_INVALID, "%zu ran, %zu failed: %s", run.ran, run.failed, run.fault.msg);
        die("hook", &e);
    }
    return time_mono_ns() - start;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void measure(struct loop *loop, const struct hook_list *list, size_t n)
{
    uint64_t *ns = xcalloc(n, sizeof *ns);
    for (size_t i = 0; i < WARM_UP; i++) {
        dispatch(loop, list);
    }
    for (size_t i = 0; i < n; i++) {
        ns[i] = dispatch(loop, list);
    }
    qsort(ns, n, sizeof *ns, by_time);
    printf("{\"p50_us\":%.1f,\"p99_us\":%.1f}\n", (double)ns[n / 2] / 1e3,
           (double)ns[n * 99 / 100] / 1e3);
    free(ns);
}

// ---- life -------------------------------------------------------------------------------------

static void save_program(const char *dir)
{
    struct err e = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/a.lua", dir);
    if (path_mkdirs(dir, 0700, &e) < 0 || path_write_atomic(path, str_of(PROGRAM), 0600, &e) < 0) {
        die("save", &e);
    }
}

static void on_closed(void *arg)
{
    *(bool *)arg = true;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct loop loop;
    struct improvements *imp;
    char dir[4000];
    bool closed = false;
    if (argc != 5) {
        fprintf(stderr, "usage: bench_hook AFLOAT LAUNCHER HOME COUNT\n");
        return 2;
    }
    snprintf(dir, sizeof dir, "%s/lua/improvements", argv[3]);
    save_program(dir);
    if (proc_setup_at(argv[2], &e) < 0 || loop_init(&loop, NULL, &e) < 0) {
        die("start", &e);
    }
    struct gen_engine *engine = gen_open(&loop, NULL, NULL);
    struct watcher *watcher = watcher_open(&loop, NULL, NULL);
    const struct improvements_opts opts = {
        .dir = dir, .program = argv[1], .data_dir = argv[3], .config = on_config, .call = on_call};
    if (improvements_open(&imp, &loop, engine, watcher, &opts, &e) < 0) {
        die(dir, &e);
    }
    uint64_t until = loop_now(&loop) + LOAD_MS;
    while (find_hooks(engine) == NULL && loop_now(&loop) < until) {
        loop_run_once(&loop, true);
    }
    if (find_hooks(engine) == NULL) {
        err_set(&e, ERR_TIMEOUT, "it does not serve");
        die(PROGRAM, &e);
    }
    measure(&loop, find_hooks(engine), (size_t)strtol(argv[4], NULL, 10));
    improvements_stop(imp);
    gen_close(engine, on_closed, &closed);
    while (!closed) {
        loop_run_once(&loop, true);
    }
    improvements_free(imp);
    watcher_close(watcher);
    loop_run(&loop);
    proc_teardown();
    return loop_close(&loop, &e) < 0;
}
