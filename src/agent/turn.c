// A turn from its beginning to its end: named steps, each entered from the loop's deferred queue.
//
//     load ─> begin ─> user_message ─> ┌─> prompt ─> before_model ─> request ─> model ─> after_model ─┐
//                                      │      ▲                                    │                  │
//                                      │      └──────────── compact <── too long ──┘                  │
//                                      └───────────────── tools <───────── calls ─────────────────────┤
//                        close <─ done <─ (error) <────────────────────────── final <── no more calls ┘
//
// When an outside agent runs the turn, the step `engine` replaces request, model, after_model and tools.
//
// Every turn ends in `done`, once: all events so far are written (or the turn fails), on_done runs, the last event
// is written and synced, and only then the callers that wait are told. Interrupting cancels what the step waits for.
// What cannot be cancelled (a file being read) is waited for; then turn__resume() sends the turn to its end.
//
// Invariants:
//   - exactly one of these holds: a step is about to be entered (`next`), the step waits for something, or the
//     code of a step runs.
//   - all events of a turn are in the journal before its last one (they are written in order), so no
//     callback of a note comes after the turn is gone.

#include <assert.h>
#include <math.h>
#include <stdarg.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "base/log.h"
#include "base/redact.h"
#include "base/time.h"
#include "base/utf8.h"

static const struct json empty_object = {.type = JSON_OBJ}, empty_array = {.type = JSON_ARR};

// ---- steps --------------------------------------------------------------------------------------

/// How each state is called, and how a turn ends in it.
static const struct {
    const char *name, *end_reason;
    enum event_id last_event;
} states[] = {
    [AGENT_TURN_RUNNING] = {.name = "running"},
    [AGENT_TURN_WAITING] = {.name = "waiting"},
    [AGENT_TURN_COMPLETED] = {"completed", "complete", EVENT_TURN_COMPLETED},
    [AGENT_TURN_FAILED] = {"failed", "failed", EVENT_TURN_FAILED},
    [AGENT_TURN_INTERRUPTED] = {"interrupted", "interrupted", EVENT_TURN_INTERRUPTED},
};

void turn__raise(struct turn *t, enum hook_point_id point, const struct json *value,
                 pipe_done *after)
{
    struct pipe_opts o = {.hooks = t->site.hooks,
                          .loop = t->s->agent->o.hub->loop,
                          .point = point,
                          .ctx = &t->ctx,
                          .arena = &t->step_arena,
                          .a = value,
                          .done = after,
                          .arg = t,
                          .failed = turn__hook_failed,
                          .failed_arg = t};
    pipe_start(&t->pipe, &o);
}

void turn__raise_text(struct turn *t, enum hook_point_id point, struct str text, pipe_done *after)
{
    struct json *value = arena_alloc(&t->step_arena, sizeof *value);
    *value = make_str(text);
    turn__raise(t, point, value, after);
}

void turn__hook_failed(void *arg, const char *unit, const struct hook *h,
                       const struct hook_run *run)
{
    struct turn *t = arg;
    struct note n;
    struct jw *w = note__begin(&n, t->s, t, EVENT_PLUGIN_ERROR);
    jw_kstrz(w, "plugin", unit);
    jw_kstrz(w, "hook", h->point);
    jw_ktext(w, "path", str_of(run->fault.path));
    jw_kint(w, "line", run->fault.line);
    jw_kstrz(w, "message", run->fault.msg);
    if (run->fault.traceback[0] != '\0') {
        jw_kstrz(w, "traceback", run->fault.traceback);
    }
    note__end(&n, STORE_WRITTEN, NULL, NULL);
}

bool turn__fail_if_blocked(struct turn *t, enum hook_point_id point)
{
    const struct pipe *p = &t->pipe;
    if (p->run.result != HOOK_DENY) {
        return false;
    }
    const char *by = pipe_by(p);
    turn__fail(t, "PLUGIN_FAILED", "%s of '%s' failed and blocks: %s", hook_points[point].name,
               by != NULL ? by : "a plugin", p->run.fault.msg);
    return true;
}

/// Note why the turn fails.
static void set_error(struct turn *t, const char *code, const char *text)
{
    snprintf(t->error_code, sizeof t->error_code, "%s", code);
    t->error = arena_str(&t->arena, str_of(text));
    t->state = AGENT_TURN_FAILED;
}

