// Turns: say something, wait, interrupt, steer, decide, answer; and a session's events.
//
//     POST message ── accepted (in the journal) ─┬─ 202 {turn_id}
//                                                ├─ wait: true ── 200 at its end, or when a user is needed
//                                                └─ Accept: text/event-stream ── its events

#include "api/handlers.h"
#include "api/session_int.h"
#include "base/redact.h"

enum { DEFAULT_LIST = 1000, LONGEST_LIST = 10000 };

/// Answer with a stream of the journal after `after`, up to the end of `turn` ("": no end).
static void answer_stream(struct op_call *c, struct session *s, uint64_t after, const char *turn)
{
    struct event_filter f = {.session = str_of(agent_session_id(s)),
                             .journal = true,
                             .shown = agent_session_shown(s),
                             .turn = str_of(turn)};
    op_answer_stream(c, &f, after);
}

static void events(struct op_call *c, struct session *s)
{
    int64_t limit = json_int(json_get(c->params, "limit"), DEFAULT_LIST);
    uint64_t after;
    if (!api__read_after(c, 0, &after)) {
        return;
    }
    if (limit < 1 || limit > LONGEST_LIST) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'limit' must be 1 to %d", LONGEST_LIST);
    } else if (c->wants_stream) {
        answer_stream(c, s, after, "");
    } else {
        agent_events(s, after, (size_t)limit, api__session_text, c);
    }
}

OF_SESSION(SESSION_EVENTS, events)

static void answer_accepted(struct op_call *c, const struct agent_sent *sent)
{
    struct jw *w = api__session_begin(c, NULL);
    jw_kstrz(w, "turn_id", sent->turn_id);
    if (sent->queued) {
        jw_kbool(w, "queued", true);
        jw_kint(w, "position", (int64_t)sent->position);
    }
    op_end_obj(c, 202);
}

/// The answer of `wait: true`.
static void on_outcome(void *arg, const struct agent_outcome *outcome, const struct agent_no *no)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w;
    if (no == NULL) {
        jw_init(&w, &out);
        jw_obj(&w);
        agent_outcome_write(outcome, &w);
        jw_end_obj(&w);
        redact_json(&out);
    }
    api__session_text(arg, buf_str(&out), no);
    buf_fini(&out);
}

static void on_sent(void *arg, const struct agent_sent *sent, const struct agent_no *no)
{
    struct op_call *c = arg;
    if (sent == NULL) {
        api__refuse(c, no);
    } else if (c->wants_stream) {
        answer_stream(c, sent->s, sent->after, sent->turn_id);
    } else if (json_bool(json_get(c->params, "wait"), false)) {
        agent_wait(sent->s, sent->turn_id, on_outcome, c);
    } else {
        answer_accepted(c, sent);
    }
}

static void message(struct op_call *c, struct session *s)
{
    struct str text = json_get_text(c->params, "text");
    struct str busy = json_str(json_get(c->params, "if_busy"), "queue");
    bool reject = str_eqz(busy, "reject");
    const struct json *env = json_get(c->params, "env");
    const struct json *images = json_get(c->params, "images");
    struct agent_no no;
    if (c->turn != NULL) {
        answer_stream(c, s, c->turn_after, c->turn);
    } else if (text.n == 0) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'text' must not be empty");
    } else if (!reject && !str_eqz(busy, "queue")) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'if_busy' must be queue or reject");
    } else if (env != NULL && !agent_session_set_env(s, env, &no)) {
        api__refuse(c, &no);
    } else {
        const struct agent_message m = {.text = text, .images = images, .reject = reject};
        agent_send(s, &m, on_sent, c);
    }
}

OF_SESSION(SESSION_MESSAGE, message)

static void interrupt(struct op_call *c, struct session *s)
{
    agent_interrupt(s);
    op_answer(c, 200, STR("{\"ok\":true}"));
}

OF_SESSION_HERE(SESSION_INTERRUPT, interrupt)

static void steer(struct op_call *c, struct session *s)
{
    struct str text = json_get_text(c->params, "text");
    if (text.n == 0) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'text' must not be empty");
        return;
    }
    agent_steer(s, text, api__session_ok, c);
}

OF_SESSION_HERE(SESSION_STEER, steer)

static void compact(struct op_call *c, struct session *s)
{
    agent_compact(s, on_outcome, c);
}

OF_SESSION_HERE(SESSION_COMPACT, compact)

static void decide(struct op_call *c, struct session *s)
{
    const struct json *p = c->params;
    struct str decision = json_get_text(p, "decision");
    struct agent_decision d = {.allow = str_eqz(decision, "allow"),
                               .reason = json_get_text(p, "reason")};
    if (!d.allow && !str_eqz(decision, "deny")) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL, "'decision' must be allow or deny");
    } else if (!permit_reach_find(json_str(json_get(p, "remember"), "once"), &d.remember)) {
        op_fail(c, PROBLEM_INVALID_BODY, NULL,
                "'remember' must be once, exact, prefix, tool or project");
    } else {
        agent_decide(s, json_get_text(p, "request_id"), &d, api__session_ok, c);
    }
}

OF_SESSION_HERE(SESSION_PERMISSION, decide)

static void answer(struct op_call *c, struct session *s)
{
    const struct json *p = c->params;
    agent_answer(s, json_get_text(p, "question_id"), json_get(p, "answer"), api__session_ok, c);
}

OF_SESSION_HERE(SESSION_ANSWER, answer)
