#pragma once

#include "loop/loop.h"
#include "pg/url.h"
#include "pg/value.h"

// PostgreSQL on the loop: a small pool of connections in pipeline mode, prepared statements, one
// connection that listens, and reconnecting. All of it belongs to the loop thread, and nothing blocks it.
//
// A request that was under way when its connection broke is sent again, because the client cannot know
// whether the server has done it. So every statement must be safe to run twice (a token that the statement
// looks for is one way).

struct pg;

/// A statement with parameters $1, $2, ...; static memory. Each connection prepares it when it meets it.
struct pg_stmt {
    const char *name;
    const char *sql;
};

struct pg_opts {
    const char *url;      // copied
    unsigned size;        // connections for requests; 0 means 3
    unsigned patience_ms; // how long a request may wait for a server that is gone; 0 means 20000
    const char *channel;  // to LISTEN on; NULL: none. Copied
    /// A notification came, or may have been missed because the listening connection is new (empty
    /// payload). May be NULL.
    void (*notify)(void *arg, struct str payload);
    /// The server was found (`why` NULL), or lost. May be NULL.
    void (*state)(void *arg, const struct err *why);
    void *arg;
};

/// Connections are made when requests come, the listener's at once. ERR_INVALID for an invalid address,
/// ERR_UNSUPPORTED without libpq.
int pg_open(struct pg **out, struct loop *l, const struct pg_opts *opts, struct err *e) MUST_CHECK;
/// What waits or is under way is answered with an error, then `closed` is called and `p` is gone.
void pg_close(struct pg *p, loop_fn *closed, void *arg);

/// `r` is NULL exactly when `e` is not; both are borrowed for the call. Never from inside pg_query().
typedef void pg_cb(void *arg, const struct pg_result *r, const struct err *e);

/// Run `stmt` with `n` parameters, which are copied. Requests with the same `key` run in the order of
/// the calls, on one connection; each is a transaction of its own.
void pg_query(struct pg *p, uint64_t key, const struct pg_stmt *stmt, const struct pg_param *params,
              int n, pg_cb *cb, void *arg);

/// A random number, positive, for a statement that looks for it when it comes twice.
int64_t pg_token(void);

/// The state of the pool, for metrics.
struct pg_stats {
    unsigned size, up; // connections, and those that work
    size_t waiting;    // requests without an answer yet
    uint64_t requests, reconnects;
    double latency_ms; // of requests, a moving mean
    int server;        // version as libpq has it: 150004; 0: never connected
};
/// As of now; `waiting` counts requests of all connections, those that are under way included.
struct pg_stats pg_stats(const struct pg *p);
/// Host and database, for people.
const char *pg_shown(const struct pg *p);
/// Why the server cannot be reached now; NULL when it can, or was never asked.
const struct err *pg_trouble(const struct pg *p);

// ---- blocking ---------------------------------------------------------------------------------

struct pg_link;

/// Connect, for workers and commands. Blocks for some seconds at most.
int pg_link_open(struct pg_link **out, const char *url, struct err *e) MUST_CHECK;
void pg_link_close(struct pg_link *l); // NULL is allowed
/// Run one statement; `*out` (may be NULL) is freed with pg_result_free(). Blocks.
int pg_link_run(struct pg_link *l, const char *sql, const struct pg_param *params, int n,
                struct pg_result **out, struct err *e) MUST_CHECK;
/// Run a script of several statements, without parameters. Blocks.
int pg_link_script(struct pg_link *l, const char *sql, struct err *e) MUST_CHECK;
void pg_result_free(struct pg_result *r); // NULL is allowed
const char *pg_link_shown(const struct pg_link *l);
