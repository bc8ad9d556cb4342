#pragma once

#include <uv.h>

#include "base/err.h"
#include "base/fifo.h"

// The one event loop. uv callbacks read, parse and enqueue; features run from the deferred queue at one place,
// so that no feature is ever entered from inside a call of another. All of it belongs to one thread; only work
// (loop/work.h) runs on others.

/// Where time comes from. Tests bring another; NULL members are not allowed.
struct loop_clock {
    uint64_t (*mono_ms)(void *arg); // never jumps
    int64_t (*wall_ms)(void *arg);  // since 1970, UTC
    void *arg;
};

struct loop_task;
struct timer;

struct loop {
    uv_loop_t uv;
    // private to loop/
    struct loop_clock clock;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;   // runs exactly while tasks wait, so that the loop does not sleep on them
    uv_timer_t alarm; // armed for the earliest of `timers`
    uint64_t alarm_due;
    fifo(struct loop_task) tasks;
    struct timer **timers; // heap
    size_t n_timers, cap_timers;
    uint64_t timer_order;  // given to the next timer that starts
    struct work_hub *work; // made on first use
};

typedef void loop_fn(void *arg);

/// Set up `l`. `clock` may be NULL: the system's. Ignores SIGPIPE for the whole process, because
/// libuv writes with write(2): a peer that left must be an error, not our end.
int loop_init(struct loop *l, const struct loop_clock *clock, struct err *e) MUST_CHECK;

/// Run until nothing is left to do or loop_stop(). Returns true when handles or requests remain.
bool loop_run(struct loop *l);
bool loop_run_once(struct loop *l, bool block); // one turn; for clients and tests
void loop_stop(struct loop *l);

/// Release `l`. Everything opened on it must be closed first (closes under way are waited for):
/// returns UV_EBUSY, and names the first open handle in `e`, otherwise; `l` is then as before.
int loop_close(struct loop *l, struct err *e) MUST_CHECK;

/// Run `fn(arg)` on the loop thread, after the current callback, before the loop sleeps; in the
/// order of the calls. What a task defers runs in the next drain, and the loop looks for I/O at
/// least between every second one, so I/O is never starved.
/// Returns a handle for loop_cancel(), valid until the task has begun.
struct loop_task *loop_defer(struct loop *l, loop_fn *fn, void *arg);
void loop_cancel(struct loop *l, struct loop_task *task);
/// Do deferred tasks wait? For one that runs and would rather be the last.
bool loop_has_tasks(const struct loop *l);

/// Monotonic milliseconds, and milliseconds since 1970.
uint64_t loop_now(const struct loop *l);
int64_t loop_wall(const struct loop *l);

/// Fire the timers that are due by the clock, as the alarm does; for a clock that was moved by hand.
void loop_tick(struct loop *l);
