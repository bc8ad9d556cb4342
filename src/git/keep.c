// The end of work in a worktree: everything goes to its branch, then the directory is removed.
//
//     in the box, in the quarantine
//         repair ──> where are branch B and HEAD H? ──> add -A ──> tree ──> commit on H
//     in the repository
//         its objects (import.c) ──> the branch there
//
// The model may have gone anywhere: on another branch, on no branch, back in time. The new commit follows H,
// where the files came from, and becomes the branch when that loses nothing of B:
//
//     H is B, or after it     the branch goes there
//     H is gone               the commit follows B
//     B is gone               it is made again, where H is
//     they have parted        a second branch, BRANCH-rescue-ID, gets it; B stays
//
// Other branches and stashes that were made in the quarantine get such a branch each. If the user has moved
// the repository's branch since the work began, and the new commit does not follow it, the user's stays and
// ours becomes a rescue branch.
//
// Plumbing commands do this instead of `git commit`, so that HEAD, hooks, templates and editors have no
// effect. Only the last steps, update-ref, touch the repository's refs, and git does each whole or not at all.

#include <assert.h>
#include <unistd.h>

#include "base/path.h"
#include "git/git_int.h"

enum { IGNORED_MAX = 200, IGNORED_BYTES = 256 << 10, OTHERS_MAX = 20, OTHERS_BYTES = 64 << 10 };

struct keep_job {
    struct git_job j;
    struct git_worktree of;
    const char *root, *message, *ref;
    const char *const *link;
    const char *tip;    // B; "" when it is gone
    const char *parent; // H
    const char *commit; // on H, or H itself
    const char *target; // what the branch gets
    const char *theirs; // where the repository has the branch; "" when it is gone
    bool parted;
    bool broken, remade; // its quarantine
    bool no_index, bad_index;
    const char *rescue[OTHERS_MAX + 2]; // commits that get a branch of their own
    size_t n_rescue, at_rescue;
    struct str others;       // ids, one a line
    struct git_place inside; // the job's own, while it is in the repository
    struct git_committed out;
    git_commit_cb *cb;
    void *arg;
};

static struct keep_job *self(struct git_job *j)
{
    return container_of(j, struct keep_job, j);
}

// ---- where we are ----------------------------------------------------------------------------

static int take_over(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    char target[PATH_MAX];
    int rc = own__take_over(j, &k->of, &k->broken, e);
    for (const char *const *name = k->link; rc == 0 && *name != NULL; name++) {
        // links that were made for the worktree are not its work
        char *ours = path_join(k->of.dir, *name), *theirs = path_join(k->root, *name);
        ssize_t n = readlink(ours, target, sizeof target);
        if (n > 0 && str_eqz((struct str){target, (size_t)n}, theirs)) {
            unlink(ours);
        }
        free(theirs);
        free(ours);
    }
    return rc;
}

static void ask_refs(struct git_job *j)
{
    if (self(j)->broken) {
        quarantine__ask_refs(j);
    }
}

static int remake(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    if (!k->broken) {
        return 0;
    }
    job__note(j,
              "git could not work in its repository any more: what it had committed only there is "
              "lost, its files are kept");
    k->broken = false;
    k->remade = true;
    return own__remake(j, &k->of, e);
}

static int enter(struct git_job *j, struct err *e)
{
    return own__enter(j, &self(j)->of, e);
}

static void ask_tip(struct git_job *j)
{
    job__ask_commit(j, self(j)->ref);
}

/// Back to the repository.
static int leave(struct git_job *j, struct err *e)
{
    (void)e;
    box_free(j->place.box);
    j->place = (struct git_place){.dir = self(j)->of.common, .git_dir = self(j)->of.common};
    return 0;
}

static const struct git_step *remake_steps(void);

/// 1 is an answer; more is a git that cannot work there.
static int take_tip(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    if (j->cmd.code > 1 && k->remade) {
        return job__grumble(j, UV_EIO, "git", e);
    }
    if (j->cmd.code > 1) {
        k->broken = true;
        job__become(j, remake_steps());
        return 0;
    }
    k->tip = job__line(j);
    k->tip = j->cmd.code == 0 && job__is_id(k->tip) ? k->tip : "";
    return 0;
}

