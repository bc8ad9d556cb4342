#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "env/task.h"
#include "unit/env/rig.h"

static struct {
    struct buf said; // "deps started\n" and so on
    struct buf lines;
    bool over, ok;
    char *failed;
    struct buf exports;
    struct env_tasks *tasks;
} got;

static void on_progress(const struct env_task_progress *p, void *arg)
{
    static const char *const words[] = {"started", "output",  "done",    "skipped",
                                        "failed",  "blocked", "in-shell"};
    (void)arg;
    if (p->state == ENV_TASK_OUTPUT) {
        buf_addf(&got.lines, "%s: %s\n", p->task->name, p->text);
        return;
    }
    buf_addf(&got.said, "%s %s%s%s\n", p->task->name, words[p->state],
             p->text[0] != '\0' ? ": " : "", p->text);
}

static void on_end(const struct env_tasks_end *end, void *arg)
{
    (void)arg;
    got.over = true;
    got.ok = end->ok;
    got.failed = end->failed != NULL ? xstrdup(end->failed) : NULL;
    for (size_t i = 0; i < end->n_exports; i++) {
        buf_addf(&got.exports, "%s=%s\n", end->exports[i].name, end->exports[i].value);
    }
}

static void reset(void)
{
    buf_fini(&got.said);
    buf_fini(&got.lines);
    buf_fini(&got.exports);
    free(got.failed);
    memset(&got, 0, sizeof got);
    buf_init(&got.said, SIZE_MAX);
    buf_init(&got.lines, SIZE_MAX);
    buf_init(&got.exports, SIZE_MAX);
}

static struct env_tasks_opts opts(void)
{
    return (struct env_tasks_opts){.loop = &rig.loop,
                                   .result = rig.result,
                                   .base = rig.base,
                                   .root = rig.root,
                                   .progress = on_progress,
                                   .end = on_end};
}

static void begin(const char *toml)
{
    rig_open();
    reset();
    rig_write(".afloat/env.toml", toml);
    if (rig_build() == NULL) {
        test_fail(__FILE__, __LINE__, "%s", rig.error);
    }
}

static void run(const struct env_tasks_opts *o)
{
    struct err e = {0};
    reset();
    CHECK_INT(env_tasks_open(&got.tasks, o, &e), 0);
    while (!got.over) {
        loop_run_once(&rig.loop, true);
    }
    env_tasks_close(got.tasks);
}

static void finish(void)
{
    reset();
    rig_close();
}

static bool before(const char *a, const char *b)
{
    const char *x = strstr(buf_z(&got.said), a), *y = strstr(buf_z(&got.said), b);
    return x != NULL && y != NULL && x < y;
}

TEST(tasks_run_in_order_with_their_exports_and_outputs)
{
    begin("[env]\nE = 'from env'\n"
          "[[task]]\nname = 'last'\nrun = 'echo \"$X $E $T $AFLOAT_TASKS_OUTPUTS\"'\nafter = "
          "['second']\n"
          "env = {T = '${OUTER}'}\n"
          "[[task]]\nname = 'first'\nbefore = ['second']\ncwd = 'sub'\n"
          "run = 'echo \"X=made $(basename $PWD)\" >$AFLOAT_TASK_EXPORTS_FILE; "
          "echo \"{\\\"n\\\": 1}\" >$AFLOAT_TASK_OUTPUT_FILE'\n"
          "[[task]]\nname = 'second'\nrun = 'true'\n");
    rig_write("sub/x", "");
    struct env_tasks_opts o = opts();
    run(&o);
    CHECK(got.ok);
    CHECK_STR(buf_z(&got.said),
              "first started\nfirst done\nsecond started\nsecond done\nlast started\n"
              "last done\n");
    CHECK_STR(buf_z(&got.lines), "last: made sub from env outside {\"first\":{\"n\":1}}\n");
    CHECK_STR(buf_z(&got.exports), "X=made sub\n");
    finish();
}

TEST(tasks_that_do_not_need_each_other_run_at_the_same_time)
{
    // each waits for a file of the other, so neither could end alone
    begin("[[task]]\nname = 'a'\nrun = 'touch a; until [ -e b ]; do sleep 0.01; done'\n"
          "[[task]]\nname = 'b'\nrun = 'touch b; until [ -e a ]; do sleep 0.01; done'\n");
    struct env_tasks_opts o = opts();
    run(&o);
    CHECK(got.ok);
    finish();
}

