#include <unistd.h>

#include "cli/out.h"
#include "unit/test.h"

static void check_escaped(struct str in, const char *expected)
{
    struct buf b;
    buf_init(&b, 4096);
    out_escape(&b, in);
    CHECK_STR(buf_z(&b), expected);
    buf_fini(&b);
}

TEST(text_from_outside_cannot_command_a_terminal)
{
    check_escaped(STR("plain text, ünïcode 漢字"), "plain text, ünïcode 漢字");
    check_escaped(STR("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
    check_escaped(STR("a\rb\nc\td"), "a\\x0db\\nc\\x09d");
    check_escaped(STR("\x7f"), "\\x7f");
    check_escaped(STR("\xc2\x9b"
                      "31m"),
                  "\\x9b31m"); // CSI as one character
    check_escaped(STR("\xe2\x80\xae"
                      "abc"),
                  "\\u202eabc"); // right-to-left override
    check_escaped(STR("\xff\xfe"), "\\xff\\xfe");
    check_escaped((struct str){"a\0b", 3}, "a\\x00b");
    check_escaped(STR("\xef\xbf\xbd"), "\xef\xbf\xbd"); // U+FFFD itself is harmless
}

// What table_print() gathers, without writing it.
static const char *printed(const struct table *t, bool color)
{
    static struct out o;
    out_fini(&o);
    out_init(&o, color ? OUT_ALWAYS : OUT_NEVER, false);
    table_print(t, &o);
    return buf_z(&o.data);
}

TEST(columns_line_up_by_width_not_by_bytes)
{
    struct table t;
    table_init(&t, 2);
    table_add(&t, OUT_PLAIN, STR("漢字"));
    table_add(&t, OUT_PLAIN, STR("one"));
    table_add(&t, OUT_PLAIN, STR("é"));
    table_addf(&t, "%s", "two");
    CHECK_STR(printed(&t, false), "漢字  one\né     two\n");
    table_fini(&t);
}

TEST(colour_is_put_round_the_text_only_where_it_is_wanted)
{
    struct table t;
    table_init(&t, 1);
    table_add(&t, OUT_RED, STR("bad"));
    CHECK_STR(printed(&t, false), "bad\n");
    CHECK_STR(printed(&t, true), "\033[31mbad\033[0m\n");
    table_fini(&t);
}

TEST(a_write_that_fails_is_remembered)
{
    struct out o;
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    close(ends[1]);
    int saved = dup(STDOUT_FILENO);
    CHECK(dup2(ends[0], STDOUT_FILENO) >= 0); // the reading end: not writable
    out_init(&o, OUT_NEVER, false);
    out_add(&o, STR("lost"));
    bool written = out_flush(&o);
    dup2(saved, STDOUT_FILENO);
    CHECK(!written);
    CHECK(o.fault != 0);
    out_add(&o, STR("more"));
    CHECK(!out_flush(&o));
    out_fini(&o);
}
