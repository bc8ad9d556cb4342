#pragma once

// What the files of the plugins' Lua host share. bind/plugin.c tells how they work together.

#include "base/map.h"
#include "base/vec.h"
#include "bind/bind_int.h"
#include "bind/state.h"
#include "plugin/runner.h"

struct plugin__module;

/// The Lua state of one plugin, kept over its versions; a dry run has one of its own.
struct plugin__home {
    struct plugin__plugins *plugins;
    char *key; // its namespace; NULL: of a dry run, or full and given up
    struct vm *vm;
    struct state *state;
    struct vm_owner *own;
    vm_ref env_meta; // of the versions' environments
    size_t versions;
};

/// One version of one plugin.
struct plugin__version {
    struct plugin_version head; // first
    struct plugin__home *home;  // NULL: it is part of one of the hub's modules
    struct bind_owner *owner;
    struct gen_unit *unit;
    struct arena arena;                   // of head.metadata
    vm_ref env;                           // its globals
    vm_ref value;                         // what the server file returned
    struct map modules;                   // struct plugin__module by name: what it required
    vec(struct plugin__module *) loading; // innermost last
    struct gen_diag fault;                // of a file that it required; message NULL: none
    bool incompatible;                    // it asked for an API that is not ours
};

struct plugin__plugins {
    struct bind *bind;
    struct plugin_runner runner;
    struct map homes; // struct plugin__home by namespace
    struct map kept;  // struct plugin__kept by namespace: what is known beyond a state
    struct map live;  // struct plugin__version by the unit's name: what was committed last
    unsigned depth;   // calls from plugin to plugin that are inside each other
};

// ---- plugin.c -----------------------------------------------------------------------------------

struct plugin__plugins *plugin__open(struct bind *b);
void plugin__close(struct plugin__plugins *ps);
/// Begin a version of `code` in `vm`, as the staging unit `u`. `v` is zeroed and is the start of its block of memory,
/// which the runner's free() frees.
void plugin__version_init(struct plugin__version *v, struct plugin__plugins *ps,
                          const struct plugin_code *code, struct vm *vm, struct gen_unit *u);
/// The plugin whose code runs on `L`; raises when it is not a plugin's.
struct plugin__version *plugin__running(lua_State *L, const char *fn);

// ---- plugin_home.c ------------------------------------------------------------------------------

/// The state for one more version of `code`: the existing one, else a new one with the data that was kept.
struct plugin__home *plugin__home_enter(struct plugin__plugins *ps, const struct plugin_code *code,
                                        bool dry_run);
/// A version was freed. With the last one the state is closed; the data of hub.state is kept.
void plugin__home_leave(struct plugin__home *h);
/// Has exactly this code filled its state too often, or was a hub killed because it was stuck in it? Then true, and the
/// caller frees `fault`.
bool plugin__home_refuses(struct plugin__plugins *ps, const struct plugin_code *code,
                          struct gen_diag *fault);
/// Note with `v`, which has loaded, which data of the former state was lost; once.
void plugin__home_say(struct plugin__version *v);
/// Free what is kept of all plugins, when no version is left.
void plugin__homes_close(struct plugin__plugins *ps);

// ---- plugin_load.c ------------------------------------------------------------------------------

/// Run the server file of `v` and take in what it returns. 0, or a negative code and `fault` (the
/// caller's to free).
int plugin__run(struct plugin__version *v, struct gen_diag *fault) MUST_CHECK;
/// The same for the value at `idx` of `L`: a table, or a function of ctx.
int plugin__run_value(struct plugin__version *v, lua_State *L, int idx,
                      struct gen_diag *fault) MUST_CHECK;
void plugin__modules_free(struct plugin__version *v);
int plugin__require(lua_State *L);

// ---- plugin_link.c ------------------------------------------------------------------------------

/// Push the proxy of what the plugin of that name returned.
int plugin__push_link(lua_State *L, const char *name);

// ---- plugin_api.c, plugin_table.c ---------------------------------------------------------------

/// Set the globals of plugins: plugin, tool, route, command, prompt, flag, ...
void plugin__open_api(struct vm *vm);
/// state, hooks and loader also as hub.state, ...: in a plugin's own Lua state.
void plugin__open_aliases(struct vm *vm);
int plugin__api_plugin(lua_State *L); // plugin{...}
int plugin__api_prompt(lua_State *L);
int plugin__api_preserve(lua_State *L);
/// Register what the table at 1 holds: {api, name, hooks, tools, routes, commands, prompt,
/// preserve_ui, on}.
int plugin__install(lua_State *L);
