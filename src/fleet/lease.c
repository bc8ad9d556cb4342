// The runs that this hub holds, and taking more.
//
//     a ring, room, or every POLL_MS:
//       names of bots here (lane) ──> run_look ──> run_claim ──> runner.claimed, and again
//                                                     │
//                          held here and not there: lost <─┴─> held there and not here: given back
//
// One look renews the lease of all runs of this hub. A hub that got no answer for as long as the lease lasts
// cannot know whether another one has its runs: it gives them up before it asks again. So a hub that was stopped
// (SIGSTOP) or cut off gives up its runs as the first thing it does. A run that cannot move stays: no other hub
// takes it, and its files are nowhere else.
//
// Invariants:
//   - `leases` holds a run from the answer that gave it to this hub until it ends, is given back or lost.
//   - only runs that were held before a look was asked for can be missing in its answer.

#include "base/folder.h"
#include "base/log.h"
#include "base/path.h"
#include "config/config.h"
#include "config/home.h"
#include "fleet/fleet_int.h"

enum { POLL_MS = 500 };

static const struct pg_stmt stmt_look = {"run_look",
                                         "SELECT * FROM afloat.run_look($1, $2, $3, $4)"};
static const struct pg_stmt stmt_claim = {
    "run_claim", "SELECT id, epoch, body, env, lost FROM afloat.run_claim($1, $2, $3, $4)"};
static const struct pg_stmt stmt_return = {"run_return",
                                           "SELECT afloat.run_return($1, $2, $3, $4, $5)"};

// ---- the list -----------------------------------------------------------------------------------

static struct lease *find(struct fleet *f, struct str id)
{
    vec_foreach (l, &f->leases) {
        if (str_eqz(id, l->id)) {
            return l;
        }
    }
    return NULL;
}

void lease__add(struct fleet *f, struct str id, int64_t epoch)
{
    struct lease *l = find(f, id);
    if (l == NULL) {
        vec_push(&f->leases, ((struct lease){.id = str_dup(id)}));
        l = vec_last(&f->leases);
    }
    l->epoch = epoch;
    l->since = f->looks;
    l->stops = l->heard = 0;
}

void lease__drop(struct fleet *f, struct str id)
{
    struct lease *l = find(f, id);
    if (l != NULL) {
        free(l->id);
        vec_remove(&f->leases, (size_t)(l - f->leases.p));
    }
}

/// Give up the run: another hub has it, or may have it.
static void lose(struct fleet *f, size_t i, const char *why)
{
    char *id = f->leases.p[i].id;
    log_warn(LOG_BOT, "run=%s lease=lost reason=\"%s\"", id, why);
    vec_remove(&f->leases, i);
    f->runner.lost(f->runner.arg, str_of(id));
    free(id);
}

// ---- looking ------------------------------------------------------------------------------------

struct lease_look {
    struct fleet *f;
    uint64_t number, asked_ms;
    char *home;
    vec(char *) bots;
};

static void look_free(struct lease_look *k)
{
    free(k->home);
    vec_fini_each(&k->bots, free);
    free(k);
}

static void on_returned(void *arg, const struct pg_result *r, const struct err *e)
{
    (void)r;
    (void)e; // the next look finds it again
    fleet__answered(arg);
}

void fleet_run_return(struct fleet *f, struct str id, int64_t epoch, bool refuse)
{
    struct pg_number n[2];
    const struct pg_param params[] = {pg_text(id), pg_text(str_of(f->hub.name)),
                                      pg_int(&n[0], f->hub.epoch), pg_int(&n[1], epoch),
                                      pg_bool(refuse)};
    lease__drop(f, id);
    fleet__ask(f, &stmt_return, params, 5, on_returned, f);
}

/// Pass on what other hubs want of a run, once.
static void pass_on(struct fleet *f, struct lease *l, const struct pg_result *r, size_t i)
{
    int64_t stops = pg_get_int(r, i, 3), heard = pg_get_int(r, i, 4);
    struct str said = heard > l->heard ? pg_get(r, i, 5) : STR_NULL;
    bool first = stops > l->stops;
    l->stops = stops;
    l->heard = heard;
    if (first || said.n != 0) {
        f->runner.wanted(f->runner.arg, str_of(l->id), first ? (unsigned)stops : 0, said, heard);
    }
}

static bool is_listed(const struct pg_result *r, const struct lease *l)
{
    for (size_t i = 0; i < pg_rows(r); i++) {
        if (str_eqz(pg_get(r, i, 1), l->id) && pg_get_int(r, i, 2) == l->epoch) {
            return true;
        }
    }
    return false;
}

static void compare(struct fleet *f, uint64_t number, const struct pg_result *r)
{
    for (size_t i = f->leases.n; i-- > 0;) {
        if (f->leases.p[i].since < number && !is_listed(r, &f->leases.p[i])) {
            lose(f, i, "another hub has it");
        }
    }
    for (size_t i = 0; i < pg_rows(r); i++) {
        struct str id = pg_get(r, i, 1);
        struct lease *l = find(f, id);
        f->draining = pg_get_bool(r, i, 0);
        if (l != NULL && l->epoch == pg_get_int(r, i, 2)) {
            pass_on(f, l, r, i);
        } else if (l == NULL && id.n != 0 && !f->runner.has(f->runner.arg, id)) {
            fleet_run_return(f, id, pg_get_int(r, i, 2), false);
        }
    }
}

