// Engine codex: the real Codex, by `codex app-server` on standard streams.
//
//     check (codex_check.c) ─> child ─> initialize ─> thread/resume ──lost──> thread/start ─> turn/start ...
//
// Codex has a home of its own in the session's directory (CODEX_HOME), so neither a login nor settings of the user's
// reach it, and its only provider is the gateway to the session's. Its own sandbox is off: the whole process is in the
// box of the session, which its commands cannot leave either, and in which git works as for our own commands. It asks
// before each command and each change of files ("untrusted"); the answer is our permission's.
//
// Messages are JSON-RPC without the member `jsonrpc`, one a line. docs/internals/engines.md has the table of what
// becomes what.

#include <assert.h>

#include "base/path.h"
#include "base/redact.h"
#include "engine/codex_int.h"
#include "proto/engines.h"

// ---- sending ------------------------------------------------------------------------------------

static struct jw *begin_request(struct codex *c, struct engine_line *m, enum codex_ask what,
                                const char *method)
{
    struct jw *w = engine_line_begin(m);
    struct codex_asked q = {.id = ++c->last_id, .what = what};
    vec_push(&c->asked, q);
    jw_kint(w, "id", q.id);
    jw_kstrz(w, "method", method);
    jw_kobj(w, "params");
    return w;
}

void codex__send(struct codex *c, struct engine_line *m)
{
    jw_end_obj(&m->w);
    engine_line_send(c->base.child, m);
}

static void write_input(struct jw *w, struct str text, struct str pictures)
{
    jw_karr(w, "input");
    jw_obj(w);
    jw_kstrz(w, "type", "text");
    jw_kstr(w, "text", text);
    jw_end_obj(w);
    if (pictures.n != 0) {
        jw_raw(w, pictures);
    }
    jw_end_arr(w);
}

struct jw *codex__begin_answer(struct engine_line *m, int64_t request)
{
    struct jw *w = engine_line_begin(m);
    jw_kint(w, "id", request);
    jw_kobj(w, "result");
    return w;
}

// ---- told later ---------------------------------------------------------------------------------

static void on_later(void *arg)
{
    struct codex *c = arg;
    c->base.task = NULL;
    if (c->why.code != 0) {
        struct err e = c->why;
        engine_die(&c->base, &e);
    } else if (c->in_turn) {
        codex__end(c, c->end, STR(""));
    }
}

/// From inside a call of ours nothing may be told.
static void tell_later(struct codex *c)
{
    if (c->base.task == NULL) {
        c->base.task = loop_defer(c->base.world->loop, on_later, c);
    }
}

void codex__end(struct codex *c, enum engine_end end, struct str why)
{
    if (c->in_turn && c->base.cb != NULL) {
        c->in_turn = c->begun = c->stopping = c->message_open = false;
        free(c->turn);
        c->turn = NULL;
        codex__forget_calls(c);
        c->base.cb->on_end(c->base.arg, end, why);
    }
}

// ---- the thread ---------------------------------------------------------------------------------

/// Resume the thread that the session had, or start one.
static void begin_thread(struct codex *c, bool resume)
{
    struct engine_line m;
    struct jw *w = begin_request(c, &m, resume ? ASK_RESUME : ASK_THREAD,
                                 resume ? "thread/resume" : "thread/start");
    jw_kstrz(w, "cwd", c->base.cwd);
    jw_kstrz(w, "model", c->model);
    jw_kstrz(w, "modelProvider", "afloat");
    jw_kstrz(w, "approvalPolicy", "untrusted");
    jw_kstrz(w, "sandbox", "danger-full-access");
    jw_kstrz(w, "developerInstructions", c->base.system);
    if (resume) {
        jw_kstrz(w, "threadId", c->resume);
        jw_kbool(w, "excludeTurns", true);
    } else {
        jw_karr(w, "dynamicTools");
        json_foreach_item (it, c->base.tools) {
            jw_obj(w);
            jw_kstrz(w, "type", "function");
            jw_kvalue(w, "name", json_get(it, "name"));
            jw_kvalue(w, "description", json_get(it, "description"));
            jw_kvalue(w, "inputSchema", json_get(it, "input_schema"));
            jw_end_obj(w);
        }
        jw_end_arr(w);
    }
    codex__send(c, &m);
}

