#pragma once

#include "base/json.h"
#include "loop/loop.h"
#include "proto/events.h"

// The hub's one stream of events: ids that are never reused, a bounded ring in memory, readers with
// a cursor each. An event is encoded once, as the server-sent-events frame that readers get:
//
//     id: 1042\nevent: hub.started\ndata: {"id":1042,"ts":"...","type":"hub.started",...}\n\n
//
// A store that hubs share has one stream over all of them: ids come from there, and events of other hubs
// go into the ring like our own.
//
// Everything here belongs to the loop thread.

struct store;
struct event_log;
struct event_reader;

enum { EVENT_RING = 2 << 20 }; // default size of the ring in bytes

/// Called once, on the loop thread: `status` 0 when the stream can be used, else why it cannot (then close it).
typedef void event_ready(void *arg, int status, const struct err *e);

/// Open the stream. Before `ready` the store's mark ("event_id_mark" in state/hub.json) is read and
/// the first block of ids after it reserved; the first id given out is mark + 1, so that no id is
/// ever given out twice, however the process before ended. `ring_bytes` bounds the memory of
/// the ring (0: EVENT_RING; at least 16384). `store` is borrowed until event_close() has freed the
/// log: close the store later.
int event_open(struct event_log **out, struct loop *l, struct store *store, size_t ring_bytes,
               event_ready *ready, void *arg, struct err *e) MUST_CHECK;
/// Readers must be closed before. Frees the log once the last reservation write is done; `ready`
/// is not called any more. NULL is allowed.
void event_close(struct event_log *log);

/// Put an event on the stream. `fields` is a JSON object text without its braces, or empty
/// (`"name":"x","enabled":true`); `session` may be STR_NULL, else it becomes the member `session`.
/// Readers are told once per turn of the loop. An event whose frame is above an eighth of the ring
/// keeps its id, type and session, and has `"truncated":true,"bytes":N` in place of its fields.
/// Returns the id, or 0 when the event was dropped because ids ran out: the stream is not ready, or
/// they could not be reserved on disk (which is logged, and tried again every second).
/// Of a stream that hubs share ids come from the store, later: EVENT_ID_LATER.
uint64_t event_emit(struct event_log *log, struct str type, struct str session, struct str fields);

/// The same for an event of events.def that belongs to no session. `object` is a whole JSON object, which is
/// emptied; one that outgrew its maximum is dropped.
void event_emit_object(struct event_log *log, enum event_id id, struct buf *object);

#define EVENT_ID_LATER UINT64_MAX
/// Called once when the event is on the stream, or with why it is not. Borrowed for the call.
typedef void event_emitted(void *arg, uint64_t id, const struct err *e);
/// The same for a caller that needs the id: if this returns EVENT_ID_LATER, `cb` is called with the id; else never.
uint64_t event_emit_ask(struct event_log *log, struct str type, struct str session,
                        struct str fields, event_emitted *cb, void *arg);

/// An event of a session as its journal has it. `fields` were checked and cleared of secrets when
/// they were written; they do not name the session.
struct event_record {
    struct str type, session, fields;
    uint64_t seq;    // in the journal; 0: it could not be written
    int64_t ts;      // milliseconds since 1970
    size_t left_out; // not 0: so many bytes of fields are in the journal only
};
/// Put an event on the stream that is in its session's journal: from now on readers may see it. One
/// that could not be written is the last event of all who read that session by its journal.
/// Returns as event_emit(); who reads by the journal misses nothing when the event was dropped.
uint64_t event_emit_record(struct event_log *log, const struct event_record *ev);
/// A session and its journal were removed: end those who read it by its journal.
void event_session_gone(struct event_log *log, struct str session);

/// The oldest id that is still in the ring; without one, the next id.
uint64_t event_first_id(const struct event_log *log);
/// The newest id that was given out, by this hub or an earlier one.
uint64_t event_last_id(const struct event_log *log);

struct event_filter {
    struct str types;   // patterns as in event_type_matches(); copied
    struct str session; // only events of this session; copied
    bool own;           // only events of this hub
    bool journal;       // read `session` by its journal: ids are its `seq`, and nothing is missed
    uint64_t shown;     // with `journal`: the last `seq` that readers may see so far
    struct str turn; // with `journal`: end after the last event of this turn; copied, may be empty
};

/// Called on the loop thread, at most once per turn, when there is something new to read that fits
/// the filter, or the reader has ended; not again until the reader has peeked. Any reader may be
/// closed, and events emitted, inside.
typedef void event_wake(void *arg);

/// Begin reading after id `after` (0: from the oldest event that is there; UINT64_MAX: new events only).
/// `f` may be NULL: everything. `wake` is called in the next turn if there is something already.
/// An `after` from before the oldest gives a stream.gap first. One that was never given out gives a
/// stream.gap from 1 to the last id, then new events.
///
/// Of a stream that hubs share, events that the ring does not hold (any more) are read from the store, so
/// there is a gap only for an `after` that was never given out.
///
/// With `f->journal` ids are the session's `seq` and types are not looked at. What the ring does not
/// hold (any more) is read from the journal, so there is no gap.
struct event_reader *event_reader_open(struct event_log *log, uint64_t after,
                                       const struct event_filter *f, event_wake *wake, void *arg);
/// End it; `wake` is not called any more. NULL is allowed.
void event_reader_close(struct event_reader *r);

/// The next frames for this reader, in one piece of memory: about `max` bytes of whole frames, or a
/// single larger one, which a reader by journal gets in pieces; empty when there is nothing now.
/// Borrowed: valid until the loop's next turn, the next peek of any reader or the next event_emit().
/// A reader that fell out of the ring gets a stream.gap {from, to} frame first; `from` to `to` are
/// the ids it missed, those that its filter would have hidden included, and `id:` is `to`.
struct str event_reader_peek(struct event_reader *r, size_t max);
/// All that the last peek gave has been taken over.
void event_reader_next(struct event_reader *r);
/// There is nothing more to read: its turn has ended, or its session is gone. Only readers by journal end.
bool event_reader_ended(const struct event_reader *r);
/// A parked reader is not woken (its peer does not read). When it is unparked, it is woken if there is
/// something to read.
void event_reader_park(struct event_reader *r, bool parked);

/// Write up to `limit` events with an id above `after` that match `f` (may be NULL) into an open array of `w`, as the JSON
/// objects of their data lines. Returns the id to pass as the next `after`.
uint64_t event_list(struct event_log *log, uint64_t after, const struct event_filter *f,
                    size_t limit, struct jw *w);
