// The pool: requests find their connection, and the pool tells when the server comes and goes.
//
//     pg_query(key) ──> connection key % size ──> in order, in a pipeline
//     NOTIFY ─────────> the listener ──────────> opts.notify
//
// Few connections are enough: each carries many requests at once, and a server with a hundred hubs should
// not need four hundred processes. A key keeps requests in order, as those of one session.
//
// Closing: requests are answered with an error, connections closed, and the pool goes when uv and the
// worker that may be connecting have let go of it.

#include "pg/pg.h"

#include <assert.h>
#include <errno.h>

#include "base/log.h"
#include "base/random.h"
#include "pg/pg_int.h"

enum { SIZE = 3, PATIENCE_MS = 20000 };

int pg_open(struct pg **out, struct loop *l, const struct pg_opts *opts, struct err *e)
{
    struct pg_url url;
    *out = NULL;
    int rc = pg_url_read(&url, opts->url, e);
    if (rc < 0) {
        return rc;
    }
    struct pg *p = xcalloc(1, sizeof *p);
    p->loop = l;
    p->api = pq_api_get(e);
    assert(p->api != NULL); // the address was read with it
    p->url = url;
    p->opts = *opts;
    p->opts.url = NULL;
    p->opts.size = opts->size != 0 ? opts->size : SIZE;
    p->opts.patience_ms = opts->patience_ms != 0 ? opts->patience_ms : PATIENCE_MS;
    p->opts.channel = opts->channel != NULL ? xstrdup(opts->channel) : NULL;
    p->stats.size = p->opts.size;
    p->n_conns = p->opts.size + (opts->channel != NULL);
    p->conns = xcalloc(p->n_conns, sizeof *p->conns);
    p->lane = lane_open(l, "pg", 2);
    for (size_t i = 0; i < p->n_conns; i++) {
        pg__conn_init(&p->conns[i], p, i == p->opts.size);
    }
    if (opts->channel != NULL) {
        pg__conn_open(&p->conns[p->opts.size]);
    }
    *out = p;
    return 0;
}

// ---- requests ---------------------------------------------------------------------------------

struct pg__request *pg__request_new(const struct pg_param *params, int n)
{
    assert(n >= 0);
    size_t count = (size_t)n, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += params[i].value.n + 1;
    }
    struct pg__request *r =
        xcalloc(1, sizeof *r + count * (sizeof *r->values + 2 * sizeof(int)) + bytes);
    r->values = (const char **)(r + 1);
    r->lengths = (int *)(r->values + count);
    r->formats = r->lengths + count;
    char *at = (char *)(r->formats + count);
    for (size_t i = 0; i < count; i++) {
        struct str v = params[i].value;
        r->values[i] = params[i].null ? NULL : at;
        r->lengths[i] = (int)v.n;
        r->formats[i] = params[i].binary;
        if (v.n != 0) {
            memcpy(at, v.p, v.n);
        }
        at += v.n + 1; // xcalloc made the NUL, which libpq wants after a text
    }
    r->n = n;
    return r;
}

void pg_query(struct pg *p, uint64_t key, const struct pg_stmt *stmt, const struct pg_param *params,
              int n, pg_cb *cb, void *arg)
{
    struct pg__request *r = pg__request_new(params, n);
    assert(!p->closing);
    r->stmt = stmt;
    r->cb = cb;
    r->arg = arg;
    r->asked_at = uv_hrtime();
    r->deadline = loop_now(p->loop) + p->opts.patience_ms;
    p->stats.waiting++;
    pg__conn_submit(&p->conns[key % p->opts.size], r);
}

int64_t pg_token(void)
{
    uint64_t n;
    random_bytes(&n, sizeof n);
    return (int64_t)(n >> 1);
}

void pg__answer(struct pg *p, struct pg__request *r, const struct pg_result *res,
                const struct err *e)
{
    assert(p->stats.waiting != 0);
    p->stats.waiting--;
    p->stats.requests++;
    if (res != NULL) {
        double ms = (double)(uv_hrtime() - r->asked_at) / 1e6;
        p->stats.latency_ms += (ms - p->stats.latency_ms) / (p->stats.latency_ms > 0 ? 16 : 1);
    }
    r->cb(r->arg, res, e);
    if (r->result != NULL) {
        p->api->clear(r->result);
    }
    free(r);
}

// ---- life -------------------------------------------------------------------------------------

static void free_pool(void *arg)
{
    struct pg *p = arg;
    loop_fn *closed = p->closed;
    void *closed_arg = p->closed_arg;
    pg_url_fini(&p->url);
    lane_close(p->lane);
    free((char *)(uintptr_t)p->opts.channel);
    free(p->conns);
    free(p);
    if (closed != NULL) {
        closed(closed_arg);
    }
}

static bool is_over(const struct pg *p)
{
    bool connecting = false;
    for (size_t i = 0; i < p->n_conns; i++) {
        connecting = connecting || p->conns[i].state == PG_CONNECTING;
    }
    return p->closing && p->n_handles == 0 && !connecting;
}

void pg__changed(struct pg *p)
{
    bool up = false, trying = false;
    if (is_over(p) && p->close_task == NULL) {
        p->close_task = loop_defer(p->loop, free_pool, p);
    }
    for (size_t i = 0; i < p->n_conns; i++) {
        up = up || p->conns[i].state == PG_UP;
        trying = trying || p->conns[i].failures != 0;
    }
    if (p->closing || up == p->was_up || (!up && !trying)) {
        return;
    }
    p->was_up = up;
    if (p->opts.state != NULL) {
        p->opts.state(p->opts.arg, up ? NULL : &p->last);
    }
}

void pg_close(struct pg *p, loop_fn *closed, void *arg)
{
    struct err why;
    assert(!p->closing);
    err_set(&why, -ECANCELED, "the store is being closed");
    p->closing = true;
    p->closed = closed;
    p->closed_arg = arg;
    for (size_t i = 0; i < p->n_conns; i++) {
        pg__conn_close(&p->conns[i], &why);
    }
    pg__changed(p);
}

struct pg_stats pg_stats(const struct pg *p)
{
    return p->stats;
}

const char *pg_shown(const struct pg *p)
{
    return p->url.shown;
}

const struct err *pg_trouble(const struct pg *p)
{
    bool up = false, failed = false;
    for (size_t i = 0; i < p->n_conns; i++) {
        up = up || p->conns[i].state == PG_UP;
        failed = failed || p->conns[i].failures != 0;
    }
    return !up && failed ? &p->last : NULL;
}