TEST(a_failed_task_blocks_only_those_after_it)
{
    begin("[[task]]\nname = 'bad'\nrun = 'echo why >&2; exit 7'\n"
          "[[task]]\nname = 'after'\nrun = 'touch ran'\nafter = ['bad']\n"
          "[[task]]\nname = 'other'\nrun = 'true'\n");
    struct env_tasks_opts o = opts();
    run(&o);
    CHECK(!got.ok);
    CHECK_STR(got.failed, "bad");
    CHECK(strstr(buf_z(&got.said), "bad failed: '/bin/sh' ended with status 7\n") != NULL);
    CHECK(strstr(buf_z(&got.said), "after blocked: bad\n") != NULL);
    CHECK(strstr(buf_z(&got.said), "other done\n") != NULL);
    CHECK_STR(buf_z(&got.lines), "bad: why\n");
    char *ran = rig_path("ran");
    CHECK(access(ran, F_OK) != 0);
    free(ran);
    finish();
}

TEST(a_task_that_fails_for_a_full_disk_says_so)
{
    begin("[[task]]\nname = 'full'\nrun = 'head -c 9 /dev/zero > /dev/full'\n");
    struct env_tasks_opts o = opts();
    run(&o);
    CHECK(!got.ok);
    CHECK(strstr(buf_z(&got.said), "full failed: ") != NULL);
    CHECK(strstr(buf_z(&got.said), ": the disk is full\n") != NULL);
    finish();
}

TEST(status_and_inputs_say_when_there_is_nothing_to_do)
{
    begin("[[task]]\nname = 's'\nrun = 'touch made'\nstatus = 'test -e made'\n"
          "[[task]]\nname = 'i'\nrun = 'true'\ninputs = ['go.mod', 'src/*.c']\n");
    rig_write("src/a.c", "1");
    struct env_tasks_opts o = opts();
    run(&o);
    CHECK(strstr(buf_z(&got.said), "s done") != NULL && strstr(buf_z(&got.said), "i done") != NULL);
    run(&o);
    CHECK(strstr(buf_z(&got.said), "s skipped") != NULL);
    CHECK(strstr(buf_z(&got.said), "i skipped") != NULL);
    rig_write("src/b.c", "new");
    run(&o);
    CHECK(strstr(buf_z(&got.said), "i done") != NULL);
    o.force = true;
    run(&o);
    CHECK(strstr(buf_z(&got.said), "s done") != NULL && strstr(buf_z(&got.said), "i done") != NULL);
    finish();
}

TEST(inputs_of_a_task_may_be_a_pattern_for_all_directories_below)
{
    begin("[[task]]\nname = 'deep'\nrun = 'true'\ninputs = ['src/**/*.c']\n"
          "[[task]]\nname = 'all'\nrun = 'true'\ninputs = ['src/**']\n");
    rig_write("src/a/b/c.c", "1");
    rig_write("src/node_modules/x.c", "1");
    struct env_tasks_opts o = opts();
    run(&o);
    run(&o);
    CHECK(strstr(buf_z(&got.said), "deep skipped") != NULL);
    rig_write("src/a/b/c.h", "not of the first");
    rig_write("src/node_modules/x.c", "of none: ignored, as for 'watch'");
    run(&o);
    CHECK(strstr(buf_z(&got.said), "deep skipped") != NULL);
    CHECK(strstr(buf_z(&got.said), "all done") != NULL);
    rig_write("src/a/b/c.c", "2");
    run(&o);
    CHECK(strstr(buf_z(&got.said), "deep done") != NULL);
    CHECK(strstr(buf_z(&got.said), "all done") != NULL);
    finish();
}

TEST(a_task_that_is_written_anew_runs_again)
{
    static const char *const more[] = {"", "cwd = 'below'\n", "env = {DEPTH = '1'}\n",
                                       "env = {DEPTH = '2'}\n"};
    begin("");
    rig_write("below/in", "1");
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        char *toml =
            xasprintf("[[task]]\nname = 't'\nrun = 'true'\ninputs = ['below/in']\n%s", more[i]);
        rig_write(".afloat/env.toml", toml);
        free(toml);
        CHECK(rig_build() != NULL);
        struct env_tasks_opts o = opts();
        run(&o);
        CHECK(strstr(buf_z(&got.said), "t done") != NULL);
        run(&o);
        CHECK(strstr(buf_z(&got.said), "t skipped") != NULL);
    }
    finish();
}

