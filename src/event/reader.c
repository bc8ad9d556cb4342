// Readers of the hub's stream: a cursor, a filter, and being told.
//
//     emit ──> ring, channel due ──> a round: its readers become `batch` ──> wake(r)
//                                                                              │
//     `waiting` of the channel <── peek: frames that fit, or a gap <───────────┘
//
// Readers of one session have a channel of their own, and a session's events are linked in the ring:
// an event costs nothing for the readers of other sessions.
//
// A round tells READERS_PER_TURN readers in a turn of the loop. What is emitted meanwhile reaches the
// readers still in the batch with this round and the others with the next one. Telling a reader costs a
// system call, whatever it carries, so the rounds of a busy stream keep a distance of READER_NS for each
// reader: each then carries more. The first event after a silence goes out at once.
//
// Invariants:
//   - a reader is in `waiting` of its channel or in `batch` exactly while !parked && !told.
//   - gap_to != 0 exactly while the gap in r->own has to be read first.
//   - a session's channel exists while it has readers, or is due.

#include <assert.h>

#include "event/event_int.h"
#include "proto/events.h"

enum { READER_NS = 4000, READERS_PER_TURN = 256 };

// Patterns of types, shared by all readers with the same text. An event remembers the result for the
// patterns tried last, so a thousand readers of one kind cost one comparison.
struct event__types {
    uint32_t number; // never given twice
    unsigned readers;
    size_t n;
    char text[];
};

// ---- lists --------------------------------------------------------------------------------

static bool is_listed(const struct event__node *n)
{
    return n->next != n;
}

static void list_remove(struct event__node *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->prev = n->next = n;
}

static void list_add(struct event__node *list, struct event__node *n)
{
    assert(!is_listed(n));
    n->prev = list->prev;
    n->next = list;
    n->prev->next = list->prev = n;
}

static void list_move_all(struct event__node *to, struct event__node *from)
{
    if (!is_listed(from)) {
        return;
    }
    from->next->prev = to->prev;
    from->prev->next = to;
    to->prev->next = from->next;
    to->prev = from->prev;
    from->prev = from->next = from;
}

// ---- channels -----------------------------------------------------------------------------

uint64_t event__session_hash(struct str session)
{
    return MAX(map_hash(session), 1);
}

struct event__channel *event__channel_new(struct str session)
{
    struct event__channel *ch = xcalloc(1, sizeof *ch + session.n + 1);
    ch->waiting.prev = ch->waiting.next = &ch->waiting;
    ch->session = session.n != 0 ? event__session_hash(session) : 0;
    memcpy(ch->name, session.p != NULL ? session.p : "", session.n);
    return ch;
}

void event__link(struct event_log *log, struct event__channel *ch, uint64_t id)
{
    assert(id > ch->last);
    if (ring_holds(&log->ring, ch->last)) {
        ring_entry(&log->ring, ch->last)->next = (uint32_t)(id - ch->last);
    }
    ch->last = id;
}

/// The channel of a session's readers. The first one links what the ring has of it.
static struct event__channel *channel_join(struct event_log *log, struct str session)
{
    struct event__channel *ch = session.n != 0 ? map_get(&log->channels, session) : log->all;
    if (ch == NULL) {
        ch = event__channel_new(session);
        map_set(&log->channels, session, ch);
        for (uint64_t id = log->ring.first; id < log->ring.next; id++) {
            if (ring_entry(&log->ring, id)->session == ch->session) {
                event__link(log, ch, id);
            }
        }
    }
    ch->n_readers++;
    return ch;
}

static void channel_leave(struct event_log *log, struct event__channel *ch)
{
    assert(ch->n_readers != 0);
    if (--ch->n_readers == 0 && ch != log->all) {
        map_remove(&log->channels, str_of(ch->name));
        log->span.channel = NULL;
        if (!ch->due) {
            free(ch); // else with the round
        }
    }
}

static struct event__types *types_share(struct event_log *log, struct str text)
{
    struct event__types *t = text.n != 0 ? map_get(&log->types, text) : NULL;
    if (t == NULL && text.n != 0) {
        t = xcalloc(1, sizeof *t + text.n);
        t->number = ++log->types_given;
        t->n = text.n;
        memcpy(t->text, text.p, text.n);
        map_set(&log->types, text, t);
    }
    if (t != NULL) {
        t->readers++;
    }
    return t;
}

// ---- reading ------------------------------------------------------------------------------

bool event__types_fit(const struct event_reader *r, struct str type)
{
    return r->types == NULL || event_type_matches((struct str){r->types->text, r->types->n}, type);
}

static bool types_fit(const struct event_reader *r, uint64_t id)
{
    struct ring_entry *entry = ring_entry(&r->log->ring, id);
    if (r->own_only && entry->foreign) {
        return false;
    }
    if (r->types == NULL) {
        return true;
    }
    if (entry->asked != r->types->number) {
        entry->asked = r->types->number;
        entry->fits = event__types_fit(r, ring_type(&r->log->ring, id));
    }
    return entry->fits;
}

