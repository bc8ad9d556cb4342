// Values against a JSON Schema: one table of keywords, each with what its own value must look like and what it
// asks of a value.
//
//     schema_check:  for each member of the schema ──> its row ──> `check` the member's value
//     schema_fit:    for each row ──> the member, if the schema has one ──> `fit` the value
//
// Fitting goes by the table and not by the schema, so that a wrong type is reported first.
//
// There are no references, so a schema is a tree: fitting takes at most (schema × value) steps, and recursion
// ends with the depth of the parsed texts. Both come from outside and their product can be huge, so steps are counted:
// a value that takes more than SCHEMA_STEPS does not fit. A keyword only concerns its own kind of value: `minimum` says nothing
// about a string, as in the standard.
//
// Defaults are in schema_defaults.c. Places are chains on the stack; only a failure turns one into text.
//
// Not here: `$ref`, `pattern` (a regular expression from outside is a way to burn time), `not`, `if`/`then`/`else` and
// other keywords of the standard. schema_check() tells them from typing errors (ERR_UNSUPPORTED): the schema of a tool
// may use them, and is then not checked at all. Checking half of it would refuse what fits: `oneOf` two references.

#include "base/schema.h"

#include <assert.h>

#include "base/utf8.h"

enum { PATH_MAX_SHOWN = 120, VALUE_MAX_SHOWN = 40, NAMES_MAX = 64 };

/// One step from the root to where we are.
struct schema_place {
    const struct schema_place *up; // NULL: the root
    struct str key;                // of a member; empty for an item
    size_t index;
    size_t *left; // steps, for the whole value
};

/// The place of a member or an item.
static struct schema_place below(const struct schema_place *up, struct str key, size_t index)
{
    return (struct schema_place){.up = up, .key = key, .index = index, .left = up->left};
}

/// Take `n` steps. False: there are none left.
static bool spend(const struct schema_place *p, size_t n)
{
    *p->left -= MIN(n, *p->left);
    return *p->left != 0;
}

static const char too_large[] = "is too large to be checked against its schema";

// ---- messages -------------------------------------------------------------------------------

static void add_path(struct buf *out, const struct schema_place *p)
{
    if (p->up != NULL) {
        add_path(out, p->up);
    }
    if (!buf_ok(out)) {
        return; // a path with a hole in it would mislead
    }
    if (p->up != NULL && p->key.p == NULL) {
        buf_addf(out, "[%zu]", p->index);
        return;
    }
    buf_addz(out, p->up != NULL && out->n != 0 ? "." : "");
    for (size_t i = 0; i < p->key.n; i++) {
        unsigned char c = (unsigned char)p->key.p[i];
        buf_addc(out, c < 0x20 || c == 0x7f ? '?' : (char)c);
    }
}

/// Prefix the message that err_set() just made with the place.
static int at(const struct schema_place *p, struct err *e, int rc)
{
    struct buf path = {.max = PATH_MAX_SHOWN};
    if (e == NULL) {
        return rc;
    }
    add_path(&path, p);
    if (path.n != 0) {
        path.n = utf8_cut(path.p, path.n, path.n);
        err_prefix(e, "%.*s", (int)path.n, path.p);
    }
    buf_fini(&path);
    return rc;
}

struct schema_shown {
    char z[VALUE_MAX_SHOWN + 1];
};

static struct schema_shown show(const struct json *v)
{
    struct schema_shown s = {""};
    struct buf b = {.max = 4096};
    json_write(&b, v, 0);
    snprintf(s.z, sizeof s.z, "%.*s", (int)utf8_cut(buf_z(&b), b.n, VALUE_MAX_SHOWN), buf_z(&b));
    buf_fini(&b);
    return s;
}

/// The name among the keys of `obj` that `word` was meant to be, as " (did you mean 'x'?)", else "".
static struct schema_shown guess(const struct json *obj, struct str word)
{
    const char *names[NAMES_MAX];
    struct schema_shown s = {""};
    struct arena a = {0};
    size_t n = 0;
    json_foreach_member (m, obj) {
        if (n < NAMES_MAX) {
            names[n++] = arena_strdup(&a, m->key);
        }
    }
    const char *nearest = str_nearest(word, names, n);
    if (nearest != NULL && strlen(nearest) < VALUE_MAX_SHOWN - 20) {
        snprintf(s.z, sizeof s.z, " (did you mean '%s'?)", nearest);
    }
    arena_fini(&a);
    return s;
}

