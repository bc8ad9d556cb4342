// The calls of a step: each goes its own way, all at the same time, and the model reads the results in
// the order in which it asked.
//
//     on_tool_call ─> schema ─> tool.called ─> on_permission ─> person? ─> on_resolve_tool ─┬─> run ─┐
//                                    └─ synced: may begin ────────────────────────────────────┘      │
//                       the model <─ tool.completed <─ on_tool_result <─ result <────────────────────┘
//
// What runs is what on_tool_call left, checked against the schema once more; the journal has both.
// A tool begins only when the journal says on disk that it was called. Of the built-in ones, which take
// processes and files, AT_ONCE run at a time; a model may ask for a thousand.
//
// Invariants:
//   - `n_open` counts uses whose result is not on the disk yet; at 0 the turn goes on, or ends when it was
//     interrupted. So the model never reads of something that the journal forgets when the power fails.
//   - a use is not freed before its turn: events of it may still be on their way into the journal.

#include "agent/make.h"
#include "agent/use_int.h"
#include "base/schema.h"
#include "base/time.h"
#include "base/utf8.h"
#include "gen/result.h"

enum { PROGRESS_MAX = 256 * 1024, AT_ONCE = 32 };

// ---- the end ------------------------------------------------------------------------------------

static void step_over(struct turn *t)
{
    if (turn__alive(t)) {
        turn__go(t, TURN_PROMPT);
    }
}

/// {call_id, tool, input, success, error, duration_ms}, for who waits for the turn.
static void remember_call(struct use *u, int64_t ms)
{
    struct arena *a = &u->t->arena;
    struct json *row = make_obj(a, 6);
    const struct json *error = json_get(u->result, "error");
    static const struct json null = {.type = JSON_NULL};
    make_put(row, "call_id", make_str(arena_str(a, u->id)));
    make_put(row, "tool", make_str(arena_str(a, u->name)));
    make_put(row, "input", *json_clone(a, json_get(u->call, "input")));
    make_put(row, "success", make_bool(json_bool(json_get(u->result, "success"), true)));
    make_put(row, "error", error != NULL ? *json_clone(a, error) : null);
    make_put(row, "duration_ms", make_int(ms));
    vec_push(&u->t->calls, *row);
}

/// Its result is in the journal and synced, or there will be none.
static void use_over(struct use *u)
{
    if (--u->t->n_open == 0) {
        step_over(u->t);
    }
}

static void on_result_synced(void *arg, int status, const struct err *e)
{
    (void)status; // what is lost, the next step sees
    (void)e;
    use_over(arg);
}

static void note_result(struct use *u, int64_t ms)
{
    struct turn *t = u->t;
    struct note n;
    struct jw *w = note__begin(&n, t->s, t, EVENT_TOOL_COMPLETED);
    jw_kstr(w, "call_id", u->id);
    jw_kstr(w, "tool", u->name);
    jw_kstr(w, "output", json_str(json_get(u->result, "output"), ""));
    jw_kbool(w, "success", json_bool(json_get(u->result, "success"), true));
    jw_key(w, "error");
    jw_value(w, json_get(u->result, "error"));
    jw_kint(w, "duration_ms", ms);
    if (u->diff.n != 0) {
        jw_kstr(w, "diff", u->diff);
    }
    if (u->resolved_by != NULL) {
        jw_kstrz(w, "resolved_by", u->resolved_by);
    }
    if (u->pipe.args.point == POINT_TOOL_RESULT && u->pipe.changed_by.n != 0) {
        pipe_write_changed(&u->pipe, w);
    }
    note__end(&n, STORE_SYNCED, on_result_synced, u);
}

static void start_waiting(struct turn *t);

/// The result is final: into the journal and the conversation.
static void use_end(struct use *u)
{
    struct turn *t = u->t;
    int64_t ms = (int64_t)((time_mono_ns() - u->since_ns) / 1000000);
    const struct json *r = u->result;
    remember_call(u, ms);
    t->s->calls++;
    talk_result(t->s->talk, u->id, json_str(json_get(r, "output"), ""),
                json_bool(json_get(r, "success"), true), json_str(json_get(r, "error"), ""));
    u->over = true;
    t->n_running -= u->counted;
    if (u->noted) {
        note_result(u, ms);
    } else {
        use_over(u);
    }
    start_waiting(t);
}

