// The service of bots: its life, and what all of its operations share.
//
// The hub stops in two acts. bots_stop(): runs end as interrupted, their work committed to their branches, so
// what a person finds after a restart is the same as after Ctrl-C. bots_close(), when neither sessions nor
// clients can ask any more: everything that will call back was counted (bots__hold), operations on the lane or
// in git, tools; the last one takes threads and git along.

#include <assert.h>

#include "base/log.h"
#include "bot/bots_int.h"
#include "bot/record.h"
#include "bot/run_int.h"
#include "bot/runs_index.h"
#include "config/home.h"
#include "event/event.h"
#include "fleet/fleet.h"
#include "proto/events.h"

enum {
    THREADS = 4,      // a job may wait for a workspace's lock
    REMOTE_MS = 5000, // for a remote to answer, when the hub stops
};

// ---- refusals -----------------------------------------------------------------------------------

void bots__no_err(struct agent_no *no, const struct err *e)
{
    static const struct {
        int code;
        enum problem problem;
    } fits[] = {
        {ERR_NOT_FOUND, PROBLEM_NOT_FOUND},  {ERR_INVALID, PROBLEM_INVALID_BODY},
        {ERR_PARSE, PROBLEM_INVALID_BODY},   {ERR_CONFLICT, PROBLEM_CONFLICT},
        {ERR_DENIED, PROBLEM_UNTRUSTED},     {ERR_TOO_LARGE, PROBLEM_TOO_LARGE},
        {ERR_UNSUPPORTED, PROBLEM_CONFLICT}, {ERR_TIMEOUT, PROBLEM_CONFLICT},
        {UV_ECANCELED, PROBLEM_STOPPING},
    };
    enum problem p = PROBLEM_STORE_FAILED;
    for (size_t i = 0; i < ARRAY_LEN(fits); i++) {
        p = e->code == fits[i].code ? fits[i].problem : p;
    }
    agent_no_set(no, p, NULL, "%s", e->msg);
}

// ---- runs ---------------------------------------------------------------------------------------

struct run *bots__run_of(struct bots *b, struct str run_id)
{
    struct run *found = NULL;
    vec_foreach (r, &b->runs) {
        bool better = found == NULL || (*r)->rec.running; // it may have been resumed
        found = better && !(*r)->lost && str_eqz(run_id, (*r)->rec.run_id) ? *r : found;
    }
    return found;
}

bool bots__is_running(struct bots *b, struct str run_id)
{
    const struct run *r = bots__run_of(b, run_id);
    return r != NULL && r->rec.running;
}

bool bots__take_run(struct bots *b, struct str run_id)
{
    if (map_get(&b->busy, run_id) != NULL) {
        return false;
    }
    map_set(&b->busy, run_id, b);
    return true;
}

void bots__leave_run(struct bots *b, struct str run_id)
{
    assert(map_get(&b->busy, run_id) != NULL);
    map_remove(&b->busy, run_id);
}

struct jw bots__begin_event(const struct record *rec, struct buf *fields)
{
    struct jw w = {.out = fields};
    buf_init(fields, SIZE_MAX);
    jw_obj(&w);
    jw_kstrz(&w, "run_id", rec->run_id);
    jw_kstrz(&w, "bot", rec->bot);
    jw_kstrz(&w, "project", rec->project);
    return w;
}

void bots__emit(struct bots *b, enum event_id event, struct jw *w)
{
    jw_end_obj(w);
    event_emit_object(b->o.hub->events, event, w->out);
}

// ---- life ---------------------------------------------------------------------------------------

/// Is all over that bots_stop() or bots_close() waits for?
static bool is_over(const struct bots *b)
{
    return b->done != NULL && b->runs.n == 0 && (!b->closing || b->n_held == 0);
}

static void on_idle(void *arg)
{
    struct bots *b = arg;
    loop_fn *done = b->done;
    b->idle_task = NULL;
    if (!is_over(b)) {
        return;
    }
    if (b->closing) {
        lane_close(b->lane);
        git_close(b->git);
        b->lane = NULL;
        b->git = NULL;
    }
    b->done = NULL;
    done(b->done_arg);
}

void bots__check_idle(struct bots *b)
{
    if (is_over(b) && b->idle_task == NULL) {
        b->idle_task = loop_defer(b->loop, on_idle, b);
    }
}

void bots__hold(struct bots *b)
{
    b->n_held++;
}

void bots__release(struct bots *b)
{
    assert(b->n_held != 0);
    b->n_held--;
    bots__check_idle(b);
}

static void open_git(struct bots *b)
{
    char *tmp = xasprintf("%s/git", b->o.hub->home->state);
    struct git_config c = {
        .loop = b->loop, .home = b->home, .runtime = b->o.hub->home->runtime, .tmp_dir = tmp};
    if (git_open(&b->git, &c, &b->git_fault) < 0) {
        b->git = NULL;
        log_warn(LOG_BOT, "git=failed reason=%s", LOGQ(str_of(b->git_fault.msg)).z);
    }
    free(tmp);
}

struct bots *bots_open(const struct bots_opts *o)
{
    struct bots *b = xcalloc(1, sizeof *b);
    struct agent_kit kit = {.tools = bots_tools(),
                            .learn = bots__learn,
                            .stepped = bots__stepped,
                            .ended = bots__ended,
                            .arg = b};
    b->o = *o;
    b->home = o->hub->home->dir;
    b->loop = o->hub->loop;
    b->store = o->hub->store;
    b->shelf = store_shelf(b->store);
    assert(b->loop != NULL && o->agent != NULL && o->fleet != NULL);
    b->lane = lane_open(b->loop, "bots", THREADS);
    b->index = runs_index_new(b->home);
    open_git(b);
    agent_set_kit(o->agent, &kit);
    bots__join_fleet(b);
    agent_set_git(o->agent, b->git);
    bots__find_worktrees(b);
    return b;
}

void bots_stop(struct bots *b, loop_fn *done, void *arg)
{
    assert(!b->stopping && b->done == NULL && done != NULL);
    b->stopping = true;
    fleet_stop_taking(b->o.fleet);
    b->done = done;
    b->done_arg = arg;
    if (b->git != NULL) {
        git_hurry(b->git, REMOTE_MS);
    }
    for (size_t i = b->runs.n; i-- > 0;) { // one may end inside, and leave the list
        run_stop(b->runs.p[i], false);
    }
    bots__check_idle(b);
}

void bots_close(struct bots *b, loop_fn *done, void *arg)
{
    assert(b->stopping && !b->closing && b->done == NULL && done != NULL && b->runs.n == 0);
    b->closing = true;
    b->done = done;
    b->done_arg = arg;
    bots__check_idle(b);
}

void bots_free(struct bots *b)
{
    if (b != NULL) {
        assert(b->n_held == 0 && b->early.n == 0 && b->lane == NULL);
        map_fini(&b->busy);
        turnstile_fini(&b->trees);
        runs_index_free(b->index);
        vec_fini(&b->runs);
        vec_fini(&b->early);
        free(b);
    }
}
