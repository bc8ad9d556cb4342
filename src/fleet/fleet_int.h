#pragma once

#include "base/vec.h"
#include "fleet/fleet.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "pg/pg.h"
#include "store/store.h"

// What the files of the fleet share.
//
//     fleet.c    a hub alone; opened and closed      team.c   hubs that share a store: list, label, drain
//     lease.c    the runs that this hub holds        runs.c   runs read and written by any hub

/// A run that this hub holds.
struct lease {
    char *id;
    int64_t epoch;
    uint64_t since; // the look that was asked for last when we got it
    int64_t stops;  // wishes that were passed on
    int64_t heard;  // texts that were
};

struct fleet {
    struct fleet_opts o;
    struct fleet_runner runner;
    char *name;
    bool shared;
    struct store_hub hub; // of a shared store
    struct lane *lane;    // reads the names of bots
    vec(struct lease) leases;
    struct timer tick;
    uint64_t looks;   // asked for
    uint64_t renewed; // when the last look that was answered was asked for, ms
    bool looking;     // between a tick and its last answer
    bool open;        // runs are taken
    bool draining;    // as of the last look
    size_t n_asked;   // answers that are still to come
    loop_fn *closed;
    void *closed_arg;
};

/// All of it on one connection: answers come in the order of the questions.
enum { FLEET_KEY = 0x666c };

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

// lease.c
void lease__add(struct fleet *f, struct str id, int64_t epoch);
void lease__drop(struct fleet *f, struct str id);