TEST(a_large_input_of_a_task_that_changes_runs_it_again)
{
    begin("[[task]]\nname = 't'\nrun = 'true'\ninputs = ['big']\n");
    char *big = rig_path("big");
    rig_write("big", "1");
    CHECK_INT(truncate(big, WATCH_HASH_MAX + 1), 0);
    struct env_tasks_opts o = opts();
    run(&o);
    run(&o);
    CHECK(strstr(buf_z(&got.said), "t skipped") != NULL);
    CHECK_INT(truncate(big, WATCH_HASH_MAX + 2), 0);
    run(&o);
    CHECK(strstr(buf_z(&got.said), "t done") != NULL);
    free(big);
    finish();
}

TEST(tasks_for_the_shell_are_left_to_it_with_all_that_come_after)
{
    begin("[[task]]\nname = 'a'\nrun = 'true'\n"
          "[[task]]\nname = 'sh'\nrun = 'true'\nin_shell = true\nafter = ['a']\n"
          "[[task]]\nname = 'z'\nrun = 'true'\nafter = ['sh']\n");
    struct env_tasks_opts o = opts();
    run(&o);
    CHECK(got.ok);
    CHECK_STR(buf_z(&got.said), "a started\na done\nsh in-shell\nz in-shell\n");
    o.in_shell = true;
    run(&o);
    CHECK(before("a done", "sh started") && before("sh done", "z started"));
    finish();
}

TEST(what_comes_after_a_failed_one_is_not_left_to_the_shell)
{
    begin("[[task]]\nname = 'a'\nrun = 'exit 1'\n"
          "[[task]]\nname = 'sh'\nrun = 'true'\nin_shell = true\nafter = ['a']\n"
          "[[task]]\nname = 'z'\nrun = 'true'\nafter = ['sh']\n"
          "[[task]]\nname = 'other'\nrun = 'true'\nin_shell = true\n");
    struct env_tasks_opts o = opts();
    run(&o);
    CHECK(before("a failed", "sh blocked: a") && before("sh blocked: a", "z blocked: sh"));
    CHECK(strstr(buf_z(&got.said), "other in-shell") != NULL);
    o.only = "other";
    run(&o);
    CHECK_STR(buf_z(&got.said), "other in-shell\n");
    finish();
}

TEST(one_task_runs_with_what_it_comes_after)
{
    struct err e = {0};
    begin("[[task]]\nname = 'a'\nrun = 'true'\n[[task]]\nname = 'b'\nrun = 'true'\nafter = ['a']\n"
          "[[task]]\nname = 'c'\nrun = 'true'\n");
    struct env_tasks_opts o = opts();
    o.only = "b";
    run(&o);
    CHECK_STR(buf_z(&got.said), "a started\na done\nb started\nb done\n");
    o.only = "no";
    CHECK_INT(env_tasks_open(&got.tasks, &o, &e), ERR_NOT_FOUND);
    CHECK_STR(e.msg, "there is no task 'no'");
    finish();
}

// Each pair comes after both of the pair before: there are 2^60 ways from the last to the first.
TEST(what_a_task_comes_after_is_found_once_however_many_ways_lead_there)
{
    struct buf toml = {.max = SIZE_MAX};
    for (int i = 0; i < 60; i++) {
        for (int k = 0; k < 2; k++) {
            buf_addf(&toml, "[[task]]\nname = '%c%d'\nrun = 'true'\n", 'a' + k, i);
            if (i > 0) {
                buf_addf(&toml, "after = ['a%d', 'b%d']\n", i - 1, i - 1);
            }
        }
    }
    begin(buf_z(&toml));
    buf_fini(&toml);
    struct env_tasks_opts o = opts();
    struct err e = {0};
    o.only = "a59";
    reset();
    CHECK_INT(env_tasks_open(&got.tasks, &o, &e), 0);
    env_tasks_close(got.tasks);
    finish();
}

TEST(cancel_ends_what_runs_and_starts_nothing)
{
    begin("[[task]]\nname = 'long'\nrun = 'echo on; sleep 1000 & wait'\n"
          "[[task]]\nname = 'next'\nrun = 'true'\nafter = ['long']\n");
    struct env_tasks_opts o = opts();
    struct err e = {0};
    reset();
    CHECK_INT(env_tasks_open(&got.tasks, &o, &e), 0);
    while (got.lines.n == 0) {
        loop_run_once(&rig.loop, true);
    }
    env_tasks_cancel(got.tasks);
    while (!got.over) {
        loop_run_once(&rig.loop, true);
    }
    CHECK(!got.ok);
    CHECK(strstr(buf_z(&got.said), "long failed: interrupted\n") != NULL);
    CHECK(strstr(buf_z(&got.said), "next started") == NULL);
    env_tasks_close(got.tasks);
    finish();
}

