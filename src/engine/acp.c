// Engine acp: any agent that speaks the Agent Client Protocol (version 1) on its standard streams.
//
//     child ─> initialize ─> session/resume or load ──lost──> session/new ─> session/prompt ─┬─> session/update ...
//                                                                                             ├─> request_permission
//                                                                                             └─> stopReason: the end
//
// The agent has its own model and its own tools; it runs in the box of the session as its commands do, and asks before
// what it wants to run. Files and terminals are not offered to it: what it does itself, it does inside of the box. The
// protocol has no instructions and no end of a message: instructions and the past go before the first prompt, and a
// message ends where something else begins. What is said to a turn under way is the next prompt of the same turn.
//
// The agent is not trusted: an invalid line ends it, and an answer without a request is ignored.

#include <assert.h>
#include <unistd.h>

#include "base/path.h"
#include "engine/acp_int.h"

// ---- sending ------------------------------------------------------------------------------------

static struct jw *begin_request(struct acp_thread *t, struct engine_line *m, enum acp_ask what,
                                const char *method)
{
    struct json id = rpc_int_id(++t->last_id);
    t->asked[what] = t->last_id;
    rpc_begin_request(engine_line_new(m), &id, method);
    jw_obj(&m->w);
    return &m->w;
}

static void end_request(struct acp_thread *t, struct engine_line *m)
{
    jw_end_obj(&m->w);
    rpc_end(&m->w);
    engine_line_flush(t->base.child, m);
}

void acp__reply(struct acp_thread *t, const struct json *id, const char *result)
{
    struct engine_line m;
    rpc_begin_result(engine_line_new(&m), id);
    jw_raw(&m.w, str_of(result));
    rpc_end(&m.w);
    engine_line_flush(t->base.child, &m);
}

// ---- the end ------------------------------------------------------------------------------------

void acp__flush(struct acp_thread *t)
{
    if (t->message.n != 0 && t->base.cb != NULL) {
        struct buf said = t->message;
        buf_init(&t->message, SIZE_MAX);
        t->base.cb->on_message(t->base.arg, buf_str(&said));
        buf_fini(&said);
    }
}

static void end_turn(struct acp_thread *t, enum engine_end end, struct str why)
{
    if (t->in_turn && t->base.cb != NULL) {
        acp__flush(t);
        t->in_turn = t->begun = t->stopping = t->over = t->unfit = false;
        t->n_ours = 0;
        buf_clear(&t->input);
        acp__forget_calls(t);
        acp__tools_end(t);
        t->base.cb->on_end(t->base.arg, end, why);
    }
}

static void on_later(void *arg)
{
    struct acp_thread *t = arg;
    t->base.task = NULL;
    if (t->unfit && !t->stopping) {
        end_turn(t, ENGINE_FAILED, STR("this agent takes no pictures: describe them in words"));
    } else {
        end_turn(t, t->stopping ? ENGINE_INTERRUPTED : ENGINE_COMPLETED, STR(""));
    }
}

static void end_later(struct acp_thread *t)
{
    if (t->base.task == NULL) {
        t->base.task = loop_defer(t->base.world->loop, on_later, t);
    }
}

// ---- turns --------------------------------------------------------------------------------------

static void write_block(struct jw *w, const char *before, struct str text, const char *after)
{
    jw_obj(w);
    jw_kstrz(w, "type", "text");
    jw_key(w, "text");
    jw_strf(w, "%s" STR_FMT "%s", before, STR_ARG(text), after);
    jw_end_obj(w);
}

