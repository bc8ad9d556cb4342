// A turn that an outside agent runs: what it reports becomes our events, its calls go through our pipeline.
//
//     environ ──> thread (session_engine.c) ──turn──> on_delta ─────> message.delta, on_model_delta
//                                                     on_message ───> message.completed
//                                                     on_call ──────> the pipeline of tool_call.c ─┐
//                                                     on_end ──> final       allow, refuse, answer <┘
//
// A call is a tool_call like any other: on_tool_call, the schema, permissions, on_resolve_tool, the record for a
// rewind. Only running it differs: a tool of ours runs here; a call that the engine runs itself (an *errand*) is
// allowed, and its result is waited for. So rules, hooks and the user decide about both in the same way.
//
// The last message is held back until the turn ends, because on_final may change it; whatever comes after it makes it
// an earlier one. In the conversation each call is in a message of its own before its result, since an engine may have
// several calls under way.
//
// Invariants:
//   - `under_way` is true from turn() until on_end or on_died; `n_open` counts calls whose results are not on the disk.
//     The turn continues when the engine has ended and no call is open, once: leave().
//   - nothing that the engine says at any other time is used.

#include <assert.h>

#include "agent/agent_int.h"
#include "agent/make.h"
#include "base/redact.h"

enum { STOP_MS = 5000, ID_MAX = 200 };

/// A call that the engine runs itself.
struct engine_errand {
    enum engine_runner runner;
    enum tool_effect effect; // used when the tool is not one of ours
    struct str tool;         // as the engine asked for it
    bool started;            // the pipeline lets it run
    bool over;               // the engine has reported the result
    struct str output, diff;
    const char *error;
};

// ---- the end ------------------------------------------------------------------------------------

/// Journal the message that is held back: another one follows, or the turn does not complete.
static void note_held(struct turn *t)
{
    if (t->engine.has_held) {
        t->engine.has_held = false;
        turn__set_reply(t, t->engine.held);
        turn__note_reply(t, t->engine.held, NULL);
    }
}

/// Continue the turn, if neither the engine nor a call is under way.
static void leave(struct turn *t)
{
    struct turn_engine *g = &t->engine;
    if (g->under_way || t->n_open != 0 || t->step != TURN_ENGINE) {
        return;
    }
    timer_stop(&g->patience);
    agent__engine_rest(t->s);
    talk_hear(t->s->talk, SIZE_MAX);
    if (g->end != ENGINE_COMPLETED || g->stopped != NULL || t->interrupted) {
        note_held(t);
    }
    if (t->interrupted) {
        turn__go(t, TURN_DONE);
    } else if (g->stopped != NULL) {
        turn__fail(t, g->stopped, "%s", t->error.p);
    } else if (g->end == ENGINE_INTERRUPTED) {
        turn__fail(t, "ENGINE_FAILED", "the engine ended the turn");
    } else {
        turn__set_reply(t, g->has_held ? g->held : STR(""));
        turn__go(t, TURN_FINAL);
    }
}

/// The engine has ended the turn, or its process is gone.
static void end_turn(struct turn *t, enum engine_end end)
{
    t->engine.under_way = false;
    t->engine.end = end;
    turn__flush_deltas(t);
    turn__cancel_tools(t); // the engine does not wait for their results any more
    leave(t);
}

/// End the process: it does not answer, or the user interrupted twice.
static void kill_engine(struct turn *t)
{
    agent__engine_close(t->s);
    end_turn(t, ENGINE_FAILED);
}

static void set_stopped(struct turn *t, const char *code, const char *text)
{
    struct turn_engine *g = &t->engine;
    if (g->stopped == NULL) {
        g->stopped = code;
        t->error = arena_str(&t->arena, str_of(text));
    }
}

static void on_impatient(void *arg)
{
    struct turn *t = arg;
    if (!t->engine.told_to_end) {
        set_stopped(t, "ENGINE_IDLE", "the engine said nothing for too long ([retry] idle_ms)");
    }
    kill_engine(t);
}

/// The engine said something: restart the timer that ends a silent one. While calls run it may be silent for long.
static void restart_patience(struct turn *t)
{
    struct turn_engine *g = &t->engine;
    if (g->told_to_end) {
        return; // it has STOP_MS for that
    }
    timer_stop(&g->patience);
    if (t->n_open == 0) {
        timer_start(&g->patience, t->s->choice.retry.idle_ms);
    }
}

