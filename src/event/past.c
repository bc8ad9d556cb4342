// Readers of a stream that hubs share whose next event is no longer in the ring: readers that come back,
// perhaps to another hub than before, and slow ones.
//
//     cursor ......... ring.first ................ ring.next
//     pages from the store       │ the ring
//
// A page is asked for when the one before was taken, so a reader that does not read costs one page. Events
// that were removed meanwhile (a session was purged, or they were too old) are skipped without a gap.
//
// A reader that names an id which this hub has not seen comes from a hub that is ahead of this one, or from
// another store. The store knows which; only a reader of another store gets a gap.

#include <assert.h>

#include "event/event_int.h"

enum { PAGE_EVENTS = 256 };

bool past__needed(const struct event_reader *r)
{
    return r->log->shared && r->gap_to == 0 &&
           (r->past || r->reading || r->unsure || r->cursor < r->log->ring.first);
}

static bool fits(const struct event_reader *r, const struct store_stream_event *ev)
{
    return (r->session == NULL || str_eqz(ev->session, r->session)) && !(r->own_only && !ev->own) &&
           event__types_fit(r, ev->type);
}

static void on_page(void *arg, int status, const struct store_stream_page *p, const struct err *e)
{
    struct event_reader *r = event__end_read(arg);
    (void)e; // the reader asks again with the next event
    if (r == NULL || status < 0) {
        return;
    }
    assert(!r->past);
    if (r->unsure && r->cursor > p->last + 1) {
        event__set_gap(r, 1, p->last);
        r->cursor = p->last + 1;
    }
    r->unsure = false;
    for (size_t i = 0; r->gap_to == 0 && i < p->n; i++) {
        if (fits(r, &p->events[i])) {
            struct event_record ev = event__record(&p->events[i]);
            event__encode(&r->own, p->events[i].id, &ev);
        }
    }
    uint64_t to = p->n != 0 ? p->next : MAX(r->cursor, r->log->ring.first) - 1;
    if (r->gap_to == 0 && r->own.n != 0) {
        r->past = true;
        r->past_to = to;
    } else if (r->gap_to == 0) {
        r->cursor = MAX(r->cursor, to + 1);
    }
    event__wake_reader(r);
}

bool past__advance(struct event_reader *r)
{
    if (!r->past && !r->reading) {
        r->reading = true;
        store_stream_read(r->log->store, r->cursor - 1, PAGE_EVENTS, on_page, r);
    }
    return r->past;
}

/// Whole frames, about `max` bytes of them, or one that is larger.
struct str past__peek(struct event_reader *r, size_t max)
{
    struct str rest = str_from(buf_str(&r->own), r->sent);
    size_t n = 0;
    assert(r->past && rest.n != 0);
    for (const char *end; n < rest.n; n = (size_t)(end - rest.p)) {
        end = memmem(rest.p + n, rest.n - n, "\n\n", 2);
        assert(end != NULL);
        end += 2;
        if (n != 0 && (size_t)(end - rest.p) > max) {
            break;
        }
    }
    r->piece = n;
    return (struct str){rest.p, n};
}

void past__next(struct event_reader *r)
{
    r->sent += r->piece;
    if (r->sent == r->own.n) {
        r->sent = 0;
        r->past = false;
        buf_fini(&r->own);
        r->cursor = MAX(r->cursor, r->past_to + 1);
    }
}
