#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "loop/loop.h"

// What the hub keeps: sessions (a journal of events and a metadata document each), a list of them,
// and a few JSON documents of the hub itself. One interface, two implementations: files under AFLOAT_HOME
// (store_files.c), and PostgreSQL, which several hubs share (pg_store.c).
//
// Every function is asynchronous: it copies its arguments, returns at once, and its callback runs
// once, on the loop thread, never from inside the call. `status` is 0 or a negative code; `e` is NULL
// exactly when `status` is 0 and, like every result, borrowed for the time of the callback.

struct store;

// ---- life ---------------------------------------------------------------------------------

/// Something the store did or met by itself, told on the loop thread.
enum store_notice_kind {
    STORE_REPAIRED,    // a torn end of a journal was cut: path, kept, bytes_cut, last_seq
    STORE_SYNC_FAILED, // events written without asking for a sync could not be synced: path, message
    STORE_DAMAGED,     // a journal is damaged in the middle; its good lines are read: path, message
    STORE_REBUILT,     // the index was missing or damaged and is rebuilt: path, message
    STORE_INDEX_FAILED // the index could not be written; it catches up at the next start: message
};

struct store_notice {
    enum store_notice_kind kind;
    const char *path;    // relative to the home
    const char *kept;    // STORE_REPAIRED: the file that holds what was cut; else NULL
    const char *message; // for a person; may be empty
    uint64_t bytes_cut;
    uint64_t last_seq;
};

/// A store in PostgreSQL. Everything is copied.
struct store_team {
    const char *url;     // postgresql://...
    const char *hub;     // the name of this hub, unlike all others
    const char *version; // of the program
    const char *const *labels;
    size_t n_labels;
    unsigned lease_s;   // after so many seconds without a sign of life this hub counts as lost
    unsigned keep_days; // older sessions are removed; 0: none
};

struct store_opts {
    const char *home;              // AFLOAT_HOME; must exist
    unsigned open_max;             // journals kept open; 0 means 64
    unsigned sync_ms;              // events appended as WRITTEN are synced within this; 0 means 50
    const struct store_team *team; // in PostgreSQL, with others; NULL: in files
    /// May be NULL. `arg` is that of store_open().
    void (*notice)(void *arg, const struct store_notice *n);
};

typedef void store_done(void *arg, int status, const struct err *e);

/// Open the store of `opts->home`. `ready` says when it can be used, or why it cannot; after a
/// failed `ready` call store_close() all the same. The index catches up in the background, or is rebuilt
/// there when it is missing or damaged: session operations and lists wait for it, documents don't.
int store_open(struct store **out, struct loop *l, const struct store_opts *opts, store_done *ready,
               void *arg, struct err *e) MUST_CHECK;

/// Finish every request made so far, sync every journal, close. `closed` (may be NULL) is called
/// with the first error of these last syncs; the store is gone then. No request may follow this call.
void store_close(struct store *s, store_done *closed, void *arg);

// ---- sessions -----------------------------------------------------------------------------

enum { STORE_ID_MAX = 64 };

/// True for a name that may be a session's id: a-z A-Z 0-9 _ - and inner dots, 64 bytes at most.
bool store_id_valid(struct str id);

/// Register a session whose files are in `dir`, relative to the home: "sessions/<id>" or
/// "bots/<bot>/workspaces/<slug>/history/<id>"; its last part must be the id. `meta` is the JSON
/// object for metadata.json; lists show its `started_at`, `state` and `title`. An id or
/// directory that exists gives ERR_CONFLICT. A call that fails leaves nothing.
void store_session_new(struct store *s, struct str id, struct str dir, struct str meta,
                       store_done *cb, void *arg);

/// Replace metadata.json, by rename, and the row of the list. Calls that arrive while one is being
/// written share one write: of the last text. It answers all of them.
void store_session_meta(struct store *s, struct str id, struct str meta, store_done *cb, void *arg);

/// Remove a session and its files, after all earlier appends.
void store_session_remove(struct store *s, struct str id, store_done *cb, void *arg);

