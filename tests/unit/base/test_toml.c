// The TOML parser on documents of our own: values, places, rules, messages and hostile input.
// test_toml_suite.c runs the TOML project's own tests.

#include <locale.h>
#include <math.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/toml.h"
#include "unit/test.h"

static struct arena arena; // of the one test this process runs

static void arena_done(void)
{
    arena_fini(&arena);
}

static struct toml *parse_str(struct str text)
{
    struct toml *doc;
    struct err e;
    static int once;
    if (once++ == 0) {
        atexit(arena_done);
    }
    if (toml_parse(&doc, &arena, text, NULL, NULL, &e) < 0) {
        test_fail(__FILE__, __LINE__, "refused: %s\n%.*s", e.msg, (int)MIN(text.n, 200), text.p);
    }
    CHECK_INT(doc->type, TOML_TABLE);
    return doc;
}

static struct toml *parse(const char *text)
{
    return parse_str(str_of(text));
}

/// The value of `v = <text>`.
static const struct toml *value_of(const char *text)
{
    char line[512];
    snprintf(line, sizeof line, "v = %s", text);
    return toml_get(parse(line), "v");
}

static void refuse_str(int at, struct str text, const char *message)
{
    struct toml *doc = parse("");
    struct err e = {0};
    uint32_t line = 0, col = 0;
    char place[64];
    int rc = toml_parse(&doc, &arena, text, &line, &col, &e);
    if (rc != ERR_PARSE || strcmp(e.msg, message) != 0) {
        test_fail(__FILE__, at, "rc %d, \"%s\", not \"%s\"", rc, e.msg, message);
    }
    snprintf(place, sizeof place, "line %u, column %u: ", line, col);
    CHECK(doc == NULL);
    CHECK(strncmp(e.msg, place, strlen(place)) == 0);
}
#define REFUSE(text, message) refuse_str(__LINE__, STR(text), message)
#define REFUSE_VALUE(text, message)                                                                \
    refuse_str(__LINE__, STR("v = " text), "line 1, column 5: in 'v': '" text "' " message)

// ---- values -------------------------------------------------------------------------------

TEST(toml_reads_integers_of_every_base)
{
    CHECK_INT(value_of("+1_000")->i, 1000);
    CHECK_INT(value_of("-0")->i, 0);
    CHECK_INT(value_of("0xdead_BEEF")->i, 0xdeadbeef);
    CHECK_INT(value_of("0o755")->i, 0755);
    CHECK_INT(value_of("0b1_01")->i, 5);
    CHECK_INT(value_of("9223372036854775807")->i, INT64_MAX);
    CHECK_INT(value_of("-9223372036854775808")->i, INT64_MIN);
    CHECK_INT(value_of("0x7fffffffffffffff")->i, INT64_MAX);
    CHECK_INT(value_of("7")->type, TOML_INT);
}

TEST(toml_refuses_integers_that_do_not_fit)
{
    REFUSE_VALUE("9223372036854775808", "does not fit 64 bits");
    REFUSE_VALUE("-9223372036854775809", "does not fit 64 bits");
    REFUSE_VALUE("0x8000000000000000", "does not fit 64 bits");
    REFUSE_VALUE("0xffffffffffffffffff", "does not fit 64 bits");
}

TEST(toml_refuses_numbers_of_wrong_form)
{
    REFUSE_VALUE("012", "has a leading zero");
    REFUSE_VALUE("-00.5", "has a leading zero");
    REFUSE_VALUE("1__0", "is not a number");
    REFUSE_VALUE("1_", "is not a number");
    REFUSE_VALUE("+0x1", "is not a number");
    REFUSE_VALUE("0b12", "is not a number");
    REFUSE_VALUE(".5", "is not a number");
    REFUSE_VALUE("5.", "is not a number");
    REFUSE_VALUE("1.e3", "is not a number");
    REFUSE_VALUE("1e", "is not a number");
    REFUSE_VALUE("1_.5", "is not a number");
    REFUSE_VALUE("1e400", "is beyond the range of a float");
}

