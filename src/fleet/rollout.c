// Bringing this hub's plugins to all hubs of its user, led by this hub.
//
//     collect (worker) ──> contents that the store lacks ──> publish ──> the hubs
//       ──> for each, this one first:  its turn ──> it commits ──> watch its errors ──> the next
//       ──> all did: the set is current
//       ──> one could not, or its plugins fail as they did not before, or it was lost: the set is given up, and every hub
//           that had its turn goes back by itself (channel.c); we wait until they said so
//
// All that counts is in the database. A hub that leads and is lost needs no successor: its roll-out is over with
// its lease, and the others go back.

#include <assert.h>
#include <sys/random.h>

#include "base/log.h"
#include "config/config.h"
#include "config/home.h"
#include "fleet/fleet_int.h"

enum { POLL_MS = 100, PATIENCE_MS = 60 * 1000, READY_MS = 10 * 1000, ALIVE_MS = 1500 };

static const struct pg_stmt stmt_missing = {"plugin_missing",
                                            "SELECT * FROM afloat.plugin_missing($1)"};
static const struct pg_stmt stmt_add = {"plugin_blob_add", "SELECT afloat.plugin_blob_add($1, $2)"};
static const struct pg_stmt stmt_publish = {"plugin_publish",
                                            "SELECT afloat.plugin_publish($1, $2, $3, $4, $5)"};
static const struct pg_stmt stmt_rows = {
    "plugin_rows", "SELECT hub, state, generation, number, answer FROM afloat.plugin_rows()"};
static const struct pg_stmt stmt_turn = {"plugin_turn", "SELECT afloat.plugin_turn($1, $2)"};
static const struct pg_stmt stmt_errors = {
    "plugin_errors",
    "SELECT fresh, sample, afloat.hub_lives($1), (SELECT (extract(epoch FROM clock_timestamp()"
    " - seen_at) * 1000)::bigint FROM afloat.hubs WHERE owner = current_user AND name = $1)"
    " FROM afloat.plugin_errors($1, $2, $3)"};
static const struct pg_stmt stmt_end = {"plugin_end", "SELECT afloat.plugin_end($1, $2)"};

enum stop_state { STOP_WAITS, STOP_TURN, STOP_COMMITTED, STOP_BACK, STOP_SKIPPED, STOP_LOST };
static const char *const stop_names[] = {
    [STOP_WAITS] = "skipped",    [STOP_TURN] = "lost",       [STOP_COMMITTED] = "committed",
    [STOP_BACK] = "rolled_back", [STOP_SKIPPED] = "skipped", [STOP_LOST] = "lost",
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
    channel_paths paths;
    struct plugin_set set;
    channel_blobs blobs;
    vec(struct stop) stops;
    size_t at;       // the stop whose turn it is
    uint64_t since;  // when its turn, its watch or the way back began
    uint64_t turned; // when the last turn was given
    char *stopped;   // why it stopped; NULL: it did not
    char token[24];  // of the publication
    struct timer tick;
    bool asked; // an answer of the database is still to come
    bool over;  // nobody waits for it any more
    int rc;     // of the worker
    struct err e;
    fleet_rolled_cb *cb;
    void *arg;
};

// ---- the end ----------------------------------------------------------------------------------------

/// What a hub said, as an object in `a`; NULL: nothing yet.
static const struct json *said_by(const struct stop *s, struct arena *a)
{
    struct json *v = NULL;
    return s->answer != NULL && json_parse(&v, a, str_of(s->answer), NULL, NULL) == 0 ? v : NULL;
}

/// The row of a hub: what it said, but for what we know better.
static void write_stop(struct jw *w, const struct stop *s, const struct json *said)
{
    jw_obj(w);
    jw_kstrz(w, "name", s->hub);
    jw_kstrz(w, "state", stop_names[s->state]);
    if (said == NULL) {
        jw_kint(w, "generation_before", s->generation);
        jw_kint(w, "generation_after", s->generation);
    }
    json_foreach_member (m, said) {
        if (!str_eqz(m->key, "state") && !(str_eqz(m->key, "reason") && s->reason != NULL)) {
            jw_key_str(w, m->key);
            jw_value(w, &m->value);
        }
    }
    if (s->reason != NULL) {
        jw_kstrz(w, "reason", s->reason);
    }
    jw_end_obj(w);
}

