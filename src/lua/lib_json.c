// json: encode, decode, array, null.
//
// Both directions need memory that Lua does not know, and both can be stopped by a limit in the
// middle, by an error that jumps over this code. So the memory lies in a userdata, freed at once
// in the ordinary case and by the collector in the other.

#include "lua/lib.h"
#include "lua/value.h"
#include "lua/vm_int.h"

enum { TEXT_MAX = 8 * 1024 * 1024, INDENT_MAX = 8 };

struct scratch {
    struct arena arena;
    struct buf buf;
};

static int scratch_free(lua_State *L)
{
    struct scratch *s = lua_touserdata(L, 1);
    arena_fini(&s->arena);
    buf_fini(&s->buf);
    return 0;
}

static struct scratch *scratch_push(lua_State *L)
{
    struct scratch *s = lua_newuserdatauv(L, sizeof *s, 0);
    arena_init(&s->arena);
    buf_init(&s->buf, 2 * TEXT_MAX);
    if (luaL_newmetatable(L, "afloat.scratch")) {
        lua_pushcfunction(L, scratch_free);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return s;
}

/// nil and what is wrong.
static int fail(lua_State *L, const struct err *e)
{
    lua_pushnil(L);
    lua_pushstring(L, e->msg);
    return 2;
}

static int json_encode(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_Integer indent = luaL_optinteger(L, 2, 0);
    luaL_argcheck(L, indent >= 0 && indent <= INDENT_MAX, 2, "indent is 0 to 8");
    struct scratch *s = scratch_push(L);
    struct json *v;
    struct err e;
    if (value_read(&v, &s->arena, L, 1, &e) < 0) {
        limit__check(L);
        return fail(L, &e);
    }
    limit__charge(L, s->arena.used * 4);
    json_write(&s->buf, v, (unsigned)indent);
    if (!buf_ok(&s->buf)) {
        err_set(&e, ERR_TOO_LARGE, "more than 16 MiB of JSON cannot be made");
        return fail(L, &e);
    }
    lua_pushlstring(L, buf_z(&s->buf), s->buf.n);
    arena_fini(&s->arena);
    buf_fini(&s->buf);
    return 1;
}

static int json_decode(lua_State *L)
{
    struct str text;
    text.p = luaL_checklstring(L, 1, &text.n);
    struct json_opts opts = {.dup = JSON_DUP_LAST};
    struct scratch *s = scratch_push(L);
    struct json *v;
    struct err e;
    if (text.n > TEXT_MAX) {
        err_set(&e, ERR_TOO_LARGE, "more than 8 MiB of JSON cannot be read");
        return fail(L, &e);
    }
    limit__charge(L, text.n * 4);
    if (json_parse(&v, &s->arena, text, &opts, &e) < 0) {
        return fail(L, &e);
    }
    value_push(L, v);
    arena_fini(&s->arena);
    return 1;
}

/// Mark a table as an array: json.array{} and json.array().
static int json_array(lua_State *L)
{
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    if (!value_is_array(L, 1)) {
        luaL_argcheck(L, !lua_getmetatable(L, 1), 1, "the table has a metatable already");
        value_mark_array(L);
    }
    return 1;
}

int lib_json_open(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"encode", json_encode}, {"decode", json_decode}, {"array", json_array}, {NULL, NULL}};
    luaL_newlib(L, functions);
    value_push_null(L);
    lua_setfield(L, -2, "null");
    return 1;
}
