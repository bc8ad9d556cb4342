// The run of a conversation: a chat of the user's in a worktree of its own (POST /session with `worktree`).
//
//     bots_chat ──> NOTE ─> TREE ─> CHAT ── its session ends ──> KEEP ─> ... ─> RECORD
//                                     └── no session can begin ──> UNDO
//
// As with a terminal's run, only who works there is another: a person and a model, in turns that the user
// begins. The run and its session end together, whichever is asked to. A conversation outlives the hub, so a
// hub that stops leaves the record as it is, `running`, and the next one checks whether the session can continue.

#include "agent/make.h"
#include "bot/run_int.h"

#define OF_CHATS "chat" // in the place of a bot's name

/// Who asked for the session.
struct asker {
    agent_session_cb *cb;
    void *arg;
};

// ---- begin --------------------------------------------------------------------------------------

static void on_refused(void *arg, struct str json, const char *name, const struct agent_no *no)
{
    struct asker *o = arg;
    (void)json;
    (void)name;
    o->cb(o->arg, NULL, no);
    free(o);
}

static void launch(struct ask *a)
{
    struct record rec;
    record_init(&rec);
    run__fill_record(a, &rec);
    rec.started_at = loop_wall(a->b->loop);
    rec.prompt = record_text(&rec, ask__str(a, "title"));
    rec.options = run__options(a, &rec);
    rec.running = true;
    rec.full_access = run__has_full_access(a->b, ask__z(a, "sandbox"));
    run__begin(a, &rec, NULL);
}

static void located(struct ask *a)
{
    run__make_space(a, OF_CHATS, launch);
}

void run__start_chat(struct bots *b, const struct json *params, agent_session_cb *cb, void *arg)
{
    struct asker *o = xmalloc(sizeof *o);
    *o = (struct asker){.cb = cb, .arg = arg};
    struct ask *a = ask__new(b, params, on_refused, o);
    if (ask__str(a, "working_dir").p == NULL) {
        ask__set(a, "working_dir", STR("/"));
    }
    ask__locate(a, WHERE_GIT, located);
}

// ---- its session --------------------------------------------------------------------------------

/// Does it wait for the end of its session? One that the hub left alone does not.
static bool is_waiting(const struct run *r)
{
    return !r->over && r->step == RUN_CHAT && r->next == NULL && r->starter == NULL;
}

static void end(struct run *r)
{
    r->wish = "review";
    run__end(r, r->stop_wanted ? "interrupted" : "complete");
}

static void on_made(void *arg, struct session *s, const struct agent_no *no)
{
    struct run *r = arg;
    struct ask *a = r->starter;
    if (s == NULL) {
        run__abort(r, no);
        run__back(r);
        return;
    }
    struct asker *o = a->arg;
    assert(r->session[0] == '\0' && r->rec.iterations.n == 0);
    struct record_iteration it = {.end_reason = "", .summary = ""};
    snprintf(r->session, sizeof r->session, "%s", agent_session_id(s));
    r->rec.chat = it.session_id = record_text(&r->rec, str_of(r->session));
    vec_push(&r->rec.iterations, it);
    r->starter = NULL;
    run__save(r, NULL);
    run__tell_start(r);
    o->cb(o->arg, s, NULL);
    free(o);
    ask__drop(a);
    if (r->stop_wanted) {
        run__stop_chat(r);
    }
    run__back(r);
}

/// The worktree is there: the session begins in it, with all of it to write.
void run__chat(struct run *r)
{
    struct ask *a = r->starter;
    assert(a != NULL && run__config(r) == NULL);
    const struct json *more = json_get(a->params, "writable");
    struct agent_role place = {.project = str_of(r->rec.project),
                               .dir = STR("sessions"),
                               .run_id = str_of(r->rec.run_id),
                               .branch = str_of(r->rec.branch),
                               .worktree = str_of(r->rec.worktree),
                               .started_in = str_of(r->rec.working_dir)};
    struct json *writable = make_arr(&a->arena, (more != NULL ? more->n : 0) + 1);
    make_push(writable, make_strz(r->rec.worktree));
    json_foreach_item (dir, more) {
        make_push(writable, *dir);
    }
    ask__set(a, "working_dir", str_of(r->dir));
    run__away(r);
    bots__open_chat(r->b, json_with(&a->arena, a->params, STR("writable"), writable), &place,
                    on_made, r);
}

// ---- its end ------------------------------------------------------------------------------------

void bots__ended(void *arg, const struct session *s)
{
    struct bots *b = arg;
    vec_foreach (it, &b->runs) {
        if (is_waiting(*it) && strcmp((*it)->session, agent_session_id(s)) == 0) {
            end(*it);
            return;
        }
    }
}

static void on_ended(void *arg, struct session *s, const struct agent_no *no)
{
    struct run *r = arg;
    (void)s;
    (void)no; // it had ended before
    if (is_waiting(r)) {
        end(r);
    }
    run__back(r);
}

static void on_found(void *arg, struct session *s, const struct agent_no *no)
{
    if (s != NULL) {
        agent_session_end(s, false, on_ended, arg);
    } else {
        on_ended(arg, NULL, no);
    }
}

void run__stop_chat(struct run *r)
{
    if (r->starter != NULL) {
        return; // on_made() sees it
    }
    if (r->b->stopping) {
        run__leave_alone(r);
        return;
    }
    run__away(r);
    agent_session_get(r->b->o.agent, str_of(r->session), on_found, r);
}

static void on_past(void *arg, struct session *s, const struct agent_no *no)
{
    struct run *r = arg;
    bool gone = s != NULL ? agent_session_is_ended(s) : no->problem == PROBLEM_NOT_FOUND;
    if (gone && is_waiting(r)) {
        end(r);
    }
    run__back(r);
}

void run__recover_chat(struct run *r)
{
    r->step = RUN_CHAT;
    snprintf(r->session, sizeof r->session, "%s", r->rec.chat);
    run__away(r);
    agent_session_get(r->b->o.agent, str_of(r->session), on_past, r);
}
