// What a tool, MCP prompt or MCP resource may ask the client that called it: ctx.log, ctx.ask, ctx.elicit,
// ctx.sample, ctx.roots.
//
//     ctx.elicit{message, schema} ─> {key: {method: "elicitation/create", params}} ─> hook_caller.ask
//                                                                  ├─ known already: returns at once
//                                                                  └─ waits; the answer wakes the handler
//
// A client of the stateless era cannot be asked while a call runs: the call ends, and comes again with the answers.
// The handler then runs from its start, and each question finds its answer by its key. So keys must be the same
// in each run: they are counted unless the handler names them.
//
// While a handler waits for its client, its own time does not run: a user may think about an answer.
//
// Other code that got hold of ctx (a timer, a callback) may ask as well, while the call runs. Its questions end with the
// call: the client knows of no question of a call that has ended.
//
// Invariant: a question is in its ctx's list exactly while the caller may answer it.

#include <lauxlib.h>

#include "bind/agent_args.h"
#include "bind/bind_int.h"

struct question {
    struct bind_op op;
    struct hook_ask ask;
    struct agent_ctx *ctx; // NULL: its call has ended, and `task` tells the code that waits
    struct loop_task *task;
    struct question *prev, *next; // of the ctx
    const char *who;              // "ctx.ask"; static
    char *only;                   // give the answer of this key instead of all; NULL: all
};

static int push_answers(lua_State *L, const struct json *answers, const char *only)
{
    value_push(L, only != NULL ? json_get(answers, only) : answers);
    return 1;
}

static void question_free(struct question *q)
{
    free(q->only);
    free(q);
}

static void question_remove(struct question *q)
{
    struct agent_ctx *c = q->ctx;
    q->ctx = NULL;
    list_remove(&c->questions, q);
    if (c->questions == NULL && c->call != NULL) {
        bind__call_rest(c->call, false);
    }
}

static void on_answered(struct hook_ask *ask, const struct json *answers, const struct err *e)
{
    struct question *q = container_of(ask, struct question, ask);
    question_remove(q);
    lua_State *L = bind__op_answer_begin(&q->op);
    if (L != NULL) {
        int n = answers != NULL ? push_answers(L, answers, q->only) : args_fail(L, "%s", e->msg);
        bind__op_answer(&q->op, n);
    }
    question_free(q);
}

static void on_cancel(struct bind_op *op)
{
    struct question *q = container_of(op, struct question, op);
    if (q->ctx != NULL) {
        q->ctx->of->caller->forget(q->ctx->of->caller_arg, &q->ask);
        question_remove(q);
    } else {
        loop_cancel(op->o->bind->o.hub->loop, q->task);
    }
    question_free(q);
}

static void on_call_ended(void *arg)
{
    struct question *q = arg;
    char text[80];
    snprintf(text, sizeof text, "%s: the call that asked has ended", q->who);
    bind__op_fail(&q->op, text);
    question_free(q);
}

void agent_ctx_forget_questions(struct agent_ctx *c)
{
    while (c->questions != NULL) {
        struct question *q = c->questions;
        c->of->caller->forget(c->of->caller_arg, &q->ask);
        list_remove(&c->questions, q);
        q->ctx = NULL;
        q->task = loop_defer(c->bind->o.hub->loop, on_call_ended, q); // Lua code may run here
    }
}

static int ask(lua_State *L, const struct json *requests, const char *only, const char *who)
{
    struct agent_ctx *c = agent_ctx_of(L);
    const struct hook_ctx *of = c != NULL ? c->of : NULL;
    const struct json *answers = NULL;
    struct err e = {0};
    if (of == NULL || of->caller == NULL) {
        return args_fail(L, "%s: only a tool in a session, or what an MCP client calls, can ask",
                         who);
    }
    entry_check_wait(L);
    struct question *q = xcalloc(1, sizeof *q);
    q->who = who;
    q->ask.answered = on_answered;
    int rc = of->caller->ask(of->caller_arg, &q->ask, requests, &answers, &e);
    if (rc <= 0) {
        question_free(q);
        return rc == 0 ? push_answers(L, answers, only) : args_fail(L, "%s: %s", who, e.msg);
    }
    q->only = only != NULL ? xstrdup(only) : NULL;
    if (c->questions == NULL && c->call != NULL) { // its clock stands still while there is any
        bind__call_rest(c->call, true);
    }
    q->ctx = c;
    list_add(&c->questions, q);
    lua_settop(L, 0);
    return bind__op_begin(L, &q->op, 1, on_cancel);
}

/// One question: `params` is an object in the scratch. The key is the field `key` of the table at 1, else a count.
static int ask_one(lua_State *L, const char *method, struct json *params, const char *who)
{
    struct arena *a = &args_scratch(L)->arena;
    struct agent_ctx *c = agent_ctx_of(L);
    const char *key =
        lua_istable(L, 1) && args_field(L, 1, "key") ? args_z(L, -1, who, "key") : NULL;
    if (key == NULL) {
        key = arena_printf(a, "%s-%u", who + strlen("ctx."), c != NULL ? ++c->asked : 0);
    }
    key = arena_strdup(a, str_of(key));
    struct json_member *parts = arena_calloc(a, 3, sizeof *parts);
    parts[0] = (struct json_member){STR("method"), {.type = JSON_STR, .s = str_of(method)}};
    parts[1] = (struct json_member){STR("params"), *params};
    parts[2] = (struct json_member){str_of(key), {.type = JSON_OBJ, .n = 2, .members = parts}};
    return ask(L, &(struct json){.type = JSON_OBJ, .n = 1, .members = &parts[2]}, key, who);
}

