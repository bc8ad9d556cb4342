#pragma once

#include "base/err.h"

// The improvements in their place in the hub: what they may ask of it, and what they hear.

struct bind;
struct config_live;
struct event_log;
struct gen_engine;
struct home;
struct hosted_plugins;
struct improve;
struct improvements;
struct loop;
struct plugins;
struct watcher;

/// Everything is borrowed until improve_free().
struct improve_opts {
    struct loop *loop;
    const struct home *home;
    struct config_live *config;
    struct event_log *events;
    struct gen_engine *engine;
    struct watcher *watcher;
    struct plugins *plugins; // keeps versions; NULL: nobody does
    struct bind *bind;
    struct hosted_plugins *hosted; // they hear the same events; NULL: there are none
};

/// Add the improvements to the engine; before its first request. NULL when their processes cannot be
/// started here: the log and `e` say why, and the hub goes on without them.
struct improve *improve_open(const struct improve_opts *o, struct err *e);
struct improvements *improve_improvements(struct improve *im); // NULL for NULL
void improve_stop(struct improve *im);                         // before gen_close()
void improve_free(struct improve *im);                         // when it is done
