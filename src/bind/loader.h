#pragma once

#include <lauxlib.h>

struct gen_report;

/// Leave the library table of hub.loader on `L`.
int loader_open_lib(lua_State *L);

/// safe_require(name): require() that answers instead of throwing: the module, or nil and why not.
int loader_safe_require(lua_State *L);

/// Push a report as the table of the contract.
void loader__push_report(lua_State *L, const struct gen_report *report);
extern const luaL_Reg loader__plugin_functions[]; // of loader_plugins.c
