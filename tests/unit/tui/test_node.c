#include "rig.h"
#include "unit/test.h"

static int parse(struct node **out, struct arena *a, const char *text, struct err *e)
{
    struct json *v;
    *a = (struct arena){0};
    CHECK_INT(json_parse(&v, a, str_of(text), NULL, e), 0);
    return node__parse(out, a, v, e);
}

TEST(a_tree_that_cannot_be_drawn_says_where_and_why)
{
    static const struct {
        const char *tree, *expected;
    } rows[] = {
        {"3", "the layout: a node is a table with a field 'type', not integer"},
        {"{}", "the layout: unknown node type ''"},
        {"{\"type\":\"rwo\"}", "the layout: unknown node type 'rwo'; did you mean 'row'?"},
        {"{\"type\":\"text\",\"txt\":\"x\"}", "the layout: 'text' has no field 'txt'"},
        {"{\"type\":\"text\",\"text\":3}",
         "the layout: field 'text' of 'text' cannot be of type integer"},
        {"{\"type\":\"pane\",\"child\":{\"type\":\"x\"}}",
         "the layout: child: unknown node type 'x'"},
        {"{\"type\":\"row\",\"children\":[{\"type\":\"text\"},{\"type\":\"text\",\"size\":\"big\"}]"
         "}",
         "the layout: children[2]: size is a number of cells, \"N%\" or \"fit\""},
        {"{\"type\":\"text\",\"style\":\"bold pink\"}", "the layout: unknown style 'pink'"},
        {"{\"type\":\"text\",\"style\":{\"fg\":\"#12345\"}}", "the layout: unknown colour of 'fg'"},
        {"{\"type\":\"text\",\"style\":{\"bright\":true}}", "the layout: unknown style 'bright'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena a;
        struct node *n;
        struct err e = {0};
        CHECK(parse(&n, &a, rows[i].tree, &e) < 0);
        CHECK_STR(e.msg, rows[i].expected);
        arena_fini(&a);
    }
}

TEST(nodes_inside_each_other_have_an_end)
{
    struct buf text;
    struct arena a;
    struct node *n;
    struct err e = {0};
    buf_init(&text, SIZE_MAX);
    for (int i = 0; i < 60; i++) {
        buf_addz(&text, "{\"type\":\"pane\",\"child\":");
    }
    buf_addz(&text, "{\"type\":\"text\"}");
    for (int i = 0; i < 60; i++) {
        buf_addz(&text, "}");
    }
    CHECK(parse(&n, &a, buf_z(&text), &e) < 0);
    CHECK(strncmp(e.msg, "the layout: child: child: ", 26) == 0);
    arena_fini(&a);
    buf_fini(&text);
}

static void check_at(const struct node *n, int row, int col, int rows, int cols)
{
    CHECK_INT(n->at.row, row);
    CHECK_INT(n->at.col, col);
    CHECK_INT(n->at.rows, rows);
    CHECK_INT(n->at.cols, cols);
}

TEST(room_goes_to_fixed_sizes_first_and_the_rest_is_shared)
{
    struct tui t = {0};
    struct arena a;
    struct err e;
    cells_init(&t.screen.next);
    cells_resize(&t.screen.next, 20, 100);
    CHECK_INT(parse(&t.tree, &a,
                    "{\"type\":\"column\",\"children\":[{\"type\":\"row\",\"children\":["
                    "{\"type\":\"text\",\"size\":10},{\"type\":\"text\"},"
                    "{\"type\":\"text\",\"size\":\"30%\"},{\"type\":\"text\"}]},"
                    "{\"type\":\"popup\",\"width\":40,\"height\":\"50%\"},"
                    "{\"type\":\"pane\",\"size\":\"fit\",\"child\":{\"type\":\"text\","
                    "\"text\":\"two\\nrows\"}},{\"type\":\"status\"}]}",
                    &e),
              0);
    node__arrange(&t, 20, 100);
    struct node *row = t.tree->first, *popup = row->next, *pane = popup->next, *n = row->first;
    check_at(row, 0, 0, 15, 100);
    check_at(n, 0, 0, 15, 10);
    check_at(n->next, 0, 10, 15, 30);
    check_at(n->next->next, 0, 40, 15, 30);
    check_at(n->next->next->next, 0, 70, 15, 30);
    check_at(popup, 5, 30, 10, 40);
    check_at(pane, 15, 0, 4, 100);
    check_at(pane->next, 19, 0, 1, 100);
    CHECK(*vec_last(&t.nodes) == popup); // above the rest
    node__arrange(&t, 3, 5);             // too little for all
    CHECK(n->at.cols == 5 && n->next->at.cols == 0 && pane->next->at.rows == 0);
    vec_fini(&t.nodes);
    arena_fini(&a);
    cells_fini(&t.screen.next);
}

TEST(keys_have_one_name)
{
    static const struct {
        const char *bytes, *name;
    } rows[] = {{"p", "p"},
                {"?", "?"},
                {"\x10", "ctrl+p"},
                {" ", "space"},
                {"\033x", "alt+x"},
                {"\033[Z", "shift+tab"},
                {"\033OP", "f1"},
                {"\r", "enter"},
                {"\033[1;5A", "ctrl+up"},
                {"\033[5~", "pageup"},
                {"A", "A"},
                {"\xc3\xa9", "\xc3\xa9"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct keys keys = {0};
        struct str rest = str_of(rows[i].bytes);
        struct key k;
        struct buf name;
        buf_init(&name, 64);
        CHECK(keys_next(&keys, &rest, &k));
        input__name(&name, &k);
        CHECK_STR(buf_z(&name), rows[i].name);
        buf_fini(&name);
    }
}
