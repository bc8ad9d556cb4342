// What a plugin in C offers, told to the hub: functions that have the name of a hook point, and the lists of its structure.

#include <dlfcn.h>
#include <stdarg.h>

#include "base/schema.h"
#include "host/c_far.h"

const struct c_point c_points[C_POINTS] = {
    {"on_begin", {NULL}},
    {"on_user_message", {"text"}},
    {"on_before_model", {"request"}},
    {"on_model_delta", {"delta"}},
    {"on_after_model", {"response"}},
    {"on_tool_call", {"call"}},
    {"on_permission", {"call"}},
    {"on_resolve_tool", {"call"}},
    {"on_tool_result", {"call", "result"}},
    {"on_compact", {"summary"}},
    {"on_final", {"text"}},
    {"on_done", {NULL}},
    {"on_error", {"error"}},
};

const void *c_find_entry(const void *list, size_t size, struct str name)
{
    const char *at = list;
    while (at != NULL && *(const char *const *)(const void *)at != NULL) {
        if (str_eqz(name, *(const char *const *)(const void *)at)) {
            return at;
        }
        at += size;
    }
    return NULL;
}
afloat_fn *c_exported(const char *name)
{
    afloat_fn *fn = NULL;
    void *at = dlsym(far.library, name);
    memcpy(&fn, &at, sizeof fn); // as POSIX has it: a pointer to data becomes one to a function
    return fn;
}

static void register_hook(const struct afloat_hook *h)
{
    struct buf line;
    struct jw w;
    vec_push(&far.hooks, ((struct hook){h->point, h->run}));
    c_begin(&w, &line, "register", 0);
    jw_kstrz(&w, "kind", "hook");
    jw_kstrz(&w, "point", h->point);
    jw_kint(&w, "handler", (int64_t)far.hooks.n);
    jw_kint(&w, "priority", h->priority);
    jw_kint(&w, "timeout_ms", h->timeout_ms);
    if (h->tool != NULL) {
        jw_kstrz(&w, "tool", h->tool);
    }
    if (h->block) {
        jw_kstrz(&w, "on_error", "block");
    }
    c_send(&w, &line);
}

static bool register_hooks(struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(c_points); i++) {
        afloat_fn *fn = c_exported(c_points[i].name);
        if (fn != NULL) {
            register_hook(&(struct afloat_hook){.point = c_points[i].name, .run = fn});
        }
    }
    for (const struct afloat_hook *h = far.plugin->hooks; h != NULL && h->point != NULL; h++) {
        size_t at = 0;
        while (at < ARRAY_LEN(c_points) && strcmp(c_points[at].name, h->point) != 0) {
            at++;
        }
        if (at == ARRAY_LEN(c_points)) {
            err_set(e, ERR_INVALID, "there is no hook point '%s'", h->point);
            return false;
        }
        register_hook(h);
    }
    return true;
}

/// {"type":"register","kind":KIND,KEY:VALUE,...}: keys and values in turns, NULL at the end; a value that is NULL is left out.
static void register_named(const char *kind, ...)
{
    struct buf line;
    struct jw w;
    va_list ap;
    const char *key;
    c_begin(&w, &line, "register", 0);
    jw_kstrz(&w, "kind", kind);
    va_start(ap, kind);
    while ((key = va_arg(ap, const char *)) != NULL) {
        const char *value = va_arg(ap, const char *);
        if (value != NULL) {
            jw_kstrz(&w, key, value);
        }
    }
    va_end(ap);
    c_send(&w, &line);
}

/// The schema of a tool's input as JSON text in `a`; NULL and `e`.
static const struct json *schema_of(const struct afloat_tool *t, struct arena *a, struct err *e)
{
    struct json *input = NULL;
    struct str text = arena_str(a, str_of(t->input != NULL ? t->input : "{\"type\":\"object\"}"));
    if (json_parse(&input, a, text, NULL, e) < 0 || input->type != JSON_OBJ) {
        err_set(e, ERR_INVALID, "tool '%s': its input is no JSON object", t->name);
        return NULL;
    }
    struct json *schema = t->input != NULL ? schema_from_short(a, input) : input;
    if (schema_check(schema, e) < 0) {
        err_prefix(e, "tool '%s': input", t->name);
        return NULL;
    }
    return schema;
}

static bool register_tools(struct err *e)
{
    bool ok = true;
    for (const struct afloat_tool *t = far.plugin->tools; ok && t != NULL && t->name != NULL; t++) {
        struct buf line;
        struct jw w;
        struct arena a;
        arena_init(&a);
        const struct json *schema = schema_of(t, &a, e);
        ok = schema != NULL && t->run != NULL;
        if (schema != NULL && t->run == NULL) {
            err_set(e, ERR_INVALID, "tool '%s' has no function", t->name);
        }
        c_begin(&w, &line, "register", 0);
        jw_kstrz(&w, "kind", "tool");
        jw_kstrz(&w, "name", t->name);
        jw_kstrz(&w, "description", t->description != NULL ? t->description : "");
        jw_kvalue(&w, "input_schema", schema);
        if (t->permission != NULL) {
            jw_kstrz(&w, "permission", t->permission);
        }
        jw_kbool(&w, "override", t->override);
        c_send(&w, &line);
        arena_fini(&a);
    }
    return ok;
}

