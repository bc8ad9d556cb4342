// What the kernel or the disk refuses, floods, and what it all costs.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "faults.h"
#include "help.h"
#include "lib/fault.h"

static struct rig r;

static void begin(void)
{
    snprintf(r.dir, sizeof r.dir, "%s", test_dir());
}

static void make_file(const char *dir, unsigned i, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/f%u.lua", dir, i);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

TEST(an_overflow_of_the_queue_loses_nothing)
{
    enum { FILES = 20000 };
    struct watch_opts o = {.recursive = true};
    begin();
    rig_mkdir(&r, "deep/er");
    rig_write(&r, "deep/er/last.lua", "1");
    rig_open(&r, &o);
    rig_expect(&r, "deep/er/last.lua", WATCH_CREATED, NULL);
    for (unsigned i = 0; i < FILES; i++) { // the loop does not run meanwhile
        make_file(r.dir, i, "x");
    }
    rig_write(&r, "deep/er/last.lua", "2"); // this event finds no room
    rig_mkdir(&r, "deep/new");
    rig_write(&r, "deep/new/a.lua", "3");
    rig_expect(&r, "deep/er/last.lua", WATCH_CHANGED, NULL);
    rig_expect(&r, "deep/new/a.lua", WATCH_CREATED, NULL);
    rig_settle(&r);
    CHECK(watcher_stats(r.watcher).floods >= 1);
    CHECK_INT(r.changes, FILES + 3);
    CHECK_INT(watcher_stats(r.watcher).swept, 0);
    printf("  %d files, %zu batches, %llu overflows\n", FILES, r.batches,
           (unsigned long long)watcher_stats(r.watcher).floods);
    rig_close(&r);
}

static bool nothing_is_swept(struct rig *x)
{
    return watcher_stats(x->watcher).swept == 0;
}

TEST(beyond_the_watch_limit_changes_are_found_by_a_sweep_with_one_warning)
{
    struct watch_opts o = {
        .recursive = true, .want_bytes = true, .bytes_max = 100, .pace.poll_ms = 20};
    begin();
    rig_mkdir(&r, "a");
    rig_mkdir(&r, "b");
    rig_mkdir(&r, "c");
    rig_write(&r, "a/x.lua", "1");
    rig_write(&r, "c/x.lua", "1");
    watch_limit(3); // what lies above, and the root itself
    rig_open(&r, &o);
    rig_expect(&r, "a/x.lua", WATCH_CREATED, "1");
    rig_expect(&r, "c/x.lua", WATCH_CREATED, "1");
    CHECK(watcher_stats(r.watcher).swept >= 2);
    rig_write(&r, "a/x.lua", "2");
    rig_write(&r, "b/x.lua", "2");
    rig_write(&r, "c/x.lua", "2");
    rig_expect(&r, "a/x.lua", WATCH_CHANGED, "2");
    rig_expect(&r, "b/x.lua", WATCH_CREATED, "2");
    rig_expect(&r, "c/x.lua", WATCH_CHANGED, "2");
    CHECK_INT(r.warnings, 1);
    CHECK(strstr(r.warning, "watch limit reached") != NULL);
    CHECK(strstr(r.remedy, "sysctl fs.inotify.max_user_watches") != NULL);
    watch_limit(-1); // somebody raised it
    rig_until(&r, nothing_is_swept);
    rig_write(&r, "c/x.lua", "3");
    rig_expect(&r, "c/x.lua", WATCH_CHANGED, "3");
    rig_settle(&r);
    CHECK_INT(r.warnings, 1);
    rig_close(&r);
}

TEST(without_an_inotify_descriptor_everything_is_swept)
{
    struct watch_opts o = {.path = "later",
                           .recursive = true,
                           .want_bytes = true,
                           .bytes_max = 100,
                           .pace.poll_ms = 20};
    begin();
    watch_no_instance(true);
    rig_open(&r, &o);
    rig_mkdir(&r, "later/sub");
    rig_write(&r, "later/sub/a.lua", "1");
    rig_expect(&r, "sub/a.lua", WATCH_CREATED, "1");
    rig_write(&r, "later/sub/a.lua", "2");
    rig_expect(&r, "sub/a.lua", WATCH_CHANGED, "2");
    CHECK_INT(unlink(rig_path(&r, "later/sub/a.lua")), 0);
    rig_expect(&r, "sub/a.lua", WATCH_DELETED, NULL);
    CHECK_INT(r.warnings, 1);
    CHECK(strstr(r.remedy, "max_user_instances") != NULL);
    rig_close(&r);
}

TEST(a_watch_that_asks_for_polling_uses_no_events)
{
    struct watch_opts o = {.recursive = true,
                           .want_bytes = true,
                           .bytes_max = 100,
                           .pace.poll_ms = 20,
                           .pace.poll = true};
    begin();
    rig_mkdir(&r, "d");
    rig_open_by_hand(&r, &o);
    CHECK_INT(watcher_stats(r.watcher).native, 0);
    rig_write(&r, "d/a.lua", "1");
    rig_expect(&r, "d/a.lua", WATCH_CREATED, "1");
    rig_sh(&r, "touch d/a.lua");
    rig_sentinel(&r);
    rig_sh(&r, "rm -r d; mkdir d; echo 2 >d/a.lua");
    rig_expect(&r, "d/a.lua", WATCH_CHANGED, "2\n");
    CHECK_INT(r.warnings, 0);
    rig_expect_nothing_else(&r);
    rig_close(&r);
}

static void on_inventory(struct watch *w, const struct watch_batch *batch, void *arg)
{
    bool *seen = arg;
    (void)w;
    *seen = *seen || batch->first;
}

static bool second_seen;

static bool is_second_seen(struct rig *rig)
{
    (void)rig;
    return second_seen;
}

TEST(a_watch_that_names_no_pace_takes_the_watcher_s)
{
    struct watch *second;
    begin();
    rig_open(&r, NULL);
    struct watch_stats before = watcher_stats(r.watcher);
    CHECK(before.native != 0 && before.swept == 0);
    watcher_set_pace(r.watcher, &(struct watch_pace){.poll = true});
    CHECK_INT(watch_open(&second, r.watcher, &(struct watch_opts){.path = r.dir}, on_inventory,
                         &second_seen, NULL),
              0);
    rig_until(&r, is_second_seen);
    CHECK_INT(watcher_stats(r.watcher).native, before.native);
    CHECK_INT(watcher_stats(r.watcher).swept, 1);
    watch_close(second);
    rig_close(&r);
}

TEST(a_sweep_does_not_read_half_a_file)
{
    struct watch_opts o = {
        .want_bytes = true, .bytes_max = 100, .pace.poll_ms = 20, .pace.poll = true};
    begin();
    rig_write(&r, "a.lua", "return 1");
    rig_open_by_hand(&r, &o);
    rig_expect(&r, "a.lua", WATCH_CREATED, "return 1");
    int fd = open(rig_path(&r, "a.lua"), O_WRONLY | O_TRUNC);
    CHECK_INT(write(fd, "return ", 7), 7);
    rig_sentinel(&r); // found by a later sweep, after a rest of its own
    rig_sentinel(&r);
    rig_expect_nothing_else(&r);
    CHECK_INT(write(fd, "2", 1), 1);
    close(fd);
    rig_expect(&r, "a.lua", WATCH_CHANGED, "return 2");
    rig_close(&r);
}

TEST(an_idle_watcher_sleeps_until_something_happens)
{
    begin();
    rig_mkdir(&r, "a/b/c");
    rig_write(&r, "a/x.lua", "1");
    rig_open(&r, NULL);
    rig_write(&r, "a/x.lua", "2");
    rig_settle(&r);
    loop_run_once(&r.loop, false);
    CHECK_INT(r.loop.n_timers, 0);
    CHECK_INT(uv_backend_timeout(&r.loop.uv), -1); // no wake-up of its own, ever
    rig_close(&r);
}

// ---- faults ----------------------------------------------------------------------------------

struct kind {
    const char *what;
    void (*arm)(unsigned long n, int error, bool forever);
    void (*disarm)(void);
    unsigned long (*hits)(void);
};

static const struct kind kinds[] = {
    {"open and read", fault_at, fault_off, fault_hits},
    {"stat, readdir and inotify", watch_fault_at, watch_fault_off, watch_fault_hits},
};

static void prepare(unsigned long n)
{
    char text[40];
    CHECK(system("rm -rf w real.txt; mkdir -p w/d w/e; ln -s ../real.txt w/link.lua") == 0);
    snprintf(text, sizeof text, "%lu", n);
    rig_write(&r, "w/d/a.lua", text);
    rig_write(&r, "w/gone.lua", text);
    rig_write(&r, "real.txt", text);
}

static bool all_is_right(struct rig *x)
{
    return rig_has(x, "d/a.lua", "changed") && rig_has(x, "e/new.lua", "new") &&
           rig_has(x, "link.lua", "target") && rig_has(x, "d2/deep.lua", "deep") &&
           (rig_has(x, "gone.lua", NULL) || watcher_stats(x->watcher).files == 4);
}

/// Things happen while the n-th call fails. True when a call was made to fail.
static bool live_through(const struct kind *k, unsigned long n, int error)
{
    struct watch_opts o = {.path = "w",
                           .recursive = true,
                           .pattern = "*.lua",
                           .want_bytes = true,
                           .bytes_max = 100,
                           .pace.poll_ms = 20};
    prepare(n);
    k->arm(n, error, false);
    rig_open(&r, &o);
    rig_write(&r, "w/d/a.lua", "changed");
    rig_write(&r, "w/e/new.lua", "new");
    rig_write(&r, "real.txt", "target");
    CHECK(system("mkdir w/d2; printf deep >w/d2/deep.lua; rm w/gone.lua") == 0);
    rig_until(&r, all_is_right);
    bool hit = k->hits() != 0;
    k->disarm();
    rig_settle(&r);
    rig_close(&r);
    return hit;
}

static void fault_run(const struct kind *k, int error)
{
    unsigned long n = 1;
    begin();
    CHECK_INT(chdir(r.dir), 0);
    while (live_through(k, n, error)) {
        n++;
    }
    printf("  %s: %lu points failed, error %d, at the %luth none was left\n", k->what, n - 1, error,
           n);
    CHECK(n > 10); // it reached something
}

TEST(whatever_open_or_read_fails_once_the_end_is_right)
{
    fault_run(&kinds[0], EIO);
}

TEST(whatever_stat_readdir_or_inotify_call_fails_once_the_end_is_right)
{
    fault_run(&kinds[1], ENOMEM);
}

// ---- cost ------------------------------------------------------------------------------------

static size_t open_fds(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}

static bool other_ready;

static void on_other(struct watch *w, const struct watch_batch *b, void *arg)
{
    (void)w;
    (void)b;
    (void)arg;
    other_ready = true;
}

static bool other_is_ready(struct rig *x)
{
    (void)x;
    return other_ready;
}

TEST(a_thousand_watches_opened_and_closed_leave_nothing)
{
    struct watch *w;
    begin();
    rig_mkdir(&r, "a/b");
    rig_write(&r, "a/b/x.lua", "1");
    CHECK_INT(symlink("a/b/x.lua", rig_path(&r, "l.lua")), 0);
    struct watch_opts root = {.path = "nothing here"};
    rig_open(&r, &root);
    size_t fds = 0, bytes = 0, native = 0;
    for (unsigned i = 0; i < 1000; i++) {
        struct watch_opts o = {.path = r.dir, .recursive = true};
        other_ready = false;
        CHECK_INT(watch_open(&w, r.watcher, &o, on_other, NULL, NULL), 0);
        if (i % 2 == 0) { // the others are closed with their job under way
            rig_until(&r, other_is_ready);
        }
        watch_close(w);
        if (i == 100) {
            rig_settle(&r);
            fds = open_fds();
            bytes = test_heap_bytes();
            native = watcher_stats(r.watcher).native;
        }
    }
    rig_settle(&r);
    CHECK_INT(watcher_stats(r.watcher).native, native);
    CHECK_INT(open_fds(), fds);
    CHECK(test_heap_bytes() <= bytes + 16 * 1024);
    rig_close(&r);
}

static bool looks_begin(struct rig *x)
{
    return watcher_stats(x->watcher).files >= 40;
}

TEST(a_watch_that_is_closed_reads_no_further)
{
    struct watch *w;
    char name[20];
    begin();
    rig_mkdir(&r, "big");
    for (unsigned i = 0; i < 40; i++) { // holes: hashed like all else, but on no disk
        snprintf(name, sizeof name, "big/%u.lua", i);
        rig_write(&r, name, "1");
        CHECK_INT(truncate(rig_path(&r, name), WATCH_HASH_MAX), 0);
    }
    struct watch_opts none = {.path = "nothing here"};
    rig_open(&r, &none);
    struct watch_opts o = {.path = rig_path(&r, "big")};
    CHECK_INT(watch_open(&w, r.watcher, &o, on_other, NULL, NULL), 0);
    rig_until(&r, looks_begin);
    uint64_t start = test_cpu_ns();
    watch_close(w);
    rig_settle(&r);
    CHECK((test_cpu_ns() - start) / 1000000 < 500); // all of it takes seconds
    rig_close(&r);
}

TEST(twenty_thousand_directories_are_watched_quickly_and_in_little_memory)
{
    struct watch_opts o = {.path = "tree", .recursive = true, .pattern = "*.lua"};
    char name[60];
    begin();
    rig_mkdir(&r, "tree");
    for (unsigned i = 0; i < 20000; i++) {
        if (i % 100 == 0) {
            snprintf(name, sizeof name, "tree/group-%u", i / 100);
        } else {
            snprintf(name, sizeof name, "tree/group-%u/directory-%u", i / 100, i % 100);
        }
        CHECK_INT(mkdir(rig_path(&r, name), 0755), 0);
    }
    size_t before = test_heap_bytes();
    uint64_t start = time_mono_ns();
    rig_open(&r, &o);
    uint64_t ms = (time_mono_ns() - start) / 1000000;
    rig_settle(&r);
    size_t bytes = test_heap_bytes() - before;
    printf("  20,000 directories: %llu ms, %zu KB\n", (unsigned long long)ms, bytes / 1024);
    CHECK_INT(watcher_stats(r.watcher).dirs, 20001);
    CHECK(bytes <= 4 * 1024 * 1024);
    rig_write(&r, "tree/group-150/directory-77/x.lua", "1");
    rig_expect(&r, "group-150/directory-77/x.lua", WATCH_CREATED, NULL);
    rig_close(&r);
}

static unsigned first_batches, saved;

static void on_single(struct watch *w, const struct watch_batch *b, void *arg)
{
    (void)w;
    (void)arg;
    first_batches += b->first;
    saved += b->first ? 0 : (unsigned)b->n;
}

static bool singles_are_ready(struct rig *x)
{
    (void)x;
    return first_batches == 300;
}

static bool one_is_saved(struct rig *x)
{
    (void)x;
    return saved != 0;
}

TEST(watches_of_single_files_do_not_read_the_directory_around_them)
{
    struct watch_opts elsewhere = {.path = "nothing here"};
    struct watch *watches[300];
    char name[40];
    begin();
    rig_mkdir(&r, "d");
    for (unsigned i = 0; i < ARRAY_LEN(watches); i += 2) { // every second one is not there yet
        snprintf(name, sizeof name, "d/f%u", i);
        rig_write(&r, name, "1");
    }
    rig_open(&r, &elsewhere);
    unsigned long before = watch_names_read();
    first_batches = saved = 0;
    for (unsigned i = 0; i < ARRAY_LEN(watches); i++) {
        snprintf(name, sizeof name, "f%u", i);
        struct watch_opts o = {.path = rig_path(&r, "d"), .pattern = name};
        CHECK_INT(watch_open(&watches[i], r.watcher, &o, on_single, NULL, NULL), 0);
    }
    rig_until(&r, singles_are_ready);
    rig_write(&r, "d/f77", "made later");
    rig_until(&r, one_is_saved);
    rig_settle(&r);
    CHECK_INT(saved, 1);
    CHECK_INT(watch_names_read() - before, 0);
    for (unsigned i = 0; i < ARRAY_LEN(watches); i++) {
        watch_close(watches[i]);
    }
    rig_close(&r);
}
