#include "base/utf8.h"
#include "term/edit.h"
#include "unit/test.h"

// A text into which `bytes` were typed, and what came of the last key.
struct typed {
    struct edit ed;
    struct keys keys;
    enum edit_result result;
};

static void begin(struct typed *t)
{
    *t = (struct typed){0};
    edit_init(&t->ed);
    edit_start(&t->ed);
}

// Stops behind a key that says more than that it was used; returns what is left.
static struct str feed(struct typed *t, struct str bytes)
{
    struct key key;
    t->result = EDIT_MORE;
    while (t->result == EDIT_MORE && keys_next(&t->keys, &bytes, &key)) {
        t->result = edit_key(&t->ed, &key);
        t->result = t->result == EDIT_UNUSED ? EDIT_MORE : t->result;
    }
    return bytes;
}

static void type(struct typed *t, const char *bytes)
{
    struct str rest = str_of(bytes);
    do {
        rest = feed(t, rest);
    } while (rest.n != 0);
}

static void check_text(const char *bytes, const char *expected, size_t at)
{
    struct typed t;
    begin(&t);
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
    begin(&t);
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
    begin(&t);
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
        begin(&t);
        type(&t, rows[i].bytes);
        CHECK_INT(t.result, rows[i].result);
        edit_fini(&t.ed);
    }
}

TEST(what_follows_enter_is_left_for_the_next_line)
{
    struct typed t;
    begin(&t);
    struct str rest = feed(&t, STR("one\rtwo"));
    CHECK_INT(t.result, EDIT_DONE);
    CHECK_SPAN(rest, "two");
    edit_fini(&t.ed);
}

