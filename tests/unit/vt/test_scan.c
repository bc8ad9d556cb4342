#include "base/buf.h"
#include "unit/test.h"
#include "unit/vt/screen.h"
#include "vt/scan.h"

/// Tokens in short: t'text' c'CSI' e'ESC' s'string', one after the other; ESC is written as ^.
static void list(struct scan *s, struct str in, struct buf *out)
{
    struct scan_token t;
    while (scan_next(s, &in, &t)) {
        buf_addc(out, "tces"[t.kind]);
        buf_addc(out, '\'');
        for (size_t i = 0; i < t.bytes.n; i++) {
            buf_addc(out, t.bytes.p[i] == 27 ? '^' : t.bytes.p[i]);
        }
        buf_addc(out, '\'');
    }
}

static const char *tokens(const char *text)
{
    static struct buf out;
    struct scan s;
    buf_fini(&out);
    buf_init(&out, SIZE_MAX);
    scan_init(&s);
    list(&s, str_of(text), &out);
    scan_fini(&s);
    return buf_z(&out);
}

TEST(output_is_cut_into_what_a_terminal_obeys)
{
    CHECK_STR(tokens("ab\r\ncd"), "t'ab\r\ncd'");
    CHECK_STR(tokens("a\033[1;2Hb\033[?25l"), "t'a'c'^[1;2H't'b'c'^[?25l'");
    CHECK_STR(tokens("\0337\033(B\033M"), "e'^7'e'^(B'e'^M'");
    CHECK_STR(tokens("\033]0;x\007\033]2;y\033\\z"), "s'^]0;x's'^]2;y't'z'");
    CHECK_STR(tokens("\033Pq\033\\\033_a\033\\\033^b\033\\\033Xc\033\\"),
              "s'^Pq's'^_a's'^^b's'^Xc'");
    tokens("");
}

TEST(control_characters_inside_a_sequence_are_obeyed_or_end_it)
{
    CHECK_STR(tokens("\033[1\n2H"), "t'\n'c'^[12H'");
    CHECK_STR(tokens("\033[12\030x"), "t'x'");
    CHECK_STR(tokens("\033[12\033[3m"), "c'^[3m'");
    CHECK_STR(tokens("\033]2;abc\033[3mx"), "c'^[3m't'x'");
    CHECK_STR(tokens("\033]2;abc\030x"), "t'x'");
    CHECK_STR(tokens("a\005\001b"), "t'a't'b'");
    tokens("");
}

TEST(bytes_that_are_not_utf8_become_the_replacement_character)
{
    CHECK_STR(tokens("a\xff"
                     "b"),
              "t'a't'\xef\xbf\xbd't'b'");
    CHECK_STR(tokens("\xe4\xb8x"), "t'\xef\xbf\xbd't'x'");
    CHECK_STR(tokens("\xc2\x9b"
                     "31m"),
              "t'31m'"); // CSI as one character
    CHECK_STR(tokens("\xe4\xb8\xad"), "t'\xe4\xb8\xad'");
    tokens("");
}

TEST(sequences_without_end_are_dropped_and_bounded)
{
    struct scan s;
    struct scan_token t;
    char big[1024];
    memset(big, '1', sizeof big);
    scan_init(&s);
    struct str in = STR("\033]52;c;");
    CHECK(!scan_next(&s, &in, &t));
    for (int i = 0; i < 1000; i++) {
        in = (struct str){big, sizeof big};
        CHECK(!scan_next(&s, &in, &t));
    }
    CHECK(s.held.n <= SCAN_STRING_MAX);
    in = STR("\007after");
    CHECK(scan_next(&s, &in, &t));
    CHECK_SPAN(t.bytes, "after");
    in = STR("\033[");
    CHECK(!scan_next(&s, &in, &t));
    in = (struct str){big, sizeof big};
    CHECK(!scan_next(&s, &in, &t));
    in = STR("Hx");
    CHECK(scan_next(&s, &in, &t));
    CHECK_SPAN(t.bytes, "x");
    scan_fini(&s);
}

TEST(the_tokens_do_not_depend_on_how_the_bytes_were_split)
{
    unsigned seed = 7;
    for (int round = 0; round < test_loops(300); round++) {
        struct buf in = {.max = SIZE_MAX}, whole = {.max = SIZE_MAX}, split = {.max = SIZE_MAX};
        struct scan a, b;
        struct scan_token t;
        for (int i = 0; i < 40; i++) {
            screen_add_noise(&in, &seed);
        }
        scan_init(&a);
        scan_init(&b);
        struct str rest = buf_str(&in);
        while (scan_next(&a, &rest, &t)) {
            buf_adds(&whole, t.bytes);
        }
        for (size_t i = 0; i < in.n; i++) {
            struct str one = {in.p + i, 1};
            while (scan_next(&b, &one, &t)) {
                buf_adds(&split, t.bytes);
            }
        }
        CHECK_STR(buf_z(&split), buf_z(&whole));
        scan_fini(&a);
        scan_fini(&b);
        buf_fini(&in);
        buf_fini(&whole);
        buf_fini(&split);
    }
}
