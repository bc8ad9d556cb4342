// Events of a session: written first, then shown.
//
//     note__end ──> store_append ──written or synced──> in order ──> event log ──> all readers
//                                                            └─────> `done`
//
// The store answers appends that ask for a sync later than those that do not, so answers may come out of
// order. Events may not: each waits here until all before it are in the journal.
//
// An event that could not be written is not shown, and `done` is told. A turn that lost a part of the
// conversation does not complete (turn__lost).

#include <assert.h>
#include <errno.h>

#include "agent/agent_int.h"
#include "base/log.h"
#include "base/redact.h"
#include "event/event.h"

enum { FIELDS_MAX = STORE_LINE_MAX - 4096, LIVE_MAX = 256 * 1024 };

struct session_note {
    struct session_note *next;
    struct session *s;
    enum event_id event;
    bool of_turn; // of the turn that runs
    char *fields; // a JSON object whose first member is `session`; NULL: too long to show
    size_t n;
    size_t own; // bytes of that first member and its comma
    bool answered;
    int status;
    struct err e;
    uint64_t seq;
    int64_t ts;
    note_done *done;
    void *arg;
};

struct jw *note__begin(struct note *n, struct session *s, const struct turn *t, enum event_id event)
{
    assert(event < EVENT__COUNT && (t == NULL || t->s == s));
    n->s = s;
    n->event = event;
    n->of_turn = t != NULL;
    buf_init(&n->fields, FIELDS_MAX);
    jw_init(&n->w, &n->fields);
    jw_obj(&n->w);
    jw_kstrz(&n->w, "session", s->id);
    if (t != NULL) {
        jw_kstrz(&n->w, "turn", t->id);
        jw_kint(&n->w, "step", t->n_steps);
    }
    return &n->w;
}

/// The members without the braces around them.
static struct str members(const struct session_note *p)
{
    return (struct str){p->fields + 1, p->n - 2};
}

/// Bytes of the members after `session`.
static size_t shown_bytes(const struct session_note *p)
{
    return p->n - 2 > p->own ? p->n - 2 - p->own : 0;
}

/// Give the event to the stream, which writes `session` itself. One that is too long for it is marked as left out;
/// readers find it in the journal.
static void show(const struct session_note *p)
{
    struct event_record ev = {.type = str_of(event_infos[p->event].type),
                              .session = str_of(p->s->id),
                              .seq = p->seq,
                              .ts = p->ts};
    if (p->fields != NULL) {
        ev.fields = str_from(members(p), p->own);
    } else {
        ev.left_out = shown_bytes(p);
    }
    assert(p->seq > p->s->last_seq);
    p->s->last_seq = p->seq;
    event_emit_record(p->s->agent->o.hub->events, &ev);
}

const char *note__fault(const struct err *e)
{
    return e->code == -ENOSPC || e->code == -EDQUOT ? "the disk is full"
                                                    : "the journal cannot be written";
}

void note__put_error(struct jw *w, const char *code, struct str message)
{
    jw_kobj(w, "error");
    jw_kstrz(w, "code", code);
    jw_kstr(w, "message", message);
    jw_end_obj(w);
}

/// The end of a turn could not be journaled: tell the readers of the stream, without a number.
static void tell_lost_end(const struct session_note *p)
{
    struct agent *a = p->s->agent;
    struct buf data = {.max = SIZE_MAX};
    struct jw w = {.out = &data};
    jw_obj(&w);
    jw_kstrz(&w, "turn", p->of_turn && p->s->turn != NULL ? p->s->turn->id : NULL);
    char *message = xasprintf("%s: %s", note__fault(&p->e), p->e.msg);
    note__put_error(&w, "STORE_FAILED", str_of(message));
    free(message);
    struct event_record ev = {.type = str_of(event_infos[EVENT_TURN_FAILED].type),
                              .session = str_of(p->s->id),
                              .fields = str_from(buf_str(&data), 1),
                              .ts = loop_wall(a->o.hub->loop)};
    event_emit_record(a->o.hub->events, &ev);
    buf_fini(&data);
}

