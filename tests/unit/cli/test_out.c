#include <unistd.h>

#include "unit/test.h"
#include "view/table.h"

static void check_gathered(struct out *o, const char *expected)
{
    out_control(o, STR("")); // what was added before is made fit for the terminal
    CHECK_STR(buf_z(&o->data), expected);
    out_fini(o);
}

TEST(a_terminal_obeys_only_sequences_of_our_own)
{
    struct out o;
    out_init(&o, OUT_ALWAYS, false);
    o.terminal = true;
    out_add(&o, STR("a\x1b[2J\n"));
    buf_addz(&o.data, "\x1b]0;x\x07"); // written past out_add(), as JSON writers do
    out_control(&o, STR("\x1b[K"));
    out_addf(&o, "%s", "\x1b[8m");
    out_tinted(&o, OUT_RED, STR("b\nc"));
    check_gathered(&o, "a\\x1b[2J\n\\x1b]0;x\\x07\x1b[K\\x1b[8m\x1b[31mb\\nc\x1b[0m");
}

TEST(a_pipe_gets_data_as_it_is)
{
    struct out o;
    out_init(&o, OUT_NEVER, false);
    o.terminal = false;
    out_add(&o, STR("a\x1b[2J\r\n\xff"));
    check_gathered(&o, "a\x1b[2J\r\n\xff");
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