// ---- the beginning ------------------------------------------------------------------------------

/// One of the things that load() asked for is there. After the last one the turn begins.
static void loaded(void *arg)
{
    struct turn *t = arg;
    assert(t->n_loading != 0);
    if (--t->n_loading != 0 || !turn__resume(t)) {
        return;
    }
    if (t->error_code[0] != '\0') {
        turn__go(t, TURN_ERROR);
        return;
    }
    struct note n;
    struct jw *w = note__begin(&n, t->s, t, EVENT_TURN_STARTED);
    jw_kstr(w, "text", t->text);
    talk_mark(t->s->talk, str_of(t->id));
    agent__session_mark(t->s, t);
    if (t->only_compacts) {
        jw_kbool(w, "compact", true);
    } else {
        talk_user(t->s->talk, t->text, t->images);
    }
    if (t->images != NULL) {
        jw_kvalue(w, "images", t->images);
    }
    note__end(&n, STORE_WRITTEN, NULL, NULL);
    if (turn__pin(t)) {
        turn__go(t, TURN_BEGIN);
    }
}

static void fail_loading(struct turn *t, const char *what, const struct err *e)
{
    set_error(t, "STORE_FAILED", arena_printf(&t->arena, "%s cannot be read: %s", what, e->msg));
}

static void on_loaded(struct session *s, int status, const struct err *e, void *arg)
{
    struct turn *t = arg;
    if (status < 0) {
        fail_loading(t, "the journal", e);
    } else {
        agent__session_touch(s);
    }
    loaded(t);
}

static void on_files(struct prompt_files *f, void *arg)
{
    struct turn *t = arg;
    t->files = f;
    agent__session_set_instructions(t->s, f);
    loaded(t);
}

static void on_entered(struct session *s, void *arg)
{
    (void)s;
    loaded(arg);
}

static void on_rules(void *arg, struct book_project *rules, const struct err *e)
{
    struct turn *t = arg;
    t->site.rules = rules;
    const struct err *config = &t->s->agent->rules_fault;
    if (e != NULL || config->code != 0) {
        fail_loading(t, "a permission rule", e != NULL ? e : config);
    }
    loaded(t);
}

static void load(struct turn *t)
{
    struct agent *a = t->s->agent;
    struct agent_no no;
    const struct agent_kit *kit = &a->kit;
    agent__session_hold(t->s); // the policy may be newer than the session
    if (!agent__session_choose(t->s, &no)) {
        turn__fail(t, "PROVIDER_FAILED", "%s", no.detail);
        return;
    }
    t->ctx.model = str_of(t->s->model);
    t->n_loading = 4;
    agent__session_load(t->s, on_loaded, t);
    prompt_files_read(a->files, a->o.hub->home->dir, t->s->working_dir,
                      config_strings(agent__session_config(t->s), "sandbox.hide"), a->o.hub->trust,
                      on_files, t);
    if (t->s->role.bot.n != 0 && kit->learn != NULL) {
        t->n_loading++;
        kit->learn(kit->arg, t->s, &t->lore, loaded, t);
    }
    book_find(a->book, t->s->working_dir, on_rules, t);
    agent__session_enter(t->s, on_entered, t);
}

static void on_begun(struct pipe *p, void *arg)
{
    (void)p;
    turn__go(arg, ((struct turn *)arg)->only_compacts ? TURN_COMPACT : TURN_USER_MESSAGE);
}

static void on_user_message(struct pipe *p, void *arg)
{
    struct turn *t = arg;
    struct note n;
    if (turn__fail_if_blocked(t, POINT_USER_MESSAGE)) {
        return;
    }
    if (p->run.result == HOOK_VALUE) {
        struct str text = arena_str(&t->arena, json_str(pipe_value(p), ""));
        struct jw *w = note__begin(&n, t->s, t, EVENT_MESSAGE_COMPLETED);
        jw_kstrz(w, "role", "user");
        jw_kstr(w, "text", text);
        jw_kstr(w, "original_text", t->text);
        pipe_write_changed(p, w);
        note__end(&n, STORE_WRITTEN, NULL, NULL);
        talk_replace_user(t->s->talk, text);
        t->text = t->ctx.user_text = text;
    }
    turn__go(t, TURN_PROMPT);
}

