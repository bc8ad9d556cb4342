// Rewinding a session: rewind/ restores files, talk.c the conversation.
//
//     turn begins ──> a mark in the conversation, a point in the record
//     a call that changes files ──> kept before, compared after (tool_call.c)
//     agent_rewind ──> files back ──> session.rewound in the journal ──> conversation back
//
// Files go first: when they cannot be restored (a conflict, a full disk) the conversation stays as it is. The
// journal only grows: replaying it goes back where session.rewound stands.
//
// The iterations of a bot's run are undone by its branch, so nothing is kept for them.
// What a subagent changes belongs to the turn that the user began.

#include <assert.h>

#include "agent/agent_int.h"
#include "base/path.h"

void agent_set_git(struct agent *a, struct git *git)
{
    rewind_set_git(a->rewind, git);
}

/// The session's record; NULL: it keeps none.
static struct rewind_session *record_of(struct session *s)
{
    if (s->rewind == NULL && !s->role.autonomous && s->parent == NULL) {
        char *dir = agent__session_path(s, "");
        int64_t mb = config_int(agent__session_config(s), "limits.checkpoint_mb");
        s->rewind = rewind_session_open(s->agent->rewind, dir, s->working_dir, (uint64_t)mb << 20);
        free(dir);
    }
    return s->rewind;
}

void agent__session_mark(struct session *s, const struct turn *t)
{
    struct rewind_session *r = record_of(s);
    if (r != NULL) {
        struct buf text = {.max = SIZE_MAX};
        redact_text(&text, t->text);
        rewind_turn(r, t->id, loop_wall(s->agent->o.hub->loop), buf_str(&text));
        buf_fini(&text);
    }
}

void agent__session_moved(struct session *s)
{
    if (s->rewind != NULL) {
        rewind_session_move(s->rewind, s->working_dir);
    }
}

/// The absolute path of the file that a file tool writes, as the tool has it; NULL: it names none.
static const char *path_of(const struct tool_call *c, const struct session *s)
{
    struct str said = json_get_text(tool_call_input(c), "path");
    if (said.n == 0 || s->working_dir == NULL) {
        return NULL;
    }
    char *text = str_dup(said), *home = path_expand_home(text);
    char *full = path_join(s->working_dir, home);
    const char *path = arena_strdup(c->site->arena, str_of(full));
    free(full);
    free(home);
    free(text);
    return path;
}

bool agent__call_keep(struct tool_call *c, rewind_ready_cb *ready)
{
    struct session *s = tool_call__session(c->site);
    const struct tool *tool = c->entry->tool;
    const char *paths[2] = {NULL, NULL};
    bool command = tool->effect == TOOL_RUNS;
    bool file = tool->effect == TOOL_WRITES && (tool->ops->work != NULL || c->errand != NULL);
    struct session *root = s != NULL ? turn__root(c->site->turn)->s : NULL;
    if (s == NULL || (!command && !file) || record_of(root) == NULL) {
        return false;
    }
    if (file && (paths[0] = path_of(c, s)) == NULL) {
        return false;
    }
    c->kept = rewind_before(root->rewind, root->turn->id, command ? NULL : paths, ready, c);
    return true;
}

static void on_after(void *arg, const char *note)
{
    (void)note;
    agent__release(arg);
}

void agent__call_kept(struct tool_call *c)
{
    if (c->kept != NULL) {
        agent__hold(c->site->agent);
        rewind_after(c->kept, on_after, c->site->agent);
        c->kept = NULL;
    }
}

// ---- asked for ----------------------------------------------------------------------------------

struct going_back {
    struct session *s;
    struct agent_rewind wish;
    char *to;
    char id[TURN_ID]; // of the rewind
    struct rewind_result result;
    struct arena arena; // of the result
    agent_rewind_cb *cb;
    agent_checkpoints_cb *list_cb;
    void *arg;
};

/// A job begins. Until release() no turn begins, and the session stays in memory.
static void hold(struct session *s)
{
    s->rewinding++;
    agent__hold(s->agent);
}

/// May a job begin? The end of a session waits for the jobs that began before it, and may then free the session.
static bool may_begin(const struct session *s, struct agent_no *no)
{
    if (s->ending && s->purge) {
        agent_no_set(no, PROBLEM_NOT_FOUND, NULL, "session '%s' is gone", s->id);
    } else if (s->ending) {
        agent_no_set(no, PROBLEM_SESSION_ENDED, NULL, "session '%s' has ended", s->id);
    }
    return !s->ending;
}

static void release(struct session *s)
{
    struct agent *a = s->agent;
    assert(s->rewinding != 0);
    if (--s->rewinding == 0) {
        agent__session_next(s); // a message or the end of the session may have come meanwhile
    }
    agent__release(a);
}

static void going_back_end(struct going_back *g, const struct rewind_result *r,
                           const struct agent_no *no)
{
    struct session *s = g->s;
    g->cb(g->arg, r, no);
    arena_fini(&g->arena);
    free(g->to);
    free(g);
    release(s);
}

static void write_paths(struct jw *w, const char *key, const struct rewind_result *r, bool deleted)
{
    jw_karr(w, key);
    for (size_t i = 0; i < r->n_files; i++) {
        if (r->files[i].deletes == deleted) {
            jw_strz(w, r->files[i].path);
        }
    }
    jw_end_arr(w);
}

static void on_noted(void *arg, int status, const struct err *e)
{
    struct going_back *g = arg;
    struct agent_no no;
    going_back_end(g, &g->result, agent__no_store(&no, status, e));
}

