// Features: what can be switched on and off.

#include "cli/ask.h"

static void print_features(struct cli *c, const struct json *features)
{
    struct table t;
    table_init(&t, 4);
    for (size_t i = 0; json_at(features, i) != NULL; i++) {
        const struct json *f = json_at(features, i);
        bool on = json_bool(json_get(f, "enabled"), false);
        bool chosen = json_bool(json_get(f, "overridden"), false);
        table_add(&t, OUT_BOLD, json_str(json_get(f, "name"), ""));
        table_add(&t, on ? OUT_GREEN : OUT_DIM,
                  on ? (chosen ? STR("on (chosen)") : STR("on"))
                     : (chosen ? STR("off (chosen)") : STR("off")));
        table_add(&t, OUT_PLAIN, json_str(json_get(f, "stage"), ""));
        table_add(&t, OUT_PLAIN, json_str(json_get(f, "description"), ""));
    }
    table_print(&t, &c->out);
    table_fini(&t);
}

int cmd_feature_list(struct cli *c)
{
    struct client_answer a;
    struct arena arena;
    client_answer_init(&a);
    arena_init(&arena);
    int code = ask_op(c, OP_FEATURE_LIST, NULL, 0, &a);
    if (code == EXIT_OK && !c->json) {
        const struct json *v = ask_json(c, &arena, &a);
        print_features(c, json_get(v, "features"));
        code = v != NULL ? EXIT_OK : EXIT_FAILED;
    }
    arena_fini(&arena);
    client_answer_fini(&a);
    return code;
}

int cmd_feature_switch(struct cli *c)
{
    struct client_answer a;
    struct ask_param params[] = {{"name", args_word(&c->args, 0)}};
    client_answer_init(&a);
    int code = ask_op(c, (enum op_id)c->cmd->op, params, ARRAY_LEN(params), &a);
    if (code == EXIT_OK && !c->json) {
        out_note(&c->out, "feature '%s' is %s", args_word(&c->args, 0),
                 c->cmd->op == OP_FEATURE_ENABLE ? "on" : "off");
    }
    client_answer_fini(&a);
    return code;
}
