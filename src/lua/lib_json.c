// json: encode, decode, array, null.
//
// Both directions need memory that Lua does not know, and both can be stopped by a limit in the
// middle, by an error that jumps over this code. So a userdata owns the memory; it is freed at once in the
// ordinary case and by the collector in the other.

#include "lua/args.h"
#include "lua/lib.h"
#include "lua/value.h"
#include "lua/vm_int.h"

enum { TEXT_MAX = 8 * 1024 * 1024, INDENT_MAX = 8 };

static int json_encode(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_Integer indent = luaL_optinteger(L, 2, 0);
    luaL_argcheck(L, indent >= 0 && indent <= INDENT_MAX, 2, "indent is 0 to 8");
    struct args_scratch *s = args_scratch(L);
    struct json *v;
    struct err e;
    if (value_read(&v, &s->arena, L, 1, &e) < 0) {
        limit__check(L);
        return args_fail(L, "%s", e.msg);
    }
    limit__charge(L, s->arena.used * 4);
    json_write(&s->buf, v, (unsigned)indent);
    if (!buf_ok(&s->buf)) {
        return args_fail(L, "more than 16 MiB of JSON cannot be made");
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
    struct args_scratch *s = args_scratch(L);
    struct json *v;
    struct err e;
    if (text.n > TEXT_MAX) {
        return args_fail(L, "more than 8 MiB of JSON cannot be read");
    }
    limit__charge(L, text.n * 4);
    if (json_parse(&v, &s->arena, text, &opts, &e) < 0) {
        return args_fail(L, "%s", e.msg);
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
