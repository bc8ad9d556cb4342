// Programs that mean harm, each run as an agent would: saved into the directory, found by the
// watcher, started in a real process, called through the generation. The first line of each says how it
// has to end:
//
//     -- expect: loads             it is served, and still is after all was called
//     -- expect: failed [CODE]     it never serves, and a diagnostic (with that code) says why
//     -- expect: stopped [CODE]    it serves, and is stopped and quarantined by what it does
//
// Whatever it does: nothing outside its directory changes, it never logs HARM, and the heart of the
// hub beats on.

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "plugin/host_proc.h"
#include "unit/plugin/rig.h"

static const char PROGRAMS[] = TEST_SOURCE_ROOT "/tests/fixtures/hostile";
static const uint64_t HANG_NS = 1000000000; // a hub that stands still for this long has noticed

static const char NEIGHBOUR[] = "tool{name='neighbour', run=function(ctx, input) "
                                "return string.format('%d+%s', input.n, 'n') end}";

struct expectation {
    char how[16];
    char code[32];
};

static struct expectation expectation_of(const char *text)
{
    struct expectation x = {0};
    int n = sscanf(text, "-- expect: %15s %31[A-Z_]", x.how, x.code); // NOLINT(cert-err34-c)
    CHECK(n >= 1);
    return x;
}

static void plant(struct rig *r, const char *name, const char *target)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    CHECK_INT(symlink(target, path), 0);
}

static void check_file(const char *dir, const char *name, const char *text)
{
    char path[500];
    struct buf found;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    buf_init(&found, 1 << 16);
    CHECK_INT(path_read(path, &found, NULL), 0);
    CHECK_STR(buf_z(&found), text);
    buf_fini(&found);
}

static void check_absent(const char *dir, const char *name)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK(access(path, F_OK) != 0);
}

static void check_no_harm(struct rig *r, const char *program)
{
    if (strstr(buf_z(&r->log), "HARM") != NULL) {
        test_fail(__FILE__, __LINE__, "%s: %.300s", program, strstr(buf_z(&r->log), "HARM"));
    }
    check_file(r->home, "token", "t0ken");
    check_absent(r->home, "made");
    check_absent(r->home, "dir");
    check_absent(r->dir, "planted.lua");
    check_absent("/tmp", "afloat-hostile");
    check_file(r->dir, "neighbour.lua", NEIGHBOUR);
    for (const char *at = buf_z(&r->emitted); *at != '\0'; at = strchr(at, '\n') + 1) {
        CHECK(strncmp(at, "improvement.", 12) == 0);
    }
}

/// Everything that can be called of it, once.
static void call_all(struct rig *r)
{
    static const char *const points[] = {"on_begin", "on_user_message", "on_tool_result",
                                         "on_final", "on_done"};
    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        struct rig_args args = {.value = xstrdup("\"text\"")};
        rig_hook(r, points[i], &args);
        free(args.value);
    }
    improvements_event(r->imp, STR("improvement.attack"), STR("{}"));
    if (gen_item_find(gen_current(r->engine), GEN_TOOL, STR("attack")) != NULL) {
        rig_tool(r, "attack", "{}", 300, NULL);
    }
}

/// The neighbour is another process: whatever happens here, it goes on.
static void check_neighbour(struct rig *r)
{
    char *text;
    CHECK_INT(rig_tool(r, "neighbour", "{\"n\":7}", 10000, &text), 0);
    CHECK_STR(text, "\"7+n\"");
    free(text);
}

static void check_code(struct rig *r, const char *name, const struct expectation *x)
{
    const struct gen_diag *d = rig_diag(r, name);
    CHECK(d != NULL);
    if (x->code[0] != '\0' && strcmp(gen_code_name(d->code), x->code) != 0) {
        test_fail(__FILE__, __LINE__, "%s: %s instead of %s: %s", name, gen_code_name(d->code),
                  x->code, d->message);
    }
}

static void check_loads(struct rig *r, const char *name)
{
    if (rig_settle(r, name) != GEN_LOADED) {
        const struct gen_diag *d = rig_diag(r, name);
        test_fail(__FILE__, __LINE__, "%s: %s", name, d != NULL ? d->message : "?");
    }
    call_all(r);
    struct host *h = rig_host(r, name);
    if (h == NULL || !host_alive(h) || rig_pid(r, name) == 0) {
        const struct gen_diag *d = rig_diag(r, name);
        test_fail(__FILE__, __LINE__, "%s does not serve any more: %s", name,
                  d != NULL ? d->message : "?");
    }
}

