#pragma once

#include "store/journal.h"
#include "store/store.h"

// What a caller wants of a session. Both implementations keep requests in a queue for each session.

enum { SESSION_QUEUE_MAX = 64 << 20 }; // bytes of appends that may wait in one session

enum session_request_kind {
    SESSION_NEW,
    SESSION_META,
    SESSION_REMOVE,
    SESSION_APPEND,
    SESSION_READ,
    SESSION_CLAIM,  // of a shared store
    SESSION_RELEASE // the same
};

/// A call of store.h, with copies of all that it was given.
struct session_request {
    struct session_request *next;
    enum session_request_kind kind;
    size_t bytes; // of the copies
    int status;   // negative: it was refused when it was made, or has failed
    struct err err;
    void *arg;
    store_done *done; // new, meta, remove; may be NULL
    struct str dir, meta;
    store_append_cb *appended;  // may be NULL
    struct store_event *events; // NULL once they are encoded: they may be long
    size_t n;
    enum store_durability durability;
    struct store_appended result;
    store_page_cb *paged;
    uint64_t after;
    size_t limit;
    struct buf lines; // that `page` names
    struct store_page page;
    store_claim_cb *claimed;
    const struct store_row *row; // that was claimed; borrowed

    // of a store in files
    struct session *s;
    struct journal_mark end; // after its last event
    // of a store in PostgreSQL
    struct pg_session *pg;
    char *path; // of a remove: what this machine has of the session
};

/// Make the request of the function in store.h with that name. The implementation frees it by session_request__answer().
struct session_request *session_request__new(struct str id, struct str dir, struct str meta,
                                             store_done *cb, void *arg);
struct session_request *session_request__meta(struct str meta, store_done *cb, void *arg);
struct session_request *session_request__remove(store_done *cb, void *arg);
struct session_request *session_request__append(const struct store_event *events, size_t n,
                                                enum store_durability durability,
                                                store_append_cb *cb, void *arg);
struct session_request *session_request__read(uint64_t after, size_t limit, store_page_cb *cb,
                                              void *arg);
struct session_request *session_request__claim(store_claim_cb *cb, void *arg);
struct session_request *session_request__release(void);

/// Count its bytes in `*queued`, those that wait for the session `id`. Its status becomes ERR_INVALID when that is no id,
/// UV_ENOBUFS when an append is too much.
void session_request__admit(struct session_request *r, struct str id, size_t *queued);
/// Take its bytes from `*queued`, tell the caller its status and result, and free it.
void session_request__answer(struct session_request *r, size_t *queued);
