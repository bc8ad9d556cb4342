// The store in files under AFLOAT_HOME.
//
//     sessions/<id>/events.jsonl     the truth, one line an event        journal.c
//     sessions/<id>/metadata.json    replaced by rename                  doc.c
//     state/index.sqlite             lists; made from the two above      index.c, catchup.c
//     choices.json state/hub.json    documents of the hub                doc.c
//
// This file only puts the parts together: lanes, opening, closing, and lists. The flow of a session is
// in session.c, that of a document in doc.c.
//
//     store ──> sessions ──> write lane, sync lane, files lane
//       ├─────> indexer  ──> index lane
//       └─────> docs     ──> files lane
//
// Closing goes downwards: requests are answered, journals synced and put away (which tells the
// index), then the index finishes, then the lanes.

#include <assert.h>

#include "store/doc.h"
#include "store/fsck.h"
#include "store/indexer.h"
#include "store/session.h"
#include "store/store_int.h"

enum { OPEN_MAX = 64, SYNC_MS = 50, FILE_THREADS = 3, SYNC_THREADS = 2 };

struct store_files {
    struct store store;
    struct loop *loop;
    char *home;
    struct lane *write, *sync, *files;
    struct indexer *index;
    struct sessions *sessions;
    struct docs docs;
    void (*notice)(void *arg, const struct store_notice *n);
    store_done *ready;
    void *arg;
    bool closing;
    struct loop_task *close_task;
    store_done *closed;
    void *closed_arg;
};

static struct store_files *files_of(struct store *s)
{
    return container_of(s, struct store_files, store);
}

// ---- notices and closing ------------------------------------------------------------------

static void on_notice(void *arg, const struct store_notice *n)
{
    struct store_files *f = arg;
    if (f->notice != NULL) {
        f->notice(f->arg, n);
    }
}

static void finish_close(struct store_files *f)
{
    struct err e;
    int status = sessions_close(f->sessions, &e);
    indexer_close(f->index);
    docs_fini(&f->docs);
    lane_close(f->write);
    lane_close(f->sync);
    lane_close(f->files);
    if (f->closed != NULL) {
        f->closed(f->closed_arg, status, status < 0 ? &e : NULL);
    }
    free(f->home);
    free(f);
}

static void close_step(void *arg)
{
    struct store_files *f = arg;
    f->close_task = NULL;
    if (sessions_held(f->sessions) == 0 && !indexer_busy(f->index) && !docs_busy(&f->docs)) {
        finish_close(f);
    }
}

static void on_idle(void *arg)
{
    struct store_files *f = arg;
    if (f->closing && f->close_task == NULL) {
        f->close_task = loop_defer(f->loop, close_step, f);
    }
}

static void files_close(struct store *s, store_done *closed, void *arg)
{
    struct store_files *f = files_of(s);
    assert(!f->closing);
    f->closing = true;
    f->closed = closed;
    f->closed_arg = arg;
    sessions_drain(f->sessions);
    on_idle(f);
}

// ---- sessions and documents: passed on ----------------------------------------------------

static void files_request(struct store *s, struct str id, struct session_request *op)
{
    sessions_request(files_of(s)->sessions, id, op);
}

static void files_doc_get(struct store *s, struct str name, store_text_cb *cb, void *arg)
{
    docs_get(&files_of(s)->docs, name, cb, arg);
}

static void files_doc_put(struct store *s, struct str name, struct str json, store_done *cb,
                          void *arg)
{
    docs_put(&files_of(s)->docs, name, json, cb, arg);
}

static void files_doc_set(struct store *s, struct str name, struct str key, struct str value,
                          store_done *cb, void *arg)
{
    docs_set(&files_of(s)->docs, name, key, value, cb, arg);
}

// ---- lists --------------------------------------------------------------------------------

struct list_op {
    struct index_op op;
    struct store_filter filter; // its strings, and the cursor, are in `a`
    struct str cursor;
    size_t limit;
    struct store_rows rows;
    struct arena a;
    store_rows_cb *cb;
    void *arg;
};

static int run_list(struct index *x, struct index_op *op, struct err *e)
{
    struct list_op *l = container_of(op, struct list_op, op);
    return index_list(x, &l->filter, l->cursor, l->limit, &l->rows, &l->a, e);
}

static void on_list(struct index_op *op, int status, const struct err *e)
{
    struct list_op *l = container_of(op, struct list_op, op);
    l->cb(l->arg, status, &l->rows, e);
    arena_fini(&l->a);
    free(l);
}

static void files_list(struct store *s, const struct store_filter *f, struct str cursor,
                       size_t limit, store_rows_cb *cb, void *arg)
{
    struct store_files *files = files_of(s);
    struct list_op *l = xcalloc(1, sizeof *l);
    if (f != NULL) {
        l->filter.id = arena_str(&l->a, f->id);
        l->filter.dir = arena_str(&l->a, f->dir);
        l->filter.kind = arena_str(&l->a, f->kind);
        l->filter.state = arena_str(&l->a, f->state);
        l->filter.parent = arena_str(&l->a, f->parent);
        l->filter.no_tasks = f->no_tasks;
    }
    l->cursor = arena_str(&l->a, cursor);
    l->limit = limit;
    l->cb = cb;
    l->arg = arg;
    l->op.run = run_list;
    l->op.done = on_list;
    sessions_flush(files->sessions);
    indexer_submit(files->index, &l->op);
}

