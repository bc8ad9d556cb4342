// The `[[task]]` tables: read, joined by name, put in order.
//
// `before = ["x"]` of a task is turned into `after` of x here, so that no other code knows both directions.
// The order is found by walking each task's predecessors first; meeting one that is still being walked is a
// circle, and the way back to it is what the message shows.

#include <assert.h>

#include "base/path.h"
#include "env/dotenv.h"
#include "env/spec_int.h"

enum { TASKS_MAX = 256 };

static const char *const task_keys[] = {"name", "run", "after",  "before",   "status",
                                        "cwd",  "env", "inputs", "in_shell", NULL};

struct draft {
    struct env_task task;
    const struct env_unit *unit;
    const struct toml *at;
    const char **after, **before; // as written
    size_t n_after, n_before;
    vec(size_t) needs;
    enum { FRESH, OPEN, PLACED } mark;
};

struct drafts {
    struct env_spec *s;
    const struct env_vars *vars;
    struct err *e;
    vec(struct draft) all;
    vec(size_t) way; // being walked
};

static struct draft *draft_of(struct drafts *d, const char *name)
{
    vec_foreach (it, &d->all) {
        if (strcmp(it->task.name, name) == 0) {
            return it;
        }
    }
    return NULL;
}

static int read_text(struct drafts *d, struct draft *t, const char *key, bool needed,
                     const char **out)
{
    const struct toml *v = toml_get(t->at, key);
    if (v == NULL && !needed) {
        return 0;
    }
    if (v == NULL || v->type != TOML_STR || v->s.n == 0 || strlen(v->s.p) != v->s.n) {
        return env__bad(t->unit, v != NULL ? v : t->at, d->e,
                        "a task needs '%s', a string that is not empty", key);
    }
    *out = v->s.p;
    return 0;
}

static int read_env(struct drafts *d, struct draft *t)
{
    const struct toml *table = toml_get(t->at, "env");
    if (table == NULL) {
        return 0;
    }
    if (table->type != TOML_TABLE) {
        return env__bad(t->unit, table, d->e, "'env' of a task is not a table");
    }
    t->task.env = arena_calloc(&d->s->arena, table->n + 1, sizeof *t->task.env);
    toml_foreach (m, table) {
        bool text = m->value.type == TOML_STR && strlen(m->value.s.p) == m->value.s.n;
        struct buf value = {.max = ENV_VALUE_MAX};
        struct err why = {0};
        if (!text || !env_name_ok(m->key)) {
            return env__bad(t->unit, &m->value, d->e,
                            "'" STR_FMT "' must be the name of a variable, with a string",
                            STR_ARG(m->key));
        }
        int rc = env_expand(&value, m->value.s, d->vars, &why);
        t->task.env[t->task.n_env++] =
            (struct env_var){m->key.p, arena_strdup(&d->s->arena, buf_str(&value))};
        buf_fini(&value);
        if (rc != 0) {
            return env__bad(t->unit, &m->value, d->e, "%s", why.msg);
        }
    }
    return 0;
}

static int read_lists(struct drafts *d, struct draft *t)
{
    struct arena *a = &d->s->arena;
    size_t n = 0;
    int rc = env__strings(a, t->unit, t->at, "after", d->vars, &t->after, &t->n_after, d->e);
    rc = rc == 0
             ? env__strings(a, t->unit, t->at, "before", d->vars, &t->before, &t->n_before, d->e)
             : rc;
    rc = rc == 0 ? env__strings(a, t->unit, t->at, "inputs", d->vars, &t->task.inputs, &n, d->e)
                 : rc;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        t->task.inputs[i] = env__path(a, d->s->root, t->task.inputs[i]);
    }
    return rc;
}

static int read_task(struct drafts *d, const struct env_unit *u, const struct toml *at)
{
    struct draft t = {.unit = u, .at = at};
    const struct toml *in_shell = toml_get(at, "in_shell");
    const char *cwd = ".";
    if (at->type != TOML_TABLE) {
        return env__bad(u, at, d->e, "'task' is written [[task]]");
    }
    int rc = env__known(u, at, "key of a task", task_keys, d->e);
    rc = rc == 0 ? read_text(d, &t, "name", true, &t.task.name) : rc;
    rc = rc == 0 ? read_text(d, &t, "run", true, &t.task.run) : rc;
    rc = rc == 0 ? read_text(d, &t, "status", false, &t.task.status) : rc;
    rc = rc == 0 ? read_env(d, &t) : rc;
    rc = rc == 0 ? read_lists(d, &t) : rc;
    rc = rc == 0 ? read_text(d, &t, "cwd", false, &cwd) : rc;
    if (rc == 0 && in_shell != NULL && in_shell->type != TOML_BOOL) {
        rc = env__bad(u, in_shell, d->e, "'in_shell' is true or false");
    }
    if (rc != 0) {
        return rc;
    }
    t.task.in_shell = in_shell != NULL && in_shell->b;
    t.task.cwd = env__path(&d->s->arena, d->s->root, cwd);
    struct draft *old = draft_of(d, t.task.name);
    if (old == NULL && d->all.n == TASKS_MAX) {
        return env__bad(u, at, d->e, "more than %d tasks", TASKS_MAX);
    }
    if (old != NULL && old->unit == u) {
        return env__bad(u, at, d->e, "there are two tasks '%s'", t.task.name);
    }
    if (old != NULL) {
        *old = t;
    } else {
        vec_push(&d->all, t);
    }
    return 0;
}

