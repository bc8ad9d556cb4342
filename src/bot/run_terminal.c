// The run of a program in a terminal: any agent program, started by a person, in a worktree of its own.
//
//     bots_terminal ──> NOTE ─> TREE ─> PTY ── its program ends ──> KEEP ─> ... ─> RECORD
//                                     └── it cannot be started ──> UNDO
//
// It is a run like that of a bot, so lists, diff, apply, merge, discard and clean know it; only who works there
// is another. Its id is that of the terminal. A terminal outlives the hub, and so does its run: a hub that stops
// leaves the record as it is, `running`, and the next one takes both up again (recover.c).

#include "bot/run_int.h"
#include "config/home.h"

#define OF_TERMINALS "pty" // in the place of a bot's name

enum { BY_SIGNAL = 128 }; // a status from here on: a signal ended it

// ---- begin --------------------------------------------------------------------------------------

static void make_space(struct ask *a) // on the lane
{
    a->rc = workspace_of_path(&a->ws, a->b->o.home->dir, OF_TERMINALS, a->git.main_root,
                              WORKSPACE_MAKE, &a->e);
}

/// The command line, for lists.
static const char *command_of(const struct ask *a, struct record *rec)
{
    struct buf line;
    buf_init(&line, RUN_INPUT);
    buf_adds(&line, ask__str(a, "cmd"));
    json_foreach_item (it, json_get(a->params, "args")) {
        buf_addc(&line, ' ');
        buf_adds(&line, json_str(it, ""));
    }
    const char *out = record_text(rec, buf_str(&line));
    buf_fini(&line);
    return out;
}

static void launch(struct ask *a)
{
    struct record rec;
    record_init(&rec);
    a->name = OF_TERMINALS;
    run__fill_record(a, &rec);
    rec.terminal = rec.run_id;
    rec.prompt = command_of(a, &rec);
    rec.options = json_clone(&rec.arena, a->params);
    rec.started_at = loop_wall(a->b->o.loop);
    rec.running = rec.full_access = true; // the program is the user's own
    struct run *r = run__new(a->b, &rec);
    r->starter = a;
    r->dir = arena_strdup(&r->arena, str_of(a->real));
    r->ws = a->ws;
    a->ws = (struct workspace){0};
    run__go(r, RUN_NOTE);
}

static void located(struct ask *a)
{
    if (a->b->stopping) {
        ask__no(a, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (a->git.status < 0) {
        ask__fail(a, &a->git.e);
    } else {
        ask__work(a, make_space, launch);
    }
}

void bots_terminal(struct bots *b, const struct json *params, bots_text_cb *cb, void *arg)
{
    ask__locate(ask__new(b, params, cb, arg), WHERE_GIT, located);
}

// ---- from here to its end -----------------------------------------------------------------------

/// The worktree is there: who asked starts the program.
void run__pty(struct run *r)
{
    struct ask *a = r->starter;
    r->starter = NULL;
    jw_obj(&a->w);
    record_write(&r->rec, &a->w, true);
    jw_kstrz(&a->w, "dir", r->dir);
    jw_end_obj(&a->w);
    a->run = r->rec.run_id;
    ask__answer(a);
}

/// The run that waits for its program; NULL: there is none.
static struct run *waiting(struct bots *b, struct str run_id)
{
    struct run *r = bots__run_of(b, run_id);
    return r != NULL && r->step == RUN_PTY && r->next == NULL && r->starter == NULL ? r : NULL;
}

void bots_terminal_runs(struct bots *b, struct str run_id)
{
    struct run *r = waiting(b, run_id);
    if (r != NULL) {
        run__tell_start(r);
    }
}

void bots_terminal_failed(struct bots *b, struct str run_id)
{
    struct run *r = waiting(b, run_id);
    if (r != NULL) {
        run__abort(r, &(struct agent_no){0});
    }
}

void bots_terminal_ended(struct bots *b, struct str run_id, int status, const char *action)
{
    struct run *r = waiting(b, run_id);
    if (r == NULL) {
        return;
    }
    r->wish = record_text(&r->rec, str_of(action));
    bool stopped = r->stop_wanted || status >= BY_SIGNAL;
    if (status > 0 && !stopped) {
        r->rec.error = arena_printf(&r->rec.arena, "its program ended with status %d", status);
    } else if (status < 0) {
        run__note(r, "its terminal is gone: nobody knows how its program ended");
    }
    run__end(r, stopped       ? "interrupted"
                : status == 0 ? "complete"
                : status > 0  ? "failed"
                              : "crashed");
}

void run__stop_terminal(struct run *r)
{
    struct bots *b = r->b;
    if (b->stopping) {
        run__leave(r);
    } else if (b->o.terminal_end == NULL || !b->o.terminal_end(b->o.arg, r->rec.terminal)) {
        run__end(r, "interrupted"); // it is gone already
    }
}
