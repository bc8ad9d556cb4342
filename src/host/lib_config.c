// What a file may know of the hub: `config` (a copy that came with `load`, secrets blanked by the
// hub) and `hub`.

#include <stdarg.h>

#include "host/host_int.h"

int far__nil(lua_State *L, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    lua_pushnil(L);
    lua_pushstring(L, text);
    return 2;
}

/// "a.b.c": the member of that very name, else step by step.
static const struct json *find(const struct json *v, struct str key)
{
    const struct json *whole = json_get_str(v, key);
    if (whole != NULL) {
        return whole;
    }
    while (v != NULL && key.n != 0) {
        v = json_get_str(v, str_cut(&key, '.'));
    }
    return v;
}

static int config_get(lua_State *L)
{
    struct str key;
    key.p = luaL_checklstring(L, 1, &key.n);
    const struct json *v = find(far__of(L)->config, key);
    if (v == NULL) {
        lua_settop(L, 2); // the default, if one was given
        return 1;
    }
    value_push(L, v);
    return 1;
}

static int config_all(lua_State *L)
{
    const struct json *all = far__of(L)->config;
    if (all != NULL && all->type == JSON_OBJ) {
        value_push(L, all);
    } else {
        lua_newtable(L);
    }
    return 1;
}

static int config_lua_path(lua_State *L)
{
    lua_pushstring(L, far__of(L)->lua_path);
    return 1;
}

static int config_data_dir(lua_State *L)
{
    lua_pushstring(L, far__of(L)->data_dir);
    return 1;
}

static int hub_get_worktrees(lua_State *L)
{
    struct far *f = far__of(L);
    struct jw w;
    entry_check_wait(L);
    far__begin(f, &w, "call", ++f->last_call);
    jw_kstrz(&w, "op", "worktree.list");
    jw_key(&w, "params");
    jw_obj(&w);
    jw_end_obj(&w);
    far__send(f, &w);
    return far__wait_call(L, f->last_call);
}

int far__open_config(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"get", config_get},           {"all", config_all}, {"lua_path", config_lua_path},
        {"data_dir", config_data_dir}, {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}

int far__open_hub(lua_State *L)
{
    static const luaL_Reg functions[] = {{"get_worktrees", hub_get_worktrees}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
