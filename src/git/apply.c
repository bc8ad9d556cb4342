// Put the work of a branch on the user's checkout, uncommitted: all of it or nothing.
//
//          START ──────────────> the branch's tree            what was done
//            └────> U, the checkout as it is (state.c)        what the user did meanwhile
//                        └── merge-tree: base START ──> R     or conflicts, and we stop
//     the files: U ──> R, by an index of ours: checked, then written
//
// Two commits that no ref names, both children of START, make START the base of the merge whatever the
// branch's own history has become.
//
// Before it writes, git compares every file that it will change with U. It does not look at ignored files
// where R has a new one, so we do. The user's index is never touched.
//
// When writing fails half way (a full disk) the files are restored from U. When the hub is killed half way,
// git continues without it. When git is killed too (a power cut), some files are as in R and one may be
// incomplete: applying again finishes the job, since what is there already is the same change on both sides.
// U stays in the object store for weeks.

#include <assert.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "git/git_int.h"

enum { PATHS_MAX = 10000 };

struct apply_job {
    struct take_job t;
    const char *ours, *theirs;      // commits
    struct git_names added, others; // paths that R adds, paths that it changes or removes
    const char **new_dirs;          // directories that come with them, outer ones first
    size_t n_new_dirs;
    bool writing; // files may have changed
};

static struct apply_job *self(struct git_job *j)
{
    return container_of(j, struct apply_job, t.j);
}

// ---- the merge -------------------------------------------------------------------------------

static void make_ours(struct git_job *j)
{
    job__run(j, "commit-tree", j->tree, "-p", self(j)->t.start, "-m", "the checkout", NULL);
    look__identity(j);
    j->cmd.may_fail = true;
    j->cmd.id = &self(j)->ours;
    j->cmd.gone = arena_printf(&j->arena, "the commit '%s'", self(j)->t.start);
}

static void make_theirs(struct git_job *j)
{
    struct apply_job *k = self(j);
    job__run(j, "commit-tree", arena_printf(&j->arena, "%s^{tree}", j->work.rev), "-p", k->t.start,
             "-m", "the branch", NULL);
    look__identity(j);
    j->cmd.may_fail = true;
    j->cmd.id = &k->theirs;
    j->cmd.gone = arena_printf(&j->arena, "the branch '%s'", k->t.branch);
}

static void merge(struct git_job *j)
{
    struct apply_job *k = self(j);
    take__merge(&k->t, k->ours, k->theirs);
}

// ---- what it means for the files ---------------------------------------------------------------

static bool is_there_already(struct git_job *j)
{
    return strcmp(self(j)->t.merged, j->tree) == 0;
}

static void ask_paths(struct git_job *j)
{
    struct apply_job *k = self(j);
    if (!is_there_already(j)) {
        job__run(j, "diff-tree", "-r", "-z", "--name-status", "--no-renames", j->tree, k->t.merged,
                 "--", NULL);
    }
}

static int take_paths(struct git_job *j, struct err *e)
{
    struct apply_job *k = self(j);
    struct str rest = buf_str(&j->cmd.out);
    struct buf all = {.max = SIZE_MAX}, added = {.max = SIZE_MAX}, others = {.max = SIZE_MAX};
    (void)e;
    while (rest.n != 0) {
        struct str kind = str_cut(&rest, '\0'), path = str_cut(&rest, '\0');
        struct buf *to = str_eqz(kind, "A") ? &added : &others;
        buf_add(&all, path.p, path.n + 1); // the NUL, too
        buf_add(to, path.p, path.n + 1);
    }
    k->t.out.paths = job__names(j, buf_str(&all), PATHS_MAX);
    k->added = job__names(j, buf_str(&added), SIZE_MAX);
    k->others = job__names(j, buf_str(&others), SIZE_MAX);
    buf_fini(&others);
    buf_fini(&added);
    buf_fini(&all);
    return 0;
}

/// How many of the files that go, or change, are `path` or are below it?
static size_t count_others(const struct apply_job *k, const char *path)
{
    size_t count = 0;
    for (size_t i = 0; i < k->others.n; i++) {
        count += path_below(path, k->others.p[i]) != NULL;
    }
    return count;
}

/// May R have a file at `path`, or (not `last`) a directory? What U does not know there is the user's: an
/// ignored file, a link, another repository. A new file may replace a directory only if all in there goes.
static int check_place(struct apply_job *k, const char *root, const char *path, bool last,
                       struct err *e)
{
    struct stat st;
    struct git_job *j = &k->t.j;
    char *full = path_join(root, path), *git = path_join(full, ".git");
    bool missing = lstat(full, &st) != 0, fits = missing;
    if (missing && !last) {
        k->new_dirs[k->n_new_dirs++] = job__dup(j, path);
    } else if (!missing && S_ISDIR(st.st_mode)) {
        fits = !path_exists(git);
        if (fits && last) {
            struct git_measure m = {0};
            files__measure(full, &m);
            fits = !m.partial && m.files <= count_others(k, path);
        }
    } else if (!missing) {
        fits = count_others(k, path) != 0;
    }
    free(git);
    free(full);
    if (fits) {
        return 0;
    }
    const char **p = arena_calloc(&j->arena, 1, sizeof *p);
    p[0] = job__dup(j, path);
    k->t.out.paths = (struct git_names){.p = p, .n = 1};
    return err_set(e, ERR_CONFLICT, "'%s' is in the way: move it and try again", path);
}