static void on_looked(void *arg, const struct pg_result *r, const struct err *e)
{
    struct lease_look *k = arg;
    struct fleet *f = k->f;
    if (e != NULL) {
        log_warn(LOG_BOT, "fleet=unreachable reason=%s", LOGQ(str_of(e->msg)).z);
    } else if (f->open) {
        f->renewed = k->asked_ms;
        compare(f, k->number, r);
    }
    look_free(k);
    fleet__answered(f);
}

static void on_claimed(void *arg, const struct pg_result *r, const struct err *e)
{
    struct fleet *f = arg;
    bool again = f->again;
    f->looking = f->again = false;
    if (e == NULL && pg_rows(r) == 1) {
        struct fleet_claim c = {.id = pg_get(r, 0, 0),
                                .epoch = pg_get_int(r, 0, 1),
                                .body = pg_get(r, 0, 2),
                                .env = pg_get(r, 0, 3),
                                .lost = pg_get_bool(r, 0, 4)};
        lease__add(f, c.id, c.epoch);
        f->runner.claimed(f->runner.arg, &c);
        again = again || find(f, c.id) != NULL; // else it was given back: not at once again
    }
    if (f->open) {
        timer_start(&f->tick, again ? 0 : POLL_MS);
    }
    fleet__answered(f);
}

static void read_bots(void *arg) // on the lane
{
    struct lease_look *k = arg;
    char *dir = path_join(k->home, "bots");
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        if (f.name[0] != '.') {
            vec_push(&k->bots, xstrdup(f.name));
        }
    }
    free(dir);
}

static void ask(void *arg)
{
    struct lease_look *k = arg;
    struct fleet *f = k->f;
    struct pg_number n[3];
    struct buf bots = {.max = SIZE_MAX};
    const struct pg_param look[] = {pg_text(str_of(f->hub.name)), pg_int(&n[0], f->hub.epoch),
                                    pg_int(&n[1], f->hub.lease_s),
                                    pg_int(&n[2], f->o.generation(f->o.arg))};
    if (!f->open) {
        f->looking = false;
        look_free(k);
        fleet__answered(f);
        return;
    }
    k->number = ++f->looks;
    k->asked_ms = loop_now(f->o.loop);
    pg_array_begin(&bots, k->bots.n);
    vec_foreach (b, &k->bots) {
        pg_array_add(&bots, str_of(*b));
    }
    fleet__ask(f, &stmt_look, look, 4, on_looked, k);
    struct pg_number room[2];
    const struct pg_param claim[] = {
        pg_text(str_of(f->hub.name)), pg_int(&room[0], f->hub.epoch), pg_array(&bots),
        pg_int(&room[1], config_int(f->o.config->now, "store.max_runs"))};
    fleet__ask(f, &stmt_claim, claim, 4, on_claimed, f);
    buf_fini(&bots);
    fleet__answered(f);
}

static void on_tick(void *arg)
{
    struct fleet *f = arg;
    if (loop_now(f->o.loop) - f->renewed > f->hub.lease_s * 1000ull) {
        for (size_t i = f->leases.n; i-- > 0;) {
            if (f->runner.moves(f->runner.arg, str_of(f->leases.p[i].id))) {
                lose(f, i, "the lease could not be renewed in time");
            }
        }
    }
    if (f->looking) { // its answer starts the next
        timer_start(&f->tick, POLL_MS);
        return;
    }
    struct lease_look *k = xcalloc(1, sizeof *k);
    k->f = f;
    k->home = xstrdup(f->o.home->dir);
    f->looking = true;
    f->n_asked++;
    work_submit(f->lane, 0, read_bots, ask, k);
    timer_start(&f->tick, POLL_MS);
}

void lease__look(struct fleet *f)
{
    f->again = f->looking; // its answer may be older than the reason to look
    if (f->open && !f->looking) {
        timer_start(&f->tick, 0);
    }
}

static void on_ring(void *arg, struct str what)
{
    struct fleet *f = arg;
    bool runs = str_eqz(what, "runs");
    if (runs || what.n == 0) {
        lease__look(f);
    }
    if (!runs) {
        channel__look(f);
    }
}

void fleet_take_runs(struct fleet *f)
{
    if (f->shared && !f->open) {
        f->open = true;
        f->renewed = loop_now(f->o.loop);
        timer_init(&f->tick, f->o.loop, on_tick, f);
        timer_start(&f->tick, 0);
        channel__open(f);
        store_on_ring(f->o.store, on_ring, f);
    }
}

void fleet_stop_taking(struct fleet *f)
{
    if (f->open) {
        f->open = false;
        timer_stop(&f->tick);
        store_on_ring(f->o.store, NULL, NULL);
        channel__close(f);
    }
}