static void tell_to_end(struct turn *t)
{
    struct engine_thread *th = t->s->live->thread;
    t->engine.told_to_end = true;
    timer_start(&t->engine.patience, STOP_MS);
    th->ops->interrupt(th);
    turn__cancel_tools(t);
}

void turn__stop_engine(struct turn *t, const char *code, const char *why)
{
    set_stopped(t, code, why);
    if (t->engine.under_way && !t->engine.told_to_end) {
        tell_to_end(t);
    }
}

void turn__cancel_engine(struct turn *t)
{
    const struct agent_host *h = &t->s->agent->o.host;
    struct turn_engine *g = &t->engine;
    if (g->look != NULL) {
        agent__engine_stop_looking(g->look);
        g->look = NULL;
        turn__go(t, TURN_DONE);
    } else if (g->dressing) {
        g->dressing = false;
        h->forget_environ(h->arg, t->s, t);
        turn__go(t, TURN_DONE);
    } else if (!g->under_way) {
        turn__cancel_tools(t);
    } else if (g->told_to_end) {
        kill_engine(t); // asked twice
    } else {
        tell_to_end(t);
    }
}

// ---- calls that the engine runs -----------------------------------------------------------------

static void finish_errand(struct tool_call *c)
{
    struct engine_errand *e = c->errand;
    c->diff = e->diff;
    tool_call_finish(c, e->output, e->error);
}

static void start_errand(struct tool_call *c)
{
    struct turn *t = c->site->turn;
    struct engine_errand *e = c->errand;
    struct session_engine *live = t->s->live;
    bool renamed = !str_eq(c->name, e->tool);
    bool changed = renamed || !json_equal(tool_call_input(c), c->said);
    if (!t->engine.under_way || live == NULL) {
        tool_call_finish(c, STR(""), "interrupted");
    } else if (changed && (renamed || e->runner == ENGINE_RAN || !live->kind->edits)) {
        tool_call__fail(c, CALL_DENIED,
                        "a plugin changed the call, and this engine runs only what it asked for");
    } else {
        e->started = true;
        if (e->runner == ENGINE_ASKS) {
            live->thread->ops->allow(live->thread, c->id, changed ? tool_call_input(c) : NULL);
        }
        if (e->over) {
            finish_errand(c);
        }
    }
}

static bool cancel_errand(struct tool_call *c)
{
    (void)c; // the engine itself is told to end its turn
    return true;
}

const struct tool_entry *turn__engine_entry(struct tool_call *c, struct str name,
                                            const struct tool_entry *known)
{
    static const struct tool_ops ops = {.start = start_errand, .cancel = cancel_errand};
    static const struct tool tools[] = {{.effect = TOOL_READS, .ops = &ops},
                                        {.effect = TOOL_WRITES, .ops = &ops},
                                        {.effect = TOOL_RUNS, .ops = &ops},
                                        {.effect = TOOL_REACHES, .ops = &ops}};
    if (known == NULL && tool_find(name) != NULL) {
        return NULL; // switched off for this session
    }
    struct tool_entry *e = arena_calloc(c->site->arena, 1, sizeof *e);
    *e = known != NULL ? *known : (struct tool_entry){.name = name};
    e->tool = &tools[known != NULL ? known->tool->effect : c->errand->effect];
    e->schema = NULL;
    return e;
}

/// What the model reads about a call that does not run: the error, or a plugin's answer in its place.
static struct str refusal_of(const struct tool_call *c)
{
    struct str error = json_get_text(c->result, "error");
    return error.n != 0 ? error : json_get_text(c->result, "output");
}

