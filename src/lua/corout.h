#pragma once

#include <lua.h>

/// coroutine.create and so on, as Lua sees them.
int corout_create(lua_State *L);
int corout_resume(lua_State *L);
int corout_wrap(lua_State *L);
int corout_yield(lua_State *L);
int corout_close(lua_State *L);
int corout_running(lua_State *L);
int corout_isyieldable(lua_State *L);
