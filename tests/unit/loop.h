#pragma once

// Helpers for unit tests that use a loop.

#include "loop/loop.h"
#include "loop/timer.h"
#include "unit/test.h"

/// A clock that moves only when told:
///
///     struct test_clock clock;
///     struct loop l;
///     test_clock_init(&clock);
///     CHECK_INT(loop_init(&l, &clock.clock, NULL), 0);
///     ...
///     test_clock_advance(&clock, &l, 5000); // timers due meanwhile fire, each at its own time
struct test_clock {
    struct loop_clock clock;
    uint64_t mono_ms;
    int64_t wall_ms;
};

static inline uint64_t test_clock_mono(void *arg)
{
    return ((struct test_clock *)arg)->mono_ms;
}

static inline int64_t test_clock_wall(void *arg)
{
    return ((struct test_clock *)arg)->wall_ms;
}

/// Starts at 1,000 s after boot, 2026-01-01T00:00:00Z.
static inline void test_clock_init(struct test_clock *c)
{
    *c = (struct test_clock){.mono_ms = 1000000, .wall_ms = 1767225600000};
    c->clock =
        (struct loop_clock){.mono_ms = test_clock_mono, .wall_ms = test_clock_wall, .arg = c};
}

static inline void test_clock_set(struct test_clock *c, uint64_t mono_ms)
{
    c->wall_ms += (int64_t)(mono_ms - c->mono_ms);
    c->mono_ms = mono_ms;
}

/// Let `ms` pass. Timers fire in order, each with the clock at the time it was due; what they defer
/// runs in the next turn of the loop.
static inline void test_clock_advance(struct test_clock *c, struct loop *l, uint64_t ms)
{
    uint64_t end = c->mono_ms + ms;
    while (l->n_timers != 0 && l->timers[0]->due <= end) {
        test_clock_set(c, MAX(l->timers[0]->due, c->mono_ms));
        loop_tick(l);
    }
    test_clock_set(c, end);
}

/// Turns without sleeping until no task waits and nothing is ready; 1,000 at most.
static inline void test_loop_settle(struct loop *l)
{
    for (int i = 0; i < 1000 && (i == 0 || loop_has_tasks(l)); i++) {
        loop_run_once(l, false);
    }
}

static inline void test_loop_end(struct loop *l, const char *file, int line)
{
    struct err e = {0};
    if (l->clock.mono_ms == test_clock_mono && l->n_timers != 0) {
        test_fail(file, line, "a timer still runs and its clock stands");
    }
    loop_run(l);
    if (loop_close(l, &e) != 0) {
        test_fail(file, line, "%s", e.msg);
    }
}

/// Run until idle, release the loop, and fail if a handle, lane, timer or task is left.
#define TEST_LOOP_END(l) test_loop_end(l, __FILE__, __LINE__)
