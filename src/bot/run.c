// A run: the machine. Its steps are in run_start.c (until the first iteration), run_iterate.c (one session after
// the other), run_end.c (the work is kept) and run_undo.c (it never began); this file moves it from step to
// step, stops it and speaks to it.
//
// Invariants:
//   - a run is in bots.runs from its making to its end: that is the lease on its worktree.
//   - its record is on disk, `running`, before there is a worktree, and `ended` after that is gone. Whatever
//     kills the hub in between is seen at the next start (recover.c).
//   - every session that was made is closed, whatever the way out; so is every run, by RECORD or UNNOTE.
//   - what others call back is counted in `n_away`; memory goes when all of it came.

#include <assert.h>
#include <stdarg.h>

#include "base/log.h"
#include "base/path.h"
#include "base/utf8.h"
#include "bot/prompt.h"
#include "bot/run_int.h"
#include "config/home.h"
#include "fleet/fleet.h"
#include "loop/proc.h"
#include "proto/events.h"

static const struct {
    const char *name;
    void (*run)(struct run *r);
    bool iterates;
} steps[] = {
#define X(id, name, iterates) [RUN_##id] = {#name, run__##name, iterates},
    RUN_STEPS(X)
#undef X
};

// ---- from step to step --------------------------------------------------------------------------

static void on_next(void *arg)
{
    struct run *r = arg;
    r->next = NULL;
    assert(!r->over && r->step < ARRAY_LEN(steps));
    r->step = r->lost ? RUN_DROP : r->step;
    if (r->stop_wanted && steps[r->step].iterates) {
        run__end(r, "interrupted");
        return;
    }
    log_debug(LOG_BOT, "run=%s step=%s", r->rec.run_id, steps[r->step].name);
    steps[r->step].run(r);
}

void run__go(struct run *r, enum run_step step)
{
    assert((size_t)step < ARRAY_LEN(steps));
    assert(r->next == NULL && !r->over); // one step after the other
    r->step = step;
    r->next = loop_defer(r->b->loop, on_next, r);
}

void run__end(struct run *r, const char *reason)
{
    assert(reason[0] != '\0' && !r->in_turn);
    if (r->rec.end_reason[0] == '\0') {
        r->rec.end_reason = reason;
    }
    if (r->starter != NULL) { // stopped before its first session: there is nothing to keep
        run__abort(r, &(struct agent_no){0});
        return;
    }
    run__go(r, RUN_KEEP);
}

// ---- its life -----------------------------------------------------------------------------------

struct run *run__new(struct bots *b, struct record *rec)
{
    assert(record_id_valid(str_of(rec->run_id)) && !b->stopping);
    struct run *r = xcalloc(1, sizeof *r);
    r->b = b;
    r->rec = *rec;
    record_init(rec);
    r->asked = (struct bot_overrides)BOT_OVERRIDES;
    r->umask = proc_umask();
    buf_init(&r->prompt, BOT_PROMPT_BYTES);
    buf_init(&r->input, SIZE_MAX);
    buf_init(&r->answer, SIZE_MAX);
    vec_push(&b->runs, r);
    return r;
}

static void run_free(struct run *r)
{
    assert(r->over && r->n_away == 0 && r->watches.n == 0 && r->next == NULL);
    record_fini(&r->rec);
    workspace_fini(&r->ws);
    run__lore_free(r->lore);
    run__lore_free(r->fresh);
    buf_fini(&r->prompt);
    buf_fini(&r->input);
    buf_fini(&r->answer);
    arena_fini(&r->arena);
    vec_fini(&r->awaiting);
    vec_fini(&r->watches);
    free(r->former);
    free(r);
}

void run__away(struct run *r)
{
    r->n_away++;
}

void run__back(struct run *r)
{
    assert(r->n_away != 0);
    if (--r->n_away == 0 && r->over) {
        run_free(r);
    }
}

struct path_ask {
    struct run *r;
    char *path;
    bool (*ask)(const char *path);
    void (*then)(struct run *r, const char *path, bool answer);
    bool answer;
};

static void ask_path(void *arg) // on the lane
{
    struct path_ask *q = arg;
    q->answer = q->ask(q->path);
}

static void on_path(void *arg)
{
    struct path_ask *q = arg;
    struct run *r = q->r;
    q->then(r, q->path, q->answer);
    free(q->path);
    free(q);
    run__back(r);
}

