// The end of work in a worktree: everything on its branch, then the directory goes.
//
//     put right ──> where are branch B and HEAD H? ──> add -A ──> tree ──> commit on H ──> B
//
// The model may have gone anywhere: on another branch, on no branch, back in time. The new commit
// follows on H, where the files came from, and the branch moves to it when that loses nothing of B:
//
//     H is B, or after it     the branch goes there
//     H is gone               the commit follows on B
//     B is gone               it is made again, where H is
//     they have parted        a second branch, BRANCH-rescue-ID, gets it; B stays
//
// Plain parts of git do this instead of `git commit`, so that neither HEAD, hooks, templates nor
// editors have a say. No step touches the branch but the last, update-ref, which git does whole or
// not at all.

#include <unistd.h>

#include "base/path.h"
#include "git/git_int.h"

enum { IGNORED_MAX = 200, IGNORED_BYTES = 256 << 10 };

struct keep_job {
    struct git_job j;
    struct git_worktree of;
    const char *root, *message, *ref;
    const char *const *link;
    const char *tip;    // B; "" when it is gone
    const char *parent; // H
    const char *commit; // what the branch gets
    bool parted;
    bool no_index, bad_index;
    struct git_committed out;
    git_commit_cb *cb;
    void *arg;
};

static struct keep_job *self(struct git_job *j)
{
    return container_of(j, struct keep_job, j);
}

// ---- where we are ----------------------------------------------------------------------------

/// Links that were made for it are not its work.
static void remove_links(const struct keep_job *k)
{
    char target[PATH_MAX];
    for (const char *const *name = k->link; *name != NULL; name++) {
        char *ours = path_join(k->of.dir, *name), *theirs = path_join(k->root, *name);
        ssize_t n = readlink(ours, target, sizeof target);
        if (n > 0 && str_eqz((struct str){target, (size_t)n}, theirs)) {
            unlink(ours);
        }
        free(theirs);
        free(ours);
    }
}

static int take_over(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    int rc = own__take_over(j, &k->of, e);
    if (rc == 0) {
        remove_links(k);
    }
    return rc;
}

static int ask_tip(struct git_job *j, struct err *e)
{
    (void)e;
    job__run(j, "rev-parse", "-q", "--verify", arena_printf(&j->arena, "%s^{commit}", self(j)->ref),
             NULL);
    j->cmd.may_fail = true;
    return 0;
}

static int take_tip(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    k->tip = job__line(j);
    k->tip = j->cmd.code == 0 && job__is_id(k->tip) ? k->tip : "";
    return 0;
}

static int ask_head(struct git_job *j, struct err *e)
{
    (void)e;
    job__run(j, "rev-parse", "-q", "--verify", "HEAD^{commit}", NULL);
    j->cmd.may_fail = true;
    return 0;
}

static int take_head(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    k->parent = job__line(j);
    if (j->cmd.code != 0 || !job__is_id(k->parent)) {
        k->parent = k->tip[0] != '\0' ? k->tip : k->of.start;
    }
    j->look.head = k->parent; // what STATE_STEPS compare with
    return 0;
}

static int ask_order(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    if (k->tip[0] != '\0' && strcmp(k->tip, k->parent) != 0) {
        job__run(j, "merge-base", "--is-ancestor", k->tip, k->parent, NULL);
        j->cmd.may_fail = true;
    }
    return 0;
}

static int take_order(struct git_job *j, struct err *e)
{
    (void)e;
    self(j)->parted = j->cmd.code != 0;
    return 0;
}

// ---- what there is ---------------------------------------------------------------------------

/// An index that is gone would have git forget what is tracked although it is ignored.
static int check_index(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    if (k->no_index) {
        job__run(j, "read-tree", k->parent, NULL);
    }
    return 0;
}

static int look_at_index(struct git_job *j, struct err *e)
{
    char *index = path_join(j->place.git_dir, "index");
    (void)e;
    if (self(j)->bad_index) {
        unlink(index);
    }
    self(j)->no_index = !files__exists(index);
    free(index);
    return 0;
}

static int write_tree(struct git_job *j, struct err *e)
{
    return j->changed ? state__write(j, e) : 0;
}

static int make_commit(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    k->commit = k->parent;
    if (j->changed) {
        job__run(j, "commit-tree", j->tree, "-p", k->parent, "-m", k->message, NULL);
        look__identity(j);
    }
    return 0;
}

static int take_commit(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    k->out.committed = true;
    return job__id(j, &k->commit, e);
}

/// Nothing may move when H lies before B and there is nothing new.
static int move_branch(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    k->out.head = k->tip;
    if (strcmp(k->commit, k->tip) == 0) {
        return 0;
    }
    if (!k->parted) {
        job__run(j, "update-ref", "--no-deref", "-m", "afloat: keep", k->ref, k->commit, k->tip,
                 NULL);
        k->out.head = k->commit;
        return 0;
    }
    job__run(j, "merge-base", "--is-ancestor", k->commit, k->tip, NULL);
    j->cmd.may_fail = true;
    return 0;
}

static int branch_moved(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    k->parted = k->parted && j->cmd.code != 0;
    return 0;
}

