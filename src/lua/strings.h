#pragma once

#include <lua.h>

/// string.rep and string.format, as Lua sees them.
int strings_rep(lua_State *L);
int strings_format(lua_State *L);
