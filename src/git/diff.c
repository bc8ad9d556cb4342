// What came of the work: every change after the start, as names, counts and a patch.
//
//     of a branch      start ──────────────────────────────> branch
//     of a worktree    start ──> its files as they are now, as a tree (state.c, an index of ours)
//
// Both are a comparison of two trees, which needs no checkout and reads nothing that is being
// written. Programs that a repository names for comparing are not run.

#include <assert.h>

#include "base/path.h"
#include "git/git_int.h"

enum { CHANGES_MAX = 10000, NAMES_BYTES = 64 << 20 };

struct diff_job {
    struct git_job j;
    struct git_worktree of;
    size_t max_changes, max_patch;
    struct git_diff out;
    vec(struct git_change) changes;
    size_t n_all;
    git_diff_cb *cb;
    void *arg;
};

static struct diff_job *self(struct git_job *j)
{
    return container_of(j, struct diff_job, j);
}

// ---- the two ends ----------------------------------------------------------------------------

static int enter(struct git_job *j, struct err *e)
{
    struct diff_job *k = self(j);
    j->look.head = k->of.start;
    return own__peek(j, &k->of, e);
}

static int state_known(struct git_job *j, struct err *e)
{
    (void)e;
    self(j)->out.to = j->changed ? j->tree : self(j)->of.start;
    return 0;
}

static void ask_tip(struct git_job *j)
{
    struct diff_job *k = self(j);
    job__ask_commit(j, j->work.rev);
    j->cmd.id = k->out.to == NULL ? &k->out.to : NULL;
    j->cmd.gone = arena_printf(&j->arena, "the branch '%s'", k->of.branch);
}

static void ask_count(struct git_job *j)
{
    struct diff_job *k = self(j);
    job__run(j, "rev-list", "--count", arena_printf(&j->arena, "%s..%s", k->of.start, j->work.rev),
             "--", NULL);
    j->cmd.may_fail = true;
}

static int take_count(struct git_job *j, struct err *e)
{
    struct diff_job *k = self(j);
    if (j->cmd.code != 0 || !str_to_u64(str_of(job__line(j)), &k->out.commits)) {
        return err_set(e, ERR_NOT_FOUND, "the commit '%s' is gone", k->of.start);
    }
    return 0;
}

// ---- names and counts ------------------------------------------------------------------------

static void ask_changes(struct git_job *j)
{
    struct diff_job *k = self(j);
    assert(k->out.to != NULL);
    job__run(j, "diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff",
             "--no-textconv", k->of.start, k->out.to, "--", NULL);
    j->cmd.max = NAMES_BYTES;
}

/// First `:100644 100644 ID ID M NUL PATH` for each change, then in the same order `12 TAB 3 TAB PATH`, or
/// dashes for a binary file.
static int take_changes(struct git_job *j, struct err *e)
{
    struct diff_job *k = self(j);
    struct str rest = buf_str(&j->cmd.out);
    size_t counted = 0;
    (void)e;
    while (rest.n != 0) {
        struct str row = str_cut(&rest, '\0');
        if (str_starts(row, ":")) {
            struct str path = str_cut(&rest, '\0');
            if (k->out.touches[0] == '\0' && git_is_protected(path)) {
                k->out.touches = arena_strdup(&j->arena, path);
            }
            if (k->n_all++ < k->max_changes) {
                struct git_change change = {.path = arena_strdup(&j->arena, path),
                                            .kind = row.p[row.n - 1]};
                vec_push(&k->changes, change);
            }
            continue;
        }
        uint64_t added = 0, removed = 0;
        bool text = str_to_u64(str_cut(&row, '\t'), &added);
        str_to_u64(str_cut(&row, '\t'), &removed);
        k->out.added += added;
        k->out.removed += removed;
        size_t i = counted++;
        if (i < k->changes.n && str_eqz(row, k->changes.p[i].path)) {
            k->changes.p[i].added = added;
            k->changes.p[i].removed = removed;
            k->changes.p[i].binary = !text;
        }
    }
    k->out.changes = k->changes.p;
    k->out.n_changes = k->changes.n;
    k->out.changes_cut = k->n_all > k->changes.n;
    return 0;
}

static void ask_patch(struct git_job *j)
{
    struct diff_job *k = self(j);
    if (k->max_patch != 0) {
        job__run(j, "diff-tree", "-r", "-p", "-M", "--binary", "--full-index", "--no-ext-diff",
                 "--no-textconv", "--no-color", k->of.start, k->out.to, "--", NULL);
        j->cmd.max = k->max_patch;
        j->cmd.cut_ok = true;
    }
}

static int take_patch(struct git_job *j, struct err *e)
{
    struct diff_job *k = self(j);
    struct str text = buf_str(&j->cmd.out);
    (void)e;
    assert(text.n <= k->max_patch);
    k->out.patch_cut = j->cmd.cut;
    while (j->cmd.cut && text.n != 0 && text.p[text.n - 1] != '\n') {
        text.n--;
    }
    k->out.patch = arena_str(&j->arena, text);
    return 0;
}

// ---- public ----------------------------------------------------------------------------------

// clang-format off
#define COMPARE_STEPS                                  \
    STEP_COMMAND("tip", ask_tip, NULL),                \
    STEP_COMMAND("count", ask_count, take_count),      \
    STEP_COMMAND("changes", ask_changes, take_changes),\
    STEP_COMMAND("patch", ask_patch, take_patch)

static const struct git_step of_branch[] = {JOIN_STEPS, COMPARE_STEPS, STEPS_END};
static const struct git_step of_worktree[] = {
    STEP_WORK("temporary index", enter),
    STEP_COMMAND("add", state__add, state__added),
    STEP_COMMAND("state", state__ask_changes, state__changes),
    STEP_COMMAND("nested", state__drop_nested, NULL),
    STEP_COMMAND("write tree", state__write, NULL),
    STEP_WORK("temporary index away", own__peeked),
    STEP_THINK("ends", state_known),
    COMPARE_STEPS,
    STEPS_END
};
static const struct git_step undo_steps[] = {STEP_WORK("temporary index away", own__peeked), STEPS_END};
// clang-format on

static void report(struct git_job *j, int status, const struct err *e)
{
    struct diff_job *k = self(j);
    static const struct git_diff nothing = {.from = "", .to = "", .touches = ""};
    k->cb(k->arg, status, e, status == 0 ? &k->out : &nothing);
    vec_fini(&k->changes);
}

struct git_job *git_diff(struct git *g, const struct git_diff_opts *o, git_diff_cb *cb, void *arg)
{
    const struct git_step *steps = o->of.dir != NULL ? of_worktree : of_branch;
    struct diff_job *k = job__new(g, sizeof *k, steps, undo_steps, report);
    struct git_job *j = &k->j;
    k->cb = cb;
    k->arg = arg;
    k->of = own__dup(j, &o->of);
    k->max_changes = o->max_changes != 0 ? o->max_changes : CHANGES_MAX;
    k->max_patch = o->max_patch;
    join__init(j, &o->of, true);
    k->out.from = k->of.start;
    k->out.touches = "";
    j->place.dir = j->place.git_dir = k->of.common;
    return j;
}

bool git_is_protected(struct str path)
{
    static const char *const files[] = {".gitmodules", ".gitattributes", "AGENTS.md", "CLAUDE.md"};
    struct str rest = path, top = str_cut(&rest, '/'), name = path_base(path);
    bool found = str_caseeqz(top, ".afloat") || str_caseeqz(top, ".github");
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        found |= str_caseeqz(name, files[i]);
    }
    return found;
}
