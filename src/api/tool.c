// Tools outside a session: list them, switch them on and off, run one.
//
//     POST /tool/roll ── find, in a pinned generation ── is it switched off? ── does the input fit?
//         ── on_permission: deny > ask > allow ── call ── {output, success, error, generation}
//
// Nobody can be asked here, so `ask` is a refusal that says so. The generation stays pinned until the
// answer: a reload meanwhile leaves the tool as it was when it was found.

#include "agent/agent.h"
#include "api/handlers.h"
#include "api/plugin_int.h"
#include "api/tool_int.h"
#include "base/schema.h"
#include "hook/args.h"
#include "hook/run.h"
#include "proto/events.h"
#include "store/choices.h"

/// What a tool says of itself, parsed into `a`; an empty object when it says nothing.
static const struct json *about_of(const struct gen_item *it, struct arena *a)
{
    static const struct json nothing = {.type = JSON_OBJ};
    struct json *about;
    struct str text = arena_str(a, str_of(gen_item_about(it)));
    return json_parse(&about, a, text, NULL, NULL) == 0 ? about : &nothing;
}

/// How a tool is called by everyone: its plain name, or "unit:name" when another owns that.
static const char *full_name(const struct gen *g, const struct gen_item *it, struct arena *a)
{
    return gen_item_is_plain(g, it)
               ? gen_item_name(it)
               : arena_printf(a, "%s:%s", gen_item_unit(it)->name, gen_item_name(it));
}

static bool is_off(const struct api *api, const char *name, struct arena *a)
{
    const char *key = arena_printf(a, "tools.%s.off", name);
    return json_bool(choices_get(api->choices, str_of(key)), false);
}

// ---- list ------------------------------------------------------------------------------------

static void write_tool(const struct api *api, const struct gen *g, const struct gen_item *it,
                       struct arena *a, struct jw *w)
{
    static const char *const shown[] = {"description", "input_schema", "permission"};
    const struct json *about = about_of(it, a);
    const char *name = full_name(g, it, a);
    jw_obj(w);
    jw_kstrz(w, "name", name);
    jw_kstrz(w, "plugin", gen_item_unit(it)->name);
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        const struct json *v = json_get(about, shown[i]);
        if (v != NULL) {
            jw_key(w, shown[i]);
            jw_value(w, v);
        }
    }
    jw_kbool(w, "enabled", !is_off(api, name, a));
    jw_kint(w, "generation", (int64_t)gen_item_unit(it)->since);
    jw_end_obj(w);
}

