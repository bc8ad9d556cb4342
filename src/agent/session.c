// One session: found, entered, changed, ended. session_new.c makes it, session_send.c takes its messages.
//
// Callbacks are called from a later turn of the loop, never from inside the function that was given them.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "event/event.h"

// ---- questions ----------------------------------------------------------------------------------

/// A question about a session that waits for the loop, the store or a thread. The session may go meanwhile, so it is
/// known by its id.
struct asking {
    struct agent *a;
    char *id;           // empty: `no` says why there is no session
    struct agent_no no; // the answer when there is none
    agent_session_cb *cb;
    void *arg;
};

static struct asking *asking_new(struct agent *a, struct str id, agent_session_cb *cb, void *arg)
{
    struct asking *q = xcalloc(1, sizeof *q);
    *q = (struct asking){.a = a, .id = str_dup(id), .cb = cb, .arg = arg};
    agent__hold(a);
    return q;
}

/// Its session; NULL: there is none, and q->no says why.
static struct session *asking_find(struct asking *q)
{
    struct session *s = map_get(&q->a->sessions, str_of(q->id));
    if (s == NULL && q->id[0] != '\0') {
        agent_no_set(&q->no, PROBLEM_NOT_FOUND, NULL, "session '%s' is gone", q->id);
    }
    return s;
}

/// Answer with `s`, or with q->no when that is NULL.
static void asking_end(struct asking *q, struct session *s)
{
    struct agent *a = q->a;
    q->cb(q->arg, s, s == NULL ? &q->no : NULL);
    free(q->id);
    free(q);
    agent__release(a);
}

static void on_answer(void *arg)
{
    asking_end(arg, asking_find(arg));
}

void agent__answer_session(struct agent *a, agent_session_cb *cb, void *arg, struct session *s,
                           const struct agent_no *no)
{
    struct asking *q = asking_new(a, str_of(s != NULL ? s->id : ""), cb, arg);
    if (no != NULL) {
        q->no = *no;
    }
    loop_defer(a->o.hub->loop, on_answer, q);
}

// ---- found --------------------------------------------------------------------------------------

static void on_found(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct asking *q = arg;
    // another request may have read it into memory meanwhile
    struct session *s = map_get(&q->a->sessions, str_of(q->id));
    if (s != NULL && status == 0 && r->n == 1) {
        agent__session_renew(s, &r->rows[0]);
    } else if (s != NULL && store_shared(q->a->o.hub->store)) {
        s = NULL; // another hub removed it, or the store does not answer
    } else if (status == 0 && r->n == 1) {
        s = agent__session_of_row(q->a, &r->rows[0]);
        map_set(&q->a->sessions, str_of(q->id), s);
    }
    if (agent__no_store(&q->no, status, e) == NULL) {
        agent_no_set(&q->no, PROBLEM_NOT_FOUND, "`afloat sessions` lists them",
                     "there is no session '%.64s'", q->id);
    }
    asking_end(q, s);
}

void agent_session_get(struct agent *a, struct str id, agent_session_cb *cb, void *arg)
{
    struct session *s = map_get(&a->sessions, id);
    if (s != NULL && (s->claimed || !store_shared(a->o.hub->store))) {
        agent__answer_session(a, cb, arg, s, NULL);
        return;
    }
    struct store_filter filter = {.id = id};
    store_list(a->o.hub->store, &filter, STR_NULL, 1, on_found, asking_new(a, id, cb, arg));
}

struct session_listing {
    struct agent *a;
    agent_page_cb *cb;
    void *arg;
};

