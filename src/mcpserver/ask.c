// Questions of a call to its client: the user (elicitation), its model (sampling), its roots.
//
//     handshake:  request on the way of the answers ─> the client POSTs a response ─> mcp_ask__answered ─> the handler wakes
//     stateless:  the call ends with `input_required` and all questions; the client sends the request again with
//                 inputResponses, the handler runs from its start and finds its answers by their keys
//
// Between two rounds of the stateless era nothing is kept here: requestState carries the answers of earlier rounds.
// It is signed with a key of this process for exactly this method and name, so a client cannot make up an answer that
// the user did not give in an earlier round, nor use it for another tool.

#include <assert.h>

#include "base/redact.h"
#include "base/sha256.h"
#include "mcpserver/mcp_int.h"

// ---- requestState -----------------------------------------------------------------------------------

/// The signature of a state, in hexadecimal: it is for this method and name only.
static void sign(const struct mcp_call *c, struct str payload, char out[SHA256_HEX])
{
    const char *named = c->method->header_name;
    struct str key = {(const char *)c->server->key, sizeof c->server->key};
    struct buf text = {.max = SIZE_MAX};
    uint8_t digest[SHA256_SIZE];
    buf_add(&text, c->method->name, strlen(c->method->name) + 1);
    buf_adds(&text, named != NULL ? json_get_text(c->params, named) : STR_NULL);
    buf_addc(&text, '\0');
    buf_adds(&text, payload);
    sha256_hmac(key, buf_str(&text), digest);
    sha256_hex(digest, out);
    buf_fini(&text);
}

/// The answers of earlier rounds; NULL: it is not what we gave out.
static const struct json *read_state(struct mcp_call *c, struct str state)
{
    char mac[SHA256_HEX];
    struct json *known;
    if (state.n < SHA256_HEX) {
        return NULL;
    }
    struct str payload = {state.p, state.n - SHA256_HEX};
    sign(c, payload, mac);
    bool ours =
        state.p[payload.n] == '.' && str_eq_secret(str_from(state, payload.n + 1), str_of(mac));
    return ours && json_parse(&known, &c->arena, payload, NULL, NULL) == 0 ? known : NULL;
}

bool mcp_ask__read(struct mcp_call *c)
{
    static const struct json none = {.type = JSON_OBJ};
    const struct json *responses = json_get(c->params, "inputResponses");
    const struct json *state = json_get(c->params, "requestState");
    const struct json *old = &none;
    if (!c->modern) {
        return true;
    }
    if (responses != NULL && responses->type != JSON_OBJ) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL, "'inputResponses' is not an object");
        return false;
    }
    if (state != NULL) {
        old = read_state(c, json_str(state, ""));
    }
    if (old == NULL) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL,
                       "'requestState' was not made by this server; send the request without it");
        return false;
    }
    struct json *all = arena_calloc(&c->arena, 1, sizeof *all);
    size_t n = old->n + (responses != NULL ? responses->n : 0);
    *all = (struct json){.type = JSON_OBJ,
                         .members = arena_calloc(&c->arena, n + 1, sizeof *all->members)};
    json_foreach_member (m, old) {
        if (json_get_str(responses, m->key) == NULL) {
            all->members[all->n++] = *m;
        }
    }
    json_foreach_member (m, responses) {
        if (m->value.type == JSON_OBJ) { // an answer is a result, and results are objects
            all->members[all->n++] = *m;
        }
    }
    c->known = all;
    return true;
}

// ---- asking -----------------------------------------------------------------------------------------

/// What a client must be able to do to answer; NULL: we do not know the method.
static const char *capability_of(struct str method)
{
    static const char *const known[][2] = {{"elicitation/create", "elicitation"},
                                           {"sampling/createMessage", "sampling"},
                                           {"roots/list", "roots"}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (str_eqz(method, known[i][0])) {
            return known[i][1];
        }
    }
    return NULL;
}

