#pragma once

#include "fleet/fleet_int.h"

// A roll-out of this hub's plugins, led by this hub: what its files share.
//
//     rollout.c        begin, wait, end: one question to the database at a time, one answer to who asked
//     rollout_send.c   which plugins, their contents, the publication
//     rollout_hubs.c   the hubs, one after the other; and back

enum stop_state {
    STOP_WAITS,
    STOP_TURN,
    STOP_COMMITTED,
    STOP_BACK,
    STOP_SKIPPED,
    STOP_LOST,
    STOP_PLANNED
};
/// A hub on the way.
struct stop {
    char *hub;
    enum stop_state state;
    char *reason; // NULL: there is nothing to say
    char *answer; // the hub's own, a JSON object; NULL: none yet
    int64_t generation;
};

enum phase { PHASE_READY, PHASE_PUBLISH, PHASE_LIST, PHASE_TURN, PHASE_WATCH, PHASE_BACK };

struct rollout {
    struct fleet *f;
    enum phase phase;
    int64_t previous, number;
    uint64_t looks; // of the channel that began before us
    char *home;
    vec(char *) names; // of the plugins that are sent; none: all are
    bool dry_run;
    channel_paths paths;
    struct plugin_set set;
    struct plugin_set base; // the last one, when we began
    channel_blobs blobs;
    vec(struct stop) stops;
    size_t at;       // the stop whose turn it is
    uint64_t since;  // when its turn, its watch or the way back began
    uint64_t turned; // when the last turn was given
    char *stopped;   // why it stopped; NULL: it did not
    char token[17];  // of the publication
    struct timer tick;
    bool asked; // an answer of the database is still to come
    bool over;  // the caller was answered
    int rc;     // of the worker
    struct err e;
    fleet_rolled_cb *cb;
    void *arg;
};

// ---- rollout.c --------------------------------------------------------------------------------------

extern const char *const rollout__stop_names[];
extern const struct pg_stmt rollout__end; // (number, did all take it?)

/// What a hub said, as an object in `a`; NULL: nothing yet.
const struct json *rollout__said_by(const struct stop *s, struct arena *a);
/// Ask the database: one question at a time. The roll-out itself is one of those that fleet_close() waits for.
void rollout__ask(struct rollout *r, const struct pg_stmt *stmt, const struct pg_param *params,
                  int n, pg_cb *cb);
/// What was asked is answered. False: the roll-out is over, and `r` is freed.
bool rollout__answered(struct rollout *r) MUST_CHECK;
/// The same; a failure ends the roll-out.
bool rollout__succeeded(struct rollout *r, const struct err *e) MUST_CHECK;
/// Answer, once; memory goes with the last answer of the database or worker. One that failed is given up.
void rollout__finish(struct rollout *r, const struct err *e);

// ---- rollout_send.c ---------------------------------------------------------------------------------

/// Publish the plugins that are meant, or on a dry run only find them; then rollout__list_hubs().
void rollout__send(struct rollout *r);

// ---- rollout_hubs.c ---------------------------------------------------------------------------------

/// Ask for the hubs of this user and give each its turn.
void rollout__list_hubs(struct rollout *r);
/// Look at what is waited for: a hub's answer, its errors, or that all went back.
void rollout__look(struct rollout *r);
