// A worktree to work in, beginning with the user's state.
//
//     look ─┬─ the user's state ──> a tree ── differs from HEAD? ──> the start commit ─┐
//           └─ a commit, or a branch that is there already ─────────────────────────── ┤
//          directory <── checkout <── quarantine <── registration <── branch <─────────────┘
//              └── ignored files to copy, links to make
//
// The start commit is a child of the user's HEAD with the uncommitted changes in it. It is on no branch of
// the user's; what is done after it can be told apart from what the user had begun.
//
// When a later step fails, what was made is removed in the opposite order. When the hub itself is killed in
// between, a directory, a registration or a branch may be left: git_list() shows them, and git_remove() and
// git_delete_branch() remove them.

#include <assert.h>

#include "base/path.h"
#include "git/git_int.h"

enum { INCLUDE_MAX = 10000 };

struct add_job {
    struct git_job j;
    struct git_add ask;
    const char *ref; // refs/heads/BRANCH
    struct git_added out;
    struct git_names ignored; // to copy
    bool tried;               // the directory is ours to remove
    bool made_branch;
    git_add_cb *cb;
    void *arg;
};

static struct add_job *self(struct git_job *j)
{
    return container_of(j, struct add_job, j);
}

// ---- where it begins -------------------------------------------------------------------------

static int check(struct git_job *j, struct err *e)
{
    struct add_job *k = self(j);
    int rc = look__need_commit(j, e);
    if (rc < 0) {
        return rc;
    }
    k->out.common = j->look.common;
    k->out.root = j->look.root;
    k->out.base = k->out.start = j->look.head;
    k->out.base_branch = j->look.branch;
    return 0;
}

/// On the lane: the directory must not exist yet.
static int look_at_dir(struct git_job *j, struct err *e)
{
    struct add_job *k = self(j);
    char *parent = str_dup(path_dir(str_of(k->ask.dir)));
    int rc = path_exists(k->ask.dir) ? err_set(e, ERR_CONFLICT, "'%s' already exists", k->ask.dir)
                                     : path_mkdirs(parent, 0700, e);
    char *real = rc == 0 ? realpath(parent, NULL) : NULL;
    if (real != NULL) {
        struct str name = path_base(str_of(k->ask.dir));
        k->out.dir = arena_printf(&j->arena, "%s/" STR_FMT, real, STR_ARG(name));
    } else if (rc == 0) {
        rc = err_sys(e, "cannot look at '%s'", parent);
    }
    free(real);
    free(parent);
    return rc;
}

static void ask_base(struct git_job *j)
{
    struct add_job *k = self(j);
    job__ask_commit(j, k->ask.from == GIT_FROM_BRANCH ? k->ref
                       : k->ask.base != NULL          ? k->ask.base
                                                      : "HEAD");
}

static int take_base(struct git_job *j, struct err *e)
{
    struct add_job *k = self(j);
    if (j->cmd.code != 0) {
        return err_set(e, ERR_NOT_FOUND, "there is no commit '%s' in '%s'",
                       k->ask.from == GIT_FROM_BRANCH ? k->ask.branch : k->ask.base, k->out.root);
    }
    int rc = job__id(j, &k->out.base, e);
    k->out.start = k->out.base;
    return rc;
}

static void make_start(struct git_job *j)
{
    if (j->changed) {
        job__run(j, "commit-tree", j->tree, "-p", j->look.head, "-m",
                 "the working tree as it was at the start", "-m", "Afloat-Start: yes", NULL);
        look__identity(j);
        j->cmd.id = &self(j)->out.start;
        self(j)->out.dirty = true;
    }
}

// ---- the worktree ----------------------------------------------------------------------------

static void make_branch(struct git_job *j)
{
    struct add_job *k = self(j);
    j->place.index = NULL;
    if (k->ask.from == GIT_FROM_BRANCH) {
        return;
    }
    k->made_branch = true; // until we know better: a git that was killed does not tell
    const char *before = k->ask.over ? NULL : ""; // "": there is none
    job__run(j, "update-ref", "--no-deref", k->ref, k->out.start, before, NULL);
    j->cmd.may_fail = true;
}

static int branch_made(struct git_job *j, struct err *e)
{
    struct add_job *k = self(j);
    if (j->cmd.code == 0) {
        return 0;
    }
    k->made_branch = strstr(buf_z(&j->cmd.grumble), "already exists") == NULL;
    return job__grumble(j, ERR_CONFLICT, "cannot make the branch", e);
}

