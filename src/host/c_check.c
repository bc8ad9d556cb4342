// A plugin in C looked at without any effect: what it would register, and what its tests say.

#include <stdio.h>
#include <unistd.h>

#include "host/c_far.h"
#include "host/c_int.h"

enum { READ_SIZE = 64 * 1024, REQUEST_MAX = 64 << 20 };

const char *c_try(struct afloat_call *outer, const char *kind, const char *name, const char *json)
{
    struct afloat_call *c = c_call_new(0);
    const struct afloat_tool *tool = C_FIND(tools, str_of(name));
    const struct afloat_command *command = C_FIND(commands, str_of(name));
    afloat_fn *run = strcmp(kind, "tool") == 0 && tool != NULL         ? tool->run
                     : strcmp(kind, "command") == 0 && command != NULL ? command->run
                                                                       : NULL;
    struct json *given = NULL;
    struct err e = {0};
    c_call_arg(c, "ctx", NULL);
    vec_foreach (h, &far.hooks) {
        run =
            run == NULL && strcmp(kind, "hook") == 0 && strcmp(h->point, name) == 0 ? h->run : run;
    }
    struct str text = arena_str(&c->arena, str_of(json));
    const char *out = NULL;
    if (run != NULL && json_parse(&given, &c->arena, text, NULL, &e) == 0) {
        if (strcmp(kind, "hook") == 0) {
            json_foreach_member (m, given) {
                c_call_arg(c, arena_strdup(&c->arena, m->key), &m->value);
            }
        } else {
            c_call_arg(c, tool != NULL ? "input" : "args", given);
            c->last = NULL;
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

#define WRITE_NAMES(w, list)                                                                       \
    do {                                                                                           \
        jw_karr(w, #list);                                                                         \
        for (size_t i = 0; far.plugin->list != NULL && far.plugin->list[i].name != NULL; i++) {    \
            jw_strz(w, far.plugin->list[i].name);                                                  \
        }                                                                                          \
        jw_end_arr(w);                                                                             \
    } while (0)

static void write_account(struct jw *w, const struct json *request)
{
    jw_kobj(w, "value");
    jw_kstr(w, "name", json_str(json_get(request, "name"), ""));
    jw_karr(w, "hooks");
    for (size_t i = 0; i < ARRAY_LEN(c_points); i++) {
        bool has = false;
        vec_foreach (h, &far.hooks) {
            has = has || strcmp(h->point, c_points[i].name) == 0;
        }
        if (has) {
            jw_strz(w, c_points[i].name);
        }
    }
    jw_end_arr(w);
    c_write_metadata(w, json_str(json_get(request, "name"), ""));
    WRITE_NAMES(w, tools);
    WRITE_NAMES(w, commands);
    jw_kobj(w, "contributions"); // what has no list of its own above
    WRITE_NAMES(w, providers);
    WRITE_NAMES(w, mcp_prompts);
    WRITE_NAMES(w, timers);
    jw_end_obj(w);
    jw_karr(w, "routes");
    for (const struct afloat_route *r = far.plugin->routes; r != NULL && r->method != NULL; r++) {
        char *name = xasprintf("%s %s", r->method, r->path);
        jw_strz(w, name);
        free(name);
    }
    jw_end_arr(w);
    if (json_bool(json_get(request, "test"), false)) {
        write_tests(w);
    }
    jw_end_obj(w);
}

void c_validate(struct jw *w)
{
    struct buf in;
    struct json *request = NULL;
    struct c_fault fault = {0};
    char *room;
    ssize_t n = 0;
    buf_init(&in, REQUEST_MAX);
    while ((room = buf_reserve(&in, READ_SIZE)) != NULL &&
           (n = read(STDIN_FILENO, room, READ_SIZE)) > 0) {
        buf_grow(&in, (size_t)n);
    }
    bool ok =
        json_parse(&request, &far.arena, buf_str(&in), NULL, NULL) == 0 && c_load(request, &fault);
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
}
