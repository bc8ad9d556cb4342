// The directories that new settings of a session name, as they really are.
//
//     params ──> a copy ──lane: stat, realpath──> the copy with real paths, may tools write? ──> the caller
//
// Links are followed once, when the settings are made: a session keeps the real path of its working directory and of
// each directory that it may write. The file system of a dead network mount never answers, so a thread asks it, and
// only the client that asked waits.

#include <assert.h>
#include <sys/stat.h>

#include "agent/agent_int.h"

struct places {
    struct agent *a;
    struct arena arena;
    struct json *params;
    const char *read_only; // why tools may only read in the working directory; NULL: they may write
    struct agent_no no;    // its detail is empty while all of them are directories
    agent__places_cb *cb;
    void *arg;
};

/// Replace `v` with its real path. False, and p->no says so with `rule`: it is no directory.
static bool find_place(struct places *p, struct json *v, const char *rule)
{
    struct stat st;
    struct str asked = json_str(v, "");
    char *path = str_dup(asked);
    bool fits = path[0] == '/' && strlen(path) == asked.n && stat(path, &st) == 0;
    char *real = fits && S_ISDIR(st.st_mode) ? realpath(path, NULL) : NULL;
    if (real != NULL) {
        v->s = arena_str(&p->arena, str_of(real));
    } else {
        agent_no_set(&p->no, PROBLEM_INVALID_BODY, NULL, "%s: '%.*s' is not", rule,
                     (int)MIN(asked.n, (size_t)150), asked.p);
    }
    free(path);
    free(real);
    return real != NULL;
}

static void find_places(void *arg) // on a lane
{
    struct places *p = arg;
    for (uint32_t i = 0; i < p->params->n; i++) {
        struct json *v = &p->params->members[i].value;
        bool is_dir = str_eqz(p->params->members[i].key, "working_dir") && v->type != JSON_NULL;
        bool is_list = str_eqz(p->params->members[i].key, "writable") && v->type == JSON_ARR;
        if (is_dir &&
            find_place(p, v,
                       "'working_dir' must be a directory that exists, with its absolute path")) {
            char *dir = str_dup(v->s);
            (void)box_choose_mode(BOX_WORKSPACE_WRITE, dir, p->a->o.hub->home->dir, &p->read_only);
            free(dir);
        }
        for (uint32_t k = 0; is_list && k < v->n; k++) {
            (void)find_place(
                p, &v->items[k],
                "'writable' must be directories that exist, with their absolute paths");
        }
    }
}

static void on_places(void *arg)
{
    struct places *p = arg;
    struct agent *a = p->a;
    bool good = p->no.detail[0] == '\0';
    p->cb(p->arg, good ? p->params : NULL, p->read_only, good ? NULL : &p->no);
    arena_fini(&p->arena);
    free(p);
    agent__release(a);
}

void agent__find_places(struct agent *a, const struct json *params, agent__places_cb *cb, void *arg)
{
    struct places *p = xcalloc(1, sizeof *p);
    *p = (struct places){.a = a, .cb = cb, .arg = arg};
    p->params = json_clone(&p->arena, params);
    struct str dir = json_get_text(params, "working_dir");
    agent__hold(a);
    work_submit(a->files, work_mount_key(dir.n != 0 ? arena_strdup(&p->arena, dir) : "/"),
                find_places, on_places, p);
}
