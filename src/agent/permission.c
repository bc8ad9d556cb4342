// May a call run? The mode, plugins, rules and the user decide.
//
//     the mode, and what the tool asks for itself ─┐
//     on_permission: deny > ask > allow ───────────┼─> the strictest ─┬─ allow ─> it runs
//     a deny or ask rule ──────────────────────────┘                  ├─ deny ──> a failed result
//                                            an allow rule covers it? └─ ask ───> the user
//
// Rules come from [[permission]] in the configuration and from earlier answers (permit/). A question says
// what each answer covers. It is journaled before a client sees it, and the decision before anything relies on
// it. If no answer comes within session.answer_s, or the turn ends first, the call is denied, and that is
// journaled. The tool `ask_user` asks in the same way. Outside of a session there is no mode and no user to ask: a
// call that would need a question does not run. A call of a subagent uses the mode and the rules of the session that
// the user talks to, and asks there.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "agent/tool_int.h"
#include "base/path.h"

// ---- rules --------------------------------------------------------------------------------------

void agent__read_rules(struct agent *a)
{
    struct config_diags faults;
    config_diags_init(&faults);
    rules_fini(&a->rules);
    rules_init(&a->rules);
    a->rules_fault.code = 0;
    rules_read(&a->rules, a->o.hub->config->now, &faults);
    if (faults.n != 0) {
        const struct config_diag *it = &faults.p[0];
        err_set(&a->rules_fault, ERR_INVALID, "%s:%u: %s", it->path, it->line, it->message);
    }
    config_diags_fini(&faults);
}

static struct permit_call call_of(const struct tool_call *c)
{
    const struct session *s = tool_call__session(c->site);
    const char *dir = s == NULL ? c->site->dir : s->real_dir != NULL ? s->real_dir : s->working_dir;
    const struct json *call = tool_call__about(c);
    return (struct permit_call){.tool = json_get_text(call, "tool_name"),
                                .input = json_get(call, "input"),
                                .working_dir = dir != NULL ? dir : "/",
                                .session = s != NULL ? agent__session_root(s)->id : "",
                                .file = c->file,
                                .writes = c->writes};
}

// ---- decided without a question -----------------------------------------------------------------

/// Begin the event of a question or its answer, in the session that the user talks to.
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
    jw_kstr(w, "tool", json_get_text(tool_call__about(c), "tool_name"));
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

/// Its question gets no answer, for the reason `why`: end the call, or the inquiry of the tool that runs.
static void give_up(struct tool_call *c, enum ask_kind kind, const char *why)
{
    bool running = kind == ASK_PERMISSION ? inquiry__decided(c, why)
                   : c->inquiries != NULL ? inquiry__answered(c, c->n_asked, STR("null"))
                                          : false;
    if (!running) {
        tool_call_finish(c, STR(""), why);
    }
}

// ---- asking the user ----------------------------------------------------------------------------

bool tool_call__can_ask(const struct tool_call *c)
{
    return c->site->turn != NULL && !agent__session_root(c->site->turn->s)->role.autonomous;
}

/// Set the number of open questions: the session is `waiting` while there is one. The store lists sessions by their
/// state, so a change is saved.
static void count_asking(struct turn *t, size_t n)
{
    bool changed = (n != 0) != (t->n_asking != 0);
    t->n_asking = n;
    agent__session_set_state(t->s, n != 0 ? SESSION_WAITING : SESSION_RUNNING);
    if (changed) {
        agent__session_save(t->s, NULL, NULL);
    }
}

/// The call does not wait for the user any more.
static void stop_waiting(struct tool_call *c)
{
    struct turn *t = turn__root(c->site->turn);
    assert(c->asking != ASK_NOTHING && t->n_asking != 0);
    c->asking = ASK_NOTHING;
    c->diff = STR_NULL; // it was the preview; the result has the real one
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
        deny(c, "nobody", "no answer in time");
    } else {
        note_answer(c, NULL, NULL, NULL);
        give_up(c, kind, "no answer in time");
    }
}

