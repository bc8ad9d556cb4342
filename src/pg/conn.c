// One connection on the loop.
//
//     DOWN ── something waits ──> CONNECTING (a worker: names, TLS, passwords) ──> UP
//      ^                              │ failed: later, each time after a longer pause │
//      └──────────────────────────────┴───────────────── lost <───────────────────────┘
//
// UP is libpq's pipeline mode: [prepare] statement sync, and the next at once, without waiting for the
// answer. The sync after each statement makes it a transaction of its own, so the failure of one does not
// abort its neighbours.
//
//     waiting ──> sent ──────────────> answered
//        ^          └─ lost: in order, in front of the others
//        └──────────────┘
//
// What was sent and not answered when a connection breaks is sent again on the next one, until its time
// is over. So a restart of the server costs a pause and nothing else, and statements must bear being
// run twice.
//
// A connection on which the server does not answer for STALL_MS is given up.
//
// Invariants:
//   - `pq` and `poll` are there exactly while UP; `sent` is empty otherwise.
//   - a connection job outlives no pool: closing waits for it.

#include <assert.h>
#include <errno.h>

#include "base/log.h"
#include "pg/pg_int.h"

enum { SENT_MAX = 256, STALL_MS = 15000, PAUSE_MS = 50, PAUSE_MAX_MS = 2000 };

// ---- lost -------------------------------------------------------------------------------------

static void on_poll_closed(uv_handle_t *h)
{
    struct pg__conn *c = h->data;
    free(h);
    assert(c->pool->n_handles != 0);
    c->pool->n_handles--;
    pg__changed(c->pool);
}

static void drop_link(struct pg__conn *c)
{
    struct pg *p = c->pool;
    timer_stop(&c->stall);
    if (c->poll != NULL) {
        uv_poll_stop(c->poll);
        uv_close((uv_handle_t *)c->poll, on_poll_closed);
        c->poll = NULL;
    }
    if (c->pq != NULL) {
        p->api->finish(c->pq);
        c->pq = NULL;
        p->stats.up -= !c->listener;
    }
    c->prepared.n = 0;
    c->events = 0;
    c->state = PG_DOWN;
}

/// All that was sent waits again, in front.
static void unsend(struct pg__conn *c)
{
    for (struct pg__request *r = c->sent.head; r != NULL; r = r->next) {
        if (r->result != NULL) {
            c->pool->api->clear(r->result);
            r->result = NULL;
        }
        r->prepares = r->unprepared = false;
    }
    fifo_append(&c->sent, &c->waiting);
    fifo_append(&c->waiting, &c->sent);
}

static void lost(struct pg__conn *c, const struct err *why)
{
    struct pg *p = c->pool;
    drop_link(c);
    unsend(c);
    p->last = *why;
    uint64_t pause = (uint64_t)PAUSE_MS << MIN(c->failures, 10u);
    c->failures++;
    timer_start(&c->again, MIN(pause, PAUSE_MAX_MS));
    pg__changed(p);
}

static void lost_now(struct pg__conn *c)
{
    struct err e;
    struct str why = str_trim(str_of(c->pool->api->errorMessage(c->pq)));
    why = str_cut(&why, '\n'); // what follows are guesses
    err_set(&e, -ECONNRESET, "lost the connection to PostgreSQL: " STR_FMT, STR_ARG(why));
    log_warn(LOG_STORE, "postgresql=lost reason=%s", LOGQ(str_of(e.msg)).z);
    lost(c, &e);
}

static void on_stall(void *arg)
{
    struct pg__conn *c = arg;
    struct err e;
    assert(c->state == PG_UP && c->sent.head != NULL);
    err_set(&e, ERR_TIMEOUT, "PostgreSQL has not answered for %d s", STALL_MS / 1000);
    log_warn(LOG_STORE, "postgresql=stalled");
    lost(c, &e);
}

/// The pause is over: requests that waited too long fail, the others are tried again.
static void on_again(void *arg)
{
    struct pg__conn *c = arg;
    uint64_t now = loop_now(c->pool->loop);
    fifo(struct pg__request) over = {0}, keep = {0};
    struct pg__request *r;
    struct err why = c->pool->last;
    while ((r = fifo_take(&c->waiting)) != NULL) {
        fifo_add(now >= r->deadline ? &over : &keep, r);
    }
    fifo_append(&c->waiting, &keep);
    while ((r = fifo_take(&over)) != NULL) {
        pg__answer(c->pool, r, NULL, &why);
    }
    if (c->state == PG_DOWN && !c->pool->closing && (c->waiting.head != NULL || c->listener)) {
        pg__conn_open(c);
    }
}

// ---- up ---------------------------------------------------------------------------------------

