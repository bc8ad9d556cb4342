// route(METHOD, PATH, fn): requests below /api/plugins/NAME/ answered in Lua.
//
//     gen_route_call ──> req (a record: method path params query headers body json) ──> fn
//     nil ──> 204        {status = integer, headers, body}, response{...} ──> as it says
//                        anything else ──> 200 and JSON
//
// The answer is checked before it becomes HTTP: no line breaks in headers, and only a status that a server may send. A route
// that runs out of time three times in a row is switched off until its plugin changes; calls then fail with ERR_DENIED.

#include <lauxlib.h>

#include "bind/offer.h"
#include "gen/answer.h"

struct route_job {
    struct offer_job job; // first
    struct gen_route_call *gen;
    record_id req;
};

// ---- req --------------------------------------------------------------------------------------------

#define TEXT(field)                                                                                \
    static bool get_##field(const void *obj, struct json *out)                                     \
    {                                                                                              \
        const struct route_job *r = obj;                                                           \
        *out = (struct json){.type = JSON_STR, .s = r->gen->field};                                \
        return true;                                                                               \
    }
TEXT(method)
TEXT(path)
TEXT(body)
#undef TEXT

static struct arena *arena_of(const void *obj)
{
    return &((struct route_job *)(uintptr_t)obj)->job.arena;
}

static bool get_params(const void *obj, struct json *out)
{
    *out = gen_route_params(((const struct route_job *)obj)->gen, arena_of(obj));
    return true;
}

static bool get_headers(const void *obj, struct json *out)
{
    *out = gen_route_headers(((const struct route_job *)obj)->gen, arena_of(obj));
    return true;
}

static bool get_query(const void *obj, struct json *out)
{
    *out = gen_route_query(((const struct route_job *)obj)->gen, arena_of(obj));
    return true;
}

/// The body as JSON; nil when it is not valid JSON.
static bool get_json(const void *obj, struct json *out)
{
    const struct route_job *r = obj;
    struct json *v;
    if (json_parse(&v, arena_of(obj), r->gen->body, NULL, NULL) < 0) {
        return false;
    }
    *out = *v;
    return true;
}

static const struct record_field req_fields[] = {
    {.name = "method", .get = get_method},   {.name = "path", .get = get_path},
    {.name = "params", .get = get_params},   {.name = "query", .get = get_query},
    {.name = "headers", .get = get_headers}, {.name = "body", .get = get_body},
    {.name = "json", .get = get_json},
};
static const struct record_type req_type = {"req", req_fields, ARRAY_LEN(req_fields)};

// ---- answers ----------------------------------------------------------------------------------------

/// The value at the top of `L` as the body: a text is sent as it is (bytes, not checked), else JSON.
static int read_body(struct gen_answer *a, struct arena *arena, lua_State *L, bool text,
                     struct err *e)
{
    struct json *v;
    struct buf out = {.max = SIZE_MAX};
    if (text && lua_isnil(L, -1)) {
        return 0;
    }
    if (text && lua_type(L, -1) == LUA_TSTRING) {
        size_t n;
        const char *p = lua_tolstring(L, -1, &n);
        return gen_answer_body(a, arena_str(arena, (struct str){p, n}), "text/plain; charset=utf-8",
                               e);
    }
    int rc = value_read(&v, arena, L, -1, e);
    if (rc < 0) {
        return rc;
    }
    json_write(&out, v, 0);
    rc = gen_answer_body(a, arena_str(arena, buf_str(&out)), "application/json", e);
    buf_fini(&out);
    return rc;
}

/// The table at 1 holds an integer `status`: it is the answer itself.
static int read_explicit(struct gen_answer *a, struct arena *arena, lua_State *L, struct err *e)
{
    struct json *headers;
    int rc = gen_answer_status(a, lua_tointeger(L, -1), e);
    if (rc == 0 && args_field(L, 1, "headers")) {
        rc = value_read(&headers, arena, L, -1, e);
        if (rc == 0) {
            rc = gen_answer_headers(a, arena, headers, e);
        }
    }
    args_field(L, 1, "body");
    return rc == 0 ? read_body(a, arena, L, true, e) : rc;
}

