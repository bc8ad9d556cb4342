// `afloat mcp`: MCP on stdin and stdout, for clients that start their servers as programs.
//
//     stdin ─ a line ─> POST /mcp ─ JSON or events ─> stdout          GET /mcp ─ list changes ─> stdout
//
// The bridge has no knowledge of tools: it passes messages on and keeps the connection alive where the hub cannot. A
// hub that is restarted has lost the session. The bridge then begins a new one with the client's own `initialize`,
// opens the streams again and says that all lists have changed, so the client lists again; it never sees an end.
// A request that was under way is answered with an error, since its progress is unknown.
//
// The stateless era needs headers that repeat what the message says; they are made here. Cancelling there is closing
// the connection.
//
// An agent that runs as a session's engine gets the session's tools the same way: the engine starts the bridge with
// AFLOAT_MCP_URL and AFLOAT_MCP_KEY, and it passes messages on to that address instead of the hub's socket.
//
// Invariants:
//   - `session` is not empty exactly while the hub has a session for us.
//   - while `joining`, by the client's `initialize` or again after a restart, lines of the client wait in `waiting`.

#include "bridge/bridge.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <strings.h>
#include <unistd.h>

#include "base/time.h"
#include "base/vec.h"
#include "bridge/bridge_int.h"
#include "client/interrupt.h"

enum {
    LINE_MAX_BYTES = 16 << 20,
    WIRES_MAX = 256, // requests under way; then stdin has to wait
    WAITING_MAX = 1024,
    RETRY_FIRST_MS = 300,
    RETRY_MS = 1000,
    CLOSE_MS = 2000,
};

enum what { WIRE_REQUEST, WIRE_HELLO, WIRE_JOIN, WIRE_LISTEN, WIRE_NOTE };

static const char *const lists[][2] = {
    {"toolsListChanged", "notifications/tools/list_changed"},
    {"promptsListChanged", "notifications/prompts/list_changed"},
    {"resourcesListChanged", "notifications/resources/list_changed"},
};

// ---- to the hub -----------------------------------------------------------------------------

static const char GONE[] =
    "the Afloat hub is not running; start it with 'afloat start', then try again";

static void on_message(struct wire *w, struct str message)
{
    struct bridge *b = w->owner;
    if (w->again) { // the acknowledgement of a subscription that was lost: what changed meanwhile is not known
        w->again = false;
        for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
            if (json_bool(json_get(w->wants, lists[i][0]), false)) {
                bridge__changed(b, lists[i][1], w->id);
            }
        }
        return;
    }
    bridge__say(b, message);
}

/// The hub is gone: look for it again.
static void retry_later(struct bridge *b)
{
    if (b->retry_at == 0) {
        b->retry_at = interrupt_deadline(b->retry_ms);
        b->retry_ms = RETRY_MS;
    }
}

static struct wire *add_wire(struct bridge *b, struct wire *w, enum what what)
{
    assert(what <= WIRE_NOTE);
    if (w != NULL) {
        w->owner = b;
        w->what = (int)what;
        w->message = on_message;
        w->next = b->wires;
        b->wires = w;
        b->n_wires++;
    }
    return w;
}

/// POST `line` with the headers of our session, or without one.
static struct wire *post(struct bridge *b, enum what what, const char *line, const char *more)
{
    struct buf headers = {.max = 64 * 1024};
    buf_addz(&headers, "Accept: application/json, text/event-stream\r\n");
    buf_addz(&headers, b->header);
    if (more != NULL) {
        buf_addz(&headers, more);
    } else if (b->session[0] != '\0' && what != WIRE_HELLO && what != WIRE_JOIN) {
        buf_addf(&headers, "Mcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n", b->session,
                 b->version);
    }
    struct wire *w = wire__open(b->address, "POST", buf_z(&headers), str_of(line));
    buf_fini(&headers);
    return add_wire(b, w, what);
}

