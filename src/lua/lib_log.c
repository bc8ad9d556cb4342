// log: debug, info, warn, error; print and warn are two of them.
//
// The text of all arguments, separated by spaces, goes to the log function of the state, with the owner of the running
// entry.

#include "base/utf8.h"
#include "lua/lib.h"
#include "lua/vm_int.h"

static int write_line(lua_State *L, enum log_level level)
{
    struct vm *vm = vm_of(L);
    int n = lua_gettop(L);
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (int i = 1; i <= n && luaL_bufflen(&b) < VM__TEXT_MAX; i++) {
        if (i > 1) {
            luaL_addchar(&b, ' ');
        }
        libs__push_text(L, i);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    struct str text;
    text.p = lua_tolstring(L, -1, &text.n);
    text.n = utf8_cut(text.p, text.n, VM__TEXT_MAX);
    limit__charge(L, 4096);
    if (vm->log != NULL) {
        vm->log(vm->arg, vm_owner_running(vm), level, text);
    }
    return 0;
}

static int log_lua_debug(lua_State *L)
{
    return write_line(L, LOG_DEBUG);
}

static int log_lua_error(lua_State *L)
{
    return write_line(L, LOG_ERROR);
}

int lib_log_info(lua_State *L)
{
    return write_line(L, LOG_INFO);
}

int lib_log_warn(lua_State *L)
{
    return write_line(L, LOG_WARN);
}

const luaL_Reg lib_log[] = {{"debug", log_lua_debug},
                            {"info", lib_log_info},
                            {"warn", lib_log_warn},
                            {"error", log_lua_error},
                            {NULL, NULL}};
