// route(METHOD, PATH, fn): requests below /api/plugins/NAME/ answered in Lua.
//
//     gen_route_call ──> req (a record: method path params query headers body json) ──> fn
//     nil ──> 204        {status = integer, headers, body}, response{...} ──> as it says
//                        anything else ──> 200 and JSON
//
// What a handler answers is checked before it becomes HTTP: no line breaks in headers, no status that a
// server may not send. A route that runs out of time three times in a row is switched off until its
// plugin changes: ERR_DENIED then.

#include <lauxlib.h>

#include "bind/offer.h"

enum { HEADERS_MAX = 64 };

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

/// Set a member: one that is there already gets `joint` and the value behind it, or (NULL) is replaced.
static void put(struct json *to, struct arena *a, struct str name, struct str value,
                const char *joint)
{
    for (uint32_t i = 0; i < to->n; i++) {
        struct json *have = &to->members[i].value;
        if (!str_eq(to->members[i].key, name)) {
            continue;
        }
        if (joint != NULL) {
            const char *both =
                arena_printf(a, STR_FMT "%s" STR_FMT, STR_ARG(have->s), joint, STR_ARG(value));
            value = str_of(both);
        }
        have->s = value;
        return;
    }
    to->members[to->n++] = (struct json_member){name, {.type = JSON_STR, .s = value}};
}

static bool get_params(const void *obj, struct json *out)
{
    const struct gen_route_call *c = ((const struct route_job *)obj)->gen;
    *out = (struct json){.type = JSON_OBJ};
    out->members = arena_calloc(arena_of(obj), c->n_params, sizeof *out->members);
    for (size_t i = 0; i < c->n_params; i++) {
        put(out, arena_of(obj), c->params[i].name, c->params[i].value, NULL);
    }
    return true;
}

static bool get_headers(const void *obj, struct json *out)
{
    const struct gen_route_call *c = ((const struct route_job *)obj)->gen;
    *out = (struct json){.type = JSON_OBJ};
    out->members = arena_calloc(arena_of(obj), c->n_headers, sizeof *out->members);
    for (size_t i = 0; i < c->n_headers; i++) {
        put(out, arena_of(obj), c->headers[i].name, c->headers[i].value, ", ");
    }
    return true;
}

static int hex_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    return at != NULL ? (int)(at - digits) : -1;
}

/// A part of a query: `+` is a space, %XX a byte; a `%` that is neither stays.
static struct str decode(struct arena *a, struct str s)
{
    char *to = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        int high = s.p[i] == '%' && i + 2 < s.n ? hex_of(s.p[i + 1]) : -1;
        int low = high >= 0 ? hex_of(s.p[i + 2]) : -1;
        if (low >= 0) {
            to[n++] = (char)(high << 4 | low);
            i += 2;
        } else {
            to[n++] = s.p[i] == '+' ? ' ' : s.p[i];
        }
    }
    return (struct str){to, n};
}

static bool get_query(const void *obj, struct json *out)
{
    struct str rest = ((const struct route_job *)obj)->gen->query;
    struct arena *a = arena_of(obj);
    size_t max = 1;
    for (size_t i = 0; i < rest.n; i++) {
        max += rest.p[i] == '&';
    }
    *out = (struct json){.type = JSON_OBJ};
    out->members = arena_calloc(a, max, sizeof *out->members);
    while (rest.n != 0) {
        struct str value = str_cut(&rest, '&');
        struct str name = str_cut(&value, '=');
        if (name.n != 0) {
            put(out, a, decode(a, name), decode(a, value), NULL);
        }
    }
    return true;
}

/// The body as JSON; nil when it is none.
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

struct answer {
    int status;
    struct gen_pair headers[HEADERS_MAX];
    size_t n;
    struct str body;
};

/// A name of a header, and a value that breaks no line.
static bool is_header(struct str name, struct str value)
{
    bool ok = name.n != 0;
    for (size_t i = 0; i < name.n && ok; i++) {
        char c = name.p[i];
        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
    }
    for (size_t i = 0; i < value.n && ok; i++) {
        ok = ((unsigned char)value.p[i] >= ' ' || value.p[i] == '\t') && value.p[i] != 0x7f;
    }
    return ok;
}

static int add_header(struct answer *a, struct arena *arena, struct str name, const struct json *v,
                      struct err *e)
{
    struct buf text;
    if (a->n == HEADERS_MAX) {
        return err_set(e, ERR_TOO_LARGE, "an answer has at most %d headers", HEADERS_MAX);
    }
    buf_init(&text, SIZE_MAX);
    if (v->type == JSON_STR) {
        buf_adds(&text, v->s);
    } else {
        json_write(&text, v, 0); // a number
    }
    struct str value = arena_str(arena, buf_str(&text));
    buf_fini(&text);
    bool scalar = v->type != JSON_OBJ && v->type != JSON_ARR && v->type != JSON_NULL;
    if (!scalar || !is_header(name, value)) {
        return err_set(e, ERR_INVALID, "an answer cannot have the header '" STR_FMT "' like this",
                       STR_ARG(name));
    }
    a->headers[a->n++] = (struct gen_pair){name, value};
    return 0;
}