static bool prepared(struct pg__conn *c, const struct pg_stmt *stmt)
{
    vec_foreach (s, &c->prepared) {
        if (*s == stmt) {
            return true;
        }
    }
    return false;
}

static bool send_request(struct pg__conn *c, struct pg__request *r)
{
    const struct pq_api *pq = c->pool->api;
    bool ok = true;
    if (!prepared(c, r->stmt)) {
        ok = pq->sendPrepare(c->pq, r->stmt->name, r->stmt->sql, 0, NULL) == 1;
        vec_push(&c->prepared, r->stmt);
        r->prepares = true;
    }
    return ok &&
           pq->sendQueryPrepared(c->pq, r->stmt->name, r->n, r->values, r->lengths, r->formats,
                                 0) == 1 &&
           pq->pipelineSync(c->pq) == 1;
}

/// One result of the request at the head. Of several the first failure counts, else the last.
static void take_result(struct pg__conn *c, PGresult *res)
{
    const struct pq_api *pq = c->pool->api;
    struct pg__request *r = c->sent.head;
    r->unprepared = r->unprepared || (r->prepares && pg__fault(pq, res, NULL) < 0);
    r->prepares = false;
    if (pq->resultStatus(res) == PGRES_PIPELINE_ABORTED ||
        (r->result != NULL && pg__fault(pq, r->result, NULL) < 0)) {
        pq->clear(res);
        return;
    }
    if (r->result != NULL) {
        pq->clear(r->result);
    }
    r->result = res;
}

/// The request at the head is over. False: the connection went with it.
static bool end_request(struct pg__conn *c)
{
    struct pg *p = c->pool;
    const struct pq_api *pq = p->api;
    struct err e = {0};
    int rc = pg__fault(pq, c->sent.head->result, &e);
    if (rc < 0 && pg__is_passing(pq, c->sent.head->result)) {
        lost(c, &e); // and everything again, in order
        return false;
    }
    struct pg__request *r = fifo_take(&c->sent);
    struct pg_result res = {.pq = pq, .res = r->result};
    if (r->unprepared) {
        vec_drop(&c->prepared, r->stmt);
    }
    c->failures = 0;
    timer_stop(&c->stall);
    if (c->sent.head != NULL) {
        timer_start(&c->stall, STALL_MS);
    }
    pg__answer(p, r, rc == 0 ? &res : NULL, rc < 0 ? &e : NULL);
    return c->state == PG_UP;
}

static void read_results(struct pg__conn *c)
{
    const struct pq_api *pq = c->pool->api;
    bool ended =
        false; // the results of one statement: two ends in a row, and there is nothing more
    while (c->state == PG_UP && c->sent.head != NULL && !pq->isBusy(c->pq)) {
        PGresult *res = pq->getResult(c->pq);
        if (res == NULL && ended) {
            break;
        }
        ended = res == NULL;
        if (res != NULL && pq->resultStatus(res) == PGRES_PIPELINE_SYNC) {
            pq->clear(res);
            if (c->sent.head->result != NULL && !end_request(c)) {
                return;
            }
        } else if (res != NULL) {
            take_result(c, res);
        }
        if (pq->status(c->pq) != CONNECTION_OK) {
            return;
        }
    }
}

static void read_notices(struct pg__conn *c)
{
    struct pg *p = c->pool;
    PGresult *res;
    PGnotify *n;
    while (!p->api->isBusy(c->pq) && (res = p->api->getResult(c->pq)) != NULL) {
        p->api->clear(
            res); // of LISTEN: from here on nothing is missed, before it something may have been
        if (p->opts.notify != NULL && !p->closing) {
            p->opts.notify(p->opts.arg, STR_NULL);
        }
    }
    while (c->state == PG_UP && (n = p->api->notifies(c->pq)) != NULL) {
        if (p->opts.notify != NULL && !p->closing) {
            p->opts.notify(p->opts.arg, str_of(n->extra));
        }
        p->api->freemem(n);
    }
}

static void on_poll(uv_poll_t *h, int status, int events);

/// Send what libpq holds, and poll for what is needed next. False: the connection is broken.
static bool flush(struct pg__conn *c)
{
    int more = c->pool->api->flush(c->pq);
    int want = UV_READABLE | (more == 1 ? UV_WRITABLE : 0);
    if (more >= 0 && want != c->events) {
        c->events = want;
        more = uv_poll_start(c->poll, want, on_poll) == 0 ? more : -1;
    }
    return more >= 0;
}

