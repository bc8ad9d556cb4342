// May a call run? The mode, plugins, rules and people decide.
//
//     the mode, and what the tool asks for itself ─┐
//     on_permission: deny > ask > allow ───────────┼─> the strictest ─┬─ allow ─> it runs
//     a deny or ask rule ──────────────────────────┘                  ├─ deny ──> a failed result
//                                            an allow rule covers it? └─ ask ───> a person
//
// Rules come from [[permission]] in the configuration and from earlier answers (permit/). A question says
// what each answer covers. It is in the journal before anybody sees it, and so is the decision before
// anything relies on it. No answer within session.answer_s, or the turn ends first: denied, and journaled.
// The tool `ask_user` asks in the same way. Outside of a session there is no mode, and nobody to ask: what
// would need a question does not run. A call of a subagent goes by the mode and the rules of the session that
// a person talks to, and asks there.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "agent/tool_int.h"

// ---- rules --------------------------------------------------------------------------------------

void agent__read_rules(struct agent *a)
{
    size_t at = 0;
    const struct config_entry *c;
    rules_fini(&a->rules);
    rules_init(&a->rules);
    a->rules_fault.code = 0;
    while ((c = config_next(a->o.config->now, &at)) != NULL) {
        if (!str_starts(str_of(c->key), "permission.")) {
            continue;
        }
        const struct json *match = json_get(c->value, "match"); // its pattern is checked here
        struct rule r = {.id = c->key,
                         .tool = json_str(json_get(c->value, "tool"), "").p,
                         .match = match != NULL ? json_str(match, "").p : NULL};
        bool known = permit_verdict_find(json_str(json_get(c->value, "decision"), ""), &r.decision);
        assert(known); // the configuration has checked the members
        (void)known;
        if (rules_add(&a->rules, &r, &a->rules_fault) < 0) {
            err_prefix(&a->rules_fault, "%s:%u: 'match' of [[permission]]", c->path, c->line);
        }
    }
}

static struct permit_call call_of(const struct tool_call *c)
{
    const struct session *s = tool_call__session(c->site);
    const char *dir = s == NULL ? c->site->dir : s->real_dir != NULL ? s->real_dir : s->working_dir;
    const struct json *call = tool_call__about(c);
    return (struct permit_call){.tool = json_str(json_get(call, "tool_name"), ""),
                                .input = json_get(call, "input"),
                                .working_dir = dir != NULL ? dir : "/",
                                .session = s != NULL ? agent__session_root(s)->id : ""};
}

static enum permit_verdict by_rules(const struct tool_call *c, const struct rule **by)
{
    const struct book_project *project = c->site->rules;
    const struct rules *const lists[] = {&c->site->agent->rules,
                                         project != NULL ? book_rules(project) : NULL};
    const struct permit_call call = call_of(c);
    return rules_judge(lists, project != NULL ? 2 : 1, &call, c->site->arena, by);
}

// ---- decided without a person -------------------------------------------------------------------

/// A question or its answer, where a person reads it.
static struct jw *begin_note(struct note *n, const struct tool_call *c, enum event_id event)
{
    struct turn *t = turn__root(c->site->turn);
    return note__begin(n, t->s, t, event);
}

static void note_decision(struct tool_call *c, bool allow, const char *by, const char *reason,
                          const char *remember_as, note_done *done, void *arg)
{
    struct turn *t = c->site->turn;
    struct note n;
    if (t == NULL) {
        return;
    }
    bool asked = c->ask_id[0] != '\0';
    struct jw *w = asked ? begin_note(&n, c, EVENT_PERMISSION_DECIDED)
                         : note__begin(&n, t->s, t, EVENT_PERMISSION_DECIDED);
    if (asked) {
        jw_kstrz(w, "request_id", c->ask_id);
    }
    jw_kstr(w, "call_id", c->id);
    jw_kstr(w, "tool", json_str(json_get(tool_call__about(c), "tool_name"), ""));
    jw_kstrz(w, "decision", allow ? "allow" : "deny");
    jw_kstrz(w, "by", by);
    if (reason != NULL && reason[0] != '\0') {
        jw_kstrz(w, "reason", reason);
    }
    if (remember_as != NULL) {
        jw_kstrz(w, "remember", remember_as);
    }
    note__end(&n, STORE_SYNCED, done, arg);
}

