// websocket: connect, send, close. A connection is a registration: it opens when the unit is committed, and what happens on
// it comes to its handlers one after another.
//
//     websocket.connect(url, {headers, on_open, on_message, on_close, on_error}) -> id
//
//     net/ws_client ── post {type, ...} ──> queue of the registration ──> l_dispatch ──> on_message(data, binary)

#include "bind/websocket.h"

#include <lauxlib.h>

#include "base/base64.h"
#include "base/utf8.h"
#include "bind/faces.h"

enum { REASON_MAX = 1024 }; // bytes of why a connection ended

struct socket {
    struct bind_reg reg;
    struct bind__link link;
    bool over; // the end was posted: it goes when its handlers have run
};

static struct socket *socket_of(struct bind_reg *r)
{
    return container_of(r, struct socket, reg);
}

// ---- what both modules have ---------------------------------------------------------------------

void bind__link_read(lua_State *L, int opts, struct str url, struct bind__link *k)
{
    k->arena = (struct arena){0};
    k->q.url = arena_strdup(&k->arena, url);
    if (!args_field(L, opts, "headers")) {
        return;
    }
    struct http_header *headers = arena_calloc(&k->arena, BIND__HEADERS, sizeof *headers);
    k->q.n_headers = bind__read_headers(L, -1, "", &k->arena, headers); // checked: raises nothing
    k->q.headers = headers;
}

void bind__link_free(struct bind__link *k)
{
    bind__link_drop(k);
    arena_fini(&k->arena);
}

int bind__link_open(struct bind__link *k, struct bind_reg *r, const struct ws_client_cb *cb,
                    struct err *e)
{
    const struct bind *b = r->o->bind;
    assert(k->ws == NULL);
    return ws_client_open(&k->ws, b->o.http, b->o.hub->loop, &k->q, cb, r, e);
}

void bind__link_drop(struct bind__link *k)
{
    ws_client_free(k->ws);
    k->ws = NULL;
}

struct str bind__check_url(lua_State *L, int idx, const char *who)
{
    struct str url = args_str(L, idx, who, "url");
    if (str_starts(url, "ws://") || str_starts(url, "wss://")) {
        return url;
    }
    args_fail(L, "%s: a URL begins with wss:// or ws://", who);
    return STR_NULL;
}

static void write_event(struct buf *out, const char *type, int code, struct str text, bool binary)
{
    struct jw w = {.out = out};
    jw_obj(&w);
    jw_kstrz(&w, "type", type);
    jw_kint(&w, "code", code);
    jw_kstr(&w, "text", text);
    jw_kbool(&w, "binary", binary);
    jw_end_obj(&w);
}

void bind__post_event(struct bind_reg *r, const char *type, int code, struct str text, bool binary)
{
    struct buf out = {.max = SIZE_MAX}, data = {.max = SIZE_MAX};
    if (binary) {
        base64_encode(&data, text);
    }
    write_event(&out, type, code, binary ? buf_str(&data) : text, binary);
    bind__reg_post(r, buf_str(&out), NULL);
    buf_fini(&out);
    buf_fini(&data);
}

static void post_end(struct bind_reg *r, const char *type, int code, struct str text)
{
    struct buf out = {.max = SIZE_MAX};
    text.n = utf8_cut(text.p, text.n, MIN(text.n, (size_t)REASON_MAX));
    write_event(&out, type, code, text, false);
    bind__reg_post_end(r, buf_str(&out));
    buf_fini(&out);
}

void bind__post_end(struct bind_reg *r, struct bind__link *k, int code, struct str reason,
                    const char *message, bool closes)
{
    if (message != NULL) {
        post_end(r, "error", code, str_of(message));
    }
    if (closes) {
        post_end(r, "close", code, message != NULL ? str_of(message) : reason);
    }
    bind__link_drop(k);
}

static int after_handler(lua_State *L, int status, lua_KContext k)
{
    (void)L;
    (void)status;
    (void)k;
    return 0;
}

/// Push the text of the event at 1, as the peer sent it.
static void push_text(lua_State *L)
{
    size_t n;
    bool binary = args_field(L, 1, "binary") && lua_toboolean(L, -1);
    args_field(L, 1, "text");
    const char *text = lua_tolstring(L, -1, &n);
    if (binary) {
        struct args_scratch *s = args_scratch(L);
        (void)base64_decode(&s->buf, (struct str){text, n});
        lua_pushlstring(L, s->buf.n != 0 ? s->buf.p : "", s->buf.n);
    }
}

