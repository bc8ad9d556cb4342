// Old module tables stand for the newest one.
//
//     holder ──> table of version 1 ──┐
//     holder ──> table of version 2 ──┼── one metatable per module ──> table of version 3 (newest)
//
// Whoever kept a module's table (an upvalue, a field of hub.state) goes on with the new code and the
// new fields, and what it writes is seen by all: there is one live copy of a module's fields. All old
// tables of a module share one metatable, so the way is one step long however often it was reloaded,
// and nothing is kept but what holders keep.
//
// Only a module's own table is emptied: one that it lent from another module or from hub.state stays.
// rawget, rawset and next look at the emptied table itself: they are asked to.

#include "bind/modules_int.h"

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

/// Is the table at 1 also somebody else's: another module's, a library, a value of hub.state? Then
/// it was lent, and emptying it would take it from its owner.
static bool is_lent(lua_State *L, struct space *sp, const struct module *m)
{
    const struct module *other;
    each_module(other, sp)
    {
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

/// The new table (at 2) may be a former one that the file kept somewhere. It stood for the old table
/// (at 1) until now, which has its fields: it gets them back and stands for itself.
static void bring_back(lua_State *L, int meta)
{
    if (!lua_getmetatable(L, 2)) {
        return;
    }
    bool former = lua_rawequal(L, -1, meta);
    lua_pop(L, 1);
    if (!former) {
        return;
    }
    lua_pushnil(L);
    lua_setmetatable(L, 2);
    lua_pushnil(L);
    while (lua_next(L, 1) != 0) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, 2);
    }
}

void forward__replace(struct space *sp, struct module *m, vm_ref old, vm_ref fresh)
{
    struct entry en = {0};
    lua_State *L = entry_begin(&en, sp->vm);
    bool both = refs_push(L, old) && lua_istable(L, 1) && refs_push(L, fresh) && lua_istable(L, 2);
    if (both && !lua_rawequal(L, 1, 2) && !is_lent(L, sp, m)) {
        push_meta(L, sp, m);
        bring_back(L, 3);
        lua_pushliteral(L, "__index");
        lua_pushvalue(L, 2);
        lua_rawset(L, 3);
        lua_pushliteral(L, "__newindex");
        lua_pushvalue(L, 2);
        lua_rawset(L, 3);
        lua_pushnil(L);
        while (lua_next(L, 1) != 0) {
            lua_pop(L, 1);
            lua_pushvalue(L, -1);
            lua_pushnil(L);
            lua_rawset(L, 1);
        }
        lua_setmetatable(L, 1);
    }
    entry_end(&en);
}
