#include "mcp/template.h"
#include "unit/test.h"

/// The variable that is typed, then what was given before; NULL: none.
static void check_at(const char *template, const char *typed, const char *want, const char *given)
{
    struct buf text = {.max = SIZE_MAX}, got = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    struct mcp_spot at;
    jw_obj(&w);
    bool fits = mcp_template_at(str_of(template), str_of(typed), &at, &w);
    jw_end_obj(&w);
    CHECK_INT(fits, want != NULL);
    if (fits) {
        buf_addf(&got, STR_FMT "[%s" STR_FMT "=" STR_FMT "]" STR_FMT, STR_ARG(at.before),
                 at.reserved ? "+" : "", STR_ARG(at.variable), STR_ARG(at.value),
                 STR_ARG(at.after));
        CHECK_STR(buf_z(&got), want);
        CHECK_STR(buf_z(&text), given);
    }
    buf_fini(&text);
    buf_fini(&got);
}

TEST(the_variable_at_the_cursor_is_found)
{
    check_at("n://{day}/{+path}", "n://", "n://[day=]/", "{}");
    check_at("n://{day}/{+path}", "n://mo", "n://[day=mo]/", "{}");
    check_at("n://{day}/{+path}", "n://a%20b/x/y", "n://a%20b/[+path=x/y]", "{\"day\":\"a b\"}");
    check_at("{a}{b}", "xy", "[a=xy]", "{}");
}

TEST(text_that_fits_no_variable_of_a_template_has_none)
{
    check_at("n://{day}", "n:/", NULL, NULL);
    check_at("n://{day}", "m://x", NULL, NULL);
    check_at("n://plain", "n://plain", NULL, NULL);
    check_at("n://{day}.txt", "n://a.txt", NULL, NULL);
    check_at("n://{?q}", "n://x", NULL, NULL);
    check_at("n://{list*}", "n://x", NULL, NULL);
    check_at("n://{}", "n://x", NULL, NULL);
    check_at("n://{open", "n://x", NULL, NULL);
    check_at("", "", NULL, NULL);
}