// ---- types ----------------------------------------------------------------------------------

static bool is_number(const struct json *v)
{
    return v->type == JSON_INT || v->type == JSON_DOUBLE;
}

static bool is_whole(const struct json *v)
{
    bool huge = v->type == JSON_DOUBLE && !(v->d > -0x1p63 && v->d < 0x1p63);
    return v->type == JSON_INT ||
           (v->type == JSON_DOUBLE && (huge || (double)(int64_t)v->d == v->d));
}

static const struct schema_type {
    const char *name, *spoken;
    enum json_type type;
} types[] = {
    {"string", "a string", JSON_STR},    {"integer", "an integer", JSON_INT},
    {"number", "a number", JSON_DOUBLE}, {"boolean", "a boolean", JSON_BOOL},
    {"array", "an array", JSON_ARR},     {"object", "an object", JSON_OBJ},
    {"null", "null", JSON_NULL},
};

static const struct schema_type *find_type(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (str_eqz(name, types[i].name)) {
            return &types[i];
        }
    }
    return NULL;
}

/// "a string", for any value.
static const char *spoken_type(const struct json *v)
{
    const struct schema_type *t = find_type(str_of(json_type_name(v)));
    return t != NULL ? t->spoken : "absent";
}

// ---- is it a schema? ------------------------------------------------------------------------

static int check(const struct json *schema, const struct schema_place *p, struct err *e);

static int expect(const struct json *v, enum json_type type, const char *what,
                  const struct schema_place *p, struct err *e)
{
    if (v->type == type) {
        return 0;
    }
    return at(p, e, err_set(e, ERR_INVALID, "must be %s, is %s", what, spoken_type(v)));
}

static int check_text(const struct json *v, const struct schema_place *p, struct err *e)
{
    return expect(v, JSON_STR, "a string", p, e);
}

static int check_number(const struct json *v, const struct schema_place *p, struct err *e)
{
    return is_number(v) ? 0 : expect(v, JSON_DOUBLE, "a number", p, e);
}

static int check_count(const struct json *v, const struct schema_place *p, struct err *e)
{
    if (is_whole(v) && json_double(v, -1) >= 0) {
        return 0;
    }
    return at(p, e, err_set(e, ERR_INVALID, "must be an integer of at least 0"));
}

/// Names of types in other languages.
static const struct {
    const char *said, *meant;
} slips[] = {
    {"int", "integer"},  {"long", "integer"}, {"float", "number"}, {"double", "number"},
    {"bool", "boolean"}, {"str", "string"},   {"text", "string"},  {"list", "array"},
    {"dict", "object"},  {"map", "object"},   {"table", "object"}, {"nil", "null"},
};

static int unknown(const char *what, struct str name, const char *nearest,
                   const struct schema_place *p, struct err *e)
{
    return at(p, e,
              err_set(e, ERR_INVALID, "unknown %s '%.*s'%s%s%s", what,
                      (int)utf8_cut(name.p, name.n, VALUE_MAX_SHOWN), name.p,
                      nearest != NULL ? " (did you mean '" : "", nearest != NULL ? nearest : "",
                      nearest != NULL ? "'?)" : ""));
}

/// Reported for the place above: a wrong type is the schema's fault, not that of its member `type`.
static int check_type_name(const struct json *v, const struct schema_place *p, struct err *e)
{
    struct str name = json_str(v, "");
    const char *names[ARRAY_LEN(types)], *meant = NULL;
    if (v->type != JSON_STR) {
        return at(p, e, err_set(e, ERR_INVALID, "'type' must be a string or a list of strings"));
    }
    if (find_type(name) != NULL) {
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(slips); i++) {
        meant = str_eqz(name, slips[i].said) ? slips[i].meant : meant;
    }
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        names[i] = types[i].name;
    }
    return unknown("type", name, meant != NULL ? meant : str_nearest(name, names, ARRAY_LEN(names)),
                   p, e);
}