static void pump(struct pg__conn *c)
{
    size_t n = 0;
    for (const struct pg__request *r = c->sent.head; r != NULL; r = r->next) {
        n++;
    }
    while (c->state == PG_UP && c->waiting.head != NULL && n++ < SENT_MAX) {
        struct pg__request *r = fifo_take(&c->waiting);
        fifo_add(&c->sent, r);
        if (!timer_running(&c->stall)) {
            timer_start(&c->stall, STALL_MS);
        }
        if (!send_request(c, r)) {
            lost_now(c);
            return;
        }
    }
    if (c->state == PG_UP && !flush(c)) {
        lost_now(c);
    }
}

static void on_poll(uv_poll_t *h, int status, int events)
{
    struct pg__conn *c = h->data;
    const struct pq_api *pq = c->pool->api;
    (void)events;
    bool ok = status == 0 && pq->consumeInput(c->pq) == 1;
    if (c->listener) {
        read_notices(c);
    } else {
        read_results(c);
    }
    if (c->state != PG_UP) {
        return;
    }
    if (!ok || pq->status(c->pq) != CONNECTION_OK) {
        lost_now(c);
    } else {
        pump(c);
    }
}

// ---- connecting -------------------------------------------------------------------------------

struct connecting {
    struct pg__conn *c;
    PGconn *pq;
    int status;
    struct err e;
};

static void connect_work(void *arg)
{
    struct connecting *job = arg;
    const struct pg *p = job->c->pool;
    job->status = pg__connect(&job->pq, p->api, &p->url, &job->e);
}

static bool start(struct pg__conn *c)
{
    struct pg *p = c->pool;
    const struct pq_api *pq = p->api;
    bool ok = pq->setnonblocking(c->pq, 1) == 0;
    if (c->listener) {
        char *sql = xasprintf("LISTEN %s", p->opts.channel);
        ok = ok && pq->sendQuery(c->pq, sql) == 1;
        free(sql);
    } else {
        ok = ok && pq->enterPipelineMode(c->pq) == 1;
    }
    c->poll = xcalloc(1, sizeof *c->poll);
    if (uv_poll_init(&p->loop->uv, c->poll, pq->socket(c->pq)) != 0) {
        free(c->poll);
        c->poll = NULL;
        return false;
    }
    c->poll->data = c;
    p->n_handles++;
    return ok && flush(c);
}

static void on_connected(void *arg)
{
    struct connecting job = *(struct connecting *)arg;
    struct pg__conn *c = job.c;
    struct pg *p = c->pool;
    free(arg);
    assert(c->state == PG_CONNECTING);
    c->state = PG_DOWN;
    if (p->closing) {
        if (job.pq != NULL) {
            p->api->finish(job.pq);
        }
        pg__changed(p);
        return;
    }
    if (job.status < 0) {
        lost(c, &job.e);
        return;
    }
    c->pq = job.pq;
    c->state = PG_UP;
    p->stats.up += !c->listener;
    p->stats.reconnects += c->failures != 0;
    p->stats.server = p->api->serverVersion(c->pq);
    if (!start(c)) {
        lost_now(c);
        return;
    }
    c->failures = 0;
    pg__changed(p);
    pump(c);
}

void pg__conn_open(struct pg__conn *c)
{
    if (c->state != PG_DOWN || timer_running(&c->again)) {
        return;
    }
    struct connecting *job = xcalloc(1, sizeof *job);
    job->c = c;
    c->state = PG_CONNECTING;
    work_submit(c->pool->lane, 0, connect_work, on_connected, job);
}

// ---- life -------------------------------------------------------------------------------------

void pg__conn_init(struct pg__conn *c, struct pg *p, bool listener)
{
    c->pool = p;
    c->listener = listener;
    timer_init(&c->again, p->loop, on_again, c);
    timer_init(&c->stall, p->loop, on_stall, c);
}

static void on_kick(void *arg)
{
    struct pg__conn *c = arg;
    c->kick = NULL;
    if (c->state == PG_UP) {
        pump(c);
    } else {
        pg__conn_open(c);
    }
}

void pg__conn_submit(struct pg__conn *c, struct pg__request *r)
{
    fifo_add(&c->waiting, r);
    if (c->kick == NULL) { // all that is asked in one turn goes out together
        c->kick = loop_defer(c->pool->loop, on_kick, c);
    }
}

void pg__conn_close(struct pg__conn *c, const struct err *why)
{
    struct pg__request *r;
    timer_stop(&c->again);
    if (c->kick != NULL) {
        loop_cancel(c->pool->loop, c->kick);
        c->kick = NULL;
    }
    if (c->state == PG_UP) {
        drop_link(c);
    }
    unsend(c);
    while ((r = fifo_take(&c->waiting)) != NULL) {
        pg__answer(c->pool, r, NULL, why);
    }
    vec_fini(&c->prepared);
}