static void answer(struct rollout *r, const struct err *e)
{
    struct arena a;
    struct buf out;
    struct jw w;
    bool ok = r->stopped == NULL && e == NULL;
    arena_init(&a);
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_obj(&w);
    jw_karr(&w, "hubs");
    vec_foreach (s, &r->stops) {
        const struct json *said = said_by(s, &a);
        ok = ok && json_get(said, "conflicts") == NULL;
        write_stop(&w, s, said);
    }
    jw_end_arr(&w);
    jw_kstrz(&w, "stopped", r->stopped);
    jw_end_obj(&w);
    struct str text = buf_str(&out);
    r->cb(r->arg, ok, (struct str){text.p + 1, text.n - 2}, e);
    buf_fini(&out);
    arena_fini(&a);
}

static void rollout_free(struct rollout *r)
{
    vec_foreach (s, &r->stops) {
        free(s->hub);
        free(s->reason);
        free(s->answer);
    }
    vec_fini(&r->stops);
    channel_paths_fini(&r->paths);
    channel_blobs_fini(&r->blobs);
    plugin_set_fini(&r->set);
    free(r->stopped);
    free(r->home);
    free(r);
}

static void on_ended(void *arg, const struct pg_result *res, const struct err *e)
{
    (void)res;
    (void)e; // our next roll-out, or the end of our lease, ends it too
    fleet__answered(arg);
}

/// Answer, once; memory goes with the last answer of the database or worker. One that failed is given up.
static void finish(struct rollout *r, const struct err *e)
{
    struct fleet *f = r->f;
    assert(!r->over && f->rollout == r);
    r->over = true;
    f->rollout = NULL;
    timer_stop(&r->tick);
    answer(r, e);
    if (e != NULL && r->number != 0) {
        struct pg_number n;
        const struct pg_param params[] = {pg_int(&n, r->number), pg_text(STR("f"))};
        channel__ask(f, &stmt_end, params, 2, on_ended, f);
    }
    if (!r->asked) {
        rollout_free(r);
        fleet__answered(f);
    }
}

void rollout__stop(struct fleet *f, const char *why)
{
    struct rollout *r = f->rollout;
    struct err e;
    if (r != NULL) {
        err_set(&e, UV_ECANCELED, "%s; its roll-out is given up, and every hub goes back", why);
        finish(r, &e);
    }
}

int64_t rollout__previous(const struct fleet *f, int64_t number, int64_t now)
{
    return f->rollout != NULL && f->rollout->number == number ? f->rollout->previous : now;
}

/// What was asked is answered. False: nobody waits any more, and `r` may be gone.
static bool answered(struct rollout *r)
{
    struct fleet *f = r->f;
    bool over = r->over;
    assert(r->asked);
    r->asked = false;
    if (over) {
        rollout_free(r);
        fleet__answered(f);
    }
    return !over;
}

/// The same; a failure ends the roll-out.
static bool succeeded(struct rollout *r, const struct err *e)
{
    bool waits = answered(r);
    if (waits && e != NULL) {
        finish(r, e);
    }
    return waits && e == NULL;
}

/// channel__ask() for a roll-out: one question at a time. The roll-out itself is one of those that fleet_close()
/// waits for.
static void ask(struct rollout *r, const struct pg_stmt *stmt, const struct pg_param *params, int n,
                pg_cb *cb)
{
    assert(!r->asked && !r->over);
    r->asked = true;
    pg_query(r->f->hub.pg, CHANNEL_KEY, stmt, params, n, cb, r);
}

