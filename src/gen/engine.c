// Requests, runs and sources: what waits for what.
//
//     gen_request() ──> queue, folded ──> begin: prepare() each source ──> enough ready ──> gen__turn()
//          ▲                                                                                   │
//          └──────────────── next of the queue, or a source that was left behind <── finish ───┘
//
// One run at a time. A request that comes during a run waits in the queue, together with all others of
// the same flags, and they share one run and one report. "Enough" is every source for a reload that
// someone asked for. For the watcher it is the first source with something to stage: a slow one is
// *owed* a run, which begins by itself as soon as it is ready, so that it holds up no other and is not
// forgotten.
//
// Invariants:
//   - `run` exists exactly while `phase` is PREPARE, TURN or LIFE.
//   - `again` is set only on a source that prepares; `owed` stays until the source took part in a
//     commit.
//   - callbacks of callers run from tasks of the loop, never inside gen_request().

#include "gen/engine.h"

#include <assert.h>

#include "base/log.h"
#include "base/time.h"
#include "gen/gen_int.h"

static void begin(void *arg);

void gen__schedule(struct gen_engine *e)
{
    if (e->begin_task == NULL && !e->closing) {
        e->begin_task = loop_defer(e->loop, begin, e);
    }
}

// ---- runs ---------------------------------------------------------------------------------

static struct gen_run *run_new(const struct gen_request *req)
{
    struct gen_run *run = xcalloc(1, sizeof *run);
    run->req = *req;
    run->req.names = NULL;
    run->req.n_names = 0;
    run->req.wait_all |= req->dry_run;
    return run;
}

static void names_free(struct gen_run *run)
{
    for (size_t i = 0; i < run->req.n_names; i++) {
        free((void *)(uintptr_t)run->req.names[i].p);
    }
    free((void *)(uintptr_t)run->req.names);
    run->req.names = NULL;
    run->req.n_names = 0;
}

/// Both together; no names means all.
static void names_merge(struct gen_run *run, const struct gen_request *req, bool first)
{
    if (req->n_names == 0 || (!first && run->req.n_names == 0)) {
        names_free(run);
        return;
    }
    size_t n = run->req.n_names;
    struct str *all = xcalloc(n + req->n_names, sizeof *all);
    if (n != 0) {
        memcpy(all, run->req.names, n * sizeof *all);
    }
    free((void *)(uintptr_t)run->req.names);
    for (size_t i = 0; i < req->n_names; i++) {
        size_t k = 0;
        while (k < n && !str_eq(all[k], req->names[i])) {
            k++;
        }
        if (k == n) {
            all[n++] = (struct str){str_dup(req->names[i]), req->names[i].n};
        }
    }
    run->req.names = all;
    run->req.n_names = n;
}

static void run_free(struct gen_run *run)
{
    names_free(run);
    gen_unpin(run->old);
    gen_unpin(run->made);
    gen__stage_fini(&run->stage);
    vec_fini_each(&run->faults, gen__diag_free);
    vec_fini(&run->waiters);
    free(run);
}

static void answer(struct gen_run *run, const struct gen_report *r)
{
    vec_foreach (waiter, &run->waiters) {
        waiter->cb(r, waiter->arg);
    }
}

// ---- prepare ------------------------------------------------------------------------------

/// Take the turn as soon as enough sources are ready.
static void check_ready(struct gen_engine *e)
{
    bool all = true, some = e->queue != NULL; // the next run does not wait for a slow source
    if (e->phase != PHASE_PREPARE || e->turn_task != NULL) {
        return;
    }
    vec_foreach (src, &e->sources) {
        bool ready = (*src)->state == SOURCE_READY;
        all = all && ready;
        some = some || (ready && (*src)->something);
    }
    if (all || (some && !e->run->req.wait_all) || e->run->owed) {
        e->turn_task = loop_defer(e->loop, gen__turn, e);
    }
}

static void prepare(struct gen_source *src, const struct gen_request *req)
{
    src->state = SOURCE_PREPARING;
    src->ops->prepare(src->arg, src, req);
}