/// The result is on the disk, or could not be written: now the engine may have it.
static void on_result_synced(void *arg, int status, const struct err *e)
{
    struct tool_call *c = arg;
    struct turn *t = c->site->turn;
    struct session_engine *live = t->s->live;
    (void)status; // a lost event fails the turn at its end
    (void)e;
    assert(t->n_open != 0);
    t->n_open--;
    if (t->engine.under_way && live != NULL && c->end != CALL_CANCELLED) {
        struct engine_thread *th = live->thread;
        struct str output = json_get_text(c->result, "output");
        bool success = json_bool(json_get(c->result, "success"), true);
        if (c->errand == NULL) {
            th->ops->answer(th, c->id, success || output.n != 0 ? output : refusal_of(c), success);
        } else if (!c->errand->started && c->errand->runner == ENGINE_ASKS) {
            th->ops->refuse(th, c->id, refusal_of(c));
        } else if (!c->errand->started) {
            struct str why = refusal_of(c);
            turn__stop_engine(t, "PERMISSION_DENIED",
                              arena_printf(&t->step_arena,
                                           "the engine ran '" STR_FMT
                                           "' without asking, which is not allowed: %.*s",
                                           STR_ARG(c->name), (int)MIN(why.n, (size_t)500), why.p));
        }
        restart_patience(t);
    }
    leave(t);
}

/// Put the call into the conversation, in a message of its own right before its result.
static void note_call(struct tool_call *c)
{
    struct turn *t = c->site->turn;
    struct str final = t->final;
    struct json *content = make_arr(&t->step_arena, 1), *item = make_obj(&t->step_arena, 4);
    make_put(item, "type", make_strz("tool_call"));
    make_put(item, "id", make_str(c->id));
    make_put(item, "name", make_str(c->name));
    make_put(item, "input", *tool_call_input(c));
    make_push(content, *item);
    t->reply = (struct turn_reply){.text = STR(""), .content = content};
    turn__note_reply(t, STR(""), NULL);
    t->final = final;
}

static void on_call_ended(struct tool_call *c)
{
    if (c->errand != NULL && !c->errand->over) {
        c->diff = STR_NULL; // whether it changed anything is unknown
    }
    if (c->noted) {
        note_call(c);
        turn__tell_result(c);
    }
    turn__note_result(c, on_result_synced, c);
    tool_call__start_waiting(c->site);
}

// ---- what the engine reports --------------------------------------------------------------------

/// The turn that the engine runs; NULL: none.
static struct turn *turn_of(const struct session *s)
{
    struct turn *t = s->turn;
    return t != NULL && t->step == TURN_ENGINE && t->engine.under_way ? t : NULL;
}

/// The engine said something: the turn that takes it. NULL: it is ignored, because no turn runs or it is being ended.
static struct turn *hear_engine(const struct session *s)
{
    struct turn *t = turn_of(s);
    if (t == NULL) {
        return NULL;
    }
    restart_patience(t);
    return t->engine.told_to_end ? NULL : t;
}

static struct tool_call *find_call(const struct turn *t, struct str id)
{
    for (size_t i = t->site.calls.n; i-- > 0;) {
        if (str_eq(t->site.calls.p[i]->id, id)) {
            return t->site.calls.p[i];
        }
    }
    return NULL;
}

static void on_thread(void *arg, struct str id, bool resumed)
{
    struct session *s = arg;
    struct note n;
    s->live->known = true;
    if (str_eq(str_of(s->engine_thread), id)) {
        return;
    }
    if (s->engine_thread != NULL && !resumed) {
        struct jw *w = note__begin(&n, s, s->turn, EVENT_SESSION_UPDATED);
        jw_kstr(w, "engine_thread", id);
        jw_kstrz(w, "reason",
                 "the engine lost its conversation: a new one was told the past as text");
        note__end(&n, STORE_WRITTEN, NULL, NULL);
    }
    agent__session_set(&s->engine_thread, id);
    agent__session_save(s, NULL, NULL);
}

static void on_delta(void *arg, const struct provider_delta *d)
{
    struct turn *t = hear_engine(arg);
    if (t != NULL) {
        note_held(t);
        turn__delta(t, d);
    }
}

static void on_void(void *arg, struct str why)
{
    struct turn *t = hear_engine(arg);
    struct note n;
    if (t == NULL) {
        return;
    }
    turn__flush_deltas(t);
    struct jw *w = note__begin(&n, t->s, t, EVENT_MESSAGE_ABORTED);
    if (why.n != 0) {
        note__put_error(w, "ENGINE_RETRY", why);
    }
    note__end(&n, STORE_WRITTEN, NULL, NULL);
}

