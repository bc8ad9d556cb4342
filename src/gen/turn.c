// One turn: stage, judge, commit, without returning to the loop.
//
//     stage(each ready source) ──> sweep ──┬── nothing changed ──> same generation
//                                          ├── dry run ──> build beside, abort ──> report
//                                          └── build beside ──> swap ──> stop old ──> start new
//                                                               │        ──> commit() ──> lifecycle
//                                                               └ the only moment at which callers
//                                                                 see a change
//
// Invariants:
//   - until the swap nothing of the old set was touched: no lifecycle call, no stop.
//   - the next generation is complete, indexes included, before it is the current one.
//   - every source that staged gets exactly one of commit() and abort() in this turn.

#include <assert.h>

#include "gen/gen_int.h"

typedef vec(struct gen_unit *) unit_list;

/// End the part of the ready sources in this turn: commit or abort, then they are free again.
static void end_ready(struct gen_engine *e, bool dry_run)
{
    vec_foreach (it, &e->sources) {
        struct gen_source *src = *it;
        if (src->state == SOURCE_READY && src->something) {
            void (*end)(void *arg) = dry_run ? src->ops->abort : src->ops->commit;
            if (end != NULL) {
                end(src->arg);
            }
        }
        gen__source_joined(src, dry_run);
    }
}

// ---- judge --------------------------------------------------------------------------------

static struct gen *build_next(struct gen_engine *e, struct gen_stage *s, uint64_t number)
{
    unit_list units = {0};
    vec_foreach (u, &e->current->units) {
        const struct gen_change *c = NULL;
        vec_foreach (it, &s->changes) {
            c = it->old == *u ? it : c;
        }
        if (c == NULL || c->new != NULL) {
            vec_push(&units, c == NULL ? *u : c->new); // in its place: nothing has to be sorted
        }
    }
    vec_foreach (c, &s->changes) {
        if (c->new != NULL) {
            c->new->revision = c->old != NULL ? c->old->revision + 1 : 1;
            c->new->seq = c->old != NULL ? c->old->seq : e->order++;
            c->new->since = number;
        }
        if (c->new != NULL && c->old == NULL) {
            vec_push(&units, c->new);
        }
    }
    struct gen *next = gen__new(e, number, units.p, units.n);
    vec_fini(&units);
    return next;
}

// ---- commit -------------------------------------------------------------------------------

static void swap(struct gen_engine *e, struct gen_run *run)
{
    struct gen_stage *s = &run->stage;
    run->old = e->current; // its pin goes over to the run
    gen__serve(e, gen_pin(run->made));
    run->committed = true;
    vec_foreach (c, &s->changes) {
        if (c->old != NULL) {
            gen__unit_stop(c->old);
        }
    }
    vec_foreach (c, &s->changes) {
        if (c->new != NULL) {
            gen__unit_start(c->new);
        }
    }
}

void gen__turn(void *engine)
{
    struct gen_engine *e = engine;
    struct gen_run *run = e->run;
    bool dry_run = run->req.dry_run;
    e->turn_task = NULL;
    e->phase = PHASE_TURN;
    gen__amend_flush(e);
    gen__stage_init(&run->stage, e, &run->req);
    vec_foreach (it, &e->sources) {
        if ((*it)->state == SOURCE_READY && (*it)->something) {
            run->stage.source = *it;
            (*it)->ops->stage((*it)->arg, &run->stage);
        }
    }
    run->stage.source = NULL;
    gen__stage_sweep(&run->stage);
    gen__amend_flush(e); // what running code registered for others meanwhile
    run->previous = e->current->number;
    if (run->stage.changes.n != 0) {
        run->made = build_next(e, &run->stage, e->last_number + 1);
    }
    if (dry_run) {
        end_ready(e, true);
        gen__finish(e, run);
        return;
    }
    if (run->made != NULL) {
        e->last_number++;
        swap(e, run);
    }
    gen__troubles before = e->troubles;
    e->troubles = run->stage.troubles;
    run->stage.troubles = before; // for telling what is new
    end_ready(e, false);
    gen__event_commit(e, run);
    gen__life_begin(e);
}