void run__ask_path(struct run *r, char *path, bool (*ask)(const char *path),
                   void (*then)(struct run *r, const char *path, bool answer))
{
    struct path_ask *q = xmalloc(sizeof *q);
    *q = (struct path_ask){.r = r, .path = path, .ask = ask, .then = then};
    run__away(r);
    work_submit(r->b->lane, 0, ask_path, on_path, q);
}

void run__leave(struct run *r)
{
    struct bots *b = r->b;
    assert(!r->over && r->awaiting.n == 0 && r->starter == NULL);
    vec_drop(&b->runs, r);
    timer_stop(&r->timer);
    run__unwatch(r);
    r->over = true;
    run__away(r);
    run__back(r); // now, unless a callback is still to come
    bots__check_idle(b);
}

void run__leave_alone(struct run *r)
{
    assert(r->b->stopping);
    vec_foreach (a, &r->awaiting) {
        ask__no(*a, PROBLEM_STOPPING, "it continues; ask again when the hub is back",
                "the hub stops before run '%s' has ended", r->rec.run_id);
    }
    r->awaiting.n = 0;
    run__leave(r);
}

// ---- what all steps need ------------------------------------------------------------------------

void run__note(struct run *r, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    vec_foreach (note, &r->rec.notes) {
        if (strcmp(*note, text) == 0) { // it may be found again in each of thousands of iterations
            return;
        }
    }
    if (r->rec.notes.n >= RUN_NOTES) {
        return;
    }
    record_add(&r->rec, &r->rec.notes, str_of(text));
}

static void on_removed(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    r->job = NULL;
    turnstile_leave(&r->b->trees, r);
    if (status == 0) {
        bots__tell_worktree(r->b, BOTS_TREE_GONE, r->rec.worktree, r->rec.branch,
                            r->rec.repository);
    }
    r->removed(r, status, e);
    run__back(r);
}

static void remove_tree(void *arg)
{
    struct run *r = arg;
    struct git_worktree w = run__worktree(r);
    r->job = git_remove(r->b->git, &w, on_removed, r);
}

void run__remove_tree(struct run *r, git_done_cb *done)
{
    assert(r->job == NULL && r->b->git != NULL && !r->rec.in_place);
    r->removed = done;
    run__away(r);
    turnstile_enter(&r->b->trees, r->rec.common, remove_tree, r);
}

struct saving {
    struct run *r;
    store_done *done;
};

static void on_saved(void *arg, int status, const struct err *e)
{
    struct saving s = *(struct saving *)arg;
    free(arg);
    if (status < 0) {
        log_error(LOG_BOT, "run=%s record=failed reason=%s", s.r->rec.run_id,
                  LOGQ(str_of(e->msg)).z);
    }
    if (s.done != NULL) {
        s.done(s.r, status, e);
    }
    run__back(s.r);
}

void run__save(struct run *r, store_done *done)
{
    char *name = record_name(&r->rec), *text = record_print(&r->rec);
    struct saving *s = xmalloc(sizeof *s);
    *s = (struct saving){.r = r, .done = done};
    run__away(r);
    if (fleet_shared(r->b->o.fleet)) {
        run__save_shared(r, on_saved, s);
    } else {
        store_doc_put(r->b->store, str_of(name), str_of(text), on_saved, s);
    }
    free(text);
    free(name);
}

void run__alarm(struct run *r, uint64_t ms, timer_cb *cb)
{
    assert(cb != NULL && !r->over);
    timer_stop(&r->timer);
    timer_init(&r->timer, r->b->loop, cb, r);
    timer_start(&r->timer, ms);
}

void run__lore_free(struct run_lore *l)
{
    if (l != NULL) {
        catalog_fini(&l->catalog);
        skillset_fini(&l->skills);
        memory_fini(&l->memory);
        free(l);
    }
}

struct git_worktree run__worktree(struct run *r)
{
    return record_worktree(&r->rec, r->b->home, &r->arena);
}

const struct bot_config *run__config(const struct run *r)
{
    return r->lore != NULL ? &r->lore->bot->config : NULL;
}

bool run__is_terminal(const struct run *r)
{
    return r->rec.terminal[0] != '\0';
}

// ---- stop ---------------------------------------------------------------------------------------

static void on_stop_session(void *arg, struct session *s, const struct agent_no *no)
{
    struct run *r = arg;
    (void)no;
    if (s != NULL) {
        agent_interrupt(s);
    }
    if (s != NULL && r->lost) {
        agent_interrupt(s); // its commands are killed
    }
    run__back(r);
}

