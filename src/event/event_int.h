#pragma once

#include "base/map.h"
#include "event/event.h"
#include "event/ring.h"
#include "loop/timer.h"
#include "store/store.h"

// What event.c (ids, emitting), reader.c (cursors, waking) and feed.c (readers by journal) share.

/// A place in a list of readers, or its head: a circle; alone when it is in none.
struct event__node {
    struct event__node *prev, *next;
};

/// Readers who are told of the same events: those of one session, or of all.
struct event__channel {
    struct event__node waiting; // neither parked nor told
    struct event__channel *next_due;
    bool due; // there is something new since its readers were told last
    size_t n_readers;
    uint64_t session; // hash; 0: the channel of all events
    uint64_t last;    // id of its newest event
    uint64_t shown;   // for readers by journal: the newest `seq` they may see,
    uint64_t failed;  // the event that the journal does not have, after which they end (0: none),
    bool gone;        // and that it was removed
    char name[];      // of the session
};

/// Frames made for readers by journal who all are at the same place.
struct event__span {
    const struct event__channel *channel; // NULL: none
    uint64_t first, last;                 // ids
    uint64_t made_at;                     // the ring's `next`
    size_t max;
    struct buf frames;
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
    bool shared;        // ids and events come from the store
    bool closed;
    struct event__channel *all;
    struct map channels; // struct event__channel by session: those that have readers
    struct event__channel *due;
    struct event__node batch; // still to be told in this round
    struct loop_task *wake;   // the deferred next slice of a round, when one is due
    struct timer later;       // or this, when the last round is too near
    uint64_t woke_at;         // when the last round began; monotonic milliseconds
    size_t n_readers;
    struct map types;     // struct event__types by their text
    uint32_t types_given; // numbers given out so far
    struct event__span span;
};

enum { EVENT__TURN = 32 };

struct event_reader {
    struct event_log *log;
    struct event__channel *channel;
    struct event__node node;
    event_wake *wake;
    void *arg;
    uint64_t at;    // an event of its channel that it has passed; 0: none yet
    struct buf own; // frames made for this reader alone
    bool parked, told;

    // by the hub's ids
    bool own_only; // passes over those of other hubs
    bool unsure;   // its cursor may be one that was never given out
    bool past;     // `own` holds events up to `past_to`, from the store
    uint64_t past_to;
    char *session;              // that it reads; NULL: all
    struct event__types *types; // NULL: all
    uint64_t cursor;
    uint64_t peeked; // where the cursor goes with event_reader_next()
    uint64_t gap_from, gap_to;

    // by journal
    bool journal;
    bool reading;        // a page was asked for
    bool closed;         // and is waited for, to free the reader
    bool ended;          // after what is in `own`
    bool ends;           // with what was peeked
    uint64_t seq;        // the last one taken
    uint64_t peeked_seq; // and then
    uint64_t born;       // the first id that was given out after it was opened
    size_t sent;         // bytes of `own`
    size_t piece;        // that was peeked
    char turn[EVENT__TURN];
};

/// Something new is in the ring for the readers of `ch` (may be NULL): tell them in a round that
/// begins in this turn or soon.
void event__touch(struct event_log *log, struct event__channel *ch);
/// Start the round, or its next slice, in the next turn. Also the callback of event_log.later.
void event__wake_now(void *log);
/// Tell this reader in the next slice, unless it is parked or told.
void event__wake_reader(struct event_reader *r);
/// The page that the reader waited for has come. NULL: it was closed meanwhile, and is freed.
struct event_reader *event__end_read(struct event_reader *r);
struct event__channel *event__channel_new(struct str session);
/// `id` is the newest event of `ch`: link the one before it, so that its readers pass over all others.
void event__link(struct event_log *log, struct event__channel *ch, uint64_t id);
/// The first event of the reader's channel with an id of `from` or above; the ring's `next` when
/// there is none.
uint64_t event__find(const struct event_reader *r, uint64_t from);
/// The hash a session's events are filtered by; never 0 for a session.
uint64_t event__session_hash(struct str session);

/// The event as a frame with that id, onto `b`.
struct ring_entry event__encode(struct buf *b, uint64_t id, const struct event_record *ev);
/// The record of an event of the stream; its strings are those of `ev`.
struct event_record event__record(const struct store_stream_event *ev);
/// Do the patterns of the reader fit the type?
bool event__types_fit(const struct event_reader *r, struct str type);
/// Tell the reader that it missed `from` to `to`.
void event__set_gap(struct event_reader *r, uint64_t from, uint64_t to);

// past.c: readers of a shared stream who are not in the ring

/// Must it read from the store, or has it?
bool past__needed(const struct event_reader *r);
/// Is there something to peek? Asks the store otherwise.
bool past__advance(struct event_reader *r);
/// As their namesakes of event.h.
struct str past__peek(struct event_reader *r, size_t max);
void past__next(struct event_reader *r);

// feed.c; as their namesakes of event.h

/// Is there something to peek, or has it ended? Asks the journal for what the ring does not have.
bool feed__advance(struct event_reader *r);
struct str feed__peek(struct event_reader *r, size_t max);
void feed__next(struct event_reader *r);
