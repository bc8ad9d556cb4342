#pragma once

#include "base/err.h"
#include "base/vec.h"
#include "config/hub_parts.h"
#include "gen/engine.h"

// Everything that is replaced while the hub runs: the watcher, the transaction engine and the Lua on
// top of it, opened and closed together.

struct bind;
struct config_diags;
struct hosted_plugins;
struct http_client;
struct improve;
struct improvements;
struct mcp;
struct modules;
struct plugins;
struct watcher;

/// All borrowed until live_close() is done.
struct live_opts {
    const struct hub_parts *hub;
    /// See plugins_opts.
    const struct config *(*project_config)(void *arg, const char *root);
    void *project_arg;
    const char *version;
    const char *shipped_dir;  // plugins that come with the program; NULL: none
    const char *stalled_path; // see bind_opts
    const char *repo;         // the project opened at start; NULL: none
    bool safe;                // no user Lua, no plugins, no improvements
};

/// Its parts may be read by those who are put together with them.
struct live {
    struct live_opts opts;
    struct watcher *watcher;
    struct http_client *http;
    struct gen_engine *engine;
    struct bind *bind;
    struct modules *modules;
    struct hosted_plugins *hosted;     // NULL: no process can be started for a plugin
    struct plugins *plugins;           // NULL: none are loaded (safe)
    struct improve *improve;           // NULL: the same, or they cannot run here
    struct improvements *improvements; // of `improve`
    struct mcp *mcp;                   // NULL: none (safe); lives until the loop has ended
    vec(const char *) tool_names;      // of built-in tools, NULL at the end
    bool closing;
    loop_fn *loaded;
    void *loaded_arg;
    loop_fn *done;
    void *done_arg;
};

/// Open all of it and ask for the first load; `loaded` is called once, when the first generation
/// serves, whatever of it failed. Not after live_close().
struct live *live_open(const struct live_opts *o, loop_fn *loaded, void *arg);

/// Tell the modules, unload everything; `done` when nothing is left.
void live_close(struct live *v, loop_fn *done, void *arg);

/// Take over the settings in force. The `n` lists are their diagnostics, for the report and its listeners.
void live_settings_changed(struct live *v, const struct config_diags *const *lists, size_t n);
bool live_knows(const struct live *v, struct str unit); // could a reload name it?
