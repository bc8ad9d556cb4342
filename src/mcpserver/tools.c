// tools/call: a plugin's tool through the pipeline of every call (agent_tool_run), or an operation.
//
// A tool that fails, is denied or does not accept its arguments answers with a result that has isError: the model reads
// it and may do better. Only an unknown name is an error of the protocol.

#include "agent/agent.h"
#include "mcpserver/mcp_int.h"

static void write_answer(struct mcp_call *c, const struct agent_tool_answer *r)
{
    struct jw *w = mcp_call__begin(c);
    if (r->content != NULL && r->error.p == NULL) {
        jw_kvalue(w, "content", r->content);
    } else {
        jw_karr(w, "content");
        if (r->output.n != 0 || r->error.p == NULL) {
            mcp_call__text(w, r->output);
        }
        if (r->error.p != NULL) {
            mcp_call__text(w, r->error);
        }
        jw_end_arr(w);
    }
    const struct json *structured =
        r->structured; // as an object: of the tool, or the table that it returned
    struct json *v = NULL;
    if (structured == NULL && c->structured && r->success &&
        json_parse(&v, &c->arena, r->output, NULL, NULL) == 0 && v->type == JSON_OBJ) {
        structured = v;
    }
    if (structured != NULL && c->structured && r->success) {
        jw_kvalue(w, "structuredContent", structured);
    }
    if (!r->success) {
        jw_kbool(w, "isError", true);
    }
    mcp_call__end(c);
}

static void on_tool(void *arg, const struct agent_tool_answer *r, const struct agent_no *no)
{
    struct mcp_call *c = arg;
    c->run = NULL;
    if (c->post != NULL) {
        mcp_ask__drop(c);
        if (r != NULL) {
            write_answer(c, r);
        } else if (no->problem == PROBLEM_NOT_FOUND) {
            mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "%s", no->detail);
        } else {
            mcp_call__answer_text(c, str_of(no->detail), true);
        }
    }
    if (!c->starting) {
        mcp_call__idle(c);
    }
}

void mcp_tools__call(struct mcp_call *c)
{
    const struct json *arguments = json_get(c->params, "arguments");
    struct str name = json_get_text(c->params, "name");
    if (arguments != NULL && arguments->type != JSON_OBJ) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "'arguments' is not an object");
        return;
    }
    if (!mcp_ask__read(c) || mcp_operations__run(c, name)) {
        return;
    }
    // built-in tools are for sessions only
    const struct gen_item *item =
        agent_tool_find(c->server->o.agent, c->view->dir, name, &c->arena);
    if (item == NULL) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "there is no tool '" STR_FMT "'",
                       (int)MIN(name.n, 100), name.p);
        return;
    }
    const struct agent_tool_from from = {
        .dir = c->view->dir, .caller = &mcp_ask__caller, .caller_arg = c, .client = c->client};
    c->structured = json_get(gen_item_read_about(item, &c->arena), "output_schema") != NULL;
    c->busy = c->starting = true;
    struct tool_run *run = agent_tool_run(c->server->o.agent, name, arguments, &from, on_tool, c);
    c->starting = false;
    c->run = run;
    if (run == NULL) { // it has answered
        mcp_call__idle(c);
    }
}