// ---- rescan -------------------------------------------------------------------------------

struct rescan_op {
    struct index_op op;
    struct store_files *files;
    char *dir;
    store_done *cb;
    void *arg;
};

static int run_rescan(struct index *x, struct index_op *op, struct err *e)
{
    struct rescan_op *r = container_of(op, struct rescan_op, op);
    struct catchup_stats stats;
    return catchup_rescan(x, r->files->home, r->dir, &stats, e);
}

static void on_rescan(struct index_op *op, int status, const struct err *e)
{
    struct rescan_op *r = container_of(op, struct rescan_op, op);
    r->cb(r->arg, status, e);
    free(r->dir);
    free(r);
}

static void files_rescan(struct store *s, struct str dir, store_done *cb, void *arg)
{
    struct rescan_op *r = xcalloc(1, sizeof *r);
    r->files = files_of(s);
    r->dir = str_dup(dir);
    r->cb = cb;
    r->arg = arg;
    r->op.run = run_rescan;
    r->op.done = on_rescan;
    indexer_submit(r->files->index, &r->op);
}

// ---- health -------------------------------------------------------------------------------

struct health_op {
    struct index_op op;
    uint64_t asked_at;
    store_text_cb *cb;
    void *arg;
};

static int run_health(struct index *x, struct index_op *op, struct err *e)
{
    struct index_row row;
    struct arena a = {0};
    (void)op;
    int rc = index_get(x, STR("-"), &row, &a, e); // ERR_NOT_FOUND shows that the index works
    arena_fini(&a);
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

static void on_health(struct index_op *op, int status, const struct err *e)
{
    struct health_op *h = container_of(op, struct health_op, op);
    char text[160];
    snprintf(text, sizeof text,
             "{\"kind\":\"files\",\"version\":\"%s\",\"schema\":%d,\"latency_ms\":%.2f}",
             index_sqlite(), INDEX_SCHEMA, (double)(uv_hrtime() - h->asked_at) / 1e6);
    h->cb(h->arg, status, status < 0 ? STR_NULL : str_of(text), e);
    free(h);
}

static void files_health(struct store *s, store_text_cb *cb, void *arg)
{
    struct health_op *h = xcalloc(1, sizeof *h);
    h->cb = cb;
    h->arg = arg;
    h->asked_at = uv_hrtime();
    h->op.run = run_health;
    h->op.done = on_health;
    indexer_submit(files_of(s)->index, &h->op);
}

// ---- opening ------------------------------------------------------------------------------

static const struct store_ops files_ops = {
    .close = files_close,
    .request = files_request,
    .rescan = files_rescan,
    .list = files_list,
    .doc_get = files_doc_get,
    .doc_put = files_doc_put,
    .doc_set = files_doc_set,
    .health = files_health,
};

static void on_ready(void *arg, int status, const struct err *e)
{
    struct store_files *f = arg;
    if (!f->closing && f->ready != NULL) {
        f->ready(f->arg, status, e);
    }
}

static void open_sessions(struct store_files *f, const struct store_opts *opts)
{
    struct sessions_opts o = {
        .loop = f->loop,
        .home = f->home,
        .write = f->write,
        .sync = f->sync,
        .files = f->files,
        .index = f->index,
        .open_max = opts->open_max != 0 ? opts->open_max : OPEN_MAX,
        .sync_ms = opts->sync_ms != 0 ? opts->sync_ms : SYNC_MS,
        .notice = on_notice,
        .idle = on_idle,
        .arg = f,
    };
    f->sessions = sessions_open(&o);
}

int store__files_open(struct store **out, struct loop *l, const struct store_opts *opts,
                      store_done *ready, void *arg, struct err *e)
{
    *out = NULL;
    if (opts->home == NULL || opts->home[0] != '/') {
        return err_set(e, ERR_INVALID, "the store needs an absolute home directory");
    }
    struct store_files *f = xcalloc(1, sizeof *f);
    f->store.ops = &files_ops;
    f->loop = l;
    f->home = xstrdup(opts->home);
    f->notice = opts->notice;
    f->ready = ready;
    f->arg = arg;
    f->write = lane_open(l, "write", 1);
    f->sync = lane_open(l, "sync", SYNC_THREADS);
    f->files = lane_open(l, "files", FILE_THREADS);
    f->index = indexer_open(
        l, f->home,
        &(struct indexer_cb){.ready = on_ready, .notice = on_notice, .idle = on_idle, .arg = f});
    open_sessions(f, opts);
    docs_init(&f->docs, f->files, f->home, on_idle, f);
    *out = &f->store;
    return 0;
}
