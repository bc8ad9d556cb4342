#pragma once

#include "base/buf.h"

// A terminal's screen, kept in memory: bytes of a program go in, rows of cells can be read. No loop, no
// descriptors; one thread at a time.
//
//     program's bytes ──> vt_feed ──> cells, cursor, title, ...
//                            └──────> clean bytes: what other terminals may be shown
//
// The screen is a grid of rows x cols; lines that leave it at the top become history, at most
// `history` of them. Lines that were wrapped are wrapped anew when the width changes.

enum { VT_ROWS_MAX = 1000, VT_COLS_MAX = 1000, VT_HISTORY_DEFAULT = 10000 };

// Colours of a cell: 0 is the terminal's default.
#define VT_INDEXED    0x01000000u // | index, 0 to 255
#define VT_RGB        0x02000000u // | red << 16 | green << 8 | blue
#define VT_COLOR_KIND 0xff000000u

enum vt_attr {
    VT_BOLD = 1,
    VT_DIM = 2,
    VT_ITALIC = 4,
    VT_UNDERLINE = 8, // any of the underlines; the two below say which
    VT_DOUBLE = 16,
    VT_CURLY = 32,
    VT_BLINK = 64,
    VT_REVERSE = 128,
    VT_HIDDEN = 256,
    VT_STRIKE = 512,
};

struct vt_cell {
    uint32_t text; // a code point, 0: empty; or private to vt, see vt_cell_text()
    uint32_t fg, bg;
    uint16_t attrs; // of enum vt_attr
    uint8_t width;  // columns: 1 or 2; 0: the right half of the cell before it
};

enum vt_shape { VT_BLOCK = 1, VT_UNDERSCORE, VT_BAR };

struct vt_cursor {
    int row, col;
    bool visible;
    enum vt_shape shape;
};

/// What happens apart from the screen. All members may be NULL. Texts are UTF-8 without control
/// characters, at most 512 bytes, borrowed for the call. Called from inside vt_feed(), which must not be
/// entered again.
struct vt_cb {
    void (*title)(struct str title, void *arg);
    void (*directory)(struct str path, void *arg); // OSC 7: an absolute path
    void (*bell)(void *arg);
    void (*notify)(struct str title, struct str body, void *arg); // OSC 9, OSC 777
    /// OSC 133: 'A' prompt, 'B' command, 'C' output, 'D' end with `status`, -1 when not given.
    void (*mark)(char kind, int status, void *arg);
    /// What the program asked for and is to read: only its cursor position, the kind of terminal and the
    /// state of modes. Titles, clipboard and other contents are never reported.
    void (*answer)(struct str bytes, void *arg);
};

struct vt;

/// A blank screen. Sizes are cut to 2..VT_ROWS_MAX and 3..VT_COLS_MAX; `history` is in lines, 0 for none.
/// `cb` may be NULL and is copied; `arg` is borrowed.
struct vt *vt_new(int rows, int cols, size_t history, const struct vt_cb *cb, void *arg);
void vt_free(struct vt *v); // NULL is allowed

/// Take the program's bytes, split anywhere. `clean` (may be NULL) gets what another terminal may be shown:
/// whole sequences only, of which this screen knows the effect, and no question that the other terminal
/// would answer. A new vt that is fed a snapshot and then the clean bytes that follow shows the same.
void vt_feed(struct vt *v, struct str bytes, struct buf *clean);

/// Change the size. Nothing happens when it is the same.
void vt_resize(struct vt *v, int rows, int cols);

/// The size of the screen.
int vt_rows(const struct vt *v);
/// See vt_rows().
int vt_cols(const struct vt *v);

/// The cells of a row, vt_cols() of them: 0 is the screen's top row, -1 the newest row of the history, down
/// to -vt_history(). Borrowed until the next call with the same `v`.
const struct vt_cell *vt_row(struct vt *v, int row);
/// Rows of history at this width; none while the alternate screen is shown.
int vt_history(struct vt *v);
/// True when the row (numbers as in vt_row()) continues in the next one.
bool vt_row_wrapped(struct vt *v, int row);

/// The text of a cell as UTF-8, "" for an empty one and the right half of a wide one; returns its length.
enum { VT_TEXT_MAX = 32 };
size_t vt_cell_text(const struct vt *v, const struct vt_cell *c, char out[VT_TEXT_MAX]);

/// Where the cursor is, and how it looks.
struct vt_cursor vt_get_cursor(const struct vt *v);
/// Title and directory as last set, "" at first; borrowed until the next vt_feed().
const char *vt_title(const struct vt *v);
const char *vt_directory(const struct vt *v);
/// True while a full-screen program has the alternate screen.
bool vt_alternate(const struct vt *v);
/// The state of a private mode (CSI ? N h): 1 cursor keys, 1000 1002 1003 1006 mouse, 1004 focus, 2004 paste.
bool vt_mode(const struct vt *v, unsigned mode);

/// Append bytes that make a terminal of the same size show this screen and stand in the same modes,
/// whatever it showed before; first up to `history` rows of history, which scroll off at its top.
void vt_snapshot(struct vt *v, int history, struct buf *out);
/// Append bytes that take a terminal out of the modes that programs may have set.
void vt_reset_modes(struct buf *out);
