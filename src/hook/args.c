// The arguments of the agent's hook points: what each may be, and how they travel.
//
//     point            last value     what a handler may answer
//     on_user_message  text           text
//     on_before_model  request        request, or {response}: the model is not asked
//     on_tool_call     call           call
//     on_resolve_tool  call           result; it takes the call's place
//     ...
//
// A value that a handler gives is checked for what the loop relies on and no more: unknown members are
// kept, so that a field that only a provider knows passes through plugins untouched.
//
// Invariants:
//   - a value in `values` is in the arena of the arguments, or was there from the beginning.
//   - a value that is refused changes nothing.

#include "hook/args.h"

#include <assert.h>

// ---- checks -----------------------------------------------------------------------------------

/// One member that a value must have, or (`optional`) has of this type when it has it.
struct member {
    const char *name;
    enum json_type type;
    bool optional;
};

static const struct member call_members[] = {
    {"tool_name", JSON_STR, false}, {"tool_call_id", JSON_STR, true}, {"input", JSON_OBJ, false}};
static const struct member result_members[] = {{"output", JSON_STR, false},
                                               {"success", JSON_BOOL, true},
                                               {"error", JSON_STR, true},
                                               {"tool_call_id", JSON_STR, true},
                                               {"tool_name", JSON_STR, true}};
static const struct member request_members[] = {{"model", JSON_STR, true},
                                                {"system", JSON_STR, true},
                                                {"messages", JSON_ARR, false},
                                                {"tools", JSON_ARR, true},
                                                {"params", JSON_OBJ, true}};
static const struct member response_members[] = {{"text", JSON_STR, true},
                                                 {"tool_calls", JSON_ARR, true},
                                                 {"usage", JSON_OBJ, true},
                                                 {"stop_reason", JSON_STR, true}};
static const struct member message_members[] = {{"role", JSON_STR, false}};
static const struct member use_members[] = {
    {"id", JSON_STR, true}, {"name", JSON_STR, false}, {"input", JSON_OBJ, false}};

/// An empty table of Lua is an object.
static bool is_empty(const struct json *v)
{
    return v->type == JSON_OBJ && v->n == 0;
}

static int check_members(const struct json *v, const char *what, const struct member *list,
                         size_t n, struct err *e)
{
    if (v->type != JSON_OBJ) {
        return err_set(e, ERR_INVALID, "a %s must be an object, not %s", what, json_type_name(v));
    }
    for (size_t i = 0; i < n; i++) {
        const struct json *m = json_get(v, list[i].name);
        bool absent = m == NULL || m->type == JSON_NULL;
        bool fits =
            !absent && (m->type == list[i].type || (list[i].type == JSON_ARR && is_empty(m)));
        if (absent ? !list[i].optional : !fits) {
            const struct json wanted = {.type = list[i].type};
            return err_set(e, ERR_INVALID, "%s.%s must be of type %s, is %s", what, list[i].name,
                           json_type_name(&wanted), json_type_name(m));
        }
    }
    return 0;
}

#define CHECK_MEMBERS(v, what, list, e) check_members(v, what, list, ARRAY_LEN(list), e)

/// The same for each item of `items`; what is no list has none.
static int check_items(const struct json *items, const char *what, const struct member *list,
                       size_t n, struct err *e)
{
    int rc = 0;
    json_foreach_item (it, items) {
        rc = rc == 0 ? check_members(it, what, list, n, e) : rc;
    }
    return rc;
}

static int check_text(const struct json *v, struct err *e)
{
    return v->type == JSON_STR
               ? 0
               : err_set(e, ERR_INVALID, "the answer must be a text, not %s", json_type_name(v));
}

static int check_call(const struct json *v, struct err *e)
{
    return CHECK_MEMBERS(v, "call", call_members, e);
}

static int check_result(const struct json *v, struct err *e)
{
    return CHECK_MEMBERS(v, "result", result_members, e);
}

static int check_response(const struct json *v, struct err *e)
{
    int rc = CHECK_MEMBERS(v, "response", response_members, e);
    return rc < 0 ? rc
                  : check_items(json_get(v, "tool_calls"), "response.tool_calls[]", use_members,
                                ARRAY_LEN(use_members), e);
}

