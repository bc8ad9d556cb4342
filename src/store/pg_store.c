// The store in PostgreSQL, which several hubs share.
//
//     open:   worker: connect, look at the schema ──> pool ──> this hub's row ──> ready
//     beat:   every third of a lease: this hub lives
//     care:   every hour: partitions for the next month, what is too old goes
//     close:  requests are answered ──> the row says that the hub has stopped ──> pool
//
// Shared: sessions, their journals, the stream, feature choices, texts of bots (shelf.c). The rest of a home stays on its machine:
// documents that say what this user trusts, allows or holds back go to files as ever (doc.c).
//
// It never falls back to files: a store that cannot be used is an error, at the start and later.

#include "store/pg_store.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "store/migrate.h"
#include "store/walk.h"

enum { CARE_MS = 3600 * 1000, FIRST_CARE_MS = 5000 };

#define KEY 0

static const struct pg_stmt stmt_start = {
    "hub_start", "SELECT afloat.hub_start($1, $2, $3, $4, $5), afloat.partitions_make()"};
static const struct pg_stmt stmt_beat = {
    "hub_beat", "SELECT afloat.hub_beat($1, $2, $3), (SELECT count(*) FROM afloat.runs"
                "    WHERE owner = current_user AND state = 'queued')"};
static const struct pg_stmt stmt_stop = {"hub_stop", "SELECT afloat.hub_stop($1, $2)"};
static const struct pg_stmt stmt_care = {
    "care", "SELECT afloat.partitions_make(),"
            " CASE WHEN $1::int > 0 THEN afloat.prune($1::int) ELSE 0 END"};

#define LIST                                                                                       \
    "SELECT " PG_ROW " FROM afloat.sessions WHERE owner = current_user"                            \
    " AND (started_at, id) < ($1::bigint, $2::text)"                                               \
    " AND ($3::boolean IS NOT TRUE OR kind NOT LIKE 'task:%')"                                     \
    " AND ($4::text IS NULL OR hub IS NULL OR hub = $4 OR NOT afloat.hub_lives(hub))"              \
    " AND ($5::text IS NULL OR state = $5)"
#define ORDER " ORDER BY started_at DESC, id DESC LIMIT $6"

// one for each way to find sessions, so that each has its index
static const struct pg_stmt stmt_list_all = {"list_all", LIST ORDER};
static const struct pg_stmt stmt_list_id = {
    "list_id", "SELECT " PG_ROW " FROM afloat.sessions WHERE owner = current_user AND id = $1"
               " AND starts_with(dir, $2)"};
static const struct pg_stmt stmt_list_kind = {"list_kind", LIST " AND kind = $7::text" ORDER};
static const struct pg_stmt stmt_list_dir = {
    "list_dir", LIST " AND dir >= $7::text AND dir < $7::text || chr(1114111)" ORDER};

static const struct pg_stmt stmt_doc_get = {
    "doc_get", "SELECT body FROM afloat.documents WHERE owner = current_user AND name = $1"};
static const struct pg_stmt stmt_doc_put = {"doc_put", "SELECT afloat.document_put($1, $2)"};
static const struct pg_stmt stmt_doc_set = {"doc_set", "SELECT afloat.document_set($1, $2, $3)"};

static const struct pg_stmt stmt_health = {
    "health",
    "SELECT split_part(current_setting('server_version'), ' ', 1), (SELECT max(version) FROM "
    "afloat.migrations),"
    " afloat.now_ms(), pg_is_in_recovery(),"
    " (SELECT coalesce(max(extract(epoch FROM replay_lag)), 0) FROM pg_stat_replication),"
    " (SELECT count(*) FROM pg_stat_replication),"
    " has_table_privilege('afloat.events', 'INSERT'),"
    " (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user), current_user"};

struct pg_store *pg_store_of(struct store *s)
{
    return container_of(s, struct pg_store, store);
}

