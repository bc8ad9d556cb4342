// Text for a terminal: whatever comes in, what goes out is UTF-8 without a character that a terminal
// obeys or hides, making it visible twice changes nothing, and printable ASCII is never lost.

#include <assert.h>

#include "base/utf8.h"
#include "base/visible.h"

static bool is_allowed(uint32_t cp, bool lines)
{
    bool control = cp < 0x20 || (cp >= 0x7F && cp < 0xA0);
    bool direction = (cp >= 0x202A && cp <= 0x202E) || (cp >= 0x2066 && cp <= 0x2069);
    bool end = cp == '\n' || cp == '\r' || cp == '\t';
    return (!control && !direction && cp != 0x200B && cp != 0xFEFF) || (lines && end);
}

static size_t count_ascii(struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        n += s.p[i] >= ' ' && s.p[i] < 0x7F;
    }
    return n;
}

static void check(struct str text, bool lines)
{
    struct buf once, twice;
    buf_init(&once, SIZE_MAX);
    buf_init(&twice, SIZE_MAX);
    visible_add(&once, text, lines);
    struct str shown = buf_str(&once);
    assert(utf8_valid(shown) && count_ascii(shown) >= count_ascii(text));
    for (struct str rest = shown; rest.n != 0;) {
        uint32_t cp;
        size_t n = utf8_decode(rest, &cp);
        assert(is_allowed(cp, lines));
        rest = str_from(rest, n);
    }
    visible_add(&twice, shown, lines);
    assert(str_eq(shown, buf_str(&twice)));
    buf_fini(&once);
    buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    check(text, false);
    check(text, true);
    return 0;
}
