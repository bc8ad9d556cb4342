// Check the arguments of library functions, and answer with nil and a message.
//
// A wrong type is a mistake in the code and raises, with the name of the function and of the
// argument. What can go wrong in correct code (no such file) is answered with nil and a message.

#include "lua/args.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>

#include <lauxlib.h>

#include "lua/value.h"

static const uint64_t MS_MAX = 10ULL * 366 * 24 * 3600 * 1000;

static NORETURN void wrong(lua_State *L, int idx, const char *fn, const char *what,
                           const char *expected)
{
    luaL_error(L, "%s: %s must be %s, not %s", fn, what, expected,
               lua_isnoneornil(L, idx) ? "nil" : luaL_typename(L, idx));
    abort(); // luaL_error() does not return
}

struct str args_str(lua_State *L, int idx, const char *fn, const char *what)
{
    struct str s;
    if (lua_type(L, idx) != LUA_TSTRING) {
        wrong(L, idx, fn, what, "a string");
    }
    s.p = lua_tolstring(L, idx, &s.n);
    return s;
}

const char *args_z(lua_State *L, int idx, const char *fn, const char *what)
{
    struct str s = args_str(L, idx, fn, what);
    if (strlen(s.p) != s.n) {
        luaL_error(L, "%s: %s must not hold a NUL byte", fn, what);
    }
    return s.p;
}

void args_fn(lua_State *L, int idx, const char *fn)
{
    if (lua_type(L, idx) != LUA_TFUNCTION) {
        wrong(L, idx, fn, "the handler", "a function");
    }
}

uint64_t args_ms(lua_State *L, int idx, const char *fn, const char *what)
{
    if (lua_type(L, idx) != LUA_TNUMBER) {
        wrong(L, idx, fn, what, "a number of seconds");
    }
    double ms = ceil(lua_tonumber(L, idx) * 1000);
    if (!(ms >= 0 && ms <= (double)MS_MAX)) {
        luaL_error(L, "%s: %s must be between 0 and ten years", fn, what);
    }
    return MAX((uint64_t)ms, 1);
}

void args_keys(lua_State *L, int idx, const char *fn, const char *const *keys)
{
    idx = lua_absindex(L, idx);
    assert(lua_istable(L, idx));
    for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            luaL_error(L, "%s: options are named, not a list", fn);
        }
        const char *key = lua_tostring(L, -2);
        size_t n = 0;
        while (keys[n] != NULL && strcmp(keys[n], key) != 0) {
            n++;
        }
        if (keys[n] == NULL) {
            luaL_error(L, "%s: unknown option '%s'%s", fn, key,
                       args_near(L, str_nearest(str_of(key), keys, n)));
        }
    }
}

bool args_field(lua_State *L, int idx, const char *key)
{
    idx = lua_absindex(L, idx);
    assert(lua_istable(L, idx));
    lua_pushstring(L, key);
    return lua_rawget(L, idx) != LUA_TNIL;
}

const char *args_near(lua_State *L, const char *near)
{
    return near != NULL ? lua_pushfstring(L, " (did you mean '%s'?)", near) : "";
}

int args_bool(lua_State *L, bool b)
{
    lua_pushboolean(L, b);
    return 1;
}

int args_fail(lua_State *L, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    lua_pushnil(L);
    lua_pushstring(L, text);
    return 2;
}

static int scratch_gc(lua_State *L)
{
    struct args_scratch *s = lua_touserdata(L, 1);
    arena_fini(&s->arena);
    buf_fini(&s->buf);
    return 0;
}

struct args_scratch *args_scratch(lua_State *L)
{
    struct args_scratch *s = lua_newuserdatauv(L, sizeof *s, 0);
    s->arena = (struct arena){0};
    buf_init(&s->buf, VALUE_BYTES);
    if (luaL_newmetatable(L, "afloat.scratch")) {
        lua_pushcfunction(L, scratch_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return s;
}

struct str args_json(lua_State *L, struct args_scratch *s, const char *fn, const char *what)
{
    if (!buf_ok(&s->buf)) {
        luaL_error(L, "%s: %s is larger than %d MiB as JSON", fn, what, VALUE_BYTES >> 20);
    }
    return buf_str(&s->buf);
}