static int check_list(const struct json *v, const struct schema_place *p, struct err *e)
{
    int rc = expect(v, JSON_ARR, "an array", p, e);
    return rc < 0 || v->n != 0 ? rc : at(p, e, err_set(e, ERR_INVALID, "must not be empty"));
}

static int check_type(const struct json *v, const struct schema_place *p, struct err *e)
{
    int rc = v->type == JSON_ARR ? check_list(v, p, e) : check_type_name(v, p->up, e);
    json_foreach_item (name, v) {
        rc = rc < 0 ? rc : check_type_name(name, p->up, e);
    }
    return rc;
}

static int check_names(const struct json *v, const struct schema_place *p, struct err *e)
{
    int rc = expect(v, JSON_ARR, "an array of strings", p, e);
    json_foreach_item (name, v) {
        rc = rc < 0 ? rc : expect(name, JSON_STR, "an array of strings", p, e);
    }
    return rc;
}

/// After `rc`, may another part still give a worse code?
static bool may_worsen(int rc)
{
    return rc == 0 || rc == ERR_UNSUPPORTED;
}

static int worse(int rc, int next)
{
    return next != 0 ? next : rc;
}

static int check_properties(const struct json *v, const struct schema_place *p, struct err *e)
{
    int rc = expect(v, JSON_OBJ, "an object", p, e);
    json_foreach_member (m, v) {
        struct schema_place here = below(p, m->key, 0);
        rc = may_worsen(rc) ? worse(rc, check(&m->value, &here, e)) : rc;
    }
    return rc;
}

static int check_more(const struct json *v, const struct schema_place *p, struct err *e)
{
    return v->type == JSON_BOOL ? 0 : check(v, p, e);
}

static int check_forms(const struct json *v, const struct schema_place *p, struct err *e)
{
    int rc = check_list(v, p, e);
    size_t i = 0;
    json_foreach_item (form, v) {
        struct schema_place here = below(p, STR_NULL, i++);
        rc = may_worsen(rc) ? worse(rc, check(form, &here, e)) : rc;
    }
    return rc;
}

// ---- does a value fit? ----------------------------------------------------------------------

/// `rule` is the value of the keyword `k` in `schema`; `v` is of the keyword's kind.
struct fitting {
    const struct keyword *k;
    const struct json *schema, *rule, *v;
    const struct schema_place *p;
};

struct keyword {
    const char *name;
    int (*check)(const struct json *v, const struct schema_place *p,
                 struct err *e);                        // NULL: any value
    unsigned kinds;                                     // of values that it speaks about
    int (*fit)(const struct fitting *f, struct err *e); // NULL: says nothing about validity
    const char *bound; // of a limit: "at least", "at most", "more than" or "less than"
};

static int fit(const struct json *schema, const struct json *v, const struct schema_place *p,
               struct err *e);

static int fit_type(const struct fitting *f, struct err *e)
{
    struct buf wanted = {.max = 120};
    size_t n = f->rule->type == JSON_ARR ? f->rule->n : 1;
    for (size_t i = 0; i < n; i++) {
        const struct json *name = f->rule->type == JSON_ARR ? json_at(f->rule, i) : f->rule;
        const struct schema_type *t = find_type(json_str(name, ""));
        assert(t != NULL); // schema_check() has seen it
        bool fits = t->type == JSON_INT      ? is_whole(f->v)
                    : t->type == JSON_DOUBLE ? is_number(f->v)
                                             : f->v->type == t->type;
        if (fits) {
            buf_fini(&wanted);
            return 0;
        }
        if (e != NULL) {
            buf_addf(&wanted, "%s%s", i == 0 ? "" : " or ", t->spoken);
        }
    }
    int rc = at(f->p, e,
                err_set(e, ERR_INVALID, "must be %s, is %s", buf_z(&wanted), spoken_type(f->v)));
    buf_fini(&wanted);
    return rc;
}

/// Compare with a value of the schema; members of objects are looked for one by one.
static bool equals(const struct fitting *f, const struct json *one)
{
    return spend(f->p, f->v->type == JSON_OBJ ? (size_t)f->v->n * f->v->n / 64 + 1 : f->v->n + 1) &&
           json_equal(one, f->v);
}