static int check_ways(struct git_job *j, struct err *e)
{
    struct apply_job *k = self(j);
    size_t slashes = 0;
    int rc = 0;
    for (size_t i = 0; i < k->added.n; i++) {
        for (const char *c = k->added.p[i]; *c != '\0'; c++) {
            slashes += *c == '/';
        }
    }
    k->new_dirs = arena_calloc(&j->arena, slashes + 1, sizeof *k->new_dirs);
    for (size_t i = 0; i < k->added.n && rc == 0; i++) {
        const char *path = k->added.p[i];
        for (const char *c = path; *c != '\0' && rc == 0; c++) {
            if (*c == '/') {
                char *dir = xstrndup(path, (size_t)(c - path));
                rc = check_place(k, j->look.root, dir, false, e);
                free(dir);
            }
        }
        rc = rc == 0 ? check_place(k, j->look.root, path, true, e) : rc;
    }
    assert(k->n_new_dirs <= slashes);
    return rc;
}

// ---- writing ---------------------------------------------------------------------------------

static void try_write(struct git_job *j)
{
    if (!is_there_already(j)) {
        job__run(j, "read-tree", "-n", "-m", "-u", "--no-sparse-checkout", j->tree,
                 self(j)->t.merged, NULL);
        j->cmd.may_fail = true;
    }
}

static int tried(struct git_job *j, struct err *e)
{
    return j->cmd.code == 0
               ? 0
               : job__grumble(j, ERR_CONFLICT, "files have changed meanwhile, try again", e);
}

static void write_files(struct git_job *j)
{
    struct apply_job *k = self(j);
    if (is_there_already(j)) {
        k->t.out.how = GIT_NOTHING;
        return;
    }
    job__settle(j);
    k->t.out.how = GIT_APPLIED;
    k->writing = true;
    job__run(j, "read-tree", "-m", "-u", "--no-sparse-checkout", j->tree, k->t.merged, NULL);
    j->cmd.may_fail = j->cmd.outlives_us = true;
}

static int written(struct git_job *j, struct err *e)
{
    // git checks everything before it writes anything, and says so in these words
    static const char *const refusals[] = {"not uptodate.", "would be overwritten",
                                           "would be removed", "would lose untracked",
                                           "index.lock"};
    struct apply_job *k = self(j);
    bool refused = false;
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        refused |= strstr(buf_z(&j->cmd.grumble), refusals[i]) != NULL;
    }
    if (j->cmd.code != 0 && !refused) {
        return job__grumble(j, UV_EIO, "cannot write the files, all are as before", e);
    }
    k->writing = false;
    return tried(j, e);
}

// ---- putting back ------------------------------------------------------------------------------

static int undo_new(struct git_job *j, struct err *e)
{
    struct apply_job *k = self(j);
    (void)e;
    for (size_t i = 0; i < k->added.n && k->writing; i++) {
        char *path = path_join(j->look.root, k->added.p[i]);
        unlink(path);
        free(path);
    }
    for (size_t i = k->n_new_dirs; i-- > 0 && k->writing;) {
        char *path = path_join(j->look.root, k->new_dirs[i]);
        rmdir(path);
        free(path);
    }
    return 0;
}

/// The index that was used may be as in U or as in R, and locked.
static void undo_index(struct git_job *j)
{
    if (self(j)->writing) {
        j->place.index = arena_printf(&j->arena, "%s/undo", j->tmp);
        job__run(j, "read-tree", j->tree, NULL);
    }
}

static void undo_others(struct git_job *j)
{
    struct apply_job *k = self(j);
    if (k->writing && k->others.n != 0) {
        job__run(j, "checkout-index", "-f", "-z", "--stdin", NULL);
        job__feed(j, &k->others);
    }
}

static int done(struct git_job *j, struct err *e)
{
    struct apply_job *k = self(j);
    (void)e;
    k->t.out.branch = j->look.branch;
    k->t.out.head = j->look.head;
    return 0;
}

// clang-format off
static const struct git_step apply_steps[] = {
    LOOK_STEPS,
    STEP_THINK("check", look__need_commit),
    STATE_STEPS,
    JOIN_STEPS,
    STEP_COMMAND("our side", make_ours, NULL),
    STEP_COMMAND("their side", make_theirs, NULL),
    STEP_COMMAND("merge", merge, take__merged),
    STEP_COMMAND("paths", ask_paths, take_paths),
    STEP_WORK("what is in the way", check_ways),
    STEP_COMMAND("try", try_write, tried),
    STEP_COMMAND("write", write_files, written),
    STEP_THINK("done", done),
    STEPS_END
};

static const struct git_step undo_steps[] = {
    STEP_WORK("new files", undo_new),
    STEP_COMMAND("index", undo_index, NULL),
    STEP_COMMAND("other files", undo_others, NULL),
    STEPS_END
};
// clang-format on

struct git_job *git_apply(struct git *g, const char *root, const struct git_worktree *w,
                          git_take_cb *cb, void *arg)
{
    struct apply_job *k = take__new(g, sizeof *k, apply_steps, undo_steps, root, w, cb, arg);
    return &k->t.j;
}
