#pragma once

#include "base/buf.h"
#include "base/vec.h"

// One line of input on a terminal, as bytes in and bytes out. It reads and writes nothing itself and
// knows no terminal: whoever does feeds it what was typed and writes what it draws.

enum edit_result {
    EDIT_MORE,      // goes on
    EDIT_DONE,      // Enter: the text is complete
    EDIT_INTERRUPT, // Ctrl-C
    EDIT_END,       // Ctrl-D on an empty line
    EDIT_SUSPEND,   // Ctrl-Z
    EDIT_CLEAR,     // Ctrl-L: the screen is to be cleared, then everything drawn again
};

/// An editor. The members are its own.
struct edit {
    const char *prompt; // borrowed
    struct buf text;    // may hold line feeds and tabs, no other control characters
    size_t at;          // the cursor, a byte offset between characters
    struct buf killed;  // what Ctrl-K, -U and -W took last

    char pending[32]; // an escape sequence or a character that has not ended
    size_t n_pending;
    bool pasting;

    vec(char *) history;
    size_t shown;     // index into history; history.n: the new line
    struct buf draft; // the new line while history is shown

    size_t row; // of the cursor as drawn, from the first row drawn
};

void edit_init(struct edit *ed, const char *prompt);
void edit_fini(struct edit *ed);

/// Begin a new line; history stays.
void edit_start(struct edit *ed);
/// Add a line to the history; empty ones and repetitions of the last are left out.
void edit_remember(struct edit *ed, struct str line);

/// Take what was typed from the front of `*bytes`, until it is used up (EDIT_MORE) or a key says
/// more than that; the rest is left in `*bytes`.
enum edit_result edit_feed(struct edit *ed, struct str *bytes);
struct str edit_text(const struct edit *ed);

/// Append what draws the line, from wherever the last call left the cursor. For raw mode.
void edit_draw(struct edit *ed, struct buf *out, size_t rows, size_t cols);
/// The window has a new width: terminals have moved what was drawn.
void edit_resized(struct edit *ed, size_t cols);
/// Append what puts the cursor behind the text, on a row of its own.
void edit_leave(struct edit *ed, struct buf *out, size_t rows, size_t cols);