struct store_row pg_store__row(const struct pg_result *r, size_t row, int at)
{
    return (struct store_row){.id = pg_get(r, row, at),
                              .dir = pg_get(r, row, at + 1),
                              .kind = pg_get(r, row, at + 2),
                              .state = pg_get(r, row, at + 3),
                              .title = pg_get(r, row, at + 4),
                              .meta = pg_get(r, row, at + 5),
                              .started_at = pg_get_int(r, row, at + 6),
                              .updated_at = pg_get_int(r, row, at + 7),
                              .last_seq = (uint64_t)pg_get_int(r, row, at + 8)};
}

// ---- closing ----------------------------------------------------------------------------------

static void finish_close(void *arg)
{
    struct pg_store *p = arg;
    pg_sessions_fini(p);
    shelf__close(p->shelf);
    docs_fini(&p->docs);
    lane_close(p->files);
    if (p->closed != NULL) {
        p->closed(p->closed_arg, 0, NULL);
    }
    vec_fini_each(&p->labels, free);
    char *const texts[] = {p->home, p->url, p->hub, p->identity, p->version, p->channel};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        free(texts[i]);
    }
    free(p);
}

static void on_idle(void *arg);

static void on_pool_closed(void *arg)
{
    struct pg_store *p = arg;
    p->pg = NULL;
    on_idle(p);
}

/// Whatever is still under way is answered with an error.
static void close_pool(struct pg_store *p)
{
    p->gone = true;
    timer_stop(&p->beat);
    timer_stop(&p->care);
    timer_stop(&p->poll);
    if (p->pg != NULL) {
        pg_close(p->pg, on_pool_closed, p);
    } else {
        on_idle(p);
    }
}

static void on_stopped(void *arg, const struct pg_result *r, const struct err *e)
{
    struct pg_store *p = arg;
    (void)r; // a row that could not be written is a lease that runs out
    (void)e;
    pg_store__release(p);
}

static void say_stopped(struct pg_store *p)
{
    struct pg_number n;
    const struct pg_param params[] = {pg_text(str_of(p->hub)), pg_int(&n, p->epoch)};
    p->stopped = true;
    pg_store__hold(p);
    pg_query(p->pg, KEY, &stmt_stop, params, 2, on_stopped, p);
}

static void close_step(void *arg)
{
    struct pg_store *p = arg;
    bool busy = p->open != 0 || docs_busy(&p->docs);
    bool lost = p->pg != NULL && pg_trouble(p->pg) != NULL; // do not wait for that server
    p->close_task = NULL;
    if (p->gone) {
        if (p->pg == NULL && !busy) {
            finish_close(p);
        }
    } else if (lost || (!busy && (p->epoch == 0 || p->stopped))) {
        close_pool(p);
    } else if (!busy) {
        say_stopped(p);
    }
}

static void on_idle(void *arg)
{
    struct pg_store *p = arg;
    if (p->closing && p->close_task == NULL) {
        p->close_task = loop_defer(p->loop, close_step, p);
    }
}

void pg_store__hold(struct pg_store *p)
{
    p->open++;
}

void pg_store__release(struct pg_store *p)
{
    assert(p->open != 0);
    if (--p->open == 0) {
        on_idle(p);
    }
}

static void store_pg_close(struct store *s, store_done *closed, void *arg)
{
    struct pg_store *p = pg_store_of(s);
    assert(!p->closing);
    p->closing = true;
    p->closed = closed;
    p->closed_arg = arg;
    on_idle(p);
}

// ---- this hub's row ---------------------------------------------------------------------------

static void later(struct pg_store *p, struct timer *t, uint64_t ms)
{
    if (!p->closing) {
        timer_start(t, ms);
    }
}

static void on_beaten(void *arg, const struct pg_result *r, const struct err *e)
{
    struct pg_store *p = arg;
    if (e == NULL && !pg_get_bool(r, 0, 0)) {
        log_error(LOG_STORE, "another process uses the hub name '%s'; sessions go to it", p->hub);
    }
    p->queued_runs = e == NULL ? pg_get_int(r, 0, 1) : p->queued_runs;
    later(p, &p->beat, p->lease_s * 1000 / 3);
    pg_store__release(p);
}

