// Sessions in PostgreSQL.
//
// Each session that is used has a queue of requests, in the order of the calls, looked at from the loop's
// deferred queue. All of its requests go down one connection, so they happen in that order without
// waiting for each other:
//
//     append append meta read append          queue of one session
//     └───────┬────────┘   │    └─> waits: one append is under way at a time, and the rest is the next batch
//             │            └──────> goes after the append: it sees what that wrote
//             └───────────────────> afloat.append(), one call, one commit ──> stream ──> answers
//
// WRITTEN and SYNCED are the same here: what is answered is committed. What comes while a commit is under way is
// the next batch. A batch goes when the loop has nothing else to run: the steps of a turn follow one another through
// its queue, and what they write is one commit.
//
// An append says which event its hub knows as the last one (`known`). When its answer was lost with the
// connection and it is sent again, the server finds its token after that event and does nothing.
//
// A claim gives this hub an epoch, and every write carries it (0: not claimed). So the server refuses a hub that
// lost its session, in the transaction of the write.
//
// The directory of a session is made here too: outputs of tools, pictures and checkpoints stay on the machine
// where they were made.

#include <assert.h>
#include <errno.h>

#include "base/fifo.h"
#include "base/path.h"
#include "store/index.h"
#include "store/pg_store.h"
#include "store/session_request_int.h"
#include "store/walk.h"

enum {
    BATCH_BYTES = 8 << 20,  // of one append
    BATCH_EVENTS = 2000,    //
    PAGE_BYTES = 256 << 10, // of one read
    CHECK_BYTES = 1 << 20,  // an event above this is not parsed again here
    SESSIONS_MAX = 1024,    // that are remembered without need
    LINGER_MAX = 16,        // rounds of the loop's queue that a batch lets pass
};

static const struct pg_stmt stmt_new = {
    "session_new", "SELECT afloat.session_new($1, $2, $3, $4, $5, $6, $7, $8)"};
static const struct pg_stmt stmt_meta = {
    "session_meta", "SELECT afloat.session_meta($1, $2, $3, $4, $5, $6, $7, $8)"};
static const struct pg_stmt stmt_remove = {"session_remove",
                                           "SELECT afloat.session_remove($1, $2, $3)"};
static const struct pg_stmt stmt_known = {
    "session_known", "SELECT last_seq FROM afloat.sessions WHERE owner = current_user AND id = $1"};
static const struct pg_stmt stmt_append = {
    "append", "SELECT * FROM afloat.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"};
static const struct pg_stmt stmt_read = {
    "session_read",
    "SELECT s.last_seq, e.seq, e.ts, e.type, e.fields FROM afloat.sessions s LEFT JOIN LATERAL ("
    "  SELECT * FROM (SELECT *, sum(octet_length(fields)) OVER (ORDER BY seq) - "
    "octet_length(fields)"
    "   AS before FROM (SELECT * FROM afloat.events WHERE owner = current_user AND session = $1"
    "   AND seq > $2 ORDER BY seq LIMIT $3) AS page) AS sized WHERE before < $4) AS e ON true"
    " WHERE s.owner = current_user AND s.id = $1 ORDER BY e.seq"};
static const struct pg_stmt stmt_claim = {"session_claim", "SELECT epoch, " PG_ROW
                                                           " FROM afloat.session_claim($1, $2)"};
static const struct pg_stmt stmt_release = {"session_release",
                                            "SELECT afloat.session_release($1, $2, $3)"};

struct pg_session {
    struct pg_store *p;
    char *id;
    uint64_t key;
    fifo(struct session_request) queue;
    struct session_request *batch; // being appended
    size_t batch_n;                // events of it
    struct session_request *meta;  // that goes with it; NULL: none
    size_t under_way;              // requests, the batch included
    size_t queued_bytes;
    bool blocked;      // the queue waits for an answer
    unsigned lingered; // rounds
    int64_t known;     // the last event that we know of; -1: nothing
    int64_t epoch;     // of our claim; 0: none
    struct loop_task *task;
};

// ---- answers ----------------------------------------------------------------------------------

static void poke(struct pg_session *s);

/// Answer with the status and the result that it has.
static void finish(struct session_request *op)
{
    struct pg_session *s = op->pg;
    session_request__answer(op, &s->queued_bytes);
    pg_store__release(s->p);
}

