#include <signal.h>

#include "loop/signal.h"
#include "unit/loop.h"

static unsigned seen;

static void on_signal(int signum, void *arg)
{
    CHECK_INT(signum, SIGUSR1);
    seen++;
    signal_close(*(struct signal_watch **)arg);
}

TEST(a_signal_calls_back_on_the_loop)
{
    struct loop l;
    struct signal_watch *s;
    struct timer guard = {0};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(signal_open(&s, &l, SIGUSR1, on_signal, &s, NULL), 0);
    raise(SIGUSR1);
    CHECK_INT(seen, 0); // not from the handler
    timer_init(&guard, &l, NULL, NULL);
    timer_start(&guard, 60000); // a watch alone does not keep the loop running
    while (seen == 0) {
        loop_run_once(&l, true);
    }
    timer_stop(&guard);
    TEST_LOOP_END(&l);
    CHECK_INT(seen, 1);
}

TEST(a_watch_does_not_keep_the_loop_alive)
{
    struct loop l;
    struct signal_watch *s;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(signal_open(&s, &l, SIGUSR1, on_signal, &s, NULL), 0);
    CHECK(!loop_run(&l));
    signal_close(s);
    TEST_LOOP_END(&l);
}

TEST(a_signal_that_cannot_be_caught_is_refused)
{
    struct loop l;
    struct signal_watch *s;
    struct err e;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(signal_open(&s, &l, SIGKILL, on_signal, NULL, &e), UV_EINVAL);
    CHECK(s == NULL);
    CHECK(strstr(e.msg, "cannot watch signal 9") != NULL);
    TEST_LOOP_END(&l);
}
