// Worktrees as Lua makes them.
//
//     create ──> git_look ──> git_add ─────────────────> path; worktree_created
//     remove ──> git_look ──> git_measure ──> git_remove ──> worktree_deleted
//     list ────> git_list
//
// They lie where those of runs lie, $AFLOAT_HOME/worktrees/<slug of the repository>/, under the name of
// their branch. Branches below afloat/ belong to runs: Lua neither makes nor removes them. With files that
// are not committed a worktree stays: whoever made them decides. What lies there when the hub starts is read
// from the files that git keeps: hub.get_worktrees() lists it, and does not wait for git.

#include "main/worktree_lua.h"

#include <dirent.h>

#include "base/path.h"
#include "base/slug.h"
#include "bind/bind.h"
#include "config/home.h"
#include "git/git.h"

#define OF_RUNS "afloat/"

enum { LINE_MAX_BYTES = 8192 }; // of git's own little files

struct worktree_lua {
    struct bind *bind; // NULL: closed
    struct loop *loop;
    char *home;
    struct git *git; // NULL: `fault` says why
    struct err fault;
    size_t waiting; // questions without an answer yet
};

/// One question.
struct wish {
    struct worktree_lua *w;
    char *path; // the repository, or the worktree
    char *branch, *base, *common;
    bind_answer_cb *cb;
    void *arg;
    char *why; // it is refused
};

static char *copy(const char *z)
{
    return z != NULL ? xstrdup(z) : NULL;
}

static struct wish *wish_new(struct worktree_lua *w, const char *path, bind_answer_cb *cb,
                             void *arg)
{
    struct wish *q = xcalloc(1, sizeof *q);
    q->w = w;
    q->path = xstrdup(path);
    q->cb = cb;
    q->arg = arg;
    w->waiting++;
    return q;
}

static void settle(struct worktree_lua *w)
{
    if (w->bind == NULL && w->waiting == 0) {
        free(w->home);
        free(w);
    }
}

static void answer(struct wish *q, struct str json, const char *why)
{
    struct worktree_lua *w = q->w;
    q->cb(q->arg, json, why);
    free(q->path);
    free(q->branch);
    free(q->base);
    free(q->common);
    free(q->why);
    free(q);
    w->waiting--;
    settle(w);
}

static void on_refused(void *arg)
{
    struct wish *q = arg;
    answer(q, STR_NULL, q->why);
}

/// Answer later: who asks is not ready for it yet.
static void refuse(struct wish *q, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void refuse(struct wish *q, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&q->why, fmt, ap) < 0) {
        abort();
    }
    va_end(ap);
    loop_defer(q->w->loop, on_refused, q);
}

/// Can it be asked at all? Else it is refused.
static bool check(struct wish *q)
{
    if (q->w->git == NULL) {
        refuse(q, "%s", q->w->fault.msg);
    } else if (q->path[0] != '/') {
        refuse(q, "'%s' is not an absolute path", q->path);
    } else if (q->branch != NULL && strncmp(q->branch, OF_RUNS, strlen(OF_RUNS)) == 0) {
        refuse(q, "branches below '%s' belong to runs of bots", OF_RUNS);
    } else {
        return true;
    }
    return false;
}

// ---- create -------------------------------------------------------------------------------------

static void on_added(void *arg, int status, const struct err *e, const struct git_added *r)
{
    struct wish *q = arg;
    struct buf text;
    struct jw w;
    if (status < 0) {
        answer(q, STR_NULL, e->msg);
        return;
    }
    if (q->w->bind != NULL) {
        bind_worktree_changed(q->w->bind, true, r->dir, q->branch, r->root);
    }
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_obj(&w);
    jw_kstrz(&w, "path", r->dir);
    jw_kstrz(&w, "branch", q->branch);
    jw_kstrz(&w, "base", r->base);
    jw_kstrz(&w, "repository", r->root);
    jw_end_obj(&w);
    answer(q, buf_str(&text), NULL);
    buf_fini(&text);
}

/// $AFLOAT_HOME/worktrees/<slug>/<branch>, with `-` for what is no letter, digit or dot in the branch.
static char *dir_for(const struct wish *q, const char *repository)
{
    char slug[SLUG_TEXT];
    char *dir = xasprintf("%s/worktrees/%s/%s", q->w->home, slug_of(repository, slug), q->branch);
    for (char *p = dir + strlen(dir) - strlen(q->branch); *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || *p == '.' || *p == '_';
        *p = plain ? *p : '-';
    }
    return dir;
}

static void on_repository(void *arg, int status, const struct err *e, const struct git_look *r)
{
    struct wish *q = arg;
    if (status < 0 || q->w->bind == NULL) {
        answer(q, STR_NULL, status < 0 ? e->msg : "the hub stops");
        return;
    }
    char *dir = dir_for(q, r->main_root);
    struct git_add add = {
        .repo = q->path, .dir = dir, .branch = q->branch, .from = GIT_FROM_COMMIT, .base = q->base};
    git_add(q->w->git, &add, on_added, q);
    free(dir);
}

static void create(void *arg, const char *repo, const char *branch, const char *base,
                   bind_answer_cb *cb, void *cb_arg)
{
    struct wish *q = wish_new(arg, repo, cb, cb_arg);
    q->branch = copy(branch);
    q->base = copy(base);
    if (check(q)) {
        git_look(q->w->git, repo, on_repository, q);
    }
}

// ---- remove -------------------------------------------------------------------------------------

static void on_removed(void *arg, int status, const struct err *e)
{
    struct wish *q = arg;
    if (status == 0 && q->w->bind != NULL) {
        bind_worktree_changed(q->w->bind, false, q->path, q->branch, q->common);
    }
    answer(q, STR_NULL, status < 0 ? e->msg : NULL);
}

