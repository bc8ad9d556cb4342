// What a directory is to git.
//
// One rev-parse answers nearly all. Its answers are lines, and paths may hold newlines; but it prints options
// that it does not know as they are, so one of ours separates the answers. Where there is no commit yet it
// stops at HEAD, after answering all before it.
//
// A repository is identified by its common directory, the same from each of its worktrees; the directory
// that users know is that of its main checkout.

#include <limits.h>
#include <sys/stat.h>

#include "base/path.h"
#include "git/git_int.h"

#define NEXT "--afloat-next"

struct look_job {
    struct git_job j;
    git_look_cb *cb;
    void *arg;
};

// ---- rev-parse -------------------------------------------------------------------------------

void git__look_begin(struct git_job *j)
{
    job__run(j, "rev-parse", "--is-bare-repository", "--is-inside-work-tree", NEXT, "--show-cdup",
             NEXT, "--path-format=absolute", "--git-common-dir", NEXT, "--git-dir", NEXT, "HEAD",
             "HEAD^{tree}", "--symbolic-full-name", "HEAD", "--", NULL);
    job__only_reads(j);
    j->cmd.may_fail = true;
}

/// The answer up to the next mark, without its newline.
static struct str take_answer(struct str *rest)
{
    static const char mark[] = NEXT "\n";
    size_t n = sizeof mark - 1;
    for (size_t i = 0; i + n <= rest->n; i++) {
        if ((i == 0 || rest->p[i - 1] == '\n') && memcmp(rest->p + i, mark, n) == 0) {
            struct str answer = {rest->p, i == 0 ? 0 : i - 1};
            *rest = str_from(*rest, i + n);
            return answer;
        }
    }
    struct str answer = *rest;
    *rest = STR_NULL;
    return answer;
}

int git__look_end(struct git_job *j, struct err *e)
{
    struct git_look *l = &j->look;
    struct arena *a = &j->arena;
    struct str rest = buf_str(&j->cmd.out), flags = take_answer(&rest);
    l->bare = str_eqz(str_cut(&flags, '\n'), "true");
    bool inside = str_eqz(str_cut(&flags, '\n'), "true");
    j->cdup = arena_strdup(a, take_answer(&rest));
    l->common = arena_strdup(a, take_answer(&rest));
    l->git_dir = arena_strdup(a, take_answer(&rest));
    if (l->git_dir[0] != '/' || l->common[0] != '/') {
        return job__grumble(j, ERR_NOT_FOUND, j->place.dir, e);
    }
    if (!l->bare && !inside) {
        return err_set(e, ERR_NOT_FOUND, "'%s' is inside a git directory, not a checkout",
                       j->place.dir);
    }
    l->head = arena_strdup(a, str_cut(&rest, '\n'));
    l->tree = arena_strdup(a, str_cut(&rest, '\n'));
    struct str name = str_cut(&rest, '\n');
    bool branch = str_starts(name, "refs/heads/");
    l->branch = branch ? arena_strdup(a, str_from(name, strlen("refs/heads/"))) : "";
    l->unborn = !job__is_id(l->head) || !job__is_id(l->tree);
    if (l->unborn) {
        l->head = l->tree = "";
    }
    return 0;
}

void look__ask_branch(struct git_job *j)
{
    if (j->look.unborn) {
        job__run(j, "symbolic-ref", "-q", "--short", "HEAD", NULL);
        j->cmd.may_fail = true;
    }
}

int look__take_branch(struct git_job *j, struct err *e)
{
    (void)e;
    j->look.branch = job__line(j);
    return 0;
}

// ---- settings --------------------------------------------------------------------------------

void look__ask(struct git_job *j)
{
    job__run(j, "config", "-z", "--get-regexp", "^(user\\.(name|email)|core\\.sparsecheckout)$",
             NULL);
    j->cmd.may_fail = true; // that it found none
}

int look__read(struct git_job *j, struct err *e)
{
    struct str rest = buf_str(&j->cmd.out);
    (void)e;
    while (rest.n != 0) {
        struct str value = str_cut(&rest, '\0');
        struct str key = str_cut(&value, '\n');
        if (str_eqz(key, "user.name") && value.n != 0) {
            j->user_name = arena_strdup(&j->arena, value);
        } else if (str_eqz(key, "user.email") && value.n != 0) {
            j->user_email = arena_strdup(&j->arena, value);
        } else if (str_eqz(key, "core.sparsecheckout")) {
            j->look.sparse = str_caseeqz(value, "true") || str_eqz(value, "1");
        }
    }
    return 0;
}

