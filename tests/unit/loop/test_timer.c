#include "loop/timer.h"
#include "unit/loop.h"

static struct test_clock clk;
static struct loop loop;
static char fired[64];

struct named {
    struct timer t;
    char name;
    uint64_t again; // started again with this from its callback; 0 for not
    struct named *stops;
};

static void on_named(void *arg)
{
    struct named *n = arg;
    size_t len = strlen(fired);
    CHECK(len + 1 < sizeof fired);
    fired[len] = n->name;
    fired[len + 1] = '\0';
    CHECK(!timer_running(&n->t));
    if (n->again != 0) {
        timer_start(&n->t, n->again);
    }
    if (n->stops != NULL) {
        timer_stop(&n->stops->t);
    }
}

static void begin(void)
{
    test_clock_init(&clk);
    CHECK_INT(loop_init(&loop, &clk.clock, NULL), 0);
}

static void start(struct named *n, char name, uint64_t ms)
{
    n->name = name;
    timer_init(&n->t, &loop, on_named, n);
    timer_start(&n->t, ms);
}

TEST(timers_fire_in_the_order_they_are_due)
{
    struct named a = {0}, b = {0}, c = {0};
    begin();
    start(&a, 'a', 30);
    start(&b, 'b', 10);
    start(&c, 'c', 20);
    test_clock_advance(&clk, &loop, 9);
    CHECK_STR(fired, "");
    test_clock_advance(&clk, &loop, 1);
    CHECK_STR(fired, "b");
    test_clock_advance(&clk, &loop, 100);
    CHECK_STR(fired, "bca");
    CHECK(!timer_running(&a.t));
    TEST_LOOP_END(&loop);
}

TEST(timers_due_together_fire_in_the_order_of_starting)
{
    struct named a = {0}, b = {0}, c = {0}, d = {0};
    begin();
    start(&a, 'a', 10);
    start(&b, 'b', 10);
    start(&c, 'c', 10);
    start(&d, 'd', 10);
    timer_start(&a.t, 10); // restarted: now the last
    test_clock_advance(&clk, &loop, 10);
    CHECK_STR(fired, "bcda");
    TEST_LOOP_END(&loop);
}

TEST(a_timer_stopped_by_an_earlier_one_does_not_fire)
{
    struct named a = {0}, b = {0};
    begin();
    a.stops = &b;
    start(&a, 'a', 10);
    start(&b, 'b', 10);
    test_clock_advance(&clk, &loop, 50);
    CHECK_STR(fired, "a");
    CHECK(!timer_running(&b.t));
    TEST_LOOP_END(&loop);
}

TEST(a_timer_may_restart_itself)
{
    struct named a = {.again = 10};
    begin();
    start(&a, 'a', 10);
    test_clock_advance(&clk, &loop, 35);
    CHECK_STR(fired, "aaa");
    CHECK(timer_running(&a.t));
    timer_stop(&a.t);
    TEST_LOOP_END(&loop);
}

static unsigned zero_calls;

static void restart_at_once(void *arg)
{
    zero_calls++;
    if (zero_calls < 5) {
        timer_start(arg, 0);
    }
}

TEST(a_timer_restarted_with_zero_waits_for_the_next_turn)
{
    struct timer t;
    begin();
    timer_init(&t, &loop, restart_at_once, &t);
    timer_start(&t, 0);
    loop_tick(&loop);
    CHECK_INT(zero_calls, 1);
    loop_tick(&loop);
    CHECK_INT(zero_calls, 2);
    loop_run(&loop); // the alarm goes on with it
    CHECK_INT(zero_calls, 5);
    TEST_LOOP_END(&loop);
}

static void free_self(void *arg)
{
    free(arg);
}

TEST(a_timer_may_be_freed_in_its_callback)
{
    begin();
    struct timer *t = xmalloc(sizeof *t);
    timer_init(t, &loop, free_self, t);
    timer_start(t, 5);
    test_clock_advance(&clk, &loop, 5);
    TEST_LOOP_END(&loop);
}

TEST(zeroed_memory_is_a_stopped_timer)
{
    struct timer t = {0};
    CHECK(!timer_running(&t));
    timer_stop(&t);
}

TEST(the_longest_time_does_not_wrap_around)
{
    struct named a = {0};
    begin();
    start(&a, 'a', UINT64_MAX);
    test_clock_advance(&clk, &loop, 1000000);
    CHECK_STR(fired, "");
    timer_stop(&a.t);
    TEST_LOOP_END(&loop);
}

enum { MANY = 10000 };

struct many {
    struct timer t;
    uint64_t due;
    bool stopped;
};

static struct many many[MANY];
static uint64_t last_due;
static unsigned n_fired;

static void on_many(void *arg)
{
    struct many *m = arg;
    CHECK(!m->stopped);
    CHECK(m->due >= last_due);
    CHECK_INT(m->due, clk.mono_ms);
    last_due = m->due;
    n_fired++;
}

TEST(ten_thousand_timers_fire_in_order_without_the_stopped_ones)
{
    unsigned n_stopped = 0;
    uint32_t x = 12345;
    begin();
    for (int i = 0; i < MANY; i++) {
        x = x * 1664525 + 1013904223;
        timer_init(&many[i].t, &loop, on_many, &many[i]);
        timer_start(&many[i].t, x >> 20);
        many[i].due = many[i].t.due;
    }
    for (int i = 0; i < MANY; i += 3) { // from anywhere in the heap
        timer_stop(&many[i].t);
        many[i].stopped = true;
        n_stopped++;
    }
    test_clock_advance(&clk, &loop, 4096);
    CHECK_INT(n_fired, MANY - n_stopped);
    TEST_LOOP_END(&loop);
}

static void note_time(void *arg)
{
    *(uint64_t *)arg = loop_now(&loop);
}

TEST(a_timer_of_the_system_clock_never_fires_early)
{
    uint64_t at = 0;
    struct timer t;
    CHECK_INT(loop_init(&loop, NULL, NULL), 0);
    timer_init(&t, &loop, note_time, &at);
    uint64_t from = loop_now(&loop);
    timer_start(&t, 20);
    TEST_LOOP_END(&loop);
    CHECK(at >= from + 20);
}

TEST(a_stopped_timer_does_not_keep_the_loop_alive)
{
    struct timer a, b;
    CHECK_INT(loop_init(&loop, NULL, NULL), 0);
    timer_init(&a, &loop, free_self, NULL);
    timer_init(&b, &loop, free_self, NULL);
    timer_start(&a, 3600000);
    timer_start(&b, 3600000);
    timer_stop(&a);
    CHECK(loop_run_once(&loop, false));
    timer_stop(&b);
    CHECK(!loop_run_once(&loop, false));
    TEST_LOOP_END(&loop);
}
