// What the sessions of a bot left: a list, and one of them as text.

#include "cli/bots.h"
#include "cli/view.h"

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

static enum out_tint tint_of(struct str end)
{
    return str_eqz(end, "failed") || str_eqz(end, "crashed") ? OUT_RED
           : str_eqz(end, "interrupted")                     ? OUT_YELLOW
                                                             : OUT_GREEN;
}

static void add_session(const struct json *row, void *arg)
{
    struct table *t = arg;
    const struct json *tokens = json_get(row, "tokens");
    struct str end = text_of(row, "end_reason"), did = text_of(row, "response_summary");
    table_addf(t, "#%lld", (long long)json_int(json_get(row, "session_number"), 0));
    table_add(t, OUT_BOLD, text_of(row, "session_id"));
    table_add(t, OUT_DIM, text_of(row, "started_at"));
    table_addf(t, "%lld s", (long long)json_int(json_get(row, "duration_secs"), 0));
    table_addf(t, "%lld/%lld tokens", (long long)json_int(json_get(tokens, "input_tokens"), 0),
               (long long)json_int(json_get(tokens, "output_tokens"), 0));
    table_add(t, tint_of(end), end.n != 0 ? end : STR("running"));
    table_add(t, OUT_DIM, text_of(row, "action"));
    table_add(t, OUT_PLAIN, did.n != 0 ? did : text_of(row, "prompt_summary"));
}

int cmd_history_list(struct cli *c)
{
    struct table t;
    const struct ask_param params[] = {{"bot", args_word(&c->args, 0)}};
    table_init(&t, 8);
    int code = bots__each(c, params, ARRAY_LEN(params), "sessions", add_session, &t);
    table_print(&t, &c->out);
    if (code == EXIT_OK && !c->json && t.cells.n == 0) {
        out_note(&c->out, "'%s' has done nothing here yet: 'afloat run %s' runs it",
                 args_word(&c->args, 0), args_word(&c->args, 0));
    }
    table_fini(&t);
    return code;
}

int cmd_history_show(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    const struct ask_param params[] = {{"bot", args_word(&c->args, 0)},
                                       {"id", args_word(&c->args, 1)},
                                       {"section", args_value(&c->args, FLAG_SECTION)},
                                       {"limit", "0"}};
    arena_init(&arena);
    int code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL) {
        view_text(&c->out, text_of(v, "view"));
    }
    arena_fini(&arena);
    return code;
}
