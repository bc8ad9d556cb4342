// A copy of a session up to an event: the same settings, the same past, a journal of its own.
//
//     agent_session_new ──> pages of the old journal ──> appended to the new one ──> session.updated
//
// Events get the numbers of the new journal. A turn that the copy cuts in two counts as interrupted when the new
// session is loaded.

#include "agent/agent_int.h"

enum { PAGE = 512 };

struct forking {
    struct agent *a;
    char *from, *to;
    uint64_t after, upto;
    agent_session_cb *cb;
    void *arg;
};

static void fork_end(struct forking *f, struct session *s, const struct agent_no *no)
{
    struct agent *a = f->a;
    f->cb(f->arg, s, no);
    free(f->from);
    free(f->to);
    free(f);
    agent__release(a);
}

/// `e` NULL: the copy is gone.
static void fork_fail(struct forking *f, const struct err *e)
{
    static const struct err gone = {.code = ERR_NOT_FOUND, .msg = "the session is gone"};
    struct agent_no no;
    fork_end(f, NULL, agent__no_store(&no, -1, e != NULL ? e : &gone));
}

static void on_noted(void *arg, int status, const struct err *e)
{
    struct forking *f = arg;
    const struct agent_host *h = &f->a->o.host;
    struct session *s = map_get(&f->a->sessions, str_of(f->to));
    if (status < 0 || s == NULL) {
        fork_fail(f, e);
        return;
    }
    h->made(h->arg, s);
    fork_end(f, s, NULL);
}

static void note_fork(struct forking *f)
{
    struct session *s = map_get(&f->a->sessions, str_of(f->to));
    struct note n;
    if (s == NULL) {
        fork_fail(f, NULL);
        return;
    }
    struct jw *w = note__begin(&n, s, NULL, EVENT_SESSION_UPDATED);
    jw_kstrz(w, "forked_from", f->from);
    jw_kint(w, "forked_at", (int64_t)f->after);
    note__end(&n, STORE_SYNCED, on_noted, f);
}

static void read_page(struct forking *f);

static void on_copied(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    struct forking *f = arg;
    (void)a;
    if (status < 0) {
        fork_fail(f, e);
    } else {
        read_page(f);
    }
}

/// Copy one event, without the members that the new journal writes itself. False: it is beyond `upto`.
static bool copy_event(struct forking *f, struct str line, struct arena *a, struct store_event *out)
{
    static const char *const own[] = {"seq", "ts", "type", "session"};
    struct json *ev;
    struct buf fields = {.max = SIZE_MAX};
    if (json_parse(&ev, a, line, NULL, NULL) < 0 ||
        (uint64_t)json_int(json_get(ev, "seq"), 0) > f->upto) {
        return false;
    }
    buf_addf(&fields, "\"session\":\"%s\"", f->to);
    json_foreach_member (m, ev) {
        if (str_lookup(m->key, own, ARRAY_LEN(own)) < 0) {
            struct json key = {.type = JSON_STR, .s = m->key};
            buf_addc(&fields, ',');
            json_write(&fields, &key, 0);
            buf_addc(&fields, ':');
            json_write(&fields, &m->value, 0);
        }
    }
    out->type = json_get_text(ev, "type");
    out->fields = arena_str(a, buf_str(&fields));
    buf_fini(&fields);
    return true;
}

static void on_page(void *arg, int status, const struct store_page *p, const struct err *e)
{
    struct forking *f = arg;
    struct arena a = {0};
    vec(struct store_event) events = {0};
    if (status < 0) {
        fork_fail(f, e);
        return;
    }
    struct str lines = p->lines;
    struct store_event ev;
    while (lines.n != 0 && copy_event(f, str_cut(&lines, '\n'), &a, &ev)) {
        vec_push(&events, ev);
    }
    f->after = MIN(p->next, f->upto);
    if (events.n != 0) {
        store_append(f->a->o.hub->store, str_of(f->to), events.p, events.n, STORE_WRITTEN,
                     on_copied, f);
    } else {
        note_fork(f);
    }
    vec_fini(&events);
    arena_fini(&a);
}

static void read_page(struct forking *f)
{
    if (f->after >= f->upto) {
        note_fork(f);
    } else {
        store_read(f->a->o.hub->store, str_of(f->from), f->after, PAGE, on_page, f);
    }
}

static void on_made(void *arg, struct session *s, const struct agent_no *no)
{
    struct forking *f = arg;
    if (s == NULL) {
        fork_end(f, NULL, no);
        return;
    }
    f->to = xstrdup(s->id);
    read_page(f);
}

void agent_session_fork(struct session *s, uint64_t seq, agent_session_cb *cb, void *arg)
{
    struct agent_no no;
    bool fits = agent__session_usable(s, &no);
    if (fits && seq > s->last_seq) {
        fits = agent_no_set(
            &no, PROBLEM_INVALID_BODY, NULL,
            "'seq' must be the number of an event: the last one of session '%s' is %llu", s->id,
            (unsigned long long)s->last_seq);
    }
    if (!fits) {
        agent__answer_session(s->agent, cb, arg, NULL, &no);
        return;
    }
    struct forking *f = xmalloc(sizeof *f);
    *f = (struct forking){.a = s->agent,
                          .from = xstrdup(s->id),
                          .upto = seq != 0 ? seq : s->last_seq,
                          .cb = cb,
                          .arg = arg};
    agent__hold(f->a);
    agent__session_copy(s, on_made, f);
}