static void begin_turn(struct codex *c)
{
    struct engine_line m;
    struct buf text = {.max = SIZE_MAX};
    assert(c->base.id != NULL && c->in_turn && !c->begun);
    engine_add_past(&text, c->told_past ? "" : c->base.past);
    c->told_past = true;
    buf_adds(&text, buf_str(&c->input));
    struct jw *w = begin_request(c, &m, ASK_TURN, "turn/start");
    jw_kstrz(w, "threadId", c->base.id);
    write_input(w, buf_str(&text), buf_str(&c->pictures));
    codex__send(c, &m);
    c->begun = true;
    buf_fini(&text);
    buf_clear(&c->input);
    buf_clear(&c->pictures);
}

static void send_steer(struct codex *c, struct str text, struct str refuses)
{
    struct engine_line m;
    struct jw *w = begin_request(c, &m, ASK_STEER, "turn/steer");
    c->asked.p[c->asked.n - 1].refuses = refuses.n != 0 ? str_dup(refuses) : NULL;
    jw_kstrz(w, "threadId", c->base.id);
    jw_kstrz(w, "expectedTurnId", c->turn);
    write_input(w, text, STR(""));
    codex__send(c, &m);
}

static void send_interrupt(struct codex *c)
{
    struct engine_line m;
    if (c->turn != NULL && c->stopping) {
        struct jw *w = begin_request(c, &m, ASK_INTERRUPT, "turn/interrupt");
        jw_kstrz(w, "threadId", c->base.id);
        jw_kstrz(w, "turnId", c->turn);
        codex__send(c, &m);
    }
}

// ---- answers ------------------------------------------------------------------------------------

static void take_thread(struct codex *c, const struct json *result, bool resumed)
{
    struct str id = json_str(json_ptr(result, "/thread/id"), "");
    c->told_past = resumed;
    if (engine_base_begun(&c->base, id, resumed, "Codex began no thread") && c->in_turn &&
        !c->stopping) {
        begin_turn(c);
    }
}

static void take_result(struct codex *c, enum codex_ask what, const struct json *result)
{
    struct engine_line m;
    if (what == ASK_INIT) {
        jw_kstrz(engine_line_begin(&m), "method", "initialized");
        engine_line_send(c->base.child, &m);
        begin_thread(c, c->resume != NULL);
    } else if (what == ASK_THREAD || what == ASK_RESUME) {
        take_thread(c, result, what == ASK_RESUME);
    } else if (what == ASK_TURN && c->in_turn) {
        free(c->turn);
        c->turn = str_dup(json_str(json_ptr(result, "/turn/id"), ""));
        send_interrupt(c);
        if (c->steer.n != 0) {
            send_steer(c, buf_str(&c->steer), STR(""));
            buf_clear(&c->steer);
        }
    }
}

static void take_error(struct codex *c, enum codex_ask what, struct str message)
{
    struct err e;
    if (what == ASK_RESUME) { // its files are gone: a new one is told the past
        begin_thread(c, false);
    } else if (what == ASK_TURN) {
        codex__end(c, ENGINE_FAILED, message);
    } else if (what == ASK_INIT || what == ASK_THREAD) {
        err_set(&e, ERR_INVALID, "Codex refused: %.*s", (int)MIN(message.n, (size_t)300),
                message.p);
        engine_die(&c->base, &e);
    } // else the turn has ended meanwhile
}

static void take_answer(struct codex *c, const struct json *msg)
{
    int64_t id = json_int(json_get(msg, "id"), -1);
    for (size_t i = 0; i < c->asked.n; i++) {
        if (c->asked.p[i].id == id) {
            enum codex_ask what = c->asked.p[i].what;
            char *refuses = c->asked.p[i].refuses;
            const struct json *error = json_get(msg, "error");
            vec_remove(&c->asked, i);
            if (refuses != NULL) { // the model reads why with the next request
                codex__decide(c, str_of(refuses), false);
                free(refuses);
            } else if (error != NULL) {
                take_error(c, what, json_str(json_get(error, "message"), "it did not say why"));
            } else {
                take_result(c, what, json_get(msg, "result"));
            }
            return;
        }
    }
}

static void on_line(void *arg, struct str line)
{
    struct codex *c = arg;
    const struct json *msg = engine_read_line(&c->base, &c->line, line, "Codex");
    if (msg == NULL) {
        return;
    }
    const struct json *id = json_get(msg, "id"), *params = json_get(msg, "params");
    struct str method = json_get_text(msg, "method");
    if (method.n == 0) {
        take_answer(c, msg);
    } else if (id != NULL) {
        codex__questioned(c, json_int(id, -1), method, params);
    } else {
        codex__notified(c, method, params);
    }
}

static void on_child_end(void *arg, const struct err *e)
{
    struct codex *c = arg;
    if (c->check != NULL) { // it knows better why
        c->why = *e;
    } else {
        engine_die(&c->base, e);
    }
}

