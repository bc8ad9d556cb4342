// The work of a run on a remote ([worktree] remote): where it begins, after every step, and its end.
//
//     SHARE ─> SETUP, PTY, CHAT a step of a turn is over ─> push ─> the next step          KEEP ─> PUSH ─> REMOVE
//
// The next step waits for the push: what the journal says was done is on the remote, so another hub can go
// on from there. A push that fails is a note of the run and tried again after the next step; the run
// continues, since its worktree has everything.
//
// A remote may never answer. A push has two minutes, and those of later steps a few seconds until one arrives,
// so a dead remote does not stop the run. A stop by force ends the push at once, a hub that stops gives it a few
// seconds, and neither asks such a remote again. The branch is in the user's repository, and the next push of the
// run carries what this one did not.
//
// Invariants:
//   - one push at a time, and git pushes nothing while the work is kept: after a turn that was abandoned, KEEP
//     waits for git, and PUSH for the record.
//   - `rec.pushed` is on disk before the next push begins, so `--force-with-lease` always names what the
//     remote has, also after a restart; so is `rec.tried`, what it may have in its place. A hub that is
//     killed between a push and its record leaves neither, so a recovered run takes what it finds there for
//     its own if the repository has it (where hubs share a store, the next one asks the remote at the start).

#include <assert.h>

#include "base/log.h"
#include "bot/run_int.h"
#include "git/git.h"

enum {
    PUSH_MS = 120000,
    SILENT_MS = 15000, // after a push that the remote did not answer
};

#define NOT_THERE "its work is not on the remote"

static void resume(struct run *r)
{
    if (r->push.awaited) {
        r->push.awaited = false;
        run__go(r, r->step);
    }
}

static void finish(struct run *r)
{
    loop_fn *done = r->push.done;
    assert(done != NULL && r->push.job == NULL);
    r->push.done = NULL;
    resume(r);
    done(r->push.arg);
    run__back(r);
}

static void on_saved(void *arg, int status, const struct err *e)
{
    (void)status;
    (void)e; // logged; then the next push is refused, and says so
    finish(arg);
}

/// What the last push left to say is over.
static bool drop_note(struct run *r)
{
    for (size_t i = 0; i < r->rec.notes.n; i++) {
        if (str_starts(str_of(r->rec.notes.p[i]), NOT_THERE)) {
            vec_remove(&r->rec.notes, i);
            return true;
        }
    }
    return false;
}

/// Returns whether the record is to be written.
static bool take_failure(struct run *r, int status, const struct err *e, const char *commit)
{
    const char *why =
        status == UV_ECANCELED ? "the run was stopped before the remote answered" : e->msg;
    struct record_list *tried = &r->rec.tried;
    r->push.silent = status == UV_ECANCELED || status == ERR_TIMEOUT;
    log_warn(LOG_BOT, "run=%s push=failed reason=%s", r->rec.run_id, LOGQ(str_of(why)).z);
    drop_note(r);
    run__note(r, NOT_THERE ": %s", why);
    if (commit[0] != '\0') {
        // when there are too many, a later one goes: the first may have arrived, then the remote fell silent
        tried->n = MIN(tried->n, (size_t)RUN_TRIED - 1);
        record_add(&r->rec, tried, str_of(commit));
    }
    return commit[0] != '\0';
}

static bool take_success(struct run *r, const struct git_pushed *g)
{
    bool news = drop_note(r) || r->rec.tried.n != 0 || strcmp(r->rec.pushed, g->commit) != 0;
    r->push.silent = r->push.adopt = false;
    r->rec.tried.n = 0;
    r->rec.remote = record_text(&r->rec, str_of(g->url));
    r->rec.pushed = record_text(&r->rec, str_of(g->commit));
    return news;
}

static void on_pushed(void *arg, int status, const struct err *e, const struct git_pushed *g)
{
    struct run *r = arg;
    r->push.job = NULL;
    resume(r);
    bool news = status < 0 ? take_failure(r, status, e, g->commit) : take_success(r, g);
    if (news) {
        run__save(r, on_saved);
    } else {
        finish(r);
    }
}

/// A step waits for its push, and a remote that was silent before is likely to be silent again. The last push of
/// a run (not `live`) has all the time: no other follows that could carry the work.
static void push(struct run *r, bool live, loop_fn *done, void *arg)
{
    assert(r->push.done == NULL && done != NULL); // one after the other
    struct git_push o = {.of = run__worktree(r),
                         .remote = r->rec.remote,
                         .last = r->rec.pushed,
                         .tried = arena_list(&r->arena, r->rec.tried.p, r->rec.tried.n),
                         .adopt = r->push.adopt,
                         .message =
                             arena_printf(&r->arena, "work in progress of '%s'", r->rec.bot)};
    o.of.dir = live ? o.of.dir : NULL;
    run__away(r);
    r->push.done = done;
    r->push.arg = arg;
    r->push.job = git_push(r->b->git, &o, on_pushed, r);
    git_set_patience(r->push.job, live && r->push.silent ? SILENT_MS : PUSH_MS);
    git_set_umask(r->push.job, r->umask);
}

void run__cancel_push(struct run *r)
{
    if (r->push.job != NULL) {
        git_cancel(r->push.job);
    }
}

static bool has_remote(const struct run *r)
{
    return r->rec.remote[0] != '\0' && r->rec.start[0] != '\0' && r->b->git != NULL;
}

void bots__stepped(void *arg, struct session *s, loop_fn *done, void *done_arg)
{
    struct bots *b = arg;
    vec_foreach (it, &b->runs) {
        struct run *r = *it;
        if (r->in_turn && !r->lost && strcmp(r->session, agent_session_id(s)) == 0 &&
            has_remote(r)) {
            push(r, true, done, done_arg);
            return;
        }
    }
    loop_defer(b->loop, done, done_arg);
}

static void go_setup(void *arg)
{
    struct run *r = arg;
    run__go(r, run__is_terminal(r) ? RUN_PTY : run__config(r) == NULL ? RUN_CHAT : RUN_SETUP);
}

void run__share(struct run *r)
{
    if (has_remote(r)) {
        push(r, true, go_setup, r);
    } else {
        go_setup(r);
    }
}

static void on_late(void *arg)
{
    run__cancel_push(arg);
}

static void go_remove(void *arg)
{
    struct run *r = arg;
    timer_stop(&r->timer);
    run__go(r, RUN_REMOVE);
}

void run__push(struct run *r)
{
    bool hurry = r->forced || r->b->stopping;
    if (r->push.done != NULL) {
        r->push.awaited = true;
    } else if (has_remote(r) && !(hurry && r->push.silent)) {
        push(r, false, go_remove, r);
        if (r->forced) {
            run__alarm(r, RUN_GRACE_MS, on_late);
        }
    } else {
        go_remove(r);
    }
}