/// The question is in the journal: tell the callers that wait for the turn.
static void on_asked(void *arg, int status, const struct err *e)
{
    struct tool_call *c = arg;
    if (c->asking == ASK_NOTHING) {
        return;
    }
    if (status < 0) { // no client can see it
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
    timer_init(&c->patience, s->agent->o.hub->loop, on_impatient, c);
    timer_start(&c->patience, (uint64_t)patience_s * 1000);
    count_asking(t, t->n_asking + 1);
}

/// Must the user be asked about every such call, whatever rules say? The question shows a change to a guarded file or
/// to the description of the tool.
static bool needs_question(const struct tool_call *c)
{
    return !inquiry__is_judged(c) && (c->guarded || c->entry->changed.n != 0);
}

/// Write the members of a question: what would run, what it would change and what each answer covers; or the question
/// of `ask_user`.
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
        jw_kstr(w, "question", json_get_text(call.input, "question"));
        jw_kvalue(w, "choices", json_get(call.input, "choices"));
        return;
    }
    size_t n = rules_offers(&call, c->site->arena, offers);
    jw_kvalue(w, "call", tool_call__about(c));
    if (c->diff.n != 0) {
        jw_kstr(w, "diff", c->diff);
    }
    jw_karr(w, "offers");
    n = needs_question(c) ? 1 : n;
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
    const char *by = !needs_question(c) ? c->asked_by : c->guarded ? "sandbox" : "mcp";
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
        tool_call_finish(c, STR(""), "no user is there to answer: decide for yourself");
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

/// May commands use the network without a question? Then other tools may, too.
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

/// The strictest verdict is to ask: do that, or deny the call where nobody can be asked.
static void ask_or_deny(struct tool_call *c, const char *by)
{
    const struct tool *tool = c->entry->tool;
    c->asked_by = by;
    c->diff = needs_question(c) && c->entry->changed.n != 0 ? c->entry->changed : c->diff;
    if (c->site->turn == NULL) {
        tool_call__fail(c, CALL_UNASKED, "it needs approval, and there is no session to ask in");
    } else if (!tool_call__can_ask(c)) {
        deny(c, "policy", "it needs approval, and this bot works alone");
    } else if (tool->ops->work != NULL && tool->effect == TOOL_WRITES) {
        tool_call__preview(c);
    } else {
        tool_call__ask(c);
    }
}

/// What the rules say about a call; `*rule` is the one that decides, NULL for none.
static enum permit_verdict by_rules(const struct tool_call *c, const struct rule **rule)
{
    const struct book_project *project = c->site->rules;
    const struct rules *const lists[] = {&c->site->agent->rules,
                                         project != NULL ? book_rules(project) : NULL};
    const struct permit_call call = call_of(c);
    *rule = NULL;
    return rules_judge(lists, project != NULL ? 2 : 1, &call, c->site->arena, rule);
}

static const char *rule_text(const struct tool_call *c, const struct rule *rule)
{
    const char *match = rule != NULL && rule->match != NULL ? rule->match : "";
    return rule == NULL ? "several rules"
                        : arena_printf(c->site->arena, "rule %s: %s%s%s", rule->id, rule->tool,
                                       match[0] != '\0' ? " " : "", match);
}

/// Decide: on_permission has run, c->file and c->writes are known.
static void judge(struct tool_call *c)
{
    const struct rule *rule;
    enum permit_verdict ruled = by_rules(c, &rule);
    enum permit_verdict v = by_mode(c);
    v = c->pipe.run.result == HOOK_ASK ? MAX(v, PERMIT_ASK) : v;
    if (v == PERMIT_DENY) {
        bool plan = agent__session_root(c->site->turn->s)->permission == PERMISSION_PLAN;
        deny(c, "policy",
             plan ? "plan mode: nothing is written, run or sent; describe what you would do"
                  : "permission = \"deny\"");
    } else if (ruled == PERMIT_DENY) {
        deny(c, "policy", rule_text(c, rule));
    } else if (!needs_question(c) && ruled != PERMIT_ASK &&
               (v == PERMIT_ALLOW || ruled == PERMIT_ALLOW)) {
        if (!inquiry__decided(c, NULL)) {
            tool_call__resolve(c);
        }
    } else {
        ask_or_deny(c, pipe_by(&c->pipe));
    }
}

/// Looks up the real paths of the files of a call, on a thread: a dead network mount never answers.
struct call_look {
    struct tool_call *c; // NULL: it was cancelled
    struct agent *agent;
    vec(char *) files; // of its redirections; the first is its file if it names one
};

