// Tools outside a session.

#include <unistd.h>

#include "cli/ask.h"

int cmd_tool_list(struct cli *c)
{
    struct arena arena;
    struct table t;
    const struct json *v;
    arena_init(&arena);
    table_init(&t, 4);
    int code = ask_value(c, OP_TOOL_LIST, NULL, 0, &arena, &v);
    json_foreach_item (tool, json_get(v, "tools")) {
        bool on = json_bool(json_get(tool, "enabled"), true);
        table_add(&t, OUT_BOLD, json_str(json_get(tool, "name"), ""));
        table_add(&t, on ? OUT_GREEN : OUT_DIM, on ? STR("on") : STR("off"));
        table_add(&t, OUT_DIM, json_str(json_get(tool, "plugin"), ""));
        table_add(&t, OUT_PLAIN, json_str(json_get(tool, "description"), ""));
    }
    table_print(&t, &c->out);
    table_fini(&t);
    arena_fini(&arena);
    return code;
}

static void print_output(struct cli *c, const struct json *output)
{
    if (output != NULL && output->type == JSON_STR) {
        out_body(&c->out, output->s);
        if (!str_ends(output->s, "\n")) {
            out_add(&c->out, STR("\n"));
        }
    } else if (output != NULL && output->type != JSON_NULL) {
        struct buf text;
        buf_init(&text, SIZE_MAX);
        json_write(&text, output, 2);
        out_add(&c->out, buf_str(&text));
        out_add(&c->out, STR("\n"));
        buf_fini(&text);
    }
}

/// The word, or all of stdin when it is "-".
static int read_json(struct cli *c, const char *word, struct buf *typed, const char **out)
{
    struct err e = {0};
    *out = word;
    if (word != NULL && strcmp(word, "-") == 0) {
        if (cli__read_all(STDIN_FILENO, typed, &e) < 0) {
            return cli__fail(c, &e);
        }
        *out = buf_z(typed);
    }
    return EXIT_OK;
}

int cmd_tool_run(struct cli *c)
{
    struct client_answer a;
    struct arena arena;
    struct buf typed;
    const char *input, *given = args_value(&c->args, FLAG_CWD);
    char *here = given != NULL ? realpath(given, NULL) : getcwd(NULL, 0);
    client_answer_init(&a);
    arena_init(&arena);
    buf_init(&typed, 16 << 20);
    int code = read_json(c, args_word(&c->args, 1), &typed, &input);
    if (code == EXIT_OK) {
        struct ask_param params[] = {
            {"name", args_word(&c->args, 0)}, {"input", input}, {"working_dir", here}};
        code = ask_op(c, OP_TOOL_RUN, params, ARRAY_LEN(params), &a);
    }
    if (code == EXIT_OK) {
        const struct json *v = ask_json(c, &arena, &a);
        struct str error = json_str(json_get(v, "error"), "");
        if (!c->json) {
            print_output(c, json_get(v, "output"));
        }
        if (!json_bool(json_get(v, "success"), false)) {
            out_error(&c->out, "the tool failed%s" STR_FMT, error.n != 0 ? ": " : "",
                      STR_ARG(error));
            code = EXIT_FAILED;
        }
    }
    buf_fini(&typed);
    arena_fini(&arena);
    client_answer_fini(&a);
    free(here);
    return code;
}

int cmd_tool_switch(struct cli *c)
{
    struct client_answer a;
    struct ask_param params[] = {{"name", args_word(&c->args, 0)}};
    client_answer_init(&a);
    int code = ask_op(c, (enum op_id)c->cmd->op, params, ARRAY_LEN(params), &a);
    if (code == EXIT_OK && !c->json) {
        out_note(&c->out, "tool '%s' is %s", args_word(&c->args, 0),
                 c->cmd->op == OP_TOOL_ENABLE ? "on" : "off");
    }
    client_answer_fini(&a);
    return code;
}

// ---- commands that plugins contribute --------------------------------------------------------

static int list_commands(struct cli *c)
{
    struct arena arena;
    struct table t;
    const struct json *v;
    arena_init(&arena);
    table_init(&t, 2);
    int code = ask_value(c, OP_COMMAND_LIST, NULL, 0, &arena, &v);
    json_foreach_item (command, json_get(v, "commands")) {
        table_add(&t, OUT_BOLD, json_str(json_get(command, "name"), ""));
        table_add(&t, OUT_PLAIN, json_str(json_get(command, "description"), ""));
    }
    table_print(&t, &c->out);
    table_fini(&t);
    arena_fini(&arena);
    return code;
}

int cmd_x(struct cli *c)
{
    struct arena arena;
    struct buf text;
    struct jw w;
    const struct json *v;
    if (c->args.words.n == 0) {
        return list_commands(c);
    }
    arena_init(&arena);
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_arr(&w);
    for (size_t i = 1; i < c->args.words.n; i++) {
        jw_strz(&w, c->args.words.p[i]);
    }
    jw_end_arr(&w);
    struct ask_param params[] = {{"name", args_word(&c->args, 0)}, {"args", buf_z(&text)}};
    int code = ask_value(c, OP_COMMAND_RUN, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL) {
        print_output(c, json_get(v, "output"));
    }
    buf_fini(&text);
    arena_fini(&arena);
    return code;
}