static void on_beat(void *arg)
{
    struct pg_store *p = arg;
    struct pg_number n[2];
    const struct pg_param params[] = {pg_text(str_of(p->hub)), pg_int(&n[0], p->epoch),
                                      pg_int(&n[1], p->lease_s)};
    pg_store__hold(p);
    pg_query(p->pg, KEY, &stmt_beat, params, 3, on_beaten, p);
}

static void on_cared(void *arg, const struct pg_result *r, const struct err *e)
{
    struct pg_store *p = arg;
    if (e != NULL) {
        log_warn(LOG_STORE, "care=failed reason=%s", LOGQ(str_of(e->msg)).z);
    } else if (pg_get_int(r, 0, 1) != 0) {
        log_info(LOG_STORE, "pruned sessions=%lld", (long long)pg_get_int(r, 0, 1));
    }
    later(p, &p->care, CARE_MS);
    pg_store__release(p);
}

static void on_care(void *arg)
{
    struct pg_store *p = arg;
    struct pg_number n;
    const struct pg_param days = pg_int(&n, p->keep_days);
    pg_store__hold(p);
    pg_query(p->pg, KEY, &stmt_care, &days, 1, on_cared, p);
}

// ---- opening ----------------------------------------------------------------------------------

struct opening {
    struct pg_store *p;
    int status;
    struct err err;
    int schema;
    char *channel;
};

/// The schema must be ours. An empty database gets it here.
static int look(struct opening *o, struct pg_link *l, struct err *e)
{
    struct pg_result *r;
    int rc = migrate_schema(l, &o->schema, e);
    if (rc == 0 && o->schema == 0) {
        rc = migrate_to(l, migrate_latest(), NULL, NULL, e);
        o->schema = migrate_latest();
    }
    if (rc == 0 && o->schema != migrate_latest()) {
        rc = err_set(e, ERR_UNSUPPORTED, "the store has schema %d, this program needs %d: %s",
                     o->schema, migrate_latest(),
                     o->schema > migrate_latest() ? "use a newer afloat"
                                                  : "run `afloat store migrate`");
    }
    if (rc == 0) {
        rc = pg_link_run(l, "SELECT afloat.channel()", NULL, 0, &r, e);
    }
    if (rc == 0) {
        o->channel = str_dup(pg_get(r, 0, 0));
        pg_result_free(r);
    }
    return rc;
}

static void open_work(void *arg)
{
    struct opening *o = arg;
    struct pg_link *l = NULL;
    o->status = pg_link_open(&l, o->p->url, &o->err);
    if (o->status == 0) {
        o->status = look(o, l, &o->err);
    }
    pg_link_close(l);
}

static void on_notify(void *arg, struct str payload)
{
    struct pg_store *p = arg;
    uint64_t id = 0;
    bool counts = str_to_u64(payload, &id);
    if (counts || payload.n == 0) {
        pg_stream_heard(p, id);
    }
    if (!counts && p->ring != NULL) {
        p->ring(p->ring_arg, payload);
    }
}

static void on_state(void *arg, const struct err *why)
{
    struct pg_store *p = arg;
    if (why != NULL) {
        log_error(LOG_STORE, "store=lost reason=%s", LOGQ(str_of(why->msg)).z);
    } else {
        log_info(LOG_STORE, "store=postgresql at=%s hub=%s", LOGQ(str_of(pg_shown(p->pg))).z,
                 LOGQ(str_of(p->hub)).z);
    }
}

static void tell_ready(struct pg_store *p, int status, const struct err *e)
{
    if (!p->closing && p->ready != NULL) {
        p->ready(p->arg, status, e);
    }
}