/// Read what the hub has to say outside of calls.
static void listen(struct bridge *b)
{
    char headers[256];
    snprintf(headers, sizeof headers,
             "Accept: text/event-stream\r\nMcp-Session-Id: %s\r\nMCP-Protocol-Version: %s\r\n",
             b->session, b->version);
    if (add_wire(b, wire__open(b->address, "GET", headers, STR_NULL), WIRE_LISTEN) == NULL) {
        retry_later(b);
    }
}

static void join(struct bridge *b)
{
    b->session[0] = '\0';
    b->joining = post(b, WIRE_JOIN, b->hello, NULL) != NULL;
}

static void fail_waiting(struct bridge *b)
{
    vec_foreach (line, &b->waiting) {
        bridge__fail(b, *line, RPC_INTERNAL_ERROR, GONE);
        free(*line);
    }
    b->waiting.n = 0;
}

// ---- one line of the client -----------------------------------------------------------------

/// The version that a stateless request names; empty for others.
static struct str version_of(const struct rpc_message *m)
{
    const struct json *meta = json_get(m->params, "_meta");
    return json_get_text(meta, "io.modelcontextprotocol/protocolVersion");
}

/// The headers of a stateless request; NULL: a name cannot be in a header.
static const char *modern_headers(struct arena *a, const struct rpc_message *m, struct str version)
{
    const struct json *name =
        json_get(m->params, str_eqz(m->method, "resources/read") ? "uri" : "name");
    bool named =
        name != NULL && name->type == JSON_STR && !str_eqz(m->method, "completion/complete");
    if (!http1_is_value(m->method) || !http1_is_value(version) ||
        (named && !http1_is_value(name->s))) {
        return NULL;
    }
    return arena_printf(a,
                        "Afloat-Stdio: 1\r\nMCP-Protocol-Version: " STR_FMT
                        "\r\nMcp-Method: " STR_FMT "\r\n%s" STR_FMT "%s",
                        STR_ARG(version), STR_ARG(m->method), named ? "Mcp-Name: " : "",
                        STR_ARG(named ? name->s : STR("")), named ? "\r\n" : "");
}

/// False: there is no hub. The line has been answered unless it is sent `again`.
static bool send_modern(struct bridge *b, const char *line, const struct rpc_message *m, bool again)
{
    assert(m->kind == RPC_REQUEST);
    struct str version = version_of(m);
    struct arena a = {0};
    const char *headers = modern_headers(&a, m, version);
    struct wire *w = headers != NULL ? post(b, WIRE_REQUEST, line, headers) : NULL;
    if (w != NULL) {
        bool listens = str_eqz(m->method, "subscriptions/listen");
        w->line = xstrdup(line);
        w->id = json_clone(&w->arena, m->id);
        w->wants = listens ? json_clone(&w->arena, json_get(m->params, "notifications")) : NULL;
        w->again = again;
    } else if (headers == NULL) {
        bridge__fail(b, line, RPC_INVALID_PARAMS, "this name cannot be sent to the hub");
    } else if (!again) {
        bridge__fail(b, line, RPC_INTERNAL_ERROR, GONE);
    }
    arena_fini(&a);
    return w != NULL || headers == NULL;
}

static void send_legacy(struct bridge *b, const char *line, const struct rpc_message *m, bool batch)
{
    bool hello = !batch && m->kind == RPC_REQUEST && str_eqz(m->method, "initialize");
    bool request = batch || m->kind == RPC_REQUEST;
    bool lost = b->hello != NULL && !hello && b->session[0] == '\0';
    if (lost && !b->joining) {
        join(b); // the hub may be back
    }
    if (!hello && b->joining && b->waiting.n < WAITING_MAX) {
        vec_push(&b->waiting, xstrdup(line));
        return;
    }
    struct wire *w = post(b, hello ? WIRE_HELLO : request ? WIRE_REQUEST : WIRE_NOTE, line, NULL);
    if (w == NULL) {
        bridge__fail(b, line, RPC_INTERNAL_ERROR, GONE);
        return;
    }
    w->line = xstrdup(line);
    w->id = !batch && request ? json_clone(&w->arena, m->id) : NULL;
    b->joining |= hello;
    if (!batch && m->kind == RPC_NOTIFICATION && str_eqz(m->method, "notifications/initialized")) {
        b->ready = true;
        listen(b);
    }
}

