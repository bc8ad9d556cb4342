// The conversation of a session, read from its journal; and sessions that were running when their hub was killed.
//
// An idle session is a row in the index and, if it was used lately, its settings. The messages are read
// when a turn needs them, and kept for the WARM sessions used last.
//
// A session of a bot may continue the conversation of another one (`before`), and that one of a third: the
// journals of the whole chain are read, the oldest first. Of the earlier ones only the messages and the
// number of requests count; a session that is gone ends the chain.

#include <assert.h>

#include "agent/agent_int.h"
#include "base/list.h"
#include "base/log.h"

enum { WARM = 16, PAGE = 4096, CHAIN_MAX = 10000 };

struct loading {
    struct session *s;
    vec(char *) chain; // ids, the session's own first; the last one is being read
    struct talk *talk;
    struct talk_facts facts, past; // of its own journal, and of the earlier ones
    uint64_t after;
    int status;
    struct err e;
    session_loaded *done;
    void *arg;
};

// ---- conversations in memory --------------------------------------------------------------------

static void unlink_warm(struct session *s)
{
    assert(s->agent->n_warm != 0 && s->talk != NULL);
    list_remove(&s->agent->warm, s);
    s->agent->n_warm--;
}

void agent__session_cool(struct session *s)
{
    agent__engine_close(s);
    if (s->talk != NULL) {
        unlink_warm(s);
        talk_free(s->talk);
        s->talk = NULL;
        grants_rest(s->grants);
        if (s->rewind != NULL) {
            rewind_session_rest(s->rewind);
        }
    }
}

static void link_warm(struct session *s)
{
    assert(s->talk != NULL);
    list_add(&s->agent->warm, s);
    s->agent->n_warm++;
}

void agent__session_move_talk(struct session *s, struct session *from)
{
    if (from->talk != NULL && s->talk == NULL) {
        unlink_warm(from);
        s->talk = from->talk;
        from->talk = NULL;
        link_warm(s);
    }
}

void agent__session_begin_talk(struct session *s)
{
    if (s->talk == NULL && s->role.before.n == 0) {
        s->talk = talk_new();
        link_warm(s);
        agent__session_touch(s);
    }
}

void agent__session_touch(struct session *s)
{
    struct agent *a = s->agent;
    if (s->talk != NULL) {
        unlink_warm(s);
        link_warm(s);
    }
    struct session *last = NULL; // of those that may go, the one used longest ago
    for (struct session *it = a->n_warm > WARM ? a->warm : NULL; it != NULL; it = it->next) {
        last = it->turn == NULL && it->rewinding == 0 ? it : last;
    }
    if (last != NULL && last != s) {
        agent__session_cool(last);
    }
}

// ---- reading ------------------------------------------------------------------------------------

static void loading_end(void *arg)
{
    struct loading *l = arg;
    struct session *s = l->s;
    struct agent *a = s->agent;
    if (l->status == 0 && s->talk == NULL) {
        s->talk = l->talk;
        l->talk = NULL;
        link_warm(s);
        s->turns = MAX(s->turns, l->facts.turns);
        s->requests = MAX(s->requests, l->facts.requests);
        s->asks = MAX(s->asks, l->facts.asks);
        s->calls = MAX(s->calls, l->facts.calls);
        if (l->facts.has_usage) {
            s->usage = l->facts.usage;
            s->cost = l->facts.cost;
        }
        s->left = &l->facts;
        s->requests = MAX(s->requests, l->past.requests);
    }
    talk_free(l->talk);
    l->done(s, l->status, l->status < 0 ? &l->e : NULL, l->arg);
    if (l->status == 0) { // else `done` may have freed the session
        s->left = NULL;
    }
    talk_facts_fini(&l->facts);
    talk_facts_fini(&l->past);
    vec_fini_each(&l->chain, free);
    free(l);
    agent__release(a);
}

static void loading_fail(struct loading *l, int status, const struct err *e)
{
    l->status = status;
    l->e = *e;
    loading_end(l);
}

static void on_page(void *arg, int status, const struct store_page *p, const struct err *e);

static void read_page(struct loading *l)
{
    assert(l->chain.n != 0);
    const char *id = l->chain.p[l->chain.n - 1];
    store_read(l->s->agent->o.hub->store, str_of(id), l->after, PAGE, on_page, l);
}

static void on_page(void *arg, int status, const struct store_page *p, const struct err *e)
{
    struct loading *l = arg;
    if (status < 0) {
        loading_fail(l, status, e);
        return;
    }
    for (struct str lines = p->lines; lines.n != 0;) {
        struct str line = str_cut(&lines, '\n');
        struct arena a = {0};
        struct json *ev;
        if (json_parse(&ev, &a, line, NULL, NULL) == 0) {
            talk_replay(l->talk, l->chain.n == 1 ? &l->facts : &l->past, ev);
        }
        arena_fini(&a);
    }
    l->after = p->next;
    if (p->n != 0 && p->next < p->last_seq) {
        read_page(l);
    } else if (l->chain.n > 1) {
        free(l->chain.p[--l->chain.n]);
        l->after = 0;
        read_page(l);
    } else {
        loading_end(l);
    }
}

static void find_before(struct loading *l, struct str id);

static void on_before(void *arg, int status, const struct store_rows *r, const struct err *e)
{
    struct loading *l = arg;
    struct arena a = {0};
    struct json *meta = NULL;
    if (status < 0) {
        loading_fail(l, status, e);
        return;
    }
    if (r->n == 0) {
        read_page(l);
        return;
    }
    vec_push(&l->chain, str_dup(r->rows[0].id));
    if (json_parse(&meta, &a, r->rows[0].meta, NULL, NULL) < 0) {
        meta = NULL; // without a past
    }
    find_before(l, json_get_text(meta, "before"));
    arena_fini(&a);
}

