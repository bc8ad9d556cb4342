// Tools outside a session: list them, switch them on and off, run one (agent_tool_run).

#include "agent/agent.h"
#include "api/handlers.h"
#include "api/plugin_int.h"
#include "proto/events.h"
#include "store/choices.h"

static const char *long_name(const struct gen_item *it, struct arena *a)
{
    return arena_printf(a, "%s:%s", gen_item_unit(it)->name, gen_item_name(it));
}

/// How a tool is called by everyone: its plain name, or "unit:name" when another owns that.
static const char *full_name(const struct gen *g, const struct gen_item *it, struct arena *a)
{
    return gen_item_is_plain(g, it) ? gen_item_name(it) : long_name(it, a);
}

static struct str off_key(const char *name, struct arena *a)
{
    return str_of(arena_printf(a, "tools.%s.off", name));
}

static bool is_off(const struct api *api, const char *name, struct arena *a)
{
    return json_bool(choices_get(api->o.hub->choices, off_key(name, a)), false);
}

/// One that was switched off as "unit:name" stays off when the plain name becomes its own.
static bool item_is_off(const struct api *api, const struct gen *g, const struct gen_item *it,
                        struct arena *a)
{
    return is_off(api, full_name(g, it, a), a) || is_off(api, long_name(it, a), a);
}

// ---- list ------------------------------------------------------------------------------------

static void write_tool(const struct api *api, const struct gen *g, const struct gen_item *it,
                       struct arena *a, struct jw *w)
{
    static const char *const shown[] = {"description", "input_schema", "permission"};
    const struct json *about = gen_item_read_about(it, a);
    jw_obj(w);
    jw_kstrz(w, "name", full_name(g, it, a));
    jw_kstrz(w, "plugin", gen_item_unit(it)->name);
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        const struct json *v = json_get(about, shown[i]);
        if (v != NULL) {
            jw_kvalue(w, shown[i], v);
        }
    }
    jw_kbool(w, "enabled", !item_is_off(api, g, it, a));
    jw_kint(w, "generation", (int64_t)gen_item_unit(it)->since);
    jw_end_obj(w);
}

static void write_builtin(const struct api *api, const struct tool *t, struct arena *a,
                          struct jw *w)
{
    jw_obj(w);
    jw_kstrz(w, "name", t->name);
    jw_kstrz(w, "plugin", NULL);
    jw_kbool(w, "builtin", true);
    jw_kstrz(w, "description", t->description);
    jw_key(w, "input_schema");
    jw_raw(w, str_of(t->schema));
    jw_kbool(w, "enabled", !is_off(api, t->name, a));
    jw_end_obj(w);
}

/// The built-in tool of that name, unless a plugin has taken its place.
static const struct tool *find_builtin(const struct gen *g, struct str name)
{
    return gen_item_find(g, GEN_TOOL, name) == NULL ? tool_find(name) : NULL;
}