static void fail(struct session_request *op, const struct err *e)
{
    op->status = e->code;
    op->err = *e;
    finish(op);
}

static void answered(struct pg_session *s)
{
    assert(s->under_way != 0);
    s->under_way--;
    poke(s);
}

/// Remove what this machine has of a removed session. A file that cannot be removed does no harm.
static void remove_work(void *arg)
{
    struct session_request *op = arg;
    (void)!path_remove_tree(op->path, NULL);
    free(op->path);
}

/// The answer says that the files are gone, so it waits for them.
static void on_files_removed(void *arg)
{
    struct session_request *op = arg;
    struct pg_session *s = op->pg;
    finish(op);
    answered(s);
}

static void on_done(void *arg, const struct pg_result *r, const struct err *e)
{
    struct session_request *op = arg;
    struct pg_session *s = op->pg;
    struct str dir = STR_NULL;
    if (op->kind == SESSION_NEW) {
        s->blocked = false;
        s->known = e == NULL ? 0 : s->known;
    } else if (op->kind == SESSION_REMOVE && e == NULL) {
        s->known = -1;
        s->epoch = 0;
        dir = pg_get(r, 0, 0);
    }
    if (walk_dir_valid(dir, str_of(s->id))) { // else no hub wrote it, and it may be anywhere
        op->path = xasprintf("%s/" STR_FMT, s->p->home, STR_ARG(dir));
        work_submit(s->p->files, 0, remove_work, on_files_removed, op);
        return;
    }
    if (e != NULL) {
        fail(op, e);
    } else {
        finish(op);
    }
    answered(s);
}

// ---- appending --------------------------------------------------------------------------------

static void on_known(void *arg, const struct pg_result *r, const struct err *e)
{
    struct pg_session *s = arg;
    struct err own;
    s->blocked = false;
    if (e == NULL && pg_rows(r) == 0) {
        err_set(&own, ERR_NOT_FOUND, "session '%s' does not exist", s->id);
        e = &own;
    }
    if (e == NULL) {
        s->known = pg_get_int(r, 0, 0);
    } else { // no request that waits can be done
        for (struct session_request *op = fifo_take_all(&s->queue), *next; op != NULL; op = next) {
            next = op->next;
            fail(op, e);
        }
    }
    answered(s);
}

static void ask_known(struct pg_session *s)
{
    struct pg_param id = pg_text(str_of(s->id));
    s->blocked = true;
    s->under_way++;
    pg_query(s->p->pg, s->key, &stmt_known, &id, 1, on_known, s);
}

static void hand_on(const struct pg_session *s, const struct session_request *batch, uint64_t seq,
                    uint64_t id, int64_t ts)
{
    struct store_stream_event *events = xcalloc(s->batch_n, sizeof *events);
    size_t n = 0;
    for (const struct session_request *op = batch; op != NULL; op = op->next) {
        for (size_t i = 0; i < op->n; i++, n++) {
            events[n] = (struct store_stream_event){.id = id + n,
                                                    .seq = seq + n,
                                                    .ts = ts,
                                                    .own = true,
                                                    .type = op->events[i].type,
                                                    .session = str_of(s->id),
                                                    .fields = op->events[i].fields};
        }
    }
    if (n != 0) {
        pg_stream_wrote(s->p, events, n);
    }
    free(events);
}

static void on_appended(void *arg, const struct pg_result *r, const struct err *e)
{
    struct pg_session *s = arg;
    struct session_request *batch = s->batch, *meta = s->meta;
    struct store_appended a = {0};
    assert(batch != NULL);
    s->batch = s->meta = NULL;
    if (r != NULL) {
        uint64_t seq = (uint64_t)pg_get_int(r, 0, 0);
        a.ts = pg_get_int(r, 0, 2);
        a.last_seq = seq - 1;
        s->known = MAX(s->known, (int64_t)(seq + s->batch_n - 1));
        hand_on(s, batch, seq, (uint64_t)pg_get_int(r, 0, 1), a.ts);
    }
    for (struct session_request *next; batch != NULL; batch = next) {
        next = batch->next;
        if (e != NULL) {
            fail(batch, e);
            continue;
        }
        a.first_seq = a.last_seq + 1;
        a.last_seq += batch->n;
        batch->result = a;
        finish(batch);
    }
    if (meta != NULL && e != NULL) {
        fail(meta, e);
    } else if (meta != NULL) {
        finish(meta);
    }
    answered(s);
}

