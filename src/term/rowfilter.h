#pragma once

#include "base/buf.h"

// Keeps the bottom line of a terminal free: what a program writes passes through here on its way, and
// only what could reach that line is changed. Pure: bytes in, bytes out.
//
// While the alternate screen is on nothing is kept free: the program has the whole window.
//
// A program that asks the terminal for its size would be told one line too many. Such questions end
// here, and what the program is to read instead is appended to `back`.

enum { ROWFILTER_HELD = 128 };

struct rowfilter {
    unsigned rows, cols; // of the terminal; the last row is ours
    unsigned x, y;       // the same in pixels, for the owner to set; 0: not known
    bool alternate;      // a full-screen program has the terminal
    bool damaged;        // the row was or may have been erased: draw it again
    // private
    unsigned state;      // where in a sequence we are
    bool origin;         // the program counts rows from its own region
    bool saved;          // it has saved the cursor and not come back to it
    bool reports;        // it has asked to be told of every change of size
    bool synchronized;   // it has asked for its output to be shown in one piece
    unsigned bottom;     // of the program's own region; 0: all it has
    unsigned characters; // bytes missing of a UTF-8 character
    size_t n_held;       // of a sequence whose end has not come
    char held[ROWFILTER_HELD];
};

/// Begin for a terminal of this size, the last row of which is ours.
void rowfilter_init(struct rowfilter *f, unsigned rows, unsigned cols);

/// Append to `out` what to write for `in`, and to `back` what the program is to read. The start of a
/// sequence is kept until the rest comes.
void rowfilter_feed(struct rowfilter *f, struct str in, struct buf *out, struct buf *back);
/// Append what is kept: nothing more comes.
void rowfilter_end(struct rowfilter *f, struct buf *out);

/// The window has another size now: append what keeps its last row free.
void rowfilter_resize(struct rowfilter *f, unsigned rows, unsigned cols, struct buf *out);

/// Append to `back` the size as the program has it, if it wants to be told of changes.
void rowfilter_report(const struct rowfilter *f, struct buf *back);

/// Take the row of a window of this size, at the start or when the terminal is ours again: append what
/// scrolls by a line if the cursor is in the way, and keeps the row free from then on.
void rowfilter_begin(struct rowfilter *f, unsigned rows, unsigned cols, struct buf *out);
/// Append what gives the row back, empty.
void rowfilter_leave(const struct rowfilter *f, struct buf *out);

/// The program will not come back to the cursor that it saved: a row may be drawn again.
void rowfilter_forget_cursor(struct rowfilter *f);

/// True when the last row is kept free: the window is high enough, and no program has all of it.
bool rowfilter_is_active(const struct rowfilter *f);

/// True when a row may be drawn now: not in a sequence, in a character, between the program's saving
/// the cursor and coming back to it, or while it wants to be shown in one piece; not on the alternate
/// screen.
bool rowfilter_may_draw(const struct rowfilter *f);
/// Append `text` drawn on the row; it moves no cursor and is at most as wide as the terminal.
void rowfilter_draw(struct rowfilter *f, struct str text, struct buf *out);