static int check_request(const struct json *v, struct err *e)
{
    const struct json *response = json_get(v, "response");
    if (response != NULL) {
        return check_response(response, e);
    }
    int rc = CHECK_MEMBERS(v, "request", request_members, e);
    return rc < 0 ? rc
                  : check_items(json_get(v, "messages"), "request.messages[]", message_members,
                                ARRAY_LEN(message_members), e);
}

typedef int check_fn(const struct json *v, struct err *e);

/// For each value that can be an answer.
static check_fn *const checks[HOOK_SHAPE__COUNT] = {
    [HOOK_SHAPE_TEXT] = check_text,       [HOOK_SHAPE_SUMMARY] = check_text,
    [HOOK_SHAPE_REQUEST] = check_request, [HOOK_SHAPE_RESPONSE] = check_response,
    [HOOK_SHAPE_CALL] = check_call,       [HOOK_SHAPE_RESULT] = check_result,
};

static int check_memory(const struct json *v, struct err *e)
{
    if (v->type != JSON_ARR && !is_empty(v)) {
        return err_set(e, ERR_INVALID, "ctx.memory must be a list, not %s", json_type_name(v));
    }
    json_foreach_item (it, v) {
        bool is_message = json_str(json_get(it, "role"), NULL).p != NULL &&
                          json_str(json_get(it, "content"), NULL).p != NULL;
        if (it->type != JSON_STR && !is_message) {
            return err_set(e, ERR_INVALID, "ctx.memory holds texts and {role, content} only");
        }
    }
    return 0;
}

// ---- completing ----------------------------------------------------------------------------------

/// A result says whose it is and whether it succeeded, also when the handler did not.
static struct json *complete_result(struct json *v, const struct hook_args *a)
{
    const struct json yes = {.type = JSON_BOOL, .b = true};
    const struct {
        const char *name;
        const struct json *value;
    } defaults[] = {{"success", &yes},
                    {"tool_call_id", json_get(a->values[0], "tool_call_id")},
                    {"tool_name", json_get(a->values[0], "tool_name")}};
    struct json_member *members =
        arena_calloc(a->arena, v->n + ARRAY_LEN(defaults), sizeof *members);
    memcpy(members, v->members, v->n * sizeof *members);
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++) {
        if (json_get(v, defaults[i].name) == NULL && defaults[i].value != NULL) {
            struct json_member *m = &members[v->n++];
            m->key = str_of(defaults[i].name);
            m->value = *json_clone(a->arena, defaults[i].value);
            v->members = members;
        }
    }
    return v;
}

/// Where a list is due an empty table is an empty list.
static void complete_lists(struct json *v, const struct member *list, size_t n)
{
    for (uint32_t i = 0; v->type == JSON_OBJ && i < v->n; i++) {
        struct json_member *m = &v->members[i];
        for (size_t k = 0; k < n && is_empty(&m->value); k++) {
            if (list[k].type == JSON_ARR && str_eqz(m->key, list[k].name)) {
                m->value = (struct json){.type = JSON_ARR};
            }
        }
    }
}

/// A request, a response, or a request's `response`.
static void complete_talk(struct json *v)
{
    complete_lists(v, request_members, ARRAY_LEN(request_members));
    complete_lists(v, response_members, ARRAY_LEN(response_members));
    for (uint32_t i = 0; i < v->n; i++) {
        if (str_eqz(v->members[i].key, "response")) {
            complete_lists(&v->members[i].value, response_members, ARRAY_LEN(response_members));
        }
    }
}

// ---- public -----------------------------------------------------------------------------------

int hook_args_take(struct hook_args *a, const struct json *value, struct err *e)
{
    enum hook_shape answer = hook_points[a->point].answer;
    if (answer == HOOK_SHAPE_NONE) {
        return err_set(e, ERR_INVALID, "handlers of '%s' have no answer to give",
                       hook_points[a->point].name);
    }
    assert(checks[answer] != NULL && a->n != 0);
    int rc = checks[answer](value, e);
    if (rc < 0) {
        return rc;
    }
    struct json *mine = json_clone(a->arena, value);
    if (answer == HOOK_SHAPE_REQUEST || answer == HOOK_SHAPE_RESPONSE) {
        complete_talk(mine);
    }
    a->values[a->n - 1] = answer == HOOK_SHAPE_RESULT ? complete_result(mine, a) : mine;
    return 0;
}

