// Improvements as a person and an agent see them: files that are saved, edited, broken and removed, in
// a hub of its own with real processes.

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/time.h"
#include "plugin/host_proc.h"
#include "plugin/improvements_int.h"
#include "plugin/sessions.h"
#include "proto/ops.h"
#include "unit/plugin/rig.h"

static struct rig r;

#define SAVE(name, text) rig_save(&r, name ".lua", STR(text))

static const char * final(const char *text)
{
    static char value[200];
    struct rig_args args = {.session = "s-1", .value = xstrdup(text)};
    rig_hook(&r, "on_final", &args);
    snprintf(value, sizeof value, "%s", args.value);
    free(args.value);
    return value;
}

static bool is_process(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", pid);
    return access(path, F_OK) == 0;
}

static size_t count_fds(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    CHECK(d != NULL);
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n;
}

#define ADDS(what)                                                                                 \
    "hooks.intercept('on_final', 'a', function(ctx, text) return text .. '" what "' end)"

static void on_saved(void *arg, const struct gen_report *report, const struct err *e)
{
    CHECK(report == NULL && e == NULL); // the hub stops
    ++*(int *)arg;
}

TEST(a_save_that_is_on_its_way_to_the_disk_outlives_the_improvements)
{
    int saved = 0;
    rig_begin(&r);
    struct plugin_view view = {.loop = &r.loop, .engine = r.engine, .improvements = r.imp};
    plugin_view_save(&view, STR("late"), STR(ADDS("!")), "s-1", on_saved, &saved);
    rig_end(&r);
    CHECK_INT(saved, 1);
}

TEST(a_file_that_is_there_at_the_start_is_served)
{
    rig_home(&r);
    SAVE("x", ADDS("!"));
    SAVE("y", ADDS("?"));
    rig_open(&r);
    const struct gen_report *report = rig_reload(&r, false, false); // waits for the inventory
    CHECK(report->ok);
    CHECK(rig_unit(&r, "x") != NULL && rig_unit(&r, "y") != NULL);
    CHECK_STR(final("\"hi\""), "\"hi!?\""); // in order of names
    const struct gen_unit *u = rig_unit(&r, "x");
    CHECK_STR(u->layer, "improvement");
    CHECK_STR(u->host, "lua");
    CHECK_STR(u->origin, "file");
    rig_end(&r);
}

TEST(saving_replaces_and_removing_unloads)
{
    rig_begin(&r);
    SAVE("x", ADDS("1"));
    rig_wait_revision(&r, "x", 1);
    int old = rig_pid(&r, "x");
    CHECK_STR(final("\"v\""), "\"v1\"");
    SAVE("x", ADDS("2"));
    rig_wait_revision(&r, "x", 2);
    CHECK_STR(final("\"v\""), "\"v2\"");
    CHECK(rig_pid(&r, "x") != old);
    RIG_WAIT(&r, !is_process(old));
    int new = rig_pid(&r, "x");
    rig_remove(&r, "x.lua");
    rig_wait_gone(&r, "x");
    CHECK_STR(final("\"v\""), "\"v\"");
    RIG_WAIT(&r, !is_process(new));
    rig_end(&r);
}

TEST(what_is_saved_later_is_as_locked_in_as_what_was_there)
{
    rig_begin(&r);
    SAVE("x", "return 1");
    rig_wait_revision(&r, "x", 1);
    SAVE("x",
         "if io or require or os.execute or fs.read('../../token') then log.error('HARM') end\n"
         "log.info('checked')");
    rig_wait_revision(&r, "x", 2);
    RIG_WAIT(&r, strstr(buf_z(&r.log), "checked") != NULL);
    CHECK(strstr(buf_z(&r.log), "HARM") == NULL);
    int pid = rig_pid(&r, "x");
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    CHECK(strstr(text, "Seccomp:\t2") != NULL); // a filter
    CHECK(strstr(text, "NoNewPrivs:\t1") != NULL);
    rig_end(&r);
}