/// Sessions in memory are newer than their rows; the others are made from the rows, for the callback only.
static void on_listed(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct session_listing l = *(struct session_listing *)arg;
    struct agent_no no;
    vec(const struct session *) list = {0};
    vec(struct session *) made = {0};
    free(arg);
    for (size_t i = 0; status == 0 && i < r->n; i++) {
        struct session *s = map_get(&l.a->sessions, r->rows[i].id);
        if (s != NULL) {
            agent__session_renew(s, &r->rows[i]);
        } else {
            s = agent__session_of_row(l.a, &r->rows[i]);
            vec_push(&made, s);
        }
        vec_push(&list, s);
    }
    if (status < 0) {
        bool cursor = status == ERR_INVALID;
        agent_no_set(&no, cursor ? PROBLEM_INVALID_BODY : PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
        l.cb(l.arg, NULL, &no);
    } else {
        l.cb(l.arg, &(struct agent_page){.sessions = list.p, .n = list.n, .next = r->next}, NULL);
    }
    vec_fini_each(&made, agent__session_free);
    vec_fini(&list);
    agent__release(l.a);
}

void agent_session_list(struct agent *a, const struct agent_filter *which, struct str cursor,
                        size_t limit, agent_page_cb *cb, void *arg)
{
    enum session_state state;
    struct agent_no no;
    if (which->state.n != 0 && !agent__session_state_find(which->state, &state)) {
        agent_no_set(&no, PROBLEM_INVALID_BODY, NULL,
                     "'state' must be idle, running, waiting, ended or crashed");
        cb(arg, NULL, &no);
        return;
    }
    struct session_listing *l = xmalloc(sizeof *l);
    struct store_filter f = {.state = which->state.n != 0 ? which->state : STR_NULL,
                             .parent = which->parent,
                             .no_tasks = which->parent.n == 0};
    *l = (struct session_listing){.a = a, .cb = cb, .arg = arg};
    agent__hold(a);
    store_list(a->o.hub->store, &f, cursor, limit, on_listed, l);
}

const char *agent_session_id(const struct session *s)
{
    return s->id;
}

bool agent_session_is_ended(const struct session *s)
{
    return s->state == SESSION_ENDED || s->ending;
}

const char *const *agent_session_variables(const struct session *s)
{
    return (const char *const *)s->variables;
}

const char *agent_session_provider(const struct session *s)
{
    return s->provider != NULL ? s->provider : "";
}

const char *agent_session_model(const struct session *s)
{
    return s->model != NULL ? s->model : "";
}

const struct config *agent__config_at(const struct agent *a, const char *dir)
{
    const struct config *c = a->o.host.config(a->o.host.arg, dir);
    return c != NULL ? c : a->o.hub->config->now;
}

const struct config *agent__session_config(const struct session *s)
{
    const char *dir = agent__session_place(s);
    return dir != NULL ? agent__config_at(s->agent, dir) : s->agent->o.hub->config->now;
}

const char *agent__session_place(const struct session *s)
{
    return s->real_dir != NULL ? s->real_dir : s->working_dir;
}

static void on_entered_dir(void *arg, const char *real_dir)
{
    struct session *s = arg;
    struct agent *a = s->agent;
    assert(s->entering && s->real_dir == NULL);
    s->entering = false;
    s->real_dir = real_dir != NULL ? xstrdup(real_dir) : NULL;
    __typeof__(s->entrants) list = s->entrants;
    s->entrants = (__typeof__(list)){0}; // one of them may end the session, or enter again
    vec_foreach (it, &list) {
        it->done(s, it->arg);
    }
    vec_fini(&list);
    agent__release(a);
}

void agent__session_enter(struct session *s, session_entered *done, void *arg)
{
    const struct agent_host *h = &s->agent->o.host;
    if (s->real_dir != NULL) {
        done(s, arg);
        return;
    }
    vec_push(&s->entrants, ((struct session_entrant){.done = done, .arg = arg}));
    if (!s->entering) {
        s->entering = true;
        agent__hold(s->agent);
        h->enter(h->arg, s->working_dir, on_entered_dir, s);
    }
}

void agent__session_leave(struct session *s)
{
    const struct agent_host *h = &s->agent->o.host;
    if (s->real_dir != NULL) {
        h->leave(h->arg, s->real_dir);
        free(s->real_dir);
        s->real_dir = NULL;
    }
}

bool agent__session_usable(const struct session *s, struct agent_no *no)
{
    if (s->broken) {
        agent_no_set(no, PROBLEM_CONFLICT, "`afloat stop`, then `afloat fsck --repair` mends it",
                     "session '%s' is damaged: %s", s->id, s->damage);
    }
    return !s->broken;
}

void agent_session_damaged(struct agent *a, struct str id, const char *what)
{
    struct session *s = map_get(&a->sessions, id);
    if (s != NULL && !s->broken) {
        agent__session_set(&s->damage, str_of(what));
    }
}

// ---- changed ------------------------------------------------------------------------------------

void agent__session_set_state(struct session *s, enum session_state state)
{
    struct note n;
    assert(state != SESSION_ENDED); // agent__session_finish_end() alone sets that
    if (s->state != state) {
        s->state = state;
        jw_kstrz(note__begin(&n, s, NULL, EVENT_SESSION_UPDATED), "state",
                 agent__session_state_name(state));
        note__end(&n, STORE_WRITTEN, NULL, NULL);
    }
}

/// New settings that are on their way to the disk.
struct change {
    struct asking *q;
    struct session *s;
    struct session *before;    // the settings as they were
    unsigned number;           // of the change
    struct arena arena;        // of `params`
    const struct json *params; // what the session has of those that were asked for
};

/// A policy may have allowed less than was asked for: let the parameters say what the session has.
static void narrow_params(struct change *c)
{
    const struct session *s = c->s;
    struct json *writable = make_arr(&c->arena, s->writable.n);
    vec_foreach (dir, &s->writable) {
        make_push(writable, make_str(arena_str(&c->arena, str_of(*dir))));
    }
    const struct {
        const char *key;
        struct json value;
    } held[] = {{"sandbox", make_strz(box_mode_name(s->sandbox))},
                {"permission", make_strz(agent__session_permission_name(s->permission))},
                {"network", make_bool(s->network)},
                {"writable", *writable}};
    for (size_t i = 0; i < ARRAY_LEN(held); i++) {
        if (json_get(c->params, held[i].key) != NULL) {
            c->params = json_with(&c->arena, c->params, str_of(held[i].key), &held[i].value);
        }
    }
}

/// Settings that `params` names changed: choose the model by the new ones, and tell those who keep a copy.
static void settings_changed(struct session *s, const struct json *params)
{
    struct agent_no no;
    if (s->turn == NULL) {
        // a turn that begins chooses again, and reports the error
        (void)agent__session_choose(s, &no);
    }
    if (json_get(params, "working_dir") != NULL) {
        agent__session_moved(s);
    }
    s->agent->o.host.changed(s->agent->o.host.arg, s);
}

/// The new settings are written, or are undone when they could not be; unless a later change replaced them.
static void on_changed(void *arg, int status, const struct err *e)
{
    struct change *c = arg;
    struct session *s = c->s;
    struct note n;
    if (agent__no_store(&c->q->no, status, e) == NULL) {
        struct jw *w = note__begin(&n, s, NULL, EVENT_SESSION_UPDATED);
        json_foreach_member (m, c->params) {
            if (!str_eqz(m->key, "env") && !str_eqz(m->key, "id")) {
                jw_key_str(w, m->key);
                jw_value(w, &m->value);
            }
        }
        if (s->sandbox != c->before->sandbox && json_get(c->params, "sandbox") == NULL) {
            jw_kstrz(w, "sandbox", box_mode_name(s->sandbox));
        }
        note__end(&n, STORE_WRITTEN, NULL, NULL);
    } else if (c->number == s->patches) {
        agent__session_set_settings(s, c->before);
        settings_changed(s, c->params);
    }
    asking_end(c->q, status < 0 ? NULL : s);
    agent__session_free(c->before);
    arena_fini(&c->arena);
    free(c);
}

/// Would the session take all of `params`? They are tried on a copy, so that a refused one changes nothing.
static bool can_change(struct session *s, const struct json *params, struct agent_no *no)
{
    struct session *probe = agent__session_new(s->agent, str_of(s->id));
    bool names = json_get(params, "plugins") != NULL;
    bool chooses = json_get(params, "provider") != NULL || json_get(params, "model") != NULL;
    agent__session_set_settings(probe, s);
    // a cap needs the price of the model; a session whose model cannot be used may have one all the same
    chooses = chooses || (json_get(params, "max_cost") != NULL && agent__session_choose(probe, no));
    bool fits = agent__session_take(probe, params, no) &&
                (!names || agent__session_knows_plugins(probe, no)) &&
                (!chooses || agent__session_choose(probe, no));
    agent__session_free(probe);
    return fits;
}

/// May this session change so, as it is now? `no` says why not.
static bool may_change(const struct session *s, const struct json *params, struct agent_no *no)
{
    // a message that arrives enters the directory there is
    bool busy = s->turn != NULL || s->entering || s->arriving != 0;
    if (s->state == SESSION_ENDED || s->ending) {
        return agent_no_set(no, PROBLEM_SESSION_ENDED, NULL, "session '%s' has ended", s->id);
    }
    if (busy && json_get(params, "working_dir") != NULL) {
        return agent_no_set(no, PROBLEM_TURN_RUNNING, NULL,
                            "'working_dir' cannot change while a turn runs");
    }
    return agent__session_usable(s, no);
}

/// The directories that `params` name were looked up: change the session, if it is still there and may change.
static void on_places(void *arg, const struct json *params, const char *read_only,
                      const struct agent_no *not_there)
{
    struct asking *q = arg;
    struct session *s = asking_find(q);
    if (not_there != NULL) {
        q->no = *not_there;
    }
    if (not_there != NULL || s == NULL || !may_change(s, params, &q->no) ||
        !can_change(s, params, &q->no)) {
        asking_end(q, NULL);
        return;
    }
    if (json_get(params, "working_dir") != NULL) {
        agent__session_leave(s); // entered again when a message comes
    }
    struct change *c = xcalloc(1, sizeof *c);
    *c = (struct change){.q = q,
                         .s = s,
                         .before = agent__session_new(s->agent, str_of(s->id)),
                         .number = ++s->patches};
    c->params = json_clone(&c->arena, params);
    agent__session_set_settings(c->before, s);
    bool taken = agent__session_take(s, params, &q->no);
    assert(taken); // can_change() tried it
    (void)taken;
    narrow_params(c);
    if (json_get(params, "sandbox") != NULL) {
        s->sandbox_reason = NULL;
    } else if (read_only != NULL && s->sandbox == BOX_WORKSPACE_WRITE) {
        s->sandbox = BOX_READ_ONLY; // the mode was chosen for another directory
        s->sandbox_reason = read_only;
    }
    settings_changed(s, c->params);
    agent__session_save(s, on_changed, c);
}

void agent_session_patch(struct session *s, const struct json *params, agent_session_cb *cb,
                         void *arg)
{
    struct agent_no no;
    if (!may_change(s, params, &no)) {
        agent__answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    agent__find_places(s->agent, params, on_places, asking_new(s->agent, str_of(s->id), cb, arg));
}

// ---- ended --------------------------------------------------------------------------------------

static void answer_enders(struct session *s, const struct agent_no *no)
{
    struct agent *a = s->agent;
    assert(s->ending && s->closing);
    __typeof__(s->enders) list = s->enders;
    s->enders = (__typeof__(list)){0}; // a callback may end it once more, to purge it
    s->ending = s->closing = false;
    vec_foreach (it, &list) {
        it->cb(it->arg, no == NULL ? s : NULL, no);
    }
    vec_fini(&list);
    agent__release(a);
}

static void on_removed(void *arg, int status, const struct err *e)
{
    struct session *s = arg;
    struct agent_no no;
    if (status < 0) {
        s->purge = false;
        answer_enders(s, agent__no_store(&no, status, e));
        return;
    }
    map_remove(&s->agent->sessions, str_of(s->id));
    event_session_gone(s->agent->o.hub->events, str_of(s->id));
    answer_enders(s, NULL);
    assert(!s->ending); // nothing may begin with it: it is freed now
    agent__session_free(s);
}

static void on_tasks_purged(void *arg)
{
    struct session *s = arg;
    store_session_remove(s->agent->o.hub->store, str_of(s->id), on_removed, s);
}

static void on_end_saved(void *arg, int status, const struct err *e)
{
    struct session *s = arg;
    struct agent_no no;
    if (status == 0 && s->purge) {
        agent__purge_tasks(s, on_tasks_purged);
    } else {
        answer_enders(s, agent__no_store(&no, status, e));
    }
}

static void on_end_noted(void *arg, int status, const struct err *e)
{
    struct session *s = arg;
    if (status < 0 || s->broken) { // a broken one ends only to be removed
        on_end_saved(arg, status, e);
    } else {
        agent__session_save(arg, on_end_saved, arg);
    }
}

/// The session has ended, for the first time: tell the host and its bot. Ending it again, to purge it, tells nobody.
static void on_first_end_noted(void *arg, int status, const struct err *e)
{
    struct session *s = arg;
    const struct agent_kit *kit = &s->agent->kit;
    if (status == 0) {
        s->agent->o.host.ended(s->agent->o.host.arg, s);
    }
    if (status == 0 && s->role.run_id.n != 0 && kit->ended != NULL) {
        kit->ended(kit->arg, s);
    }
    on_end_noted(s, status, e);
}

static void on_entered_last(struct session *s, void *arg)
{
    (void)arg;
    agent__session_finish_end(s);
}

void agent__session_finish_end(struct session *s)
{
    struct note n;
    if (s->entering) {
        agent__session_enter(s, on_entered_last, NULL);
        return;
    }
    if (s->closing) {
        return; // its end is being written already
    }
    assert(s->ending && s->turn == NULL);
    agent__engine_close(s);
    if (s->engine_processes != 0) {
        return; // on_reaped() of the last process comes back here
    }
    s->closing = true;
    book_forget_session(s->agent->book, s->id);
    agent__session_leave(s);
    if (s->state == SESSION_ENDED) {
        on_end_noted(s, 0, NULL);
        return;
    }
    s->state = SESSION_ENDED;
    s->ended_at = loop_wall(s->agent->o.hub->loop);
    s->end_reason = s->closed_as != NULL    ? s->closed_as
                    : s->end_reason != NULL ? s->end_reason
                                            : "complete";
    if (s->closing_summary != NULL) {
        agent__session_set_summary(&s->response_summary, str_of(s->closing_summary));
    }
    if (!s->role.autonomous) { // the next iteration of a run takes the conversation over
        agent__session_cool(s);
    }
    note__begin(&n, s, NULL, EVENT_SESSION_ENDED);
    note__end(&n, STORE_SYNCED, on_first_end_noted, s);
}

void agent_session_end(struct session *s, bool purge, agent_session_cb *cb, void *arg)
{
    struct agent_no no;
    if (!purge && !agent__session_usable(s, &no)) {
        agent__answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    vec_push(&s->enders, ((struct session_ender){.cb = cb, .arg = arg}));
    s->purge = s->purge || purge;
    if (s->ending) {
        return;
    }
    s->ending = true;
    agent__hold(s->agent);
    agent__session_drop_queue(s);
    if (s->turn != NULL) {
        agent_interrupt(s);
    } else if (s->queue.n == 0 && s->rewinding == 0) {
        agent__session_finish_end(s);
    }
}

// ---- instructions -------------------------------------------------------------------------------

void agent__session_set_instructions(struct session *s, const struct prompt_files *f)
{
    vec_fini_each(&s->instructions, free);
    vec_foreach (file, &f->instructions) {
        vec_push(&s->instructions, str_dup(file->path));
    }
}

static void on_looked(struct prompt_files *f, void *arg)
{
    struct session *s = asking_find(arg);
    if (s != NULL) {
        agent__session_set_instructions(s, f);
    }
    prompt_files_free(f);
    asking_end(arg, s);
}

void agent_session_look(struct session *s, agent_session_cb *cb, void *arg)
{
    const struct hub_parts *hub = s->agent->o.hub;
    prompt_files_read(s->agent->files, hub->home->dir, s->working_dir,
                      config_strings(agent__session_config(s), "sandbox.hide"), hub->trust,
                      on_looked, asking_new(s->agent, str_of(s->id), cb, arg));
}
