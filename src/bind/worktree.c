// worktree: git's worktrees, and the list of those that we made.
//
//     worktree.create{repo, branch, base} ──> bind_worktrees.create ──> main/, git ──> {path, ...}
//     there before the hub ──> bind_worktree_known ────────────┐
//     runs of bots, create, remove ──> bind_worktree_changed ──┼─> hub.get_worktrees()
//                                                              └─> worktree_created, worktree_deleted
//
// Who has git answers every question, also one whose asker has gone: the request lives until then.

#include <lauxlib.h>

#include "bind/bind_int.h"
#include "bind/faces.h"

// ---- the list -----------------------------------------------------------------------------------

static void worktree_fini(struct bind__worktree *t)
{
    free(t->path);
    free(t->branch);
    free(t->repository);
}

static void write_one(struct jw *w, const char *path, const char *branch, const char *repository)
{
    jw_obj(w);
    jw_kstrz(w, "path", path);
    jw_kstrz(w, "branch", branch);
    jw_kstrz(w, "repository", repository);
    jw_end_obj(w);
}

static void tell(struct bind *b, const char *event, const char *path, const char *branch,
                 const char *repository)
{
    struct arena arena;
    struct buf text;
    struct json *v;
    struct jw w;
    arena_init(&arena);
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    write_one(&w, path, branch, repository);
    if (json_parse(&v, &arena, buf_str(&text), NULL, NULL) == 0) {
        bind_notify(b, event, v);
    }
    buf_fini(&text);
    arena_fini(&arena);
}

static bool forget(struct bind *b, const char *path)
{
    for (size_t i = 0; i < b->made.n; i++) {
        if (strcmp(b->made.p[i].path, path) == 0) {
            worktree_fini(&b->made.p[i]);
            b->made.p[i] = b->made.p[--b->made.n];
            return true;
        }
    }
    return false;
}

void bind_worktree_changed(struct bind *b, bool created, const char *path, const char *branch,
                           const char *repository)
{
    forget(b, path);
    if (created) {
        bind_worktree_known(b, path, branch, repository);
    }
    tell(b, created ? "worktree_created" : "worktree_deleted", path, branch, repository);
}

void bind_worktree_known(struct bind *b, const char *path, const char *branch,
                         const char *repository)
{
    struct bind__worktree t = {
        .path = xstrdup(path), .branch = xstrdup(branch), .repository = xstrdup(repository)};
    vec_push(&b->made, t);
}

void bind_worktrees_write(const struct bind *b, struct jw *w)
{
    jw_arr(w);
    for (size_t i = 0; i < b->made.n; i++) {
        const struct bind__worktree *t = &b->made.p[i];
        write_one(w, t->path, t->branch, t->repository);
    }
    jw_end_arr(w);
}

void bind_set_worktrees(struct bind *b, const struct bind_worktrees *w)
{
    b->worktrees = w != NULL ? *w : (struct bind_worktrees){0};
}

void bind__worktrees_close(struct bind *b)
{
    vec_foreach (t, &b->made) {
        worktree_fini(t);
    }
    vec_fini(&b->made);
}

// ---- questions ----------------------------------------------------------------------------------

struct question {
    struct bind_op op;
    const char *fn;     // "worktree.create"
    const char *member; // of the answer that is given; NULL: all of it
};

static void on_cancel(struct bind_op *op)
{
    (void)op; // it is answered all the same, and that frees it
}

static int push_answer(lua_State *L, const struct question *q, struct str json)
{
    struct arena arena;
    struct json *v = NULL;
    struct err e = {0};
    int n = 1;
    arena_init(&arena);
    if (json.n == 0) {
        lua_pushboolean(L, 1);
    } else if (json_parse(&v, &arena, json, NULL, &e) == 0) {
        value_push(L, q->member != NULL ? json_get(v, q->member) : v);
    } else {
        n = bind__fail(L, "%s: %s", q->fn, e.msg);
    }
    arena_fini(&arena);
    return n;
}

static void on_answer(void *arg, struct str json, const char *why)
{
    struct question *q = arg;
    lua_State *L = bind__op_answer_begin(&q->op);
    if (L != NULL) {
        int n = why == NULL ? push_answer(L, q, json) : bind__fail(L, "%s: %s", q->fn, why);
        bind__op_answer(&q->op, n);
    }
    free(q);
}

static struct question *question_new(const char *fn, const char *member)
{
    struct question *q = xcalloc(1, sizeof *q);
    q->fn = fn;
    q->member = member;
    return q;
}

static int nobody(lua_State *L, const char *fn)
{
    return bind__fail(L, "%s: the hub is starting or stopping: ask it later", fn);
}

// ---- the module ---------------------------------------------------------------------------------

/// The field `key` of the table at 1, kept on the stack; NULL when there is none and none is needed.
static const char *check_field(lua_State *L, const char *key, bool needed)
{
    return bind__field(L, 1, key) || needed
               ? bind__check_z(L, lua_gettop(L), "worktree.create", key)
               : NULL;
}

static int l_create(lua_State *L)
{
    static const char *const keys[] = {"repo", "branch", "base", NULL};
    const struct bind_worktrees *w = &bind_of(L)->worktrees;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    bind__check_keys(L, 1, "worktree.create", keys);
    bind__op_check(L, 2, "worktree.create");
    const char *repo = check_field(L, "repo", true), *branch = check_field(L, "branch", true);
    const char *base = check_field(L, "base", false);
    if (w->create == NULL) {
        return nobody(L, "worktree.create");
    }
    struct question *q = question_new("worktree.create", NULL);
    w->create(w->arg, repo, branch, base, on_answer, q);
    return bind__op_begin(L, &q->op, 2, on_cancel);
}

static int l_remove(lua_State *L)
{
    const struct bind_worktrees *w = &bind_of(L)->worktrees;
    const char *path = bind__check_z(L, 1, "worktree.remove", "path");
    lua_settop(L, 2);
    bind__op_check(L, 2, "worktree.remove");
    if (w->remove == NULL) {
        return nobody(L, "worktree.remove");
    }
    struct question *q = question_new("worktree.remove", NULL);
    w->remove(w->arg, path, on_answer, q);
    return bind__op_begin(L, &q->op, 2, on_cancel);
}

static int l_list(lua_State *L)
{
    const struct bind_worktrees *w = &bind_of(L)->worktrees;
    const char *repo = bind__check_z(L, 1, "worktree.list", "repo");
    lua_settop(L, 2);
    bind__op_check(L, 2, "worktree.list");
    if (w->list == NULL) {
        return nobody(L, "worktree.list");
    }
    struct question *q = question_new("worktree.list", "worktrees");
    w->list(w->arg, repo, on_answer, q);
    return bind__op_begin(L, &q->op, 2, on_cancel);
}

int face_worktree(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"create", l_create}, {"remove", l_remove}, {"list", l_list}, {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
