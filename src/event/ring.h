#pragma once

#include "base/str.h"

// The newest frames in one circular piece of memory.

/// One frame: where it lies and what filters ask about.
struct ring_entry {
    uint64_t session;         // hash of its session, 0 for none
    uint32_t at, n;           // place and length in the ring's memory
    uint16_t type_at, type_n; // inside the frame
    uint32_t data_at, data_n; // the JSON object, inside the frame
    uint32_t asked;           // the last filter of types that was tried on it; 0: none
    bool fits;                // and what came out
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
void ring_fini(struct ring *r);

/// Longest frame that ring_put() takes.
size_t ring_frame_max(const struct ring *r);

/// Add a frame as id `r->next`, copied; the oldest ones go as room is needed. `entry` says all but
/// `at` and `n`.
void ring_put(struct ring *r, struct str frame, struct ring_entry entry);

/// The frame of an id that is held.
struct ring_entry *ring_entry(const struct ring *r, uint64_t id);
struct str ring_frame(const struct ring *r, uint64_t id);
struct str ring_type(const struct ring *r, uint64_t id);
struct str ring_data(const struct ring *r, uint64_t id);
