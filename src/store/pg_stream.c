// The stream over all hubs.
//
//     our append or emit, committed ──┐ the next ids: at once
//                                     ├──> follow(), in order, each once
//     NOTIFY (highest id) ─┐          │
//     a look every second ─┴─> fetch ─┘ all after `seen`
//
// Ids are given out under a lock that is held until the commit, so an event that can be seen has no
// invisible one before it: one cursor is enough, and what was fetched is never passed over. Our own events are
// handed on without fetching when no other hub wrote between; otherwise they come with the fetch.
//
// Invariants:
//   - follow() is called with rising ids; `seen` is the last.
//   - at most one fetch and one write of hub events are under way.

#include <assert.h>

#include "base/log.h"
#include "store/pg_store.h"

enum {
    PAGE = 1000,
    PAGE_BYTES = 256 << 10,
    POLL_MS = 1000,
    EMITS_MAX = 8192,
    EMIT_BYTES = 8 << 20,
    BATCH = 500,
};

static const struct pg_stmt stmt_page = {
    "stream_page",
    "SELECT (SELECT coalesce(max(last), 0) FROM afloat.streams WHERE owner = current_user),"
    " e.id, coalesce(e.seq, 0), e.ts, e.hub, e.type, coalesce(e.session, ''), e.fields"
    " FROM (VALUES (0)) AS one LEFT JOIN ("
    "  SELECT * FROM (SELECT *, sum(octet_length(fields)) OVER (ORDER BY id) - octet_length(fields)"
    "   AS before FROM (SELECT * FROM afloat.events WHERE owner = current_user AND id > $1"
    "   ORDER BY id LIMIT $2) AS page) AS sized WHERE before < $3) AS e ON true ORDER BY e.id"};
static const struct pg_stmt stmt_emit = {"emit",
                                         "SELECT * FROM afloat.emit($1, $2, $3, $4, $5, $6)"};
static const struct pg_stmt stmt_last = {
    "stream_last", "SELECT coalesce(max(last), 0) FROM afloat.streams WHERE owner = current_user"};

// all of the stream on one connection, and not that of the first session
#define KEY 0

// ---- reading ----------------------------------------------------------------------------------

static struct store_stream_event event_at(const struct pg_store *p, const struct pg_result *r,
                                          size_t i)
{
    return (struct store_stream_event){.id = (uint64_t)pg_get_int(r, i, 1),
                                       .seq = (uint64_t)pg_get_int(r, i, 2),
                                       .ts = pg_get_int(r, i, 3),
                                       .own = str_eqz(pg_get(r, i, 4), p->hub),
                                       .type = pg_get(r, i, 5),
                                       .session = pg_get(r, i, 6),
                                       .fields = pg_get(r, i, 7)};
}

/// A page without events is one row without an id.
static size_t page_rows(const struct pg_result *r)
{
    return pg_rows(r) == 1 && pg_is_null(r, 0, 1) ? 0 : pg_rows(r);
}

static void ask_page(struct pg_store *p, uint64_t after, size_t limit, pg_cb *cb, void *arg)
{
    struct pg_number n[3];
    const struct pg_param params[] = {pg_int(&n[0], (int64_t)MIN(after, (uint64_t)INT64_MAX)),
                                      pg_int(&n[1], (int64_t)limit), pg_int(&n[2], PAGE_BYTES)};
    pg_store__hold(p);
    pg_query(p->pg, KEY, &stmt_page, params, 3, cb, arg);
}

struct reading {
    struct pg_store *p;
    uint64_t after;
    store_stream_page_cb *cb;
    void *arg;
};

static void on_read(void *arg, const struct pg_result *r, const struct err *e)
{
    struct reading q = *(struct reading *)arg;
    struct store_stream_page page = {.next = q.after};
    vec(struct store_stream_event) events = {0};
    free(arg);
    for (size_t i = 0; r != NULL && i < page_rows(r); i++) {
        vec_push(&events, event_at(q.p, r, i));
        page.next = vec_last(&events)->id;
    }
    page.last = r != NULL ? (uint64_t)pg_get_int(r, 0, 0) : 0;
    page.events = events.p;
    page.n = events.n;
    q.cb(q.arg, e != NULL ? e->code : 0, &page, e);
    vec_fini(&events);
    pg_store__release(q.p);
}

void pg_stream_read(struct store *s, uint64_t after, size_t limit, store_stream_page_cb *cb,
                    void *arg)
{
    struct reading *q = xmalloc(sizeof *q);
    *q = (struct reading){.p = pg_store_of(s), .after = after, .cb = cb, .arg = arg};
    ask_page(q->p, after, limit, on_read, q);
}

// ---- following --------------------------------------------------------------------------------

