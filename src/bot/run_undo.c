// A run that never had a session leaves nothing: the directory goes, then its branch, then the record. One that
// was to be resumed is as it was before. The caller that started it gets the reason, and one that waits for its end the
// record.

#include <unistd.h>

#include "base/path.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "config/home.h"

void run__abort(struct run *r, const struct agent_no *no)
{
    r->why = *no;
    if (r->b->stopping) {
        agent_no_set(&r->why, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (r->stop_wanted) { // what failed was cancelled
        agent_no_set(&r->why, PROBLEM_CONFLICT, NULL, "the run was stopped before it began");
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
    (void)status;
    (void)e; // `afloat worktrees` shows what could not be removed
    run__go(arg, RUN_FORGET);
}

void run__undo(struct run *r)
{
    assert(!r->in_turn && r->job == NULL);
    if (r->has_tree) {
        run__remove_tree(r, on_removed);
    } else {
        run__go(r, RUN_UNNOTE);
    }
}

static void on_forgotten(void *arg, int status, const struct err *e)
{
    struct run *r = arg;
    (void)status;
    (void)e; // it was moved: then it stays
    r->job = NULL;
    run__go(r, RUN_UNNOTE);
    run__back(r);
}

void run__forget(struct run *r)
{
    if (!r->makes_branch) {
        run__go(r, RUN_UNNOTE);
        return;
    }
    assert(r->has_tree && r->job == NULL);
    run__away(r);
    r->job =
        git_delete_branch(r->b->git, r->rec.common, r->rec.branch, r->rec.start, on_forgotten, r);
}

static void leave(struct run *r)
{
    struct ask *a = r->starter;
    r->starter = NULL;
    r->rec.running = false;
    r->rec.undone = true;
    r->rec.end_reason = "interrupted";
    r->rec.ended_at = loop_wall(r->b->loop);
    vec_foreach (w, &r->awaiting) {
        if (!r->stop_wanted) {
            ask__refuse(*w, &r->why);
        } else if (r->former != NULL) { // it was stopped: its former record
            buf_addz(&(*w)->out, r->former);
            ask__answer(*w);
        } else {
            runs__answer(*w, &r->rec);
        }
    }
    r->awaiting.n = 0;
    struct agent_no no = r->why;
    run__leave(r);
    if (a != NULL) { // who started a terminal has its record, and knows
        ask__refuse(a, &no);
    }
}

static bool unlink_record(const char *path) // on the lane
{
    return unlink(path) == 0;
}

static void on_unlinked(struct run *r, const char *path, bool gone)
{
    (void)path;
    (void)gone; // else recovery ends it at the next start
    leave(r);
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
    if (r->former != NULL) {
        run__away(r);
        store_doc_put(r->b->store, str_of(name), str_of(r->former), on_restored, r);
    } else {
        run__ask_path(r, path_join(r->b->home, name), unlink_record, on_unlinked);
    }
    free(name);
}