static int fit_enum(const struct fitting *f, struct err *e)
{
    struct buf wanted = {.max = 120};
    json_foreach_item (one, f->rule) {
        if (equals(f, one)) {
            return 0;
        }
    }
    if (e == NULL) {
        return ERR_INVALID;
    }
    json_foreach_item (one, f->rule) {
        buf_addf(&wanted, "%s%s", wanted.n == 0 ? "" : ", ", show(one).z);
    }
    int rc = at(f->p, e,
                err_set(e, ERR_INVALID, "must be one of %s%s", buf_z(&wanted),
                        buf_ok(&wanted) ? "" : ", ..."));
    buf_fini(&wanted);
    return rc;
}

static int fit_const(const struct fitting *f, struct err *e)
{
    bool same = equals(f, f->rule);
    if (same || e == NULL) {
        return same ? 0 : ERR_INVALID;
    }
    return at(f->p, e, err_set(e, ERR_INVALID, "must be %s", show(f->rule).z));
}

/// Below 0, 0, above 0; integers as such, since doubles would call different big ones equal.
static int compare(const struct json *a, const struct json *b)
{
    if (a->type == JSON_INT && b->type == JSON_INT) {
        return (a->i > b->i) - (a->i < b->i);
    }
    double x = json_double(a, 0), y = json_double(b, 0);
    return (x > y) - (x < y);
}

/// Does a value that compares with the rule as `order` keep the bound of the keyword?
static bool keeps_bound(const struct keyword *k, int order)
{
    bool lower = strcmp(k->bound, "at least") == 0 || strcmp(k->bound, "more than") == 0;
    bool open = strstr(k->bound, "than") != NULL; // the bound itself does not fit
    return (order == 0 && !open) || (lower ? order > 0 : order < 0);
}

static int fit_range(const struct fitting *f, struct err *e)
{
    bool keeps = keeps_bound(f->k, compare(f->v, f->rule));
    if (keeps || e == NULL) {
        return keeps ? 0 : ERR_INVALID;
    }
    return at(f->p, e,
              err_set(e, ERR_INVALID, "must be %s %s, is %s", f->k->bound, show(f->rule).z,
                      show(f->v).z));
}

/// Characters of a string, items of an array.
static int fit_count(const struct fitting *f, struct err *e)
{
    size_t n = f->v->type == JSON_ARR ? f->v->n : 0;
    uint32_t cp;
    if (f->v->type == JSON_STR && !spend(f->p, f->v->s.n / 64)) {
        return ERR_INVALID;
    }
    for (struct str rest = f->v->type == JSON_ARR ? STR_NULL : f->v->s; rest.n != 0; n++) {
        rest = str_from(rest, utf8_decode(rest, &cp));
    }
    double has = (double)n, wanted = json_double(f->rule, 0);
    bool keeps = keeps_bound(f->k, (has > wanted) - (has < wanted));
    if (keeps || e == NULL) {
        return keeps ? 0 : ERR_INVALID;
    }
    return at(f->p, e,
              err_set(e, ERR_INVALID, "must have %s %s %s, has %zu", f->k->bound, show(f->rule).z,
                      f->v->type == JSON_ARR ? "items" : "characters", n));
}

/// Look for `names` names in an object of `n` members: a few steps.
static bool spend_lookups(const struct fitting *f, size_t names, size_t n)
{
    return spend(f->p, names / 4 + names * n / 64);
}

static int fit_required(const struct fitting *f, struct err *e)
{
    if (!spend_lookups(f, f->rule->n, f->v->n)) {
        return ERR_INVALID;
    }
    json_foreach_item (name, f->rule) {
        if (json_get_str(f->v, name->s) == NULL) {
            struct schema_place missing = below(f->p, name->s, 0);
            return at(&missing, e, err_set(e, ERR_INVALID, "is required"));
        }
    }
    return 0;
}

