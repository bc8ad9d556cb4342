// Generations: list, show, compare, go back.

#include "cli/report.h"

static struct str text_of(const struct json *obj, const char *key)
{
    return json_str(json_get(obj, key), "");
}

/// "+a ~b -c": what a generation changed.
static void add_changes(struct table *t, const struct json *g)
{
    static const struct {
        const char *key, *sign;
    } kinds[] = {{"added", "+"}, {"changed", "~"}, {"removed", "-"}};
    struct buf text;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        json_foreach_item (name, json_get(g, kinds[i].key)) {
            buf_addz(&text, text.n != 0 ? " " : "");
            buf_addz(&text, kinds[i].sign);
            buf_adds(&text, json_str(name, ""));
        }
    }
    table_add(t, OUT_PLAIN, buf_str(&text));
    buf_fini(&text);
}

int cmd_generation_list(struct cli *c)
{
    struct arena arena;
    struct table t;
    const struct json *v;
    arena_init(&arena);
    table_init(&t, 4);
    int code = ask_value(c, OP_GENERATIONS, NULL, 0, &arena, &v);
    json_foreach_item (g, json_get(v, "generations")) {
        table_addf(&t, "%lld", (long long)json_int(json_get(g, "generation"), 0));
        table_add(&t, OUT_DIM, text_of(g, "at"));
        table_add(&t, OUT_PLAIN, text_of(g, "trigger"));
        add_changes(&t, g);
    }
    table_print(&t, &c->out);
    table_fini(&t);
    arena_fini(&arena);
    return code;
}

static int show(struct cli *c, const char *number, struct arena *arena, const struct json **out)
{
    int64_t n;
    *out = NULL;
    if (!str_to_i64(str_of(number), &n)) {
        out_error(&c->out, "'%s' is not the number of a generation", number);
        return EXIT_USAGE;
    }
    struct ask_param params[] = {{"generation", number}};
    return ask_value(c, OP_GENERATION_SHOW, params, ARRAY_LEN(params), arena, out);
}

int cmd_generation_show(struct cli *c)
{
    struct arena arena;
    struct table t;
    const struct json *g;
    arena_init(&arena);
    table_init(&t, 3);
    int code = show(c, args_word(&c->args, 0), &arena, &g);
    json_foreach_member (unit, json_get(g, "set")) {
        struct str hash = text_of(&unit->value, "hash");
        table_add(&t, OUT_BOLD, unit->key);
        table_add(&t, OUT_DIM, (struct str){hash.p, MIN(hash.n, 12)});
        table_add(&t, OUT_PLAIN, text_of(&unit->value, "path"));
    }
    table_print(&t, &c->out);
    table_fini(&t);
    arena_fini(&arena);
    return code;
}

static void print_line(struct cli *c, enum out_tint tint, const char *sign, struct str name)
{
    out_tinted(&c->out, tint, str_of(sign));
    out_addf(&c->out, " ");
    out_text(&c->out, name);
    out_addf(&c->out, "\n");
}

static void print_difference(struct cli *c, const struct json *a, const struct json *b)
{
    json_foreach_member (old, a) {
        const struct json *new = json_get_str(b, old->key);
        if (new == NULL) {
            print_line(c, OUT_RED, "-", old->key);
        } else if (!str_eq(text_of(&old->value, "hash"), text_of(new, "hash"))) {
            print_line(c, OUT_YELLOW, "~", old->key);
        }
    }
    json_foreach_member (new, b) {
        if (json_get_str(a, new->key) == NULL) {
            print_line(c, OUT_GREEN, "+", new->key);
        }
    }
}

int cmd_generation_diff(struct cli *c)
{
    struct arena arena;
    const struct json *a, *b = NULL;
    arena_init(&arena);
    int code = show(c, args_word(&c->args, 0), &arena, &a);
    if (code == EXIT_OK) {
        code = show(c, args_word(&c->args, 1), &arena, &b);
    }
    if (a != NULL && b != NULL) {
        print_difference(c, json_get(a, "set"), json_get(b, "set"));
    }
    arena_fini(&arena);
    return code;
}

int cmd_undo(struct cli *c)
{
    struct client_answer a;
    struct arena arena;
    struct ask_param params[] = {{"to", args_value(&c->args, FLAG_TO)}};
    client_answer_init(&a);
    arena_init(&arena);
    int code = ask_op(c, OP_GENERATION_UNDO, params, ARRAY_LEN(params), &a);
    if (code == EXIT_OK) {
        const struct json *r = ask_json(c, &arena, &a);
        if (r != NULL && !c->json) {
            report_print(&c->out, r);
        }
        code = json_bool(json_get(r, "ok"), false) ? EXIT_OK : EXIT_RELOAD;
    }
    arena_fini(&arena);
    client_answer_fini(&a);
    return code;
}
