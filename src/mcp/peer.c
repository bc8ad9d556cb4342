// A conversation with one server.
//
//     initialize ──answer──> notifications/initialized ──> ready
//         └─ no such method, or no such version ──> server/discover ──answer──> subscriptions/listen ──> ready
//
// The old handshake is tried first: every server in use knows it, and one that does not says so in one message.
// In the stateless era each request carries version and client in `_meta`, and lists that change are told on a
// request that stays open.
//
// What a server sends is not believed: a text that is not a message is counted and dropped, an answer to nothing too.
// One that sends too many unsolicited messages is ended, so that it cannot take the hub's time.
//
// Invariants:
//   - a request is in `open` exactly while its id is not 0.
//   - once `over`, nothing is sent or read; on_end was told, or the peer is closed.

#include "mcp/peer.h"

#include <assert.h>

#include "base/log.h"
#include "base/utf8.h"
#include "loop/timer.h"

#define LATEST "2025-11-25"
#define MODERN "2026-07-28"
#define META   "io.modelcontextprotocol/"
#define ASKS   "\"elicitation\":{\"form\":{},\"url\":{}},\"sampling\":{}"

enum {
    WRONG_HEADERS = -32020,
    UNKNOWN_VERSION = -32022,
    GARBAGE_KEPT = 120,
    TITLE_MAX = 200,
    LOG_MAX = 1000,
    LEVEL_MAX = 20,
};

struct mcp_peer {
    struct loop *loop;
    struct mcp_link *link;
    struct mcp_peer_cb cb;
    void *arg;
    uint64_t timeout_ms;
    int64_t last_id;
    vec(struct mcp_request *) open;
    struct timer timer;                     // due with the next request
    struct mcp_request hello;               // the handshake's
    struct mcp_request listen;              // of the stateless era: never answered
    struct mcp_request level;               // what it shall log
    bool modern, ready, over, told, closed; // `told`: that it is over
    bool has[MCP__LISTS], completes;
    char version[16], title[TITLE_MAX];
    char garbage[GARBAGE_KEPT]; // the last text that was no message
    uint64_t second;            // in which these were counted
    size_t unasked_n, unasked_bytes;
    struct loop_task *task; // tells the end, or frees
    struct err why;
    unsigned depth; // texts being read
};

// ---- the end --------------------------------------------------------------------------------

static void free_now(void *arg)
{
    struct mcp_peer *p = arg;
    timer_stop(&p->timer);
    vec_fini(&p->open);
    free(p);
}

static void on_over(void *arg)
{
    struct mcp_peer *p = arg;
    p->task = NULL;
    while (!p->closed && p->open.n != 0) {
        struct mcp_request *r = vec_pop(&p->open);
        r->id = 0;
        r->done(r, p->why.code, NULL, &p->why);
    }
    if (!p->closed && !p->told) {
        p->told = true;
        p->cb.on_end(p->arg, &p->why);
    }
}

/// It is over; open requests are told from a task.
static void doom(struct mcp_peer *p, const struct err *e)
{
    if (!p->over && !p->closed) {
        p->over = true;
        p->why = *e;
        p->why.code = e->code < 0 ? e->code : UV_EPIPE;
        timer_stop(&p->timer);
        p->task = loop_defer(p->loop, on_over, p);
    }
}

// ---- requests -------------------------------------------------------------------------------

static void on_due(void *arg);

static void arm(struct mcp_peer *p)
{
    uint64_t now = loop_now(p->loop), next = 0;
    vec_foreach (r, &p->open) {
        next = (*r)->due != 0 && (next == 0 || (*r)->due < next) ? (*r)->due : next;
    }
    if (next == 0) {
        timer_stop(&p->timer);
    } else {
        timer_start(&p->timer, next > now ? next - now : 0);
    }
}

static struct mcp_request *take(struct mcp_peer *p, int64_t id)
{
    for (size_t i = 0; i < p->open.n; i++) {
        struct mcp_request *r = p->open.p[i];
        if (r->id == id) {
            vec_remove(&p->open, i);
            r->id = 0;
            arm(p);
            return r;
        }
    }
    return NULL;
}