static int fit_properties(const struct fitting *f, struct err *e)
{
    int rc = spend_lookups(f, f->rule->n, f->v->n) ? 0 : ERR_INVALID;
    json_foreach_member (m, f->rule) {
        const struct json *v = rc == 0 ? json_get_str(f->v, m->key) : NULL;
        struct schema_place here = below(f->p, m->key, 0);
        rc = v != NULL ? fit(&m->value, v, &here, e) : rc;
    }
    return rc;
}

/// Members that `properties` does not name.
static int fit_more(const struct fitting *f, struct err *e)
{
    const struct json *known = json_get(f->schema, "properties");
    int rc = spend_lookups(f, f->v->n, known != NULL ? known->n : 0) ? 0 : ERR_INVALID;
    json_foreach_member (m, f->v) {
        struct schema_place p = below(f->p, m->key, 0);
        if (rc < 0 || json_get_str(known, m->key) != NULL) {
            continue;
        }
        if (f->rule->type == JSON_OBJ) {
            rc = fit(f->rule, &m->value, &p, e);
        } else if (!f->rule->b) {
            rc = e == NULL
                     ? ERR_INVALID
                     : at(&p, e, err_set(e, ERR_INVALID, "is not known%s", guess(known, m->key).z));
        }
    }
    return rc;
}

static int fit_items(const struct fitting *f, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < f->v->n && rc == 0; i++) {
        struct schema_place here = below(f->p, STR_NULL, i);
        rc = fit(f->rule, json_at(f->v, i), &here, e);
    }
    return rc;
}

/// At least one of the forms, or exactly one.
static int fit_forms(const struct fitting *f, struct err *e)
{
    size_t n = 0;
    json_foreach_item (form, f->rule) {
        n += fit(form, f->v, f->p, NULL) == 0;
    }
    if (n == 0) {
        return at(f->p, e,
                  err_set(e, ERR_INVALID, "fits none of the %u forms allowed", f->rule->n));
    }
    if (n > 1 && strcmp(f->k->name, "oneOf") == 0) {
        return at(f->p, e, err_set(e, ERR_INVALID, "fits %zu forms, must fit exactly one", n));
    }
    return 0;
}

static int fit_all_of(const struct fitting *f, struct err *e)
{
    int rc = 0;
    json_foreach_item (form, f->rule) {
        rc = rc < 0 ? rc : fit(form, f->v, f->p, e);
    }
    return rc;
}

// ---- the table ------------------------------------------------------------------------------

enum {
    ON_STR = 1 << JSON_STR,
    ON_ARR = 1 << JSON_ARR,
    ON_OBJ = 1 << JSON_OBJ,
    ON_NUMBER = 1 << JSON_INT | 1 << JSON_DOUBLE,
    ON_ALL = 0xff,
};

static const struct keyword keywords[] = {
    {"type", check_type, ON_ALL, fit_type, NULL},
    {"enum", check_list, ON_ALL, fit_enum, NULL},
    {"const", NULL, ON_ALL, fit_const, NULL},
    {"minimum", check_number, ON_NUMBER, fit_range, "at least"},
    {"maximum", check_number, ON_NUMBER, fit_range, "at most"},
    {"exclusiveMinimum", check_number, ON_NUMBER, fit_range, "more than"},
    {"exclusiveMaximum", check_number, ON_NUMBER, fit_range, "less than"},
    {"minLength", check_count, ON_STR, fit_count, "at least"},
    {"maxLength", check_count, ON_STR, fit_count, "at most"},
    {"minItems", check_count, ON_ARR, fit_count, "at least"},
    {"maxItems", check_count, ON_ARR, fit_count, "at most"},
    {"required", check_names, ON_OBJ, fit_required, NULL},
    {"properties", check_properties, ON_OBJ, fit_properties, NULL},
    {"additionalProperties", check_more, ON_OBJ, fit_more, NULL},
    {"items", check, ON_ARR, fit_items, NULL},
    {"anyOf", check_forms, ON_ALL, fit_forms, NULL},
    {"oneOf", check_forms, ON_ALL, fit_forms, NULL},
    {"allOf", check_forms, ON_ALL, fit_all_of, NULL},
    {"default", NULL, 0, NULL, NULL},
    {"description", check_text, 0, NULL, NULL},
    {"title", check_text, 0, NULL, NULL},
    {"format", check_text, 0, NULL, NULL},
    {"examples", NULL, 0, NULL, NULL},
    {"$schema", NULL, 0, NULL, NULL},
    {"$id", NULL, 0, NULL, NULL},
    {"$comment", NULL, 0, NULL, NULL},
    {"deprecated", NULL, 0, NULL, NULL},
    {"readOnly", NULL, 0, NULL, NULL},
    {"writeOnly", NULL, 0, NULL, NULL},
    {"contentEncoding", NULL, 0, NULL, NULL},
    {"contentMediaType", NULL, 0, NULL, NULL},
};

