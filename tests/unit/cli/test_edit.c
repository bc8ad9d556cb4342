#include "cli/edit.h"
#include "unit/test.h"

// A line into which `bytes` were typed, and what came of the last key.
struct typed {
    struct edit ed;
    enum edit_result result;
};

static void type(struct typed *t, const char *bytes)
{
    struct str rest = str_of(bytes);
    t->result = EDIT_MORE;
    while (rest.n != 0) {
        t->result = edit_feed(&t->ed, &rest);
    }
}

static void check_text(const char *bytes, const char *expected, size_t at)
{
    struct typed t;
    edit_init(&t.ed, "> ");
    edit_start(&t.ed);
    type(&t, bytes);
    CHECK_SPAN(edit_text(&t.ed), expected);
    CHECK_INT(t.ed.at, at);
    edit_fini(&t.ed);
}

TEST(keys_move_and_erase_whole_characters)
{
    check_text("abc\x02\x02X", "aXbc", 2);
    check_text("abc\x1b[D\x1b[D\x1b[CX", "abXc", 3);
    check_text("h\xc3\xa4user\x01\x1b[C\x1b[3~", "huser", 1);
    check_text("\xe6\xbc\xa2\xe5\xad\x97\x7f", "\xe6\xbc\xa2", 3);
    check_text("\xf0\x9f\x90\x8c!\x1b[D\x1b[D?", "?\xf0\x9f\x90\x8c!", 1);
    check_text("e\xcc\x81x\x1b[D\x1b[Da", "ae\xcc\x81x", 1); // a mark belongs to its letter
    check_text("one two\x1b[H0\x1b[F9\x1bOHa\x1bOFz", "a0one two9z", 11);
}

TEST(keys_take_words_and_lines_out_and_back)
{
    check_text("one two three\x17", "one two ", 8);
    check_text("one two \x17", "one ", 4);
    check_text("one two\x15three", "three", 5);
    check_text("one two\x01\x0b\x19", "one two", 7);
    check_text("one two\x01\x06\x0b", "o", 1);
    check_text("one two\x1b"
               "bX",
               "one Xtwo", 5);
    check_text("one two\x1b[1;5D\x1b[1;5D\x1b[1;5C!", "one! two", 4);
    check_text("\x17\x15\x0b\x19\x7f\x1b[3~\x1b[D\x1b[C\x02", "", 0);
}

TEST(a_paste_keeps_its_lines_and_loses_its_controls)
{
    struct typed t;
    edit_init(&t.ed, "> ");
    edit_start(&t.ed);
    type(&t, "say \x1b[200~one\rtwo\n\tthree\x03\x07\x1b[31mred\x1b[201~!");
    CHECK_INT(t.result, EDIT_MORE);
    CHECK_SPAN(edit_text(&t.ed), "say one\ntwo\n\tthreered!");
    type(&t, "\r");
    CHECK_INT(t.result, EDIT_DONE);
    edit_fini(&t.ed);
}

TEST(bytes_that_are_no_text_are_dropped)
{
    check_text("a\xff\xfe"
               "b",
               "ab", 2);
    check_text("a\xc3(b", "a(b", 3);
    check_text("a\xc2\x9b"
               "31mb",
               "a31mb", 5); // CSI as one character
    check_text("a\x1b[99;99~b\x1b[?1;2cc", "abc", 3);
    check_text("a\x1b[1111111111111111111111111111111111111111~b", "a1111111111~b", 13);
}

TEST(a_key_may_come_in_pieces)
{
    struct typed t;
    edit_init(&t.ed, "> ");
    edit_start(&t.ed);
    type(&t, "ab\x1b");
    type(&t, "[");
    type(&t, "D\xc3");
    CHECK_SPAN(edit_text(&t.ed), "ab");
    type(&t, "\xa4");
    CHECK_SPAN(edit_text(&t.ed), "a\xc3\xa4"
                                 "b");
    edit_fini(&t.ed);
}

