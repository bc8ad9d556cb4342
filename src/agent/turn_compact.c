// Compacting: older messages are replaced by a summary, because the conversation is too long or the user asks.
//
//     older messages ──as text, each cut──> a request for a summary ──> on_compact ──> session.compacted
//                                                                          └─> the turn's step, once more
//
// The last message of the user and everything after it stay. When there is nothing before that message, long
// results of tools are cut instead. This happens once in a step; a second overflow fails the turn.
//
// It is done when a client asks for it, when the provider refuses a request as too long and, if the context of the
// model is known, before a request when the last one filled more of it than [limits] compact_percent.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/compact.h"
#include "agent/make.h"

enum { PART_MAX = 2000, TEXT_MAX = 200 * 1000, RESULT_MAX = 2000 };

static const char task[] =
    COMPACT_TASK "Keep what was asked, what was decided, names of files and commands, "
                 "what worked and what did not, "
                 "and what is still to be done. Answer with the summary only.\n\n";

/// The messages as one text; of one that is too long, the end.
static void write_talk(struct buf *out, const struct json *messages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct json *m = &messages->items[i];
        buf_addf(out, STR_FMT ": ", STR_ARG(json_get_text(m, "role")));
        talk_write_content(out, m, PART_MAX);
        buf_addc(out, '\n');
    }
    if (out->n > TEXT_MAX) {
        size_t from = out->n - TEXT_MAX;
        while (from < out->n && ((unsigned char)out->p[from] & 0xC0) == 0x80) {
            from++;
        }
        buf_drop(out, from);
    }
}

static void go_on(struct turn *t)
{
    t->compacting = t->refused = false;
    t->compacted = true;
    t->s->context = 0; // unknown until the next request
    if (t->only_compacts) {
        t->state = AGENT_TURN_COMPLETED;
        turn__go(t, TURN_DONE);
    } else {
        turn__go(t, TURN_PROMPT);
    }
}

static void on_compact(struct pipe *p, void *arg)
{
    struct turn *t = arg;
    struct note n;
    if (turn__fail_if_blocked(t, POINT_COMPACT)) {
        return;
    }
    struct str summary = json_str(pipe_value(p), "");
    struct jw *w = note__begin(&n, t->s, t, EVENT_SESSION_COMPACTED);
    jw_kstr(w, "summary", summary);
    jw_kint(w, "kept", (int64_t)t->compact_keep);
    if (t->heard != 0) { // steering that is among what is kept
        jw_kint(w, "heard", (int64_t)t->heard);
    }
    if (p->run.result == HOOK_VALUE) {
        pipe_write_changed(p, w);
    }
    note__end(&n, STORE_SYNCED, NULL, NULL);
    talk_compact(t->s->talk, summary, t->compact_keep);
    t->final = arena_str(&t->arena, summary);
    go_on(t);
}

void turn__compact_reply(struct turn *t, struct str summary)
{
    turn__raise_text(t, POINT_COMPACT, arena_str(&t->step_arena, summary), on_compact);
}

static const struct json *make_request(struct turn *t, struct str text)
{
    struct arena *a = &t->step_arena;
    struct json *request = make_obj(a, 4), *messages = make_arr(a, 1);
    make_push(messages, make_message(a, "user", make_str(text)));
    make_put(request, "model", make_strz(t->s->choice.model));
    make_put(request, "messages", *messages);
    make_put(request, "tools", *make_arr(a, 0));
    make_put(request, "params", *make_obj(a, 0));
    return request;
}

bool turn__is_full(const struct turn *t)
{
    const struct session *s = t->s;
    int64_t percent = config_int(agent__session_config(s), "limits.compact_percent");
    int64_t window = s->choice.facts.context;
    return !t->compacted && percent < 100 && window != 0 && s->context >= window / 100 * percent;
}

void turn__compact(struct turn *t)
{
    struct talk *talk = t->s->talk;
    struct note note;
    struct jw *w;
    assert(talk != NULL && t->call == NULL && !t->compacting);
    size_t tail = t->only_compacts ? 0 : talk_tail(talk), n = talk_messages(talk)->n - tail;
    if (n == 0) {
        size_t cut = !t->only_compacts ? talk_trim(talk, RESULT_MAX) : 0;
        if (cut != 0) {
            w = note__begin(&note, t->s, t, EVENT_SESSION_TRIMMED);
            jw_kint(w, "results", (int64_t)cut);
            jw_kint(w, "max", RESULT_MAX);
            note__end(&note, STORE_WRITTEN, NULL, NULL);
        }
        if (cut != 0 || !t->refused) {
            go_on(t);
        } else {
            turn__fail(t, "CONTEXT_OVERFLOW",
                       "the conversation is too long for the model and cannot "
                       "be made shorter");
        }
        return;
    }
    w = note__begin(&note, t->s, t, EVENT_SESSION_COMPACTING);
    if (t->refused) {
        jw_kbool(w, "refused", true);
    } else if (!t->only_compacts) {
        jw_kint(w, "used", t->s->context);
        jw_kint(w, "window", t->s->choice.facts.context);
    }
    note__end(&note, STORE_WRITTEN, NULL, NULL);
    struct buf text = {.max = SIZE_MAX}, talked = {.max = SIZE_MAX};
    write_talk(&talked, talk_messages(talk), n);
    buf_addz(&text, task);
    buf_adds(&text, buf_str(&talked));
    t->compacting = true;
    t->compact_keep = tail;
    t->request = make_request(t, arena_str(&t->step_arena, buf_str(&text)));
    buf_fini(&text);
    buf_fini(&talked);
    turn__request(t);
}

// ---- asked for ----------------------------------------------------------------------------------

void agent_compact(struct session *s, agent_outcome_cb *cb, void *arg)
{
    struct agent_no no;
    if (!agent__session_usable(s, &no)) {
        // `no` says why
    } else if (s->turn != NULL || s->queue.n != 0) {
        agent_no_set(&no, PROBLEM_TURN_RUNNING, NULL, "a turn runs in session '%s'", s->id);
    } else if (s->state == SESSION_ENDED || s->ending) {
        agent_no_set(&no, PROBLEM_SESSION_ENDED, NULL, "session '%s' has ended", s->id);
    } else if (s->agent->stopping) {
        agent_no_set(&no, PROBLEM_STOPPING, NULL, "the hub is stopping");
    } else if (s->engine != NULL) {
        agent_no_set(&no, PROBLEM_CONFLICT, NULL,
                     "the engine '%s' shortens its conversation itself", s->engine);
    } else {
        struct session_message m = {.text = xstrdup(""), .accepted = true, .compact = true};
        snprintf(m.turn_id, sizeof m.turn_id, "t%llu", (unsigned long long)++s->turns);
        vec_push(&s->queue, m);
        agent_wait(s, m.turn_id, cb, arg);
        agent__session_set_state(s, SESSION_RUNNING);
        agent__session_next(s);
        return;
    }
    cb(arg, NULL, &no);
}