static int read_all(struct drafts *d)
{
    vec_foreach (u, &d->s->units) {
        const struct toml *list = toml_get(u->toml, "task");
        if (list != NULL && list->type != TOML_ARR) {
            return env__bad(u, list, d->e, "'task' is written [[task]]");
        }
        for (size_t i = 0; list != NULL && i < list->n; i++) {
            int rc = read_task(d, u, &list->items[i]);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

/// `by` names others that come first, or that come after it: note which must be over before which begins.
static int link_names(struct drafts *d, struct draft *by, const char **names, size_t n, bool first)
{
    for (size_t i = 0; i < n; i++) {
        struct draft *other = draft_of(d, names[i]);
        if (other == NULL) {
            return env__bad(by->unit, by->at, d->e,
                            "task '%s' names '%s', and there is no such task", by->task.name,
                            names[i]);
        }
        vec_push(&(first ? by : other)->needs, (size_t)((first ? other : by) - d->all.p));
    }
    return 0;
}

static int fail_circle(struct drafts *d, size_t again)
{
    struct buf way = {.max = 160};
    size_t i = 0;
    while (d->way.p[i] != again) {
        i++;
        assert(i < d->way.n);
    }
    for (; i < d->way.n; i++) {
        buf_addf(&way, "'%s' after ", d->all.p[d->way.p[i]].task.name);
    }
    int rc = env__bad(d->all.p[again].unit, d->all.p[again].at, d->e,
                      "tasks come after each other in a circle: %s'%s'", buf_z(&way),
                      d->all.p[again].task.name);
    buf_fini(&way);
    return rc;
}

static int place(struct drafts *d, size_t at)
{
    assert(at < d->all.n);
    struct draft *t = &d->all.p[at];
    if (t->mark == PLACED) {
        return 0;
    }
    if (t->mark == OPEN) {
        return fail_circle(d, at);
    }
    t->mark = OPEN;
    vec_push(&d->way, at);
    t->task.after = arena_calloc(&d->s->arena, t->needs.n + 1, sizeof *t->task.after);
    for (size_t i = 0; i < t->needs.n; i++) {
        int rc = place(d, t->needs.p[i]);
        if (rc != 0) {
            return rc;
        }
        t->task.after[i] = d->all.p[t->needs.p[i]].task.name;
    }
    t->mark = PLACED;
    (void)vec_pop(&d->way);
    vec_push(&d->s->tasks, t->task);
    return 0;
}

int env__tasks_read(struct env_spec *s, const struct env_vars *vars, struct err *e)
{
    struct drafts d = {.s = s, .vars = vars, .e = e};
    int rc = read_all(&d);
    for (size_t i = 0; rc == 0 && i < d.all.n; i++) {
        struct draft *t = &d.all.p[i];
        rc = link_names(&d, t, t->after, t->n_after, true);
        rc = rc == 0 ? link_names(&d, t, t->before, t->n_before, false) : rc;
    }
    for (size_t i = 0; rc == 0 && i < d.all.n; i++) {
        rc = place(&d, i);
    }
    vec_foreach (t, &d.all) {
        vec_fini(&t->needs);
    }
    vec_fini(&d.all);
    vec_fini(&d.way);
    return rc;
}

void env__tasks_copy(struct env_result *r, const struct env_spec *s)
{
    struct arena *a = &r->arena;
    vec_foreach (t, &s->tasks) {
        struct env_task copy = *t;
        copy.name = arena_strdup(a, str_of(t->name));
        copy.run = arena_strdup(a, str_of(t->run));
        copy.status = t->status != NULL ? arena_strdup(a, str_of(t->status)) : NULL;
        copy.cwd = arena_strdup(a, str_of(t->cwd));
        copy.after = arena_copy_list(a, t->after);
        copy.inputs = arena_copy_list(a, t->inputs);
        copy.env = arena_calloc(a, t->n_env + 1, sizeof *copy.env);
        for (size_t i = 0; i < t->n_env; i++) {
            copy.env[i].name = arena_strdup(a, str_of(t->env[i].name));
            copy.env[i].value = arena_strdup(a, str_of(t->env[i].value));
        }
        vec_push(&r->tasks, copy);
    }
}