/// Cancel a stateless request: its connection goes.
static bool cancel(struct bridge *b, const struct rpc_message *m)
{
    const struct json *id = json_get(m->params, "requestId");
    if (m->kind != RPC_NOTIFICATION || !str_eqz(m->method, "notifications/cancelled") ||
        b->hello != NULL || b->joining) {
        return false;
    }
    for (struct wire **at = &b->wires; *at != NULL; at = &(*at)->next) {
        struct wire *w = *at;
        if (w->id != NULL && rpc_same_id(w->id, id)) {
            *at = w->next;
            assert(b->n_wires != 0);
            b->n_wires--;
            wire__free(w);
            break;
        }
    }
    return true;
}

static void take_line(struct bridge *b, struct str text)
{
    struct rpc_packet p;
    struct arena a = {0};
    struct err e = {0};
    char *line = str_dup(text);
    int rc = rpc_parse(&p, &a, str_of(line), &e);
    const struct rpc_message *m = rc == 0 ? &p.messages[0] : NULL;
    if (rc < 0) {
        bridge__error(b, NULL, rc == ERR_PARSE ? RPC_PARSE_ERROR : RPC_INVALID_REQUEST,
                      str_of(e.msg));
    } else if (!p.batch && m->kind == RPC_INVALID) {
        bridge__error(b, m->id, RPC_INVALID_REQUEST, m->message);
    } else if (!p.batch && cancel(b, m)) {
        // done
    } else if (!p.batch && m->kind == RPC_REQUEST && version_of(m).n != 0) {
        send_modern(b, line, m, false);
    } else {
        send_legacy(b, line, m, p.batch);
    }
    arena_fini(&a);
    free(line);
}

// ---- what the hub answered --------------------------------------------------------------------

static void send_waiting(struct bridge *b)
{
    vec(char *) waiting = {0};
    vec_foreach (line, &b->waiting) {
        vec_push(&waiting, *line);
    }
    b->waiting.n = 0;
    vec_foreach (line, &waiting) {
        take_line(b, str_of(*line));
        free(*line);
    }
    vec_fini(&waiting);
}

static struct str session_of(const struct wire *w)
{
    return http1_get(&w->in.http, "Mcp-Session-Id");
}

static bool is_json(const struct wire *w)
{
    return strcasecmp(w->answer.type, "application/json") == 0;
}

/// The hub has a session for us. After a restart the client lists again, and what waits is sent.
static void joined(struct bridge *b, struct wire *w)
{
    struct arena a = {0};
    struct json *v;
    const char *version = "";
    if (json_parse(&v, &a, buf_str(&w->answer.body), NULL, NULL) == 0) {
        version = arena_strdup(&a, json_str(json_ptr(v, "/result/protocolVersion"), ""));
    }
    snprintf(b->session, sizeof b->session, STR_FMT, STR_ARG(session_of(w)));
    snprintf(b->version, sizeof b->version, "%s", version);
    arena_fini(&a);
    b->retry_ms = RETRY_FIRST_MS;
    if (w->what != WIRE_JOIN) {
        return;
    }
    b->joining = false;
    if (b->ready) {
        post(b, WIRE_NOTE, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", NULL);
        listen(b);
        for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
            bridge__changed(b, lists[i][1], NULL);
        }
    }
    send_waiting(b);
}