uint64_t event__find(const struct event_reader *r, uint64_t from)
{
    const struct event__channel *ch = r->channel;
    const struct ring *ring = &r->log->ring;
    if (ch->session == 0) {
        return from;
    }
    if (ch->last < from) {
        return MAX(from, ring->next);
    }
    if (ring_holds(ring, r->at) && r->at < from) {
        from = MAX(from, r->at + ring_entry(ring, r->at)->next); // between are other sessions
    }
    while (from < ring->next && ring_entry(ring, from)->session != ch->session) {
        from++;
    }
    return from;
}

// The frame's id is the last one missed: a reader that comes back with it continues after the gap.
void event__set_gap(struct event_reader *r, uint64_t from, uint64_t to)
{
    unsigned long long a = from, b = to;
    r->gap_from = from;
    r->gap_to = to;
    buf_clear(&r->own);
    buf_addf(&r->own, "id: %llu\nevent: stream.gap\n", b);
    buf_addf(&r->own, "data: {\"id\":%llu,\"type\":\"stream.gap\",\"from\":%llu,\"to\":%llu}\n\n",
             b, a, b);
}

/// Bring the cursor to the next event for this reader. False when there is none.
static bool advance(struct event_reader *r)
{
    const struct ring *ring = &r->log->ring;
    if (r->journal) {
        return feed__advance(r);
    }
    if (past__needed(r)) {
        return past__advance(r);
    }
    if (r->cursor < ring->first) {
        event__set_gap(r, r->gap_to != 0 ? r->gap_from : r->cursor, ring->first - 1);
        r->cursor = ring->first;
    }
    if (r->gap_to != 0) {
        return true;
    }
    while ((r->cursor = event__find(r, r->cursor)) < ring->next && !types_fit(r, r->cursor)) {
        r->at = r->cursor++;
    }
    return r->cursor < ring->next;
}

// ---- waking -------------------------------------------------------------------------------

static void wake_soon(struct event_log *log);

static void wake_some(void *arg)
{
    struct event_log *log = arg;
    log->wake = NULL;
    if (!is_listed(&log->batch)) { // a new round
        log->woke_at = loop_now(log->loop);
        while (log->due != NULL) {
            struct event__channel *ch = log->due;
            log->due = ch->next_due;
            ch->due = false;
            list_move_all(&log->batch, &ch->waiting);
            if (ch->n_readers == 0 && ch != log->all) {
                free(ch);
            }
        }
    }
    for (int i = 0; i < READERS_PER_TURN && is_listed(&log->batch); i++) {
        struct event_reader *r = container_of(log->batch.next, struct event_reader, node);
        list_remove(&r->node);
        if (advance(r)) {
            r->told = true;
            r->wake(r->arg); // may close r, or any other reader
        } else {
            list_add(&r->channel->waiting, &r->node);
        }
    }
    if (is_listed(&log->batch)) {
        event__wake_now(log);
    } else if (log->due != NULL) {
        wake_soon(log);
    }
}

void event__wake_now(void *arg)
{
    struct event_log *log = arg;
    if (log->wake == NULL) {
        log->wake = loop_defer(log->loop, wake_some, log);
    }
}

static void wake_soon(struct event_log *log)
{
    uint64_t n = 0, since = loop_now(log->loop) - log->woke_at;
    if (log->wake != NULL || timer_running(&log->later)) {
        return;
    }
    for (const struct event__channel *ch = log->due; ch != NULL; ch = ch->next_due) {
        n += ch->n_readers;
    }
    if (since >= n * READER_NS / 1000000) {
        event__wake_now(log);
    } else {
        timer_start(&log->later, n * READER_NS / 1000000 - since);
    }
}

void event__touch(struct event_log *log, struct event__channel *ch)
{
    if (ch == NULL || ch->n_readers == 0) {
        return;
    }
    if (!ch->due) {
        ch->due = true;
        ch->next_due = log->due;
        log->due = ch;
    }
    wake_soon(log);
}

void event__wake_reader(struct event_reader *r)
{
    if (is_listed(&r->node)) {
        list_remove(&r->node);
        list_add(&r->log->batch, &r->node);
        event__wake_now(r->log);
    }
}

struct event_reader *event__end_read(struct event_reader *r)
{
    assert(r->reading && r->own.n == 0);
    r->reading = false;
    if (r->closed) {
        free(r);
        return NULL;
    }
    return r;
}

static void wait_for_more(struct event_reader *r)
{
    if (!is_listed(&r->node) && !r->parked && !r->told) {
        list_add(&r->channel->waiting, &r->node);
    }
}

// ---- public -------------------------------------------------------------------------------

