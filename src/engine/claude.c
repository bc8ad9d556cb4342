// Engine claude: the real Claude Code, by `claude -p` with JSON lines in both directions.
//
//     child ─> initialize (hooks, our tools) ─> user message ─> stream_event, assistant, user ... ─> result
//                                                  hook_callback PreToolUse ─> allow, deny
//                                                  mcp_message tools/call ───> the answer of our tool
//
// One process serves many turns. Before *every* call of a tool it raises a hook that we answer, so each goes through our
// permissions, whatever its own rules say. Our tools are an MCP server whose messages travel on the same streams.
// It has a home of its own in the session's directory (CLAUDE_CONFIG_DIR) and no settings of the user's or the project's.
//
// Steering: while a call runs, what is said waits in Claude's own queue and is read with the result. Else the request under
// way is interrupted, and the same turn continues with that message.

#include <assert.h>
#include <unistd.h>

#include "engine/claude_int.h"
#include "proto/engines.h"

// ---- sending ------------------------------------------------------------------------------------

static struct jw *begin_message(struct engine_line *m, const char *type)
{
    struct jw *w = engine_line_begin(m);
    jw_kstrz(w, "type", type);
    return w;
}

static struct jw *begin_control(struct claude *c, struct engine_line *m, const char *subtype)
{
    char id[32];
    struct jw *w = begin_message(m, "control_request");
    snprintf(id, sizeof id, "afloat-%u", ++c->n_requests);
    jw_kstrz(w, "request_id", id);
    jw_kobj(w, "request");
    jw_kstrz(w, "subtype", subtype);
    return w;
}

static void end_control(struct claude *c, struct engine_line *m)
{
    jw_end_obj(&m->w);
    engine_line_send(c->base.child, m);
}

static void say(struct claude *c, struct str text, const struct engine_picture *pictures, size_t n)
{
    assert(c->base.child != NULL && c->in_turn);
    struct engine_line m;
    struct jw *w = begin_message(&m, "user");
    jw_kobj(w, "message");
    jw_kstrz(w, "role", "user");
    jw_karr(w, "content");
    for (size_t i = 0; i < n; i++) {
        jw_obj(w);
        jw_kstrz(w, "type", "image");
        jw_kobj(w, "source");
        jw_kstrz(w, "type", "base64");
        jw_kstr(w, "media_type", pictures[i].media_type);
        jw_kstr(w, "data", pictures[i].data);
        jw_end_obj(w);
        jw_end_obj(w);
    }
    jw_obj(w);
    jw_kstrz(w, "type", "text");
    jw_kstr(w, "text", text);
    jw_end_obj(w);
    jw_end_arr(w);
    jw_end_obj(w);
    jw_kstrz(w, "parent_tool_use_id", NULL);
    jw_kstrz(w, "session_id", "default");
    engine_line_send(c->base.child, &m);
}

static void send_interrupt(struct claude *c)
{
    struct engine_line m;
    begin_control(c, &m, "interrupt");
    end_control(c, &m);
}

// ---- the stream ---------------------------------------------------------------------------------

static void take_stream(struct claude *c, const struct json *ev)
{
    struct str type = json_get_text(ev, "type");
    const struct json *delta = json_get(ev, "delta");
    struct provider_delta d = {.text = json_get_text(delta, "text"),
                               .reasoning = json_get_text(delta, "thinking")};
    if (str_eqz(type, "message_start")) {
        if (c->message_open) { // begun anew
            c->base.cb->on_void(c->base.arg, STR(""));
        }
        c->message_open = false;
        const struct json *u = json_ptr(ev, "/message/usage");
        int64_t read = json_int(json_get(u, "cache_read_input_tokens"), 0);
        int64_t made = json_int(json_get(u, "cache_creation_input_tokens"), 0);
        // their input excludes cached tokens, ours includes them
        c->usage = (struct provider_usage){
            .input = json_int(json_get(u, "input_tokens"), 0) + read + made, .cached = read};
    } else if (str_eqz(type, "content_block_delta") && (d.text.n != 0 || d.reasoning.n != 0)) {
        c->message_open = c->message_open || d.text.n != 0;
        c->base.cb->on_delta(c->base.arg, &d);
    } else if (str_eqz(type, "message_delta")) {
        c->usage.output = json_int(json_ptr(ev, "/usage/output_tokens"), c->usage.output);
    } else if (str_eqz(type, "message_stop")) {
        c->base.cb->on_usage(c->base.arg, &c->usage, 0);
    }
}