static void on_message(void *arg, struct str text)
{
    struct turn *t = hear_engine(arg);
    if (t != NULL) {
        turn__flush_deltas(t);
        note_held(t);
        t->engine.held = arena_str(&t->step_arena, text);
        t->engine.has_held = true;
    }
}

static void on_call(void *arg, const struct engine_call *call)
{
    struct session *s = arg;
    struct turn *t = hear_engine(s);
    if (t == NULL || call->id.n > ID_MAX) { // no turn wants it
        struct engine_thread *th = s->live->thread;
        if (call->runner == ENGINE_ASKS) {
            th->ops->refuse(th, call->id, STR("interrupted"));
        } else if (call->runner == ENGINE_OURS) {
            th->ops->answer(th, call->id, STR("interrupted"), false);
        }
        return;
    }
    struct arena *a = &t->step_arena;
    turn__flush_deltas(t);
    note_held(t);
    struct tool_call *c =
        tool_call__new(&t->site, arena_str(a, call->id), json_clone(a, call->input));
    struct str name = arena_str(a, call->tool);
    if (call->runner != ENGINE_OURS) {
        c->errand = arena_calloc(a, 1, sizeof *c->errand);
        *c->errand =
            (struct engine_errand){.runner = call->runner, .effect = call->effect, .tool = name};
        c->diff = arena_str(a, call->diff);
    }
    t->n_open++;
    t->engine.wants_more = true;
    restart_patience(t);
    tool_call__begin(c, name, NULL);
}

static void on_progress(void *arg, struct str id, struct str text)
{
    struct turn *t = hear_engine(arg);
    struct tool_call *c = t != NULL ? find_call(t, id) : NULL;
    if (c != NULL && !c->over) {
        tool_call__tell_progress(c, text);
    }
}

static struct str clean_text(struct turn *t, struct str text)
{
    struct buf out = {.max = SIZE_MAX};
    redact_text(&out, text);
    struct str kept = tool_call__clip(&t->step_arena, buf_str(&out));
    kept = arena_str(&t->step_arena, kept);
    buf_fini(&out);
    return kept;
}

static void on_result(void *arg, struct str id, struct str output, struct str error,
                      struct str diff)
{
    struct turn *t = hear_engine(arg);
    struct tool_call *c = t != NULL ? find_call(t, id) : NULL;
    if (c == NULL || c->errand == NULL || c->over || c->errand->over) {
        return;
    }
    struct engine_errand *e = c->errand;
    e->over = true;
    e->output = clean_text(t, output);
    e->diff = clean_text(t, diff);
    e->error = error.n != 0 ? clean_text(t, error).p : NULL;
    if (e->started) {
        finish_errand(c);
    }
}

static void on_usage(void *arg, const struct provider_usage *u, int64_t window)
{
    struct turn *t = hear_engine(arg);
    if (t == NULL) {
        return;
    }
    struct session *s = t->s;
    s->choice.facts.context = window > 0 ? window : s->choice.facts.context;
    s->requests++;
    if (t->engine.counted) { // turn__prompt() counted the first one
        turn__count_step(t);
    }
    t->engine.counted = true;
    turn__count(t, u, true);
    const char *spent = t->engine.wants_more ? turn__spent(t) : NULL;
    t->engine.wants_more = false;
    if (spent != NULL) {
        turn__stop_engine(t, "LIMIT_REACHED", spent);
    }
}

static void on_end(void *arg, enum engine_end end, struct str why)
{
    struct session *s = arg;
    struct turn *t = turn_of(s);
    if (t == NULL) {
        return;
    }
    if (end == ENGINE_FAILED) {
        char *text = str_dup(why);
        set_stopped(t, "ENGINE_FAILED", text);
        free(text);
        if (!s->live->known) { // it cannot resume its thread: a new one is told the past
            s->live->useless = true;
            agent__session_set(&s->engine_thread, STR(""));
        }
    }
    end_turn(t, end);
}

static void on_died(void *arg, const struct err *e)
{
    struct session *s = arg;
    struct turn *t = turn_of(s);
    if (t != NULL) {
        set_stopped(t, "ENGINE_FAILED", e->msg);
    }
    agent__engine_close(s);
    if (t != NULL) {
        end_turn(t, ENGINE_FAILED);
    }
}