static void begin_prompt(struct acp_thread *t)
{
    struct engine_line m;
    assert(t->base.id != NULL && t->in_turn && !t->begun);
    t->unfit = t->pictures.n != 0 && !t->can_see;
    if (t->unfit) {
        end_later(t);
        return;
    }
    struct jw *w = begin_request(t, &m, ACP_PROMPT, "session/prompt");
    jw_kstrz(w, "sessionId", t->base.id);
    jw_karr(w, "prompt");
    if (t->fresh && t->base.system[0] != '\0') {
        write_block(w, "<instructions>\n", str_of(t->base.system), "\n</instructions>\n\n");
    }
    if (t->fresh && t->base.past[0] != '\0') {
        struct buf past = {.max = SIZE_MAX};
        engine_add_past(&past, t->base.past);
        write_block(w, "", buf_str(&past), "");
        buf_fini(&past);
    }
    t->fresh = false;
    if (t->pictures.n != 0) {
        jw_raw(w, buf_str(&t->pictures));
    }
    write_block(w, "", buf_str(&t->input), "");
    jw_end_arr(w);
    end_request(t, &m);
    t->begun = true;
    buf_clear(&t->input);
    buf_clear(&t->pictures);
}

static void take_stop(struct acp_thread *t, const struct json *result)
{
    struct str reason = json_get_text(result, "stopReason");
    const struct json *usage = json_get(result, "usage");
    if (usage != NULL && t->in_turn && t->base.cb != NULL) {
        struct provider_usage u = {.input = json_int(json_get(usage, "inputTokens"), -1),
                                   .cached = json_int(json_get(usage, "cachedReadTokens"), -1),
                                   .output = json_int(json_get(usage, "outputTokens"), -1),
                                   .reasoning = json_int(json_get(usage, "thoughtTokens"), -1)};
        t->base.cb->on_usage(t->base.arg, &u, 0);
    }
    t->begun = false;
    if (str_eqz(reason, "cancelled") || t->stopping) {
        end_turn(t, ENGINE_INTERRUPTED, STR(""));
    } else if (str_eqz(reason, "refusal")) {
        end_turn(t, ENGINE_FAILED, STR("the agent refused to continue"));
    } else if (t->in_turn && t->input.n != 0) { // more was said meanwhile
        acp__flush(t);
        begin_prompt(t);
    } else if (t->n_ours != 0) {
        t->over = true;
    } else {
        end_turn(t, ENGINE_COMPLETED, STR(""));
    }
}

// ---- the thread ---------------------------------------------------------------------------------

static void write_pair(struct jw *w, const char *name, const char *value)
{
    jw_obj(w);
    jw_kstrz(w, "name", name);
    jw_kstrz(w, "value", value);
    jw_end_obj(w);
}

/// Where the agent finds our tools: at the gateway, or, where it cannot speak HTTP, through `afloat mcp`, which can.
static void write_server(const struct acp_thread *t, struct jw *w)
{
    char *bearer = xasprintf("Bearer %s", gateway_key(t->gateway));
    jw_obj(w);
    jw_kstrz(w, "name", "afloat");
    if (t->can_http) {
        jw_kstrz(w, "type", "http");
        jw_key(w, "url");
        jw_strf(w, "%s/mcp", gateway_url(t->gateway));
        jw_karr(w, "headers");
        write_pair(w, "Authorization", bearer);
    } else {
        char *program = path_own_program(NULL);
        jw_kstrz(w, "command", program != NULL ? program : "afloat");
        free(program);
        jw_kstrs(w, "args", (const char *const[]){"mcp"}, 1);
        jw_karr(w, "env");
        write_pair(w, "AFLOAT_MCP_URL", gateway_url(t->gateway));
        write_pair(w, "AFLOAT_MCP_KEY", gateway_key(t->gateway));
    }
    jw_end_arr(w);
    jw_end_obj(w);
    free(bearer);
}

static void write_place(const struct acp_thread *t, struct jw *w)
{
    jw_kstrz(w, "cwd", t->base.cwd);
    jw_karr(w, "mcpServers");
    if (t->gateway != NULL && t->base.tools != NULL && t->base.tools->n != 0) {
        write_server(t, w);
    }
    jw_end_arr(w);
}

static void start_thread(struct acp_thread *t)
{
    struct engine_line m;
    write_place(t, begin_request(t, &m, ACP_NEW, "session/new"));
    end_request(t, &m);
}

static void take_thread(struct acp_thread *t, struct str id, bool fresh)
{
    t->fresh = fresh;
    if (engine_base_begun(&t->base, id, !fresh, "the agent began no session") && t->in_turn &&
        !t->stopping && t->base.cb != NULL) {
        begin_prompt(t);
    }
}

