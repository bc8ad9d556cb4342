// Worktrees that a user or a plugin asks for, beside those of runs.
//
//     create ──> git_look ──> turnstile ──> git_add ──> {path, branch, base, repository}
//     remove ──> git_look ──> git_measure ──> turnstile ──> git_remove
//     list ────> git_list
//
// They are in the same place as those of runs, $AFLOAT_HOME/worktrees/<slug of the repository>/, under the name
// of their branch. Branches below afloat/ belong to runs: they are neither made nor removed here. A worktree
// with uncommitted files is not removed. What is there when the hub starts is read from git's own files, so that
// the start does not wait for git.

#include "base/folder.h"
#include "base/path.h"
#include "base/slug.h"
#include "bot/ask.h"
#include "config/home.h"

#define OF_RUNS "afloat/"

enum { LINE_MAX_BYTES = 8192 }; // of git's own little files

/// Begin an operation on the repository or worktree of the parameter `key`; false: it was refused.
static bool begin(struct ask *a, const char *key)
{
    const char *path = ask__z(a, key);
    struct str branch = ask__str(a, "branch");
    if (a->b->git == NULL) {
        ask__fail(a, &a->b->git_fault);
    } else if (a->b->stopping) {
        ask__no(a, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (path == NULL || path[0] != '/') {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "'%s' must be an absolute path", key);
    } else if (str_starts(branch, OF_RUNS)) {
        ask__no(a, PROBLEM_INVALID_NAME, NULL, "branches below '%s' belong to runs of bots",
                OF_RUNS);
    } else {
        a->dir = path;
        return true;
    }
    return false;
}

void bots__tell_worktree(struct bots *b, enum bots_tree what, const char *path, const char *branch,
                         const char *repository)
{
    if (b->o.worktree != NULL) {
        b->o.worktree(b->o.arg, what, path, branch, repository);
    }
}

// ---- create -------------------------------------------------------------------------------------

static void on_added(void *arg, int status, const struct err *e, const struct git_added *r)
{
    struct ask *a = arg;
    const char *branch = ask__z(a, "branch");
    turnstile_leave(&a->b->trees, a);
    struct jw *w = ask__begin_answer(a, status, e);
    if (w == NULL) {
        return;
    }
    bots__tell_worktree(a->b, BOTS_TREE_MADE, r->dir, branch, r->root);
    jw_kstrz(w, "path", r->dir);
    jw_kstrz(w, "branch", branch);
    jw_kstrz(w, "base", r->base);
    jw_kstrz(w, "repository", r->root);
    jw_end_obj(w);
    ask__answer(a);
}

/// In $AFLOAT_HOME/worktrees/<slug>/<branch>, with `-` for what is no letter, digit, dot or `_` in the branch.
static void add(void *arg)
{
    struct ask *a = arg;
    char slug[SLUG_TEXT];
    const char *branch = ask__z(a, "branch");
    char *dir = arena_printf(&a->arena, "%s/worktrees/%s/%s", a->b->home,
                             slug_of(a->git.main_root, slug), branch);
    for (char *p = dir + strlen(dir) - strlen(branch); *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || *p == '.' || *p == '_';
        *p = plain ? *p : '-';
    }
    struct git_add what = {.repo = a->dir,
                           .dir = dir,
                           .branch = branch,
                           .from = GIT_FROM_COMMIT,
                           .base = ask__z(a, "base")};
    git_add(a->b->git, &what, on_added, a);
}

static void on_repository(void *arg, int status, const struct err *e, const struct git_look *r)
{
    struct ask *a = arg;
    if (status < 0) {
        ask__fail(a, e);
    } else {
        ask__keep_look(a, r);
        turnstile_enter(&a->b->trees, a->git.common, add, a);
    }
}

void bots_worktree_create(struct ask *a)
{
    if (begin(a, "repo")) {
        git_look(a->b->git, a->dir, on_repository, a);
    }
}

// ---- remove -------------------------------------------------------------------------------------

static void on_removed(void *arg, int status, const struct err *e)
{
    struct ask *a = arg;
    turnstile_leave(&a->b->trees, a);
    struct jw *w = ask__begin_answer(a, status, e);
    if (w != NULL) {
        bots__tell_worktree(a->b, BOTS_TREE_GONE, a->dir, a->git.branch, a->git.common);
        jw_kstrz(w, "removed", a->dir);
        jw_end_obj(w);
        ask__answer(a);
    }
}

static void take_away(void *arg)
{
    struct ask *a = arg;
    struct git_worktree of = {.common = a->git.common, .dir = a->dir};
    git_remove(a->b->git, &of, on_removed, a);
}

static void on_measured(void *arg, int status, const struct err *e, const struct git_measure *r)
{
    struct ask *a = arg;
    if (status < 0) {
        ask__fail(a, e);
    } else if (r->uncommitted != 0) {
        ask__no(a, PROBLEM_CONFLICT, "commit them first", "%llu files in it are not committed",
                (unsigned long long)r->uncommitted);
    } else {
        turnstile_enter(&a->b->trees, a->git.common, take_away, a);
    }
}

static void on_worktree(void *arg, int status, const struct err *e, const struct git_look *r)
{
    struct ask *a = arg;
    if (status < 0) {
        ask__fail(a, e);
    } else if (str_starts(str_of(r->branch), OF_RUNS)) {
        ask__no(a, PROBLEM_CONFLICT, "'afloat worktrees clean' removes what is left",
                "it belongs to a run of a bot");
    } else if (!r->linked || strcmp(r->root, a->dir) != 0) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "it is not the directory of a worktree");
    } else {
        ask__keep_look(a, r);
        struct git_worktree of = {
            .common = a->git.common, .dir = a->dir, .branch = a->git.branch, .start = a->git.head};
        git_measure(a->b->git, &of, on_measured, a);
    }
}

