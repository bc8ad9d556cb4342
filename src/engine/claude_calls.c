// The calls of Claude Code: each is asked about by a hook before it runs, and those of our tools come by MCP.
//
//     hook_callback PreToolUse ──> on_call, in our words ──> allow, deny; the input may be another one
//     mcp_message tools/call ────> on_call ──> answer
//     mcp_message tools/list ────> the tools of the session
//
// Invariant: a call is in the list until its result came, it was refused, or the turn is over; `request` is the question
// that still waits for an answer.

#include <assert.h>

#include "agent/make.h"
#include "engine/claude_int.h"
#include "engine/offer.h"
#include "rpc/rpc.h"

#define OUR_PREFIX "mcp__afloat__"

// ---- tools --------------------------------------------------------------------------------------

/// What a tool of Claude's is here; members of its input have other names there. NULL ends the members.
static const struct tool_map {
    const char *theirs, *ours;
    enum tool_effect effect;
    const char *members[5][2]; // theirs, ours
} maps[] = {
    {"Bash", "shell", TOOL_RUNS, {{"command", "cmd"}}},
    {"Read",
     "read_file",
     TOOL_READS,
     {{"file_path", "path"}, {"offset", "offset"}, {"limit", "limit"}}},
    {"Write", "write_file", TOOL_WRITES, {{"file_path", "path"}, {"content", "content"}}},
    {"Edit",
     "edit_file",
     TOOL_WRITES,
     {{"file_path", "path"}, {"old_string", "old"}, {"new_string", "new"}, {"replace_all", "all"}}},
    {"NotebookEdit", "edit_file", TOOL_WRITES, {{"notebook_path", "path"}, {"new_source", "new"}}},
    {"Glob", "list_files", TOOL_READS, {{"path", "path"}, {"pattern", "pattern"}}},
    {"Grep",
     "search_files",
     TOOL_READS,
     {{"pattern", "pattern"}, {"path", "path"}, {"glob", "glob"}}},
};
static const struct tool_map other_tool = {NULL, NULL, TOOL_RUNS, {{NULL, NULL}}};

static const struct tool_map *find_map(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
        if (str_eqz(name, maps[i].theirs)) {
            return &maps[i];
        }
    }
    return &other_tool;
}

/// A path below the working directory is told without it, as rules and people know it.
static struct json short_path(const struct claude *c, const char *name, struct json v)
{
    size_t n = strlen(c->base.cwd);
    if (strcmp(name, "path") == 0 && v.type == JSON_STR && str_starts(v.s, c->base.cwd) &&
        v.s.n > n + 1 && v.s.p[n] == '/') {
        v.s = str_from(v.s, n + 1);
    }
    return v;
}

/// The input in our words.
static struct json *to_ours(struct claude *c, const struct tool_map *map, const struct json *input)
{
    struct json *out = make_obj(&c->line, ARRAY_LEN(map->members));
    if (map == &other_tool) {
        *out = *input;
        return out;
    }
    for (size_t i = 0; i < ARRAY_LEN(map->members) && map->members[i][0] != NULL; i++) {
        const struct json *v = json_get(input, map->members[i][0]);
        if (v != NULL) {
            make_put(out, map->members[i][1], short_path(c, map->members[i][1], *v));
        }
    }
    return out;
}

/// Back to Claude's words: its own input, with what is another now.
static void write_theirs(struct claude *c, struct jw *w, const struct claude_call *call,
                         const struct json *ours)
{
    jw_obj(w);
    json_foreach_member (m, call->input) {
        const struct json *now = call->map == &other_tool ? json_get_str(ours, m->key) : NULL;
        for (size_t i = 0; i < ARRAY_LEN(call->map->members) && call->map->members[i][0] != NULL;
             i++) {
            const struct json *v = json_get(ours, call->map->members[i][1]);
            struct json was = short_path(c, call->map->members[i][1], m->value);
            if (str_eqz(m->key, call->map->members[i][0]) && v != NULL && !json_equal(v, &was)) {
                now = v;
            }
        }
        jw_key_str(w, m->key);
        bool path = str_eqz(m->key, "file_path") || str_eqz(m->key, "notebook_path");
        if (path && now != NULL && now->type == JSON_STR && now->s.n != 0 && now->s.p[0] != '/') {
            jw_str(w, str_of(arena_printf(&c->line, "%s/" STR_FMT, c->base.cwd, STR_ARG(now->s))));
        } else {
            jw_value(w, now != NULL ? now : &m->value);
        }
    }
    jw_end_obj(w);
}

