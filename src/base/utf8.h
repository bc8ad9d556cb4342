#pragma once

#include "base/str.h"

/// True when `s` is well-formed UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool utf8_valid(struct str s);

/// Length of the longest well-formed start of `s`; s.n when all of it is.
size_t utf8_valid_prefix(struct str s);

/// Decode the first character into `*cp` and return its length in bytes (1-4). Malformed input
/// gives U+FFFD and 1; an empty string 0.
size_t utf8_decode(struct str s, uint32_t *cp);

/// Encode `cp` (a Unicode scalar value) into `out` and return the number of bytes, 1-4.
size_t utf8_encode(uint32_t cp, char out[4]);

/// The largest length <= `max` at which `p[0..n)` can be cut without splitting a character. A
/// character left unfinished by an earlier cut at `n` goes too.
size_t utf8_cut(const char *p, size_t n, size_t max);

/// Terminal columns: 0 for combining and control characters, 2 for wide ones, else 1.
int utf8_char_width(uint32_t cp);
size_t utf8_width(struct str s);
