#pragma once

#include "base/base.h"

// Colours by what the terminal can show.

enum color_depth { COLOR_NONE, COLOR_16, COLOR_256, COLOR_TRUE };

// role, 16 colours, 256 colours, true colour: parameters of ESC [ ... m
#define COLOR_ROLES(X)                                                                             \
    X(BOLD, "1", "1", "1")                                                                         \
    X(DIM, "2", "2", "2")                                                                          \
    X(GOOD, "32", "32", "32")                                                                      \
    X(WARN, "33", "33", "33")                                                                      \
    X(BAD, "31", "31", "31")                                                                       \
    X(ACCENT, "36", "38;5;38", "38;2;38;150;190")                                                  \
    X(CODE, "36", "36", "36")                                                                      \
    X(ADDED, "32", "48;5;22;38;5;253", "48;2;18;52;28;38;2;214;236;218")                           \
    X(ADDED_WORD, "32;7", "48;5;28;38;5;231;1", "48;2;32;104;52;38;2;255;255;255;1")               \
    X(REMOVED, "31", "48;5;52;38;5;253", "48;2;62;22;24;38;2;240;214;214")                         \
    X(REMOVED_WORD, "31;7", "48;5;124;38;5;231;1", "48;2;132;36;40;38;2;255;255;255;1")

enum color_role {
#define X(id, c16, c256, ctrue) COLOR_##id,
    COLOR_ROLES(X) COLOR__ROLES
#undef X
};

/// What a terminal can show, by the values of TERM, COLORTERM and NO_COLOR; each may be NULL.
enum color_depth color_depth_of(const char *term, const char *colorterm, const char *no_color);

/// The sequence that switches `role` on; "" when there are no colours.
const char *color_on(enum color_depth depth, enum color_role role);
/// The sequence that switches everything off again; "" when there are no colours.
const char *color_off(enum color_depth depth);
