#pragma once

#include "store/store.h"

struct session_request;

// What an implementation of the store provides. The functions of store.h only pass on to these.
struct store_ops {
    void (*close)(struct store *s, store_done *closed, void *arg);
    /// Do `r` for the session `id`, after what was asked for it before. It gets `r`, and ends it with session_request__answer().
    void (*request)(struct store *s, struct str id, struct session_request *r);
    void (*rescan)(struct store *s, struct str dir, store_done *cb, void *arg);
    void (*list)(struct store *s, const struct store_filter *f, struct str cursor, size_t limit,
                 store_rows_cb *cb, void *arg);
    void (*doc_get)(struct store *s, struct str name, store_text_cb *cb, void *arg);
    void (*doc_put)(struct store *s, struct str name, struct str json, store_done *cb, void *arg);
    void (*doc_set)(struct store *s, struct str name, struct str key, struct str value,
                    store_done *cb, void *arg);
    void (*health)(struct store *s, store_text_cb *cb, void *arg);
    // of a shared store; NULL in others
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

/// The store in files under `opts->home`; see store_open().
int store__files_open(struct store **out, struct loop *l, const struct store_opts *opts,
                      store_done *ready, void *arg, struct err *e) MUST_CHECK;

/// The store in the database `opts->team->url`; see store_open().
int store__pg_open(struct store **out, struct loop *l, const struct store_opts *opts,
                   store_done *ready, void *arg, struct err *e) MUST_CHECK;
