#pragma once

#include "base/buf.h"
#include "base/err.h"

// What a command prints: data on stdout, talk on stderr.
//
// Data is gathered and written by out_flush(), so that a full disk or a reader that has gone is
// seen and becomes the command's failure. A terminal obeys nothing of it but out_control().

enum out_color { OUT_AUTO, OUT_ALWAYS, OUT_NEVER };
enum out_tint { OUT_PLAIN, OUT_BOLD, OUT_DIM, OUT_GREEN, OUT_YELLOW, OUT_RED };

struct out {
    struct buf data;
    size_t safe; // bytes at the front of `data` that the terminal may get as they are
    bool quiet;
    bool color;    // stdout takes colours
    bool terminal; // stdout is a terminal
    int fault;     // errno of the first write that failed, 0 while all is well
};

void out_init(struct out *o, enum out_color color, bool quiet);
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

/// One line on stderr behind "afloat: "; notes are left out when quiet.
void out_note(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
void out_error(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);

/// A line on stderr as it is, for people to copy from; left out when quiet.
void out_hint(struct out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
