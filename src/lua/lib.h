#pragma once

#include <lua.h>

// Libraries without a feature behind them, in every state.

int lib_json_open(lua_State *L); // json: encode decode array null
int lib_log_open(lua_State *L);  // log: debug info warn error

// print and warn
int lib_log_info(lua_State *L);
int lib_log_warn(lua_State *L);
