#pragma once

#include <lauxlib.h>

#include "base/json.h"
#include "lua/refs.h"

// hub.state: what the hub's modules keep over reloads, in memory, under text keys.
//
// Changes that loading code makes (set, clear, a new default, class) are logged with their version and undone when that
// version is not taken. Fields written into a table that was there before are the exception: they stay.

struct state;
struct version;

/// Make the state of `vm`, empty; the caller frees it before vm_close().
struct state *state_new(struct vm *vm);
void state_free(struct state *st);
/// How many keys it has.
size_t state_count(const struct state *st);
/// Is the value at the absolute index `idx` one of the values of the table on top? Pops the table.
bool table__has(lua_State *L, int idx);
/// Is the value at `idx` one of its values?
bool state_holds(const struct state *st, lua_State *L, int idx);

/// hub.state as Lua sees it, after state_new().
extern const luaL_Reg state_functions[];

// ---- out of a Lua state and into another ----------------------------------------------------

/// Its values as a JSON value in `a` for state_restore(): texts, numbers, booleans, plain tables, which may share and
/// contain each other, and instances of classes. Everything else is left out and named in `lost` ("jobs.done (function),
/// ..."). If the result would be larger than `max` bytes, the largest keys are left out too. Works on a dead state.
struct json *state_save(struct state *st, struct arena *a, size_t max, struct buf *lost);

/// Put saved values into an empty state. A class has no functions until class() is called with its key. Whatever does
/// not look like a saved state is ignored.
void state_restore(struct state *st, const struct json *saved);

// ---- for the transaction --------------------------------------------------------------------

/// From now on log the changes that loading versions make.
void state_begin(struct state *st);
/// Undo and forget the changes of the versions that are `thrown`.
void state_undo(struct state *st);
/// The same, and empty the log.
void state_end(struct state *st);

/// The same for a plugin's Lua state, where one version at a time loads. Ending without a beginning is allowed.
void state_begin_alone(struct state *st);
void state_end_alone(struct state *st, bool keep);