static void send_message(struct mcp_peer *p, const struct mcp_about *about, struct str members,
                         struct str meta)
{
    struct buf text = {.max = SIZE_MAX};
    buf_addz(&text, "{\"jsonrpc\":\"2.0\"");
    if (about->id != 0) {
        buf_addf(&text, ",\"id\":%lld", (long long)about->id);
    }
    buf_addf(&text, ",\"method\":\"%s\"", about->method);
    if (members.n != 0 || meta.n != 0) {
        buf_addz(&text, ",\"params\":{");
        buf_adds(&text, members);
        if (meta.n != 0) {
            buf_addf(&text, "%s\"_meta\":{" STR_FMT "}", members.n != 0 ? "," : "", STR_ARG(meta));
        }
        buf_addc(&text, '}');
    }
    buf_addc(&text, '}');
    p->link->ops->send(p->link, buf_str(&text), about);
    buf_fini(&text);
}

static void ask(struct mcp_peer *p, struct mcp_request *r, const char *method, struct str members,
                struct str name)
{
    struct buf meta = {.max = SIZE_MAX};
    assert(r->id == 0 && r->done != NULL && !p->closed);
    r->id = ++p->last_id;
    r->due = r->timeout_ms != 0 ? loop_now(p->loop) + r->timeout_ms : 0;
    vec_push(&p->open, r);
    if (p->over) { // told already; tell this one too
        p->task = p->task == NULL ? loop_defer(p->loop, on_over, p) : p->task;
        return;
    }
    arm(p);
    if (p->modern) {
        buf_addz(&meta, "\"" META "protocolVersion\":\"" MODERN "\",\"" META
                        "clientInfo\":{\"name\":\"afloat\",\"version\":\"1\"},\"" META
                        "clientCapabilities\":{" ASKS ",\"roots\":{}}");
    }
    if (r->progress != NULL) {
        buf_addf(&meta, "%s\"progressToken\":%lld", p->modern ? "," : "", (long long)r->id);
    }
    struct mcp_about about = {.id = r->id, .method = method, .name = name};
    send_message(p, &about, members, buf_str(&meta));
    buf_fini(&meta);
}

/// Tell the server that the answer to `id` is not needed.
static void send_cancelled(struct mcp_peer *p, int64_t id)
{
    char members[80];
    snprintf(members, sizeof members, "\"requestId\":%lld,\"reason\":\"no longer needed\"",
             (long long)id);
    if (p->link->ops->forget != NULL) {
        p->link->ops->forget(p->link, id);
    }
    if (p->ready && !p->modern) {
        send_message(p, &(struct mcp_about){.method = "notifications/cancelled"}, str_of(members),
                     STR_NULL);
    }
}

static void on_due(void *arg)
{
    struct mcp_peer *p = arg;
    uint64_t now = loop_now(p->loop);
    p->depth++;
    for (size_t i = 0; !p->closed && i < p->open.n;) {
        struct mcp_request *r = p->open.p[i];
        if (r->due == 0 || r->due > now) {
            i++;
            continue;
        }
        struct err e;
        int64_t id = r->id;
        err_set(&e, ERR_TIMEOUT, "no answer within %g s", (double)r->timeout_ms / 1000);
        vec_remove(&p->open, i);
        r->id = 0;
        send_cancelled(p, id);
        r->done(r, e.code, NULL, &e);
        i = 0;
    }
    assert(p->depth != 0);
    p->depth--;
    if (p->closed && p->depth == 0 && p->task == NULL) {
        p->task = loop_defer(p->loop, free_now, p);
    } else if (!p->over && !p->closed) {
        arm(p);
    }
}

// ---- the handshake --------------------------------------------------------------------------

