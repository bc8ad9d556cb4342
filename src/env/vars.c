// Environments as sets of names.
//
// Builders take one environment in and give one out; only the difference counts. Shells write much into
// their environment that is not configuration (SHLVL, `_`, prompts, history), so that a naive difference
// would carry one shell's state into another. `own_names` keeps those out, where all names come in.

#include "env/vars.h"

#include <assert.h>
#include <unistd.h>

enum { ARGS_ROOM = 128 << 10 }; // of what exec() takes, left for arguments

// What a shell, a prompt tool or another environment manager keeps for itself.
static const char own_names[] =
    "_ PWD OLDPWD SHLVL SHELL SHELLOPTS BASH BASHOPTS BASH_* BASHPID HIST* PS1 PS2 PS3 PS4 PROMPT "
    "PROMPT_* RPROMPT PPID UID EUID GID EGID IFS OPTIND OPTARG OPTERR RANDOM SECONDS LINENO "
    "COLUMNS LINES COMP_* READLINE_* DIRSTACK FUNCNAME GROUPS PIPESTATUS EPOCH* SRANDOM FPATH "
    "ZDOTDIR ZSH_* fish_* __fish* status pipestatus argv history version hostname DIRENV_* "
    "STARSHIP_* AFLOAT_SHELL AFLOAT_PROJECT AFLOAT_ENV_GENERATION AFLOAT_RELOAD_* AFLOAT_STATE "
    "__afloat*";

static const char list_names[] =
    "PATH MANPATH INFOPATH XDG_DATA_DIRS XDG_CONFIG_DIRS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH "
    "LIBRARY_PATH LD_LIBRARY_PATH PKG_CONFIG_PATH ACLOCAL_PATH CMAKE_PREFIX_PATH PYTHONPATH "
    "NODE_PATH PERL5LIB RUBYLIB CLASSPATH GI_TYPELIB_PATH XCURSOR_PATH CDPATH DYLD_LIBRARY_PATH "
    "TERMINFO_DIRS GOPATH";

void env_vars_init(struct env_vars *v, struct arena *a)
{
    *v = (struct env_vars){.arena = a};
}

void env_vars_fini(struct env_vars *v)
{
    map_fini(&v->map);
}

void env_vars_set(struct env_vars *v, struct str name, struct str value)
{
    assert(v->arena != NULL);
    if (env_name_ok(name) && env_name_is_free(name)) {
        map_set(&v->map, name, arena_strdup(v->arena, value));
    }
}

void env_vars_unset(struct env_vars *v, struct str name)
{
    map_remove(&v->map, name);
}

const char *env_vars_get(const struct env_vars *v, struct str name)
{
    return map_get(&v->map, name);
}

void env_vars_add_environ(struct env_vars *v, const char *const *entries)
{
    for (; entries != NULL && *entries != NULL; entries++) {
        struct str value = str_of(*entries), name = str_cut(&value, '=');
        if (value.p != NULL) {
            env_vars_set(v, name, value);
        }
    }
}

void env_vars_copy(struct env_vars *to, const struct env_vars *from)
{
    struct str name;
    void *value;
    for (size_t at = 0; map_next(&from->map, &at, &name, &value);) {
        env_vars_set(to, name, str_of(value));
    }
}

const char **env_vars_names(const struct env_vars *v, size_t *n)
{
    const char **names = arena_calloc(v->arena, v->map.n + 1, sizeof *names);
    struct str name;
    void *value;
    *n = 0;
    for (size_t at = 0; map_next(&v->map, &at, &name, &value);) {
        names[(*n)++] = arena_strdup(v->arena, name);
    }
    assert(*n == v->map.n);
    str_sort(names, *n);
    return names;
}

char **env_vars_block(const struct env_vars *v, const char *const *first, size_t n)
{
    size_t n_names, bytes = 0;
    const char **names = env_vars_names(v, &n_names);
    for (size_t i = 0; i < n; i++) {
        bytes += strlen(first[i]) + 1;
    }
    for (size_t i = 0; i < n_names; i++) {
        bytes += strlen(names[i]) + strlen(env_vars_get(v, str_of(names[i]))) + 2;
    }
    char **block = xmalloc((n + n_names + 1) * sizeof *block + bytes);
    char *text = (char *)(block + n + n_names + 1);
    for (size_t i = 0; i < n; i++) {
        block[i] = text;
        text = stpcpy(text, first[i]) + 1;
    }
    for (size_t i = 0; i < n_names; i++) {
        block[n + i] = text;
        text = stpcpy(text, names[i]);
        *text++ = '=';
        text = stpcpy(text, env_vars_get(v, str_of(names[i]))) + 1;
    }
    assert(text == (char *)(block + n + n_names + 1) + bytes);
    block[n + n_names] = NULL;
    return block;
}

int env_vars_check(const struct env_vars *v, struct err *e)
{
    size_t n, total = 0, largest = 0;
    const char **names = env_vars_names(v, &n), *name = "";
    for (size_t i = 0; i < n; i++) {
        size_t bytes = strlen(names[i]) + strlen(env_vars_get(v, str_of(names[i]))) + 2;
        total += bytes + sizeof(char *);
        name = bytes > largest ? names[i] : name;
        largest = MAX(largest, bytes);
    }
    if (largest > ENV_ENTRY_MAX) {
        return err_set(e, ERR_TOO_LARGE,
                       "'%s' has %zu bytes, and programs cannot start with one larger than %d",
                       name, largest, ENV_ENTRY_MAX);
    }
    size_t most = (size_t)sysconf(_SC_ARG_MAX);
    if (total + ARGS_ROOM > most) {
        return err_set(e, ERR_TOO_LARGE,
                       "the environment has %zu bytes, and programs start with at most %zu; the "
                       "largest variable is '%s' with %zu",
                       total, most - ARGS_ROOM, name, largest);
    }
    return 0;
}

bool env_name_ok(struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i], letter = (char)(c | 0x20);
        bool digit = c >= '0' && c <= '9';
        if (!(c == '_' || (letter >= 'a' && letter <= 'z') || (digit && i != 0))) {
            return false;
        }
    }
    return name.n != 0 && name.n <= 255;
}

bool env_name_in(struct str name, const char *patterns)
{
    for (struct str rest = str_of(patterns); rest.n != 0;) {
        if (str_glob(str_cut(&rest, ' '), name)) {
            return true;
        }
    }
    return false;
}

bool env_name_is_free(struct str name)
{
    return !env_name_in(name, own_names);
}

bool env_name_is_list(struct str name)
{
    return env_name_in(name, list_names);
}
