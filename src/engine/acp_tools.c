// Our tools for an agent: a small MCP server behind its gateway.
//
//     agent's MCP client ── POST /mcp ──> tools/list: what it was opened with
//                                        tools/call ──> on_call ENGINE_OURS ──> answer() ──> the result
//
// Only what a client needs for tools is here, as plain JSON answers; the MCP server for everybody is mcpserver/.

#include <assert.h>

#include "engine/acp_int.h"
#include "engine/offer.h"

enum { TOOL_CALLS_MAX = 64 };

struct acp_tool_call {
    char *ours;
    const struct json *id; // of the request, in `arena`
    struct arena arena;
    struct gateway_ticket *ticket;
};

/// Answer with what `line` holds.
static void answer(struct gateway_ticket *ticket, struct engine_line *line)
{
    gateway_answer(ticket, buf_str(&line->text));
    buf_fini(&line->text);
}

static void refuse(struct gateway_ticket *ticket, const struct json *id, int64_t code,
                   const char *why)
{
    struct engine_line m;
    rpc_error(engine_line_new(&m), id, code, "%s", why);
    answer(ticket, &m);
}

static void finish(struct acp_tool_call *c, struct str output, bool success)
{
    struct engine_line m;
    rpc_begin_result(engine_line_new(&m), c->id);
    offer_write_result(&m.w, output, success);
    rpc_end(&m.w);
    answer(c->ticket, &m);
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
    struct str name = json_get_text(m->params, "name");
    if (!t->in_turn || t->base.cb == NULL || t->tool_calls.n >= TOOL_CALLS_MAX) {
        refuse(ticket, m->id, RPC_INTERNAL_ERROR, "no turn is under way");
        return;
    }
    struct acp_tool_call *c = xcalloc(1, sizeof *c);
    c->ours = xasprintf("tool-%u", ++t->n_calls);
    c->id = json_clone(&c->arena, m->id);
    c->ticket = ticket;
    vec_push(&t->tool_calls, c);
    acp__flush(t);
    struct engine_call call = {.id = str_of(c->ours),
                               .tool = name,
                               .input = offer_input(m->params),
                               .runner = ENGINE_OURS};
    t->base.cb->on_call(t->base.arg, &call);
}

void acp__tools_request(void *arg, struct str body, struct gateway_ticket *ticket)
{
    struct acp_thread *t = arg;
    struct arena a = {0};
    struct rpc_packet packet;
    struct engine_line line;
    bool good = rpc_parse(&packet, &a, body, NULL) == 0 && packet.n == 1;
    const struct rpc_message *m = good ? &packet.messages[0] : NULL;
    if (m == NULL || m->kind == RPC_INVALID) {
        refuse(ticket, NULL, RPC_INVALID_REQUEST, "one message is expected");
    } else if (m->kind != RPC_REQUEST) {
        gateway_answer(ticket, STR_NULL);
    } else if (str_eqz(m->method, "tools/call")) {
        call_tool(t, m, ticket);
    } else {
        bool hello = str_eqz(m->method, "initialize"), list = str_eqz(m->method, "tools/list");
        struct jw *w = engine_line_new(&line);
        if (hello || list || str_eqz(m->method, "ping")) {
            rpc_begin_result(w, m->id);
            if (hello) {
                offer_write_hello(w, m->params, t->base.world->version);
            } else if (list) {
                offer_write_tools(w, t->base.tools);
            } else {
                jw_raw(w, STR("{}"));
            }
            rpc_end(w);
        } else {
            rpc_error(w, m->id, RPC_METHOD_NOT_FOUND, "there is no such method");
        }
        answer(ticket, &line);
    }
    arena_fini(&a);
}
