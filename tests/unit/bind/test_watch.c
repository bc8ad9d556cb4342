#include <sys/stat.h>
#include <unistd.h>

#include "unit/bind/rig.h"

static void watch(const char *options)
{
    CHECK(mkdir(rig_path("w"), 0755) == 0);
    rig_load("a", rig_code("id = watch.directory('%s', %s, function(e) "
                           "say(e.kind, e.path:match('[^/]*$')) end) say(type(id)) "
                           "events.on('end', function() "
                           "say(watch.unwatch(id), watch.unwatch(id), watch.unwatch('x')) end)",
                           rig_path("w"), options));
    CHECK(rig_said("number"));
}

/// Until the watch's inventory is done nothing is a change: wait for it.
static void wait_inventory(void)
{
    while (watcher_stats(rig.watcher).scans == 0 || watcher_stats(rig.watcher).dirs == 0) {
        loop_run_once(&l, true);
    }
}

TEST(a_changed_file_is_told_with_its_kind)
{
    rig_open();
    watch("{recursive = true}");
    wait_inventory();
    while (!rig_said("created x") && !rig_said("changed x")) { // it may still be in the inventory
        static unsigned n;
        rig_write("w/x", rig_code("%u", n++));
        loop_run_once(&l, true);
    }
    rig_hush();
    rig_write("w/x", "all new");
    rig_wait("changed x");
    CHECK_INT(unlink(rig_path("w/x")), 0);
    rig_wait("deleted x");
    rig_close();
}

TEST(unwatch_ends_a_watch_and_a_pattern_chooses)
{
    rig_open();
    watch("{pattern = '*.lua'}");
    wait_inventory();
    unsigned n = 0;
    while (!rig_said("created b.lua") && !rig_said("changed b.lua")) {
        rig_write("w/a.txt", rig_code("%u", n));
        rig_write("w/b.lua", rig_code("%u", n++));
        loop_run_once(&l, true);
    }
    CHECK(strstr(buf_z(&rig.said), "a.txt") == NULL);
    rig_load("b", "say(watch.unwatch(id)) events.emit('end')");
    rig_wait("true false false");
    CHECK(rig_said("false")); // another unit's id reaches nothing
    rig_settle();
    CHECK_INT(watcher_stats(rig.watcher).watches, 0);
    rig_close();
}

TEST(watch_arguments_are_checked)
{
    rig_open();
    rig_run("say(watch.directory('x', {}, print)) "
            "say(select(2, pcall(watch.directory, '/x', {recurse = true}, print)))"
            "say(select(2, pcall(watch.directory, '/x', {})))"
            "say(select(2, pcall(watch.directory, 7, {}, print)))");
    CHECK(rig_said("nil watch.directory: 'x' is not an absolute path"));
    CHECK(strstr(buf_z(&rig.said), "unknown option 'recurse' (did you mean 'recursive'?)") != NULL);
    CHECK(strstr(buf_z(&rig.said), "watch.directory: the handler must be a function") != NULL);
    CHECK(strstr(buf_z(&rig.said), "watch.directory: path must be a string") != NULL);
    rig_close();
}