/// Follow the chain of sessions to its end, then read.
static void find_before(struct loading *l, struct str id)
{
    if (id.n == 0 || l->chain.n >= CHAIN_MAX) { // a chain that long is a circle
        read_page(l);
    } else {
        struct store_filter f = {.id = id};
        store_list(l->s->agent->o.hub->store, &f, STR_NULL, 1, on_before, l);
    }
}

void agent__session_load(struct session *s, session_loaded *done, void *arg)
{
    struct loading *l = xcalloc(1, sizeof *l);
    *l = (struct loading){.s = s, .done = done, .arg = arg};
    agent__hold(s->agent);
    if (s->talk != NULL) {
        loop_defer(s->agent->o.hub->loop, loading_end, l);
        return;
    }
    l->talk = talk_new();
    vec_push(&l->chain, xstrdup(s->id));
    find_before(l, s->role.before);
}

// ---- left open by a killed hub ------------------------------------------------------------------

struct crash {
    struct session *s;
    session_loaded *done;
    void *arg;
};

static void on_crash_saved(void *arg, int status, const struct err *e)
{
    struct crash c = *(struct crash *)arg;
    free(arg);
    agent__session_cool(c.s);
    c.done(c.s, status, e, c.arg);
}

static void on_crash_noted(void *arg, int status, const struct err *e)
{
    struct crash *c = arg;
    if (status < 0) {
        on_crash_saved(c, status, e);
    } else {
        agent__session_save(c->s, on_crash_saved, c);
    }
}

/// Give every call that was under way a failed result. A call that waited for permission did not run; nothing says how
/// far another one got, so no call is ever repeated.
static void note_lost(struct session *s)
{
    struct note n;
    vec_foreach (c, &s->left->running) {
        struct jw *w = note__begin(&n, s, NULL, EVENT_TOOL_COMPLETED);
        jw_kstrz(w, "turn", c->turn);
        jw_kstrz(w, "call_id", c->id);
        jw_kstrz(w, "tool", c->tool);
        jw_kstrz(w, "output",
                 c->waits ? ""
                          : "the hub was lost before this call ended: what it did is unknown, and "
                            "it was not repeated");
        jw_kbool(w, "success", false);
        jw_kstrz(w, "error",
                 c->waits ? "it did not run: the hub was lost while it waited for permission"
                          : "unknown");
        note__end(&n, STORE_WRITTEN, NULL, NULL);
    }
}

static void on_crash_loaded(struct session *s, int status, const struct err *e, void *arg)
{
    struct crash *c = arg;
    struct note n;
    if (status < 0) {
        on_crash_saved(c, status, e);
        return;
    }
    assert(s->left != NULL); // it has just been read
    note_lost(s);
    vec_foreach (id, &s->left->open) {
        struct jw *w = note__begin(&n, s, NULL, EVENT_TURN_FAILED);
        jw_kstrz(w, "turn", *id);
        note__put_error(w, "CRASHED", STR("the hub ended while this turn ran or waited"));
        note__end(&n, STORE_WRITTEN, NULL, NULL);
    }
    s->end_reason = "crashed";
    if (s->parent != NULL) { // the call that waited for this subagent is gone
        s->state = SESSION_ENDED;
        s->ended_at = loop_wall(s->agent->o.hub->loop);
        note__begin(&n, s, NULL, EVENT_SESSION_ENDED);
    } else {
        s->state = SESSION_CRASHED;
        jw_kstrz(note__begin(&n, s, NULL, EVENT_SESSION_UPDATED), "state", "crashed");
    }
    note__end(&n, STORE_SYNCED, on_crash_noted, c);
}

void agent__session_mark_crashed(struct session *s, session_loaded *done, void *arg)
{
    struct crash *c = xmalloc(sizeof *c);
    *c = (struct crash){.s = s, .done = done, .arg = arg};
    agent__session_load(s, on_crash_loaded, c);
}

// ---- sessions of another hub that was lost ------------------------------------------------------

struct takeover {
    struct agent *a;
    loop_fn *done;
    void *arg;
};

static void taken_over(struct takeover *t)
{
    struct agent *a = t->a;
    t->done(t->arg);
    free(t);
    agent__release(a);
}

static void on_closed_over(void *arg, struct session *s, const struct agent_no *no)
{
    (void)no; // it had ended already
    if (s != NULL) {
        agent__session_unclaim(s);
    }
    taken_over(arg);
}

static void on_claimed_over(struct session *s, const struct agent_no *no, void *arg)
{
    struct takeover *t = arg;
    if (s == NULL) {
        log_warn(LOG_HUB, "cannot take over a session: %s", LOGQ(str_of(no->detail)).z);
        taken_over(t);
    } else {
        agent_session_close(s, &(struct agent_end){.reason = "crashed"}, on_closed_over, t);
    }
}

static void on_found_over(void *arg, struct session *s, const struct agent_no *no)
{
    if (s != NULL) {
        agent__session_claim(s, on_claimed_over, arg);
    } else {
        on_claimed_over(NULL, no, arg);
    }
}

void agent_session_take_over(struct agent *a, struct str id, loop_fn *done, void *arg)
{
    struct takeover *t = xmalloc(sizeof *t);
    *t = (struct takeover){.a = a, .done = done, .arg = arg};
    agent__hold(a);
    agent_session_get(a, id, on_found_over, t);
}
