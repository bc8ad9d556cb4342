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

#include "base/random.h"
#include "config/home.h"
#include "fleet/rollout_int.h"

enum { POLL_MS = 100, READY_MS = 10 * 1000 };

const struct pg_stmt rollout__end = {"plugin_end", "SELECT afloat.plugin_end($1, $2)"};

const char *const rollout__stop_names[] = {
    [STOP_WAITS] = "skipped",    [STOP_TURN] = "lost",       [STOP_COMMITTED] = "committed",
    [STOP_BACK] = "rolled_back", [STOP_SKIPPED] = "skipped", [STOP_LOST] = "lost",
    [STOP_PLANNED] = "planned",
};

// ---- the end ----------------------------------------------------------------------------------------

const struct json *rollout__said_by(const struct stop *s, struct arena *a)
{
    struct json *v = NULL;
    return s->answer != NULL && json_parse(&v, a, str_of(s->answer), NULL, NULL) == 0 ? v : NULL;
}

/// The row of a hub: what it said, but for what we know better.
static void write_stop(struct jw *w, const struct stop *s, const struct json *said)
{
    jw_obj(w);
    jw_kstrz(w, "name", s->hub);
    jw_kstrz(w, "state", rollout__stop_names[s->state]);
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

/// What the set has other than the last one.
static void write_changes(struct jw *w, const struct rollout *r)
{
    const struct plugin_set *both[] = {&r->set, &r->base};
    jw_karr(w, "changes");
    for (size_t k = 0; k < ARRAY_LEN(both); k++) {
        vec_foreach (it, &both[k]->items) {
            const struct set_item *now = plugin_set_find(&r->set, it);
            const struct set_item *before = plugin_set_find(&r->base, it);
            bool same = now != NULL && before != NULL && strcmp(now->hash, before->hash) == 0;
            if (same || (k == 1 && now != NULL)) {
                continue;
            }
            jw_obj(w);
            jw_kstrz(w, "plugin", it->place);
            if (it->project != NULL) {
                jw_kstrz(w, "project", it->project);
            }
            jw_kstrz(w, "change", before == NULL ? "added" : now != NULL ? "changed" : "removed");
            jw_end_obj(w);
        }
    }
    jw_end_arr(w);
}

static void answer(struct rollout *r, const struct err *e)
{
    struct arena a = {0};
    struct buf out = {.max = SIZE_MAX};
    bool ok = r->stopped == NULL && e == NULL;
    struct jw w = {.out = &out};
    jw_obj(&w);
    jw_karr(&w, "hubs");
    vec_foreach (s, &r->stops) {
        const struct json *said = rollout__said_by(s, &a);
        ok = ok && json_get(said, "conflicts") == NULL;
        write_stop(&w, s, said);
    }
    jw_end_arr(&w);
    if (r->dry_run) {
        write_changes(&w, r);
    }
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
    vec_fini_each(&r->names, free);
    channel_paths_fini(&r->paths);
    channel_blobs_fini(&r->blobs);
    plugin_set_fini(&r->set);
    plugin_set_fini(&r->base);
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

void rollout__finish(struct rollout *r, const struct err *e)
{
    struct fleet *f = r->f;
    assert(!r->over && f->rollout == r);
    r->over = true;
    f->rollout = NULL;
    timer_stop(&r->tick);
    answer(r, e);
    if (e != NULL && r->number != 0) {
        struct pg_number n;
        const struct pg_param params[] = {pg_int(&n, r->number), pg_bool(false)};
        channel__ask(f, &rollout__end, params, 2, on_ended, f);
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
        rollout__finish(r, &e);
    }
}

int64_t rollout__previous(const struct fleet *f, int64_t number, int64_t now)
{
    return f->rollout != NULL && f->rollout->number == number ? f->rollout->previous : now;
}

bool rollout__answered(struct rollout *r)
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

bool rollout__succeeded(struct rollout *r, const struct err *e)
{
    bool waits = rollout__answered(r);
    if (waits && e != NULL) {
        rollout__finish(r, e);
    }
    return waits && e == NULL;
}

void rollout__ask(struct rollout *r, const struct pg_stmt *stmt, const struct pg_param *params,
                  int n, pg_cb *cb)
{
    assert(!r->asked && !r->over);
    r->asked = true;
    pg_query(r->f->hub.pg, CHANNEL_KEY, stmt, params, n, cb, r);
}

// ---- the beginning ----------------------------------------------------------------------------------

static void begin(struct rollout *r)
{
    struct fleet *f = r->f;
    struct err e;
    if (f->channel.loaded && !f->channel.busy && f->channel.looks > r->looks) {
        rollout__send(r);
    } else if (loop_now(f->o.loop) - r->since > READY_MS) {
        err_set(&e, ERR_CONFLICT, "this hub is still taking plugins over; try again later");
        rollout__finish(r, &e);
    } else {
        timer_start(&r->tick, POLL_MS);
    }
}

static void on_tick(void *arg)
{
    struct rollout *r = arg;
    if (r->phase == PHASE_READY) {
        begin(r);
    } else {
        rollout__look(r);
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

void fleet_roll_out(struct fleet *f, const struct fleet_roll *what, fleet_rolled_cb *cb, void *arg)
{
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
                          .previous = what->previous,
                          .dry_run = what->dry_run,
                          .looks = f->channel.looks + f->channel.looking,
                          .home = xstrdup(f->o.home->dir),
                          .since = loop_now(f->o.loop),
                          .cb = cb,
                          .arg = arg};
    for (size_t i = 0; i < what->n_names; i++) {
        vec_push(&r->names, str_dup(what->names[i]));
    }
    random_hex(r->token, sizeof r->token);
    f->rollout = r;
    f->n_asked++;
    timer_init(&r->tick, f->o.loop, on_tick, r);
    timer_start(&r->tick, 0);
    channel__look(f); // we publish on top of what is current now
}
