// Readers of the hub's stream: a cursor, a filter, and being told.
//
//     emit ──> ring ──> touch: a channel is due ──> a round: its readers become `batch` ──> wake(r)
//                                                                                             │
//              frames <── peek (filter, gap) <────────────────────────────────────────────────┘
//                                             puts the reader back in `waiting` of its channel
//
// Readers of one session have a channel of their own, so an event costs nothing for the readers of
// other sessions. What such a reader has passed is linked to the session's next event in the ring.
//
// A round tells READERS_PER_TURN readers in a turn of the loop, then others have theirs. What is
// emitted during a round reaches the readers still in the batch with it and the others with the next
// round, so no event is later than one round takes, and the loop is never held up for longer than a
// slice of it.
//
// Between being told and peeking a reader is in no list, and a parked one is in none either. So the
// wake costs what there is to tell, however many readers are stuck behind slow peers.
//
// Invariants:
//   - r->cursor is the next id to look at; ids that do not fit the filter are passed once, when they
//     are first looked at, and never again.
//   - a reader is in `waiting` of its channel or in `batch` exactly while !parked && !told.
//   - gap_to != 0 exactly while the gap in r->own has to be read first.
//   - a channel of a session exists while it has readers, or is due.
//
// Telling a reader costs a system call of its peer, whatever it carries. With thousands of them the
// rounds of a busy stream keep a distance that grows with their number, so that each carries more: the
// first event after a silence goes out at once, the others wait READER_NS per reader at most.
//
// Readers with the same patterns of types share them (struct event__types), and an event remembers
// what came out for the patterns tried last: a thousand readers of one kind cost one comparison.

#include <assert.h>

#include "event/event_int.h"
#include "proto/events.h"

enum { READER_NS = 4000, READERS_PER_TURN = 256 };

// Patterns of types, shared by all who asked for the same.
struct event__types {
    uint32_t number; // never given twice, so that what an event remembers cannot be mistaken
    unsigned readers;
    size_t n;
    char text[];
};

// ---- lists --------------------------------------------------------------------------------

static void list_add(struct event__list *list, struct event_reader *r)
{
    r->list = list;
    r->link = list->end;
    r->next = NULL;
    *list->end = r;
    list->end = &r->next;
}

static void list_remove(struct event_reader *r)
{
    if (r->link == NULL) {
        return;
    }
    *r->link = r->next;
    if (r->next != NULL) {
        r->next->link = r->link;
    } else {
        r->list->end = r->link;
    }
    r->link = NULL;
}

static void list_move_all(struct event__list *to, struct event__list *from)
{
    while (from->head != NULL) {
        struct event_reader *r = from->head;
        list_remove(r);
        list_add(to, r);
    }
}

// ---- channels -----------------------------------------------------------------------------

uint64_t event__session_hash(struct str session)
{
    uint64_t h = map_hash(session);
    return h != 0 ? h : 1;
}

