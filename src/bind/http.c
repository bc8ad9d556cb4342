// http: request, get, post, over the hub's one HTTP client.

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/faces.h"
#include "net/http_client.h"

enum { TIMEOUT_MS = 30000, HEADERS_BYTES = 1 << 20 };

struct fetch {
    struct bind_op op;
    struct arena arena; // of `q`
    struct http_request q;
    struct http_call *call; // NULL until it is started
};

static void fetch_free(struct bind_op *op)
{
    struct fetch *f = container_of(op, struct fetch, op);
    arena_fini(&f->arena);
    free(f);
}

// ---- the answer -------------------------------------------------------------------------------

/// Push the headers by lower-case name; the values of a repeated header are joined.
static void push_headers(lua_State *L, const struct http_reply *reply)
{
    lua_newtable(L);
    for (size_t i = 0; i < reply->n_headers; i++) {
        const struct http_header *h = &reply->headers[i];
        luaL_Buffer name;
        luaL_buffinit(L, &name);
        for (size_t k = 0; k < h->name.n; k++) {
            char c = h->name.p[k];
            luaL_addchar(&name, (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
        }
        luaL_pushresult(&name);
        lua_pushvalue(L, -1);
        bool first = lua_rawget(L, -3) == LUA_TNIL;
        lua_pushstring(L, first ? "" : ", ");
        lua_pushlstring(L, h->value.p, h->value.n);
        lua_concat(L, first ? 2 : 3);
        if (first) {
            lua_remove(L, -2); // the nil
        }
        lua_rawset(L, -3);
    }
}

static void on_done(struct http_call *call, int rc, const struct http_reply *reply,
                    const struct err *e, void *arg)
{
    (void)call;
    struct fetch *f = arg;
    lua_State *L = bind__op_answer_begin(&f->op);
    if (L != NULL && rc < 0) {
        bind__op_answer(&f->op, args_fail(L, "http: %s", e->msg));
    } else if (L != NULL) {
        lua_createtable(L, 0, 3);
        value_set_int(L, "status", reply->status);
        push_headers(L, reply);
        lua_setfield(L, -2, "headers");
        lua_pushlstring(L, reply->body.p, reply->body.n);
        lua_setfield(L, -2, "body");
        bind__op_answer(&f->op, 1);
    }
    fetch_free(&f->op);
}

static const struct http_cb callbacks = {.on_done = on_done};

static void fetch_cancel(struct bind_op *op)
{
    http_client_cancel(container_of(op, struct fetch, op)->call);
    fetch_free(op);
}

static int fetch_start(struct bind_op *op, struct err *e)
{
    struct fetch *f = container_of(op, struct fetch, op);
    return http_client_send(&f->call, op->o->bind->o.http, &f->q, &callbacks, f, e);
}

static const struct bind_op_kind fetch_kind = {
    .line = LINE_HTTP, .start = fetch_start, .cancel = fetch_cancel, .free = fetch_free};

// ---- the request: what is read is copied to the scratch, because reading may raise ---------------

struct wish {
    struct args_scratch *s; // its arena has all that `q` refers to
    struct http_request q;
    struct http_header headers[BIND__HEADERS + 1]; // and one of ours
};

static void wish_begin(lua_State *L, struct wish *w, const char *url)
{
    w->s = args_scratch(L);
    w->q = (struct http_request){.url = arena_strdup(&w->s->arena, str_of(url)),
                                 .timeout_ms = TIMEOUT_MS,
                                 .follow_redirects = true};
}

static bool has_header(const struct wish *w, const char *name)
{
    for (size_t i = 0; i < w->q.n_headers; i++) {
        if (str_caseeqz(w->headers[i].name, name)) {
            return true;
        }
    }
    return false;
}

/// Read the value at `idx` as the body, a string as it is, anything else as JSON, after the headers.
static void read_body(lua_State *L, struct wish *w, int idx, const char *fn)
{
    if (lua_type(L, idx) == LUA_TSTRING) {
        w->q.body = arena_str(&w->s->arena, args_str(L, idx, fn, "body"));
        return;
    }
    struct err e = {0};
    struct json *v;
    struct args_scratch *s = args_scratch(L); // the request keeps the text alone
    if (value_read(&v, &s->arena, L, idx, &e) < 0) {
        luaL_error(L, "%s: body: %s", fn, e.msg);
    }
    json_write(&s->buf, v, 0);
    w->q.body = arena_str(&w->s->arena, args_json(L, s, fn, "body"));
    if (!has_header(w, "content-type")) {
        w->headers[w->q.n_headers++] =
            (struct http_header){STR("Content-Type"), STR("application/json")};
    }
}

/// Send it: the request takes the arena over.
static int wish_send(lua_State *L, struct wish *w, int callback)
{
    struct fetch *f = xcalloc(1, sizeof *f);
    struct http_header *headers = arena_calloc(&w->s->arena, w->q.n_headers + 1, sizeof *headers);
    memcpy(headers, w->headers, w->q.n_headers * sizeof *headers);
    f->q = w->q;
    f->q.headers = headers;
    f->arena = w->s->arena;
    w->s->arena = (struct arena){0};
    return bind__op_run(L, &f->op, &fetch_kind, "http", sizeof *f + f->arena.used, callback);
}

size_t bind__read_headers(lua_State *L, int idx, const char *who, struct arena *a,
                          struct http_header *out)
{
    size_t n = 0, bytes = 0;
    idx = lua_absindex(L, idx);
    if (!lua_istable(L, idx)) {
        luaL_error(L, "%s: 'headers' must be a table of names and texts", who);
    }
    for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 1)) {
        if (n == BIND__HEADERS) {
            luaL_error(L, "%s: more than %d headers", who, BIND__HEADERS);
        }
        struct str name = args_str(L, -2, who, "the name of a header");
        struct str value = args_str(L, -1, who, "the value of a header");
        bytes += name.n + value.n;
        if (bytes > HEADERS_BYTES) {
            luaL_error(L, "%s: headers are larger than 1 MiB", who);
        }
        out[n++] = (struct http_header){arena_str(a, name), arena_str(a, value)};
    }
    return n;
}