TEST(a_file_that_is_removed_while_it_loads_is_forgotten)
{
    rig_begin(&r);
    SAVE("slow", "while true do end"); // until its time is over
    RIG_WAIT(&r, gen_is_running(r.engine));
    rig_remove(&r, "slow.lua");
    SAVE("next", ADDS("?")); // is told behind the removal
    rig_wait_revision(&r, "next", 1);
    rig_wait_gone(&r, "slow");
    SAVE("slow", ADDS("!")); // its name is free
    rig_wait_revision(&r, "slow", 1);
    rig_end(&r);
}

/// Save improvement "hang", the first of the test, and stop its process while it loads.
static void save_hanging(void)
{
    int pid = 0;
    SAVE("hang", "while true do end");
    RIG_WAIT(&r, (pid = rig_child(rig_child(getpid(), 0), 0)) != 0);
    CHECK_INT(kill(pid, SIGSTOP), 0);
}

TEST(one_that_hangs_holds_no_other_save_up)
{
    rig_begin(&r);
    save_hanging();
    SAVE("quick", ADDS("!"));
    rig_wait_revision(&r, "quick", 1);
    CHECK(rig_diag(&r, "hang") == NULL); // still at it
    rig_remove(&r, "hang.lua");
    rig_wait_gone(&r, "hang");
    rig_end(&r);
}

TEST(a_reload_does_not_wait_for_one_that_hangs)
{
    rig_begin(&r);
    save_hanging();
    uint64_t began = loop_now(&r.loop);
    rig_reload(&r, false, false);
    CHECK(loop_now(&r.loop) - began < 4000);
    CHECK(rig_diag(&r, "hang") == NULL); // still at it
    rig_remove(&r, "hang.lua");
    rig_wait_gone(&r, "hang");
    rig_end(&r);
}

TEST(a_broken_save_keeps_the_last_good_version)
{
    rig_begin(&r);
    SAVE("x", ADDS("1"));
    rig_wait_revision(&r, "x", 1);
    SAVE("x", "local a =\n= 1");
    RIG_WAIT(&r, rig_diag(&r, "x") != NULL);
    CHECK_INT(rig_settle(&r, "x"), GEN_FAILED);
    CHECK_INT(rig_diag(&r, "x")->code, DIAG_LOAD_FAILED);
    CHECK_INT(rig_diag(&r, "x")->line, 2);
    CHECK_STR(final("\"v\""), "\"v1\"");
    CHECK(rig_diag(&r, "x") != NULL && !rig_reload(&r, false, false)->ok); // it stands
    SAVE("x", ADDS("3"));
    rig_wait_revision(&r, "x", 2);
    CHECK(rig_diag(&r, "x") == NULL);
    CHECK_STR(final("\"v\""), "\"v3\"");
    rig_end(&r);
}

TEST(names_and_sizes_that_are_none_are_told)
{
    rig_begin(&r);
    char *large = xmalloc((2 << 20) + 1);
    memset(large, '-', 2 << 20);
    large[2 << 20] = '\0';
    SAVE("Not_A_Name", "return 1");
    rig_save(&r, "large.lua", str_of(large));
    free(large);
    RIG_WAIT(&r, rig_diag(&r, "Not_A_Name") != NULL && rig_diag(&r, "large") != NULL);
    CHECK_INT(rig_diag(&r, "Not_A_Name")->code, DIAG_NAME_INVALID);
    CHECK_INT(rig_diag(&r, "large")->code, DIAG_LOAD_FAILED);
    rig_end(&r);
}

// ---- old and new side by side ----------------------------------------------------------------

static const struct json nothing = {.type = JSON_OBJ};

struct flight {
    struct gen_call call;
    int dones;
    char output[400];
};

static void on_landed(struct gen_call *call, int status, const struct json *result,
                      const struct err *e)
{
    struct flight *f = call->arg;
    struct str output = json_str(json_get(result, "output"), "");
    f->dones++;
    snprintf(f->output, sizeof f->output, "%d " STR_FMT "%s", status, STR_ARG(output),
             e != NULL ? e->msg : "");
}

