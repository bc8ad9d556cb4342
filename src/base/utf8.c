// UTF-8: check, decode, encode, cut.
//
// Everything that comes from outside passes through here, and most of it is ASCII: runs of it are
// skipped sixteen bytes at a time, only the rest is decoded character by character. Only decode()
// decides whether a character is well formed, so that no two functions can disagree.
//
// Not here: normalisation, grapheme clusters, case. Widths are in utf8_width.c.

#include "base/utf8.h"

#include <assert.h>

enum { REPLACEMENT = 0xFFFD };

// Length a lead byte announces; 0 for bytes that cannot begin a character.
static size_t announced(unsigned char lead)
{
    if (lead < 0x80) {
        return 1;
    }
    if (lead < 0xC2 || lead > 0xF4) { // continuation, overlong by itself, or above U+10FFFF
        return 0;
    }
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

static bool is_continuation(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

// Decode the first of `n` bytes (n > 0) into `*cp`; 0 when it is not well formed.
static size_t decode(const unsigned char *p, size_t n, uint32_t *cp)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = announced(p[0]);
    if (len == 0 || len > n) {
        return 0;
    }
    uint32_t c = len == 1 ? p[0] : p[0] & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (!is_continuation(p[i])) {
            return 0;
        }
        c = c << 6 | (p[i] & 0x3F);
    }
    if (c < least[len] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
        return 0;
    }
    *cp = c;
    return len;
}

// Number of leading ASCII bytes, in steps of sixteen: at most fifteen too few.
static size_t ascii_run(const unsigned char *p, size_t n)
{
    const uint64_t high = 0x8080808080808080u;
    size_t i = 0;
    for (uint64_t two[2]; n - i >= sizeof two; i += sizeof two) {
        memcpy(two, p + i, sizeof two);
        if (((two[0] | two[1]) & high) != 0) {
            break;
        }
    }
    return i;
}

bool utf8_valid(struct str s)
{
    return utf8_valid_prefix(s) == s.n;
}

size_t utf8_valid_prefix(struct str s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t i = 0;
    while (i < s.n) {
        uint32_t cp;
        if (p[i] < 0x80) {
            size_t run = ascii_run(p + i, s.n - i);
            i += run != 0 ? run : 1;
            continue;
        }
        size_t len = decode(p + i, s.n - i, &cp);
        if (len == 0) {
            break;
        }
        i += len;
    }
    return i;
}

size_t utf8_decode(struct str s, uint32_t *cp)
{
    *cp = REPLACEMENT;
    if (s.n == 0) {
        return 0;
    }
    size_t len = decode((const unsigned char *)s.p, s.n, cp);
    return len != 0 ? len : 1;
}

size_t utf8_encode(uint32_t cp, char out[4])
{
    static const unsigned char mark[] = {0, 0, 0xC0, 0xE0, 0xF0};
    assert(cp <= 0x10FFFF && (cp < 0xD800 || cp > 0xDFFF));
    size_t len = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    out[0] = (char)(mark[len] | cp);
    return len;
}

size_t utf8_cut(const char *p, size_t n, size_t max)
{
    size_t end = MIN(n, max), lead = end;
    while (lead > 0 && end - lead < 3 && is_continuation((unsigned char)p[lead - 1])) {
        lead--;
    }
    if (lead == 0) {
        return end;
    }
    lead--;
    return announced((unsigned char)p[lead]) > end - lead ? lead : end;
}

size_t utf8_width(struct str s)
{
    size_t columns = 0;
    while (s.n != 0) {
        uint32_t cp;
        s = str_from(s, utf8_decode(s, &cp));
        columns += (size_t)utf8_char_width(cp);
    }
    return columns;
}
