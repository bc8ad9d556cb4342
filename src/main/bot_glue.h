#pragma once

#include "loop/loop.h"

// Bots in their place in the hub: above the agent, below the operations.

struct agent;
struct bind;
struct bot_glue;
struct bots;
struct config_live;
struct event_log;
struct home;
struct store;
struct trust;
struct watcher;

/// Everything is borrowed until bot_glue_free(), but for `config`, and `bind` and `watcher`: until it has
/// stopped.
struct bot_glue_opts {
    struct loop *loop;
    const struct home *home;
    struct config_live *config;
    struct store *store;
    struct event_log *events;
    struct trust *trust;
    struct agent *agent;
    struct watcher *watcher;
    struct bind *bind; // hears of worktrees
};

struct bot_glue *bot_glue_open(const struct bot_glue_opts *o);
struct bots *bot_glue_bots(struct bot_glue *g);
/// Runs end as interrupted, their work kept; `done` when all is written. Before the agent stops.
void bot_glue_stop(struct bot_glue *g, loop_fn *done, void *arg);
/// When neither sessions nor clients ask any more, before the store closes.
void bot_glue_close(struct bot_glue *g, loop_fn *done, void *arg);
void bot_glue_free(struct bot_glue *g); // after the agent; NULL is allowed
