// Readers of the hub's stream: a cursor, a filter, and being told.
//
//     emit ──> ring ──> a round: `waiting` becomes `batch` ──> wake(r) for each reader in it
//                                                               │
//              frames <── peek (filter, gap) <──────────────────┘  puts the reader back in `waiting`
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
//   - a reader is in `waiting` or `batch` exactly while !parked && !told.
//   - gap_to != 0 exactly while the gap in r->gap has to be read first.
//
// Telling a reader costs a system call of its peer, whatever it carries. With thousands of them the
// rounds of a busy stream keep a distance that grows with their number, so that each carries more: the
// first event after a silence goes out at once, the others wait READER_NS per reader at most.
//
// Readers with the same patterns of types share them (struct event__types), and an event remembers
// what came out for the patterns tried last: a thousand readers of one kind cost one comparison.

#include <assert.h>

#include "base/map.h"
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

struct event_reader {
    struct event_log *log;
    struct event_reader *next, **link; // `link` is what points at us; NULL when in no list
    struct event__list *list;
    event_wake *wake;
    void *arg;
    struct event__types *types; // NULL: all
    uint64_t session;           // hash, 0: any
    uint64_t cursor;
    uint64_t peeked; // where the cursor goes with event_reader_next()
    uint64_t gap_from, gap_to;
    struct buf gap; // the frame of the gap
    bool parked, told;
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

// ---- reading ------------------------------------------------------------------------------

static bool fits(const struct event_log *log, uint64_t id, struct str types, uint64_t session)
{
    return (session == 0 || ring_entry(&log->ring, id)->session == session) &&
           (types.n == 0 || event_type_matches(types, ring_type(&log->ring, id)));
}

static bool reader_fits(const struct event_reader *r, uint64_t id)
{
    struct ring_entry *entry = ring_entry(&r->log->ring, id);
    if (r->session != 0 && entry->session != r->session) {
        return false;
    }
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
    buf_clear(&r->gap);
    buf_addf(&r->gap, "id: %llu\nevent: stream.gap\n", b);
    buf_addf(&r->gap, "data: {\"id\":%llu,\"type\":\"stream.gap\",\"from\":%llu,\"to\":%llu}\n\n",
             b, a, b);
}

/// Bring the cursor to the next event for this reader. False when there is none.
static bool advance(struct event_reader *r)
{
    const struct ring *ring = &r->log->ring;
    if (r->cursor < ring->first) {
        set_gap(r, r->gap_to != 0 ? r->gap_from : r->cursor, ring->first - 1);
        r->cursor = ring->first;
    }
    if (r->gap_to != 0) {
        return true;
    }
    while (r->cursor < ring->next && !reader_fits(r, r->cursor)) {
        r->cursor++;
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
        if (frame.p != run.p + run.n || run.n + frame.n > max || !reader_fits(r, id)) {
            break;
        }
        run.n += frame.n;
    }
    r->peeked = id;
    return run;
}

// ---- waking -------------------------------------------------------------------------------

static void wake_some(void *arg)
{
    struct event_log *log = arg;
    log->wake = NULL;
    if (log->batch.head == NULL) {
        log->woke_at = loop_now(log->loop);
        log->again = false;
        list_move_all(&log->batch, &log->waiting);
    }
    for (int i = 0; i < READERS_PER_TURN && log->batch.head != NULL; i++) {
        struct event_reader *r = log->batch.head;
        list_remove(r);
        if (advance(r)) {
            r->told = true;
            r->wake(r->arg); // may close r, or any other reader
        } else {
            list_add(&log->waiting, r);
        }
    }
    if (log->batch.head != NULL) {
        event__wake_now(log);
    } else if (log->again) {
        event__wake_soon(log);
    }
}

void event__wake_now(void *arg)
{
    struct event_log *log = arg;
    if (log->wake == NULL) {
        log->wake = loop_defer(log->loop, wake_some, log);
    }
}

void event__wake_soon(struct event_log *log)
{
    if (log->batch.head != NULL) {
        log->again = true; // for those that this round has told
    }
    if (log->wake != NULL || log->waiting.head == NULL || timer_running(&log->later)) {
        return;
    }
    uint64_t distance = log->n_readers * READER_NS / 1000000;
    uint64_t since = loop_now(log->loop) - log->woke_at;
    if (since >= distance) {
        event__wake_now(log);
    } else {
        timer_start(&log->later, distance - since);
    }
}

static void wait_for_more(struct event_reader *r)
{
    if (r->link == NULL && !r->parked && !r->told) {
        list_add(&r->log->waiting, r);
    }
}

uint64_t event__session_hash(struct str session)
{
    uint64_t h = map_hash(session);
    return h != 0 ? h : 1;
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
    struct event_reader *r = xcalloc(1, sizeof *r);
    r->log = log;
    r->wake = wake;
    r->arg = arg;
    r->types = types_share(log, f != NULL ? f->types : STR_NULL);
    r->session = f != NULL && f->session.n != 0 ? event__session_hash(f->session) : 0;
    buf_init(&r->gap, 256);
    place(r, after);
    log->n_readers++;
    wait_for_more(r);
    if (advance(r)) {
        event__wake_soon(log);
    }
    return r;
}

void event_reader_close(struct event_reader *r)
{
    if (r == NULL) {
        return;
    }
    list_remove(r);
    r->log->n_readers--;
    buf_fini(&r->gap);
    types_leave(r->log, r->types);
    free(r);
}

struct str event_reader_peek(struct event_reader *r, size_t max)
{
    r->told = false;
    wait_for_more(r);
    r->peeked = r->cursor;
    if (!advance(r)) {
        return STR_NULL;
    }
    if (r->gap_to != 0) {
        r->peeked = r->cursor;
        return buf_str(&r->gap);
    }
    return run_of_frames(r, max);
}

void event_reader_next(struct event_reader *r)
{
    // a wake between peek and next may have found that more is gone by now
    if (r->gap_to != 0 && r->peeked <= r->gap_to) {
        set_gap(r, MAX(r->gap_from, r->peeked), r->gap_to);
    } else {
        r->gap_to = 0;
    }
    r->cursor = MAX(r->cursor, r->peeked);
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
    wait_for_more(r);
    if (advance(r)) {
        event__wake_soon(r->log);
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
        if (fits(log, id, types, session)) {
            jw_raw(w, ring_data(ring, id));
            limit--;
        }
    }
    return MIN(id, ring->next) - 1;
}