static void take_assistant(struct claude *c, const struct json *message)
{
    if (str_eqz(json_get_text(message, "model"), "<synthetic>")) {
        return; // Claude Code itself says that something failed; `result` says it again
    }
    json_foreach_item (it, json_get(message, "content")) {
        struct str text = json_get_text(it, "text");
        if (str_eqz(json_get_text(it, "type"), "text") && text.n != 0) {
            c->message_open = false;
            c->base.cb->on_message(c->base.arg, text);
        }
    }
}

/// The text of a result, which is one or a list of blocks.
static struct str result_text(struct claude *c, const struct json *content)
{
    struct buf out = {.max = SIZE_MAX};
    if (content != NULL && content->type == JSON_STR) {
        return content->s;
    }
    json_foreach_item (it, content) {
        buf_adds(&out, json_get_text(it, "text"));
    }
    struct str text = arena_str(&c->line, buf_str(&out));
    buf_fini(&out);
    return text;
}

/// "Exit code 3" in front of what a command wrote.
static struct str failure_of(struct claude *c, struct str *output)
{
    static const char front[] = "Exit code ";
    uint64_t code;
    struct str rest = *output, line = str_cut(&rest, '\n');
    if (str_starts(line, front) && str_to_u64(str_from(line, sizeof front - 1), &code)) {
        *output = rest;
        return str_of(arena_printf(&c->line, "exit %llu", (unsigned long long)code));
    }
    return STR("failed");
}

static void take_results(struct claude *c, const struct json *message)
{
    json_foreach_item (it, json_get(message, "content")) {
        struct claude_call *call = claude__find_call(c, json_get_text(it, "tool_use_id"));
        if (!str_eqz(json_get_text(it, "type"), "tool_result") || call == NULL || call->ours) {
            continue;
        }
        struct str output = result_text(c, json_get(it, "content"));
        bool failed = json_bool(json_get(it, "is_error"), false);
        struct str error = failed ? failure_of(c, &output) : STR("");
        c->base.cb->on_result(c->base.arg, json_get_text(it, "tool_use_id"), output, error,
                              STR(""));
        claude__forget_call(c, call);
    }
}

static void take_end(struct claude *c, const struct json *msg)
{
    bool failed = json_bool(json_get(msg, "is_error"), false) ||
                  !str_eqz(json_get_text(msg, "subtype"), "success");
    struct str why = json_get_text(msg, "result");
    why = why.n != 0 ? why : json_str(json_ptr(msg, "/errors/0"), "Claude Code did not say why");
    bool stopped = c->stopping;
    if (c->again.n != 0 && !stopped) { // it was interrupted for what was said
        say(c, buf_str(&c->again), NULL, 0);
        buf_clear(&c->again);
        return;
    }
    c->in_turn = c->stopping = c->message_open = false;
    buf_clear(&c->again);
    claude__forget_calls(c);
    c->base.cb->on_end(c->base.arg,
                       stopped  ? ENGINE_INTERRUPTED
                       : failed ? ENGINE_FAILED
                                : ENGINE_COMPLETED,
                       failed && !stopped ? why : STR(""));
}

static void take_system(struct claude *c, const struct json *msg)
{
    struct str subtype = json_get_text(msg, "subtype");
    if (str_eqz(subtype, "init")) {
        c->base.cb->on_thread(c->base.arg, json_get_text(msg, "session_id"), c->resumed);
    } else if (str_eqz(subtype, "api_retry")) {
        c->message_open = false;
        c->base.cb->on_void(c->base.arg,
                            json_str(json_get(msg, "error"), "the request is repeated"));
    }
}

