// Merge the work of a branch into the branch that the user is on.
//
//     the start was clean   HEAD before it?  ──────────────> fast forward
//                           else merge-tree ──> a merge commit ──> fast forward to it
//     the start was dirty   each commit after START, replayed on HEAD ──> fast forward to the last
//
// A dirty start is a commit of ours with what the user had not committed; it must never get onto a
// branch of the user's. So the commits after it are made again on top of HEAD, one by one, with
// their authors and texts. Each is a three-way merge whose base is its own parent, which takes a
// commit with the tree that we have and that parent, since merge-tree asks git for the base.
//
// All of that happens in the object store. Only the last step touches the user's checkout: `git
// merge --ff-only`, which checks before it writes. Until then a failure or a cancel costs nothing.

#include <assert.h>

#include "git/git_int.h"

enum { DIRTY_MAX = 1000, REPLAY_MAX = 1000 };

struct merge_job {
    struct take_job t;
    const char *into;   // the one branch that will do; NULL: any
    const char *tip;    // of the branch
    const char *target; // where the user's branch goes
    // replaying
    struct git_names commits; // COMMIT PARENT... each, oldest first
    size_t at;
    const char *commit, *parent; // the one under way
    const char *side;            // what we have, as a child of `parent`
    const char *tree;            // of `target`
    struct str author, text;
    const char *encoding;
};

static struct merge_job *self(struct git_job *j)
{
    return container_of(j, struct merge_job, t.j);
}

// ---- may we? ---------------------------------------------------------------------------------

static int check(struct git_job *j, struct err *e)
{
    struct merge_job *k = self(j);
    int rc = look__need_commit(j, e);
    if (rc < 0) {
        return rc;
    }
    if (j->look.branch[0] == '\0') {
        return err_set(e, ERR_CONFLICT, "no branch is checked out in '%s': switch to one",
                       j->look.root);
    }
    if (k->into != NULL && strcmp(k->into, j->look.branch) != 0) {
        return err_set(e, ERR_CONFLICT,
                       "'%s' is checked out in '%s', not '%s', where the work began",
                       j->look.branch, j->look.root, k->into);
    }
    if (j->look.doing[0] != '\0') {
        return err_set(e, ERR_CONFLICT, "a %s is in progress in '%s': finish or abort it",
                       j->look.doing, j->look.root);
    }
    k->t.out.branch = j->look.branch;
    k->target = j->look.head;
    k->tree = j->look.tree;
    return 0;
}

static void ask_status(struct git_job *j)
{
    job__run(j, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=no",
             "--ignore-submodules=dirty", NULL);
    job__only_reads(j);
}

static int take_status(struct git_job *j, struct err *e)
{
    struct merge_job *k = self(j);
    struct git_names rows = job__names(j, buf_str(&j->cmd.out), DIRTY_MAX);
    if (rows.n == 0) {
        return 0;
    }
    const char **paths = arena_calloc(&j->arena, rows.n, sizeof *paths);
    for (size_t i = 0; i < rows.n; i++) {
        paths[i] = strlen(rows.p[i]) > 3 ? rows.p[i] + 3 : ""; // after "XY "
    }
    k->t.out.paths = (struct git_names){.p = paths, .n = rows.n, .cut = rows.cut};
    return err_set(e, ERR_CONFLICT, "there are uncommitted changes in '%s', first '%s'",
                   j->look.root, paths[0]);
}

static void ask_tip(struct git_job *j)
{
    job__ask_commit(j, j->work.rev);
    j->cmd.id = &self(j)->tip;
    j->cmd.gone = arena_printf(&j->arena, "the branch '%s'", self(j)->t.branch);
}

// ---- the last step ---------------------------------------------------------------------------

static void compare(struct git_job *j)
{
    struct merge_job *k = self(j);
    k->t.out.head = k->target;
    if (k->t.out.how != GIT_NOTHING) {
        take__compare(&k->t, j->look.head, k->target);
    }
}

static void move(struct git_job *j)
{
    struct merge_job *k = self(j);
    assert(k->target != NULL);
    if (k->t.out.how != GIT_NOTHING) {
        job__settle(j);
        job__run(j, "merge", "-q", "--ff-only", "--no-overwrite-ignore", "--no-autostash",
                 "--no-verify-signatures", "--no-stat", k->target, NULL);
        j->cmd.may_fail = j->cmd.outlives_us = true;
    }
}

static int moved(struct git_job *j, struct err *e)
{
    return j->cmd.code == 0 ? 0 : job__grumble(j, ERR_CONFLICT, "git merge", e);
}