/// What lists show of a session, out of its metadata, as parameters; texts are in the arena and in `op`.
struct row_params {
    struct arena a;
    struct pg_number room;
    struct pg_param kind, state, title, meta, started_at;
};

/// `op` NULL: none of it changes.
static void row_params_init(struct row_params *p, const struct session_request *op)
{
    struct index_row x = {0};
    p->a = (struct arena){0};
    p->kind = p->state = p->title = p->meta = p->started_at = PG_NULL;
    if (op != NULL) {
        index_row_from_meta(&x, str_of(op->pg->id), op->dir, op->meta, &p->a);
        p->kind = pg_text(x.row.kind);
        p->state = pg_text(x.row.state);
        p->title = pg_text(x.row.title);
        p->meta = pg_text(op->meta);
        p->started_at = pg_int(&p->room, x.row.started_at);
    }
}

static void append(struct pg_session *s)
{
    struct pg_number n[3];
    struct buf types = {.max = SIZE_MAX}, fields = {.max = SIZE_MAX};
    struct row_params row;
    row_params_init(&row, s->meta);
    pg_array_begin(&types, s->batch_n);
    pg_array_begin(&fields, s->batch_n);
    for (const struct session_request *op = s->batch; op != NULL; op = op->next) {
        for (size_t i = 0; i < op->n; i++) {
            pg_array_add(&types, op->events[i].type);
            pg_array_add(&fields, op->events[i].fields);
        }
    }
    const struct pg_param params[] = {pg_text(str_of(s->id)),
                                      pg_text(str_of(s->p->hub)),
                                      pg_int(&n[0], s->epoch),
                                      pg_int(&n[1], s->known),
                                      pg_int(&n[2], pg_token()),
                                      pg_array(&types),
                                      pg_array(&fields),
                                      row.kind,
                                      row.state,
                                      row.title,
                                      row.meta,
                                      row.started_at};
    s->under_way++;
    pg_query(s->p->pg, s->key, &stmt_append, params, 12, on_appended, s);
    buf_fini(&types);
    buf_fini(&fields);
    arena_fini(&row.a);
}

/// Take the appends at the head of the queue and write them, with the metadata that follow. An append of nothing is
/// answered by it too.
static void begin_append(struct pg_session *s)
{
    fifo(struct session_request) batch = {0};
    const struct session_request *op;
    size_t bytes = 0;
    assert(s->batch == NULL && s->meta == NULL);
    s->batch_n = 0;
    while ((op = s->queue.head) != NULL && op->kind == SESSION_APPEND && op->status == 0 &&
           (s->batch_n == 0 ||
            (bytes + op->bytes <= BATCH_BYTES && s->batch_n + op->n <= BATCH_EVENTS))) {
        bytes += op->bytes;
        s->batch_n += op->n;
        fifo_add(&batch, fifo_take(&s->queue));
    }
    s->batch = batch.head;
    if (op != NULL && op->kind == SESSION_META && op->status == 0) {
        s->meta = fifo_take(&s->queue);
    }
    append(s);
}

// ---- the others -------------------------------------------------------------------------------

static void on_read(void *arg, const struct pg_result *r, const struct err *e)
{
    struct session_request *op = arg;
    struct pg_session *s = op->pg;
    struct err own;
    struct buf *lines = &op->lines;
    struct store_page *page = &op->page;
    if (e == NULL && pg_rows(r) == 0) {
        err_set(&own, ERR_NOT_FOUND, "session '%s' does not exist", s->id);
        e = &own;
    }
    if (e != NULL) {
        fail(op, e);
        answered(s);
        return;
    }
    page->next = op->after;
    for (size_t i = 0; i < pg_rows(r) && !pg_is_null(r, i, 1); i++, page->n++) {
        struct store_event ev = {.type = pg_get(r, i, 3), .fields = pg_get(r, i, 4)};
        page->next = (uint64_t)pg_get_int(r, i, 1);
        journal_line_make(lines, page->next, pg_get_int(r, i, 2), &ev);
    }
    page->lines = buf_str(lines);
    page->last_seq = (uint64_t)pg_get_int(r, 0, 0);
    finish(op);
    answered(s);
}

