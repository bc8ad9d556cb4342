// Directories and links that come, go and move.

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"

static struct rig r;

static void begin(void)
{
    snprintf(r.dir, sizeof r.dir, "%s", test_dir());
}

static void open_path(const char *path)
{
    struct watch_opts o = {
        .path = path, .recursive = true, .pattern = "*.lua", .want_bytes = true, .bytes_max = 4096};
    rig_open(&r, &o);
}

static void link_to(const char *target, const char *name)
{
    CHECK_INT(symlink(target, rig_path(&r, name)), 0);
}

static void move(const char *from, const char *to)
{
    CHECK_INT(rename(rig_path(&r, from), rig_path(&r, to)), 0);
}

static void end(void)
{
    rig_sentinel(&r);
    rig_settle(&r);
    rig_expect_nothing_else(&r);
    rig_close(&r);
}

TEST(the_first_batch_is_the_inventory)
{
    begin();
    rig_mkdir(&r, "a/b");
    rig_write(&r, "a/b/x.lua", "x");
    rig_write(&r, "y.lua", "y");
    rig_write(&r, "z.txt", "z");
    open_path(NULL);
    rig_expect(&r, "a/b/x.lua", WATCH_CREATED, "x");
    rig_expect(&r, "y.lua", WATCH_CREATED, "y");
    rig_expect_nothing_else(&r);
    rig_close(&r);
}

TEST(a_relative_path_is_refused)
{
    struct loop l;
    struct watch *w;
    struct err e;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct watcher *wr = watcher_open(&l, NULL, NULL);
    CHECK_INT(watch_open(&w, wr, &(struct watch_opts){.path = "x"}, NULL, NULL, &e), ERR_INVALID);
    CHECK(w == NULL);
    CHECK_STR(e.msg, "cannot watch 'x': not an absolute path");
    watcher_close(wr);
    TEST_LOOP_END(&l);
}

TEST(a_root_that_appears_later_part_by_part_is_followed)
{
    begin();
    open_path("a/b/c");
    rig_mkdir(&r, "a");
    rig_mkdir(&r, "a/b");
    rig_settle(&r);
    rig_mkdir(&r, "a/b/c");
    rig_write(&r, "a/b/c/x.lua", "1");
    rig_expect(&r, "x.lua", WATCH_CREATED, "1");
    rig_write(&r, "a/b/c/x.lua", "2");
    rig_expect(&r, "x.lua", WATCH_CHANGED, "2");
    end();
}

/// What the kernel tells us about the directory `path`: the mask of its inotify watch, 0 for none.
static unsigned mask_on(const char *path)
{
    struct stat st;
    char line[512], name[64];
    unsigned mask = 0;
    CHECK_INT(stat(path, &st), 0);
    for (int fd = 3; fd < 64; fd++) {
        snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
        FILE *f = fopen(name, "re");
        while (f != NULL && fgets(line, sizeof line, f) != NULL) {
            unsigned long ino;
            unsigned one;
            if (sscanf(line, "inotify wd:%*x ino:%lx sdev:%*x mask:%x", &ino, &one) == 2 &&
                ino == st.st_ino) {
                mask |= one;
            }
        }
        if (f != NULL) {
            fclose(f);
        }
    }
    return mask;
}

TEST(what_happens_beside_the_root_wakes_nobody)
{
    begin();
    rig_mkdir(&r, "a/b");
    open_path("a/b");
    CHECK((mask_on(rig_path(&r, "a/b")) & IN_CREATE) != 0);
    CHECK_INT(mask_on(rig_path(&r, "a")) & (IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_ATTRIB), 0);
    CHECK((mask_on(rig_path(&r, "a")) & IN_MOVE_SELF) != 0);
    rig_sh(&r, "mv a old && mkdir -p a/b && echo 1 >a/b/x.lua"); // and nothing is missed
    rig_expect(&r, "x.lua", WATCH_CREATED, "1\n");
    end();
}