static void take_hello(struct acp_thread *t, const struct json *result)
{
    const struct json *can = json_get(result, "agentCapabilities");
    int64_t version = json_int(json_get(result, "protocolVersion"), 0);
    struct engine_line m;
    struct err e;
    if (version != 1) {
        err_set(&e, ERR_UNSUPPORTED, "the agent speaks version %lld of ACP, and not version 1",
                (long long)version);
        engine_die(&t->base, &e);
        return;
    }
    t->can_http = json_bool(json_ptr(can, "/mcpCapabilities/http"), false);
    t->can_see = json_bool(json_ptr(can, "/promptCapabilities/image"), false);
    t->can_load = json_bool(json_get(can, "loadSession"), false);
    t->can_resume = json_ptr(can, "/sessionCapabilities/resume") != NULL;
    if (t->resume == NULL || (!t->can_load && !t->can_resume)) {
        start_thread(t);
        return;
    }
    t->loading = true;
    struct jw *w =
        begin_request(t, &m, ACP_LOAD, t->can_resume ? "session/resume" : "session/load");
    jw_kstrz(w, "sessionId", t->resume);
    write_place(t, w);
    end_request(t, &m);
}

static void take_result(struct acp_thread *t, enum acp_ask what, const struct json *result)
{
    switch (what) {
    case ACP_INIT: take_hello(t, result); break;
    case ACP_NEW: take_thread(t, json_get_text(result, "sessionId"), true); break;
    case ACP_LOAD:
        t->loading = false;
        take_thread(t, str_of(t->resume), false);
        break;
    case ACP_PROMPT: take_stop(t, result); break;
    }
}

static void take_error(struct acp_thread *t, enum acp_ask what, struct str message)
{
    struct err e;
    t->loading = false;
    if (what == ACP_LOAD) { // it does not know the session any more: a new one is told the past
        start_thread(t);
    } else if (what == ACP_PROMPT) {
        t->begun = false;
        end_turn(t, t->stopping ? ENGINE_INTERRUPTED : ENGINE_FAILED, message);
    } else {
        err_set(&e, ERR_INVALID, "the agent refused: %.*s%s", (int)MIN(message.n, (size_t)300),
                message.p, t->boxed ? " (it has no network; --network gives the session one)" : "");
        engine_die(&t->base, &e);
    }
}

static void take_answer(struct acp_thread *t, const struct rpc_message *m)
{
    int64_t id = m->id != NULL && m->id->type == JSON_INT ? m->id->i : 0;
    for (size_t i = 0; i < ARRAY_LEN(t->asked); i++) {
        if (id != 0 && t->asked[i] == id) {
            t->asked[i] = 0;
            if (m->kind == RPC_RESULT) {
                take_result(t, (enum acp_ask)i, m->result);
            } else {
                take_error(t, (enum acp_ask)i, m->message);
            }
            return;
        }
    }
}

// ---- what it tells ------------------------------------------------------------------------------

static void take_chunk(struct acp_thread *t, const struct json *update, bool thought)
{
    struct str text = json_str(json_ptr(update, "/content/text"), "");
    if (text.n == 0) {
        return;
    }
    if (thought) {
        acp__flush(t);
        t->base.cb->on_delta(t->base.arg, &(struct provider_delta){.reasoning = text});
    } else {
        buf_adds(&t->message, text);
        t->base.cb->on_delta(t->base.arg, &(struct provider_delta){.text = text});
    }
}

/// Is it about our session? An agent may have more of its own.
static bool is_ours(const struct acp_thread *t, const struct json *params)
{
    return t->base.id != NULL && str_eqz(json_get_text(params, "sessionId"), t->base.id);
}

