// Read the layers and put the effective configuration together.
//
//     keys.def ── defaults, presets ───────────────────────────────┐ lowest
//     system file ─┬ parse, walk, check ──> values, or broken ─────┤
//     user's file ─┤      (staged: all of a file or nothing)       ├──> struct config
//     project file ┘      project's keys pass may_set() ───────────┤
//     environment, flags ── text, by the type of the key ──────────┤
//     [policy] of the system file ─────────────────────────────────┘ highest
//
// A file counts as a whole or not at all: the user did not write half a file. So values are staged
// while the file is walked (layer.c) and merged only if it had no error.
//
// A project's file comes with the project, and trusting a project means running its code in the
// sandbox, not handing over keys or widening the sandbox. keys.def says for each
// key what a project may do; NARROW is judged against the layers below it.
//
// Elements of an array of tables ([[plugins]]) of all layers add up, in layer order; nothing replaces them.
//
// Not done here: deciding whether a project is trusted, watching the files, keeping the last good
// configuration (the caller has it).

#include <assert.h>

#include "base/path.h"
#include "config/layer_int.h"

enum { SHOWN_MAX = 60, KEY_MAX = 1024 };

// ---- merging --------------------------------------------------------------------------------

/// Whether a project may set `v`; complains when not.
static bool may_set(struct layer *l, const struct layer__value *v)
{
    const struct config_entry *now = v->text != NULL ? config_find(l->c, v->text) : NULL;
    enum schema_project rule = v->array != NULL ? v->array->project : v->key->project;
    bool narrow = rule == SCHEMA_NARROW &&
                  schema__not_wider(v->key, v->json, now != NULL ? now->value : NULL);

    if (narrow || rule == SCHEMA_ALWAYS || rule == SCHEMA_ADD) {
        return true;
    }
    config_diags_add(l->d, CONFIG_WARNING, (struct config_place){l->path, v->line, v->col},
                     "it is ignored here; set it in your own config.toml",
                     "a project may not %s '%s'", rule == SCHEMA_NARROW ? "widen" : "set",
                     v->array != NULL ? v->array->name : v->text);
    return false;
}

/// The list of the lower layers with the elements of `more` that it lacks.
static struct json *add_lists(struct arena *a, const struct json *low, const struct json *more)
{
    struct json *sum = arena_calloc(a, 1, sizeof *sum);
    sum->type = JSON_ARR;
    sum->items = arena_calloc(a, (size_t)low->n + more->n + 1, sizeof *sum->items);
    memcpy(sum->items, low->items, low->n * sizeof *sum->items);
    sum->n = low->n;
    json_foreach_item (it, more) {
        bool there = false;
        for (uint32_t i = 0; i < low->n && !there; i++) {
            there = str_eq(low->items[i].s, it->s);
        }
        if (!there) {
            sum->items[sum->n++] = *it;
        }
    }
    return sum;
}

static void merge_value(struct layer *l, const struct layer__value *v)
{
    struct config_entry entry = {v->text, v->name, v->json, l->origin, l->path, v->line};
    if (l->origin == CONFIG_PROJECT && !may_set(l, v)) {
        return;
    }
    if (v->array != NULL) {
        size_t *n = &l->c->elements[v->array - schema__arrays];
        entry.key = arena_printf(&l->c->arena, "%s.%zu", v->array->name, (*n)++);
    } else if (l->origin == CONFIG_PROJECT && v->key->project == SCHEMA_ADD) {
        entry.value = add_lists(&l->c->arena, config_find(l->c, v->text)->value, v->json);
    }
    config__put(l->c, v->key, entry);
}

/// Put the staged values into force, unless the file is broken; ends the layer.
static void merge(struct layer *l)
{
    if (l->broken && l->origin != CONFIG_PROJECT) {
        l->c->left_out = l->path;
    }
    if (!l->broken) {
        vec_foreach (v, &l->values) {
            merge_value(l, v);
        }
    }
    vec_fini(&l->values);
}

// ---- files ----------------------------------------------------------------------------------

static void load_file(struct config *c, struct config_diags *d, enum config_origin origin,
                      const char *path, const char *text)
{
    struct layer l;
    layer__init(&l, c, d, origin, path);
    l.text = text;
    layer__read(&l, NULL);
    merge(&l);
}

// ---- built in, environment, flags -----------------------------------------------------------

static void put_text(struct config *c, const struct schema__key *k, struct config_entry entry,
                     const char *text)
{
    struct json *json = arena_calloc(&c->arena, 1, sizeof *json);
    bool ok = schema__parse(k, str_of(text), &c->arena, json);
    assert(ok); // written in keys.def
    (void)ok;
    entry.value = json;
    config__put(c, k, entry);
}

static void put_preset(struct config *c, const struct schema__preset *p)
{
    struct schema__step step = {0};
    struct config_entry entry = {.key = p->key};
    for (struct str rest = str_of(p->key); rest.p != NULL;) {
        struct str part = str_cut(&rest, '.');
        step = schema__step(step.prefix, part);
        if (step.any) {
            entry.name = arena_strdup(&c->arena, part);
        }
    }
    put_text(c, step.key, entry, p->value);
}

