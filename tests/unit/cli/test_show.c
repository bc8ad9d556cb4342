#include "base/time.h"
#include "cli/call.h"
#include "unit/test.h"

static const char text[] =
    "{\"name\":\"a\",\"empty\":\"\",\"null\":null,\"on\":true,\"off\":false,\"n\":1,\"zero\":0,"
    "\"in\":{\"x\":\"deep\"},\"list\":[\"p\",{\"name\":\"q\"}],\"hash\":\"0123456789\"}";

static struct cli cli; // without words and flags, unless a test gives some

static const char *filled(const char *template)
{
    static struct buf out;
    struct arena arena = {0};
    struct json *v = NULL;
    CHECK_INT(json_parse(&v, &arena, str_of(text), NULL, NULL), 0);
    buf_fini(&out);
    buf_init(&out, 4096);
    show_fill(&cli, &out, template, v, STR("key"));
    arena_fini(&arena);
    return buf_z(&out);
}

TEST(a_template_takes_values_of_the_row)
{
    CHECK_STR(filled("plain"), "plain");
    CHECK_STR(filled("{name}/{in.x}/{n}"), "a/deep/1");
    CHECK_STR(filled("[{null}{empty}{absent}{in.absent}]"), "[]");
    CHECK_STR(filled("{list} {#list} {=list}"), "p, q 2 [\"p\",{\"name\":\"q\"}]");
    CHECK_STR(filled("{@} {hash:4} {name:4}"), "key 0123 a");
}

TEST(a_condition_asks_whether_a_value_is_set_or_equal)
{
    CHECK_STR(filled("{on?y:n}{off?y:n}{n?y:n}{zero?y:n}{name?y:n}{empty?y:n}{absent?y:n}"),
              "ynynynn");
    CHECK_STR(filled("{n} item{n=1?:s}, {zero} item{zero=1?:s}"), "1 item, 0 items");
    CHECK_STR(filled("{name=a?yes}{name=b?no}"), "yes");
}

TEST(the_first_alternative_whose_values_are_there_is_taken)
{
    CHECK_STR(filled("{empty}||{absent}||{name}"), "a");
    CHECK_STR(filled("{name} of {absent}||only {name}"), "only a");
    CHECK_STR(filled("{on?it} is {name}||not"), "it is a");
    CHECK_STR(filled("{off?it} is {name}||not"), "not");
    CHECK_STR(filled("{absent}||{empty}"), "");
}

TEST(a_template_knows_words_and_flags)
{
    char program[] = "afloat", noun[] = "session", verb[] = "end", id[] = "0195",
         flag[] = "--purge";
    char *argv[] = {program, noun, verb, id, flag};
    CHECK_INT(args_parse(&cli.args, 5, argv, NULL), 0);
    CHECK_STR(filled("{$0}{$1} {-purge?all:some}"), "0195 all");
    args_fini(&cli.args);
    cli.args = (struct args){0};
    CHECK_STR(filled("{$0}||{-purge?all:some}"), "some");
}

// The rows of a list, as a pipe or a terminal gets them.
static const char *shown(const char *json, bool terminal)
{
    const struct column columns[] = {
        COL("NAME", ID, NULL),  COL("STATE", STATE, "{state}||running"),
        COL("AT", TIME, NULL),  COL("SIZE", SIZE, NULL),
        COL("AGE", SPAN, NULL), COL(NULL, TEXT, NULL)};
    struct arena arena = {0};
    struct json *v = NULL;
    CHECK_INT(json_parse(&v, &arena, str_of(json), NULL, NULL), 0);
    out_fini(&cli.out);
    out_init(&cli.out, OUT_NEVER, false);
    cli.out.terminal = terminal;
    show_rows(&cli, columns, json_get(v, "rows"));
    arena_fini(&arena);
    return buf_z(&cli.out.data);
}

TEST(times_are_exact_in_a_pipe_and_relative_on_a_terminal)
{
    char at[TIME_TEXT], json[256];
    time_format(time_wall_ms() - 200 * 1000, at);
    snprintf(json, sizeof json,
             "{\"rows\":[{\"name\":\"a\",\"at\":\"%s\",\"size\":1536,\"age\":7300}]}", at);
    char *exact = xasprintf("a  running  %s  1.5 KiB  2 h\n", at);
    CHECK_STR(shown(json, false), exact);
    CHECK_STR(shown(json, true), "NAME  STATE    AT         SIZE     AGE\n"
                                 "a     running  3 min ago  1.5 KiB  2 h\n");
    CHECK_STR(shown("{\"rows\":[{\"name\":\"a\",\"at\":\"2001-02-03T04:05:06.000Z\"}]}", true),
              "NAME  STATE    AT\n"
              "a     running  2001-02-03\n");
    free(exact);
}

TEST(rows_may_be_members_and_hostile)
{
    CHECK_STR(
        shown("{\"rows\":{\"k\":{\"name\":\"\\u001b[2J\",\"state\":\"x\\u202ey\\n\"}}}", false),
        "\\x1b[2J  x\\u202ey\\n\n");
}

static const char *recorded(const struct column *columns, const char *json)
{
    struct arena arena = {0};
    struct json *v = NULL;
    CHECK_INT(json_parse(&v, &arena, str_of(json), NULL, NULL), 0);
    out_fini(&cli.out);
    out_init(&cli.out, OUT_NEVER, false);
    cli.out.terminal = false;
    show_answer(&cli, &(struct layout){.columns = columns}, v);
    arena_fini(&arena);
    return buf_z(&cli.out.data);
}

TEST(a_record_leaves_out_what_is_null_or_empty)
{
    CHECK_STR(recorded(NULL, "{\"id\":\"x\",\"title\":null,\"plugins\":[],\"n\":0,\"ok\":false}"),
              "id  x\nn   0\nok  false\n");
    const struct column columns[] = {COL("name", TEXT, NULL), COL("*", TEXT, "settings"),
                                     COL("error", TEXT, NULL), COL(NULL, TEXT, NULL)};
    CHECK_STR(recorded(columns, "{\"name\":\"b\",\"settings\":{\"name\":\"c\",\"model\":\"m\"}}"),
              "name   b\nmodel  m\n");
}

TEST(every_call_names_an_operation_and_its_words_are_parameters)
{
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *row = &commands[i];
        if (row->form == NULL) {
            continue;
        }
        CHECK(row->op >= 0);
        struct str rest = str_of(row->form->words);
        while (rest.n != 0) {
            struct str word = str_cut(&rest, ' '), params = str_of(ops[row->op].params);
            struct op_param p;
            bool found = false;
            while (op_next_param(&ops[row->op], &params, &p)) {
                found = found || str_eq(p.name, word);
            }
            CHECK(found);
        }
    }
}
