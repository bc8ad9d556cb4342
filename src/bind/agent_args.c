// The agent's arguments as records: a light table whose fields convert on first use.
//
//     hook_args (JSON in C) ── push ──> ctx, call, result, ... in Lua
//                           <── take ── the record itself (only what differs), or any other value
//
// A handler sees the values as they were when it began, and works on copies. What it returns replaces the last argument;
// changes that it made and did not return are dropped. Only ctx.state and ctx.memory are always read back.

#include "bind/agent_args.h"

#include <lauxlib.h>

// ---- ctx ----------------------------------------------------------------------------------------

#define TEXT(field)                                                                                \
    static bool get_ctx_##field(const void *obj, struct json *out)                                 \
    {                                                                                              \
        const struct agent_ctx *c = obj;                                                           \
        *out = (struct json){.type = JSON_STR, .s = c->of != NULL ? c->of->field : STR_NULL};      \
        return out->s.n != 0;                                                                      \
    }
TEXT(session_id)
TEXT(turn_id)
TEXT(working_dir)
TEXT(user_text)
TEXT(bot)
TEXT(model)
TEXT(outcome)
#undef TEXT

static bool get_ctx_depth(const void *obj, struct json *out)
{
    const struct agent_ctx *c = obj;
    *out = (struct json){.type = JSON_INT, .i = c->of != NULL ? c->of->depth : 0};
    return true;
}

static bool get_ctx_state(const void *obj, struct json *out)
{
    const struct agent_ctx *c = obj;
    *out = c->state != NULL ? *c->state : (struct json){.type = JSON_OBJ};
    return true;
}

static bool get_ctx_memory(const void *obj, struct json *out)
{
    const struct agent_ctx *c = obj;
    *out = c->memory != NULL ? *c->memory : (struct json){.type = JSON_ARR};
    return true;
}

static bool get_ctx_client(const void *obj, struct json *out)
{
    const struct agent_ctx *c = obj;
    const struct json *client = c->of != NULL ? c->of->client : NULL;
    *out = client != NULL ? *client : (struct json){0};
    return client != NULL;
}

struct agent_ctx *agent_ctx_of(lua_State *L)
{
    uint64_t number = (uint64_t)lua_tointeger(L, lua_upvalueindex(1));
    return map_get(&bind_of(L)->contexts, bind__id_key(&number));
}

void agent_ctx_push_fn(struct agent_ctx *c, lua_State *L, lua_CFunction fn)
{
    if (c->number == 0) {
        c->number = ++c->bind->next_id;
        map_set(&c->bind->contexts, bind__id_key(&c->number), c);
    }
    lua_pushinteger(L, (lua_Integer)c->number);
    lua_pushcclosure(L, fn, 1);
}

/// ctx.progress(text [, done, total]): true when it was passed on, false for a call that has ended.
static int l_progress(lua_State *L)
{
    struct str text = args_str(L, 1, "ctx.progress", "the text");
    double done = luaL_optnumber(L, 2, 0), total = luaL_optnumber(L, 3, 0);
    const struct agent_ctx *c = agent_ctx_of(L);
    const struct hook_ctx *of = c != NULL ? c->of : NULL;
    bool heard = of != NULL && (of->progress != NULL || of->caller != NULL);
    if (heard && of->caller != NULL) {
        of->caller->progress(of->caller_arg, text, done, total);
    } else if (heard) {
        of->progress(of->arg, text);
    }
    return args_bool(L, heard);
}