static void on_measured(void *arg, int status, const struct err *e, const struct git_measure *r)
{
    struct wish *q = arg;
    char why[128];
    snprintf(why, sizeof why, "%llu files in it are not committed: commit them first",
             (unsigned long long)r->uncommitted);
    if (status < 0 || r->uncommitted != 0 || q->w->bind == NULL) {
        answer(q, STR_NULL, status < 0 ? e->msg : r->uncommitted != 0 ? why : "the hub stops");
    } else {
        struct git_worktree of = {.common = q->common, .dir = q->path};
        git_remove(q->w->git, &of, on_removed, q);
    }
}

static const char *stands_against(const struct wish *q, const struct git_look *r)
{
    return strncmp(r->branch, OF_RUNS, strlen(OF_RUNS)) == 0
               ? "it belongs to a run of a bot; 'afloat worktrees clean' removes what is left"
           : !r->linked || strcmp(r->root, q->path) != 0 ? "it is not the directory of a worktree"
           : q->w->bind == NULL                          ? "the hub stops"
                                                         : NULL;
}

static void on_worktree(void *arg, int status, const struct err *e, const struct git_look *r)
{
    struct wish *q = arg;
    const char *why = status < 0 ? e->msg : stands_against(q, r);
    if (why != NULL) {
        answer(q, STR_NULL, why);
        return;
    }
    q->branch = copy(r->branch);
    q->common = copy(r->common);
    struct git_worktree of = {
        .common = q->common, .dir = q->path, .branch = q->branch, .start = r->head};
    git_measure(q->w->git, &of, on_measured, q);
}

static void take_away(void *arg, const char *path, bind_answer_cb *cb, void *cb_arg)
{
    struct wish *q = wish_new(arg, path, cb, cb_arg);
    if (check(q)) {
        git_look(q->w->git, path, on_worktree, q);
    }
}

// ---- list ---------------------------------------------------------------------------------------

static void on_listed(void *arg, int status, const struct err *e, const struct git_list *r)
{
    struct buf text;
    struct jw w;
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_obj(&w);
    jw_key(&w, "worktrees");
    jw_arr(&w);
    for (size_t i = 0; i < r->n; i++) {
        jw_obj(&w);
        jw_kstrz(&w, "path", r->p[i].path);
        jw_kstrz(&w, "branch", r->p[i].branch);
        jw_kstrz(&w, "head", r->p[i].head);
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    answer(arg, buf_str(&text), status < 0 ? e->msg : NULL);
    buf_fini(&text);
}

static void list(void *arg, const char *repo, bind_answer_cb *cb, void *cb_arg)
{
    struct wish *q = wish_new(arg, repo, cb, cb_arg);
    if (check(q)) {
        git_list(q->w->git, repo, on_listed, q);
    }
}

// ---- what is there ------------------------------------------------------------------------------

/// The first line of a small file, behind `start`; NULL when it is not like that. Caller frees.
static char *read_behind(const char *path, const char *start)
{
    struct buf text;
    char *out = NULL;
    buf_init(&text, LINE_MAX_BYTES);
    if (path_read(path, &text, NULL) == 0) {
        struct str rest = buf_str(&text), line = str_cut(&rest, '\n');
        bool fits = str_starts(line, start) && memchr(line.p, '\0', line.n) == NULL;
        out = fits ? str_dup(str_from(line, strlen(start))) : NULL;
    }
    buf_fini(&text);
    return out;
}

/// A directory with a file .git is a worktree; what that names says of which repository, on which branch.
static void find_one(struct bind *b, const char *dir)
{
    char *link = path_join(dir, ".git");
    char *own = read_behind(link, "gitdir: "); // REPOSITORY/.git/worktrees/NAME, or a run's own
    char *file = own != NULL ? path_join(own, "registration") : NULL;
    char *registered = file != NULL ? read_behind(file, "") : NULL;
    if (registered != NULL) {
        free(own);
        own = registered;
    }
    if (own != NULL) {
        char *head = path_join(own, "HEAD"), *branch = read_behind(head, "ref: refs/heads/");
        struct str common = path_dir(path_dir(str_of(own)));
        char *repository = str_dup(str_eqz(path_base(common), ".git") ? path_dir(common) : common);
        bind_worktree_known(b, dir, branch != NULL ? branch : "", repository);
        free(repository);
        free(branch);
        free(head);
    }
    free(own);
    free(file);
    free(link);
}

/// Those of one slug, or with `deep` all slugs.
static void find_all(struct bind *b, const char *dir, bool deep)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.') {
            char *path = path_join(dir, entry->d_name);
            deep ? find_all(b, path, false) : find_one(b, path);
            free(path);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
}

// ---- public -------------------------------------------------------------------------------------

struct worktree_lua *worktree_lua_open(struct bind *b, struct loop *l, const struct home *home)
{
    struct worktree_lua *w = xcalloc(1, sizeof *w);
    char *tmp = path_join(home->dir, "state/git-lua"), *all = path_join(home->dir, "worktrees");
    struct git_config c = {.loop = l, .home = home->dir, .runtime = home->runtime, .tmp_dir = tmp};
    w->bind = b;
    w->loop = l;
    w->home = xstrdup(home->dir);
    if (git_open(&w->git, &c, &w->fault) < 0) {
        w->git = NULL;
    }
    find_all(b, all, true);
    bind_set_worktrees(
        b, &(struct bind_worktrees){.create = create, .remove = take_away, .list = list, .arg = w});
    free(all);
    free(tmp);
    return w;
}

void worktree_lua_close(struct worktree_lua *w)
{
    if (w == NULL) {
        return;
    }
    bind_set_worktrees(w->bind, NULL);
    w->bind = NULL;
    git_close(w->git);
    settle(w);
}
