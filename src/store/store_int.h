#pragma once

#include "store/store.h"

// What an implementation of the store provides. The functions of store.h only pass on to these.
struct store_ops {
    void (*close)(struct store *s, store_done *closed, void *arg);
    void (*session_new)(struct store *s, struct str id, struct str dir, struct str meta,
                        store_done *cb, void *arg);
    void (*session_meta)(struct store *s, struct str id, struct str meta, store_done *cb,
                         void *arg);
    void (*session_remove)(struct store *s, struct str id, store_done *cb, void *arg);
    void (*rescan)(struct store *s, struct str dir, store_done *cb, void *arg);
    void (*append)(struct store *s, struct str id, const struct store_event *events, size_t n,
                   enum store_durability durability, store_append_cb *cb, void *arg);
    void (*read)(struct store *s, struct str id, uint64_t after, size_t limit, store_page_cb *cb,
                 void *arg);
    void (*list)(struct store *s, const struct store_filter *f, struct str cursor, size_t limit,
                 store_rows_cb *cb, void *arg);
    void (*doc_get)(struct store *s, struct str name, store_text_cb *cb, void *arg);
    void (*doc_put)(struct store *s, struct str name, struct str json, store_done *cb, void *arg);
    void (*doc_set)(struct store *s, struct str name, struct str key, struct str value,
                    store_done *cb, void *arg);
    void (*check)(struct store *s, bool repair, store_text_cb *cb, void *arg);
    void (*health)(struct store *s, store_text_cb *cb, void *arg);
    // of a shared store; NULL in others
    void (*claim)(struct store *s, struct str id, store_claim_cb *cb, void *arg);
    void (*release)(struct store *s, struct str id);
    void (*follow)(struct store *s, size_t backlog, store_stream_cb *cb, store_done *ready,
                   void *arg);
    void (*unfollow)(struct store *s);
    void (*emit)(struct store *s, struct str type, struct str session, struct str fields,
                 store_emit_cb *cb, void *arg);
    void (*stream_read)(struct store *s, uint64_t after, size_t limit, store_stream_page_cb *cb,
                        void *arg);
    const struct err *(*trouble)(struct store *s);
    void (*metrics)(struct store *s, struct buf *out);
};

struct store {
    const struct store_ops *ops;
};

// ---- requests about sessions, which both implementations keep in a queue for each session ------

enum { STORE_QUEUE_MAX = 64 << 20 }; // bytes of appends that may wait in one session

/// Copy a text to `*at`, which goes on behind it.
struct str store__copy(char **at, struct str s);
/// Bytes of a copy of `n` events with their texts.
size_t store__events_bytes(const struct store_event *events, size_t n);
/// Copy `n` events to `to`, which has that many bytes.
void store__copy_events(struct store_event *to, const struct store_event *events, size_t n);
/// May a request of `bytes` wait behind `queued` bytes for the session `id`? ERR_INVALID for what is no id, UV_ENOBUFS
/// for an append that is too much.
int store__check_request(struct str id, bool appends, size_t queued, size_t bytes, struct err *e);
/// May the session `id` lie in `dir`? ERR_INVALID. An id that is none is not told here.
int store__check_dir(struct str id, struct str dir, struct err *e);

/// The store in files under `opts->home`; see store_open().
int store__files_open(struct store **out, struct loop *l, const struct store_opts *opts,
                      store_done *ready, void *arg, struct err *e) MUST_CHECK;

/// The store in the database `opts->team->url`; see store_open().
int store__pg_open(struct store **out, struct loop *l, const struct store_opts *opts,
                   store_done *ready, void *arg, struct err *e) MUST_CHECK;
