// hub: what the hub says of itself.

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/faces.h"
#include "gen/report.h"

static int l_generation(lua_State *L)
{
    const struct gen *g = gen_current(bind_of(L)->engine);
    lua_pushinteger(L, g != NULL ? (lua_Integer)gen_number(g) : 0);
    return 1;
}

static int l_report(lua_State *L)
{
    const struct gen_report *r = gen_last_report(bind_of(L)->engine);
    struct bind__scratch *s = bind__scratch(L);
    struct json *v = NULL;
    struct jw w;
    if (r == NULL) {
        return bind__fail(L, "hub.report: there was no reload yet");
    }
    jw_init(&w, &s->buf);
    gen_report_write(r, &w);
    if (json_parse(&v, &s->arena, buf_str(&s->buf), NULL, NULL) < 0) {
        return bind__fail(L, "hub.report: the report is too large");
    }
    value_push(L, v);
    return 1;
}

static int l_get_worktrees(lua_State *L)
{
    lua_newtable(L);
    value_mark_array(L);
    return 1;
}

int face_hub(lua_State *L)
{
    static const luaL_Reg functions[] = {{"generation", l_generation},
                                         {"report", l_report},
                                         {"get_worktrees", l_get_worktrees},
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