TEST(nested_directories_made_at_once_with_files_are_seen)
{
    begin();
    open_path(NULL);
    rig_sh(&r, "mkdir -p p/q/r/s; echo 1 >p/q/r/s/x.lua; echo 2 >p/y.lua");
    rig_expect(&r, "p/q/r/s/x.lua", WATCH_CREATED, "1\n");
    rig_expect(&r, "p/y.lua", WATCH_CREATED, "2\n");
    rig_write(&r, "p/q/r/s/x.lua", "3");
    rig_expect(&r, "p/q/r/s/x.lua", WATCH_CHANGED, "3");
    end();
}

TEST(deleting_and_making_again_is_told_apart_from_a_save)
{
    begin();
    rig_write(&r, "a.lua", "1");
    open_path(NULL);
    rig_expect(&r, "a.lua", WATCH_CREATED, "1");
    CHECK_INT(unlink(rig_path(&r, "a.lua")), 0);
    rig_expect(&r, "a.lua", WATCH_DELETED, NULL);
    rig_write(&r, "a.lua", "1");
    rig_expect(&r, "a.lua", WATCH_CREATED, "1");
    CHECK_INT(unlink(rig_path(&r, "a.lua")), 0);
    rig_write(&r, "a.lua", "2"); // at once: a save
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2");
    end();
}

TEST(deleting_a_tree_is_the_deletion_of_its_files)
{
    begin();
    rig_mkdir(&r, "a/b/c");
    rig_write(&r, "a/b/c/x.lua", "1");
    rig_write(&r, "a/y.lua", "2");
    open_path(NULL);
    rig_expect(&r, "a/b/c/x.lua", WATCH_CREATED, "1");
    rig_expect(&r, "a/y.lua", WATCH_CREATED, "2");
    rig_sh(&r, "rm -r a");
    rig_expect(&r, "a/b/c/x.lua", WATCH_DELETED, NULL);
    rig_expect(&r, "a/y.lua", WATCH_DELETED, NULL);
    rig_settle(&r);
    CHECK_INT(watcher_stats(r.watcher).dirs, 1);
    end();
}

TEST(a_replaced_directory_reports_only_what_differs)
{
    begin();
    rig_mkdir(&r, "w/p");
    rig_mkdir(&r, "new");
    rig_write(&r, "w/p/same.lua", "s");
    rig_write(&r, "w/p/other.lua", "1");
    rig_write(&r, "w/p/gone.lua", "g");
    rig_write(&r, "new/same.lua", "s");
    rig_write(&r, "new/other.lua", "2");
    open_path("w");
    rig_expect(&r, "p/same.lua", WATCH_CREATED, "s");
    rig_expect(&r, "p/other.lua", WATCH_CREATED, "1");
    rig_expect(&r, "p/gone.lua", WATCH_CREATED, "g");
    move("w/p", "old");
    move("new", "w/p");
    rig_expect(&r, "p/other.lua", WATCH_CHANGED, "2");
    rig_expect(&r, "p/gone.lua", WATCH_DELETED, NULL);
    rig_write(&r, "old/same.lua", "not ours any more");
    rig_write(&r, "w/p/same.lua", "3");
    rig_expect(&r, "p/same.lua", WATCH_CHANGED, "3");
    end();
}

TEST(a_replaced_root_is_followed)
{
    begin();
    rig_mkdir(&r, "up/w");
    rig_mkdir(&r, "up2/w");
    rig_write(&r, "up/w/a.lua", "1");
    rig_write(&r, "up2/w/a.lua", "2");
    open_path("up/w");
    rig_expect(&r, "a.lua", WATCH_CREATED, "1");
    move("up", "away"); // not the root itself: what is above it
    move("up2", "up");
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2");
    rig_write(&r, "up/w/a.lua", "3");
    rig_expect(&r, "a.lua", WATCH_CHANGED, "3");
    end();
}

TEST(a_root_that_goes_and_comes_back_is_followed)
{
    begin();
    rig_mkdir(&r, "w");
    rig_write(&r, "w/a.lua", "1");
    open_path("w");
    rig_expect(&r, "a.lua", WATCH_CREATED, "1");
    rig_sh(&r, "rm -r w");
    rig_expect(&r, "a.lua", WATCH_DELETED, NULL);
    rig_sh(&r, "mkdir w; echo 2 >w/a.lua");
    rig_expect(&r, "a.lua", WATCH_CREATED, "2\n");
    end();
}

