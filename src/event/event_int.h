#pragma once

#include "base/map.h"
#include "event/event.h"
#include "event/ring.h"
#include "loop/timer.h"

// What event.c (ids, emitting) and reader.c (cursors, waking) share.

/// Readers that wait to be told, in the order of their waiting.
struct event__list {
    struct event_reader *head, **end;
};

struct event_log {
    struct loop *loop;
    struct store *store;
    event_ready *ready; // NULL once called or closed
    void *arg;
    struct ring ring;
    struct buf scratch; // the frame being encoded
    uint64_t reserved;  // last id that may be given out
    uint64_t asked;     // last id of the reservation under way; 0 when there is none
    uint64_t retry_at;  // after a failed one: not before this time of the loop
    bool dropping;      // events are being dropped for want of ids
    bool open;          // ready and not closed
    bool closed;
    struct event__list waiting; // neither parked nor told
    struct event__list batch;   // still to be told in this round
    struct loop_task *wake;     // the deferred next slice of a round, when one is due
    struct timer later;         // or this, when the last round is too near
    uint64_t woke_at;           // when the last round began; monotonic milliseconds
    bool again;                 // there is something new for readers that were told in this round
    size_t n_readers;
    struct map types;     // struct event__types by their text
    uint32_t types_given; // numbers given out so far
};

/// Something new is in the ring: tell those who wait in a round that begins in this turn or soon.
void event__wake_soon(struct event_log *log);

/// The timer of event_log.later.
void event__wake_now(void *log);

/// The hash a session's events are filtered by; never 0 for a session.
uint64_t event__session_hash(struct str session);
