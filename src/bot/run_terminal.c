// The run of a program in a terminal: any agent program, started by a person, in a worktree of its own.
//
//     bots_terminal ──> NOTE ─> TREE ─> PTY ── its program ends ──> KEEP ─> ... ─> RECORD
//                                     └── it cannot be started ──> UNDO
//
// It is a run like that of a bot, so lists, diff, apply, merge, discard and clean know it; only who works there
// is another. Its first terminal has its id; when it is resumed, the new terminal has another one, since the
// first may still be shown. A terminal outlives the hub, and so does its run: a hub that stops leaves the record
// as it is, `running`, and the next one takes both up again (recover.c).

#include "bot/run_int.h"
#include "bot/runs_int.h"

#define OF_TERMINALS "pty" // in the place of a bot's name

enum { BY_SIGNAL = 128 }; // a status from here on: a signal ended it

// ---- begin --------------------------------------------------------------------------------------

/// The command line, for lists.
static const char *command_of(const struct ask *a, struct record *rec)
{
    struct buf line = {.max = RUN_INPUT};
    buf_adds(&line, ask__str(a, "cmd"));
    json_foreach_item (it, json_get(a->params, "args")) {
        buf_addc(&line, ' ');
        buf_adds(&line, json_str(it, ""));
    }
    const char *out = record_text(rec, buf_str(&line));
    buf_fini(&line);
    return out;
}

/// The run to resume was found. True: it can be resumed; else it has been answered.
static bool check_past(struct ask *a)
{
    const struct record *rec = a->data;
    struct agent_no no;
    if (rec->terminal[0] == '\0') {
        ask__no(a, PROBLEM_CONFLICT, NULL, "run '%s' is that of a bot: `afloat run %s --resume %s`",
                rec->run_id, rec->bot, rec->run_id);
        return false;
    }
    if (!run__may_resume(a, rec, &no)) {
        ask__refuse(a, &no);
        return false;
    }
    return true;
}

static void launch(struct ask *a)
{
    struct record rec, *past = a->data;
    char *former = NULL;
    if (past != NULL && !check_past(a)) { // now: two may be asked for at once
        return;
    }
    if (past != NULL) {
        rec = *past;
        record_init(past);
        former = run__reopen(&rec);
        rec.terminal = run__make_id(&rec);
    } else {
        record_init(&rec);
        run__fill_record(a, &rec);
        rec.terminal = rec.run_id;
        rec.started_at = loop_wall(a->b->loop);
    }
    rec.prompt = command_of(a, &rec);
    rec.options = run__options(a, &rec);
    rec.running = rec.full_access = true; // the program is the user's own
    run__begin(a, &rec, former);
}

static void located(struct ask *a)
{
    run__make_space(a, OF_TERMINALS, launch);
}

/// It continues where it was, wherever the user is now.
static void locate_past(struct ask *a)
{
    const struct record *rec = a->data;
    ask__set(a, "working_dir", str_of(rec->working_dir));
    ask__locate(a, WHERE_GIT, located);
}

void bots_terminal(struct ask *a)
{
    if (json_get(a->params, "resume") != NULL) {
        runs__find(a, "resume", locate_past);
    } else {
        ask__locate(a, WHERE_GIT, located);
    }
}

static void show_past(struct ask *a)
{
    if (check_past(a)) {
        runs__answer(a, a->data);
    }
}

void bots_terminal_past(struct ask *a)
{
    runs__find(a, "resume", show_past);
}

// ---- from here to its end -----------------------------------------------------------------------

/// The worktree is there: who asked starts the program.
void run__pty(struct run *r)
{
    struct ask *a = r->starter;
    assert(run__is_terminal(r) && a != NULL);
    r->starter = NULL;
    jw_obj(&a->w);
    record_write(&r->rec, &a->w, true);
    jw_kstrz(&a->w, "dir", r->dir);
    jw_end_obj(&a->w);
    a->run = r->rec.run_id;
    ask__answer(a);
}

/// The run that waits for the program in that terminal; NULL: there is none.
static struct run *waiting(struct bots *b, struct str terminal)
{
    vec_foreach (it, &b->runs) {
        struct run *r = *it;
        if (str_eqz(terminal, r->rec.terminal) && !r->lost && r->step == RUN_PTY &&
            r->next == NULL && r->starter == NULL) {
            return r;
        }
    }
    return NULL;
}

void bots_terminal_runs(struct bots *b, struct str terminal)
{
    struct run *r = waiting(b, terminal);
    if (r != NULL) {
        run__tell_start(r);
    }
}

void bots_terminal_failed(struct bots *b, struct str terminal)
{
    struct run *r = waiting(b, terminal);
    if (r != NULL) {
        run__abort(r, &(struct agent_no){0});
    }
}

void bots_terminal_ended(struct bots *b, struct str terminal, int status, const char *action)
{
    struct run *r = waiting(b, terminal);
    if (r == NULL) {
        return;
    }
    r->wish = record_text(&r->rec, str_of(action));
    bool stopped = r->stop_wanted || status >= BY_SIGNAL;
    if (status > 0 && !stopped) {
        r->rec.error = arena_printf(&r->rec.arena, "its program ended with status %d", status);
    } else if (status < 0) {
        run__note(r, "its terminal is gone: the exit status of its program is unknown");
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
        run__leave_alone(r);
    } else if (b->o.terminal_end == NULL || !b->o.terminal_end(b->o.arg, r->rec.terminal)) {
        run__end(r, "interrupted"); // it is gone already
    }
}