/// Git gives up when it comes across a registration that another git is just making.
static int take_turn(struct git_job *j, struct err *e)
{
    (void)e;
    assert(self(j)->out.common != NULL);
    job__take_turn(j, self(j)->out.common);
    return 0;
}

static void add_worktree(struct git_job *j)
{
    struct add_job *k = self(j);
    k->tried = true;
    job__run(j, "worktree", "add", "-q", k->ask.quarantine != NULL ? "--no-checkout" : "--checkout",
             NULL);
    if (k->ask.steal) {
        job__arg(j, "--force");
    }
    job__arg(j, "--");
    job__arg(j, k->out.dir);
    job__arg(j, k->ask.branch);
    j->cmd.may_fail = true;
}

static int worktree_added(struct git_job *j, struct err *e)
{
    bool resumed = self(j)->ask.from == GIT_FROM_BRANCH;
    if (j->cmd.code != 0) {
        return job__grumble(j, resumed ? ERR_CONFLICT : UV_EIO, "cannot make the worktree", e);
    }
    job__release(j);
    return 0;
}

// ---- its own repository ------------------------------------------------------------------------

static void ask_refs(struct git_job *j)
{
    if (self(j)->ask.quarantine != NULL) {
        quarantine__ask_refs(j);
    }
}

static int make_quarantine(struct git_job *j, struct err *e)
{
    struct add_job *k = self(j);
    if (k->ask.quarantine == NULL) {
        return 0;
    }
    assert(k->out.start != NULL && k->out.dir != NULL);
    char *own = own__find(k->out.common, k->out.dir);
    struct quarantine q = {.dir = k->ask.quarantine,
                           .work_tree = k->out.dir,
                           .common = k->out.common,
                           .git_dir = j->look.git_dir,
                           .registration = own,
                           .branch = k->ask.branch,
                           .tip = k->out.start,
                           .start = k->out.start};
    int rc = own != NULL ? quarantine__make(j, &q, e)
                         : err_set(e, UV_EIO, "git has not registered '%s'", k->out.dir);
    free(own);
    return rc;
}

static void check_out(struct git_job *j)
{
    struct add_job *k = self(j);
    if (k->ask.quarantine != NULL) {
        j->place.dir = j->place.work_tree = k->out.dir;
        j->place.git_dir = k->ask.quarantine;
        job__run(j, "read-tree", "-m", "-u", "HEAD", NULL);
    }
}

static int checked_out(struct git_job *j, struct err *e)
{
    (void)e;
    j->place.dir = j->look.root;
    j->place.git_dir = j->place.work_tree = NULL;
    return 0;
}

// ---- what git does not bring -----------------------------------------------------------------

static void ask_ignored(struct git_job *j)
{
    struct add_job *k = self(j);
    if (k->ask.include[0] == NULL) {
        return;
    }
    job__run(j, "ls-files", "-z", "-o", "-i", "--exclude-standard", "--", NULL);
    job__only_reads(j);
    for (const char *const *glob = k->ask.include; *glob != NULL; glob++) {
        const char *depth = strchr(*glob, '/') == NULL ? "**/" : "";
        job__arg(j, arena_printf(&j->arena, ":(top,glob)%s%s", depth, *glob + (**glob == '/')));
    }
}

static int take_ignored(struct git_job *j, struct err *e)
{
    struct add_job *k = self(j);
    (void)e;
    k->ignored = job__names(j, buf_str(&j->cmd.out), INCLUDE_MAX);
    if (k->ignored.cut) {
        job__note(j, "only the first %d ignored files were copied", INCLUDE_MAX);
    }
    return 0;
}

/// A path from the root that stays beneath it.
static bool is_inside(const char *path)
{
    struct str rest = str_of(path);
    bool inside = path[0] != '/' && path[0] != '\0';
    while (rest.n != 0 && inside) {
        struct str part = str_cut(&rest, '/');
        inside = part.n != 0 && !str_eqz(part, "..") && !str_eqz(part, ".") &&
                 !str_caseeqz(part, ".git");
    }
    return inside;
}

static int carry(struct git_job *j, struct err *e)
{
    struct add_job *k = self(j);
    struct err why;
    (void)e;
    for (size_t i = 0; i < k->ignored.n; i++) {
        if (files__carry(k->out.root, k->out.dir, k->ignored.p[i], &why) < 0) {
            job__note(j, "%s", why.msg);
        }
    }
    for (const char *const *name = k->ask.link; *name != NULL; name++) {
        char *theirs = path_join(k->out.root, *name), *ours = path_join(k->out.dir, *name);
        if (!is_inside(*name)) {
            job__note(j, "'%s' is not a path below the root; it was not linked", *name);
        } else if (path_exists(theirs) && !path_exists(ours) &&
                   files__link(k->out.dir, *name, theirs, &why) < 0) {
            job__note(j, "%s", why.msg);
        }
        free(ours);
        free(theirs);
    }
    return 0;
}

