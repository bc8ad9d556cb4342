// Real processes that break the protocol or die, and what the hub makes of each: the call in flight
// ends with an error, the owner hears why, nothing of the process is left, the heart beats on.

#include <signal.h>
#include <unistd.h>

#include "base/time.h"
#include "loop/proc.h"
#include "plugin/host_proc.h"
#include "unit/loop.h"
#include "unit/plugin/plugin_programs.h" // made by meson

static struct loop l;
static struct host *h;
static int loaded, failed, ended;
static char why[300];
static enum gen_code code;
static struct timer beat;
static uint64_t last_ns, longest_ns;

static int on_register(void *arg, const struct json *what, struct err *e)
{
    (void)arg;
    (void)what;
    (void)e;
    return 0;
}

static void on_loaded(void *arg, const struct json *metadata)
{
    (void)arg;
    (void)metadata;
    loaded++;
}

static void on_failed(void *arg, const struct host_fault *f)
{
    (void)arg;
    (void)f;
    failed++;
}

static void on_end(void *arg, const struct host_fault *f)
{
    (void)arg;
    ended++;
    code = f->code;
    snprintf(why, sizeof why, "%s", f->message);
}

static const struct host_owner owner = {
    .on_register = on_register, .on_loaded = on_loaded, .on_failed = on_failed, .on_end = on_end};

static void on_beat(void *arg)
{
    uint64_t now = test_own_ns();
    (void)arg;
    longest_ns = MAX(longest_ns, now - last_ns);
    last_ns = now;
    timer_start(&beat, 5);
}

static void wait_for(const int *count)
{
    uint64_t until = loop_now(&l) + 60000; // hang guard
    while (*count == 0) {
        CHECK(loop_now(&l) < until);
        loop_run_once(&l, true);
    }
}

static void begin(const char *how, uint32_t load_ms)
{
    struct err e = {0};
    const char *const argv[] = {PLUGIN_PEER, how, NULL};
    const struct host_proc_opts opts = {
        .name = "peer", .argv = argv, .load = STR("\"path\":\"/p\""), .load_ms = load_ms};
    CHECK_INT(proc_setup_at(PLUGIN_LAUNCHER, &e), 0);
    CHECK_INT(loop_init(&l, NULL, &e), 0);
    CHECK_INT(host_proc_open(&h, &l, &opts, &owner, NULL, &e), 0);
    timer_init(&beat, &l, on_beat, NULL);
    last_ns = test_own_ns();
    timer_start(&beat, 5);
}

/// Let go, wait until nothing is left; the loop may not have stood still meanwhile.
static void finish(void)
{
    host_close(h);
    timer_stop(&beat);
    TEST_LOOP_END(&l);
    CHECK(longest_ns < 1000000000);
    proc_teardown();
}

struct asked {
    struct host_call call;
    int dones, status;
};

static void on_answer(struct host_call *c, int status, const struct json *value,
                      const struct host_fault *f)
{
    struct asked *a = container_of(c, struct asked, call);
    (void)value;
    (void)f;
    a->dones++;
    a->status = status;
}

static void ask(struct asked *a, uint32_t ms)
{
    *a = (struct asked){.call = {.timeout_ms = ms, .done = on_answer}};
    host_call(h, &a->call, "hook", STR("\"point\":\"on_final\",\"handler\":0"));
}

static void check_ends(const char *how, const char *part)
{
    struct asked a;
    begin(how, 0);
    wait_for(&loaded);
    ask(&a, 200);
    wait_for(&ended);
    wait_for(&a.dones); // asked after the end, it is told in the next turn
    CHECK_INT(a.dones, 1);
    CHECK(a.status < 0);
    CHECK_INT(code, DIAG_HOST_CRASHED);
    if (strstr(why, part) == NULL) {
        test_fail(__FILE__, __LINE__, "%s: \"%s\" does not hold \"%s\"", how, why, part);
    }
    CHECK(!host_alive(h));
    finish();
}

TEST(a_line_of_hundred_megabytes_ends_the_host)
{
    check_ends("long_line", "line above 16 MiB");
}

TEST(a_flood_of_log_lines_ends_the_host)
{
    check_ends("flood", "flooded");
}

TEST(a_flood_on_stderr_ends_the_host)
{
    check_ends("stderr_flood", "flooded");
}

TEST(a_host_that_never_answers_hangs)
{
    check_ends("deaf", "hangs");
}

TEST(a_crash_is_told_with_signal_and_last_words)
{
    check_ends("crash", "signal 11: last words");
}

TEST(an_exit_is_told_with_its_code)
{
    check_ends("quit", "exited with 7");
}

TEST(a_host_that_hangs_up_and_lives_on_is_ended)
{
    check_ends("hang_up", "closed its socket");
}

TEST(a_host_that_speaks_something_else_is_ended)
{
    check_ends("nonsense", "does not speak the protocol");
}

TEST(a_program_that_is_not_there_is_an_end)
{
    const char *const argv[] = {"/does/not/exist", NULL};
    const struct host_proc_opts opts = {.name = "peer", .argv = argv};
    begin("silent", 60000);
    host_close(h);
    CHECK_INT(host_proc_open(&h, &l, &opts, &owner, NULL, NULL), 0);
    wait_for(&ended);
    CHECK(strstr(why, "/does/not/exist") != NULL);
    finish();
}

TEST(a_host_that_never_loads_is_ended)
{
    begin("silent", 100);
    wait_for(&ended);
    CHECK_INT(code, DIAG_LOAD_TIMEOUT);
    finish();
}

TEST(answers_given_twice_are_taken_once)
{
    struct asked a, b;
    begin("twice", 0);
    wait_for(&loaded);
    ask(&a, 10000);
    wait_for(&a.dones);
    ask(&b, 10000);
    wait_for(&b.dones);
    CHECK_INT(a.dones, 1);
    CHECK_INT(b.status, 0);
    CHECK_INT(ended, 0);
    finish();
}

TEST(grandchildren_that_left_the_session_are_gone_with_their_host)
{
    begin("bomb", 0);
    wait_for(&loaded);
    finish(); // on_exit comes only when every descendant is gone: else the loop would not end
}

TEST(a_host_that_ignores_everything_is_killed_after_its_grace)
{
    begin("stubborn", 0);
    wait_for(&loaded);
    uint64_t before = loop_now(&l);
    finish();
    CHECK(time_mono_ns() / 1000000 - before >= HOST_CLOSE_MS); // TERM was not sent at once
}

TEST(ten_thousand_calls_leave_nothing_behind)
{
    struct asked a;
    begin("good", 0);
    wait_for(&loaded);
    for (int i = 0; i < 10000; i++) {
        ask(&a, 10000);
        wait_for(&a.dones);
        CHECK_INT(a.status, 0);
    }
    finish();
}
