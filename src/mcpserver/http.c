// Streamable HTTP: what a request is, before any method runs.
//
//     POST ─ JSON-RPC? ─ which era? ─┬─ handshake: session (by Mcp-Session-Id, or made by initialize) ─> calls
//                                    └─ stateless: _meta and headers agree, version known ──────────────> calls
//     GET ─ the session's own stream, or the one that Last-Event-ID names      DELETE ─ the session ends
//
// The era is chosen per request: a message of the stateless one says its version in `_meta`, or at least in the
// header. Host, Origin and token were checked by the server.

#include "mcpserver/mcp_int.h"

static bool accepts(const struct mount_call *m, const char *type)
{
    struct str accept = mount_header(m, "accept");
    bool found = accept.p == NULL; // without the header any type is accepted
    while (accept.n != 0 && !found) {
        struct str one = str_cut(&accept, ',');
        struct str name = str_trim(str_cut(&one, ';'));
        found = str_caseeqz(name, type) || str_eqz(name, "*/*");
    }
    return found;
}

void mcp_http__refuse_rpc(struct mount_call *m, int status, int code, const char *text)
{
    struct buf body = {.max = 4096};
    struct jw w = {.out = &body};
    rpc_error(&w, NULL, code, "%s", text);
    mount_reply(m, status, "application/json", NULL, buf_str(&body));
    buf_fini(&body);
}

/// Answer the request with an error of its own id.
static void refuse_request(struct mount_call *m, const struct rpc_message *msg, int code,
                           const char *data, const char *text)
{
    struct buf body = {.max = SIZE_MAX}; // it repeats the id
    struct jw w = {.out = &body};
    rpc_begin_error(&w, msg->id, code, str_of(text));
    jw_raw(&w, str_of(data != NULL ? data : "{}"));
    rpc_end_error(&w);
    mount_reply(m, 400, "application/json", NULL, buf_str(&body));
    buf_fini(&body);
}

static ptrdiff_t find_version(struct str version)
{
    return str_lookup(version, mcp__versions, str_count(mcp__versions));
}

// ---- the stateless era ------------------------------------------------------------------------------

/// "2026-07-28" and whatever comes after it.
static bool is_modern(struct str version)
{
    return version.n != 0 && find_version(version) < 0;
}

/// Do headers and `_meta` agree, and do we know the version? Else the request is answered.
static bool check_modern(struct mcpserver *s, const struct mcp_view *v, struct mount_call *m,
                         const struct rpc_message *msg, struct arena *a)
{
    const struct json *meta = json_get(msg->params, "_meta");
    const struct json *can = json_get(meta, MCP_META "clientCapabilities");
    struct str version = json_str(json_get(meta, MCP_META "protocolVersion"), "");
    struct str header = mount_header(m, "mcp-protocol-version");
    const struct mcp_method *method = mcp_method__find(msg->method, true);
    const char *named = method != NULL ? method->header_name : NULL;
    struct str name = named != NULL ? json_str(json_get(msg->params, named), "") : STR_NULL;
    if (!str_eq(mount_header(m, "mcp-method"), msg->method)) {
        refuse_request(m, msg, MCP_HEADER_MISMATCH, NULL,
                       "the header Mcp-Method is not the method");
    } else if (name.n != 0 && !mcp_headers__say(mount_header(m, "mcp-name"), name)) {
        refuse_request(m, msg, MCP_HEADER_MISMATCH, NULL,
                       "the header Mcp-Name is not what the request names");
    } else if (version.n == 0 || can == NULL || can->type != JSON_OBJ) {
        refuse_request(m, msg, RPC_INVALID_PARAMS, NULL,
                       "'_meta' needs " MCP_META "protocolVersion and " MCP_META
                       "clientCapabilities");
    } else if (!str_eq(header, version)) {
        refuse_request(m, msg, MCP_HEADER_MISMATCH, NULL,
                       "the header MCP-Protocol-Version is not the version in '_meta'");
    } else if (!str_eqz(version, MCP_MODERN_VERSION)) {
        struct buf data = {.max = 4096};
        struct jw w = {.out = &data};
        jw_obj(&w);
        jw_kstrs(&w, "supported", (const char *const[]){MCP_MODERN_VERSION}, 1);
        jw_kstr(&w, "requested", (struct str){version.p, MIN(version.n, 100)});
        jw_end_obj(&w);
        refuse_request(m, msg, MCP_UNSUPPORTED_VERSION, buf_z(&data),
                       "this version of the protocol is not supported");
        buf_fini(&data);
    } else if (!mcp_headers__fit(s, v, m, msg, a)) {
        refuse_request(m, msg, MCP_HEADER_MISMATCH, NULL,
                       "the headers Mcp-Param-* are not what the arguments say");
    } else {
        return true;
    }
    return false;
}

