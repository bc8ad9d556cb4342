#include "base/json.h"
#include "base/visible.h"
#include "unit/test.h"

static void check_as(struct str in, bool lines, const char *expected)
{
    struct buf b;
    buf_init(&b, 4096);
    visible_add(&b, in, lines);
    CHECK_STR(buf_z(&b), expected);
    buf_fini(&b);
}

static void check(const char *in, const char *expected)
{
    check_as(str_of(in), false, expected);
}

TEST(text_from_outside_cannot_command_a_terminal)
{
    check("plain text, ünïcode 漢字, e\u0301", "plain text, ünïcode 漢字, e\u0301");
    check("\x1b]0;title\x07", "\\x1b]0;title\\x07");
    check("a\rb\nc\td", "a\\x0db\\nc\\x09d");
    check("\x7f", "\\u007f");
    check("\xc2\x9b"
          "31m",
          "\\u009b31m"); // CSI as one character
    check("\xff\xfe", "\\xff\\xfe");
    check_as((struct str){"a\0b", 3}, false, "a\\x00b");
    check("\ufffd", "\ufffd"); // itself harmless
}

TEST(characters_that_hide_or_reorder_are_shown)
{
    check("\u202eabc", "\\u202eabc");            // right-to-left override
    check("a\u200bb\ufeff", "a\\u200bb\\ufeff"); // no width
    check("co\u00adop\u2060", "co\\u00adop\\u2060");
    check("a\u2028b\u2066c\u2069", "a\\u2028b\\u2066c\\u2069");
    check("x\U000e0041", "x\\udb40\\udc41"); // a tag, as JSON writes it
}

TEST(emoji_keep_their_parts)
{
    check("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469");
    check("\u2764\ufe0f\u200d\U0001f525", "\u2764\ufe0f\u200d\U0001f525");
    check("a\u200db", "a\\u200db");
    check("\U0001f468\u200db", "\U0001f468\\u200db");
    check("a\ufe0f", "a\\ufe0f");
    check("a\ufe0f\u200d\U0001f525", "a\\ufe0f\\u200d\U0001f525");
}

TEST(lines_keep_their_ends_and_tabs)
{
    check_as(STR("a\tb\r\nc\rd\n"), true, "a\tb\r\nc\\x0dd\n");
}

TEST(json_stays_the_same_value)
{
    struct str text = STR("{\"a\":\"\xc2\x9b\u202e\x7f\U000e0041 é\"}\n");
    struct buf shown;
    struct arena arena = {0};
    struct err e;
    struct json *v;
    buf_init(&shown, 4096);
    visible_add(&shown, text, true);
    CHECK(str_index(buf_str(&shown), '\x7f') < 0);
    CHECK_INT(json_parse(&v, &arena, buf_str(&shown), NULL, &e), 0);
    CHECK_SPAN(json_get(v, "a")->s, "\xc2\x9b\u202e\x7f\U000e0041 é");
    arena_fini(&arena);
    buf_fini(&shown);
}
