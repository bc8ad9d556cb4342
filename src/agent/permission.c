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
// The tool `ask_user` asks in the same way.

#include <assert.h>

#include "agent/make.h"
#include "agent/use_int.h"

// ---- rules --------------------------------------------------------------------------------------

/// Take one element of [[permission]]. The configuration has checked its members; the pattern is ours.
static int read_rule(struct rules *out, const struct config_entry *c, struct err *e)
{
    struct str match = json_str(json_get(c->value, "match"), "");
    struct rule r = {.id = c->key,
                     .tool = json_str(json_get(c->value, "tool"), "").p,
                     .match = json_get(c->value, "match") != NULL ? match.p : NULL};
    bool known = permit_verdict_find(json_str(json_get(c->value, "decision"), ""), &r.decision);
    assert(known);
    (void)known;
    return rules_add(out, &r, e);
}

void agent__read_rules(struct agent *a)
{
    size_t at = 0;
    const struct config_entry *c;
    rules_fini(&a->rules);
    rules_init(&a->rules);
    a->rules_fault.code = 0;
    while ((c = config_next(a->o.config, &at)) != NULL) {
        if (str_starts(str_of(c->key), "permission.") &&
            read_rule(&a->rules, c, &a->rules_fault) < 0) {
            err_prefix(&a->rules_fault, "%s:%u: 'match' of [[permission]]", c->path, c->line);
        }
    }
}

static struct permit_call call_of(const struct use *u)
{
    const struct session *s = u->t->s;
    return (struct permit_call){.tool = u->name,
                                .input = json_get(u->call, "input"),
                                .working_dir = s->real_dir != NULL ? s->real_dir : s->working_dir,
                                .session = s->id};
}

static enum permit_verdict by_rules(const struct use *u, const struct rule **by)
{
    const struct rules *const lists[] = {&u->t->s->agent->rules, book_rules(u->t->rules)};
    const struct permit_call c = call_of(u);
    return rules_judge(lists, ARRAY_LEN(lists), &c, &u->t->step_arena, by);
}

// ---- decided without a person -------------------------------------------------------------------