static struct gen *take_off(struct flight *f, const char *tool, uint32_t timeout_ms)
{
    struct gen *g = gen_pin(gen_current(r.engine));
    struct gen_item *it = gen_item_find(g, GEN_TOOL, str_of(tool));
    CHECK(it != NULL);
    *f = (struct flight){.call = {.input = &nothing, .timeout_ms = timeout_ms, .done = on_landed}};
    f->call.arg = f;
    const struct gen_target *face = gen_item_face(it);
    face->call(gen_item_data(it), &f->call);
    return g;
}

TEST(the_old_version_stays_beside_the_new_one_while_a_call_is_in_flight)
{
    struct flight f;
    char *text;
    rig_begin(&r);
    SAVE("x", "tool{name='slow', run=function() timer.sleep(1000) end}");
    rig_wait_revision(&r, "x", 1);
    int old = rig_pid(&r, "x");
    struct gen *g = take_off(&f, "slow", 60000);
    SAVE("x", "tool{name='slow', run=function() return 'new' end}");
    rig_wait_revision(&r, "x", 2);
    CHECK_INT(rig_tool(&r, "slow", "{}", 10000, &text), 0);
    CHECK_STR(text, "\"new\"");
    free(text);
    CHECK_INT(f.dones, 0);
    CHECK(is_process(old) && rig_pid(&r, "x") != old);
    struct gen_item *it = gen_item_find(g, GEN_TOOL, STR("slow"));
    ((const struct gen_target *)gen_item_face(it))->cancel(gen_item_data(it), &f.call);
    gen_unpin(g);
    RIG_WAIT(&r, !is_process(old));
    CHECK_INT(f.dones, 0);
    rig_end(&r);
}

TEST(a_call_in_flight_gets_the_old_versions_answer)
{
    struct flight f;
    rig_begin(&r);
    SAVE("x", "tool{name='slow', run=function() timer.sleep(0.3) return 'old' end}");
    rig_wait_revision(&r, "x", 1);
    struct gen *g = take_off(&f, "slow", 60000);
    SAVE("x", "tool{name='slow', run=function() return 'new' end}");
    rig_wait_revision(&r, "x", 2);
    RIG_WAIT(&r, f.dones == 1);
    CHECK_STR(f.output, "0 old");
    gen_unpin(g);
    rig_end(&r);
}

TEST(a_tool_that_takes_too_long_is_told_and_its_host_lives)
{
    char *text;
    rig_begin(&r);
    SAVE("x", "tool{name='slow', run=function() timer.sleep(1000) end}\n"
              "tool{name='bad', run=function() error('oh') end}");
    rig_wait_revision(&r, "x", 1);
    CHECK_INT(rig_tool(&r, "slow", "{}", 50, &text), ERR_TIMEOUT);
    free(text);
    CHECK(rig_tool(&r, "bad", "{}", 10000, &text) < 0);
    CHECK(strstr(text, "oh") != NULL);
    free(text);
    CHECK(rig_pid(&r, "x") != 0);
    rig_end(&r);
}

TEST(a_value_of_the_wrong_kind_is_a_fault_and_changes_nothing)
{
    rig_begin(&r);
    SAVE("x", "hooks.intercept('on_final', 'a', function() return {1} end)");
    rig_wait_revision(&r, "x", 1);
    CHECK_STR(final("\"v\""), "\"v\"");
    CHECK(strstr(rig_hook_fault(), "the answer must be a text") != NULL);
    rig_end(&r);
}

// ---- quarantine ------------------------------------------------------------------------------

static void wait_stopped(const char *name)
{
    RIG_WAIT(&r,
             rig_unit(&r, name) == NULL && rig_diag(&r, name) != NULL && !gen_is_running(r.engine));
}

