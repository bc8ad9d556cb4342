// Read one file of settings: parse it, walk it along keys.def, check and stage every value.
//
//     file ──toml_parse──> tree ──walk──> known setting ──convert──> staged value
//                                   ├──> unknown name: a warning with the nearest known one
//                                   └──> wrong type or range: an error, the file is broken
//
// The walk goes down three tables at most, as deep as keys.def is; the contents of a free table
// (options of a plugin) are kept as they are.
//
// Invariant: nothing read here is in force; load.c merges the staged values if `broken` is false.

#include <errno.h>

#include "base/path.h"
#include "base/toml.h"
#include "config/layer_int.h"

enum { FILE_MAX = 1024 * 1024, SHOWN_MAX = 60, KEY_MAX = 1024 };

/// Where in a file the walk is: `prefix` of the pattern, `text` of the keys as they are shown.
struct table {
    struct str prefix;
    const char *text; // "providers.work.", "" at the top
    const char *name; // "work", or NULL
};

// ---- complaints -----------------------------------------------------------------------------

static struct config_place place(const struct layer *l, uint32_t line, uint32_t col)
{
    return (struct config_place){l->path, line, col};
}

/// A setting that limits sessions must count as the user meant it, or no session may begin. So if `key`
/// ("sandbox.mode", "sandbox.") is one, the diagnostic added last stops sessions until it is fixed.
static void mark_strict(struct layer *l, const char *key)
{
    static const char *const strict[] = {"session", "sandbox", "permission", "command_hooks"};
    for (size_t i = 0; i < ARRAY_LEN(strict); i++) {
        size_t n = strlen(strict[i]);
        if (strncmp(key, strict[i], n) == 0 && (key[n] == '\0' || key[n] == '.' || key[n] == '[')) {
            config_diag_refuse(vec_last(l->d));
        }
    }
}

static const char *mend_hint(const struct layer *l)
{
    return l->origin == CONFIG_SYSTEM || l->origin == CONFIG_POLICY
               ? "the whole file is ignored until this is fixed, with its [policy]"
               : "the whole file is ignored until this is fixed";
}

/// How a wrong value is shown: numbers and short strings as they are, else the type.
static void describe(const struct schema__key *k, const struct toml *v, struct buf *out)
{
    if (v->type == TOML_INT) {
        buf_addf(out, "%lld", (long long)v->i);
    } else if (v->type == TOML_STR && k != NULL && schema__may_show(k) && v->s.n <= SHOWN_MAX) {
        buf_addf(out, "\"" STR_FMT "\"", STR_ARG(v->s));
    } else {
        buf_addz(out, toml_type_name(v));
    }
}

static void add_wrong_value(struct layer *l, const struct schema__key *k, const char *key,
                            const char *expected, const struct toml *v)
{
    struct buf found = {.max = KEY_MAX};
    describe(k, v, &found);
    config_diags_add(l->d, CONFIG_ERROR, place(l, v->line, v->col), mend_hint(l),
                     "expected %s for '%s', found %s", expected, key, buf_z(&found));
    mark_strict(l, key);
    l->broken = true;
    buf_fini(&found);
}

static void add_unknown(struct layer *l, const struct table *t, const struct toml_member *m)
{
    struct arena names = {0};
    struct buf b = {.max = KEY_MAX};
    size_t n = strlen(t->text);

    // Looking for the nearest name is slow, and a hostile file has many.
    const char *nearest =
        config_diags_full(l->d) ? NULL : schema__nearest(&names, t->prefix, m->key);
    buf_addf(&b, "unknown key '%.*s'", (int)MIN(m->key.n, SHOWN_MAX), m->key.p);
    if (n != 0) {
        buf_addf(&b, " in [%.*s]", (int)n - 1, t->text);
    }
    if (nearest != NULL) {
        buf_addf(&b, ", did you mean '%s'?", nearest);
    }
    config_diags_add(l->d, CONFIG_WARNING, place(l, m->line, m->col), NULL, "%s", buf_z(&b));
    mark_strict(l, n != 0 ? t->text : arena_strdup(&names, m->key));
    buf_fini(&b);
    arena_fini(&names);
}

// ---- values ---------------------------------------------------------------------------------