void op_TOOL_LIST(struct api *api, struct op_call *c)
{
    struct gen *g = api__current(api, c);
    if (g == NULL) {
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_karr(w, "tools");
    struct gen_walk all = gen_walk(g, GEN_TOOL);
    for (const struct gen_item *it; (it = gen_walk_next(&all)) != NULL;) {
        write_tool(api, g, it, c->arena, w);
    }
    const struct tool *t;
    for (size_t i = 0; (t = tool_at(i)) != NULL; i++) {
        // One that needs a session cannot be run here; it is listed while it is off, to be switched on again.
        bool shown = !t->ops->needs_session || is_off(api, t->name, c->arena);
        if (shown && find_builtin(g, str_of(t->name)) != NULL) {
            write_builtin(api, t, c->arena, w);
        }
    }
    jw_end_arr(w);
    jw_kint(w, "generation", (int64_t)gen_number(g));
    op_end_obj(c, 200);
}

/// The tool that the request names; NULL, answered, when there is none.
static struct gen_item *find_tool(struct gen *g, struct op_call *c)
{
    struct str name = api__name(c);
    struct gen_item *it = gen_item_find(g, GEN_TOOL, name);
    if (it == NULL) {
        op_fail(c, PROBLEM_NOT_FOUND, "`afloat tools` lists them", "there is no tool '%.*s'",
                (int)MIN(name.n, 100), name.p);
    }
    return it;
}

// ---- on and off ------------------------------------------------------------------------------

struct choosing { // in the arena of the call
    struct op_call *call;
    bool changed;
};

static void on_chosen(void *arg, int status, const struct err *e)
{
    const struct choosing *ch = arg;
    struct op_call *c = ch->call;
    struct api *api = c->api;
    if (status < 0) {
        op_fail(c, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
        return;
    }
    if (ch->changed && api->plugins != NULL) {
        plugins_chosen(api->plugins);
    }
    if (ch->changed) {
        const char *fields =
            arena_printf(c->arena, "\"generation\":%lld", (long long)api_generation(api));
        event_emit(api->o.hub->events, str_of(event_infos[EVENT_TOOLS_CHANGED].type), STR_NULL,
                   str_of(fields));
    }
    struct gen *g = api__current(api, c);
    const struct tool *builtin = g != NULL ? find_builtin(g, api__name(c)) : NULL;
    const struct gen_item *it = g != NULL && builtin == NULL ? find_tool(g, c) : NULL;
    if (builtin != NULL) {
        write_builtin(api, builtin, c->arena, op_begin(c));
        op_end(c, 200);
    } else if (it != NULL) { // else it is answered
        write_tool(api, g, it, c->arena, op_begin(c));
        op_end(c, 200);
    }
}

static void switch_tool(struct api *api, struct op_call *c, bool on)
{
    struct gen *g = api__current(api, c);
    const struct tool *builtin = g != NULL ? find_builtin(g, api__name(c)) : NULL;
    const struct gen_item *it = g != NULL && builtin == NULL ? find_tool(g, c) : NULL;
    if (builtin == NULL && it == NULL) {
        return; // answered
    }
    const char *name = builtin != NULL ? builtin->name : full_name(g, it, c->arena);
    bool off = it != NULL ? item_is_off(api, g, it, c->arena) : is_off(api, name, c->arena);
    struct choices *choices = api->o.hub->choices;
    struct choosing *ch = arena_alloc(c->arena, sizeof *ch);
    *ch = (struct choosing){.call = c, .changed = off == on};
    if (on && it != NULL && gen_item_is_plain(g, it)) {
        choices_set(choices, off_key(long_name(it, c->arena), c->arena), STR_NULL, NULL, NULL);
    }
    choices_set(choices, off_key(name, c->arena), on ? STR_NULL : STR("true"), on_chosen, ch);
}

void op_TOOL_ENABLE(struct api *api, struct op_call *c)
{
    switch_tool(api, c, true);
}

void op_TOOL_DISABLE(struct api *api, struct op_call *c)
{
    switch_tool(api, c, false);
}

// ---- run -------------------------------------------------------------------------------------

static void on_result(void *arg, const struct agent_tool_answer *r, const struct agent_no *no)
{
    struct op_call *c = arg;
    if (no != NULL) {
        api__refuse(c, no);
        return;
    }
    struct jw *w = op_begin_obj(c);
    jw_kstr(w, "output", r->output);
    jw_kbool(w, "success", r->success);
    jw_key(w, "error");
    if (r->error.p != NULL) {
        jw_str(w, r->error);
    } else {
        jw_null(w);
    }
    jw_kint(w, "generation", (int64_t)r->generation);
    op_end_obj(c, 200);
}

void op_TOOL_RUN(struct api *api, struct op_call *c)
{
    struct str dir = json_get_text(c->params, "working_dir");
    if (dir.n != 0 && dir.p[0] != '/') {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'working_dir' has to be an absolute path");
    } else if (api->agent == NULL) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else {
        const struct agent_tool_from from = {.dir =
                                                 dir.n != 0 ? arena_strdup(c->arena, dir) : NULL};
        agent_tool_run(api->agent, api__name(c), json_get(c->params, "input"), &from, on_result, c);
    }
}
