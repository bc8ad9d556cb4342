// Dispatch of a chain hook that does nothing, for `make bench`.
//
//     bench_chain HOME PLUGINS COUNT
//
// Loads PLUGINS plugins of HOME/plugins as the hub does, each with a handler of on_final that returns
// nothing, and raises that point COUNT times: deadline, instruction limit, fault guard, conversion of the
// arguments and statistics of every handler are in the time. Prints one JSON object.

#include <stdio.h>
#include <stdlib.h>

#include "base/path.h"
#include "base/time.h"
#include "bind/bind.h"
#include "config/config.h"
#include "config/home.h"
#include "event/event.h"
#include "hook/args.h"
#include "hook/run.h"
#include "net/http_client.h"
#include "plugin/plugins.h"
#include "store/choices.h"
#include "store/store.h"
#include "trust/trust.h"

enum { WARM_UP = 2000, BATCH = 100 };

static const char PROGRAM[] = "on_final(function(ctx, text) end)\n";

static struct loop loop;
static struct home home;
static struct config_live settings;
static struct store *store;
static struct event_log *events;
static struct gen_engine *engine;

static NORETURN void die(const char *what, const struct err *e)
{
    fprintf(stderr, "bench_chain: %s: %s\n", what, e->msg);
    exit(1);
}

static void on_ready(void *arg, int status, const struct err *e)
{
    if (status < 0) {
        die("open", e);
    }
    *(bool *)arg = true;
}

static void wait_for(const bool *flag)
{
    while (!*flag) {
        loop_run_once(&loop, true);
    }
}

// ---- a hub without its server -----------------------------------------------------------------

static void save_programs(const char *dir, long n)
{
    struct err e = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/plugins", dir);
    if (path_mkdirs(path, 0700, &e) < 0) {
        die(path, &e);
    }
    for (long i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/plugins/p%ld.lua", dir, i);
        if (path_write_atomic(path, str_of(PROGRAM), 0600, &e) < 0) {
            die(path, &e);
        }
    }
}

static void open_home(const char *dir)
{
    struct err e = {0};
    struct config *config = NULL;
    struct config_diags diags;
    config_diags_init(&diags);
    if (home_resolve(&home, dir, &e) < 0 || home_prepare(&home, &e) < 0 ||
        config_load(&config, &(struct config_sources){.home = &home, .system_path = "/nowhere"},
                    &diags, &e) < 0) {
        die(dir, &e);
    }
    config_diags_fini(&diags);
    settings.now = config;
}

static void open_store(void)
{
    struct err e = {0};
    bool stored = false, streams = false;
    struct store_opts opts = {.home = home.dir};
    if (store_open(&store, &loop, &opts, on_ready, &stored, &e) < 0) {
        die("store", &e);
    }
    wait_for(&stored);
    if (event_open(&events, &loop, store, 0, on_ready, &streams, &e) < 0) {
        die("events", &e);
    }
    wait_for(&streams);
}

static void on_loaded(const struct gen_report *r, void *arg)
{
    struct err e = {0};
    if (r == NULL || !r->ok) {
        err_set(&e, ERR_INVALID, "%s", r != NULL ? r->diags[0].message : "no report");
        die("load", &e);
    }
    *(bool *)arg = true;
}

static void load_plugins(void)
{
    struct err e = {0};
    struct trust *trust;
    struct choices *choices = choices_new(store);
    bool chosen = false, loaded = false;
    choices_load(choices, on_ready, &chosen);
    wait_for(&chosen);
    if (trust_open(&trust, home.dir, &e) < 0) {
        die("trust", &e);
    }
    struct watcher *watcher = watcher_open(&loop, NULL, NULL);
    engine = gen_open(&loop, NULL, NULL);
    static struct hub_parts hub;
    hub = (struct hub_parts){.loop = &loop,
                             .home = &home,
                             .config = &settings,
                             .store = store,
                             .events = events,
                             .choices = choices,
                             .trust = trust};
    struct bind *bind = bind_open(&(struct bind_opts){.hub = &hub,
                                                      .watcher = watcher,
                                                      .http = http_client_open(&loop, "bench"),
                                                      .engine = engine});
    plugins_open(&(struct plugins_opts){.hub = &hub,
                                        .engine = engine,
                                        .watcher = watcher,
                                        .runners = {[LANG_LUA] = bind_runner(bind)}});
    gen_request(engine, &(struct gen_request){.trigger = "start", .wait_all = true}, on_loaded,
                &loaded);
    wait_for(&loaded);
}

// ---- the figure -------------------------------------------------------------------------------

static void dispatch(const struct hook_list *list, size_t handlers)
{
    static const struct json nothing = {.type = JSON_OBJ}, none = {.type = JSON_ARR},
                             text = {.type = JSON_STR, .s = {"hi", 2}};
    struct err e = {0};
    struct arena arena = {0};
    struct hook_run run;
    struct hook_ctx ctx = {
        .session_id = STR("s-1"), .state = &nothing, .memory = &none, .arena = &arena};
    struct hook_args args = {
        .point = POINT_FINAL, .ctx = &ctx, .values = {&text}, .n = 1, .arena = &arena};
    bool over = hook_run_start(&run, &(struct hook_run_opts){.list = list, .args = &args});
    if (!over || run.ran != handlers || run.failed != 0) {
        err_set(&e, ERR_INVALID, "%zu ran, %zu failed: %s", run.ran, run.failed, run.fault.msg);
        die("hook", &e);
    }
    arena_fini(&arena);
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/// Times of a hundred handlers at a time: fewer are near the clock's own cost, and many more would take
/// longer than the kernel lets one program run on a busy machine, so that its pauses were in each figure.
static void measure(const struct hook_list *list, size_t handlers, size_t count)
{
    size_t batch = MAX(BATCH / handlers, 1), batches = count / batch;
    uint64_t *ns = xcalloc(batches, sizeof *ns);
    for (size_t i = 0; i < WARM_UP; i++) {
        dispatch(list, handlers);
    }
    for (size_t i = 0; i < batches; i++) {
        uint64_t start = time_mono_ns();
        for (size_t k = 0; k < batch; k++) {
            dispatch(list, handlers);
        }
        ns[i] = (time_mono_ns() - start) / batch;
    }
    qsort(ns, batches, sizeof *ns, by_time);
    printf("{\"p50_us\":%.3f,\"p99_us\":%.3f}\n", (double)ns[batches / 2] / 1e3,
           (double)ns[batches * 99 / 100] / 1e3);
    free(ns);
}

int main(int argc, char **argv)
{
    struct err e = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: bench_chain HOME PLUGINS COUNT\n");
        return 2;
    }
    long plugins = strtol(argv[2], NULL, 10), count = strtol(argv[3], NULL, 10);
    if (plugins < 1 || count < BATCH || loop_init(&loop, NULL, &e) < 0) {
        fprintf(stderr, "bench_chain: nothing to measure\n");
        return 2;
    }
    save_programs(argv[1], plugins);
    open_home(argv[1]);
    open_store();
    load_plugins();
    const struct hook_point *point = &hook_points[POINT_FINAL];
    const struct hook_list *list =
        hook_set_get(gen_hooks(gen_current(engine)), str_of(point->name), point->kind);
    measure(list, (size_t)plugins, (size_t)count);
    fflush(stdout);
    _Exit(0); // the figure is out: there is nothing to bring down in good order
}