/// The headers at the top of `L`: names to texts, or to lists of texts.
static int read_headers(struct answer *a, struct arena *arena, lua_State *L, struct err *e)
{
    struct json *v;
    int rc = value_read(&v, arena, L, -1, e);
    if (rc == 0 && v->type != JSON_OBJ && v->n != 0) {
        return err_set(e, ERR_INVALID, "headers must be a table of names and values");
    }
    json_foreach_member (m, rc == 0 ? v : NULL) {
        const struct json *one = m->value.type == JSON_ARR ? m->value.items : &m->value;
        size_t n = m->value.type == JSON_ARR ? m->value.n : 1;
        for (size_t i = 0; i < n && rc == 0; i++) {
            rc = add_header(a, arena, m->key, &one[i], e);
        }
    }
    return rc;
}

/// The value at the top of `L` as the body: a text is sent as it is (bytes, not checked), else JSON.
static int read_body(struct answer *a, struct arena *arena, lua_State *L, bool text, struct err *e)
{
    const char *type = "application/json";
    if (text && lua_type(L, -1) == LUA_TSTRING) {
        size_t n;
        const char *p = lua_tolstring(L, -1, &n);
        a->body = arena_str(arena, (struct str){p, n});
        type = "text/plain; charset=utf-8";
    } else if (!text || !lua_isnil(L, -1)) {
        struct json *v;
        struct buf out;
        int rc = value_read(&v, arena, L, -1, e);
        if (rc < 0) {
            return rc;
        }
        buf_init(&out, SIZE_MAX);
        json_write(&out, v, 0);
        a->body = arena_str(arena, buf_str(&out));
        buf_fini(&out);
    }
    bool typed = false;
    for (size_t i = 0; i < a->n; i++) {
        typed = typed || str_caseeqz(a->headers[i].name, "content-type");
    }
    if (a->body.n != 0 && !typed && a->n < HEADERS_MAX) {
        a->headers[a->n++] = (struct gen_pair){STR("content-type"), str_of(type)};
    }
    return 0;
}

/// The table at 1 holds an integer `status`: it is the answer itself.
static int read_explicit(struct answer *a, struct arena *arena, lua_State *L, struct err *e)
{
    lua_Integer status = lua_tointeger(L, -1);
    int rc = 0;
    if (status < 200 || status > 599) {
        return err_set(e, ERR_INVALID, "a status is 200 to 599, not %lld", (long long)status);
    }
    a->status = (int)status;
    if (args_field(L, 1, "headers")) {
        rc = read_headers(a, arena, L, e);
    }
    args_field(L, 1, "body");
    if (rc == 0) {
        rc = read_body(a, arena, L, true, e);
    }
    if (rc == 0 && a->body.n != 0 && (status == 204 || status == 304)) {
        rc = err_set(e, ERR_INVALID, "an answer with status %lld has no body", (long long)status);
    }
    return rc;
}

static int read_answer(struct answer *a, struct arena *arena, lua_State *L, int n, struct err *e)
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

static void on_route_ended(struct offer_job *j, enum bind_end end, lua_State *L, int n,
                           const struct gen_diag *fault)
{
    struct route_job *r = container_of(j, struct route_job, job);
    struct answer a = {0};
    struct err e = {0};
    int rc = end == BIND_DONE ? read_answer(&a, &j->arena, L, n, &e) : offer_fault(&e, end, fault);
    j->offer->stats.errors += end == BIND_DONE && rc < 0;
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
    r->job.offer = f;
    r->job.ended = on_route_ended;
    arena_init(&r->job.arena);
    gen->target_data = r;
    if (!offer_begin(&r->job, 0)) {
        arena_fini(&r->job.arena);
        free(r);
        refuse(gen, ERR_CONFLICT, "cannot be called any more", f->name);
    }
}

static void route_cancel(void *data, struct gen_route_call *gen)
{
    struct offer *f = data;
    struct route_job *r = gen->target_data;
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
static const struct offer_kind route_kind = {.what = "route",
                                             .kind = GEN_ROUTE,
                                             .conflict = DIAG_ROUTE_CONFLICT,
                                             .face = &route_face,
                                             .push = push_req};

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
    return offer_add(L, &route_kind, buf_str(&s->buf), STR_NULL, false, 3);
}

/// response{status, headers, body}: an answer, 200 unless it says otherwise.
int offer_response(lua_State *L)
{
    static const char *const keys[] = {"status", "headers", "body", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    args_keys(L, 1, "response", keys);
    if (!args_field(L, 1, "status")) {
        lua_pushinteger(L, 200);
        lua_setfield(L, 1, "status");
    } else if (!lua_isinteger(L, -1)) {
        return luaL_error(L, "response: status must be an integer, not %s", luaL_typename(L, -1));
    }
    lua_settop(L, 1);
    return 1;
}