/// False: the client reads nothing that could carry it.
static bool send_question(struct mcp_call *c, const struct mcp_question *q,
                          const struct json *request)
{
    static const struct json none = {.type = JSON_OBJ};
    const struct json *params = json_get(request, "params");
    struct json id = rpc_int_id(q->id);
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    rpc_begin_request(&w, &id, json_get(request, "method")->s.p);
    jw_value(&w, params != NULL ? params : &none);
    rpc_end(&w);
    redact_json(&out);
    bool sent = mcp_post__send(c->post, buf_str(&out));
    if (!sent && c->post->session->own.m != NULL) {
        mcp_stream__put(&c->post->session->own, buf_str(&out));
        sent = true;
    }
    buf_fini(&out);
    return sent;
}

/// A request on the way of the answers for each question.
static int ask_now(struct mcp_call *c, struct hook_ask *ask, const struct json *requests,
                   struct err *e)
{
    struct json *own = json_clone(&c->arena, requests); // its texts end with a NUL
    bool sent = true;
    c->questions.n = 0;
    for (uint32_t i = 0; i < own->n && sent; i++) {
        struct mcp_question q = {.key = own->members[i].key,
                                 .id = ++c->post->session->last_request};
        vec_push(&c->questions, q);
        sent = send_question(c, &q, &own->members[i].value);
    }
    if (!sent) {
        c->questions.n = 0;
        return err_set(e, ERR_UNSUPPORTED, "the client takes no stream, so it cannot be asked");
    }
    c->ask = ask;
    return 1;
}

/// The call ends with what it needs. Not from inside ask(): the handler that asks is running.
static void on_ending(void *arg)
{
    struct mcp_call *c = arg;
    c->ending = NULL;
    c->ask = NULL;
    assert(c->busy && c->post != NULL);
    if (c->missing != NULL) {
        const char *data =
            arena_printf(&c->arena, "{\"requiredCapabilities\":{\"%s\":{}}}", c->missing);
        mcp_call__fail(c, MCP_MISSING_CAPABILITY, data,
                       "this needs a client with the capability '%s'", c->missing);
    } else {
        struct jw *w = mcp_call__begin(c);
        jw_kstrz(w, "resultType", "input_required");
        jw_kvalue(w, "inputRequests", c->needed);
        char mac[SHA256_HEX];
        struct buf state = {.max = SIZE_MAX};
        json_write(&state, c->known, 0);
        sign(c, buf_str(&state), mac);
        buf_addf(&state, ".%s", mac);
        jw_kstr(w, "requestState", buf_str(&state));
        buf_fini(&state);
        mcp_call__end(c);
    }
    mcp_call__stop(c);
}

/// Answers that came with the request, or the end of this round.
static int ask_again(struct mcp_call *c, struct hook_ask *ask, const struct json *requests,
                     const struct json **answers)
{
    struct json *needed = json_clone(&c->arena, requests);
    uint32_t n = 0;
    for (uint32_t i = 0; i < needed->n; i++) {
        if (json_get_str(c->known, needed->members[i].key) == NULL) {
            needed->members[n++] = needed->members[i];
        }
    }
    needed->n = n;
    if (n == 0) {
        *answers = c->known;
        return 0;
    }
    c->needed = needed;
    c->ask = ask;
    c->ending = loop_defer(c->server->o.loop, on_ending, c);
    return 1;
}

static int on_ask(void *arg, struct hook_ask *ask, const struct json *requests,
                  const struct json **answers, struct err *e)
{
    struct mcp_call *c = arg;
    const struct json *can = json_get(c->client, "capabilities");
    if (c->post == NULL || c->ask != NULL) {
        return err_set(e, ERR_CONFLICT,
                       c->post == NULL ? "the call is over" : "another question is under way");
    }
    if (requests->n == 0) {
        return err_set(e, ERR_INVALID, "there is no question");
    }
    json_foreach_member (m, requests) {
        const char *needs = capability_of(json_get_text(&m->value, "method"));
        if (needs == NULL) {
            return err_set(e, ERR_UNSUPPORTED,
                           "clients answer elicitation, sampling and roots only");
        }
        if (json_get(can, needs) == NULL && !c->modern) {
            return err_set(e, ERR_UNSUPPORTED, "this client does not offer '%s'", needs);
        }
        if (json_get(can, needs) == NULL) {
            c->missing = needs;
        }
    }
    return c->modern ? ask_again(c, ask, requests, answers) : ask_now(c, ask, requests, e);
}

