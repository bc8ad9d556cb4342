// Plugins, looked at and switched: list, show, logs, remove, reload, enable, disable.

#include <errno.h>

#include "cli/ask.h"
#include "cli/report.h"
#include "client/interrupt.h"

static struct str text_of(const struct json *obj, const char *key)
{
    return json_str(json_get(obj, key), "");
}

// ---- list ------------------------------------------------------------------------------------

static enum out_tint tint_of(struct str state)
{
    return str_eqz(state, "loaded") ? OUT_GREEN : str_eqz(state, "failed") ? OUT_RED : OUT_YELLOW;
}

/// "2 hooks, 1 tool": what a row contributes.
static void add_contributions(struct table *t, const struct json *row)
{
    static const char *const kinds[] = {"hooks", "tools", "routes", "commands", "prompts"};
    struct buf text;
    buf_init(&text, 256);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct json *list = json_get(row, kinds[i]);
        unsigned n = list != NULL ? list->n : 0;
        if (n != 0) {
            buf_addf(&text, "%s%u %.*s", text.n != 0 ? ", " : "", n,
                     (int)(strlen(kinds[i]) - (n == 1)), kinds[i]);
        }
    }
    table_add(t, OUT_PLAIN, buf_str(&text));
    buf_fini(&text);
}

static bool is_shown(const struct cli *c, const struct json *row)
{
    struct str state = text_of(row, "state");
    bool quiet = str_eqz(state, "disabled") || str_eqz(state, "untrusted");
    return !quiet || json_bool(json_get(row, "serving"), false) || args_has(&c->args, FLAG_ALL);
}

static void print_errors(struct cli *c, const struct json *plugins)
{
    json_foreach_item (row, plugins) {
        struct str error = text_of(row, "error");
        if (error.n != 0 && is_shown(c, row)) {
            out_tinted(&c->out, OUT_RED, text_of(row, "name"));
            out_addf(&c->out, ": ");
            out_text(&c->out, error);
            out_addf(&c->out, "\n");
        }
    }
}

static void print_plugins(struct cli *c, const struct json *plugins)
{
    struct table t;
    size_t hidden = 0;
    table_init(&t, 5);
    json_foreach_item (row, plugins) {
        if (!is_shown(c, row)) {
            hidden++;
            continue;
        }
        struct str state = text_of(row, "state");
        table_add(&t, OUT_BOLD, text_of(row, "name"));
        table_add(&t, tint_of(state), state);
        table_addf(&t, "revision %lld", (long long)json_int(json_get(row, "revision"), 0));
        table_add(&t, OUT_DIM, text_of(row, "layer"));
        add_contributions(&t, row);
    }
    table_print(&t, &c->out);
    table_fini(&t);
    print_errors(c, plugins);
    if (hidden != 0) {
        out_note(&c->out, "%zu more with --all", hidden);
    }
}

int cmd_plugin_list(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    arena_init(&arena);
    int code = ask_value(c, OP_PLUGIN_LIST, NULL, 0, &arena, &v);
    if (v != NULL) {
        print_plugins(c, json_get(v, "plugins"));
        if (!json_bool(json_get(v, "feature_enabled"), true)) {
            out_note(&c->out, "plugins are switched off: 'afloat feature enable plugins'");
        } else if (json_at(json_get(v, "plugins"), 0) == NULL) {
            out_note(&c->out, "there are none yet: 'afloat plugin new NAME' writes one");
        }
    }
    arena_fini(&arena);
    return code;
}

// ---- show ------------------------------------------------------------------------------------

static void add_field(struct table *t, const char *name, struct str value)
{
    if (value.n != 0) {
        table_add(t, OUT_BOLD, str_of(name));
        table_add(t, OUT_PLAIN, value);
    }
}

static void add_list(struct table *t, const char *key, const struct json *row)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    json_foreach_item (v, json_get(row, key)) {
        buf_addz(&text, text.n != 0 ? ", " : "");
        buf_adds(&text, json_str(v, ""));
    }
    add_field(t, key, buf_str(&text));
    buf_fini(&text);
}

static void print_row(struct cli *c, const struct json *row)
{
    static const char *const texts[] = {"name", "path",  "source", "layer", "project",
                                        "host", "scope", "state",  "error"};
    static const char *const lists[] = {"hooks",    "tools",   "routes",
                                        "commands", "prompts", "shadows"};
    struct table t;
    table_init(&t, 2);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        add_field(&t, texts[i], text_of(row, texts[i]));
    }
    table_add(&t, OUT_BOLD, STR("revision"));
    table_addf(&t, "%lld, since generation %lld", (long long)json_int(json_get(row, "revision"), 0),
               (long long)json_int(json_get(row, "generation"), 0));
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        add_list(&t, lists[i], row);
    }
    table_add(&t, OUT_BOLD, STR("memory"));
    table_addf(&t, "%lld KiB", (long long)json_int(json_ptr(row, "/stats/memory_bytes"), 0) / 1024);
    table_print(&t, &c->out);
    table_fini(&t);
}