static void set_ready(struct mcp_peer *p, const char *version, const struct json *capabilities,
                      const struct json *about)
{
    static const char *const names[] = {[MCP_TOOLS] = "tools",
                                        [MCP_PROMPTS] = "prompts",
                                        [MCP_RESOURCES] = "resources",
                                        [MCP_TEMPLATES] = "resources"};
    struct str name = json_get_text(about, "name");
    struct str number = json_get_text(about, "version");
    snprintf(p->version, sizeof p->version, "%s", version);
    snprintf(p->title, sizeof p->title, "%.*s%s%.*s", (int)MIN(name.n, (size_t)90), name.p,
             number.n != 0 ? " " : "", (int)MIN(number.n, (size_t)90), number.p);
    for (size_t i = 0; i < MCP__LISTS; i++) {
        const struct json *offered = json_get(capabilities, names[i]);
        p->has[i] = offered != NULL && offered->type == JSON_OBJ;
    }
    p->completes = json_get(capabilities, "completions") != NULL;
    p->ready = true;
    if (p->link->ops->agreed != NULL) {
        p->link->ops->agreed(p->link, p->version, p->modern);
    }
}

static void fail_hello(struct mcp_peer *p, const struct err *e)
{
    struct err why = *e;
    if (p->garbage[0] != '\0') {
        err_set(&why, e->code, "%.100s; it printed '%s'", e->msg, p->garbage);
    }
    doom(p, &why);
}

static void on_listened(struct mcp_request *r, int status, const struct json *result,
                        const struct err *e)
{
    struct mcp_peer *p = r->arg;
    (void)result;
    if (status < 0 && status != ERR_UNSUPPORTED && status != ERR_INVALID) { // not refused, but lost
        doom(p, e); // what changed meanwhile is found by asking anew
    }
}

static void on_discovered(struct mcp_request *r, int status, const struct json *result,
                          const struct err *e)
{
    struct mcp_peer *p = r->arg;
    struct err why;
    if (status < 0) {
        fail_hello(p, e);
        return;
    }
    bool known = false;
    json_foreach_item (v, json_get(result, "supportedVersions")) {
        known = known || str_eqz(json_str(v, ""), MODERN);
    }
    if (!known) {
        err_set(&why, ERR_UNSUPPORTED,
                "it supports no revision of MCP that Afloat supports (" MODERN ")");
        doom(p, &why);
        return;
    }
    const struct json *about = json_ptr(result, "/_meta/io.modelcontextprotocol~1serverInfo");
    set_ready(p, MODERN, json_get(result, "capabilities"),
              about != NULL ? about : json_get(result, "serverInfo"));
    p->listen = (struct mcp_request){.done = on_listened, .arg = p};
    ask(p, &p->listen, "subscriptions/listen",
        STR("\"notifications\":{\"toolsListChanged\":true,\"promptsListChanged\":true,"
            "\"resourcesListChanged\":true}"),
        STR_NULL);
    p->cb.on_ready(p->arg);
}

static void on_level_set(struct mcp_request *r, int status, const struct json *result,
                         const struct err *e)
{
    (void)r;
    (void)status;
    (void)result;
    (void)e; // then it logs what it likes
}

static void on_initialized(struct mcp_request *r, int status, const struct json *result,
                           const struct err *e)
{
    static const char *const known[] = {"2024-11-05", "2025-03-26", "2025-06-18", LATEST};
    struct mcp_peer *p = r->arg;
    struct err why;
    if (status == ERR_UNSUPPORTED) { // another era
        p->modern = true;
        p->hello.done = on_discovered;
        ask(p, &p->hello, "server/discover", STR_NULL, STR_NULL);
        return;
    }
    if (status < 0) {
        fail_hello(p, e);
        return;
    }
    struct str version = json_get_text(result, "protocolVersion");
    ptrdiff_t i = str_lookup(version, known, ARRAY_LEN(known));
    if (i < 0) {
        err_set(&why, ERR_UNSUPPORTED,
                "it uses revision '%.*s' of MCP, which Afloat does not support",
                (int)MIN(version.n, (size_t)40), version.p);
        doom(p, &why);
        return;
    }
    const struct json *capabilities = json_get(result, "capabilities");
    set_ready(p, known[i], capabilities, json_get(result, "serverInfo"));
    send_message(p, &(struct mcp_about){.method = "notifications/initialized"}, STR_NULL, STR_NULL);
    if (json_get(capabilities, "logging") != NULL) {
        p->level =
            (struct mcp_request){.done = on_level_set, .arg = p, .timeout_ms = p->timeout_ms};
        ask(p, &p->level, "logging/setLevel", STR("\"level\":\"info\""), STR_NULL);
    }
    p->cb.on_ready(p->arg);
}

