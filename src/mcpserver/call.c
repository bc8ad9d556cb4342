// One request under way: from its message to its answer.
//
//     mcp_call__start ─> method->run ─┬─ mcp_call__begin ... mcp_call__end      a result
//                                 ├─ mcp_call__fail                     an error
//                                 └─ runs on (`busy`); then one of these, and mcp_call__idle()
//
// The answer and the end of what runs are two things: a cancelled call is over for its client at once, while an
// operation that cannot be stopped may still run. A call is freed when both have come.

#include <assert.h>
#include <stdarg.h>

#include "agent/agent.h"
#include "base/list.h"
#include "base/redact.h"
#include "mcpserver/mcp_int.h"

static void call_free(struct mcp_call *c)
{
    struct mcpserver *s = c->server;
    assert(c->post == NULL && !c->busy && c->ending == NULL && c->ask == NULL);
    if (s != NULL) {
        assert(s->n_calls != 0);
        list_remove(&s->calls, c);
        s->n_calls--;
    }
    gen_unpin(c->gen);
    vec_fini(&c->questions);
    buf_fini(&c->out);
    arena_fini(&c->arena);
    free(c);
}

/// The HTTP status of an error that is a whole answer. Only the stateless era tells errors by it.
static int status_of(const struct mcp_call *c, int code)
{
    static const struct {
        int code, status;
    } known[] = {{RPC_METHOD_NOT_FOUND, 404},
                 {MCP_HEADER_MISMATCH, 400},
                 {MCP_MISSING_CAPABILITY, 400},
                 {MCP_UNSUPPORTED_VERSION, 400}};
    for (size_t i = 0; c->modern && i < ARRAY_LEN(known); i++) {
        if (known[i].code == code) {
            return known[i].status;
        }
    }
    return 200;
}

/// `c->out` holds the answer (empty: none). Frees the call unless something still runs.
static void answer(struct mcp_call *c, int status)
{
    struct mcp_post *p = c->post;
    assert(p != NULL);
    c->post = NULL;
    redact_json(&c->out); // a model reads it
    mcp_post__answer(p, status, buf_str(&c->out));
    if (!c->busy) {
        call_free(c);
    }
}

struct jw *mcp_call__begin(struct mcp_call *c)
{
    buf_clear(&c->out);
    jw_init(&c->w, &c->out);
    rpc_begin_result(&c->w, c->id);
    jw_obj(&c->w);
    return &c->w;
}

void mcp_call__text(struct jw *w, struct str text)
{
    jw_obj(w);
    jw_kstrz(w, "type", "text");
    jw_kstr(w, "text", text);
    jw_end_obj(w);
}

void mcp_call__answer_text(struct mcp_call *c, struct str text, bool failed)
{
    struct jw *w = mcp_call__begin(c);
    jw_karr(w, "content");
    mcp_call__text(w, text);
    jw_end_arr(w);
    if (failed) {
        jw_kbool(w, "isError", true);
    }
    mcp_call__end(c);
}

void mcp_call__end(struct mcp_call *c)
{
    struct jw *w = &c->w;
    if (c->modern) {
        if (c->needed == NULL) {
            jw_kstrz(w, "resultType", "complete");
        }
        if (c->method->cacheable) {
            jw_kint(w, "ttlMs", 0); // plugins change at any time; clients can subscribe
            jw_kstrz(w, "cacheScope", "private");
        }
        jw_kobj(w, "_meta");
        jw_kobj(w, MCP_META "serverInfo");
        jw_kstrz(w, "name", "afloat");
        jw_kstrz(w, "version", c->server->o.version);
        jw_end_obj(w);
        jw_end_obj(w);
    }
    jw_end_obj(w);
    rpc_end(w);
    answer(c, 200);
}

void mcp_call__fail(struct mcp_call *c, int code, const char *data, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_clear(&c->out);
    jw_init(&c->w, &c->out);
    if (data != NULL) {
        rpc_begin_error(&c->w, c->id, code, str_of(text));
        jw_raw(&c->w, str_of(data));
        rpc_end_error(&c->w);
    } else {
        rpc_error(&c->w, c->id, code, "%s", text);
    }
    answer(c, status_of(c, code));
}

void mcp_call__idle(struct mcp_call *c)
{
    c->busy = false;
    if (c->post == NULL) {
        call_free(c);
    }
}

void mcp_call__stop(struct mcp_call *c)
{
    assert(c->post == NULL);
    struct tool_run *run = c->run;
    if (c->item != NULL) {
        const struct gen_target *face = gen_item_face(c->item);
        face->cancel(gen_item_data(c->item), &c->gen_call);
        c->item = NULL;
        c->busy = false;
    }
    if (run != NULL) {
        c->run = NULL;
        agent_tool_cancel(run); // its answer, now or later, frees the call
    } else if (!c->busy) {
        call_free(c);
    }
}

void mcp_call__cancel(struct mcp_call *c)
{
    struct mcp_post *p = c->post;
    if (p == NULL) {
        return; // only its work still runs
    }
    mcp_notify__forget(c->server, c);
    mcp_ask__drop(c);
    c->post = NULL;
    mcp_call__stop(c);
    mcp_post__answer(p, 200, STR_NULL);
}

struct mcp_call *mcp_call__find(struct mcp_session *x, const struct json *id)
{
    for (struct mcp_call *c = x->server->calls; c != NULL; c = c->next) {
        if (c->post != NULL && c->post->session == x && rpc_same_id(c->id, id)) {
            return c;
        }
    }
    return NULL;
}

void mcp_call__start(struct mcp_post *p, const struct rpc_message *m)
{
    struct mcpserver *s = p->server;
    struct mcp_call *c = xcalloc(1, sizeof *c);
    c->server = s;
    c->post = p;
    c->view = p->view;
    c->modern = p->session == NULL;
    list_add(&s->calls, c);
    s->n_calls++;
    p->open++;
    buf_init(&c->out, SIZE_MAX);
    c->id = json_clone(&c->arena, m->id);
    c->params = json_clone(&c->arena, m->params); // the call may outlive the POST
    c->method = mcp_method__find(m->method, c->modern);
    const struct json *meta = json_get(c->params, "_meta");
    const struct json *token = json_get(meta, "progressToken");
    c->progress_token =
        token != NULL && (token->type == JSON_STR || token->type == JSON_INT) ? token : NULL;
    if (c->modern) {
        int level = mcp__level(json_get_text(meta, MCP_META "logLevel"));
        c->client = mcp_session__client(&c->arena, json_get(meta, MCP_META "clientInfo"),
                                        json_get(meta, MCP_META "clientCapabilities"));
        c->level = level >= 0 ? level : (int)ARRAY_LEN(mcp__levels);
    } else {
        c->client = p->session->client;
        c->level = p->session->level;
    }
    if (s->n_calls > MCP_CALLS) {
        mcp_call__fail(c, RPC_INTERNAL_ERROR, NULL, "more than %d calls are under way", MCP_CALLS);
    } else if (c->method == NULL) {
        mcp_call__fail(c, RPC_METHOD_NOT_FOUND, NULL, "there is no method '" STR_FMT "'",
                       (int)MIN(m->method.n, 100), m->method.p);
    } else if (c->params != NULL && c->params->type != JSON_OBJ) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "'params' is not an object");
    } else {
        c->method->run(c);
    }
}
