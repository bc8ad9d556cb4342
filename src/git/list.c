// What worktrees and branches there are, and what would be lost with one.

#include <assert.h>

#include "git/git_int.h"

struct list_job {
    struct git_job j;
    vec(struct git_entry) entries;
    git_list_cb *cb;
    void *arg;
    // deleting a branch
    const char *branch, *ref, *commit;
    bool gone;
    git_done_cb *done;
};

static struct list_job *self(struct git_job *j)
{
    return container_of(j, struct list_job, j);
}

// ---- the list --------------------------------------------------------------------------------

static void ask_list(struct git_job *j)
{
    job__run(j, "worktree", "list", "--porcelain", "-z", NULL);
    job__only_reads(j);
    j->cmd.may_fail = true;
}

static int take_list(struct git_job *j, struct err *e)
{
    struct list_job *k = self(j);
    struct str rest = buf_str(&j->cmd.out);
    if (j->cmd.code != 0) {
        return job__grumble(j, ERR_NOT_FOUND, j->place.dir, e);
    }
    while (rest.n != 0) {
        struct str row = str_cut(&rest, '\0');
        if (str_starts(row, "worktree ")) {
            struct git_entry entry = {
                .path = arena_strdup(&j->arena, str_from(row, strlen("worktree "))),
                .head = "",
                .branch = "",
            };
            vec_push(&k->entries, entry);
        } else if (k->entries.n != 0) { // an attribute: a word, and what follows it
            struct git_entry *entry = vec_last(&k->entries);
            struct str value = row, word = str_cut(&value, ' ');
            if (str_eqz(word, "HEAD")) {
                entry->head = arena_strdup(&j->arena, value);
            } else if (str_eqz(word, "branch")) {
                size_t n = str_starts(value, "refs/heads/") ? strlen("refs/heads/") : 0;
                entry->branch = arena_strdup(&j->arena, str_from(value, n));
            }
            entry->bare = entry->bare || str_eqz(word, "bare");
            entry->locked = entry->locked || str_eqz(word, "locked");
            entry->prunable = entry->prunable || str_eqz(word, "prunable");
        }
    }
    return 0;
}

static void report_list(struct git_job *j, int status, const struct err *e)
{
    struct list_job *k = self(j);
    struct git_list list = {k->entries.p, status == 0 ? k->entries.n : 0};
    k->cb(k->arg, status, e, &list);
    vec_fini(&k->entries);
}

struct git_job *git_list(struct git *g, const char *repo, git_list_cb *cb, void *arg)
{
    static const struct git_step steps[] = {STEP_COMMAND("list", ask_list, take_list), STEPS_END};
    struct list_job *k = job__new(g, sizeof *k, steps, NULL, report_list);
    k->cb = cb;
    k->arg = arg;
    k->j.place.dir = job__dup(&k->j, repo);
    return &k->j;
}

// ---- deleting a branch -----------------------------------------------------------------------

static void ask_tip(struct git_job *j)
{
    job__run(j, "rev-parse", "-q", "--verify", self(j)->ref, NULL);
    j->cmd.may_fail = true;
}

static int take_tip(struct git_job *j, struct err *e)
{
    struct list_job *k = self(j);
    k->gone = j->cmd.code != 0;
    return k->gone || strcmp(job__line(j), k->commit) == 0
               ? 0
               : err_set(e, ERR_CONFLICT, "the branch '%s' has moved and is kept", k->branch);
}

static int check_list(struct git_job *j, struct err *e)
{
    struct list_job *k = self(j);
    int rc = take_list(j, e);
    for (size_t i = 0; i < k->entries.n && rc == 0 && !k->gone; i++) {
        const struct git_entry *entry = &k->entries.p[i];
        if (strcmp(entry->branch, k->branch) == 0) {
            rc = err_set(e, ERR_CONFLICT, "the branch '%s' is checked out in '%s'", k->branch,
                         entry->path);
        }
    }
    return rc;
}

static void delete_ref(struct git_job *j)
{
    struct list_job *k = self(j);
    if (!k->gone) {
        job__run(j, "update-ref", "--no-deref", "-d", k->ref, k->commit, NULL);
    }
}

static void report_deleted(struct git_job *j, int status, const struct err *e)
{
    struct list_job *k = self(j);
    k->done(k->arg, status, e);
    vec_fini(&k->entries);
}

struct git_job *git_delete_branch(struct git *g, const char *common, const char *branch,
                                  const char *commit, git_done_cb *cb, void *arg)
{
    // clang-format off
    static const struct git_step steps[] = {
        STEP_COMMAND("tip", ask_tip, take_tip),
        STEP_COMMAND("list", ask_list, check_list),
        STEP_COMMAND("delete", delete_ref, NULL),
        STEPS_END
    };
    // clang-format on
    assert(branch != NULL && commit != NULL);
    struct list_job *k = job__new(g, sizeof *k, steps, NULL, report_deleted);
    k->done = cb;
    k->arg = arg;
    k->branch = job__dup(&k->j, branch);
    k->commit = job__dup(&k->j, commit);
    k->ref = arena_printf(&k->j.arena, "refs/heads/%s", branch);
    k->j.place.dir = k->j.place.git_dir = job__dup(&k->j, common);
    return &k->j;
}

// ---- measuring -------------------------------------------------------------------------------

struct measure_job {
    struct git_job j;
    struct git_worktree of;
    struct git_measure out;
    git_measure_cb *cb;
    void *arg;
};

static struct measure_job *measuring(struct git_job *j)
{
    return container_of(j, struct measure_job, j);
}

static int walk(struct git_job *j, struct err *e)
{
    struct measure_job *k = measuring(j);
    files__measure(k->of.dir, &k->out);
    return own__enter(j, &k->of, e);
}

static void ask_status(struct git_job *j)
{
    job__run(j, "status", "--porcelain=v2", "-z", "--no-renames", "--untracked-files=all",
             "--ignore-submodules=all", NULL);
    job__only_reads(j);
}

static int take_status(struct git_job *j, struct err *e)
{
    struct str out = buf_str(&j->cmd.out);
    (void)e;
    for (size_t i = 0; i < out.n; i++) {
        measuring(j)->out.uncommitted += out.p[i] == '\0';
    }
    return 0;
}

static void ask_commits(struct git_job *j)
{
    const char *branch = measuring(j)->of.branch;
    job__run(j, "rev-list", "--count", arena_printf(&j->arena, "refs/heads/%s", branch), "--not",
             arena_printf(&j->arena, "--exclude=%s", branch), "--branches", "--remotes", "--",
             NULL);
    j->cmd.may_fail = true; // the branch may be gone
}

static int take_commits(struct git_job *j, struct err *e)
{
    (void)e;
    str_to_u64(str_of(job__line(j)), &measuring(j)->out.commits);
    return 0;
}

static void report_measure(struct git_job *j, int status, const struct err *e)
{
    struct measure_job *k = measuring(j);
    static const struct git_measure nothing;
    k->cb(k->arg, status, e, status == 0 ? &k->out : &nothing);
}

struct git_job *git_measure(struct git *g, const struct git_worktree *w, git_measure_cb *cb,
                            void *arg)
{
    // clang-format off
    static const struct git_step steps[] = {
        STEP_WORK("walk", walk),
        STEP_COMMAND("status", ask_status, take_status),
        STEP_COMMAND("commits", ask_commits, take_commits),
        STEPS_END
    };
    // clang-format on
    struct measure_job *k = job__new(g, sizeof *k, steps, NULL, report_measure);
    k->cb = cb;
    k->arg = arg;
    k->of = own__dup(&k->j, w);
    return &k->j;
}