// ---- a run's beginning and end ------------------------------------------------------------

/// The first of the queue, else one for the sources that are owed it; NULL: there is nothing to do.
static struct gen_run *next_run(struct gen_engine *e)
{
    struct gen_run *run = e->queue;
    bool ready = false, idle = false;
    if (run != NULL) {
        e->queue = run->next;
        run->next = NULL;
        return run;
    }
    vec_foreach (src, &e->sources) {
        ready = ready || ((*src)->owed && (*src)->state == SOURCE_READY);
        idle = idle || ((*src)->owed && (*src)->state == SOURCE_IDLE);
    }
    if (ready || idle) {
        run = run_new(&(struct gen_request){.trigger = "watch"});
        run->owed = ready; // one that is idle has to look again
    }
    return run;
}

static void begin(void *arg)
{
    struct gen_engine *e = arg;
    e->begin_task = NULL;
    if (e->phase == PHASE_LIFE && e->queue != NULL) { // units are told only: park the run
        e->run->next = e->parked;
        e->parked = e->run;
        e->run = NULL;
        e->phase = PHASE_IDLE;
    }
    if (e->phase != PHASE_IDLE) {
        return;
    }
    assert(e->run == NULL);
    e->run = next_run(e);
    if (e->run == NULL) {
        return;
    }
    e->phase = PHASE_PREPARE;
    e->run->began_ns = time_mono_ns();
    for (size_t i = 0; i < e->sources.n && !e->run->owed; i++) {
        struct gen_source *src = e->sources.p[i];
        if (src->state == SOURCE_PREPARING) {
            src->again = true;
        } else {
            prepare(src, &e->run->req);
        }
    }
    check_ready(e);
}

/// No run is under way, and no lifecycle call of one.
static bool is_at_rest(const struct gen_engine *e)
{
    return e->phase == PHASE_IDLE && e->parked == NULL;
}

/// Answer the requests. A report that is older than the last one is theirs alone.
static void report(struct gen_engine *e, struct gen_run *run)
{
    struct gen_report *r = gen__report_new(e, run);
    bool newest = e->last == NULL || r->generation >= e->last->generation;
    size_t n[GEN_HELD + 1] = {0};
    if (newest) {
        gen__report_free(e->last);
        e->last = r;
    }
    for (size_t i = 0; i < r->n_rows; i++) {
        n[r->rows[i].state]++;
    }
    log_info(LOG_HUB,
             "generation=%llu trigger=%s added=%zu changed=%zu removed=%zu failed=%zu us=%llu",
             (unsigned long long)r->generation, r->trigger, n[GEN_ADDED], n[GEN_CHANGED],
             n[GEN_REMOVED], n[GEN_FAILED], (unsigned long long)r->duration_us);
    answer(run, r);
    if (!newest) {
        gen__report_free(r);
    }
}

void gen__finish(struct gen_engine *e, struct gen_run *run)
{
    report(e, run); // still in a phase of the run: closing the engine inside waits for us
    if (run != e->run) {
        struct gen_run **at = &e->parked;
        while (*at != run) {
            at = &(*at)->next;
        }
        *at = run->next;
    } else {
        e->run = NULL;
        e->phase = PHASE_IDLE;
    }
    run_free(run);
    if (!e->closing) {
        gen__schedule(e);
    } else if (is_at_rest(e)) {
        gen__life_stop(e);
    }
}

void gen__source_joined(struct gen_source *src, bool dry_run)
{
    if (src->state != SOURCE_READY) {
        src->owed = src->owed || src->state == SOURCE_PREPARING;
        return;
    }
    src->state = SOURCE_IDLE;
    src->something = false;
    src->owed = src->owed && dry_run;
    if (src->again) { // it committed what it found before it was asked again
        src->again = false;
        src->owed = true;
    }
}

// ---- the end ------------------------------------------------------------------------------

static void cancel_task(struct gen_engine *e, struct loop_task **task)
{
    if (*task != NULL) {
        loop_cancel(e->loop, *task);
        *task = NULL;
    }
}