static void settle(struct session_note *p)
{
    struct agent *a = p->s->agent;
    enum event_id ev = p->event;
    if (p->status == 0) {
        show(p);
    } else {
        bool remembered = ev == EVENT_TURN_STARTED || ev == EVENT_MESSAGE_COMPLETED ||
                          ev == EVENT_TOOL_COMPLETED || ev == EVENT_SESSION_COMPACTED;
        if (p->of_turn && remembered) { // the conversation is made from it
            turn__lost(p->s->turn, &p->e);
        }
        if (ev == EVENT_SESSION_ENDED || ev == EVENT_TURN_COMPLETED || ev == EVENT_TURN_FAILED ||
            ev == EVENT_TURN_INTERRUPTED) { // readers would wait for ever without it
            tell_lost_end(p);
        }
        log_error(LOG_STORE, "session=%s event=%s lost: %s", p->s->id, event_infos[ev].type,
                  LOGQ(str_of(p->e.msg)).z);
    }
    if (p->done != NULL) {
        p->done(p->arg, p->status, p->status < 0 ? &p->e : NULL);
    }
    free(p->fields);
    free(p);
    agent__release(a);
}

static void on_appended(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    struct session_note *p = arg;
    struct session *s = p->s;
    p->answered = true;
    p->status = status;
    p->seq = status == 0 ? a->first_seq : 0;
    p->ts = status == 0 ? a->ts : 0;
    if (e != NULL) {
        p->e = *e;
    }
    while (s->notes.head != NULL && s->notes.head->answered) {
        struct session_note *head = fifo_take(&s->notes);
        bool last = s->notes.head == NULL;
        if (last) {
            turn__settled(s->turn);
        }
        settle(head); // nothing after this: the session may be freed with its last event
        if (last) {
            return;
        }
    }
}

void note__end(struct note *n, enum store_durability durability, note_done *done, void *arg)
{
    struct session *s = n->s;
    jw_end_obj(&n->w);
    redact_json(&n->fields);
    if (!buf_ok(&n->fields)) { // a model or a plugin said that much
        buf_fini(&n->fields);
        buf_init(&n->fields, FIELDS_MAX);
        buf_addf(&n->fields, "{\"session\":\"%s\",\"truncated\":true}", s->id);
    }
    struct session_note *p = xcalloc(1, sizeof *p);
    *p = (struct session_note){.s = s,
                               .event = n->event,
                               .of_turn = n->of_turn,
                               .own = strlen("\"session\":\"\",") + strlen(s->id),
                               .done = done,
                               .arg = arg};
    p->fields = buf_take(&n->fields, &p->n);
    fifo_add(&s->notes, p);
    agent__hold(s->agent);
    struct store_event ev = {.type = str_of(event_infos[p->event].type), .fields = members(p)};
    store_append(s->agent->o.hub->store, str_of(s->id), &ev, 1, durability, on_appended, p);
    if (shown_bytes(p) > LIVE_MAX) { // show() leaves it out, and the store has a copy
        free(p->fields);
        p->fields = NULL;
    }
}

// ---- read back ----------------------------------------------------------------------------------

uint64_t agent_session_shown(const struct session *s)
{
    return s->last_seq;
}

struct event_listing {
    uint64_t shown; // the last event that readers may see
    agent_text_cb *cb;
    void *arg;
};

static void on_list(void *arg, int status, const struct store_page *p, const struct err *e)
{
    struct event_listing l = *(struct event_listing *)arg;
    struct agent_no no;
    free(arg);
    if (status < 0) {
        l.cb(l.arg, STR_NULL, agent__no_store(&no, status, e));
        return;
    }
    struct buf out = {.max = SIZE_MAX};
    struct str lines = p->lines;
    uint64_t next = p->next - p->n;
    buf_addz(&out, "{\"events\":[");
    for (const char *comma = ""; lines.n != 0 && next < l.shown; comma = ",", next++) {
        buf_addz(&out, comma);
        buf_adds(&out, str_cut(&lines, '\n'));
    }
    buf_addf(&out, "],\"next\":%llu}", (unsigned long long)next);
    l.cb(l.arg, buf_str(&out), NULL);
    buf_fini(&out);
}

void agent_events(struct session *s, uint64_t after, size_t limit, agent_text_cb *cb, void *arg)
{
    struct event_listing *l = xmalloc(sizeof *l);
    *l = (struct event_listing){.shown = s->last_seq, .cb = cb, .arg = arg};
    store_read(s->agent->o.hub->store, str_of(s->id), after, limit, on_list, l);
}
