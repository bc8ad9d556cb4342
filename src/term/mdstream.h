#pragma once

#include "term/markdown.h"

// Markdown that is still coming: lines that nothing can change any more come out once and for good, the
// block in hand as often as it is to be drawn.

struct mdstream {
    struct buf text; // not given out for good
    bool begun;      // something of this text was
    bool inside;     // `text` begins with the repeated opening of a block of code that was begun
};

/// Begin an empty stream. The caller ends it with mdstream_fini().
void mdstream_init(struct mdstream *m);
/// Free what it holds.
void mdstream_fini(struct mdstream *m);

/// More of the text came.
void mdstream_add(struct mdstream *m, struct str text);
/// Append the lines that are final, and forget what they show.
void mdstream_settle(struct mdstream *m, const struct markdown_look *look, struct buf *out);
/// Append the lines of the rest as it is now.
void mdstream_tail(const struct mdstream *m, const struct markdown_look *look, struct buf *out);
/// The text is complete: append the lines of the rest. The next text is a new one.
void mdstream_end(struct mdstream *m, const struct markdown_look *look, struct buf *out);
/// Forget what was not given out; the next text is a new one.
void mdstream_drop(struct mdstream *m);
