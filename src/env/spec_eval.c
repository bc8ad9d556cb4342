// What env.toml says, applied to an environment.
//
// Units come in the order in which later ones win. In each: dotenv files, then [env] in the order of
// the file (a value sees those above it, and what was there before under its own name), then [path],
// then [unset]. Everything is checked here, once, with file and line.

#include "base/path.h"
#include "env/dotenv.h"
#include "env/paths.h"
#include "env/spec_int.h"

static int eval_dotenv(const struct env_unit *u, struct env_vars *vars, struct err *e)
{
    vec_foreach (d, &u->dotenv) {
        struct err why = {0};
        int rc = env_dotenv_read(vars, d->text, &why);
        if (rc != 0) {
            return err_set(e, rc, "%s: %s", d->path, why.msg);
        }
    }
    return 0;
}

// Numbers and booleans are taken as they would be written.
static int value_text(const struct env_unit *u, const struct toml_member *m,
                      const struct env_vars *vars, struct buf *out, struct err *e)
{
    const struct toml *v = &m->value;
    struct err why = {0};
    switch (v->type) {
    case TOML_STR:
        if (strlen(v->s.p) != v->s.n) {
            return env__bad(u, v, e, "'" STR_FMT "' holds a NUL byte", STR_ARG(m->key));
        }
        return env_expand(out, v->s, vars, &why) == 0 ? 0 : env__bad(u, v, e, "%s", why.msg);
    case TOML_INT: buf_addf(out, "%lld", (long long)v->i); return 0;
    case TOML_BOOL: buf_addz(out, v->b ? "true" : "false"); return 0;
    default:
        return env__bad(u, v, e, "'" STR_FMT "' is %s, not a string", STR_ARG(m->key),
                        toml_type_name(v));
    }
}

static int eval_env(const struct env_unit *u, struct env_vars *vars, struct err *e)
{
    const struct toml *table = toml_get(u->toml, "env");
    if (table == NULL) {
        return 0;
    }
    if (table->type != TOML_TABLE) {
        return env__bad(u, table, e, "'env' is not a table");
    }
    toml_foreach (m, table) {
        struct buf value = {.max = ENV_VALUE_MAX};
        if (!env_name_ok(m->key) || !env_name_is_free(m->key)) {
            return env__bad(u, &m->value, e, "'" STR_FMT "' is not a name that can be set",
                            STR_ARG(m->key));
        }
        int rc = value_text(u, m, vars, &value, e);
        if (rc == 0) {
            env_vars_set(vars, m->key, buf_str(&value));
        }
        buf_fini(&value);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

static int eval_list(const struct env_spec *s, const struct env_unit *u, const char *key,
                     struct env_vars *vars, struct env_list *out, struct err *e)
{
    const struct toml *table = toml_get(u->toml, "path");
    int rc = env__strings(vars->arena, u, table, key, vars, &out->items, &out->n, e);
    for (size_t i = 0; rc == 0 && i < out->n; i++) {
        out->items[i] = env__path(vars->arena, s->root, out->items[i]);
        if (strchr(out->items[i], ':') != NULL) {
            return env__bad(u, table, e, "'%s' holds a colon, which PATH cannot", out->items[i]);
        }
    }
    return rc;
}

static int eval_path(const struct env_spec *s, const struct env_unit *u, struct env_vars *vars,
                     struct err *e)
{
    static const char *const keys[] = {"prepend", "append", NULL};
    const struct toml *table = toml_get(u->toml, "path");
    struct env_list front, back;
    if (table != NULL && table->type != TOML_TABLE) {
        return env__bad(u, table, e, "'path' is not a table");
    }
    int rc = env__known(u, table, "key of [path]", keys, e);
    rc = rc == 0 ? eval_list(s, u, "prepend", vars, &front, e) : rc;
    rc = rc == 0 ? eval_list(s, u, "append", vars, &back, e) : rc;
    if (rc == 0 && front.n + back.n != 0) {
        const char *old = env_vars_get(vars, STR("PATH"));
        env_vars_set(vars, STR("PATH"), str_of(env_paths_put(vars->arena, old, &front, &back)));
    }
    return rc;
}

static int eval_unset(const struct env_unit *u, struct env_vars *vars, struct err *e)
{
    static const char *const keys[] = {"names", NULL};
    const struct toml *table = toml_get(u->toml, "unset");
    const char **names;
    size_t n;
    if (table != NULL && table->type != TOML_TABLE) {
        return env__bad(u, table, e, "'unset' is not a table");
    }
    int rc = env__known(u, table, "key of [unset]", keys, e);
    rc = rc == 0 ? env__strings(vars->arena, u, table, "names", vars, &names, &n, e) : rc;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct str name = str_of(names[i]);
        if (!env_name_ok(name) || !env_name_is_free(name)) {
            return env__bad(u, table, e, "'%s' is not a name that can be unset", names[i]);
        }
        env_vars_unset(vars, name);
    }
    return rc;
}

int env_spec_eval(const struct env_spec *s, struct env_vars *vars, struct err *e)
{
    static const char *const place[] = {"AFLOAT_PROJECT", "PWD"}; // seen by `${...}`, never set
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(place); i++) {
        map_set(&vars->map, str_of(place[i]), arena_strdup(vars->arena, str_of(s->root)));
    }
    vec_foreach (u, &s->units) {
        rc = eval_dotenv(u, vars, e);
        rc = rc == 0 ? eval_env(u, vars, e) : rc;
        rc = rc == 0 ? eval_path(s, u, vars, e) : rc;
        rc = rc == 0 ? eval_unset(u, vars, e) : rc;
        if (rc != 0) {
            break;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(place); i++) {
        map_remove(&vars->map, str_of(place[i]));
    }
    return rc;
}