TEST(a_root_that_is_a_link_is_followed_and_so_is_its_change)
{
    begin();
    rig_mkdir(&r, "v1");
    rig_mkdir(&r, "v2");
    rig_write(&r, "v1/a.lua", "1");
    rig_write(&r, "v2/a.lua", "2");
    link_to("v1", "current");
    open_path("current");
    rig_expect(&r, "a.lua", WATCH_CREATED, "1");
    rig_write(&r, "v1/a.lua", "1b");
    rig_expect(&r, "a.lua", WATCH_CHANGED, "1b");
    link_to("v2", "next");
    move("next", "current");
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2");
    rig_write(&r, "v2/a.lua", "2b");
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2b");
    end();
}

TEST(a_linked_file_changes_with_its_target)
{
    begin();
    rig_mkdir(&r, "w");
    rig_mkdir(&r, "else");
    rig_write(&r, "else/real.txt", "1");
    link_to("../else/real.txt", "w/a.lua");
    open_path("w");
    rig_expect(&r, "a.lua", WATCH_CREATED, "1");
    rig_write(&r, "else/real.txt", "2"); // in place
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2");
    rig_write(&r, "else/tmp", "3");
    move("else/tmp", "else/real.txt"); // by rename
    rig_expect(&r, "a.lua", WATCH_CHANGED, "3");
    move("else", "elsewhere"); // the way to it
    rig_expect(&r, "a.lua", WATCH_DELETED, NULL);
    move("elsewhere", "else");
    rig_expect(&r, "a.lua", WATCH_CREATED, "3");
    rig_write(&r, "other.txt", "4");
    link_to("../other.txt", "w/tmp");
    move("w/tmp", "w/a.lua"); // another target
    rig_expect(&r, "a.lua", WATCH_CHANGED, "4");
    rig_write(&r, "other.txt", "5");
    rig_expect(&r, "a.lua", WATCH_CHANGED, "5");
    end();
}

TEST(a_link_to_nothing_waits_for_its_target)
{
    begin();
    rig_mkdir(&r, "w");
    link_to("../later/x.txt", "w/a.lua");
    link_to("../laterdir", "w/d");
    open_path("w");
    rig_mkdir(&r, "later");
    rig_write(&r, "later/x.txt", "1");
    rig_expect(&r, "a.lua", WATCH_CREATED, "1");
    rig_mkdir(&r, "laterdir");
    rig_write(&r, "laterdir/b.lua", "2");
    rig_expect(&r, "d/b.lua", WATCH_CREATED, "2");
    rig_sh(&r, "rm -r laterdir");
    rig_expect(&r, "d/b.lua", WATCH_DELETED, NULL);
    rig_sh(&r, "mkdir laterdir; echo 3 >laterdir/b.lua");
    rig_expect(&r, "d/b.lua", WATCH_CREATED, "3\n");
    end();
}

TEST(a_linked_directory_is_part_of_the_tree)
{
    begin();
    rig_mkdir(&r, "w");
    rig_mkdir(&r, "lib/sub");
    rig_write(&r, "lib/sub/a.lua", "1");
    open_path("w");
    link_to("../lib", "w/lib"); // later
    rig_expect(&r, "lib/sub/a.lua", WATCH_CREATED, "1");
    rig_write(&r, "lib/sub/a.lua", "2");
    rig_expect(&r, "lib/sub/a.lua", WATCH_CHANGED, "2");
    CHECK_INT(unlink(rig_path(&r, "w/lib")), 0);
    rig_expect(&r, "lib/sub/a.lua", WATCH_DELETED, NULL);
    end();
}

TEST(links_that_lead_back_up_end)
{
    begin();
    rig_mkdir(&r, "a/b");
    link_to("..", "a/b/up");
    link_to("self", "self");
    link_to("/", "a/all");
    rig_write(&r, "a/b/x.lua", "1");
    open_path(NULL);
    rig_expect(&r, "a/b/x.lua", WATCH_CREATED, "1");
    rig_settle(&r);
    CHECK_INT(watcher_stats(r.watcher).dirs, 4); // and one that waits: 'self'
    end();
}

