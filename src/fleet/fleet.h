#pragma once

#include "base/err.h"
#include "base/json.h"
#include "loop/loop.h"

// The hubs that share a store: who they are, what they are for, and whether they take new runs. A hub with
// a store of its own is a fleet of one. Loop thread.

struct choices;
struct config;
struct config_live;
struct fleet;
struct home;
struct store;

/// Everything is borrowed until fleet_free().
struct fleet_opts {
    struct loop *loop;
    const struct home *home;
    struct config_live *config;
    struct store *store;
    struct choices *choices;
    int64_t (*generation)(void *arg); // of this hub
    void *arg;
};

/// What runs bots on this hub, told by that part itself.
struct fleet_runner {
    size_t (*running)(void *arg); // how many runs it has
    void *arg;
};

/// The name of the hub of `home`: `[store] hub_name`, else the host's name and a hash of the home. Caller
/// frees.
char *fleet_hub_name(const struct config *c, const struct home *home);

struct fleet *fleet_open(const struct fleet_opts *o);
void fleet_free(struct fleet *f); // NULL is allowed
/// Copied.
void fleet_set_runner(struct fleet *f, const struct fleet_runner *r);

/// A JSON text, borrowed for the call, or `e`. Never from inside the call that asked.
typedef void fleet_text_cb(void *arg, struct str json, const struct err *e);

/// `{hubs: [{name, state: live|draining|lost, labels, generation, runs, seen_at}]}`, by name.
void fleet_list(struct fleet *f, fleet_text_cb *cb, void *arg);
/// Replace the labels of hub `name` by an array of texts, or NULL for none; answers with its row. ERR_NOT_FOUND, ERR_INVALID.
void fleet_label(struct fleet *f, struct str name, const struct json *labels, fleet_text_cb *cb,
                 void *arg);
/// Let hub `name` take no new runs, or take them again; answers with its row. ERR_NOT_FOUND.
void fleet_drain(struct fleet *f, struct str name, bool on, fleet_text_cb *cb, void *arg);

/// May a run begin on this hub now? `on` (empty: anywhere) is a label that its hub must have. When not, `e`
/// says why.
bool fleet_may_start(struct fleet *f, struct str on, struct err *e);
