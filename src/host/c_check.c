// A plugin in C looked at without any effect: what it would register, and what its tests say.

#include "hook/points.h"
#include "host/c_far.h"
#include "host/c_int.h"
#include "host/validate.h"

const char *c_try(struct afloat_call *outer, const char *kind, const char *name, const char *json)
{
    struct afloat_call *c = c_call_new(0);
    const struct c_entry *n = c_entry_find(kind, str_of(name));
    bool called = strcmp(kind, "tool") == 0 || strcmp(kind, "command") == 0;
    afloat_fn *run = n != NULL && (called || strcmp(kind, "hook") == 0) ? c_entry_run(n) : NULL;
    struct json *given = NULL;
    struct err e = {0};
    c_call_arg(c, "ctx", NULL);
    struct str text = arena_str(&c->arena, str_of(json));
    const char *out = NULL;
    if (run != NULL && json_parse(&given, &c->arena, text, NULL, &e) == 0) {
        if (!called) {
            json_foreach_member (m, given) {
                c->last = arena_strdup(&c->arena, m->key);
                c_call_arg(c, c->last, &m->value);
            }
        } else {
            c_call_arg(c, strcmp(kind, "tool") == 0 ? "input" : "args", given);
        }
        run(c);
        out = c_call_check(c, &e) == 0 ? arena_strdup(&outer->arena, buf_str(&c->answer)) : NULL;
    }
    c_call_free(c);
    return out;
}

static void write_tests(struct jw *w)
{
    jw_karr(w, "tests");
    for (const struct afloat_test *t = far.plugin->tests; t != NULL && t->name != NULL; t++) {
        struct afloat_call *c = c_call_new(0);
        struct err e = {0};
        t->run(c);
        bool ok = c_call_check(c, &e) == 0;
        jw_obj(w);
        jw_kstrz(w, "name", t->name);
        jw_kbool(w, "ok", ok);
        if (!ok) {
            jw_kstrz(w, "error", e.msg);
        }
        jw_end_obj(w);
        c_call_free(c);
    }
    jw_end_arr(w);
}

/// The names of all of a kind, as a list of that key.
static void write_names(struct jw *w, const char *key, const char *kind)
{
    size_t at = 0;
    jw_karr(w, key);
    for (const struct c_entry *n; (n = c_entry_next(kind, &at)) != NULL;) {
        jw_strz(w, n->name);
    }
    jw_end_arr(w);
}

static void write_account(struct jw *w, const struct json *request)
{
    jw_kobj(w, "value");
    jw_kstr(w, "name", json_str(json_get(request, "name"), ""));
    jw_karr(w, "hooks");
    for (size_t i = 0; i < POINT__COUNT; i++) {
        if (c_find("hook", hook_points[i].name) != 0) {
            jw_strz(w, hook_points[i].name);
        }
    }
    jw_end_arr(w);
    c_write_metadata(w, json_str(json_get(request, "name"), ""));
    write_names(w, "tools", "tool");
    write_names(w, "commands", "command");
    write_names(w, "routes", "route");
    jw_kobj(w, "contributions"); // what has no list of its own above
    write_names(w, "providers", "provider");
    write_names(w, "mcp_prompts", "mcp_prompt");
    write_names(w, "timers", "timer");
    write_names(w, "watches", "watch");
    jw_end_obj(w);
    if (json_bool(json_get(request, "test"), false)) {
        write_tests(w);
    }
    jw_end_obj(w);
}

void c_validate(struct jw *w)
{
    struct buf in = {.max = HOST_REQUEST_MAX};
    struct arena a = {0};
    struct json *request = NULL;
    struct c_fault fault = {0};
    bool ok = host_read_request(&in) == 0 &&
              json_parse(&request, &a, buf_str(&in), NULL, NULL) == 0 && c_load(request, &fault);
    jw_kbool(w, "ok", ok);
    if (ok) {
        write_account(w, request);
    } else {
        jw_kstrz(w, "message",
                 fault.message != NULL ? fault.message : "the request cannot be read");
        jw_kstr(w, "path",
                fault.path != NULL ? str_of(fault.path) : json_str(json_get(request, "path"), ""));
        jw_kint(w, "line", fault.line);
    }
    arena_fini(&a);
}