static void tell(struct rollout *r, const struct stop *s)
{
    struct buf out;
    struct jw w;
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_obj(&w);
    jw_kint(&w, "set", r->number);
    jw_kstrz(&w, "hub", s->hub);
    jw_kstrz(&w, "state", s->state == STOP_TURN ? "turn" : stop_names[s->state]);
    if (s->reason != NULL) {
        jw_kstrz(&w, "reason", s->reason);
    }
    jw_end_obj(&w);
    struct str text = buf_str(&out);
    r->f->plugins.told(r->f->plugins.arg, (struct str){text.p + 1, text.n - 2});
    buf_fini(&out);
}

static void set_state(struct rollout *r, struct stop *s, enum stop_state state, const char *reason)
{
    s->state = state;
    if (reason != NULL) {
        free(s->reason);
        s->reason = xstrdup(reason);
    }
    tell(r, s);
}

// ---- going back -------------------------------------------------------------------------------------

static void on_given_up(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    (void)res;
    if (!succeeded(r, e)) { // after a failure our lease ends it
        return;
    }
    r->phase = PHASE_BACK;
    r->since = loop_now(r->f->o.loop);
    timer_start(&r->tick, 0);
}

static void give_up(struct rollout *r, const char *why)
{
    struct stop *s = &r->stops.p[r->at];
    struct pg_number n;
    const struct pg_param params[] = {pg_int(&n, r->number), pg_text(STR("f"))};
    r->stopped = xasprintf("hub '%s': %s", s->hub, why);
    vec_foreach (it, &r->stops) {
        if (it->state == STOP_WAITS) {
            set_state(r, it, STOP_SKIPPED, "the roll-out stopped before it");
        }
    }
    log_warn(LOG_STORE, "rollout=stopped set=%lld reason=%s", (long long)r->number,
             LOGQ(str_of(r->stopped)).z);
    ask(r, &stmt_end, params, 2, on_given_up);
}

// ---- hub by hub -------------------------------------------------------------------------------------

static void next_stop(struct rollout *r);

static void on_current(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    struct err own;
    if (!answered(r)) {
        return;
    }
    if (e == NULL && !pg_get_bool(res, 0, 0)) {
        err_set(&own, ERR_CONFLICT, "this hub lost the lead: every hub goes back");
        e = &own;
    }
    log_info(LOG_STORE, "rollout=done set=%lld", (long long)r->number);
    finish(r, e);
}

static void on_errors(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    if (!succeeded(r, e)) {
        return;
    }
    int64_t fresh = pg_get_int(res, 0, 0);
    struct str sample = pg_get(res, 0, 1);
    int64_t watched = (int64_t)(loop_now(r->f->o.loop) - r->since);
    bool seen = pg_get_int(res, 0, 3) < MIN(watched, (int64_t)ALIVE_MS);
    struct stop *s = &r->stops.p[r->at];
    char why[240];
    if (!pg_get_bool(res, 0, 2)) {
        set_state(r, s, STOP_LOST, "lost after it had committed; it goes back at its start");
        give_up(r, "lost after it had committed");
    } else if (fresh > 0) {
        snprintf(why, sizeof why, "%lld new %s of its plugins: %.*s", (long long)fresh,
                 fresh == 1 ? "error" : "errors", (int)MIN(sample.n, 160), sample.p);
        set_state(r, s, STOP_COMMITTED, why);
        give_up(r, why);
    } else if (!seen) { // it may have died of what it committed
        timer_start(&r->tick, POLL_MS);
    } else {
        r->at++;
        next_stop(r);
    }
}

/// Do the plugins that changed there fail in new ways since its turn?
static void count_errors(struct rollout *r)
{
    const struct stop *s = &r->stops.p[r->at];
    struct arena a;
    struct buf names;
    struct pg_number n;
    arena_init(&a);
    buf_init(&names, SIZE_MAX);
    const struct json *plugins = json_get(said_by(s, &a), "plugins");
    pg_array_begin(&names, plugins != NULL ? plugins->n : 0);
    json_foreach_item (it, plugins) {
        pg_array_add(&names, json_str(it, ""));
    }
    const struct pg_param params[] = {pg_text(str_of(s->hub)), pg_array(&names),
                                      pg_int(&n, (int64_t)(loop_now(r->f->o.loop) - r->turned))};
    ask(r, &stmt_errors, params, 3, on_errors);
    buf_fini(&names);
    arena_fini(&a);
}