/// Pass a whole answer on. Errors that could not name the request get its id.
static void pass_on(struct bridge *b, const struct wire *w)
{
    struct rpc_packet p;
    struct arena a = {0};
    struct json *v;
    bool rpc = is_json(w) && rpc_parse(&p, &a, buf_str(&w->answer.body), NULL) == 0;
    if (rpc && (p.messages[0].kind != RPC_ERROR || p.messages[0].id != NULL || w->id == NULL)) {
        bridge__say(b, buf_str(&w->answer.body));
    } else if (rpc) {
        bridge__error(b, w->id, p.messages[0].code, p.messages[0].message);
    } else if (w->line != NULL) {
        bool problem = json_parse(&v, &a, buf_str(&w->answer.body), NULL, NULL) == 0;
        bridge__fail(
            b, w->line, RPC_INTERNAL_ERROR,
            arena_strdup(&a, json_str(problem ? json_get(v, "detail") : NULL, "the hub refused")));
    }
    arena_fini(&a);
}

static void remember_hello(struct bridge *b, const struct wire *w)
{
    free(b->hello);
    b->hello = xstrdup(w->line);
}

static void ended(struct bridge *b, struct wire *w)
{
    bool opened = w->answer.status == 200 && session_of(w).n != 0;
    bool unknown =
        w->answer.status == 404 && b->hello != NULL && b->session[0] != '\0' && w->wants == NULL;
    switch ((enum what)w->what) {
    case WIRE_HELLO:
        b->joining = false;
        if (opened) {
            remember_hello(b, w);
            joined(b, w);
        }
        pass_on(b, w);
        send_waiting(b);
        break;
    case WIRE_JOIN:
        b->joining = false;
        if (opened) {
            joined(b, w);
        } else {
            fail_waiting(b);
            retry_later(b);
        }
        break;
    case WIRE_REQUEST:
        if (unknown && w->line != NULL &&
            is_json(w)) { // the hub was restarted and we did not notice
            b->session[0] = '\0';
            take_line(b, str_of(w->line));
        } else if (!w->in.streaming) {
            pass_on(b, w);
        } else if (w->wants != NULL) {
            retry_later(b);
        }
        break;
    case WIRE_LISTEN: // the hub ended it: it stops
        b->session[0] = '\0';
        retry_later(b);
        break;
    case WIRE_NOTE: break;
    }
}

static void broke(struct bridge *b, struct wire *w)
{
    if (w->wants == NULL && (w->what == WIRE_HELLO || w->what == WIRE_REQUEST)) {
        bridge__fail(b, w->line, RPC_INTERNAL_ERROR,
                     "lost the connection to the Afloat hub; the call may have had an effect");
    }
    switch ((enum what)w->what) {
    case WIRE_REQUEST: break;
    case WIRE_HELLO:
    case WIRE_JOIN:
        b->joining = false;
        fail_waiting(b);
        break;
    case WIRE_LISTEN: b->session[0] = '\0'; break;
    case WIRE_NOTE: return;
    }
    retry_later(b);
}

/// A subscription outlives the hub: it is kept until it can be sent again.
static void retire(struct bridge *b, struct wire *w)
{
    assert(w->what <= WIRE_NOTE);
    if (w->wants != NULL && (w->in.streaming || w->answer.status == 0)) {
        vec_push(&b->dormant, w);
    } else {
        wire__free(w);
    }
}

/// Subscribe again. False: there is no hub yet.
static bool resend(struct bridge *b, const char *line)
{
    struct rpc_packet p;
    struct arena a = {0};
    int rc = rpc_parse(&p, &a, str_of(line), NULL);
    assert(rc == 0); // it was sent before
    (void)rc;
    bool sent = send_modern(b, line, &p.messages[0], true);
    arena_fini(&a);
    return sent;
}

/// The time has come to look for the hub.
static void retry(struct bridge *b)
{
    b->retry_at = 0;
    if (b->hello != NULL && b->session[0] == '\0' && !b->joining) {
        join(b);
        if (!b->joining) {
            retry_later(b);
        }
    }
    size_t kept = 0;
    vec_foreach (w, &b->dormant) {
        if (resend(b, (*w)->line)) {
            wire__free(*w);
        } else {
            b->dormant.p[kept++] = *w;
            retry_later(b);
        }
    }
    b->dormant.n = kept;
}