static void add_costs(struct table *t, const struct json *costs)
{
    json_foreach_member (m, costs) {
        table_add(t, OUT_BOLD, m->key);
        table_addf(t, "%lld calls", (long long)json_int(json_get(&m->value, "count"), 0));
        table_addf(t, "%lld errors", (long long)json_int(json_get(&m->value, "errors"), 0));
        table_addf(t, "p50 %.1f us", json_double(json_get(&m->value, "p50_us"), 0));
        table_addf(t, "p99 %.1f us", json_double(json_get(&m->value, "p99_us"), 0));
    }
}

static void print_costs(struct cli *c, const struct json *stats)
{
    static const char *const kinds[] = {"hooks", "routes", "tools", "commands"};
    struct table t;
    table_init(&t, 5);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        add_costs(&t, json_get(stats, kinds[i]));
    }
    table_print(&t, &c->out);
    table_fini(&t);
}

int cmd_plugin_show(struct cli *c)
{
    struct arena arena;
    const struct json *row;
    struct ask_param params[] = {{"name", args_word(&c->args, 0)}};
    arena_init(&arena);
    int code = ask_value(c, OP_PLUGIN_SHOW, params, ARRAY_LEN(params), &arena, &row);
    if (row != NULL) {
        print_row(c, row);
        print_costs(c, json_get(row, "stats"));
        report_print_problems(&c->out, row); // it has the same member
    }
    arena_fini(&arena);
    return code;
}

// ---- logs ------------------------------------------------------------------------------------

static void print_line(struct cli *c, struct str ts, struct str level, struct str text)
{
    out_tinted(&c->out, OUT_DIM, ts);
    out_addf(&c->out, " ");
    out_tinted(&c->out,
               str_eqz(level, "error")  ? OUT_RED
               : str_eqz(level, "warn") ? OUT_YELLOW
                                        : OUT_PLAIN,
               level);
    out_addf(&c->out, " ");
    out_text(&c->out, text);
    out_addf(&c->out, "\n");
}

/// One event of the hub's log: ours when its line begins with the unit's name.
static int on_log(const struct client_event *ev, void *arg)
{
    struct cli *c = arg;
    struct arena a;
    struct json *v;
    char *mark = xasprintf("unit=%s text=", args_word(&c->args, 0));
    arena_init(&a);
    if (json_parse(&v, &a, ev->data, NULL, NULL) == 0 && str_starts(text_of(v, "text"), mark)) {
        if (c->json) {
            out_add(&c->out, ev->data);
            out_add(&c->out, STR("\n"));
        } else {
            print_line(c, text_of(v, "ts"), text_of(v, "level"),
                       str_from(text_of(v, "text"), strlen(mark)));
        }
    }
    arena_fini(&a);
    free(mark);
    return out_flush(&c->out) ? 0 : -EPIPE;
}

static int follow_log(struct cli *c)
{
    struct client_peer to = {.socket = c->home.socket};
    struct client_request r = {
        .method = "GET", .path = "/events?types=log", .accept = "text/event-stream"};
    struct client_answer a;
    struct err e = {0};
    out_flush(&c->out);
    interrupt_catch();
    client_answer_init(&a);
    int rc = client_stream(&to, &r, &a, on_log, c, &e);
    client_answer_fini(&a);
    return rc == -EINTR                  ? EXIT_INTERRUPTED
           : rc < 0 && c->out.fault == 0 ? cli__fail(c, &e)
                                         : EXIT_OK;
}

int cmd_plugin_logs(struct cli *c)
{
    struct arena arena;
    const struct json *v;
    struct ask_param params[] = {{"name", args_word(&c->args, 0)}};
    arena_init(&arena);
    int code = ask_value(c, OP_PLUGIN_LOGS, params, ARRAY_LEN(params), &arena, &v);
    json_foreach_item (line, json_get(v, "lines")) {
        print_line(c, text_of(line, "ts"), text_of(line, "level"), text_of(line, "text"));
    }
    arena_fini(&arena);
    return code == EXIT_OK && args_has(&c->args, FLAG_FOLLOW) ? follow_log(c) : code;
}

// ---- remove, reload, enable, disable ---------------------------------------------------------

int cmd_plugin_change(struct cli *c)
{
    struct client_answer a;
    struct arena arena;
    const char *name = args_word(&c->args, 0);
    struct ask_param params[] = {{"name", name}};
    client_answer_init(&a);
    arena_init(&arena);
    int code = ask_op(c, (enum op_id)c->cmd->op, params, ARRAY_LEN(params), &a);
    const struct json *v = code == EXIT_OK ? ask_json(c, &arena, &a) : NULL;
    const struct json *report = json_get(v, "report");
    if (v != NULL && !c->json && report != NULL && c->cmd->op == OP_PLUGIN_RELOAD) {
        report_print(&c->out, report);
    } else if (v != NULL && !c->json) {
        struct str state = text_of(v, "state");
        out_note(&c->out, "plugin '%s' is " STR_FMT, name,
                 STR_ARG(state.n != 0 ? state : STR("in the trash")));
    }
    if (c->cmd->op == OP_PLUGIN_RELOAD && code == EXIT_OK) {
        code = json_bool(json_get(report, "ok"), false) ? EXIT_OK : EXIT_RELOAD;
    }
    arena_fini(&arena);
    client_answer_fini(&a);
    return code;
}