static void on_turn(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    struct err own;
    if (!answered(r)) {
        return;
    }
    if (e == NULL && !pg_get_bool(res, 0, 0)) {
        err_set(&own, ERR_CONFLICT, "the roll-out ended: this hub was lost for a while");
        e = &own;
    }
    if (e != NULL) {
        finish(r, e);
        return;
    }
    r->phase = PHASE_TURN;
    r->since = r->turned = loop_now(r->f->o.loop);
    timer_start(&r->tick, 0);
}

static void next_stop(struct rollout *r)
{
    struct pg_number n;
    while (r->at < r->stops.n && r->stops.p[r->at].state != STOP_WAITS) {
        r->at++;
    }
    if (r->at == r->stops.n) {
        const struct pg_param params[] = {pg_int(&n, r->number), pg_text(STR("t"))};
        ask(r, &stmt_end, params, 2, on_current);
        return;
    }
    struct stop *s = &r->stops.p[r->at];
    const struct pg_param params[] = {pg_int(&n, r->number), pg_text(str_of(s->hub))};
    set_state(r, s, STOP_TURN, NULL);
    ask(r, &stmt_turn, params, 2, on_turn);
}

// ---- what the hubs say ------------------------------------------------------------------------------

static void take_answer(struct stop *s, struct str text)
{
    free(s->answer);
    s->answer = str_dup(text);
}

/// The hubs of this user; this one comes first.
static void list_stops(struct rollout *r, const struct pg_result *res)
{
    for (int self = 1; self >= 0; self--) {
        for (size_t i = 0; i < pg_rows(res); i++) {
            struct str hub = pg_get(res, i, 0), state = pg_get(res, i, 1);
            if (str_eqz(hub, r->f->hub.name) != (self != 0)) {
                continue;
            }
            vec_push(&r->stops,
                     ((struct stop){.hub = str_dup(hub), .generation = pg_get_int(res, i, 2)}));
            struct stop *s = vec_last(&r->stops);
            if (str_eqz(state, "lost")) {
                set_state(r, s, STOP_SKIPPED, "not running; it takes the plugins at its start");
            } else if (str_eqz(state, "draining") && !self) {
                set_state(r, s, STOP_SKIPPED, "draining; it takes the plugins when that ends");
            }
        }
    }
    next_stop(r);
}

static size_t row_of(const struct pg_result *res, const char *hub)
{
    size_t i = 0;
    while (i < pg_rows(res) && !str_eqz(pg_get(res, i, 0), hub)) {
        i++;
    }
    return i;
}

/// The hub whose turn it is has said what it did.
static void take_turn(struct rollout *r, struct stop *s)
{
    struct arena a;
    arena_init(&a);
    const struct json *said = said_by(s, &a), *plugins = json_get(said, "plugins");
    struct str state = json_str(json_get(said, "state"), "");
    if (str_eqz(state, "committed")) {
        bool changed = plugins != NULL && plugins->type == JSON_ARR && plugins->n != 0;
        int64_t watch_s = config_int(r->f->o.config->now, "store.rollout_watch_s");
        set_state(r, s, STOP_COMMITTED, NULL);
        r->phase = PHASE_WATCH;
        r->since = loop_now(r->f->o.loop);
        timer_start(&r->tick, changed ? (uint64_t)watch_s * 1000 : 0);
    } else if (str_eqz(state, "skipped")) {
        set_state(r, s, STOP_SKIPPED, NULL);
        r->at++;
        next_stop(r);
    } else {
        char *why = str_dup(json_str(json_get(said, "reason"), "it went back"));
        set_state(r, s, STOP_BACK, NULL);
        give_up(r, why);
        free(why);
    }
    arena_fini(&a);
}

