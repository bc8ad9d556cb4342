// One operation under way: on the loop, on the lane, on the loop again, answered once.
//
// Nearly every operation begins with the same lookup: which bot, which workspace? The workspace follows from the
// repository that the caller works in, so git is asked first; then files are read on the lane; then trust, which
// belongs to the loop, decides whether a project's bot counts.
//
//     ask__locate ──> git_look ──> read (lane) ──> judge ──> then

#include "bot/ask.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>

#include "base/path.h"

void bots_ask(struct bots *b, bots_fn *op, const struct json *params, bots_text_cb *cb, void *arg)
{
    op(ask__new(b, params, cb, arg));
}

struct ask *ask__new(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    struct ask *a = xcalloc(1, sizeof *a);
    assert(cb != NULL && b->lane != NULL); // no operation begins after bots_close()
    a->b = b;
    a->cb = cb;
    a->arg = arg;
    buf_init(&a->out, SIZE_MAX);
    jw_init(&a->w, &a->out);
    a->params = json_clone(&a->arena, params);
    bots__hold(b);
    return a;
}

void ask__drop(struct ask *a)
{
    struct bots *b = a->b;
    if (a->free_data != NULL) {
        a->free_data(a->data);
    }
    if (a->has_catalog) {
        catalog_fini(&a->catalog);
    }
    workspace_fini(&a->ws);
    buf_fini(&a->out);
    arena_fini(&a->arena);
    free(a);
    bots__release(b);
}

struct str ask__str(const struct ask *a, const char *key)
{
    return json_str(json_get(a->params, key), NULL);
}

const char *ask__z(struct ask *a, const char *key)
{
    struct str s = ask__str(a, key);
    return s.p != NULL ? arena_strdup(&a->arena, s) : NULL;
}

void ask__set(struct ask *a, const char *key, struct str value)
{
    struct json v = {.type = JSON_STR, .s = arena_str(&a->arena, value)};
    a->params = json_with(&a->arena, a->params, str_of(key), &v);
}

struct json *ask__without(const struct ask *a, struct arena *in, const char *const *keys, size_t n)
{
    struct json *out = json_clone(in, a->params);
    for (size_t i = 0; i < n; i++) {
        out = json_with(in, out, str_of(keys[i]), NULL);
    }
    return out;
}

// ---- answers ------------------------------------------------------------------------------------

void ask__answer(struct ask *a)
{
    a->cb(a->arg, buf_str(&a->out), a->run != NULL ? a->run : a->name, NULL);
    ask__drop(a);
}

void ask__answer_list(struct ask *a)
{
    jw_end_arr(&a->w);
    jw_kstrz(&a->w, "next", NULL);
    jw_end_obj(&a->w);
    ask__answer(a);
}

void ask__refuse(struct ask *a, const struct agent_no *no)
{
    a->cb(a->arg, STR_NULL, NULL, no);
    ask__drop(a);
}

void ask__fail(struct ask *a, const struct err *e)
{
    struct agent_no no;
    bots__no_err(&no, e);
    if (e == &a->e && a->hint != NULL) {
        snprintf(no.hint, sizeof no.hint, "%s", a->hint);
    }
    if (a->named && no.problem == PROBLEM_CONFLICT) {
        no.problem = PROBLEM_NAME_TAKEN;
    }
    ask__refuse(a, &no);
}

void ask__no(struct ask *a, enum problem p, const char *hint, const char *fmt, ...)
{
    struct agent_no no;
    va_list args;
    va_start(args, fmt);
    agent_no_vset(&no, p, hint, fmt, args);
    va_end(args);
    ask__refuse(a, &no);
}

struct jw *ask__begin_answer(struct ask *a, int status, const struct err *e)
{
    if (status < 0) {
        ask__fail(a, e);
        return NULL;
    }
    assert(a->out.n == 0);
    jw_obj(&a->w);
    return &a->w;
}

// ---- the lane -----------------------------------------------------------------------------------

static void run_work(void *arg) // on the lane
{
    struct ask *a = arg;
    a->work(a);
}

static void on_work(void *arg)
{
    struct ask *a = arg;
    if (a->rc < 0) {
        ask__fail(a, &a->e);
    } else {
        a->then(a);
    }
}

void ask__work(struct ask *a, ask_fn *work, ask_fn *then)
{
    assert(work != NULL && then != NULL);
    a->work = work;
    a->then = then;
    a->rc = 0;
    work_submit(a->b->lane, 0, run_work, on_work, a);
}

// ---- where --------------------------------------------------------------------------------------