/// A JSON text that the hub itself wrote, in the turn's arena; NULL for NULL.
static const struct json *parse_own(struct turn *t, const char *text)
{
    struct json *v = NULL;
    int rc = text != NULL
                 ? json_parse(&v, &t->arena, arena_str(&t->arena, str_of(text)), NULL, NULL)
                 : 0;
    assert(rc == 0);
    (void)rc;
    return v;
}

void turn__start(struct session *s, const struct session_message *m)
{
    assert(s->turn == NULL);
    struct turn *t = xcalloc(1, sizeof *t);
    t->s = s;
    memcpy(t->id, m->turn_id, sizeof t->id);
    t->since_ns = time_mono_ns();
    t->only_compacts = m->compact;
    buf_init(&t->delta.text, SIZE_MAX);
    buf_init(&t->engine.said, SIZE_MAX);
    redact_stream_init(&t->delta.secrets);
    t->text = arena_str(&t->arena, str_of(m->text));
    t->images = parse_own(t, m->images);                 // picture.c wrote it
    const struct json *memory = parse_own(t, s->memory); // keep_memory() wrote it
    agent__session_set(&s->memory, STR_NULL);
    t->ctx = (struct hook_ctx){.session_id = str_of(s->id),
                               .turn_id = str_of(t->id),
                               .working_dir = arena_str(&t->arena, str_of(s->working_dir)),
                               .user_text = t->text,
                               .bot = s->role.bot,
                               .state = &empty_object,
                               .memory = memory != NULL ? memory : &empty_array,
                               .arena = &t->arena};
    t->site =
        (struct call_site){.agent = s->agent, .turn = t, .arena = &t->step_arena, .ctx = &t->ctx};
    s->turn = t;
    agent__hold(s->agent);
    turn__go(t, TURN_LOAD);
}

// ---- the end ------------------------------------------------------------------------------------

void turn__fail(struct turn *t, const char *code, const char *fmt, ...)
{
    va_list args;
    char text[600];
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    set_error(t, code, text);
    turn__go(t, TURN_ERROR);
}

bool turn__resume(struct turn *t)
{
    if (t->interrupted) {
        turn__go(t, TURN_DONE);
    }
    return !t->interrupted;
}

void turn__lost(struct turn *t, const struct err *e)
{
    if (t->lost.code == 0) {
        t->lost = *e;
    }
}

void turn__settled(struct turn *t)
{
    if (t != NULL && t->settling) {
        t->settling = false;
        turn__go(t, TURN_DONE);
    }
}

bool turn__fail_if_lost(struct turn *t)
{
    if (t->lost.code != 0) {
        turn__fail(t, "STORE_FAILED", "%s: %s", note__fault(&t->lost), t->lost.msg);
    }
    return t->lost.code != 0;
}

/// Cancel what the step waits for. What cannot be cancelled is waited for: the step sees the interrupt when it comes.
static void cancel_step(struct turn *t)
{
    switch (t->step) {
    case TURN_TOOLS: turn__cancel_tools(t); return;
    case TURN_ENGINE: turn__cancel_engine(t); return;
    case TURN_PROMPT:
        prompt_cancel(t->prompt);
        t->prompt = NULL;
        break;
    case TURN_MODEL: (void)turn__cut_model(t); break;
    case TURN_COMPACT:
        if (t->keeping) {
            return;
        }
        turn__cancel_model(t);
        pipe_cancel(&t->pipe);
        break;
    case TURN_BEGIN:
    case TURN_USER_MESSAGE:
    case TURN_BEFORE_MODEL:
    case TURN_AFTER_MODEL:
    case TURN_FINAL: pipe_cancel(&t->pipe); break;
    default: return;
    }
    turn__go(t, TURN_DONE);
}

void turn__interrupt(struct turn *t)
{
    if (t->interrupted && (t->step == TURN_TOOLS || t->step == TURN_ENGINE)) {
        cancel_step(t); // kill the commands that have not ended
    }
    if (t->interrupted || t->step >= TURN_ERROR) {
        return; // it is about to end
    }
    t->interrupted = true;
    t->state = AGENT_TURN_INTERRUPTED;
    if (t->next != NULL) {
        loop_cancel(t->s->agent->o.hub->loop, t->next);
        t->next = NULL;
        turn__go(t, TURN_DONE);
    } else {
        cancel_step(t);
    }
}