TEST(history_goes_back_and_returns_to_the_draft)
{
    struct typed t;
    begin(&t);
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

static void check_lines(struct typed *t, size_t rows, size_t cols, const char *expected, size_t row,
                        size_t col)
{
    struct buf out;
    buf_init(&out, 4096);
    struct edit_place at = edit_lines(&t->ed, &out, "> ", rows, cols);
    CHECK_STR(buf_z(&out), expected);
    CHECK_INT(at.row, row);
    CHECK_INT(at.col, col);
    buf_fini(&out);
}

TEST(a_prompt_too_long_for_one_row_is_shown_whole)
{
    static const char question[] = "go back to before turn t2: the conversation only? [y/N] ";
    struct typed t;
    struct buf out = {.max = SIZE_MAX};
    begin(&t);
    type(&t, "no");
    struct edit_place at = edit_lines(&t.ed, &out, question, 8, 40);
    CHECK_STR(buf_z(&out), "go back to before turn t2: the \nconversation only? [y/N] no\n");
    CHECK_INT(at.row, 1);
    CHECK_INT(at.col, 27);
    buf_clear(&out); // a word without a place to break it
    at = edit_lines(&t.ed, &out, "abcdefghijklmnopqrstuvwxyz> ", 8, 24);
    CHECK_STR(buf_z(&out), "abcdefghijklmno\npqrstuvwxyz> no\n");
    CHECK_INT(at.row, 1);
    CHECK_INT(at.col, 15);
    buf_fini(&out);
    edit_fini(&t.ed);
}

TEST(the_cursor_is_put_where_the_text_wraps)
{
    struct typed t;
    begin(&t);
    check_lines(&t, 24, 12, "> \n", 0, 2);
    type(&t, "abcdef");
    check_lines(&t, 24, 12, "> abcdef\n", 0, 8);
    type(&t, "ghi"); // the row is full: the cursor stands behind it
    check_lines(&t, 24, 12, "> abcdefghi\n", 0, 11);
    type(&t, "j");
    check_lines(&t, 24, 12, "> abcdefghi\n  j\n", 1, 3);
    type(&t, "\x02");
    check_lines(&t, 24, 12, "> abcdefghi\n  j\n", 1, 2);
    type(&t, "\x01");
    check_lines(&t, 24, 12, "> abcdefghi\n  j\n", 0, 2);
    type(&t, "\x05\x1b\r\x1b[200~\tx\x1b[201~");
    check_lines(&t, 24, 12, "> abcdefghi\n  j\n      x\n", 2, 7);
    edit_fini(&t.ed);
}

TEST(wide_characters_that_do_not_fit_go_to_the_next_row)
{
    struct typed t;
    begin(&t);
    type(&t, "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe5\xad\x97");
    check_lines(&t, 24, 12, "> \xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\n  \xe5\xad\x97\n",
                1, 4);
    check_lines(&t, 24, 20, "> \xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe5\xad\x97\n", 0,
                12);
    edit_fini(&t.ed);
}

TEST(a_text_higher_than_the_window_shows_the_rows_round_the_cursor)
{
    struct typed t;
    begin(&t);
    type(&t, "a\x1b\rb\x1b\rc\x1b\rd");
    check_lines(&t, 2, 20, "  c\n  d\n", 1, 3);
    type(&t, "\x1b[A\x1b[A\x1b[A");
    check_lines(&t, 2, 20, "> a\n  b\n", 0, 3);
    check_lines(&t, 9, 20, "> a\n  b\n  c\n  d\n", 0, 3);
    type(&t, "\x1b>");
    check_lines(&t, 1, 20, "  d\n", 0, 3);
    edit_fini(&t.ed);
}

TEST(what_is_remembered_or_completed_cannot_command_the_terminal)
{
    struct typed t;
    begin(&t);
    edit_remember(&t.ed, STR("a\033[2Jb\001\n\tc"));
    type(&t, "\x1b[A");
    CHECK_SPAN(edit_text(&t.ed), "a[2Jb\n\tc");
    edit_start(&t.ed);
    edit_replace(&t.ed, 0, STR("x\033]0;y\007.md"));
    CHECK_SPAN(edit_text(&t.ed), "x]0;y.md");
    edit_fini(&t.ed);
}

TEST(a_backslash_before_enter_begins_a_new_line)
{
    struct typed t;
    begin(&t);
    type(&t, "one\\\r");
    CHECK_INT(t.result, EDIT_MORE);
    CHECK_SPAN(edit_text(&t.ed), "one\n");
    type(&t, "two\r");
    CHECK_INT(t.result, EDIT_DONE);
    CHECK_SPAN(edit_text(&t.ed), "one\ntwo");
    edit_fini(&t.ed);
}

TEST(undo_takes_back_one_run_of_changes_at_a_time)
{
    check_text("one\x1b[D\x1b[DX\x1f", "one", 1);
    check_text("one two\x17\x17\x1f", "one ", 4);
    check_text("one two\x17\x17\x1f\x1f", "one two", 7);
    check_text("one\x7f\x7f\x1f\x1f", "", 0);
    check_text("a\x1b[200~paste\x1b[201~\x1f", "a", 1);
    check_text("\x1f\x1f", "", 0);
}

TEST(clusters_are_moved_over_and_erased_whole)
{
    static const char family[] = "\U0001F469\u200D\U0001F469\u200D\U0001F467";
    char text[64];
    snprintf(text, sizeof text, "a%s\x1b[DX", family);
    struct typed t;
    begin(&t);
    type(&t, text);
    CHECK_INT(t.ed.at, 2);
    type(&t, "\x05\x7f");
    CHECK_SPAN(edit_text(&t.ed), "aX");
    edit_fini(&t.ed);
}

TEST(a_search_shows_the_newest_that_fits)
{
    struct typed t;
    begin(&t);
    edit_remember(&t.ed, STR("make test"));
    edit_remember(&t.ed, STR("git status"));
    edit_remember(&t.ed, STR("make all"));
    edit_start(&t.ed);
    type(&t, "draft\x12ma");
    check_lines(&t, 5, 60, "(search 'ma') make all\n", 0, 22);
    type(&t, "\x12");
    CHECK_SPAN(edit_text(&t.ed), "make test");
    type(&t, "x");
    check_lines(&t, 5, 60, "(not in the history: 'max') make test\n", 0, 37);
    type(&t, "\x07");
    CHECK_SPAN(edit_text(&t.ed), "draft");
    type(&t, "\x12stat\x05!"); // any other key takes it over
    CHECK_SPAN(edit_text(&t.ed), "git status!");
    type(&t, "\x12make\r");
    CHECK_INT(t.result, EDIT_DONE);
    CHECK_SPAN(edit_text(&t.ed), "make all");
    edit_fini(&t.ed);
}

TEST(a_completion_replaces_what_was_typed_of_it)
{
    struct typed t;
    begin(&t);
    type(&t, "see @sr and\x1b[D\x1b[D\x1b[D\x1b[D\t");
    CHECK_INT(t.result, EDIT_COMPLETE);
    edit_replace(&t.ed, 5, STR("src/"));
    CHECK_SPAN(edit_text(&t.ed), "see @src/ and");
    type(&t, "\x1f");
    CHECK_SPAN(edit_text(&t.ed), "see @sr and");
    edit_fini(&t.ed);
}

TEST(a_megabyte_is_pasted_and_edited_without_delay)
{
    struct typed t;
    struct buf text, out;
    begin(&t);
    buf_init(&text, 2 << 20);
    buf_init(&out, 1 << 20);
    buf_addz(&text, "\x1b[200~");
    for (int i = 0; i < 1 << 16; i++) {
        buf_addz(&text, "a line of text.\r");
    }
    buf_addz(&text, "\x1b[201~");
    for (struct str rest = buf_str(&text);
         rest.n != 0;) { // as a terminal gives it, 4 KiB at a time
        struct str piece = {rest.p, MIN(rest.n, 4096)};
        feed(&t, piece);
        rest = str_from(rest, piece.n);
    }
    CHECK_INT(edit_text(&t.ed).n, 1 << 20);
    size_t before = out.n;
    edit_lines(&t.ed, &out, "> ", 5, 80);
    CHECK(out.n - before < 500); // it writes what is seen, see also bench/
    CHECK_INT(t.ed.past.n, 1);
    edit_fini(&t.ed);
    buf_fini(&text);
    buf_fini(&out);
}

TEST(a_paste_that_is_too_long_leaves_an_editor_that_can_be_used)
{
    struct typed t;
    size_t n = (8 << 20) + 1;
    char *text = xcalloc(1, n);
    memset(text, 'x', n);
    begin(&t);
    struct key pasted = {.code = KEY_PASTE, .text = {text, n - 1}}, more = pasted;
    more.text.n = 3;
    edit_key(&t.ed, &pasted);
    edit_key(&t.ed, &more);
    CHECK_INT(edit_text(&t.ed).n, n - 1);
    type(&t, "\x7f\x7f\x7f"
             "end");
    CHECK_SPAN(str_from(edit_text(&t.ed), n - 5), "xend");
    edit_fini(&t.ed);
    free(text);
}