static void deny(struct tool_call *c, const char *by, const char *reason)
{
    const char *why =
        arena_printf(c->site->arena, "denied by %s%s%s", by, reason[0] != '\0' ? ": " : "", reason);
    note_decision(c, false, by, reason, NULL, NULL, NULL);
    if (!inquiry__decided(c, why)) {
        c->denied_by = by;
        c->reason = reason;
        tool_call__fail(c, CALL_DENIED, why);
    }
}

/// Its question stays without an answer, for the reason `why`.
static void give_up(struct tool_call *c, enum ask_kind kind, const char *why)
{
    bool running = kind == ASK_PERMISSION ? inquiry__decided(c, why)
                   : c->inquiries != NULL ? inquiry__answered(c, c->n_asked, STR("null"))
                                          : false;
    if (!running) {
        tool_call_finish(c, STR(""), why);
    }
}

// ---- asking a person ----------------------------------------------------------------------------

bool tool_call__can_ask(const struct tool_call *c)
{
    return c->site->turn != NULL && !agent__session_root(c->site->turn->s)->role.autonomous;
}

/// Count the questions that are open: the session waits while there is one.
static void count_asking(struct turn *t, size_t n)
{
    t->n_asking = n;
    agent__session_set_state(t->s, n != 0 ? SESSION_WAITING : SESSION_RUNNING);
}

/// It waits for nobody any more.
static void stop_waiting(struct tool_call *c)
{
    struct turn *t = turn__root(c->site->turn);
    assert(c->asking != ASK_NOTHING && t->n_asking != 0);
    c->asking = ASK_NOTHING;
    c->diff = STR_NULL; // of what would be; the result says what is
    timer_stop(&c->patience);
    count_asking(t, t->n_asking - 1);
}

static void note_answer(struct tool_call *c, const struct json *answer, note_done *done, void *arg)
{
    struct note n;
    struct jw *w = begin_note(&n, c, EVENT_QUESTION_ANSWERED);
    jw_kstrz(w, "question_id", c->ask_id);
    jw_kvalue(w, "answer", answer);
    note__end(&n, STORE_SYNCED, done, arg);
}

static void on_impatient(void *arg)
{
    struct tool_call *c = arg;
    enum ask_kind kind = c->asking;
    stop_waiting(c);
    if (kind == ASK_PERMISSION) {
        deny(c, "nobody", "no person answered in time");
    } else {
        note_answer(c, NULL, NULL, NULL);
        give_up(c, kind, "nobody answered in time");
    }
}

/// The request is in the journal: those who wait for the turn hear of it.
static void on_asked(void *arg, int status, const struct err *e)
{
    struct tool_call *c = arg;
    if (c->asking == ASK_NOTHING) {
        return;
    }
    if (status < 0) { // nobody can see it
        enum ask_kind kind = c->asking;
        stop_waiting(c);
        give_up(c, kind, e->msg);
        return;
    }
    turn__tell_waiting(turn__root(c->site->turn));
}

static void begin_asking(struct tool_call *c, enum ask_kind kind)
{
    struct turn *t = turn__root(c->site->turn);
    struct session *s = t->s;
    int64_t patience_s = config_int(agent__session_config(s), "session.answer_s");
    assert(c->asking == ASK_NOTHING);
    c->asking = kind;
    snprintf(c->ask_id, sizeof c->ask_id, "%c%llu", kind == ASK_PERMISSION ? 'p' : 'q',
             (unsigned long long)++s->asks);
    timer_init(&c->patience, s->agent->o.loop, on_impatient, c);
    timer_start(&c->patience, (uint64_t)patience_s * 1000);
    count_asking(t, t->n_asking + 1);
}

/// Does the question show a change that each call of its kind has to be asked about?
static bool is_shown(const struct tool_call *c)
{
    return !inquiry__is_judged(c) && (c->guarded || c->entry->changed.n != 0);
}

