#include "term/panel.h"
#include "unit/test.h"

struct drawn {
    struct panel p;
    struct buf out;
};

static void begin(struct drawn *d)
{
    panel_init(&d->p);
    buf_init(&d->out, 4096);
}

static void draw(struct drawn *d, const char *lines, size_t row, size_t col, size_t cols,
                 const char *expected)
{
    buf_clear(&d->out);
    panel_draw(&d->p, &d->out, str_of(lines), row, col, cols);
    CHECK_STR(buf_z(&d->out), expected);
}

static void end(struct drawn *d)
{
    panel_fini(&d->p);
    buf_fini(&d->out);
}

TEST(only_rows_from_the_first_change_are_written)
{
    struct drawn d;
    begin(&d);
    draw(&d, "busy\n> a\nstatus\n", 1, 3, 80,
         "\r\033[K\033[?7lbusy\r\n> a\r\nstatus\033[?7h\r\033[1A\033[3C");
    draw(&d, "busy\n> a\nstatus\n", 1, 3, 80, "");
    draw(&d, "busy\n> a\nstatus\n", 1, 2, 80, "\r\033[2C");
    draw(&d, "busy\n> ab\nstatus\n", 1, 4, 80,
         "\r\033[K\n\033[J\033[1A\033[?7l> ab\r\nstatus\033[?7h\r\033[1A\033[4C");
    draw(&d, "busy\n> ab\nnew\n", 1, 4, 80, "\r\033[1B\033[K\033[?7lnew\033[?7h\r\033[1A\033[4C");
    draw(&d, "> ab\nnew\n", 0, 4, 80,
         "\r\033[1A\033[K\n\033[J\033[1A\033[?7l> ab\r\nnew\033[?7h\r\033[1A\033[4C");
    draw(&d, "> ab\nnew\nmore\n", 0, 0, 80, "\r\033[1B\033[K\033[?7lnew\r\nmore\033[?7h\r\033[2A");
    end(&d);
}

TEST(it_is_taken_off_whole)
{
    struct drawn d;
    begin(&d);
    draw(&d, "a\nb\n", 1, 1, 80, "\r\033[K\033[?7la\r\nb\033[?7h\r\033[1C");
    buf_clear(&d.out);
    panel_erase(&d.p, &d.out, 80);
    CHECK_STR(buf_z(&d.out), "\r\033[1A\033[K\n\033[J\033[1A");
    buf_clear(&d.out);
    panel_erase(&d.p, &d.out, 80); // nothing is there any more
    CHECK_STR(buf_z(&d.out), "");
    end(&d);
}

TEST(rows_that_a_narrower_window_has_wrapped_are_counted)
{
    struct drawn d;
    begin(&d);
    draw(&d, "0123456789012345\n> 012345678901\nstatus\n", 1, 14, 20,
         "\r\033[K\033[?7l0123456789012345\r\n> 012345678901\r\nstatus\033[?7h\r\033[1A\033[14C");
    // 16 columns are 2 rows of 10, and the cursor is in the second row of the input
    draw(&d, "x\n", 0, 0, 10, "\r\033[3A\033[K\n\033[J\033[1A\r\033[K\033[?7lx\033[?7h\r");
    draw(&d, "x\n", 0, 0, 40, "\r\033[K\r\033[K\033[?7lx\033[?7h\r"); // wider: nothing moves
    end(&d);
}

TEST(a_resized_window_gets_every_row_again)
{
    struct drawn d;
    begin(&d);
    draw(&d, "> a\nstatus\n", 0, 3, 80, "\r\033[K\033[?7l> a\r\nstatus\033[?7h\r\033[1A\033[3C");
    panel_resized(&d.p);
    // the line feed makes the row that the window may have dropped
    draw(&d, "> a\nstatus\n", 0, 3, 80,
         "\r\033[K\n\033[J\033[1A\r\033[K\033[?7l> a\r\nstatus\033[?7h\r\033[1A\033[3C");
    draw(&d, "> a\nstatus\n", 0, 3, 80, "");
    end(&d);
}

TEST(many_wrapped_rows_are_counted)
{
    struct drawn d;
    struct buf lines;
    begin(&d);
    buf_init(&lines, 4096);
    buf_addz(&lines, "\n");
    for (int i = 0; i < 4; i++) {
        buf_addf(&lines, "%095d\n", i);
    }
    buf_addf(&lines, "%055d\nspinner\n> \nstatus\n", 1);
    panel_draw(&d.p, &d.out, buf_str(&lines), 7, 2, 100);
    buf_clear(&d.out);
    panel_erase(&d.p, &d.out, 60);
    CHECK_STR(buf_z(&d.out), "\r\033[11A\033[K\n\033[J\033[1A");
    buf_fini(&lines);
    end(&d);
}

TEST(a_row_wider_than_the_window_is_cut)
{
    struct drawn d;
    begin(&d);
    draw(&d, "0123456789AB\n\033[1m日本語日本語\033[0m\n", 1, 0, 10,
         "\r\033[K\033[?7l012345678…\r\n\033[1m日本語日\033[0m…\033[?7h\r");
    end(&d);
}
