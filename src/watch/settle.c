// When is a changed file whole, and when is a burst over?
//
// Acting on every event would load a plugin three times per save, twice on half a file. Two waits prevent
// that. Each file has its own, by how much is known about its writer:
//
//     CLOSE_WRITE, MOVED_TO   ready     whole: may be looked at now
//     found by a scan         seen      may be looked at now, but the look asks whether it rests
//     MODIFY, CREATE          writing   REST_MS after the last event; a close makes it ready
//     DELETE, MOVED_FROM      gone      REST_MS: most editors put the name back at once
//
// And the watch waits for the burst to end, so that 500 files of one checkout are one batch:
//
//     event ── event ── event ──── debounce_ms ────> look at all that are due
//     └────────── no due file waits longer than CAP_MS ──────────┘
//
// A checkout or a formatter pauses for longer than an editor, so with many files pending the quiet time is
// longer.
//
// Invariants:
//   - a file with a hold is in `pending`, and one in `pending` that is not dead has a hold.
//   - while something is pending and no job runs, the timer runs.

#include <assert.h>

#include "watch/watch_int.h"

enum { MANY = 8, MANY_FACTOR = 4 };

static uint64_t now_ms(const struct watch *w)
{
    return loop_now(w->owner->loop);
}

static void arm_for(struct watch *w, uint64_t at)
{
    if (!timer_running(&w->settle) || w->settle.due > at) {
        uint64_t now = now_ms(w);
        timer_start(&w->settle, at > now ? at - now : 0);
    }
}

/// The earliest time at which something pending is due; UINT64_MAX for none.
static uint64_t first_due(const struct watch *w)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < w->pending.n; i++) {
        const struct watch_file *f = w->pending.p[i];
        if ((f->flags & FILE_DEAD) == 0) {
            first = MIN(first, f->due);
        }
    }
    return first;
}

/// When to look, given the first due time: at the end of the burst, within the cap, not earlier.
static uint64_t time_to_look(const struct watch *w, uint64_t first)
{
    unsigned factor = w->pending.n >= MANY ? MANY_FACTOR : 1;
    uint64_t quiet = w->last_ms + (uint64_t)w->opts.pace.debounce_ms * factor;
    uint64_t cap = first + MAX((unsigned)CAP_MS, 2 * w->opts.pace.debounce_ms);
    return w->opened ? MAX(first, MIN(quiet, cap)) : first;
}

void settle__hold(struct watch_file *f, enum hold hold, uint64_t ms)
{
    struct watch *w = f->dir->watch;
    assert(hold != HOLD_NONE && (f->flags & FILE_DEAD) == 0);
    f->hold = (uint8_t)hold;
    f->due = now_ms(w) + ms;
    if ((f->flags & FILE_PENDING) == 0) {
        f->flags |= FILE_PENDING;
        vec_push(&w->pending, f);
    }
    arm_for(w, time_to_look(w, f->due));
}

void settle__touch(struct watch_file *f, enum hold hold)
{
    struct watch *w = f->dir->watch;
    if ((f->flags & FILE_PROBE) == 0) {
        w->last_ms = now_ms(w);
    }
    f->tries = 0;
    if (hold != HOLD_READY && hold != HOLD_SEEN) {
        settle__hold(f, hold, MAX(w->opts.pace.debounce_ms, (unsigned)REST_MS));
        return;
    }
    bool sure = f->hold == HOLD_READY; // a scan does not revoke this
    settle__hold(f, sure ? HOLD_READY : hold, 0);
    f->ready_at = f->ready_at != 0 ? f->ready_at : f->due;
    f->due = f->ready_at; // of the first time: else a file that is saved without end never comes
}

void settle__arm(struct watch *w)
{
    uint64_t first = first_due(w);
    if (first == UINT64_MAX) {
        timer_stop(&w->settle);
    } else {
        arm_for(w, time_to_look(w, first));
    }
}

static void add_look(struct watch_job *job, struct watch_file *f)
{
    struct watch *w = f->dir->watch;
    struct errand t = {
        .file = f,
        .path = tree__path(f->dir, f->name),
        .probe = (f->flags & FILE_PROBE) != 0,
        .check = f->hold != HOLD_READY,
        .known = (f->flags & FILE_KNOWN) != 0,
        .rested_ms = f->seen_at != 0 ? now_ms(w) - f->seen_at : 0,
        .stamp = f->stamp,
        .seen = f->seen,
    };
    f->flags = (uint8_t)((f->flags & ~FILE_PENDING) | FILE_BUSY);
    f->hold = HOLD_NONE;
    f->ready_at = 0;
    vec_push(&job->errands, t);
}

void settle__collect(struct watch *w, struct watch_job *job)
{
    uint64_t now = now_ms(w), first = first_due(w);
    size_t kept = 0;
    bool look = first != UINT64_MAX && time_to_look(w, first) <= now;
    for (size_t i = 0; i < w->pending.n; i++) {
        struct watch_file *f = w->pending.p[i];
        if ((f->flags & FILE_DEAD) != 0) {
            f->flags &= (uint8_t)~FILE_PENDING;
            tree__file_release(f);
        } else if (look && f->due <= now && job->errands.n < LOOKS_MAX) {
            add_look(job, f);
        } else {
            w->pending.p[kept++] = f;
        }
    }
    w->pending.n = kept;
    if (kept == 0) {
        vec_fini(&w->pending);
    }
}