// ---- answers ------------------------------------------------------------------------------------

/// The answer to a question; members of `response` follow.
static struct jw *begin_answer(struct engine_line *m, const char *request)
{
    struct jw *w = engine_line_begin(m);
    jw_kstrz(w, "type", "control_response");
    jw_kobj(w, "response");
    jw_kstrz(w, "subtype", "success");
    jw_kstrz(w, "request_id", request);
    jw_kobj(w, "response");
    return w;
}

static void end_answer(struct claude *c, struct engine_line *m)
{
    jw_end_obj(&m->w);
    jw_end_obj(&m->w);
    engine_line_send(c->base.child, m);
}

// ---- calls --------------------------------------------------------------------------------------

struct claude_call *claude__find_call(const struct claude *c, struct str id)
{
    for (size_t i = 0; i < c->calls.n; i++) {
        if (str_eqz(id, c->calls.p[i]->id)) {
            return c->calls.p[i];
        }
    }
    return NULL;
}

static struct claude_call *add_call(struct claude *c, struct str id, struct str request,
                                    const struct json *input)
{
    struct claude_call *call = xcalloc(1, sizeof *call);
    call->id = str_dup(id);
    call->request = str_dup(request);
    call->input = json_clone(&call->arena, input);
    vec_push(&c->calls, call);
    return call;
}

static void call_free(struct claude_call *call)
{
    free(call->id);
    free(call->request);
    arena_fini(&call->arena);
    free(call);
}

void claude__forget_call(struct claude *c, struct claude_call *call)
{
    vec_drop(&c->calls, call);
    call_free(call);
}

void claude__forget_calls(struct claude *c)
{
    vec_fini_each(&c->calls, call_free);
}

/// Allow it, with another input where `ours` is one, or deny it with the reason.
static void decide(struct claude *c, const char *request, bool allow, struct str reason,
                   const struct claude_call *call, const struct json *ours)
{
    struct engine_line m;
    struct jw *w = begin_answer(&m, request);
    jw_kobj(w, "hookSpecificOutput");
    jw_kstrz(w, "hookEventName", "PreToolUse");
    jw_kstrz(w, "permissionDecision", allow ? "allow" : "deny");
    jw_kstr(w, "permissionDecisionReason", reason);
    if (ours != NULL) {
        jw_key(w, "updatedInput");
        write_theirs(c, w, call, ours);
    }
    jw_end_obj(w);
    end_answer(c, &m);
}

void claude__allow(struct engine_thread *t, struct str id, const struct json *input)
{
    struct claude *c = container_of(t, struct claude, base.thread);
    struct claude_call *call = claude__find_call(c, id);
    if (call != NULL && call->request != NULL) {
        decide(c, call->request, true, STR("allowed by Afloat"), call, input);
        free(call->request);
        call->request = NULL;
    }
}

void claude__refuse(struct engine_thread *t, struct str id, struct str reason)
{
    struct claude *c = container_of(t, struct claude, base.thread);
    struct claude_call *call = claude__find_call(c, id);
    if (call != NULL && call->request != NULL) {
        decide(c, call->request, false, reason, call, NULL);
        claude__forget_call(c, call);
    }
}

void claude__answer(struct engine_thread *t, struct str id, struct str output, bool success)
{
    struct claude *c = container_of(t, struct claude, base.thread);
    struct claude_call *call = claude__find_call(c, id);
    struct engine_line m;
    if (call == NULL || !call->ours) {
        return;
    }
    assert(call->request != NULL); // of ours it is answered here
    struct jw *w = begin_answer(&m, call->request);
    jw_key(w, "mcp_response");
    rpc_begin_result(w, &call->rpc_id);
    offer_write_result(w, output, success);
    rpc_end(w);
    end_answer(c, &m);
    claude__forget_call(c, call);
}

