// A plugin as one table: {api, name, hooks, tools, providers, routes, commands, prompt, preserve_ui, on}.
//
// Each part goes to the function that registers such a thing, so a plugin that returns a table, one that returns a function
// and one that registers while it runs end up with the same items. Lists keep their order, named parts are registered in
// the order of their names, and hooks in the order of a turn: the same file always gives the same order.
//
// Fields with other names are what require "plugin.NAME" shows.

#include <lauxlib.h>

#include "bind/offer.h"

typedef void each_fn(lua_State *L, int key, int value); // absolute indexes; key 0: part of a list

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

/// Its list, then what it keeps under names.
static void each(lua_State *L, int idx, each_fn *fn)
{
    size_t n_keys;
    lua_Integer n = (lua_Integer)lua_rawlen(L, idx);
    luaL_checkstack(L, 16, "plugin table");
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, idx, i);
        fn(L, 0, lua_gettop(L));
        lua_pop(L, 1);
    }
    const char **keys = sorted_keys(L, idx, &n_keys);
    for (size_t i = 0; i < n_keys; i++) {
        lua_pushstring(L, keys[i]);
        lua_pushvalue(L, -1);
        lua_rawget(L, idx);
        fn(L, lua_gettop(L) - 1, lua_gettop(L));
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
static void push_spec(lua_State *L, int key, int value)
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
    lua_settop(L, key != 0 ? lua_gettop(L) - 1 : lua_gettop(L));
}

static void add_tool(lua_State *L, int key, int value)
{
    push_spec(L, key, value);
    call(L, offer_tool, 1);
}

static void add_provider(lua_State *L, int key, int value)
{
    luaL_checktype(L, value, LUA_TTABLE);
    push_spec(L, key, value);
    call(L, offer_provider, 1);
}

static void add_command(lua_State *L, int key, int value)
{
    push_spec(L, key, value);
    call(L, offer_command, 1);
}

/// ["GET /x"] = fn, {method = , path = , run = } or {"GET", "/x", fn}.
static void add_route(lua_State *L, int key, int value)
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
    call(L, offer_route, 3);
}

static void add_prompt(lua_State *L, int key, int value)
{
    (void)key;
    lua_pushvalue(L, value);
    call(L, plugin__api_prompt, 1);
}

static void add_key(lua_State *L, int key, int value)
{
    (void)key;
    lua_pushvalue(L, value);
    call(L, plugin__api_preserve, 1);
}

static void add_event(lua_State *L, int key, int value)
{
    if (key == 0) {
        luaL_error(L, "on: handlers are kept under the names of their events");
    }
    lua_pushvalue(L, key);
    lua_pushvalue(L, value);
    call(L, bind__on, 2);
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

static void check_point(lua_State *L, int key, int value)
{
    (void)value;
    struct str name = str_of(key != 0 ? lua_tostring(L, key) : "1");
    if (hook_point_find(name) == NULL) {
        luaL_error(L, "hooks: there is no hook point '%s'%s", name.p,
                   args_near(L, hook_point_nearest(name)));
    }
}

static void add_hooks(lua_State *L, int idx)
{
    luaL_checktype(L, idx, LUA_TTABLE);
    each(L, idx, check_point);
    for (size_t i = 0; i < POINT__COUNT; i++) {
        const char *name = hook_points[i].name;
        if (args_field(L, idx, name) || args_field(L, idx, name + strlen("on_"))) {
            add_handlers(L, name, lua_gettop(L), false);
        }
        lua_settop(L, idx);
    }
}

// ---- the whole table ----------------------------------------------------------------------------

static void say_metadata(lua_State *L)
{
    static const char *const names[] = {"api", "name", "description", "version"};
    bool any = false;
    lua_newtable(L);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        any = args_field(L, 1, names[i]) || any;
        lua_setfield(L, -2, names[i]);
    }
    if (any) {
        call(L, plugin__api_plugin, 1);
    } else {
        lua_pop(L, 1);
    }
}

/// Register a part that may be one thing or a list of them.
static void add_all(lua_State *L, const char *name, each_fn *fn, bool single)
{
    lua_settop(L, 1);
    if (!args_field(L, 1, name)) {
        return;
    }
    if (single && (!lua_istable(L, 2) || lua_rawlen(L, 2) == 0)) {
        fn(L, 0, 2);
        return;
    }
    luaL_checktype(L, 2, LUA_TTABLE);
    each(L, 2, fn);
}

int plugin__install(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    say_metadata(L);
    if (args_field(L, 1, "hooks")) {
        add_hooks(L, 2);
    }
    add_all(L, "tools", add_tool, false);
    add_all(L, "providers", add_provider, false);
    add_all(L, "routes", add_route, false);
    add_all(L, "commands", add_command, false);
    add_all(L, "prompt", add_prompt, true);
    add_all(L, "preserve_ui", add_key, true);
    add_all(L, "on", add_event, false);
    return 0;
}
