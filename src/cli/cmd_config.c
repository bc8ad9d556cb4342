// Settings and places. Both work without a hub: settings then come from the same code that the hub
// runs, read afresh.

#include <unistd.h>

#include "cli/ask.h"
#include "config/config.h"

enum { TEXT_MAX = 16 << 20 };

// ---- settings ------------------------------------------------------------------------------

static int load_here(struct cli *c, struct client_answer *a)
{
    struct config_sources src = {
        .home = &c->home, .env = (const char *const *)environ, .hub = true};
    struct config *config = NULL;
    struct config_diags diags;
    struct jw w;
    struct err e = {0};
    config_diags_init(&diags);
    int rc = config_load(&config, &src, &diags, &e);
    if (rc == 0) {
        jw_init(&w, &a->body);
        config_write_json(config, &diags, &w);
    }
    config_free(config);
    config_diags_fini(&diags);
    return rc < 0 ? cli__fail(c, &e) : EXIT_OK;
}

static int ask_hub(struct cli *c, struct client_answer *a)
{
    struct client_peer to = {.socket = c->home.socket};
    struct client_request r = {.method = "GET", .path = ops[OP_CONFIG_SHOW].path};
    struct err e = {0};
    int rc = client_call(&to, &r, a, &e);
    if (rc == ERR_UNREACHABLE) {
        return load_here(c, a);
    }
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    ask_note_build(c, a);
    return a->status == 200 ? EXIT_OK : ask_problem(c, a);
}

static void add_origin(struct table *t, const struct json *v)
{
    struct str path = json_str(json_get(v, "path"), "");
    int64_t line = json_int(json_get(v, "line"), 0);
    struct str origin = json_str(json_get(v, "origin"), "");
    if (line != 0) {
        table_addf(t, STR_FMT " " STR_FMT ":%lld", STR_ARG(origin), STR_ARG(path), (long long)line);
    } else {
        table_addf(t, STR_FMT "%s" STR_FMT, STR_ARG(origin), path.n != 0 ? " " : "", STR_ARG(path));
    }
}

static void print_values(struct cli *c, const struct json *values)
{
    struct table t;
    struct buf text;
    bool origin = args_has(&c->args, FLAG_ORIGIN);
    buf_init(&text, TEXT_MAX);
    table_init(&t, origin ? 3 : 2);
    for (size_t i = 0; json_at(values, i) != NULL; i++) {
        const struct json *v = json_at(values, i);
        buf_clear(&text);
        json_write(&text, json_get(v, "value"), 0);
        table_add(&t, OUT_BOLD, json_str(json_get(v, "key"), ""));
        if (origin) {
            add_origin(&t, v);
        }
        table_add(&t, OUT_PLAIN, buf_str(&text));
    }
    table_print(&t, &c->out);
    table_fini(&t);
    buf_fini(&text);
}

static void tell_diagnostics(struct cli *c, const struct json *diags)
{
    for (size_t i = 0; json_at(diags, i) != NULL; i++) {
        const struct json *d = json_at(diags, i);
        struct str hint = json_str(json_get(d, "hint"), "");
        out_error(
            &c->out, STR_FMT ":%lld: " STR_FMT ": " STR_FMT "%s" STR_FMT,
            STR_ARG(json_str(json_get(d, "path"), "")), (long long)json_int(json_get(d, "line"), 0),
            STR_ARG(json_str(json_get(d, "severity"), "")),
            STR_ARG(json_str(json_get(d, "message"), "")), hint.n != 0 ? "; " : "", STR_ARG(hint));
    }
}

static int print_config(struct cli *c, const struct client_answer *a)
{
    if (c->json) {
        out_body(&c->out, buf_str(&a->body));
        return EXIT_OK;
    }
    struct arena arena;
    arena_init(&arena);
    const struct json *v = ask_json(c, &arena, a);
    if (v != NULL) {
        print_values(c, json_get(v, "values"));
        tell_diagnostics(c, json_get(v, "diagnostics"));
    }
    arena_fini(&arena);
    return v != NULL ? EXIT_OK : EXIT_FAILED;
}

int cmd_config_show(struct cli *c)
{
    struct client_answer a;
    client_answer_init(&a);
    int code = ask_hub(c, &a);
    if (code == EXIT_OK) {
        code = print_config(c, &a);
    }
    client_answer_fini(&a);
    return code;
}

// ---- places --------------------------------------------------------------------------------

int cmd_paths(struct cli *c)
{
    const struct home *h = &c->home;
    const struct {
        const char *name, *path;
    } rows[] = {
        {"home", h->dir},        {"runtime", h->runtime}, {"socket", h->socket},
        {"pid", h->pid},         {"lock", h->lock},       {"config", h->config},
        {"choices", h->choices}, {"token", h->token},     {"secrets", h->secrets},
        {"log", h->log},         {"state", h->state},     {"sessions", h->sessions},
    };
    struct table t;
    struct jw w;
    table_init(&t, 2);
    jw_init(&w, &c->out.data);
    if (c->json) {
        jw_obj(&w);
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (c->json) {
            jw_kstrz(&w, rows[i].name, rows[i].path);
        } else {
            table_add(&t, OUT_DIM, str_of(rows[i].name));
            table_add(&t, OUT_PLAIN, str_of(rows[i].path));
        }
    }
    if (c->json) {
        jw_end_obj(&w);
        out_add(&c->out, STR("\n"));
    }
    table_print(&t, &c->out);
    table_fini(&t);
    return EXIT_OK;
}
