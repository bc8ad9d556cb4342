// hooks: on, off, intercept, unintercept.
//
//     hooks.on(event, name, fn[, opts])         an observer: what it returns is ignored
//     hooks.intercept(event, name, fn[, opts])  what it returns counts
//
// A handler of the same event and name replaces the one before. In the hub the library has more functions:
// see bind/hooks.c.

#include <limits.h>

#include "lua/args.h"
#include "lua/lib.h"
#include "lua/vm_int.h"

/// The integer on top of the stack.
static lua_Integer check_integer(lua_State *L, const char *who, const char *key, lua_Integer low,
                                 lua_Integer high)
{
    int is_integer;
    lua_Integer n = lua_tointegerx(L, -1, &is_integer);
    if (lua_type(L, -1) != LUA_TNUMBER || !is_integer || n < low || n > high) {
        luaL_error(L, "%s: %s must be an integer from %I to %I", who, key, low, high);
    }
    return n;
}

void lib_hook_options(lua_State *L, const char *who, int idx, struct lib_hook *h)
{
    static const char *const keys[] = {"tool", "priority", "timeout_ms", "on_error", NULL};
    if (lua_isnoneornil(L, idx)) {
        return;
    }
    if (!lua_istable(L, idx)) {
        luaL_error(L, "%s: options must be a table, not %s", who, luaL_typename(L, idx));
    }
    args_keys(L, idx, who, keys);
    if (args_field(L, idx, "tool")) {
        h->tool = args_str(L, -1, who, "tool");
    }
    if (args_field(L, idx, "priority")) {
        h->priority = (int)check_integer(L, who, "priority", INT_MIN, INT_MAX);
    }
    if (args_field(L, idx, "timeout_ms")) {
        h->timeout_ms = (uint32_t)check_integer(L, who, "timeout_ms", 1, 86400000);
    }
    if (args_field(L, idx, "on_error")) {
        struct str what = args_str(L, -1, who, "on_error");
        h->block = str_eqz(what, "block");
        if (!h->block && !str_eqz(what, "continue")) {
            luaL_error(L, "%s: on_error must be 'continue' or 'block'", who);
        }
    }
}

static int add(lua_State *L, const char *who, bool chain)
{
    struct lib_hook h = {.chain = chain};
    lua_settop(L, 4);
    h.point = args_str(L, 1, who, "event");
    h.name = args_str(L, 2, who, "name");
    args_fn(L, 3, who);
    lib_hook_options(L, who, 4, &h);
    return vm_of(L)->backend->hooks->add(L, who, &h);
}

static int hooks_on(lua_State *L)
{
    return add(L, "hooks.on", false);
}

static int hooks_intercept(lua_State *L)
{
    return add(L, "hooks.intercept", true);
}

static int take_back(lua_State *L, const char *who, bool chain)
{
    const struct lib_hook h = {
        .point = args_str(L, 1, who, "event"),
        .name = args_str(L, 2, who, "name"),
        .chain = chain,
    };
    return args_bool(L, vm_of(L)->backend->hooks->off(L, &h));
}

static int hooks_off(lua_State *L)
{
    return take_back(L, "hooks.off", false);
}

static int hooks_unintercept(lua_State *L)
{
    return take_back(L, "hooks.unintercept", true);
}

const luaL_Reg lib_hooks[] = {{"on", hooks_on},
                              {"off", hooks_off},
                              {"intercept", hooks_intercept},
                              {"unintercept", hooks_unintercept},
                              {NULL, NULL}};
