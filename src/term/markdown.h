#pragma once

#include "base/buf.h"
#include "term/color.h"

// Markdown for a terminal. What it is given may come from anywhere: nothing of it can command the
// terminal, be it control bytes, marks of writing direction or entities that stand for such.

/// How it is to look.
struct markdown_look {
    size_t cols; // where text is wrapped; at least 1 is taken
    enum color_depth color;
};

/// Append `text` as lines that end in a line feed. Lines of code and tables are not wrapped.
/// At most UINT32_MAX bytes.
void markdown_render(struct buf *out, struct str text, const struct markdown_look *look);

/// How much of the front of `text` is whole blocks, whatever may follow it: so much can be rendered
/// for good while the rest is still coming. 0 when that is nothing.
size_t markdown_settled(struct str text);

/// True when `text` ends inside a fenced block of code.
bool markdown_is_open(struct str text);
