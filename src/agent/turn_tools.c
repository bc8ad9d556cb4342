// The calls of a step: all go through the pipeline (tool_call.c) at the same time, and the model reads the
// results in the order of its calls.
//
// Invariants:
//   - `n_open` counts calls whose result is not on the disk yet; at 0 the turn continues, or ends when it was
//     interrupted. So the model never reads a result that the journal loses when the power fails.
//   - agent_kit.stepped, which keeps the work of a step, is done before the next step begins.
//   - a call is freed with its turn, not before: events of it may still be on their way into the journal.

#include <assert.h>

#include "agent/agent_int.h"
#include "base/time.h"

static void next_step(void *arg)
{
    struct turn *t = arg;
    if (turn__resume(t)) {
        turn__go(t, TURN_PROMPT);
    }
}

/// The result is in the journal and synced, or could not be written: the next step finds that out.
static void on_result_synced(void *arg, int status, const struct err *e)
{
    struct turn *t = arg;
    const struct agent_kit *kit = &t->s->agent->kit;
    (void)status;
    (void)e;
    assert(t->n_open != 0);
    if (--t->n_open != 0) {
        return;
    }
    if (t->s->role.run_id.n != 0 && kit->stepped != NULL) {
        kit->stepped(kit->arg, t->s, next_step, t);
    } else {
        next_step(t);
    }
}

void turn__note_result(struct tool_call *c, note_done *done, void *arg)
{
    struct turn *t = c->site->turn;
    int64_t ms = (int64_t)((time_mono_ns() - c->since_ns) / 1000000);
    const struct json *error = json_get(c->result, "error"); // a plugin may say null
    struct str why = json_str(error, NULL);
    bool success = json_bool(json_get(c->result, "success"), true);
    struct arena *a = &t->arena;
    struct note n;
    vec_push(&t->calls, ((struct agent_call){.id = arena_str(a, c->id),
                                             .tool = arena_str(a, c->name),
                                             .input = json_clone(a, tool_call_input(c)),
                                             .success = success,
                                             .error = why.p != NULL ? arena_str(a, why) : STR_NULL,
                                             .duration_ms = ms}));
    t->s->calls++;
    if (!c->noted) {
        done(arg, 0, NULL);
        return;
    }
    struct jw *w = note__begin(&n, t->s, t, EVENT_TOOL_COMPLETED);
    jw_kstr(w, "call_id", c->id);
    jw_kstr(w, "tool", c->name);
    jw_kstr(w, "output", json_get_text(c->result, "output"));
    jw_kbool(w, "success", success);
    jw_kvalue(w, "error", error);
    jw_kint(w, "duration_ms", ms);
    if (c->diff.n != 0) {
        jw_kstr(w, "diff", c->diff);
    }
    if (c->resolved_by != NULL) {
        jw_kstrz(w, "resolved_by", c->resolved_by);
    }
    if (c->pipe.args.point == POINT_TOOL_RESULT && c->pipe.changed_by.n != 0) {
        pipe_write_changed(&c->pipe, w);
    }
    note__end(&n, STORE_SYNCED, done, arg);
}

void turn__tell_result(struct tool_call *c)
{
    const struct json *r = c->result;
    talk_result(c->site->turn->s->talk, c->id, json_get_text(r, "output"),
                json_bool(json_get(r, "success"), true), json_get_text(r, "error"));
}

static void on_ended(struct tool_call *c)
{
    turn__tell_result(c);
    turn__note_result(c, on_result_synced, c->site->turn);
    tool_call__start_waiting(c->site);
}

void turn__tools(struct turn *t)
{
    assert(t->site.calls.n == 0 && t->n_open == 0);
    const struct json *calls = t->reply.calls;
    t->site.ended = on_ended;
    json_foreach_item (it, calls) {
        tool_call__new(&t->site, json_get_text(it, "id"), json_get(it, "input"));
    }
    t->n_open = t->site.calls.n;
    size_t n = t->n_open;
    // n_open is set: the step cannot end before the last one has begun
    for (size_t i = 0; i < n; i++) {
        const struct json *call = &calls->items[i], *bad = json_get(call, "bad_input");
        if (!t->site.calls.p[i]->over) {
            tool_call__begin(t->site.calls.p[i], json_get_text(call, "name"),
                             bad != NULL ? arena_strdup(&t->step_arena, json_str(bad, "")) : NULL);
        }
    }
}

void turn__cancel_tools(struct turn *t)
{
    for (size_t i = 0; i < t->site.calls.n; i++) {
        tool_call__cancel(t->site.calls.p[i]);
    }
}

void turn__retire_tools(struct turn *t)
{
    vec_foreach (c, &t->site.calls) {
        vec_push(&t->spent, *c);
    }
    t->site.calls.n = 0;
}

void turn__free_tools(struct turn *t)
{
    assert(t->n_open == 0);
    turn__retire_tools(t);
    vec_foreach (c, &t->spent) {
        tool_call__free(*c);
    }
    vec_fini(&t->spent);
}