static void take_update(struct acp_thread *t, const struct json *params)
{
    const struct json *update = json_get(params, "update");
    struct str kind = json_get_text(update, "sessionUpdate");
    if (t->loading || !t->in_turn || t->base.cb == NULL || !is_ours(t, params)) {
        // the past, or unsolicited
    } else if (str_eqz(kind, "agent_message_chunk")) {
        take_chunk(t, update, false);
    } else if (str_eqz(kind, "agent_thought_chunk")) {
        take_chunk(t, update, true);
    } else if (str_eqz(kind, "tool_call")) {
        acp__call_update(t, update, true);
    } else if (str_eqz(kind, "tool_call_update")) {
        acp__call_update(t, update, false);
    } else if (str_eqz(kind, "plan")) {
        acp__plan(t, update);
    }
}

static void take_request(struct acp_thread *t, const struct rpc_message *m)
{
    struct engine_line line;
    if (str_eqz(m->method, "session/request_permission")) {
        acp__permission(t, m->id, is_ours(t, m->params) ? m->params : NULL);
    } else if (str_eqz(m->method, "elicitation/create")) {
        acp__reply(t, m->id, "{\"action\":\"decline\"}");
    } else {
        rpc_error(engine_line_new(&line), m->id, RPC_METHOD_NOT_FOUND,
                  "this client does not offer that");
        engine_line_flush(t->base.child, &line);
    }
}

static void on_line(void *arg, struct str line)
{
    struct acp_thread *t = arg;
    struct arena a = {0};
    struct rpc_packet packet;
    struct err e = {0};
    if (str_trim(line).n == 0) {
        return;
    }
    if (rpc_parse(&packet, &a, line, &e) < 0 || packet.n != 1) { // ACP has no batches
        err_set(&e, ERR_PARSE, "the agent printed a line that is no message: %.*s",
                (int)MIN(line.n, (size_t)100), line.p);
        engine_die(&t->base, &e);
    } else if (t->base.cb != NULL) {
        const struct rpc_message *m = &packet.messages[0];
        if (m->kind == RPC_REQUEST) {
            take_request(t, m);
        } else if (m->kind == RPC_NOTIFICATION && str_eqz(m->method, "session/update")) {
            take_update(t, m->params);
        } else {
            take_answer(t, m); // also one that makes no sense, as an error: no other follows
        }
    }
    arena_fini(&a);
}

// ---- what it is told ----------------------------------------------------------------------------

static struct acp_thread *of(struct engine_thread *t)
{
    return container_of(t, struct acp_thread, base.thread);
}

static void acp_turn(struct engine_thread *base, const struct engine_turn *in)
{
    struct acp_thread *t = of(base);
    assert(!t->in_turn);
    t->in_turn = true;
    t->n_calls = 0;
    buf_clear(&t->pictures);
    for (size_t i = 0; i < in->n_pictures; i++) {
        buf_addf(&t->pictures,
                 "%s{\"type\":\"image\",\"mimeType\":\"" STR_FMT "\",\"data\":\"" STR_FMT "\"}",
                 i != 0 ? "," : "", STR_ARG(in->pictures[i].media_type),
                 STR_ARG(in->pictures[i].data));
    }
    if (in->system.n != 0) {
        t->base.system = arena_strdup(&t->base.arena, in->system);
        if (!t->fresh) {
            buf_addf(&t->input, "<instructions>\n" STR_FMT "\n</instructions>\n\n",
                     STR_ARG(in->system));
        }
    }
    buf_adds(&t->input, in->text);
    if (t->base.id != NULL) {
        begin_prompt(t);
    }
}

static void acp_steer(struct engine_thread *base, struct str text)
{
    struct acp_thread *t = of(base);
    buf_addf(&t->input, "%s" STR_FMT, t->input.n != 0 ? "\n\n" : "", STR_ARG(text));
}

static void acp_interrupt(struct engine_thread *base)
{
    struct acp_thread *t = of(base);
    struct engine_line m;
    t->stopping = true;
    if (t->begun && !t->over) {
        rpc_begin_request(engine_line_new(&m), NULL, "session/cancel");
        jw_obj(&m.w);
        jw_kstrz(&m.w, "sessionId", t->base.id);
        jw_end_obj(&m.w);
        rpc_end(&m.w);
        engine_line_flush(t->base.child, &m);
        acp__cancel_questions(t);
    } else { // it has not heard of the turn yet
        end_later(t);
    }
}