static void on_forget(void *arg, struct hook_ask *ask)
{
    struct mcp_call *c = arg;
    if (c->ask == ask) {
        mcp_ask__drop(c);
    }
}

void mcp_ask__drop(struct mcp_call *c)
{
    c->ask = NULL;
    c->questions.n = 0;
    if (c->ending != NULL) {
        loop_cancel(c->server->o.loop, c->ending);
        c->ending = NULL;
    }
}

// ---- answers ----------------------------------------------------------------------------------------

static struct mcp_question *find_question(struct mcp_session *x, const struct json *id,
                                          struct mcp_call **call)
{
    for (struct mcp_call *c = x->server->calls; c != NULL; c = c->next) {
        bool asks = c->post != NULL && c->post->session == x && c->ask != NULL;
        for (size_t i = 0; asks && i < c->questions.n; i++) {
            struct mcp_question *q = &c->questions.p[i];
            if (id->type == JSON_INT && q->id == id->i && q->answer == NULL) {
                *call = c;
                return q;
            }
        }
    }
    return NULL;
}

void mcp_ask__answered(struct mcp_session *x, const struct rpc_message *m)
{
    struct mcp_call *c;
    struct mcp_question *q = m->id != NULL ? find_question(x, m->id, &c) : NULL;
    struct err e = {0};
    if (q == NULL) {
        return; // its call has ended
    }
    struct hook_ask *ask = c->ask;
    if (m->kind == RPC_ERROR) {
        err_set(&e, ERR_DENIED, "the client refused: " STR_FMT, STR_ARG(m->message));
        mcp_ask__drop(c);
        ask->answered(ask, NULL, &e); // the call may end inside
        return;
    }
    q->answer = json_clone(&c->arena, m->result);
    struct json all = {.type = JSON_OBJ};
    all.members = arena_calloc(&c->arena, c->questions.n, sizeof *all.members);
    vec_foreach (it, &c->questions) {
        if (it->answer == NULL) {
            return; // until all have come
        }
        all.members[all.n++] = (struct json_member){it->key, *it->answer};
    }
    mcp_ask__drop(c);
    ask->answered(ask, json_clone(&c->arena, &all), NULL);
}

// ---- telling ----------------------------------------------------------------------------------------

/// Whole numbers without a fraction: some clients insist.
static void write_number(struct jw *w, double d)
{
    if (d > -0x1p53 && d < 0x1p53 && (double)(int64_t)d == d) {
        jw_int(w, (int64_t)d);
    } else {
        jw_double(w, d);
    }
}

/// End the notification that `w` writes, whose params are open, and send it.
static void send_note(struct mcp_call *c, struct jw *w)
{
    jw_end_obj(w);
    rpc_end(w);
    redact_json(w->out);
    mcp_post__send(c->post, buf_str(w->out));
    buf_fini(w->out);
}

static void on_progress(void *arg, struct str text, double done, double total)
{
    struct mcp_call *c = arg;
    struct buf out = {.max = SIZE_MAX};
    if (c->post == NULL || c->progress_token == NULL) {
        return;
    }
    c->n_progress++;
    struct jw w = {.out = &out};
    rpc_begin_request(&w, NULL, "notifications/progress");
    jw_obj(&w);
    jw_kvalue(&w, "progressToken", c->progress_token);
    jw_key(&w, "progress");
    write_number(&w, done != 0 || total != 0 ? done : (double)c->n_progress); // it has to grow
    if (total != 0) {
        jw_key(&w, "total");
        write_number(&w, total);
    }
    if (text.n != 0) {
        jw_kstr(&w, "message", text);
    }
    send_note(c, &w);
}

static void on_log(void *arg, struct str level, const struct json *data)
{
    struct mcp_call *c = arg;
    struct buf out = {.max = SIZE_MAX};
    if (c->post == NULL || mcp__level(level) < c->level) {
        return;
    }
    struct jw w = {.out = &out};
    rpc_begin_request(&w, NULL, "notifications/message");
    jw_obj(&w);
    jw_kstr(&w, "level", level);
    jw_kvalue(&w, "data", data);
    send_note(c, &w);
}

const struct hook_caller mcp_ask__caller = {
    .progress = on_progress, .log = on_log, .ask = on_ask, .forget = on_forget};
