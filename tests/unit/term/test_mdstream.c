#include "term/mdstream.h"
#include "unit/test.h"

static const struct markdown_look look = {.cols = 40};

// What is printed for good when `text` comes in pieces, settled after each.
static void stream(struct buf *out, struct str text, size_t piece)
{
    struct mdstream m;
    mdstream_init(&m);
    while (text.n != 0) {
        struct str part = {text.p, MIN(piece, text.n)};
        mdstream_add(&m, part);
        mdstream_settle(&m, &look, out);
        text = str_from(text, part.n);
    }
    mdstream_end(&m, &look, out);
    mdstream_fini(&m);
}

static void check_same(struct str text, size_t piece)
{
    struct buf whole, pieces;
    buf_init(&whole, 1 << 20);
    buf_init(&pieces, 1 << 20);
    markdown_render(&whole, text, &look);
    stream(&pieces, text, piece);
    CHECK_STR(buf_z(&pieces), buf_z(&whole));
    buf_fini(&whole);
    buf_fini(&pieces);
}

TEST(pieces_give_the_same_lines_as_the_whole)
{
    struct str text =
        STR("# Title\n\nSome *words*.\n\n- one\n- two\n\n  more\n\n```c\nint x;\n\ny\n"
            "```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nend");
    for (size_t piece = 1; piece < text.n; piece++) {
        check_same(text, piece);
    }
}

TEST(long_code_comes_out_line_by_line)
{
    struct buf text, out;
    struct mdstream m;
    buf_init(&text, 1 << 20);
    buf_init(&out, 1 << 20);
    buf_addz(&text, "before\n\n```c\n");
    for (int i = 0; i < 5000; i++) {
        buf_addf(&text, "int line_%d;%s\n", i, i % 7 == 0 ? "\n" : "");
    }
    buf_addz(&text, "```\n\nafter");
    for (size_t piece = 7; piece < 9000; piece += 997) {
        check_same(buf_str(&text), piece);
    }
    mdstream_init(&m);
    mdstream_add(&m, (struct str){text.p, text.n / 2});
    mdstream_settle(&m, &look, &out);
    CHECK(m.text.n < 100 && out.n > text.n / 2); // next to nothing is drawn again and again
    mdstream_fini(&m);
    buf_fini(&text);
    buf_fini(&out);
}

TEST(the_tail_is_what_has_not_settled)
{
    struct buf out;
    struct mdstream m;
    buf_init(&out, 1 << 10);
    mdstream_init(&m);
    mdstream_add(&m, STR("one\n\ntw"));
    mdstream_settle(&m, &look, &out);
    CHECK_STR(buf_z(&out), "one\n");
    buf_clear(&out);
    mdstream_tail(&m, &look, &out);
    CHECK_STR(buf_z(&out), "\ntw\n");
    buf_clear(&out);
    mdstream_add(&m, STR("o"));
    mdstream_end(&m, &look, &out);
    CHECK_STR(buf_z(&out), "\ntwo\n");
    buf_clear(&out);
    mdstream_add(&m, STR("new"));
    mdstream_drop(&m);
    mdstream_tail(&m, &look, &out);
    CHECK_STR(buf_z(&out), "");
    mdstream_fini(&m);
    buf_fini(&out);
}

TEST(text_right_before_a_fence_is_final)
{
    struct mdstream m;
    struct buf out = {.max = SIZE_MAX};
    struct str text =
        STR("Here it is:\n```c\nint x;\n```\n- one\n~~~\ny\n~~~\n> said\n```\nz\n```\nend");
    for (size_t piece = 1; piece < text.n; piece++) {
        check_same(text, piece);
    }
    mdstream_init(&m);
    mdstream_add(&m, STR("Here it is:\n```c\nint x;\n"));
    mdstream_settle(&m, &look, &out);
    CHECK_STR(buf_z(&out), "Here it is:\n");
    CHECK_SPAN(buf_str(&m.text), "```c\nint x;\n");
    buf_fini(&out);
    mdstream_fini(&m);
}

TEST(a_line_that_begins_with_inline_code_opens_no_block)
{
    struct buf text = {.max = SIZE_MAX};
    buf_addz(&text, "```make``` builds it.\n\n");
    for (int i = 0; i < 200; i++) {
        buf_addf(&text, "Paragraph %d has some words.\n\n", i);
    }
    check_same(str_trim(buf_str(&text)), 700);
    buf_fini(&text);
}
