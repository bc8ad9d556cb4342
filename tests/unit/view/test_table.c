#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "unit/test.h"
#include "view/table.h"

// What table_print() gathers when stdout is a terminal of this width; 0: no terminal.
static const char *printed(const struct table *t, unsigned short width)
{
    static struct out o;
    int saved = dup(STDOUT_FILENO), ours = -1;
    if (width != 0) {
        ours = posix_openpt(O_RDWR | O_NOCTTY);
        CHECK(ours >= 0 && grantpt(ours) == 0 && unlockpt(ours) == 0);
        int theirs = open(ptsname(ours), O_RDWR | O_NOCTTY);
        struct winsize size = {.ws_row = 24, .ws_col = width};
        CHECK(theirs >= 0 && ioctl(theirs, TIOCSWINSZ, &size) == 0);
        CHECK(dup2(theirs, STDOUT_FILENO) >= 0);
        close(theirs);
    }
    out_fini(&o);
    out_init(&o, OUT_NEVER, false);
    o.terminal = width != 0; // the runner's own stdout may be one
    table_print(t, &o);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    if (ours >= 0) {
        close(ours);
    }
    return buf_z(&o.data);
}

static void fill(struct table *t)
{
    table_init(t, 5);
    table_set_column(t, 0, "ID", TABLE_KEEP);
    table_set_column(t, 1, "STATE", TABLE_KEEP);
    table_set_column(t, 2, "NEVER", TABLE_KEEP);
    table_set_column(t, 3, "DIRECTORY", TABLE_CUT_HEAD);
    table_set_column(t, 4, "TITLE", TABLE_CUT);
    static const char *const cells[] = {
        "0195aaaa-bbbb-7ccc", "running", "", "/home/ada/src/engine/notes", "A title that goes on",
        "0195aaaa-bbbb-7ccd", "ended",   "", "/srv/漢字漢字漢字漢字",      "漢字漢字漢字漢字 b",
    };
    for (size_t i = 0; i < ARRAY_LEN(cells); i++) {
        table_add(t, OUT_PLAIN, str_of(cells[i]));
    }
}

TEST(a_pipe_gets_every_cell_whole_and_no_heads)
{
    struct table t;
    fill(&t);
    CHECK_STR(printed(&t, 0),
              "0195aaaa-bbbb-7ccc  running    /home/ada/src/engine/notes  A title that goes on\n"
              "0195aaaa-bbbb-7ccd  ended      /srv/漢字漢字漢字漢字       漢字漢字漢字漢字 b\n");
    table_fini(&t);
}

TEST(a_wide_terminal_gets_heads_and_no_empty_column)
{
    struct table t;
    fill(&t);
    CHECK_STR(printed(&t, 160),
              "ID                  STATE    DIRECTORY                   TITLE\n"
              "0195aaaa-bbbb-7ccc  running  /home/ada/src/engine/notes  A title that goes on\n"
              "0195aaaa-bbbb-7ccd  ended    /srv/漢字漢字漢字漢字       漢字漢字漢字漢字 b\n");
    table_fini(&t);
}

TEST(a_narrower_one_shortens_texts_and_never_an_id)
{
    struct table t;
    fill(&t);
    CHECK_STR(printed(&t, 60), "ID                  STATE    DIRECTORY       TITLE\n"
                               "0195aaaa-bbbb-7ccc  running  …/engine/notes  A title that g…\n"
                               "0195aaaa-bbbb-7ccd  ended    …漢字漢字漢字   漢字漢字漢字漢…\n");
    table_fini(&t);
}

TEST(forty_columns_show_each_row_as_a_block)
{
    struct table t;
    fill(&t);
    CHECK_STR(printed(&t, 40), "0195aaaa-bbbb-7ccc\n"
                               "  STATE      running\n"
                               "  DIRECTORY  /home/ada/src/engine/notes\n"
                               "  TITLE      A title that goes on\n"
                               "0195aaaa-bbbb-7ccd\n"
                               "  STATE      ended\n"
                               "  DIRECTORY  /srv/漢字漢字漢字漢字\n"
                               "  TITLE      漢字漢字漢字漢字 b\n");
    table_fini(&t);
}

TEST(no_line_is_wider_than_the_terminal)
{
    for (unsigned short width = 40; width <= 160; width++) {
        struct table t;
        fill(&t);
        struct str rest = str_of(printed(&t, width));
        bool seen[2] = {false, false};
        while (rest.n != 0) {
            struct str line = str_cut(&rest, '\n');
            seen[0] = seen[0] || str_starts(line, "0195aaaa-bbbb-7ccc");
            seen[1] = seen[1] || str_starts(line, "0195aaaa-bbbb-7ccd");
            CHECK(utf8_width(line) <= width);
        }
        CHECK(seen[0] && seen[1]);
        table_fini(&t);
    }
}

TEST(a_long_text_continues_below_itself)
{
    struct table t;
    table_init(&t, 2);
    table_add(&t, OUT_BOLD, STR("prompt"));
    table_add(&t, OUT_PLAIN, STR("one two three four five six seven"));
    table_add(&t, OUT_BOLD, STR("url"));
    table_add(&t, OUT_PLAIN, STR("see http://example.org/a/very/long/path/indeed there"));
    CHECK_STR(printed(&t, 33), "prompt  one two three four five\n"
                               "        six seven\n"
                               "url     see\n"
                               "        http://example.org/a/very/long/path/indeed\n"
                               "        there\n");
    CHECK_STR(printed(&t, 0), "prompt  one two three four five six seven\n"
                              "url     see http://example.org/a/very/long/path/indeed there\n");
    table_fini(&t);
}

TEST(an_empty_table_prints_nothing)
{
    struct table t;
    table_init(&t, 2);
    table_set_column(&t, 0, "ID", TABLE_KEEP);
    CHECK_STR(printed(&t, 80), "");
    CHECK_STR(printed(&t, 0), "");
    table_fini(&t);
}
