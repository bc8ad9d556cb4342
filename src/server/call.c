// One request on its way through an operation: parameters in, one answer out.
//
//     call__run ─┬─ code, OPTIONS: answered here; the page and its files: page.c
//                ├─ a plugin's route: route.c
//                └─ params__build ─> idempotency ─> op_run ┄┄> on_answer | on_stream
//
// The operation may answer at once or later, also after the connection or even the server is gone.
// Without its connection the answer is sent nowhere, but it is still kept for its Idempotency-Key.
//
// Invariant: the function that answers ends the call; http__refuse() ends a call that is refused.

#include <assert.h>

#include "base/list.h"
#include "base/redact.h"
#include "server/server_int.h"

#define STREAM_HEADERS "X-Accel-Buffering: no\r\n"
#define REPLAYED       "Idempotency-Replayed: true\r\n"

struct str call__origin(const struct call *r)
{
    return r->asked.cors ? r->asked.fields.origin : STR_NULL;
}

void call__reply(struct call *r, struct reply *reply)
{
    reply->head_only = r->head_only;
    http__reply(r->conn, reply, r->keep);
    call__free(r); // last: the answer may be in its arena
}

static void keep_first(struct call *r, const struct idem_answer *first)
{
    if (r->server != NULL && r->idem != NULL) {
        idem__finish(r->server->idem, r->idem, first);
        r->idem = NULL;
    }
}

static void on_answer(struct op_call *op, int status, const char *type, struct str body)
{
    struct call *r = container_of(op, struct call, op);
    const struct idem_answer first = {
        .status = status, .type = type, .location = op->location, .body = body};
    keep_first(r, &first);
    if (r->conn == NULL) {
        call__free(r);
        return;
    }
    struct reply reply = {.status = status,
                          .type = type,
                          .body = body,
                          .location = op->location,
                          .origin = call__origin(r)};
    call__reply(r, &reply);
}

static void on_fail(struct op_call *op, enum problem p, struct str detail, const char *hint)
{
    struct buf body = {.max = SIZE_MAX};
    problem_write(&body, p, detail, hint);
    on_answer(op, problems[p].status, "application/problem+json", buf_str(&body));
    buf_fini(&body);
}

static void on_stream(struct op_call *op, const struct event_filter *f, uint64_t after)
{
    struct call *r = container_of(op, struct call, op);
    struct conn *c = r->conn;
    const struct idem_answer first = {
        .status = 200, .body = f->turn, .streamed = true, .after = after};
    keep_first(r, &first);
    if (c != NULL) {
        struct reply reply = {.status = 200,
                              .type = "text/event-stream",
                              .headers =
                                  op->turn != NULL ? STREAM_HEADERS REPLAYED : STREAM_HEADERS,
                              .streamed = true,
                              .head_only = r->head_only,
                              .origin = call__origin(r)};
        http__reply(c, &reply, r->head_only && r->keep);
        if (!r->head_only) {
            stream__start(c, f, after, !r->old);
        }
    }
    call__free(r);
}

static const struct op_face face = {.answer = on_answer, .fail = on_fail, .stream = on_stream};

static void answer_options(struct conn *c, struct call *r)
{
    (void)c;
    char allow[48];
    router__allow(r->asked.match.methods, allow, sizeof allow);
    struct reply reply = {.status = 204, .allow = allow, .origin = call__origin(r)};
    if (r->asked.cors) {
        reply.headers = "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE\r\n"
                        "Access-Control-Allow-Headers: authorization, content-type, "
                        "idempotency-key, last-event-id, mcp-session-id, mcp-protocol-version, "
                        "mcp-method, mcp-name\r\n";
    }
    call__reply(r, &reply);
}

// GET /?code=...: trade it for a cookie and lead to the page without it.
static void answer_code(struct conn *c, struct call *r)
{
    char headers[256], cookie[SECRET_TEXT];
    struct refusal no = {.page = true};
    if (!auth__redeem(c->server->auth, r->asked.code, cookie)) {
        request__unauthorized(c->server, c, &no, "this code is wrong, used or too old");
        http__refuse(c, &no, r->keep);
        return;
    }
    bool secure = hosts__secure(&c->server->hosts, r->asked.fields.host);
    snprintf(headers, sizeof headers,
             "Set-Cookie: afloat=%s; Path=/; HttpOnly; SameSite=Strict%s\r\n"
             "Referrer-Policy: no-referrer\r\n",
             cookie, secure ? "; Secure" : "");
    redact_add(STR("cookie"), str_of(cookie));
    explicit_bzero(cookie, sizeof cookie);
    struct reply reply = {.status = 303, .location = "/", .headers = headers};
    call__reply(r, &reply);
}