/// Sessions below `dir` ("bots/reviewer/") were added or removed by other means than the calls above: list
/// the new ones and forget those that are gone. All others stay as they are. No session that is in use may
/// have been moved.
void store_rescan(struct store *s, struct str dir, store_done *cb, void *arg);

// ---- journals -----------------------------------------------------------------------------

enum { STORE_LINE_MAX = 32 << 20 }; // bytes of one event, encoded

struct store_event {
    struct str type;
    struct str fields; // the members of a JSON object without its braces, or empty; no line breaks
};

enum store_durability {
    STORE_WRITTEN, // survives the death of this process; synced within sync_ms
    STORE_SYNCED,  // survives power loss
};

struct store_appended {
    uint64_t first_seq, last_seq; // 0 when nothing was written
    int64_t ts;                   // of all of them, milliseconds since 1970
};
typedef void store_append_cb(void *arg, int status, const struct store_appended *a,
                             const struct err *e);

/// Append `n` events, all or none. The store gives out `seq`, from 1 without holes in the order of
/// the calls, and `ts`. Callbacks of one session come in that order among WRITTEN and among SYNCED
/// ones; a WRITTEN one never waits for a sync.
///
/// A failed write leaves nothing. A SYNCED append whose sync failed has `first_seq` set: the events are
/// in the journal, but a power cut may lose them. The next append first rewrites everything that is not
/// known to be synced, and fails too when it cannot.
void store_append(struct store *s, struct str id, const struct store_event *events, size_t n,
                  enum store_durability durability, store_append_cb *cb, void *arg);

struct store_page {
    /// Whole events, each with its newline. In place of a damaged one is an event that says that it is lost.
    struct str lines;
    size_t n;          // how many
    uint64_t next;     // pass as the next `after`
    uint64_t last_seq; // of the journal
};
typedef void store_page_cb(void *arg, int status, const struct store_page *p, const struct err *e);

/// Read up to `limit` events with a `seq` above `after`, at most about 256 KiB (a single larger event is given
/// whole). The page has all events that earlier calls appended.
void store_read(struct store *s, struct str id, uint64_t after, size_t limit, store_page_cb *cb,
                void *arg);

// ---- lists --------------------------------------------------------------------------------

/// STR_NULL in a member: sessions with any value of it.
struct store_filter {
    struct str id;     // exactly this session; only `dir` may be set beside it
    struct str dir;    // directory begins with this: "bots/reviewer/workspaces/api/history/"
    struct str kind;   // "bot", by its directory, "task:PARENT", by its metadata, or "session"
    struct str state;  // as in its metadata
    struct str parent; // subagents of this session
    bool no_tasks;     // no subagents
    bool stray;        // that no other living hub works on
};

struct store_row {
    struct str id, dir, kind, state, title;
    struct str meta;    // the text of metadata.json
    int64_t started_at; // milliseconds since 1970
    int64_t updated_at; // of the last event
    uint64_t last_seq;
    struct str damage; // what is known to be lost of its journal; empty: nothing
};

struct store_rows {
    const struct store_row *rows;
    size_t n;
    struct str next; // cursor of the next page; empty on the last
};
typedef void store_rows_cb(void *arg, int status, const struct store_rows *r, const struct err *e);

enum { STORE_LIST_MAX = 10000 };

/// List up to `limit` (0: STORE_LIST_MAX) sessions, newest start first. `cursor` is empty or the
/// `next` of the page before; anything else gives ERR_INVALID.
void store_list(struct store *s, const struct store_filter *f, struct str cursor, size_t limit,
                store_rows_cb *cb, void *arg);

// ---- documents ----------------------------------------------------------------------------

typedef void store_text_cb(void *arg, int status, struct str json, const struct err *e);

/// Read the text of a JSON document, by its path relative to the home: "choices.json",
/// "state/hub.json". A document that does not exist is an empty text and no error; one that is not
/// JSON gives ERR_CORRUPT, and the store never overwrites it.
void store_doc_get(struct store *s, struct str name, store_text_cb *cb, void *arg);

/// Replace a document, by rename; synced when `cb` says 0. On failure the old one is whole.
void store_doc_put(struct store *s, struct str name, struct str json, store_done *cb, void *arg);

