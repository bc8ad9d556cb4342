#include "loop/loop.h"
#include "loop/work.h"
#include "unit/loop.h"

struct log {
    char text[64];
    struct loop *l;
};

static void note(struct log *log, char c)
{
    size_t n = strlen(log->text);
    CHECK(n + 1 < sizeof log->text);
    log->text[n] = c;
    log->text[n + 1] = '\0';
}

static void note_a(void *arg)
{
    note(arg, 'a');
}

static void note_b(void *arg)
{
    note(arg, 'b');
}

static void note_and_defer(void *arg)
{
    struct log *log = arg;
    note(log, '(');
    loop_defer(log->l, note_b, log);
    note(log, ')');
}

static void defer_again(void *arg)
{
    struct log *log = arg;
    note(log, '.');
    if (strlen(log->text) < 10) {
        loop_defer(log->l, defer_again, log);
    }
}

TEST(tasks_run_in_the_order_of_the_calls)
{
    struct loop l;
    struct log log = {.l = &l};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    loop_defer(&l, note_a, &log);
    loop_defer(&l, note_b, &log);
    loop_defer(&l, note_a, &log);
    CHECK_STR(log.text, "");
    TEST_LOOP_END(&l);
    CHECK_STR(log.text, "aba");
}

TEST(a_task_deferred_by_a_task_runs_after_the_drain)
{
    struct loop l;
    struct log log = {.l = &l};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    loop_defer(&l, note_and_defer, &log);
    loop_defer(&l, note_a, &log);
    TEST_LOOP_END(&l);
    CHECK_STR(log.text, "()ab"); // b was added during the drain that ran a
}

TEST(a_task_that_defers_itself_lets_the_loop_turn)
{
    struct loop l;
    struct log log = {.l = &l};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    loop_defer(&l, defer_again, &log);
    CHECK(loop_run_once(&l, false));
    CHECK_STR(log.text, ".."); // once before and once after the poll
    TEST_LOOP_END(&l);
    CHECK_STR(log.text, "..........");
}

static void note_as_last(void *arg)
{
    struct log *log = arg;
    if (loop_has_tasks(log->l)) {
        loop_defer(log->l, note_as_last, log);
    } else {
        note(log, 'z');
    }
}

TEST(a_task_may_let_all_others_go_first)
{
    struct loop l;
    struct log log = {.l = &l};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK(!loop_has_tasks(&l));
    loop_defer(&l, note_as_last, &log);
    loop_defer(&l, note_and_defer, &log);
    CHECK(loop_has_tasks(&l));
    TEST_LOOP_END(&l);
    CHECK_STR(log.text, "()bz");
}

TEST(a_cancelled_task_does_not_run)
{
    struct loop l;
    struct log log = {.l = &l};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    loop_defer(&l, note_a, &log);
    struct loop_task *t = loop_defer(&l, note_b, &log);
    loop_cancel(&l, t);
    TEST_LOOP_END(&l);
    CHECK_STR(log.text, "a");
}

struct canceller {
    struct log log;
    struct loop_task *victim;
};

static void cancel_victim(void *arg)
{
    struct canceller *c = arg;
    loop_cancel(c->log.l, c->victim);
    loop_defer(c->log.l, note_b, &c->log);
}

TEST(a_task_may_cancel_the_last_one_of_its_own_drain)
{
    struct loop l;
    struct canceller c = {.log.l = &l};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    loop_defer(&l, cancel_victim, &c);
    c.victim = loop_defer(&l, note_a, &c.log);
    TEST_LOOP_END(&l);
    CHECK_STR(c.log.text, "b");
}

TEST(cancelled_tasks_do_not_keep_a_loop_from_closing)
{
    struct loop l;
    struct log log = {.l = &l};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    loop_cancel(&l, loop_defer(&l, note_a, &log));
    CHECK_INT(loop_close(&l, NULL), 0);
}

TEST(an_open_handle_keeps_the_loop_from_closing_and_is_named)
{
    struct loop l;
    struct err e;
    uv_tcp_t tcp;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(uv_tcp_init(&l.uv, &tcp), 0);
    CHECK_INT(loop_close(&l, &e), UV_EBUSY);
    CHECK_STR(e.msg, "cannot close loop: a tcp handle is open");
    uv_close((uv_handle_t *)&tcp, NULL);
    CHECK_INT(loop_close(&l, &e), 0); // a close under way is waited for
}

