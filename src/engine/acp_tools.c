// Our tools for an agent: a small MCP server behind its gateway.
//
//     agent's MCP client ── POST /mcp ──> tools/list: what it was opened with
//                                        tools/call ──> on_call ENGINE_OURS ──> answer() ──> the result
//
// Only what a client needs for tools is here, as plain JSON answers; the MCP server for everybody is mcpserver/.

#include <assert.h>

#include "engine/acp_int.h"

enum { TOOL_CALLS_MAX = 64 };

struct acp_tool_call {
    char *ours;
    const struct json *id; // of the request, in `arena`
    struct arena arena;
    struct gateway_ticket *ticket;
};

static void reply(struct gateway_ticket *ticket, const struct json *id, struct str result)
{
    struct buf text;
    struct jw w;
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    rpc_begin_result(&w, id);
    jw_raw(&w, result);
    rpc_end(&w);
    gateway_answer(ticket, buf_str(&text));
    buf_fini(&text);
}

static void refuse(struct gateway_ticket *ticket, const struct json *id, int64_t code,
                   const char *why)
{
    struct buf text;
    struct jw w;
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    rpc_error(&w, id, code, "%s", why);
    gateway_answer(ticket, buf_str(&text));
    buf_fini(&text);
}

static void finish(struct acp_tool_call *c, struct str output, bool success)
{
    struct buf text;
    struct jw w;
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_obj(&w);
    jw_karr(&w, "content");
    jw_obj(&w);
    jw_kstrz(&w, "type", "text");
    jw_kstr(&w, "text", output);
    jw_end_obj(&w);
    jw_end_arr(&w);
    jw_kbool(&w, "isError", !success);
    jw_end_obj(&w);
    reply(c->ticket, c->id, buf_str(&text));
    buf_fini(&text);
    free(c->ours);
    arena_fini(&c->arena);
    free(c);
}

bool acp__tool_answer(struct acp_thread *t, struct str ours, struct str output, bool success)
{
    for (size_t i = 0; i < t->tool_calls.n; i++) {
        struct acp_tool_call *c = t->tool_calls.p[i];
        if (str_eqz(ours, c->ours)) {
            vec_remove(&t->tool_calls, i);
            finish(c, output, success);
            return true;
        }
    }
    return false;
}

void acp__tools_end(struct acp_thread *t)
{
    while (t->tool_calls.n != 0) {
        finish(vec_pop(&t->tool_calls), STR("the turn is over"), false);
    }
}

static void call_tool(struct acp_thread *t, const struct rpc_message *m,
                      struct gateway_ticket *ticket)
{
    static const struct json nothing = {.type = JSON_OBJ};
    const struct json *input = json_get(m->params, "arguments");
    struct str name = json_str(json_get(m->params, "name"), "");
    if (!t->in_turn || t->cb == NULL || t->tool_calls.n >= TOOL_CALLS_MAX) {
        refuse(ticket, m->id, RPC_INTERNAL_ERROR, "no turn is under way");
        return;
    }
    struct acp_tool_call *c = xcalloc(1, sizeof *c);
    arena_init(&c->arena);
    c->ours = xasprintf("tool-%u", ++t->n_calls);
    c->id = json_clone(&c->arena, m->id);
    c->ticket = ticket;
    vec_push(&t->tool_calls, c);
    acp__flush(t);
    struct engine_call call = {.id = str_of(c->ours),
                               .tool = name,
                               .input = input != NULL && input->type == JSON_OBJ ? input : &nothing,
                               .runner = ENGINE_OURS};
    t->cb->on_call(t->arg, &call);
}

static void list_tools(const struct acp_thread *t, const struct json *id,
                       struct gateway_ticket *ticket)
{
    struct buf text;
    struct jw w;
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_obj(&w);
    jw_karr(&w, "tools");
    json_foreach_item (it, t->tools) {
        jw_obj(&w);
        jw_kvalue(&w, "name", json_get(it, "name"));
        jw_kvalue(&w, "description", json_get(it, "description"));
        jw_kvalue(&w, "inputSchema", json_get(it, "input_schema"));
        jw_end_obj(&w);
    }
    jw_end_arr(&w);
    jw_end_obj(&w);
    reply(ticket, id, buf_str(&text));
    buf_fini(&text);
}

static void say_hello(const struct acp_thread *t, const struct rpc_message *m,
                      struct gateway_ticket *ticket)
{
    struct buf text;
    struct jw w;
    buf_init(&text, SIZE_MAX);
    jw_init(&w, &text);
    jw_obj(&w);
    jw_kstr(&w, "protocolVersion", json_str(json_get(m->params, "protocolVersion"), "2025-06-18"));
    jw_key(&w, "capabilities");
    jw_raw(&w, STR("{\"tools\":{}}"));
    jw_kobj(&w, "serverInfo");
    jw_kstrz(&w, "name", "afloat");
    jw_kstrz(&w, "version", t->world->version);
    jw_end_obj(&w);
    jw_end_obj(&w);
    reply(ticket, m->id, buf_str(&text));
    buf_fini(&text);
}

void acp__tools_request(void *arg, struct str body, struct gateway_ticket *ticket)
{
    struct acp_thread *t = arg;
    struct arena a;
    struct rpc_packet packet;
    arena_init(&a);
    bool good = rpc_parse(&packet, &a, body, NULL) == 0 && packet.n == 1;
    const struct rpc_message *m = good ? &packet.messages[0] : NULL;
    if (m == NULL || m->kind == RPC_INVALID) {
        refuse(ticket, NULL, RPC_INVALID_REQUEST, "one message is expected");
    } else if (m->kind != RPC_REQUEST) {
        gateway_answer(ticket, STR_NULL);
    } else if (str_eqz(m->method, "initialize")) {
        say_hello(t, m, ticket);
    } else if (str_eqz(m->method, "ping")) {
        reply(ticket, m->id, STR("{}"));
    } else if (str_eqz(m->method, "tools/list")) {
        list_tools(t, m->id, ticket);
    } else if (str_eqz(m->method, "tools/call")) {
        call_tool(t, m, ticket);
    } else {
        refuse(ticket, m->id, RPC_METHOD_NOT_FOUND, "there is no such method");
    }
    arena_fini(&a);
}
