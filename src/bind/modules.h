#pragma once

#include "bind/bind.h"

// The hub's own Lua: one shared state, its modules, and their place in the reload transaction.
//
//     runtime/lua/**           shipped, in the binary (or AFLOAT_DEV_LUA=DIR, watched)
//     $AFLOAT_HOME/lua/**      the user's: overrides, user/init.lua and what it requires
//
// A module is one file and one unit "lua:NAME" of the generation. docs/internals/modules.md tells the
// whole story. Everything here belongs to the loop thread.

struct modules;

/// Make the state and add the source of its units to the engine of `b`, which is borrowed; nothing is loaded
/// before the first request. `user_dir` is $AFLOAT_HOME/lua, which need not exist (NULL: no user Lua), `dev_dir` replaces
/// what the binary holds (NULL: nothing does). Never fails: what cannot be watched is a warning of the engine.
struct modules *modules_open(struct bind *b, const char *user_dir, const char *dev_dir);

/// Keep versions of the user's modules with those of plugins; before the loop turns, and only with a user's
/// directory. `past` is borrowed until the engine is closed.
struct plugins;
void modules_set_past(struct modules *ms, struct plugins *past);

/// After the engine has been closed: no unit of ours is left. NULL is allowed.
void modules_close(struct modules *ms);

/// Stop watching files and settings; before gen_close().
void modules_stop(struct modules *ms);

/// Could a request name this unit? "lua:lib.x" or "lib.x", loaded or not.
bool modules_knows(const struct modules *ms, struct str name);

struct modules_stats {
    size_t memory;   // bytes of the shared state
    size_t installs; // modules that installed plugins by plugins{path = ...}
};
/// The figures of now.
struct modules_stats modules_get_stats(const struct modules *ms);