static void place(struct event_reader *r, uint64_t after)
{
    const struct ring *ring = &r->log->ring;
    r->cursor = after == 0 ? ring->first : after < ring->next ? after + 1 : ring->next;
    if (r->log->shared && after >= ring->next && after != UINT64_MAX) {
        r->cursor = after + 1; // another hub may have given it out, and we not heard of it yet
        r->unsure = true;
    } else if (after >= ring->next && after != UINT64_MAX && ring->next > 1) {
        event__set_gap(r, 1, ring->next - 1);
    }
}

struct event_reader *event_reader_open(struct event_log *log, uint64_t after,
                                       const struct event_filter *f, event_wake *wake, void *arg)
{
    static const struct event_filter everything;
    struct event_reader *r = xcalloc(1, sizeof *r);
    f = f != NULL ? f : &everything;
    r->log = log;
    r->wake = wake;
    r->arg = arg;
    r->node.prev = r->node.next = &r->node;
    r->channel = channel_join(log, f->session);
    buf_init(&r->own, SIZE_MAX);
    if (f->journal) {
        assert(f->session.n != 0 && f->turn.n < sizeof r->turn);
        r->journal = true;
        r->seq = after;
        r->born = log->ring.next;
        memcpy(r->turn, f->turn.n != 0 ? f->turn.p : "", f->turn.n);
        r->channel->shown = MAX(r->channel->shown, f->shown);
    } else {
        r->types = types_share(log, f->types);
        r->own_only = f->own;
        r->session = f->session.n != 0 ? str_dup(f->session) : NULL;
        place(r, after);
    }
    log->n_readers++;
    r->parked = true;
    event_reader_park(r, false);
    return r;
}

void event_reader_close(struct event_reader *r)
{
    if (r == NULL) {
        return;
    }
    assert(!r->closed);
    list_remove(&r->node);
    r->log->n_readers--;
    channel_leave(r->log, r->channel);
    if (r->types != NULL && --r->types->readers == 0) {
        map_remove(&r->log->types, (struct str){r->types->text, r->types->n});
        free(r->types);
    }
    buf_fini(&r->own);
    free(r->session);
    r->session = NULL;
    r->closed = true;
    if (!r->reading) {
        free(r);
    }
}

struct str event_reader_peek(struct event_reader *r, size_t max)
{
    const struct ring *ring = &r->log->ring;
    uint64_t session = r->channel->session;
    r->told = false;
    wait_for_more(r);
    if (!advance(r)) {
        return STR_NULL;
    }
    if (r->journal) {
        return feed__peek(r, max);
    }
    r->peeked = r->cursor;
    if (r->past) {
        return past__peek(r, max);
    }
    if (r->gap_to != 0) {
        return buf_str(&r->own);
    }
    struct str run = ring_frame(ring, r->peeked++); // and its neighbours in memory that fit
    for (; r->peeked < ring->next; r->peeked++) {
        struct str frame = ring_frame(ring, r->peeked);
        bool same = session == 0 || ring_entry(ring, r->peeked)->session == session;
        if (frame.p != run.p + run.n || run.n + frame.n > max || !same ||
            !types_fit(r, r->peeked)) {
            break;
        }
        run.n += frame.n;
    }
    return run;
}

void event_reader_next(struct event_reader *r)
{
    if (r->journal) {
        feed__next(r);
        return;
    }
    if (r->past) {
        past__next(r);
        return;
    }
    // a wake between peek and next may have found that more is gone by now
    if (r->gap_to != 0 && r->peeked <= r->gap_to) {
        event__set_gap(r, MAX(r->gap_from, r->peeked), r->gap_to);
    } else {
        r->gap_to = 0;
    }
    if (r->peeked > r->cursor) {
        r->cursor = r->peeked;
        r->at = r->peeked - 1;
    }
}

bool event_reader_ended(const struct event_reader *r)
{
    return r->ended && r->own.n == 0;
}

void event_reader_park(struct event_reader *r, bool parked)
{
    if (r->parked == parked) {
        return;
    }
    r->parked = parked;
    if (parked) {
        list_remove(&r->node);
        return;
    }
    r->told = false;
    wait_for_more(r);
    if (advance(r)) {
        event__wake_reader(r);
    }
}

uint64_t event_list(struct event_log *log, uint64_t after, const struct event_filter *f,
                    size_t limit, struct jw *w)
{
    const struct ring *ring = &log->ring;
    struct str types = f != NULL ? f->types : STR_NULL;
    uint64_t session = f != NULL && f->session.n != 0 ? event__session_hash(f->session) : 0;
    uint64_t id = MAX(after < UINT64_MAX ? after + 1 : after, ring->first);

    for (; id < ring->next && limit != 0; id++) {
        if ((session == 0 || ring_entry(ring, id)->session == session) &&
            !(f != NULL && f->own && ring_entry(ring, id)->foreign) &&
            event_type_matches(types, ring_type(ring, id))) {
            jw_raw(w, ring_data(ring, id));
            limit--;
        }
    }
    return MIN(id, ring->next) - 1;
}
