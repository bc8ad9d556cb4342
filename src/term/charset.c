// Terminals without UTF-8.
//
// Everything inside is UTF-8. A terminal that was set up for another encoding would show each of our marks and frames as
// two or three wrong characters, and rows would not fit. So what goes to it is reduced to ASCII, character by
// character and of the same width, in the one place that writes.

#include "term/charset.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"

bool charset_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *set = getenv(names[i]);
        if (set != NULL && set[0] != '\0') {
            const char *encoding = strchr(set, '.');
            return encoding == NULL || strncasecmp(encoding + 1, "utf-8", 5) == 0 ||
                   strncasecmp(encoding + 1, "utf8", 4) == 0;
        }
    }
    return true;
}

/// What stands for characters from `first` to `last`.
static const struct {
    uint32_t first, last;
    char ascii;
} table[] = {
    {0x00A0, 0x00A0, ' '}, {0x00B7, 0x00B7, '-'}, // the dot between parts of a status line
    {0x00AB, 0x00AB, '<'}, {0x00BB, 0x00BB, '>'}, {0x2010, 0x2015, '-'}, {0x2018, 0x201A, '\''},
    {0x201C, 0x201E, '"'}, {0x2022, 0x2022, '*'}, {0x2026, 0x2026, '.'}, {0x2190, 0x2190, '<'},
    {0x2191, 0x2191, '^'}, {0x2192, 0x2192, '>'}, {0x2193, 0x2193, 'v'}, {0x2500, 0x2501, '-'},
    {0x2502, 0x2503, '|'}, {0x2504, 0x254B, '+'}, {0x254C, 0x254D, '-'}, {0x254E, 0x254F, '|'},
    {0x2550, 0x2550, '-'}, {0x2551, 0x2551, '|'}, {0x2552, 0x2573, '+'}, {0x2574, 0x257F, '-'},
    {0x2580, 0x259F, '#'}, {0x25A0, 0x25FF, '*'}, // squares, triangles, circles
    {0x2713, 0x2714, '+'}, {0x2715, 0x2718, 'x'}, {0x276F, 0x276F, '>'}, {0x2800, 0x28FF, '*'},
};

static char ascii_of(uint32_t cp)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (cp >= table[i].first && cp <= table[i].last) {
            return table[i].ascii;
        }
    }
    return '?';
}

void charset_add_ascii(struct buf *out, struct str text)
{
    while (text.n != 0) {
        uint32_t cp;
        size_t n = utf8_decode(text, &cp);
        if (n <= 1) {
            buf_addc(out, n == 1 && (unsigned char)text.p[0] < 0x80 ? text.p[0] : '?');
            text = str_from(text, 1);
            continue;
        }
        for (int w = utf8_char_width(cp); w > 0; w--) {
            buf_addc(out, ascii_of(cp));
        }
        text = str_from(text, n);
    }
}
