#pragma once

#include "base/fifo.h"
#include "base/map.h"
#include "loop/timer.h"
#include "store/session.h"
#include "store/session_request_int.h"
#include "store/store_int.h"

// What session.c (queues, life), session_log.c (journal) and session_files.c (metadata, removal)
// share.

struct session {
    struct sessions *all;
    char *id;
    struct loop_task *task; // a pump is due
    fifo(struct session_request) queue;
    bool busy; // what is at the head of the queue has to wait

    bool resolved, exists; // asked the index; it has files
    char *dir;             // relative to the home
    struct journal_mark mark;
    uint64_t dev, ino; // of its journal, 0 before the first opening
    int64_t updated_at;
    char *damage;      // of its journal, as far as it is known; NULL: none
    bool damage_found; // since the index was told last

    struct journal *journal;       // NULL while closed
    struct session *newer, *older; // by last use, among those with an open journal
    unsigned readers;
    struct session_request *batch; // being written
    bool rewriting;                // the batch begins with journal_rewrite()
    int rewrite_status;
    struct journal_mark written, synced;
    fifo(struct session_request) sync_wait;
    bool syncing, sync_failed;
    struct journal_mark sync_upto; // of the sync under way
    int sync_status;
    struct err sync_err;
    struct journal_mark listed; // what the index was told last

    fifo(struct session_request) meta_wait;
    bool meta_running;
    size_t queued_bytes; // of requests not yet answered

    // of the opening under way
    struct journal_repair repair;
    int open_status;
    struct err open_err;
};

struct sessions {
    struct sessions_opts o;
    struct map by_id;
    struct session *newest, *oldest; // with an open journal
    size_t n_open;
    struct timer sync_timer;  // running while something is written and not synced
    struct timer index_timer; // running while the index is behind
    bool draining;
    int status; // of the first sync that failed while draining
    struct err err;
};

/// Answer `op` with the status it has, or with `status` and, when that is negative, `e`; free it.
void session__answer(struct session_request *op);
void session__end(struct session_request *op, int status, const struct err *e);

/// Something changed: look at the queue again, from the top of the stack.
void session__poke(struct session *s);
/// It was used just now; called with an open journal.
void session__touch(struct session *s);
/// Home, directory and `name` joined; the caller frees.
char *session__path(const struct session *s, const char *name);
/// Close its journal, on a lane.
void session__close_journal(struct session *s);
/// Tell the index how far the journal is, when it does not know.
void session__list_progress(struct session *s);

// Each begins what the head of the queue asks for. True when it has been taken from the queue and
// the next one may be looked at; else the session is `busy`, or a callback will poke it.
bool session__begin_new(struct session *s);
bool session__begin_meta(struct session *s);
bool session__begin_remove(struct session *s);
bool session__begin_append(struct session *s);
bool session__begin_read(struct session *s);

/// Sync what is written, unless a sync is under way or has failed.
void session__sync(struct session *s);
bool session__unsynced(const struct session *s);