/// Did the hub whose turn it is say something?
static void hear_turn(struct rollout *r, const struct pg_result *res)
{
    struct stop *s = &r->stops.p[r->at];
    size_t i = row_of(res, s->hub);
    if (i < pg_rows(res) && pg_get_int(res, i, 3) == r->number) {
        take_answer(s, pg_get(res, i, 4));
        take_turn(r, s);
    } else if (i == pg_rows(res) || str_eqz(pg_get(res, i, 1), "lost")) {
        set_state(r, s, STOP_LOST, "lost while it took the plugins; it goes back at its start");
        give_up(r, "lost while it took the plugins");
    } else if (loop_now(r->f->o.loop) - r->since > PATIENCE_MS) {
        set_state(r, s, STOP_TURN, "no answer for a minute");
        give_up(r, "no answer for a minute");
    } else {
        timer_start(&r->tick, POLL_MS);
    }
}

/// Which hubs went back?
static void hear_back(struct rollout *r, const struct pg_result *res)
{
    bool waits = false;
    vec_foreach (s, &r->stops) {
        size_t i = row_of(res, s->hub);
        if (s->state != STOP_COMMITTED && s->state != STOP_TURN) {
            continue;
        }
        struct arena a;
        arena_init(&a);
        bool gone = i == pg_rows(res) || str_eqz(pg_get(res, i, 1), "lost");
        if (!gone && pg_get_int(res, i, 3) == r->number) {
            take_answer(s, pg_get(res, i, 4));
        }
        if (str_eqz(json_str(json_get(said_by(s, &a), "state"), ""), "rolled_back")) {
            set_state(r, s, STOP_BACK, NULL);
        } else if (gone) {
            set_state(r, s, STOP_LOST, "lost before it went back; it does so at its start");
        } else {
            waits = true;
        }
        arena_fini(&a);
    }
    if (waits && loop_now(r->f->o.loop) - r->since <= PATIENCE_MS) {
        timer_start(&r->tick, POLL_MS);
    } else {
        finish(r, NULL);
    }
}

static void on_rows(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    if (!succeeded(r, e)) {
        return;
    }
    if (r->phase == PHASE_LIST) {
        list_stops(r, res);
    } else if (r->phase == PHASE_TURN) {
        hear_turn(r, res);
    } else {
        assert(r->phase == PHASE_BACK);
        hear_back(r, res);
    }
}

// ---- publishing -------------------------------------------------------------------------------------

static void on_published(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    if (!succeeded(r, e)) {
        return;
    }
    r->number = pg_get_int(res, 0, 0);
    r->phase = PHASE_LIST;
    ask(r, &stmt_rows, NULL, 0, on_rows);
}

static void publish(struct rollout *r)
{
    struct fleet *f = r->f;
    struct pg_number n[2];
    struct buf body;
    struct jw w;
    buf_init(&body, SIZE_MAX);
    jw_init(&w, &body);
    plugin_set_write(&r->set, &w);
    const struct pg_param params[] = {pg_text(str_of(f->hub.name)), pg_int(&n[0], f->hub.epoch),
                                      pg_int(&n[1], f->channel.state.number),
                                      pg_text(str_of(r->token)), pg_text(buf_str(&body))};
    ask(r, &stmt_publish, params, 5, on_published);
    buf_fini(&body);
}

static void upload(struct rollout *r);

static void on_added(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    (void)res;
    if (!answered(r)) {
        return;
    }
    if (e != NULL) {
        finish(r, e);
    } else {
        upload(r);
    }
}

/// The last of what is still to be sent.
static void upload(struct rollout *r)
{
    if (r->blobs.n == 0) {
        publish(r);
        return;
    }
    struct channel_blob b = vec_pop(&r->blobs);
    const struct pg_param params[] = {pg_text(str_of(b.hash)), pg_text((struct str){b.text, b.n})};
    ask(r, &stmt_add, params, 2, on_added);
    free(b.text);
}

/// Only what the store lacks is sent.
static void on_missing(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    if (!succeeded(r, e)) {
        return;
    }
    for (size_t i = r->blobs.n; i-- > 0;) {
        bool missing = false;
        for (size_t k = 0; k < pg_rows(res); k++) {
            missing = missing || str_eqz(pg_get(res, k, 0), r->blobs.p[i].hash);
        }
        if (!missing) {
            free(r->blobs.p[i].text);
            vec_remove(&r->blobs, i);
        }
    }
    upload(r);
}

