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
struct config;

/// Borrowed for modules_open() only, but for `bind`, `engine`, `watcher` and `loop`.
struct modules_opts {
    struct bind *bind;
    struct loop *loop;
    struct gen_engine *engine;
    struct watcher *watcher;     // NULL: nothing is watched
    const char *user_dir;        // $AFLOAT_HOME/lua, need not exist; NULL: no user Lua (--safe)
    const char *dev_dir;         // in place of what the binary holds; NULL: none
    const struct config *config; // [watch]; NULL: the defaults
};

/// Make the state and add the source of its units to the engine; nothing is loaded before the first
/// request. Never fails: what cannot be watched is a warning of the engine.
struct modules *modules_open(const struct modules_opts *o);

/// Keep versions of the user's modules with those of plugins; before the loop turns, and only with a user's
/// directory. `past` is borrowed until the engine is closed.
struct plugins;
void modules_set_past(struct modules *ms, struct plugins *past);

/// After the engine has been closed: no unit of ours is left. NULL is allowed.
void modules_close(struct modules *ms);

/// Stop watching; before gen_close().
void modules_stop(struct modules *ms);

/// Could a request name this unit? "lua:lib.x" or "lib.x", loaded or not.
bool modules_knows(const struct modules *ms, struct str name);

/// What is there, for tests and status.
struct modules_stats {
    size_t loaded;   // modules
    size_t memory;   // bytes of the shared state
    size_t keys;     // of hub.state
    size_t files;    // seen in all roots
    size_t installs; // modules that installed plugins by plugins{path = ...}
};
/// The figures of now.
struct modules_stats modules_get_stats(const struct modules *ms);