static void note_decision(struct use *u, bool allow, const char *by, const char *reason,
                          const char *remember_as, note_done *done, void *arg)
{
    struct note n;
    struct jw *w = note__begin(&n, u->t->s, u->t, EVENT_PERMISSION_DECIDED);
    if (u->ask_id[0] != '\0') {
        jw_kstrz(w, "request_id", u->ask_id);
    }
    jw_kstr(w, "call_id", u->id);
    jw_kstr(w, "tool", u->name);
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

static void deny(struct use *u, const char *by, const char *reason)
{
    const char *why = arena_printf(&u->t->step_arena, "denied by %s%s%s", by,
                                   reason[0] != '\0' ? ": " : "", reason);
    note_decision(u, false, by, reason, NULL, NULL, NULL);
    use__finish(u, STR(""), false, why);
}

// ---- asking a person ----------------------------------------------------------------------------

static void state_after_ask(struct turn *t)
{
    agent__session_set_state(t->s, t->n_asking != 0 ? SESSION_WAITING : SESSION_RUNNING);
}

/// It waits for nobody any more.
static void stop_waiting(struct use *u)
{
    u->asking = ASK_NOTHING;
    u->diff = STR_NULL; // of what would be; the result says what is
    u->t->n_asking--;
    timer_stop(&u->patience);
    state_after_ask(u->t);
}

static void note_answer(struct use *u, const struct json *answer, note_done *done, void *arg)
{
    struct note n;
    struct jw *w = note__begin(&n, u->t->s, u->t, EVENT_QUESTION_ANSWERED);
    jw_kstrz(w, "question_id", u->ask_id);
    jw_key(w, "answer");
    jw_value(w, answer);
    note__end(&n, STORE_SYNCED, done, arg);
}

static void on_impatient(void *arg)
{
    struct use *u = arg;
    enum ask_kind kind = u->asking;
    stop_waiting(u);
    if (kind == ASK_PERMISSION) {
        deny(u, "nobody", "no person answered in time");
    } else {
        note_answer(u, NULL, NULL, NULL);
        use__finish(u, STR(""), false, "nobody answered in time");
    }
}

/// The request is in the journal: those who wait for the turn hear of it.
static void on_asked(void *arg, int status, const struct err *e)
{
    struct use *u = arg;
    if (u->asking == ASK_NOTHING) {
        return;
    }
    if (status < 0) { // nobody can see it
        stop_waiting(u);
        use__finish(u, STR(""), false, e->msg);
        return;
    }
    turn__tell_waiting(u->t);
}

static void begin_asking(struct use *u, enum ask_kind kind)
{
    struct session *s = u->t->s;
    int64_t patience_s = config_int(agent__session_config(s), "session.answer_s");
    u->asking = kind;
    u->t->n_asking++;
    snprintf(u->ask_id, sizeof u->ask_id, "%c%llu", kind == ASK_PERMISSION ? 'p' : 'q',
             (unsigned long long)++s->asks);
    timer_init(&u->patience, s->agent->o.loop, on_impatient, u);
    timer_start(&u->patience, (uint64_t)patience_s * 1000);
    state_after_ask(u->t);
}

/// What would run, what it would change, and what each answer covers.
static void write_question(const struct use *u, struct jw *w)
{
    struct permit_offer offers[PERMIT__REACHES];
    const struct permit_call c = call_of(u);
    size_t n = rules_offers(&c, &u->t->step_arena, offers);
    jw_key(w, "call");
    jw_value(w, u->call);
    if (u->diff.n != 0) {
        jw_kstr(w, "diff", u->diff);
    }
    jw_key(w, "offers");
    jw_arr(w);
    n = u->guarded ? 1 : n; // each such change is one to look at
    for (size_t i = 0; i < n; i++) {
        jw_obj(w);
        jw_kstrz(w, "remember", permit_reach_name(offers[i].reach));
        jw_kstrz(w, "covers", offers[i].covers);
        jw_end_obj(w);
    }
    jw_end_arr(w);
}

void use__ask(struct use *u)
{
    struct note n;
    begin_asking(u, ASK_PERMISSION);
    struct jw *w = note__begin(&n, u->t->s, u->t, EVENT_PERMISSION_REQUESTED);
    jw_kstrz(w, "request_id", u->ask_id);
    write_question(u, w);
    if (u->guarded || u->asked_by != NULL) {
        jw_kstrz(w, "by", u->guarded ? "sandbox" : u->asked_by);
    }
    note__end(&n, STORE_SYNCED, on_asked, u);
}

void use__ask_user(struct use *u, const struct json *input)
{
    struct note n;
    if (u->t->s->role.autonomous) {
        use__finish(u, STR(""), false, "nobody is there to answer: decide for yourself");
        return;
    }
    begin_asking(u, ASK_QUESTION);
    struct jw *w = note__begin(&n, u->t->s, u->t, EVENT_QUESTION_ASKED);
    jw_kstrz(w, "question_id", u->ask_id);
    jw_kstr(w, "question", json_str(json_get(input, "question"), ""));
    jw_key(w, "choices");
    jw_value(w, json_get(input, "choices"));
    note__end(&n, STORE_SYNCED, on_asked, u);
}

void use__stop_asking(struct use *u)
{
    enum ask_kind kind = u->asking;
    if (kind != ASK_NOTHING) {
        stop_waiting(u);
        if (kind == ASK_PERMISSION) {
            note_decision(u, false, "nobody", "the turn was interrupted", NULL, NULL, NULL);
        } else {
            note_answer(u, NULL, NULL, NULL);
        }
    }
}

// ---- the verdict --------------------------------------------------------------------------------

static enum permit_verdict by_mode(const struct use *u)
{
    static const enum permit_verdict of_mode[][3] = {
        [PERMISSION_DENY] = {PERMIT_ALLOW, PERMIT_DENY, PERMIT_DENY},
        [PERMISSION_PLAN] = {PERMIT_ALLOW, PERMIT_DENY, PERMIT_DENY},
        [PERMISSION_ASK] = {PERMIT_ALLOW, PERMIT_ASK, PERMIT_ASK},
        [PERMISSION_EDITS] = {PERMIT_ALLOW, PERMIT_ALLOW, PERMIT_ASK},
        [PERMISSION_AUTO] = {PERMIT_ALLOW, PERMIT_ALLOW, PERMIT_ALLOW}};
    enum permit_verdict v = of_mode[u->t->s->permission][u->tool->effect];
    return MAX(v, u->tool->asks ? PERMIT_ASK : PERMIT_ALLOW);
}

static void deny_by_mode(struct use *u)
{
    bool plan = u->t->s->permission == PERMISSION_PLAN;
    deny(u, "policy",
         plan ? "plan mode: nothing is written, run or sent; describe what you would do"
              : "permission = \"deny\"");
}

static void deny_by_rule(struct use *u, const struct rule *r)
{
    deny(u, "policy",
         arena_printf(&u->t->step_arena, "rule %s: %s%s%s", r->id, r->tool,
                      r->match != NULL ? " " : "", r->match != NULL ? r->match : ""));
}

static void on_permission(struct pipe *p, void *arg)
{
    struct use *u = arg;
    const char *by = pipe_by(p);
    const struct rule *rule = NULL;
    if (p->run.result == HOOK_DENY) {
        const char *reason = arena_strdup(&u->t->step_arena, str_of(p->run.fault.msg));
        deny(u, by != NULL ? by : "a plugin", reason);
        return;
    }
    enum permit_verdict v = by_mode(u), ruled = by_rules(u, &rule);
    v = p->run.result == HOOK_ASK ? MAX(v, PERMIT_ASK) : v;
    if (v == PERMIT_DENY) {
        deny_by_mode(u);
    } else if (ruled == PERMIT_DENY) {
        deny_by_rule(u, rule);
    } else if (ruled != PERMIT_ASK && (v == PERMIT_ALLOW || ruled == PERMIT_ALLOW)) {
        use__resolve(u);
    } else if (u->t->s->role.autonomous) {
        deny(u, "policy", "it needs approval, and this bot works alone");
    } else {
        bool writes = u->tool->builtin != NULL && u->tool->effect == TOOL_WRITES;
        u->asked_by = by;
        writes ? use__preview(u) : use__ask(u);
    }
}

void use__permit(struct use *u)
{
    struct turn *t = u->t;
    struct pipe_opts o = {.hooks = t->hooks,
                          .loop = t->s->agent->o.loop,
                          .point = POINT_PERMISSION,
                          .ctx = &t->ctx,
                          .arena = &t->step_arena,
                          .a = u->call,
                          .subject = u->name,
                          .done = on_permission,
                          .arg = u,
                          .failed = turn__hook_failed,
                          .failed_arg = t};
    pipe_start(&u->pipe, &o);
}

// ---- people answer ------------------------------------------------------------------------------

/// A decision or an answer on its way into the journal.
struct deciding {
    struct session *s;
    struct use *u; // NULL: its turn is over
    bool question, allow;
    struct rule rule; // to be remembered; without a tool: none. In the step's arena
    char *text;       // the reason, or what the model reads
    agent_text_cb *cb;
    void *arg;
};

static struct use *find_ask(struct session *s, struct str id, enum ask_kind kind)
{
    for (size_t i = 0; s->turn != NULL && i < s->turn->uses.n; i++) {
        struct use *u = s->turn->uses.p[i];
        if (u->asking == kind && str_eqz(id, u->ask_id)) {
            return u;
        }
    }
    return NULL;
}

static void refuse(struct session *s, struct str id, const char *what, agent_text_cb *cb, void *arg)
{
    struct agent_no no;
    uint64_t n = 0;
    bool was = str_to_u64(str_from(id, 1), &n) && n != 0 && n <= s->asks;
    agent__no(&no, was ? PROBLEM_ALREADY_DECIDED : PROBLEM_NOT_FOUND, NULL,
              was ? "%s '%.*s' was decided already" : "there is no %s '%.*s'", what,
              (int)MIN(id.n, (size_t)40), id.p);
    cb(arg, STR_NULL, &no);
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
    d.cb(d.arg, STR("{\"ok\":true}"), status < 0 || rule_fault != NULL ? &no : NULL);
    if (d.u != NULL) {
        d.u->deciding = NULL;
    }
    if (d.u == NULL || d.u->over) { // interrupted meanwhile
    } else if (status < 0) {
        use__finish(d.u, STR(""), false, e->msg);
    } else if (d.question) {
        use__finish(d.u, str_of(d.text), true, NULL);
    } else if (d.allow) {
        use__go_on(d.u);
    } else {
        const char *why = arena_printf(&d.u->t->step_arena, "denied by the user%s%s",
                                       d.text[0] != '\0' ? ": " : "", d.text);
        use__finish(d.u, STR(""), false, why);
    }
    free(d.text);
}

void use__drop_decision(struct use *u)
{
    if (u->deciding != NULL) {
        u->deciding->u = NULL;
    }
}

static void on_remembered(void *arg, const struct rule *r, const struct err *e)
{
    deciding_end(arg, 0, NULL, r == NULL ? e : NULL);
}

static void on_decided(void *arg, int status, const struct err *e)
{
    struct deciding *q = arg;
    if (status == 0 && q->u != NULL && q->rule.tool != NULL) {
        book_add(q->u->t->rules, &q->rule, on_remembered, q);
    } else {
        deciding_end(q, status, e, NULL);
    }
}

void agent_decide(struct session *s, struct str request_id, const struct agent_decision *d,
                  agent_text_cb *cb, void *arg)
{
    struct use *u = find_ask(s, request_id, ASK_PERMISSION);
    struct rule rule = {0};
    struct agent_no no;
    if (u == NULL) {
        refuse(s, request_id, "permission request", cb, arg);
        return;
    }
    const struct permit_call call = call_of(u);
    if (d->remember != PERMIT_ONCE &&
        (u->guarded || !rules_make(&call, d->remember, d->allow ? PERMIT_ALLOW : PERMIT_DENY,
                                   &u->t->step_arena, &rule))) {
        agent__no(&no, PROBLEM_INVALID_BODY, "'offers' of permission.requested lists the answers",
                  "'remember': \"%s\" was not offered for this call",
                  permit_reach_name(d->remember));
        cb(arg, STR_NULL, &no);
        return;
    }
    struct deciding *q = xcalloc(1, sizeof *q);
    *q = (struct deciding){.s = s,
                           .u = u,
                           .allow = d->allow,
                           .rule = rule,
                           .text = str_dup(d->reason),
                           .cb = cb,
                           .arg = arg};
    u->deciding = q;
    stop_waiting(u);
    note_decision(u, d->allow, "person", q->text, permit_reach_name(d->remember), on_decided, q);
}

void agent_answer(struct session *s, struct str question_id, const struct json *answer,
                  agent_text_cb *cb, void *arg)
{
    struct use *u = find_ask(s, question_id, ASK_QUESTION);
    struct buf text;
    if (u == NULL) {
        refuse(s, question_id, "question", cb, arg);
        return;
    }
    struct deciding *q = xcalloc(1, sizeof *q);
    *q = (struct deciding){.s = s, .u = u, .question = true, .cb = cb, .arg = arg};
    buf_init(&text, SIZE_MAX);
    if (answer != NULL && answer->type == JSON_STR) {
        buf_adds(&text, answer->s);
    } else {
        json_write(&text, answer, 0);
    }
    q->text = str_dup(buf_str(&text));
    buf_fini(&text);
    u->deciding = q;
    stop_waiting(u);
    note_answer(u, answer, on_decided, q);
}

// ---- shown --------------------------------------------------------------------------------------

void agent__session_write_pending(const struct session *s, struct jw *w)
{
    jw_key(w, "pending");
    jw_arr(w);
    for (size_t i = 0; s->turn != NULL && i < s->turn->uses.n; i++) {
        const struct use *u = s->turn->uses.p[i];
        if (u->asking == ASK_NOTHING) {
            continue;
        }
        const struct json *input = json_get(u->call, "input");
        jw_obj(w);
        if (u->asking == ASK_PERMISSION) {
            jw_kstrz(w, "request_id", u->ask_id);
            write_question(u, w);
        } else {
            jw_kstrz(w, "question_id", u->ask_id);
            jw_kstr(w, "question", json_str(json_get(input, "question"), ""));
            jw_key(w, "choices");
            jw_value(w, json_get(input, "choices"));
        }
        jw_end_obj(w);
    }
    jw_end_arr(w);
}
