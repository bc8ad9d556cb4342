// Bots: making, listing and showing them. What they did is in cmd_runs.c and cmd_history.c.

#include "cli/bots.h"
#include "cli/view.h"

static struct str text_of(const struct json *v, const char *key)
{
    return json_str(json_get(v, key), "");
}

// ---- list ----------------------------------------------------------------------------------

static void add_bot(const struct json *row, void *arg)
{
    struct table *t = arg;
    struct str error = text_of(row, "error");
    table_add(t, error.n != 0 ? OUT_RED : OUT_BOLD, text_of(row, "name"));
    table_add(t, OUT_DIM, text_of(row, "source"));
    table_add(t, error.n != 0 ? OUT_RED : OUT_PLAIN,
              error.n != 0 ? error : text_of(row, "description"));
}

int cmd_bot_list(struct cli *c)
{
    struct table t;
    table_init(&t, 3);
    int code = bots__each(c, NULL, 0, "bots", add_bot, &t);
    table_print(&t, &c->out);
    if (code == EXIT_OK && !c->json && t.cells.n == 0) {
        out_note(&c->out, "there are none yet: 'afloat bots create NAME' makes one");
    }
    table_fini(&t);
    return code;
}

// ---- create --------------------------------------------------------------------------------

int cmd_bot_create(struct cli *c)
{
    const struct args *a = &c->args;
    const char *name = args_word(a, 0);
    struct arena arena;
    const struct json *v;
    const struct ask_param params[] = {
        {"name", name},
        {"description", args_value(a, FLAG_DESCRIPTION)},
        {"instructions", args_value(a, FLAG_INSTRUCTIONS)},
        {"max_iterations", args_value(a, FLAG_ITERATIONS)},
        {"sleep_secs", args_value(a, FLAG_SLEEP)},
        {"model", args_value(a, FLAG_MODEL)},
        {"provider", args_value(a, FLAG_PROVIDER)},
        {"sandbox", args_value(a, FLAG_SANDBOX)},
        {"network", args_has(a, FLAG_NETWORK) ? "true" : NULL},
        {"worktree", args_has(a, FLAG_NO_WORKTREE) ? "false" : NULL},
        {"skip_git_check", args_has(a, FLAG_SKIP_GIT_CHECK) ? "true" : NULL},
    };
    arena_init(&arena);
    int code = ask_value(c, OP_BOT_CREATE, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL) {
        view_text(&c->out, text_of(v, "path"));
        out_note(&c->out, "bot '%s' is there; 'afloat run %s' runs it, its config.md says how",
                 name, name);
    }
    arena_fini(&arena);
    return code;
}

// ---- show ----------------------------------------------------------------------------------

static void add_names(struct table *t, const char *title, const struct json *rows)
{
    struct buf names;
    buf_init(&names, SIZE_MAX);
    json_foreach_item (row, rows) {
        buf_addz(&names, names.n != 0 ? ", " : "");
        buf_adds(&names, row->type == JSON_STR ? row->s : text_of(row, "name"));
    }
    if (names.n != 0) {
        table_add(t, OUT_BOLD, str_of(title));
        table_add(t, OUT_PLAIN, buf_str(&names));
    }
    buf_fini(&names);
}

// What config.md says or leaves at its default, but for what is shown by itself.
static void add_settings(struct table *t, const struct json *settings, struct arena *arena)
{
    json_foreach_member (m, settings) {
        if (!str_eqz(m->key, "description") && !str_eqz(m->key, "instructions")) {
            bots__add_row(t, arena_strdup(arena, m->key), &m->value);
        }
    }
}

static void print_bot(struct cli *c, const struct json *v, struct arena *arena)
{
    static const struct {
        const char *key, *title;
    } rows[] = {{"name", "name"},
                {"description", "description"},
                {"path", "path"},
                {"project", "project"},
                {"error", "error"}};
    struct table t;
    table_init(&t, 2);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bots__add_row(&t, rows[i].title, json_get(v, rows[i].key));
    }
    add_settings(&t, json_get(v, "settings"), arena);
    add_names(&t, "skills", json_get(v, "skills"));
    bots__add_row(&t, "memory", json_get(v, "memory_count"));
    bots__add_row(&t, "sessions", json_get(v, "session_count"));
    table_print(&t, &c->out);
    table_fini(&t);
    if (text_of(v, "instructions").n != 0) {
        out_add(&c->out, STR("\n"));
        view_text(&c->out, text_of(v, "instructions"));
    }
    bots__note_diagnostics(c, v);
}

int cmd_bot_show(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    const struct ask_param params[] = {{"bot", args_word(&c->args, 0)}};
    arena_init(&arena);
    int code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL) {
        print_bot(c, v, &arena);
    }
    arena_fini(&arena);
    return code;
}

// ---- delete and import ---------------------------------------------------------------------

int cmd_bot_delete(struct cli *c)
{
    const char *name = args_word(&c->args, 0);
    bool all = args_has(&c->args, FLAG_HISTORY);
    struct arena arena;
    const struct json *v;
    const struct ask_param params[] = {{"bot", name}, {"history", all ? "true" : NULL}};
    arena_init(&arena);
    int code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    if (code == EXIT_OK) {
        out_note(&c->out, "bot '%s' is in the trash; its memory and history %s", name,
                 all ? "are too" : "stay, '--history' moves them too");
    }
    arena_fini(&arena);
    return code;
}

// One row for each thing, then how many of each outcome; returns how many failed.
static int64_t print_report(struct cli *c, const struct json *v)
{
    struct table t;
    table_init(&t, 4);
    json_foreach_item (it, json_get(v, "items")) {
        struct str outcome = json_str(json_get(it, "outcome"), "");
        bool failed = str_eqz(outcome, "failed");
        table_add(&t, failed ? OUT_RED : OUT_PLAIN, outcome);
        table_add(&t, OUT_DIM, json_str(json_get(it, "kind"), ""));
        table_add(&t, OUT_BOLD, json_str(json_get(it, "name"), ""));
        table_add(&t, OUT_PLAIN, json_str(json_get(it, "message"), ""));
    }
    table_print(&t, &c->out);
    table_fini(&t);
    int64_t failed = json_int(json_get(v, "failed"), 0);
    out_note(&c->out, "%lld taken, %lld kept, %lld warned, %lld failed",
             (long long)json_int(json_get(v, "taken"), 0),
             (long long)json_int(json_get(v, "kept"), 0),
             (long long)json_int(json_get(v, "warned"), 0), (long long)failed);
    return failed;
}

int cmd_bot_import(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    const char *given = args_word(&c->args, 0);
    char *path = realpath(given, NULL);
    const struct ask_param params[] = {{"path", path != NULL ? path : given},
                                       {"as", args_value(&c->args, FLAG_AS)}};
    arena_init(&arena);
    int code = bots__ask(c, params, ARRAY_LEN(params), &arena, &v);
    if (v != NULL && print_report(c, v) != 0) {
        code = EXIT_FAILED;
    }
    arena_fini(&arena);
    free(path);
    return code;
}