struct event__channel *event__channel_new(struct str session)
{
    struct event__channel *ch = xcalloc(1, sizeof *ch + session.n + 1);
    ch->waiting.end = &ch->waiting.head;
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

/// The channel of a session's readers. The first one finds what the ring has of it, and links it.
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

// ---- reading ------------------------------------------------------------------------------

static bool types_fit(const struct event_reader *r, uint64_t id)
{
    struct ring_entry *entry = ring_entry(&r->log->ring, id);
    if (r->types == NULL) {
        return true;
    }
    if (entry->asked != r->types->number) {
        entry->asked = r->types->number;
        entry->fits = event_type_matches((struct str){r->types->text, r->types->n},
                                         ring_type(&r->log->ring, id));
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
        return ring->next;
    }
    if (ring_holds(ring, r->at) && r->at < from && ring_entry(ring, r->at)->next != 0) {
        uint64_t next = r->at + ring_entry(ring, r->at)->next;
        if (next >= from) {
            return next;
        }
    }
    while (from < ring->next && ring_entry(ring, from)->session != ch->session) {
        from++;
    }
    return from;
}

static struct event__types *types_share(struct event_log *log, struct str text)
{
    if (text.n == 0) {
        return NULL;
    }
    struct event__types *t = map_get(&log->types, text);
    if (t == NULL) {
        t = xcalloc(1, sizeof *t + text.n + 1);
        t->number = ++log->types_given;
        t->n = text.n;
        memcpy(t->text, text.p, text.n);
        map_set(&log->types, text, t);
    }
    t->readers++;
    return t;
}

static void types_leave(struct event_log *log, struct event__types *t)
{
    if (t != NULL && --t->readers == 0) {
        map_remove(&log->types, (struct str){t->text, t->n});
        free(t);
    }
}

// The frame's id is the last one missed: who comes back with it goes on behind the gap.
static void set_gap(struct event_reader *r, uint64_t from, uint64_t to)
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
    if (r->cursor < ring->first) {
        set_gap(r, r->gap_to != 0 ? r->gap_from : r->cursor, ring->first - 1);
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

/// Neighbours in memory that fit the filter, from the cursor on.
static struct str run_of_frames(struct event_reader *r, size_t max)
{
    const struct ring *ring = &r->log->ring;
    struct str run = ring_frame(ring, r->cursor);
    uint64_t id = r->cursor + 1;
    for (; id < ring->next; id++) {
        struct str frame = ring_frame(ring, id);
        bool same =
            r->channel->session == 0 || ring_entry(ring, id)->session == r->channel->session;
        if (frame.p != run.p + run.n || run.n + frame.n > max || !same || !types_fit(r, id)) {
            break;
        }
        run.n += frame.n;
    }
    r->peeked = id;
    return run;
}

// ---- waking -------------------------------------------------------------------------------

/// A round begins: all who wait for news of a channel that has some are to be told.
static void begin_round(struct event_log *log)
{
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

static void wake_soon(struct event_log *log)
{
    size_t n = 0;
    if (log->wake != NULL || log->batch.head != NULL || timer_running(&log->later)) {
        return;
    }
    for (const struct event__channel *ch = log->due; ch != NULL; ch = ch->next_due) {
        n += ch->n_readers;
    }
    uint64_t distance = n * READER_NS / 1000000;
    uint64_t since = loop_now(log->loop) - log->woke_at;
    if (since >= distance) {
        event__wake_now(log);
    } else {
        timer_start(&log->later, distance - since);
    }
}

static void wake_some(void *arg)
{
    struct event_log *log = arg;
    log->wake = NULL;
    if (log->batch.head == NULL) {
        begin_round(log);
    }
    for (int i = 0; i < READERS_PER_TURN && log->batch.head != NULL; i++) {
        struct event_reader *r = log->batch.head;
        list_remove(r);
        if (advance(r)) {
            r->told = true;
            r->wake(r->arg); // may close r, or any other reader
        } else {
            list_add(&r->channel->waiting, r);
        }
    }
    if (log->batch.head != NULL) {
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
    if (r->link != NULL) {
        list_remove(r);
        list_add(&r->log->batch, r);
        event__wake_now(r->log);
    }
}

static void wait_for_more(struct event_reader *r)
{
    if (r->link == NULL && !r->parked && !r->told) {
        list_add(&r->channel->waiting, r);
    }
}

/// It waits from now on, and is told in the next round when there is something already.
static void begin_waiting(struct event_reader *r)
{
    wait_for_more(r);
    if (advance(r)) {
        event__wake_reader(r);
    }
}

// ---- public -------------------------------------------------------------------------------

static void place(struct event_reader *r, uint64_t after)
{
    const struct ring *ring = &r->log->ring;
    if (after == 0) {
        r->cursor = ring->first;
    } else if (after < ring->next) {
        r->cursor = after + 1;
    } else {
        r->cursor = ring->next;
        if (after != UINT64_MAX && ring->next > 1) {
            set_gap(r, 1, ring->next - 1);
        }
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
        place(r, after);
    }
    log->n_readers++;
    begin_waiting(r);
    return r;
}

void event_reader_close(struct event_reader *r)
{
    if (r == NULL) {
        return;
    }
    assert(!r->closed);
    list_remove(r);
    r->log->n_readers--;
    channel_leave(r->log, r->channel);
    types_leave(r->log, r->types);
    buf_fini(&r->own);
    r->closed = true;
    if (!r->reading) {
        free(r);
    }
}

struct str event_reader_peek(struct event_reader *r, size_t max)
{
    r->told = false;
    wait_for_more(r);
    r->peeked = r->cursor;
    if (!advance(r)) {
        return STR_NULL;
    }
    if (r->journal) {
        return feed__peek(r, max);
    }
    if (r->gap_to != 0) {
        r->peeked = r->cursor;
        return buf_str(&r->own);
    }
    return run_of_frames(r, max);
}

void event_reader_next(struct event_reader *r)
{
    if (r->journal) {
        feed__next(r);
        return;
    }
    // a wake between peek and next may have found that more is gone by now
    if (r->gap_to != 0 && r->peeked <= r->gap_to) {
        set_gap(r, MAX(r->gap_from, r->peeked), r->gap_to);
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
        list_remove(r);
        return;
    }
    r->told = false;
    begin_waiting(r);
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
            event_type_matches(types, ring_type(ring, id))) {
            jw_raw(w, ring_data(ring, id));
            limit--;
        }
    }
    return MIN(id, ring->next) - 1;
}
