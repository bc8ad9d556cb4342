// Settings in front of Markdown.

#include "base/front.h"
#include "unit/test.h"

TEST(a_front_is_split_from_its_body)
{
    static const struct {
        const char *text;
        enum front_kind kind;
        const char *head, *body;
    } cases[] = {
        {"+++\na = 1\n+++\nbody\n", FRONT_TOML, "a = 1\n", "body\n"},
        {"+++\r\na = 1\r\n+++\r\nbody", FRONT_TOML, "a = 1\r\n", "body"},
        {"\xEF\xBB\xBF+++ \na = 1\n+++\t\nbody", FRONT_TOML, "a = 1\n", "body"},
        {"+++\n+++", FRONT_TOML, "", ""},
        {"---\na: 1\n---\nbody", FRONT_LINES, "a: 1\n", "body"},
        {"---\na: 1\n+++\nbody", FRONT_UNCLOSED, "", "---\na: 1\n+++\nbody"},
        {"\xEF\xBB\xBF+++", FRONT_UNCLOSED, "", "+++"},
        {"+++\na = 1\n ++ +\n", FRONT_UNCLOSED, "", "+++\na = 1\n ++ +\n"},
        {"\n+++\n+++\n", FRONT_NONE, "", "\n+++\n+++\n"},
        {"++++\nbody", FRONT_NONE, "", "++++\nbody"},
        {"\xEF\xBB\xBF"
         "body",
         FRONT_NONE, "", "body"},
        {"", FRONT_NONE, "", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct front f = front_split(str_of(cases[i].text));
        CHECK_INT(f.kind, cases[i].kind);
        CHECK_SPAN(f.head, cases[i].head);
        CHECK_SPAN(f.body, cases[i].body);
    }
}

TEST(pairs_are_trimmed_and_unquoted)
{
    struct str head = STR("name: a b \r\nno colon\n url : \"x: y\"\nempty:\nq: '\n"), key, value;
    static const char *const want[][2] = {
        {"name", "a b"}, {"url", "x: y"}, {"empty", ""}, {"q", "'"}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        CHECK(front_pair(&head, &key, &value));
        CHECK_SPAN(key, want[i][0]);
        CHECK_SPAN(value, want[i][1]);
    }
    CHECK(!front_pair(&head, &key, &value));
}
