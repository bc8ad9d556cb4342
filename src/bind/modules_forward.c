// Old tables of a module forward to the newest one.
//
//     holder ──> table of version 1 ──┐
//     holder ──> table of version 2 ──┼── one metatable per module ──> table of version 3 (newest)
//
// Code that kept a module's table (in an upvalue, in a field of hub.state) continues with the new functions and fields, and
// all holders see what it writes: there is one live copy of a module's fields. All old tables of a module share one
// metatable, so forwarding takes one step however often the module was reloaded, and old tables are collected when their
// holders drop them.
//
// Only a module's own table is emptied, never one that it borrowed from another module or from hub.state. rawget, rawset
// and next see the emptied table itself, as they should.

#include "bind/modules_int.h"
#include "lua/value.h"

/// upvalue 1: the metatable, whose __index is the newest table
static void push_newest(lua_State *L)
{
    lua_pushliteral(L, "__index");
    lua_rawget(L, lua_upvalueindex(1));
}

static int forward_len(lua_State *L)
{
    push_newest(L);
    lua_pushinteger(L, luaL_len(L, -1));
    return 1;
}

static int forward_call(lua_State *L)
{
    push_newest(L);
    lua_replace(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int forward_pairs(lua_State *L)
{
    lua_getglobal(L, "pairs");
    push_newest(L);
    lua_call(L, 1, 3);
    return 3;
}

static int forward_tostring(lua_State *L)
{
    push_newest(L);
    luaL_tolstring(L, -1, NULL);
    return 1;
}

static const luaL_Reg metamethods[] = {
    {"__len", forward_len},
    {"__call", forward_call},
    {"__pairs", forward_pairs},
    {"__tostring", forward_tostring},
    {NULL, NULL},
};

/// Push the module's metatable, which is made at its first reload.
static void push_meta(lua_State *L, struct space *sp, struct module *m)
{
    if (refs_push(L, m->forward)) {
        return;
    }
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    luaL_setfuncs(L, metamethods, 1); // takes the copy as upvalue
    lua_pushvalue(L, -1);
    m->forward = refs_take(L, sp->own);
}

/// Does the table at 1 also belong to another module, a library or hub.state? Then the module only borrowed it, and
/// emptying it would damage its owner.
static bool is_borrowed(lua_State *L, struct space *sp, const struct module *m)
{
    for (const struct module *other = sp->all; other != NULL; other = other->next) {
        if (other == m || other->live == NULL) {
            continue;
        }
        refs_push(L, other->live->value);
        bool same = lua_rawequal(L, 1, -1);
        lua_pop(L, 1);
        if (same) {
            return true;
        }
    }
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    bool library = table__has(L, 1);
    return library || state_holds(sp->state, L, 1);
}

void forward__replace(struct space *sp, struct module *m, vm_ref old, vm_ref fresh)
{
    struct entry en = {0};
    lua_State *L = entry_begin(&en, sp->vm);
    bool both = refs_push(L, old) && lua_istable(L, 1) && refs_push(L, fresh) && lua_istable(L, 2);
    if (both && !lua_rawequal(L, 1, 2) && !is_borrowed(L, sp, m)) {
        push_meta(L, sp, m);
        // The new table may be a former one that the file kept somewhere. Until now it forwarded to the old table, which
        // has its fields: give them back, and forward no more.
        if (lua_getmetatable(L, 2) && lua_rawequal(L, -1, 3)) {
            lua_pushnil(L);
            lua_setmetatable(L, 2);
            value_copy_fields(L, 1, 2);
        }
        lua_settop(L, 3);
        lua_pushvalue(L, 2);
        value_set(L, "__index");
        lua_pushvalue(L, 2);
        value_set(L, "__newindex");
        value_clear_fields(L, 1);
        lua_setmetatable(L, 1);
    }
    entry_end(&en);
}