static void fetch(struct pg_store *p);

static void hand_on(struct pg_store *p, const struct store_stream_event *ev)
{
    if (ev->id > p->seen) {
        p->seen = ev->id;
        p->follow(p->follow_arg, ev);
    }
}

static void tell_followed(struct pg_store *p, const struct err *e)
{
    store_done *ready = p->follow_ready;
    p->follow_ready = NULL;
    if (ready != NULL) {
        ready(p->follow_arg, e != NULL ? e->code : 0, e);
    }
}

/// A copy of the server that was behind took over, or a backup was restored: the ids after `last` are given out again, and
/// we take their events for known ones.
static void check_last(struct pg_store *p, uint64_t last)
{
    if (last < p->from && p->lost.code == 0) {
        err_set(&p->lost, ERR_CORRUPT,
                "the server has lost the events after %llu, of %llu; restart the hub to continue "
                "from there",
                (unsigned long long)last, (unsigned long long)p->from);
        log_error(LOG_STORE, "stream=behind reason=%s", LOGQ(str_of(p->lost.msg)).z);
    }
}

static void on_fetched(void *arg, const struct pg_result *r, const struct err *e)
{
    struct pg_store *p = arg;
    uint64_t last = r != NULL ? (uint64_t)pg_get_int(r, 0, 0) : 0;
    p->fetching = false;
    if (r != NULL) {
        check_last(p, last);
    }
    for (size_t i = 0; r != NULL && p->follow != NULL && i < page_rows(r); i++) {
        struct store_stream_event ev = event_at(p, r, i);
        hand_on(p, &ev);
    }
    p->heard = MAX(p->heard, last);
    if (r != NULL && page_rows(r) == 0) { // what is missing was removed
        p->seen = MAX(p->seen, last);
        // a server that lost commits told of events that it does not have: do not ask for them again at once
        p->heard = p->heard == p->asked ? p->seen : p->heard;
    }
    bool goes_on = p->follow != NULL && !p->closing;
    if (goes_on && (e != NULL || p->heard <= p->seen)) {
        tell_followed(p, e);
        timer_start(&p->poll, POLL_MS);
    } else if (goes_on) {
        fetch(p);
    }
    pg_store__release(p);
}

static void fetch(struct pg_store *p)
{
    if (!p->fetching && p->follow != NULL && !p->closing) {
        p->fetching = true;
        p->asked = p->heard;
        p->from = p->seen;
        timer_stop(&p->poll);
        ask_page(p, p->seen, PAGE, on_fetched, p);
    }
}

static void on_poll(void *arg)
{
    fetch(arg);
}

void pg_stream_init(struct pg_store *p)
{
    timer_init(&p->poll, p->loop, on_poll, p);
}

void pg_stream_heard(struct pg_store *p, uint64_t id)
{
    p->heard = MAX(p->heard, id);
    if (id == 0 || id > p->seen) {
        fetch(p);
    }
}

void pg_stream_wrote(struct pg_store *p, const struct store_stream_event *events, size_t n)
{
    assert(n != 0);
    if (p->follow == NULL || p->closing || p->follow_ready != NULL) {
        return;
    }
    p->heard = MAX(p->heard, events[n - 1].id);
    if (events[0].id == p->seen + 1) {
        for (size_t i = 0; i < n && p->follow != NULL; i++) {
            hand_on(p, &events[i]);
        }
    } else if (events[n - 1].id > p->seen) {
        fetch(p);
    }
}

struct following {
    struct pg_store *p;
    size_t backlog;
};

static void on_last(void *arg, const struct pg_result *r, const struct err *e)
{
    struct following q = *(struct following *)arg;
    struct pg_store *p = q.p;
    free(arg);
    if (e != NULL) {
        tell_followed(p, e);
    } else if (p->follow != NULL) {
        p->heard = (uint64_t)pg_get_int(r, 0, 0);
        p->seen = p->heard > q.backlog ? p->heard - q.backlog : 0;
        fetch(p);
    }
    pg_store__release(p);
}

void pg_stream_follow(struct store *s, size_t backlog, store_stream_cb *cb, store_done *ready,
                      void *arg)
{
    struct pg_store *p = pg_store_of(s);
    struct following *q = xmalloc(sizeof *q);
    assert(p->follow == NULL);
    p->follow = cb;
    p->follow_ready = ready;
    p->follow_arg = arg;
    *q = (struct following){.p = p, .backlog = backlog};
    pg_store__hold(p);
    pg_query(p->pg, KEY, &stmt_last, NULL, 0, on_last, q);
}