static void begin(struct mcp_peer *p)
{
    p->hello = (struct mcp_request){.done = on_initialized, .arg = p, .timeout_ms = p->timeout_ms};
    ask(p, &p->hello, "initialize",
        STR("\"protocolVersion\":\"" LATEST "\",\"capabilities\":{" ASKS
            ",\"roots\":{\"listChanged\":true}},"
            "\"clientInfo\":{\"name\":\"afloat\",\"version\":\"1\"}"),
        STR_NULL);
}

// ---- what it says ---------------------------------------------------------------------------

static void count_unasked(struct mcp_peer *p, size_t bytes)
{
    uint64_t second = loop_now(p->loop) / 1000;
    if (second != p->second) {
        p->second = second;
        p->unasked_n = p->unasked_bytes = 0;
    }
    p->unasked_bytes += bytes;
    if (++p->unasked_n > MCP_FLOOD_N || p->unasked_bytes > MCP_FLOOD_BYTES) {
        struct err e;
        err_set(&e, ERR_TOO_LARGE, "it sends too many messages that were not requested");
        doom(p, &e);
    }
}

static void take_progress(struct mcp_peer *p, const struct json *params)
{
    int64_t id = json_int(json_get(params, "progressToken"), 0);
    vec_foreach (it, &p->open) {
        struct mcp_request *r = *it;
        if (r->id == id && id != 0 && r->progress != NULL) {
            struct str text = json_get_text(params, "message");
            double done = json_double(json_get(params, "progress"), 0);
            double total = json_double(json_get(params, "total"), 0);
            char numbers[80];
            if (r->due != 0) {
                r->due = loop_now(p->loop) + r->timeout_ms;
                arm(p);
            }
            snprintf(numbers, sizeof numbers, total > 0 ? "%g of %g" : "%g", done, total);
            r->progress(r, text.n != 0 ? text : str_of(numbers));
            return;
        }
    }
}

static void take_log(struct mcp_peer *p, const struct json *params)
{
    const struct json *data = json_get(params, "data");
    struct buf text = {.max = LOG_MAX};
    if (data != NULL && data->type == JSON_STR) {
        buf_add(&text, data->s.p, utf8_cut(data->s.p, data->s.n, LOG_MAX));
    } else {
        json_write(&text, data, 0);
    }
    struct str level = json_str(json_get(params, "level"), "info");
    level.n = utf8_cut(level.p, level.n, LEVEL_MAX);
    p->cb.on_log(p->arg, level, buf_str(&text));
    buf_fini(&text);
}

static void take_notification(struct mcp_peer *p, const struct rpc_message *m)
{
    static const struct {
        const char *method;
        enum mcp_list list;
    } changes[] = {{"notifications/tools/list_changed", MCP_TOOLS},
                   {"notifications/prompts/list_changed", MCP_PROMPTS},
                   {"notifications/resources/list_changed", MCP_RESOURCES}};
    if (str_eqz(m->method, "notifications/progress")) {
        take_progress(p, m->params);
        return;
    }
    if (str_eqz(m->method, "notifications/message") && p->cb.on_log != NULL) {
        take_log(p, m->params);
        return;
    }
    const struct json *id = json_get(m->params, "requestId");
    if (str_eqz(m->method, "notifications/cancelled") && id != NULL && p->cb.on_given_up != NULL) {
        p->cb.on_given_up(p->arg, id);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(changes) && p->ready; i++) {
        if (str_eqz(m->method, changes[i].method)) {
            p->cb.on_changed(p->arg, changes[i].list);
            return;
        }
    }
}

static void answer(struct mcp_peer *p, const struct rpc_message *m)
{
    if (str_eqz(m->method, "ping")) {
        mcp_peer_answer(p, m->id, STR("{}"));
    } else if (p->cb.on_request != NULL && p->ready && !p->modern) {
        p->cb.on_request(p->arg, m);
    } else {
        mcp_peer_refuse(p, m->id, RPC_METHOD_NOT_FOUND, "this client does not offer that");
    }
}

