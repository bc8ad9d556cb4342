#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "term/color.h"
#include "term/panel.h"

// What a command prints: data on stdout, talk on stderr.
//
// Data is gathered and written by out_flush(), so that a full disk or a reader that has gone is
// seen and becomes the command's failure. A terminal obeys nothing of it but out_control().
//
// A command that draws (out_begin()) has rows at the end of the screen: what it prints waits for the next
// out_frame(), which puts it above them, and talk takes them off for a moment.

enum out_color { OUT_AUTO, OUT_ALWAYS, OUT_NEVER };
enum out_tint { OUT_PLAIN, OUT_BOLD, OUT_DIM, OUT_GREEN, OUT_YELLOW, OUT_RED };

struct out {
    struct buf data;
    size_t safe;   // bytes at the front of `data` that the terminal may get as they are
    size_t unsent; // bytes at the front of `data` that an interrupted write has left
    bool quiet;
    enum color_depth color; // what stdout takes
    bool terminal;          // stdout is a terminal
    bool ascii;             // it takes no UTF-8
    bool drawing;           // between out_begin() and out_end()
    bool gathers;           // nothing is written: see out_init_rows()
    struct panel panel;
    int fault; // errno of the first write that failed, 0 while all is well
};

/// Begin; `quiet` leaves notes out. The caller ends it with out_fini().
void out_init(struct out *o, enum out_color color, bool quiet);
/// Gather everything in `data`, notes too, as a terminal of this depth shows it: rows for a screen. The caller takes
/// them from there. Nothing is written.
void out_init_rows(struct out *o, enum color_depth color);
/// Write what is left, and free.
void out_fini(struct out *o);

/// Data: a pipe gets these bytes, a terminal gets visible_add() of them, line by line.
void out_add(struct out *o, struct str bytes);
void out_addf(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
/// Escape sequences of ours, and text that visible_add() made, for the terminal as they are.
void out_control(struct out *o, struct str sequences);
void out_text(struct out *o, struct str text); // visible_add() on one line, also in a pipe
void out_tinted(struct out *o, enum out_tint tint, struct str text); // out_text() in a colour
/// An answer as it came; a terminal gets the line end that the answer may lack.
void out_body(struct out *o, struct str body);

/// Write what was gathered. False once something could not be written.
bool out_flush(struct out *o);
/// A signal that held up the writing has been dealt with: the next flush writes what was left.
void out_resume(struct out *o);

/// From now on there are rows at the end of the screen. Only for a terminal that takes sequences.
void out_begin(struct out *o);
/// The window got another size: the next frame is written as a whole.
void out_resized(struct out *o);
/// Write what was gathered and below it the rows `lines`, each with a line feed, with the cursor at `row`
/// and `col`, in one piece.
void out_frame(struct out *o, struct str lines, size_t row, size_t col);
/// Take the rows off the screen, and write what was gathered.
void out_end(struct out *o);

/// Append a bell, and a notification if the terminal has them: for a user who looks at another window.
/// `what` must hold no control characters.
void out_add_notice(struct buf *out, const char *what);

/// Print one line to stderr, prefixed "afloat: ". Notes are left out when quiet.
void out_note(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
void out_error(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);

/// A line on stderr as it is, for people to copy from; left out when quiet.
void out_hint(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
