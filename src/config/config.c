// The effective configuration: lookups and the JSON that people see.
//
// load.c puts entries in, lowest layer first; config__finish() sorts them; from then on nothing
// changes, so every thread may read without a lock.
//
//     index: key ──> slot <── slots, sorted      slot: key, value, origin, file and line
//
// Keys sort with their numbers as numbers (plugins.2 before plugins.10), and all keys of one
// `providers.NAME.` are neighbours, which config_next_name() relies on.
//
// Not done here: choices made by commands (choices.json) and the environment of a client.

#include "config/config.h"

#include <assert.h>

#include "config/config_int.h"

enum { KEY_MAX = 4096 };

static const char *const origin_names[] = {
    [CONFIG_DEFAULT] = "default", [CONFIG_SYSTEM] = "system",           [CONFIG_USER] = "user",
    [CONFIG_PROJECT] = "project", [CONFIG_ENVIRONMENT] = "environment", [CONFIG_FLAG] = "flag",
    [CONFIG_POLICY] = "policy",
};

static const char *const *list_of(struct arena *a, const struct json *v)
{
    if (v->type != JSON_ARR) {
        return NULL;
    }
    const char **list = arena_calloc(a, v->n + 1, sizeof *list);
    for (size_t i = 0; i < v->n; i++) {
        list[i] = v->items[i].s.p;
    }
    return list;
}

static int by_key(const void *a, const void *b)
{
    const struct config__slot *const *x = a, *const *y = b;
    return strverscmp((*x)->entry.key, (*y)->entry.key);
}

void config__put(struct config *c, const struct schema__key *key, struct config_entry entry)
{
    struct config__slot *s = map_get(&c->index, str_of(entry.key));
    if (s == NULL) {
        s = arena_calloc(&c->arena, 1, sizeof *s);
        map_set(&c->index, str_of(entry.key), s);
    }
    s->entry = entry;
    s->key = key;
    s->list = key != NULL ? list_of(&c->arena, entry.value) : NULL;
}

void config__finish(struct config *c)
{
    struct str key;
    void *slot;

    c->slots = arena_calloc(&c->arena, c->index.n, sizeof(void *));
    for (size_t at = 0; map_next(&c->index, &at, &key, &slot);) {
        c->slots[c->n++] = slot;
    }
    qsort(c->slots, c->n, sizeof(void *), by_key);
}

void config_free(struct config *c)
{
    if (c == NULL) {
        return;
    }
    map_fini(&c->index);
    arena_fini(&c->arena);
    free(c);
}

// ---- reading --------------------------------------------------------------------------------

static const struct config__slot *slot_of(const struct config *c, const char *key)
{
    const struct config__slot *s = map_get(&c->index, str_of(key));
    assert(s != NULL); // not in keys.def, or without a default
    return s;
}

const char *config_left_out(const struct config *c)
{
    return c->left_out;
}

const char *config_str(const struct config *c, const char *key)
{
    const struct json *v = slot_of(c, key)->entry.value;
    assert(v->type == JSON_STR);
    return v->s.p;
}

int64_t config_int(const struct config *c, const char *key)
{
    const struct json *v = slot_of(c, key)->entry.value;
    assert(v->type == JSON_INT);
    return v->i;
}

bool config_bool(const struct config *c, const char *key)
{
    const struct json *v = slot_of(c, key)->entry.value;
    assert(v->type == JSON_BOOL);
    return v->b;
}

const char *const *config_strings(const struct config *c, const char *key)
{
    const struct config__slot *s = slot_of(c, key);
    assert(s->key->type == SCHEMA_STRINGS || s->key->type == SCHEMA_CHOICE);
    return s->list;
}

const struct config_entry *config_find(const struct config *c, const char *key)
{
    const struct config__slot *s = map_get(&c->index, str_of(key));
    return s != NULL ? &s->entry : NULL;
}

const struct config_entry *config_find_named(const struct config *c, const char *pattern,
                                             const char *name)
{
    const char *star = strchr(pattern, '*');
    assert(star != NULL);
    struct buf key = {.max = KEY_MAX};
    buf_add(&key, pattern, (size_t)(star - pattern));
    schema__add_name(&key, str_of(name));
    buf_addz(&key, star + 1);
    const struct config_entry *found = buf_ok(&key) ? config_find(c, buf_z(&key)) : NULL;
    buf_fini(&key);
    return found;
}

/// Whether slot `i` is a setting of a named table in `table`.
static bool is_named_in(const struct config *c, size_t i, const char *table)
{
    const struct config_entry *e = &c->slots[i]->entry;
    size_t n = strlen(table);
    return e->name != NULL && strncmp(e->key, table, n) == 0 && e->key[n] == '.';
}

const char *config_next_name(const struct config *c, const char *table, size_t *at)
{
    while (*at < c->n) {
        size_t i = (*at)++;
        const char *name = c->slots[i]->entry.name;
        if (is_named_in(c, i, table) && (i == 0 || !is_named_in(c, i - 1, table) ||
                                         strcmp(c->slots[i - 1]->entry.name, name) != 0)) {
            return name;
        }
    }
    return NULL;
}