/// Dates and times become strings. Recursion is bounded by TOML_DEPTH.
static void to_json(struct arena *a, const struct toml *v, struct json *out)
{
    switch (v->type) {
    case TOML_INT: *out = (struct json){.type = JSON_INT, .i = v->i}; return;
    case TOML_DOUBLE: *out = (struct json){.type = JSON_DOUBLE, .d = v->d}; return;
    case TOML_BOOL: *out = (struct json){.type = JSON_BOOL, .b = v->b}; return;
    case TOML_ARR:
        *out = (struct json){.type = JSON_ARR, .n = v->n};
        out->items = arena_calloc(a, MAX(v->n, 1), sizeof *out->items);
        for (uint32_t i = 0; i < v->n; i++) {
            to_json(a, &v->items[i], &out->items[i]);
        }
        return;
    case TOML_TABLE:
        *out = (struct json){.type = JSON_OBJ, .n = v->n};
        out->members = arena_calloc(a, MAX(v->n, 1), sizeof *out->members);
        for (uint32_t i = 0; i < v->n; i++) {
            out->members[i].key = v->members[i].key;
            to_json(a, &v->members[i].value, &out->members[i].value);
        }
        return;
    default: *out = (struct json){.type = JSON_STR, .s = v->s}; return;
    }
}

/// Convert `v` to a value of `k`; false after a complaint. Only free tables may contain a time.
static bool convert(struct layer *l, const struct schema__key *k, const char *key,
                    const struct toml *v, struct json *out)
{
    bool is_time = v->type >= TOML_DATETIME && v->type <= TOML_TIME_LOCAL;
    to_json(&l->c->arena, v, out);
    if (!is_time && schema__check(k, out)) {
        return true;
    }
    struct buf expected = {.max = KEY_MAX};
    schema__expected(k, &expected);
    add_wrong_value(l, k, key, buf_z(&expected), v);
    buf_fini(&expected);
    return false;
}

// ---- arrays of tables -----------------------------------------------------------------------

/// Each member as written, else its default, else absent.
static struct json *element_to_json(struct layer *l, const struct schema__array *array,
                                    const struct toml *item)
{
    struct json *obj = arena_calloc(&l->c->arena, 1, sizeof *obj);
    size_t prefix = strlen(array->prefix), rows = 0;

    for (const struct schema__key *k = schema__keys; k->pattern != NULL; k++) {
        rows += strncmp(k->pattern, array->prefix, prefix) == 0;
    }
    obj->type = JSON_OBJ;
    obj->members = arena_calloc(&l->c->arena, rows, sizeof *obj->members);
    for (const struct schema__key *k = schema__keys; k->pattern != NULL; k++) {
        if (strncmp(k->pattern, array->prefix, prefix) == 0) {
            struct json_member *m = &obj->members[obj->n];
            m->key = str_of(k->pattern + prefix);
            const struct toml *v = toml_get_str(item, m->key);
            if (v != NULL) {
                obj->n += convert(l, k, k->pattern, v, &m->value);
            } else if (k->fallback != NULL) {
                obj->n += schema__parse(k, str_of(k->fallback), &l->c->arena, &m->value);
            }
        }
    }
    return obj;
}

/// The required keys that an element lacks, or NULL.
static const char *missing(const struct schema__array *array, const struct toml *item)
{
    static const struct {
        const char *array, *a, *b, *lacks;
    } pairs[] = {{"permission", "tool", "decision", "'tool' and 'decision'"},
                 {"command_hooks", "event", "command", "'event' and 'command'"}};
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        bool both = toml_get(item, pairs[i].a) != NULL && toml_get(item, pairs[i].b) != NULL;
        if (strcmp(array->name, pairs[i].array) == 0) {
            return both ? NULL : pairs[i].lacks;
        }
    }
    bool path = toml_get(item, "path") != NULL, name = toml_get(item, "name") != NULL;
    return path == name ? "either 'path' or 'name'" : NULL;
}

static void read_element(struct layer *l, const struct schema__array *array,
                         const struct toml *item)
{
    struct table t = {.prefix = str_of(array->prefix),
                      .text = arena_printf(&l->c->arena, "%s.", array->name)};
    const char *lacks = missing(array, item);
    toml_foreach (m, item) {
        if (schema__step(t.prefix, m->key).key == NULL) {
            add_unknown(l, &t, m);
        }
    }
    if (lacks != NULL) {
        config_diags_add(l->d, CONFIG_ERROR, place(l, item->line, item->col), mend_hint(l),
                         "expected %s in [[%s]]", lacks, array->name);
        mark_strict(l, array->name);
        l->broken = true;
    }
    struct json *json = element_to_json(l, array, item);
    vec_push(&l->values, ((struct layer__value){
                             .json = json, .array = array, .line = item->line, .col = item->col}));
}

static void read_array(struct layer *l, const struct schema__array *array, const struct toml *v)
{
    if (v->type != TOML_ARR) {
        add_wrong_value(l, NULL, array->name,
                        arena_printf(&l->c->arena, "an array of tables, [[%s]]", array->name), v);
        return;
    }
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->items[i].type == TOML_TABLE) {
            read_element(l, array, &v->items[i]);
        } else {
            add_wrong_value(l, NULL, array->name, "a table", &v->items[i]);
        }
    }
}

// ---- the walk -------------------------------------------------------------------------------