static void check_fails(struct rig *r, const char *name, const struct expectation *x)
{
    if (rig_settle(r, name) != GEN_FAILED) {
        test_fail(__FILE__, __LINE__, "%s is served", name);
    }
    CHECK(rig_unit(r, name) == NULL);
    check_code(r, name, x);
}

static void check_stops(struct rig *r, const char *name, const struct expectation *x)
{
    if (rig_settle(r, name) != GEN_LOADED) {
        test_fail(__FILE__, __LINE__, "%s did not load", name);
    }
    int pid = rig_pid(r, name);
    call_all(r);
    RIG_WAIT(r,
             rig_unit(r, name) == NULL && rig_diag(r, name) != NULL && !gen_is_running(r->engine));
    CHECK_INT(rig_settle(r, name), GEN_FAILED);
    check_code(r, name, x);
    char proc[64];
    snprintf(proc, sizeof proc, "/proc/%d", pid);
    RIG_WAIT(r, pid == 0 || access(proc, F_OK) != 0);
}

static void run_program(struct rig *r, const char *file)
{
    char path[500], name[100];
    struct buf text;
    struct err e = {0};
    snprintf(path, sizeof path, "%s/%s", PROGRAMS, file);
    snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - 4), file);
    buf_init(&text, 1 << 20);
    CHECK_INT(path_read(path, &text, &e), 0);
    struct expectation x = expectation_of(buf_z(&text));
    buf_clear(&r->log);
    rig_save(r, file, buf_str(&text));
    if (strcmp(x.how, "loads") == 0) {
        check_loads(r, name);
    } else if (strcmp(x.how, "failed") == 0) {
        check_fails(r, name, &x);
    } else {
        CHECK_STR(x.how, "stopped");
        check_stops(r, name, &x);
    }
    check_neighbour(r);
    check_no_harm(r, name);
    rig_remove(r, file);
    rig_wait_gone(r, name);
    buf_fini(&text);
}

static int is_program(const struct dirent *d)
{
    return str_ends(str_of(d->d_name), ".lua");
}

/// All programs whose name begins with one of these.
static void run_programs(const char *const *prefixes, int at_least)
{
    struct rig r;
    struct dirent **files;
    int ran = 0, n = scandir(PROGRAMS, &files, is_program, alphasort);
    CHECK(n > 0);
    rig_begin(&r);
    plant(&r, "link-to-token", "../../token");
    plant(&r, "link-to-etc", r.home); // a stand-in: should a wall ever break, nobody's files suffer
    plant(&r, "link-to-home", "../..");
    rig_save(&r, "neighbour.lua", str_of(NEIGHBOUR));
    CHECK_INT(rig_settle(&r, "neighbour"), GEN_LOADED);
    for (int i = 0; i < n; i++) {
        for (const char *const *p = prefixes; *p != NULL; p++) {
            if (str_starts(str_of(files[i]->d_name), *p)) {
                run_program(&r, files[i]->d_name);
                ran++;
            }
        }
        free(files[i]);
    }
    free(files);
    CHECK(ran >= at_least);
    printf("%d programs, longest pause of the hub %.1f ms\n", ran, (double)r.longest_ns / 1e6);
    CHECK(r.longest_ns < HANG_NS);
    rig_end(&r);
}

TEST(programs_that_loop_or_devour_while_they_load_are_harmless)
{
    run_programs((const char *const[]){"load_", NULL}, 25);
}

TEST(programs_that_loop_or_devour_when_called_are_harmless)
{
    run_programs((const char *const[]){"hook_", "tool_", "timer_", "event_", "answer_", NULL}, 15);
}

TEST(programs_that_reach_out_are_harmless)
{
    run_programs(
        (const char *const[]){"read_", "write_", "fill_", "leave_", "forge_", "libraries_", NULL},
        8);
}

TEST(programs_that_forge_or_poison_are_harmless)
{
    run_programs((const char *const[]){"log_", "register_", "bytecode", "poisoned_", "json_",
                                       "pack_", "huge_", NULL},
                 9);
}
