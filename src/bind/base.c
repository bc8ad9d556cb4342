// A clean base: what a unit does to the libraries is its own, and gone with it.
//
//     environment of a unit ──> string, table, hooks, ...: tables of its own, which fall back on the library
//            │ what it does not set
//            ▼
//     globals (_G): what units say there is for all ──> builtins and libraries, which nobody can change
//
// A library that is one table for all units would keep what a unit that failed, or was replaced, had put
// into it or taken out of it. So each unit gets tables of its own that are empty and fall back on the
// library: a patch is seen by the unit that made it. Through `_G` and `require` the libraries are reached
// as they are, and can be read only; so are the builtin functions in `_G`.
//
// What it does not do: methods of texts (`("x"):upper()`) are those of the library whatever a unit puts
// into its `string`; and `debug` can reach everything.

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/loader.h"
#include "bind/plugin_int.h"

static const char
    metas_key; // its address: a table, name of a library to the metatable of units' tables

/// pairs(t): the fields of the library (upvalue 1), and those that were set in `t`.
static int merged_pairs(lua_State *L)
{
    lua_settop(L, 1);
    lua_getglobal(L, "next");
    lua_newtable(L);
    for (int from = 0; from < 2; from++) {
        lua_pushvalue(L, from == 0 ? lua_upvalueindex(1) : 1);
        lua_pushnil(L);
        while (lua_next(L, 4) != 0) {
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            lua_rawset(L, 3);
        }
        lua_pop(L, 1);
    }
    lua_pushnil(L);
    return 3;
}

static int refuse_write(lua_State *L)
{
    return luaL_error(L, "'%s' of a library can be read only", luaL_tolstring(L, 2, NULL));
}

/// _G.x = v for an `x` that is not there: builtins (upvalue 1) stay.
static int write_global(lua_State *L)
{
    lua_settop(L, 3);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) {
        return luaL_error(L, "'%s' is built in and can be read only", luaL_tolstring(L, 2, NULL));
    }
    lua_settop(L, 3);
    lua_rawset(L, 1);
    return 0;
}

/// Push a metatable for tables that fall back on the one at `lib`; `write` may be NULL.
static void push_meta(lua_State *L, int lib, lua_CFunction write)
{
    lib = lua_absindex(L, lib);
    lua_createtable(L, 0, 4);
    lua_pushvalue(L, lib);
    lua_setfield(L, -2, "__index");
    lua_pushvalue(L, lib);
    lua_pushcclosure(L, merged_pairs, 1);
    lua_setfield(L, -2, "__pairs");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    if (write != NULL) {
        lua_pushvalue(L, lib);
        lua_pushcclosure(L, write, 1);
        lua_setfield(L, -2, "__newindex");
    }
}

void bind__push_sealed(lua_State *L, int lib)
{
    lib = lua_absindex(L, lib);
    lua_newtable(L);
    push_meta(L, lib, refuse_write);
    lua_setmetatable(L, -2);
}

/// Push a table that stands for the one at `lib` and can be read only; the same one each time. `seen`:
/// a table of those that were made.
static void push_sealed(lua_State *L, int lib, int seen)
{
    lib = lua_absindex(L, lib);
    lua_pushvalue(L, lib);
    if (lua_rawget(L, seen) != LUA_TNIL) {
        return;
    }
    lua_pop(L, 1);
    bind__push_sealed(L, lib);
    lua_pushvalue(L, lib);
    lua_pushvalue(L, -2);
    lua_rawset(L, seen);
}

/// Let the tables in the one at `idx` be read only, but for the globals themselves (at 1). With `metas`
/// not 0 keep there how units get tables of their own.
static void seal_fields(lua_State *L, int idx, int seen, int metas)
{
    idx = lua_absindex(L, idx);
    lua_pushnil(L);
    while (lua_next(L, idx) != 0) {
        if (lua_istable(L, -1) && !lua_rawequal(L, -1, 1)) {
            if (metas != 0) {
                lua_pushvalue(L, -2);
                push_meta(L, -2, NULL);
                lua_rawset(L, metas);
            }
            push_sealed(L, -1, seen);
            lua_pushvalue(L, -3);
            lua_insert(L, -2);
            lua_rawset(L, idx); // a field that is there: the walk goes on
        }
        lua_pop(L, 1);
    }
}

/// package.loaded and its like would be a way round.
static void seal_package(lua_State *L, int builtins, int seen)
{
    lua_pushliteral(L, "package");
    if (lua_rawget(L, builtins) == LUA_TTABLE) {
        seal_fields(L, -1, seen, 0);
    }
    lua_pop(L, 1);
}

/// A library may lead to another one: `hub.loader` is `loader`.
static void seal_links(lua_State *L, int seen)
{
    lua_pushnil(L);
    while (lua_next(L, seen) != 0) { // library, its sealed one
        lua_pushnil(L);
        while (lua_next(L, -3) != 0) {
            lua_pushvalue(L, -2);
            lua_insert(L, -2);
            if (lua_rawget(L, seen) != LUA_TNIL) {
                lua_rawset(L, -5);
            } else {
                lua_pop(L, 2);
            }
        }
        lua_pop(L, 1);
    }
}

/// Texts share one metatable, which leads to the library.
static void seal_texts(lua_State *L)
{
    lua_pushliteral(L, "");
    if (lua_getmetatable(L, -1)) {
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void move_fields(lua_State *L, int from, int to)
{
    lua_pushnil(L);
    while (lua_next(L, from) != 0) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, to);
        lua_pushvalue(L, -1);
        lua_pushnil(L);
        lua_rawset(L, from);
    }
}

void bind__seal(struct vm *vm)
{
    enum { GLOBALS = 1, BUILTINS, SEEN, METAS };
    lua_State *L = vm_main(vm);
    assert(lua_gettop(L) == 0);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_newtable(L);
    lua_newtable(L);
    lua_newtable(L);
    lua_pushvalue(L, METAS);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &metas_key);
    move_fields(L, GLOBALS, BUILTINS);
    seal_texts(L);
    seal_package(L, BUILTINS, SEEN);
    seal_fields(L, BUILTINS, SEEN, METAS);
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    seal_fields(L, -1, SEEN, 0);
    seal_links(L, SEEN);
    push_meta(L, BUILTINS, write_global);
    lua_setmetatable(L, GLOBALS);
    lua_settop(L, 0);
}

void bind__push_env(lua_State *L, vm_ref meta)
{
    lua_newtable(L);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &metas_key);
    lua_pushnil(L);
    while (lua_next(L, -2) != 0) {
        lua_pushvalue(L, -2);
        lua_newtable(L);
        lua_rotate(L, -3, -1); // name, table, metatable
        lua_setmetatable(L, -2);
        lua_rawset(L, -5);
    }
    lua_pop(L, 1);
    refs_push(L, meta);
    lua_setmetatable(L, -2);
}

struct vm *bind__code_vm_open(struct bind *b, const char *name, struct vm_owner **own,
                              vm_ref *env_meta, struct state **state)
{
    struct vm *vm = bind_vm_open(b);
    lua_State *L = vm_main(vm);
    *own = vm_owner_open(vm, name, 0);
    lua_newtable(L); // what code does not set itself is global
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_setfield(L, -2, "__index");
    *env_meta = refs_take(L, *own);
    *state = state_new(vm);
    vm_add_lib(vm, "state", state_open_lib);
    vm_add_lib(vm, "loader", loader_open_lib);
    plugin__open_api(vm);
    return vm;
}