static int take_head(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    k->parent = job__take_head(j, k->tip[0] != '\0' ? k->tip : k->of.start);
    return 0;
}

static void ask_order(struct git_job *j)
{
    struct keep_job *k = self(j);
    if (k->tip[0] != '\0' && strcmp(k->tip, k->parent) != 0) {
        job__ask_ancestor(j, k->tip, k->parent);
    }
}

static int take_order(struct git_job *j, struct err *e)
{
    (void)e;
    self(j)->parted = j->cmd.code != 0;
    return 0;
}

// ---- what there is ---------------------------------------------------------------------------

/// An index that is gone would have git forget what is tracked although it is ignored.
static void check_index(struct git_job *j)
{
    struct keep_job *k = self(j);
    if (k->no_index) {
        job__run(j, "read-tree", k->parent, NULL);
    }
}

static int look_at_index(struct git_job *j, struct err *e)
{
    char *index = path_join(j->place.git_dir, "index");
    (void)e;
    if (self(j)->bad_index) {
        unlink(index);
    }
    self(j)->no_index = !path_exists(index);
    free(index);
    return 0;
}

static const struct git_step *again_steps(void);

static void write_tree(struct git_job *j)
{
    if (j->changed) {
        state__write(j);
        j->cmd.may_fail = !self(j)->bad_index;
    }
}

/// The index may name contents that the model has deleted: git takes a file whose size and time fit for
/// unchanged and does not read it. Once more with an index of ours, which knows no file.
static int take_tree(struct git_job *j, struct err *e)
{
    (void)e;
    if (j->cmd.code != 0) {
        self(j)->bad_index = true;
        job__become(j, again_steps());
    }
    return 0;
}

static void make_commit(struct git_job *j)
{
    struct keep_job *k = self(j);
    assert(k->parent != NULL);
    k->commit = k->parent;
    if (j->changed) {
        job__run(j, "commit-tree", j->tree, "-p", k->parent, "-m", k->message, NULL);
        look__identity(j);
        j->cmd.id = &k->commit;
        k->out.committed = true;
    }
}

// ---- what becomes a branch -------------------------------------------------------------------------

/// Nothing may move when H is before B and there is nothing new.
static void ask_parted(struct git_job *j)
{
    struct keep_job *k = self(j);
    k->target = k->parted ? k->tip : k->commit;
    if (k->parted) {
        job__ask_ancestor(j, k->commit, k->tip);
    }
}

static void add_rescue(struct keep_job *k, const char *commit)
{
    bool known = str_lookup(str_of(commit), k->rescue, k->n_rescue) >= 0;
    if (!known && k->n_rescue < ARRAY_LEN(k->rescue)) {
        k->rescue[k->n_rescue++] = commit;
    }
}

static int take_parted(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    if (j->cmd.code != 0) {
        add_rescue(k, k->commit);
    }
    return 0;
}

/// Keeping it once more then finds nothing new.
static void move_own(struct git_job *j)
{
    struct keep_job *k = self(j);
    if (strcmp(k->target, k->tip) != 0) {
        job__run(j, "update-ref", "--no-deref", "-m", "afloat: keep", k->ref, k->target, NULL);
    }
}

/// Branches and a stash with commits that `target` has not; most are copies of the user's.
static void ask_others(struct git_job *j)
{
    struct keep_job *k = self(j);
    job__run(j, "for-each-ref", "--format=%(objectname)",
             arena_printf(&j->arena, "--no-merged=%s", k->target), "refs/heads", "refs/stash",
             NULL);
    j->cmd.max = OTHERS_BYTES;
    j->cmd.cut_ok = j->cmd.may_fail = true;
}

static int take_others(struct git_job *j, struct err *e)
{
    (void)e;
    self(j)->others = arena_str(&j->arena, buf_str(&j->cmd.out));
    return 0;
}