static void take_line(struct claude *c, const struct json *msg)
{
    struct str type = json_get_text(msg, "type");
    const struct json *parent = json_get(msg, "parent_tool_use_id");
    bool below = parent != NULL && parent->type == JSON_STR; // of a subagent of its own
    if (str_eqz(type, "control_request")) {
        claude__questioned(c, msg);
    } else if (str_eqz(type, "system")) {
        take_system(c, msg);
    } else if (!c->in_turn || below) {
        return;
    } else if (str_eqz(type, "stream_event")) {
        take_stream(c, json_get(msg, "event"));
    } else if (str_eqz(type, "assistant")) {
        take_assistant(c, json_get(msg, "message"));
    } else if (str_eqz(type, "user")) {
        take_results(c, json_get(msg, "message"));
    } else if (str_eqz(type, "result")) {
        take_end(c, msg);
    }
}

static void on_line(void *arg, struct str line)
{
    struct claude *c = arg;
    struct json *msg = engine_read_line(&c->base, &c->line, line, "Claude Code");
    if (msg != NULL && c->base.cb != NULL) {
        take_line(c, msg);
    }
}

// ---- open ---------------------------------------------------------------------------------------

static void on_later(void *arg)
{
    struct claude *c = arg;
    struct err e = c->why;
    c->base.task = NULL;
    engine_die(&c->base, &e);
}