static int make_rescue(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    if (k->parted) {
        k->out.rescue = arena_printf(&j->arena, "%s-rescue-%.8s", k->of.branch, k->commit);
        job__run(j, "update-ref", "--no-deref", "-m", "afloat: rescue",
                 arena_printf(&j->arena, "refs/heads/%s", k->out.rescue), k->commit, NULL);
    }
    return 0;
}

static int ask_ignored(struct git_job *j, struct err *e)
{
    (void)e;
    job__settle(j); // the work is safe
    job__run(j, "ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory", NULL);
    j->cmd.max = IGNORED_BYTES;
    j->cmd.cut_ok = j->cmd.may_fail = true;
    return 0;
}

static int take_ignored(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    k->out.ignored = job__names(j, buf_str(&j->cmd.out), IGNORED_MAX);
    k->out.ignored.cut = k->out.ignored.cut || j->cmd.cut;
    k->out.nested = j->nested;
    return 0;
}

// ---- the steps -------------------------------------------------------------------------------

// clang-format off
#define KEEP_STEPS                                              \
    STEP_COMMAND("changes", state__ask_changes, state__changes),\
    STEP_COMMAND("nested", state__drop_nested, NULL),           \
    STEP_COMMAND("write tree", write_tree, state__written),     \
    STEP_COMMAND("commit", make_commit, take_commit),           \
    STEP_COMMAND("branch", move_branch, branch_moved),          \
    STEP_COMMAND("rescue", make_rescue, NULL),                  \
    STEP_COMMAND("ignored files", ask_ignored, take_ignored)

static const struct step again_steps[] = {
    STEP_WORK("bad index away", look_at_index),
    STEP_COMMAND("index", check_index, NULL),
    STEP_COMMAND("add", state__add, state__added),
    KEEP_STEPS,
    STEPS_END
};
// clang-format on

/// Git has refused an index that the model may have written: once more with one of ours.
static int added(struct git_job *j, struct err *e)
{
    if (j->cmd.code <= 1) {
        return state__added(j, e);
    }
    self(j)->bad_index = true;
    job__become(j, again_steps);
    return 0;
}

// clang-format off
static const struct step keep_steps[] = {
    STEP_COMMAND("settings", look__ask, look__read),
    STEP_WORK("take over", take_over),
    STEP_COMMAND("tip", ask_tip, take_tip),
    STEP_COMMAND("head", ask_head, take_head),
    STEP_COMMAND("order", ask_order, take_order),
    STEP_WORK("look for index", look_at_index),
    STEP_COMMAND("index", check_index, NULL),
    STEP_COMMAND("add", state__add, added),
    KEEP_STEPS,
    STEPS_END
};
// clang-format on

// ---- public ----------------------------------------------------------------------------------

static void report(struct git_job *j, int status, const struct err *e)
{
    struct keep_job *k = self(j);
    static const struct git_committed nothing = {.head = "", .rescue = ""};
    k->out.notes = job__notes(j);
    k->cb(k->arg, status, e, status == 0 ? &k->out : &nothing);
}

struct git_job *git_commit(struct git *g, const struct git_worktree *w, const char *root,
                           const char *const *link, const char *message, git_commit_cb *cb,
                           void *arg)
{
    struct keep_job *k = job__new(g, sizeof *k, keep_steps, NULL, report);
    struct git_job *j = &k->j;
    k->cb = cb;
    k->arg = arg;
    k->of = own__dup(j, w);
    k->root = job__dup(j, root);
    k->link = job__dup_list(j, link);
    k->message = job__dup(j, message);
    k->ref = arena_printf(&j->arena, "refs/heads/%s", w->branch);
    k->out.head = k->out.rescue = "";
    j->place.dir = j->place.git_dir = k->of.common;
    return j;
}

// ---- removing --------------------------------------------------------------------------------

struct remove_job {
    struct git_job j;
    const char *common, *dir;
    git_done_cb *cb;
    void *arg;
};

static int take_turn(struct git_job *j, struct err *e)
{
    struct remove_job *k = container_of(j, struct remove_job, j);
    (void)e;
    job__take_turn(j, k->common);
    return 0;
}

static int remove_work(struct git_job *j, struct err *e)
{
    struct remove_job *k = container_of(j, struct remove_job, j);
    return own__forget(k->common, k->dir, e);
}

static void report_removed(struct git_job *j, int status, const struct err *e)
{
    struct remove_job *k = container_of(j, struct remove_job, j);
    k->cb(k->arg, status, e);
}

struct git_job *git_remove(struct git *g, const char *common, const char *dir, git_done_cb *cb,
                           void *arg)
{
    // clang-format off
    static const struct step steps[] = {
        STEP_THINK("turn", take_turn),
        STEP_WORK("remove", remove_work),
        STEPS_END
    };
    // clang-format on
    struct remove_job *k = job__new(g, sizeof *k, steps, NULL, report_removed);
    k->cb = cb;
    k->arg = arg;
    k->common = job__dup(&k->j, common);
    k->dir = job__dup(&k->j, dir);
    return &k->j;
}
