// Whose a registration is, and that nothing of a unit is left when it has gone.

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/bind/rig.h"

static size_t items_of(const char *name)
{
    const struct gen_unit *u = gen_unit_find(gen_current(rig.engine), str_of(name));
    return u != NULL ? gen_unit_count(u) - 1 : 0; // without the one of its owner
}

TEST(what_a_callback_of_a_makes_is_as_even_through_a_function_of_b)
{
    rig_open();
    rig_load("b", "function helper() timer.every(9, print) hooks.on('e', 'x', print) "
                  "events.on('n', print) end");
    rig_load("a", "events.on('go', function() helper() say('made') end)");
    rig_load("c", "events.emit('go', 1)");
    rig_wait("made");
    CHECK_INT(items_of("a"), 4);
    CHECK_INT(items_of("b"), 0);
    CHECK_INT(items_of("c"), 0);
    rig_load("b", "");
    rig_load("c", "");
    CHECK_INT(items_of("a"), 4);
    rig_load("a", "");
    CHECK_INT(items_of("a"), 0);
    rig_close();
}

TEST(nothing_of_a_unit_fires_after_it_has_left)
{
    rig_open();
    rig_load("a", "timer.every(0.001, function() say('timer') end)"
                  "events.on('n', function() say('event') end)"
                  "hooks.on('e', 'x', function() say('hook') end)"
                  "timer.after(0.001, function() say('after') end)");
    rig_load("b", "events.emit('n', 1)");               // posted, not yet delivered
    struct gen *old = gen_pin(gen_current(rig.engine)); // it will have left, but not be released
    rig_load("a", "say('left')");
    rig_hush();
    rig_load("c", "hooks.notify('e') events.emit('n', 2) timer.after(0.02, function() say('done') "
                  "end)");
    rig_wait("done");
    CHECK_STR(buf_z(&rig.said), "done\n");
    gen_unpin(old);
    rig_close();
}

TEST(a_unit_that_failed_to_load_leaves_nothing)
{
    rig_open();
    rig_load("a", "hooks.on('e', 'x', function() say('good') end)");
    rig_fault("a", "hooks.on('e', 'x', function() say('bad') end) timer.after(0, function() "
                   "say('timer') end) events.on('n', function() say('event') end) "
                   "exec({cmd = 'true'}, function() say('exec') end) error('no')");
    rig_load("b",
             "hooks.notify('e') events.emit('n', 1) timer.after(0.02, function() say('end') end)");
    rig_wait("end");
    CHECK_STR(buf_z(&rig.said), "good\nend\n");
    rig_close();
}

TEST(requests_with_a_callback_are_cancelled_when_their_unit_leaves)
{
    struct web w;
    rig_open();
    web_open(&w, web_silent);
    rig_load("a", rig_code("exec({cmd = 'sleep', args = {'600'}}, function() say('exec') end)"
                           "http.get('%s', function() say('http') end)"
                           "fs.read('/etc/passwd', function() say('fs') end)",
                           web_url(&w, "/")));
    while (w.requests == 0) {
        loop_run_once(&l, true);
    }
    rig_wait("fs"); // it may have been answered by now or in the turns of the removal
    rig_hush();
    struct gen *old = gen_pin(gen_current(rig.engine)); // it has left, but is not released
    rig_remove("a");
    while (w.conns != NULL || rig_children() != 0) { // the client has let go, the program is gone
        loop_run_once(&l, true);
    }
    CHECK_STR(buf_z(&rig.said), "");
    gen_unpin(old);
    web_close(&w);
    rig_close();
}

TEST(a_handler_that_waits_goes_on_after_its_unit_was_replaced)
{
    rig_open();
    rig_load("a", "timer.after(0, function() say('waits') timer.sleep(0.02) say('goes on') "
                  "say(timer.after(0, print)) say(hooks.on('e', 'x', print)) end)");
    rig_wait("waits");
    rig_load("a", "say('new')");
    CHECK(!rig_said("goes on"));
    rig_wait("goes on");
    while (strstr(buf_z(&rig.said), "hooks.on: ") == NULL) {
        loop_run_once(&l, true);
    }
    CHECK(rig_said("nil stale handle: this version of 'a' has been replaced"));
    rig_close();
}

TEST(stopping_cancels_what_waits)
{
    rig_open();
    rig_load("a", "hooks.on('e', 'x', function() timer.sleep(600) end) hooks.intercept('e', 'x', "
                  "function() timer.sleep(600) end, {timeout_ms = 600000})"
                  "timer.after(0, function() say('waits') timer.sleep(600) end)"
                  "timer.after(0, function() hooks.notify('e') say('calls') hooks.call('e') end)"
                  "on('plugin_shutdown', function(e) say('bye', e.reason) end)");
    rig_wait("waits");
    rig_wait("calls");
    rig_close();
}

static size_t count_fds(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}

struct usage {
    size_t fds, watches, lua, heap;
};

static struct usage measure(void)
{
    struct entry en = {0};
    lua_State *L = entry_begin(&en, rig.vm);
    lua_gc(L, LUA_GCCOLLECT);
    buf_fini(&rig.stream);
    entry_end(&en);
    rig_settle();
    return (struct usage){count_fds(), watcher_stats(rig.watcher).watches,
                          vm_get_stats(rig.vm).memory, test_heap_bytes()};
}

TEST(a_thousand_commits_leave_everything_where_it_was)
{
    rig_open();
    CHECK_INT(mkdir(rig_path("w"), 0755), 0);
    char *code = xstrdup(rig_code(
        "hooks.on('e', 'x', function() end) timer.every(1, function() end) timer.after(1, print) "
        "watch.directory('%s', {}, function() end) events.on('hub.*', function() end) "
        "events.on('n', function() end) timer.after(0, function() timer.sleep(0.001) end)",
        rig_path("w")));
    for (int i = 0; i < 20; i++) {
        rig_load("a", code);
    }
    struct usage before = measure();
    for (int i = 0; i < 1000; i++) {
        rig_load("a", code);
    }
    while (gen_number(gen_current(rig.engine)) < 1000) {
        loop_run_once(&l, true);
    }
    rig_run("timer.sleep(0.01)");
    rig_remove("run");
    while (count_fds() > before.fds) { // a thread of the watcher may have a directory open
        loop_run_once(&l, true);
    }
    struct usage after = measure();
    CHECK_INT(items_of("a"), 5);
    CHECK_INT(after.watches, 1);
    printf("lua %zu -> %zu bytes, heap %zu -> %zu bytes, fds %zu\n", before.lua, after.lua,
           before.heap, after.heap, after.fds);
    CHECK(after.lua < before.lua + 32 * 1024);
    CHECK(after.heap < before.heap + 64 * 1024);
    free(code);
    rig_close();
}