static const char *key_text(struct layer *l, const struct table *t, struct str name)
{
    struct buf b = {.max = KEY_MAX};
    buf_addz(&b, t->text);
    schema__add_name(&b, name);
    char *text = arena_strdup(&l->c->arena, buf_str(&b));
    buf_fini(&b);
    return text;
}

static void walk(struct layer *l, const struct table *t, const struct toml *v);

/// A known name: a setting, or a table to walk.
static void read_known(struct layer *l, const struct table *t, const struct toml_member *m,
                       struct schema__step step)
{
    const char *key = key_text(l, t, m->key);
    struct table below = {step.prefix, arena_printf(&l->c->arena, "%s.", key),
                          step.any ? m->key.p : t->name};
    if (step.key != NULL) {
        const struct toml *v = &m->value;
        struct json *json = arena_calloc(&l->c->arena, 1, sizeof *json);
        if (convert(l, step.key, key, v, json)) {
            vec_push(&l->values, ((struct layer__value){step.key, key, below.name, NULL, json,
                                                        v->line, v->col}));
        }
    } else if (m->value.type == TOML_TABLE) {
        walk(l, &below, &m->value);
    } else {
        add_wrong_value(l, NULL, key, "a table", &m->value);
    }
}

static void read_member(struct layer *l, const struct table *t, const struct toml_member *m)
{
    bool at_top = t->prefix.n == 0;
    for (size_t i = 0; at_top && i < SCHEMA_ARRAYS; i++) {
        if (str_eqz(m->key, schema__arrays[i].name)) {
            read_array(l, &schema__arrays[i], &m->value);
            return;
        }
    }
    if (at_top && str_eqz(m->key, "policy") && l->origin != CONFIG_POLICY) {
        if (l->origin != CONFIG_SYSTEM) { // there it is a layer of its own
            config_diags_add(l->d, CONFIG_WARNING, place(l, m->line, m->col), NULL,
                             "[policy] counts only in " CONFIG_SYSTEM_PATH);
        }
        return;
    }
    struct schema__step step = schema__step(t->prefix, m->key);
    if (step.key == NULL && step.prefix.n == 0) {
        add_unknown(l, t, m);
    } else if (step.any && !schema__name_ok(m->key)) {
        config_diags_add(l->d, CONFIG_ERROR, place(l, m->line, m->col), mend_hint(l),
                         "expected a name of 1 to 256 printable bytes in [%.*s]",
                         (int)strlen(t->text) - 1, t->text);
        l->broken = true;
    } else {
        read_known(l, t, m, step);
    }
}

static void walk(struct layer *l, const struct table *t, const struct toml *v)
{
    toml_foreach (m, v) {
        read_member(l, t, m);
    }
}

// ---- the file -------------------------------------------------------------------------------

/// The parsed file, or NULL: when it is missing, and, after a complaint, when it is broken.
static struct toml *read_file(struct layer *l)
{
    struct err e = {0};
    struct toml *root = NULL;
    uint32_t line = 0, col = 0;
    struct buf text = {.max = FILE_MAX};

    int rc = 0;
    if (l->text == NULL) {
        rc = path_read(l->path, &text, &e);
    } else {
        buf_addz(&text, l->text);
        rc = buf_ok(&text)
                 ? 0
                 : err_set(&e, ERR_TOO_LARGE, "'%s' holds more than %d bytes", l->path, FILE_MAX);
    }
    if (rc == 0) {
        rc = toml_parse(&root, &l->c->arena, buf_str(&text), &line, &col, &e);
    }
    buf_fini(&text);
    if (rc < 0 && rc != -ENOENT && rc != -ENOTDIR) {
        const char *after = line != 0 ? strstr(e.msg, ": ") : NULL; // the diagnostic has the place
        config_diags_add(l->d, CONFIG_ERROR, place(l, line, col), mend_hint(l), "%s",
                         after != NULL ? after + 2 : e.msg);
        l->broken = true;
    }
    return root;
}

static const struct table top = {.text = ""};

void layer__init(struct layer *l, struct config *c, struct config_diags *d,
                 enum config_origin origin, const char *path)
{
    *l = (struct layer){.c = c, .d = d, .origin = origin};
    l->path = arena_strdup(&c->arena, str_of(path));
}

void layer__read(struct layer *l, struct layer *policy)
{
    struct toml *root = read_file(l);
    if (root == NULL) {
        return;
    }
    walk(l, &top, root);
    const struct toml *part = toml_get(root, "policy");
    if (policy != NULL && part != NULL) {
        if (part->type == TOML_TABLE) {
            walk(policy, &top, part);
        } else {
            add_wrong_value(policy, NULL, "policy", "a table", part);
        }
        l->broken = policy->broken = l->broken || policy->broken;
    }
}