TEST(a_waiting_task_keeps_the_loop_from_closing)
{
    struct loop l;
    struct err e;
    struct log log = {.l = &l};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    loop_defer(&l, note_a, &log);
    CHECK_INT(loop_close(&l, &e), UV_EBUSY);
    CHECK_STR(e.msg, "cannot close loop: a deferred task is waiting");
    TEST_LOOP_END(&l);
    CHECK_STR(log.text, "a");
}

static void nothing(void *arg)
{
    (void)arg;
}

TEST(a_running_timer_keeps_the_loop_from_closing)
{
    struct loop l;
    struct err e;
    struct timer t;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    timer_init(&t, &l, nothing, NULL);
    timer_start(&t, 60000);
    CHECK_INT(loop_close(&l, &e), UV_EBUSY);
    CHECK_STR(e.msg, "cannot close loop: a timer is running");
    timer_stop(&t);
    CHECK_INT(loop_close(&l, &e), 0);
}

TEST(an_open_lane_keeps_the_loop_from_closing_and_is_named)
{
    struct loop l;
    struct err e;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct lane *lane = lane_open(&l, "files", 2);
    CHECK_INT(loop_close(&l, &e), UV_EBUSY);
    CHECK_STR(e.msg, "cannot close loop: lane 'files' is open");
    lane_close(lane);
    TEST_LOOP_END(&l);
}

static unsigned turns;

static void count_turn(uv_prepare_t *p)
{
    (void)p;
    turns++;
}

TEST(a_loop_that_waits_sleeps_instead_of_turning)
{
    struct loop l;
    struct timer t;
    uv_prepare_t counter;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    uv_prepare_init(&l.uv, &counter);
    uv_prepare_start(&counter, count_turn);
    uv_unref((uv_handle_t *)&counter);
    loop_defer(&l, nothing, NULL); // the queue must leave nothing awake behind it
    timer_init(&t, &l, nothing, NULL);
    timer_start(&t, 150);
    loop_run(&l);
    // The task's turn, the wait, the one in which it ends; one more if the clocks differ by a tick.
    CHECK(turns <= 4);
    uv_close((uv_handle_t *)&counter, NULL);
    TEST_LOOP_END(&l);
}

static void on_closed_defer(uv_handle_t *h)
{
    struct log *log = h->data;
    loop_defer(log->l, note_a, log);
}

TEST(what_a_close_callback_defers_still_runs)
{
    struct loop l;
    struct log log = {.l = &l};
    uv_tcp_t tcp;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(uv_tcp_init(&l.uv, &tcp), 0);
    tcp.data = &log;
    uv_close((uv_handle_t *)&tcp, on_closed_defer);
    TEST_LOOP_END(&l);
    CHECK_STR(log.text, "a");
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

TEST(a_stopped_loop_says_that_work_remains)
{
    struct loop l;
    struct timer t;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    timer_init(&t, &l, nothing, NULL);
    timer_start(&t, 3600000);
    loop_defer(&l, stop_loop, &l);
    CHECK(loop_run(&l));
    timer_stop(&t);
    TEST_LOOP_END(&l);
}

TEST(writing_to_a_reader_that_left_is_no_signal)
{
    struct loop l;
    int fds[2];
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(uv_pipe(fds, 0, 0), 0);
    uv_pipe_t out;
    CHECK_INT(uv_pipe_init(&l.uv, &out, 0), 0);
    CHECK_INT(uv_pipe_open(&out, fds[1]), 0);
    uv_fs_t req;
    CHECK_INT(uv_fs_close(NULL, &req, fds[0], NULL), 0);
    uv_fs_req_cleanup(&req);
    uv_buf_t bytes = uv_buf_init((char[]){'x'}, 1);
    CHECK_INT(uv_try_write((uv_stream_t *)&out, &bytes, 1), UV_EPIPE);
    uv_close((uv_handle_t *)&out, NULL);
    TEST_LOOP_END(&l);
}

TEST(the_wall_clock_is_the_given_one)
{
    struct loop l;
    struct test_clock clock;
    test_clock_init(&clock);
    CHECK_INT(loop_init(&l, &clock.clock, NULL), 0);
    test_clock_advance(&clock, &l, 1500);
    CHECK_INT(loop_wall(&l), 1767225601500);
    CHECK_INT(loop_now(&l), 1001500);
    TEST_LOOP_END(&l);
}