static void on_started(void *arg, const struct pg_result *r, const struct err *e)
{
    struct pg_store *p = arg;
    if (e == NULL) {
        p->epoch = pg_get_int(r, 0, 0);
        later(p, &p->beat, p->lease_s * 1000 / 3);
        later(p, &p->care, FIRST_CARE_MS);
    }
    tell_ready(p, e != NULL ? e->code : 0, e);
    pg_store__release(p);
}

static int open_pool(struct pg_store *p, struct err *e)
{
    struct pg_number n;
    struct buf labels = {.max = SIZE_MAX};
    int rc = pg_open(
        &p->pg, p->loop,
        &(struct pg_opts){
            .url = p->url, .channel = p->channel, .notify = on_notify, .state = on_state, .arg = p},
        e);
    if (rc < 0) {
        return rc;
    }
    pg_array_begin(&labels, p->labels.n);
    vec_foreach (label, &p->labels) {
        pg_array_add(&labels, str_of(*label));
    }
    const struct pg_param params[] = {pg_text(str_of(p->hub)), pg_text(str_of(p->identity)),
                                      pg_array(&labels), pg_text(str_of(p->version)),
                                      pg_int(&n, p->lease_s)};
    pg_store__hold(p);
    pg_query(p->pg, KEY, &stmt_start, params, 5, on_started, p);
    buf_fini(&labels);
    return 0;
}

static void on_opened(void *arg)
{
    struct opening *o = arg;
    struct pg_store *p = o->p;
    p->channel = o->channel;
    if (o->status == 0 && !p->closing) {
        o->status = open_pool(p, &o->err);
    }
    if (o->status < 0) {
        tell_ready(p, o->status, &o->err);
    }
    free(o);
    pg_store__release(p);
}

// ---- lists ------------------------------------------------------------------------------------

struct listing {
    struct pg_store *p;
    size_t limit;
    store_rows_cb *cb;
    void *arg;
};

static void on_list(void *arg, const struct pg_result *r, const struct err *e)
{
    struct listing q = *(struct listing *)arg;
    struct store_rows out = {0};
    vec(struct store_row) rows = {0};
    char cursor[STORE_ID_MAX + 32];
    free(arg);
    for (size_t i = 0; r != NULL && i < MIN(pg_rows(r), q.limit); i++) {
        struct store_row row = pg_store__row(r, i, 0);
        if (i + 1 == q.limit && pg_rows(r) > q.limit) {
            snprintf(cursor, sizeof cursor, "%lld:" STR_FMT, (long long)row.started_at,
                     STR_ARG(row.id));
            out.next = str_of(cursor);
        }
        if (walk_dir_valid(row.dir, row.id)) { // else no hub wrote it: its files would be anywhere
            vec_push(&rows, row);
        }
    }
    out.rows = rows.p;
    out.n = rows.n;
    q.cb(q.arg, e != NULL ? e->code : 0, &out, e);
    vec_fini(&rows);
    pg_store__release(q.p);
}

struct refusal {
    struct listing q;
    struct err e;
};

static void on_refused(void *arg)
{
    struct refusal *no = arg;
    struct store_rows none = {0};
    no->q.cb(no->q.arg, no->e.code, &none, &no->e);
    pg_store__release(no->q.p);
    free(no);
}

