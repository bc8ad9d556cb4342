// Lifecycle calls: telling units that they leave or have come, after it is true.
//
//     swap done ──> leave(u) for all that left ──> all answered ──> enter(u) for all that came
//                                                                    ──> all answered ──> report
//
// Each source has a deadline of its own for these calls; the engine waits for the answers and counts
// nothing but them. A fault is a line in the report: the new set serves already. A run that is wanted
// meanwhile does not wait: the one whose calls are under way is parked, and its report comes later.
//
// Invariants:
//   - `life_left` is the number of calls without an answer, plus one while calls are being made.
//   - a unit is told that it leaves only if it was told that it came.

#include <assert.h>

#include "gen/gen_int.h"

struct gen_life_call {
    struct gen_engine *engine;
    struct gen_run *run;   // NULL: the engine closes
    struct gen_unit *unit; // with a reference
};

typedef void life_fn(void *arg, struct gen_unit *u, enum gen_reason why,
                     struct gen_life_call *call);

static size_t *left_of(struct gen_engine *e, struct gen_run *run)
{
    return run != NULL ? &run->life_left : &e->life_left;
}

static void make_call(struct gen_engine *e, struct gen_run *run, life_fn *fn, struct gen_unit *u,
                      enum gen_reason why)
{
    if (fn == NULL) {
        return;
    }
    struct gen_life_call *call = xmalloc(sizeof *call);
    *call = (struct gen_life_call){.engine = e, .run = run, .unit = gen__unit_ref(u)};
    ++*left_of(e, run);
    fn(u->owner->arg, u, why, call);
}

/// One answer less is missing. After all that left, those that came are told.
static void call_done(struct gen_engine *e, struct gen_run *run)
{
    size_t *left = left_of(e, run);
    assert(*left != 0);
    if (--*left != 0) {
        return;
    }
    if (run == NULL) {
        gen__stopped(e);
    } else if (run->entering) {
        gen__finish(e, run);
    } else {
        run->entering = true;
        run->life_left = 1;
        vec_foreach (c, &run->stage.changes) { // one that was replaced meanwhile is not told
            if (c->new != NULL && c->new->life == GEN_CURRENT && !e->closing) {
                c->new->entered = true;
                make_call(e, run, c->new->owner->ops->enter, c->new,
                          c->old != NULL ? GEN_RELOAD : GEN_START);
            }
        }
        call_done(e, run);
    }
}

void gen__life_begin(struct gen_engine *e)
{
    struct gen_run *run = e->run;
    e->phase = PHASE_LIFE;
    run->life_left = 1;
    vec_foreach (c, &run->stage.changes) {
        if (c->old != NULL && c->old->entered) {
            make_call(e, run, c->old->owner->ops->leave, c->old, c->why);
        }
    }
    call_done(e, run);
    if (e->phase == PHASE_LIFE && e->queue != NULL) {
        gen__schedule(e); // the next run does not wait for the lifecycle calls of this one
    }
}

void gen__life_stop(struct gen_engine *e)
{
    e->phase = PHASE_STOP;
    e->life_left = 1;
    for (size_t i = e->current->units.n; i-- > 0;) { // last come, first to go
        struct gen_unit *u = e->current->units.p[i];
        if (u->entered) {
            make_call(e, NULL, u->owner->ops->leave, u, GEN_STOP);
        }
    }
    call_done(e, NULL);
}

void gen_life_done(struct gen_life_call *call, const struct gen_diag *fault)
{
    struct gen_engine *e = call->engine;
    struct gen_run *run = call->run;
    if (fault != NULL) {
        struct gen_diag d = *fault;
        d.plugin = call->unit->name;
        d.path = d.path != NULL ? d.path : call->unit->path;
        if (run != NULL) {
            vec_push(&run->faults, gen_diag_copy(&d));
        }
        gen__event_error(e, d.plugin, &d);
    }
    gen__unit_unref(call->unit);
    free(call);
    call_done(e, run);
}

const char *gen_reason_name(enum gen_reason reason)
{
    static const char *const names[] = {
        [GEN_START] = "start",     [GEN_RELOAD] = "reload", [GEN_REMOVE] = "remove",
        [GEN_DISABLE] = "disable", [GEN_STOP] = "stop",
    };
    return names[reason];
}
