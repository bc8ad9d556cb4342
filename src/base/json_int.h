#pragma once

// What the JSON files share among themselves: scanning of string content and the search for
// repeated keys.

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/json.h"
#include "base/utf8.h"

#if defined(__SSE2__)
/// Sixteen bytes, whatever their alignment.
static inline __m128i json__load16(const char *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}
#endif

/// The first byte of [p, end) that must be escaped or checked: a quote, a backslash, a control
/// character, anything above ASCII. `end` when there is none.
static inline const char *json__plain_end(const char *p, const char *end)
{
#if defined(__SSE2__)
    for (; end - p >= 16; p += 16) {
        __m128i v = json__load16(p);
        __m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
        __m128i slash = _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'));
        __m128i other = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20)); // signed: bytes from 0x80 up too
        int hit = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), other));
        if (hit != 0) {
            return p + __builtin_ctz((unsigned)hit);
        }
    }
#endif
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\') {
        p++;
    }
    return p;
}

/// The end of the run of well-formed characters above ASCII that starts at `p`; `p` when the
/// first is malformed.
static inline const char *json__wide_end(const char *p, const char *end)
{
    while (p < end && (unsigned char)*p >= 0x80) {
        uint32_t cp;
        size_t n = utf8_decode((struct str){p, (size_t)(end - p)}, &cp);
        if (n == 1) {
            break; // malformed: no character above ASCII has one byte
        }
        p += n;
    }
    return p;
}

/// Table for finding repeated keys, kept from one object to the next. Starts zeroed.
struct json__keys {
    uint32_t *table; // index + 1 of a member, 0 for free
    size_t cap;
    size_t visits; // entries looked at so far, for tests of the cost
};

void json__keys_fini(struct json__keys *k);

/// Make the keys of `m[0..n)` unique in place: a repeated key keeps its first place and its last
/// value. Returns how many are left; `*dup` is the index of the first repetition, `n` if none.
size_t json__keys_fold(struct json__keys *k, struct json_member *m, size_t n, size_t *dup);
