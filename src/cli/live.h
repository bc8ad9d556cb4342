#pragma once

#include "cli/out.h"

// Markdown on a terminal while it is still coming: whole blocks are printed for good, the block that
// grows is drawn again in place.

struct live {
    struct out *out; // borrowed; its stdout is a terminal that takes escape sequences
    struct buf text; // not printed for good yet
    bool begun;      // something of this text is printed for good
    size_t drawn;    // rows on the screen that can still be redrawn
    size_t drawn_n;  // how much of `text` they show
    size_t cols;     // the width they were drawn for
};

void live_init(struct live *l, struct out *out);
void live_fini(struct live *l);

void live_add(struct live *l, struct str text);
/// Print what is left for good; the next text is a new one.
void live_end(struct live *l);
/// Take what is not printed for good off the screen, and forget it.
void live_drop(struct live *l);
/// A dim line in the place of the text, until there is some.
void live_hint(struct live *l, const char *hint);