static int l_request(lua_State *L)
{
    static const char *const keys[] = {"method", "url", "headers", "body", "timeout_s", NULL};
    if (!lua_istable(L, 1)) {
        return luaL_error(L, "http.request: expects a table: http.request{url = \"https://...\"}");
    }
    args_keys(L, 1, "http.request", keys);
    bind__op_check(L, 2, "http.request");
    lua_settop(L, 2);
    struct wish w;
    args_field(L, 1, "url");
    wish_begin(L, &w, args_z(L, -1, "http.request", "url"));
    struct arena *a = &w.s->arena;
    if (args_field(L, 1, "method")) {
        w.q.method = arena_strdup(a, str_of(args_z(L, -1, "http.request", "method")));
    }
    if (args_field(L, 1, "headers")) {
        w.q.n_headers = bind__read_headers(L, -1, "http.request", a, w.headers);
    }
    if (args_field(L, 1, "timeout_s")) {
        w.q.timeout_ms = args_ms(L, -1, "http.request", "timeout_s");
    }
    if (args_field(L, 1, "body")) {
        read_body(L, &w, lua_gettop(L), "http.request");
    }
    return wish_send(L, &w, 2);
}

/// fn(url[, callback]) when `callback` is 2; fn(url, body[, callback]) when it is 3.
static int send_simple(lua_State *L, const char *fn, const char *method, int callback)
{
    const char *url = args_z(L, 1, fn, "url");
    lua_settop(L, callback);
    bind__op_check(L, callback, fn);
    struct wish w;
    wish_begin(L, &w, url);
    w.q.method = method;
    if (callback == 3 && !lua_isnil(L, 2)) {
        read_body(L, &w, 2, fn);
    }
    return wish_send(L, &w, callback);
}

static int l_get(lua_State *L)
{
    return send_simple(L, "http.get", "GET", 2);
}

static int l_post(lua_State *L)
{
    return send_simple(L, "http.post", "POST", 3);
}

const luaL_Reg face_http[] = {
    {"request", l_request}, {"get", l_get}, {"post", l_post}, {NULL, NULL}};