static void on_final(struct pipe *p, void *arg)
{
    struct turn *t = arg;
    if (turn__fail_if_blocked(t, POINT_FINAL)) {
        return;
    }
    struct str text = t->reply.text;
    if (p->run.result == HOOK_VALUE) {
        text = json_str(pipe_value(p), "");
    }
    turn__note_reply(t, text, p->run.result == HOOK_VALUE ? p : NULL);
    t->state = AGENT_TURN_COMPLETED;
    turn__go(t, TURN_DONE);
}

static void on_told(struct pipe *p, void *arg)
{
    (void)p;
    turn__go(arg, TURN_DONE);
}

static void tell_error(struct turn *t)
{
    struct json *error = make_obj(&t->arena, 3);
    make_put(error, "code", make_strz(t->error_code));
    make_put(error, "message", make_str(t->error));
    make_put(error, "where", make_strz("turn"));
    turn__raise(t, POINT_ERROR, error, on_told);
}

static void on_done(struct pipe *p, void *arg)
{
    (void)p;
    turn__go(arg, TURN_CLOSE);
}

static void done(struct turn *t)
{
    // The last step is over and journaled; its request and answer may be large.
    arena_fini(&t->step_arena);
    t->request = NULL;
    t->reply = (struct turn_reply){0};
    t->settling = t->s->notes.head != NULL;
    if (t->settling) {
        return;
    }
    if (t->state == AGENT_TURN_COMPLETED && turn__fail_if_lost(t)) {
        return;
    }
    t->ctx.outcome = str_of(states[t->state].name);
    turn__raise(t, POINT_DONE, NULL, on_done);
}

// ---- the outcome --------------------------------------------------------------------------------

static void write_final(struct str text, uint64_t left_out, struct jw *w)
{
    jw_kstr(w, "text", text);
    if (left_out != 0) {
        jw_kint(w, "left_out", (int64_t)left_out);
    }
}

void agent_outcome_write(const struct agent_outcome *o, struct jw *w)
{
    jw_kstrz(w, "turn_id", o->turn_id);
    jw_kstrz(w, "state", states[o->state].name);
    write_final(o->text, o->left_out, w);
    agent__session_write_usage(w, &o->usage, o->cost);
    jw_karr(w, "tool_calls");
    for (size_t i = 0; i < o->n_calls; i++) {
        const struct agent_call *c = &o->calls[i];
        jw_obj(w);
        jw_kstr(w, "call_id", c->id);
        jw_kstr(w, "tool", c->tool);
        jw_kvalue(w, "input", c->input);
        jw_kbool(w, "success", c->success);
        jw_kstrz(w, "error", c->error.p);
        jw_kint(w, "duration_ms", c->duration_ms);
        jw_end_obj(w);
    }
    jw_end_arr(w);
    if (o->state == AGENT_TURN_WAITING) {
        agent__session_write_pending(o->s, w);
    }
    if (o->state == AGENT_TURN_FAILED) {
        note__put_error(w, o->error_code, o->error);
    }
}

static struct agent_outcome outcome_of(const struct turn *t, enum agent_turn_state state)
{
    return (struct agent_outcome){.s = t->s,
                                  .turn_id = t->id,
                                  .state = state,
                                  .text = t->final,
                                  .left_out = t->final_left_out,
                                  .usage = t->usage,
                                  .cost = t->cost,
                                  .calls = t->calls.p,
                                  .n_calls = t->calls.n,
                                  .error_code = t->error_code,
                                  .error = t->error};
}

void turn__tell_waiting(struct turn *t)
{
    const struct agent_outcome o = outcome_of(t, AGENT_TURN_WAITING);
    agent__session_answer(t->s, &o);
}

static void turn_free(struct turn *t)
{
    assert(t->s->turn != t && t->next == NULL && t->call == NULL && t->prompt == NULL &&
           !t->keeping);
    turn__free_tools(t);
    turn__free_pictures(t);
    pipe_fini(&t->pipe);
    tool_call__site_fini(&t->site);
    prompt_files_free(t->files);
    skills_fini(&t->lore.skills);
    buf_fini(&t->delta.text);
    buf_fini(&t->engine.said);
    redact_stream_fini(&t->delta.secrets);
    vec_fini(&t->calls);
    arena_fini(&t->arena);
    arena_fini(&t->step_arena);
    arena_fini(&t->unit_arena);
    free(t);
}

