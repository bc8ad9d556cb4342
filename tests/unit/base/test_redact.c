#include "base/json.h"
#include "base/redact.h"
#include "unit/test.h"

static void check_text(const char *text, const char *want)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    redact_text(&out, str_of(text));
    CHECK_STR(buf_z(&out), want);
    buf_fini(&out);
}

static void check_json(const char *text, const char *want)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_addz(&b, text);
    redact_json(&b);
    CHECK_STR(buf_z(&b), want);
    buf_fini(&b);
}

TEST(a_known_secret_is_replaced_by_its_name)
{
    CHECK(redact_add(STR("API"), STR("hunter2hunter2")));
    CHECK(!redact_add(STR("SHORT"), STR("1234567")));
    check_text("a hunter2hunter2 b hunter2hunter2", "a [redacted API] b [redacted API]");
    check_text("hunter2hunter", "hunter2hunter");
    check_text("1234567", "1234567");
    check_text("", "");
    redact_clear();
    check_text("hunter2hunter2", "hunter2hunter2");
}

TEST(secrets_that_overlap_are_hidden_together)
{
    redact_add(STR("A"), STR("abcdefghij"));
    redact_add(STR("B"), STR("abcdefgh"));
    redact_add(STR("C"), STR("ghijklmn"));
    redact_add(STR("AGAIN"), STR("ghijklmn"));
    check_text("-abcdefgh-", "-[redacted B]-");
    check_text("-abcdefghijklmn-", "-[redacted A]-");
    check_text("-abcdefghijk-ghijklmn", "-[redacted A]k-[redacted C]");
    redact_clear();
}

TEST(in_json_only_strings_are_looked_at_and_json_stays_json)
{
    redact_add(STR("N"), STR("12345678"));
    redact_add(STR("Q"), STR("say \"friend\"\nand enter"));
    check_json("{\"n\":12345678,\"s\":\"x12345678y\"}",
               "{\"n\":12345678,\"s\":\"x[redacted N]y\"}");
    check_json("{\"s\":\"say \\\"friend\\\"\\nand enter!\"}", "{\"s\":\"[redacted Q]!\"}");
    check_json("\"\\\\\",12345678,\"12345678\"", "\"\\\\\",12345678,\"[redacted N]\"");
    check_text("say \"friend\"\nand enter", "[redacted Q]");
    redact_clear();
}

TEST(a_name_with_quotes_leaves_json_valid)
{
    redact_add(STR("a\"b\\c\nd"), STR("hunter2hunter2"));
    check_json("{\"s\":\"x hunter2hunter2\"}", "{\"s\":\"x [redacted a?b?c?d]\"}");
    check_text("hunter2hunter2", "[redacted a?b?c?d]");
    redact_clear();
}

// Cut at every place, and byte by byte: the same as in one piece, and no piece shows a part of a secret.
TEST(a_secret_that_comes_in_pieces_is_hidden)
{
    static const char text[] = "key=abcdefghijklmn; aabcdefgabcdefgh ghijklm end abcdefg";
    struct buf whole, out, piece;
    buf_init(&piece, 1 << 20);
    redact_add(STR("A"), STR("abcdefghij"));
    redact_add(STR("B"), STR("abcdefgh"));
    redact_add(STR("C"), STR("ghijklmn"));
    buf_init(&whole, 1 << 20);
    redact_text(&whole, str_of(text));
    for (size_t cut = 0; cut <= sizeof text; cut++) { // the last: byte by byte
        struct redact_stream s;
        redact_stream_init(&s);
        buf_init(&out, 1 << 20);
        for (size_t i = 0; i < sizeof text - 1;) {
            size_t n = cut == sizeof text ? 1 : i < cut ? cut - i : sizeof text - 1 - i;
            n = MIN(n, sizeof text - 1 - i);
            buf_adds(&out, redact_feed(&s, &piece, (struct str){text + i, n}));
            i += n;
        }
        redact_flush(&s, &out);
        CHECK_STR(buf_z(&out), buf_z(&whole));
        buf_fini(&out);
        redact_stream_fini(&s);
    }
    buf_fini(&whole);
    buf_fini(&piece);
    redact_clear();
}

TEST(a_line_is_not_held_back_because_secrets_exist)
{
    struct redact_stream s;
    struct buf out;
    redact_add(STR("A"), STR("abcdefghij"));
    redact_stream_init(&s);
    buf_init(&out, 1 << 20);
    CHECK_SPAN(redact_feed(&s, &out, STR("a line of output\n")), "a line of output\n");
    CHECK_SPAN(redact_feed(&s, &out, STR("abc")), "");
    CHECK_SPAN(redact_feed(&s, &out, STR("x")), "abcx");
    redact_stream_fini(&s);
    buf_fini(&out);
    redact_clear();
}

TEST(looking_for_secrets_costs_little)
{
    struct buf text;
    buf_init(&text, 8 << 20);
    redact_add(STR("A"), STR("sk-abcdefghijklmnopqrstuvwxyz"));
    redact_add(STR("B"), STR("ghp_0123456789abcdef"));
    while (text.n < 4 << 20) {
        buf_addz(&text, "\"some words of an answer, as tokens and keys of JSON: sk- and gh\",");
    }
    double before = (double)test_cpu_ns();
    redact_json(&text);
    double each = ((double)test_cpu_ns() - before) / (double)text.n;
    printf("%.2f ns a byte\n", each);
    CHECK(each < 100); // a bound for sanitizers and slow machines; some 1.5 on a usual one
    buf_fini(&text);
    redact_clear();
}

TEST(no_secret_begins_inside_an_escape)
{
    struct buf json;
    CHECK(redact_add(STR("KEY"), STR("1272abcd")));
    buf_init(&json, SIZE_MAX);
    buf_addz(&json, "{\"a\":\"\\u001272abcd 1272abcd\"}");
    redact_json(&json);
    CHECK_STR(buf_z(&json), "{\"a\":\"\\u001272abcd [redacted KEY]\"}");
    buf_fini(&json);
    redact_clear();
}

TEST(a_text_that_is_json_is_looked_at_too)
{
    redact_add(STR("Q"), STR("say \"friend\"\nand enter"));
    check_text("{\"a\":\"say \\\"friend\\\"\\nand enter\"}", "{\"a\":\"[redacted Q]\"}");
    check_json("\"{\\\"a\\\":\\\"say \\\\\\\"friend\\\\\\\"\\\\nand enter\\\"}\"",
               "\"{\\\"a\\\":\\\"[redacted Q]\\\"}\"");
    redact_clear();
}

TEST(of_several_lines_each_is_hidden_unless_it_may_be_ordinary_text)
{
    redact_add(STR("K"),
               STR("-----BEGIN A KEY-----\nMIIEvQIBADANBgkq\nshort\n-----END A KEY-----\n"));
    check_text("7:MIIEvQIBADANBgkq", "7:[redacted K]");
    check_text("-----BEGIN A KEY----- short", "-----BEGIN A KEY----- short");
    check_text("-----BEGIN A KEY-----\nMIIEvQIBADANBgkq\nshort\n-----END A KEY-----\n",
               "[redacted K]");
    redact_clear();
}

TEST(a_member_without_a_text_is_null)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    jw_obj(&w);
    redact_member(&w, "none", str_of(NULL));
    redact_member(&w, "empty", STR(""));
    redact_member(&w, "text", STR("plain"));
    jw_end_obj(&w);
    CHECK_STR(buf_z(&out), "{\"none\":null,\"empty\":\"\",\"text\":\"plain\"}");
    buf_fini(&out);
}
