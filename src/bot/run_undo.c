// A run that never had a session leaves nothing: the directory goes, then its branch, then the record. One that
// was to go on is as it was before. Its starter hears why; who asked for its end hears that it has come.

#include <unistd.h>

#include "base/path.h"
#include "bot/run_int.h"
#include "config/home.h"

void run__abort(struct run *r, const struct agent_no *no)
{
    r->why = *no;
    if (r->b->stopping) {
        bots__no(&r->why, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (r->stop_wanted) { // what failed was cancelled
        bots__no(&r->why, PROBLEM_CONFLICT, NULL, "the run was stopped before it began");
    }
    run__go(r, RUN_UNDO);
}

void run__abort_err(struct run *r, const struct err *e)
{
    struct agent_no no;
    bots__no_err(&no, e);
    run__abort(r, &no);
}

static void on_removed(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    (void)e; // `afloat worktrees` shows what could not be removed
    r->job = NULL;
    turnstile_leave(&r->b->trees, r);
    if (status == 0 && r->b->o.worktree != NULL) {
        r->b->o.worktree(r->b->o.arg, BOTS_TREE_GONE, r->rec.worktree, r->rec.branch,
                         r->rec.repository);
    }
    run__go(r, RUN_FORGET);
    run__back(r);
}

static void remove_tree(void *arg)
{
    struct run *r = arg;
    struct git_worktree w = run__worktree(r);
    r->job = git_remove(r->b->git, &w, on_removed, r);
}

void run__undo(struct run *r)
{
    if (!r->has_tree) {
        run__go(r, RUN_UNNOTE);
        return;
    }
    run__away(r);
    turnstile_enter(&r->b->trees, r->rec.common, remove_tree, r);
}

static void on_forgotten(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    (void)status;
    (void)e; // somebody has moved it: then it is his
    r->job = NULL;
    run__go(r, RUN_UNNOTE);
    run__back(r);
}

void run__forget(struct run *r)
{
    if (r->former != NULL) {
        run__go(r, RUN_UNNOTE);
        return;
    }
    run__away(r);
    r->job =
        git_delete_branch(r->b->git, r->rec.common, r->rec.branch, r->rec.start, on_forgotten, r);
}

/// It has ended as somebody wished: what it is now, which is what it was, or nothing.
static void answer_stopped(struct run *r, struct ask *a)
{
    if (r->former != NULL) {
        buf_addz(&a->out, r->former);
    } else {
        jw_obj(&a->w);
        record_write(&r->rec, &a->w, true);
        jw_end_obj(&a->w);
    }
    ask__answer(a);
}

static void leave(struct run *r)
{
    struct ask *a = r->starter;
    r->starter = NULL;
    r->rec.running = false;
    r->rec.undone = true;
    r->rec.end_reason = "interrupted";
    r->rec.ended_at = loop_wall(r->b->o.loop);
    vec_foreach (w, &r->awaiting) {
        r->stop_wanted ? answer_stopped(r, *w) : ask__refuse(*w, &r->why);
    }
    r->awaiting.n = 0;
    struct agent_no no = r->why;
    run__leave(r);
    if (a != NULL) { // who started a terminal has its record, and knows
        ask__refuse(a, &no);
    }
}

/// Taking the record away, on the lane.
struct unnoting {
    struct run *r;
    char *path;
};

static void unlink_record(void *arg) // on the lane
{
    struct unnoting *u = arg;
    unlink(u->path);
}

static void on_unlinked(void *arg)
{
    struct unnoting *u = arg;
    struct run *r = u->r;
    free(u->path);
    free(u);
    leave(r);
    run__back(r);
}

static void on_restored(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    (void)status;
    (void)e; // recovery ends it at the next start
    leave(r);
    run__back(r);
}

void run__unnote(struct run *r)
{
    run__unnote_shared(r);
    char *name = record_name(&r->rec);
    run__away(r);
    if (r->former != NULL) {
        store_doc_put(r->b->o.store, str_of(name), str_of(r->former), on_restored, r);
    } else {
        struct unnoting *u = xmalloc(sizeof *u);
        *u = (struct unnoting){.r = r, .path = path_join(r->b->o.home->dir, name)};
        work_submit(r->b->lane, 0, unlink_record, on_unlinked, u);
    }
    free(name);
}