/// Before a tool runs. Ours are judged when they are called.
static void take_hook(struct claude *c, struct str request, const struct json *input)
{
    static const struct json nothing = {.type = JSON_OBJ};
    struct str id = json_get_text(input, "tool_use_id");
    struct str name = json_get_text(input, "tool_name");
    const struct json *args = json_get(input, "tool_input");
    const char *asked = arena_strdup(&c->line, request);
    args = args != NULL && args->type == JSON_OBJ ? args : &nothing;
    if (str_starts(name, OUR_PREFIX)) {
        decide(c, asked, true, STR("a tool of Afloat"), NULL, NULL);
        return;
    }
    if (!c->in_turn || c->base.cb == NULL || id.n == 0 || id.n > CLAUDE_ID_MAX ||
        claude__find_call(c, id) != NULL) {
        decide(c, asked, false, STR("no turn runs"), NULL, NULL);
        return;
    }
    struct claude_call *call = add_call(c, id, request, args);
    call->map = find_map(name);
    struct engine_call q = {.id = id,
                            .tool = call->map->ours != NULL ? str_of(call->map->ours) : name,
                            .input = to_ours(c, call->map, args),
                            .runner = ENGINE_ASKS,
                            .effect = call->map->effect,
                            .diff = STR("")};
    c->base.cb->on_call(c->base.arg, &q);
}

// ---- our tools, as an MCP server ------------------------------------------------------------------

static void answer_mcp(struct claude *c, struct str request, const struct rpc_message *q)
{
    struct engine_line m;
    static const struct json none = {.type = JSON_INT};
    struct jw *w = begin_answer(&m, arena_strdup(&c->line, request));
    jw_key(w, "mcp_response");
    rpc_begin_result(w, q->id != NULL ? q->id : &none); // a notification is answered, too
    if (str_eqz(q->method, "initialize")) {
        offer_write_hello(w, q->params, c->base.world->version);
    } else if (str_eqz(q->method, "tools/list")) {
        offer_write_tools(w, c->base.tools);
    } else {
        jw_raw(w, STR("{}"));
    }
    rpc_end(w);
    end_answer(c, &m);
}

static void call_tool(struct claude *c, struct str request, const struct rpc_message *q)
{
    struct str id = json_str(json_ptr(q->params, "/_meta/claudecode~1toolUseId"), "");
    id = id.n != 0 && id.n <= CLAUDE_ID_MAX ? id : request;
    if (!c->in_turn || c->base.cb == NULL || claude__find_call(c, id) != NULL) {
        answer_mcp(c, request, q);
        return;
    }
    struct claude_call *call = add_call(c, id, request, offer_input(q->params));
    call->ours = true;
    call->rpc_id = *json_clone(&call->arena, q->id);
    struct engine_call e = {.id = id,
                            .tool = json_get_text(q->params, "name"),
                            .input = call->input,
                            .runner = ENGINE_OURS,
                            .diff = STR("")};
    c->base.cb->on_call(c->base.arg, &e);
}

void claude__questioned(struct claude *c, const struct json *msg)
{
    struct str request = json_get_text(msg, "request_id");
    const struct json *q = json_get(msg, "request");
    struct str subtype = json_get_text(q, "subtype");
    struct engine_line m;
    if (str_eqz(subtype, "hook_callback")) {
        take_hook(c, request, json_get(q, "input"));
    } else if (str_eqz(subtype, "mcp_message")) {
        struct rpc_message rpc = rpc_read(json_get(q, "message"));
        if (rpc.kind == RPC_REQUEST && str_eqz(rpc.method, "tools/call")) {
            call_tool(c, request, &rpc);
        } else {
            answer_mcp(c, request, &rpc);
        }
    } else { // can_use_tool: the hook has decided, and what asks all the same is not allowed
        struct jw *w = begin_answer(&m, arena_strdup(&c->line, request));
        jw_kstrz(w, "behavior", "deny");
        jw_kstrz(w, "message", "Afloat decides before a tool is called");
        end_answer(c, &m);
    }
}
