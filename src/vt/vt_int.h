#pragma once

#include <vterm.h>

#include "vt/grid.h"
#include "vt/scan.h"
#include "vt/vt.h"

// Private modes that programs may set: number, initial state.
#define VT_MODES(X)                                                                                \
    X(1, false)    /* cursor keys */                                                               \
    X(5, false)    /* reverse video */                                                             \
    X(6, false)    /* origin */                                                                    \
    X(7, true)     /* autowrap */                                                                  \
    X(12, false)   /* blinking cursor */                                                           \
    X(25, true)    /* cursor shown */                                                              \
    X(1000, false) /* mouse */                                                                     \
    X(1002, false)                                                                                 \
    X(1003, false)                                                                                 \
    X(1004, false) /* focus */                                                                     \
    X(1005, false)                                                                                 \
    X(1006, false)                                                                                 \
    X(1007, false)                                                                                 \
    X(1015, false)                                                                                 \
    X(2004, false) /* bracketed paste */                                                           \
    X(2026, false) /* synchronized output */

enum vt_mode_bit {
#define X(n, initial) VT_MODE_##n,
    VT_MODES(X) VT_MODE__COUNT
#undef X
};

enum { VT_NAME_MAX = 512 };

struct vt_saved {
    VTermPos pos;
    struct vt_cell pen;
};

struct vt {
    VTerm *term;
    VTermState *state;
    struct scan scan;
    struct clusters clusters;
    struct history history;
    struct grid main, alternate, *on; // `on` is one of the two
    unsigned alternate_by;            // the mode that switched it on: 1047, 1049
    struct vt_cell pen;               // style of what is written next
    VTermPos pos;
    bool ahead;             // libvterm does not know yet that the cursor is there
    bool edge;              // its own cursor waits after the last column of `edge_row`
    int edge_row, edge_col; // and is said to be there
    struct vt_saved saved;  // by ESC 7
    bool modes[VT_MODE__COUNT];
    bool insert, newline, keypad; // modes that are not private
    bool blink;
    enum vt_shape shape;
    int top, bottom;  // scrolling region, from 1; 0, 0: all rows
    char charsets[2]; // of G0 and G1: '0' is line drawing
    bool shifted;     // G1 is in use
    // What was written last reached the end of its row: the row, the column after it, and where the cursor
    // is as long as nothing has moved it.
    bool pending;
    int pending_row, pending_end, pending_col;
    char title[VT_NAME_MAX + 1], directory[VT_NAME_MAX + 1];
    uint32_t last;       // the character written last; CSI b repeats it
    struct vt_cell *row; // scratch, for rows of the history
    struct vt_cb cb;
    void *arg;
};

extern const struct vt_mode_info {
    unsigned number;
    bool initial;
} vt__modes[VT_MODE__COUNT];
/// Index of a private mode, or -1.
int vt__mode_index(unsigned number);

static inline int vt__clamp(int n, int low, int high)
{
    return MAX(low, MIN(n, high));
}

/// The table of clusters is full: keep those that are on a screen.
void vt__sweep_clusters(struct vt *v);

/// Obey as much of a text as is plain; returns how many bytes that is.
size_t vt__put_plain(struct vt *v, struct str bytes);
/// Give bytes to libvterm, and learn where the cursor is.
void vt__tell(struct vt *v, struct str bytes);
/// Obey the tokens of `bytes`; append to `clean` (may be NULL) what other terminals may see.
void vt__run(struct vt *v, struct scan *s, struct str bytes, struct buf *clean);

/// Change the style by the parameters of CSI m.
void vt__set_pen(struct vt_cell *pen, struct str params);
/// Append the sequence that sets this style, whatever it was.
void vt__add_pen(struct buf *out, const struct vt_cell *pen);

/// True when the cursor is after the last column: the next character will be wrapped.
bool vt__is_phantom(const struct vt *v);

/// Obey an OSC; append to `clean` (may be NULL) what other terminals may see of it.
void vt__on_osc(struct vt *v, struct str body, struct buf *clean);