TEST(what_is_ignored_is_neither_watched_nor_reported)
{
    const char *const rules[] = {"skip/", "*.gen.lua", NULL};
    struct watch_opts o = {.recursive = true, .ignore = rules};
    begin();
    rig_mkdir(&r, "skip/deep");
    rig_open(&r, &o);
    CHECK_INT(watcher_stats(r.watcher).dirs, 1);
    rig_mkdir(&r, "skip/deeper");
    rig_write(&r, "skip/a.lua", "1");
    rig_write(&r, "b.gen.lua", "1");
    end();
}

TEST(a_flat_watch_does_not_look_below)
{
    struct watch_opts o = {.pattern = "*.lua"};
    begin();
    rig_mkdir(&r, "sub");
    rig_open(&r, &o);
    rig_write(&r, "sub/a.lua", "1");
    rig_mkdir(&r, "sub2");
    rig_write(&r, "sub2/a.lua", "1");
    rig_write(&r, "no.txt", "1");
    end();
}

static size_t other_changes;
static bool other_ready;

static void on_other(struct watch *w, const struct watch_batch *b, void *arg)
{
    (void)w;
    (void)arg;
    other_ready = true;
    other_changes += b->n;
}

static bool other_is_ready(struct rig *x)
{
    (void)x;
    return other_ready;
}

static bool other_has_one(struct rig *x)
{
    (void)x;
    return other_changes == 1;
}

TEST(overlapping_watches_share_what_the_kernel_watches)
{
    struct watch *other;
    begin();
    rig_mkdir(&r, "a/b");
    open_path(NULL);
    size_t native = watcher_stats(r.watcher).native;
    struct watch_opts o = {.path = rig_path(&r, "a"), .recursive = true};
    CHECK_INT(watch_open(&other, r.watcher, &o, on_other, NULL, NULL), 0);
    rig_until(&r, other_is_ready);
    CHECK_INT(watcher_stats(r.watcher).native, native);
    rig_write(&r, "a/b/x.lua", "1");
    rig_expect(&r, "a/b/x.lua", WATCH_CREATED, "1");
    rig_until(&r, other_has_one);
    watch_close(other);
    CHECK_INT(watcher_stats(r.watcher).native, native);
    rig_write(&r, "a/b/x.lua", "2"); // the one that stays still hears
    rig_expect(&r, "a/b/x.lua", WATCH_CHANGED, "2");
    CHECK_INT(other_changes, 1);
    end();
}

static void close_itself(struct watch *w, const struct watch_batch *b, void *arg)
{
    CHECK(b->first);
    watch_close(w);
    *(bool *)arg = true;
}

static bool closed;

static bool is_closed(struct rig *x)
{
    (void)x;
    return closed;
}

TEST(a_watch_may_be_closed_inside_its_callback)
{
    struct watch *w;
    begin();
    rig_write(&r, "a.lua", "1");
    open_path(NULL);
    rig_expect(&r, "a.lua", WATCH_CREATED, "1");
    struct watch_opts o = {.path = r.dir, .recursive = true};
    CHECK_INT(watch_open(&w, r.watcher, &o, close_itself, &closed, NULL), 0);
    rig_until(&r, is_closed);
    rig_write(&r, "a.lua", "2");
    rig_expect(&r, "a.lua", WATCH_CHANGED, "2");
    end();
}

TEST(a_directory_whose_rights_come_back_is_read)
{
    if (geteuid() == 0) {
        test_skip("root may read everything");
    }
    begin();
    rig_mkdir(&r, "d");
    rig_write(&r, "d/a.lua", "1");
    CHECK_INT(chmod(rig_path(&r, "d"), 0), 0);
    open_path(NULL);
    rig_expect_nothing_else(&r);
    CHECK_INT(watcher_stats(r.watcher).swept, 0);
    CHECK_INT(chmod(rig_path(&r, "d"), 0755), 0);
    rig_expect(&r, "d/a.lua", WATCH_CREATED, "1");
    end();
}