static void set_result(struct use *u, struct str output, bool success, const char *error)
{
    struct arena *a = &u->t->step_arena;
    struct json *r = make_obj(a, 5);
    make_put(r, "tool_call_id", make_str(u->id));
    make_put(r, "tool_name", make_str(u->name));
    make_put(r, "output", make_str(arena_str(a, output)));
    make_put(r, "success", make_bool(success));
    if (error != NULL) {
        make_put(r, "error", make_str(arena_str(a, str_of(error))));
    }
    u->result = r;
}

static void end_interrupted(struct use *u)
{
    set_result(u, STR(""), false, "interrupted");
    u->pipe.changed_by.n = 0;
    use_end(u);
}

static void raise_point(struct use *u, enum hook_point_id point, const struct json *b,
                        pipe_done *done)
{
    struct turn *t = u->t;
    struct pipe_opts o = {.hooks = t->hooks,
                          .loop = t->s->agent->o.loop,
                          .point = point,
                          .ctx = &t->ctx,
                          .arena = &t->step_arena,
                          .a = u->call,
                          .b = b,
                          .subject = u->name,
                          .done = done,
                          .arg = u,
                          .failed = turn__hook_failed,
                          .failed_arg = t};
    pipe_start(&u->pipe, &o);
}

static void on_tool_result(struct pipe *p, void *arg)
{
    struct use *u = arg;
    u->result = pipe_value(p);
    if (p->run.result == HOOK_DENY) {
        set_result(u, STR(""), false, "a plugin's on_tool_result failed and blocks the result");
    }
    use_end(u);
}

static void finish_result(struct use *u)
{
    if (u->t->interrupted) {
        end_interrupted(u);
    } else {
        raise_point(u, POINT_TOOL_RESULT, u->result, on_tool_result);
    }
}

void use__finish(struct use *u, struct str output, bool success, const char *error)
{
    set_result(u, output, success, error);
    finish_result(u);
}

// ---- running it ---------------------------------------------------------------------------------

static void on_told(void *arg, int status, const struct err *e)
{
    struct use *u = arg;
    (void)status;
    (void)e;
    u->telling = false;
}

static void note_progress(struct use *u, struct str text)
{
    struct note n;
    if (u->telling || u->over || text.n == 0 || u->progress + text.n > PROGRESS_MAX) {
        return;
    }
    u->telling = true;
    u->progress += text.n;
    struct jw *w = note__begin(&n, u->t->s, u->t, EVENT_TOOL_PROGRESS);
    jw_kstr(w, "call_id", u->id);
    jw_kstr(w, "text", text);
    note__end(&n, STORE_WRITTEN, on_told, u);
}

/// Progress is for people who watch: while one is being written, and beyond a bound, it is passed over.
static void tell_progress(void *arg, struct str text)
{
    struct use *u = arg;
    struct buf clean;
    buf_init(&clean, SIZE_MAX);
    note_progress(u, redact_feed(&u->secrets, &clean, text));
    buf_fini(&clean);
}

static void on_output(struct tool_call *c, struct str text, void *arg)
{
    (void)c;
    tell_progress(arg, text);
}

/// A call that would have changed what runs outside of the sandbox is asked about, and runs again.
static void on_tool_done(struct tool_call *c, const struct tool_result *r, void *arg)
{
    struct use *u = arg;
    bool autonomous = u->t->s->role.autonomous;
    (void)c;
    u->running = NULL;
    u->diff = r->success || r->guarded ? arena_str(&u->t->step_arena, r->diff) : STR_NULL;
    u->guarded = r->guarded;
    if (r->guarded && !u->consented && !autonomous && !u->t->interrupted) {
        use__ask(u);
    } else {
        u->diff = r->success ? u->diff : STR_NULL;
        use__finish(u, r->output, r->success, r->error);
    }
}

/// What it would do is known. A call that cannot succeed needs no decision.
static void on_previewed(struct tool_call *c, const struct tool_result *r, void *arg)
{
    struct use *u = arg;
    (void)c;
    u->running = NULL;
    if (!r->success || u->t->interrupted) {
        use__finish(u, r->output, false, r->error != NULL ? r->error : "interrupted");
        return;
    }
    u->diff = arena_str(&u->t->step_arena, r->diff);
    u->guarded = r->guarded;
    use__ask(u);
}