static void store_pg_list(struct store *s, const struct store_filter *f, struct str cursor,
                          size_t limit, store_rows_cb *cb, void *arg)
{
    static const struct store_filter everything;
    struct pg_store *p = pg_store_of(s);
    struct pg_number n[2];
    int64_t started_at = INT64_MAX;
    char task[STORE_ID_MAX + 8];
    struct str after = cursor, number = cursor.n != 0 ? str_cut(&after, ':') : STR_NULL;
    f = f != NULL ? f : &everything;
    limit = limit == 0 ? STORE_LIST_MAX : MIN(limit, STORE_LIST_MAX);
    struct listing q = {.p = p, .limit = limit, .cb = cb, .arg = arg};
    pg_store__hold(p);
    if (cursor.n != 0 && (!str_to_i64(number, &started_at) || !store_id_valid(after))) {
        struct refusal *no = xmalloc(sizeof *no);
        *no = (struct refusal){.q = q};
        err_set(&no->e, ERR_INVALID, "not a cursor of this list");
        loop_defer(p->loop, on_refused, no);
        return;
    }
    struct listing *copy = xmalloc(sizeof *copy);
    *copy = q;
    if (f->id.n != 0) {
        const struct pg_param params[] = {pg_text(f->id), pg_text(f->dir)};
        pg_query(p->pg, 1 + map_hash(f->id) % 1021, &stmt_list_id, params, 2, on_list, copy);
        return;
    }
    snprintf(task, sizeof task, "task:" STR_FMT, (int)MIN(f->parent.n, (size_t)STORE_ID_MAX),
             f->parent.p);
    struct str kind = f->parent.n != 0 ? str_of(task) : f->kind;
    const struct pg_stmt *stmt = f->dir.n != 0 ? &stmt_list_dir
                                 : kind.n != 0 ? &stmt_list_kind
                                               : &stmt_list_all;
    const struct pg_param params[] = {pg_int(&n[0], started_at),
                                      pg_text(cursor.n != 0 ? after : STR("")),
                                      pg_bool(f->no_tasks),
                                      f->stray ? pg_text(str_of(p->hub)) : PG_NULL,
                                      pg_text_or_null(f->state),
                                      pg_int(&n[1], (int64_t)limit + 1),
                                      pg_text(f->dir.n != 0 ? f->dir : kind)};
    pg_query(p->pg, KEY, stmt, params, stmt == &stmt_list_all ? 6 : 7, on_list, copy);
}

// ---- documents --------------------------------------------------------------------------------

/// What all hubs of a team decide together. What grants something stays with each user.
static bool is_shared(struct str name)
{
    return str_eqz(name, "choices.json");
}

struct doc_ask {
    struct pg_store *p;
    store_text_cb *got;
    store_done *done;
    void *arg;
};

static void on_doc(void *arg, const struct pg_result *r, const struct err *e)
{
    struct doc_ask q = *(struct doc_ask *)arg;
    free(arg);
    if (q.got != NULL) {
        bool found = r != NULL && pg_rows(r) != 0;
        q.got(q.arg, e != NULL ? e->code : 0, found ? pg_get(r, 0, 0) : STR_NULL, e);
    } else if (q.done != NULL) {
        q.done(q.arg, e != NULL ? e->code : 0, e);
    }
    pg_store__release(q.p);
}

static void ask_doc(struct pg_store *p, const struct pg_stmt *stmt, const struct pg_param *params,
                    int n, const struct doc_ask *what)
{
    struct doc_ask *q = xmalloc(sizeof *q);
    *q = *what;
    q->p = p;
    pg_store__hold(p);
    pg_query(p->pg, KEY, stmt, params, n, on_doc, q);
}

static void store_pg_doc_get(struct store *s, struct str name, store_text_cb *cb, void *arg)
{
    struct pg_store *p = pg_store_of(s);
    if (!is_shared(name)) {
        docs_get(&p->docs, name, cb, arg);
        return;
    }
    const struct pg_param param = pg_text(name);
    ask_doc(p, &stmt_doc_get, &param, 1, &(struct doc_ask){.got = cb, .arg = arg});
}

static void store_pg_doc_put(struct store *s, struct str name, struct str json, store_done *cb,
                             void *arg)
{
    struct pg_store *p = pg_store_of(s);
    if (!is_shared(name)) {
        docs_put(&p->docs, name, json, cb, arg);
        return;
    }
    const struct pg_param params[] = {pg_text(name), pg_text(json)};
    ask_doc(p, &stmt_doc_put, params, 2, &(struct doc_ask){.done = cb, .arg = arg});
}