TEST(what_crashed_is_left_alone_until_its_file_changes)
{
    rig_begin(&r);
    SAVE("x", ADDS("1"));
    rig_wait_revision(&r, "x", 1);
    kill(rig_pid(&r, "x"), SIGKILL);
    wait_stopped("x");
    CHECK_INT(rig_settle(&r, "x"), GEN_FAILED);
    CHECK_INT(rig_diag(&r, "x")->code, DIAG_HOST_CRASHED);
    CHECK(strstr(rig_diag(&r, "x")->message, "signal 9") != NULL);
    rig_reload(&r, false, false);
    SAVE("x", ADDS("1")); // the same bytes
    SAVE("other", "return 1");
    rig_wait_revision(&r, "other", 1);
    CHECK(rig_unit(&r, "x") == NULL);
    CHECK_INT(rig_settle(&r, "x"), GEN_FAILED);
    SAVE("x", ADDS("2"));
    RIG_WAIT(&r, rig_unit(&r, "x") != NULL && !gen_is_running(r.engine));
    CHECK_STR(final("\"v\""), "\"v2\"");
    CHECK(rig_diag(&r, "x") == NULL);
    rig_end(&r);
}

TEST(a_forced_reload_tries_again_what_crashed)
{
    rig_begin(&r);
    SAVE("x", ADDS("1"));
    rig_wait_revision(&r, "x", 1);
    kill(rig_pid(&r, "x"), SIGKILL);
    wait_stopped("x");
    rig_reload(&r, true, false);
    CHECK(rig_unit(&r, "x") != NULL);
    CHECK_STR(final("\"v\""), "\"v1\"");
    rig_end(&r);
}

TEST(killing_the_supervisor_takes_the_improvement_with_it)
{
    rig_begin(&r);
    SAVE("x", ADDS("1"));
    rig_wait_revision(&r, "x", 1);
    int pid = rig_pid(&r, "x");
    kill(host_proc_pid(rig_host(&r, "x")), SIGKILL);
    wait_stopped("x");
    RIG_WAIT(&r, !is_process(pid));
    rig_end(&r);
}

// ---- what runs by itself ---------------------------------------------------------------------

TEST(a_dry_run_starts_nothing_that_stays)
{
    rig_begin(&r);
    SAVE("x", "timer.after(0, function() events.emit('improvement.acted') end)\n" ADDS("1"));
    const struct gen_report *report = NULL;
    do { // until the watcher has seen it: then the dry run or the watcher's own run finds it
        report = rig_reload(&r, false, true);
    } while (report->n_rows == 0 && rig_unit(&r, "x") == NULL);
    rig_wait_revision(&r, "x", 1);
    RIG_WAIT(&r, strstr(buf_z(&r.emitted), "improvement.acted") != NULL);
    report = rig_reload(&r, true, true);
    CHECK_INT(rig_unit(&r, "x")->revision, 1);
    CHECK_STR(buf_z(&r.emitted), "improvement.acted\n"); // once: what was only tried did not act
    rig_end(&r);
}

TEST(improvements_hear_each_other)
{
    rig_begin(&r);
    SAVE("a",
         "events.on('improvement.ping', function(d) events.emit('improvement.pong', d.n + 1) end)");
    SAVE("b", "events.on('improvement.pong', function(n) log.info('pong ' .. n) end)\n"
              "hooks.on('on_begin', 'b', function() events.emit('improvement.ping', {n = 1}) end)");
    rig_wait_revision(&r, "a", 1);
    rig_wait_revision(&r, "b", 1);
    struct rig_args args = {0};
    rig_hook(&r, "on_begin", &args);
    RIG_WAIT(&r, strstr(buf_z(&r.log), "pong 2") != NULL);
    rig_end(&r);
}

TEST(an_operation_is_answered_by_the_hub)
{
    char *text;
    rig_begin(&r);
    SAVE("x", "tool{name='w', run=function() return hub.get_worktrees() end}");
    rig_wait_revision(&r, "x", 1);
    CHECK_INT(rig_tool(&r, "w", "{}", 10000, &text), 0);
    CHECK_STR(text, "\"[]\"");
    free(text);
    rig_end(&r);
}

