#pragma once

#include "base/fifo.h"
#include "base/map.h"
#include "base/vec.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "pg/pg.h"
#include "store/doc.h"
#include "store/store_int.h"

// What the files of the store in PostgreSQL share.
//
//     pg_store.c    opened and closed; lists, documents, the hub's own row, health
//     pg_session.c  sessions: queues of requests, appends in batches, claims
//     pg_stream.c   the stream over all hubs: followed, written, read
//     shelf.c       texts of bots, for workers

struct pg_session;

/// An event that waits to be written to the stream.
struct pg_emit;

struct pg_store {
    struct store store;
    struct loop *loop;
    struct pg *pg; // NULL until the database was looked at
    char *home, *url, *hub, *identity, *version;
    vec(char *) labels;
    unsigned lease_s, keep_days;
    int64_t epoch; // of this hub
    char *channel;
    struct lane *files;
    struct docs docs; // that stay on this machine
    store_done *ready;
    void *arg;
    size_t open; // requests that are not answered yet
    bool closing;
    bool stopped; // its row says so
    bool gone;    // the pool is closed, or closing
    store_done *closed;
    void *closed_arg;
    struct loop_task *close_task;
    struct timer beat, care;
    int64_t queued_runs; // of all hubs, at the last beat
    struct shelf *shelf; // texts of bots
    store_ring_cb *ring; // store_on_ring(); NULL: no listener
    void *ring_arg;

    struct map sessions; // struct pg_session by id

    store_stream_cb *follow;  // NULL: no follower
    store_done *follow_ready; // NULL once called
    void *follow_arg;
    uint64_t seen;  // the last id that was handed on
    uint64_t heard; // the highest that is known to be there
    bool fetching;
    uint64_t from, asked; // `seen` and `heard` when the page that is fetched was asked for
    struct err lost;      // events that hubs had seen; code 0: none
    struct timer poll;
    fifo(struct pg_emit) emits; // that wait
    size_t n_emits, emit_bytes, dropped;
    bool emitting;
};

/// The store's struct in PostgreSQL.
struct pg_store *pg_store_of(struct store *s);
/// A request begins, or is answered: closing waits for all.
void pg_store__hold(struct pg_store *p);
void pg_store__release(struct pg_store *p);

/// Columns of a session in the order in which pg_store__row() reads them.
#define PG_ROW                                                                                     \
    "id, dir, kind, state, title, meta, started_at, updated_at, last_seq, coalesce(hub, '')"
/// A row that begins at column `at`; borrowed from the result.
struct store_row pg_store__row(const struct pg_result *r, size_t row, int at);

// shelf.c

struct shelf;
/// The shelf of this store: what workers ask is handed to the loop, which asks the database. Loop thread.
struct shelf *shelf__open(struct pg_store *p);
/// No worker may ask any more.
void shelf__close(struct shelf *sh);

// pg_session.c

/// request() of store_ops.
void pg_session_request(struct store *s, struct str id, struct session_request *op);
/// Free what is remembered of sessions; none may have a request.
void pg_sessions_fini(struct pg_store *p);

// pg_stream.c

/// Set up; nothing is followed yet.
void pg_stream_init(struct pg_store *p);
/// As their namesakes in store.h.
void pg_stream_follow(struct store *s, size_t backlog, store_stream_cb *cb, store_done *ready,
                      void *arg);
void pg_stream_unfollow(struct store *s);
void pg_stream_emit(struct store *s, struct str type, struct str session, struct str fields,
                    store_emit_cb *cb, void *arg);
void pg_stream_read(struct store *s, uint64_t after, size_t limit, store_stream_page_cb *cb,
                    void *arg);
/// The doorbell rang: there are events up to `id`; 0: perhaps.
void pg_stream_heard(struct pg_store *p, uint64_t id);
/// Events of this hub were written from `first_id` on: hand them on at once if they are the next ones.
void pg_stream_wrote(struct pg_store *p, const struct store_stream_event *events, size_t n);
