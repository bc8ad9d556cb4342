// A task as text for the interactive shell.
//
//     __afloat_needs 'deps' || return       a task before it failed
//     builtin cd '/p/sub' || return         __afloat_task goes back
//     local -x ONLY='value'                 gone when __afloat_task returns
//     sh -c 'test -e done' && return 0      nothing to do
//     the command as it is written
//
// The words around the command are ours; what they contain from the project is quoted.

#include "shell/task_text.h"

#include <assert.h>

#include "env/render.h"

/// The words of each dialect.
static const struct {
    const char *cd, *set, *is;
} words[] = {
    [ENV_BASH] = {"builtin cd ", "local -x ", "="},
    [ENV_ZSH] = {"builtin cd -q ", "local -x ", "="}, // without the user's chpwd functions
    [ENV_FISH] = {"builtin cd ", "set -lx ", " "},
};

/// `before`, `value` as one word, `after`.
static void add_line(struct buf *out, enum env_dialect d, const char *before, const char *value,
                     const char *after)
{
    buf_addz(out, before);
    env_quote(out, d, value);
    buf_addf(out, "%s\n", after);
}

static void add_variable(struct buf *out, enum env_dialect d, const struct env_var *v)
{
    char *before = xasprintf("%s%s%s", words[d].set, v->name, words[d].is);
    add_line(out, d, before, v->value, "");
    free(before);
}

void task_text(const struct env_task *t, enum env_dialect d, bool force, struct buf *out)
{
    assert(d < ARRAY_LEN(words) && words[d].cd != NULL);
    for (const char **name = t->after; *name != NULL; name++) {
        add_line(out, d, "__afloat_needs ", *name, " || return");
    }
    add_line(out, d, words[d].cd, t->cwd, " || return");
    for (size_t i = 0; i < t->n_env; i++) {
        add_variable(out, d, &t->env[i]);
    }
    if (t->status != NULL && !force) {
        add_line(out, d, "command sh -c ", t->status, " </dev/null >/dev/null 2>&1 && return 0");
    }
    if (t->in_shell) {
        buf_addf(out, "%s\n", t->run);
    } else {
        add_line(out, d, "command sh -c ", t->run, "");
    }
}