void pg_stream_unfollow(struct store *s)
{
    struct pg_store *p = pg_store_of(s);
    p->follow = NULL;
    p->follow_ready = NULL;
    timer_stop(&p->poll);
}

// ---- events of the hub itself -----------------------------------------------------------------

struct pg_emit {
    struct pg_emit *next;
    struct str type, session, fields; // in the same block of memory
    store_emit_cb *cb;
    void *arg;
};

struct emitting {
    struct pg_store *p;
    struct pg_emit *list;
    size_t n;
};

static void emit_next(struct pg_store *p);

static void hand_on_emitted(const struct emitting *q, uint64_t first_id, int64_t ts)
{
    struct store_stream_event *events = xcalloc(q->n, sizeof *events);
    size_t i = 0;
    for (const struct pg_emit *m = q->list; m != NULL; m = m->next, i++) {
        events[i] = (struct store_stream_event){.id = first_id + i,
                                                .ts = ts,
                                                .own = true,
                                                .type = m->type,
                                                .session = m->session,
                                                .fields = m->fields};
    }
    pg_stream_wrote(q->p, events, q->n);
    free(events);
}

static void on_emitted(void *arg, const struct pg_result *r, const struct err *e)
{
    struct emitting q = *(struct emitting *)arg;
    struct pg_store *p = q.p;
    uint64_t id = r != NULL ? (uint64_t)pg_get_int(r, 0, 0) : 0;
    free(arg);
    p->emitting = false;
    if (r != NULL) {
        hand_on_emitted(&q, id, pg_get_int(r, 0, 1));
    } else {
        p->dropped += q.n;
    }
    for (struct pg_emit *m = q.list, *next; m != NULL; m = next, id++) {
        next = m->next;
        if (m->cb != NULL) {
            m->cb(m->arg, r != NULL ? id : 0, e);
        }
        free(m);
    }
    emit_next(p);
    pg_store__release(p);
}

/// Send the events that wait, one request at a time: those that come meanwhile share the next one.
static void emit_next(struct pg_store *p)
{
    struct buf lists[3];
    struct pg_number n[2];
    size_t count = MIN(p->n_emits, (size_t)BATCH);
    if (p->emitting || count == 0) {
        return;
    }
    struct emitting *q = xmalloc(sizeof *q);
    fifo(struct pg_emit) batch = {0};
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        buf_init(&lists[k], SIZE_MAX);
        pg_array_begin(&lists[k], count);
    }
    for (size_t i = 0; i < count; i++) {
        struct pg_emit *m = fifo_take(&p->emits);
        fifo_add(&batch, m);
        pg_array_add(&lists[0], m->session);
        pg_array_add(&lists[1], m->type);
        pg_array_add(&lists[2], m->fields);
        p->emit_bytes -= m->fields.n;
    }
    *q = (struct emitting){.p = p, .list = batch.head, .n = count};
    p->n_emits -= count;
    p->emitting = true;
    pg_store__hold(p);
    if (p->gone) {
        struct err e;
        err_set(&e, UV_ECANCELED, "the store is being closed");
        on_emitted(q, NULL, &e);
    } else {
        const struct pg_param params[] = {
            pg_text(str_of(p->hub)),   pg_int(&n[0], (int64_t)p->seen),
            pg_int(&n[1], pg_token()), pg_array(&lists[0]),
            pg_array(&lists[1]),       pg_array(&lists[2])};
        pg_query(p->pg, KEY, &stmt_emit, params, 6, on_emitted, q);
    }
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        buf_fini(&lists[k]);
    }
}

void pg_stream_emit(struct store *s, struct str type, struct str session, struct str fields,
                    store_emit_cb *cb, void *arg)
{
    struct pg_store *p = pg_store_of(s);
    if (p->n_emits >= EMITS_MAX || p->emit_bytes + fields.n > EMIT_BYTES || p->closing) {
        struct err e;
        err_set(&e, UV_ENOBUFS, "too many events wait for PostgreSQL");
        p->dropped++;
        if (cb != NULL) {
            cb(arg, 0, &e);
        }
        return;
    }
    struct pg_emit *m = xcalloc(1, sizeof *m + type.n + session.n + fields.n);
    char *at = (char *)(m + 1);
    const struct str from[] = {type, session, fields};
    struct str *const to[] = {&m->type, &m->session, &m->fields};
    for (size_t i = 0; i < ARRAY_LEN(from); i++) {
        if (from[i].n != 0) {
            memcpy(at, from[i].p, from[i].n);
        }
        *to[i] = (struct str){at, from[i].n};
        at += from[i].n;
    }
    m->cb = cb;
    m->arg = arg;
    fifo_add(&p->emits, m);
    p->n_emits++;
    p->emit_bytes += fields.n;
    emit_next(p);
}
