// The work of a run on a remote ([worktree] remote): where it begins, after every step, and its end.
//
//     SHARE ─> SETUP, PTY, CHAT a step of a turn is over ─> push ─> the next step          KEEP ─> PUSH ─> REMOVE
//
// The next step waits for the push: what the journal says was done is on the remote, so another hub can go
// on from there. A push that fails is a note of the run and tried again after the next step; the run
// continues, since its worktree has everything.
//
// Invariant: `rec.pushed` is on disk before the next push begins, so `--force-with-lease` always names what
// the remote has, also after a restart.

#include "base/log.h"
#include "bot/run_int.h"
#include "git/git.h"

struct pushing {
    struct run *r;
    loop_fn *done;
    void *arg;
};

static void finish(struct pushing *p)
{
    struct pushing own = *p;
    free(p);
    own.done(own.arg);
    run__back(own.r);
}

static void on_saved(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    struct pushing *p = r->pushing;
    (void)status;
    (void)e; // logged; then the next push is refused, and says so
    r->pushing = NULL;
    finish(p);
}

static void on_pushed(void *arg, int status, const struct err *e, const struct git_pushed *g)
{
    struct pushing *p = arg;
    struct run *r = p->r;
    if (status < 0) {
        log_warn(LOG_BOT, "run=%s push=failed reason=%s", r->rec.run_id, LOGQ(str_of(e->msg)).z);
        run__note(r, "its work is not on the remote: %s", e->msg);
        finish(p);
        return;
    }
    bool same = strcmp(r->rec.pushed, g->commit) == 0;
    r->rec.remote = record_text(&r->rec, str_of(g->url));
    r->rec.pushed = record_text(&r->rec, str_of(g->commit));
    if (same) {
        finish(p);
    } else {
        r->pushing = p;
        run__save(r, on_saved);
    }
}

static void push(struct run *r, bool live, loop_fn *done, void *arg)
{
    struct pushing *p = xmalloc(sizeof *p);
    assert(r->pushing == NULL); // one step after the other
    *p = (struct pushing){.r = r, .done = done, .arg = arg};
    struct git_push o = {.of = run__worktree(r),
                         .remote = r->rec.remote,
                         .last = r->rec.pushed,
                         .message =
                             arena_printf(&r->arena, "work in progress of '%s'", r->rec.bot)};
    o.of.dir = live ? o.of.dir : NULL;
    run__away(r);
    git_set_umask(git_push(r->b->git, &o, on_pushed, p), r->umask);
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
    loop_defer(b->o.loop, done, done_arg);
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

static void go_remove(void *arg)
{
    run__go(arg, RUN_REMOVE);
}

void run__push(struct run *r)
{
    if (has_remote(r)) {
        push(r, false, go_remove, r);
    } else {
        go_remove(r);
    }
}
