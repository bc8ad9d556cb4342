// Environments of shells: they build them, the hub only knows and tells.
//
// A shell reports each step (POST /env); it becomes an event of the stream, and the last one of each
// shell is kept for GET /env. A shell that ends says nothing: who has gone is seen by its process.

#include <errno.h>
#include <signal.h>

#include "api/api_int.h"
#include "api/handlers.h"
#include "base/path.h"
#include "base/vec.h"
#include "event/event.h"
#include "proto/events.h"

enum { SHELLS_MAX = 256, FIELDS_MAX = 64 * 1024 };

struct api_shell {
    char *shell, *project;
    char *type;   // of the last report
    char *fields; // its members as JSON
    int64_t pid;
};

struct api_shells {
    vec(struct api_shell) all;
};

// ---- who is there ------------------------------------------------------------------------------

static void free_shell(struct api_shell s)
{
    free(s.shell);
    free(s.project);
    free(s.type);
    free(s.fields);
}

/// Forget the shells whose process is gone.
static void sweep(struct api_shells *t)
{
    for (size_t i = t->all.n; i-- > 0;) {
        if (kill((pid_t)t->all.p[i].pid, 0) != 0 && errno == ESRCH) {
            free_shell(t->all.p[i]);
            vec_remove(&t->all, i);
        }
    }
}

void api__free_shells(struct api_shells *t)
{
    if (t != NULL) {
        vec_fini_each(&t->all, free_shell);
        free(t);
    }
}

// ---- operations --------------------------------------------------------------------------------

void op_ENV_REPORT(struct api *api, struct op_call *c)
{
    static const enum event_id known[] = {EVENT_ENV_BUILDING, EVENT_ENV_READY, EVENT_ENV_FAILED,
                                          EVENT_ENV_APPLIED};
    static const char *const keys[] = {"shell",         "project",     "generation",
                                       "changed_files", "duration_ms", "error",
                                       "added",         "changed",     "removed"};
    struct str type = json_get_text(c->params, "type");
    int64_t pid = json_int(json_get(c->params, "pid"), 0);
    struct buf fields = {.max = FIELDS_MAX}; // the members of the event, without the braces
    bool good = false;
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        good = good || str_eqz(type, event_infos[known[i]].type);
    }
    if (!good || pid < 2 || pid > INT32_MAX) {
        op_fail(
            c, PROBLEM_INVALID_BODY, NULL,
            "'type' is env.building, env.ready, env.failed or env.applied; 'pid' is the shell's");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *v = json_get(c->params, keys[i]);
        if (v != NULL) {
            buf_addf(&fields, "%s\"%s\":", fields.n == 0 ? "" : ",", keys[i]);
            json_write(&fields, v, 0);
        }
    }
    if (!buf_ok(&fields)) {
        op_fail(c, PROBLEM_TOO_LARGE, NULL, "the report is larger than %d bytes", FIELDS_MAX);
    } else if (event_emit(api->o.hub->events, type, STR_NULL, buf_str(&fields)) == 0) {
        op_fail(c, PROBLEM_STORE_FAILED, "see `afloat doctor`",
                "no event id could be reserved on disk");
    } else {
        struct str shell = json_get_text(c->params, "shell");
        api->shells = api->shells != NULL ? api->shells : xcalloc(1, sizeof *api->shells);
        struct api_shells *t = api->shells;
        sweep(t);
        struct api_shell *old = NULL; // its report before
        vec_foreach (it, &t->all) {
            old = str_eqz(shell, it->shell) ? it : old;
        }
        if (old == NULL && t->all.n == SHELLS_MAX) {
            free_shell(t->all.p[0]);
            vec_remove(&t->all, 0);
        }
        struct api_shell s = {.shell = str_dup(shell),
                              .project = str_dup(json_get_text(c->params, "project")),
                              .type = str_dup(type),
                              .fields = str_dup(buf_str(&fields)),
                              .pid = pid};
        if (old != NULL) {
            free_shell(*old);
            *old = s;
        } else {
            vec_push(&t->all, s);
        }
        op_answer(c, 200, STR("{\"ok\":true}"));
    }
    buf_fini(&fields);
}

void op_ENV_SHOW(struct api *api, struct op_call *c)
{
    struct str path = json_get_text(c->params, "path");
    struct buf out = {.max = SIZE_MAX};
    bool first = true;
    const char *within = arena_strdup(c->arena, path);
    if (json_get(c->params, "path") != NULL && !api__require_path(api, c, path)) {
        return;
    }
    buf_addz(&out, "{\"shells\":[");
    if (api->shells != NULL) {
        sweep(api->shells);
        vec_foreach (s, &api->shells->all) {
            if (path.n == 0 || path_below(s->project, within) != NULL) {
                const char *state = strchr(s->type, '.') + 1;
                buf_addf(&out, "%s{\"state\":\"%s\",\"pid\":%lld,%s}", first ? "" : ",", state,
                         (long long)s->pid, s->fields);
                first = false;
            }
        }
    }
    buf_addz(&out, "]}");
    op_answer(c, 200, buf_str(&out));
    buf_fini(&out);
}