// ---- open ---------------------------------------------------------------------------------------

/// Settings that hold for this home; what a thread has of its own comes with thread/start. A text of TOML is written
/// as one of JSON: its basic strings are the same but for a slash.
static void write_config(const struct codex *c, struct buf *out)
{
    buf_addz(out, "model_provider = \"afloat\"\n"
                  "check_for_update_on_startup = false\n"
                  "project_doc_max_bytes = 0\n" // our instructions have what is trusted of these
                  "web_search = \"disabled\"\n"
                  "[analytics]\nenabled = false\n"
                  "[history]\npersistence = \"none\"\n"
                  "[shell_environment_policy]\ninherit = \"all\"\nignore_default_excludes = true\n"
                  "exclude = [\"AFLOAT_ENGINE_KEY\", \"CODEX_HOME\"]\n"
                  "[model_providers.afloat]\nname = \"Afloat\"\nwire_api = \"responses\"\n"
                  "env_key = \"AFLOAT_ENGINE_KEY\"\n");
    buf_addf(out, "base_url = \"%s/v1\"\n[projects.", gateway_url(c->gateway));
    struct jw w = {.out = out};
    jw_strz(&w, c->base.cwd);
    buf_addz(out, "]\ntrust_level = \"untrusted\"\n");
}

/// Codex has what we need: start it.
static void start_child(struct codex *c, const struct tool_env *place)
{
    static const struct engine_child_cb cb = {.on_line = on_line, .on_end = on_child_end};
    static const char *const without[] = {"CODEX_", "OPENAI_", NULL};
    struct engine_line m;
    struct buf config = {.max = SIZE_MAX};
    write_config(c, &config);
    const char *env[] = {
        arena_printf(&c->base.arena, "CODEX_HOME=%s", c->dir),
        arena_printf(&c->base.arena, "AFLOAT_ENGINE_KEY=%s", gateway_key(c->gateway)), NULL};
    const struct engine_file file = {"config.toml", buf_str(&config)};
    struct engine_child_spec q = {.argv = c->argv,
                                  .env = env,
                                  .without = without,
                                  .place = place,
                                  .dir = c->dir,
                                  .files = &file,
                                  .n_files = 1,
                                  .gateway = c->gateway,
                                  .owner = c->base.cb,
                                  .owner_arg = c->base.arg};
    c->gateway = NULL;
    c->base.child = engine_child_start(c->base.world, &q, &cb, c);
    buf_fini(&config);
    struct jw *w = begin_request(c, &m, ASK_INIT, "initialize");
    jw_kobj(w, "clientInfo");
    jw_kstrz(w, "name", "afloat");
    jw_kstrz(w, "title", "Afloat");
    jw_kstrz(w, "version", c->base.world->version);
    jw_end_obj(w);
    jw_kobj(w, "capabilities");
    jw_kbool(w, "experimentalApi", true); // dynamicTools
    jw_end_obj(w);
    codex__send(c, &m);
}

static void on_checked(struct codex *c, const struct err *why)
{
    c->check = NULL;
    if (why != NULL) {
        struct err e;
        err_set(&e, why->code, "%s: %s", why->msg, ENGINE_CODEX_INSTALL);
        engine_die(&c->base, &e);
    } else if (c->why.code != 0) {
        tell_later(c);
    }
}

static const struct engine_ops ops;

static struct engine_thread *codex_open(struct engine_world *w, const struct engine_spec *q,
                                        const struct engine_cb *cb, void *arg)
{
    struct codex *c = xcalloc(1, sizeof *c);
    struct arena *a = &c->base.arena;
    engine_base_init(&c->base, &ops, w, q, cb, arg);
    c->program = arena_strdup(a, str_of(q->command != NULL ? q->command : ENGINE_CODEX));
    c->dir = arena_strdup(a, str_of(q->dir));
    c->model = arena_strdup(a, str_of(q->choice->model));
    c->argv = engine_argv(a,
                          (const char *const[]){c->program, "app-server", "--disable", "plugins",
                                                "--disable", "apps", NULL},
                          q->args);
    c->resume = q->thread != NULL ? xstrdup(q->thread) : NULL;
    c->tokens = -1;
    buf_init(&c->input, SIZE_MAX);
    buf_init(&c->pictures, SIZE_MAX);
    buf_init(&c->steer, SIZE_MAX);
    c->gateway = gateway_open(w, q, engine_child_boxed(q->env), &c->why);
    if (c->gateway == NULL) {
        tell_later(c);
        return &c->base.thread;
    }
    c->check = codex_check_start(c, q->env, on_checked);
    start_child(c, q->env);
    return &c->base.thread;
}

