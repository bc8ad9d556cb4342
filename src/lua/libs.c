// What a state gets to see: libs.def, applied.
//
// Lua's own libraries are opened. For each one a new table is made of the functions that libs.def allows
// this trust, and replaces the library everywhere, as a global and among the loaded modules. Code cannot
// reach the tables that Lua made. So libs.def is an allow list: a function that a newer Lua adds is
// absent until it has a row.

#include <lualib.h>

#include "base/map.h"
#include "lua/corout.h"
#include "lua/guard.h"
#include "lua/lib.h"
#include "lua/pattern.h"
#include "lua/strings.h"
#include "lua/tables.h"
#include "lua/vm_int.h"

/// A library function that is linear in its arguments: the clock is looked at in good time.
static int charged(lua_State *L)
{
    lua_CFunction own = lua_tocfunction(L, lua_upvalueindex(1));
    size_t bytes = 0;
    for (int i = lua_gettop(L); i > 0; i--) {
        bytes += lua_type(L, i) == LUA_TSTRING ? lua_rawlen(L, i) : 1;
    }
    limit__charge(L, bytes);
    return own(L);
}

// ---- the table ------------------------------------------------------------------------------

static int stock(lua_State *L) // never called: marks a row
{
    return lua_gettop(L);
}

#define STOCK   stock
#define CHARGED charged
#define NONE    NULL

static const struct fn {
    const char *lib, *name;
    lua_CFunction by_trust[2];
} fns[] = {
#define FN(lib, name, user, sandbox) {lib, name, {[VM_USER] = user, [VM_SANDBOX] = sandbox}},
#include "lua/libs.def"
#undef FN
};

static const struct lib {
    const char *name;
    lua_CFunction open;
    bool sandbox; // agent trust sees it
} libs[] = {
    {"_G", luaopen_base, true},      {"string", luaopen_string, true},
    {"table", luaopen_table, true},  {"math", luaopen_math, true},
    {"utf8", luaopen_utf8, true},    {"coroutine", luaopen_coroutine, true},
    {"os", luaopen_os, true},        {"io", luaopen_io, false},
    {"debug", luaopen_debug, false},
};

/// Turn the library on top into a table of what this trust may see of it.
static void restrict_lib(lua_State *L, const char *name, enum vm_trust trust)
{
    int own = lua_gettop(L);
    lua_createtable(L, 0, 32);
    for (const struct fn *f = fns; f < fns + ARRAY_LEN(fns); f++) {
        lua_CFunction what = f->by_trust[trust];
        if (strcmp(f->lib, name) != 0 || what == NONE) {
            continue;
        }
        if (what == stock || what == charged) {
            lua_getfield(L, own, f->name);
        } else {
            lua_pushcfunction(L, what);
        }
        if (what == charged) {
            lua_pushcclosure(L, charged, 1);
        }
        lua_setfield(L, -2, f->name);
    }
    lua_replace(L, own);
}

/// Methods of strings are those of our string library.
static void mend_strings(lua_State *L, enum vm_trust trust)
{
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_getglobal(L, "string");
    lua_setfield(L, -2, "__index");
    if (trust == VM_SANDBOX) {
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
    }
    lua_pop(L, 2);
}

/// require() keeps its own table, with searchers that take text and regular files only.
static void open_package(lua_State *L)
{
    luaL_requiref(L, "package", luaopen_package, 1);
    lua_pushcfunction(L, guard_searchpath);
    lua_setfield(L, -2, "searchpath");
    lua_getfield(L, -1, "searchers");
    lua_pushcfunction(L, guard_searcher);
    lua_rawseti(L, -2, 2);
    for (int root = 0; root <= 1; root++) {
        lua_getfield(L, -2, "loadlib");
        lua_pushboolean(L, root);
        lua_pushcclosure(L, guard_searcher_c, 2);
        lua_rawseti(L, -2, 3 + root);
    }
    lua_pop(L, 1);
    lua_getfield(L, -1, "loadlib");
    lua_pushcclosure(L, guard_loadlib, 1);
    lua_setfield(L, -2, "loadlib");
    lua_pop(L, 1);
}

void libs__open(struct vm *vm)
{
    lua_State *L = vm->L;
    for (const struct lib *l = libs; l < libs + ARRAY_LEN(libs); l++) {
        if (vm->trust == VM_SANDBOX && !l->sandbox) {
            continue;
        }
        if (l == libs && vm->trust == VM_USER) {
            open_package(L); // before the globals are copied: it adds require
        }
        luaL_requiref(L, l->name, l->open, 0);
        if (l->open == luaopen_string) {
            lua_getfield(L, -1, "format");
            vm->own_format = lua_tocfunction(L, -1);
            lua_pop(L, 1);
        }
        restrict_lib(L, l->name, vm->trust);
        if (l == libs) { // the globals, of which each library is one
            lua_pushvalue(L, -1);
            lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
        }
        vm__publish(L, l->name);
    }
    if (vm->trust == VM_USER) {
        lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
        lua_getfield(L, -1, "package");
        lua_setglobal(L, "package");
        lua_pop(L, 1);
    } else {
        lua_newtable(L);
        lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    }
    mend_strings(L, vm->trust);
}

static bool has_field(lua_State *L, int idx, const char *field, int type)
{
    int found = luaL_getmetafield(L, idx, field);
    lua_pop(L, found != LUA_TNIL);
    return type == LUA_TNONE ? found != LUA_TNIL : found == type;
}

/// A number that identifies the value and does not reveal its address.
static void *disguised(lua_State *L, int idx)
{
    const void *address = lua_topointer(L, idx);
    struct str key = {(const char *)&address, sizeof address};
    uint64_t id = map_hash_seeded(vm_of(L)->secret, key);
    return (void *)(uintptr_t)(id >> 16); // as long as an address
}

void libs__push_id(lua_State *L, int idx)
{
    lua_pushfstring(L, "%p", disguised(L, idx));
}

struct str libs__push_text(lua_State *L, int idx)
{
    size_t n;
    idx = lua_absindex(L, idx);
    bool plain = lua_type(L, idx) <= LUA_TSTRING && !lua_islightuserdata(L, idx);
    if (plain || has_field(L, idx, "__tostring", LUA_TNONE)) {
        luaL_tolstring(L, idx, NULL);
    } else if (lua_islightuserdata(L, idx) && lua_touserdata(L, idx) == NULL) {
        lua_pushliteral(L, "null");
    } else if (has_field(L, idx, "__name", LUA_TSTRING)) {
        luaL_getmetafield(L, idx, "__name");
        lua_pushfstring(L, "%s: %p", lua_tostring(L, -1), disguised(L, idx));
        lua_remove(L, -2);
    } else {
        lua_pushfstring(L, "%s: %p", luaL_typename(L, idx), disguised(L, idx));
    }
    const char *p = lua_tolstring(L, -1, &n);
    return (struct str){p, n};
}