// clang-format off
static const struct git_step move_steps[] = {
    STEP_COMMAND("paths", compare, take__compared),
    STEP_COMMAND("move", move, moved),
    STEPS_END
};
// clang-format on

// ---- a clean start ---------------------------------------------------------------------------

static int go(struct git_job *j, enum git_how how, const char *target)
{
    struct merge_job *k = self(j);
    k->t.out.how = how;
    k->target = target;
    job__become(j, move_steps);
    return 0;
}

static void ask_forward(struct git_job *j)
{
    job__ask_ancestor(j, j->look.head, self(j)->tip);
}

static int take_forward(struct git_job *j, struct err *e)
{
    struct merge_job *k = self(j);
    if (j->cmd.code != 0) {
        return j->cmd.code == 1 ? 0 : job__grumble(j, UV_EIO, "git merge-base", e);
    }
    return go(j, strcmp(k->tip, j->look.head) == 0 ? GIT_NOTHING : GIT_FAST_FORWARD, k->tip);
}

static void ask_behind(struct git_job *j)
{
    job__ask_ancestor(j, self(j)->tip, j->look.head);
}

static int take_behind(struct git_job *j, struct err *e)
{
    if (j->cmd.code == 0) {
        return go(j, GIT_NOTHING, j->look.head);
    }
    return j->cmd.code == 1 ? 0 : job__grumble(j, UV_EIO, "git merge-base", e);
}

static void merge(struct git_job *j)
{
    take__merge(&self(j)->t, j->look.head, self(j)->tip);
}

static void make_merge(struct git_job *j)
{
    struct merge_job *k = self(j);
    job__run(j, "commit-tree", k->t.merged, "-p", j->look.head, "-p", k->tip, "-m",
             arena_printf(&j->arena, "Merge branch '%s'", k->t.branch), NULL);
    look__identity(j);
}

static int take_merge(struct git_job *j, struct err *e)
{
    const char *commit;
    int rc = job__id(j, &commit, e);
    return rc < 0 ? rc : go(j, GIT_MERGE_COMMIT, commit);
}

// ---- a dirty start ---------------------------------------------------------------------------

static void ask_commits(struct git_job *j)
{
    struct merge_job *k = self(j);
    job__run(j, "rev-list", "--reverse", "--first-parent", "--parents",
             arena_printf(&j->arena, "%s..%s", k->t.start, k->tip), "--", NULL);
}

/// The lines of `text` as names.
static struct git_names lines(struct git_job *j, struct str text)
{
    char *copy = arena_strdup(&j->arena, text);
    for (size_t i = 0; i < text.n; i++) {
        copy[i] = copy[i] == '\n' ? '\0' : copy[i];
    }
    return job__names(j, (struct str){copy, text.n}, REPLAY_MAX);
}

/// Choose the next commit to replay; false when there is none.
static bool take_next(struct git_job *j)
{
    struct merge_job *k = self(j);
    assert(k->at <= k->commits.n);
    if (k->at == k->commits.n) {
        return false;
    }
    struct str row = str_of(k->commits.p[k->at++]);
    k->commit = arena_strdup(&j->arena, str_cut(&row, ' '));
    k->parent = arena_strdup(&j->arena, str_cut(&row, ' '));
    return true;
}

/// The oldest must follow on START: else the branch was made over, with what the user had not
/// committed somewhere in it.
static int take_commits(struct git_job *j, struct err *e)
{
    struct merge_job *k = self(j);
    k->commits = lines(j, buf_str(&j->cmd.out));
    if (k->commits.cut) {
        return err_set(e, ERR_TOO_LARGE, "more than %d commits to replay: merge it by hand",
                       REPLAY_MAX);
    }
    if (!take_next(j)) {
        return go(j, GIT_NOTHING, j->look.head);
    }
    if (strcmp(k->parent, k->t.start) != 0) {
        return err_set(e, ERR_CONFLICT,
                       "the branch '%s' no longer follows on its start, so it cannot be merged: "
                       "apply it",
                       k->t.branch);
    }
    return 0;
}

static void make_side(struct git_job *j)
{
    struct merge_job *k = self(j);
    job__run(j, "commit-tree", k->tree, "-p", k->parent, "-m", "what there is", NULL);
    look__identity(j);
    j->cmd.id = &k->side;
}

static void replay(struct git_job *j)
{
    take__merge(&self(j)->t, self(j)->side, self(j)->commit);
}

