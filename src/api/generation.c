// Generations: what was, and going back to it.

#include "api/handlers.h"
#include "api/plugin_int.h"
#include "base/time.h"

static void write_names(struct jw *w, const char *key, const struct json *names)
{
    jw_key(w, key);
    if (names != NULL) {
        jw_value(w, names);
    } else {
        jw_arr(w);
        jw_end_arr(w);
    }
}

static void write_past(const struct plugin_past *p, const struct json *set, struct jw *w)
{
    char at[TIME_TEXT];
    jw_obj(w);
    jw_kint(w, "generation", (int64_t)p->generation);
    jw_kstrz(w, "at", time_format(p->at, at));
    jw_kstr(w, "trigger", p->trigger);
    write_names(w, "added", p->added);
    write_names(w, "changed", p->changed);
    write_names(w, "removed", p->removed);
    jw_karr(w, "choices");
    json_foreach_member (m, p->chosen) {
        jw_str(w, m->key);
    }
    jw_end_arr(w);
    if (set != NULL) {
        jw_kvalue(w, "set", set);
    }
    jw_end_obj(w);
}

void op_GENERATIONS(struct api *api, struct op_call *c)
{
    size_t n = api->plugins != NULL ? plugins_past_count(api->plugins) : 0;
    struct jw *w = op_begin_obj(c);
    jw_kint(w, "current", api_generation(api));
    jw_karr(w, "generations");
    for (size_t i = 0; i < n; i++) {
        struct plugin_past p = plugins_past_at(api->plugins, i);
        write_past(&p, NULL, w);
    }
    jw_end_arr(w);
    op_end_obj(c, 200);
}

void op_GENERATION_SHOW(struct api *api, struct op_call *c)
{
    int64_t wanted = json_int(json_get(c->params, "generation"), 0);
    size_t n = api->plugins != NULL ? plugins_past_count(api->plugins) : 0;
    for (size_t i = 0; i < n; i++) {
        struct plugin_past p = plugins_past_at(api->plugins, i);
        if ((int64_t)p.generation == wanted) {
            struct jw *w = op_begin(c);
            write_past(&p, plugins_past_set(api->plugins, i, c->arena), w);
            op_end(c, 200);
            return;
        }
    }
    op_fail(c, PROBLEM_NOT_FOUND, "`afloat generations` lists those that are kept",
            "generation %lld is not kept", (long long)wanted);
}

void op_GENERATION_UNDO(struct api *api, struct op_call *c)
{
    int64_t to = json_int(json_get(c->params, "to"), 0);
    struct err e = {0};
    if (!api__require_plugins(api, c)) {
        return;
    }
    if (to < 0 || (to == 0 && json_get(c->params, "to") != NULL)) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'to' is the number of a generation");
    } else if (api__undo(api, c, (uint64_t)to, &e) < 0) {
        op_fail(c, e.code == ERR_NOT_FOUND ? PROBLEM_NOT_FOUND : PROBLEM_CONFLICT,
                "`afloat generations` lists those that are kept", "%s", e.msg);
    }
}
