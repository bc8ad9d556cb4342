// A plugin as one table: {api, name, hooks, tools, providers, routes, commands, prompt, preserve_ui, on}.
//
// Each part goes to the function that registers such a thing, so a plugin that returns a table, one that returns a function
// and one that registers while it runs end up with the same items. Lists keep their order, named parts are registered in
// the order of their names, and hooks in the order of a turn: the same file always gives the same order.
//
// Fields with other names are what require "plugin.NAME" shows.

#include <lauxlib.h>

#include "bind/offer.h"

/// Push the arguments that register the value at `value`, which the table has under the key at `key` (0: it is part of a
/// list), and return how many. Both indexes are absolute.
typedef int push_fn(lua_State *L, int key, int value);

/// Call `fn` with the `n` values on top; raises what it raises.
static void call(lua_State *L, lua_CFunction fn, int n)
{
    lua_pushcfunction(L, fn);
    lua_insert(L, -n - 1);
    lua_call(L, n, 0);
}

/// The texts among the keys of the table at `idx`, in order; the array is left on the stack.
static const char **sorted_keys(lua_State *L, int idx, size_t *n)
{
    size_t max = 0;
    for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 1)) {
        max++;
    }
    const char **keys = lua_newuserdatauv(L, (max + 1) * sizeof *keys, 0);
    *n = 0;
    for (lua_pushnil(L); lua_next(L, idx) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) == LUA_TSTRING) {
            keys[(*n)++] = lua_tostring(L, -2); // the table holds it
        }
    }
    str_sort(keys, *n);
    return keys;
}

/// Register with `fn` the list of the table at `idx`, then what it keeps under names.
static void each(lua_State *L, int idx, push_fn *push, lua_CFunction fn)
{
    size_t n_keys;
    lua_Integer n = (lua_Integer)lua_rawlen(L, idx);
    luaL_checkstack(L, 16, "plugin table");
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, idx, i);
        call(L, fn, push(L, 0, lua_gettop(L)));
        lua_pop(L, 1);
    }
    const char **keys = sorted_keys(L, idx, &n_keys);
    for (size_t i = 0; i < n_keys; i++) {
        lua_pushstring(L, keys[i]);
        lua_pushvalue(L, -1);
        lua_rawget(L, idx);
        call(L, fn, push(L, lua_gettop(L) - 1, lua_gettop(L)));
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

/// Push a copy of the table at `idx` without the field `without`.
static void push_copy(lua_State *L, int idx, const char *without)
{
    lua_newtable(L);
    value_copy_fields(L, idx, -1);
    if (without != NULL) {
        lua_pushnil(L);
        value_set(L, without);
    }
}

/// Push what registers a tool or command: the table at `value`, named `key` where it has no name; a
/// function alone is {run = fn}.
static int push_spec(lua_State *L, int key, int value)
{
    if (lua_isfunction(L, value)) {
        lua_newtable(L);
        lua_pushvalue(L, value);
        lua_setfield(L, -2, "run");
    } else {
        luaL_checktype(L, value, LUA_TTABLE);
        push_copy(L, value, NULL);
    }
    if (key != 0 && !args_field(L, -1, "name")) {
        lua_pushvalue(L, key);
        lua_setfield(L, -3, "name");
    }
    lua_settop(L, value + 1);
    return 1;
}

static int push_provider(lua_State *L, int key, int value)
{
    luaL_checktype(L, value, LUA_TTABLE);
    return push_spec(L, key, value);
}

/// ["GET /x"] = fn, {method = , path = , run = } or {"GET", "/x", fn}.
static int push_route(lua_State *L, int key, int value)
{
    static const char *const names[] = {"method", "path", "run"};
    if (key != 0) {
        struct str path = str_of(lua_tostring(L, key));
        struct str method = str_cut(&path, ' ');
        lua_pushlstring(L, method.p, method.n);
        lua_pushlstring(L, path.n != 0 ? path.p : "", path.n);
        lua_pushvalue(L, value);
    } else {
        luaL_checktype(L, value, LUA_TTABLE);
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            if (!args_field(L, value, names[i])) {
                lua_pop(L, 1);
                lua_rawgeti(L, value, (lua_Integer)i + 1);
            }
        }
    }
    return 3;
}