void gen__stopped(struct gen_engine *e)
{
    gen__amend_flush(e);
    struct gen *last = e->current;
    for (size_t i = last->units.n; i-- > 0;) {
        gen__unit_stop(last->units.p[i]);
    }
    e->current = NULL;
    e->stopped = true;
    gen_unpin(last); // freed in the next turn; that frees the engine too
}

void gen__maybe_free(struct gen_engine *e)
{
    if (!e->stopped || e->alive != 0) {
        return;
    }
    vec_foreach (src, &e->sources) {
        if ((*src)->state == SOURCE_PREPARING) {
            return;
        }
    }
    vec_fini_each(&e->sources, free);
    gen__troubles_fini(&e->troubles);
    gen__report_free(e->last);
    gen__index_fini(&e->spare);
    vec_fini_each(&e->warnings, gen__diag_free);
    loop_fn *closed = e->closed;
    void *arg = e->closed_arg;
    free(e);
    if (closed != NULL) {
        closed(arg);
    }
}

static void refuse(void *arg)
{
    struct gen_waiter *waiter = arg;
    waiter->cb(NULL, waiter->arg);
    free(waiter);
}

// ---- public -------------------------------------------------------------------------------

void gen_prepared(struct gen_source *src, bool something)
{
    struct gen_engine *e = src->engine;
    assert(src->state == SOURCE_PREPARING);
    src->state = SOURCE_READY;
    src->something = src->something || something;
    if (e->closing) {
        gen__maybe_free(e);
    } else if (e->phase == PHASE_PREPARE && e->run->req.wait_all && src->again) {
        src->again = false;
        prepare(src, &e->run->req);
    } else if (e->phase == PHASE_PREPARE) {
        check_ready(e);
    } else {
        if (!src->something) { // late, and for nothing
            gen__source_joined(src, false);
        }
        gen__schedule(e);
    }
}

struct gen_engine *gen_open(struct loop *l, gen_event_cb *event, void *arg)
{
    struct gen_engine *e = xcalloc(1, sizeof *e);
    e->loop = l;
    e->event = event;
    e->event_arg = arg;
    gen__serve(e, gen__new(e, 0, NULL, 0));
    return e;
}

struct gen_source *gen_source_add(struct gen_engine *e, const struct gen_source_ops *ops, void *arg)
{
    assert(e->run == NULL && e->queue == NULL && e->last == NULL);
    struct gen_source *src = xcalloc(1, sizeof *src);
    src->engine = e;
    src->ops = ops;
    src->arg = arg;
    src->index = e->sources.n;
    vec_push(&e->sources, src);
    return src;
}

void gen_set_number(struct gen_engine *e, uint64_t number)
{
    assert(e->last_number == 0);
    e->last_number = number;
    e->current->number = number;
    gen__serve(e, e->current);
}

void gen_set_builtins(struct gen_engine *e, const char *const *names)
{
    e->builtins = names;
}

void gen_on_commit(struct gen_engine *e, gen_commit_cb *cb, void *arg)
{
    e->committed = cb;
    e->committed_arg = arg;
}

void gen_request(struct gen_engine *e, const struct gen_request *req, gen_report_cb *cb, void *arg)
{
    struct gen_waiter waiter = {cb, arg};
    struct gen_run **at = &e->queue;
    if (e->closing) {
        if (cb != NULL) {
            struct gen_waiter *copy = xmalloc(sizeof *copy);
            *copy = waiter;
            loop_defer(e->loop, refuse, copy);
        }
        return;
    }
    while (*at != NULL && ((*at)->req.dry_run != req->dry_run || (*at)->req.force != req->force)) {
        at = &(*at)->next;
    }
    bool shared = *at != NULL;
    if (!shared) {
        *at = run_new(req);
    }
    struct gen_run *run = *at;
    names_merge(run, req, !shared);
    if (req->wait_all && !run->req.wait_all) { // a request that waits names the run
        run->req.wait_all = true;
        run->req.trigger = req->trigger;
    }
    if (cb != NULL) {
        vec_push(&run->waiters, waiter);
    }
    gen__schedule(e);
    check_ready(e);
}