static void start_builtin(struct use *u, const char *const *vars, bool preview)
{
    const struct tool_cb callbacks = {.on_progress = on_output,
                                      .on_done = preview ? on_previewed : on_tool_done};
    struct session *s = u->t->s;
    struct agent *a = s->agent;
    const struct config *c = agent__session_config(s);
    struct arena *arena = &u->t->step_arena;
    struct err e = {0};
    size_t n_writable, n_hide;
    const char *const *writable = config_strings(c, "sandbox.writable", &n_writable);
    const char *const *hide = config_strings(c, "sandbox.hide", &n_hide);
    const char **w = arena_calloc(arena, n_writable + s->writable.n + 1, sizeof *w);
    const char **h = arena_calloc(arena, n_hide + 1, sizeof *h);
    memcpy(w, writable, n_writable * sizeof *w);
    for (size_t i = 0; i < s->writable.n; i++) {
        w[n_writable + i] = s->writable.p[i];
    }
    memcpy(h, hide, n_hide * sizeof *h);
    struct box_policy policy = {.mode = s->sandbox,
                                .network = s->network,
                                .working_dir = s->working_dir,
                                .writable = w,
                                .hide = h,
                                .home = a->o.home->dir,
                                .runtime = a->o.home->runtime,
                                .grants = s->grants};
    char *outputs = agent__session_path(s, "outputs");
    struct tool_env env = {.loop = a->o.loop,
                           .lane = a->tools,
                           .policy = &policy,
                           .environment = agent__session_filter(s, vars, arena),
                           .outputs_dir = outputs,
                           .preview = preview,
                           .consented = u->consented,
                           .call_id = arena_strdup(arena, u->id)};
    agent_guard(a, &env, arena);
    if (tool_call_start(&u->running, &env, str_of(u->tool->builtin->name),
                        json_get(u->call, "input"), &callbacks, u, &e) < 0) {
        u->running = NULL;
        use__finish(u, STR(""), false, e.msg);
    }
    free(outputs);
}

static void on_environ(void *arg, const char *const *vars)
{
    struct use *u = arg;
    u->dressing = false;
    start_builtin(u, vars, false);
}

/// Only a command sees variables, and only for one the project's environment is worth waiting for.
static void run_builtin(struct use *u)
{
    struct session *s = u->t->s;
    const struct agent_host *h = &s->agent->o.host;
    if (u->tool->builtin->effect == TOOL_RUNS) {
        u->dressing = true;
        h->environ(h->arg, s, on_environ, u);
    } else {
        start_builtin(u, agent_session_environ(s), false);
    }
}

void use__preview(struct use *u)
{
    start_builtin(u, agent_session_environ(u->t->s), true);
}

static void forget_environ(struct use *u)
{
    const struct agent_host *h = &u->t->s->agent->o.host;
    if (u->dressing) {
        u->dressing = false;
        h->forget_environ(h->arg, u->t->s, u);
    }
}

/// What is too long for a model: head and tail.
static struct str clip(struct arena *a, struct str s)
{
    if (s.n <= TOOL_OUTPUT_MAX) {
        return s;
    }
    size_t head = utf8_cut(s.p, s.n, TOOL_OUTPUT_MAX / 2), tail = s.n - TOOL_OUTPUT_MAX / 2;
    while (tail < s.n && ((unsigned char)s.p[tail] & 0xC0) == 0x80) {
        tail++;
    }
    return str_of(arena_printf(a, "%.*s\n[... %zu bytes left out ...]\n%.*s", (int)head, s.p,
                               tail - head, (int)(s.n - tail), s.p + tail));
}

static void on_plugin_done(struct gen_call *call, int status, const struct json *output,
                           const struct err *e)
{
    struct use *u = call->arg;
    struct arena *a = &u->t->step_arena;
    u->calling = false;
    hook_ctx_merge(&u->t->ctx, &u->seen, u->ctx.state != u->seen.state ? u->ctx.state : NULL,
                   u->ctx.memory != u->seen.memory ? u->ctx.memory : NULL);
    if (status < 0) {
        use__finish(u, STR(""), false, e->msg);
        return;
    }
    const struct json *r = gen_result_of(a, output);
    const struct json *error = json_get(r, "error");
    use__finish(u, clip(a, json_str(json_get(r, "output"), "")),
                json_bool(json_get(r, "success"), true),
                error != NULL ? arena_strdup(a, json_str(error, "")) : NULL);
}

