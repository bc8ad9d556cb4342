#pragma once

#include <lua.h>

/// table.*, as Lua sees it.
int tables_insert(lua_State *L);
int tables_remove(lua_State *L);
int tables_move(lua_State *L);
int tables_concat(lua_State *L);
int tables_unpack(lua_State *L);
int tables_sort(lua_State *L);
