// What a bot remembers of a project.

#include "cli/bots.h"
#include "cli/view.h"

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

static void print_entries(struct cli *c, const struct json *v)
{
    const struct json *entries = json_get(v, "entries");
    struct table t;
    table_init(&t, 2);
    json_foreach_member (m, entries) {
        table_add(&t, OUT_BOLD, m->key);
        table_add(&t, OUT_PLAIN, json_str(&m->value, ""));
    }
    table_print(&t, &c->out);
    if (t.cells.n == 0) {
        struct str project = text_of(v, "project");
        out_note(&c->out, "'%s' remembers nothing of '" STR_FMT "' yet", args_word(&c->args, 0),
                 STR_ARG(project));
    }
    table_fini(&t);
    bots__note_diagnostics(c, v);
}

int cmd_memory_show(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    const struct ask_param params[] = {{"bot", args_word(&c->args, 0)}};
    arena_init(&arena);
    int code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL) {
        print_entries(c, v);
    }
    arena_fini(&arena);
    return code;
}

int cmd_memory_get(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    const struct ask_param params[] = {{"bot", args_word(&c->args, 0)},
                                       {"key", args_word(&c->args, 1)}};
    arena_init(&arena);
    int code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL) {
        view_text(&c->out, text_of(v, "value"));
    }
    arena_fini(&arena);
    return code;
}

static void note_change(struct cli *c, const struct json *v)
{
    const char *bot = args_word(&c->args, 0), *key = args_word(&c->args, 1);
    struct str project = text_of(v, "project");
    if (c->cmd->op == OP_MEMORY_CLEAR) {
        int64_t n = json_int(json_get(v, "removed"), 0);
        out_note(&c->out, "'%s' has forgotten %lld entr%s of '" STR_FMT "'", bot, (long long)n,
                 n == 1 ? "y" : "ies", STR_ARG(project));
    } else {
        out_note(&c->out, "'%s' %s '%s' of '" STR_FMT "'", bot,
                 c->cmd->op == OP_MEMORY_SET ? "remembers" : "has forgotten", key,
                 STR_ARG(project));
    }
}

// `set`, `remove` and `clear`
int cmd_memory_change(struct cli *c)
{
    struct arena arena;
    struct buf typed;
    const struct json *v = NULL;
    const char *value = args_word(&c->args, 2);
    int code = EXIT_OK;
    arena_init(&arena);
    buf_init(&typed, BOTS_TEXT_MAX);
    if (value != NULL && strcmp(value, "-") == 0) {
        code = bots__read_text(c, value, &typed);
        value = buf_z(&typed);
    }
    if (code == EXIT_OK) {
        const struct ask_param params[] = {
            {"bot", args_word(&c->args, 0)}, {"key", args_word(&c->args, 1)}, {"value", value}};
        code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    }
    if (v != NULL) {
        note_change(c, v);
    }
    buf_fini(&typed);
    arena_fini(&arena);
    return code;
}
