// Runs of hubs that share a store, read and written by any of them. What a statement does is said in
// src/store/migrations/002_runs.up.sql.

#include "fleet/fleet_int.h"

static const struct pg_stmt stmt_add = {
    "run_add", "SELECT afloat.run_add($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"};
static const struct pg_stmt stmt_save = {"run_save",
                                         "SELECT afloat.run_save($1, $2, $3, $4, $5, $6, $7, $8)"};
static const struct pg_stmt stmt_edit = {"run_edit", "SELECT afloat.run_edit($1, $2)"};
static const struct pg_stmt stmt_remove = {
    "run_remove", "WITH gone AS (DELETE FROM afloat.runs WHERE owner = current_user AND id = $1"
                  " AND state = 'ended' RETURNING 1) SELECT true"};
static const struct pg_stmt stmt_stop = {"run_stop", "SELECT true FROM afloat.run_stop($1, $2)"};
static const struct pg_stmt stmt_say = {"run_say", "SELECT afloat.run_say($1, $2, $3)"};
static const struct pg_stmt stmt_find = {
    "run_find",
    "SELECT r.body, r.state, coalesce(r.hub, ''), r.epoch,"
    " CASE WHEN r.state = 'running' THEN (extract(epoch FROM h.lease_until) * 1000)::bigint END"
    " FROM afloat.runs r LEFT JOIN afloat.hubs h ON h.owner = r.owner AND h.name = r.hub"
    " WHERE r.owner = current_user AND ($1 = '' OR starts_with(r.id, $1))"
    " AND ($2 = '' OR position('\"session_id\":\"' || $2 IN r.body) > 0)"
    " AND ($3 = '' OR r.bot = $3) AND ($4 = '' OR r.project = $4)"
    " AND ($5 = '' OR r.repository = $5) AND ($6 = '' OR r.state = $6)"
    " AND ($7::bigint = 0 OR (r.started_at, r.id) < ($7::bigint, $8))"
    " ORDER BY r.started_at DESC, r.id DESC LIMIT $9"};

// ---- one that begins ------------------------------------------------------------------------------

struct adding {
    struct fleet *f;
    char *id;
    fleet_epoch_cb *cb;
    void *arg;
};

static void on_added(void *arg, const struct pg_result *r, const struct err *e)
{
    struct adding q = *(struct adding *)arg;
    struct err own;
    int64_t epoch = r != NULL ? pg_get_int(r, 0, 0) : 0;
    free(arg);
    if (e == NULL && pg_is_null(r, 0, 0)) {
        err_set(&own, ERR_CONFLICT, "run '%s' has not ended", q.id);
        e = &own;
    }
    if (epoch != 0) {
        lease__add(q.f, str_of(q.id), epoch);
    }
    q.cb(q.arg, epoch, e);
    free(q.id);
    fleet__answered(q.f);
}

void fleet_run_add(struct fleet *f, const struct fleet_new *n, fleet_epoch_cb *cb, void *arg)
{
    struct adding *q = xmalloc(sizeof *q);
    struct pg_number room[2];
    struct buf wants = {.max = SIZE_MAX};
    *q = (struct adding){.f = f, .id = str_dup(n->id), .cb = cb, .arg = arg};
    pg_array_begin(&wants, n->on.n != 0 ? 1 : 0);
    if (n->on.n != 0) {
        pg_array_add(&wants, n->on);
    }
    const struct pg_param params[] = {pg_text(n->id),
                                      pg_text(str_of(f->hub.name)),
                                      pg_int(&room[0], f->hub.epoch),
                                      pg_bool(n->here),
                                      pg_text(n->bot),
                                      pg_text(n->project),
                                      pg_text(n->repository),
                                      pg_text(n->working_dir),
                                      pg_array(&wants),
                                      pg_text(n->env),
                                      pg_int(&room[1], n->started_at),
                                      pg_text(n->body)};
    fleet__ask(f, &stmt_add, params, 12, on_added, q);
    buf_fini(&wants);
}

// ---- writes -----------------------------------------------------------------------------------------

struct writing {
    struct fleet *f;
    char *id;
    bool ends;         // then the lease goes
    const char * not ; // why it was not done
    fleet_done *done;
    void *arg;
};

