#pragma once

#include "base/str.h"

/// A growable byte buffer that cannot grow past `max`: `struct buf b = {.max = 4096};`.
///
/// Appending past `max` changes nothing and sets `over`, which stays set: writers append freely and check
/// buf_ok() once at the end. The bytes are always followed by a NUL that is not counted.
struct buf {
    char *p; // NULL while nothing was ever added
    size_t n;
    size_t cap;
    size_t max;
    bool over;
};

/// Start empty with a maximum (SIZE_MAX: none); free the bytes and leave an empty buffer with that maximum.
void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b);

/// Append bytes, one character, a str, a C string, or formatted text.
void buf_add(struct buf *b, const void *p, size_t n);
void buf_addc(struct buf *b, char c);
void buf_adds(struct buf *b, struct str s);
void buf_addz(struct buf *b, const char *z);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/// Room for `n` bytes at the end, not yet counted; NULL when that would pass `max`. Call
/// buf_grow() with the number of bytes written; it puts back the NUL that they overwrote.
char *buf_reserve(struct buf *b, size_t n);
void buf_grow(struct buf *b, size_t n);

/// True when nothing was refused so far.
bool buf_ok(const struct buf *b);
/// The bytes, borrowed until the next change; buf_z() returns "" for an empty buffer.
struct str buf_str(const struct buf *b);
const char *buf_z(const struct buf *b);
/// Remove the first `n` bytes; keep only the first `n`; remove all, keep the memory and reset `over`.
void buf_drop(struct buf *b, size_t n);
void buf_cut(struct buf *b, size_t n);
void buf_clear(struct buf *b);
/// Move the bytes out, NUL-terminated, never NULL; the caller frees them. `n` may be NULL.
char *buf_take(struct buf *b, size_t *n);
