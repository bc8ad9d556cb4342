// Lifecycle calls: telling units that they leave or have come, after it is true.
//
//     swap done ──> leave(u) for all that left ──> all answered ──> enter(u) for all that came
//                                                                    ──> all answered ──> report
//
// Each source has a deadline of its own for these calls; the engine waits for the answers and counts
// nothing but them. A fault is a line in the report: the new set serves already.
//
// Invariant: `life_left` is the number of calls without an answer, plus one while calls are being made.

#include <assert.h>

#include "gen/gen_int.h"

struct gen_life_call {
    struct gen_engine *engine;
    struct gen_unit *unit; // with a reference
};

typedef void life_fn(void *arg, struct gen_unit *u, enum gen_reason why,
                     struct gen_life_call *call);

static void call_done(struct gen_engine *e);

static void make_call(struct gen_engine *e, life_fn *fn, struct gen_unit *u, enum gen_reason why)
{
    if (fn == NULL) {
        return;
    }
    struct gen_life_call *call = xmalloc(sizeof *call);
    *call = (struct gen_life_call){.engine = e, .unit = gen__unit_ref(u)};
    e->life_left++;
    fn(u->owner->arg, u, why, call);
}

static void leave_all(struct gen_engine *e)
{
    e->phase = PHASE_LEAVE;
    e->life_left = 1;
    vec_foreach (c, &e->run->stage.changes) {
        if (c->old != NULL) {
            make_call(e, c->old->owner->ops->leave, c->old, c->why);
        }
    }
    call_done(e);
}

static void enter_all(struct gen_engine *e)
{
    e->phase = PHASE_ENTER;
    e->life_left = 1;
    vec_foreach (c, &e->run->stage.changes) {
        if (c->new != NULL) {
            make_call(e, c->new->owner->ops->enter, c->new,
                      c->old != NULL ? GEN_RELOAD : GEN_START);
        }
    }
    call_done(e);
}

static void call_done(struct gen_engine *e)
{
    static void (*const next[])(struct gen_engine *) = {
        [PHASE_LEAVE] = enter_all,
        [PHASE_ENTER] = gen__finish,
        [PHASE_STOP] = gen__stopped,
    };
    assert(e->life_left != 0);
    if (--e->life_left == 0) {
        next[e->phase](e);
    }
}

static void note_fault(struct gen_engine *e, const struct gen_unit *u, const struct gen_diag *fault)
{
    struct gen_diag d = *fault;
    d.plugin = u->name;
    d.path = d.path != NULL ? d.path : u->path;
    if (e->run != NULL) {
        vec_push(&e->run->faults, gen_diag_copy(&d));
    }
    gen__event_error(e, u->name, NULL, &d);
}

void gen__life_begin(struct gen_engine *e)
{
    leave_all(e);
}

void gen__life_stop(struct gen_engine *e)
{
    e->phase = PHASE_STOP;
    e->life_left = 1;
    for (size_t i = e->current->units.n; i-- > 0;) { // last come, first to go
        struct gen_unit *u = e->current->units.p[i];
        make_call(e, u->owner->ops->leave, u, GEN_STOP);
    }
    call_done(e);
}

void gen_life_done(struct gen_life_call *call, const struct gen_diag *fault)
{
    struct gen_engine *e = call->engine;
    if (fault != NULL) {
        note_fault(e, call->unit, fault);
    }
    gen__unit_unref(call->unit);
    free(call);
    call_done(e);
}

const char *gen_reason_name(enum gen_reason reason)
{
    static const char *const names[] = {
        [GEN_START] = "start",     [GEN_RELOAD] = "reload", [GEN_REMOVE] = "remove",
        [GEN_DISABLE] = "disable", [GEN_STOP] = "stop",
    };
    return names[reason];
}
