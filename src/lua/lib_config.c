// config: get, all, lua_path, data_dir.
//
// Settings are one flat object: {"watch.poll_ms": 500, ...}. What looks like a secret is blanked already.

#include "lua/args.h"
#include "lua/lib.h"
#include "lua/value.h"
#include "lua/vm_int.h"

static const struct json *settings(lua_State *L)
{
    return vm_of(L)->backend->config(L, &args_scratch(L)->arena);
}

/// get(key[, default])
static int config_get(lua_State *L)
{
    struct str key = args_str(L, 1, "config.get", "key");
    lua_settop(L, 2);
    const struct json *v = json_get_str(settings(L), key);
    if (v != NULL) {
        value_push(L, v);
        return 1;
    }
    if (lua_isnil(L, 2)) {
        return args_fail(L, "config.get: there is no setting '%s'", key.p);
    }
    lua_pushvalue(L, 2);
    return 1;
}

static int config_all(lua_State *L)
{
    const struct json none = {.type = JSON_OBJ}, *all = settings(L);
    value_push(L, all != NULL ? all : &none);
    return 1;
}

static int config_data_dir(lua_State *L)
{
    lua_pushstring(L, vm_of(L)->backend->data_dir(L));
    return 1;
}

static int config_lua_path(lua_State *L)
{
    lua_pushfstring(L, "%s/lua", vm_of(L)->backend->data_dir(L));
    return 1;
}

const luaL_Reg lib_config[] = {{"get", config_get},
                               {"all", config_all},
                               {"lua_path", config_lua_path},
                               {"data_dir", config_data_dir},
                               {NULL, NULL}};
