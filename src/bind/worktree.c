// The worktrees that exist: those of runs and those that users asked for.
//
//     older than the hub ────> bind_worktree_known ────┐
//     made, removed (bot/) ──> bind_worktree_changed ──┼─> hub.get_worktrees()
//                                                      └─> handlers of worktree_created, worktree_deleted

#include "bind/bind_int.h"

static void worktree_fini(struct bind__worktree *t)
{
    free(t->path);
    free(t->branch);
    free(t->repository);
}

void bind_worktree_changed(struct bind *b, bool created, const char *path, const char *branch,
                           const char *repository)
{
    struct json_member members[] = {
        {STR("path"), {.type = JSON_STR, .s = str_of(path)}},
        {STR("branch"), {.type = JSON_STR, .s = str_of(branch)}},
        {STR("repository"), {.type = JSON_STR, .s = str_of(repository)}},
    };
    struct json row = {.type = JSON_OBJ, .n = ARRAY_LEN(members), .members = members};
    for (size_t i = 0; i < b->made.n; i++) {
        if (strcmp(b->made.p[i].path, path) == 0) {
            worktree_fini(&b->made.p[i]);
            b->made.p[i] = b->made.p[--b->made.n];
            break;
        }
    }
    if (created) {
        bind_worktree_known(b, path, branch, repository);
    }
    bind_notify(b, created ? "worktree_created" : "worktree_deleted", &row);
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
        jw_obj(w);
        jw_kstrz(w, "path", t->path);
        jw_kstrz(w, "branch", t->branch);
        jw_kstrz(w, "repository", t->repository);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

void bind__worktrees_push(const struct bind *b, lua_State *L)
{
    lua_createtable(L, (int)b->made.n, 0);
    value_mark_array(L);
    for (size_t i = 0; i < b->made.n; i++) {
        const struct bind__worktree *t = &b->made.p[i];
        lua_createtable(L, 0, 3);
        value_set_str(L, "path", t->path);
        value_set_str(L, "branch", t->branch);
        value_set_str(L, "repository", t->repository);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

void bind__worktrees_close(struct bind *b)
{
    vec_foreach (t, &b->made) {
        worktree_fini(t);
    }
    vec_fini(&b->made);
}