static void write_members(const struct hook_ctx *c, struct jw *w)
{
    const struct {
        const char *key;
        struct str text;
    } texts[] = {
        {"session_id", c->session_id}, {"turn_id", c->turn_id}, {"working_dir", c->working_dir},
        {"user_text", c->user_text},   {"bot", c->bot},         {"model", c->model},
        {"outcome", c->outcome}};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (texts[i].text.n != 0) {
            jw_kstr(w, texts[i].key, texts[i].text);
        }
    }
    jw_kint(w, "depth", c->depth);
    if (c->state != NULL) {
        jw_kvalue(w, "state", c->state);
    }
    if (c->memory != NULL) {
        jw_kvalue(w, "memory", c->memory);
    }
}

void hook_ctx_write(const struct hook_ctx *c, struct jw *w)
{
    jw_kobj(w, "ctx");
    if (c != NULL) {
        write_members(c, w);
    }
    jw_end_obj(w);
}

void hook_args_write(const struct hook_args *a, struct jw *w)
{
    hook_ctx_write(a->ctx, w);
    jw_karr(w, "args");
    for (size_t i = 0; i < a->n; i++) {
        jw_value(w, a->values[i]);
    }
    jw_end_arr(w);
}

static bool is_same(const struct json *a, const struct json *b)
{
    return a == b || (a != NULL && b != NULL && json_equal(a, b));
}

/// The members of `now` with what changed between `old` and `new`.
static struct json *merge_state(struct arena *a, const struct json *now, const struct json *old,
                                const struct json *new)
{
    struct json *out = arena_calloc(a, 1, sizeof *out);
    out->type = JSON_OBJ;
    out->members = arena_calloc(a, (size_t)now->n + new->n + 1, sizeof *out->members);
    json_foreach_member (m, now) {
        const struct json *mine = json_get_str(new, m->key);
        bool kept = is_same(mine, json_get_str(old, m->key));
        if (kept || mine != NULL) {
            out->members[out->n++] =
                (struct json_member){m->key, kept ? m->value : *json_clone(a, mine)};
        }
    }
    json_foreach_member (m, new) {
        if (json_get_str(now, m->key) == NULL && !is_same(&m->value, json_get_str(old, m->key))) {
            out->members[out->n++] =
                (struct json_member){arena_str(a, m->key), *json_clone(a, &m->value)};
        }
    }
    return out;
}

static struct json *merge_memory(struct arena *a, const struct json *now, const struct json *old,
                                 const struct json *new)
{
    bool appends = new->n >= old->n; // `new` begins with all of `old`
    for (uint32_t i = 0; appends && i < old->n; i++) {
        appends = json_equal(&new->items[i], &old->items[i]);
    }
    struct json *out = arena_calloc(a, 1, sizeof *out);
    out->type = JSON_ARR;
    out->items = arena_calloc(a, (size_t)now->n + new->n + 1, sizeof *out->items);
    for (uint32_t i = 0; appends && i < now->n; i++) {
        out->items[out->n++] = now->items[i];
    }
    for (uint32_t i = appends ? old->n : 0; i < new->n; i++) {
        out->items[out->n++] = *json_clone(a, &new->items[i]);
    }
    return out;
}

void hook_ctx_merge(struct hook_ctx *c, const struct hook_seen *seen, const struct json *state,
                    const struct json *memory)
{
    static const struct json nothing = {.type = JSON_ARR};
    const struct json *old = seen->memory != NULL ? seen->memory : &nothing;
    const struct json *list = memory != NULL && is_empty(memory) ? &nothing : memory;
    if (state != NULL) {
        c->state = c->state == seen->state ? json_clone(c->arena, state)
                                           : merge_state(c->arena, c->state, seen->state, state);
    }
    if (list != NULL) {
        c->memory = c->memory == seen->memory ? json_clone(c->arena, list)
                                              : merge_memory(c->arena, c->memory, old, list);
    }
}

int hook_ctx_take(struct hook_ctx *c, const struct hook_seen *seen, const struct json *state,
                  const struct json *memory, struct err *e)
{
    if (state != NULL && state->type != JSON_OBJ) {
        return err_set(e, ERR_INVALID, "ctx.state must be an object, not %s",
                       json_type_name(state));
    }
    int rc = memory != NULL ? check_memory(memory, e) : 0;
    if (rc == 0) {
        hook_ctx_merge(c, seen, state, memory);
    }
    return rc;
}