static void acp_allow(struct engine_thread *base, struct str id, const struct json *input)
{
    (void)input; // the one that it asked about
    acp__decide(of(base), id, true);
}

static void acp_refuse(struct engine_thread *base, struct str id, struct str reason)
{
    (void)reason; // the protocol has no place for it
    acp__decide(of(base), id, false);
}

static void acp_answer(struct engine_thread *base, struct str id, struct str output, bool success)
{
    struct acp_thread *t = of(base);
    if (acp__tool_answer(t, id, output, success)) {
        return;
    }
    t->n_ours -= t->n_ours != 0;
    if (t->over && t->n_ours == 0) {
        end_later(t);
    }
}

static void acp_close(struct engine_thread *base)
{
    struct acp_thread *t = of(base);
    acp__forget_calls(t);
    acp__tools_end(t);
    if (t->gateway != NULL) {
        gateway_serve(t->gateway, NULL, NULL);
    }
    engine_base_fini(&t->base);
    vec_fini(&t->tool_calls);
    buf_fini(&t->input);
    buf_fini(&t->pictures);
    buf_fini(&t->message);
    free(t);
}

static const struct engine_ops ops = {.turn = acp_turn,
                                      .steer = acp_steer,
                                      .interrupt = acp_interrupt,
                                      .pause = engine_base_pause,
                                      .allow = acp_allow,
                                      .refuse = acp_refuse,
                                      .answer = acp_answer,
                                      .close = acp_close};

// ---- open ---------------------------------------------------------------------------------------

static void say_hello(struct acp_thread *t)
{
    struct engine_line m;
    struct jw *w = begin_request(t, &m, ACP_INIT, "initialize");
    jw_kint(w, "protocolVersion", 1);
    jw_kobj(w, "clientCapabilities");
    jw_kobj(w, "fs");
    jw_kbool(w, "readTextFile", false);
    jw_kbool(w, "writeTextFile", false);
    jw_end_obj(w);
    jw_kbool(w, "terminal", false);
    jw_end_obj(w);
    jw_kobj(w, "clientInfo");
    jw_kstrz(w, "name", "afloat");
    jw_kstrz(w, "version", t->base.world->version);
    jw_end_obj(w);
    end_request(t, &m);
}

static struct engine_thread *acp_open(struct engine_world *w, const struct engine_spec *spec,
                                      const struct engine_cb *cb, void *arg)
{
    static const struct engine_child_cb child_cb = {.on_line = on_line,
                                                    .on_end = engine_base_ended};
    static const char *const none[] = {NULL};
    struct acp_thread *t = xcalloc(1, sizeof *t);
    engine_base_init(&t->base, &ops, w, spec, cb, arg);
    buf_init(&t->input, SIZE_MAX);
    buf_init(&t->pictures, SIZE_MAX);
    buf_init(&t->message, SIZE_MAX);
    t->resume = spec->thread != NULL ? arena_strdup(&t->base.arena, str_of(spec->thread)) : NULL;
    t->boxed = engine_child_boxed(spec->env);
    struct engine_spec no_model = {.session = spec->session}; // it has its own
    t->gateway = gateway_open(w, &no_model, t->boxed, NULL);  // NULL: only the agent's own tools
    if (t->gateway != NULL) {
        gateway_serve(t->gateway, acp__tools_request, t);
    }
    assert(spec->command != NULL); // there is no program of its own
    const char *const own[] = {spec->command, NULL};
    struct engine_child_spec q = {.argv = engine_argv(&t->base.arena, own, spec->args),
                                  .env = none,
                                  .without = none,
                                  .place = spec->env,
                                  .dir = spec->dir,
                                  .gateway = t->gateway,
                                  .owner = cb,
                                  .owner_arg = arg};
    t->base.child = engine_child_start(w, &q, &child_cb, t);
    say_hello(t);
    return &t->base.thread;
}

const struct engine_kind engine_acp = {
    .name = "acp", .own_model = true, .fixed_tools = true, .open = acp_open};