// clang-format off
/// Of the standard, and about validity.
static const char *const unsupported[] = {
    "$anchor", "$defs", "$dynamicAnchor", "$dynamicRef", "$ref", "additionalItems", "contains",
    "contentSchema", "definitions", "dependencies", "dependentRequired", "dependentSchemas",
    "else", "if", "maxContains", "maxProperties", "minContains", "minProperties", "multipleOf",
    "not", "pattern", "patternProperties", "prefixItems", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties", "uniqueItems"};
// clang-format on

static int check_keyword(const struct json_member *m, const struct schema_place *p, struct err *e)
{
    const char *names[ARRAY_LEN(keywords)];
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++) {
        names[i] = keywords[i].name;
    }
    ptrdiff_t found = str_lookup(m->key, names, ARRAY_LEN(names));
    if (found < 0 && str_lookup(m->key, unsupported, ARRAY_LEN(unsupported)) >= 0) {
        return at(
            p, e,
            err_set(e, ERR_UNSUPPORTED, "'%.*s' is not supported here", (int)m->key.n, m->key.p));
    }
    if (found < 0) {
        return str_starts(m->key, "x-")
                   ? 0
                   : unknown("keyword", m->key, str_nearest(m->key, names, ARRAY_LEN(names)), p, e);
    }
    struct schema_place here = below(p, m->key, 0);
    return keywords[found].check != NULL ? keywords[found].check(&m->value, &here, e) : 0;
}

static int check(const struct json *schema, const struct schema_place *p, struct err *e)
{
    if (schema->type == JSON_BOOL) {
        return at(p, e, err_set(e, ERR_UNSUPPORTED, "a boolean as a schema is not supported here"));
    }
    int rc = expect(schema, JSON_OBJ, "an object", p, e);
    json_foreach_member (m, schema) {
        rc = may_worsen(rc) ? worse(rc, check_keyword(m, p, e)) : rc;
    }
    const struct json *fallback = json_get(schema, "default");
    if (rc == 0 && fallback != NULL) { // what we fill in ourselves must not be refused afterwards
        struct schema_place here = below(p, STR("default"), 0);
        rc = fit(schema, fallback, &here, e);
        rc = *p->left == 0 ? at(&here, e, err_set(e, ERR_INVALID, too_large)) : rc;
    }
    return rc;
}

static int fit(const struct json *schema, const struct json *v, const struct schema_place *p,
               struct err *e)
{
    if (!spend(p, 1)) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++) {
        const struct keyword *k = &keywords[i];
        struct fitting f = {.k = k, .schema = schema, .v = v, .p = p};
        if ((k->kinds & 1u << v->type) == 0 || (f.rule = json_get(schema, k->name)) == NULL) {
            continue;
        }
        assert(k->fit != NULL);
        int rc = k->fit(&f, e);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

int schema_check(const struct json *schema, struct err *e)
{
    size_t left = SCHEMA_STEPS;
    return schema != NULL ? check(schema, &(struct schema_place){.left = &left}, e) : 0;
}

int schema_fit(const struct json *schema, const struct json *value, const char *root, struct err *e)
{
    static const struct json absent = {.type = JSON_NULL};
    size_t left = SCHEMA_STEPS;
    struct schema_place p = {.key = str_of(root), .left = &left};
    if (schema == NULL) {
        return 0;
    }
    int rc = fit(schema, value != NULL ? value : &absent, &p, e);
    return left == 0 ? at(&p, e, err_set(e, ERR_INVALID, too_large)) : rc;
}