void bots_worktree_remove(struct ask *a)
{
    if (begin(a, "path")) {
        git_look(a->b->git, a->dir, on_worktree, a);
    }
}

// ---- list ---------------------------------------------------------------------------------------

static void on_listed(void *arg, int status, const struct err *e, const struct git_list *r)
{
    struct ask *a = arg;
    struct jw *w = ask__begin_answer(a, status, e);
    if (w == NULL) {
        return;
    }
    jw_karr(w, "worktrees");
    for (size_t i = 0; i < r->n; i++) {
        jw_obj(w);
        jw_kstrz(w, "path", r->p[i].path);
        jw_kstrz(w, "branch", r->p[i].branch);
        jw_kstrz(w, "head", r->p[i].head);
        jw_end_obj(w);
    }
    ask__answer_list(a);
}

void bots__list_repository(struct ask *a)
{
    if (begin(a, "repo")) {
        git_list(a->b->git, a->dir, on_listed, a);
    }
}

// ---- what is there at the start -----------------------------------------------------------------

/// The first line of a small file, after `start`; NULL when it is not like that. Caller frees.
static char *read_line(const char *path, const char *start)
{
    struct buf text = {.max = LINE_MAX_BYTES};
    char *out = NULL;
    if (path_read(path, &text, NULL) == 0) {
        struct str rest = buf_str(&text), line = str_cut(&rest, '\n');
        bool fits = str_starts(line, start) && memchr(line.p, '\0', line.n) == NULL;
        out = fits ? str_dup(str_from(line, strlen(start))) : NULL;
    }
    buf_fini(&text);
    return out;
}

/// A directory with a file .git is a worktree; what that names says of which repository, on which branch.
static void find_one(struct bots *b, const char *dir)
{
    char *link = path_join(dir, ".git");
    char *own = read_line(link, "gitdir: "); // REPOSITORY/.git/worktrees/NAME, or a run's own
    char *file = own != NULL ? path_join(own, "registration") : NULL;
    char *registered = file != NULL ? read_line(file, "") : NULL;
    if (registered != NULL) {
        free(own);
        own = registered;
    }
    if (own != NULL) {
        char *head = path_join(own, "HEAD"), *branch = read_line(head, "ref: refs/heads/");
        struct str common = path_dir(path_dir(str_of(own)));
        char *repository = str_dup(str_eqz(path_base(common), ".git") ? path_dir(common) : common);
        bots__tell_worktree(b, BOTS_TREE_FOUND, dir, branch != NULL ? branch : "", repository);
        free(repository);
        free(branch);
        free(head);
    }
    free(own);
    free(file);
    free(link);
}

/// Those of one repository, or with `deep` of all.
static void find_all(struct bots *b, const char *dir, bool deep)
{
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        if (f.name[0] != '.') {
            char *path = path_join(dir, f.name);
            deep ? find_all(b, path, false) : find_one(b, path);
            free(path);
        }
    }
}

void bots__find_worktrees(struct bots *b)
{
    if (b->o.worktree != NULL) {
        char *all = path_join(b->home, "worktrees");
        find_all(b, all, true);
        free(all);
    }
}
