#pragma once

#include "base/buf.h"

// The state of the environment, as it is shown.

enum status_mode { STATUS_PROMPT, STATUS_ROW, STATUS_NONE };

/// Find a mode by its name on the command line; false when no mode has that name.
bool status_mode_of(const char *name, enum status_mode *out);

// state, its name, colours of the row (SGR parameters)
#define STATUS_STATES(X)                                                                           \
    X(WATCHING, "watching", "")                                                                    \
    X(BUILDING, "building", "97;44")                                                               \
    X(RELOADING, "reloading", "30;43")                                                             \
    X(READY, "ready", "30;42")                                                                     \
    X(RELOADED, "reloaded", "30;42")                                                               \
    X(FAILED, "failed", "97;41")                                                                   \
    X(PAUSED, "paused", "")

enum status_state {
#define X(id, name, colour) STATUS_##id,
    STATUS_STATES(X)
#undef X
};

/// The word for a state: "building".
const char *status_state_name(enum status_state s);

struct status {
    enum status_state state;
    const char *const *changed; // files that caused a build
    size_t n_changed;
    uint64_t duration_ms; // of the last build
    size_t n_inputs;
    const char *key; // as configured: `\e\C-r`
    bool plain;      // without colours
};

/// The state in one short line for the prompt, without a newline; with the key where pressing it helps.
void status_render_line(const struct status *s, struct buf *out);
/// What the key does, for the end of such a line: "  (press Ctrl-Alt-R to reload)".
void status_render_hint(const char *key, const char *what, struct buf *out);

/// The text of the row, at most `columns` wide, with colours; no cursor movement.
void status_render(const struct status *s, size_t columns, struct buf *out);

/// A key as people write it: `\e\C-r` is "Ctrl-Alt-R". Unknown ones stay as they are.
void status_render_key(const char *key, struct buf *out);