static void register_prompts(void)
{
    for (const struct afloat_prompt *p = far.plugin->prompts; p != NULL && p->id != NULL; p++) {
        struct buf line;
        struct jw w;
        c_begin(&w, &line, "register", 0);
        jw_kstrz(&w, "kind", "prompt");
        jw_kstrz(&w, "name", p->id);
        jw_kint(&w, "priority", p->priority);
        if (p->text != NULL) {
            jw_kstrz(&w, "text", p->text);
        }
        c_send(&w, &line);
    }
}

static void register_flags(void)
{
    for (const struct afloat_flag *f = far.plugin->flags; f != NULL && f->name != NULL; f++) {
        struct buf line;
        struct jw w;
        c_begin(&w, &line, "register", 0);
        jw_kstrz(&w, "kind", "flag");
        jw_kstrz(&w, "name", f->name);
        jw_kstrz(&w, "flag_type", f->type != NULL ? f->type : "boolean");
        jw_kstrz(&w, "description", f->description != NULL ? f->description : "");
        jw_key(&w, "default");
        jw_raw(&w, str_of(f->value != NULL ? f->value : "false"));
        c_send(&w, &line);
    }
}

static void register_providers(void)
{
    for (const struct afloat_provider *p = far.plugin->providers; p != NULL && p->name != NULL;
         p++) {
        struct buf line;
        struct jw w;
        c_begin(&w, &line, "register", 0);
        jw_kstrz(&w, "kind", "provider");
        jw_kstrz(&w, "name", p->name);
        jw_kstrz(&w, "description", p->description != NULL ? p->description : "");
        jw_karr(&w, "models");
        for (size_t i = 0; p->models != NULL && p->models[i] != NULL; i++) {
            jw_strz(&w, p->models[i]);
        }
        jw_end_arr(&w);
        c_send(&w, &line);
    }
}

/// The arguments of a prompt: names, or objects with `name`.
static bool write_arguments(struct jw *w, const struct afloat_mcp_prompt *p, struct err *e)
{
    struct arena a;
    struct json *list = NULL;
    arena_init(&a);
    struct str text = str_of(p->arguments != NULL ? p->arguments : "[]");
    bool ok = json_parse(&list, &a, text, NULL, NULL) == 0 && list->type == JSON_ARR;
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
    if (!ok) {
        err_set(e, ERR_INVALID, "mcp prompt '%s': its arguments are no JSON list", p->name);
    }
    return ok;
}

static bool register_mcp(struct err *e)
{
    bool ok = true;
    for (const struct afloat_mcp_prompt *p = far.plugin->mcp_prompts;
         ok && p != NULL && p->name != NULL; p++) {
        struct buf line;
        struct jw w;
        c_begin(&w, &line, "register", 0);
        jw_kstrz(&w, "kind", "mcp_prompt");
        jw_kstrz(&w, "name", p->name);
        jw_kstrz(&w, "description", p->description != NULL ? p->description : "");
        ok = write_arguments(&w, p, e);
        c_send(&w, &line);
    }
    for (const struct afloat_mcp_resource *r = far.plugin->mcp_resources;
         ok && r != NULL && r->uri != NULL; r++) {
        struct buf line;
        struct jw w;
        c_begin(&w, &line, "register", 0);
        jw_kstrz(&w, "kind", "mcp_resource");
        jw_kstrz(&w, "uri", r->uri);
        jw_kbool(&w, "template", strchr(r->uri, '{') != NULL);
        jw_kstrz(&w, "name", r->name != NULL ? r->name : r->uri);
        jw_kstrz(&w, "description", r->description != NULL ? r->description : "");
        if (r->mime != NULL) {
            jw_kstrz(&w, "mimeType", r->mime);
        }
        c_send(&w, &line);
    }
    return ok;
}

bool c_register_all(struct err *e)
{
    const struct afloat_plugin *p = far.plugin;
    if (!register_hooks(e) || !register_tools(e)) {
        return false;
    }
    for (const struct afloat_command *c = p->commands; c != NULL && c->name != NULL; c++) {
        register_named("command", "name", c->name, "description", c->description, NULL);
    }
    for (const struct afloat_route *r = p->routes; r != NULL && r->method != NULL; r++) {
        register_named("route", "method", r->method, "path", r->path, NULL);
    }
    for (const struct afloat_event *v = p->events; v != NULL && v->name != NULL; v++) {
        register_named("event", "name", v->name, NULL);
    }
    register_prompts();
    register_flags();
    register_providers();
    return register_mcp(e);
}