#define FUNCTION(name)                                                                             \
    static void push_##name(lua_State *L, void *obj)                                               \
    {                                                                                              \
        agent_ctx_push_fn(obj, L, agent_ctx_##name);                                               \
    }
FUNCTION(log)
FUNCTION(ask)
FUNCTION(elicit)
FUNCTION(sample)
FUNCTION(roots)
#undef FUNCTION

static void push_progress(lua_State *L, void *obj)
{
    agent_ctx_push_fn(obj, L, l_progress);
}

enum { CTX_STATE, CTX_MEMORY, CTX_FIELDS = 17 };

static const struct record_field ctx_fields[CTX_FIELDS] = {
    [CTX_STATE] = {.name = "state", .get = get_ctx_state, .exact = true},
    [CTX_MEMORY] = {.name = "memory", .get = get_ctx_memory},
    {.name = "session_id", .get = get_ctx_session_id},
    {.name = "turn_id", .get = get_ctx_turn_id},
    {.name = "working_dir", .get = get_ctx_working_dir},
    {.name = "user_text", .get = get_ctx_user_text},
    {.name = "bot", .get = get_ctx_bot},
    {.name = "model", .get = get_ctx_model},
    {.name = "depth", .get = get_ctx_depth},
    {.name = "outcome", .get = get_ctx_outcome},
    {.name = "client", .get = get_ctx_client},
    {.name = "progress", .push = push_progress},
    {.name = "log", .push = push_log},
    {.name = "ask", .push = push_ask},
    {.name = "elicit", .push = push_elicit},
    {.name = "sample", .push = push_sample},
    {.name = "roots", .push = push_roots},
};
static const struct record_type ctx_type = {"ctx", ctx_fields, CTX_FIELDS};

void agent_ctx_push(struct agent_ctx *c, lua_State *L, struct bind *b, struct hook_ctx *of)
{
    *c = (struct agent_ctx){.bind = b, .of = of};
    if (of != NULL) {
        c->state = of->state;
        c->memory = of->memory;
    }
    c->id = record_push(L, &ctx_type, c);
}

int agent_ctx_take(struct agent_ctx *c, struct vm *vm, struct err *e)
{
    if (c->of == NULL || c->of->arena == NULL || !record_touched(vm, c->id)) {
        return 0;
    }
    const struct json *values[CTX_FIELDS] = {0};
    uint64_t changed;
    struct arena a = {0};
    int rc = record_read(vm, c->id, &a, values, &changed, e);
    bool state = changed >> CTX_STATE & 1, memory = changed >> CTX_MEMORY & 1;
    static const struct json no_state = {.type = JSON_OBJ}, no_memory = {.type = JSON_ARR};
    if (rc == 0 && (state || memory)) {
        const struct json *s = values[CTX_STATE] != NULL ? values[CTX_STATE] : &no_state;
        const struct json *m = values[CTX_MEMORY] != NULL ? values[CTX_MEMORY] : &no_memory;
        struct hook_seen seen = {.state = c->state, .memory = c->memory};
        rc = hook_ctx_take(c->of, &seen, state ? s : NULL, memory ? m : NULL, e);
    }
    arena_fini(&a);
    return rc;
}

void agent_ctx_drop(struct agent_ctx *c, struct vm *vm)
{
    agent_ctx_forget_questions(c);
    if (c->number != 0) {
        map_remove(&c->bind->contexts, bind__id_key(&c->number));
        c->number = 0;
    }
    record_drop(vm, c->id);
    c->id = 0;
}

// ---- the values after ctx ------------------------------------------------------------------------

static const struct record_field call_fields[] = {
    {.name = "tool_name"}, {.name = "tool_call_id"}, {.name = "input"}};
static const struct record_field result_fields[] = {{.name = "tool_name"},
                                                    {.name = "tool_call_id"},
                                                    {.name = "output"},
                                                    {.name = "success"},
                                                    {.name = "error"}};
static const struct record_field request_fields[] = {{.name = "model"},    {.name = "system"},
                                                     {.name = "messages"}, {.name = "tools"},
                                                     {.name = "params"},   {.name = "response"}};
static const struct record_field response_fields[] = {
    {.name = "text"}, {.name = "tool_calls"}, {.name = "usage"}, {.name = "stop_reason"}};
static const struct record_field delta_fields[] = {{.name = "text"}, {.name = "reasoning"}};
static const struct record_field error_fields[] = {
    {.name = "code"}, {.name = "message"}, {.name = "where"}};

static const struct record_type call_type = {"call", call_fields, ARRAY_LEN(call_fields)};
static const struct record_type result_type = {"result", result_fields, ARRAY_LEN(result_fields)};
static const struct record_type request_type = {"request", request_fields,
                                                ARRAY_LEN(request_fields)};
static const struct record_type response_type = {"response", response_fields,
                                                 ARRAY_LEN(response_fields)};
static const struct record_type delta_type = {"delta", delta_fields, ARRAY_LEN(delta_fields)};
static const struct record_type error_type = {"error", error_fields, ARRAY_LEN(error_fields)};

/// How each value is given to Lua; NULL: as a text.
static const struct record_type *const types[HOOK_SHAPE__COUNT] = {
    [HOOK_SHAPE_REQUEST] = &request_type, [HOOK_SHAPE_RESPONSE] = &response_type,
    [HOOK_SHAPE_DELTA] = &delta_type,     [HOOK_SHAPE_CALL] = &call_type,
    [HOOK_SHAPE_RESULT] = &result_type,   [HOOK_SHAPE_ERROR] = &error_type,
};

static const struct record_type *type_of(const struct hook_args *a, size_t i)
{
    assert(i < HOOK_ARGS && a->point < POINT__COUNT);
    return types[hook_points[a->point].args[i]];
}

/// `was` with the fields of `changed` as they are now; what the type does not name stays.
static struct json *merge(const struct record_type *t, const struct json *was,
                          const struct json *const *values, uint64_t changed, struct arena *a)
{
    struct json *out = arena_calloc(a, 1, sizeof *out);
    out->type = JSON_OBJ;
    out->members = arena_calloc(a, was->n + t->n, sizeof *out->members);
    json_foreach_member (m, was) {
        unsigned at = 0;
        while (at < t->n && !str_eqz(m->key, t->fields[at].name)) {
            at++;
        }
        if (at == t->n || !(changed >> at & 1)) {
            out->members[out->n++] = *m;
        }
    }
    for (unsigned i = 0; i < t->n; i++) {
        if ((changed >> i & 1) && values[i] != NULL) {
            out->members[out->n++] = (struct json_member){str_of(t->fields[i].name), *values[i]};
        }
    }
    return out;
}

// ---- all of them ----------------------------------------------------------------------------------

int agent_args_push(struct agent_args *f, lua_State *L, struct bind *b, const struct hook_args *a)
{
    assert(a->n <= HOOK_ARGS);
    agent_ctx_push(&f->ctx, L, b, a->ctx);
    for (size_t i = 0; i < HOOK_ARGS; i++) {
        const struct record_type *t = type_of(a, i);
        f->ids[i] = 0;
        if (i >= a->n) {
            continue;
        }
        if (t != NULL && a->values[i] != NULL && a->values[i]->type == JSON_OBJ) {
            f->ids[i] = record_push(L, t, (void *)(uintptr_t)a->values[i]);
        } else {
            value_push(L, a->values[i]);
        }
    }
    return (int)a->n + 1;
}

enum hook_answer agent_args_take(struct agent_args *f, struct hook_run *run, lua_State *L, int idx)
{
    struct hook_args *a = run->args;
    struct err e = {0};
    struct json *v = NULL; // stays NULL when it is what was there
    struct arena scratch = {0};
    int rc;
    if (a->n != 0 && record_is(L, idx, f->ids[a->n - 1])) {
        const struct json *values[RECORD_FIELDS] = {0};
        size_t last = a->n - 1;
        uint64_t changed;
        rc = record_read(vm_of(L), f->ids[last], &scratch, values, &changed, &e);
        if (rc == 0 && changed != 0) {
            v = merge(type_of(a, last), a->values[last], values, changed, &scratch);
        }
    } else {
        rc = value_read(&v, &scratch, L, idx, &e);
    }
    if (rc == 0 && v != NULL) {
        rc = hook_args_take(a, v, &e);
    }
    arena_fini(&scratch);
    if (rc < 0) {
        hook_run_fault(run, NULL, 0, "%s", e.msg);
        return HOOK_FAILED;
    }
    if (v != NULL && a->changed != NULL) {
        a->changed(a, run);
    }
    return v != NULL ? HOOK_VALUE : HOOK_KEEP;
}

const char *agent_args_dropped(const struct agent_args *f, struct vm *vm, const struct hook_args *a)
{
    record_id id = a->n != 0 ? f->ids[a->n - 1] : 0;
    if (id == 0 || !record_touched(vm, id)) {
        return NULL;
    }
    const struct json *values[RECORD_FIELDS] = {0};
    uint64_t changed = 0;
    struct arena scratch = {0};
    bool unreadable = record_read(vm, id, &scratch, values, &changed, NULL) < 0;
    arena_fini(&scratch);
    return changed != 0 || unreadable ? type_of(a, a->n - 1)->name : NULL;
}

void agent_args_drop(struct agent_args *f, struct vm *vm)
{
    agent_ctx_drop(&f->ctx, vm);
    for (size_t i = 0; i < HOOK_ARGS; i++) {
        record_drop(vm, f->ids[i]);
    }
}