/// Set one member of a document that is an object (or does not exist yet) and keep all others;
/// `value` is JSON, or empty to remove the member. Changes to one document are applied in the order
/// of the calls; those that arrive while one is being written share the next write.
void store_doc_set(struct store *s, struct str name, struct str key, struct str value,
                   store_done *cb, void *arg);

// ---- several hubs -------------------------------------------------------------------------

/// Can other hubs use this store? Then all hubs have one stream of events, and a session belongs to the
/// hub that claimed it last.
bool store_shared(const struct store *s);

typedef void store_claim_cb(void *arg, int status, const struct store_row *row,
                            const struct err *e);

/// Claim the session: only this hub may write it, until store_release(). When this hub is lost and another
/// one claims it, every later write of this hub fails with ERR_CONFLICT. ERR_CONFLICT also when another
/// hub has it; the message names that hub. `row` is the session as it is now. Shared stores only.
void store_claim(struct store *s, struct str id, store_claim_cb *cb, void *arg);
/// Give it back, after all earlier requests.
void store_release(struct store *s, struct str id);

/// An event of the stream over all hubs.
struct store_stream_event {
    uint64_t id;     // one more than that of the event before it, unless events were removed
    uint64_t seq;    // in the journal of `session`; 0: it is in none
    int64_t ts;      // milliseconds since 1970
    bool own;        // of this hub
    struct str type; //
    struct str session, fields;
};
/// Borrowed for the call.
typedef void store_stream_cb(void *arg, const struct store_stream_event *ev);

/// Follow the stream. `cb` is called once for each event, in order: first for the last `backlog` events
/// that are stored; then `ready` is called, and `cb` for every new event. Events of this hub come no later
/// than the answer to their append. One follower at a time.
void store_follow(struct store *s, size_t backlog, store_stream_cb *cb, store_done *ready,
                  void *arg);
/// Stop following: neither `cb` nor `ready` is called any more.
void store_unfollow(struct store *s);

/// Called when an event is on the stream, with its id; or why it is not.
typedef void store_emit_cb(void *arg, uint64_t id, const struct err *e);

/// Put an event on the stream that is in no journal. `session` may be empty, `cb` NULL. When too many events
/// wait for a server that does not answer, it is dropped, and `cb` is called from inside the call.
void store_emit(struct store *s, struct str type, struct str session, struct str fields,
                store_emit_cb *cb, void *arg);

struct store_stream_page {
    const struct store_stream_event *events;
    size_t n;
    uint64_t next; // pass as the next `after`
    uint64_t last; // of the stream
};
typedef void store_stream_page_cb(void *arg, int status, const struct store_stream_page *p,
                                  const struct err *e);

/// Read up to `limit` events with an id above `after`, at most about 256 KiB.
void store_stream_read(struct store *s, uint64_t after, size_t limit, store_stream_page_cb *cb,
                       void *arg);

/// Why the store cannot be used now; NULL: it can. Borrowed until the next turn of the loop.
const struct err *store_trouble(struct store *s);
/// The kind and state of the store, for GET /store, doctor and metrics. `text` is a JSON object {kind, version, schema,
/// latency_ms}, with more members for a store in PostgreSQL. Fails when it cannot be used.
void store_health(struct store *s, store_text_cb *cb, void *arg);
/// Lines of Prometheus about it; nothing for a store in files.
void store_metrics(struct store *s, struct buf *out);

struct pg;
/// This hub among those that share the store, for parts that keep tables of their own there. Borrowed.
struct store_hub {
    struct pg *pg;
    const char *name;
    int64_t epoch; // one more with each start
    unsigned lease_s;
};
/// False for a store in files.
bool store_hub(struct store *s, struct store_hub *out);
/// A function of the database sent a notification `what`, which is not on the stream; empty: some may have been lost.
typedef void store_ring_cb(void *arg, struct str what);
/// Call `cb` for each notification. One can be lost, so look now and then as well. One listener; NULL ends
/// it. A store in files sends none.
void store_on_ring(struct store *s, store_ring_cb *cb, void *arg);
