// What applying and merging have in common: both begin with a merge that exists only as a tree.
//
// merge-tree works in the object store alone. So we know whether two sides go together before we touch
// anything of the user's, and a conflict is a list of paths, not a state to get out of.

#include <assert.h>

#include "git/git_int.h"

enum { PATHS_MAX = 10000 };

void join__init(struct git_job *j, const struct git_worktree *w, bool lenient)
{
    j->work.rev = arena_printf(&j->arena, "refs/heads/%s", w->branch);
    j->work.rescue = w->rescue != NULL && w->rescue[0] != '\0'
                         ? arena_printf(&j->arena, "refs/heads/%s", w->rescue)
                         : "";
    j->work.lenient = lenient;
}

void join__merge(struct git_job *j)
{
    if (j->work.rescue[0] != '\0') {
        job__run(j, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", j->work.rev,
                 j->work.rescue, NULL);
        j->cmd.may_fail = true;
    }
}

int join__merged(struct git_job *j, struct err *e)
{
    struct str rest = buf_str(&j->cmd.out);
    const char *tree = arena_strdup(&j->arena, str_trim(str_cut(&rest, '\0')));
    if (j->cmd.code == 0 && job__is_id(tree)) {
        j->work.tree = tree;
        return 0;
    }
    if (j->work.lenient) {
        return 0;
    }
    if (!job__is_id(tree)) { // not a conflict: one of them is gone
        return job__grumble(j, j->cmd.code == 1 ? ERR_NOT_FOUND : UV_EIO,
                            "cannot join the two branches of the work", e);
    }
    return err_set(
        e, ERR_CONFLICT,
        "the work is on two branches that do not go together: merge '%s' and '%s' by hand",
        j->work.rev + strlen("refs/heads/"), j->work.rescue + strlen("refs/heads/"));
}

void join__commit(struct git_job *j)
{
    if (j->work.tree != NULL) {
        job__run(j, "commit-tree", j->work.tree, "-p", j->work.rev, "-p", j->work.rescue, "-m",
                 "more of the work, from another branch", NULL);
        look__identity(j);
        j->cmd.id = &j->work.rev;
    }
}

void take__merge(struct take_job *t, const char *ours, const char *theirs)
{
    assert(ours != NULL && theirs != NULL);
    job__run(&t->j, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours,
             theirs, NULL);
    t->j.cmd.may_fail = true;
}

int take__merged(struct git_job *j, struct err *e)
{
    struct take_job *t = container_of(j, struct take_job, j);
    struct str rest = buf_str(&j->cmd.out), tree = str_cut(&rest, '\0');
    if (j->cmd.code > 1) {
        return job__grumble(j, UV_EIO, "git merge-tree", e);
    }
    if (j->cmd.code == 1) {
        t->out.paths = job__names(j, rest, PATHS_MAX);
        t->out.clash = true;
        return err_set(e, ERR_CONFLICT, "%zu of its files and yours do not go together, first '%s'",
                       t->out.paths.n, t->out.paths.n != 0 ? t->out.paths.p[0] : "");
    }
    t->merged = arena_strdup(&j->arena, str_trim(tree));
    return job__is_id(t->merged) ? 0 : err_set(e, ERR_CORRUPT, "git merge-tree named no tree");
}

void take__compare(struct take_job *t, const char *from, const char *to)
{
    job__run(&t->j, "diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to, "--", NULL);
}

int take__compared(struct git_job *j, struct err *e)
{
    struct take_job *t = container_of(j, struct take_job, j);
    (void)e;
    t->out.paths = job__names(j, buf_str(&j->cmd.out), PATHS_MAX);
    return 0;
}

static void report(struct git_job *j, int status, const struct err *e)
{
    struct take_job *t = container_of(j, struct take_job, j);
    struct git_taken failed = {
        .branch = "", .head = "", .paths = t->out.paths, .clash = t->out.clash};
    t->cb(t->arg, status, e, status == 0 ? &t->out : &failed);
}

void *take__new(struct git *g, size_t size, const struct git_step *steps,
                const struct git_step *undo, const char *root, const struct git_worktree *w,
                git_take_cb *cb, void *arg)
{
    struct take_job *t = job__new(g, size, steps, undo, report);
    struct git_job *j = &t->j;
    t->cb = cb;
    t->arg = arg;
    t->branch = job__dup(j, w->branch);
    t->start = job__dup(j, w->start);
    join__init(j, w, false);
    t->out.branch = t->out.head = "";
    j->place.dir = job__dup(j, root);
    return t;
}
