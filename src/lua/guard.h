#pragma once

#include <lua.h>

/// The builtins that are our own, as Lua sees them.
int guard_pcall(lua_State *L);
int guard_xpcall(lua_State *L);
int guard_setmetatable(lua_State *L);
int guard_getmetatable(lua_State *L);
int guard_load(lua_State *L);
int guard_loadfile(lua_State *L);
int guard_dofile(lua_State *L);
int guard_collectgarbage(lua_State *L);
int guard_tostring(lua_State *L);

/// os and io. guard_absent() stands for os.execute and io.popen until they are replaced (vm_replace).
int guard_exit(lua_State *L);
int guard_setlocale(lua_State *L);
int guard_absent(lua_State *L);

/// debug
int guard_debug_setmetatable(lua_State *L);
int guard_debug_setlocal(lua_State *L);
int guard_debug_getupvalue(lua_State *L);
int guard_debug_setupvalue(lua_State *L);
int guard_debug_upvaluejoin(lua_State *L);
int guard_debug_traceback(lua_State *L);

/// package.searchpath as Lua has it, for regular files only.
int guard_searchpath(lua_State *L);
/// package.loadlib for regular files only; the upvalue is Lua's own.
int guard_loadlib(lua_State *L);
/// package.searchers[2]: a module on package.path, as text.
int guard_searcher(lua_State *L);
/// package.searchers[3] and [4]: a library on package.cpath. The upvalues are Lua's own package.loadlib, and whether the
/// library has the name of the module's first part.
int guard_searcher_c(lua_State *L);
