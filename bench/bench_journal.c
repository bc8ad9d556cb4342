// How fast one journal takes events, beside what the disk itself can do.
//
//     bench_journal DIR [EVENTS [BATCH [URL]]]
//
// Prints events a second through the whole store (loop, lanes, encoding, one write a batch, every
// batch WRITTEN and the last one SYNCED), the median of a SYNCED append, and the median of a bare
// fdatasync() of the same size on the same disk, so that the two can be compared.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "store/store.h"

enum { SYNCS = 200, IN_FLIGHT = 8 };

#define FIELDS                                                                                     \
    "\"session\":\"s1\",\"turn\":\"t1\",\"step\":1,\"text\":\"a piece of an answer as a model "    \
    "streams it, some forty words of it would be a lot but a hundred bytes are usual\""

struct bench {
    struct loop loop;
    struct store *store;
    struct store_event *events;
    size_t batch, left, in_flight;
    unsigned syncs;
    uint64_t begin;
    double took[SYNCS];
    bool stop;
};

static NORETURN void die(const char *what, const struct err *e)
{
    fprintf(stderr, "bench_journal: %s: %s\n", what, e != NULL ? e->msg : "");
    exit(1);
}

static void check(int status, const struct err *e)
{
    if (status < 0) {
        die("failed", e);
    }
}

static void on_done(void *arg, int status, const struct err *e)
{
    check(status, e);
    ((struct bench *)arg)->stop = true;
}

static void wait_for(struct bench *b)
{
    while (!b->stop) {
        loop_run_once(&b->loop, true);
    }
    b->stop = false;
}

static void fill(struct bench *b);

static void on_batch(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    struct bench *b = arg;
    (void)a;
    check(status, e);
    b->in_flight--;
    fill(b);
    b->stop = b->in_flight == 0;
}

static void fill(struct bench *b)
{
    while (b->left != 0 && b->in_flight < IN_FLIGHT) {
        size_t n = MIN(b->batch, b->left);
        b->left -= n;
        b->in_flight++;
        store_append(b->store, STR("s1"), b->events, n, b->left == 0 ? STORE_SYNCED : STORE_WRITTEN,
                     on_batch, b);
    }
}

static void on_synced(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    struct bench *b = arg;
    uint64_t now = time_mono_ns();
    (void)a;
    check(status, e);
    b->took[b->syncs++] = (double)(now - b->begin) / 1e6;
    b->begin = now;
    if (b->syncs == SYNCS) {
        b->stop = true;
        return;
    }
    store_append(b->store, STR("s1"), b->events, 1, STORE_SYNCED, on_synced, b);
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(double *v)
{
    qsort(v, SYNCS, sizeof *v, by_value);
    return v[SYNCS / 2];
}

static double raw_sync(const char *dir)
{
    static double took[SYNCS];
    char line[256];
    char *path = path_join(dir, "raw");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    memset(line, 'x', sizeof line);
    for (int i = 0; i < SYNCS; i++) {
        uint64_t t = time_mono_ns();
        if (write(fd, line, sizeof line) != (ssize_t)sizeof line || fdatasync(fd) != 0) {
            die("raw write", NULL);
        }
        took[i] = (double)(time_mono_ns() - t) / 1e6;
    }
    close(fd);
    unlink(path);
    free(path);
    return median(took);
}

static double run_batches(struct bench *b, size_t events)
{
    b->left = events;
    uint64_t t = time_mono_ns();
    fill(b);
    wait_for(b);
    return (double)events / ((double)(time_mono_ns() - t) / 1e9);
}

static double run_syncs(struct bench *b)
{
    b->begin = time_mono_ns();
    store_append(b->store, STR("s1"), b->events, 1, STORE_SYNCED, on_synced, b);
    wait_for(b);
    return median(b->took);
}

static void open_store(struct bench *b, const char *home, const char *url)
{
    struct err e;
    struct store_team team = {.url = url, .hub = "bench", .lease_s = 60};
    struct store_opts opts = {.home = home, .team = url != NULL ? &team : NULL};
    if (path_mkdirs(home, 0700, &e) < 0 || loop_init(&b->loop, NULL, &e) < 0 ||
        store_open(&b->store, &b->loop, &opts, on_done, b, &e) < 0) {
        die("cannot start", &e);
    }
    wait_for(b);
    store_session_new(b->store, STR("s1"), STR("sessions/s1"), STR("{}"), on_done, b);
    wait_for(b);
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct err e;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_journal DIR [EVENTS [BATCH]]\n");
        return 2;
    }
    char *dir = realpath(argv[1], NULL);
    size_t events = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
    b.batch = argc > 3 ? strtoul(argv[3], NULL, 10) : 100;
    if (dir == NULL || events == 0 || b.batch == 0) {
        die("bad arguments", NULL);
    }
    char *home = xasprintf("%s/bench-journal-%d", dir, (int)getpid());
    b.events = xcalloc(b.batch, sizeof *b.events);
    for (size_t i = 0; i < b.batch; i++) {
        b.events[i] = (struct store_event){STR("message.delta"), STR(FIELDS)};
    }
    open_store(&b, home, argc > 4 ? argv[4] : NULL);
    double rate = run_batches(&b, events);
    double synced = run_syncs(&b);
    store_close(b.store, on_done, &b);
    wait_for(&b);
    double raw = raw_sync(home);
    printf("journal: %.0f events/s (%zu in batches of %zu), "
           "synced append %.3f ms, raw fdatasync %.3f ms\n",
           rate, events, b.batch, synced, raw);
    while (loop_run(&b.loop)) {
    }
    int rc = loop_close(&b.loop, &e) < 0 || path_remove_tree(home, &e) < 0;
    free(b.events);
    free(home);
    free(dir);
    return rc;
}
