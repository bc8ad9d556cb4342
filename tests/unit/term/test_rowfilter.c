#include "term/rowfilter.h"
#include "unit/test.h"

// A terminal of 24 rows: 23 are the program's.

static struct rowfilter f;
static struct buf out, back;

static void begin(void)
{
    rowfilter_init(&f, 24, 80);
    buf_init(&out, SIZE_MAX);
    buf_init(&back, SIZE_MAX);
}

static const char *feed(const char *text)
{
    buf_clear(&out);
    buf_clear(&back);
    rowfilter_feed(&f, str_of(text), &out, &back);
    return buf_z(&out);
}

static void finish(void)
{
    buf_fini(&out);
    buf_fini(&back);
}

TEST(what_cannot_reach_the_row_passes_as_it_came)
{
    static const char *const texts[] = {
        "plain text\r\n\ttab \xe2\x82\xac \xf0\x9f\x98\x80",
        "\033[31;1mred\033[m\033[K\033[2K\033[1A\033[5B\033[3C\033[4D\033[6n\033[c\033[>c\033["
        "14t\033[19t",
        "\033[5;10H\033[23;1H\033[H\033[;5H\033[12d\033[5G\033[2;10r\033[1;23r",
        "\033[?25l\033[?2004h\033[?1000;1006h\033[>1u\033[<u\033[?u\033[>4;2m\033[?2026$p",
        "\033[4:3m\033[38:2::1:2:3m\033[2 q\033[10;20;5;6$r\033[?1;2r",
        "\033]0;title\007\033]8;;http://x/\033\\link\033]8;;\033\\\033]52;c;aGk=\007",
        "\033Pq#0;2;0;0;0~-\033\\\033_Gf=32;AAAA\033\\\033^pm\033\\\033Xsos\033\\\033ktitle\033\\",
        "\033P with \033[99;1H inside \033\\\033]2;\033[2J and more\007",
        "\033(B\033)0\033=\033>\033M\033D\033E\033#3\033%G",
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        CHECK_STR(feed(texts[i]), texts[i]);
        CHECK(!f.damaged);
    }
    finish();
}

TEST(a_row_that_is_ours_becomes_the_last_of_the_programs)
{
    begin();
    CHECK_STR(feed("\033[24;7H"), "\033[23;7H");
    CHECK_STR(feed("\033[999;999f"), "\033[23;999f");
    CHECK_STR(feed("\033[999H"), "\033[23H");
    CHECK_STR(feed("\033[24d"), "\033[23d");
    CHECK_STR(feed("\033[99999999999999999999;1H"), "\033[23;1H");
    finish();
}

TEST(in_origin_mode_rows_are_the_programs_own)
{
    begin();
    feed("\033[?6h");
    CHECK_STR(feed("\033[24;1H"), "\033[24;1H");
    feed("\033[?6l");
    CHECK_STR(feed("\033[24;1H"), "\033[23;1H");
    finish();
}

TEST(a_region_ends_above_the_row)
{
    begin();
    CHECK_STR(feed("\033[r"), "\033[1;23r");
    CHECK_STR(feed("\033[1;24r"), "\033[1;23r");
    CHECK_STR(feed("\033[5r"), "\033[5;23r");
    CHECK_STR(feed("\033[0;0r"), "\033[1;23r");
    CHECK_STR(feed("\033[24;24r"), "\033[22;23r");
    CHECK_STR(feed("\033[3;9r"), "\033[3;9r");
    finish();
}

TEST(erasing_asks_for_the_row_again)
{
    static const char *const texts[] = {"\033[J", "\033[2J", "\033[3J", "\033[?2J", "\033[1J"};
    begin();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        f.damaged = false;
        CHECK_STR(feed(texts[i]), texts[i]);
        CHECK(f.damaged);
    }
    finish();
}

TEST(who_asks_for_the_size_is_told_the_programs_rows)
{
    begin();
    CHECK_STR(feed("a\033[18tb"), "ab");
    CHECK_STR(buf_z(&back), "\033[8;23;80t");
    feed("\033[?1049h");
    CHECK_STR(feed("\033[18t"), "");
    CHECK_STR(buf_z(&back), "\033[8;24;80t");
    finish();
}

TEST(reports_of_the_size_are_the_programs_rows)
{
    begin();
    f.x = 800;
    f.y = 480;
    CHECK_STR(feed("\033[?2048$p"), "");
    CHECK_STR(buf_z(&back), "\033[?2048;2$y");
    CHECK_STR(feed("\033[?2048h"), "");
    CHECK_STR(buf_z(&back), "\033[48;23;80;460;800t");
    CHECK_STR(feed("\033[?2048$p"), "");
    CHECK_STR(buf_z(&back), "\033[?2048;1$y");
    CHECK_STR(feed("\033[?2004;2048;1049h"), "\0337\033[r\0338\033[?2004;1049h");
    CHECK_STR(buf_z(&back), "\033[48;23;80;460;800t\033[48;24;80;480;800t");
    feed("\033[?1049l");
    CHECK_STR(buf_z(&back), "\033[48;23;80;460;800t");
    buf_clear(&out);
    rowfilter_resize(&f, 40, 100, &out);
    buf_clear(&back);
    rowfilter_report(&f, &back);
    CHECK_STR(buf_z(&back), "\033[48;39;100;468;800t");
    CHECK_STR(feed("\033[?25;2048l"), "\033[?25l");
    CHECK_STR(buf_z(&back), "");
    rowfilter_report(&f, &back);
    CHECK_STR(buf_z(&back), "");
    finish();
}

