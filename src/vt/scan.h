#pragma once

#include "base/buf.h"

// Terminal output, cut into pieces that a terminal obeys one by one: text, control sequences (CSI),
// escape sequences, strings (OSC, DCS, APC, ...). Pure: bytes in, tokens out. The tokens do not depend on
// how the bytes were split.

enum { SCAN_CONTROL_MAX = 128, SCAN_STRING_MAX = 4096 };

enum scan_kind {
    SCAN_TEXT,    // characters, and of the control characters BEL BS HT LF VT FF CR; SO, SI alone
    SCAN_CONTROL, // CSI
    SCAN_ESCAPE,  // ESC, intermediate bytes, final byte
    SCAN_STRING,  // OSC, DCS, APC, PM, SOS
};

struct scan_token {
    enum scan_kind kind;
    struct str bytes;  // the whole token; borrowed until the next call
    char prefix;       // CONTROL: one of "<=>?", or 0
    char inter;        // CONTROL, ESCAPE: intermediate byte, or 0
    char final;        // CONTROL, ESCAPE: last byte; STRING: one of "]PX^_"
    struct str params; // CONTROL: digits, ';' and ':'; STRING: the body
};

struct scan {
    // private
    unsigned state;
    struct buf held; // a token whose end has not come
    char control;    // a control character that came inside one
};

/// Start between two tokens; free what is held.
void scan_init(struct scan *s);
void scan_fini(struct scan *s);

/// Take the next token from the front of `*in`. False when `*in` is used up; a token that has only begun
/// is held. Bytes that no token needs (NUL, ENQ, C1 characters, a control sequence or a string that is
/// too long) are dropped, and what is not UTF-8 becomes U+FFFD.
bool scan_next(struct scan *s, struct str *in, struct scan_token *t);

/// The numbers in `params`, at most `max`: 0 where none was given. Subparameters (':') are skipped.
/// Returns how many there are, at least 1.
unsigned scan_numbers(struct str params, unsigned *out, unsigned max);
