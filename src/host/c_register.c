// What a plugin in C offers: the lists of its structure, functions that have the name of a hook point, and what it adds while it
// runs. All of it is in `far.entries`.
//
//     struct afloat_tool ── add() ──> struct c_entry {ref, kind, a copy} ── register{ref, kind, ...} ──> hub
//                                       └── off(ref) ── unregister{ref}
//
// Invariants:
//   - an entry is never freed: a turn that still has it may call it after it was taken back.
//   - of the kinds that are called by name, no two entries that are on have the same one.

#include <assert.h>
#include <dlfcn.h>

#include "base/schema.h"
#include "base/time.h"
#include "hook/points.h"
#include "host/c_far.h"

afloat_fn *c_exported(const char *name)
{
    afloat_fn *fn = NULL;
    void *at = dlsym(far.library, name);
    memcpy(&fn, &at, sizeof fn); // as POSIX has it: a pointer to data becomes one to a function
    return fn;
}

// ---- how each kind is told to the hub --------------------------------------------------------

/// Write the texts that are given: keys and values in turns.
#define WRITE_TEXTS(w, ...) write_texts(w, (const char *const[]){__VA_ARGS__, NULL})

static void write_texts(struct jw *w, const char *const *pairs)
{
    for (; pairs[0] != NULL; pairs += 2) {
        if (pairs[1] != NULL) {
            jw_kstrz(w, pairs[0], pairs[1]);
        }
    }
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static int write_hook(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_hook *h = entry;
    const struct hook_point *p = hook_point_find(str_of(h->point));
    if (p == NULL || strcmp(p->name, h->point) != 0) {
        return err_set(e, ERR_INVALID, "there is no hook point '%s'", h->point);
    }
    WRITE_TEXTS(w, "point", h->point, "on_error", h->block ? "block" : "continue");
    jw_kint(w, "priority", h->priority);
    jw_kint(w, "timeout_ms", h->timeout_ms);
    if (h->tool != NULL) {
        jw_kstrz(w, "tool", h->tool);
    }
    return 0;
}

static int write_tool(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_tool *t = entry;
    struct arena a = {0};
    struct json *input = NULL;
    struct str text = arena_str(&a, str_of(t->input != NULL ? t->input : "{\"type\":\"object\"}"));
    int rc = json_parse(&input, &a, text, NULL, e);
    if (rc < 0 || input->type != JSON_OBJ) {
        rc = err_set(e, ERR_INVALID, "tool '%s': its input is no JSON object", t->name);
    } else {
        const struct json *schema = t->input != NULL ? schema_from_short(&a, input) : input;
        rc = schema_check(schema, e);
        if (rc == ERR_UNSUPPORTED) { // the hub does not check it then
            rc = 0;
        } else if (rc < 0) {
            err_prefix(e, "tool '%s': input", t->name);
        }
        jw_kvalue(w, "input_schema", schema);
    }
    WRITE_TEXTS(w, "name", t->name, "description", or_empty(t->description));
    if (t->permission != NULL) {
        jw_kstrz(w, "permission", t->permission);
    }
    jw_kbool(w, "override", t->override);
    arena_fini(&a);
    return rc;
}

static int write_command(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_command *c = entry;
    (void)e;
    WRITE_TEXTS(w, "name", c->name, "description", or_empty(c->description));
    jw_kbool(w, "short", !c->is_long);
    return 0;
}

static int write_route(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_route *r = entry;
    (void)e;
    WRITE_TEXTS(w, "method", r->method, "path", or_empty(r->path));
    return 0;
}

static int write_prompt(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_prompt *p = entry;
    (void)e;
    jw_kint(w, "priority", p->priority);
    WRITE_TEXTS(w, "name", p->id, "text", p->text);
    return 0;
}

static int write_event(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_event *v = entry;
    (void)e;
    jw_kstrz(w, "name", v->name);
    return 0;
}

static int write_flag(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_flag *f = entry;
    struct arena a = {0};
    struct json *value;
    int rc = json_parse(&value, &a, str_of(f->value != NULL ? f->value : "false"), NULL, e);
    WRITE_TEXTS(w, "name", f->name, "flag_type", f->type != NULL ? f->type : "boolean",
                "description", or_empty(f->description));
    jw_kbool(w, "short", !f->is_long);
    jw_kvalue(w, "default", value);
    arena_fini(&a);
    return rc < 0 ? err_prefix(e, "flag '%s': its value is no JSON", f->name) : 0;
}

static int write_provider(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_provider *p = entry;
    (void)e;
    WRITE_TEXTS(w, "name", p->name, "description", or_empty(p->description));
    jw_karr(w, "models");
    for (size_t i = 0; p->models != NULL && p->models[i] != NULL; i++) {
        jw_strz(w, p->models[i]);
    }
    jw_end_arr(w);
    return 0;
}

/// Its arguments are names, or objects with `name`.
static int write_mcp_prompt(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_mcp_prompt *p = entry;
    struct arena a = {0};
    struct json *list = NULL;
    struct str text = str_of(p->arguments != NULL ? p->arguments : "[]");
    bool ok = json_parse(&list, &a, text, NULL, NULL) == 0 && list->type == JSON_ARR;
    WRITE_TEXTS(w, "name", p->name, "description", or_empty(p->description));
    jw_karr(w, "arguments");
    json_foreach_item (it, ok ? list : NULL) {
        jw_obj(w);
        if (it->type == JSON_STR) {
            jw_kstr(w, "name", it->s);
        }
        if (json_get(it, "required") == NULL) {
            jw_kbool(w, "required", false);
        }
        json_foreach_member (m, it) {
            jw_key_str(w, m->key);
            jw_value(w, &m->value);
        }
        jw_end_obj(w);
    }
    jw_end_arr(w);
    arena_fini(&a);
    return ok ? 0
              : err_set(e, ERR_INVALID, "mcp prompt '%s': its arguments are no JSON list", p->name);
}

static int write_mcp_resource(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_mcp_resource *r = entry;
    (void)e;
    jw_kbool(w, "template", strchr(r->uri, '{') != NULL);
    WRITE_TEXTS(w, "uri", r->uri, "name", r->name != NULL ? r->name : r->uri, "description",
                or_empty(r->description), "mimeType", r->mime);
    return 0;
}

/// The hub looks at paths only once the plugin is loaded.
static int write_watch(struct jw *w, const void *entry, struct err *e)
{
    const struct afloat_watch *v = entry;
    if (v->path[0] != '/' && v->path[0] != '~') {
        return err_set(e, ERR_INVALID, "watch: '%s' is not an absolute path", v->path);
    }
    WRITE_TEXTS(w, "path", v->path, "pattern", v->pattern);
    jw_kbool(w, "recursive", !v->flat);
    jw_kbool(w, "poll", v->poll);
    return 0;
}

static const struct c_kind kinds[] = {
#define KIND(label, plural, type, writer, is_unique)                                               \
    {                                                                                              \
        .name = (label), .list = offsetof(struct afloat_plugin, plural),                           \
        .size = sizeof(struct type), .run = offsetof(struct type, run), .write = (writer),         \
        .unique = (is_unique)                                                                      \
    }
    KIND("hook", hooks, afloat_hook, write_hook, false),
    KIND("tool", tools, afloat_tool, write_tool, true),
    KIND("command", commands, afloat_command, write_command, true),
    KIND("route", routes, afloat_route, write_route, true),
    KIND("prompt", prompts, afloat_prompt, write_prompt, true),
    KIND("event", events, afloat_event, write_event, false),
    KIND("provider", providers, afloat_provider, write_provider, true),
    KIND("mcp_prompt", mcp_prompts, afloat_mcp_prompt, write_mcp_prompt, true),
    KIND("mcp_resource", mcp_resources, afloat_mcp_resource, write_mcp_resource, true),
    KIND("timer", timers, afloat_timer, NULL, false), // run here: the hub does not know of them
    KIND("watch", watches, afloat_watch, write_watch, false),
#undef KIND
    {.name = "flag",
     .list = offsetof(struct afloat_plugin, flags),
     .size = sizeof(struct afloat_flag),
     .write = write_flag,
     .unique = true},
};

// ---- entries --------------------------------------------------------------------------------

static const struct c_kind *kind_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

/// The function of a structure of that kind; NULL: it has none.
static afloat_fn *run_of(const struct c_kind *k, const void *data)
{
    afloat_fn *run;
    memcpy(&run, (const char *)data + k->run, sizeof run);
    return k->run != 0 ? run : NULL;
}

afloat_fn *c_entry_run(const struct c_entry *n)
{
    afloat_fn *run = run_of(n->kind, n->data);
    assert(run != NULL);
    return run;
}

struct c_entry *c_entry_next(const char *kind, size_t *at)
{
    struct c_entry *found = NULL;
    pthread_mutex_lock(&far.lock);
    while (found == NULL && *at < far.entries.n) {
        struct c_entry *n = far.entries.p[(*at)++];
        found = !n->off && strcmp(n->kind->name, kind) == 0 ? n : NULL;
    }
    pthread_mutex_unlock(&far.lock);
    return found;
}

/// The newest that is on; else the newest that was. With the lock.
static struct c_entry *find(const char *kind, struct str name)
{
    struct c_entry *found = NULL;
    for (size_t i = far.entries.n; i > 0; i--) {
        struct c_entry *n = far.entries.p[i - 1];
        if (strcmp(n->kind->name, kind) == 0 && str_eqz(name, n->name) &&
            (found == NULL || (found->off && !n->off))) {
            found = n;
        }
    }
    return found;
}

struct c_entry *c_entry_find(const char *kind, struct str name)
{
    pthread_mutex_lock(&far.lock);
    struct c_entry *found = find(kind, name);
    pthread_mutex_unlock(&far.lock);
    return found;
}

struct c_entry *c_entry_at(int64_t ref)
{
    struct c_entry *found = NULL;
    pthread_mutex_lock(&far.lock);
    vec_foreach (n, &far.entries) {
        found = (*n)->ref == ref ? *n : found;
    }
    pthread_mutex_unlock(&far.lock);
    return found;
}

/// Keep it, unless another of its name is there; it is taken over.
static int keep(struct c_entry *n, struct err *e)
{
    assert(n->ref > 0 && n->kind != NULL && n->name != NULL);
    pthread_mutex_lock(&far.lock);
    const struct c_entry *other = n->kind->unique ? find(n->kind->name, str_of(n->name)) : NULL;
    bool taken = other != NULL && !other->off;
    if (!taken) {
        vec_push(&far.entries, n);
    }
    pthread_mutex_unlock(&far.lock);
    return taken ? err_set(e, ERR_CONFLICT, "%s '%s' is registered twice", n->kind->name, n->name)
                 : 0;
}

/// Is a structure of that kind whole: has it a name and a function? A prompt may have a text instead.
static int check_whole(const struct c_kind *k, const void *data, struct err *e)
{
    const char *name = *(const char *const *)data;
    const struct afloat_prompt *p = k->write == write_prompt ? data : NULL;
    if (name == NULL) {
        return err_set(e, ERR_INVALID, "a %s is registered without a %s", k->name,
                       k->write == write_route ? "method" : "name");
    }
    bool runs = k->run == 0 || run_of(k, data) != NULL || (p != NULL && p->text != NULL);
    return runs ? 0 : err_set(e, ERR_INVALID, "%s '%s' has no function", k->name, name);
}

/// Register a copy of the structure at `given`. Returns its number, or a negative code.
static int64_t add(const struct c_kind *k, const void *given, size_t size, struct err *e)
{
    struct c_entry *n = xcalloc(1, sizeof *n);
    struct buf line;
    struct jw w;
    n->kind = k;
    n->data = xcalloc(1, k->size);
    memcpy(n->data, given, MIN(size, k->size));
    int rc = check_whole(k, n->data, e);
    const struct afloat_route *r = n->data;
    n->name = rc < 0                    ? NULL
              : k->write == write_route ? xasprintf("%s %s", r->method, or_empty(r->path))
                                        : xstrdup(*(const char *const *)n->data);
    pthread_mutex_lock(&far.lock);
    int64_t ref = n->ref = ++far.last_ref;
    pthread_mutex_unlock(&far.lock);
    c_begin(&w, &line, "register", 0);
    jw_kstrz(&w, "kind", k->name);
    jw_kint(&w, "ref", ref);
    jw_kint(&w, "handler", ref); // of a hook
    rc = rc == 0 && k->write != NULL ? k->write(&w, n->data, e) : rc;
    rc = rc == 0 ? keep(n, e) : rc;
    if (rc == 0 && k->write != NULL) {
        c_send_later(&w, &line);
        return ref;
    }
    buf_fini(&line);
    if (rc < 0) {
        free(n->name);
        free(n->data);
        free(n);
        return rc;
    }
    c_timers_changed();
    return ref;
}

long long c_add(const char *kind, const void *entry, size_t size)
{
    const struct c_kind *k = kind_find(kind);
    struct err e = {0};
    int64_t ref = k == NULL     ? err_set(&e, ERR_INVALID, "afloat_add: no kind '%s'", kind)
                  : far.leaving ? err_set(&e, ERR_CONFLICT,
                                          "%s: stale handle: this version has been replaced", kind)
                                : add(k, entry, size, &e);
    if (ref < 0) {
        c_log("error", "%s", e.msg);
    }
    return ref > 0 ? ref : 0;
}

long long c_find(const char *kind, const char *name)
{
    const struct c_entry *n = c_entry_find(kind, str_of(name));
    return n != NULL && !n->off ? n->ref : 0;
}

bool c_off(long long id)
{
    struct c_entry *n = c_entry_at(id);
    struct buf line;
    struct jw w;
    pthread_mutex_lock(&far.lock);
    bool was_on = n != NULL && !n->off && !far.leaving;
    if (was_on) {
        n->off = true;
    }
    pthread_mutex_unlock(&far.lock);
    if (was_on && n->kind->write != NULL) {
        c_begin(&w, &line, "unregister", 0);
        jw_kint(&w, "ref", id);
        c_send_later(&w, &line);
    }
    return was_on;
}

int c_register_all(struct err *e)
{
    for (size_t i = 0; i < POINT__COUNT; i++) {
        afloat_fn *fn = c_exported(hook_points[i].name);
        const struct afloat_hook h = {.point = hook_points[i].name, .run = fn};
        if (fn != NULL && add(kind_find("hook"), &h, sizeof h, e) < 0) {
            return e->code;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const char *at;
        memcpy(&at, (const char *)far.plugin + kinds[i].list, sizeof at);
        for (; at != NULL && *(const char *const *)(const void *)at != NULL; at += kinds[i].size) {
            if (add(&kinds[i], at, kinds[i].size, e) < 0) {
                return e->code;
            }
        }
    }
    return 0;
}
