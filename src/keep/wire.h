#pragma once

#include "base/buf.h"

// What a keeper and its viewers say to each other, as bytes. Pure: no descriptors.
//
//     message:  u32 length of what follows, u8 type, payload          all numbers little-endian
//
//     viewer ──> keeper                                   keeper ──> viewer
//     HELLO   u16 version, u8 role                        WELCOME   JSON: the terminal's row
//     ATTACH  u8 has_offset, u64 offset, u32 history,     SNAPSHOT  u64 offset, u16 rows, u16 cols, bytes
//             u16 rows, u16 cols                          OUTPUT    u64 offset, bytes
//     INPUT   bytes                                       RESIZE    u16 rows, u16 cols
//     RESIZE  u16 rows, u16 cols                          EXIT      u32 status
//     SCREEN  (nothing)                                   SCREEN    text, a line per row
//     KILL    (nothing)                                   NOTE      u8 kind, text
//                                                         REFUSED   text: why; the keeper hangs up
//
// HELLO comes first; a keeper of another version says REFUSED. Offsets count the clean bytes of the
// terminal's output from its start: OUTPUT continues exactly where SNAPSHOT or the OUTPUT before it ended.

enum { WIRE_VERSION = 1, WIRE_TO_KEEPER = 128 * 1024, WIRE_FROM_KEEPER = 32 << 20 };

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_WELCOME,
    WIRE_ATTACH,
    WIRE_SNAPSHOT,
    WIRE_OUTPUT,
    WIRE_INPUT,
    WIRE_RESIZE,
    WIRE_EXIT,
    WIRE_NOTE,
    WIRE_SCREEN,
    WIRE_KILL,
    WIRE_REFUSED,
};

enum wire_role { WIRE_VIEWER, WIRE_HUB };

/// Kinds of NOTE: the text is the title, the directory, nothing, "title\nbody", "A 0", a number.
enum wire_note {
    WIRE_TITLE = 'T',
    WIRE_DIRECTORY = 'D',
    WIRE_BELL = 'B',
    WIRE_NOTIFY = 'N',
    WIRE_MARK = 'M',
    WIRE_VIEWERS = 'V',
};

struct wire_msg {
    enum wire_type type;
    struct str payload; // borrowed from the reader until wire_drop()
};

struct wire {
    struct buf in;
    size_t max; // of a message
    size_t at;  // begin of the next message
};

/// Start with nothing read; messages longer than `max` are refused. Free the bytes.
void wire_init(struct wire *w, size_t max);
void wire_fini(struct wire *w);

/// Take bytes as they came.
void wire_feed(struct wire *w, struct str bytes);
/// The next whole message: 1 with `*m` filled in, valid until the next wire_feed(); 0 when more bytes are
/// needed, ERR_PARSE when what came is no message.
int wire_next(struct wire *w, struct wire_msg *m);

/// Append a message with payload `a` and then `b`.
void wire_add(struct buf *out, enum wire_type type, struct str a, struct str b);

/// Append the HELLO of this version.
void wire_add_hello(struct buf *out, enum wire_role role);

/// Append a number of `n` bytes (1 to 8).
void wire_put(struct buf *out, uint64_t value, unsigned n);
/// Take a number of `n` bytes from the front of `*from`. False when there are fewer.
bool wire_get(struct str *from, unsigned n, uint64_t *value);
