// The sessions of a store in files: queues and life.
//
// Each session that is used has a queue of requests, in the order of the calls. The queue is looked
// at from the deferred queue of the loop, so all that was asked for in one turn is seen together:
//
//     append append read append meta          queue of one session
//     └──┬───┘      │    │      └─> files lane: metadata.json (runs beside the others)
//        │          │    └────────> waits: one write at a time
//        │          └─────────────> files lane (runs beside the writes that follow)
//        └────────────────────────> write lane, in one write() ──> sync lane, when asked for
//
// There are several lanes, so that nothing waits for what it does not need: the write lane only appends to
// journals, so a delta never waits for a sync, a scan or a rename of another session.
//
// A session is looked up in the index when it is first asked for, and forgotten when it has nothing
// to do and its journal is closed. At most `open_max` journals stay open, those used last: a thousand
// idle sessions cost 64 descriptors and nothing else.
//
// Invariants:
//   - a session is in `by_id` while it is in memory, in the list by use while its journal is open.
//   - `busy` exactly while a job runs that the head of the queue waits for; there is at most one.
//   - callbacks only run from the loop's own queue or a lane's end, never inside a call of ours.

#include "store/session.h"

#include <assert.h>

#include "base/log.h"
#include "base/path.h"
#include "store/session_int.h"
#include "store/walk.h"

// ---- requests -----------------------------------------------------------------------------

void session__answer(struct session_request *op)
{
    session_request__answer(op, &op->s->queued_bytes);
}

void session__end(struct session_request *op, int status, const struct err *e)
{
    op->status = status;
    if (status < 0) {
        op->err = *e;
    }
    session__answer(op);
}

// ---- life ---------------------------------------------------------------------------------

char *session__path(const struct session *s, const char *name)
{
    return xasprintf("%s/%s/%s", s->all->o.home, s->dir, name);
}

static void unlink_used(struct session *s)
{
    struct sessions *ss = s->all;
    *(s->newer != NULL ? &s->newer->older : &ss->newest) = s->older;
    *(s->older != NULL ? &s->older->newer : &ss->oldest) = s->newer;
    s->newer = s->older = NULL;
    assert(ss->n_open != 0);
    ss->n_open--;
}

void session__touch(struct session *s)
{
    struct sessions *ss = s->all;
    if (s->newer != NULL || s->older != NULL || ss->newest == s) {
        unlink_used(s);
    }
    s->older = ss->newest;
    *(s->older != NULL ? &s->older->newer : &ss->oldest) = s;
    ss->newest = s;
    ss->n_open++;
}

static void close_work(void *arg)
{
    journal_close(arg);
}

void session__close_journal(struct session *s)
{
    if (s->journal != NULL) {
        unlink_used(s);
        s->mark = s->synced;
        work_submit(s->all->o.files, 0, close_work, NULL, s->journal);
        s->journal = NULL;
    }
}

static bool idle(const struct session *s)
{
    return !s->busy && s->queue.head == NULL && s->task == NULL && s->readers == 0 && !s->syncing &&
           s->sync_wait.head == NULL && !s->meta_running;
}

static void forget(struct session *s)
{
    assert(idle(s));
    struct sessions *ss = s->all;
    session__list_progress(s);
    session__close_journal(s);
    map_remove(&ss->by_id, str_of(s->id));
    free(s->id);
    free(s->dir);
    free(s->damage);
    free(s);
}

/// Put away what is not needed: sessions without a journal at once, others when too many are open.
static void settle(struct session *s)
{
    struct sessions *ss = s->all;
    if (!idle(s)) {
        return;
    }
    if (ss->draining && s->sync_failed && ss->status == 0) {
        ss->status = s->sync_status;
        ss->err = s->sync_err;
    }
    if (ss->draining && session__unsynced(s) && !s->sync_failed) {
        session__sync(s);
    } else if (s->journal == NULL || ss->draining) {
        forget(s);
    }
    for (struct session *old = ss->oldest, *newer; ss->n_open > ss->o.open_max && old != NULL;
         old = newer) {
        newer = old->newer;
        if (idle(old) && !session__unsynced(old)) {
            forget(old);
        }
    }
    if (ss->by_id.n == 0) {
        ss->o.idle(ss->o.arg);
    }
}

// ---- the index ----------------------------------------------------------------------------

struct lookup {
    struct index_op op;
    struct session *s;
    struct index_row row;
    struct arena a;
};

static int run_lookup(struct index *x, struct index_op *op, struct err *e)
{
    struct lookup *l = container_of(op, struct lookup, op);
    return index_get(x, str_of(l->s->id), &l->row, &l->a, e);
}

static void on_lookup(struct index_op *op, int status, const struct err *e)
{
    struct lookup *l = container_of(op, struct lookup, op);
    struct session *s = l->s;
    s->busy = false;
    if (status == 0) {
        s->dir = str_dup(l->row.row.dir);
        s->mark = l->row.mark;
        s->dev = l->row.dev;
        s->ino = l->row.ino;
        s->updated_at = l->row.row.updated_at;
        s->damage = l->row.row.damage.n != 0 ? str_dup(l->row.row.damage) : NULL;
    }
    s->resolved = s->resolved || status == 0 || status == ERR_NOT_FOUND;
    s->exists = status == 0;
    if (!s->resolved) { // the index itself failed: no request that waits can be done
        for (struct session_request *o = fifo_take_all(&s->queue), *next; o != NULL; o = next) {
            next = o->next;
            session__end(o, status, e);
        }
    }
    arena_fini(&l->a);
    free(l);
    session__poke(s);
}

static void resolve(struct session *s)
{
    struct lookup *l = xcalloc(1, sizeof *l);
    l->op.run = run_lookup;
    l->op.done = on_lookup;
    l->s = s;
    s->busy = true;
    indexer_submit(s->all->o.index, &l->op);
}

