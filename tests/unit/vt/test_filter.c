// What another terminal may be shown of a program's output.

#include "unit/test.h"
#include "unit/vt/screen.h"

static struct vt *v;
static struct buf clean, answers;

static void on_answer(struct str bytes, void *arg)
{
    (void)arg;
    buf_adds(&answers, bytes);
}

static void begin(void)
{
    static const struct vt_cb cb = {.answer = on_answer};
    v = vt_new(24, 80, 0, &cb, NULL);
    buf_init(&clean, SIZE_MAX);
    buf_init(&answers, SIZE_MAX);
}

static const char *pass(const char *text)
{
    buf_clear(&clean);
    buf_clear(&answers);
    vt_feed(v, str_of(text), &clean);
    return buf_z(&clean);
}

static void finish(void)
{
    vt_free(v);
    buf_fini(&clean);
    buf_fini(&answers);
}

TEST(what_draws_passes_as_it_came)
{
    static const char *const texts[] = {
        "plain text\r\n\ttab \xe2\x82\xac \xf0\x9f\x98\x80 e\xcc\x81\a\b",
        "\033[31;1mred\033[m\033[K\033[2K\033[1A\033[5B\033[3C\033[4D\033[5G\033[12d\033[2J\033[1P",
        "\033[5;10H\033[H\033[2;10r\033[r\033[2L\033[3M\033[4@\033[5X\033[2S\033[1T\033["
        "Z\033[I",
        "\033[?25l\033[?25h\033[?2004h\033[?1006h\033[?1049h\033[?1049l\033[?2026h\033[?2026l",
        "\033[4:3m\033[38:2::1:2:3m\033[38;5;9m\033[2 "
        "q\0337\0338\033M\033D\033E\033=\033>",
        "\033]2;a title\033\\\033]8;;https://example.org/\033\\link\033]8;;\033\\",
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        CHECK_STR(pass(texts[i]), texts[i]);
        CHECK_INT(answers.n, 0);
    }
    finish();
}

TEST(what_reads_or_writes_outside_the_screen_is_dropped)
{
    static const char *const texts[] = {
        "\033]52;c;aGVsbG8=\007",             // clipboard
        "\033]52;c;?\007",                    // clipboard, read
        "\033]10;?\007\033]11;?\033\\",       // colours, read
        "\033]4;1;?\007\033]4;1;#ff0000\007", // palette
        "\033[21t\033[20t\033[18t\033[14t",   // title and size, reported
        "\033[8;10;10t\033[3;0;0t\033[2t",    // window moved
        "\033[>q\033[>0q\033[=c\033[x",       // who are you
        "\033P$qm\033\\\033P+q544e\033\\",    // settings, reported
        "\033Pq#0~\033\\\033_Ga=q;AAAA\033\\\033^x\033\\\033Xx\033\\",
        "\033]1337;File=:AAAA\007\033]50;?\007\033]777;notify;a;b\007\033]9;hi\007\033]133;A\007",
        "\033[5i\033[?5i\033[4i", // print
        "\033[?u\033[>1u\033[<u\033[>4;2m\033[?1$w\033[1;1;1;1;1;1*y",
        "\005\033Z\033[?996n\033[?15n\033[?26n",
        "\033]8;;javascript:alert(1)\033\\\033]8;;\033\\",
        "\xc2\x9b"
        "c\xc2\x9d"
        "52;c;aGk=\xc2\x9c",
    };
    begin();
    for (size_t i = 0; i < 13; i++) {
        CHECK_STR(pass(texts[i]), "");
        CHECK_INT(answers.n, 0);
    }
    CHECK_STR(pass(texts[13]), "\033]8;;\033\\\033]8;;\033\\");
    CHECK_STR(pass(texts[14]), "c52;c;aGk="); // without the characters that a terminal would obey
    finish();
}

TEST(questions_are_answered_by_the_screen_and_not_shown)
{
    begin();
    CHECK_STR(pass("\033[3;7H\033[6n"), "\033[3;7H");
    CHECK_STR(buf_z(&answers), "\033[3;7R");
    CHECK_STR(pass("\033[c"), "");
    CHECK_STR(buf_z(&answers), "\033[?1;2c");
    CHECK_STR(pass("\033[5n"), "");
    CHECK_STR(buf_z(&answers), "\033[0n");
    finish();
}

TEST(resets_are_written_out)
{
    begin();
    pass("\033[?1000h\033[?1049h\033[31m\033[4hx");
    const char *bytes = pass("\033c");
    CHECK(strstr(bytes, "\033c") == NULL);
    CHECK(strstr(bytes, "\033[?1000l") != NULL);
    CHECK(!vt_alternate(v) && !vt_mode(v, 1000));
    CHECK_STR(screen_row(v, 0), "");
    pass("\033[5;6H\033[31m");
    bytes = pass("\033[!p");
    CHECK(strstr(bytes, "!p") == NULL);
    CHECK_INT(vt_get_cursor(v).row, 4);
    CHECK_INT(vt_get_cursor(v).col, 5);
    pass("x");
    CHECK_INT(vt_row(v, 4)[5].fg, 0);
    finish();
}

TEST(line_drawing_is_written_as_characters)
{
    begin();
    CHECK_STR(pass("\033(0lqk\033(Blqk\033)0\016x\017x"),
              "\xe2\x94\x8c\xe2\x94\x80\xe2\x94\x90lqk\xe2\x94\x82x");
    finish();
}

TEST(a_repeated_character_is_written_out)
{
    begin();
    CHECK_STR(pass("\033[5b"), ""); // nothing was written yet
    CHECK_STR(pass("a\033[3b\xcc\x81"), "aaaa\xcc\x81");
    CHECK_STR(pass("-\033[65535b") + 80, "-");
    finish();
}

TEST(a_title_loses_its_control_characters)
{
    begin();
    CHECK_STR(pass("\033]0;a\tb\xc2\x9b"
                   "31m\xff\007"),
              "\033]2;ab31m\033\\");
    CHECK_STR(vt_title(v), "ab31m");
    finish();
}

TEST(clean_bytes_draw_the_same_screen)
{
    unsigned seed = 3;
    for (int round = 0; round < test_loops(200); round++) {
        struct buf in = {.max = SIZE_MAX}, out = {.max = SIZE_MAX};
        struct vt *a = vt_new(8, 20, 50, NULL, NULL), *b = vt_new(8, 20, 50, NULL, NULL);
        for (int i = 0; i < 60; i++) {
            screen_add_noise(&in, &seed);
        }
        vt_feed(a, buf_str(&in), &out);
        vt_feed(b, buf_str(&out), NULL);
        screen_check_same(a, b);
        vt_free(a);
        vt_free(b);
        buf_fini(&in);
        buf_fini(&out);
    }
}
