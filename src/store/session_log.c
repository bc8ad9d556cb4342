// The journal of a session: appending, syncing, reading.
//
// Written and synced are two things, on two lanes:
//
//     write lane   [a b] ──> [c d] ──> [e] ──>            each answer of WRITTEN goes out here
//     sync lane          [─── upto b ───][─── upto e ───]  each answer of SYNCED here
//
// A sync covers all that was written when it began. Requests that arrive while it runs share the next
// one, so the number of syncs does not grow with the number of requests. A timer syncs the events that no
// request waits for.
//
// When a sync fails the kernel may discard the unwritten pages, mark them clean, and let the next
// fdatasync() succeed. So we never just try again: every waiting request fails, and before the next
// append everything that is not known to be synced is read back, checked and written once more
// (journal_rewrite). If that fails too, every append fails until it succeeds.
//
// Invariants:
//   - synced <= written, and only a sync that succeeded moves `synced`.
//   - `sync_failed` is set exactly between a failed sync and a rewrite that succeeded; meanwhile no
//     sync is started.

#include <assert.h>
#include <sys/stat.h>

#include "store/session_int.h"

enum { BATCH_MAX = 8 << 20, PAGE_MAX = 256 << 10, INDEX_MS = 250 };

static void later(struct timer *t, unsigned ms)
{
    if (!timer_running(t)) {
        timer_start(t, ms);
    }
}

// ---- opening ------------------------------------------------------------------------------