struct progress {
    struct index_op op;
    struct index_row row;
    char id[STORE_ID_MAX + 1];
    char damage[JOURNAL_WHY];
};

static int run_progress(struct index *x, struct index_op *op, struct err *e)
{
    return index_put_progress(x, &container_of(op, struct progress, op)->row, e);
}

// A failed commit was reported by a notice; the row only stays out of date until the next start.
static void on_progress(struct index_op *op, int status, const struct err *e)
{
    if (status < 0) {
        log_warn(LOG_STORE, "index=behind error=%s", LOGQ(str_of(e->msg)).z);
    }
    free(container_of(op, struct progress, op));
}

void session__list_progress(struct session *s)
{
    if (s->journal == NULL || !s->exists ||
        (s->listed.seq == s->written.seq && s->mark.seq == s->synced.seq && !s->damage_found)) {
        return;
    }
    s->damage_found = false;
    struct progress *p = xcalloc(1, sizeof *p);
    p->op.run = run_progress;
    p->op.done = on_progress;
    snprintf(p->id, sizeof p->id, "%s", s->id);
    snprintf(p->damage, sizeof p->damage, "%s", s->damage != NULL ? s->damage : "");
    p->row.row.id = str_of(p->id);
    p->row.row.damage = str_of(p->damage);
    p->row.row.last_seq = s->written.seq - 1;
    p->row.row.updated_at = s->updated_at;
    p->row.mark = s->synced;
    journal_file(s->journal, &p->row.dev, &p->row.ino);
    s->listed = s->written;
    s->mark = s->synced;
    indexer_submit(s->all->o.index, &p->op);
}

static void on_index_timer(void *arg)
{
    sessions_flush(arg);
}

static void on_sync_timer(void *arg)
{
    struct sessions *ss = arg;
    size_t at = 0;
    void *value;
    struct str id;
    while (map_next(&ss->by_id, &at, &id, &value)) {
        struct session *s = value;
        if (session__unsynced(s)) {
            session__sync(s);
        }
    }
}

// ---- the queue ----------------------------------------------------------------------------

static bool (*const begin[])(struct session *s) = {
    [SESSION_NEW] = session__begin_new,       [SESSION_META] = session__begin_meta,
    [SESSION_REMOVE] = session__begin_remove, [SESSION_APPEND] = session__begin_append,
    [SESSION_READ] = session__begin_read,
};

static void fail_head(struct session *s, int code, const char *text)
{
    struct session_request *op = fifo_take(&s->queue);
    op->status = err_set(&op->err, code, "session '%s' %s", s->id, text);
    session__answer(op);
}

static void pump(void *arg)
{
    struct session *s = arg;
    s->task = NULL;
    while (s->queue.head != NULL && !s->busy) {
        const struct session_request *op = s->queue.head;
        if (op->status < 0) { // refused when it was asked for
            session__answer(fifo_take(&s->queue));
        } else if (!s->resolved) {
            resolve(s);
        } else if (op->kind != SESSION_NEW && !s->exists) {
            fail_head(s, ERR_NOT_FOUND, "does not exist");
        } else if (op->kind == SESSION_NEW && s->exists) {
            fail_head(s, ERR_CONFLICT, "exists already");
        } else if (!begin[op->kind](s)) {
            break;
        }
    }
    settle(s);
}

void session__poke(struct session *s)
{
    if (s->task == NULL) {
        s->task = loop_defer(s->all->o.loop, pump, s);
    }
}

static struct session *find(struct sessions *ss, struct str id)
{
    struct session *s = map_get(&ss->by_id, id);
    if (s == NULL) {
        s = xcalloc(1, sizeof *s);
        s->all = ss;
        s->id = str_dup(id);
        map_set(&ss->by_id, id, s);
    }
    return s;
}

// ---- public -------------------------------------------------------------------------------

struct sessions *sessions_open(const struct sessions_opts *o)
{
    struct sessions *ss = xcalloc(1, sizeof *ss);
    ss->o = *o;
    map_init(&ss->by_id);
    timer_init(&ss->sync_timer, o->loop, on_sync_timer, ss);
    timer_init(&ss->index_timer, o->loop, on_index_timer, ss);
    return ss;
}

void sessions_request(struct sessions *ss, struct str id, struct session_request *op)
{
    assert(!ss->draining && op->kind < ARRAY_LEN(begin));
    // a name that cannot be one shares the queue of a session that cannot exist
    struct session *s = find(ss, store_id_valid(id) ? id : STR(""));
    session_request__admit(op, id, &s->queued_bytes);
    op->s = s;
    op->result.ts = loop_wall(ss->o.loop);
    fifo_add(&s->queue, op);
    session__poke(s);
}

void sessions_flush(struct sessions *ss)
{
    size_t at = 0;
    void *value;
    struct str id;
    timer_stop(&ss->index_timer);
    while (map_next(&ss->by_id, &at, &id, &value)) {
        session__list_progress(value);
    }
}

size_t sessions_held(const struct sessions *ss)
{
    return ss->by_id.n;
}

void sessions_drain(struct sessions *ss)
{
    size_t at = 0;
    void *value;
    struct str id;
    ss->draining = true;
    while (map_next(&ss->by_id, &at, &id, &value)) {
        session__poke(value);
    }
}

int sessions_close(struct sessions *ss, struct err *e)
{
    assert(ss->by_id.n == 0);
    int status = ss->status;
    if (status < 0 && e != NULL) {
        *e = ss->err;
    }
    timer_stop(&ss->sync_timer);
    timer_stop(&ss->index_timer);
    map_fini(&ss->by_id);
    free(ss);
    return status;
}
