// The newest frames in one circular piece of memory.
//
//     mem:      [ 1007 | 1008 |......| 1004 | 1005 | 1006 |--skipped--]
//                                ^end  ^first
//     entries:  one slot per id, id & mask: place, length, what filters ask about
//
// A frame never wraps: one that does not fit after `end` goes to the start of the memory, and the
// rest stays unused for this round. So a reader always gets frames in one piece.
//
// Invariants:
//   - frames of first .. next-1 are in `mem` in that order, wrapping around at most once.
//   - next - first <= mask + 1, so no two held ids share a slot.
//   - end never passes the oldest frame: what is overwritten has been dropped before.

#include "event/ring.h"

#include <assert.h>

enum { BYTES_PER_ENTRY = 128 }; // frames are longer than this nearly always

static struct ring_entry *slot(const struct ring *r, uint64_t id)
{
    return &r->entries[id & r->mask];
}

void ring_init(struct ring *r, size_t bytes, uint64_t first)
{
    size_t n = 16;
    while (n < bytes / BYTES_PER_ENTRY) {
        n *= 2;
    }
    r->mem = xmalloc(bytes);
    r->size = bytes;
    r->end = 0;
    r->entries = xcalloc(n, sizeof *r->entries);
    r->mask = n - 1;
    r->first = r->next = first;
}

void ring_fini(struct ring *r)
{
    free(r->mem);
    free(r->entries);
    r->mem = NULL;
    r->entries = NULL;
}

void ring_restart(struct ring *r, uint64_t next)
{
    r->first = r->next = next;
    r->end = 0;
}

size_t ring_frame_max(const struct ring *r)
{
    return r->size / 8;
}

void ring_put(struct ring *r, struct str frame, struct ring_entry entry)
{
    assert(frame.n <= ring_frame_max(r));
    if (r->end + frame.n > r->size) {
        // frames after `end` are older than any at the start: drop them before that memory is skipped
        while (r->first < r->next && slot(r, r->first)->at >= r->end) {
            r->first++;
        }
        r->end = 0;
    }
    size_t end = r->end + frame.n;
    while (r->first < r->next && slot(r, r->first)->at < end &&
           slot(r, r->first)->at + slot(r, r->first)->n > r->end) {
        r->first++;
    }
    if (r->next - r->first > r->mask) {
        r->first++;
    }
    memcpy(r->mem + r->end, frame.p, frame.n);
    entry.at = (uint32_t)r->end;
    entry.n = (uint32_t)frame.n;
    *slot(r, r->next++) = entry;
    r->end = end;
    assert(r->first < r->next && r->next - r->first <= r->mask + 1);
}

bool ring_holds(const struct ring *r, uint64_t id)
{
    return id >= r->first && id < r->next;
}

struct ring_entry *ring_entry(const struct ring *r, uint64_t id)
{
    assert(ring_holds(r, id));
    return slot(r, id);
}

static struct str part(const struct ring *r, uint64_t id, size_t from, size_t to)
{
    return (struct str){r->mem + slot(r, id)->at + from, to - from};
}

struct str ring_frame(const struct ring *r, uint64_t id)
{
    return part(r, id, 0, ring_entry(r, id)->n);
}

struct str ring_type(const struct ring *r, uint64_t id)
{
    const struct ring_entry *e = ring_entry(r, id);
    return part(r, id, e->type_at, e->type_at + (size_t)e->type_n);
}

struct str ring_data(const struct ring *r, uint64_t id)
{
    const struct ring_entry *e = ring_entry(r, id);
    return part(r, id, e->type_at + e->type_n + strlen("\ndata: "), e->n - strlen("\n\n"));
}

struct str ring_rest(const struct ring *r, uint64_t id)
{
    const struct ring_entry *e = ring_entry(r, id);
    return part(r, id, e->rest_at, e->n);
}