/// The members of a question: what would run, what it would change, and what each answer covers; or what
/// `ask_user` asks.
static void write_question(const struct tool_call *c, struct jw *w)
{
    struct permit_offer offers[PERMIT__REACHES];
    const struct permit_call call = call_of(c);
    jw_kstrz(w, c->asking == ASK_PERMISSION ? "request_id" : "question_id", c->ask_id);
    if (c->site->turn->s->parent != NULL) {
        jw_kstrz(w, "task", c->site->turn->s->id);
    }
    if (inquiry__write_question(c, w)) {
        return;
    }
    if (c->asking == ASK_QUESTION) {
        jw_kstr(w, "question", json_str(json_get(call.input, "question"), ""));
        jw_kvalue(w, "choices", json_get(call.input, "choices"));
        return;
    }
    size_t n = rules_offers(&call, c->site->arena, offers);
    jw_kvalue(w, "call", tool_call__about(c));
    if (c->diff.n != 0) {
        jw_kstr(w, "diff", c->diff);
    }
    jw_karr(w, "offers");
    n = is_shown(c) ? 1 : n;
    for (size_t i = 0; i < n; i++) {
        jw_obj(w);
        jw_kstrz(w, "remember", permit_reach_name(offers[i].reach));
        jw_kstrz(w, "covers", offers[i].covers);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

void tool_call__ask(struct tool_call *c)
{
    struct note n;
    begin_asking(c, ASK_PERMISSION);
    struct jw *w = begin_note(&n, c, EVENT_PERMISSION_REQUESTED);
    write_question(c, w);
    const char *by = !is_shown(c) ? c->asked_by : c->guarded ? "sandbox" : "mcp";
    if (by != NULL) {
        jw_kstrz(w, "by", by);
    }
    note__end(&n, STORE_SYNCED, on_asked, c);
}

void tool_call__ask_user(struct tool_call *c)
{
    struct note n;
    begin_asking(c, ASK_QUESTION);
    write_question(c, begin_note(&n, c, EVENT_QUESTION_ASKED));
    note__end(&n, STORE_SYNCED, on_asked, c);
}

static void ask_user(struct tool_call *c)
{
    if (tool_call__can_ask(c)) {
        tool_call__ask_user(c);
    } else {
        tool_call_finish(c, STR(""), "nobody is there to answer: decide for yourself");
    }
}

const struct tool_ops tool_ASK_USER = {.start = ask_user, .needs_session = true};

void tool_call__stop_asking(struct tool_call *c)
{
    enum ask_kind kind = c->asking;
    if (kind != ASK_NOTHING) {
        stop_waiting(c);
        if (kind == ASK_PERMISSION) {
            note_decision(c, false, "nobody", "the turn was interrupted", NULL, NULL, NULL);
        } else {
            note_answer(c, NULL, NULL, NULL);
        }
    }
}

// ---- the verdict --------------------------------------------------------------------------------

/// May commands reach the network without a question? Then other tools may, too.
static bool has_network(const struct tool_call *c)
{
    const struct session *s = tool_call__session(c->site);
    if (s == NULL) {
        return config_bool(agent__config_at(c->site->agent, c->site->dir), "sandbox.network");
    }
    s = agent__session_root(s);
    return s->network || s->sandbox == BOX_FULL_ACCESS;
}

static enum permit_verdict by_mode(const struct tool_call *c)
{
    static const enum permit_verdict of_mode[][4] = {
        [PERMISSION_DENY] = {PERMIT_ALLOW, PERMIT_DENY, PERMIT_DENY, PERMIT_DENY},
        [PERMISSION_PLAN] = {PERMIT_ALLOW, PERMIT_DENY, PERMIT_DENY, PERMIT_DENY},
        [PERMISSION_ASK] = {PERMIT_ALLOW, PERMIT_ASK, PERMIT_ASK, PERMIT_ASK},
        [PERMISSION_EDITS] = {PERMIT_ALLOW, PERMIT_ALLOW, PERMIT_ASK, PERMIT_ASK},
        [PERMISSION_AUTO] = {PERMIT_ALLOW, PERMIT_ALLOW, PERMIT_ALLOW, PERMIT_ALLOW}};
    const struct session *s = tool_call__session(c->site);
    bool inquired = inquiry__is_judged(c);
    enum tool_effect effect = inquired ? TOOL_RUNS : c->entry->tool->effect;
    enum permit_verdict v =
        of_mode[s != NULL ? agent__session_root(s)->permission : PERMISSION_AUTO][effect];
    bool asks = !inquired && (c->entry->asks || (effect == TOOL_REACHES && !has_network(c)));
    return MAX(v, asks ? PERMIT_ASK : PERMIT_ALLOW);
}

/// The strictest says ask.
static void ask_or_deny(struct tool_call *c, const char *by)
{
    const struct tool *tool = c->entry->tool;
    c->asked_by = by;
    c->diff = is_shown(c) && c->entry->changed.n != 0 ? c->entry->changed : c->diff;
    if (c->site->turn == NULL) {
        tool_call__fail(c, CALL_UNASKED, "it needs approval, and nobody can be asked");
    } else if (!tool_call__can_ask(c)) {
        deny(c, "policy", "it needs approval, and this bot works alone");
    } else if (tool->ops->work != NULL && tool->effect == TOOL_WRITES) {
        tool_call__preview(c);
    } else {
        tool_call__ask(c);
    }
}

static void on_permission(struct pipe *p, void *arg)
{
    struct tool_call *c = arg;
    struct arena *a = c->site->arena;
    const char *by = pipe_by(p);
    const struct rule *rule = NULL;
    if (p->run.result == HOOK_DENY) {
        deny(c, by != NULL ? by : "a plugin", arena_strdup(a, str_of(p->run.fault.msg)));
        return;
    }
    enum permit_verdict v = by_mode(c), ruled = by_rules(c, &rule);
    v = p->run.result == HOOK_ASK ? MAX(v, PERMIT_ASK) : v;
    if (v == PERMIT_DENY) {
        bool plan = agent__session_root(c->site->turn->s)->permission == PERMISSION_PLAN;
        deny(c, "policy",
             plan ? "plan mode: nothing is written, run or sent; describe what you would do"
                  : "permission = \"deny\"");
    } else if (ruled == PERMIT_DENY) {
        deny(c, "policy",
             arena_printf(a, "rule %s: %s%s%s", rule->id, rule->tool,
                          rule->match != NULL ? " " : "", rule->match != NULL ? rule->match : ""));
    } else if (!is_shown(c) && ruled != PERMIT_ASK &&
               (v == PERMIT_ALLOW || ruled == PERMIT_ALLOW)) {
        if (!inquiry__decided(c, NULL)) {
            tool_call__resolve(c);
        }
    } else {
        ask_or_deny(c, by);
    }
}

void tool_call__permit(struct tool_call *c)
{
    tool_call__raise(c, POINT_PERMISSION, NULL, on_permission);
}

// ---- people answer ------------------------------------------------------------------------------

/// A decision or an answer on its way into the journal.
struct deciding {
    struct session *s;
    struct tool_call *c; // NULL: its turn is over
    bool question, allow;
    uint64_t inquiry; // n_asked of a running tool; 0: it does not run
    char *json;       // the answer to a question
    struct rule rule; // to be remembered; without a tool: none. In the step's arena
    char *text;       // the reason, or what the model reads
    agent_done_cb *cb;
    void *arg;
};

/// The next call of the turn, or of its subagents, that asks; NULL: none. `at` begins as 0.
static struct tool_call *next_ask(const struct turn *t, size_t *at)
{
    size_t skip = *at;
    vec(const struct turn *) turns = {0};
    struct tool_call *found = NULL;
    if (t != NULL) {
        vec_push(&turns, t);
    }
    for (size_t i = 0; i < turns.n && found == NULL; i++) {
        for (size_t k = 0; k < turns.p[i]->site.calls.n && found == NULL; k++) {
            struct tool_call *c = turns.p[i]->site.calls.p[k];
            const struct turn *below = task__turn(c);
            if (below != NULL) {
                vec_push(&turns, below);
            }
            found = c->asking != ASK_NOTHING && skip-- == 0 ? c : NULL;
        }
    }
    vec_fini(&turns);
    *at += 1;
    return found;
}

/// The call that asks this; NULL, answered: nothing does.
static struct tool_call *find_ask(struct session *s, struct str id, enum ask_kind kind,
                                  agent_done_cb *cb, void *arg)
{
    const char *what = kind == ASK_PERMISSION ? "permission request" : "question";
    struct agent_no no;
    uint64_t n = 0;
    size_t at = 0;
    for (struct tool_call *c; (c = next_ask(s->turn, &at)) != NULL;) {
        if (c->asking == kind && str_eqz(id, c->ask_id)) {
            return c;
        }
    }
    bool was = str_to_u64(str_from(id, 1), &n) && n != 0 && n <= s->asks;
    agent__no(&no, was ? PROBLEM_ALREADY_DECIDED : PROBLEM_NOT_FOUND, NULL,
              was ? "%s '%.*s' was decided already" : "there is no %s '%.*s'", what,
              (int)MIN(id.n, (size_t)40), id.p);
    cb(arg, &no);
    return NULL;
}

/// It is in the journal (`status` 0) and, where that was asked for, remembered (`rule_fault` NULL).
static void deciding_end(struct deciding *q, int status, const struct err *e,
                         const struct err *rule_fault)
{
    struct deciding d = *q;
    struct agent_no no;
    free(q);
    if (status < 0) {
        agent__no_store(&no, e);
    } else if (rule_fault != NULL) {
        agent__no(&no, PROBLEM_STORE_FAILED, "it counts for this call",
                  "the answer cannot be remembered: %s", rule_fault->msg);
    }
    d.cb(d.arg, status < 0 || rule_fault != NULL ? &no : NULL);
    if (d.c != NULL) {
        d.c->deciding = NULL;
    }
    bool stale = d.c != NULL && d.inquiry != 0 && d.inquiry != d.c->n_asked;
    if (d.c == NULL || d.c->over || stale) { // interrupted meanwhile, or the tool needs no answer
    } else if (status < 0) {
        give_up(d.c, d.question ? ASK_QUESTION : ASK_PERMISSION, e->msg);
    } else if (d.question) {
        if (!inquiry__answered(d.c, d.inquiry, str_of(d.json))) {
            tool_call_finish(d.c, str_of(d.text), NULL);
        }
    } else if (d.allow) {
        if (!inquiry__decided(d.c, NULL)) {
            tool_call__go_on(d.c);
        }
    } else {
        const char *why = arena_printf(d.c->site->arena, "denied by the user%s%s",
                                       d.text[0] != '\0' ? ": " : "", d.text);
        if (!inquiry__decided(d.c, why)) {
            tool_call__fail(d.c, CALL_DENIED, why);
        }
    }
    free(d.text);
    free(d.json);
}

void tool_call__drop_decision(struct tool_call *c)
{
    if (c->deciding != NULL) {
        c->deciding->c = NULL;
    }
}

static uint64_t inquiry_of(const struct tool_call *c)
{
    return c->inquiries != NULL ? c->n_asked : 0;
}

static void on_remembered(void *arg, const struct rule *r, const struct err *e)
{
    deciding_end(arg, 0, NULL, r == NULL ? e : NULL);
}

static void on_decided(void *arg, int status, const struct err *e)
{
    struct deciding *q = arg;
    if (status == 0 && q->c != NULL && q->rule.tool != NULL) {
        book_add(q->c->site->rules, &q->rule, on_remembered, q);
    } else {
        deciding_end(q, status, e, NULL);
    }
}

void agent_decide(struct session *s, struct str request_id, const struct agent_decision *d,
                  agent_done_cb *cb, void *arg)
{
    struct tool_call *c = find_ask(s, request_id, ASK_PERMISSION, cb, arg);
    struct rule rule = {0};
    struct agent_no no;
    if (c == NULL) {
        return;
    }
    const struct permit_call call = call_of(c);
    if (d->remember != PERMIT_ONCE &&
        (is_shown(c) || !rules_make(&call, d->remember, d->allow ? PERMIT_ALLOW : PERMIT_DENY,
                                    c->site->arena, &rule))) {
        agent__no(&no, PROBLEM_INVALID_BODY, "'offers' of permission.requested lists the answers",
                  "'remember': \"%s\" was not offered for this call",
                  permit_reach_name(d->remember));
        cb(arg, &no);
        return;
    }
    struct deciding *q = xmalloc(sizeof *q);
    *q = (struct deciding){.s = s,
                           .c = c,
                           .allow = d->allow,
                           .inquiry = inquiry_of(c),
                           .rule = rule,
                           .text = str_dup(d->reason),
                           .cb = cb,
                           .arg = arg};
    c->deciding = q;
    stop_waiting(c);
    note_decision(c, d->allow, "person", q->text, permit_reach_name(d->remember), on_decided, q);
}

void agent_answer(struct session *s, struct str question_id, const struct json *answer,
                  agent_done_cb *cb, void *arg)
{
    struct tool_call *c = find_ask(s, question_id, ASK_QUESTION, cb, arg);
    struct buf text;
    if (c == NULL) {
        return;
    }
    struct deciding *q = xmalloc(sizeof *q);
    *q = (struct deciding){
        .s = s, .c = c, .question = true, .inquiry = inquiry_of(c), .cb = cb, .arg = arg};
    buf_init(&text, SIZE_MAX);
    json_write(&text, answer, 0);
    q->json = str_dup(buf_str(&text));
    buf_clear(&text);
    if (answer != NULL && answer->type == JSON_STR) {
        buf_adds(&text, answer->s);
    } else {
        json_write(&text, answer, 0);
    }
    q->text = str_dup(buf_str(&text));
    buf_fini(&text);
    c->deciding = q;
    stop_waiting(c);
    note_answer(c, answer, on_decided, q);
}

// ---- shown --------------------------------------------------------------------------------------

void agent__session_write_pending(const struct session *s, struct jw *w)
{
    size_t at = 0;
    jw_karr(w, "pending");
    for (const struct tool_call *c; (c = next_ask(s->turn, &at)) != NULL;) {
        jw_obj(w);
        write_question(c, w);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}