// ---- the era of handshakes ---------------------------------------------------------------------------

/// The session of this request. NULL: the request is answered.
static struct mcp_session *find_session(struct mcpserver *s, struct mount_call *m)
{
    struct str id = mount_header(m, "mcp-session-id");
    struct str version = mount_header(m, "mcp-protocol-version");
    if (id.n == 0) {
        mcp_http__refuse_rpc(m, 400, RPC_INVALID_REQUEST,
                             "the header Mcp-Session-Id is missing; begin with 'initialize'");
        return NULL;
    }
    struct mcp_session *x = mcp_session__find(s, id);
    if (x == NULL) {
        mcp_http__refuse_rpc(m, 404, RPC_INVALID_REQUEST,
                             "this session is unknown or has ended; begin with 'initialize'");
    } else if (version.n != 0 && find_version(version) < 0) {
        mcp_http__refuse_rpc(
            m, 400, RPC_INVALID_REQUEST,
            "the header MCP-Protocol-Version names no version that this server knows");
        x = NULL;
    }
    return x;
}

/// Make a session for `initialize`: of the version that the client asks for, or else our newest.
static struct mcp_session *open_session(struct mcpserver *s, struct mcp_view *v,
                                        struct mount_call *m, const struct rpc_message *msg)
{
    const struct json *version = json_get(msg->params, "protocolVersion");
    if (version == NULL || version->type != JSON_STR) {
        refuse_request(m, msg, RPC_INVALID_PARAMS, NULL, "'protocolVersion' is missing");
        return NULL;
    }
    ptrdiff_t known = find_version(version->s);
    struct mcp_session *x = mcp_session__new(s, v, known >= 0 ? (size_t)known : 0, msg->params);
    if (x == NULL) {
        mcp_http__refuse_rpc(m, 503, RPC_INTERNAL_ERROR, "too many sessions");
    }
    return x;
}

// ---- POST ------------------------------------------------------------------------------------------------

/// Run all messages of a packet; `p` ends when the last answer is there.
static void run_packet(struct mcp_post *p, const struct rpc_packet *packet)
{
    struct buf out;
    p->open++; // ours, while we run them
    for (size_t i = 0; i < packet->n; i++) {
        const struct rpc_message *msg = &packet->messages[i];
        struct jw w;
        switch (msg->kind) {
        case RPC_REQUEST: mcp_call__start(p, msg); break;
        case RPC_NOTIFICATION:
            if (p->session != NULL && str_eqz(msg->method, "notifications/cancelled")) {
                struct mcp_call *c = mcp_call__find(p->session, json_get(msg->params, "requestId"));
                if (c != NULL && strcmp(c->method->name, "initialize") != 0) {
                    mcp_call__cancel(c);
                }
            }
            break;
        case RPC_RESULT:
        case RPC_ERROR:
            if (p->session != NULL) {
                mcp_ask__answered(p->session, msg);
            }
            break;
        case RPC_INVALID:
            buf_init(&out, SIZE_MAX);
            jw_init(&w, &out);
            rpc_error(&w, msg->id, RPC_INVALID_REQUEST, STR_FMT, STR_ARG(msg->message));
            p->open++;
            mcp_post__answer(p, 400, buf_str(&out));
            buf_fini(&out);
            break;
        }
    }
    mcp_post__answer(p, 200, STR_NULL);
}

static bool says_modern(const struct mount_call *m, const struct rpc_message *msg)
{
    const struct json *meta = json_get(msg->params, "_meta");
    return json_get(meta, MCP_META "protocolVersion") != NULL ||
           is_modern(mount_header(m, "mcp-protocol-version")) ||
           str_eqz(msg->method, "server/discover");
}

