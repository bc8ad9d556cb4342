#pragma once

#include "base/vec.h"
#include "fleet/channel_files.h"
#include "fleet/fleet.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "pg/pg.h"
#include "store/store.h"

// What the files of the fleet share.
//
//     fleet.c    a hub alone; opened and closed      team.c   hubs that share a store: list, label, drain
//     lease.c    the runs that this hub holds        runs.c   runs read and written by any hub
//     channel.c  what other hubs chose and published  rollout*.c  publishing, hub by hub
//     channel_files.c  plugins of a set as files here  plugin_set.c  sets of plugins

/// A run that this hub holds.
struct lease {
    char *id;
    int64_t epoch;
    uint64_t since; // the look that was asked for last when we got it
    int64_t stops;  // wishes that were passed on
    int64_t heard;  // texts that were
};

/// What this hub knows of what all hubs have.
struct channel {
    struct timer poll;
    bool looking, again;   // a look is asked for; something rang meanwhile
    bool reading;          // the choices
    int64_t choices;       // the change of them that was read last
    struct buf choices_as; // they were
    bool loaded;           // `state` is what the file says
    bool busy;             // a worker has `state`
    bool looked;           // the first look after the start was taken up
    uint64_t looks;        // that were answered
    struct channel_state state;
    int64_t refused; // a set that this hub could not take; 0: none
};

struct rollout;

struct fleet {
    struct fleet_opts o;
    struct fleet_runner runner;
    struct fleet_plugins plugins;
    struct channel channel;
    struct rollout *rollout; // that this hub leads; NULL: none
    char *name;
    bool shared;
    struct store_hub hub; // of a shared store
    struct lane *lane;    // reads the names of bots
    vec(struct lease) leases;
    struct timer tick;
    uint64_t looks;   // asked for
    uint64_t renewed; // when the last look that was answered was asked for, ms
    bool looking;     // between a tick and its last answer
    bool again;       // something rang meanwhile
    bool open;        // runs are taken
    bool draining;    // as of the last look
    size_t n_asked;   // answers that are still to come
    loop_fn *closed;
    void *closed_arg;
};

/// Runs on one connection: answers come in the order of the questions. Plugins on another: their contents are
/// large, and the lease of runs must not wait for them.
enum { FLEET_KEY = 0x666c, CHANNEL_KEY };

/// A question to the database, and its answer: fleet_close() waits for the last.
void fleet__ask(struct fleet *f, const struct pg_stmt *stmt, const struct pg_param *params, int n,
                pg_cb *cb, void *arg);
void fleet__answered(struct fleet *f);

/// ERR_INVALID unless `labels` (NULL: none) is a list of labels.
void fleet__check_labels(const struct json *labels, struct err *e);

// team.c
void team__list(struct fleet *f, fleet_text_cb *cb, void *arg);
void team__label(struct fleet *f, struct str name, const struct json *labels, fleet_text_cb *cb,
                 void *arg);
void team__drain(struct fleet *f, struct str name, bool on, fleet_text_cb *cb, void *arg);

// channel.c
void channel__open(struct fleet *f);
void channel__close(struct fleet *f); // asks nothing any more
void channel__fini(struct fleet *f);
/// fleet__ask() about plugins.
void channel__ask(struct fleet *f, const struct pg_stmt *stmt, const struct pg_param *params, int n,
                  pg_cb *cb, void *arg);
void channel__look(void *f); // now, not when the doorbell rings

// rollout.c
void rollout__stop(struct fleet *f, const char *why); // answer who waits, now
/// The generation before the roll-out of `number`, if this hub leads it; else `now`.
int64_t rollout__previous(const struct fleet *f, int64_t number, int64_t now);

// lease.c
void lease__add(struct fleet *f, struct str id, int64_t epoch);
void lease__drop(struct fleet *f, struct str id);
void lease__look(struct fleet *f); // now: there may be a run to take, or a wish for one