static int read_answer(struct gen_answer *a, struct arena *arena, lua_State *L, int n,
                       struct err *e)
{
    lua_checkstack(L, 16);
    if (n == 0 || lua_isnil(L, 1)) {
        a->status = 204;
        return 0;
    }
    lua_settop(L, 1);
    if (lua_istable(L, 1) && args_field(L, 1, "status") && lua_isinteger(L, -1)) {
        return read_explicit(a, arena, L, e);
    }
    lua_settop(L, 1);
    a->status = 200;
    return read_body(a, arena, L, false, e);
}

// ---- calls ------------------------------------------------------------------------------------------

static void on_route_ended(struct offer_job *j, const struct bind_result *how)
{
    struct route_job *r = container_of(j, struct route_job, job);
    struct gen_answer a = {0};
    struct err e = {0};
    bool done = how->end == BIND_DONE;
    int rc = done ? read_answer(&a, &j->arena, how->L, how->n, &e) : offer_fault(&e, how);
    if (done && rc < 0) {
        rc = offer_bad_answer(j, how->L, &e);
    }
    if (j->offer->strikes == HOOK_STRIKES) {
        char text[160];
        snprintf(text, sizeof text, "route '%.90s' ran out of time %d times in a row",
                 j->offer->name, HOOK_STRIKES);
        j->offer->off = true;
        bind__note(j->offer->o, DIAG_HOOK_DISABLED, NULL, 0, text);
    }
    record_drop(j->offer->o->vm, r->req);
    r->gen->done(r->gen, rc < 0 ? 0 : a.status, a.headers, rc < 0 ? 0 : a.n, a.body,
                 rc < 0 ? &e : NULL);
    arena_fini(&j->arena);
    free(r);
}

static void refuse(struct gen_route_call *gen, int code, const char *why, const char *name)
{
    struct err e = {0};
    err_set(&e, code, "route '%s' %s", name, why);
    gen->done(gen, 0, NULL, 0, STR_NULL, &e);
}

static void route_call(void *data, struct gen_route_call *gen)
{
    struct offer *f = data;
    if (f->off) {
        refuse(gen, ERR_DENIED, "is switched off: it ran out of time too often", f->name);
        return;
    }
    struct route_job *r = xcalloc(1, sizeof *r);
    r->gen = gen;
    gen->target_data = r;
    if (!offer_begin(&r->job, f, on_route_ended, 0)) {
        free(r);
        refuse(gen, ERR_CONFLICT, "can no longer be called", f->name);
    }
}

static void route_cancel(void *data, struct gen_route_call *gen)
{
    struct offer *f = data;
    struct route_job *r = gen->target_data;
    assert(r != NULL && r->gen == gen);
    offer_cancel(&r->job);
    record_drop(f->o->vm, r->req);
    free(r);
}

static int push_req(struct offer_job *j, lua_State *L)
{
    struct route_job *r = container_of(j, struct route_job, job);
    r->req = record_push(L, &req_type, r);
    return 1;
}

static const struct gen_route route_face = {
    .call = route_call, .cancel = route_cancel, .stats = offer_stats};
static const struct offer_kind route_kind = {"route", GEN_ROUTE, DIAG_ROUTE_CONFLICT, &route_face,
                                             push_req};

// ---- what plugins call --------------------------------------------------------------------------

/// route(method, path, fn)
int offer_route(lua_State *L)
{
    struct err e = {0};
    struct str method = args_str(L, 1, "route", "the method");
    struct str path = args_str(L, 2, "route", "the path");
    args_fn(L, 3, "route");
    lua_settop(L, 3);
    struct args_scratch *s = args_scratch(L);
    if (gen_route_name(&s->buf, method, path, &e) < 0) {
        return luaL_error(L, "route: %s", e.msg);
    }
    return offer_add(L, &route_kind, buf_str(&s->buf), STR_NULL, GEN_NAME_PLAIN, 3);
}

/// response{status, headers, body}: an answer, 200 unless it says otherwise.
int offer_response(lua_State *L)
{
    static const char *const keys[] = {"status", "headers", "body", NULL};
    offer_check(L, "response", keys);
    if (!args_field(L, 1, "status")) {
        lua_pushinteger(L, 200);
        lua_setfield(L, 1, "status");
    } else if (!lua_isinteger(L, -1)) {
        return luaL_error(L, "response: status must be an integer, not %s", luaL_typename(L, -1));
    }
    lua_settop(L, 1);
    return 1;
}
