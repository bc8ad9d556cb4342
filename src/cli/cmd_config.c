// Settings and paths. Both work without a hub: then the settings are read here, by the code that the hub uses.
//
// The hub answers with its own settings. In a project that has settings, its layer is read here and replaces
// what the hub said, except for values from a flag or a policy.

#include <assert.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/call.h"
#include "config/config.h"
#include "trust/settings.h"

enum { TEXT_MAX = 16 << 20 };

// ---- settings ------------------------------------------------------------------------------

/// As JSON into `out`; `p` may bring a layer.
static int load_here(struct cli *c, const struct trust_settings *p, struct buf *out)
{
    bool counts = p->text != NULL && p->trusted;
    struct config_sources src = {.home = &c->home,
                                 .project_dir = counts ? p->root : NULL,
                                 .project_text = p->text,
                                 .env = (const char *const *)environ,
                                 .hub = true};
    struct config *config = NULL;
    struct config_diags diags;
    struct jw w;
    struct err e = {0};
    config_diags_init(&diags);
    int rc = config_load(&config, &src, &diags, &e);
    if (rc == 0) {
        jw_init(&w, out);
        config_write_json(config, &diags, &w);
    }
    config_free(config);
    config_diags_fini(&diags);
    return rc < 0 ? cli__fail(c, &e) : EXIT_OK;
}

static int ask_hub(struct cli *c, struct client_answer *a)
{
    static const struct trust_settings none = {0};
    struct err e = {0};
    int rc = ask_send(c, OP_CONFIG_SHOW, NULL, 0, 0, a, &e);
    if (rc == ERR_UNREACHABLE) {
        return load_here(c, &none, &a->body);
    }
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    ask_note_build(c, a);
    return a->status / 100 == 2 ? EXIT_OK : ask_problem(c, a);
}

// ---- the project's layer -------------------------------------------------------------------

static bool is_from(const struct json *v, const char *origin)
{
    return str_eqz(json_get_text(v, "origin"), origin);
}

static const struct json *find_value(const struct json *values, struct str key)
{
    json_foreach_item (v, values) {
        if (str_eq(json_get_text(v, "key"), key)) {
            return v;
        }
    }
    return NULL;
}

/// The answer of the hub with the project's layer: each value replaced by what the project says, values that
/// only the project has, and what is wrong with its file `path`.
static void merge(struct jw *w, const struct json *hub, const struct json *here, const char *path)
{
    const struct json *theirs = json_get(hub, "values"), *ours = json_get(here, "values");
    jw_obj(w);
    jw_karr(w, "values");
    json_foreach_item (v, theirs) {
        const struct json *mine = find_value(ours, json_get_text(v, "key"));
        bool fixed = is_from(v, "flag") || is_from(v, "policy");
        jw_value(w, mine != NULL && is_from(mine, "project") && !fixed ? mine : v);
    }
    json_foreach_item (v, ours) {
        if (is_from(v, "project") && find_value(theirs, json_get_text(v, "key")) == NULL) {
            jw_value(w, v);
        }
    }
    jw_end_arr(w);
    jw_karr(w, "diagnostics");
    json_foreach_item (d, json_get(hub, "diagnostics")) {
        jw_value(w, d);
    }
    json_foreach_item (d, json_get(here, "diagnostics")) {
        if (str_eqz(json_get_text(d, "path"), path)) {
            jw_value(w, d);
        }
    }
    jw_end_arr(w);
    jw_end_obj(w);
}

static int add_project(struct cli *c, const struct trust_settings *p, struct client_answer *a)
{
    assert(p->trusted && p->root != NULL);
    struct arena arena = {0};
    struct buf text = {.max = TEXT_MAX}, out = {.max = TEXT_MAX};
    struct json *hub = NULL, *here = NULL;
    struct jw w;
    char *path = path_join(p->root, CONFIG_PROJECT_FILE);
    int code = load_here(c, p, &text);
    if (code == EXIT_OK && json_parse(&hub, &arena, buf_str(&a->body), NULL, NULL) == 0 &&
        json_parse(&here, &arena, buf_str(&text), NULL, NULL) == 0) {
        jw_init(&w, &out);
        merge(&w, hub, here, path);
        buf_clear(&a->body);
        buf_adds(&a->body, buf_str(&out));
    }
    buf_fini(&text);
    buf_fini(&out);
    arena_fini(&arena);
    free(path);
    return code;
}

/// Say why the settings of a project do not apply.
static void tell_refused(struct cli *c, const struct trust_settings *p)
{
    if (p->why != NULL) {
        out_note(&c->out, "'%s/" CONFIG_PROJECT_FILE "' is ignored: %s", p->root, p->why);
    } else if (p->text != NULL && !p->trusted) {
        out_note(&c->out,
                 "'%s/" CONFIG_PROJECT_FILE
                 "' is ignored because it is not trusted: look at it, then "
                 "type 'afloat trust'",
                 p->root);
    }
}

// ---- shown ---------------------------------------------------------------------------------

/// "user ~/.afloat/config.toml:3"
static void add_origin(struct buf *out, const struct json *v)
{
    int64_t line = json_int(json_get(v, "line"), 0);
    struct str path = json_get_text(v, "path");
    buf_adds(out, json_get_text(v, "origin"));
    buf_addz(out, path.n != 0 ? " " : "");
    buf_adds(out, path);
    if (line != 0) {
        buf_addf(out, ":%lld", (long long)line);
    }
}

#define COL_KEY   COL("KEY", ID, NULL)
#define COL_VALUE COL("VALUE", LONG, "{=value}")
static const struct layout plain = {"values", COLUMNS(COL_KEY, COL_VALUE), NULL};
static const struct layout with_origin = {
    "values", COLUMNS(COL_KEY, COL_FN("ORIGIN", PATH, add_origin), COL_VALUE), NULL};

static int print_config(struct cli *c, const struct client_answer *a)
{
    struct arena arena = {0};
    if (c->json) {
        out_body(&c->out, buf_str(&a->body));
        return EXIT_OK;
    }
    const struct json *v = ask_json(c, &arena, a);
    if (v != NULL) {
        show_answer(c, args_has(&c->args, FLAG_ORIGIN) ? &with_origin : &plain, v);
    }
    json_foreach_item (d, json_get(v, "diagnostics")) {
        struct buf text = {.max = SIZE_MAX};
        show_fill(
            c, &text,
            "{path}:{line}: {severity}: {message}; {hint}||{path}: {severity}: {message}; {hint}||"
            "{path}:{line}: {severity}: {message}||{path}: {severity}: {message}",
            d, STR_NULL);
        out_error(&c->out, "%s", buf_z(&text));
        buf_fini(&text);
    }
    arena_fini(&arena);
    return v != NULL ? EXIT_OK : EXIT_FAILED;
}

int cmd_config_show(struct cli *c)
{
    struct client_answer a;
    struct trust_settings p;
    client_answer_init(&a);
    trust_settings_read(&p, c->home.dir, ".");
    int code = ask_hub(c, &a);
    if (code == EXIT_OK && p.trusted) {
        code = add_project(c, &p, &a);
    }
    if (code == EXIT_OK) {
        code = print_config(c, &a);
        tell_refused(c, &p);
    }
    trust_settings_fini(&p);
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
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    jw_obj(&w);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        jw_kstrz(&w, rows[i].name, rows[i].path);
    }
    jw_end_obj(&w);
    buf_addc(&text, '\n');
    show_local(c, &(struct layout){0}, buf_str(&text));
    buf_fini(&text);
    return EXIT_OK;
}