static int push_value(lua_State *L, int key, int value)
{
    (void)key;
    lua_pushvalue(L, value);
    return 1;
}

static int push_event(lua_State *L, int key, int value)
{
    if (key == 0) {
        luaL_error(L, "on: handlers are kept under the names of their events");
    }
    lua_pushvalue(L, key);
    lua_pushvalue(L, value);
    return 2;
}

// ---- hooks --------------------------------------------------------------------------------------

/// One handler of `point`: a function, {run = fn, tool = , priority = , ...}, or a list of these.
static void add_handlers(lua_State *L, const char *point, int value, bool in_list)
{
    if (lua_isfunction(L, value)) {
        lua_pushstring(L, point);
        lua_pushvalue(L, value);
        call(L, bind__on, 2);
        return;
    }
    luaL_checktype(L, value, LUA_TTABLE);
    if (args_field(L, value, "run")) {
        int run = lua_gettop(L);
        lua_pushstring(L, point);
        push_copy(L, value, "run");
        lua_pushvalue(L, run);
        call(L, bind__on, 3);
    } else if (in_list) {
        luaL_error(L, "hooks.%s: a handler is a function or {run = function, ...}", point);
    }
    lua_pop(L, 1);
    for (lua_Integer i = 1; !in_list && lua_rawgeti(L, value, i) != LUA_TNIL; i++) {
        add_handlers(L, point, lua_gettop(L), true);
        lua_pop(L, 1);
    }
    lua_settop(L, value);
}

static void add_hooks(lua_State *L, int idx)
{
    size_t n;
    luaL_checktype(L, idx, LUA_TTABLE);
    const char **keys = sorted_keys(L, idx, &n), *wrong = lua_rawlen(L, idx) != 0 ? "1" : NULL;
    for (size_t i = 0; i < n && wrong == NULL; i++) {
        wrong = hook_point_find(str_of(keys[i])) == NULL ? keys[i] : NULL;
    }
    if (wrong != NULL) {
        luaL_error(L, "hooks: there is no hook point '%s'%s", wrong,
                   args_near(L, hook_point_nearest(str_of(wrong))));
    }
    for (size_t i = 0; i < POINT__COUNT; i++) {
        const char *name = hook_points[i].name;
        if (args_field(L, idx, name) || args_field(L, idx, name + strlen("on_"))) {
            add_handlers(L, name, lua_gettop(L), false);
        }
        lua_settop(L, idx);
    }
}

// ---- the whole table ----------------------------------------------------------------------------

int plugin__install(lua_State *L)
{
    static const struct {
        const char *name;
        push_fn *push;
        lua_CFunction fn;
        bool single; // it may be one thing instead of a list
    } parts[] = {
        {"tools", push_spec, offer_tool, false},
        {"providers", push_provider, offer_provider, false},
        {"routes", push_route, offer_route, false},
        {"commands", push_spec, offer_command, false},
        {"prompt", push_value, plugin__api_prompt, true},
        {"preserve_ui", push_value, plugin__api_preserve, true},
        {"on", push_event, bind__on, false},
    };
    static const char *const metadata[] = {"api", "name", "description", "version"};
    bool any = false;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_newtable(L);
    for (size_t i = 0; i < ARRAY_LEN(metadata); i++) {
        any = args_field(L, 1, metadata[i]) || any;
        lua_setfield(L, 2, metadata[i]);
    }
    if (any) {
        call(L, plugin__api_plugin, 1);
    }
    lua_settop(L, 1);
    if (args_field(L, 1, "hooks")) {
        add_hooks(L, 2);
    }
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        lua_settop(L, 1);
        bool given = args_field(L, 1, parts[i].name);
        if (given && parts[i].single && (!lua_istable(L, 2) || lua_rawlen(L, 2) == 0)) {
            call(L, parts[i].fn, parts[i].push(L, 0, 2));
        } else if (given) {
            luaL_checktype(L, 2, LUA_TTABLE);
            each(L, 2, parts[i].push, parts[i].fn);
        }
    }
    return 0;
}
