// Widths of text.
//
// utf8_char_width() knows single characters. Here they are put together: marks and variation selectors
// add nothing to the character before them, a zero width joiner adds the next symbol, two regional
// indicators are one flag. An emoji selector makes a narrow symbol wide.
//
// Terminals disagree about some emoji. The code that draws rows switches automatic wrapping off meanwhile,
// so that a wrong width moves the end of one row and nothing else.

#include "term/text.h"

#include <assert.h>

#include "base/utf8.h"

enum { JOINER = 0x200D, EMOJI_LOOK = 0xFE0F, NEAR = 64 };

static bool is_control(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7F && cp < 0xA0);
}

static bool is_symbol(uint32_t cp)
{
    return (cp >= 0x203C && cp <= 0x2BFF) || (cp >= 0x1F000 && cp <= 0x1FAFF);
}

static bool is_regional(uint32_t cp)
{
    return cp >= 0x1F1E6 && cp <= 0x1F1FF;
}

static bool is_skin(uint32_t cp)
{
    return cp >= 0x1F3FB && cp <= 0x1F3FF;
}

size_t text_color(struct str s)
{
    size_t n = 2;
    if (s.n < 3 || s.p[0] != '\033' || s.p[1] != '[') {
        return 0;
    }
    while (n < s.n && strchr("0123456789;:", s.p[n]) != NULL && s.p[n] != '\0') {
        n++;
    }
    return n < s.n && s.p[n] == 'm' ? n + 1 : 0;
}

size_t text_cluster(struct str s, size_t *width)
{
    uint32_t base, cp;
    *width = 0;
    size_t n = text_color(s);
    if (n != 0 || s.n == 0) {
        return n;
    }
    if (s.p[0] >= ' ' && s.p[0] < 0x7F && (s.n == 1 || (unsigned char)s.p[1] < 0x80)) {
        *width = 1; // most text is this
        return 1;
    }
    n = utf8_decode(s, &base);
    *width = (size_t)utf8_char_width(base);
    if (is_control(base)) {
        return n;
    }
    for (bool joined = false; n < s.n;) {
        size_t more = utf8_decode(str_from(s, n), &cp);
        bool flag = is_regional(base) && is_regional(cp) && *width < 2;
        bool marks = utf8_char_width(cp) == 0 && !is_control(cp);
        if (!marks && !flag && !(joined && is_symbol(cp)) && !(is_skin(cp) && is_symbol(base))) {
            break;
        }
        *width = flag || (cp == EMOJI_LOOK && is_symbol(base)) ? 2 : *width;
        joined = cp == JOINER && is_symbol(base);
        n += more;
    }
    return n;
}

// Clusters are found from the front. The start of the line, or a plain character some way before, is a
// place where one certainly begins.
size_t text_before(struct str s, size_t at)
{
    assert(at <= s.n);
    size_t from = at, last = 0, width;
    while (from > 0 && (at - from < NEAR || (unsigned char)s.p[from] >= 0x80) &&
           s.p[from - 1] != '\n') {
        from--;
    }
    if (from == at) { // a line feed, or the start of the text
        return at > 0 ? at - 1 : 0;
    }
    for (size_t i = from; i < at;) {
        last = i;
        i += text_cluster(str_from(s, i), &width);
    }
    return last;
}

size_t text_width(struct str s)
{
    size_t width;
    text_fit(s, SIZE_MAX, &width);
    return width;
}

size_t text_fit(struct str s, size_t cols, size_t *width)
{
    size_t at = 0, used = 0;
    while (at < s.n) {
        size_t wide, n = text_cluster(str_from(s, at), &wide);
        if (wide > cols - used) {
            break;
        }
        used += wide;
        at += n;
    }
    if (width != NULL) {
        *width = used;
    }
    return at;
}

void text_add_cut(struct buf *out, struct str s, size_t cols)
{
    size_t all = text_fit(s, cols, NULL);
    if (all == s.n) {
        buf_adds(out, s);
        return;
    }
    size_t n = text_fit(s, cols > 0 ? cols - 1 : 0, NULL);
    buf_add(out, s.p, n);
    if (memchr(s.p, '\033', n) != NULL) {
        buf_addz(out, "\033[0m");
    }
    buf_addz(out, cols > 0 ? "…" : "");
}