/// The turn did not end in time: end the run without it. Its processes end by themselves, a late answer is ignored.
static void on_grace(void *arg)
{
    struct run *r = arg;
    if (r->in_turn) {
        log_warn(LOG_BOT, "run=%s turn=abandoned", r->rec.run_id);
        run__note(r, "the last turn did not end in time");
        r->in_turn = false;
        run__cancel_push(r);
        run__end(r, "interrupted");
    }
}

void run_stop(struct run *r, bool force)
{
    r->forced = r->forced || force || r->stop_wanted;
    r->stop_wanted = true;
    if (r->unsaved) { // the hub goes: the next one finds the record as it is, and ends the run again
        run__leave(r);
        return;
    }
    if (r->forced || r->step == RUN_SHARE) {
        run__cancel_push(r);
    }
    if (r->step == RUN_PTY && r->next == NULL) {
        run__stop_terminal(r);
    } else if (r->step == RUN_CHAT && r->next == NULL) {
        run__stop_chat(r);
    } else if (r->in_turn) {
        run__alarm(r, r->forced ? RUN_HURRY_MS : RUN_GRACE_MS, on_grace);
        run__away(r);
        agent_session_get(r->b->o.agent, str_of(r->session), on_stop_session, r);
    } else if (r->resting) {
        run__wake(r);
    } else if (r->call != NULL) {
        tool_job_cancel(r->call);
    } else if (r->step == RUN_TREE && r->job != NULL) {
        git_cancel(r->job);
    }
}

void run_await(struct run *r, struct ask *a)
{
    assert(!r->over && !r->unsaved);
    vec_push(&r->awaiting, a);
}

// ---- what is said to it -------------------------------------------------------------------------

struct saying {
    struct run *r;
    struct ask *a;
};

static void answer_taken(struct ask *a, const char *how)
{
    jw_obj(&a->w);
    jw_kstrz(&a->w, "taken", how);
    jw_end_obj(&a->w);
    ask__answer(a);
}

void run__add_input(struct run *r, struct str text)
{
    if (r->input.n != 0 && text.n != 0) {
        buf_addc(&r->input, '\n');
    }
    buf_adds(&r->input, text);
}

static void queue_input(struct run *r, struct ask *a)
{
    struct str text = ask__str(a, "text");
    if (r->rec.end_reason[0] != '\0') {
        ask__no(a, PROBLEM_CONFLICT, NULL, "run '%s' is ending: `%s %s --resume %s TEXT`",
                r->rec.run_id, "afloat run", r->rec.bot, r->rec.run_id);
        return;
    }
    if (r->input.n + text.n > RUN_INPUT) {
        ask__no(a, PROBLEM_TOO_LARGE, NULL, "more than %d bytes wait to be read", RUN_INPUT);
        return;
    }
    run__add_input(r, text);
    answer_taken(a, "queued");
    if (r->resting) {
        run__wake(r);
    }
}

static void on_steered(void *arg, const struct agent_no *no)
{
    struct saying s = *(struct saying *)arg;
    free(arg);
    if (no == NULL) {
        answer_taken(s.a, "steered");
    } else { // its turn has just ended
        queue_input(s.r, s.a);
    }
    run__back(s.r);
}

static void on_say_session(void *arg, struct session *s, const struct agent_no *no)
{
    struct saying *y = arg;
    if (s == NULL) {
        on_steered(y, no);
    } else {
        agent_steer(s, ask__str(y->a, "text"), on_steered, y);
    }
}

void run_say(struct run *r, struct ask *a)
{
    if (run__is_terminal(r)) {
        ask__no(a, PROBLEM_CONFLICT, "POST /pty/{id}/input types into a terminal",
                "run '%s' is that of a terminal: `afloat pty attach %s`", r->rec.run_id,
                r->rec.terminal);
        return;
    }
    if (r->rec.chat[0] != '\0') {
        ask__no(a, PROBLEM_CONFLICT, NULL,
                "run '%s' is that of a conversation: `afloat chat --resume %s`", r->rec.run_id,
                r->rec.chat);
        return;
    }
    if (!r->in_turn) {
        queue_input(r, a);
        return;
    }
    struct saying *s = xmalloc(sizeof *s);
    *s = (struct saying){.r = r, .a = a};
    run__away(r);
    agent_session_get(r->b->o.agent, str_of(r->session), on_say_session, s);
}

bool run_complete(struct run *r, struct str session, struct str summary, struct str action)
{
    if (!r->in_turn || !str_eqz(session, r->session)) {
        return false;
    }
    r->complete = true;
    r->rec.summary =
        record_text(&r->rec, (struct str){summary.p, utf8_cut(summary.p, summary.n, RUN_COMPLETE)});
    r->wish = record_text(&r->rec, action);
    return true;
}
