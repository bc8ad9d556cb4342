// Bring a published set to the hubs, one after the other, and back when one of them cannot take it.
//
//     list ──> turn ──> the hub says what it did ──> watch its errors ──> the next ──> all: the set is current
//                │                                        │
//                └── it could not, or is lost ── give up ─┴──> wait until each that had its turn went back

#include <assert.h>

#include "base/log.h"
#include "config/config.h"
#include "fleet/rollout_int.h"

enum { POLL_MS = 100, PATIENCE_MS = 60 * 1000, ALIVE_MS = 1500 };

static const struct pg_stmt stmt_rows = {
    "plugin_rows", "SELECT hub, state, generation, number, answer FROM afloat.plugin_rows()"};
static const struct pg_stmt stmt_turn = {"plugin_turn", "SELECT afloat.plugin_turn($1, $2)"};
static const struct pg_stmt stmt_errors = {
    "plugin_errors",
    "SELECT fresh, sample, afloat.hub_lives($1), (SELECT (extract(epoch FROM clock_timestamp()"
    " - seen_at) * 1000)::bigint FROM afloat.hubs WHERE owner = current_user AND name = $1)"
    " FROM afloat.plugin_errors($1, $2, $3)"};

static void tell(struct rollout *r, const struct stop *s)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    jw_obj(&w);
    jw_kint(&w, "set", r->number);
    jw_kstrz(&w, "hub", s->hub);
    jw_kstrz(&w, "state", s->state == STOP_TURN ? "turn" : rollout__stop_names[s->state]);
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
    if (!r->dry_run) {
        tell(r, s);
    }
}

// ---- going back -------------------------------------------------------------------------------------

static void on_given_up(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    (void)res;
    if (!rollout__succeeded(r, e)) { // after a failure our lease ends it
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
    const struct pg_param params[] = {pg_int(&n, r->number), pg_bool(false)};
    r->stopped = xasprintf("hub '%s': %s", s->hub, why);
    vec_foreach (it, &r->stops) {
        if (it->state == STOP_WAITS) {
            set_state(r, it, STOP_SKIPPED, "the roll-out stopped before it");
        }
    }
    log_warn(LOG_STORE, "rollout=stopped set=%lld reason=%s", (long long)r->number,
             LOGQ(str_of(r->stopped)).z);
    rollout__ask(r, &rollout__end, params, 2, on_given_up);
}

// ---- hub by hub -------------------------------------------------------------------------------------

static void next_stop(struct rollout *r);

static void on_current(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    struct err own;
    if (!rollout__answered(r)) {
        return;
    }
    if (e == NULL && !pg_get_bool(res, 0, 0)) {
        err_set(&own, ERR_CONFLICT, "this hub lost the lead: every hub goes back");
        e = &own;
    }
    if (e == NULL) {
        log_info(LOG_STORE, "rollout=done set=%lld", (long long)r->number);
    }
    rollout__finish(r, e);
}

static void on_errors(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    if (!rollout__succeeded(r, e)) {
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
    struct arena a = {0};
    struct buf names = {.max = SIZE_MAX};
    struct pg_number n;
    const struct json *plugins = json_get(rollout__said_by(s, &a), "plugins");
    pg_array_begin(&names, plugins != NULL ? plugins->n : 0);
    json_foreach_item (it, plugins) {
        pg_array_add(&names, json_str(it, ""));
    }
    const struct pg_param params[] = {pg_text(str_of(s->hub)), pg_array(&names),
                                      pg_int(&n, (int64_t)(loop_now(r->f->o.loop) - r->turned))};
    rollout__ask(r, &stmt_errors, params, 3, on_errors);
    buf_fini(&names);
    arena_fini(&a);
}

static void on_turn(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    struct err own;
    if (!rollout__answered(r)) {
        return;
    }
    if (e == NULL && !pg_get_bool(res, 0, 0)) {
        err_set(&own, ERR_CONFLICT, "the roll-out ended: this hub was lost for a while");
        e = &own;
    }
    if (e != NULL) {
        rollout__finish(r, e);
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
        const struct pg_param params[] = {pg_int(&n, r->number), pg_bool(true)};
        rollout__ask(r, &rollout__end, params, 2, on_current);
        return;
    }
    struct stop *s = &r->stops.p[r->at];
    const struct pg_param params[] = {pg_int(&n, r->number), pg_text(str_of(s->hub))};
    set_state(r, s, STOP_TURN, NULL);
    rollout__ask(r, &stmt_turn, params, 2, on_turn);
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
            } else if (r->dry_run) {
                set_state(r, s, STOP_PLANNED, NULL);
            }
        }
    }
    if (r->dry_run) {
        rollout__finish(r, NULL);
    } else {
        next_stop(r);
    }
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
    struct arena a = {0};
    const struct json *said = rollout__said_by(s, &a), *plugins = json_get(said, "plugins");
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
        struct arena a = {0};
        bool gone = i == pg_rows(res) || str_eqz(pg_get(res, i, 1), "lost");
        if (!gone && pg_get_int(res, i, 3) == r->number) {
            take_answer(s, pg_get(res, i, 4));
        }
        if (str_eqz(json_str(json_get(rollout__said_by(s, &a), "state"), ""), "rolled_back")) {
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
        rollout__finish(r, NULL);
    }
}

static void on_rows(void *arg, const struct pg_result *res, const struct err *e)
{
    struct rollout *r = arg;
    if (!rollout__succeeded(r, e)) {
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

void rollout__list_hubs(struct rollout *r)
{
    assert(r->stops.n == 0);
    r->phase = PHASE_LIST;
    rollout__ask(r, &stmt_rows, NULL, 0, on_rows);
}

void rollout__look(struct rollout *r)
{
    assert(r->phase >= PHASE_TURN);
    if (r->phase == PHASE_WATCH) {
        count_errors(r);
    } else {
        rollout__ask(r, &stmt_rows, NULL, 0, on_rows);
    }
}