static void take_answer(struct mcp_peer *p, const struct rpc_message *m, size_t bytes)
{
    int64_t id = m->id != NULL && m->id->type == JSON_INT ? m->id->i : 0;
    struct mcp_request *r = take(p, id);
    struct err e;
    if (r == NULL) {
        count_unasked(p, bytes);
    } else if (m->kind == RPC_RESULT) {
        r->done(r, 0, m->result, NULL);
    } else if (m->kind == RPC_INVALID) { // no other answer follows
        err_set(&e, ERR_INVALID, "its answer makes no sense: " STR_FMT, STR_ARG(m->message));
        r->done(r, e.code, NULL, &e);
    } else {
        bool other_era = m->code == RPC_METHOD_NOT_FOUND || m->code == UNKNOWN_VERSION ||
                         m->code == WRONG_HEADERS;
        err_set(&e, other_era ? ERR_UNSUPPORTED : ERR_INVALID, "%.*s (%lld)",
                (int)MIN(m->message.n, (size_t)200), m->message.p, (long long)m->code);
        r->done(r, e.code, NULL, &e);
    }
}

static void take_message(struct mcp_peer *p, const struct rpc_message *m, size_t bytes)
{
    switch (m->kind) {
    case RPC_RESULT:
    case RPC_ERROR:
    case RPC_INVALID: take_answer(p, m, bytes); break;
    case RPC_REQUEST:
        count_unasked(p, bytes);
        answer(p, m);
        break;
    case RPC_NOTIFICATION:
        count_unasked(p, bytes);
        take_notification(p, m);
        break;
    }
}

void mcp_peer_text(struct mcp_peer *p, struct str text)
{
    struct arena a = {0};
    struct rpc_packet packet;
    if (p->over || p->closed) {
        return;
    }
    p->depth++;
    if (rpc_parse(&packet, &a, text, NULL) < 0) {
        size_t n = MIN(text.n, sizeof p->garbage - 1);
        for (size_t i = 0; i < n; i++) {
            unsigned char c = (unsigned char)text.p[i];
            p->garbage[i] = (char)(c >= ' ' && c < 0x7F ? c : '?');
        }
        p->garbage[n] = '\0';
        count_unasked(p, text.n);
    } else {
        for (size_t i = 0; i < packet.n && !p->over && !p->closed; i++) {
            take_message(p, &packet.messages[i], text.n);
        }
    }
    assert(p->depth != 0);
    p->depth--;
    if (p->closed && p->depth == 0 && p->task == NULL) {
        p->task = loop_defer(p->loop, free_now, p);
    }
    arena_fini(&a);
}

// ---- the link -------------------------------------------------------------------------------

static void on_text(void *arg, struct str text)
{
    mcp_peer_text(arg, text);
}

static void on_lost(void *arg, int64_t id, const struct err *e)
{
    struct mcp_peer *p = arg;
    struct mcp_request *r = take(p, id);
    if (r != NULL) {
        r->done(r, e->code, NULL, e);
    }
}

static bool is_open(void *arg, int64_t id)
{
    const struct mcp_peer *p = arg;
    bool found = false;
    vec_foreach (it, &p->open) {
        found = found || (*it)->id == id;
    }
    return found;
}

static void on_end(void *arg, const struct err *e)
{
    struct mcp_peer *p = arg;
    if (p->ready) {
        doom(p, e);
    } else {
        fail_hello(p, e);
    }
}

const struct mcp_link_cb mcp_peer_link_cb = {
    .on_text = on_text, .on_lost = on_lost, .is_open = is_open, .on_end = on_end};

// ---- public ---------------------------------------------------------------------------------

static struct mcp_peer *peer_new(struct loop *loop, uint64_t timeout_ms,
                                 const struct mcp_peer_cb *cb, void *arg)
{
    struct mcp_peer *p = xcalloc(1, sizeof *p);
    p->loop = loop;
    p->timeout_ms = timeout_ms;
    p->cb = *cb;
    p->arg = arg;
    timer_init(&p->timer, loop, on_due, p);
    return p;
}

