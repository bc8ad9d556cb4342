// The directories below $AFLOAT_HOME/worktrees: what is there, whose it is, what would be lost with it. A live run
// has a lease on its own; all others are left over (a hub that was killed, work that could not be committed) and
// can be cleaned away: their work is committed to their branches first.

#include <sys/stat.h>

#include "base/folder.h"
#include "base/path.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "config/home.h"
#include "git/git.h"
#include "store/store.h"

/// One directory, with the record of its run where there is one.
struct checkout {
    char *path, *slug;
    bool known; // `rec` is its run's
    struct record rec;
    bool removed;
    char why[300]; // it was kept
};

struct checkouts {
    vec(struct checkout) all;
    size_t at; // the one that git works on
};

static void free_trees(void *data)
{
    struct checkouts *t = data;
    vec_foreach (it, &t->all) {
        free(it->path);
        free(it->slug);
        record_fini(&it->rec);
    }
    vec_fini(&t->all);
    free(t);
}

// ---- what is there ------------------------------------------------------------------------------

/// BOT-ID: the run is found by its id.
static void find_run(struct checkout *it, struct str name, struct runs_index *x)
{
    record_init(&it->rec);
    if (name.n > RECORD_ID && name.p[name.n - RECORD_ID] == '-') {
        struct str id = str_from(name, name.n - (RECORD_ID - 1));
        it->known = record_id_valid(id) && runs_find(&it->rec, x, NULL, id, NULL) == 0;
    }
}

static void read_slug(struct checkouts *t, struct bots *b, const char *slug)
{
    char *dir = xasprintf("%s/worktrees/%s", b->home, slug);
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        struct stat st;
        struct checkout it = {.path = xasprintf("%s/%s", dir, f.name)};
        if (f.name[0] == '.' || lstat(it.path, &st) != 0 || !S_ISDIR(st.st_mode)) {
            free(it.path);
            continue;
        }
        it.slug = xstrdup(slug);
        find_run(&it, str_of(f.name), b->index);
        vec_push(&t->all, it);
    }
    free(dir);
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct checkout *)a)->path, ((const struct checkout *)b)->path);
}

static void read_trees(struct ask *a) // on the lane
{
    struct checkouts *t = a->data;
    char *dir = xasprintf("%s/worktrees", a->b->home);
    struct folder f = folder_open(dir);
    while (folder_next(&f)) {
        if (f.name[0] != '.') {
            read_slug(t, a->b, f.name);
        }
    }
    if (t->all.n != 0) {
        qsort(t->all.p, t->all.n, sizeof *t->all.p, compare);
    }
    free(dir);
}

static void begin(struct ask *a, ask_fn *then)
{
    a->data = xcalloc(1, sizeof(struct checkouts));
    a->free_data = free_trees;
    ask__work(a, read_trees, then);
}

static bool is_live(const struct ask *a, const struct checkout *it)
{
    return it->known && bots__is_running(a->b, str_of(it->rec.run_id));
}

static struct git_worktree worktree_of(struct ask *a, const struct checkout *it)
{
    struct git_worktree w = record_worktree(&it->rec, a->b->home, &a->arena);
    w.dir = it->path;
    return w;
}

// ---- list ---------------------------------------------------------------------------------------

static void list_next(struct ask *a);

static void on_measured(void *arg, int status, const struct err *e, const struct git_measure *m)
{
    struct ask *a = arg;
    struct checkouts *t = a->data;
    const struct checkout *it = &t->all.p[t->at];
    struct jw *w = &a->w;
    jw_obj(w);
    jw_kstrz(w, "path", it->path);
    jw_kstrz(w, "project", it->slug);
    jw_kstrz(w, "branch", it->known ? it->rec.branch : NULL);
    jw_kstrz(w, "run_id", it->known ? it->rec.run_id : NULL);
    jw_kstrz(w, "bot", it->known ? it->rec.bot : NULL);
    jw_kstrz(w, "repository", it->known ? it->rec.repository : NULL);
    jw_kstrz(w, "state", is_live(a, it) ? "live" : "left");
    if (status == 0) {
        int64_t age = (loop_wall(a->b->loop) - m->changed_ms) / 1000;
        jw_kint(w, "bytes", (int64_t)m->bytes);
        jw_kint(w, "files", (int64_t)m->files);
        jw_kint(w, "age_s", MAX(age, 0));
        jw_kint(w, "uncommitted", (int64_t)m->uncommitted);
        jw_kint(w, "unmerged", (int64_t)m->commits);
    } else {
        jw_kstrz(w, "error", e->msg);
    }
    jw_end_obj(w);
    t->at++;
    list_next(a);
}

static void list_next(struct ask *a)
{
    struct checkouts *t = a->data;
    if (t->at == t->all.n) {
        ask__answer_list(a);
        return;
    }
    const struct checkout *it = &t->all.p[t->at];
    if (a->b->git != NULL && it->known) {
        struct git_worktree w = worktree_of(a, it);
        git_measure(a->b->git, &w, on_measured, a);
    } else {
        struct err e = {.code = ERR_NOT_FOUND, .msg = "it belongs to no run"};
        on_measured(a, ERR_NOT_FOUND, &e, NULL);
    }
}

static void list(struct ask *a)
{
    jw_obj(&a->w);
    jw_karr(&a->w, "worktrees");
    list_next(a);
}