static void begin_read(struct pg_session *s, struct session_request *op)
{
    struct pg_number n[3];
    int64_t after = (int64_t)MIN(op->after, (uint64_t)INT64_MAX);
    const struct pg_param params[] = {pg_text(str_of(s->id)), pg_int(&n[0], after),
                                      pg_int(&n[1], (int64_t)MIN(op->limit, (size_t)INT32_MAX)),
                                      pg_int(&n[2], PAGE_BYTES)};
    pg_query(s->p->pg, s->key, &stmt_read, params, 4, on_read, op);
}

/// The directory for what stays on this machine; blocks.
static int make_dir(const struct pg_session *s, struct str dir, struct err *e)
{
    char *path = xasprintf("%s/" STR_FMT, s->p->home, STR_ARG(dir));
    int rc = path_mkdirs(path, 0700, e);
    free(path);
    return rc;
}

/// A claim that was granted, until the directory is there.
struct claim {
    struct session_request *op;
    struct arena a;
    struct store_row row; // in the arena
    int status;
    struct err err;
};

static void claim_work(void *arg)
{
    struct claim *c = arg;
    c->status = make_dir(c->op->pg, c->row.dir, &c->err);
}

static void on_claim_ready(void *arg)
{
    struct claim *c = arg;
    struct pg_session *s = c->op->pg;
    s->blocked = false;
    if (c->status < 0) {
        fail(c->op, &c->err);
    } else {
        c->op->row = &c->row;
        finish(c->op);
    }
    arena_fini(&c->a);
    free(c);
    answered(s);
}

static void on_claimed(void *arg, const struct pg_result *r, const struct err *e)
{
    struct session_request *op = arg;
    struct pg_session *s = op->pg;
    struct err own;
    if (e == NULL && !walk_dir_valid(pg_get(r, 0, 2), str_of(s->id))) {
        err_set(&own, ERR_CORRUPT, "the store has an invalid directory for session '%s'", s->id);
        e = &own;
    }
    if (e != NULL) {
        s->blocked = false;
        fail(op, e);
        answered(s);
        return;
    }
    struct claim *c = xcalloc(1, sizeof *c);
    c->op = op;
    c->row = pg_store__row(r, 0, 1);
    struct str *const texts[] = {&c->row.id,    &c->row.dir,   &c->row.kind,
                                 &c->row.state, &c->row.title, &c->row.meta};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        *texts[i] = arena_str(&c->a, *texts[i]);
    }
    s->epoch = pg_get_int(r, 0, 0);
    s->known = MAX(s->known, (int64_t)c->row.last_seq);
    work_submit(s->p->files, 0, claim_work, on_claim_ready, c);
}

static void new_work(void *arg)
{
    struct session_request *op = arg;
    op->status = make_dir(op->pg, op->dir, &op->err);
}

static void send_row(struct session_request *op)
{
    struct pg_session *s = op->pg;
    struct pg_number n;
    struct row_params r;
    bool fresh = op->kind == SESSION_NEW;
    struct pg_param id = pg_text(str_of(s->id)), number = pg_int(&n, fresh ? pg_token() : s->epoch);
    row_params_init(&r, op);
    const struct pg_param made[] = {id,      pg_text(op->dir), r.kind,       r.state,
                                    r.title, r.meta,           r.started_at, number};
    const struct pg_param changed[] = {
        id, pg_text(str_of(s->p->hub)), number, r.kind, r.state, r.title, r.meta, r.started_at};
    pg_query(s->p->pg, s->key, fresh ? &stmt_new : &stmt_meta, fresh ? made : changed, 8, on_done,
             op);
    arena_fini(&r.a);
}

static void on_dir(void *arg)
{
    struct session_request *op = arg;
    struct pg_session *s = op->pg;
    if (op->status == 0 && s->p->gone) {
        op->status = err_set(&op->err, -ECANCELED, "the store is being closed");
    }
    if (op->status < 0) {
        s->blocked = false;
        fail(op, &op->err);
        answered(s);
    } else {
        send_row(op);
    }
}

// ---- the queue --------------------------------------------------------------------------------

