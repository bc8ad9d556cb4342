// News of a shell's environment, as POST /env takes them.

#include "shell/report.h"

#include <assert.h>

#include "base/json.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "client/announce.h"
#include "proto/events.h"
#include "proto/ops.h"

enum { BODY_MAX = 48 * 1024, ERROR_MAX = 8 * 1024 };

struct report {
    struct announce *announce;
    char *shell, *project;
    int pid;
    vec(char *) waiting;  // files whose change is built, and not applied yet
    uint64_t duration_ms; // of the last build
};

struct news {
    enum event_id type;
    uint64_t generation;
    uint64_t duration_ms;
    const char *const *changed;
    size_t n_changed;
    const char *error; // NULL: none
};

static void tell(struct report *r, const struct news *n)
{
    assert(n->changed != NULL || n->n_changed == 0);
    struct buf body = {.max = BODY_MAX};
    struct jw w = {.out = &body};
    jw_obj(&w);
    jw_kstrz(&w, "type", event_infos[n->type].type);
    jw_kstrz(&w, "shell", r->shell);
    jw_kstrz(&w, "project", r->project);
    jw_kint(&w, "pid", r->pid);
    jw_kint(&w, "generation", (int64_t)n->generation);
    env_write_changed(&w, n->changed, n->n_changed);
    jw_kint(&w, "duration_ms", (int64_t)n->duration_ms);
    if (n->error != NULL) {
        size_t fits = utf8_cut(n->error, strlen(n->error), ERROR_MAX);
        jw_kstr(&w, "error", (struct str){n->error, fits});
    }
    jw_end_obj(&w);
    if (buf_ok(&body)) {
        announce_send(r->announce, ops[OP_ENV_REPORT].path, buf_str(&body));
    }
    buf_fini(&body);
}

/// The shell may skip a result: what it applies in the end comes from all these files.
static void add_waiting(struct report *r, const char *path)
{
    vec_foreach (it, &r->waiting) {
        if (strcmp(*it, path) == 0) {
            return;
        }
    }
    vec_push(&r->waiting, xstrdup(path));
}

struct report *report_open(struct loop *l, const char *socket, const char *shell,
                           const char *project, int pid)
{
    struct report *r = xcalloc(1, sizeof *r);
    r->announce = announce_open(l, socket);
    r->shell = xstrdup(shell);
    r->project = xstrdup(project);
    r->pid = pid;
    return r;
}

void report_close(struct report *r)
{
    if (r == NULL) {
        return;
    }
    announce_close(r->announce);
    vec_fini_each(&r->waiting, free);
    free(r->shell);
    free(r->project);
    free(r);
}

void report_building(struct report *r, const struct env_building *m)
{
    struct news n = {.type = EVENT_ENV_BUILDING,
                     .generation = m->generation,
                     .changed = m->changed,
                     .n_changed = m->n_changed};
    tell(r, &n);
}

void report_ready(struct report *r, const struct env_ready *m)
{
    struct news n = {.type = EVENT_ENV_READY,
                     .generation = m->result->generation,
                     .duration_ms = m->result->duration_ms,
                     .changed = m->changed,
                     .n_changed = m->n_changed};
    for (size_t i = 0; i < m->n_changed; i++) {
        add_waiting(r, m->changed[i]);
    }
    r->duration_ms = m->result->duration_ms;
    tell(r, &n);
}

void report_failed(struct report *r, const struct env_failed *m)
{
    struct news n = {.type = EVENT_ENV_FAILED,
                     .generation = m->generation,
                     .duration_ms = m->duration_ms,
                     .changed = m->changed,
                     .n_changed = m->n_changed,
                     .error = m->text};
    tell(r, &n);
}

void report_applied(struct report *r, uint64_t generation)
{
    struct news n = {.type = EVENT_ENV_APPLIED,
                     .generation = generation,
                     .duration_ms = r->duration_ms,
                     .changed = (const char *const *)r->waiting.p,
                     .n_changed = r->waiting.n};
    tell(r, &n);
    vec_fini_each(&r->waiting, free);
}
