// One session: found, entered, changed, ended. session_new.c makes it, session_send.c takes its messages.
//
// Who asks is answered from a later turn of the loop, never from inside.

#include <assert.h>

#include "agent/agent_int.h"
#include "event/event.h"

// ---- answers from the next turn of the loop -----------------------------------------------------

struct session_answer {
    struct agent *a;
    char *id; // NULL: there is none, `no` says why
    struct agent_no no;
    agent_session_cb *cb;
    void *arg;
};

static void on_session_answer(void *arg)
{
    struct session_answer q = *(struct session_answer *)arg;
    struct session *s = q.id != NULL ? map_get(&q.a->sessions, str_of(q.id)) : NULL;
    free(arg);
    if (q.id != NULL && s == NULL) {
        agent__no(&q.no, PROBLEM_NOT_FOUND, NULL, "session '%s' is gone", q.id);
    }
    q.cb(q.arg, s, s == NULL ? &q.no : NULL);
    free(q.id);
    agent__release(q.a);
}

void agent__answer_session(struct agent *a, agent_session_cb *cb, void *arg, struct session *s,
                           const struct agent_no *no)
{
    struct session_answer *q = xcalloc(1, sizeof *q);
    *q = (struct session_answer){.a = a, .cb = cb, .arg = arg};
    q->id = s != NULL ? xstrdup(s->id) : NULL;
    if (no != NULL) {
        q->no = *no;
    }
    agent__hold(a);
    loop_defer(a->o.loop, on_session_answer, q);
}

// ---- found --------------------------------------------------------------------------------------

struct finding {
    struct agent *a;
    char *id;
    agent_session_cb *cb;
    void *arg;
};

static void on_found(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct finding *f = arg;
    struct agent_no no;
    struct session *s =
        map_get(&f->a->sessions, str_of(f->id)); // somebody else may have been first
    if (s != NULL && status == 0 && r->n == 1) {
        agent__session_renew(s, &r->rows[0]);
    } else if (s != NULL && store_shared(f->a->o.store)) {
        s = NULL; // another hub removed it, or nobody knows
    } else if (status == 0 && r->n == 1) {
        s = agent__session_of_row(f->a, &r->rows[0]);
        map_set(&f->a->sessions, str_of(f->id), s);
    }
    if (status < 0) {
        agent__no_store(&no, e);
    } else {
        agent__no(&no, PROBLEM_NOT_FOUND, "`afloat sessions` lists them",
                  "there is no session '%.64s'", f->id);
    }
    f->cb(f->arg, s, s == NULL ? &no : NULL);
    agent__release(f->a);
    free(f->id);
    free(f);
}

void agent_session_get(struct agent *a, struct str id, agent_session_cb *cb, void *arg)
{
    struct session *s = map_get(&a->sessions, id);
    if (s != NULL && (s->claimed || !store_shared(a->o.store))) {
        agent__answer_session(a, cb, arg, s, NULL);
        return;
    }
    struct finding *f = xcalloc(1, sizeof *f);
    struct store_filter filter = {.id = id};
    *f = (struct finding){.a = a, .id = str_dup(id), .cb = cb, .arg = arg};
    agent__hold(a);
    store_list(a->o.store, &filter, STR_NULL, 1, on_found, f);
}

struct session_listing {
    struct agent *a;
    agent_page_cb *cb;
    void *arg;
};

/// What is in memory knows best; the rest is made from the rows, for the callback.
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
        agent__no(&no, cursor ? PROBLEM_INVALID_BODY : PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
        l.cb(l.arg, NULL, &no);
    } else {
        l.cb(l.arg, &(struct agent_page){.sessions = list.p, .n = list.n, .next = r->next}, NULL);
    }
    vec_foreach (s, &made) {
        agent__session_free(*s);
    }
    vec_fini(&made);
    vec_fini(&list);
    agent__release(l.a);
}

void agent_session_list(struct agent *a, const struct agent_filter *which, struct str cursor,
                        size_t limit, agent_page_cb *cb, void *arg)
{
    struct session_listing *l = xmalloc(sizeof *l);
    struct store_filter f = {.state = which->state.n != 0 ? which->state : STR_NULL,
                             .parent = which->parent,
                             .no_tasks = which->parent.n == 0};
    *l = (struct session_listing){.a = a, .cb = cb, .arg = arg};
    agent__hold(a);
    store_list(a->o.store, &f, cursor, limit, on_listed, l);
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
    return c != NULL ? c : a->o.config->now;
}