/// The table at 1 as parameters, without `key`, and with the names that MCP has for these fields.
static struct json *read_params(lua_State *L, const char *who, const char *const (*names)[2])
{
    struct arena *a = &args_scratch(L)->arena;
    struct json *v = NULL;
    struct err e = {0};
    if (!lua_istable(L, 1) || value_read(&v, a, L, 1, &e) < 0) {
        luaL_error(L, "%s: expects a table%s%s", who, e.msg[0] != '\0' ? ": " : "", e.msg);
    }
    if (v->type != JSON_OBJ) {
        luaL_error(L, "%s: expects a table with names", who);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        struct json_member m = v->members[i];
        for (size_t k = 0; names[k][0] != NULL; k++) {
            m.key = str_eqz(m.key, names[k][0]) ? str_of(names[k][1]) : m.key;
        }
        if (!str_eqz(m.key, "key")) {
            v->members[n++] = m;
        }
    }
    v->n = n;
    return v;
}

/// ctx.log(level, data): a line in the log of the client.
int agent_ctx_log(lua_State *L)
{
    static const char *const levels[] = {"debug",    "info",  "notice",    "warning", "error",
                                         "critical", "alert", "emergency", NULL};
    const struct agent_ctx *c = agent_ctx_of(L);
    struct json *data;
    struct err e = {0};
    lua_settop(L, 2);
    const char *level = levels[luaL_checkoption(L, 1, "info", levels)];
    if (value_read(&data, &args_scratch(L)->arena, L, 2, &e) < 0) {
        return luaL_error(L, "ctx.log: %s", e.msg);
    }
    bool heard = c != NULL && c->of != NULL && c->of->caller != NULL;
    if (heard) {
        c->of->caller->log(c->of->caller_arg, str_of(level), data);
    }
    return args_bool(L, heard);
}

/// ctx.ask{key = {method, params}, ...} -> {key = result, ...}: several questions at once.
int agent_ctx_ask(lua_State *L)
{
    static const char *const none[][2] = {{NULL, NULL}};
    const struct json *requests = read_params(L, "ctx.ask", none);
    json_foreach_member (m, requests) {
        if (json_str(json_get(&m->value, "method"), "").n == 0) {
            return luaL_error(L, "ctx.ask: each question is a table with 'method' and 'params'");
        }
    }
    return ask(L, requests, NULL, "ctx.ask");
}

/// ctx.elicit{message, schema [, key]} -> {action, content}
int agent_ctx_elicit(lua_State *L)
{
    static const char *const names[][2] = {{"schema", "requestedSchema"}, {NULL, NULL}};
    struct json *params = read_params(L, "ctx.elicit", names);
    if (json_str(json_get(params, "message"), "").n == 0) {
        return luaL_error(L, "ctx.elicit: 'message' is missing: the text that the user sees");
    }
    return ask_one(L, "elicitation/create", params, "ctx.elicit");
}

/// ctx.sample{messages, max_tokens, system, ... [, key]} -> {role, content, model}; a text alone is one message.
int agent_ctx_sample(lua_State *L)
{
    static const char *const names[][2] = {{"max_tokens", "maxTokens"},
                                           {"system", "systemPrompt"},
                                           {"stop", "stopSequences"},
                                           {NULL, NULL}};
    if (lua_type(L, 1) == LUA_TSTRING) { // as {messages = {{role = "user", content = ...}}}
        lua_createtable(L, 0, 2);
        lua_createtable(L, 1, 0);
        lua_createtable(L, 0, 2);
        lua_pushliteral(L, "user");
        lua_setfield(L, -2, "role");
        lua_createtable(L, 0, 2);
        lua_pushliteral(L, "text");
        lua_setfield(L, -2, "type");
        lua_pushvalue(L, 1);
        lua_setfield(L, -2, "text");
        lua_setfield(L, -2, "content");
        lua_rawseti(L, -2, 1);
        lua_setfield(L, -2, "messages");
        lua_replace(L, 1);
        lua_settop(L, 1);
    }
    if (lua_istable(L, 1) && !args_field(L, 1, "max_tokens")) {
        lua_pushinteger(L, 1000);
        lua_setfield(L, 1, "max_tokens");
    }
    struct json *params = read_params(L, "ctx.sample", names);
    return ask_one(L, "sampling/createMessage", params, "ctx.sample");
}

/// ctx.roots([key]) -> {roots = {{uri, name}, ...}}: the directories that the client works in.
int agent_ctx_roots(lua_State *L)
{
    struct json nothing = {.type = JSON_OBJ};
    return ask_one(L, "roots/list", &nothing, "ctx.roots");
}