static void on_written(void *arg, const struct pg_result *r, const struct err *e)
{
    struct writing q = *(struct writing *)arg;
    struct err own;
    free(arg);
    if (e == NULL && !pg_get_bool(r, 0, 0)) {
        err_set(&own, ERR_CONFLICT, "run '%s' %s", q.id, q.not );
        e = &own;
    } else if (e == NULL && q.ends) {
        lease__drop(q.f, str_of(q.id));
        lease__look(q.f); // there is room for the next
    }
    if (q.done != NULL) {
        q.done(q.arg, e != NULL ? e->code : 0, e);
    }
    free(q.id);
    fleet__answered(q.f);
}

static struct writing *writing_new(struct fleet *f, struct str id, const char * not,
                                   fleet_done *done, void *arg)
{
    struct writing *q = xmalloc(sizeof *q);
    *q = (struct writing){.f = f, .id = str_dup(id), .not = not, .done = done, .arg = arg};
    return q;
}

void fleet_run_save(struct fleet *f, const struct fleet_save *s, fleet_done *done, void *arg)
{
    struct writing *q = writing_new(f, s->id, "is not held by this hub any more", done, arg);
    struct pg_number n[2];
    const struct pg_param params[] = {
        pg_text(s->id),    pg_text(str_of(f->hub.name)), pg_int(&n[0], s->epoch), pg_bool(s->ended),
        pg_bool(s->moves), pg_int(&n[1], s->heard),      pg_text(s->remote),      pg_text(s->body)};
    q->ends = s->ended;
    fleet__ask(f, &stmt_save, params, 8, on_written, q);
}

void fleet_run_edit(struct fleet *f, struct str id, struct str body, fleet_done *done, void *arg)
{
    const struct pg_param params[] = {pg_text(id), pg_text(body)};
    fleet__ask(f, body.n != 0 ? &stmt_edit : &stmt_remove, params, body.n != 0 ? 2 : 1, on_written,
               writing_new(f, id, "has not ended", done, arg));
}

void fleet_run_stop(struct fleet *f, struct str id, bool force, fleet_done *done, void *arg)
{
    struct pg_number n;
    const struct pg_param params[] = {pg_text(id), pg_int(&n, force ? 2 : 1)};
    fleet__ask(f, &stmt_stop, params, 2, on_written, writing_new(f, id, "", done, arg));
}

void fleet_run_say(struct fleet *f, struct str id, struct str text, fleet_done *done, void *arg)
{
    struct pg_number n;
    const struct pg_param params[] = {pg_text(id), pg_text(text), pg_int(&n, pg_token())};
    fleet__ask(f, &stmt_say, params, 3, on_written, writing_new(f, id, "has ended", done, arg));
}

// ---- reads ------------------------------------------------------------------------------------------

struct reading {
    struct fleet *f;
    fleet_runs_cb *cb;
    void *arg;
};

static void on_found(void *arg, const struct pg_result *r, const struct err *e)
{
    struct reading q = *(struct reading *)arg;
    vec(struct fleet_run) rows = {0};
    free(arg);
    for (size_t i = 0; r != NULL && i < pg_rows(r); i++) {
        struct fleet_run row = {.body = pg_get(r, i, 0),
                                .state = pg_get(r, i, 1),
                                .hub = pg_get(r, i, 2),
                                .epoch = pg_get_int(r, i, 3),
                                .lease_until = pg_get_int(r, i, 4)};
        vec_push(&rows, row);
    }
    q.cb(q.arg, rows.p, rows.n, e);
    vec_fini(&rows);
    fleet__answered(q.f);
}

void fleet_runs(struct fleet *f, const struct fleet_query *q, fleet_runs_cb *cb, void *arg)
{
    struct reading *k = xmalloc(sizeof *k);
    struct pg_number n[2];
    *k = (struct reading){.f = f, .cb = cb, .arg = arg};
    const struct pg_param params[] = {
        pg_text(q->id),           pg_text(q->session),    pg_text(q->bot),
        pg_text(q->project),      pg_text(q->repository), pg_text(q->state),
        pg_int(&n[0], q->before), pg_text(q->before_id),  pg_int(&n[1], (int64_t)q->limit)};
    fleet__ask(f, &stmt_find, params, 9, on_found, k);
}