/// The handler of a registration: finds the one for the event at 1 in the table that is the upvalue.
static int l_dispatch(lua_State *L)
{
    lua_settop(L, 1);
    args_field(L, 1, "type");
    const char *name = lua_pushfstring(L, "on_%s", lua_tostring(L, -1));
    if (lua_getfield(L, lua_upvalueindex(1), name) != LUA_TFUNCTION) {
        return 0;
    }
    int n = 0;
    if (strcmp(name, "on_close") == 0) {
        args_field(L, 1, "code");
        n++;
    }
    if (strcmp(name, "on_open") != 0) {
        int at = lua_gettop(L);
        push_text(L);
        lua_replace(L, at + 1);
        lua_settop(L, at + 1);
        n++;
    }
    if (strcmp(name, "on_message") == 0) {
        args_field(L, 1, "binary");
        n++;
    }
    lua_callk(L, n, 0, 0, after_handler);
    return 0;
}

void bind__push_dispatch(lua_State *L, int opts)
{
    lua_pushvalue(L, opts);
    lua_pushcclosure(L, l_dispatch, 1);
}

void bind__check_handlers(lua_State *L, int opts, const char *who, const char *const *keys)
{
    args_keys(L, opts, who, keys);
    for (size_t i = 0; keys[i] != NULL; i++) {
        if (str_starts(str_of(keys[i]), "on_") && args_field(L, opts, keys[i])) {
            args_fn(L, lua_gettop(L), who);
        }
    }
    if (args_field(L, opts, "headers")) {
        struct http_header unused[BIND__HEADERS];
        struct arena *a = &args_scratch(L)->arena;
        (void)bind__read_headers(L, -2, who, a, unused);
    }
}

// ---- a connection -------------------------------------------------------------------------------

static void on_open(void *arg)
{
    bind__post_event(arg, "open", 0, STR(""), false);
}

static void on_message(void *arg, struct str bytes, bool binary)
{
    bind__post_event(arg, "message", 0, bytes, binary);
}

static void on_end(void *arg, int code, struct str reason, const char *message)
{
    struct socket *s = socket_of(arg);
    s->over = true;
    bind__post_end(&s->reg, &s->link, code, reason, message, true);
}

static void start(struct bind_reg *r)
{
    static const struct ws_client_cb cb = {on_open, on_message, on_end};
    struct err e = {0};
    assert(!socket_of(r)->over);
    if (bind__link_open(&socket_of(r)->link, r, &cb, &e) < 0) {
        on_end(r, 1006, STR(""), e.msg);
    }
}

static void stop(struct bind_reg *r)
{
    bind__link_drop(&socket_of(r)->link);
}

static void on_idle(struct bind_reg *r)
{
    if (socket_of(r)->over && r->at >= r->queue.n) {
        bind__reg_off(r);
    }
}

static void socket_free(struct bind_reg *r)
{
    struct socket *s = socket_of(r);
    bind__link_free(&s->link);
    free(s);
}

static const struct bind_reg_ops ops = {
    .what = "websocket",
    .quota = QUOTA_SOCKET,
    .kind = GEN__KINDS,
    .start = start,
    .stop = stop,
    .idle = on_idle,
    .free = socket_free,
};

static int l_connect(lua_State *L)
{
    static const char *const keys[] = {"headers",  "on_open",  "on_message",
                                       "on_close", "on_error", NULL};
    static const char who[] = "websocket.connect";
    (void)args_str(L, 1, who, "url");
    if (lua_isnoneornil(L, 2)) {
        lua_settop(L, 1);
        lua_newtable(L);
    }
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    luaL_checkstack(L, 24, who);
    bind__check_handlers(L, 2, who, keys);
    struct str url = bind__check_url(L, 1, who);
    if (url.p == NULL) {
        return 2;
    }
    bind__owner(L);
    lua_settop(L, 2);
    bind__push_dispatch(L, 2);
    struct socket *s = xcalloc(1, sizeof *s);
    bind__link_read(L, 2, url, &s->link);
    return bind__reg_add(L, &s->reg, &ops, url, 3);
}

static struct socket *check_socket(lua_State *L)
{
    struct bind_reg *r = bind__reg_find(L, (uint64_t)lua_tointeger(L, 1), ops.what);
    return r != NULL && socket_of(r)->link.ws != NULL ? socket_of(r) : NULL;
}

static int l_send(lua_State *L)
{
    struct socket *s = check_socket(L);
    struct str bytes = args_str(L, 2, "websocket.send", "what is sent");
    int rc = s != NULL ? ws_client_send(s->link.ws, bytes, lua_toboolean(L, 3)) : UV_ENOTCONN;
    if (rc < 0) {
        return args_fail(L, "websocket.send: %s",
                         rc == ERR_TOO_LARGE ? "too much waits to be sent" : "it is not open");
    }
    return args_bool(L, true);
}

static int l_close(lua_State *L)
{
    struct socket *s = check_socket(L);
    int code = (int)luaL_optinteger(L, 2, 1000);
    struct str reason =
        lua_isnoneornil(L, 3) ? STR("") : args_str(L, 3, "websocket.close", "reason");
    if (s != NULL) {
        ws_client_close(s->link.ws, code, reason);
    }
    return args_bool(L, s != NULL);
}

const luaL_Reg face_websocket[] = {
    {"connect", l_connect}, {"send", l_send}, {"close", l_close}, {NULL, NULL}};
