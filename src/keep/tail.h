#pragma once

#include "base/str.h"

/// The last bytes of a stream, found by their offset from its start.
struct tail {
    char *bytes;
    size_t size;  // a power of two
    uint64_t end; // offset after the last byte
};

/// Start an empty stream; free the bytes.
void tail_init(struct tail *r, size_t size);
void tail_fini(struct tail *r);
/// Append; the oldest bytes go.
void tail_add(struct tail *r, struct str bytes);
/// Offset of the oldest byte that is kept.
uint64_t tail_start(const struct tail *r);
/// The bytes from `offset` on, as many as are in one piece, at most `max`; borrowed until the next tail_add().
/// `offset` is between tail_start() and `end`.
struct str tail_from(const struct tail *r, uint64_t offset, size_t max);