static void store_pg_doc_set(struct store *s, struct str name, struct str key, struct str value,
                             store_done *cb, void *arg)
{
    struct pg_store *p = pg_store_of(s);
    if (!is_shared(name)) {
        docs_set(&p->docs, name, key, value, cb, arg);
        return;
    }
    const struct pg_param params[] = {pg_text(name), pg_text(key), pg_text(value)};
    ask_doc(p, &stmt_doc_set, params, 3, &(struct doc_ask){.done = cb, .arg = arg});
}

struct found_none {
    struct pg_store *p;
    store_done *cb;
    void *arg;
};

static void on_found_none(void *arg)
{
    struct found_none q = *(struct found_none *)arg;
    free(arg);
    q.cb(q.arg, 0, NULL);
    pg_store__release(q.p);
}

/// This store has no sessions in files: there is nothing to find.
static void store_pg_rescan(struct store *s, struct str dir, store_done *cb, void *arg)
{
    struct found_none *q = xmalloc(sizeof *q);
    *q = (struct found_none){.p = pg_store_of(s), .cb = cb, .arg = arg};
    (void)dir;
    pg_store__hold(q->p);
    loop_defer(q->p->loop, on_found_none, q);
}

// ---- health -----------------------------------------------------------------------------------

struct health {
    struct pg_store *p;
    uint64_t asked_at;
    int64_t wall;
    store_text_cb *cb;
    void *arg;
};

static void on_health(void *arg, const struct pg_result *r, const struct err *e)
{
    struct health h = *(struct health *)arg;
    struct buf out = {.max = SIZE_MAX};
    free(arg);
    if (e != NULL) {
        h.cb(h.arg, e->code, STR_NULL, e);
        pg_store__release(h.p);
        return;
    }
    double ms = (double)(uv_hrtime() - h.asked_at) / 1e6;
    struct jw w = {.out = &out};
    jw_obj(&w);
    jw_kstrz(&w, "kind", "postgresql");
    jw_kstr(&w, "version", pg_get(r, 0, 0));
    jw_kint(&w, "schema", pg_get_int(r, 0, 1));
    jw_key(&w, "latency_ms");
    jw_double(&w, (double)(int64_t)(ms * 100) / 100);
    jw_kstrz(&w, "at", pg_shown(h.p->pg));
    jw_kstrz(&w, "hub", h.p->hub);
    jw_kint(&w, "clock_skew_ms", pg_get_int(r, 0, 2) - h.wall - (int64_t)(ms / 2));
    jw_kbool(&w, "replica", pg_get_bool(r, 0, 3));
    jw_key(&w, "replication_lag_s");
    jw_raw(&w, pg_get(r, 0, 4));
    jw_kint(&w, "replicas", pg_get_int(r, 0, 5));
    jw_kbool(&w, "may_write", pg_get_bool(r, 0, 6));
    jw_kbool(&w, "too_privileged", pg_get_bool(r, 0, 7));
    jw_kstr(&w, "user", pg_get(r, 0, 8));
    jw_end_obj(&w);
    h.cb(h.arg, 0, buf_str(&out), NULL);
    buf_fini(&out);
    pg_store__release(h.p);
}

static void store_pg_health(struct store *s, store_text_cb *cb, void *arg)
{
    struct pg_store *p = pg_store_of(s);
    struct health *h = xmalloc(sizeof *h);
    *h = (struct health){
        .p = p, .asked_at = uv_hrtime(), .wall = loop_wall(p->loop), .cb = cb, .arg = arg};
    pg_store__hold(p);
    pg_query(p->pg, KEY, &stmt_health, NULL, 0, on_health, h);
}

static const struct err *store_pg_trouble(struct store *s)
{
    const struct pg_store *p = pg_store_of(s);
    const struct err *now = p->pg != NULL ? pg_trouble(p->pg) : NULL;
    return now != NULL || p->lost.code == 0 ? now : &p->lost;
}

