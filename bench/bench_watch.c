// Watching a large tree, for `make bench`.
//
//     bench_watch DIR N
//
// Makes N directories below DIR (a hundred in each group, no files) and watches it as the hub watches
// its Lua. Prints one JSON object: milliseconds until the inventory came and every directory is
// watched, the memory that the watcher then holds, and how many directories had to be swept because
// the kernel gave no watch for them.

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/time.h"
#include "loop/loop.h"
#include "watch/watch.h"

static void die(const char *what, const struct err *e)
{
    fprintf(stderr, "bench_watch: %s: %s\n", what, e->msg);
    exit(1);
}

static void make_tree(const char *dir, long n)
{
    char path[4096];
    for (long i = 0; i < n; i++) {
        if (i % 100 == 0) {
            snprintf(path, sizeof path, "%s/group-%ld", dir, i / 100);
        } else {
            snprintf(path, sizeof path, "%s/group-%ld/directory-%ld", dir, i / 100, i % 100);
        }
        if (mkdir(path, 0755) != 0) {
            perror(path);
            exit(1);
        }
    }
}

static size_t allocated(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void on_batch(struct watch *w, const struct watch_batch *batch, void *arg)
{
    (void)w;
    (void)batch;
    *(bool *)arg = true;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct loop loop;
    struct watch *watch;
    bool ready = false;
    if (argc != 3) {
        fprintf(stderr, "usage: bench_watch DIR N\n");
        return 2;
    }
    make_tree(argv[1], strtol(argv[2], NULL, 10));
    if (loop_init(&loop, NULL, &e) < 0) {
        die("loop", &e);
    }
    size_t before = allocated();
    uint64_t start = time_mono_ns();
    struct watcher *watcher = watcher_open(&loop, NULL, NULL);
    const struct watch_opts opts = {.path = argv[1], .pattern = "*.lua", .recursive = true};
    if (watch_open(&watch, watcher, &opts, on_batch, &ready, &e) < 0) {
        die(argv[1], &e);
    }
    while (!ready) {
        loop_run_once(&loop, true);
    }
    double ms = (double)(time_mono_ns() - start) / 1e6;
    struct watch_stats s = watcher_stats(watcher);
    printf("{\"dirs\":%zu,\"swept\":%zu,\"ms\":%.1f,\"bytes\":%zu}\n", s.dirs, s.swept, ms,
           allocated() - before);
    watcher_close(watcher);
    loop_run(&loop);
    return loop_close(&loop, &e) < 0;
}
