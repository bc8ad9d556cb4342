// One session, several hubs.
//
// Hubs that share a store share its sessions. A hub that wants to run a turn claims the session first: from
// then on only that hub can write it. What a hub has in memory of a session may be old, since other hubs write
// too, so it is read again whenever a client asks for the session and when it is claimed:
//
//     message ──> claim ──granted──> read again ──> was a turn left open? ──> queue, as in one hub
//                   └─ another hub runs its turn: 409, with the name of that hub
//     idle ──> release
//
// A turn that a lost hub left open is ended as crashed before ours begins, as it is after a restart. Claims that are
// granted meanwhile wait for that.
//
// In a store of one hub nothing of this happens.

#include <assert.h>

#include "agent/agent_int.h"
#include "base/log.h"

static bool in_use(const struct session *s)
{
    return s->turn != NULL || s->queue.n != 0 || s->notes.head != NULL || s->ending ||
           s->rewinding != 0 || s->saving != 0 || s->marking;
}

void agent__session_renew(struct session *s, const struct store_row *row)
{
    struct arena a = {0};
    struct json *meta;
    uint64_t hash = map_hash(row->meta);
    bool same = row->last_seq == s->last_seq;
    if (!store_shared(s->agent->o.hub->store) || in_use(s) || s->claimed || s->broken ||
        (same && hash == s->row_hash)) {
        return;
    }
    if (json_parse(&meta, &a, row->meta, NULL, NULL) == 0 && meta->type == JSON_OBJ) {
        if (!same) {
            agent__session_cool(s);
        }
        agent__session_read_meta(s, meta);
        s->last_seq = row->last_seq;
        s->row_hash = hash;
    }
    arena_fini(&a);
}

void agent__session_unclaim(struct session *s)
{
    if (s->claimed && s->claiming == 0 && s->turn == NULL && s->queue.n == 0) {
        s->claimed = false;
        store_release(s->agent->o.hub->store, str_of(s->id));
    }
}

struct claiming {
    struct agent *a;
    char *id;
    session_claimed *done;
    void *arg;
};

static void claiming_end(struct claiming *c, struct session *s, const struct agent_no *no)
{
    struct agent *a = c->a;
    c->done(s, no, c->arg);
    free(c->id);
    free(c);
    agent__release(a);
}

static void on_ended_as_crashed(struct session *s, int status, const struct err *e, void *arg)
{
    struct agent_no no;
    const struct agent_no *why = agent__no_store(&no, status, e);
    vec(struct claiming *) all = {0};
    vec_push(&all, arg);
    vec_foreach (c, &s->behind) {
        vec_push(&all, *c);
    }
    vec_fini(&s->behind);
    s->marking = false;
    s->claiming -= (unsigned)all.n;
    if (status < 0) {
        agent__session_unclaim(s);
    } else {
        log_warn(LOG_HUB, "session=%s ended a turn that a lost hub left open", s->id);
    }
    vec_foreach (c, &all) {
        claiming_end(*c, status < 0 ? NULL : s, why);
    }
    vec_fini(&all);
}

static void on_claimed(void *arg, int status, const struct store_row *row, const struct err *e)
{
    struct claiming *c = arg;
    struct agent_no no;
    struct session *s = map_get(&c->a->sessions, str_of(c->id));
    if (s == NULL) {
        if (status == 0) {
            store_release(c->a->o.hub->store, str_of(c->id));
        }
        agent_no_set(&no, PROBLEM_NOT_FOUND, NULL, "session '%s' is gone", c->id);
        claiming_end(c, NULL, &no);
        return;
    }
    assert(s->claiming != 0);
    if (status < 0) {
        s->claiming--;
        claiming_end(c, NULL, agent__no_store(&no, status, e));
        return;
    }
    agent__session_renew(s, row);
    s->claimed = true;
    if (s->marking) {
        vec_push(&s->behind, c);
        return;
    }
    bool open = s->state == SESSION_RUNNING || s->state == SESSION_WAITING;
    if (open && !in_use(s)) {
        s->marking = true;
        agent__session_mark_crashed(s, on_ended_as_crashed, c);
        return;
    }
    s->claiming--;
    claiming_end(c, s, NULL);
}

struct getting_here {
    agent_session_cb *cb;
    void *arg;
};

static void on_here(struct session *s, const struct agent_no *no, void *arg)
{
    struct getting_here q = *(struct getting_here *)arg;
    free(arg);
    if (s != NULL) {
        agent__session_unclaim(s);
    }
    q.cb(q.arg, s, no);
}

void agent_session_get_here(struct session *s, agent_session_cb *cb, void *arg)
{
    bool open = s->state == SESSION_RUNNING || s->state == SESSION_WAITING;
    if (!store_shared(s->agent->o.hub->store) || !open || s->claimed || s->broken || in_use(s)) {
        cb(arg, s, NULL);
        return;
    }
    struct getting_here *q = xmalloc(sizeof *q);
    *q = (struct getting_here){cb, arg};
    agent__session_claim(s, on_here, q);
}

void agent__session_claim(struct session *s, session_claimed *done, void *arg)
{
    struct agent *a = s->agent;
    if (!store_shared(a->o.hub->store) || (s->claimed && s->claiming == 0)) {
        done(s, NULL, arg);
        return;
    }
    struct claiming *c = xmalloc(sizeof *c);
    *c = (struct claiming){.a = a, .id = xstrdup(s->id), .done = done, .arg = arg};
    s->claiming++;
    agent__hold(a);
    store_claim(a->o.hub->store, str_of(s->id), on_claimed, c);
}
