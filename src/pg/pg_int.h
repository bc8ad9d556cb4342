#pragma once

#include "base/fifo.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "pg/pg.h"
#include "pg/pq_api.h"

// What the files of pg/ share.
//
//     pg.c     the pool: requests find a connection, doors for notifications
//     conn.c   one connection on the loop: its life, the pipeline
//     link.c   one connection that blocks, for workers and commands
//     value.c  parameters and results

struct pg_result {
    const struct pq_api *pq;
    PGresult *res;
};

/// Connect; blocks for some seconds at most. The caller ends it with PQfinish.
int pg__connect(PGconn **out, const struct pq_api *pq, const struct pg_url *url,
                struct err *e) MUST_CHECK;
/// Why a result is a failure, as a code and `e`; 0 when it is none.
int pg__fault(const struct pq_api *pq, const PGresult *res, struct err *e);
/// The failed request did nothing and may just be sent again: a deadlock, a server that goes down.
bool pg__is_passing(const struct pq_api *pq, const PGresult *res);

// ---- requests and connections ---------------------------------------------------------------

struct pg__request {
    struct pg__request *next;
    const struct pg_stmt *stmt;
    uint64_t deadline; // not sent again after this
    uint64_t asked_at;
    PGresult *result; // what came, or the first failure
    bool prepares;    // the next result is that of preparing its statement
    bool unprepared;  // and that failed
    pg_cb *cb;
    void *arg;
    int n;
    const char **values; // in the request's own memory
    int *lengths, *formats;
};

/// A request with copies of the parameters, in one block of memory.
struct pg__request *pg__request_new(const struct pg_param *params, int n);
/// Answer and free.
void pg__answer(struct pg *p, struct pg__request *r, const struct pg_result *res,
                const struct err *e);

enum pg__state { PG_DOWN, PG_CONNECTING, PG_UP };

struct pg__conn {
    struct pg *pool;
    enum pg__state state;
    bool listener; // it only listens
    PGconn *pq;
    uv_poll_t *poll; // its own memory: freed when uv has closed it
    int events;      // that it polls for
    fifo(struct pg__request) sent, waiting;
    struct timer again; // the next try to connect
    struct timer stall; // runs while something is sent: the server went silent
    unsigned failures;  // in a row
    vec(const struct pg_stmt *) prepared;
    struct loop_task *kick;
};

struct pg {
    struct loop *loop;
    const struct pq_api *api;
    struct pg_url url;
    struct pg_opts opts;
    struct lane *lane;      // connects
    struct pg__conn *conns; // opts.size of them, then the listener
    size_t n_conns;
    struct pg_stats stats;
    struct err last; // why the last connection was lost or could not be made
    bool closing, was_up;
    size_t n_handles; // of uv, that are not closed yet
    struct loop_task *close_task;
    loop_fn *closed;
    void *closed_arg;
};

void pg__conn_init(struct pg__conn *c, struct pg *p, bool listener);
/// Connect when it is not; what waits goes out then.
void pg__conn_open(struct pg__conn *c);
/// End it. What was sent or waits is answered with `why`.
void pg__conn_close(struct pg__conn *c, const struct err *why);
void pg__conn_submit(struct pg__conn *c, struct pg__request *r);
/// Something of the pool's life changed.
void pg__changed(struct pg *p);