/// Keep what plugins added to ctx.memory after the last request: the first request of the next turn gets it.
static void keep_memory(struct turn *t)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w;
    if (t->ctx.memory->n <= t->remembered) {
        return;
    }
    jw_init(&w, &out);
    jw_arr(&w);
    for (size_t i = t->remembered; i < t->ctx.memory->n; i++) {
        jw_value(&w, &t->ctx.memory->items[i]);
    }
    jw_end_arr(&w);
    agent__session_set(&t->s->memory, buf_str(&out));
    buf_fini(&out);
}

static void on_closed(void *arg, int status, const struct err *e)
{
    struct turn *t = arg;
    struct session *s = t->s;
    struct agent *a = s->agent;
    keep_memory(t);
    if (status < 0) { // after a restart the journal does not know how the turn ended
        set_error(t, "STORE_FAILED", arena_printf(&t->arena, "%s: %s", note__fault(e), e->msg));
    }
    // `final` is in the conversation, which may be freed first
    if (agent__session_awaited(s, t->id)) {
        t->final = arena_str(&t->arena, t->final);
    }
    s->turn = NULL;
    agent__session_touch(s);
    agent__session_next(s);
    const struct agent_outcome o = outcome_of(t, t->state);
    agent__session_answer(s, &o);
    if (t->lost.code != 0) {
        agent__session_cool(s); // the next turn reads the conversation from the journal
    }
    turn_free(t);
    agent__release(a);
}

static void close_turn(struct turn *t)
{
    struct session *s = t->s;
    struct note n;
    assert(states[t->state].end_reason != NULL && t->n_open == 0);
    struct jw *w = note__begin(&n, s, t, states[t->state].last_event);
    if (t->state == AGENT_TURN_COMPLETED) {
        agent__session_set_summary(&s->response_summary, t->final);
        write_final(t->final, t->final_left_out, w);
    } else if (t->state == AGENT_TURN_FAILED) {
        note__put_error(w, t->error_code, t->error);
    }
    if (s->talk != NULL) {
        talk_hear(s->talk, SIZE_MAX);
    }
    if (s->talk != NULL && t->state == AGENT_TURN_INTERRUPTED) {
        talk_interrupted(s->talk);
    }
    agent__session_write_usage(w, &t->usage, t->cost);
    jw_kint(w, "duration_ms", (int64_t)((time_mono_ns() - t->since_ns) / 1000000));
    jw_kint(w, "request", (int64_t)s->requests);
    s->end_reason = states[t->state].end_reason;
    note__end(&n, STORE_SYNCED, on_closed, t);
}

// ---- from step to step --------------------------------------------------------------------------

static const char *const step_names[] = {
#define X(id, name) [TURN_##id] = (name),
    TURN_STEPS(X)
#undef X
};

static void on_next(void *arg)
{
    struct turn *t = arg;
    t->next = NULL;
    log_debug(LOG_HUB, "session=%s turn=%s step=%s", t->s->id, t->id, step_names[t->step]);
    switch (t->step) {
    case TURN_LOAD: load(t); break;
    case TURN_BEGIN: turn__raise(t, POINT_BEGIN, NULL, on_begun); break;
    case TURN_USER_MESSAGE:
        turn__raise_text(t, POINT_USER_MESSAGE, t->text, on_user_message);
        break;
    case TURN_PROMPT: turn__prompt(t); break;
    case TURN_BEFORE_MODEL: turn__before_model(t); break;
    case TURN_REQUEST: turn__request(t); break;
    case TURN_MODEL: assert(false); break; // never entered: turn__ask() sets it
    case TURN_AFTER_MODEL: turn__after_model(t); break;
    case TURN_TOOLS: turn__tools(t); break;
    case TURN_ENGINE: turn__engine(t); break;
    case TURN_COMPACT: turn__compact(t); break;
    case TURN_FINAL: turn__raise_text(t, POINT_FINAL, t->reply.text, on_final); break;
    case TURN_ERROR: tell_error(t); break;
    case TURN_DONE: done(t); break;
    case TURN_CLOSE: close_turn(t); break;
    }
}

void turn__go(struct turn *t, enum turn_step step)
{
    assert(t->next == NULL && t->s->turn == t); // one step after the other
    t->step = step;
    t->next = loop_defer(t->s->agent->o.hub->loop, on_next, t);
}