/// Is there a conversation of that id? Claude Code keeps them by the directory in which they were begun.
static bool has_conversation(struct claude *c, const struct engine_spec *q)
{
    if (q->thread == NULL || strchr(q->thread, '/') != NULL) {
        return false;
    }
    char *place = arena_strdup(&c->base.arena, str_of(c->base.cwd));
    for (char *p = place; *p != '\0'; p++) {
        bool plain =
            (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        *p = plain ? *p : '-';
    }
    return access(arena_printf(&c->base.arena, "%s/projects/%s/%s.jsonl", q->dir, place, q->thread),
                  R_OK) == 0;
}

static const char *const *make_argv(struct claude *c, const struct engine_spec *q)
{
    const char *own[] = {q->command != NULL ? q->command : ENGINE_CLAUDE,
                         "-p",
                         "--input-format",
                         "stream-json",
                         "--output-format",
                         "stream-json",
                         "--verbose",
                         "--include-partial-messages",
                         "--permission-prompt-tool",
                         "stdio",
                         "--strict-mcp-config",
                         "--mcp-config",
                         "{\"mcpServers\":{\"afloat\":{\"type\":\"sdk\",\"name\":\"afloat\"}}}",
                         "--setting-sources",
                         "",
                         "--tools",
                         "Bash,Read,Write,Edit,NotebookEdit,Glob,Grep",
                         "--model",
                         q->choice->model,
                         NULL,
                         NULL,
                         NULL};
    c->resumed = c->told_past = has_conversation(c, q);
    if (c->resumed) {
        own[ARRAY_LEN(own) - 3] = "--resume";
        own[ARRAY_LEN(own) - 2] = q->thread;
    }
    return engine_argv(&c->base.arena, own, q->args);
}

static void initialize(struct claude *c)
{
    struct engine_line m;
    struct jw *w = begin_control(c, &m, "initialize");
    jw_kstrz(w, "appendSystemPrompt", c->base.system);
    jw_kstrs(w, "sdkMcpServers", (const char *const[]){"afloat"}, 1);
    jw_kobj(w, "hooks");
    jw_karr(w, "PreToolUse");
    jw_obj(w);
    jw_kstrz(w, "matcher", NULL);
    jw_kstrs(w, "hookCallbackIds", (const char *const[]){"permission"}, 1);
    jw_kint(w, "timeout", 7 * 24 * 3600); // a person may take as long as session.answer_s says
    jw_end_obj(w);
    jw_end_arr(w);
    jw_end_obj(w);
    end_control(c, &m);
}

static void start_child(struct claude *c, const struct engine_spec *q, struct gateway *g)
{
    static const struct engine_child_cb cb = {.on_line = on_line, .on_end = engine_base_ended};
    static const char *const without[] = {"ANTHROPIC_", "CLAUDE", NULL};
    struct arena *a = &c->base.arena;
    const char *env[] = {arena_printf(a, "CLAUDE_CONFIG_DIR=%s", q->dir),
                         arena_printf(a, "ANTHROPIC_BASE_URL=%s", gateway_url(g)),
                         arena_printf(a, "ANTHROPIC_API_KEY=%s", gateway_key(g)),
                         arena_printf(a, "ANTHROPIC_SMALL_FAST_MODEL=%s", q->choice->model),
                         arena_printf(a, "ANTHROPIC_DEFAULT_HAIKU_MODEL=%s", q->choice->model),
                         "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
                         "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1",
                         "DISABLE_AUTOUPDATER=1",
                         NULL};
    struct engine_child_spec spec = {.argv = make_argv(c, q),
                                     .env = env,
                                     .without = without,
                                     .place = q->env,
                                     .dir = q->dir,
                                     .gateway = g,
                                     .owner = c->base.cb,
                                     .owner_arg = c->base.arg};
    c->base.child = engine_child_start(c->base.world, &spec, &cb, c);
    initialize(c);
}

static const struct engine_ops ops;

static struct engine_thread *claude_open(struct engine_world *w, const struct engine_spec *q,
                                         const struct engine_cb *cb, void *arg)
{
    struct claude *c = xcalloc(1, sizeof *c);
    engine_base_init(&c->base, &ops, w, q, cb, arg);
    buf_init(&c->again, SIZE_MAX);
    struct gateway *g = gateway_open(w, q, engine_child_boxed(q->env), &c->why);
    if (g == NULL) {
        c->base.task = loop_defer(w->loop, on_later, c);
    } else {
        start_child(c, q, g);
    }
    return &c->base.thread;
}

// ---- what the session does ----------------------------------------------------------------------

static void claude_turn(struct engine_thread *t, const struct engine_turn *in)
{
    struct claude *c = container_of(t, struct claude, base.thread);
    struct buf text = {.max = SIZE_MAX};
    assert(!c->in_turn);
    c->in_turn = true;
    engine_add_past(&text, c->told_past ? "" : c->base.past);
    c->told_past = true;
    if (in->system.n != 0) {
        buf_addf(&text, "Your instructions have changed. They are now:\n\n" STR_FMT "\n\n",
                 STR_ARG(in->system));
    }
    buf_adds(&text, in->text);
    if (c->base.child != NULL) {
        say(c, buf_str(&text), in->pictures, in->n_pictures);
    }
    buf_fini(&text);
}

static void claude_steer(struct engine_thread *t, struct str text)
{
    struct claude *c = container_of(t, struct claude, base.thread);
    if (c->base.child == NULL || c->stopping) {
        return;
    }
    if (c->calls.n != 0) {
        say(c, text, NULL, 0);
        return;
    }
    bool interrupted = c->again.n != 0;
    buf_addf(&c->again, "%s" STR_FMT, interrupted ? "\n\n" : "", STR_ARG(text));
    if (!interrupted) {
        send_interrupt(c);
    }
}

static void claude_interrupt(struct engine_thread *t)
{
    struct claude *c = container_of(t, struct claude, base.thread);
    c->stopping = true;
    if (c->base.child != NULL) {
        send_interrupt(c);
    }
}

static void claude_close(struct engine_thread *t)
{
    struct claude *c = container_of(t, struct claude, base.thread);
    engine_base_fini(&c->base);
    claude__forget_calls(c);
    buf_fini(&c->again);
    arena_fini(&c->line);
    free(c);
}

static const struct engine_ops ops = {.turn = claude_turn,
                                      .steer = claude_steer,
                                      .interrupt = claude_interrupt,
                                      .pause = engine_base_pause,
                                      .allow = claude__allow,
                                      .refuse = claude__refuse,
                                      .answer = claude__answer,
                                      .close = claude_close};

const struct engine_kind engine_claude = {.name = ENGINE_CLAUDE,
                                          .program = ENGINE_CLAUDE,
                                          .install = ENGINE_CLAUDE_INSTALL,
                                          .provider = "anthropic",
                                          .edits = true,
                                          .open = claude_open};