/// Which era, which session? False: the request is answered.
static bool choose(struct mcpserver *s, struct mcp_view *v, struct mount_call *m,
                   const struct rpc_packet *packet, struct arena *a, struct mcp_session **session,
                   bool *opened)
{
    const struct rpc_message *first = &packet->messages[0];
    *session = NULL;
    *opened = false;
    if (!packet->batch && first->kind == RPC_REQUEST && says_modern(m, first)) {
        return check_modern(s, v, m, first, a);
    }
    if (!packet->batch && first->kind == RPC_REQUEST && str_eqz(first->method, "initialize")) {
        *session = open_session(s, v, m, first);
        *opened = *session != NULL;
        return *opened;
    }
    if (!packet->batch && first->kind == RPC_NOTIFICATION && says_modern(m, first)) {
        mount_reply(m, 202, NULL, NULL, STR_NULL); // the stateless era has none that matter to us
        return false;
    }
    if (!packet->batch && first->kind == RPC_INVALID && mount_header(m, "mcp-session-id").n == 0) {
        mcp_http__refuse_rpc(m, 400, RPC_INVALID_REQUEST, arena_strdup(a, first->message));
        return false;
    }
    *session = find_session(s, m);
    if (*session == NULL) {
        return false;
    }
    if (packet->batch && (*session)->version < 2) {
        mcp_http__refuse_rpc(m, 400, RPC_INVALID_REQUEST,
                             "this version of the protocol has no batches");
        return false;
    }
    return true;
}

static void post(struct mcpserver *s, struct mount_call *m)
{
    struct rpc_packet packet;
    struct mcp_session *session;
    struct arena a = {0};
    struct err e = {0};
    bool opened;
    struct str type = mount_header(m, "content-type");
    struct mcp_view *v = mcp_view__of(s, m);
    if (v == NULL) {
        return;
    }
    if (!str_caseeqz(str_trim(str_cut(&type, ';')), "application/json")) {
        mcp_http__refuse_rpc(m, 415, RPC_INVALID_REQUEST, "the body must be application/json");
        return;
    }
    int rc = rpc_parse(&packet, &a, mount_body(m), &e);
    if (rc < 0) {
        mcp_http__refuse_rpc(m, 400, rc == ERR_PARSE ? RPC_PARSE_ERROR : RPC_INVALID_REQUEST,
                             e.msg);
    } else if (choose(s, v, m, &packet, &a, &session, &opened)) {
        struct mcp_post *p = mcp_post__new(s, session != NULL ? session->view : v, session, m);
        p->batch = packet.batch;
        p->takes_stream = accepts(m, "text/event-stream");
        if (opened) {
            p->headers = arena_printf(&p->arena,
                                      "Mcp-Session-Id: %s\r\n"
                                      "Access-Control-Expose-Headers: Mcp-Session-Id\r\n",
                                      session->id);
        }
        run_packet(p, &packet);
    }
    arena_fini(&a);
}

// ---- GET, DELETE -----------------------------------------------------------------------------------------

static void get(struct mcpserver *s, struct mount_call *m)
{
    struct str last = mount_header(m, "last-event-id");
    uint64_t after = UINT64_MAX;
    if (!accepts(m, "text/event-stream")) {
        mcp_http__refuse_rpc(m, 406, RPC_INVALID_REQUEST, "GET is answered with text/event-stream");
        return;
    }
    struct mcp_session *x = find_session(s, m);
    if (x == NULL) {
        return;
    }
    struct mcp_stream *st = last.n != 0 ? mcp_session__resume(x, last, &after) : &x->own;
    if (st == NULL) {
        mcp_http__refuse_rpc(m, 404, RPC_INVALID_REQUEST,
                             "the stream that Last-Event-ID names is no longer kept");
        return;
    }
    mcp_stream__attach(st, m, after);
}

static void delete (struct mcpserver *s, struct mount_call *m)
{
    struct mcp_session *x = find_session(s, m);
    if (x != NULL) {
        mcp_session__free(x);
        mount_reply(m, 204, NULL, NULL, STR_NULL);
    }
}

void mcp_http__request(void *server, struct mount_call *m)
{
    static const struct {
        const char *method;
        void (*run)(struct mcpserver *s, struct mount_call *m);
    } runs[] = {{"POST", post}, {"GET", get}, {"DELETE", delete}};
    const char *method = mount_method(m);
    bool modern = is_modern(mount_header(m, "mcp-protocol-version"));
    for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
        if (strcmp(method, runs[i].method) == 0 && (i == 0 || !modern)) {
            runs[i].run(server, m);
            return;
        }
    }
    struct buf body = {.max = 1024};
    struct jw w = {.out = &body};
    rpc_error(&w, NULL, RPC_INVALID_REQUEST, "%s is not allowed for this address", method);
    mount_reply(m, 405, "application/json",
                modern ? "Allow: POST\r\n" : "Allow: GET, POST, DELETE\r\n", buf_str(&body));
    buf_fini(&body);
}
