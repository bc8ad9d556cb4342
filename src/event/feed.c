// Readers of one session by its journal: ids are the journal's `seq`, and nothing is missed.
//
//     seq taken:   0 ....... 812 | 813 ............ 990 | shown
//                  store_read    | the ring, by links   |
//
// A reader that keeps up reads the ring, as all others do: nothing is read back from disk. What the
// ring does not have comes from the journal, a page at a time. The next page is asked for when the one
// before was taken, so a reader that does not read costs one page. These are events from before the
// reader came, those that a slow reader missed, and those too large for the ring.
//
// Readers do not get an event that is in the journal but not shown yet (it waits for a sync, or for an
// earlier event): `shown` of the channel is the last event that was emitted.
//
// An event in the ring has, after its id, what the journal has. Readers at the same place get the
// same frames, which are made once (event_log.span). They end with an event that ends a turn, so
// that they do not depend on the turn that a reader waits for.

#include <assert.h>

#include "event/event_int.h"
#include "proto/events.h"
#include "store/store.h"

enum { PAGE_EVENTS = 256 };

static bool is_turn_end(struct str type)
{
    static const enum event_id ends[] = {EVENT_TURN_COMPLETED, EVENT_TURN_FAILED,
                                         EVENT_TURN_INTERRUPTED};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        if (str_eqz(type, event_infos[ends[i]].type)) {
            return true;
        }
    }
    return false;
}

/// Does an event end the turn that `r` waits for?
static bool ends_turn(const struct event_reader *r, struct str type, struct str data)
{
    struct arena a = {0};
    struct json *ev;
    if (r->turn[0] == '\0' || !is_turn_end(type)) {
        return false;
    }
    bool ends = json_parse(&ev, &a, data, NULL, NULL) == 0 &&
                str_eqz(json_str(json_get(ev, "turn"), ""), r->turn);
    arena_fini(&a);
    return ends;
}

// ---- from the journal ---------------------------------------------------------------------------

/// The type of a journal's line. Where we wrote it, it is the third member; lines of other programs are
/// parsed into `a`.
static struct str type_of(struct str line, struct arena *a)
{
    struct str rest = line, part[10];
    struct json *ev;
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        part[i] = str_cut(&rest, '"');
    }
    if (str_eqz(part[1], "seq") && str_eqz(part[3], "ts") && str_eqz(part[7], "type")) {
        return part[9];
    }
    return json_parse(&ev, a, line, NULL, NULL) == 0 ? json_str(json_get(ev, "type"), "")
                                                     : STR_NULL;
}

static void on_page(void *arg, int status, const struct store_page *p, const struct err *e)
{
    struct event_reader *r = event__end_read(arg);
    (void)e;
    if (r == NULL) {
        return;
    }
    assert(!r->ended);
    struct str lines = status == 0 ? p->lines : STR_NULL;
    while (lines.n != 0 && r->seq < r->channel->shown && !r->ended) {
        struct arena a = {0};
        struct str line = str_cut(&lines, '\n'), type = type_of(line, &a);
        buf_addf(&r->own, "id: %llu\nevent: " STR_FMT "\ndata: ", (unsigned long long)++r->seq,
                 STR_ARG(type));
        buf_adds(&r->own, line);
        buf_addz(&r->own, "\n\n");
        r->ended = ends_turn(r, type, line);
        arena_fini(&a);
    }
    if (r->own.n == 0) { // it cannot be read, or has lost its end: the peer may try again
        r->ended = true;
    }
    event__wake_reader(r);
}

// ---- from the ring ------------------------------------------------------------------------------

/// The id in the ring of the event after `r->seq`; 0 when the ring does not have it whole.
static uint64_t find_next(struct event_reader *r)
{
    const struct ring *ring = &r->log->ring;
    uint64_t id = event__find(r, MAX(r->at + 1, ring->first));
    while (id < ring->next && ring_entry(ring, id)->seq <= r->seq) {
        r->at = id;
        id = event__find(r, id + 1);
    }
    const struct ring_entry *e = id < ring->next ? ring_entry(ring, id) : NULL;
    return e != NULL && e->seq == r->seq + 1 && !e->cut ? id : 0;
}

static void add_event(struct buf *out, const struct ring *ring, uint64_t id)
{
    const struct ring_entry *e = ring_entry(ring, id);
    if (e->seq != 0) {
        buf_addf(out, "id: %llu\n", (unsigned long long)e->seq);
    }
    buf_addf(out, "event: " STR_FMT "\ndata: {", STR_ARG(ring_type(ring, id)));
    buf_adds(out, ring_rest(ring, id));
}

/// Frames from `id` on, about `max` bytes of them, up to an event that ends a turn.
static const struct event__span *span_from(struct event_reader *r, uint64_t id, size_t max)
{
    struct event__span *s = &r->log->span;
    const struct ring *ring = &r->log->ring;
    if (s->channel == r->channel && s->first == id && s->made_at == ring->next && s->max == max) {
        return s;
    }
    s->channel = r->channel;
    s->first = id;
    s->made_at = ring->next;
    s->max = max;
    buf_clear(&s->frames);
    for (;;) {
        const struct ring_entry *e = ring_entry(ring, id);
        add_event(&s->frames, ring, id);
        s->last = id;
        if (e->next == 0 || is_turn_end(ring_type(ring, id))) {
            return s;
        }
        id += e->next;
        const struct ring_entry *next = ring_entry(ring, id);
        if (next->seq != e->seq + 1 || next->cut || s->frames.n + next->n > max) {
            return s;
        }
    }
}

// ---- as a reader --------------------------------------------------------------------------------

bool feed__advance(struct event_reader *r)
{
    const struct event__channel *ch = r->channel;
    if (r->own.n != 0 || r->ended || r->reading) {
        return !r->reading;
    }
    if (r->seq < ch->shown) {
        bool held = find_next(r) != 0;
        if (!held) {
            r->reading = true;
            store_read(r->log->store, str_of(ch->name), r->seq, PAGE_EVENTS, on_page, r);
        }
        return held;
    }
    if (ch->failed >= r->born && ring_holds(&r->log->ring, ch->failed)) {
        add_event(&r->own, &r->log->ring, ch->failed);
    }
    r->ended = ch->gone || ch->failed >= r->born;
    return r->ended;
}

struct str feed__peek(struct event_reader *r, size_t max)
{
    const struct ring *ring = &r->log->ring;
    r->piece = 0;
    if (r->own.n != 0) { // in pieces: the sender keeps a copy of what the kernel does not take
        r->piece = MIN(r->own.n - r->sent, max);
        return (struct str){r->own.p + r->sent, r->piece};
    }
    if (r->ended) {
        return STR_NULL;
    }
    const struct event__span *s = span_from(r, find_next(r), max);
    r->peeked = s->last;
    r->peeked_seq = ring_entry(ring, s->last)->seq;
    r->ends = ends_turn(r, ring_type(ring, s->last), ring_data(ring, s->last));
    return buf_str(&s->frames);
}

void feed__next(struct event_reader *r)
{
    if (r->piece != 0) {
        r->sent += r->piece;
        if (r->sent == r->own.n) {
            r->sent = 0;
            buf_fini(&r->own);
        }
        return;
    }
    r->at = r->peeked;
    r->seq = r->peeked_seq;
    r->ended = r->ends;
}