void bots_worktree_list(struct ask *a)
{
    if (json_get(a->params, "repo") != NULL) {
        bots__list_repository(a);
    } else {
        begin(a, list);
    }
}

// ---- clean --------------------------------------------------------------------------------------

static void clean_next(struct ask *a);

static void write_cleaned(struct ask *a)
{
    struct checkouts *t = a->data;
    struct jw *w = &a->w;
    jw_obj(w);
    jw_karr(w, "removed");
    vec_foreach (it, &t->all) {
        if (it->removed) {
            jw_strz(w, it->path);
        }
    }
    jw_end_arr(w);
    jw_karr(w, "rescued");
    vec_foreach (it, &t->all) {
        if (it->removed && it->rec.rescue[0] != '\0') {
            jw_strz(w, it->rec.rescue);
        }
    }
    jw_end_arr(w);
    jw_karr(w, "kept");
    vec_foreach (it, &t->all) {
        if (!it->removed) {
            jw_obj(w);
            jw_kstrz(w, "path", it->path);
            jw_kstrz(w, "why", it->why);
            jw_end_obj(w);
        }
    }
    jw_end_arr(w);
    jw_kbool(w, "dry_run", json_bool(json_get(a->params, "dry_run"), false));
    jw_end_obj(w);
    ask__answer(a);
}

static void tree_done(struct ask *a, const char *why)
{
    struct checkouts *t = a->data;
    struct checkout *it = &t->all.p[t->at];
    it->removed = why == NULL;
    snprintf(it->why, sizeof it->why, "%s", why != NULL ? why : "");
    t->at++;
    clean_next(a);
}

static void leave_tree(struct ask *a, const char *why)
{
    struct checkouts *t = a->data;
    bots__leave_run(a->b, str_of(t->all.p[t->at].rec.run_id));
    tree_done(a, why);
}

static void on_noted(void *arg, int status, const struct err *e)
{
    (void)status;
    (void)e; // the directory is gone all the same
    leave_tree(arg, NULL);
}

static void note(struct ask *a)
{
    struct checkouts *t = a->data;
    const struct checkout *it = &t->all.p[t->at];
    runs__keep(a->b, &it->rec, on_noted, a);
}

static void on_branch_removed(void *arg, int status, const struct err *e)
{
    struct ask *a = arg;
    struct checkouts *t = a->data;
    (void)e; // it was moved: then it stays
    t->all.p[t->at].rec.branch_deleted = status == 0;
    note(a);
}

static void on_removed(void *arg, int status, const struct err *e)
{
    struct ask *a = arg;
    struct checkouts *t = a->data;
    const struct checkout *it = &t->all.p[t->at];
    turnstile_leave(&a->b->trees, a);
    if (status < 0) {
        leave_tree(a, e->msg);
        return;
    }
    bots__tell_worktree(a->b, BOTS_TREE_GONE, it->path, it->rec.branch, it->rec.repository);
    if (json_bool(json_get(a->params, "delete_branch"), false) && it->rec.head[0] != '\0') {
        git_delete_branch(a->b->git, it->rec.common, it->rec.branch, it->rec.head,
                          on_branch_removed, a);
    } else {
        note(a);
    }
}

static void remove_tree(void *arg)
{
    struct ask *a = arg;
    struct checkouts *t = a->data;
    const struct checkout *it = &t->all.p[t->at];
    struct git_worktree w = worktree_of(a, it);
    git_remove(a->b->git, &w, on_removed, a);
}

static void on_committed(void *arg, int status, const struct err *e, const struct git_committed *g)
{
    struct ask *a = arg;
    struct checkouts *t = a->data;
    struct checkout *it = &t->all.p[t->at];
    if (status < 0 && status != ERR_NOT_FOUND) {
        leave_tree(a, e->msg);
        return;
    }
    if (status == 0) {
        it->rec.head = record_text(&it->rec, str_of(g->head));
        it->rec.rescue =
            g->rescue[0] != '\0' ? record_text(&it->rec, str_of(g->rescue)) : it->rec.rescue;
    }
    turnstile_enter(&a->b->trees, it->rec.common, remove_tree, a);
}

static void clean_next(struct ask *a)
{
    struct checkouts *t = a->data;
    if (t->at == t->all.n) {
        write_cleaned(a);
        return;
    }
    struct checkout *it = &t->all.p[t->at];
    if (a->b->git == NULL) {
        tree_done(a, a->b->git_fault.msg);
    } else if (!it->known) {
        tree_done(a, "it belongs to no run that is known: remove it by hand");
    } else if (is_live(a, it)) {
        tree_done(a, "its run lives");
    } else if (json_bool(json_get(a->params, "dry_run"), false)) {
        tree_done(a, NULL);
    } else if (!bots__take_run(a->b, str_of(it->rec.run_id))) {
        tree_done(a, "its run is being taken over");
    } else {
        struct git_worktree w = worktree_of(a, it);
        const char **link = arena_list(&a->arena, it->rec.link.p, it->rec.link.n);
        git_commit(a->b->git, &w, it->rec.root, link, "afloat: what was left uncommitted",
                   on_committed, a);
    }
}

void bots_worktree_clean(struct ask *a)
{
    begin(a, clean_next);
}
