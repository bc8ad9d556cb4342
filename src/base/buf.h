#pragma once

#include "base/str.h"

/// A growable byte buffer that cannot grow past `max`.
///
/// Appending past `max` changes nothing and sets `over`, which stays set: writers append freely
/// and ask buf_ok() once at the end. The bytes are always followed by a NUL that is not counted.
struct buf {
    char *p; // NULL while nothing was ever added
    size_t n;
    size_t cap;
    size_t max;
    bool over;
};

void buf_init(struct buf *b, size_t max); // SIZE_MAX for no limit
void buf_fini(struct buf *b);             // leaves an empty buffer with the same maximum

void buf_add(struct buf *b, const void *p, size_t n);
void buf_addc(struct buf *b, char c);
void buf_adds(struct buf *b, struct str s);
void buf_addz(struct buf *b, const char *z);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/// Room for `n` bytes at the end, not yet counted; NULL when that would pass `max`. Call
/// buf_grow() with what was really written; it puts back the NUL that the bytes overwrote.
char *buf_reserve(struct buf *b, size_t n);
void buf_grow(struct buf *b, size_t n);

bool buf_ok(const struct buf *b);         // nothing was refused so far
struct str buf_str(const struct buf *b);  // borrowed until the next change
const char *buf_z(const struct buf *b);   // the same as a C string, "" when empty
void buf_drop(struct buf *b, size_t n);   // the first `n` bytes go
void buf_cut(struct buf *b, size_t n);    // all behind the first `n` bytes goes
void buf_clear(struct buf *b);            // empty, memory kept, `over` forgotten
char *buf_take(struct buf *b, size_t *n); // moves the bytes out (free()); `n` may be NULL