static void collect_work(void *arg) // on the lane
{
    struct rollout *r = arg;
    r->rc = channel_collect(r->home, &r->paths, &r->set, &r->blobs, &r->e);
}

static void on_collected(void *arg)
{
    struct rollout *r = arg;
    struct buf hashes;
    if (!answered(r)) {
        return;
    }
    if (r->rc < 0) {
        struct err e = r->e;
        finish(r, &e);
        return;
    }
    buf_init(&hashes, SIZE_MAX);
    pg_array_begin(&hashes, r->blobs.n);
    vec_foreach (b, &r->blobs) {
        pg_array_add(&hashes, str_of(b->hash));
    }
    const struct pg_param param = pg_array(&hashes);
    ask(r, &stmt_missing, &param, 1, on_missing);
    buf_fini(&hashes);
}

static void add_path(void *to, const char *path, const char *project)
{
    channel_paths *paths = to;
    vec_push(paths, ((struct channel_path){.path = xstrdup(path),
                                           .project = project != NULL ? xstrdup(project) : NULL}));
}

// ---- the beginning ----------------------------------------------------------------------------------

static void begin(struct rollout *r)
{
    struct fleet *f = r->f;
    struct err e;
    if (f->channel.loaded && !f->channel.busy && f->channel.looks > r->looks) {
        r->phase = PHASE_PUBLISH;
        f->plugins.each(f->plugins.arg, add_path, &r->paths);
        vec_foreach (
            it, &f->channel.state.base.items) { // of other profiles, and projects that are closed
            char *path = channel_path_of(r->home, it);
            add_path(&r->paths, path, it->project);
            free(path);
        }
        r->asked = true;
        work_submit(f->lane, 0, collect_work, on_collected, r);
    } else if (loop_now(f->o.loop) - r->since > READY_MS) {
        err_set(&e, ERR_CONFLICT, "this hub is still taking plugins over; try again later");
        finish(r, &e);
    } else {
        timer_start(&r->tick, POLL_MS);
    }
}

static void on_tick(void *arg)
{
    struct rollout *r = arg;
    if (r->phase == PHASE_READY) {
        begin(r);
    } else if (r->phase == PHASE_WATCH) {
        count_errors(r);
    } else {
        ask(r, &stmt_rows, NULL, 0, on_rows);
    }
}

struct refusal {
    struct err e;
    fleet_rolled_cb *cb;
    void *arg;
};

static void refuse(void *arg)
{
    struct refusal *no = arg;
    no->cb(no->arg, false, STR_NULL, &no->e);
    free(no);
}

void fleet_roll_out(struct fleet *f, int64_t previous, fleet_rolled_cb *cb, void *arg)
{
    uint64_t random = 0;
    if (!f->shared || !f->open || f->rollout != NULL) {
        struct refusal *no = xcalloc(1, sizeof *no);
        *no = (struct refusal){.cb = cb, .arg = arg};
        if (!f->shared) {
            err_set(&no->e, ERR_UNSUPPORTED,
                    "this hub works alone: share a store with other hubs first ([store] url in "
                    "config.toml)");
        } else {
            err_set(&no->e, ERR_CONFLICT,
                    f->open ? "this hub is rolling out plugins already"
                            : "the hub is starting or stopping");
        }
        loop_defer(f->o.loop, refuse, no);
        return;
    }
    struct rollout *r = xcalloc(1, sizeof *r);
    *r = (struct rollout){.f = f,
                          .previous = previous,
                          .looks = f->channel.looks + f->channel.looking,
                          .home = xstrdup(f->o.home->dir),
                          .since = loop_now(f->o.loop),
                          .cb = cb,
                          .arg = arg};
    (void)!getrandom(&random, sizeof random, 0);
    snprintf(r->token, sizeof r->token, "%016llx", (unsigned long long)random);
    f->rollout = r;
    f->n_asked++;
    timer_init(&r->tick, f->o.loop, on_tick, r);
    timer_start(&r->tick, 0);
    channel__look(f); // we publish on top of what is current now
}
