// May a call run, and who is asked: policy, plugins, people.
//
//     the mode (auto, ask, deny) and the tool's own wish ─┐
//     on_permission: deny > ask > allow ──────────────────┴─> the strictest ─┬─ allow ─> it runs
//                                                                            ├─ deny ──> a failed result
//                                                            remembered? ──> └─ ask ───> a person
//
// A request to a person is in the journal before anybody sees it, and so is the decision before anything
// relies on it. Nobody answers within session.answer_s, or the turn ends first: denied, and journaled.
// The tool `ask_user` asks in the same way.

#include "agent/make.h"
#include "agent/use_int.h"
#include "base/sha256.h"
#include "store/choices.h"

enum verdict { ALLOW, ASK, DENY };

// ---- remembered ---------------------------------------------------------------------------------

/// How a decision for a project is called in choices.json.
static const char *project_key(const struct use *u, struct arena *a)
{
    struct sha256 sum;
    uint8_t hash[SHA256_SIZE];
    char hex[SHA256_HEX];
    sha256_init(&sum);
    sha256_add(&sum, u->t->s->working_dir, strlen(u->t->s->working_dir));
    sha256_final(&sum, hash);
    return arena_printf(a, "permissions." STR_FMT ".%.16s", STR_ARG(u->name),
                        sha256_hex(hash, hex));
}

/// What a person said about this tool before; ASK: nothing.
static enum verdict remembered(const struct use *u)
{
    const struct session *s = u->t->s;
    const char *key = project_key(u, &u->t->step_arena);
    const struct json *project = choices_get(s->agent->o.choices, str_of(key));
    vec_foreach (m, &s->remembered) {
        if (str_eqz(u->name, m->tool)) {
            return m->allow ? ALLOW : DENY;
        }
    }
    return project == NULL ? ASK : json_bool(project, false) ? ALLOW : DENY;
}

static void remember(struct use *u, bool allow, enum agent_remember how)
{
    struct session *s = u->t->s;
    if (how == AGENT_SESSION) {
        struct talk_memory m = {.tool = str_dup(u->name), .allow = allow};
        vec_push(&s->remembered, m);
    } else if (how == AGENT_PROJECT) {
        const char *key = project_key(u, &u->t->step_arena);
        choices_set(s->agent->o.choices, str_of(key), allow ? STR("true") : STR("false"), NULL,
                    NULL);
    }
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

static void ask_person(struct use *u, const char *by)
{
    struct note n;
    begin_asking(u, ASK_PERMISSION);
    struct jw *w = note__begin(&n, u->t->s, u->t, EVENT_PERMISSION_REQUESTED);
    jw_kstrz(w, "request_id", u->ask_id);
    jw_key(w, "call");
    jw_value(w, u->call);
    if (by != NULL) {
        jw_kstrz(w, "by", by);
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

static enum verdict by_mode(const struct use *u)
{
    static const enum verdict of_mode[] = {
        [PERMISSION_DENY] = DENY, [PERMISSION_ASK] = ASK, [PERMISSION_AUTO] = ALLOW};
    enum verdict v = u->tool->effect == TOOL_READS ? ALLOW : of_mode[u->t->s->permission];
    return MAX(v, u->tool->asks ? ASK : ALLOW);
}

static void on_permission(struct pipe *p, void *arg)
{
    struct use *u = arg;
    const char *by = pipe_by(p);
    enum verdict v = by_mode(u);
    if (p->run.result == HOOK_DENY) {
        const char *reason = arena_strdup(&u->t->step_arena, str_of(p->run.fault.msg));
        deny(u, by != NULL ? by : "a plugin", reason);
        return;
    }
    v = p->run.result == HOOK_ASK ? MAX(v, ASK) : v;
    v = v == ASK ? remembered(u) : v;
    if (v == DENY) {
        bool policy = u->t->s->permission == PERMISSION_DENY;
        deny(u, policy ? "policy" : "person", policy ? "permission = \"deny\"" : "remembered");
    } else if (v == ASK && u->t->s->role.autonomous) {
        deny(u, "policy", "it wants a person's permission, and this bot works alone");
    } else if (v == ASK) {
        ask_person(u, by);
    } else {
        use__resolve(u);
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
    struct use *u;
    bool question, allow;
    enum agent_remember remember;
    char *text; // the reason, or what the model reads
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

static void on_decided(void *arg, int status, const struct err *e)
{
    struct deciding d = *(struct deciding *)arg;
    struct agent_no no;
    free(arg);
    if (status < 0) {
        agent__no(&no, PROBLEM_STORE_FAILED, NULL, "%s", e->msg);
    } else if (!d.question) {
        remember(d.u, d.allow, d.remember);
    }
    d.cb(d.arg, STR("{\"ok\":true}"), status < 0 ? &no : NULL);
    if (d.u->over) { // interrupted meanwhile
    } else if (status < 0) {
        use__finish(d.u, STR(""), false, e->msg);
    } else if (d.question) {
        use__finish(d.u, str_of(d.text), true, NULL);
    } else if (d.allow) {
        use__resolve(d.u);
    } else {
        const char *why = arena_printf(&d.u->t->step_arena, "denied by a person%s%s",
                                       d.text[0] != '\0' ? ": " : "", d.text);
        use__finish(d.u, STR(""), false, why);
    }
    free(d.text);
}

void agent_decide(struct session *s, struct str request_id, const struct agent_decision *d,
                  agent_text_cb *cb, void *arg)
{
    static const char *const names[] = {
        [AGENT_ONCE] = "once", [AGENT_SESSION] = "session", [AGENT_PROJECT] = "project"};
    struct use *u = find_ask(s, request_id, ASK_PERMISSION);
    if (u == NULL) {
        refuse(s, request_id, "permission request", cb, arg);
        return;
    }
    struct deciding *q = xcalloc(1, sizeof *q);
    *q = (struct deciding){.s = s,
                           .u = u,
                           .allow = d->allow,
                           .remember = d->remember,
                           .text = str_dup(d->reason),
                           .cb = cb,
                           .arg = arg};
    stop_waiting(u);
    note_decision(u, d->allow, "person", q->text, names[d->remember], on_decided, q);
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
            jw_key(w, "call");
            jw_value(w, u->call);
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