const struct config *agent__session_config(const struct session *s)
{
    const char *dir = agent__session_place(s);
    return dir != NULL ? agent__config_at(s->agent, dir) : s->agent->o.config->now;
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
    struct session_entrant *list = s->entrants.p;
    size_t n = s->entrants.n;
    s->entrants.p = NULL; // theirs may be the end of the session
    s->entrants.n = s->entrants.cap = 0;
    for (size_t i = 0; i < n; i++) {
        list[i].done(s, list[i].arg);
    }
    free(list);
    agent__release(a);
}

void agent__session_enter(struct session *s, session_entered *done, void *arg)
{
    const struct agent_host *h = &s->agent->o.host;
    struct session_entrant e = {.done = done, .arg = arg};
    if (s->real_dir != NULL) {
        done(s, arg);
        return;
    }
    vec_push(&s->entrants, e);
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
        agent__no(no, PROBLEM_CONFLICT, "`afloat stop`, then `afloat fsck --repair` mends it",
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
    assert(state != SESSION_ENDED); // see agent__session_finish_end()
    if (s->state != state) {
        s->state = state;
        jw_kstrz(note__begin(&n, s, NULL, EVENT_SESSION_UPDATED), "state",
                 agent__session_state_name(state));
        note__end(&n, STORE_WRITTEN, NULL, NULL);
    }
}

/// New settings that are on their way to the disk.
struct change {
    struct session *s;
    struct session *before; // the settings as they were
    unsigned number;        // of the change
    struct arena arena;     // of `params`
    const struct json *params;
    agent_session_cb *cb;
    void *arg;
};

static void change_free(struct change *c)
{
    agent__session_free(c->before);
    arena_fini(&c->arena);
    free(c);
}

static void choose_again(struct session *s)
{
    struct agent_no no;
    if (s->turn == NULL) {
        (void)agent__session_choose(s, &no); // what cannot be chosen now is told when a turn begins
    }
    s->agent->o.host.changed(s->agent->o.host.arg, s);
}

/// What is not on the disk does not count, unless it was changed once more meanwhile.
static void on_changed(void *arg, int status, const struct err *e)
{
    struct change *c = arg;
    struct session *s = c->s;
    struct agent_no no;
    struct note n;
    if (status == 0) {
        struct jw *w = note__begin(&n, s, NULL, EVENT_SESSION_UPDATED);
        json_foreach_member (m, c->params) {
            if (!str_eqz(m->key, "env") && !str_eqz(m->key, "id")) {
                jw_key_str(w, m->key);
                jw_value(w, &m->value);
            }
        }
        note__end(&n, STORE_WRITTEN, NULL, NULL);
    } else {
        agent__no_store(&no, e);
        if (c->number == s->patches) {
            agent__session_set_settings(s, c->before);
            choose_again(s);
        }
    }
    c->cb(c->arg, status < 0 ? NULL : s, status < 0 ? &no : NULL);
    change_free(c);
}

/// All of it or nothing: `params` are tried on a session that nobody sees.
static bool try_change(struct session *s, const struct json *params, struct agent_no *no)
{
    struct session *probe = agent__session_new(s->agent, str_of(s->id));
    bool fits = agent__session_take(probe, params, no) && agent__session_knows_plugins(probe, no);
    bool chooses = json_get(params, "provider") != NULL || json_get(params, "model") != NULL;
    if (fits && chooses) {
        const char *provider = s->want_provider, *model = s->want_model;
        char **mine = probe->variables;
        agent__session_set(&probe->want_provider, json_str(json_get(params, "provider"), provider));
        agent__session_set(&probe->want_model, json_str(json_get(params, "model"), model));
        agent__session_set(&probe->working_dir, str_of(s->working_dir));
        probe->variables = mine != NULL ? mine : s->variables;
        fits = agent__session_choose(probe, no);
        probe->variables = mine;
    }
    agent__session_free(probe);
    return fits;
}

void agent_session_patch(struct session *s, const struct json *params, agent_session_cb *cb,
                         void *arg)
{
    struct agent_no no;
    if (s->state == SESSION_ENDED || s->ending) {
        agent__no(&no, PROBLEM_SESSION_ENDED, NULL, "session '%s' has ended", s->id);
        agent__answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    bool busy = s->turn != NULL || s->entering ||
                s->arriving != 0; // a message is on its way into the old one
    if (busy && json_get(params, "working_dir") != NULL) {
        agent__no(&no, PROBLEM_TURN_RUNNING, NULL, "'working_dir' cannot change while a turn runs");
        agent__answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    if (!agent__session_usable(s, &no) || !try_change(s, params, &no)) {
        agent__answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    if (json_get(params, "working_dir") != NULL) {
        agent__session_leave(s); // entered again when a message comes
    }
    struct change *c = xcalloc(1, sizeof *c);
    *c = (struct change){.s = s,
                         .before = agent__session_new(s->agent, str_of(s->id)),
                         .number = ++s->patches,
                         .cb = cb,
                         .arg = arg};
    arena_init(&c->arena);
    c->params = json_clone(&c->arena, params);
    agent__session_set_settings(c->before, s);
    if (!agent__session_take(s, params, &no)) { // a directory went since it was tried
        agent__session_set_settings(s, c->before);
        change_free(c);
        agent__answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    choose_again(s);
    agent__session_save(s, on_changed, c);
}

// ---- ended --------------------------------------------------------------------------------------

static void answer_enders(struct session *s, const struct agent_no *no)
{
    struct agent *a = s->agent;
    assert(s->ending && s->closing);
    size_t n = s->enders.n;
    s->ending = s->closing = false;
    for (size_t i = 0; i < n; i++) {
        s->enders.p[i].cb(s->enders.p[i].arg, no == NULL ? s : NULL, no);
    }
    s->enders.n = 0;
    agent__release(a);
}

static void on_removed(void *arg, int status, const struct err *e)
{
    struct session *s = arg;
    struct agent_no no;
    if (status < 0) {
        s->purge = false;
        agent__no_store(&no, e);
        answer_enders(s, &no);
        return;
    }
    map_remove(&s->agent->sessions, str_of(s->id));
    event_session_gone(s->agent->o.events, str_of(s->id));
    answer_enders(s, NULL);
    agent__session_free(s);
}

static void on_tasks_purged(void *arg)
{
    struct session *s = arg;
    store_session_remove(s->agent->o.store, str_of(s->id), on_removed, s);
}

static void on_end_saved(void *arg, int status, const struct err *e)
{
    struct session *s = arg;
    struct agent_no no;
    if (status < 0) {
        agent__no_store(&no, e);
        answer_enders(s, &no);
    } else if (s->purge) {
        agent__purge_tasks(s, on_tasks_purged);
    } else {
        answer_enders(s, NULL);
    }
}

static void on_end_noted(void *arg, int status, const struct err *e)
{
    struct session *s = arg;
    if (status < 0 || s->broken) { // a broken one only ends to be removed
        on_end_saved(arg, status, e);
    } else {
        agent__session_save(arg, on_end_saved, arg);
    }
}

/// It ended now: an end that is asked for again, to purge it, is none.
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
        return; // an interrupt found it so
    }
    assert(s->ending && s->turn == NULL);
    agent__engine_close(s);
    if (s->engine_processes != 0) {
        return; // the last one comes back here when it is gone
    }
    s->closing = true;
    book_forget_session(s->agent->book, s->id);
    agent__session_leave(s);
    if (s->state == SESSION_ENDED) {
        on_end_noted(s, 0, NULL);
        return;
    }
    s->state = SESSION_ENDED;
    s->ended_at = loop_wall(s->agent->o.loop);
    s->end_reason = s->closed_as != NULL    ? s->closed_as
                    : s->end_reason != NULL ? s->end_reason
                                            : "complete";
    if (s->closing_summary != NULL) {
        agent__session_set(&s->response_summary, str_of(s->closing_summary));
    }
    if (!s->role.autonomous) { // else the next iteration goes on with it
        agent__session_cool(s);
    }
    note__begin(&n, s, NULL, EVENT_SESSION_ENDED);
    note__end(&n, STORE_SYNCED, on_first_end_noted, s);
}

void agent_session_end(struct session *s, bool purge, agent_session_cb *cb, void *arg)
{
    struct session_ender ender = {.cb = cb, .arg = arg};
    struct agent_no no;
    if (!purge && !agent__session_usable(s, &no)) {
        agent__answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    vec_push(&s->enders, ender);
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

struct looking {
    struct agent *agent;
    char *id;
    agent_session_cb *cb;
    void *arg;
};

static void on_looked(struct prompt_files *f, void *arg)
{
    struct looking *l = arg;
    struct agent *a = l->agent;
    struct session *s = map_get(&a->sessions, str_of(l->id));
    struct agent_no no;
    if (s != NULL) {
        agent__session_set_instructions(s, f);
    } else {
        agent__no(&no, PROBLEM_NOT_FOUND, NULL, "there is no session '%s'", l->id);
    }
    prompt_files_free(f);
    l->cb(l->arg, s, s == NULL ? &no : NULL);
    free(l->id);
    free(l);
    agent__release(a);
}

void agent_session_look(struct session *s, agent_session_cb *cb, void *arg)
{
    struct looking *l = xcalloc(1, sizeof *l);
    *l = (struct looking){.agent = s->agent, .id = xstrdup(s->id), .cb = cb, .arg = arg};
    agent__hold(s->agent);
    prompt_files_read(s->agent->files, s->agent->o.home->dir, s->working_dir, s->agent->o.trust,
                      on_looked, l);
}
