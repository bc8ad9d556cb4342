// What a keeper is asked to run, read and checked before anything is started:
//
//     {"id", "socket", "cmd", "args", "cwd", "env": {NAME: value}, "rows", "cols", "history", "abandon_s", "about": {...}}

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keep/keeper_int.h"

static const char *text(struct keeper_spec *s, const struct json *v)
{
    struct str t = json_str(v, "");
    char *z = arena_alloc(&s->arena, t.n + 1);
    memcpy(z, t.p != NULL ? t.p : "", t.n);
    z[t.n] = '\0';
    return z;
}

static void read_argv(struct keeper_spec *s, const struct json *in)
{
    size_t n = 1, at = 0;
    json_foreach_item (it, json_get(in, "args")) {
        n++;
    }
    s->argv = arena_alloc(&s->arena, (n + 1) * sizeof *s->argv);
    s->argv[at++] = text(s, json_get(in, "cmd"));
    json_foreach_item (it, json_get(in, "args")) {
        s->argv[at++] = text(s, it);
    }
    s->argv[at] = NULL;
}

static void read_env(struct keeper_spec *s, const struct json *env)
{
    size_t n = 0;
    json_foreach_member (m, env) {
        n++;
    }
    s->env = arena_alloc(&s->arena, (n + 1) * sizeof *s->env);
    n = 0;
    json_foreach_member (m, env) {
        struct str value = json_str(&m->value, "");
        char *z = arena_alloc(&s->arena, m->key.n + value.n + 2);
        snprintf(z, m->key.n + value.n + 2, STR_FMT "=" STR_FMT, STR_ARG(m->key), STR_ARG(value));
        s->env[n++] = z;
    }
    s->env[n] = NULL;
}

/// Would the launcher find the program? Its own answer comes after the hub has been told that the keeper runs.
static bool can_run(const struct keeper_spec *s)
{
    const char *path = "/usr/local/bin:/usr/bin:/bin";
    char file[4096];
    if (strchr(s->argv[0], '/') != NULL) {
        snprintf(file, sizeof file, "%s%s%s", s->argv[0][0] == '/' ? "" : s->cwd,
                 s->argv[0][0] == '/' ? "" : "/", s->argv[0]);
        return access(file, X_OK) == 0;
    }
    for (size_t i = 0; s->env[i] != NULL; i++) {
        path = strncmp(s->env[i], "PATH=", 5) == 0 ? s->env[i] + 5 : path;
    }
    for (struct str rest = str_of(path); rest.n != 0;) {
        struct str dir = str_cut(&rest, ':');
        snprintf(file, sizeof file, STR_FMT "/%s", STR_ARG(dir), s->argv[0]);
        if (access(file, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

int spec__read(struct keeper_spec *s, struct str json, struct err *e)
{
    struct json *in;
    struct stat st;
    s->arena = (struct arena){0};
    int rc = json_parse(&in, &s->arena, arena_str(&s->arena, json), NULL, e);
    if (rc < 0) {
        return err_prefix(e, "what to run is no JSON");
    }
    s->id = text(s, json_get(in, "id"));
    s->socket = text(s, json_get(in, "socket"));
    s->cwd = text(s, json_get(in, "cwd"));
    s->rows = (int)MAX(2, MIN(json_int(json_get(in, "rows"), 24), VT_ROWS_MAX));
    s->cols = (int)MAX(3, MIN(json_int(json_get(in, "cols"), 80), VT_COLS_MAX));
    s->history =
        (size_t)MAX(0, MIN(json_int(json_get(in, "history"), VT_HISTORY_DEFAULT), 1000000));
    s->abandon_ms = (uint64_t)MAX(1, json_int(json_get(in, "abandon_s"), 120)) * 1000;
    s->about = json_get(in, "about");
    read_argv(s, in);
    read_env(s, json_get(in, "env"));
    if (s->id[0] == '\0' || s->socket[0] != '/' || s->argv[0][0] == '\0') {
        return err_set(e, ERR_INVALID, "'id', 'socket' and 'cmd' are needed");
    }
    if (stat(s->cwd, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return err_set(e, ERR_NOT_FOUND, "cannot enter '%s': no such directory", s->cwd);
    }
    return can_run(s) ? 0
                      : err_set(e, ERR_NOT_FOUND, "cannot run '%s': no such program", s->argv[0]);
}