static void find_files(void *arg)
{
    struct call_look *l = arg;
    vec_foreach (it, &l->files) {
        char *real = path_real(*it);
        free(*it);
        *it = real;
    }
}

static void on_files(void *arg)
{
    struct call_look *l = arg;
    struct agent *a = l->agent;
    struct tool_call *c = l->c;
    if (c != NULL) {
        bool named = c->file != NULL;
        const char **real = arena_calloc(c->site->arena, l->files.n + 1, sizeof *real);
        for (size_t i = 0; i < l->files.n; i++) {
            real[i] = arena_strdup(c->site->arena, str_of(l->files.p[i]));
        }
        c->look = NULL;
        c->file = named ? real[0] : NULL;
        c->writes = named ? real + 1 : real;
        judge(c);
    }
    vec_fini_each(&l->files, free);
    free(l);
    agent__release(a);
}

void tool_call__stop_looking(struct tool_call *c)
{
    if (c->look != NULL) {
        c->look->c = NULL;
        c->look = NULL;
    }
}

static void on_permission(struct pipe *p, void *arg)
{
    struct tool_call *c = arg;
    struct agent *a = c->site->agent;
    const char *by = pipe_by(p);
    if (p->run.result == HOOK_DENY) {
        deny(c, by != NULL ? by : "a plugin",
             arena_strdup(c->site->arena, str_of(p->run.fault.msg)));
        return;
    }
    const struct permit_call call = call_of(c);
    c->file = rules_file(&call, c->site->arena);
    c->writes = rules_writes(&call, c->site->arena);
    if (c->file == NULL && c->writes == NULL) {
        judge(c);
        return;
    }
    assert(c->look == NULL);
    struct call_look *l = c->look = xcalloc(1, sizeof *l);
    l->c = c;
    l->agent = a;
    if (c->file != NULL) {
        vec_push(&l->files, xstrdup(c->file));
    }
    for (const char *const *w = c->writes; w != NULL && *w != NULL; w++) {
        vec_push(&l->files, xstrdup(*w));
    }
    agent__hold(a);
    work_submit(a->tools, work_mount_key(l->files.p[0]), find_files, on_files, l);
}

void tool_call__permit(struct tool_call *c)
{
    tool_call__raise(c, POINT_PERMISSION, NULL, on_permission);
}

// ---- the user answers ---------------------------------------------------------------------------

/// A decision or an answer on its way into the journal.
struct deciding {
    struct tool_call *c; // NULL: its turn is over
    bool question, allow;
    uint64_t inquiry;  // n_asked of a running tool; 0: it does not run
    char *json;        // the answer to a question
    struct rule rule;  // to remember, in the step's arena; its `tool` is NULL when there is none
    char *text;        // the reason, or the answer as the model reads it
    agent_done_cb *cb; // NULL: a rule decided
    void *arg;
};

/// The next call of the turn, or of its subagents, that asks; NULL: there is no more. `at` begins as 0.
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

/// The call that asked `id`; NULL: there is none, and `cb` was told.
static struct tool_call *find_ask(struct session *s, struct str id, enum ask_kind kind,
                                  agent_done_cb *cb, void *arg)
{
    const char *what = kind == ASK_PERMISSION ? "permission request" : "question";
    struct str number = str_from(id, 1); // permissions and questions are counted together
    struct agent_no no;
    uint64_t n = 0;
    size_t at = 0;
    bool open = false;
    for (struct tool_call *c; (c = next_ask(s->turn, &at)) != NULL;) {
        if (c->asking == kind && str_eqz(id, c->ask_id)) {
            return c;
        }
        open = open || str_eqz(number, c->ask_id + 1);
    }
    bool is_of_kind = id.n != 0 && id.p[0] == (kind == ASK_PERMISSION ? 'p' : 'q');
    bool was = is_of_kind && !open && str_to_u64(number, &n) && n != 0 && n <= s->asks;
    agent_no_set(&no, was ? PROBLEM_ALREADY_DECIDED : PROBLEM_NOT_FOUND, NULL,
                 was ? "%s '%.*s' was decided already" : "there is no %s '%.*s'", what,
                 (int)MIN(id.n, (size_t)40), id.p);
    cb(arg, &no);
    return NULL;
}