/// Copy the result: it is needed until the journal has the event.
static void copy_result(struct going_back *g, const struct rewind_result *r)
{
    struct arena *a = &g->arena;
    const char **lines = arena_calloc(a, r->not_kept.n + 1, sizeof *lines);
    g->result = *r;
    g->result.to = arena_strdup(a, str_of(r->to));
    g->result.files = arena_calloc(a, r->n_files + 1, sizeof *r->files);
    for (size_t i = 0; i < r->n_files; i++) {
        g->result.files[i] = r->files[i];
        g->result.files[i].path = arena_strdup(a, str_of(r->files[i].path));
    }
    for (size_t i = 0; i < r->not_kept.n; i++) {
        lines[i] = arena_strdup(a, str_of(r->not_kept.p[i]));
    }
    g->result.not_kept.p = lines;
}

static void on_restored(void *arg, int status, const struct err *e, const struct rewind_result *r)
{
    struct going_back *g = arg;
    struct session *s = g->s;
    struct agent_no no;
    if (status < 0) {
        enum problem p = status == ERR_NOT_FOUND  ? PROBLEM_NOT_FOUND
                         : status == ERR_CONFLICT ? PROBLEM_CONFLICT
                                                  : PROBLEM_INTERNAL;
        const char *hint =
            status == ERR_CONFLICT ? "look with dry_run, or overwrite with force" : NULL;
        agent_no_set(&no, p, hint, "%s", e->msg);
        going_back_end(g, r, &no);
    } else if (g->wish.dry_run) {
        going_back_end(g, r, NULL);
    } else if (g->wish.conversation && !talk_rewind(s->talk, str_of(r->to), str_of(g->id))) {
        agent_no_set(&no, PROBLEM_NOT_FOUND, NULL, "the conversation has no turn '%s'", r->to);
        going_back_end(g, r, &no);
    } else {
        struct note n;
        if (g->wish.conversation) {
            agent__engine_forget(s); // it still remembers what is taken back
            s->context = 0;          // unknown until the next request
        } else {
            talk_mark(s->talk, str_of(g->id)); // going back to this rewind is going back to here
        }
        struct jw *w = note__begin(&n, s, NULL, EVENT_SESSION_REWOUND);
        copy_result(g, r);
        jw_kstrz(w, "to", r->to);
        jw_kstrz(w, "checkpoint", g->id);
        jw_kbool(w, "files", g->wish.files);
        jw_kbool(w, "conversation", g->wish.conversation);
        write_paths(w, "restored", r, false);
        write_paths(w, "deleted", r, true);
        note__end(&n, STORE_SYNCED, on_noted, g);
    }
}

static void on_loaded(struct session *s, int status, const struct err *e, void *arg)
{
    struct going_back *g = arg;
    struct agent_no no;
    if (agent__no_store(&no, status, e) != NULL) {
        // it says why
    } else if (s->ending) {
        agent_no_set(&no, PROBLEM_SESSION_ENDED, NULL, "session '%s' has ended", s->id);
    } else if (s->turn != NULL || s->queue.n != 0) {
        agent_no_set(&no, PROBLEM_TURN_RUNNING, NULL, "a turn runs in session '%s'", s->id);
    } else if (s->parent != NULL) {
        agent_no_set(&no, PROBLEM_CONFLICT, NULL,
                     "rewind session '%s' instead: it has what its subagents changed", s->parent);
    } else if (record_of(s) == NULL) {
        agent_no_set(&no, PROBLEM_CONFLICT, NULL,
                     "what a run changed is on its branch: discard it with 'afloat runs discard'");
    } else if (g->wish.conversation && g->to != NULL && !talk_has_mark(s->talk, str_of(g->to))) {
        agent_no_set(&no, PROBLEM_NOT_FOUND, NULL, "session '%s' has no turn '%s'", s->id, g->to);
    } else {
        struct rewind_wish wish = {.to = g->to,
                                   .id = g->id,
                                   .at = loop_wall(s->agent->o.hub->loop),
                                   .dry_run = g->wish.dry_run,
                                   .no_files = !g->wish.files,
                                   .force = g->wish.force};
        rewind_restore(s->rewind, &wish, on_restored, g);
        return;
    }
    going_back_end(g, NULL, &no);
}

void agent_rewind(struct session *s, const struct agent_rewind *wish, agent_rewind_cb *cb,
                  void *arg)
{
    struct agent_no no;
    if (!may_begin(s, &no)) {
        cb(arg, NULL, &no);
        return;
    }
    struct going_back *g = xcalloc(1, sizeof *g);
    *g = (struct going_back){.s = s,
                             .wish = *wish,
                             .to = wish->to.n != 0 ? str_dup(wish->to) : NULL,
                             .cb = cb,
                             .arg = arg};
    snprintf(g->id, sizeof g->id, "r%lld", (long long)loop_wall(s->agent->o.hub->loop));
    hold(s);
    agent__session_load(s, on_loaded, g);
}

static void on_listed(void *arg, int status, const struct err *e, const struct rewind_listed *list,
                      size_t n)
{
    struct going_back *g = arg;
    struct session *s = g->s;
    struct agent_no no;
    g->list_cb(g->arg, list, n, agent__no_store(&no, status, e));
    free(g);
    release(s);
}

void agent_checkpoints(struct session *s, agent_checkpoints_cb *cb, void *arg)
{
    struct agent_no no;
    if (!may_begin(s, &no)) {
        cb(arg, NULL, 0, &no);
        return;
    }
    struct going_back *g = xcalloc(1, sizeof *g);
    *g = (struct going_back){.s = s, .list_cb = cb, .arg = arg};
    hold(s);
    if (record_of(s) != NULL) {
        rewind_list(s->rewind, on_listed, g);
    } else {
        on_listed(g, 0, NULL, NULL, 0);
    }
}
