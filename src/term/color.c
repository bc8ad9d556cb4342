// One table of colours for every screen.
//
// Roles, not colours, are what the rest of the program names. With 16 colours the user's palette
// decides what they look like; 256 and true colour have fixed values that read on dark and light
// backgrounds alike because they set both foreground and background.

#include "term/color.h"

#include <assert.h>

enum color_depth color_depth_of(const char *term, const char *colorterm, const char *no_color)
{
    if ((no_color != NULL && no_color[0] != '\0') || term == NULL || term[0] == '\0' ||
        strcmp(term, "dumb") == 0) {
        return COLOR_NONE;
    }
    if (colorterm != NULL &&
        (strcmp(colorterm, "truecolor") == 0 || strcmp(colorterm, "24bit") == 0)) {
        return COLOR_TRUE;
    }
    if (strstr(term, "direct") != NULL || strstr(term, "kitty") != NULL) {
        return COLOR_TRUE;
    }
    return strstr(term, "256") != NULL ? COLOR_256 : COLOR_16;
}

const char *color_on(enum color_depth depth, enum color_role role)
{
    static const char *const codes[][COLOR__ROLES] = {
#define X(id, c16, c256, ctrue) [COLOR_##id] = "\033[" c16 "m",
        [COLOR_16] = {COLOR_ROLES(X)},
#undef X
#define X(id, c16, c256, ctrue) [COLOR_##id] = "\033[" c256 "m",
        [COLOR_256] = {COLOR_ROLES(X)},
#undef X
#define X(id, c16, c256, ctrue) [COLOR_##id] = "\033[" ctrue "m",
        [COLOR_TRUE] = {COLOR_ROLES(X)},
#undef X
    };
    assert(depth <= COLOR_TRUE && role < COLOR__ROLES);
    return depth == COLOR_NONE ? "" : codes[depth][role];
}

const char *color_off(enum color_depth depth)
{
    return depth == COLOR_NONE ? "" : "\033[0m";
}
