#pragma once

#include "base/str.h"

// The head of a Markdown file that carries settings: skills and bots.
//
//     +++                      ---
//     name = "deploy"          name: deploy            no fence in the first line: all is body
//     +++                      ---
//     body ...                 body ...

enum front_kind {
    FRONT_NONE,     // all of it is body
    FRONT_TOML,     // between `+++` lines
    FRONT_LINES,    // between `---` lines: `key: value`
    FRONT_UNCLOSED, // begins and never ends
};

/// Borrowed from the text. Line n of `head` is line n + 1 of the file.
struct front {
    enum front_kind kind;
    struct str head; // without its fences; empty unless TOML or LINES
    struct str body; // not trimmed; of NONE and UNCLOSED everything
};

/// Split `text`; a byte order mark in front, CR before LF and spaces after a fence do not matter.
struct front front_split(struct str text);

/// The next line of `*rest` without its end, which may be LF or CR LF.
struct str front_line(struct str *rest);

/// Walk `key: value` lines: `while (front_pair(&head, &key, &value)) ...`. Both are trimmed, quotes
/// around the value are removed; lines without a colon are skipped.
bool front_pair(struct str *rest, struct str *key, struct str *value);