void gen__serve(struct gen_engine *e, struct gen *g)
{
    e->current = g;
    atomic_store_explicit(&e->serving, g->number, memory_order_relaxed);
}

uint64_t gen_serving(const struct gen_engine *e)
{
    return atomic_load_explicit(&e->serving, memory_order_relaxed);
}

struct gen *gen_current(struct gen_engine *e)
{
    if (e->current != NULL) {
        gen__amend_fold(e);
    }
    return e->current;
}

const struct gen_report *gen_last_report(const struct gen_engine *e)
{
    return e->last;
}

enum gen_state gen_state_of(const struct gen_engine *e, struct str name)
{
    for (size_t i = 0; i < e->troubles.n; i++) {
        const struct gen_trouble *t = &e->troubles.p[i];
        if (str_eqz(name, t->name) && t->state != GEN_KEPT) {
            return t->state;
        }
    }
    return e->current != NULL && gen_unit_find(e->current, name) != NULL ? GEN_LOADED : GEN_REMOVED;
}

bool gen_is_running(const struct gen_engine *e)
{
    return e->run != NULL;
}

static bool has_warning(const struct gen_diag *list, size_t n, const struct gen_diag *d)
{
    for (size_t i = 0; i < n; i++) {
        if (gen_diag_equal(&list[i], d)) {
            return true;
        }
    }
    return false;
}

void gen_warn(struct gen_engine *e, const struct gen_diag *d)
{
    if (has_warning(e->warnings.p, e->warnings.n, d)) {
        return;
    }
    gen_unwarn(e, d->code, d->path);
    vec_push(&e->warnings, gen_diag_copy(d));
    gen__event_error(e, d->plugin, d);
}

void gen_unwarn(struct gen_engine *e, enum gen_code code, const char *path)
{
    for (size_t i = 0; i < e->warnings.n; i++) {
        struct gen_diag *d = &e->warnings.p[i];
        if (d->code == code && str_eq(str_of(d->path), str_of(path))) {
            gen_diag_fini(d);
            vec_remove(&e->warnings, i);
            return;
        }
    }
}

static bool is_of(const struct gen_diag *d, const char *source)
{
    return d->source != NULL && strcmp(d->source, source) == 0;
}

bool gen_set_warnings(struct gen_engine *e, const char *source, const struct gen_diag *list,
                      size_t n)
{
    bool changed = false;
    for (size_t i = e->warnings.n; i-- > 0;) {
        struct gen_diag *d = &e->warnings.p[i];
        if (is_of(d, source) && !has_warning(list, n, d)) {
            gen_diag_fini(d);
            vec_remove(&e->warnings, i);
            changed = true;
        }
    }
    for (size_t i = 0; i < n; i++) {
        assert(is_of(&list[i], source));
        if (!has_warning(e->warnings.p, e->warnings.n, &list[i])) {
            vec_push(&e->warnings, gen_diag_copy(&list[i]));
            gen__event_error(e, NULL, &list[i]);
            changed = true;
        }
    }
    return changed;
}

void gen_close(struct gen_engine *e, loop_fn *done, void *arg)
{
    assert(!e->closing);
    e->closing = true;
    e->closed = done;
    e->closed_arg = arg;
    cancel_task(e, &e->begin_task);
    cancel_task(e, &e->turn_task);
    if (e->phase == PHASE_PREPARE) { // it did nothing yet: the last of those that never begin
        struct gen_run **at = &e->queue;
        while (*at != NULL) {
            at = &(*at)->next;
        }
        *at = e->run;
        e->run = NULL;
        e->phase = PHASE_IDLE;
    }
    while (e->queue != NULL) {
        struct gen_run *run = e->queue;
        e->queue = run->next;
        answer(run, NULL);
        run_free(run);
    }
    if (is_at_rest(e)) {
        gen__life_stop(e);
    } // else the run under way ends first
}
