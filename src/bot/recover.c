// After a hub was killed, no hub runs the runs whose records say `running`. Each is ended as `crashed`, by the same steps
// as any other (run_end.c): the work in its worktree is committed, the directory is removed, session and record say so.
// All of it happens after `ready`; a run under recovery is a live one, so nothing else touches its worktree meanwhile.
//
// The program in a terminal outlives the hub: while it runs, its run continues. So does a conversation that has not
// ended.

#include "base/log.h"
#include "bot/run_int.h"
#include "bot/runs_int.h"
#include "fleet/fleet.h"

struct recovery {
    struct bots *b;
    vec(struct record) left;
};

static bool collect(void *arg, const struct runs_entry *r)
{
    struct recovery *c = arg;
    struct record rec;
    if (!r->running) {
        return true;
    }
    char *path = runs_index_path(r->place, r->id);
    if (runs_load(&rec, path, NULL) == 0 && rec.running) {
        vec_push(&c->left, rec);
    } else {
        record_fini(&rec);
    }
    free(path);
    return true;
}

static void look(void *arg) // on the lane
{
    struct recovery *c = arg;
    runs_index_each(c->b->index, NULL, NULL, collect, c);
}

static void on_looked(void *arg)
{
    struct recovery *c = arg;
    struct bots *b = c->b;
    vec_foreach (rec, &c->left) {
        bool ours = bots__run_of(b, str_of(rec->run_id)) != NULL; // begun since
        if (!ours && !b->stopping) {
            run_recover(b, rec);
        }
        record_fini(rec);
    }
    vec_fini(&c->left);
    free(c);
    b->recovering = false;
    runs__find_early(b);
    bots__release(b);
}

void run_recover(struct bots *b, struct record *rec)
{
    struct run *r = run__new(b, rec);
    int status = -1;
    r->push.adopt = !fleet_shared(b->o.fleet);
    if (run__is_terminal(r)) { // it worked on without us
        r->step = RUN_PTY;
        if (b->o.terminal_runs == NULL || !b->o.terminal_runs(b->o.arg, r->rec.terminal, &status)) {
            bots_terminal_ended(b, str_of(r->rec.terminal), status, "review");
        }
        return;
    }
    if (r->rec.chat[0] != '\0') {
        run__recover_chat(r);
        return;
    }
    log_warn(LOG_BOT, "run=%s bot=%s end=crashed reason=\"the hub was killed while it ran\"",
             r->rec.run_id, r->rec.bot);
    snprintf(r->session, sizeof r->session, "%s", record_last_session(&r->rec));
    r->rec.end_reason = "crashed";
    run__go(r, RUN_KEEP);
}

void bots_recover(struct bots *b)
{
    if (fleet_shared(b->o.fleet)) { // the hubs know who has what
        fleet_take_runs(b->o.fleet);
        return;
    }
    struct recovery *c = xcalloc(1, sizeof *c);
    c->b = b;
    b->recovering = true;
    bots__hold(b);
    work_submit(b->lane, 0, look, on_looked, c);
}