/// The decision is in the journal (`status` 0) and, if the user wanted that, remembered (`rule_fault` NULL).
static void deciding_end(struct deciding *q, int status, const struct err *e,
                         const struct err *rule_fault)
{
    struct deciding d = *q;
    struct agent_no no;
    free(q);
    if (agent__no_store(&no, status, e) == NULL && rule_fault != NULL) {
        agent_no_set(&no, PROBLEM_STORE_FAILED, "the answer applies to this call only",
                     "the answer cannot be remembered: %s", rule_fault->msg);
    }
    if (d.cb != NULL) {
        d.cb(d.arg, status < 0 || rule_fault != NULL ? &no : NULL);
    }
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

/// The decision about a call that asked, on its way into the journal from here.
static struct deciding *begin_deciding(struct tool_call *c, const struct deciding *d)
{
    struct deciding *q = c->deciding = xmalloc(sizeof *q);
    *q = *d;
    q->c = c;
    q->inquiry = c->inquiries != NULL ? c->n_asked : 0;
    stop_waiting(c);
    return q;
}

static void on_ruled(void *arg, int status, const struct err *e)
{
    deciding_end(arg, status, e, NULL);
}

/// The first call of the session that asks what the rules decide; NULL: there is none.
static struct tool_call *find_ruled(const struct session *s, enum permit_verdict *ruled,
                                    const struct rule **rule)
{
    size_t at = 0;
    for (struct tool_call *c; (c = next_ask(s->turn, &at)) != NULL;) {
        bool may = c->asking == ASK_PERMISSION && !needs_question(c);
        *ruled = may ? by_rules(c, rule) : PERMIT_ASK;
        if (*ruled == PERMIT_ALLOW || *ruled == PERMIT_DENY) {
            return c;
        }
    }
    return NULL;
}

/// A rule was added: it also decides about the calls that ask already.
static void settle_ruled(const struct session *s)
{
    enum permit_verdict ruled;
    const struct rule *rule;
    for (struct tool_call *c; (c = find_ruled(s, &ruled, &rule)) != NULL;) {
        const char *why = rule_text(c, rule);
        if (ruled == PERMIT_DENY) {
            stop_waiting(c);
            deny(c, "policy", why);
        } else {
            struct deciding *q =
                begin_deciding(c, &(struct deciding){.allow = true, .text = xstrdup("")});
            note_decision(c, true, "policy", why, NULL, on_ruled, q);
        }
    }
}

static void on_remembered(void *arg, const struct rule *r, const struct err *e)
{
    struct deciding *q = arg;
    if (r != NULL && q->c != NULL) { // before it ends: its call keeps the turn
        settle_ruled(agent__session_root(q->c->site->turn->s));
    }
    deciding_end(q, 0, NULL, r == NULL ? e : NULL);
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
        (needs_question(c) || !rules_make(&call, d->remember, d->allow ? PERMIT_ALLOW : PERMIT_DENY,
                                          c->site->arena, &rule))) {
        agent_no_set(
            &no, PROBLEM_INVALID_BODY, "'offers' of permission.requested lists the answers",
            "'remember': \"%s\" was not offered for this call", permit_reach_name(d->remember));
        cb(arg, &no);
        return;
    }
    struct deciding *q = begin_deciding(
        c, &(struct deciding){
               .allow = d->allow, .rule = rule, .text = str_dup(d->reason), .cb = cb, .arg = arg});
    note_decision(c, d->allow, "person", q->text, permit_reach_name(d->remember), on_decided, q);
}

void agent_answer(struct session *s, struct str question_id, const struct json *answer,
                  agent_done_cb *cb, void *arg)
{
    struct tool_call *c = find_ask(s, question_id, ASK_QUESTION, cb, arg);
    struct buf text = {.max = SIZE_MAX};
    if (c == NULL) {
        return;
    }
    struct deciding *q =
        begin_deciding(c, &(struct deciding){.question = true, .cb = cb, .arg = arg});
    json_write(&text, answer, 0);
    q->json = buf_take(&text, NULL);
    q->text = answer != NULL && answer->type == JSON_STR ? str_dup(answer->s) : xstrdup(q->json);
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