// ---- files -----------------------------------------------------------------------------------

static const struct {
    const char *file, *doing;
} operations[] = {
    {"MERGE_HEAD", "merge"},    {"rebase-merge", "rebase"},
    {"rebase-apply", "rebase"}, {"CHERRY_PICK_HEAD", "cherry-pick"},
    {"REVERT_HEAD", "revert"},  {"BISECT_LOG", "bisect"},
};

static bool has(const char *dir, const char *name)
{
    char *path = path_join(dir, name);
    bool there = path_exists(path);
    free(path);
    return there;
}

static int make_real(struct git_job *j, const char **path, struct err *e)
{
    char *real = realpath(*path, NULL);
    if (real == NULL) {
        return err_sys(e, "cannot look at '%s'", *path);
    }
    *path = job__dup(j, real);
    free(real);
    return 0;
}

int look__files(struct git_job *j, struct err *e)
{
    struct git_look *l = &j->look;
    char *root = path_join(j->place.dir, j->cdup);
    l->root = l->bare ? "" : job__dup(j, root);
    free(root);
    int rc = l->bare ? 0 : make_real(j, &l->root, e);
    rc = rc == 0 ? make_real(j, &l->common, e) : rc;
    rc = rc == 0 ? make_real(j, &l->git_dir, e) : rc;
    if (rc < 0) {
        return rc;
    }
    l->linked = strcmp(l->git_dir, l->common) != 0;
    // the main checkout is around the repository, except for a submodule or a bare one
    struct str common = str_of(l->common);
    l->main_root = !l->bare && str_eqz(path_base(common), ".git")
                       ? arena_strdup(&j->arena, path_dir(common))
                   : l->bare || l->linked ? l->common
                                          : l->root;
    l->has_submodules = !l->bare && has(l->root, ".gitmodules");
    l->doing = "";
    for (size_t i = 0; i < ARRAY_LEN(operations) && l->doing[0] == '\0'; i++) {
        l->doing = has(l->git_dir, operations[i].file) ? operations[i].doing : "";
    }
    return 0;
}

int look__go_root(struct git_job *j, struct err *e)
{
    (void)e;
    if (!j->look.bare) {
        j->place.dir = j->look.root;
    }
    return 0;
}

int look__need_commit(struct git_job *j, struct err *e)
{
    if (j->look.bare) {
        return err_set(e, ERR_UNSUPPORTED,
                       "'%s' is a bare repository: work in a checkout of it ('git worktree add')",
                       j->look.common);
    }
    if (j->look.unborn) {
        return err_set(e, ERR_UNSUPPORTED,
                       "'%s' has no commit yet: make one ('git commit --allow-empty -m start')",
                       j->look.root);
    }
    return 0;
}

/// In a box git may not see where the user's name is written.
void look__identity(struct git_job *j)
{
    static const char *const names[] = {"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"};
    static const char *const emails[] = {"GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"};
    bool boxed = j->place.box != NULL;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (j->user_name == NULL || boxed) {
            job__env(j, names[i], j->user_name != NULL ? j->user_name : GIT_OUR_NAME);
        }
        if (j->user_email == NULL || boxed) {
            job__env(j, emails[i], j->user_email != NULL ? j->user_email : GIT_OUR_EMAIL);
        }
    }
}

// ---- public ----------------------------------------------------------------------------------

static void report(struct git_job *j, int status, const struct err *e)
{
    struct look_job *k = container_of(j, struct look_job, j);
    static const struct git_look nothing;
    k->cb(k->arg, status, e, status == 0 ? &j->look : &nothing);
}

struct git_job *git_look(struct git *g, const char *dir, git_look_cb *cb, void *arg)
{
    static const struct git_step steps[] = {LOOK_STEPS, STEPS_END};
    struct look_job *k = job__new(g, sizeof *k, steps, NULL, report);
    k->cb = cb;
    k->arg = arg;
    k->j.place.dir = job__dup(&k->j, dir);
    return &k->j;
}