TEST(keys_that_mean_more_than_text)
{
    static const struct {
        const char *bytes;
        enum edit_result result;
    } rows[] = {{"x\r", EDIT_DONE},    {"x\n", EDIT_DONE},   {"x\x03", EDIT_INTERRUPT},
                {"\x04", EDIT_END},    {"x\x04", EDIT_MORE}, {"\x1a", EDIT_SUSPEND},
                {"x\x0c", EDIT_CLEAR}, {"\x1b\r", EDIT_MORE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct typed t;
        edit_init(&t.ed, "> ");
        edit_start(&t.ed);
        type(&t, rows[i].bytes);
        CHECK_INT(t.result, rows[i].result);
        edit_fini(&t.ed);
    }
}

TEST(what_follows_enter_is_left_for_the_next_line)
{
    struct edit ed;
    struct str rest = STR("one\rtwo");
    edit_init(&ed, "> ");
    edit_start(&ed);
    CHECK_INT(edit_feed(&ed, &rest), EDIT_DONE);
    CHECK_SPAN(rest, "two");
    edit_fini(&ed);
}

TEST(history_goes_back_and_returns_to_the_draft)
{
    struct typed t;
    edit_init(&t.ed, "> ");
    edit_remember(&t.ed, STR("first"));
    edit_remember(&t.ed, STR("second"));
    edit_remember(&t.ed, STR("second"));
    edit_remember(&t.ed, STR(""));
    edit_start(&t.ed);
    type(&t, "draft\x1b[A");
    CHECK_SPAN(edit_text(&t.ed), "second");
    type(&t, "\x1b[A\x1b[A");
    CHECK_SPAN(edit_text(&t.ed), "first");
    type(&t, "\x1b[B\x1b[B\x1b[B");
    CHECK_SPAN(edit_text(&t.ed), "draft");
    edit_fini(&t.ed);
}

TEST(up_and_down_move_between_the_lines_of_a_text)
{
    check_text("ab\x1b\rcdef\x1b\rg\x1b[A\x1b[AX", "aXb\ncdef\ng", 2);
    check_text("a\x1b\rb\x1b[A\x1b[BX", "a\nbX", 4);
}

static void check_drawn(struct edit *ed, size_t rows, size_t cols, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    edit_draw(ed, &out, rows, cols);
    CHECK_STR(buf_z(&out), expected);
    buf_fini(&out);
}

TEST(the_cursor_is_put_where_the_text_wraps)
{
    struct typed t;
    edit_init(&t.ed, "> ");
    edit_start(&t.ed);
    type(&t, "abcdef");
    check_drawn(&t.ed, 24, 10, "\r\033[J> abcdef\r\033[8C");
    type(&t, "gh"); // the row is full: the cursor stands on the next
    check_drawn(&t.ed, 24, 10, "\r\033[J> abcdefgh \r\r");
    type(&t, "i\x01");
    check_drawn(&t.ed, 24, 10, "\r\033[1A\033[J> abcdefghi\033[1A\r\033[2C");
    edit_fini(&t.ed);
}

TEST(wide_characters_that_do_not_fit_go_to_the_next_row)
{
    struct typed t;
    edit_init(&t.ed, "> ");
    edit_start(&t.ed);
    type(&t, "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97");
    check_drawn(&t.ed, 24, 9,
                "\r\033[J> \xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\r\033[2C");
    CHECK_INT(t.ed.row, 1);
    edit_resized(&t.ed, 20);
    CHECK_INT(t.ed.row, 0);
    edit_fini(&t.ed);
}

TEST(a_text_higher_than_the_window_shows_the_rows_round_the_cursor)
{
    struct typed t;
    edit_init(&t.ed, "> ");
    edit_start(&t.ed);
    type(&t, "a\x1b\rb\x1b\rc\x1b\rd");
    check_drawn(&t.ed, 2, 20, "\r\033[J  c\r\n  d\r\033[3C");
    CHECK_INT(t.ed.row, 1);
    type(&t, "\x1b[A\x1b[A\x1b[A");
    check_drawn(&t.ed, 2, 20, "\r\033[1A\033[J> a\r\n  b\033[1A\r\033[3C");
    edit_fini(&t.ed);
}