const struct config_entry *config_next(const struct config *c, size_t *at)
{
    return *at < c->n ? &c->slots[(*at)++]->entry : NULL;
}

bool config_is_policy(const struct config *c, const char *key)
{
    return slot_of(c, key)->entry.origin == CONFIG_POLICY;
}

const char *config_allowed(const struct config *c, const char *key, const char *asked)
{
    struct json wish = {.type = JSON_STR, .s = str_of(asked)};
    const struct config_entry *e = &slot_of(c, key)->entry;
    bool wider = e->origin == CONFIG_POLICY &&
                 !schema__not_wider(schema__find(str_of(key)), &wish, e->value);
    return wider ? e->value->s.p : asked;
}

const char *config_origin_name(enum config_origin origin)
{
    return origin_names[origin];
}

// ---- JSON -----------------------------------------------------------------------------------

/// Keys of options end in a NUL, as all text out of TOML does.
static bool looks_secret(struct str key)
{
    static const char *const words[] = {"key",    "secret",     "token",
                                        "passw",  "passphrase", "credential",
                                        "cookie", "bearer",     "authorization"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasestr(key.p, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/// The query of a URL, without the values of parameters whose name looks secret.
static void add_query(struct buf *out, struct arena *a, struct str query)
{
    while (query.n != 0) {
        bool more = memchr(query.p, '&', query.n) != NULL;
        struct str value = str_cut(&query, '&'), name = str_cut(&value, '=');
        bool hide = value.n != 0 && looks_secret(str_of(arena_strdup(a, name)));
        buf_addf(out, value.p != NULL ? STR_FMT "=" : STR_FMT, STR_ARG(name));
        buf_adds(out, hide ? STR("[redacted]") : value);
        buf_addz(out, more ? "&" : "");
    }
}

/// A text that is a URL, without the password and the secret parameters in it. In `a` when it had to change.
static struct str without_password(struct arena *a, struct str text)
{
    const char *scheme = text.n != 0 ? memmem(text.p, text.n, "://", 3) : NULL;
    if (scheme == NULL) {
        return text;
    }
    struct buf out = {.max = SIZE_MAX};
    struct str query = str_from(text, (size_t)(scheme - text.p) + 3), place = str_cut(&query, '?');
    struct str path = place, host = str_cut(&path, '/');
    const char *at = memrchr(host.p, '@', host.n), *colon = memchr(host.p, ':', host.n);
    buf_add(&out, text.p, (size_t)(place.p - text.p));
    if (at != NULL && colon != NULL && colon < at) {
        buf_add(&out, place.p, (size_t)(colon + 1 - place.p));
        buf_addz(&out, "[redacted]");
        place = str_from(place, (size_t)(at - place.p));
    }
    buf_adds(&out, place);
    buf_addz(&out, query.p != NULL ? "?" : "");
    add_query(&out, a, query);
    text = str_of(arena_strdup(a, buf_str(&out)));
    buf_fini(&out);
    return text;
}

/// Replace members of objects whose name looks secret, and passwords in URLs. Bounded by the depth of TOML.
static void blank_secrets(struct arena *a, struct json *v)
{
    for (uint32_t i = 0; v->type == JSON_OBJ && i < v->n; i++) {
        struct json_member *m = &v->members[i];
        if (looks_secret(m->key)) {
            m->value = (struct json){.type = JSON_STR, .s = STR("[redacted]")};
        } else {
            blank_secrets(a, &m->value);
        }
    }
    for (uint32_t i = 0; v->type == JSON_ARR && i < v->n; i++) {
        blank_secrets(a, &v->items[i]);
    }
    if (v->type == JSON_STR) {
        v->s = without_password(a, v->s);
    }
}

struct json *config_values(const struct config *c, struct arena *a)
{
    const struct config_entry *e;
    struct json *all = arena_alloc(a, sizeof *all);
    *all = (struct json){.type = JSON_OBJ};
    all->members = arena_alloc(a, (c->n + 1) * sizeof *all->members);
    for (size_t at = 0; (e = config_next(c, &at)) != NULL;) {
        struct json *v = json_clone(a, e->value);
        blank_secrets(a, v);
        all->members[all->n++] = (struct json_member){str_of(e->key), *v};
    }
    return all;
}

static void write_entry(struct jw *w, const struct config_entry *e, const struct json *value)
{
    jw_obj(w);
    jw_kstrz(w, "key", e->key);
    jw_key(w, "value");
    jw_value(w, value);
    jw_kstrz(w, "origin", config_origin_name(e->origin));
    if (e->path != NULL) {
        jw_kstrz(w, "path", e->path);
    }
    if (e->line != 0) {
        jw_kint(w, "line", e->line);
    }
    jw_end_obj(w);
}

void config_write_json(const struct config *c, const struct config_diags *d, struct jw *w)
{
    struct arena a = {0};

    const struct json *values = config_values(c, &a);
    jw_obj(w);
    jw_karr(w, "values");
    for (size_t i = 0; i < c->n; i++) {
        write_entry(w, &c->slots[i]->entry, &values->members[i].value);
    }
    jw_end_arr(w);
    arena_fini(&a);
    jw_key(w, "diagnostics");
    config_diags_write(d, w);
    jw_end_obj(w);
}
