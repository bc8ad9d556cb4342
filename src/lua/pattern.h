#pragma once

#include <lua.h>

/// string.find, match, gmatch and gsub, as Lua sees them.
int pattern_find(lua_State *L);
int pattern_match(lua_State *L);
int pattern_gmatch(lua_State *L);
int pattern_gsub(lua_State *L);