static void store_pg_metrics(struct store *s, struct buf *out)
{
    const struct pg_store *p = pg_store_of(s);
    struct pg_stats st = pg_stats(p->pg);
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"pool_size", "gauge", "Connections to PostgreSQL at most.", st.size},
        {"pool_up", "gauge", "Connections to PostgreSQL that work.", st.up},
        {"waiting", "gauge", "Requests without an answer yet.", (double)st.waiting},
        {"requests_total", "counter", "Requests to PostgreSQL.", (double)st.requests},
        {"reconnects_total", "counter", "Connections made again.", (double)st.reconnects},
        {"latency_ms", "gauge", "Moving mean of a request, in milliseconds.", st.latency_ms},
        {"stream_lag_events", "gauge", "Events of other hubs that are not read yet.",
         (double)(p->heard > p->seen ? p->heard - p->seen : 0)},
        {"queued_runs", "gauge", "Runs that waited in the queue at the hub's last sign of life.",
         (double)p->queued_runs},
        {"dropped_events_total", "counter", "Events of this hub that were not written.",
         (double)p->dropped},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        buf_addf(
            out, "# HELP afloat_store_%s %s\n# TYPE afloat_store_%s %s\nafloat_store_%s %.15g\n",
            rows[i].name, rows[i].help, rows[i].name, rows[i].type, rows[i].name, rows[i].value);
    }
}

// ---- public -----------------------------------------------------------------------------------

static const struct store_ops pg_ops = {
    .close = store_pg_close,
    .request = pg_session_request,
    .rescan = store_pg_rescan,
    .list = store_pg_list,
    .doc_get = store_pg_doc_get,
    .doc_put = store_pg_doc_put,
    .doc_set = store_pg_doc_set,
    .health = store_pg_health,
    .follow = pg_stream_follow,
    .unfollow = pg_stream_unfollow,
    .emit = pg_stream_emit,
    .stream_read = pg_stream_read,
    .trouble = store_pg_trouble,
    .metrics = store_pg_metrics,
};

/// Of a home: its path and machine. A hub that starts again is the same one.
static char *make_identity(const char *home)
{
    char host[256] = "";
    char hex[SHA256_HEX];
    uint8_t hash[SHA256_SIZE];
    gethostname(host, sizeof host - 1);
    char *text = xasprintf("%s:%s", host, home);
    sha256_of(str_of(text), hash);
    sha256_hex(hash, hex);
    free(text);
    return xstrdup(hex);
}

int store__pg_open(struct store **out, struct loop *l, const struct store_opts *opts,
                   store_done *ready, void *arg, struct err *e)
{
    const struct store_team *t = opts->team;
    struct pg_url url;
    *out = NULL;
    int rc = pg_url_read(&url, t->url, e); // what is wrong with it is known at once
    if (rc < 0) {
        return rc;
    }
    pg_url_fini(&url);
    struct pg_store *p = xcalloc(1, sizeof *p);
    p->store.ops = &pg_ops;
    p->loop = l;
    p->home = xstrdup(opts->home);
    p->url = xstrdup(t->url);
    p->hub = xstrdup(t->hub);
    p->identity = make_identity(opts->home);
    p->version = xstrdup(t->version != NULL ? t->version : "");
    p->lease_s = MAX(t->lease_s, 1u);
    p->keep_days = t->keep_days;
    for (size_t i = 0; i < t->n_labels; i++) {
        vec_push(&p->labels, xstrdup(t->labels[i]));
    }
    p->ready = ready;
    p->arg = arg;
    p->files = lane_open(l, "files", 3);
    docs_init(&p->docs, p->files, p->home, on_idle, p);
    map_init(&p->sessions);
    timer_init(&p->beat, l, on_beat, p);
    timer_init(&p->care, l, on_care, p);
    pg_stream_init(p);
    p->shelf = shelf__open(p);
    struct opening *o = xcalloc(1, sizeof *o);
    o->p = p;
    pg_store__hold(p);
    work_submit(p->files, 0, open_work, on_opened, o);
    *out = &p->store;
    return 0;
}
