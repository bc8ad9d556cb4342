#pragma once

#include "agent/agent.h"

// The agent in its place in the hub: providers on a client of their own, plugins as sessions see them.

struct agent_glue;
struct bind;
struct improvements;
struct mcp;
struct plugins;
struct projects;
struct watcher;

/// Everything is borrowed until agent_glue_free(), but for `config`, and where it says
/// that it need not be so long.
struct agent_glue_opts {
    struct agent_opts agent;           // `providers`, `http` and `host` are filled in here
    struct plugins *plugins;           // NULL: none
    struct improvements *improvements; // NULL: none
    struct bind *bind;                 // its handlers hear of sessions
    struct watcher *watcher;           // until it has stopped
    struct projects *projects;         // the same
    struct mcp *mcp;                   // until the engine is closed; NULL: none
    const char *version;
};

/// Open; `ready` comes when sessions left by a killed hub are marked.
struct agent_glue *agent_glue_open(const struct agent_glue_opts *o, loop_fn *ready, void *arg);
struct agent *agent_glue_agent(struct agent_glue *g);
struct providers *agent_glue_providers(struct agent_glue *g);
/// Interrupt every turn; `done` when all is written. Before live_close().
void agent_glue_stop(struct agent_glue *g, loop_fn *done, void *arg);
/// Nothing is asked of providers any more: let them go. After api_stop().
void agent_glue_close(struct agent_glue *g);
void agent_glue_free(struct agent_glue *g); // when the store is closed; NULL is allowed
