#pragma once

#include "base/str.h"

// The newest frames in one circular piece of memory.

/// One frame: where it is and what readers ask about.
struct ring_entry {
    uint64_t session;         // hash of its session, 0 for none
    uint64_t seq;             // its number in that session's journal, 0 for none
    uint32_t at, n;           // place and length in the ring's memory
    uint32_t next;            // ids from here to the session's next event, 0: none or not known
    uint32_t asked;           // the last filter of types that was tried on it, 0: none
    uint16_t type_at, type_n; // inside the frame
    uint16_t rest_at;         // what follows the id inside the JSON object
    bool fits;                // what `asked` gave
    bool cut;                 // the journal has more of it
    bool foreign;             // of another hub
};

struct ring {
    char *mem;
    size_t size;
    size_t end;                 // where the next frame goes
    struct ring_entry *entries; // of id i at i & mask
    size_t mask;
    uint64_t first, next; // ids held: first <= id < next
};

/// Room for about `bytes` of frames; the first one put has the id `first`.
void ring_init(struct ring *r, size_t bytes, uint64_t first);
/// Free its memory.
void ring_fini(struct ring *r);

/// Forget all frames; the next one put has the id `next`.
void ring_restart(struct ring *r, uint64_t next);

/// Longest frame that ring_put() takes.
size_t ring_frame_max(const struct ring *r);

/// Add a frame as id `r->next`, copied; the oldest ones go as room is needed. `entry` says all but
/// `at` and `n`.
void ring_put(struct ring *r, struct str frame, struct ring_entry entry);

/// Is this id in the ring? The functions below take only such ids.
bool ring_holds(const struct ring *r, uint64_t id);
/// What is known of an event. Borrowed, as all below, until the next ring_put().
struct ring_entry *ring_entry(const struct ring *r, uint64_t id);
/// The whole frame; in it: the type, the JSON object, and what follows the id inside of that to the end.
struct str ring_frame(const struct ring *r, uint64_t id);
struct str ring_type(const struct ring *r, uint64_t id);
struct str ring_data(const struct ring *r, uint64_t id);
struct str ring_rest(const struct ring *r, uint64_t id);
