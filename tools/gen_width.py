#!/usr/bin/env python3
"""Write src/base/utf8_width.c from Python's Unicode tables: gen_width.py > src/base/utf8_width.c"""
import sys
import unicodedata

# Hangul vowels and final consonants join the syllable before them
JOINING = [(0x1160, 0x11FF), (0xD7B0, 0xD7C6), (0xD7CB, 0xD7FB)]
# ideographs, wide by the standard's default even where nothing is assigned yet
IDEOGRAPHS = [(0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2FFFD),
              (0x30000, 0x3FFFD)]


def inside(cp, ranges):
    return any(low <= cp <= high for low, high in ranges)


def width(cp):
    char = chr(cp)
    if cp == 0xAD:  # terminals show the soft hyphen
        return 1
    if unicodedata.category(char) in ("Cc", "Cf", "Mn", "Me", "Zl", "Zp") or inside(cp, JOINING):
        return 0
    if unicodedata.category(char) == "Cn":  # not assigned: Python may say anything of its width
        return 2 if inside(cp, IDEOGRAPHS) else 1
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def ranges(wanted):
    found = []
    for cp in range(sys.maxunicode + 1):
        if width(cp) != wanted:
            continue
        if found and found[-1][1] == cp - 1:
            found[-1][1] = cp
        else:
            found.append([cp, cp])
    return found


def table(name, rows):
    lines = [f"static const struct range {name}[] = {{"]
    cells = [f"{{0x{low:04X}, 0x{high:04X}}}," for low, high in rows]
    lines += ["    " + " ".join(cells[i:i + 4]) for i in range(0, len(cells), 4)]
    return "\n".join(lines + ["};"])


print(f"""\
// Columns a character takes in a terminal, Unicode {unicodedata.unidata_version}.
//
// Made by tools/gen_width.py: change that, not this. Each table holds sorted ranges that do not
// touch; what is in none of them is one column wide.

#include "base/utf8.h"

struct range {{
    uint32_t low, high;
}};

// clang-format off
{table("zero", ranges(0))}

{table("two", ranges(2))}
// clang-format on

static bool in_table(const struct range *table, size_t n, uint32_t cp)
{{
    size_t low = 0, high = n;
    while (low < high) {{
        size_t mid = low + (high - low) / 2;
        if (cp > table[mid].high) {{
            low = mid + 1;
        }} else {{
            high = mid;
        }}
    }}
    return low < n && cp >= table[low].low;
}}

int utf8_char_width(uint32_t cp)
{{
    if (cp >= 0x20 && cp < 0x7F) {{
        return 1;
    }}
    if (in_table(zero, ARRAY_LEN(zero), cp)) {{
        return 0;
    }}
    return in_table(two, ARRAY_LEN(two), cp) ? 2 : 1;
}}""")