static bool is_empty(const struct merge_job *k)
{
    return strcmp(k->t.merged, k->tree) == 0;
}

static void ask_text(struct git_job *j)
{
    if (!is_empty(self(j))) {
        job__run(j, "cat-file", "commit", self(j)->commit, NULL);
    }
}

static int take_text(struct git_job *j, struct err *e)
{
    struct merge_job *k = self(j);
    struct str rest = arena_str(&j->arena, buf_str(&j->cmd.out)), line;
    (void)e;
    k->author = STR_NULL;
    k->encoding = NULL;
    while ((line = str_cut(&rest, '\n')).n != 0) {
        if (str_starts(line, "author ")) {
            k->author = str_from(line, strlen("author "));
        } else if (str_starts(line, "encoding ")) {
            k->encoding = arena_strdup(&j->arena, str_from(line, strlen("encoding ")));
        }
    }
    k->text = rest;
    return 0;
}

static void make_copy(struct git_job *j)
{
    struct merge_job *k = self(j);
    if (is_empty(k)) {
        return;
    }
    job__run(j, "commit-tree", k->t.merged, "-p", k->target, "-F", "-", NULL);
    look__identity(j);
    // the author is `NAME <EMAIL> SECONDS ZONE`
    struct str rest = k->author, name = str_trim(str_cut(&rest, '<'));
    struct str email = str_cut(&rest, '>'), date = str_trim(rest);
    job__env(j, "GIT_AUTHOR_NAME", name.n != 0 ? arena_strdup(&j->arena, name) : "unknown");
    job__env(j, "GIT_AUTHOR_EMAIL", arena_strdup(&j->arena, email));
    job__env(j, "GIT_AUTHOR_DATE", arena_printf(&j->arena, "@" STR_FMT, STR_ARG(date)));
    if (k->encoding != NULL) {
        job__env(j, "GIT_CONFIG_COUNT", "1");
        job__env(j, "GIT_CONFIG_KEY_0", "i18n.commitEncoding");
        job__env(j, "GIT_CONFIG_VALUE_0", k->encoding);
    }
    j->cmd.in = k->text.n != 0 ? k->text : STR("\n");
}

static int take_copy(struct git_job *j, struct err *e)
{
    struct merge_job *k = self(j);
    k->tree = k->t.merged;
    return job__id(j, &k->target, e);
}

static int next(struct git_job *j, struct err *e);

// clang-format off
static const struct git_step replay_steps[] = {
    STEP_COMMAND("our side", make_side, NULL),
    STEP_COMMAND("replay", replay, take__merged),
    STEP_COMMAND("text", ask_text, take_text),
    STEP_COMMAND("copy", make_copy, take_copy),
    STEP_THINK("next", next),
    STEPS_END
};
// clang-format on

static int next(struct git_job *j, struct err *e)
{
    struct merge_job *k = self(j);
    (void)e;
    if (take_next(j)) {
        job__become(j, replay_steps);
        return 0;
    }
    return go(j, strcmp(k->target, j->look.head) == 0 ? GIT_NOTHING : GIT_REPLAYED, k->target);
}

static int begin_replay(struct git_job *j, struct err *e)
{
    (void)e;
    job__become(j, replay_steps);
    return 0;
}

// ---- public ----------------------------------------------------------------------------------

// clang-format off
#define CHECK_STEPS                                    \
    LOOK_STEPS,                                        \
    STEP_THINK("check", check),                        \
    STEP_COMMAND("status", ask_status, take_status),   \
    JOIN_STEPS,                                        \
    STEP_COMMAND("tip", ask_tip, NULL)

static const struct git_step clean_start[] = {
    CHECK_STEPS,
    STEP_COMMAND("forward?", ask_forward, take_forward),
    STEP_COMMAND("behind?", ask_behind, take_behind),
    STEP_COMMAND("merge", merge, take__merged),
    STEP_COMMAND("merge commit", make_merge, take_merge),
    STEPS_END
};

static const struct git_step dirty_start[] = {
    CHECK_STEPS,
    STEP_COMMAND("commits", ask_commits, take_commits),
    STEP_THINK("replay", begin_replay),
    STEPS_END
};
// clang-format on

struct git_job *git_merge(struct git *g, const char *root, const struct git_worktree *w, bool dirty,
                          const char *into, git_take_cb *cb, void *arg)
{
    struct merge_job *k =
        take__new(g, sizeof *k, dirty ? dirty_start : clean_start, NULL, root, w, cb, arg);
    k->into = job__dup(&k->t.j, into);
    return &k->t.j;
}