TEST(tasks_may_be_closed_at_any_time)
{
    begin(
        "[[task]]\nname = 'a'\nrun = 'sleep 1000'\nstatus = 'sleep 0.02; false'\ninputs = ['x']\n");
    for (int ms = 0; ms < 60; ms += 3) {
        struct env_tasks_opts o = opts();
        CHECK_INT(env_tasks_open(&got.tasks, &o, NULL), 0);
        rig_idle((uint64_t)ms);
        env_tasks_close(got.tasks);
    }
    finish();
}

TEST(what_a_task_leaves_behind_must_be_readable)
{
    static const char *const rows[][2] = {
        {"echo nonsense >$AFLOAT_TASK_EXPORTS_FILE", "its exports: line 1: expected NAME=value"},
        {"echo nonsense >$AFLOAT_TASK_OUTPUT_FILE", "its output is not JSON"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *toml = xasprintf("[[task]]\nname = 'a'\nrun = '%s'\n", rows[i][0]);
        begin(toml);
        struct env_tasks_opts o = opts();
        run(&o);
        CHECK(!got.ok);
        CHECK(strstr(buf_z(&got.said), rows[i][1]) != NULL);
        free(toml);
        finish();
    }
}

// exec() takes no variable of more than 128 KiB: the task after it could not even start.
TEST(outputs_that_no_later_task_could_start_with_are_refused)
{
    begin("[[task]]\nname = 'small'\nrun = 'echo 1 >$AFLOAT_TASK_OUTPUT_FILE'\n"
          "[[task]]\nname = 'big'\nafter = ['small']\n"
          "run = 'printf \"\\\"%0140000d\\\"\" 0 >$AFLOAT_TASK_OUTPUT_FILE'\n"
          "[[task]]\nname = 'other'\nafter = ['small']\nstatus = 'exit 1'\n"
          "run = 'sleep 0.1; echo \"$AFLOAT_TASKS_OUTPUTS\"'\n");
    struct env_tasks_opts o = opts();
    run(&o);
    CHECK_STR(got.failed, "big");
    CHECK(strstr(buf_z(&got.said), "big failed: its output is too large: those of all tasks must "
                                   "fit into ") != NULL);
    CHECK_STR(buf_z(&got.lines), "other: {\"small\":1}\n");
    finish();
}

// ---- an executor of the test's own ---------------------------------------------------------------

struct env_exec {
    struct env_exec_opts o;
    char *command;
};

static struct {
    struct env_exec *held[8];
    size_t n, most;
} fake;

static int fake_start(struct env_exec **out, const struct env_exec_opts *o, struct err *e)
{
    (void)e;
    struct env_exec *x = xcalloc(1, sizeof *x);
    x->o = *o;
    x->command = xstrdup(o->command);
    fake.held[fake.n++] = x;
    fake.most = MAX(fake.most, fake.n);
    *out = x;
    return 0;
}

static void fake_drop(struct env_exec *x)
{
    free(x->command);
    free(x);
}

static void fake_end(size_t i, int code)
{
    struct env_exec *x = fake.held[i];
    struct env_exec_opts o = x->o;
    fake.held[i] = fake.held[--fake.n];
    fake_drop(x);
    o.on_end(code, "by hand", o.arg);
}

static void fake_cancel(struct env_exec *x)
{
    for (size_t i = 0; i < fake.n; i++) {
        if (fake.held[i] == x) {
            fake_end(i, -ECANCELED);
            return;
        }
    }
}

static const struct env_executor fake_executor = {fake_start, fake_cancel, fake_drop};

TEST(any_executor_will_do)
{
    begin("[[task]]\nname = 'a'\nrun = 'A'\nstatus = 'S'\n[[task]]\nname = 'b'\nrun = 'B'\n");
    memset(&fake, 0, sizeof fake);
    struct env_tasks_opts o = opts();
    o.executor = &fake_executor;
    reset();
    CHECK_INT(env_tasks_open(&got.tasks, &o, NULL), 0);
    while (fake.n < 2) {
        loop_run_once(&rig.loop, true);
    }
    size_t s = strcmp(fake.held[0]->command, "S") == 0 ? 0 : 1;
    CHECK_STR(fake.held[s]->command, "S");
    CHECK_STR(fake.held[1 - s]->command, "B");
    fake_end(s, 1); // there is something to do
    CHECK_INT(fake.n, 2);
    while (fake.n != 0) {
        fake_end(0, 0);
    }
    while (!got.over) {
        loop_run_once(&rig.loop, true);
    }
    CHECK(got.ok);
    env_tasks_close(got.tasks);
    finish();
}
