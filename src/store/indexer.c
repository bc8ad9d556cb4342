// The index on a thread of its own: one transaction a tick.
//
//     loop:  submit submit submit        submit submit      (waiting)
//               └──────┬─────┘              └──┬──┘
//     lane:   BEGIN run run run COMMIT ─>   BEGIN run run COMMIT
//     loop:                        done done done
//
// One job is under way at a time. What arrives meanwhile shares the next, so a burst of a thousand
// updates costs a handful of commits. Questions travel in the same queue: they see every change that
// was submitted before them.

#include "store/indexer.h"

#include <assert.h>

#include "base/fifo.h"
#include "base/path.h"
#include "base/vec.h"

// A notice kept from the lane for the loop, with strings of its own.
struct kept_notice {
    struct store_notice n;
    char *path, *kept, *message;
};

struct indexer {
    struct lane *lane;
    struct indexer_cb cb;
    const char *home;
    bool busy;
    fifo(struct index_op) waiting;
    // owned by the job while one runs
    struct index *x; // NULL: not open; `status` and `err` say why
    int status;
    struct err err;
    struct index_op *running;
    vec(struct kept_notice) notices;
    struct catchup_stats stats;
};

// ---- notices ------------------------------------------------------------------------------

static char *copy(const char *z)
{
    return z != NULL ? xstrdup(z) : NULL;
}

static void keep_notice(void *arg, const struct store_notice *n)
{
    struct indexer *ix = arg;
    struct kept_notice k = {*n, copy(n->path), copy(n->kept), copy(n->message)};
    k.n.path = k.path;
    k.n.kept = k.kept;
    k.n.message = k.message != NULL ? k.message : "";
    vec_push(&ix->notices, k);
}

static void tell_notices(struct indexer *ix)
{
    vec_foreach (k, &ix->notices) {
        ix->cb.notice(ix->cb.arg, &k->n);
        free(k->path);
        free(k->kept);
        free(k->message);
    }
    vec_fini(&ix->notices);
}

static void keep_failure(struct indexer *ix, const char *message)
{
    struct store_notice n = {
        .kind = STORE_INDEX_FAILED, .path = "state/index.sqlite", .message = message};
    keep_notice(ix, &n);
}

// ---- operations ---------------------------------------------------------------------------

static void run_all(void *arg)
{
    struct indexer *ix = arg;
    struct err e;
    int rc = ix->x != NULL ? index_begin(ix->x, &e) : (e = ix->err, ix->status);
    bool begun = rc == 0;
    for (struct index_op *op = ix->running; op != NULL; op = op->next) {
        op->status = begun ? op->run(ix->x, op, &op->err) : rc;
        if (!begun) {
            op->err = e;
        }
    }
    if (begun && (rc = index_commit(ix->x, &e)) < 0) {
        keep_failure(ix, e.msg);
        for (struct index_op *op = ix->running; op != NULL; op = op->next) {
            op->status = rc;
            op->err = e;
        }
    }
}

static void next_job(struct indexer *ix);

static void on_done(void *arg)
{
    struct indexer *ix = arg;
    struct index_op *op = ix->running;
    ix->running = NULL;
    tell_notices(ix);
    while (op != NULL) {
        struct index_op *next = op->next;
        op->done(op, op->status, op->status < 0 ? &op->err : NULL);
        op = next;
    }
    next_job(ix);
}

static void next_job(struct indexer *ix)
{
    ix->busy = ix->waiting.head != NULL;
    if (!ix->busy) {
        ix->cb.idle(ix->cb.arg);
        return;
    }
    ix->running = fifo_take_all(&ix->waiting);
    work_submit(ix->lane, 0, run_all, on_done, ix);
}

// ---- opening and closing ------------------------------------------------------------------

static void catch_up(void *arg)
{
    struct indexer *ix = arg;
    struct err e;
    if (ix->x != NULL && catchup_run(ix->x, ix->home, keep_notice, ix, &ix->stats, &e) < 0) {
        keep_failure(ix, e.msg);
    }
}

static void open_index(void *arg)
{
    struct indexer *ix = arg;
    char *state = path_join(ix->home, "state");
    char *path = path_join(state, "index.sqlite");
    char why[INDEX_WHY] = "";
    bool fresh;

    ix->status = path_mkdirs(state, 0700, &ix->err);
    if (ix->status == 0) {
        ix->status = index_open(&ix->x, path, &fresh, why, &ix->err);
    }
    if (ix->status == 0 && why[0] != '\0') {
        struct store_notice n = {
            .kind = STORE_REBUILT, .path = "state/index.sqlite", .message = why};
        keep_notice(ix, &n);
    }
    free(path);
    free(state);
}

static void on_open(void *arg)
{
    struct indexer *ix = arg;
    tell_notices(ix);
    ix->cb.ready(ix->cb.arg, ix->status, ix->status < 0 ? &ix->err : NULL);
    work_submit(ix->lane, 0, catch_up, on_done, ix);
}

struct indexer *indexer_open(struct loop *l, const char *home, const struct indexer_cb *cb)
{
    struct indexer *ix = xcalloc(1, sizeof *ix);
    ix->cb = *cb;
    ix->home = home;
    ix->lane = lane_open(l, "index", 1);
    ix->busy = true;
    work_submit(ix->lane, 0, open_index, on_open, ix);
    return ix;
}

static void close_index(void *arg)
{
    struct indexer *ix = arg;
    index_close(ix->x);
}

void indexer_close(struct indexer *ix)
{
    assert(!ix->busy);
    work_submit(ix->lane, 0, close_index, free, ix);
    lane_close(ix->lane);
}

void indexer_submit(struct indexer *ix, struct index_op *op)
{
    fifo_add(&ix->waiting, op);
    if (!ix->busy) {
        next_job(ix);
    }
}

bool indexer_busy(const struct indexer *ix)
{
    return ix->busy;
}