static void run_plugin(struct use *u)
{
    const struct gen_target *face = gen_item_face(u->tool->item);
    u->ctx = u->t->ctx;
    u->seen = (struct hook_seen){.state = u->ctx.state, .memory = u->ctx.memory};
    u->ctx.progress = tell_progress;
    u->ctx.arg = u;
    u->gen = (struct gen_call){
        .input = json_get(u->call, "input"), .ctx = &u->ctx, .done = on_plugin_done, .arg = u};
    u->calling = true;
    face->call(gen_item_data(u->tool->item), &u->gen);
}

static void run_if_ready(struct use *u)
{
    if (!u->allowed || u->over || !(u->synced || u->lost != NULL)) {
        return;
    }
    if (u->lost != NULL) {
        use__finish(u, STR(""), false, u->lost);
        return;
    }
    u->in_line = u->tool->builtin != NULL && u->t->n_running >= AT_ONCE;
    if (u->in_line) {
        return;
    }
    u->since_ns = time_mono_ns();
    if (u->tool->item != NULL) {
        run_plugin(u);
    } else if (u->tool->builtin != NULL) {
        u->counted = true;
        u->t->n_running++;
        run_builtin(u);
    } else if (u->tool->kit) {
        use__run_kit(u);
    } else {
        use__run_own(u);
    }
}

static void start_waiting(struct turn *t)
{
    for (size_t i = 0; !t->interrupted && i < t->uses.n && t->n_running < AT_ONCE; i++) {
        struct use *u = t->uses.p[i];
        if (u->in_line && !u->over) {
            run_if_ready(u);
        }
    }
}

// ---- before it runs -----------------------------------------------------------------------------

static void on_resolve(struct pipe *p, void *arg)
{
    struct use *u = arg;
    if (p->run.result == HOOK_VALUE) {
        u->resolved_by = pipe_by(p);
        u->result = pipe_value(p);
        finish_result(u);
        return;
    }
    if (p->run.result == HOOK_DENY) {
        use__finish(u, STR(""), false, "a plugin's on_resolve_tool failed and blocks the call");
        return;
    }
    u->allowed = true;
    run_if_ready(u);
}

void use__go_on(struct use *u)
{
    u->consented = u->guarded;
    if (u->allowed) { // it ran, and met what it had to ask about
        run_builtin(u);
    } else {
        use__resolve(u);
    }
}

void use__resolve(struct use *u)
{
    raise_point(u, POINT_RESOLVE_TOOL, NULL, on_resolve);
}

static void on_called(void *arg, int status, const struct err *e)
{
    struct use *u = arg;
    u->synced = status == 0;
    if (status < 0 && !u->over) {
        u->lost = arena_strdup(&u->t->step_arena, str_of(e->msg));
    }
    run_if_ready(u);
}

static void note_call(struct use *u, const struct pipe *changed)
{
    struct turn *t = u->t;
    struct note n;
    struct jw *w = note__begin(&n, t->s, t, EVENT_TOOL_CALLED);
    jw_kstr(w, "call_id", u->id);
    jw_kstr(w, "tool", u->name);
    jw_key(w, "input");
    jw_value(w, json_get(u->call, "input"));
    if (changed->run.result == HOOK_VALUE) {
        jw_key(w, "original_input");
        jw_value(w, u->said);
        pipe_write_changed(changed, w);
    }
    u->noted = true;
    note__end(&n, STORE_SYNCED, on_called, u);
}

static const struct json *make_call(struct use *u, const struct json *input)
{
    struct json *call = make_obj(&u->t->step_arena, 3);
    make_put(call, "tool_name", make_str(u->name));
    make_put(call, "tool_call_id", make_str(u->id));
    make_put(call, "input", *input);
    return call;
}

/// Name the tool. One has a short name and one with its plugin; handlers, people and policy know it by
/// the one that the model was told, or a guard of `roll` would let `dice:roll` pass.
static void set_call(struct use *u, struct str name, const struct json *input)
{
    u->tool = toolbox_find(&u->t->tools, name);
    u->name = u->tool != NULL ? u->tool->name : name;
    u->call = make_call(u, input);
}