/// Which of them does the repository not have? It is asked without the quarantine.
static void ask_unknown(struct git_job *j)
{
    struct keep_job *k = self(j);
    if (k->others.n != 0) {
        k->inside = j->place;
        j->place = (struct git_place){.dir = k->of.common, .git_dir = k->of.common};
        job__run(j, "cat-file", "--batch-check", NULL);
        job__env(j, "GIT_NO_LAZY_FETCH", "1");
        j->cmd.in = k->others;
    }
}

static int take_unknown(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    struct str rest = buf_str(&j->cmd.out);
    (void)e;
    assert(k->others.n != 0);
    j->place = k->inside;
    k->inside = (struct git_place){0};
    while (rest.n != 0) {
        struct str line = str_cut(&rest, '\n'), id = str_cut(&line, ' ');
        if (str_eqz(line, "missing")) {
            add_rescue(k, arena_strdup(&j->arena, id));
        }
    }
    return 0;
}

/// All that the repository is to get.
static int choose_tips(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    const char **tips = arena_calloc(&j->arena, k->n_rescue + 1, sizeof *tips);
    size_t n = 0;
    (void)e;
    assert(k->target != NULL && k->of.start != NULL);
    if (strcmp(k->target, k->of.start) != 0) {
        tips[n++] = k->target;
    }
    for (size_t i = 0; i < k->n_rescue; i++) {
        tips[n++] = k->rescue[i];
    }
    j->import = (struct git_import){
        .common = k->of.common, .since = k->of.start, .tips = {.p = tips, .n = n}};
    return 0;
}

// ---- the repository's branches ---------------------------------------------------------------------

static int take_theirs(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    const char *id = job__line(j);
    (void)e;
    k->theirs = j->cmd.code == 0 && job__is_id(id) ? id : "";
    return 0;
}

/// The user may have moved the branch meanwhile.
static void ask_follows(struct git_job *j)
{
    struct keep_job *k = self(j);
    if (k->theirs[0] != '\0' && strcmp(k->theirs, k->of.head) != 0 &&
        strcmp(k->theirs, k->target) != 0) {
        job__ask_ancestor(j, k->theirs, k->target);
    }
}

static int take_follows(struct git_job *j, struct err *e)
{
    struct keep_job *k = self(j);
    (void)e;
    if (j->cmd.code != 0) {
        add_rescue(k, k->target);
        k->target = k->theirs;
    }
    return 0;
}

static void move_branch(struct git_job *j)
{
    struct keep_job *k = self(j);
    assert(k->theirs != NULL);
    k->out.head = k->target;
    if (strcmp(k->target, k->theirs) != 0) {
        job__run(j, "update-ref", "--no-deref", "-m", "afloat: keep", k->ref, k->target, k->theirs,
                 NULL);
    }
}

static void make_rescue(struct git_job *j)
{
    struct keep_job *k = self(j);
    assert(k->at_rescue <= k->n_rescue);
    if (k->at_rescue < k->n_rescue) {
        const char *name =
            arena_printf(&j->arena, "%s-rescue-%.8s", k->of.branch, k->rescue[k->at_rescue]);
        if (k->at_rescue != 0) {
            job__note(j, "more work that is not on its branch is on '%s'", name);
        } else {
            k->out.rescue = name;
        }
        job__run(j, "update-ref", "--no-deref", "-m", "afloat: rescue",
                 arena_printf(&j->arena, "refs/heads/%s", name), k->rescue[k->at_rescue], NULL);
    }
}

static const struct git_step *rescue_steps(void);

static int rescued(struct git_job *j, struct err *e)
{
    (void)e;
    self(j)->at_rescue++;
    job__become(j, rescue_steps());
    return 0;
}