static void begin(struct pg_session *s, struct session_request *op)
{
    struct pg_store *p = s->p;
    struct pg_number n;
    const struct pg_param params[] = {pg_text(str_of(s->id)), pg_text(str_of(p->hub)),
                                      pg_int(&n, s->epoch)};
    s->under_way++;
    switch (op->kind) {
    case SESSION_NEW:
        s->blocked = true;
        work_submit(p->files, 0, new_work, on_dir, op);
        break;
    case SESSION_META: send_row(op); break;
    case SESSION_REMOVE: pg_query(p->pg, s->key, &stmt_remove, params, 3, on_done, op); break;
    case SESSION_READ: begin_read(s, op); break;
    case SESSION_CLAIM:
        s->blocked = true;
        pg_query(p->pg, s->key, &stmt_claim, params, 2, on_claimed, op);
        break;
    case SESSION_RELEASE:
        s->epoch = 0;
        pg_query(p->pg, s->key, &stmt_release, params, 3, on_done, op);
        break;
    case SESSION_APPEND: assert(false); // they go in batches
    }
}

static void forget(struct pg_session *s)
{
    map_remove(&s->p->sessions, str_of(s->id));
    free(s->id);
    free(s);
}

static void pump(void *arg)
{
    struct pg_session *s = arg;
    s->task = NULL;
    bool appends =
        s->queue.head != NULL && s->queue.head->kind == SESSION_APPEND && s->batch == NULL;
    if (appends && s->lingered < LINGER_MAX && loop_has_tasks(s->p->loop)) {
        s->lingered++;
        poke(s);
        return;
    }
    s->lingered = 0;
    while (s->queue.head != NULL && !s->blocked) {
        struct session_request *op = s->queue.head;
        if (s->p->gone) {
            op->status = err_set(&op->err, -ECANCELED, "the store is being closed");
        }
        if (op->status == 0 && op->kind == SESSION_APPEND) {
            if (s->known < 0) {
                ask_known(s);
            } else if (s->batch == NULL) {
                begin_append(s);
                continue;
            }
            break;
        }
        fifo_take(&s->queue);
        if (op->status < 0) {
            fail(op, &op->err);
        } else {
            begin(s, op);
        }
    }
    bool idle = s->queue.head == NULL && s->under_way == 0 && s->task == NULL && s->epoch == 0;
    if (idle && (s->p->closing || s->p->sessions.n > SESSIONS_MAX || s->known < 0)) {
        forget(s);
    }
}

static void poke(struct pg_session *s)
{
    if (s->task == NULL) {
        s->task = loop_defer(s->p->loop, pump, s);
    }
}

static struct pg_session *find(struct pg_store *p, struct str id)
{
    struct pg_session *s = map_get(&p->sessions, id);
    if (s == NULL) {
        s = xcalloc(1, sizeof *s);
        s->p = p;
        s->id = str_dup(id);
        s->key = 1 + map_hash(id) % 1021;
        s->known = -1;
        map_set(&p->sessions, id, s);
    }
    return s;
}

// ---- public -----------------------------------------------------------------------------------

/// The checks of a journal. What is too large to be parsed on the loop comes from our own writer.
static void check_events(struct session_request *op)
{
    struct buf line;
    buf_init(&line, (size_t)STORE_LINE_MAX + 4096);
    for (size_t i = 0; i < op->n && op->status == 0; i++) {
        const struct store_event *ev = &op->events[i];
        buf_clear(&line);
        if (ev->fields.n < CHECK_BYTES) {
            op->status = journal_encode(&line, 1, 0, ev, &op->err);
        } else if (ev->fields.n >= STORE_LINE_MAX - 512) {
            op->status =
                err_set(&op->err, ERR_TOO_LARGE, "event is above %d bytes", STORE_LINE_MAX);
        }
    }
    buf_fini(&line);
}

void pg_session_request(struct store *store, struct str id, struct session_request *op)
{
    struct pg_store *p = pg_store_of(store);
    struct pg_session *s = find(p, store_id_valid(id) ? id : STR(""));
    if (op->kind == SESSION_APPEND) {
        check_events(op);
    }
    session_request__admit(op, id, &s->queued_bytes);
    op->pg = s;
    fifo_add(&s->queue, op);
    pg_store__hold(p);
    poke(s);
}

void pg_sessions_fini(struct pg_store *p)
{
    size_t at = 0;
    struct str id;
    void *value;
    while (map_next(&p->sessions, &at, &id, &value)) {
        struct pg_session *s = value;
        assert(s->queue.head == NULL && s->under_way == 0);
        if (s->task != NULL) {
            loop_cancel(p->loop, s->task);
        }
        forget(s);
    }
    map_fini(&p->sessions);
}