static void read_workspace(struct ask *a) // on the lane
{
    const char *home = a->b->home;
    const char *project = ask__z(a, "project");
    enum workspace_how how = a->flags & WHERE_MAKE ? WORKSPACE_MAKE : WORKSPACE_LOOK;
    struct workspace_project p = {.path = a->git.main_root != NULL ? a->git.main_root : a->real,
                                  .common = a->git.common,
                                  .sh = a->b->shelf};
    if (project != NULL) {
        a->rc = workspace_of_slug(&a->ws, home, a->name, project, how, &a->e);
    } else if (p.path != NULL) {
        a->rc = workspace_of_path(&a->ws, home, a->name, &p, how, &a->e);
    }
}

static void read_where(struct ask *a) // on the lane
{
    if (a->dir != NULL) {
        char real[PATH_MAX];
        if (realpath(a->dir, real) == NULL) {
            a->rc = errno == ENOENT || errno == ENOTDIR
                        ? err_set(&a->e, ERR_NOT_FOUND, "there is no directory '%s'", a->dir)
                        : err_sys(&a->e, "cannot enter '%s'", a->dir);
            return;
        }
        a->real = arena_strdup(&a->arena, str_of(real));
    }
    a->has_catalog = true;
    a->rc = catalog_read(&a->catalog, a->b->home, a->real, a->name, &a->e);
    if (a->rc == 0 && a->name != NULL && a->flags & WHERE_SPACE && !(a->flags & WHERE_MAKE)) {
        read_workspace(a);
    }
}

static void judge(struct ask *a)
{
    struct err e = {0};
    catalog_judge(&a->catalog, a->b->o.hub->trust);
    int rc = a->name != NULL ? catalog_find(&a->catalog, str_of(a->name), &a->bot, &e) : 0;
    bool left = rc == ERR_NOT_FOUND && a->flags & WHERE_LEFT && a->ws.exists;
    if (rc < 0 && !left) {
        ask__fail(a, &e);
    } else if (a->flags & WHERE_MAKE) { // only now: a name that is no bot's gets no workspace
        ask__work(a, read_workspace, a->located);
    } else {
        a->located(a);
    }
}

void ask__keep_look(struct ask *a, const struct git_look *r)
{
    assert(r->root != NULL && r->common != NULL);
    a->git = (struct where_git){.root = arena_strdup(&a->arena, str_of(r->root)),
                                .main_root = arena_strdup(&a->arena, str_of(r->main_root)),
                                .common = arena_strdup(&a->arena, str_of(r->common)),
                                .branch = arena_strdup(&a->arena, str_of(r->branch)),
                                .head = arena_strdup(&a->arena, str_of(r->head)),
                                .bare = r->bare};
}

static void on_look(void *arg, int status, const struct err *e, const struct git_look *r)
{
    struct ask *a = arg;
    if (status < 0) {
        a->git = (struct where_git){.status = status, .e = *e};
    } else {
        ask__keep_look(a, r);
    }
    ask__work(a, read_where, judge);
}

void ask__locate(struct ask *a, unsigned flags, ask_fn *then)
{
    struct err e = {0};
    struct str project = ask__str(a, "project"), dir = ask__str(a, "working_dir");
    bool look = flags & WHERE_GIT || (flags & WHERE_SPACE && project.p == NULL);
    assert(then != NULL && a->located == NULL);
    a->flags = flags;
    a->name = ask__z(a, "bot");
    a->dir = ask__z(a, "working_dir");
    a->located = then;
    if ((a->name != NULL && bot_name_check(str_of(a->name), &e) < 0) ||
        (project.p != NULL && slug_check(project, &e) < 0)) {
        ask__no(a, PROBLEM_INVALID_NAME, NULL, "%s", e.msg);
    } else if (dir.p != NULL && (!str_starts(dir, "/") || memchr(dir.p, '\0', dir.n) != NULL)) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "'working_dir' must be an absolute path");
    } else if (flags & WHERE_SPACE && project.p == NULL && dir.p == NULL) {
        ask__no(a, PROBLEM_INVALID_BODY, NULL, "'working_dir' or 'project' must say which one");
    } else if (a->dir == NULL || !look) {
        ask__work(a, read_where, judge);
    } else if (a->b->git == NULL) {
        a->git.status = a->b->git_fault.code;
        a->git.e = a->b->git_fault;
        ask__work(a, read_where, judge);
    } else {
        git_look(a->b->git, a->dir, on_look, a);
    }
}

static void work_located(struct ask *a)
{
    ask__work(a, a->located_work, a->located_then);
}

void ask__locate_work(struct ask *a, unsigned flags, ask_fn *work, ask_fn *then)
{
    a->located_work = work;
    a->located_then = then;
    ask__locate(a, flags, work_located);
}
