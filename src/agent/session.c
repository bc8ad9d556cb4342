// One session: made, found, changed, ended; and the line of messages in front of its turn.
//
//     agent_send ──> queue ──journal synced──> accepted ──> agent__session_next ──> turn
//                                                               ▲               │
//                                                               └──── it ended ─┘
//
// Every message goes through the queue, also the first one, so there is one way in. A turn begins when
// its message is accepted (in the journal, synced, and metadata.json says `running`) and none runs.
//
// Invariants:
//   - at most one turn runs; messages run in the order in which they were sent.
//   - the state is `running` or `waiting` exactly while a turn runs or messages are queued.

#include <assert.h>
#include <sys/random.h>

#include "agent/agent_int.h"
#include "base/log.h"
#include "base/utf8.h"

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

static void answer_session(struct agent *a, agent_session_cb *cb, void *arg, struct session *s,
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

// ---- a new one ----------------------------------------------------------------------------------

struct creation {
    struct session *s;
    bool mode_asked;
    bool copy; // its past is still to come: who copies tells that it was made
    agent_session_cb *cb;
    void *arg;
};

static void creation_fail(struct creation *c, enum problem p, const char *why)
{
    struct agent_no no;
    struct agent *a = c->s->agent;
    agent__no(&no, p, NULL, "%s", why);
    c->cb(c->arg, NULL, &no);
    agent__session_leave(c->s);
    agent__session_free(c->s);
    free(c);
    agent__release(a);
}

static void on_created(void *arg, int status, const struct err *e)
{
    struct creation *c = arg;
    struct session *s = c->s;
    if (status < 0) {
        creation_fail(c, PROBLEM_STORE_FAILED, e->msg);
        return;
    }
    map_set(&s->agent->sessions, str_of(s->id), s);
    if (!c->copy) {
        agent__session_tell_made(s);
    }
    c->cb(c->arg, s, NULL);
    free(c);
    agent__release(s->agent);
}

static void on_stored(void *arg, int status, const struct err *e)
{
    struct creation *c = arg;
    struct note n;
    if (status < 0) {
        creation_fail(c, PROBLEM_STORE_FAILED, e->msg);
        return;
    }
    struct jw *w = note__begin(&n, c->s, NULL, EVENT_SESSION_CREATED);
    jw_kstrz(w, "working_dir", c->s->working_dir);
    jw_kstrz(w, "provider", c->s->provider);
    jw_kstrz(w, "model", c->s->model);
    jw_kstrz(w, "title", c->s->title);
    note__end(&n, STORE_SYNCED, on_created, c);
}

static void choose_mode(void *arg) // on a lane: it looks at the disk
{
    struct creation *c = arg;
    const char *why;
    if (!c->mode_asked) {
        c->s->sandbox =
            box_choose_mode(c->s->sandbox, c->s->working_dir, c->s->agent->o.home->dir, &why);
    }
}

/// Plugins of the project are there now, and may be named.
static void on_entered(struct session *s, void *arg)
{
    struct creation *c = arg;
    struct agent_no no;
    struct buf meta;
    struct jw w;
    char dir[128];
    if (!agent__session_knows_plugins(s, &no)) {
        creation_fail(c, no.problem, no.detail);
        return;
    }
    buf_init(&meta, SIZE_MAX);
    jw_init(&w, &meta);
    agent__session_write_meta(s, &w);
    snprintf(dir, sizeof dir, "sessions/%s", s->id);
    store_session_new(s->agent->o.store, str_of(s->id), str_of(dir), buf_str(&meta), on_stored, c);
    buf_fini(&meta);
}

static void on_mode(void *arg)
{
    struct creation *c = arg;
    agent__session_enter(c->s, on_entered, c);
}

static void make_id(char out[16])
{
    uint8_t bytes[6];
    ssize_t n = getrandom(bytes, sizeof bytes, 0);
    assert(n == (ssize_t)sizeof bytes); // cannot fail for so few, once the machine is up
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

static void create(const struct creation *wish)
{
    struct session *s = wish->s;
    struct creation *c = xmalloc(sizeof *c);
    *c = *wish;
    agent__hold(s->agent);
    work_submit(s->agent->files, 0, choose_mode, on_mode, c);
}

void agent_session_new(struct agent *a, const struct json *params, agent_session_cb *cb, void *arg)
{
    char id[16];
    struct agent_no no;
    make_id(id);
    struct session *s = agent__session_new(a, str_of(id));
    if (a->stopping) {
        agent__no(&no, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (agent__session_take(s, params, &no)) {
        if (s->working_dir == NULL) {
            s->working_dir = xstrdup("/");
        }
        if (agent__session_choose(s, &no)) {
            bool asked = json_get(params, "sandbox") != NULL;
            create(&(struct creation){.s = s, .mode_asked = asked, .cb = cb, .arg = arg});
            return;
        }
    }
    agent__session_free(s);
    answer_session(a, cb, arg, NULL, &no);
}

void agent__session_tell_made(const struct session *s)
{
    const struct agent_host *h = &s->agent->o.host;
    h->made(h->arg, s);
}

void agent__session_copy(const struct session *s, agent_session_cb *cb, void *arg)
{
    char id[16];
    struct agent_no no;
    make_id(id);
    struct session *copy = agent__session_new(s->agent, str_of(id));
    agent__session_copy_settings(copy, s);
    if (agent__session_choose(copy, &no)) {
        create(
            &(struct creation){.s = copy, .mode_asked = true, .copy = true, .cb = cb, .arg = arg});
    } else {
        agent__session_free(copy);
        answer_session(s->agent, cb, arg, NULL, &no);
    }
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
    if (s == NULL && status == 0 && r->n == 1) {
        s = agent__session_of_row(f->a, &r->rows[0]);
        map_set(&f->a->sessions, str_of(f->id), s);
    }
    if (status < 0) {
        agent__no(&no, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
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
    if (s != NULL) {
        answer_session(a, cb, arg, s, NULL);
        return;
    }
    struct finding *f = xcalloc(1, sizeof *f);
    struct store_filter filter = {.id = id};
    *f = (struct finding){.a = a, .id = str_dup(id), .cb = cb, .arg = arg};
    agent__hold(a);
    store_list(a->o.store, &filter, STR_NULL, 1, on_found, f);
}

struct listing {
    struct agent *a;
    agent_text_cb *cb;
    void *arg;
};

/// The row of a session: what is in memory knows best.
static void write_row(struct agent *a, const struct store_row *row, struct jw *w)
{
    struct session *s = map_get(&a->sessions, row->id);
    if (s != NULL) {
        agent_session_write(s, w);
        return;
    }
    s = agent__session_of_row(a, row);
    agent_session_write(s, w);
    agent__session_free(s);
}

static void on_listed(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct listing l = *(struct listing *)arg;
    struct agent_no no;
    struct buf out;
    struct jw w;
    free(arg);
    buf_init(&out, SIZE_MAX);
    jw_init(&w, &out);
    jw_obj(&w);
    jw_key(&w, "sessions");
    jw_arr(&w);
    for (size_t i = 0; status == 0 && i < r->n; i++) {
        write_row(l.a, &r->rows[i], &w);
    }
    jw_end_arr(&w);
    if (status == 0 && r->next.n != 0) {
        jw_kstr(&w, "next", r->next);
    } else {
        jw_kstrz(&w, "next", NULL);
    }
    jw_end_obj(&w);
    if (status < 0) {
        bool cursor = status == ERR_INVALID;
        agent__no(&no, cursor ? PROBLEM_INVALID_BODY : PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
    }
    l.cb(l.arg, buf_str(&out), status < 0 ? &no : NULL);
    buf_fini(&out);
    agent__release(l.a);
}

void agent_session_list(struct agent *a, struct str state, struct str cursor, size_t limit,
                        agent_text_cb *cb, void *arg)
{
    struct listing *l = xmalloc(sizeof *l);
    struct store_filter f = {.state = state.n != 0 ? state : STR_NULL};
    *l = (struct listing){.a = a, .cb = cb, .arg = arg};
    agent__hold(a);
    store_list(a->o.store, &f, cursor, limit, on_listed, l);
}

const char *agent_session_id(const struct session *s)
{
    return s->id;
}

const char *const *agent_session_variables(const struct session *s)
{
    return (const char *const *)s->variables;
}

const char *agent__session_place(const struct session *s)
{
    return s->real_dir != NULL ? s->real_dir : s->working_dir;
}

static void on_entered_dir(void *arg, const char *real_dir)
{
    struct session *s = arg;
    struct agent *a = s->agent;
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

// ---- changed ------------------------------------------------------------------------------------

void agent__session_set_state(struct session *s, enum session_state state)
{
    struct note n;
    if (s->state != state) {
        s->state = state;
        jw_kstrz(note__begin(&n, s, NULL, EVENT_SESSION_UPDATED), "state",
                 agent__session_state_name(state));
        note__end(&n, STORE_WRITTEN, NULL, NULL);
    }
}

struct change {
    struct session *s;
    agent_session_cb *cb;
    void *arg;
};

static void on_changed(void *arg, int status, const struct err *e)
{
    struct change c = *(struct change *)arg;
    struct agent_no no;
    free(arg);
    if (status < 0) {
        agent__no(&no, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
    }
    c.cb(c.arg, status < 0 ? NULL : c.s, status < 0 ? &no : NULL);
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
    struct note n;
    if (s->state == SESSION_ENDED || s->ending) {
        agent__no(&no, PROBLEM_SESSION_ENDED, NULL, "session '%s' has ended", s->id);
        answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    if (s->turn != NULL && json_get(params, "working_dir") != NULL) {
        agent__no(&no, PROBLEM_TURN_RUNNING, NULL, "'working_dir' cannot change while a turn runs");
        answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    if (!try_change(s, params, &no)) {
        answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    if (json_get(params, "working_dir") != NULL) {
        agent__session_leave(s); // entered again when a message comes
    }
    bool fits = agent__session_take(s, params, &no);
    if (fits && s->turn == NULL) {
        (void)agent__session_choose(s, &no); // what cannot be chosen now is told when a turn begins
    }
    struct jw *w = note__begin(&n, s, NULL, EVENT_SESSION_UPDATED);
    json_foreach_member (m, params) {
        if (!str_eqz(m->key, "env") && !str_eqz(m->key, "id")) {
            jw_key_str(w, m->key);
            jw_value(w, &m->value);
        }
    }
    note__end(&n, STORE_WRITTEN, NULL, NULL);
    struct change *c = xmalloc(sizeof *c);
    *c = (struct change){.s = s, .cb = cb, .arg = arg};
    agent__session_save(s, on_changed, c);
}

// ---- ended --------------------------------------------------------------------------------------

static void answer_enders(struct session *s, const struct agent_no *no)
{
    struct agent *a = s->agent;
    size_t n = s->enders.n;
    s->ending = false;
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
        agent__no(&no, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
        answer_enders(s, &no);
        return;
    }
    map_remove(&s->agent->sessions, str_of(s->id));
    answer_enders(s, NULL);
    agent__session_free(s);
}

static void on_end_saved(void *arg, int status, const struct err *e)
{
    struct session *s = arg;
    struct agent_no no;
    if (status < 0) {
        agent__no(&no, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
        answer_enders(s, &no);
    } else if (s->purge) {
        store_session_remove(s->agent->o.store, str_of(s->id), on_removed, s);
    } else {
        answer_enders(s, NULL);
    }
}

static void on_end_noted(void *arg, int status, const struct err *e)
{
    if (status < 0) {
        on_end_saved(arg, status, e);
    } else {
        agent__session_save(arg, on_end_saved, arg);
    }
}

/// It ended now: an end that is asked for again, to purge it, is none.
static void on_first_end_noted(void *arg, int status, const struct err *e)
{
    struct session *s = arg;
    if (status == 0) {
        s->agent->o.host.ended(s->agent->o.host.arg, s);
    }
    on_end_noted(s, status, e);
}

static void finish_end(struct session *s);

static void on_entered_last(struct session *s, void *arg)
{
    (void)arg;
    finish_end(s);
}

/// No turn runs and none waits.
static void finish_end(struct session *s)
{
    struct note n;
    if (s->entering) {
        agent__session_enter(s, on_entered_last, NULL);
        return;
    }
    agent__session_leave(s);
    if (s->state == SESSION_ENDED) {
        on_end_noted(s, 0, NULL);
        return;
    }
    s->state = SESSION_ENDED;
    s->ended_at = loop_wall(s->agent->o.loop);
    s->end_reason = s->end_reason != NULL ? s->end_reason : "complete";
    agent__session_cool(s);
    note__begin(&n, s, NULL, EVENT_SESSION_ENDED);
    note__end(&n, STORE_SYNCED, on_first_end_noted, s);
}

/// A message whose turn will not come.
static void drop_message(struct session *s, size_t i)
{
    struct session_message m = s->queue.p[i];
    struct note n;
    char answer[96];
    vec_remove(&s->queue, i);
    jw_kstrz(note__begin(&n, s, NULL, EVENT_TURN_INTERRUPTED), "turn", m.turn_id);
    note__end(&n, STORE_SYNCED, NULL, NULL);
    snprintf(answer, sizeof answer, "{\"turn_id\":\"%s\",\"state\":\"interrupted\",\"text\":\"\"}",
             m.turn_id);
    agent__session_answer(s, m.turn_id, str_of(answer));
    free(m.text);
}

void agent_session_end(struct session *s, bool purge, agent_session_cb *cb, void *arg)
{
    struct session_ender ender = {.cb = cb, .arg = arg};
    vec_push(&s->enders, ender);
    s->purge = s->purge || purge;
    if (s->ending) {
        return;
    }
    s->ending = true;
    agent__hold(s->agent);
    while (s->queue.n != 0 && s->queue.p[s->queue.n - 1].accepted) {
        drop_message(s, s->queue.n - 1);
    }
    if (s->turn != NULL) {
        agent_interrupt(s);
    } else if (s->queue.n == 0) {
        finish_end(s);
    }
}

// ---- messages -----------------------------------------------------------------------------------

struct sending {
    struct session *s;
    char turn_id[TURN_ID];
    unsigned open; // writes under way
    bool queued;
    size_t position;
    uint64_t after;
    int status;
    struct err e;
    agent_sent_cb *cb;
    void *arg;
};

static struct session_message *find_message(struct session *s, const char *turn_id)
{
    vec_foreach (m, &s->queue) {
        if (strcmp(m->turn_id, turn_id) == 0) {
            return m;
        }
    }
    return NULL;
}

static void refuse_message(struct sending *q, struct session_message *m)
{
    struct session *s = q->s;
    struct agent_no no;
    agent__no(&no, PROBLEM_STORE_FAILED, "see `afloat doctor`", "%s", q->e.msg);
    free(m->text);
    vec_remove(&s->queue, m - s->queue.p);
    q->cb(q->arg, NULL, &no);
}

static void on_sent(struct sending *q)
{
    struct session *s = q->s;
    struct session_message *m = find_message(s, q->turn_id);
    if (q->status < 0) {
        refuse_message(q, m);
    } else {
        struct agent_sent sent = {.turn_id = q->turn_id,
                                  .queued = q->queued,
                                  .position = q->position,
                                  .after = q->after,
                                  .s = s};
        m->accepted = true;
        q->cb(q->arg, &sent, NULL);
    }
    free(q);
    agent__session_next(s);
}

static void on_written(void *arg, int status, const struct err *e)
{
    struct sending *q = arg;
    if (status < 0) {
        q->status = status;
        q->e = *e;
    }
    if (--q->open == 0) {
        on_sent(q);
    }
}

/// May a message be sent now?
static bool may_send(struct session *s, bool reject, struct agent_no *no)
{
    struct gen_engine *engine = s->agent->o.engine;
    struct arena a;
    struct gen_unit **units;
    size_t n;
    struct err e = {0};
    if (s->agent->stopping || gen_current(engine) == NULL) {
        agent__no(no, PROBLEM_STOPPING, NULL, "the hub is stopping");
        return false;
    }
    if (s->state == SESSION_ENDED || s->ending) {
        agent__no(no, PROBLEM_SESSION_ENDED, "POST /session/{id}/fork goes on from it",
                  "session '%s' has ended", s->id);
        return false;
    }
    if (reject && (s->turn != NULL || s->queue.n != 0)) {
        agent__no(no, PROBLEM_TURN_RUNNING, "leave 'if_busy' out to queue it",
                  "a turn runs in session '%s'", s->id);
        return false;
    }
    if (s->queue.n >= SESSION_QUEUE) {
        agent__no(no, PROBLEM_RATE_LIMITED, NULL, "%d messages wait already", SESSION_QUEUE);
        return false;
    }
    arena_init(&a);
    int rc = agent__session_units(s, gen_current(engine), &a, &units, &n, &e);
    arena_fini(&a);
    if (rc < 0) {
        agent__no(no, PROBLEM_PLUGIN_UNAVAILABLE, "`afloat plugins` says why", "%s", e.msg);
    }
    return rc == 0;
}

static void note_message(struct sending *q, struct str text)
{
    struct note n;
    struct jw *w = note__begin(&n, q->s, NULL, EVENT_MESSAGE_COMPLETED);
    jw_kstrz(w, "turn", q->turn_id);
    jw_kstrz(w, "role", "user");
    jw_kstr(w, "text", text);
    if (q->queued) {
        jw_kbool(w, "queued", true);
    }
    note__end(&n, STORE_SYNCED, on_written, q);
}

struct sent_answer {
    struct agent *a;
    struct agent_no no;
    agent_sent_cb *cb;
    void *arg;
};

static void on_sent_answer(void *arg)
{
    struct sent_answer q = *(struct sent_answer *)arg;
    free(arg);
    q.cb(q.arg, NULL, &q.no);
    agent__release(q.a);
}

static void refuse_later(struct agent *a, agent_sent_cb *cb, void *arg, const struct agent_no *no)
{
    struct sent_answer *q = xmalloc(sizeof *q);
    *q = (struct sent_answer){.a = a, .no = *no, .cb = cb, .arg = arg};
    agent__hold(a);
    loop_defer(a->o.loop, on_sent_answer, q);
}

static void send_now(struct session *s, struct str text, bool reject, agent_sent_cb *cb, void *arg)
{
    struct agent_no no;
    if (!may_send(s, reject, &no)) {
        refuse_later(s->agent, cb, arg, &no);
        return;
    }
    struct sending *q = xcalloc(1, sizeof *q);
    struct session_message m = {.text = str_dup(text)};
    bool idle = s->turn == NULL && s->queue.n == 0;
    snprintf(m.turn_id, sizeof m.turn_id, "t%llu", (unsigned long long)++s->turns);
    *q = (struct sending){.s = s,
                          .open = 1 + idle,
                          .queued = !idle,
                          .position = s->queue.n + (s->turn != NULL),
                          .after = s->last_seq,
                          .cb = cb,
                          .arg = arg};
    memcpy(q->turn_id, m.turn_id, sizeof q->turn_id);
    vec_push(&s->queue, m);
    note_message(q, text);
    if (idle) {
        s->end_reason = NULL;
        if (s->prompt_summary == NULL) {
            size_t cut = utf8_cut(text.p, text.n, SUMMARY_BYTES);
            agent__session_set(&s->prompt_summary, (struct str){text.p, cut});
        }
        agent__session_set_state(s, SESSION_RUNNING);
        agent__session_save(s, on_written, q);
    }
}

/// A message to a session whose directory the host does not know (yet): after a restart.
struct early {
    char *text;
    size_t n;
    bool reject;
    agent_sent_cb *cb;
    void *arg;
};

static void on_place_known(struct session *s, void *arg)
{
    struct early q = *(struct early *)arg;
    free(arg);
    send_now(s, (struct str){q.text, q.n}, q.reject, q.cb, q.arg);
    free(q.text);
}

void agent_send(struct session *s, struct str text, bool reject, agent_sent_cb *cb, void *arg)
{
    if (s->real_dir != NULL || s->state == SESSION_ENDED || s->ending || s->agent->stopping) {
        send_now(s, text, reject, cb, arg);
        return;
    }
    struct early *q = xmalloc(sizeof *q);
    *q = (struct early){.text = str_dup(text), .n = text.n, .reject = reject, .cb = cb, .arg = arg};
    agent__session_enter(s, on_place_known, q);
}

static void be_idle(struct session *s)
{
    if (s->state == SESSION_RUNNING || s->state == SESSION_WAITING) {
        agent__session_set_state(s, SESSION_IDLE);
        agent__session_save(s, NULL, NULL);
    }
}

void agent__session_next(struct session *s)
{
    if (s->turn != NULL) {
        return;
    }
    if (s->ending || s->agent->stopping) {
        while (s->queue.n != 0 && s->queue.p[s->queue.n - 1].accepted) {
            drop_message(s, s->queue.n - 1);
        }
    }
    if (s->queue.n == 0) {
        be_idle(s);
        if (s->ending) {
            finish_end(s);
        }
    } else if (s->queue.p[0].accepted) {
        struct session_message m = s->queue.p[0];
        vec_remove(&s->queue, 0);
        turn__start(s, m.turn_id, str_of(m.text), m.compact);
        free(m.text);
    }
}

// ---- waiting ------------------------------------------------------------------------------------

void agent__session_answer(struct session *s, const char *turn_id, struct str json)
{
    for (size_t i = 0; i < s->waiters.n;) {
        struct turn_waiter w = s->waiters.p[i];
        if (strcmp(w.turn_id, turn_id) == 0) {
            vec_remove(&s->waiters, i);
            w.cb(w.arg, json, NULL);
        } else {
            i++;
        }
    }
}

void agent_wait(struct session *s, const char *turn_id, agent_text_cb *cb, void *arg)
{
    struct turn_waiter w = {.cb = cb, .arg = arg};
    snprintf(w.turn_id, sizeof w.turn_id, "%s", turn_id);
    vec_push(&s->waiters, w);
}

static void on_interrupt(void *arg, struct session *s, const struct agent_no *no)
{
    (void)arg;
    (void)no;
    if (s != NULL && s->turn != NULL) {
        turn__interrupt(s->turn);
    } else if (s != NULL) {
        agent__session_next(s);
    }
}

void agent_interrupt(struct session *s)
{
    // later: a handler of the turn may be the one who asks
    answer_session(s->agent, on_interrupt, NULL, s, NULL);
}
