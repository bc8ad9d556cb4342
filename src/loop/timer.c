// Timers: a binary heap and one alarm.
//
// A hub with ten thousand connections has some ten thousand timers, nearly all of which are stopped before they
// fire. With a uv_timer each, every owner would have to wait for a close callback before its memory may go. Here
// a timer is a plain struct in the caller's memory, and only the earliest one has an alarm in libuv:
//
//     timers[0] ── due ──> alarm ──> loop_tick(): fire all that are due, set the alarm again
//      ╱    ╲
//     1      2      ordered by (due, order of starting); timers[i]->at == i + 1
//
// Invariants:
//   - the alarm is active exactly while a timer runs, and set for the earliest; so a loop without timers
//     sleeps, and one whose timers are all stopped ends.
//   - a timer is out of the heap before its callback is called: the callback may start it again, stop it or
//     free it.
//   - a tick fires what was started before it began; a timer restarted with 0 ms waits for the next turn, so
//     that it cannot keep the loop from its I/O.
//
// loop->clock decides what is due; libuv's clock only wakes us. When they disagree (a clock moved by hand, a
// coarse kernel clock) the alarm finds nothing due and is set again.

#include "loop/timer.h"

#include <assert.h>

#include "loop/loop_int.h"

static bool before(const struct timer *a, const struct timer *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void place(struct loop *l, struct timer *t, size_t i)
{
    l->timers[i] = t;
    t->at = i + 1;
}

static void sift_up(struct loop *l, struct timer *t, size_t i)
{
    while (i > 0 && before(t, l->timers[(i - 1) / 2])) {
        place(l, l->timers[(i - 1) / 2], i);
        i = (i - 1) / 2;
    }
    place(l, t, i);
}

static void sift_down(struct loop *l, struct timer *t, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < l->n_timers && before(l->timers[child + 1], l->timers[child])) {
            child++;
        }
        if (child >= l->n_timers || !before(l->timers[child], t)) {
            break;
        }
        place(l, l->timers[child], i);
        i = child;
    }
    place(l, t, i);
}

static void heap_remove(struct loop *l, struct timer *t)
{
    assert(t->at != 0 && l->timers[t->at - 1] == t);
    size_t i = t->at - 1;
    struct timer *last = l->timers[--l->n_timers];
    t->at = 0;
    if (last == t) {
        return;
    }
    if (i > 0 && before(last, l->timers[(i - 1) / 2])) {
        sift_up(l, last, i);
    } else {
        sift_down(l, last, i);
    }
}

static void set_alarm(struct loop *l)
{
    if (l->n_timers == 0) {
        uv_timer_stop(&l->alarm);
        return;
    }
    uint64_t due = l->timers[0]->due;
    if (uv_is_active((uv_handle_t *)&l->alarm) && l->alarm_due == due) {
        return;
    }
    uint64_t now = loop_now(l);
    l->alarm_due = due;
    uv_update_time(&l->uv); // uv counts from its own idea of now, which a long callback makes old
    int rc = uv_timer_start(&l->alarm, timer__on_alarm, due > now ? due - now : 0, 0);
    assert(rc == 0); // fails only on a closing handle
    (void)rc;
}

void timer__on_alarm(uv_timer_t *alarm)
{
    loop_tick(container_of(alarm, struct loop, alarm));
}

void timer__fini(struct loop *l)
{
    assert(l->n_timers == 0);
    free(l->timers);
    l->timers = NULL;
    l->cap_timers = 0;
}

void loop_tick(struct loop *l)
{
    uint64_t now = loop_now(l);
    uint64_t started = l->timer_order;
    while (l->n_timers != 0 && l->timers[0]->due <= now && l->timers[0]->order < started) {
        struct timer *t = l->timers[0];
        heap_remove(l, t);
        t->cb(t->arg); // it may free t
    }
    set_alarm(l);
}

void timer_init(struct timer *t, struct loop *l, timer_cb *cb, void *arg)
{
    *t = (struct timer){.loop = l, .cb = cb, .arg = arg};
}

void timer_start(struct timer *t, uint64_t ms)
{
    struct loop *l = t->loop;
    uint64_t now = loop_now(l);
    if (t->at != 0) {
        heap_remove(l, t);
    }
    t->due = ms < UINT64_MAX - now ? now + ms : UINT64_MAX;
    t->order = l->timer_order++;
    if (l->n_timers == l->cap_timers) {
        l->cap_timers = MAX(l->cap_timers * 2, 16);
        l->timers = xreallocarray(l->timers, l->cap_timers, sizeof(struct timer *));
    }
    l->n_timers++;
    sift_up(l, t, l->n_timers - 1);
    set_alarm(l);
}

void timer_stop(struct timer *t)
{
    if (t->at != 0) {
        heap_remove(t->loop, t);
        set_alarm(t->loop);
    }
}

bool timer_running(const struct timer *t)
{
    return t->at != 0;
}
