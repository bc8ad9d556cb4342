// require "plugin.NAME": what another plugin returned, through a proxy.
//
//     Lua state of A                             Lua state of B, current version
//     link.roll(6) ── arguments, copied ──> fn(6) ── results, copied ──> back in A
//     link.sides   ── a copy of the field, read anew each time
//
// A proxy holds only the name. Each use looks up the version that serves at that moment, so A sees a reload of B at once and
// no reference crosses two states. A function of B runs under B's limits and with B as owner; it may not wait, because code
// of A is on the C stack below it.

#include <lauxlib.h>

#include "bind/plugin_int.h"
#include "lua/fault.h"

enum { DEPTH_MAX = 8, VALUES_MAX = 32 };

/// The version that serves under the name of upvalue 1; raises when there is none.
static struct plugin__version *linked(lua_State *L)
{
    const char *name = lua_tostring(L, lua_upvalueindex(1));
    struct plugin__version *v = map_get(&bind_of(L)->plugins->live, str_of(name));
    if (v == NULL || v->unit->life != GEN_CURRENT) {
        luaL_error(L, "plugin '%s' is not available: it is not loaded now", name);
    }
    return v;
}

/// Push field `key` of what `v` returned onto its own stack `to`; false: it has none.
static bool push_field(const struct plugin__version *v, lua_State *to, const char *key)
{
    if (!refs_push(to, v->value) || !lua_istable(to, -1)) {
        return false;
    }
    lua_pushstring(to, key);
    return lua_rawget(to, -2) != LUA_TNIL;
}

// ---- calls --------------------------------------------------------------------------------------

static int read_values(struct json **out, struct arena *a, lua_State *L, int first, int n,
                       struct err *e)
{
    for (int i = 0; i < n; i++) {
        int rc = value_read(&out[i], a, L, first + i, e);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/// Run the function `key` of `v`; its results are read into `values`. Returns how many, or a negative
/// code.
static int call_across(struct plugin__version *v, const char *key, int n_args, struct json **values,
                       struct arena *a, struct err *e)
{
    struct entry en = {.owner = v->owner->owner, .budget_ms = v->owner->bind->limits.lua_ms};
    lua_State *to = entry_begin(&en, v->owner->vm);
    int rc = 0;
    if (!push_field(v, to, key) || !lua_isfunction(to, -1)) {
        rc = err_set(e, ERR_NOT_FOUND, "plugin '%s' no longer has a function '%s'", v->unit->name,
                     key);
    }
    lua_remove(to, 1); // the table that has the field
    for (int i = 0; i < n_args && rc == 0; i++) {
        value_push(to, values[i]);
    }
    if (rc == 0 && entry_run(&en, n_args) != ENTRY_DONE) {
        rc = err_set(e, ERR_INVALID, "%s", en.fault->message);
    } else if (rc == 0) {
        int n = MIN(en.n_results, VALUES_MAX);
        rc = read_values(values, a, to, 1, n, e);
        rc = rc < 0 ? rc : n;
    }
    entry_end(&en);
    return rc;
}

/// link.fn(...): upvalues are the plugin's name and the function's.
static int l_call(lua_State *L)
{
    struct plugin__plugins *ps = bind_of(L)->plugins;
    struct plugin__version *v = linked(L);
    const char *key = lua_tostring(L, lua_upvalueindex(2));
    struct json *values[VALUES_MAX] = {0};
    struct err e = {0};
    int n = lua_gettop(L);
    if (n > VALUES_MAX || ps->depth == DEPTH_MAX) {
        return luaL_error(L, "plugin.%s.%s: %s", v->unit->name, key,
                          n > VALUES_MAX ? "too many arguments"
                                         : "plugins call each other too deep");
    }
    luaL_checkstack(L, VALUES_MAX + 8, "plugin call");
    struct args_scratch *s = args_scratch(L);
    int rc = read_values(values, &s->arena, L, 1, n, &e);
    if (rc == 0) {
        ps->depth++;
        rc = call_across(v, key, n, values, &s->arena, &e);
        ps->depth--;
    }
    if (rc < 0) { // of calls inside each other the innermost is named
        bool named = str_starts(str_of(e.msg), "plugin.");
        return named ? luaL_error(L, "%s", e.msg)
                     : luaL_error(L, "plugin.%s.%s: %s", lua_tostring(L, lua_upvalueindex(1)), key,
                                  e.msg);
    }
    for (int i = 0; i < rc; i++) {
        if (values[i]->type == JSON_NULL) {
            lua_pushnil(L);
        } else {
            value_push(L, values[i]);
        }
    }
    return rc;
}

// ---- fields -------------------------------------------------------------------------------------

static int l_index(lua_State *L)
{
    const struct plugin__version *v = linked(L);
    struct json *value = NULL;
    struct err e = {0};
    if (lua_type(L, 2) != LUA_TSTRING || strlen(lua_tostring(L, 2)) != lua_rawlen(L, 2)) {
        return 0; // a name with a NUL byte would be read as the one before it
    }
    const char *key = lua_tostring(L, 2);
    struct args_scratch *s = args_scratch(L);
    struct entry en = {0}; // a stack of the other state; nothing runs on it
    lua_State *to = entry_begin(&en, v->owner->vm);
    bool found = push_field(v, to, key), is_function = lua_isfunction(to, -1);
    int rc = found && !is_function ? value_read(&value, &s->arena, to, -1, &e) : 0;
    entry_end(&en);
    if (rc < 0) {
        return luaL_error(L, "plugin.%s.%s: %s", v->unit->name, key, e.msg);
    }
    if (is_function && found) {
        lua_pushvalue(L, lua_upvalueindex(1));
        lua_pushvalue(L, 2);
        lua_pushcclosure(L, l_call, 2);
    } else {
        value_push(L, value); // nil when it has none
    }
    return 1;
}

static int l_newindex(lua_State *L)
{
    return luaL_error(L, "plugin '%s' cannot be written to from here",
                      lua_tostring(L, lua_upvalueindex(1)));
}

int plugin__push_link(lua_State *L, const char *name)
{
    static const struct {
        const char *event;
        lua_CFunction fn;
    } methods[] = {{"__index", l_index}, {"__newindex", l_newindex}};
    if (!plugin_name_valid(str_of(name))) {
        return luaL_error(L, "invalid plugin name '%s'", name);
    }
    lua_newtable(L);
    lua_createtable(L, 0, 3);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        lua_pushstring(L, name);
        lua_pushcclosure(L, methods[i].fn, 1);
        lua_setfield(L, -2, methods[i].event);
    }
    lua_pushliteral(L, "plugin");
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    return 1;
}
