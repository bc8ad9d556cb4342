// Permission rules: list them, remove one.

#include <unistd.h>

#include "cli/ask.h"
#include "cli/out.h"

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

static void print_rules(struct cli *c, const struct json *rules)
{
    struct table t;
    table_init(&t, 5);
    json_foreach_item (r, rules) {
        struct str match = text_of(r, "match");
        bool denies = str_eqz(text_of(r, "decision"), "deny");
        table_add(&t, denies ? OUT_RED : OUT_GREEN, text_of(r, "decision"));
        table_add(&t, OUT_BOLD, text_of(r, "tool"));
        table_add(&t, OUT_PLAIN, match.n != 0 ? match : STR("every call"));
        table_add(&t, OUT_PLAIN, text_of(r, "scope"));
        table_add(&t, OUT_DIM, text_of(r, "id"));
    }
    table_print(&t, &c->out);
    if (t.cells.n == 0) {
        out_note(&c->out, "no permission rules for this project; answer a question of `afloat chat "
                          "--permission ask`, or add [[permission]] to config.toml");
    }
    table_fini(&t);
}

int cmd_permission_list(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    char *here = getcwd(NULL, 0);
    const struct ask_param params[] = {{"path", here}};
    arena_init(&arena);
    int code = ask_value(c, OP_PERMISSION_LIST, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL) {
        print_rules(c, json_get(v, "rules"));
    }
    arena_fini(&arena);
    free(here);
    return code;
}

int cmd_permission_remove(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    const struct ask_param params[] = {{"id", args_word(&c->args, 0)}};
    arena_init(&arena);
    int code = ask_value(c, OP_PERMISSION_REMOVE, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL) {
        out_note(&c->out, "removed rule '%s'", args_word(&c->args, 0));
    }
    arena_fini(&arena);
    return code;
}
