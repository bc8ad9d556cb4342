#pragma once

#include "base/json.h"
#include "lua/refs.h"

// hub.state: what the hub's modules keep over reloads, in memory, under text keys.
//
// What loading code changes (set, clear, a new default, class) is written down with who changed it,
// and undone when that code is not taken. A field written into a table that lived there before is the
// exception: it stays.

struct state;
struct version;

/// Make the state of `vm`, empty; the caller frees it before vm_close().
struct state *state_new(struct vm *vm);
void state_free(struct state *st);
/// How many keys it has.
size_t state_count(const struct state *st);
/// Is the value at the absolute index `idx` one of the table's on top? Pops the table.
bool table__has(lua_State *L, int idx);
/// Is the value at `idx` one of those that are kept?
bool state_holds(const struct state *st, lua_State *L, int idx);

/// Leave the library table of hub.state on `L`; for vm_add_lib(), after state_new().
int state_open_lib(lua_State *L);

// ---- out of a Lua state and into another ----------------------------------------------------

/// What is kept, as a JSON value in `a` that state_restore() understands: texts, numbers, booleans and
/// plain tables, which may share and hold each other, and instances of classes. Everything else is
/// left out and named in `lost` ("jobs.done (function), ..."; nothing is added when nothing was).
/// Keys that would make more than `max` bytes of it go too, the largest first. Works on a dead state.
struct json *state_save(struct state *st, struct arena *a, size_t max, struct buf *lost);

/// Put what was saved into a state that has nothing yet. A class has no functions until class() of its
/// key is asked for. What does not look like a saved state is passed over.
void state_restore(struct state *st, const struct json *saved);

// ---- for the transaction --------------------------------------------------------------------

/// From now changes by the running version are written down.
void state_begin(struct state *st);
/// Undo what versions that were thrown away changed, and forget the rest. `thrown` decides.
void state_end(struct state *st, bool (*thrown)(const struct version *v));

/// The same for a Lua state in which one version at a time is loaded: a plugin's. Ending what did not
/// begin is allowed.
void state_begin_alone(struct state *st);
void state_end_alone(struct state *st, bool keep);
