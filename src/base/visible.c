// Text from outside, fit for a terminal.
//
// Names of files, output of tools, words of a plugin or a model: all of it may hold escape sequences
// that clear the screen, set the clipboard or hide what the user is asked to agree to. Characters
// of no width and marks of writing direction need no escape sequence for that: `a<U+202E>cod.exe`
// reads as `aexe.doc`. This is the one place that knows which characters those are. They are written
// as escapes, never dropped: the user sees that they are there.
//
// Emoji are made of parts that are joined by such characters. Between two symbols the joiner stays,
// after a symbol the choice of its looks.

#include "base/visible.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/utf8.h"

enum { JOINER = 0x200D, TEXT_LOOK = 0xFE0E, EMOJI_LOOK = 0xFE0F };

// Controls, and what Unicode calls default ignorable. Sorted.
static const struct {
    uint32_t low, high;
} unseen[] = {
    {0x0000, 0x001F}, {0x007F, 0x009F},   {0x00AD, 0x00AD},   {0x034F, 0x034F},   {0x061C, 0x061C},
    {0x115F, 0x1160}, {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F}, {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
    {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
};

static bool is_unseen(uint32_t cp)
{
    size_t i = 0;
    while (i < ARRAY_LEN(unseen) && cp > unseen[i].high) {
        i++;
    }
    return i < ARRAY_LEN(unseen) && cp >= unseen[i].low;
}

static bool is_symbol(uint32_t cp)
{
    return (cp >= 0x203C && cp <= 0x2BFF && !is_unseen(cp)) || (cp >= 0x1F000 && cp <= 0x1FAFF);
}

/// Part of an emoji: `before` was shown before it, `rest` follows it.
static bool joins(uint32_t before, uint32_t cp, struct str rest)
{
    uint32_t after = 0;
    utf8_decode(rest, &after);
    if (cp == JOINER) {
        return (is_symbol(before) || before == EMOJI_LOOK) && is_symbol(after);
    }
    return (cp == TEXT_LOOK || cp == EMOJI_LOOK) && is_symbol(before);
}

/// Number of leading bytes that are printable ASCII.
static size_t plain_run(struct str text)
{
    size_t n = 0;
    while (n < text.n && text.p[n] >= ' ' && text.p[n] < 0x7F) {
        n++;
    }
    return n;
}

void visible_add(struct buf *to, struct str text, bool lines)
{
    uint32_t before = 0; // the last character, if it was shown as it is
    while (text.n != 0) {
        uint32_t cp = 0;
        size_t plain = plain_run(text);
        size_t n = plain != 0 ? plain : utf8_decode(text, &cp);
        struct str rest = str_from(text, n);
        bool ends = lines && (cp == '\n' || cp == '\t' || (cp == '\r' && str_starts(rest, "\n")));
        if (plain == 0 && cp == 0xFFFD && n == 1) {
            buf_addf(to, "\\x%02x", (unsigned char)text.p[0]);
            cp = 0;
        } else if (plain == 0 && is_unseen(cp) && !ends && !joins(before, cp, rest)) {
            if (cp == '\n') {
                buf_addz(to, "\\n");
            } else if (cp < 0x20) {
                buf_addf(to, "\\x%02x", cp);
            } else if (cp < 0x10000) {
                buf_addf(to, "\\u%04x", cp);
            } else {
                buf_addf(to, "\\u%04x\\u%04x", 0xD7C0 + (cp >> 10), 0xDC00 + (cp & 0x3FF));
            }
            cp = 0;
        } else {
            buf_add(to, text.p, n);
        }
        before = cp;
        text = rest;
    }
}

void visible_say(const char *fmt, ...)
{
    va_list ap;
    struct buf line = {.max = SIZE_MAX};
    va_start(ap, fmt);
    char *text = xvasprintf(fmt, ap);
    va_end(ap);
    visible_add(&line, str_of(text), false);
    buf_addc(&line, '\n');
    ssize_t n = write(STDERR_FILENO, line.p, line.n);
    (void)n; // stderr is the last place to report to
    buf_fini(&line);
    free(text);
}
