// Sessions that belong to a bot: their role, what they are told, and the conversation that continues from
// one session to the next.
//
//     iteration 1: session a ──closed──> iteration 2: session b (before = a) ──closed──> ...
//                    │ talk ──────────────────▲ moved while it is in memory,
//                    └ journal ───────────────┘ else read again, the whole chain (session_load.c)
//
// agent/ knows no more of bots than this: their sessions have a directory of their own, members of
// metadata.json, a kit of tools and, at the beginning of each turn, a lore. bot/ brings the kit and the lore.

#include <assert.h>

#include "agent/agent_int.h"
#include "base/path.h"

// ---- the role -----------------------------------------------------------------------------------

void agent__session_set_role(struct session *s, const struct agent_role *r)
{
    struct arena *a = &s->role_arena;
    s->role = (struct agent_role){.bot = arena_str(a, r->bot),
                                  .project = arena_str(a, r->project),
                                  .dir = arena_str(a, r->dir),
                                  .run_id = arena_str(a, r->run_id),
                                  .number = r->number,
                                  .branch = arena_str(a, r->branch),
                                  .worktree = arena_str(a, r->worktree),
                                  .started_in = arena_str(a, r->started_in),
                                  .before = arena_str(a, r->before),
                                  .autonomous = r->autonomous};
}

void agent__session_write_role(const struct session *s, struct jw *w)
{
    const struct agent_role *r = &s->role;
    jw_ktext(w, "bot", r->bot);
    jw_ktext(w, "project", r->project);
    jw_ktext(w, "run_id", r->run_id);
    jw_kint_or_null(w, "session_number", r->number != 0, r->number);
    jw_ktext(w, "branch", r->branch);
    jw_ktext(w, "worktree", r->worktree);
    if (r->started_in.n != 0) {
        jw_kstr(w, "started_in", r->started_in);
    }
    jw_kstrz(w, "action", s->action);
}

void agent__session_read_role(struct session *s, const struct json *meta, struct str dir)
{
    struct agent_role r = {.bot = json_get_text(meta, "bot"),
                           .project = json_get_text(meta, "project"),
                           .dir = path_dir(dir),
                           .run_id = json_get_text(meta, "run_id"),
                           .number = json_int(json_get(meta, "session_number"), 0),
                           .branch = json_get_text(meta, "branch"),
                           .worktree = json_get_text(meta, "worktree"),
                           .started_in = json_get_text(meta, "started_in"),
                           .before = json_get_text(meta, "before"),
                           .autonomous = json_bool(json_get(meta, "autonomous"), false)};
    agent__session_set_role(s, &r);
    agent__session_set(&s->action, json_get_text(meta, "action"));
}

const struct agent_role *agent_session_role(const struct session *s)
{
    return &s->role;
}

char *agent__session_path(const struct session *s, const char *name)
{
    assert(s->role.dir.n != 0); // of every session
    return xasprintf("%s/" STR_FMT "/%s/%s", s->agent->o.hub->home->dir, STR_ARG(s->role.dir),
                     s->id, name);
}

void agent_session_close(struct session *s, const struct agent_end *end, agent_session_cb *cb,
                         void *arg)
{
    s->closed_as = end->reason;
    agent__session_set(&s->action, end->action);
    agent__session_set(&s->closing_summary, end->summary);
    agent_session_end(s, false, cb, arg);
}

void agent_session_set_action(struct session *s, struct str action, store_done *cb, void *arg)
{
    struct err e = {0};
    if (s->broken) { // fsck may still need what is left of its metadata
        err_set(&e, ERR_CORRUPT, "session '%s' is damaged: %s", s->id, s->damage);
        cb(arg, e.code, &e);
        return;
    }
    agent__session_set(&s->action, action);
    agent__session_save(s, cb, arg);
}

// ---- the conversation continues -----------------------------------------------------------------

/// The engine's conversation belongs to another session now: write down that `old` cannot resume it.
static void on_left_claimed(struct session *old, const struct agent_no *no, void *arg)
{
    (void)no; // another hub has it
    (void)arg;
    if (old != NULL) {
        agent__session_save(old, NULL, NULL);
        agent__session_unclaim(old);
        agent__session_forget(old);
    }
}

void agent__session_inherit(struct session *s)
{
    struct agent *a = s->agent;
    struct session *old = s->role.before.n != 0 ? map_get(&a->sessions, s->role.before) : NULL;
    if (old == NULL || old->turn != NULL || old->broken) {
        return;
    }
    s->requests = MAX(s->requests, old->requests);
    agent__session_move_talk(s, old);
    if (agent__engine_inherit(s, old)) {
        agent__session_claim(old, on_left_claimed, NULL);
    } else {
        agent__session_forget(old); // a run may have any number of iterations
    }
}

void agent__session_forget(struct session *s)
{
    bool needed = s->state != SESSION_ENDED || s->ending || s->talk != NULL ||
                  s->notes.head != NULL || s->queue.n != 0 || s->waiters.n != 0 || s->entering ||
                  s->arriving != 0 || s->rewinding != 0 || s->claiming != 0 || s->task != NULL ||
                  s->engine_processes != 0;
    if (!needed) {
        map_remove(&s->agent->sessions, str_of(s->id));
        agent__session_free(s);
    }
}

// ---- the kit ------------------------------------------------------------------------------------

void agent_set_kit(struct agent *a, const struct agent_kit *kit)
{
    a->kit = *kit;
}

void agent_set_screen(struct agent *a, const struct agent_screen *screen)
{
    a->screen = *screen;
}

const struct tool *agent__session_tools(const struct session *s)
{
    return s->role.bot.n != 0 ? s->agent->kit.tools : NULL;
}
