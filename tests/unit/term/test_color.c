#include "term/color.h"
#include "unit/test.h"

TEST(the_depth_follows_what_the_terminal_says)
{
    static const struct {
        const char *term, *colorterm, *no_color;
        enum color_depth depth;
    } rows[] = {{"xterm", NULL, NULL, COLOR_16},
                {"xterm-256color", NULL, NULL, COLOR_256},
                {"xterm-256color", "truecolor", NULL, COLOR_TRUE},
                {"tmux-256color", "24bit", "", COLOR_TRUE},
                {"xterm-kitty", NULL, NULL, COLOR_TRUE},
                {"xterm-direct", NULL, NULL, COLOR_TRUE},
                {"xterm-256color", "truecolor", "1", COLOR_NONE},
                {"dumb", "truecolor", NULL, COLOR_NONE},
                {"", NULL, NULL, COLOR_NONE},
                {NULL, NULL, NULL, COLOR_NONE}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_INT(color_depth_of(rows[i].term, rows[i].colorterm, rows[i].no_color), rows[i].depth);
    }
}

TEST(every_role_has_a_sequence_at_every_depth)
{
    for (int depth = COLOR_16; depth <= COLOR_TRUE; depth++) {
        for (int role = 0; role < COLOR__ROLES; role++) {
            const char *on = color_on((enum color_depth)depth, (enum color_role)role);
            CHECK(strncmp(on, "\033[", 2) == 0 && on[strlen(on) - 1] == 'm');
        }
        CHECK_STR(color_off((enum color_depth)depth), "\033[0m");
    }
    CHECK_STR(color_on(COLOR_NONE, COLOR_BAD), "");
    CHECK_STR(color_off(COLOR_NONE), "");
}