static void replay(struct call *r, const struct idem_answer *a)
{
    struct reply reply = {.status = a->status,
                          .type = a->type,
                          .body = a->body,
                          .location = a->location,
                          .headers = REPLAYED,
                          .origin = call__origin(r)};
    call__reply(r, &reply);
}

// Apply Idempotency-Key. True when the operation has to run; else the call has been answered.
static bool begin_once(struct conn *c, struct call *r)
{
    struct str key = r->asked.fields.idempotency_key;
    struct idem_answer first;
    struct refusal no = {0};
    if (key.n == 0 || (r->asked.match.op->flags & OP_MUTATES) == 0) {
        return true;
    }
    switch (idem__begin(c->server->idem, r->op.id, key, r->asked.target_text, buf_str(&r->body),
                        &r->idem, &first)) {
    case IDEM_NEW: return true;
    case IDEM_REPLAY:
        if (first.streamed) {
            r->op.wants_stream = true;
            r->op.turn = arena_strdup(&r->arena, first.body);
            r->op.turn_after = first.after;
            return true;
        }
        replay(r, &first);
        return false;
    case IDEM_RUNNING:
        request__refuse(&no, PROBLEM_CONFLICT, "a request with this Idempotency-Key is under way");
        break;
    case IDEM_DIFFERENT:
        request__refuse(&no, PROBLEM_CONFLICT, "this Idempotency-Key was used for another request");
        break;
    }
    http__refuse(c, &no, r->keep);
    return false;
}

static uint64_t last_event_id(struct str value)
{
    uint64_t id;
    return str_to_u64(value, &id) ? id : UINT64_MAX;
}

// The default is a stream for OP_STREAMS and JSON for OP_MAY_STREAM; `Accept` asks for the other one.
static bool wants_stream(const struct asked *a)
{
    struct str accept = a->fields.accept;
    unsigned flags = a->match.op->flags;
    if ((flags & (OP_STREAMS | OP_MAY_STREAM)) == 0) {
        return false;
    }
    while (accept.n != 0) {
        struct str one = str_cut(&accept, ',');
        struct str type = str_trim(str_cut(&one, ';'));
        if (str_caseeqz(type, "text/event-stream")) {
            return true;
        }
        if (str_caseeqz(type, "application/json")) {
            return false;
        }
    }
    return (flags & OP_STREAMS) != 0;
}

static void run_op(struct conn *c, struct call *r)
{
    struct refusal no = {0};
    const struct json *params;
    if (!params__build(&r->arena, &r->asked, buf_str(&r->body), &params, &no)) {
        http__refuse(c, &no, r->keep);
        return;
    }
    if (ws__is_asked(&r->asked) && !r->head_only && !r->old) { // neither of these can be switched
        ws__start(c, r, params);
        return;
    }
    r->op = (struct op_call){.id = (enum op_id)(r->asked.match.op - ops),
                             .params = params,
                             .arena = &r->arena,
                             .over_socket = c->over_socket,
                             .wants_stream = wants_stream(&r->asked),
                             .last_event_id = last_event_id(r->asked.fields.last_event_id),
                             .face = &face};
    if (begin_once(c, r)) {
        op_run(c->server->api, &r->op);
    }
}

struct call *call__new(struct conn *c, const struct http1 *p, const struct asked *asked)
{
    struct server *s = c->server;
    struct call *r = xcalloc(1, sizeof *r);
    buf_init(&r->body, s->limits.body_bytes);
    r->conn = c;
    r->server = s;
    r->asked = *asked;
    r->head_only = p->method == HTTP_HEAD;
    r->keep = p->keep_alive;
    r->old = p->minor == 0;
    list_add(&s->calls, r);
    return r;
}

void call__free(struct call *r)
{
    struct server *s = r->server;
    if (s != NULL) {
        list_remove(&s->calls, r);
        if (r->idem != NULL) {
            idem__drop(s->idem, r->idem);
        }
    }
    arena_fini(&r->arena);
    buf_fini(&r->body);
    free(r);
}

// The whole message is here.
void call__run(struct conn *c, struct call *r)
{
    static void (*const runs[])(struct conn *, struct call *) = {
        [TARGET_OP] = run_op,
        [TARGET_PAGE] = page__answer,
        [TARGET_ASSET] = page__answer_asset,
        [TARGET_CODE] = answer_code,
        [TARGET_OPTIONS] = answer_options,
        [TARGET_PLUGIN] = route__run,
        [TARGET_MOUNT] = mount__run,
        [TARGET_FRONT] = front__answer,
    };
    r->running = true;
    runs[r->asked.target](c, r);
}
