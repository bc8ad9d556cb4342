// A clean base: changes that a unit makes to the libraries are visible to that unit only, and end with it.
//
//     environment of a unit ──> string, table, hooks, ...: tables of its own, which fall back on the library
//            │ what it does not set
//            ▼
//     globals (_G): what units set for all ──> builtins and libraries, read-only
//
// If all units shared one table for a library, that table would keep the changes of a unit that failed or was replaced.
// So each unit gets empty tables of its own that fall back on the libraries: only the unit that patches a function sees
// the patch. `_G` and `require` give the libraries themselves, which are read-only; so are the builtins in `_G`.
//
// Limits: methods of strings (`("x"):upper()`) are always the library's, and `debug` can reach everything.

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/loader.h"
#include "bind/plugin_int.h"

// Its address is the registry key of a table: name of a library to the metatable of units' tables for it.
static const char metas_key;

/// pairs(t): the fields of the library (upvalue 1) and those set in `t`.
static int merged_pairs(lua_State *L)
{
    lua_settop(L, 1);
    lua_getglobal(L, "next");
    lua_newtable(L);
    value_copy_fields(L, lua_upvalueindex(1), 3);
    value_copy_fields(L, 1, 3);
    lua_pushnil(L);
    return 3;
}

static int refuse_write(lua_State *L)
{
    return luaL_error(L, "'%s' belongs to a library and is read-only", luaL_tolstring(L, 2, NULL));
}

/// _G.x = v for a new `x`: it must not be a builtin (upvalue 1).
static int write_global(lua_State *L)
{
    lua_settop(L, 3);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) {
        return luaL_error(L, "'%s' is built in and is read-only", luaL_tolstring(L, 2, NULL));
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
    value_set_bool(L, "__metatable", false);
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

/// Replace the tables in the one at `idx` by read-only views, except for the globals themselves (at 1). A table has one view
/// wherever it is found: `seen` leads from table to view. If `metas` is not 0, keep there the metatables of units' own
/// tables.
static void seal_fields(lua_State *L, int idx, int seen, int metas)
{
    idx = lua_absindex(L, idx);
    for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 1)) {
        int lib = lua_gettop(L);
        if (!lua_istable(L, lib) || lua_rawequal(L, lib, 1)) {
            continue;
        }
        if (metas != 0) {
            lua_pushvalue(L, lib - 1);
            push_meta(L, lib, NULL);
            lua_rawset(L, metas);
        }
        lua_pushvalue(L, lib - 1);
        lua_pushvalue(L, lib);
        if (lua_rawget(L, seen) == LUA_TNIL) {
            lua_pop(L, 1);
            bind__push_sealed(L, lib);
            lua_pushvalue(L, lib);
            lua_pushvalue(L, -2);
            lua_rawset(L, seen);
        }
        lua_rawset(L, idx); // allowed during the walk: the field exists
    }
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
    value_copy_fields(L, GLOBALS, BUILTINS);
    value_clear_fields(L, GLOBALS);
    lua_pushliteral(L, ""); // texts share one metatable, which leads to the library
    if (lua_getmetatable(L, -1)) {
        value_set_bool(L, "__metatable", false);
    }
    lua_settop(L, METAS);
    lua_pushliteral(L, "package"); // package.loaded and its like would be a way round
    if (lua_rawget(L, BUILTINS) == LUA_TTABLE) {
        seal_fields(L, -1, SEEN, 0);
    }
    lua_settop(L, METAS);
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
    *own = vm_owner_open(vm, name);
    lua_newtable(L); // names that code does not set itself are globals
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_setfield(L, -2, "__index");
    *env_meta = refs_take(L, *own);
    *state = state_new(vm);
    vm_add_functions(vm, "state", state_functions);
    vm_add_lib(vm, "loader", loader_open_lib);
    plugin__open_api(vm);
    return vm;
}