static void open_work(void *arg)
{
    struct session *s = arg;
    struct stat st;
    char *path = session__path(s, "events.jsonl");
    bool same = stat(path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino;
    s->open_status =
        journal_open(&s->journal, path, same ? s->mark : JOURNAL_START, &s->repair, &s->open_err);
    free(path);
}

static void notice(struct session *s, const struct store_notice *n)
{
    catchup_tell(s->all->o.notice, s->all->o.arg, s->dir, n);
}

/// Report damage at once; the index gets it with the next progress.
static void tell_damage(struct session *s, const char *message)
{
    free(s->damage);
    s->damage = xstrdup(message);
    s->damage_found = true;
    notice(s, &(struct store_notice){.kind = STORE_DAMAGED, .message = message});
    later(&s->all->index_timer, INDEX_MS);
}

static void on_open(void *arg)
{
    struct session *s = arg;
    s->busy = false;
    if (s->open_status == 0) {
        s->written = s->synced = s->listed = journal_end(s->journal);
        journal_file(s->journal, &s->dev, &s->ino);
        if (journal_last_ts(s->journal) != 0) {
            s->updated_at = journal_last_ts(s->journal);
        }
        session__touch(s);
        catchup_tell_cut(s->all->o.notice, s->all->o.arg, s->dir, &s->repair);
        if (s->repair.damage[0] != '\0') {
            tell_damage(s, s->repair.damage);
        }
    } else { // the request that needed it fails; the next one tries again
        session__end(fifo_take(&s->queue), s->open_status, &s->open_err);
    }
    session__poke(s);
}

/// True when the journal is open; else it is being opened.
static bool need_journal(struct session *s)
{
    if (s->journal != NULL) {
        return true;
    }
    s->busy = true;
    work_submit(s->all->o.files, map_hash(str_of(s->id)), open_work, on_open, s);
    return false;
}

// ---- syncing ------------------------------------------------------------------------------

bool session__unsynced(const struct session *s)
{
    return s->journal != NULL && s->written.at != s->synced.at;
}

static void sync_work(void *arg)
{
    struct session *s = arg;
    s->sync_status = journal_sync(s->journal, &s->sync_err);
}

static void answer_synced(struct session *s)
{
    struct session_request *op = fifo_take_all(&s->sync_wait);
    while (op != NULL) {
        struct session_request *next = op->next;
        if (s->sync_status < 0) {
            session__end(op, s->sync_status, &s->sync_err);
        } else if (op->end.at <= s->synced.at) {
            session__answer(op);
        } else {
            fifo_add(&s->sync_wait, op);
        }
        op = next;
    }
}

static void on_synced(void *arg)
{
    struct session *s = arg;
    assert(s->syncing);
    s->syncing = false;
    if (s->sync_status == 0) {
        s->synced = s->sync_upto;
        later(&s->all->index_timer, INDEX_MS);
    } else {
        s->sync_failed = true;
        notice(s, &(struct store_notice){.kind = STORE_SYNC_FAILED,
                                         .message = s->sync_err.msg,
                                         .last_seq = s->synced.seq - 1});
    }
    answer_synced(s);
    if (s->sync_wait.head != NULL) {
        session__sync(s);
    } else if (session__unsynced(s) && !s->sync_failed) {
        later(&s->all->sync_timer, s->all->o.sync_ms);
    }
    session__poke(s);
}

void session__sync(struct session *s)
{
    if (s->syncing || s->sync_failed) {
        return;
    }
    assert(s->journal != NULL && s->synced.at <= s->written.at);
    s->syncing = true;
    s->sync_upto = s->written;
    work_submit(s->all->o.sync, map_hash(str_of(s->id)), sync_work, on_synced, s);
}

// ---- appending ----------------------------------------------------------------------------

/// Encode the events of `op`; on failure nothing of it stays in `out`.
static void encode(struct session_request *op, struct buf *out, struct journal_mark *end,
                   uint64_t base)
{
    size_t from = out->n;
    struct journal_mark at = *end;
    for (size_t i = 0; i < op->n && op->status == 0; i++) {
        op->status = journal_encode(out, at.seq++, op->result.ts, &op->events[i], &op->err);
    }
    free(op->events);
    op->events = NULL;
    if (op->status < 0) {
        buf_cut(out, from);
        return;
    }
    at.at = base + out->n;
    op->result.first_seq = end->seq;
    op->result.last_seq = at.seq - 1;
    op->end = *end = at;
}

static void fail_batch(struct session *s, int status, const struct err *e)
{
    for (struct session_request *op = s->batch; op != NULL; op = op->next) {
        if (op->status == 0) {
            op->status = status;
            op->err = *e;
            op->result.first_seq = op->result.last_seq = 0;
        }
    }
}

static void write_work(void *arg)
{
    struct session *s = arg;
    struct buf lines;
    struct err e;
    struct journal_mark start = journal_end(s->journal), end = start;

    s->rewrite_status = s->rewriting ? journal_rewrite(s->journal, s->synced, &e) : 0;
    if (s->rewrite_status < 0) {
        fail_batch(s, s->rewrite_status, &e);
        return;
    }
    buf_init(&lines, 4 * (size_t)SESSION_QUEUE_MAX + STORE_LINE_MAX);
    for (struct session_request *op = s->batch; op != NULL; op = op->next) {
        encode(op, &lines, &end, start.at);
    }
    if (lines.n != 0) {
        int rc = journal_write(s->journal, buf_str(&lines), end.seq - start.seq, &e);
        if (rc < 0) {
            fail_batch(s, rc, &e);
        }
    }
    buf_fini(&lines);
}

static void answer_written(struct session *s)
{
    struct session_request *op = s->batch;
    assert(op != NULL);
    s->batch = NULL;
    while (op != NULL) {
        struct session_request *next = op->next;
        if (op->status == 0) {
            s->updated_at = op->result.ts;
        }
        if (op->status == 0 && op->durability == STORE_SYNCED && op->n != 0) {
            fifo_add(&s->sync_wait, op);
        } else {
            session__answer(op);
        }
        op = next;
    }
}

static void on_written(void *arg)
{
    struct session *s = arg;
    struct sessions *ss = s->all;
    s->busy = false;
    s->written = journal_end(s->journal);
    if (s->rewriting && s->rewrite_status == 0) {
        s->sync_failed = false;
    }
    s->rewriting = false;
    answer_written(s);
    if (s->sync_failed) { // while they were being written: no sync will come for them
        answer_synced(s);
    } else if (s->sync_wait.head != NULL) {
        session__sync(s);
    } else if (session__unsynced(s)) {
        later(&ss->sync_timer, ss->o.sync_ms);
    }
    later(&ss->index_timer, INDEX_MS);
    session__poke(s);
}

bool session__begin_append(struct session *s)
{
    if (!need_journal(s)) {
        return false;
    }
    fifo(struct session_request) batch = {0};
    const struct session_request *op;
    size_t bytes = 0;
    while ((op = s->queue.head) != NULL && op->kind == SESSION_APPEND && op->status == 0 &&
           bytes < BATCH_MAX) {
        bytes += op->bytes;
        fifo_add(&batch, fifo_take(&s->queue));
    }
    s->batch = batch.head;
    assert(!s->busy && s->batch != NULL);
    s->busy = true;
    s->rewriting = s->sync_failed;
    session__touch(s);
    work_submit(s->all->o.write, 0, write_work, on_written, s);
    return true;
}

// ---- reading ------------------------------------------------------------------------------

static void read_work(void *arg)
{
    struct session_request *op = arg;
    op->page.last_seq = journal_end(op->s->journal).seq - 1;
    op->status = journal_read(op->s->journal, op->after, op->limit, PAGE_MAX, &op->lines,
                              &op->page.n, &op->err);
    op->page.lines = buf_str(&op->lines);
    op->page.next = op->after + op->page.n;
}

static void on_read(void *arg)
{
    struct session_request *op = arg;
    struct session *s = op->s;
    char damage[JOURNAL_WHY];
    assert(s->readers != 0);
    s->readers--;
    if (journal_damage(s->journal, damage)) {
        tell_damage(s, damage);
    }
    session__answer(op);
    session__poke(s);
}

bool session__begin_read(struct session *s)
{
    if (!need_journal(s)) {
        return false;
    }
    struct session_request *op = fifo_take(&s->queue);
    s->readers++;
    session__touch(s);
    work_submit(s->all->o.files, map_hash(str_of(s->id)), read_work, on_read, op);
    return true;
}
