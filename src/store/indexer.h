#pragma once

#include "loop/work.h"
#include "store/catchup.h"

// The index on its own thread. Everything here runs on the loop thread unless it says otherwise.

struct indexer;

/// One thing to do with the index; embedded in what the caller keeps about it.
struct index_op {
    /// On the lane, inside a transaction. Returns 0 or a negative code with `e` filled in.
    int (*run)(struct index *x, struct index_op *op, struct err *e);
    /// On the loop, once, after the commit; the op may be freed inside.
    void (*done)(struct index_op *op, int status, const struct err *e);
    // private
    struct index_op *next;
    int status;
    struct err err;
};

struct indexer_cb {
    store_done *ready; // the index is open, or cannot be
    void (*notice)(void *arg, const struct store_notice *n);
    void (*idle)(void *arg); // nothing is waiting or running
    void *arg;
};

/// Open the index of `home` (borrowed) and let it catch up, on a lane of its own. Operations wait
/// for that. `ready` comes before catching up begins.
struct indexer *indexer_open(struct loop *l, const char *home, const struct indexer_cb *cb);
/// Must be idle. Frees it; the file is closed on the lane.
void indexer_close(struct indexer *ix);

/// Queue `op`. All that is waiting when the lane comes free goes into one transaction, in order.
/// Without an index (it could not be opened) each is answered with the error of opening.
void indexer_submit(struct indexer *ix, struct index_op *op);
/// Is anything waiting or running?
bool indexer_busy(const struct indexer *ix);
