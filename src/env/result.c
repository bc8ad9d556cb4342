// The outcome of a build: a difference between two environments, and how to apply it.

#include "env/result.h"

#include <assert.h>

#include "env/paths.h"

static void add_list(struct env_result *r, bool front, const char *name,
                     const struct env_list *from)
{
    struct env_list l = {.name = arena_strdup(&r->arena, str_of(name)), .n = from->n};
    if (from->n == 0) {
        return;
    }
    l.items = arena_calloc(&r->arena, from->n, sizeof *l.items);
    for (size_t i = 0; i < from->n; i++) {
        l.items[i] = arena_strdup(&r->arena, str_of(from->items[i]));
    }
    if (front) {
        vec_push(&r->prepend, l);
    } else {
        vec_push(&r->append, l);
    }
}

struct env_result *env_result_new(void)
{
    struct env_result *r = xcalloc(1, sizeof *r);
    r->refs = 1;
    r->provider = "toml";
    return r;
}

struct env_result *env_result_ref(struct env_result *r)
{
    assert(r->refs != 0);
    r->refs++;
    return r;
}

void env_result_unref(struct env_result *r)
{
    assert(r == NULL || r->refs != 0);
    if (r == NULL || --r->refs != 0) {
        return;
    }
    vec_fini(&r->set);
    vec_fini(&r->unset);
    vec_fini(&r->functions);
    vec_fini(&r->prepend);
    vec_fini(&r->append);
    vec_fini(&r->messages);
    vec_fini(&r->tasks);
    arena_fini(&r->arena);
    free(r);
}

char **env_result_environ(const struct env_result *r, const char *const *base)
{
    struct arena a = {0};
    struct env_vars vars;
    vec(const char *) kept = {0}; // what is not ours to touch goes through as it is
    env_vars_init(&vars, &a);
    env_vars_add_environ(&vars, base);
    if (r != NULL) {
        env_result_apply(r, &vars);
    }
    for (; base != NULL && *base != NULL; base++) {
        struct str rest = str_of(*base), name = str_cut(&rest, '=');
        if (!env_name_ok(name) || !env_name_is_free(name)) {
            vec_push(&kept, *base);
        }
    }
    char **block = env_vars_block(&vars, kept.p, kept.n);
    vec_fini(&kept);
    env_vars_fini(&vars);
    arena_fini(&a);
    return block;
}

struct env_result *env_result_with(const struct env_result *r, const char *const *base,
                                   const struct env_var *vars, size_t n)
{
    struct env_result *out = env_result_new();
    struct arena a = {0};
    struct env_vars before, now;
    env_vars_init(&before, &a);
    env_vars_init(&now, &a);
    env_vars_add_environ(&before, base);
    env_vars_copy(&now, &before);
    env_result_apply(r, &now);
    for (size_t i = 0; i < n; i++) {
        env_vars_set(&now, str_of(vars[i].name), str_of(vars[i].value));
    }
    env_result_diff(out, &before, &now);
    env_result_add_functions(out, r->functions.p, r->functions.n);
    out->generation = r->generation;
    out->duration_ms = r->duration_ms;
    out->provider = arena_strdup(&out->arena, str_of(r->provider));
    env_vars_fini(&before);
    env_vars_fini(&now);
    arena_fini(&a);
    return out;
}

void env_result_diff(struct env_result *r, const struct env_vars *base, const struct env_vars *now)
{
    size_t n;
    const char **names = env_vars_names(now, &n);
    for (size_t i = 0; i < n; i++) {
        struct str name = str_of(names[i]);
        const char *old = env_vars_get(base, name), *value = env_vars_get(now, name);
        struct env_list front, back;
        if (!env_name_is_free(name) || (old != NULL && strcmp(old, value) == 0)) {
            continue;
        }
        if (env_name_is_list(name) && env_paths_diff(now->arena, old, value, &front, &back)) {
            add_list(r, true, names[i], &front);
            add_list(r, false, names[i], &back);
        } else {
            struct env_var v = {arena_strdup(&r->arena, name),
                                arena_strdup(&r->arena, str_of(value))};
            vec_push(&r->set, v);
        }
    }
    names = env_vars_names(base, &n);
    for (size_t i = 0; i < n; i++) {
        if (env_vars_get(now, str_of(names[i])) == NULL) {
            vec_push(&r->unset, arena_strdup(&r->arena, str_of(names[i])));
        }
    }
}

void env_result_add_functions(struct env_result *r, const struct env_var *functions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct env_var f = {arena_strdup(&r->arena, str_of(functions[i].name)),
                            arena_strdup(&r->arena, str_of(functions[i].value))};
        vec_push(&r->functions, f);
    }
}

void env_result_apply(const struct env_result *r, struct env_vars *vars)
{
    vec_foreach (v, &r->set) {
        env_vars_set(vars, str_of(v->name), str_of(v->value));
    }
    vec_foreach (name, &r->unset) {
        env_vars_unset(vars, str_of(*name));
    }
    vec_foreach (l, &r->prepend) {
        const char *old = env_vars_get(vars, str_of(l->name));
        env_vars_set(vars, str_of(l->name), str_of(env_paths_put(vars->arena, old, l, NULL)));
    }
    vec_foreach (l, &r->append) {
        const char *old = env_vars_get(vars, str_of(l->name));
        env_vars_set(vars, str_of(l->name), str_of(env_paths_put(vars->arena, old, NULL, l)));
    }
}

const struct env_list *env_list_find(const struct env_list *lists, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(lists[i].name, name) == 0) {
            return &lists[i];
        }
    }
    return NULL;
}