// ---- what the session does ----------------------------------------------------------------------

static struct codex *of(struct engine_thread *t)
{
    return container_of(t, struct codex, base.thread);
}

static void codex_turn(struct engine_thread *t, const struct engine_turn *in)
{
    struct codex *c = of(t);
    assert(!c->in_turn);
    c->in_turn = true;
    c->error[0] = '\0';
    buf_clear(&c->input);
    buf_clear(&c->pictures);
    buf_clear(&c->steer);
    if (in->system.n != 0) {
        buf_addf(&c->input, "Your instructions have changed. They are now:\n\n" STR_FMT "\n\n",
                 STR_ARG(in->system));
    }
    buf_adds(&c->input, in->text);
    for (size_t i = 0; i < in->n_pictures; i++) {
        buf_addf(
            &c->pictures, "%s{\"type\":\"image\",\"url\":\"data:" STR_FMT ";base64," STR_FMT "\"}",
            i != 0 ? "," : "", STR_ARG(in->pictures[i].media_type), STR_ARG(in->pictures[i].data));
    }
    if (c->base.id != NULL) {
        begin_turn(c);
    }
}

static void codex_steer(struct engine_thread *t, struct str text)
{
    struct codex *c = of(t);
    if (c->in_turn && !c->begun) {
        buf_addf(&c->input, "\n\n" STR_FMT, STR_ARG(text));
    } else if (c->turn != NULL) {
        send_steer(c, text, STR(""));
    } else {
        buf_addf(&c->steer, "%s" STR_FMT, c->steer.n != 0 ? "\n\n" : "", STR_ARG(text));
    }
}

static void codex_interrupt(struct engine_thread *t)
{
    struct codex *c = of(t);
    c->stopping = true;
    if (!c->begun) {
        c->end = ENGINE_INTERRUPTED;
        tell_later(c);
    } else {
        send_interrupt(c);
    }
}

static void codex_allow(struct engine_thread *t, struct str id, const struct json *input)
{
    (void)input;
    codex__decide(of(t), id, true);
}

static void codex_refuse(struct engine_thread *t, struct str id, struct str reason)
{
    struct codex *c = of(t);
    if (reason.n == 0 || c->turn == NULL || c->stopping) {
        codex__decide(c, id, false);
        return;
    }
    // Codex has no place for a reason: it is said to the model while Codex waits for the decision, so that no request
    // is cut short for it
    struct buf text = {.max = SIZE_MAX};
    buf_addf(&text, "[Afloat: the call was not run: " STR_FMT "]", STR_ARG(reason));
    send_steer(c, buf_str(&text), id);
    buf_fini(&text);
}

static void codex_answer(struct engine_thread *t, struct str id, struct str output, bool success)
{
    struct codex *c = of(t);
    for (size_t i = 0; i < c->calls.n; i++) {
        struct codex_call *call = c->calls.p[i];
        if (call->request >= 0 && str_eqz(id, call->item)) {
            struct engine_line m;
            struct jw *w = codex__begin_answer(&m, call->request);
            jw_karr(w, "contentItems");
            jw_obj(w);
            jw_kstrz(w, "type", "inputText");
            jw_kstr(w, "text", output);
            jw_end_obj(w);
            jw_end_arr(w);
            jw_kbool(w, "success", success);
            codex__send(c, &m);
            call->request = -1;
            return;
        }
    }
}

static void codex_close(struct engine_thread *t)
{
    struct codex *c = of(t);
    if (c->check != NULL) {
        codex_check_cancel(c->check);
    }
    engine_base_fini(&c->base);
    gateway_close(c->gateway);
    codex__forget_calls(c);
    vec_foreach (it, &c->asked) {
        free(it->refuses);
    }
    vec_fini(&c->asked);
    buf_fini(&c->input);
    buf_fini(&c->pictures);
    buf_fini(&c->steer);
    free(c->resume);
    free(c->turn);
    free(c->message);
    arena_fini(&c->line);
    free(c);
}

static const struct engine_ops ops = {.turn = codex_turn,
                                      .steer = codex_steer,
                                      .interrupt = codex_interrupt,
                                      .pause = engine_base_pause,
                                      .allow = codex_allow,
                                      .refuse = codex_refuse,
                                      .answer = codex_answer,
                                      .close = codex_close};

const struct engine_kind engine_codex = {.name = ENGINE_CODEX,
                                         .program = ENGINE_CODEX,
                                         .install = ENGINE_CODEX_INSTALL,
                                         .fixed_tools = true,
                                         .open = codex_open};