TEST(a_reset_gives_the_region_back)
{
    begin();
    CHECK_STR(feed("\033c"), "\033c\0337\033[1;23r\0338");
    CHECK(f.damaged);
    CHECK_STR(feed("\033[!p"), "\033[!p\0337\033[1;23r\0338");
    CHECK_STR(feed("\033#8"), "\033#8\0337\033[1;23r\0338");
    finish();
}

TEST(the_alternate_screen_has_all_rows)
{
    begin();
    CHECK_STR(feed("\033[?1049h"), "\0337\033[r\0338\033[?1049h");
    CHECK(f.alternate && !rowfilter_may_draw(&f));
    CHECK_STR(feed("\033[24;1H\033[r\033[2J\033[1;24r"), "\033[24;1H\033[r\033[2J\033[1;24r");
    CHECK_STR(feed("\033[?2004;1049l"), "\033[?2004;1049l\0337\033[1;23r\0338");
    CHECK(!f.alternate && f.damaged && rowfilter_may_draw(&f));
    CHECK_STR(feed("\033[?47h"), "\0337\033[r\0338\033[?47h");
    CHECK_STR(feed("\033[?47h"), "\033[?47h");
    CHECK_STR(feed("\033[?1047l"), "\033[?1047l\0337\033[1;23r\0338");
    finish();
}

TEST(nothing_is_drawn_into_the_middle_of_anything)
{
    static const struct {
        const char *text, *rest;
    } rows[] = {
        {"\033", "[m"},
        {"\033[1;2", "m"},
        {"\033]0;ti", "tle\007"},
        {"\033P\033", "\\"},
        {"\xe2\x82", "\xac"},
        {"\0337", "\0338"},
        {"\033[?2026h", "\033[?2026l"},
        {"\033#", "3"},
        {"\033[s", "\033[u"},
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK(rowfilter_may_draw(&f));
        feed(rows[i].text);
        CHECK(!rowfilter_may_draw(&f));
        feed(rows[i].rest);
    }
    CHECK(rowfilter_may_draw(&f));
    finish();
}

TEST(a_sequence_may_come_in_pieces)
{
    static const char text[] = "a\033[24;7Hb\033[r\033c\033[?1049h\033[24;1H\033[?1049l"
                               "\033[\n24;5H\033[12\0303H\033]0;\033[24d\007\033[2J\xc3\xa4";
    struct buf whole;
    buf_init(&whole, SIZE_MAX);
    begin();
    rowfilter_feed(&f, (struct str){text, sizeof text - 1}, &whole, &back);
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        rowfilter_init(&f, 24, 80);
        buf_clear(&out);
        rowfilter_feed(&f, (struct str){text, cut}, &out, &back);
        rowfilter_feed(&f, (struct str){text + cut, sizeof text - 1 - cut}, &out, &back);
        CHECK(str_eq(buf_str(&out), buf_str(&whole)));
    }
    buf_fini(&whole);
    finish();
}

TEST(a_sequence_without_end_is_not_kept_for_ever)
{
    begin();
    feed("\033[");
    for (int i = 0; i < 1000; i++) {
        buf_clear(&out);
        rowfilter_feed(&f, STR("1;"), &out, &back);
        CHECK(f.n_held <= sizeof f.held);
    }
    CHECK_INT(out.n, 2); // it passes as it comes
    CHECK_STR(feed("m"), "m");
    CHECK(rowfilter_may_draw(&f));
    finish();
}

TEST(what_was_kept_comes_out_at_the_end)
{
    begin();
    CHECK_STR(feed("abc\033[12"), "abc");
    buf_clear(&out);
    rowfilter_end(&f, &out);
    CHECK_STR(buf_z(&out), "\033[12");
    finish();
}

TEST(a_window_too_low_for_a_row_is_left_alone)
{
    begin();
    rowfilter_resize(&f, 3, 80, &out);
    CHECK_STR(feed("\033[r\033[3;1H\033[2J"), "\033[r\033[3;1H\033[2J");
    CHECK(!rowfilter_may_draw(&f));
    finish();
}

TEST(a_higher_window_takes_the_old_row_away)
{
    begin();
    rowfilter_resize(&f, 30, 90, &out);
    CHECK_STR(buf_z(&out), "\0337\033[?6l\033[24;1H\033[2K\0338\0337\033[1;29r\0338");
    CHECK(f.damaged);
    buf_clear(&out);
    rowfilter_draw(&f, STR("state"), &out);
    CHECK_STR(buf_z(&out), "\0337\033[?6l\033[30;1H\033[mstate\0338");
    CHECK(!f.damaged);
    finish();
}
