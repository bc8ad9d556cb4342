#pragma once

#include <lua.h>

/// Leave the library table of hub.loader on `L`: reload list load_improvements.
int loader_open_lib(lua_State *L);