struct mcp_peer *mcp_peer_open(struct mcp_world *w, const struct mcp_spec *s,
                               const struct mcp_peer_cb *cb, void *arg)
{
    struct mcp_peer *p = peer_new(w->loop, s->timeout_ms, cb, arg);
    assert(s->error == NULL);
    p->link = s->command != NULL ? mcp_link_stdio(w, s, &mcp_peer_link_cb, p)
                                 : mcp_link_http(w, s, &mcp_peer_link_cb, p);
    begin(p);
    return p;
}

struct mcp_peer *mcp_peer_over(struct loop *loop, struct mcp_link *link, uint64_t timeout_ms,
                               const struct mcp_peer_cb *cb, void *arg)
{
    struct mcp_peer *p = peer_new(loop, timeout_ms, cb, arg);
    p->link = link;
    begin(p);
    return p;
}

void mcp_peer_close(struct mcp_peer *p)
{
    assert(!p->closed);
    p->closed = true;
    timer_stop(&p->timer);
    p->link->ops->close(p->link);
    vec_foreach (r, &p->open) {
        (*r)->id = 0;
    }
    p->open.n = 0;
    if (p->task != NULL) {
        loop_cancel(p->loop, p->task);
        p->task = NULL;
    }
    if (p->depth == 0) {
        p->task = loop_defer(p->loop, free_now, p);
    }
}

void mcp_peer_ask(struct mcp_peer *p, struct mcp_request *r, const char *method, struct str members,
                  struct str name)
{
    assert(p->ready || p->over);
    ask(p, r, method, members, name);
}

void mcp_peer_cancel(struct mcp_peer *p, struct mcp_request *r)
{
    int64_t id = r->id;
    if (id != 0 && take(p, id) != NULL && !p->over && !p->closed) {
        send_cancelled(p, id);
    }
}

void mcp_peer_rest(struct mcp_peer *p, struct mcp_request *r, bool rests)
{
    if (r->id != 0) {
        r->due = rests || r->timeout_ms == 0 ? 0 : loop_now(p->loop) + r->timeout_ms;
        arm(p);
    }
}

/// Send an answer, unless the conversation is over, and free its text.
static void send_answer(struct mcp_peer *p, struct buf *text)
{
    if (!p->over && !p->closed) {
        p->link->ops->send(p->link, buf_str(text), &(struct mcp_about){0});
    }
    buf_fini(text);
}

void mcp_peer_answer(struct mcp_peer *p, const struct json *id, struct str result)
{
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    rpc_begin_result(&w, id);
    jw_raw(&w, result);
    rpc_end(&w);
    send_answer(p, &text);
}

void mcp_peer_refuse(struct mcp_peer *p, const struct json *id, int64_t code, const char *why)
{
    struct buf text = {.max = SIZE_MAX};
    struct jw w = {.out = &text};
    rpc_error(&w, id, code, "%.300s", why);
    send_answer(p, &text);
}

void mcp_peer_tell(struct mcp_peer *p, const char *method)
{
    if (p->ready && !p->over && !p->closed && !p->modern) {
        send_message(p, &(struct mcp_about){.method = method}, STR_NULL, STR_NULL);
    }
}

bool mcp_peer_has(const struct mcp_peer *p, enum mcp_list list)
{
    return p->has[list];
}

bool mcp_peer_completes(const struct mcp_peer *p)
{
    return p->completes;
}

const char *mcp_peer_version(const struct mcp_peer *p)
{
    return p->version;
}

const char *mcp_peer_title(const struct mcp_peer *p)
{
    return p->title;
}

struct str mcp_peer_said(const struct mcp_peer *p)
{
    return p->link->ops->said != NULL && !p->closed ? p->link->ops->said(p->link) : STR_NULL;
}

int mcp_peer_pid(const struct mcp_peer *p)
{
    return p->link->ops->pid != NULL && !p->closed ? p->link->ops->pid(p->link) : 0;
}