static void ask_ignored(struct git_job *j)
{
    job__run(j, "ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory", NULL);
    j->cmd.max = IGNORED_BYTES;
    j->cmd.cut_ok = j->cmd.may_fail = true;
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
    STEP_COMMAND("write tree", write_tree, take_tree),          \
    STEP_COMMAND("commit", make_commit, NULL),                  \
    STEP_COMMAND("parted", ask_parted, take_parted),            \
    STEP_COMMAND("own branch", move_own, NULL),                 \
    STEP_COMMAND("others", ask_others, take_others),            \
    STEP_COMMAND("unknown", ask_unknown, take_unknown),         \
    STEP_COMMAND("ignored files", ask_ignored, take_ignored),   \
    STEP_THINK("tips", choose_tips),                            \
    IMPORT_STEPS,                                               \
    STEP_COMMAND("their branch", ask_tip, take_theirs),         \
    STEP_COMMAND("follows", ask_follows, take_follows),         \
    STEP_COMMAND("branch", move_branch, NULL),                  \
    STEP_COMMAND("rescue", make_rescue, rescued)

static const struct git_step *again_steps(void)
{
    static const struct git_step steps[] = {
        STEP_WORK("bad index away", look_at_index),
        STEP_COMMAND("index", check_index, NULL),
        STEP_COMMAND("add", state__add, state__added),
        KEEP_STEPS,
        STEPS_END
    };
    return steps;
}
// clang-format on

static const struct git_step *rescue_steps(void)
{
    static const struct git_step steps[] = {STEP_COMMAND("rescue", make_rescue, rescued),
                                            STEPS_END};
    return steps;
}

/// Git has refused an index that the model may have written: once more with one of ours.
static int added(struct git_job *j, struct err *e)
{
    if (j->cmd.code <= 1) {
        return state__added(j, e);
    }
    self(j)->bad_index = true;
    job__become(j, again_steps());
    return 0;
}

// clang-format off
#define WORK_STEPS                                              \
    STEP_WORK("enter", enter),                                  \
    STEP_COMMAND("tip", ask_tip, take_tip),                     \
    STEP_COMMAND("head", job__ask_head, take_head),             \
    STEP_COMMAND("order", ask_order, take_order),               \
    STEP_WORK("look for index", look_at_index),                 \
    STEP_COMMAND("index", check_index, NULL),                   \
    STEP_COMMAND("add", state__add, added),                     \
    KEEP_STEPS

#define REMAKE_STEPS                                            \
    STEP_COMMAND("refs", ask_refs, quarantine__take_refs),      \
    STEP_WORK("quarantine", remake)

static const struct git_step keep_steps[] = {
    STEP_COMMAND("settings", look__ask, look__read),
    STEP_WORK("take over", take_over),
    REMAKE_STEPS,
    WORK_STEPS,
    STEPS_END
};
// clang-format on

/// Its quarantine is of no use: a new one, with the files that are there.
static const struct git_step *remake_steps(void)
{
    // clang-format off
    static const struct git_step steps[] = {
        STEP_THINK("leave", leave),
        REMAKE_STEPS,
        WORK_STEPS,
        STEPS_END
    };
    // clang-format on
    return steps;
}

// ---- public ----------------------------------------------------------------------------------

static void report(struct git_job *j, int status, const struct err *e)
{
    struct keep_job *k = self(j);
    static const struct git_committed nothing = {.head = "", .rescue = ""};
    box_free(k->inside.box); // it failed outside
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

struct forget_job {
    struct git_job j;
    struct git_worktree of;
    git_done_cb *cb;
    void *arg;
};

static int take_turn(struct git_job *j, struct err *e)
{
    struct forget_job *k = container_of(j, struct forget_job, j);
    (void)e;
    job__take_turn(j, k->of.common);
    return 0;
}

static int remove_work(struct git_job *j, struct err *e)
{
    struct forget_job *k = container_of(j, struct forget_job, j);
    return own__forget(&k->of, e);
}

static void report_removed(struct git_job *j, int status, const struct err *e)
{
    struct forget_job *k = container_of(j, struct forget_job, j);
    k->cb(k->arg, status, e);
}

struct git_job *git_remove(struct git *g, const struct git_worktree *w, git_done_cb *cb, void *arg)
{
    // clang-format off
    static const struct git_step steps[] = {
        STEP_THINK("turn", take_turn),
        STEP_WORK("remove", remove_work),
        STEPS_END
    };
    // clang-format on
    struct forget_job *k = job__new(g, sizeof *k, steps, NULL, report_removed);
    k->cb = cb;
    k->arg = arg;
    k->of = own__dup(&k->j, w);
    return &k->j;
}
