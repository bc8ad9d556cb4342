#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "term/markdown.h"
#include "unit/test.h"

static void check_look(const char *text, size_t cols, bool color, const char *expected)
{
    struct markdown_look look = {.cols = cols, .color = color ? COLOR_16 : COLOR_NONE};
    struct buf out;
    buf_init(&out, 1 << 20);
    markdown_render(&out, str_of(text), &look);
    CHECK_STR(buf_z(&out), expected);
    buf_fini(&out);
}

static void check(const char *text, const char *expected)
{
    check_look(text, 40, false, expected);
}

TEST(blocks_stand_apart_and_text_is_wrapped)
{
    check("# Title\nA paragraph that is longer\nthan forty columns wide.\n\nNext",
          "Title\n\nA paragraph that is longer than forty\ncolumns wide.\n\nNext\n");
    check_look("a_word_that_is_longer_than_the_window x", 20, false,
               "a_word_that_is_longe\nr_than_the_window x\n");
    check_look("\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97", 10,
               false,
               "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\n\xe5\xad\x97\n");
    check("one  \ntwo", "one\ntwo\n");
    check("a\n\n---\n\nb", "a\n\n────────────────────────────────────────\n\nb\n");
}

TEST(lists_are_marked_and_indented)
{
    check("- one\n- two\n  - inner\n- three\n\nafter",
          "• one\n• two\n  • inner\n• three\n\nafter\n");
    check("3. c\n4. d", "3. c\n4. d\n");
    check("- one\n\n- two", "• one\n\n• two\n");
    check("- [x] done\n- [ ] open", "• [x] done\n• [ ] open\n");
    check("-\n- b", "•\n• b\n");
    check("- a text of an item that has to be wrapped",
          "• a text of an item that has to be\n  wrapped\n");
    check("> said\n> so", "│ said so\n");
    check("> - a\n> - b", "│ • a\n│ • b\n");
    check("a\n\n> b\n>\n> c", "a\n\n│ b\n│\n│ c\n");
    check("- a\n  > b\n- c", "• a\n  │ b\n• c\n");
    check("> a\n>\n> > b", "│ a\n│\n│ │ b\n");
}

TEST(code_is_kept_as_it_is)
{
    check("```c\nint  x;\n\n\tlong_line_that_is_longer_than_forty_columns();\n```\nafter",
          "  int  x;\n\n      long_line_that_is_longer_than_forty_columns();\n\nafter\n");
    check("- item\n\n  ```\n  code\n  ```", "• item\n\n    code\n");
    check("use `a  b` here", "use a  b here\n");
}

TEST(tables_line_up)
{
    check("| a | long |\n|---|---|\n| wide cell | x |", "a         │ long\nwide cell │ x\n");
    check("| a |\n|---|", "a\n");
}

TEST(spans_are_styled_where_colour_is_wanted)
{
    check("**b** *i* ~~s~~", "b i s\n");
    check_look("**b** *i* `c`", 40, true,
               "\033[0;1mb\033[0m \033[0;3mi\033[0m \033[0;36mc\033[0m\n");
    check_look("# T", 40, true, "\033[0;1mT\033[0m\n");
}

TEST(a_link_shows_where_it_leads)
{
    check("[bank](http://evil.example)", "bank (http://evil.example)\n");
    check("http://a.example", "http://a.example\n");
    check("![pic](x.png)", "pic (x.png)\n");
}

TEST(a_model_cannot_command_the_terminal)
{
    check("a\x1b[2Jb", "a\\x1b[2Jb\n");
    check("&#27;[2J &#x1b;]0;t&#7;", "\\x1b[2J \\x1b]0;t\\x07\n");
    check("```\n\x1b[31m\n```", "  \\x1b[31m\n");
    check("`\xc2\x9b"
          "31m`",
          "\\u009b31m\n");
    check("[x](http://a/\xc2\x9b)", "x (http://a/\\u009b)\n");
    check("| \x1b[2J |\n|---|\n| \x07 |", "\\x1b[2J\n\\x07\n");
    check("\xe2\x80\xae"
          "abc",
          "\\u202eabc\n");
    check("a\rb", "a b\n");
    check("x\xff"
          "y",
          "x\\xffy\n");
}

TEST(html_is_text)
{
    check("<b>x</b> &lt;i&gt; &unknown;", "<b>x</b> <i> &unknown;\n");
    check("<script>\nalert(1)\n</script>", "<script> alert(1) </script>\n");
    check("&#0; &#xD800; &#x110000;", "\xef\xbf\xbd \xef\xbf\xbd \xef\xbf\xbd\n");
}

TEST(deep_nesting_ends_well)
{
    struct buf text, out;
    struct markdown_look look = {.cols = 20};
    buf_init(&text, 1 << 20);
    buf_init(&out, 16 << 20);
    for (int i = 0; i < 5000; i++) {
        buf_addz(&text, i % 2 != 0 ? "> " : "- ");
    }
    buf_addz(&text, "end");
    markdown_render(&out, buf_str(&text), &look);
    CHECK(strstr(buf_z(&out), "end\n") != NULL);
    buf_fini(&text);
    buf_fini(&out);
}

TEST(no_byte_beyond_the_text_is_read)
{
    static const char *const texts[] = {"[x](t",   "[x](<t", "[x](t 't",  "![x](t",
                                        "[x][t",   "<http:", "&amp",      "`a",
                                        "```c\nx", "\\",     "| a |\n|-", "\xe2\x80"};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    CHECK_INT(mprotect(p + page, page, PROT_NONE), 0); // whoever reads on ends here
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct buf out = {.max = SIZE_MAX};
        struct str text = str_of(texts[i]);
        char *at = p + page - text.n;
        memcpy(at, text.p, text.n);
        markdown_render(&out, (struct str){at, text.n}, &(struct markdown_look){.cols = 40});
        CHECK(out.n != 0);
        buf_fini(&out);
    }
    munmap(p, 2 * page);
}

TEST(what_cannot_change_any_more_is_settled)
{
    CHECK_INT(markdown_settled(STR("one")), 0);
    CHECK_INT(markdown_settled(STR("one\n")), 0);
    CHECK_INT(markdown_settled(STR("one\n\n")), 0); // the next line may belong to it
    CHECK_INT(markdown_settled(STR("one\n\nt")), 5);
    CHECK_INT(markdown_settled(STR("- one\n\n  more")), 0);
    CHECK_INT(markdown_settled(STR("one\n\ntwo\n\nthree\n")), 10);
    CHECK_INT(markdown_settled(STR("```\na\n\nb\n")), 0);
    CHECK_INT(markdown_settled(STR("````\n```\n\nb\n")), 0); // a shorter fence closes nothing
    CHECK_INT(markdown_settled(STR("```\na\n\nb\n```\n\nx")), 14);
    CHECK_INT(markdown_settled(STR("```\na\n~~~\n\nb")), 0);
    CHECK_INT(markdown_settled(STR_NULL), 0);
}

TEST(a_list_that_is_nested_too_deep_has_a_row_for_each_item)
{
    struct buf text = {.max = SIZE_MAX}, out = {.max = SIZE_MAX};
    for (int i = 0; i < 12; i++) {
        buf_addf(&text, "%*s- item\n", 2 * i, "");
    }
    markdown_render(&out, buf_str(&text), &(struct markdown_look){.cols = 80});
    CHECK_INT(str_lines(buf_str(&out)), 12);
    buf_fini(&text);
    buf_fini(&out);
}