TEST(toml_reads_floats)
{
    CHECK(value_of("6.626e-3_4")->d == 6.626e-34);
    CHECK(value_of("-1E+2")->d == -100);
    CHECK(value_of("9_224_617.445_991")->d == 9224617.445991);
    CHECK(value_of("1e-400")->d == 0);
    CHECK(signbit(value_of("-0.0")->d));
    CHECK(value_of("+inf")->d > 0 && isinf(value_of("inf")->d));
    CHECK(value_of("-inf")->d < 0 && isinf(value_of("-inf")->d));
    CHECK(isnan(value_of("-nan")->d));
    CHECK_INT(value_of("0e0")->type, TOML_DOUBLE);
}

/// Make the German locale in this test's own directory, installed or not.
static void use_decimal_comma(void)
{
    char command[512];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8", test_dir());
    setenv("LOCPATH", test_dir(), 1);
    if (system(command) != 0 || setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) {
        test_skip("localedef cannot make a locale with a decimal comma here");
    }
    CHECK_STR(localeconv()->decimal_point, ",");
}

TEST(toml_reads_floats_the_same_under_a_decimal_comma)
{
    use_decimal_comma();
    CHECK(value_of("2.5")->d == 2.5);
}

TEST(toml_reads_the_four_kinds_of_date_and_time_in_one_spelling)
{
    static const struct {
        const char *text, *spelling;
        enum toml_type type;
    } rows[] = {
        {"1979-05-27t07:32:00z", "1979-05-27T07:32:00Z", TOML_DATETIME},
        {"1979-05-27 00:32:00.5-07:00", "1979-05-27T00:32:00.500-07:00", TOML_DATETIME},
        {"1979-05-27T00:32:00.9999", "1979-05-27T00:32:00.999900", TOML_DATETIME_LOCAL},
        {"0000-02-29", "0000-02-29", TOML_DATE_LOCAL},
        {"2000-02-29 # leap", "2000-02-29", TOML_DATE_LOCAL},
        {"23:59:60", "23:59:60", TOML_TIME_LOCAL},
        {"07:32:00.1234567899", "07:32:00.123456789", TOML_TIME_LOCAL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct toml *v = value_of(rows[i].text);
        CHECK_INT(v->type, rows[i].type);
        CHECK_SPAN(v->s, rows[i].spelling);
        CHECK_INT(v->s.p[v->s.n], '\0');
    }
}

TEST(toml_refuses_dates_and_times_that_cannot_be)
{
    REFUSE_VALUE("1900-02-29", "is not a valid date");
    REFUSE_VALUE("2023-04-31", "is not a valid date");
    REFUSE_VALUE("2023-13-01", "is not a valid date");
    REFUSE_VALUE("2023-01-00", "is not a valid date");
    REFUSE_VALUE("24:00:00", "is not a valid time of day");
    REFUSE_VALUE("12:60:00", "is not a valid time of day");
    REFUSE_VALUE("12:00:61", "is not a valid time of day");
    REFUSE_VALUE("2023-01-01T00:00:00+24:00", "has an offset of a day or more");
    REFUSE_VALUE("2023-01-01T00:00:00-00:60", "has an offset of a day or more");
    REFUSE_VALUE("12:00", "is not a date or time, as in 1979-05-27T07:32:00Z");
    REFUSE_VALUE("12:00:00.", "is not a date or time, as in 1979-05-27T07:32:00Z");
    REFUSE_VALUE("12:00:00Z", "is not a date or time, as in 1979-05-27T07:32:00Z");
    REFUSE_VALUE("2023-01-01 1", "is not a date or time, as in 1979-05-27T07:32:00Z");
    REFUSE_VALUE("2023-1-01", "is not a date or time, as in 1979-05-27T07:32:00Z");
}

TEST(toml_reads_basic_strings_with_escapes)
{
    CHECK_SPAN(value_of("\"\"")->s, "");
    CHECK_SPAN(value_of("\"a\\tb\\n\\\"\\\\ \\u00e9 \\U0001F600\"")->s, "a\tb\n\"\\ é 😀");
    CHECK_INT(value_of("\"a\\u0000b\"")->s.n, 3);
    CHECK_INT(value_of("\"a\\u0000b\"")->s.p[1], '\0');
    CHECK_SPAN(value_of("'C:\\new \"x\"'")->s, "C:\\new \"x\"");
}

TEST(toml_reads_multi_line_strings)
{
    CHECK_SPAN(value_of("\"\"\"\na\r\nb\n\"\"\"")->s, "a\nb\n");
    CHECK_SPAN(value_of("\"\"\"a \\  \n\n\t b\\\n\"\"\"")->s, "a b");
    CHECK_SPAN(value_of("\"\"\"\"quoted\"\"\"\"\"")->s, "\"quoted\"\"");
    CHECK_SPAN(value_of("'''\n\\n ''x'''''")->s, "\\n ''x''");
    CHECK_SPAN(value_of("\"\"\"\"\"\"")->s, "");
}

TEST(toml_refuses_bad_strings)
{
    REFUSE("v = \"abc\nw = 1", "line 1, column 5: in 'v': a string begins here and is not closed "
                               "with \" on its line");
    REFUSE("v = [\n  '''abc\n\n",
           "line 2, column 3: in 'v': a string begins here and is not closed "
           "with '''");
    REFUSE("v = \"a\\e\"", "line 1, column 8: in 'v': expected one of b t n f r \" \\ u U after a "
                           "backslash, found 'e'");
    REFUSE("v = \"\"\"a\\ b\"\"\"",
           "line 1, column 10: in 'v': expected one of b t n f r \" \\ u U "
           "after a backslash, found U+0020");
    REFUSE("v = \"\\u12G4\"", "line 1, column 6: in 'v': an escape \\u takes 4 hexadecimal digits");
    REFUSE("v = \"\\ud800\"", "line 1, column 6: in 'v': an escape names U+D800, which is no "
                              "character");
    REFUSE("v = \"\\UFFFFFFFF\"", "line 1, column 6: in 'v': an escape names U+FFFFFFFF, which is "
                                  "no character");
    REFUSE("v = '''''''''", "line 1, column 13: expected the end of the line, found '''");
}

TEST(toml_refuses_words_that_are_no_values)
{
    REFUSE_VALUE("True", "is not a value (strings need quotes)");
    REFUSE_VALUE("hello", "is not a value (strings need quotes)");
    REFUSE_VALUE("++inf", "is not a number");
    REFUSE("v =", "line 1, column 4: in 'v': expected a value, found the end of the file");
    REFUSE("v = # 1\n", "line 1, column 5: in 'v': expected a value, found '#'");
    REFUSE("v = \xC3\xA9", "line 1, column 5: in 'v': expected a value, found U+00E9");
    REFUSE("v = 1 2", "line 1, column 7: expected the end of the line, found '2'");
    REFUSE("v = xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
           "line 1, column 5: in 'v': 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' is not a value "
           "(strings need quotes)");
}

// ---- the text as a whole ------------------------------------------------------------------

TEST(toml_refuses_what_no_document_may_hold)
{
    REFUSE("# ok\n# b\007d", "line 2, column 4: a control character (U+0007) is not allowed");
    REFUSE("a = '\0'", "line 1, column 6: a control character (U+0000) is not allowed");
    REFUSE("a = '\x7f'", "line 1, column 6: a control character (U+007F) is not allowed");
    REFUSE("a = 1\rb = 2", "line 1, column 6: a carriage return without its line feed (U+000D) is "
                           "not allowed");
    REFUSE("a = 1\r", "line 1, column 6: a carriage return without its line feed (U+000D) is not "
                      "allowed");
    REFUSE("# \xC3\xA9\n\xC3\xA9\xC0\x80", "line 2, column 2: the text is not UTF-8");
    REFUSE("a = \"\xED\xA0\x80\"", "line 1, column 6: the text is not UTF-8");
    REFUSE("a = 1\n# \xE2\x82", "line 2, column 3: the text is not UTF-8");
}

TEST(toml_skips_a_byte_order_mark_at_the_start_only)
{
    struct toml *doc = parse("\xEF\xBB\xBF"
                             "a = 1");
    CHECK_INT(doc->members[0].col, 1);
    CHECK_INT(parse("\xEF\xBB\xBF")->n, 0);
    REFUSE(" \xEF\xBB\xBF"
           "a = 1",
           "line 1, column 2: expected a key, found U+FEFF");
}

TEST(toml_reads_an_empty_document)
{
    CHECK_INT(parse_str(STR_NULL)->n, 0);
    CHECK_INT(parse(" \t# nothing\r\n\n#")->n, 0);
    CHECK(parse("")->members != NULL);
}

// ---- places -------------------------------------------------------------------------------

static void check_place(uint32_t line, uint32_t col, uint32_t want_line, uint32_t want_col)
{
    CHECK_INT(line, want_line);
    CHECK_INT(col, want_col);
}

TEST(toml_keys_and_values_know_their_line_and_column_in_characters)
{
    struct toml *doc =
        parse("# head\r\n\t\"\xC3\xA9\".b = ['\xC3\xBC', 2,\n  3 ]\n"
              "[ t.u ]\nx = '''\n\n''' # two lines\ny = { z = 1 }\n [[ l ]]\n[[l]]\n");
    const struct toml_member *m = doc->members;
    check_place(m->line, m->col, 2, 2);
    check_place(m->value.line, m->value.col, 2, 2);
    m = m->value.members;
    check_place(m->line, m->col, 2, 6);
    check_place(m->value.line, m->value.col, 2, 10);
    check_place(m->value.items[1].line, m->value.items[1].col, 2, 16);
    check_place(m->value.items[2].line, m->value.items[2].col, 3, 3);

    const struct toml *t = toml_get(doc, "t"), *u = toml_get(t, "u");
    check_place(t->line, t->col, 4, 3);
    check_place(u->line, u->col, 4, 1);
    check_place(t->members[0].line, t->members[0].col, 4, 5);
    check_place(toml_get(u, "x")->line, toml_get(u, "x")->col, 5, 5);
    check_place(toml_get(u, "y")->line, toml_get(u, "y")->col, 8, 5);
    check_place(toml_get(toml_get(u, "y"), "z")->line, toml_get(toml_get(u, "y"), "z")->col, 8, 11);

    const struct toml *l = toml_get(doc, "l");
    check_place(l->items[0].line, l->items[0].col, 9, 2);
    check_place(l->items[1].line, l->items[1].col, 10, 1);
}

TEST(toml_a_table_named_late_has_the_place_of_its_header)
{
    const struct toml *a = toml_get(parse("[a.b]\n\n [a]\nc = 1"), "a");
    check_place(a->line, a->col, 3, 2);
    CHECK_INT(a->n, 2);
}

// ---- keys, tables, arrays -----------------------------------------------------------------

TEST(toml_reads_keys_of_every_kind)
{
    struct toml *doc = parse("bare-Key_1 = 1\n\"q k\" = 2\n'' = 3\n3.14 = 4\na . \"b.c\" .'d'=5\n");
    CHECK_INT(toml_get(doc, "bare-Key_1")->i, 1);
    CHECK_INT(toml_get(doc, "q k")->i, 2);
    CHECK_INT(toml_get(doc, "")->i, 3);
    CHECK_INT(toml_get(toml_get(doc, "3"), "14")->i, 4);
    CHECK_INT(toml_get(toml_get(toml_get(doc, "a"), "b.c"), "d")->i, 5);
}

TEST(toml_keeps_the_order_of_the_file)
{
    struct toml *doc = parse("z.b = 1\na = 2\nz.a = 3\n[m]\n[b]\n[m.x]\n");
    CHECK_INT(doc->n, 4);
    CHECK_SPAN(doc->members[0].key, "z");
    CHECK_SPAN(doc->members[0].value.members[1].key, "a");
    CHECK_SPAN(doc->members[1].key, "a");
    CHECK_SPAN(doc->members[2].key, "m");
    CHECK_SPAN(doc->members[2].value.members[0].key, "x");
    CHECK_SPAN(doc->members[3].key, "b");
}

TEST(toml_reads_arrays_and_inline_tables)
{
    struct toml *doc = parse("a = [ 1, 'x', [ ], # mixed\n\n { k.l = true, m = {} } , ]\n");
    const struct toml *a = toml_get(doc, "a");
    CHECK_INT(a->n, 4);
    CHECK_INT(a->items[2].n, 0);
    CHECK(a->items[2].items != NULL);
    CHECK(toml_get(toml_get(&a->items[3], "k"), "l")->b);
    CHECK_INT(toml_get(&a->items[3], "m")->type, TOML_TABLE);
}

TEST(toml_reads_arrays_of_tables_with_tables_in_them)
{
    struct toml *doc =
        parse("[[f]]\nn = 1\n[f.p]\nc = 2\n[[f.v]]\nn = 3\n[[f.v]]\n[[f]]\n[[f.v]]\n");
    const struct toml *f = toml_get(doc, "f");
    CHECK_INT(f->n, 2);
    CHECK_INT(toml_get(toml_get(&f->items[0], "p"), "c")->i, 2);
    CHECK_INT(toml_get(&f->items[0], "v")->n, 2);
    CHECK_INT(toml_get(&f->items[1], "v")->n, 1);
}

TEST(toml_lets_headers_add_below_dotted_keys_and_paths)
{
    struct toml *doc = parse("[x.y.z]\n[x]\n[fruit]\napple.color = 1\napple.taste.sweet = true\n"
                             "[fruit.apple.texture]\nsmooth = true\n");
    CHECK_INT(toml_get(toml_get(doc, "fruit"), "apple")->n, 3);
}

TEST(toml_refuses_a_second_definition_and_names_the_first)
{
    REFUSE("a = 1\n\na = 2", "line 3, column 1: 'a' is already defined on line 1");
    REFUSE("a = 1\n\"\\u0061\" = 2", "line 2, column 1: 'a' is already defined on line 1");
    REFUSE("[t]\na.b = 1\na.b = 2", "line 3, column 3: 't.a.b' is already defined on line 2");
    REFUSE("[a]\n[b]\n[a]", "line 3, column 2: 'a' is already defined on line 1");
    REFUSE("[a]\nb.c = 1\n[a.b]", "line 3, column 4: 'a.b' is already defined on line 2");
    REFUSE("[[a]]\n[a]", "line 2, column 2: 'a' is already defined on line 1");
    REFUSE("[a]\n[[a]]", "line 2, column 3: 'a' is already defined on line 1");
    REFUSE("a = []\n[[a]]", "line 2, column 3: 'a' is already defined on line 1");
    REFUSE("[a.b]\n[[a]]", "line 2, column 3: 'a' is already defined on line 1");
    REFUSE("[a.b]\n[a]\nb = 1", "line 3, column 1: 'a.b' is already defined on line 1");
    REFUSE("v = {a = 1, a = 2}", "line 1, column 13: in 'v': 'v.a' is already defined on line 1");
    REFUSE("[[l]]\nx = 1\n[[l]]\nx = 1\nx = 2",
           "line 5, column 1: 'l.x' is already defined on line "
           "4");
}

TEST(toml_refuses_to_add_to_what_is_closed)
{
    REFUSE("a = 1\na.b = 2", "line 2, column 1: cannot add to 'a', defined as integer on line 1");
    REFUSE("a = {}\na.b = 2",
           "line 2, column 1: cannot add to 'a', defined as inline table on line "
           "1");
    REFUSE("a = {}\n[a.b]",
           "line 2, column 2: cannot add to 'a', defined as inline table on line 1");
    REFUSE("a = {b.c = 1}\n[a.b.d]", "line 2, column 2: cannot add to 'a', defined as inline table "
                                     "on line 1");
    REFUSE("a = {b = {}, b.c = 1}", "line 1, column 14: in 'a': cannot add to 'a.b', defined as "
                                    "inline table on line 1");
    REFUSE("a = [{}]\n[a.b]", "line 2, column 2: cannot add to 'a', defined as array on line 1");
    REFUSE("[a.b.c]\n[a]\nb.d = 1", "line 3, column 1: cannot add to 'a.b', defined as table on "
                                    "line 1");
    REFUSE("[[a.b]]\n[a]\nb.d = 1", "line 3, column 1: cannot add to 'a.b', defined as array on "
                                    "line 1");
    REFUSE("a = 1.5\n[[a.b]]", "line 2, column 3: cannot add to 'a', defined as float on line 1");
}

TEST(toml_says_what_it_expected)
{
    REFUSE("a", "line 1, column 2: in 'a': expected '=' or '.' after the key, found the end of the "
                "file");
    REFUSE("= 1", "line 1, column 1: expected a key, found '='");
    REFUSE("a. = 1", "line 1, column 4: expected a key, found '='");
    REFUSE("\"\"\"a\"\"\" = 1", "line 1, column 1: a key cannot be a multi-line string");
    REFUSE("[a", "line 1, column 3: expected ']' after the name of the table, found the end of the "
                 "file");
    REFUSE("[[a] ]", "line 1, column 5: expected ']]' after the name of the table, found U+0020");
    REFUSE("[ [a]]", "line 1, column 3: expected a key, found '['");
    REFUSE("[]", "line 1, column 2: expected a key, found ']'");
    REFUSE("[a] b = 1", "line 1, column 5: expected the end of the line, found 'b'");
    REFUSE("[s]\np = [1\n 2]", "line 3, column 2: in 's.p': expected ',' or ']', found '2'");
    REFUSE("p = {a = 1,}", "line 1, column 12: in 'p': expected a key, found '}'");
    REFUSE("p = {a = 1\n}", "line 1, column 11: in 'p': expected ',' or '}', found the end of the "
                            "line");
    REFUSE("p = {a = {b = [x]}}", "line 1, column 16: in 'p.a.b': 'x' is not a value (strings need "
                                  "quotes)");
}

TEST(toml_shows_odd_keys_on_one_line_and_cuts_long_ones)
{
    REFUSE("a.\"b c\".\"\\n\\u009b\\\"\".'' = x",
           "line 1, column 27: in 'a.\"b c\".\"\\u000A\\u009B\\\"\".\"\"': 'x' is not a value "
           "(strings need quotes)");

    char text[4096], want[240], shown[101];
    memset(shown, 'k', 100);
    shown[100] = '\0';
    snprintf(text, sizeof text, "%s%s%s = x", shown, shown, shown);
    snprintf(want, sizeof want,
             "line 1, column 304: in '%.96s...': 'x' is not a value (strings need "
             "quotes)",
             shown);
    refuse_str(__LINE__, str_of(text), want);
}

// ---- hostile input ------------------------------------------------------------------------

/// `n` times `piece`, `tail` behind.
static struct str repeat(struct buf *b, const char *head, const char *piece, size_t n,
                         const char *tail)
{
    buf_init(b, (size_t)64 << 20);
    buf_addz(b, head);
    for (size_t i = 0; i < n; i++) {
        buf_addz(b, piece);
    }
    buf_addz(b, tail);
    return buf_str(b);
}

/// `most` times `open` is accepted, once more is refused at `place`.
static void check_depth(const char *head, const char *open, size_t most, const char *value,
                        const char *close, const char *place)
{
    struct buf b, c;
    repeat(&b, head, open, most, value);
    parse_str(repeat(&c, buf_z(&b), close, most, ""));
    buf_fini(&b);
    buf_fini(&c);

    struct toml *doc;
    struct err e;
    struct str text = repeat(&b, head, open, most + 1, value);
    CHECK_INT(toml_parse(&doc, &arena, text, NULL, NULL, &e), ERR_PARSE);
    CHECK(strncmp(e.msg, place, strlen(place)) == 0);
    CHECK(strstr(e.msg, "nested more than 128 deep") != NULL);
    buf_fini(&b);
}

TEST(toml_bounds_the_depth_of_arrays_inline_tables_and_dotted_keys)
{
    check_depth("v=", "[", 127, "[]", "]", "line 1, column 131: ");
    check_depth("v=", "{k=", 126, "{k=1}", "}", "line 1, column 385: ");
    check_depth("v=", "{k.l=[", 42, "", "]}", "line 1, column 258: ");
    check_depth("", "k.", 127, "k=1", "", "line 1, column 257: ");
    check_depth("[", "k.", 127, "k]", "", "line 1, column 258: ");
    check_depth("[", "k.", 126, "k]\nv=1", "", "line 2, column 1: ");
}

TEST(toml_survives_a_million_open_brackets)
{
    static const char *const opens[] = {"[", "{k=", "[{k=", "k.", "[["};
    for (size_t i = 0; i < ARRAY_LEN(opens); i++) {
        struct buf b;
        struct toml *doc;
        struct str text = repeat(&b, i == 3 ? "" : "v=", opens[i], 1000000, "");
        CHECK_INT(toml_parse(&doc, &arena, text, NULL, NULL, NULL), ERR_PARSE);
        buf_fini(&b);
    }
}

enum { MANY = 200000 };

/// Linear work on MANY pieces takes well below a second of processor time even under the
/// sanitizers, quadratic work minutes: the kernel ends this process (SIGXCPU) long before.
static struct toml *parse_quickly(struct buf *b)
{
    const struct rlimit limit = {.rlim_cur = 10, .rlim_max = 10};
    CHECK_INT(setrlimit(RLIMIT_CPU, &limit), 0);
    struct toml *doc = parse_str(buf_str(b));
    buf_fini(b);
    return doc;
}

TEST(toml_reads_a_table_of_200000_keys_quickly)
{
    struct buf b;
    buf_init(&b, (size_t)64 << 20);
    for (int i = 0; i < MANY; i++) {
        buf_addf(&b, "key%d = %d\n", i, i);
    }
    struct toml *doc = parse_quickly(&b);
    CHECK_INT(doc->n, MANY);
    CHECK_INT(toml_get(doc, "key199999")->i, MANY - 1);
}

TEST(toml_reads_200000_headers_of_tables_and_arrays_quickly)
{
    struct buf b;
    buf_init(&b, (size_t)64 << 20);
    for (int i = 0; i < MANY; i++) {
        buf_addf(&b, "[[x]]\n[t.u%d]\n", i);
    }
    struct toml *doc = parse_quickly(&b);
    CHECK_INT(toml_get(doc, "x")->n, MANY);
    CHECK_INT(toml_get(doc, "t")->n, MANY);
}

TEST(toml_counts_the_columns_of_one_long_line_quickly)
{
    struct buf b;
    repeat(&b, "v = [", "'\xC3\xA9',", MANY, "]");
    const struct toml *v = toml_get(parse_quickly(&b), "v");
    CHECK_INT(v->n, MANY);
    CHECK_INT(v->items[MANY - 1].col, 6 + 4 * (MANY - 1));
}

TEST(toml_reads_a_number_of_a_million_digits)
{
    struct buf b;
    repeat(&b, "v = 0.", "1", 1000000, "");
    CHECK(fabs(toml_get(parse_quickly(&b), "v")->d - 1.0 / 9) < 1e-15);
}

// ---- getters ------------------------------------------------------------------------------

TEST(toml_getters_take_null_and_the_wrong_type)
{
    struct toml *doc = parse("a = 1\nd = 2020-01-01");
    CHECK(toml_get(NULL, "a") == NULL);
    CHECK(toml_get(toml_get(doc, "a"), "b") == NULL);
    CHECK(toml_get(doc, "b") == NULL);
    CHECK_STR(toml_type_name(NULL), "absent");
    CHECK_STR(toml_type_name(doc), "table");
    CHECK_STR(toml_type_name(toml_get(doc, "a")), "integer");
    CHECK_STR(toml_type_name(toml_get(doc, "d")), "local date");
}

TEST(toml_reads_the_string_that_it_wrote)
{
    static const char hostile[] = "a\"b\\c\n\t\x01\x7F\0\xC3\xA9\xF0\x9F\x98\x80'";
    struct buf b = {.max = SIZE_MAX};
    buf_addz(&b, "v = ");
    toml_add_str(&b, (struct str){hostile, sizeof hostile - 1});
    CHECK(str_eq(toml_get(parse_str(buf_str(&b)), "v")->s,
                 (struct str){hostile, sizeof hostile - 1}));
    buf_fini(&b);
}

TEST(toml_result_does_not_point_into_the_text)
{
    char text[] = "key = 'value'\nd = 2020-01-01\n[tab]\n";
    struct toml *doc = parse(text);
    memset(text, '?', sizeof text - 1);
    CHECK_SPAN(toml_get(doc, "key")->s, "value");
    CHECK_SPAN(toml_get(doc, "d")->s, "2020-01-01");
    CHECK(toml_get(doc, "tab") != NULL);
}