/// Is there such a tool, and does the input fit?
static int check_call(struct use *u, struct err *e)
{
    const struct json *input = json_get(u->call, "input");
    if (u->tool == NULL) {
        return err_set(e, ERR_NOT_FOUND, "there is no tool '%.*s'", (int)MIN(u->name.n, (size_t)64),
                       u->name.p);
    }
    int rc = schema_check(u->tool->schema, e);
    if (rc == 0) {
        rc = schema_fit(u->tool->schema, input, "input", e);
    }
    return rc;
}

static void on_tool_call(struct pipe *p, void *arg)
{
    struct use *u = arg;
    struct err e = {0};
    const char *by = pipe_by(p);
    if (p->run.result == HOOK_VALUE) { // its id stays: the model knows no other
        struct str name = json_str(json_get(pipe_value(p), "tool_name"), "");
        const struct json *input = json_get(pipe_value(p), "input");
        const struct tool_entry *tool = toolbox_find(&u->t->tools, name);
        set_call(u, name,
                 tool != NULL ? schema_arrays(tool->schema, input, &u->t->step_arena) : input);
    }
    int rc = check_call(u, &e);
    note_call(u, p);
    if (p->run.result == HOOK_DENY) {
        err_set(&e, ERR_DENIED, "blocked by '%s': %.180s", by != NULL ? by : "a plugin",
                p->run.fault.msg);
        use__finish(u, STR(""), false, e.msg);
    } else if (rc < 0) {
        use__finish(u, STR(""), false, e.msg);
    } else {
        use__permit(u);
    }
}

static void begin(struct use *u, const struct json *call)
{
    const struct json *bad = json_get(call, "bad_input");
    u->said = json_get(call, "input");
    set_call(u, json_str(json_get(call, "name"), ""), u->said);
    if (bad != NULL) {
        u->pipe.run.result = HOOK_KEEP;
        note_call(u, &u->pipe);
        use__finish(u, STR(""), false, arena_strdup(&u->t->step_arena, json_str(bad, "")));
        return;
    }
    raise_point(u, POINT_TOOL_CALL, NULL, on_tool_call);
}

// ---- public -------------------------------------------------------------------------------------

void turn__tools(struct turn *t)
{
    const struct json *calls = t->reply.calls;
    json_foreach_item (it, calls) {
        struct use *u = xcalloc(1, sizeof *u);
        u->t = t;
        redact_stream_init(&u->secrets);
        u->since_ns = time_mono_ns();
        u->id = json_str(json_get(it, "id"), "");
        vec_push(&t->uses, u);
    }
    t->n_open = t->uses.n;
    size_t n = t->uses.n;
    for (size_t i = 0; i < n; i++) { // the step cannot end before the last one has begun
        begin(t->uses.p[i], &calls->items[i]);
    }
}

/// Give one up; true when nothing of it is left to wait for.
static bool give_up(struct use *u)
{
    const struct gen_target *face = u->calling ? gen_item_face(u->tool->item) : NULL;
    pipe_cancel(&u->pipe);
    use__stop_asking(u);
    use__drop_save(u);
    use__drop_kit(u);
    forget_environ(u);
    if (u->running != NULL) {
        tool_call_cancel(u->running);
        return false;
    }
    if (face != NULL && face->cancel == NULL) {
        return false;
    }
    if (face != NULL) {
        u->calling = false;
        face->cancel(gen_item_data(u->tool->item), &u->gen);
    }
    return true;
}

void turn__cancel_tools(struct turn *t)
{
    for (size_t i = 0; i < t->uses.n; i++) {
        struct use *u = t->uses.p[i];
        if (!u->over && give_up(u)) {
            end_interrupted(u);
        }
    }
}

void turn__retire_tools(struct turn *t)
{
    vec_foreach (u, &t->uses) {
        vec_push(&t->spent, *u);
    }
    t->uses.n = 0;
}

void turn__free_tools(struct turn *t)
{
    turn__retire_tools(t);
    vec_foreach (u, &t->spent) {
        use__drop_decision(*u);
        pipe_fini(&(*u)->pipe);
        redact_stream_fini(&(*u)->secrets);
        free(*u);
    }
    vec_fini(&t->spent);
    vec_fini(&t->uses);
}
