// The queue of a session's messages, and the callers that wait for a turn.
//
//     agent_send ──> queue ──journal synced──> accepted ──> agent__session_next ──> turn
//                                                               ▲               │
//                                                               └──── it ended ─┘
//
// Every message goes through the queue, also the first one. A turn begins when its message is accepted (in
// the journal, synced, and metadata.json says `running`) and no other turn runs.
//
// Invariants:
//   - at most one turn runs; messages run in the order in which they were sent.
//   - no turn begins in a session that ends or in a hub that stops.
//   - the state is `running` or `waiting` exactly while a turn runs or messages are queued.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/picture.h"
#include "base/utf8.h"
#include "config/secrets.h"

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

static void on_written(void *arg, int status, const struct err *e)
{
    struct sending *q = arg;
    if (status < 0) {
        q->status = status;
        q->e = *e;
    }
    assert(q->open != 0);
    if (--q->open != 0) {
        return;
    }
    struct session *s = q->s;
    struct session_message *m = s->queue.p;
    while (strcmp(m->turn_id, q->turn_id) != 0) { // it stays in the queue until it is accepted
        m++;
        assert(m < s->queue.p + s->queue.n);
    }
    if (q->status < 0) {
        struct agent_no no;
        free(m->text);
        free(m->images);
        vec_remove(&s->queue, m - s->queue.p);
        q->cb(q->arg, NULL, agent__no_store(&no, q->status, &q->e));
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

/// May a message be sent now?
static bool may_send(struct session *s, bool reject, struct agent_no *no)
{
    struct gen_engine *engine = s->agent->o.engine;
    struct arena a = {0};
    struct gen_unit **units;
    size_t n;
    struct err e = {0};
    if (s->agent->stopping || gen_current(engine) == NULL) {
        return agent_no_set(no, PROBLEM_STOPPING, NULL, "the hub is stopping");
    }
    if (s->state == SESSION_ENDED || s->ending) {
        return agent_no_set(no, PROBLEM_SESSION_ENDED, "POST /session/{id}/fork goes on from it",
                            "session '%s' has ended", s->id);
    }
    if (reject && (s->turn != NULL || s->queue.n != 0)) {
        return agent_no_set(no, PROBLEM_TURN_RUNNING, "leave 'if_busy' out to queue it",
                            "a turn runs in session '%s'", s->id);
    }
    if (s->queue.n >= SESSION_QUEUE) {
        return agent_no_set(no, PROBLEM_RATE_LIMITED, NULL,
                            "the queue is full: %d messages wait already", SESSION_QUEUE);
    }
    int rc = agent__session_units(s, gen_current(engine), &a, &units, &n, &e);
    arena_fini(&a);
    if (rc < 0) {
        agent_no_set(no, PROBLEM_PLUGIN_UNAVAILABLE, "`afloat plugins` says why", "%s", e.msg);
    }
    return rc == 0;
}

/// A message on its way to the queue. It waits until the user's secrets are read, because it may hold one, and until its
/// pictures are stored. The session may be gone by then.
struct arriving {
    struct agent *a;
    char *id;
    char *dir; // of the session, relative to the home
    struct arena arena;
    struct str text;           // in the arena
    const struct json *images; // as given, in the arena; NULL: none
    struct err fault;          // why they cannot be stored; code 0: they can
    struct buf stored;         // where they are, as JSON
    bool reject;
    agent_sent_cb *cb;
    void *arg;
};

static void arriving_free(struct arriving *v)
{
    struct agent *a = v->a;
    free(v->id);
    free(v->dir);
    buf_fini(&v->stored);
    arena_fini(&v->arena);
    free(v);
    agent__release(a);
}

static void send_now(struct session *s, const struct arriving *v)
{
    struct agent_no no;
    if (!may_send(s, v->reject, &no)) {
        v->cb(v->arg, NULL, &no);
        return;
    }
    struct sending *q = xcalloc(1, sizeof *q);
    struct session_message m = {.text = str_dup(v->text),
                                .images = v->stored.n != 0 ? str_dup(buf_str(&v->stored)) : NULL};
    struct note n;
    bool idle = s->turn == NULL && s->queue.n == 0;
    snprintf(m.turn_id, sizeof m.turn_id, "t%llu", (unsigned long long)++s->turns);
    *q = (struct sending){.s = s,
                          .open = 1 + idle,
                          .queued = !idle,
                          .position = s->queue.n + (s->turn != NULL),
                          .after = s->last_seq,
                          .cb = v->cb,
                          .arg = v->arg};
    memcpy(q->turn_id, m.turn_id, sizeof q->turn_id);
    vec_push(&s->queue, m);
    struct jw *w = note__begin(&n, s, NULL, EVENT_MESSAGE_COMPLETED);
    jw_kstrz(w, "turn", q->turn_id);
    jw_kstrz(w, "role", "user");
    jw_kstr(w, "text", v->text);
    if (m.images != NULL) {
        jw_key(w, "images");
        jw_raw(w, str_of(m.images));
    }
    if (q->queued) {
        jw_kbool(w, "queued", true);
    }
    note__end(&n, STORE_SYNCED, on_written, q);
    if (idle) {
        s->end_reason = NULL;
        if (s->prompt_summary == NULL) {
            agent__session_set_summary(&s->prompt_summary, v->text);
        }
        agent__session_set_state(s, SESSION_RUNNING);
        agent__session_save(s, on_written, q);
    }
}

static void on_ours(struct session *s, const struct agent_no *no, void *arg)
{
    struct arriving *v = arg;
    if (s != NULL) {
        send_now(s, v);
        agent__session_unclaim(s); // only if the message was refused
    } else {
        v->cb(v->arg, NULL, no);
    }
    arriving_free(v);
}

/// The host knows the session's directory.
static void on_place_known(struct session *s, void *arg)
{
    agent__session_claim(s, on_ours, arg);
}

static void prepare(void *arg) // on a lane
{
    struct arriving *v = arg;
    const struct home *home = v->a->o.hub->home;
    secrets_know(home->secrets);
    if (v->images != NULL) {
        (void)!picture_take(v->images, home->dir, v->dir, &v->stored, &v->fault);
    }
}

static void on_prepared(void *arg)
{
    struct arriving *v = arg;
    struct session *s = map_get(&v->a->sessions, str_of(v->id));
    struct agent_no no;
    if (s != NULL) {
        assert(s->arriving != 0);
        s->arriving--;
    }
    if (s == NULL || v->fault.code != 0) {
        agent_no_set(&no, s == NULL ? PROBLEM_NOT_FOUND : PROBLEM_INVALID_BODY, NULL,
                     s == NULL ? "session '%s' is gone" : "%s", s == NULL ? v->id : v->fault.msg);
        v->cb(v->arg, NULL, &no);
        arriving_free(v);
    } else if (s->real_dir != NULL || s->state == SESSION_ENDED || s->ending || v->a->stopping) {
        on_place_known(s, v);
    } else {
        agent__session_enter(s, on_place_known, v);
    }
}

void agent_send(struct session *s, const struct agent_message *m, agent_sent_cb *cb, void *arg)
{
    struct agent_no no;
    bool shows = m->images != NULL && m->images->n != 0;
    const struct engine_kind *engine = agent__engine_kind(s);
    bool ours = engine == NULL || !engine->own_model;
    bool fits = agent__session_usable(s, &no);
    if (fits && shows && ours && s->chosen && !s->choice.facts.images) {
        fits = agent_no_set(&no, PROBLEM_INVALID_BODY,
                            "choose another model, or set `images = true` in [models.\"NAME\"]",
                            "model '%.100s' takes no pictures", s->choice.model);
    }
    if (!fits) {
        cb(arg, NULL, &no);
        return;
    }
    struct arriving *v = xcalloc(1, sizeof *v);
    *v = (struct arriving){.a = s->agent,
                           .id = xstrdup(s->id),
                           .dir = xasprintf(STR_FMT "/%s", STR_ARG(s->role.dir), s->id),
                           .stored = {.max = SIZE_MAX},
                           .reject = m->reject,
                           .cb = cb,
                           .arg = arg};
    v->text = arena_str(&v->arena, m->text);
    v->images = shows ? json_clone(&v->arena, m->images) : NULL;
    s->arriving++;
    agent__hold(s->agent);
    // one thread: messages keep their order
    work_submit(s->agent->requests, 0, prepare, on_prepared, v);
}

/// A message whose turn will not come, on its way into the journal.
struct dropped {
    struct session *s;
    char turn_id[TURN_ID];
};

static void on_dropped(void *arg, int status, const struct err *e)
{
    struct dropped *d = arg;
    const struct agent_outcome o = {
        .s = d->s, .turn_id = d->turn_id, .state = AGENT_TURN_INTERRUPTED, .text = STR("")};
    (void)status; // the turn will not run, whether that could be written or not
    (void)e;
    agent__session_answer(d->s, &o);
    free(d);
}

void agent__session_drop_queue(struct session *s)
{
    while (s->queue.n != 0 && s->queue.p[s->queue.n - 1].accepted) {
        struct session_message m = vec_pop(&s->queue);
        struct dropped *d = xmalloc(sizeof *d);
        struct note n;
        *d = (struct dropped){.s = s};
        memcpy(d->turn_id, m.turn_id, sizeof d->turn_id);
        jw_kstrz(note__begin(&n, s, NULL, EVENT_TURN_INTERRUPTED), "turn", m.turn_id);
        note__end(&n, STORE_SYNCED, on_dropped, d);
        free(m.text);
        free(m.images);
    }
}

void agent__session_next(struct session *s)
{
    bool over = s->ending || s->agent->stopping; // no other turn begins
    if (s->turn != NULL || s->rewinding != 0) {
        return;
    }
    if (over) {
        agent__session_drop_queue(s); // those before one that is being written go with that one
        agent__engine_close(s);
    }
    if (s->queue.n == 0) {
        if (s->state == SESSION_RUNNING || s->state == SESSION_WAITING) {
            agent__session_set_state(s, SESSION_IDLE);
            agent__session_save(s, NULL, NULL);
        }
        agent__session_unclaim(s);
        if (s->ending) {
            agent__session_finish_end(s);
        }
    } else if (s->queue.p[0].accepted && !over) {
        struct session_message m = s->queue.p[0];
        vec_remove(&s->queue, 0);
        turn__start(s, &m);
        if (m.stopped) {
            turn__interrupt(s->turn);
        }
        free(m.text);
        free(m.images);
    }
}

// ---- waiting ------------------------------------------------------------------------------------

bool agent__session_awaited(const struct session *s, const char *turn_id)
{
    for (size_t i = 0; i < s->waiters.n; i++) {
        if (strcmp(s->waiters.p[i].turn_id, turn_id) == 0) {
            return true;
        }
    }
    return false;
}

void agent__session_answer(struct session *s, const struct agent_outcome *o)
{
    for (size_t i = 0; i < s->waiters.n;) {
        struct turn_waiter w = s->waiters.p[i];
        if (strcmp(w.turn_id, o->turn_id) == 0) {
            vec_remove(&s->waiters, i);
            w.cb(w.arg, o, NULL);
        } else {
            i++;
        }
    }
}

void agent_wait(struct session *s, const char *turn_id, agent_outcome_cb *cb, void *arg)
{
    assert(cb != NULL && strlen(turn_id) < TURN_ID);
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
    } else if (s != NULL && s->queue.n != 0) {
        s->queue.p[0].stopped = true; // clients see it as running already
    } else if (s != NULL) {
        agent__session_next(s);
    }
}

void agent_interrupt(struct session *s)
{
    // deferred: the caller may be a handler of this turn
    agent__answer_session(s->agent, on_interrupt, NULL, s, NULL);
}
