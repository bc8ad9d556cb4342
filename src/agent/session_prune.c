// Delete the sessions that were not used for long.
//
//     list page by page ──> older than asked, and not at work ──> delete one after the other ──> answer
//
// Sessions of bots stay: they are the numbered history of their bot. Subagents are deleted with the session that
// started them. Listing and deleting take a while, so a session that a client uses again meanwhile stays too.

#include <assert.h>

#include "agent/agent_int.h"
#include "base/time.h"

struct prune {
    struct agent *a;
    int64_t before; // milliseconds since 1970; sessions used earlier are deleted
    bool dry_run;
    vec(struct agent_pruned) found;
    size_t at; // of `found`: the next to delete
    agent_prune_cb *cb;
    void *arg;
};

static void free_one(struct agent_pruned *f)
{
    free(f->id);
    free(f->title);
    free(f->working_dir);
}

static void finish(struct prune *p, const struct agent_no *no)
{
    struct agent *a = p->a;
    p->cb(p->arg, p->found.p, p->dry_run ? p->found.n : p->at, no);
    vec_foreach (f, &p->found) {
        free_one(f);
    }
    vec_fini(&p->found);
    free(p);
    agent__release(a);
}

static void delete_next(struct prune *p);

static void on_deleted(void *arg, struct session *s, const struct agent_no *no)
{
    struct prune *p = arg;
    (void)s;
    if (no != NULL && no->problem != PROBLEM_NOT_FOUND) { // another client deleted it: fine
        finish(p, no);
        return;
    }
    p->at++;
    delete_next(p);
}

static void on_found(void *arg, struct session *s, const struct agent_no *no)
{
    struct prune *p = arg;
    if (s == NULL) {
        on_deleted(p, NULL, no);
    } else if (s->turn != NULL || s->queue.n != 0 || s->arriving != 0) {
        free_one(&p->found.p[p->at]);
        p->found.p[p->at] = p->found.p[--p->found.n];
        delete_next(p);
    } else {
        agent_session_end(s, true, on_deleted, p);
    }
}

static void delete_next(struct prune *p)
{
    assert(p->at <= p->found.n);
    if (p->dry_run || p->at == p->found.n) {
        finish(p, NULL);
    } else {
        agent_session_get(p->a, str_of(p->found.p[p->at].id), on_found, p);
    }
}

static void list_page(struct prune *p, struct str cursor);

static void on_page(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct prune *p = arg;
    struct agent_no no;
    if (status < 0) {
        finish(p, agent__no_store(&no, status, e));
        return;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct store_row *row = &r->rows[i];
        bool at_work = str_eqz(row->state, "running") || str_eqz(row->state, "waiting");
        if (MAX(row->updated_at, row->started_at) < p->before && !at_work) {
            struct arena arena = {0};
            struct json *meta = NULL;
            int rc = json_parse(&meta, &arena, row->meta, NULL, NULL);
            meta = rc == 0 ? meta : NULL; // damaged: its directory is unknown
            vec_push(&p->found, ((struct agent_pruned){
                                    .id = str_dup(row->id),
                                    .title = str_dup(row->title),
                                    .working_dir = str_dup(json_get_text(meta, "working_dir")),
                                    .used_at = MAX(row->updated_at, row->started_at)}));
            arena_fini(&arena);
        }
    }
    if (r->next.n != 0) {
        list_page(p, r->next);
    } else {
        delete_next(p);
    }
}

static void list_page(struct prune *p, struct str cursor)
{
    store_list(p->a->o.hub->store, &(struct store_filter){.kind = STR("session"), .no_tasks = true},
               cursor, 0, on_page, p);
}

void agent_session_prune(struct agent *a, int64_t before, bool dry_run, agent_prune_cb *cb,
                         void *arg)
{
    struct prune *p = xcalloc(1, sizeof *p);
    *p = (struct prune){.a = a, .before = before, .dry_run = dry_run, .cb = cb, .arg = arg};
    agent__hold(a);
    list_page(p, STR_NULL);
}