// ---- the loop -----------------------------------------------------------------------------------

static void read_stdin(struct bridge *b)
{
    char chunk[64 << 10];
    struct str line;
    ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
    if (n <= 0) {
        bool ended = n == 0 || (errno != EAGAIN && errno != EINTR);
        b->close_at = ended ? interrupt_deadline(CLOSE_MS) : 0;
        return;
    }
    rpc_lines_feed(&b->in, (struct str){chunk, (size_t)n});
    while (rpc_lines_next(&b->in, &line)) {
        take_line(b, line);
    }
    if (rpc_lines_over(&b->in)) {
        bridge__error(b, NULL, RPC_INVALID_REQUEST, STR("a message is larger than 16 MiB"));
        b->over = true;
        b->fault = ERR_TOO_LARGE;
    }
}

/// Run the wires that are ready, of which `fds` are the first `n`; those that are over leave the list.
static void run_wires(struct bridge *b, const struct pollfd *fds, size_t n)
{
    struct wire *over = NULL, **at = &b->wires;
    for (size_t i = 0; i < n; i++) {
        struct wire *w = *at;
        assert(w->fd == fds[i].fd);
        int rc = fds[i].revents != 0 ? wire__run(w, fds[i].revents) : 0;
        if (rc == 0) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        b->n_wires--;
        w->next = over;
        over = w;
        w->answer.status = rc < 0 && !w->in.streaming ? 0 : w->answer.status;
    }
    while (over != NULL) {
        struct wire *w = over;
        over = w->next;
        if (w->answer.status != 0 && !(w->in.streaming && w->in.http.state != HTTP1_END)) {
            ended(b, w);
        } else {
            broke(b, w);
        }
        retire(b, w);
    }
}

static void turn(struct bridge *b)
{
    struct pollfd fds[WIRES_MAX + WAITING_MAX];
    size_t n = 0;
    for (struct wire *w = b->wires; w != NULL && n < ARRAY_LEN(fds) - 1; w = w->next) {
        fds[n++] = (struct pollfd){.fd = w->fd, .events = wire__events(w)};
    }
    bool reads = b->n_wires < WIRES_MAX && b->close_at == 0;
    fds[n] = (struct pollfd){.fd = reads ? STDIN_FILENO : -1, .events = POLLIN};
    int rc = interrupt_wait(fds, (nfds_t)n + 1, b->close_at != 0 ? b->close_at : b->retry_at);
    if (rc == -EINTR) {
        b->over = true;
        return;
    }
    run_wires(b, fds, n);
    if (reads && fds[n].revents != 0) {
        read_stdin(b);
    }
    if (b->retry_at != 0 && time_mono_ns() >= b->retry_at) {
        retry(b);
    }
}

/// Stdin has ended, and nothing is left to answer.
static bool is_done(const struct bridge *b)
{
    bool open = b->waiting.n != 0;
    for (const struct wire *w = b->wires; w != NULL; w = w->next) {
        open = open || (w->wants == NULL && (w->what == WIRE_REQUEST || w->what == WIRE_HELLO));
    }
    return b->close_at != 0 && (!open || time_mono_ns() >= b->close_at);
}

int bridge_run(const char *address, const char *header)
{
    struct bridge b = {.address = address, .header = header, .retry_ms = RETRY_FIRST_MS};
    interrupt_catch();
    rpc_lines_init(&b.in, LINE_MAX_BYTES);
    while (!b.over && !is_done(&b)) {
        turn(&b);
    }
    while (b.wires != NULL) {
        struct wire *w = b.wires;
        b.wires = w->next;
        wire__free(w);
    }
    vec_fini_each(&b.dormant, wire__free);
    vec_fini_each(&b.waiting, free);
    rpc_lines_fini(&b.in);
    free(b.hello);
    return b.fault;
}
