#pragma once

#include <lauxlib.h>

#include "bind/bind_int.h"

/// Leave the library table of hub.loader on `L`.
int loader_open_lib(lua_State *L);

/// safe_require(name): require() that answers instead of throwing: the module, or nil and why not.
int loader_safe_require(lua_State *L);

/// Push a report as GET /reload has it.
void loader_push_report(lua_State *L, const struct gen_report *report);

/// A request for a run of the engine. Its answer is about `names`: whether all of them serve, or how many; or how
/// many improvements do. The report follows.
struct loader__ask {
    struct bind_op op; // first
    vec(char *) names;
    enum { LOADER_ALL_SERVE, LOADER_COUNT, LOADER_IMPROVEMENTS } answer;
};
/// A new request about one name.
struct loader__ask *loader__ask_for(struct str name);
/// `return loader__request(...)`: ask for a run over the names; `k` is taken over.
int loader__request(lua_State *L, struct loader__ask *k, bool force, int callback);
extern const luaL_Reg loader__plugin_functions[]; // of loader_plugins.c
