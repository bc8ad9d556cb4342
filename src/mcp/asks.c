// What a server asks for while it works: the user (elicitation), a model (sampling), the directories (roots).
//
//     handshake:  a request of the server's ──> the newest call under way ──> its session (hook_caller) ──> answer
//     stateless:  the call ends with `input_required` ──> the session ──> the same call with the answers
//
// The caller decides how a question is answered: a session of the hub shows it, or asks its model by permission. A server
// that asks outside of any call gets no answer from a user or a model. While it waits, the time of its call rests.
//
// On the streams of a process nothing says which call a request belongs to; all calls are one user's, so the newest
// one is taken.

#include <assert.h>

#include "mcp/server_int.h"
#include "rpc/rpc.h"

enum { ASKS_MAX = 16, ROUNDS_MAX = 10 };

struct mcp_ask {
    struct mcp_ask *next;
    struct mcp_call *call;
    struct hook_ask ask;
    struct arena arena;
    const struct json *id; // of the server's request; NULL: the call ended with its questions
    struct str state;      // stateless: what is sent back with the answers; may be empty
};

static const struct hook_caller *caller_of(const struct mcp_call *c, void **arg)
{
    const struct hook_ctx *ctx = c->call->ctx;
    *arg = ctx != NULL ? ctx->caller_arg : NULL;
    return ctx != NULL ? ctx->caller : NULL;
}

static void take_out(struct mcp_ask *q)
{
    struct mcp_ask **at = &q->call->asks;
    while (*at != q) {
        assert(*at != NULL); // it is in the list from start() on
        at = &(*at)->next;
    }
    *at = q->next;
    if (q->call->asks == NULL && q->call->server->peer != NULL) {
        mcp_peer_rest(q->call->server->peer, &q->call->request, false);
    }
}

static void ask_free(struct mcp_ask *q)
{
    struct arena arena = q->arena;
    arena_fini(&arena);
}

void mcp__asks_forget(struct mcp_call *c)
{
    while (c->asks != NULL) {
        struct mcp_ask *q = c->asks;
        void *arg;
        const struct hook_caller *who = caller_of(c, &arg);
        assert(who != NULL && q->call == c);
        c->asks = q->next;
        who->forget(arg, &q->ask);
        ask_free(q);
    }
}

// ---- requests of the server ---------------------------------------------------------------------

static void on_answered(struct hook_ask *ask, const struct json *answers, const struct err *e)
{
    struct mcp_ask *q = container_of(ask, struct mcp_ask, ask);
    struct mcp_call *c = q->call;
    struct mcp_peer *peer = c->server->peer;
    const struct json *result = json_get(answers, "q");
    struct buf text = {.max = SIZE_MAX};
    take_out(q);
    if (q->id == NULL) {
        mcp__call_again(c, answers, q->state, e);
    } else if (peer != NULL && result != NULL) {
        json_write(&text, result, 0);
        mcp_peer_answer(peer, q->id, buf_str(&text));
    } else if (peer != NULL) {
        mcp_peer_refuse(peer, q->id, -1, e != NULL ? e->msg : "no answer");
    }
    buf_fini(&text);
    ask_free(q);
}

static struct mcp_ask *ask_new(struct mcp_call *c)
{
    struct arena arena = {0};
    struct mcp_ask *q = arena_calloc(&arena, 1, sizeof *q);
    q->call = c;
    q->ask.answered = on_answered;
    q->arena = arena;
    return q;
}

/// Ask the caller. False: it cannot be asked, and `e` says why; `q` is freed.
static bool start(struct mcp_ask *q, const struct json *requests, struct err *e)
{
    struct mcp_call *c = q->call;
    const struct json *answers = NULL;
    void *arg;
    const struct hook_caller *who = caller_of(c, &arg);
    int rc = who != NULL ? who->ask(arg, &q->ask, requests, &answers, e)
                         : err_set(e, ERR_DENIED, "there is no user to ask here");
    if (rc < 0) {
        ask_free(q);
        return false;
    }
    q->next = c->asks;
    c->asks = q;
    mcp_peer_rest(c->server->peer, &c->request, true);
    if (rc == 0) {
        on_answered(&q->ask, answers, NULL);
    }
    return true;
}