static void on_spawn(void *arg)
{
    struct session *s = arg;
    s->engine_processes++;
    agent__hold(s->agent);
}

static void on_reaped(void *arg)
{
    struct session *s = arg;
    struct agent *a = s->agent;
    assert(s->engine_processes != 0);
    if (--s->engine_processes == 0 && s->ending) {
        agent__session_next(s);
    }
    agent__release(a);
}

const struct engine_cb turn__engine_cb = {.on_thread = on_thread,
                                          .on_delta = on_delta,
                                          .on_void = on_void,
                                          .on_message = on_message,
                                          .on_call = on_call,
                                          .on_progress = on_progress,
                                          .on_result = on_result,
                                          .on_usage = on_usage,
                                          .on_end = on_end,
                                          .on_died = on_died,
                                          .on_spawn = on_spawn,
                                          .on_reaped = on_reaped};

// ---- the beginning ------------------------------------------------------------------------------

/// The text for the engine: what the user said, and what plugins put into ctx.memory.
static struct str input_text(struct turn *t)
{
    struct buf out = {.max = SIZE_MAX};
    buf_adds(&out, t->text);
    t->remembered = t->ctx.memory->n;
    json_foreach_item (it, t->ctx.memory) {
        struct str text = it->type == JSON_STR ? it->s : json_get_text(it, "content");
        if (text.n != 0) {
            buf_addf(&out, "\n\n" STR_FMT, STR_ARG(text));
        }
    }
    buf_adds(&out, buf_str(&t->engine.said));
    struct str text = arena_str(&t->step_arena, buf_str(&out));
    buf_fini(&out);
    return text;
}

/// Look up the kind of its engine again. NULL: the settings dropped it while the turn waited, and the turn fails.
static const struct engine_kind *require_kind(struct turn *t)
{
    const struct engine_kind *kind = agent__engine_kind(t->s);
    if (kind == NULL) {
        turn__fail(t, "ENGINE_MISSING", "there is no engine '%.60s' any more", t->s->engine);
    }
    return kind;
}

static void on_environ(void *arg, const char *const *vars)
{
    struct turn *t = arg;
    struct session *s = t->s;
    t->engine.dressing = false;
    if (require_kind(t) == NULL) {
        return;
    }
    struct engine_thread *th = agent__engine_open(t, vars);
    struct str system = json_get_text(t->request, "system");
    struct engine_turn in = {.text = input_text(t), .system = agent__engine_system(s, system)};
    t->engine.under_way = true;
    restart_patience(t);
    in.pictures = turn__engine_pictures(t, &in.n_pictures);
    th->ops->turn(th, &in);
}

static void on_usable(void *arg, const struct agent_no *no)
{
    struct turn *t = arg;
    const struct agent_host *h = &t->s->agent->o.host;
    t->engine.look = NULL;
    if (no != NULL) {
        turn__fail(t, "ENGINE_MISSING", "%s", no->detail);
        return;
    }
    const struct engine_kind *kind = require_kind(t);
    if (kind == NULL) {
        return;
    }
    if (kind->provider != NULL && strcmp(t->s->choice.kind, kind->provider) != 0) {
        turn__fail(t, "ENGINE_FAILED",
                   "the engine '%s' needs a provider of kind %s, and '%s' is of kind %s: "
                   "choose another one with --provider",
                   t->s->engine, kind->provider, t->s->choice.provider, t->s->choice.kind);
        return;
    }
    if (turn__load_pictures(t)) {
        return;
    }
    t->site.ended = on_call_ended;
    t->engine.dressing = true;
    timer_init(&t->engine.patience, t->s->agent->o.hub->loop, on_impatient, t);
    h->environ(h->arg, t->s, on_environ, t);
}

void turn__engine(struct turn *t)
{
    assert(t->engine.look == NULL && t->step == TURN_ENGINE);
    t->engine.look = agent__engine_look(t->s, on_usable, t);
}

void turn__steer_engine(struct turn *t, struct str text)
{
    if (t->engine.under_way) {
        struct engine_thread *th = t->s->live->thread;
        t->heard = talk_hear(t->s->talk, SIZE_MAX);
        th->ops->steer(th, text);
    } else {
        buf_addf(&t->engine.said, "\n\n" STR_FMT, STR_ARG(text));
    }
}
