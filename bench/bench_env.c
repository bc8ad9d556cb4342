// Building an environment, for `make bench`.
//
//     bench_env DIR ROUNDS
//
// Makes a project in DIR whose env.toml has 120 variables, builds it ROUNDS times, then saves it ROUNDS
// times with another value each. Prints one JSON object with medians in milliseconds: a build from the
// question to the result, and from a save to the moment at which the next build begins. Writes beside it
// `first` and `second`, two rendered environments in which all variables differ, and `prelude`, for bash.

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "env/env.h"
#include "env/gate.h"
#include "loop/loop.h"
#include "watch/watch.h"

enum { VARIABLES = 120 };

static struct {
    unsigned building, ready;
    uint64_t at_ns; // of the last building
    struct env_result *result;
} heard;

static NORETURN void die(const char *what, const struct err *e)
{
    fprintf(stderr, "bench_env: %s: %s\n", what, e->msg);
    exit(1);
}

static void on_building(const struct env_building *m, void *arg)
{
    (void)m;
    (void)arg;
    heard.building++;
    heard.at_ns = time_mono_ns();
}

static void on_ready(const struct env_ready *m, void *arg)
{
    (void)arg;
    heard.ready++;
    env_result_unref(heard.result);
    heard.result = env_result_ref(m->result);
}

static NORETURN void on_failed(const struct env_failed *m, void *arg)
{
    (void)arg;
    fprintf(stderr, "bench_env: %s", m->text);
    exit(1);
}

static int allow(struct env_spec *s, void *arg, struct err *e)
{
    (void)s;
    (void)arg;
    (void)e;
    return 0;
}

static void write_project(const char *dir, int round)
{
    struct buf text;
    struct err e = {0};
    char *folder = path_join(dir, ".afloat"), *path = path_join(folder, "env.toml");
    buf_init(&text, SIZE_MAX);
    buf_addz(&text, "[path]\nprepend = [\"bin\"]\n[env]\n");
    for (int i = 0; i < VARIABLES; i++) {
        buf_addf(&text, "VARIABLE_%d = \"${HOME}/value %d of round %d\"\n", i, i, round);
    }
    if (path_mkdirs(folder, 0700, &e) != 0 ||
        path_write_atomic(path, buf_str(&text), 0600, &e) != 0) {
        die("cannot write the project", &e);
    }
    buf_fini(&text);
    free(path);
    free(folder);
}

static void write_text(const char *dir, const char *name, struct buf *text)
{
    struct err e = {0};
    if (env_render_write(dir, name, buf_str(text), &e) != 0) {
        die("cannot write", &e);
    }
    buf_clear(text);
}

static void wait_for(struct loop *l, const unsigned *counter, unsigned n)
{
    while (*counter < n) {
        loop_run_once(l, true);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *all, int n)
{
    qsort(all, (size_t)n, sizeof *all, by_value);
    return all[n / 2];
}

static double measure_builds(struct loop *l, struct env_coord *c, int rounds)
{
    double *all = xcalloc((size_t)rounds, sizeof *all);
    for (int i = 0; i < rounds; i++) {
        unsigned before = heard.ready;
        uint64_t start = time_mono_ns();
        env_coord_reload(c, true);
        wait_for(l, &heard.ready, before + 1);
        all[i] = (double)(time_mono_ns() - start) / 1e6;
    }
    double ms = median(all, rounds);
    free(all);
    return ms;
}

static double measure_saves(struct loop *l, const char *dir, int rounds)
{
    double *all = xcalloc((size_t)rounds, sizeof *all);
    for (int i = 0; i < rounds; i++) {
        unsigned ready = heard.ready, building = heard.building;
        write_project(dir, i + 1);
        uint64_t start = time_mono_ns();
        wait_for(l, &heard.building, building + 1);
        all[i] = (double)(heard.at_ns - start) / 1e6;
        wait_for(l, &heard.ready, ready + 1);
    }
    double ms = median(all, rounds);
    free(all);
    return ms;
}

static void render_two(struct loop *l, const char *dir, struct env_coord *c, struct env_session *s)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    env_render_prelude(ENV_BASH, &text);
    write_text(dir, "prelude", &text);
    env_session_render(s, heard.result, ENV_BASH, &text);
    write_text(dir, "first", &text);
    env_session_applied(s, heard.result->generation);
    unsigned before = heard.ready;
    write_project(dir, 0);
    env_coord_reload(c, true);
    wait_for(l, &heard.ready, before + 1);
    env_session_render(s, heard.result, ENV_BASH, &text);
    write_text(dir, "second", &text);
    buf_fini(&text);
}

int main(int argc, char **argv)
{
    static const struct env_gate gate = {.check = allow};
    struct err e = {0};
    struct loop loop;
    if (argc != 3 || loop_init(&loop, NULL, &e) != 0) {
        fprintf(stderr, "usage: bench_env DIR ROUNDS\n");
        return 2;
    }
    int rounds = atoi(argv[2]) > 0 ? atoi(argv[2]) : 1;
    struct watcher *watcher = watcher_open(&loop, NULL, NULL);
    struct env_coord_opts o = {
        .loop = &loop,
        .watcher = watcher,
        .root = argv[1],
        .base = (const char *const *)environ,
        .gate = &gate,
        .cb = {.building = on_building, .ready = on_ready, .failed = on_failed}};
    write_project(argv[1], 0);
    struct env_coord *c = env_coord_open(&o);
    struct env_session *s = env_session_new((const char *const *)environ);
    double build = measure_builds(&loop, c, rounds), save = measure_saves(&loop, argv[1], rounds);
    render_two(&loop, argv[1], c, s);
    printf("{\"build_ms\": %.3f, \"save_ms\": %.3f}\n", build, save);
    env_session_free(s);
    env_result_unref(heard.result);
    env_coord_close(c);
    watcher_close(watcher);
    loop_run(&loop);
    return loop_close(&loop, &e) == 0 ? 0 : 1;
}