static void write_builtin(const struct api *api, const struct tool_info *t, struct arena *a,
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
static const struct tool_info *find_builtin(const struct gen *g, struct str name)
{
    return gen_item_find(g, GEN_TOOL, name) == NULL ? tool_find(name) : NULL;
}

static void write_builtins(const struct api *api, const struct gen *g, struct arena *a,
                           struct jw *w)
{
    const struct tool_info *t;
    for (size_t i = 0; (t = tool_at(i)) != NULL; i++) {
        if (find_builtin(g, str_of(t->name)) != NULL) {
            write_builtin(api, t, a, w);
        }
    }
}

void op_TOOL_LIST(struct api *api, struct op_call *c)
{
    struct gen *g = api__current(api, c);
    struct buf out;
    struct jw w;
    if (g == NULL) {
        return;
    }
    buf_init(&out, API_ANSWER_MAX);
    jw_init(&w, &out);
    jw_obj(&w);
    jw_key(&w, "tools");
    jw_arr(&w);
    for (size_t i = 0; i < gen_count(g); i++) {
        const struct gen_unit *u = gen_at(g, i);
        for (size_t k = 0; k < gen_unit_count(u); k++) {
            const struct gen_item *it = gen_unit_at(u, k);
            if (gen_item_kind(it) == GEN_TOOL && !gen_item_is_off(it)) {
                write_tool(api, g, it, c->arena, &w);
            }
        }
    }
    write_builtins(api, g, c->arena, &w);
    jw_end_arr(&w);
    jw_kint(&w, "generation", (int64_t)gen_number(g));
    jw_end_obj(&w);
    op_answer(c, 200, buf_str(&out));
    buf_fini(&out);
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

struct choosing {
    struct api *api;
    struct op_call *call;
    bool changed;
};

static void answer_row(struct api *api, struct op_call *c)
{
    struct gen *g = api__current(api, c);
    const struct tool_info *builtin = g != NULL ? find_builtin(g, api__name(c)) : NULL;
    const struct gen_item *it = g != NULL && builtin == NULL ? find_tool(g, c) : NULL;
    struct buf out;
    struct jw w;
    if (builtin == NULL && it == NULL) {
        return; // answered
    }
    buf_init(&out, API_ANSWER_MAX);
    jw_init(&w, &out);
    if (builtin != NULL) {
        write_builtin(api, builtin, c->arena, &w);
    } else {
        write_tool(api, g, it, c->arena, &w);
    }
    op_answer(c, 200, buf_str(&out));
    buf_fini(&out);
}

static void on_chosen(void *arg, int status, const struct err *e)
{
    struct choosing ch = *(struct choosing *)arg;
    free(arg);
    if (status < 0) {
        op_fail(ch.call, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
        return;
    }
    if (ch.changed && ch.api->plugins != NULL) {
        plugins_chosen(ch.api->plugins);
    }
    if (ch.changed) {
        const char *fields =
            arena_printf(ch.call->arena, "\"generation\":%lld", (long long)api_generation(ch.api));
        event_emit(ch.api->events, str_of(event_infos[EVENT_TOOLS_CHANGED].type), STR_NULL,
                   str_of(fields));
    }
    answer_row(ch.api, ch.call);
}

static void switch_tool(struct api *api, struct op_call *c, bool on)
{
    struct gen *g = api__current(api, c);
    const struct tool_info *builtin = g != NULL ? find_builtin(g, api__name(c)) : NULL;
    const struct gen_item *it = g != NULL && builtin == NULL ? find_tool(g, c) : NULL;
    if (builtin == NULL && it == NULL) {
        return; // answered
    }
    const char *name = builtin != NULL ? builtin->name : full_name(g, it, c->arena);
    const char *key = arena_printf(c->arena, "tools.%s.off", name);
    struct choosing *ch = xmalloc(sizeof *ch);
    *ch = (struct choosing){.api = api, .call = c, .changed = is_off(api, name, c->arena) == on};
    choices_set(api->choices, str_of(key), on ? STR_NULL : STR("true"), on_chosen, ch);
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

/// One call on its way; ends with run_end().
struct tool_run {
    struct api *api;
    struct op_call *call;
    struct gen *gen;                 // pinned
    struct gen_item *item;           // NULL: a built-in tool
    const struct tool_info *builtin; // NULL: one of a plugin
    char *dir;                       // real path that it works in, entered; NULL: none
    struct hook_set *hooks;          // of the units that reach this call
    bool asks;                       // the tool wants a person's permission
    struct hook_run permission;
    struct hook_args args;
    struct hook_ctx ctx;
    struct gen_call target;
};

static void run_end(struct tool_run *r)
{
    if (r->dir != NULL) {
        agent_visit_end(r->api->agent, r->dir);
    }
    hook_set_free(r->hooks);
    gen_unpin(r->gen);
    free(r->dir);
    free(r);
}

static void answer_result(const struct tool_run *r, const struct json *result)
{
    struct buf out;
    struct jw w;
    const struct json *error = json_get(result, "error"), *output = json_get(result, "output");
    buf_init(&out, API_ANSWER_MAX);
    jw_init(&w, &out);
    jw_obj(&w);
    jw_key(&w, "output");
    jw_value(&w, output);
    jw_kbool(&w, "success", json_bool(json_get(result, "success"), true));
    jw_key(&w, "error");
    jw_value(&w, error);
    jw_kint(&w, "generation", (int64_t)gen_number(r->gen));
    jw_end_obj(&w);
    op_answer(r->call, 200, buf_str(&out));
    buf_fini(&out);
}

static void on_result(struct gen_call *target, int status, const struct json *result,
                      const struct err *e)
{
    struct tool_run *r = target->arg;
    if (status == 0) {
        answer_result(r, result);
    } else {
        op_fail(r->call, status == ERR_TIMEOUT ? PROBLEM_PLUGIN_TIMEOUT : PROBLEM_PLUGIN_FAILED,
                NULL, "tool '%s' of '%s': %s", gen_item_name(r->item), gen_item_unit(r->item)->name,
                e->msg);
    }
    run_end(r);
}

static void on_builtin(void *arg, const struct tool_result *t)
{
    struct tool_run *r = arg;
    struct json_member members[] = {
        {.key = STR("output"), .value = {.type = JSON_STR, .s = t->output}},
        {.key = STR("success"), .value = {.type = JSON_BOOL, .b = t->success}},
        {.key = STR("error"), .value = {.type = JSON_STR, .s = str_of(t->error)}},
    };
    const struct json result = {
        .type = JSON_OBJ, .n = t->error != NULL ? 3 : 2, .members = members};
    answer_result(r, &result);
    run_end(r);
}

static void run_allowed(struct tool_run *r)
{
    if (r->builtin != NULL) {
        api__builtin_run(r->api, r->builtin, json_get(r->args.values[0], "input"), r->dir,
                         on_builtin, r);
        return;
    }
    const struct gen_target *face = gen_item_face(r->item);
    r->target = (struct gen_call){
        .input = json_get(r->args.values[0], "input"), .ctx = &r->ctx, .done = on_result, .arg = r};
    face->call(gen_item_data(r->item), &r->target);
}

static const char *owner_of(const struct hook *h)
{
    const struct gen_item *it = h != NULL ? gen_item_of(h) : NULL;
    return it != NULL ? gen_item_unit(it)->name : "a plugin";
}

static void on_permission(struct hook_run *run, void *arg)
{
    struct tool_run *r = arg;
    const char *why = run->fault.msg;
    if (run->result == HOOK_DENY) {
        op_fail(r->call, PROBLEM_FORBIDDEN, NULL, "denied by '%s'%s%s", owner_of(run->by),
                why[0] != '\0' ? ": " : "", why);
        run_end(r);
    } else if (run->result == HOOK_ASK || r->asks) {
        op_fail(r->call, PROBLEM_FORBIDDEN, "run it in a session, where a person can be asked",
                "a person has to allow this call%s%s, and there is none to ask",
                run->result == HOOK_ASK ? ", says " : "",
                run->result == HOOK_ASK ? owner_of(run->by) : "");
        run_end(r);
    } else {
        run_allowed(r);
    }
}

/// {tool_name, tool_call_id, input}, as hooks see it.
static const struct json *make_call(struct op_call *c, const char *name, const struct json *input)
{
    struct json *call = arena_calloc(c->arena, 1, sizeof *call);
    *call = (struct json){.type = JSON_OBJ, .n = 3};
    call->members = arena_calloc(c->arena, 3, sizeof *call->members);
    call->members[0] = (struct json_member){.key = STR("tool_name"),
                                            .value = {.type = JSON_STR, .s = str_of(name)}};
    call->members[1] = (struct json_member){.key = STR("tool_call_id"),
                                            .value = {.type = JSON_STR, .s = STR("api")}};
    call->members[2] = (struct json_member){.key = STR("input"), .value = *input};
    return call;
}

static struct hook_set *hooks_for(struct tool_run *r)
{
    struct str *names = arena_calloc(r->call->arena, gen_count(r->gen) + 1, sizeof *names);
    size_t n = 0;
    for (size_t i = 0; i < gen_count(r->gen); i++) {
        const struct gen_unit *u = gen_at(r->gen, i);
        if (api__reaches(r->api, u, r->dir)) {
            names[n++] = str_of(u->name);
        }
    }
    return gen_hooks_of(r->gen, names, n);
}

static void ask_permission(struct tool_run *r)
{
    const struct hook_point *point = &hook_points[POINT_PERMISSION];
    r->hooks = hooks_for(r);
    const struct hook_list *list = hook_set_get(r->hooks, str_of(point->name), point->kind);
    if (list == NULL) {
        r->permission.result = HOOK_KEEP;
        on_permission(&r->permission, r);
        return;
    }
    struct hook_run_opts o = {.list = list,
                              .loop = r->api->loop,
                              .args = &r->args,
                              .subject = json_str(json_get(r->args.values[0], "tool_name"), ""),
                              .may_wait = point->may_wait,
                              .done = on_permission,
                              .arg = r};
    if (hook_run_start(&r->permission, &o)) {
        on_permission(&r->permission, r);
    }
}

/// The schema of the tool's input; NULL: it takes anything.
static const struct json *schema_of(const struct tool_run *r)
{
    struct json *schema = NULL;
    struct arena *a = r->call->arena;
    if (r->item != NULL) {
        return json_get(about_of(r->item, a), "input_schema");
    }
    return json_parse(&schema, a, str_of(r->builtin->schema), NULL, NULL) == 0 ? schema : NULL;
}

/// The input with the schema's defaults; NULL, answered, when it does not fit.
static const struct json *check_input(const struct tool_run *r)
{
    static const struct json nothing = {.type = JSON_OBJ};
    const struct json *given = json_get(r->call->params, "input"), *schema = schema_of(r);
    struct err e = {0};
    if (given == NULL) {
        given = &nothing;
    }
    if (schema == NULL) {
        return given;
    }
    if (schema_fit(schema, given, "input", &e) < 0) {
        op_fail(r->call, PROBLEM_INVALID_BODY, NULL, "%s", e.msg);
        return NULL;
    }
    return schema_defaults(schema, given, r->call->arena);
}

static const char *run_name(const struct tool_run *r)
{
    return r->item != NULL ? full_name(r->gen, r->item, r->call->arena) : r->builtin->name;
}

static void begin_run(struct tool_run *r, const struct json *input)
{
    static const struct json state = {.type = JSON_OBJ}, memory = {.type = JSON_ARR};
    struct arena *a = r->call->arena;
    const struct json *about = r->item != NULL ? about_of(r->item, a) : NULL;
    r->asks = str_eqz(json_str(json_get(about, "permission"), ""), "ask");
    r->ctx = (struct hook_ctx){
        .working_dir = str_of(r->dir), .state = &state, .memory = &memory, .arena = a};
    r->args = (struct hook_args){.point = POINT_PERMISSION, .ctx = &r->ctx, .n = 1, .arena = a};
    r->args.values[0] = make_call(r->call, run_name(r), input);
    ask_permission(r);
}

/// Find the tool and look whether it may be called at all; false: answered.
static bool find_callable(struct tool_run *r)
{
    struct op_call *c = r->call;
    struct gen *g = api__current(r->api, c);
    if (g == NULL) {
        return false;
    }
    r->gen = gen_pin(g);
    r->builtin = find_builtin(g, api__name(c));
    r->item = r->builtin == NULL ? find_tool(g, c) : NULL;
    if (r->item == NULL && r->builtin == NULL) {
        return false;
    }
    if (is_off(r->api, run_name(r), c->arena)) {
        op_fail(c, PROBLEM_CONFLICT, "`afloat tool enable NAME` switches it on",
                "tool '%s' is switched off", run_name(r));
    } else if (r->item != NULL && !api__reaches(r->api, gen_item_unit(r->item), r->dir)) {
        op_fail(c, PROBLEM_NOT_FOUND, "give a 'working_dir' in its project",
                "tool '%s' belongs to another project or session", run_name(r));
    } else if (r->builtin != NULL && r->dir == NULL) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "built-in tools need a 'working_dir'");
    } else {
        return true;
    }
    return false;
}

static void run_entered(struct tool_run *r)
{
    const struct json *input = find_callable(r) ? check_input(r) : NULL;
    if (input != NULL) {
        begin_run(r, input);
    } else {
        run_end(r);
    }
}

static void on_entered(void *arg, const char *dir)
{
    struct tool_run *r = arg;
    if (dir == NULL) {
        op_fail(r->call, PROBLEM_INVALID_BODY, NULL, "'working_dir' is no directory that exists");
        run_end(r);
        return;
    }
    r->dir = xstrdup(dir);
    run_entered(r);
}

void op_TOOL_RUN(struct api *api, struct op_call *c)
{
    struct str dir = json_str(json_get(c->params, "working_dir"), "");
    if (dir.n != 0 && dir.p[0] != '/') {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'working_dir' has to be an absolute path");
        return;
    }
    struct tool_run *r = xcalloc(1, sizeof *r);
    r->api = api;
    r->call = c;
    if (dir.n == 0) {
        run_entered(r);
    } else if (api->agent == NULL ||
               !agent_visit(api->agent, arena_strdup(c->arena, dir), on_entered, r)) {
        op_fail(c, PROBLEM_STOPPING, NULL, "the hub is stopping");
        run_end(r);
    }
}
