// config: the effective settings, with what looks like a secret blanked.

#include "config/config.h"

#include <lauxlib.h>

#include "base/path.h"
#include "bind/bind_int.h"
#include "bind/faces.h"

/// All settings as config_write_json() shows them: an array of {key, value, ...}.
static const struct json *read_all(lua_State *L)
{
    struct bind__scratch *s = bind__scratch(L);
    struct json *doc = NULL;
    struct jw w;
    jw_init(&w, &s->buf);
    config_write_json(bind_of(L)->config, NULL, &w);
    if (json_parse(&doc, &s->arena, buf_str(&s->buf), NULL, NULL) < 0) {
        return NULL;
    }
    return json_get(doc, "values");
}

static int l_get(lua_State *L)
{
    struct str key = bind__check_str(L, 1, "config.get", "key");
    const struct json *all = read_all(L);
    json_foreach_item (it, all) {
        if (str_eq(json_str(json_get(it, "key"), ""), key)) {
            value_push(L, json_get(it, "value"));
            return 1;
        }
    }
    return bind__fail(L, "config.get: there is no setting '%s'", key.p);
}

static int l_all(lua_State *L)
{
    const struct json *all = read_all(L);
    lua_newtable(L);
    json_foreach_item (it, all) {
        struct str key = json_str(json_get(it, "key"), "");
        lua_pushlstring(L, key.p, key.n);
        value_push(L, json_get(it, "value"));
        lua_rawset(L, -3);
    }
    return 1;
}

static int l_data_dir(lua_State *L)
{
    lua_pushstring(L, bind_of(L)->home->dir);
    return 1;
}

static int l_lua_path(lua_State *L)
{
    lua_pushfstring(L, "%s/lua", bind_of(L)->home->dir);
    return 1;
}

int face_config(lua_State *L)
{
    static const luaL_Reg functions[] = {{"get", l_get},
                                         {"all", l_all},
                                         {"lua_path", l_lua_path},
                                         {"data_dir", l_data_dir},
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
