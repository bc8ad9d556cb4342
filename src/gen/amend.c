// Registrations after load, and choices: the small way to a new generation.
//
// A timer's callback may add a hook, a handler may take one back. What happens in one turn of the loop
// is one new generation with trigger "register":
//
//     first registration ── number taken ──> more registrations ──> end of the turn ── one event
//                                             └ gen_current() gives what is there so far, under the
//                                               number it will have
//
// Invariants:
//   - `amend_task` exists exactly from the first registration of a turn to its end.
//   - `amended` exactly while the current generation lacks something.

#include "gen/gen_int.h"

static void end_of_turn(void *arg)
{
    struct gen_engine *e = arg;
    e->amend_task = NULL;
    gen__amend_fold(e);
    gen__event_amended(e);
}

void gen__amend(struct gen_engine *e)
{
    e->amended = true;
    if (e->amend_task == NULL) {
        e->amend_task = loop_defer(e->loop, end_of_turn, e);
        e->amend_previous = e->current->number;
        e->amend_marks = e->current->marks;
        e->amend_number = ++e->last_number;
        e->amend_trigger = "register";
    }
}

void gen_bump(struct gen_engine *e, const char *trigger)
{
    if (e->current != NULL) {
        gen__amend(e);
        e->amend_trigger = trigger;
    }
}

void gen__amend_fold(struct gen_engine *e)
{
    if (!e->amended) {
        return;
    }
    struct gen *old = e->current;
    e->amended = false;
    gen__serve(e, gen__new(e, e->amend_number, old->units.p, old->units.n));
    gen_unpin(old);
}

void gen__amend_flush(struct gen_engine *e)
{
    if (e->amend_task != NULL) {
        loop_cancel(e->loop, e->amend_task);
        end_of_turn(e);
    }
}