static struct mcp_call *asked_call(const struct mcp_server *s)
{
    void *arg;
    size_t n = 0;
    for (struct mcp_call *c = s->calls; c != NULL; c = c->next) {
        for (const struct mcp_ask *q = c->asks; q != NULL; q = q->next) {
            n++;
        }
    }
    for (struct mcp_call *c = s->calls; c != NULL && n < ASKS_MAX; c = c->next) {
        if (caller_of(c, &arg) != NULL) {
            return c;
        }
    }
    return NULL;
}

/// {"q": {method, params}}
static const struct json *question(struct arena *a, const struct rpc_message *m)
{
    static const struct json none = {.type = JSON_OBJ};
    struct json_member *parts = arena_calloc(a, 3, sizeof *parts);
    struct json *v = arena_calloc(a, 1, sizeof *v);
    parts[0] = (struct json_member){STR("method"), {.type = JSON_STR, .s = m->method}};
    parts[1] = (struct json_member){STR("params"), m->params != NULL ? *m->params : none};
    parts[2] = (struct json_member){STR("q"), {.type = JSON_OBJ, .n = 2, .members = parts}};
    *v = (struct json){.type = JSON_OBJ, .n = 1, .members = &parts[2]};
    return v;
}

void mcp__server_asks(void *arg, const struct rpc_message *m)
{
    struct mcp_server *s = arg;
    struct err e = {0};
    bool elicits = str_eqz(m->method, "elicitation/create");
    if (str_eqz(m->method, "roots/list")) {
        struct buf roots = {.max = SIZE_MAX};
        mcp__roots(s, &roots);
        mcp_peer_answer(s->peer, m->id, buf_str(&roots));
        buf_fini(&roots);
        return;
    }
    if (!elicits && !str_eqz(m->method, "sampling/createMessage")) {
        mcp_peer_refuse(s->peer, m->id, RPC_METHOD_NOT_FOUND, "this client does not offer that");
        return;
    }
    struct mcp_call *c = asked_call(s);
    if (c == NULL) {
        if (elicits) { // as if the user had closed it
            mcp_peer_answer(s->peer, m->id, STR("{\"action\":\"cancel\"}"));
        } else {
            mcp_peer_refuse(s->peer, m->id, -1, "no call of this server is under way");
        }
        return;
    }
    struct mcp_ask *q = ask_new(c);
    q->id = json_clone(&q->arena, m->id);
    if (!start(q, question(&q->arena, m), &e)) {
        mcp_peer_refuse(s->peer, m->id, -1, e.msg);
    }
}

void mcp__server_gives_up(void *arg, const struct json *id)
{
    struct mcp_server *s = arg;
    for (struct mcp_call *c = s->calls; c != NULL; c = c->next) {
        for (struct mcp_ask *q = c->asks; q != NULL; q = q->next) {
            if (q->id != NULL && rpc_same_id(q->id, id)) {
                void *who_arg;
                const struct hook_caller *who = caller_of(c, &who_arg);
                take_out(q);
                who->forget(who_arg, &q->ask);
                ask_free(q);
                return;
            }
        }
    }
}

// ---- calls that end with questions --------------------------------------------------------------

bool mcp__asks_input(struct mcp_call *c, const struct json *answer, struct err *e)
{
    const struct json *requests = json_get(answer, "inputRequests");
    e->code = 0;
    if (!str_eqz(json_get_text(answer, "resultType"), "input_required")) {
        return false;
    }
    if (requests == NULL || requests->type != JSON_OBJ) {
        err_set(e, ERR_INVALID, "it asked for input without 'inputRequests'");
        return true;
    }
    if (++c->rounds > ROUNDS_MAX) {
        err_set(e, ERR_INVALID, "it asked for input more than %d times", ROUNDS_MAX);
        return true;
    }
    struct mcp_ask *q = ask_new(c);
    q->state = arena_str(&q->arena, json_get_text(answer, "requestState"));
    (void)start(q, json_clone(&q->arena, requests), e);
    return true;
}