TEST(the_table_decides_what_agent_written_code_may_call)
{
    struct json_member name = {STR("name"), {.type = JSON_STR, .s = STR("improvement.x")}};
    struct json own = {.type = JSON_OBJ, .n = 1, .members = &name};
    for (size_t i = 0; i < OP__COUNT; i++) {
        bool open = (ops[i].flags & OP_AGENT) != 0;
        CHECK_INT(improvement__may_call(str_of(ops[i].name), &own), open);
    }
    CHECK(!improvement__may_call(STR("no.such"), &own));
    name.value.s = STR("user.x");
    CHECK(!improvement__may_call(STR("event.emit"), &own));
}

TEST(a_removed_file_takes_its_scope_with_it)
{
    rig_begin(&r);
    SAVE("x", "return 1");
    rig_wait_revision(&r, "x", 1);
    scopes_set(improvements_scopes(r.imp), STR("x"), SCOPE_SESSION, STR("s-1"));
    CHECK_INT(scopes_get(improvements_scopes(r.imp), STR("x")).kind, SCOPE_SESSION);
    SAVE("x", "return 2");
    rig_wait_revision(&r, "x", 2);
    CHECK_INT(scopes_get(improvements_scopes(r.imp), STR("x")).kind, SCOPE_SESSION);
    rig_remove(&r, "x.lua");
    rig_wait_gone(&r, "x");
    CHECK_INT(scopes_get(improvements_scopes(r.imp), STR("x")).kind, SCOPE_ALL);
    rig_end(&r);
}

TEST(an_improvement_with_an_invalid_scope_is_active_nowhere)
{
    rig_begin(&r);
    struct plugin_view view = {.improvements = r.imp};
    char name[] = "improvements/x";
    const struct gen_unit u = {.name = name};
    scopes_set(improvements_scopes(r.imp), STR("x"), SCOPE_SESSION, STR("s-1"));
    CHECK_INT(plugin_view_reach(&view, &u, "s-1", "/"), AGENT_ALWAYS);
    CHECK_INT(plugin_view_reach(&view, &u, "", "/"), AGENT_NEVER);
    scopes_set(improvements_scopes(r.imp), STR("x"), SCOPE_SESSION, STR_NULL); // as it is read
    CHECK_INT(plugin_view_reach(&view, &u, "", "/"), AGENT_NEVER); // of a call outside of sessions
    rig_end(&r);
}

TEST(many_reloads_leave_no_descriptor_and_no_process)
{
    rig_begin(&r);
    SAVE("x", "return 0");
    rig_wait_revision(&r, "x", 1);
    int pid = rig_pid(&r, "x");
    size_t before = count_fds();
    for (uint64_t i = 2; i < 40; i++) {
        char text[100];
        snprintf(text, sizeof text, "timer.every(1, function() end) return %d", (int)i);
        rig_save(&r, "x.lua", str_of(text));
        rig_wait_revision(&r, "x", i);
        RIG_WAIT(&r, !is_process(pid));
        pid = rig_pid(&r, "x");
    }
    RIG_WAIT(&r, count_fds() == before);
    rig_end(&r);
}

// ---- cost ------------------------------------------------------------------------------------

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST(the_time_of_a_hook_is_printed)
{
    enum { N = 10000 };
    static uint64_t ns[N];
    rig_begin(&r);
    timer_stop(&r.beat);
    SAVE("x", "hooks.intercept('on_final', 'a', function(ctx, text) return nil end)");
    rig_wait_revision(&r, "x", 1);
    struct rig_args args = {.session = "s-1", .value = xstrdup("\"hi\"")};
    for (int i = 0; i < N; i++) {
        uint64_t since = time_mono_ns();
        CHECK_INT(rig_hook(&r, "on_final", &args), HOOK_KEEP);
        ns[i] = time_mono_ns() - since;
    }
    CHECK_INT(args.asked, N);
    CHECK_INT(args.changed, 0);
    free(args.value);
    qsort(ns, N, sizeof ns[0], by_time);
    printf("round trip of a hook: p50 %.1f us, p99 %.1f us\n", (double)ns[N / 2] / 1e3,
           (double)ns[N * 99 / 100] / 1e3);
    rig_end(&r);
}