static int tell(struct git_job *j, struct err *e)
{
    (void)e;
    for (size_t i = 0; i < j->nested.n; i++) {
        job__note(j, "the repository '%s' is not in the worktree: git does not track it",
                  j->nested.p[i]);
    }
    if (j->look.has_submodules) {
        job__note(j, "submodules are not checked out in the worktree");
    }
    if (j->look.sparse) {
        job__note(j, "the checkout is sparse, so is the worktree");
    }
    return 0;
}

// clang-format off
#define MAKE_STEPS                                             \
    STEP_COMMAND("branch", make_branch, branch_made),          \
    STEP_THINK("turn", take_turn),                             \
    STEP_COMMAND("worktree", add_worktree, worktree_added),    \
    STEP_COMMAND("refs", ask_refs, quarantine__take_refs),     \
    STEP_WORK("quarantine", make_quarantine),                  \
    STEP_COMMAND("checkout", check_out, checked_out),          \
    STEP_COMMAND("ignored files", ask_ignored, take_ignored),  \
    STEP_WORK("carry", carry),                                 \
    STEP_THINK("tell", tell)

static const struct git_step from_state[] = {
    STATE_STEPS,
    STEP_COMMAND("start commit", make_start, NULL),
    MAKE_STEPS,
    STEPS_END
};

static const struct git_step from_name[] = {
    STEP_COMMAND("base", ask_base, take_base),
    MAKE_STEPS,
    STEPS_END
};

// clang-format on

static int choose_way(struct git_job *j, struct err *e)
{
    (void)e;
    job__become(j, self(j)->ask.from == GIT_FROM_STATE ? from_state : from_name);
    return 0;
}

// clang-format off
static const struct git_step add_steps[] = {
    LOOK_STEPS,
    STEP_THINK("check", check),
    STEP_WORK("directory", look_at_dir),
    STEP_THINK("way", choose_way),
    STEPS_END
};
// clang-format on

// ---- taking it back --------------------------------------------------------------------------

static int undo_turn(struct git_job *j, struct err *e)
{
    return self(j)->tried ? take_turn(j, e) : 0;
}

static int undo_dir(struct git_job *j, struct err *e)
{
    struct add_job *k = self(j);
    struct git_worktree w = {
        .common = k->out.common, .dir = k->out.dir, .quarantine = k->ask.quarantine};
    return k->tried ? own__forget(&w, e) : 0;
}

static void undo_branch(struct git_job *j)
{
    struct add_job *k = self(j);
    checked_out(j, NULL);
    j->place.index = NULL;
    if (k->made_branch) {
        job__run(j, "update-ref", "--no-deref", "-d", k->ref, k->out.start, NULL);
        j->cmd.may_fail = true; // the branch may not have been made yet
    }
}

// clang-format off
static const struct git_step undo_steps[] = {
    STEP_THINK("turn", undo_turn),
    STEP_WORK("directory", undo_dir),
    STEP_COMMAND("branch", undo_branch, NULL),
    STEPS_END
};
// clang-format on

// ---- public ----------------------------------------------------------------------------------

static void report(struct git_job *j, int status, const struct err *e)
{
    struct add_job *k = self(j);
    static const struct git_added nothing;
    assert(status != 0 || k->out.dir != NULL);
    k->out.notes = job__notes(j);
    k->cb(k->arg, status, e, status == 0 ? &k->out : &nothing);
}

struct git_job *git_add(struct git *g, const struct git_add *a, git_add_cb *cb, void *arg)
{
    struct add_job *k = job__new(g, sizeof *k, add_steps, undo_steps, report);
    struct git_job *j = &k->j;
    k->cb = cb;
    k->arg = arg;
    k->ask = (struct git_add){
        .repo = job__dup(j, a->repo),
        .dir = job__dup(j, a->dir),
        .branch = job__dup(j, a->branch),
        .from = a->from,
        .base = job__dup(j, a->base),
        .include = job__dup_list(j, a->include),
        .link = job__dup_list(j, a->link),
        .steal = a->steal,
        .over = a->over,
        .quarantine = job__dup(j, a->quarantine),
    };
    k->ref = arena_printf(&j->arena, "refs/heads/%s", a->branch);
    j->place.dir = k->ask.repo;
    return j;
}
