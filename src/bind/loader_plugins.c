// The plugin functions of hub.loader: load_plugin, reload_plugin, unload_plugin, discover, load_many and
// list_plugins. What user/init.lua installs with plugins{...} is in modules_plugins.c.
//
// They add entries and make requests as every other source does: a run of the engine applies the changes, and its report is
// the answer. Entries made here are kept in memory only.

#include <lauxlib.h>

#include "base/path.h"
#include "bind/bind_int.h"
#include "bind/loader.h"
#include "plugin/plugins.h"

/// The plugins; raises where there are none.
static struct plugins *plugins_of(lua_State *L, int callback, const char *fn)
{
    struct plugins *ps = bind_of(L)->all_plugins;
    if (ps == NULL) {
        luaL_error(L, "%s: plugins are not loaded in this hub", fn);
    }
    if (callback != 0) {
        bind__op_check(L, callback, fn);
    }
    return ps;
}

// ---- functions ------------------------------------------------------------------------------------

/// load_plugin(path, name [, fn]) -> ok, report: the directory, or the init.lua in it, or a file
static int lib_load_plugin(lua_State *L)
{
    const char *path = args_z(L, 1, "loader.load_plugin", "path");
    struct str name = args_str(L, 2, "loader.load_plugin", "name");
    lua_settop(L, 3);
    struct plugins *ps = plugins_of(L, 3, "loader.load_plugin");
    if (path[0] != '/') {
        return args_fail(L, "loader.load_plugin: '%s' is not an absolute path", path);
    }
    bool inside = str_eqz(path_base(str_of(path)), "init.lua");
    char *place = str_dup(inside ? path_dir(str_of(path)) : str_of(path));
    char *called = str_dup(name), *owner = xasprintf("loader:%s", called);
    struct plugin_install one = {.path = place, .name = called, .hot = HOT_YES};
    plugins_install(ps, owner, &one, 1);
    plugins_load(ps, name);
    free(owner);
    free(called);
    free(place);
    return loader__request(L, loader__ask_for(name), false, 3);
}

/// reload_plugin(name [, fn]) -> ok, report
static int lib_reload_plugin(lua_State *L)
{
    struct str name = args_str(L, 1, "loader.reload_plugin", "name");
    struct plugin_row row;
    lua_settop(L, 2);
    struct plugins *ps = plugins_of(L, 2, "loader.reload_plugin");
    if (!plugins_find(ps, name, &row)) {
        return args_fail(L, "there is no plugin '" STR_FMT "'", STR_ARG(name));
    }
    plugins_load(ps, name);
    return loader__request(L, loader__ask_for(name), true, 2);
}

/// unload_plugin(name [, fn]) -> 0, report: until it is loaded again or the hub restarts
static int lib_unload_plugin(lua_State *L)
{
    struct str name = args_str(L, 1, "loader.unload_plugin", "name");
    struct err e = {0};
    lua_settop(L, 2);
    struct plugins *ps = plugins_of(L, 2, "loader.unload_plugin");
    if (plugins_unload(ps, name, &e) < 0) {
        return args_fail(L, "loader.unload_plugin: %s", e.msg);
    }
    struct loader__ask *k = loader__ask_for(name);
    k->answer = LOADER_COUNT;
    return loader__request(L, k, false, 2);
}

/// load_many(names [, fn]) -> how many of them serve, report
static int lib_load_many(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    struct plugins *ps = plugins_of(L, 2, "loader.load_many");
    lua_Unsigned n = MIN(lua_rawlen(L, 1), 4096);
    for (lua_Unsigned i = 1; i <= n; i++) {
        if (lua_rawgeti(L, 1, (lua_Integer)i) != LUA_TSTRING) {
            return args_fail(L, "loader.load_many: names are texts");
        }
        lua_pop(L, 1);
    }
    struct loader__ask *k = xcalloc(1, sizeof *k);
    k->answer = LOADER_COUNT;
    for (lua_Unsigned i = 1; i <= n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i);
        vec_push(&k->names, xstrdup(lua_tostring(L, -1)));
        plugins_load(ps, str_of(*vec_last(&k->names)));
        lua_pop(L, 1);
    }
    return loader__request(L, k, false, 2);
}

static int push_rows(lua_State *L, const struct plugins *ps, bool serving_only)
{
    lua_Integer n = 0;
    lua_newtable(L);
    for (size_t i = 0; i < plugins_count(ps); i++) {
        struct plugin_row r = plugins_at(ps, i);
        if (r.unit == NULL && serving_only) {
            continue;
        }
        lua_createtable(L, 0, 8);
        value_set_str(L, "name", r.name);
        value_set_str(L, "path", r.path);
        value_set_str(L, "layer", r.layer);
        value_set_str(L, "source", r.source);
        value_set_str(L, "state", gen_state_name(r.state));
        value_set_str(L, "project", r.project);
        value_set_bool(L, "serving", r.unit != NULL);
        if (r.unit != NULL) {
            value_set_int(L, "revision", (lua_Integer)r.unit->revision);
        }
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

/// list_plugins() -> those that serve, in load order
static int lib_list_plugins(lua_State *L)
{
    return push_rows(L, plugins_of(L, 0, "loader.list_plugins"), true);
}

/// discover() -> all that were found, served or not
static int lib_discover(lua_State *L)
{
    return push_rows(L, plugins_of(L, 0, "loader.discover"), false);
}

const luaL_Reg loader__plugin_functions[] = {
    {"load_plugin", lib_load_plugin},
    {"reload_plugin", lib_reload_plugin},
    {"unload_plugin", lib_unload_plugin},
    {"load_many", lib_load_many},
    {"list_plugins", lib_list_plugins},
    {"discover", lib_discover},
    {NULL, NULL},
};