static void load_defaults(struct config *c)
{
    for (const struct schema__key *k = schema__keys; k->pattern != NULL; k++) {
        if (k->fallback != NULL && schema__find(str_of(k->pattern)) == k) {
            put_text(c, k, (struct config_entry){.key = k->pattern}, k->fallback);
        }
    }
    for (const struct schema__preset *p = schema__presets; p->key != NULL; p++) {
        put_preset(c, p);
    }
}

/// Set `k` from a flag or a variable of this process; `what` names it in the message.
static int put_said(struct config *c, const struct schema__key *k, struct config_entry entry,
                    struct str text, int code, const char *what, struct err *e)
{
    struct json *json = arena_calloc(&c->arena, 1, sizeof *json);
    if (schema__parse(k, text, &c->arena, json)) {
        entry.key = k->pattern;
        entry.value = json;
        config__put(c, k, entry);
        return 0;
    }
    struct buf expected = {.max = KEY_MAX};
    schema__expected(k, &expected);
    bool show = schema__may_show(k) && text.n <= SHOWN_MAX;
    err_set(e, code, "expected %s for %s%s" STR_FMT "%s", buf_z(&expected), what,
            show ? ", found '" : "", show ? (int)text.n : 0, text.p, show ? "'" : "");
    buf_fini(&expected);
    return code;
}

static int load_env(struct config *c, const char *const *env, bool hub, struct err *e)
{
    for (const struct schema__variable *v = schema__variables; v->name != NULL; v++) {
        const char *text = v->client_only && hub ? NULL : str_env(env, v->name);
        if (text == NULL || text[0] == '\0') {
            continue; // set but empty counts as unset
        }
        struct config_entry entry = {.origin = CONFIG_ENVIRONMENT, .path = v->name};
        int rc =
            put_said(c, schema__find(str_of(v->key)), entry, str_of(text), ERR_INVALID, v->name, e);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int load_flags(struct config *c, const char *const *flags, struct err *e)
{
    int rc = 0;
    for (; rc == 0 && *flags != NULL; flags++) {
        struct str value = str_of(*flags), key = str_cut(&value, '=');
        const struct schema__key *k = schema__find(key);
        if (value.p == NULL || k == NULL) {
            return err_set(e, ERR_USAGE, "expected KEY=VALUE with a known key, found '%s'", *flags);
        }
        struct config_entry entry = {.origin = CONFIG_FLAG};
        rc = put_said(c, k, entry, value, ERR_USAGE, k->pattern, e);
    }
    return rc;
}

// ---- checks that need all layers ------------------------------------------------------------

static void check_whole(const struct config *c, struct config_diags *d)
{
    const struct config_entry *url = config_find(c, "public_url");
    const char *name;
    if (url->value->s.n != 0 && url->path != NULL && !config_bool(c, "behind_proxy")) {
        config_diags_add(d, CONFIG_WARNING, (struct config_place){url->path, url->line, 1},
                         "set behind_proxy = true", "'public_url' has no effect without a proxy");
    }
    for (size_t at = 0; (name = config_next_name(c, "providers", &at)) != NULL;) {
        const struct config_entry *any = &c->slots[at - 1]->entry;
        if (config_find_named(c, "providers.*.kind", name) == NULL && any->path != NULL) {
            config_diags_add(d, CONFIG_WARNING, (struct config_place){any->path, any->line, 1},
                             "add kind = \"openai-chat\" or another", "provider '%s' has no 'kind'",
                             name);
        }
    }
}

int config_load(struct config **out, const struct config_sources *src, struct config_diags *d,
                struct err *e)
{
    const char *system = src->system_path != NULL ? src->system_path : CONFIG_SYSTEM_PATH;
    struct config *c = xcalloc(1, sizeof *c);
    struct layer lowest, policy; // the system's file is two layers; `policy` is the highest
    int rc = 0;

    *out = NULL;
    load_defaults(c);
    layer__init(&lowest, c, d, CONFIG_SYSTEM, system);
    layer__init(&policy, c, d, CONFIG_POLICY, system);
    layer__read(&lowest, &policy);
    merge(&lowest);
    if (src->home != NULL) {
        load_file(c, d, CONFIG_USER, src->home->config, NULL);
    }
    if (src->project_dir != NULL) {
        char *path = path_join(src->project_dir, CONFIG_PROJECT_FILE);
        load_file(c, d, CONFIG_PROJECT, path, src->project_text);
        free(path);
    }
    if (src->env != NULL) {
        rc = load_env(c, src->env, src->hub, e);
    }
    if (rc == 0 && src->flags != NULL) {
        rc = load_flags(c, src->flags, e);
    }
    merge(&policy);
    if (rc < 0) {
        config_free(c);
        return rc;
    }
    config__finish(c);
    check_whole(c, d);
    *out = c;
    return 0;
}
