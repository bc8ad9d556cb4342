#pragma once

#include <lauxlib.h>

#include "lua/vm.h"

/// The functions of a module.
extern const luaL_Reg face_action_cable[], face_http[], face_secrets[], face_sqlite[], face_store[],
    face_watch[], face_websocket[];
/// Each leaves one value: the module.
int face_hub(lua_State *L);
int face_pty(lua_State *L);
int face_worktree(lua_State *L);
/// Modules that are one function.
int face_exec(lua_State *L);
int face_on(lua_State *L);

/// Add to the library `hooks` what only the hub has.
void face_hooks(struct vm *vm);
/// Set the globals on_begin, on_tool_call, ...: one for each of the agent's points.
void face_points(struct vm *vm);

/// In the place of Lua's own: the code waits, the hub does not.
int face_os_execute(lua_State *L);
int face_io_popen(lua_State *L);
/// io.open, io.lines, io.input and io.output refuse what would stop the hub: pipes, sockets, terminals. The files that
/// these and io.tmpfile open are counted.
void face_io_files(struct vm *vm);
