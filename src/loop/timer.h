#pragma once

#include "loop/loop.h"

typedef void timer_cb(void *arg);

/// A timer in the caller's storage. It owns no uv handle (all share one alarm and a heap), so it
/// needs no closing: timer_stop() is enough before its memory goes. Zeroed memory is a stopped timer.
struct timer {
    struct loop *loop;
    timer_cb *cb;
    void *arg;
    uint64_t due;   // monotonic milliseconds
    uint64_t order; // of starting: timers due together fire in it
    size_t at;      // place in the heap + 1; 0 when not running
};

/// Set up a stopped timer; `arg` is borrowed.
void timer_init(struct timer *t, struct loop *l, timer_cb *cb, void *arg);
/// (Re)start: fires once after `ms`. It may be started again or its memory freed inside its callback.
void timer_start(struct timer *t, uint64_t ms);
void timer_stop(struct timer *t);
bool timer_running(const struct timer *t);
