// HTTP on a connection: requests, one after the other.
//
//     bytes ─> http1_feed ─┬─ head complete ─> request__admit ─no─> problem+json
//                          ├─ body ──────────> call->body (bounded)
//                          └─ message end ───> call__run ┄┄> http__reply ─> next message
//
// A connection has one request under way at a time: pipelined ones wait as bytes in `ahead`, so
// answers cannot change places, and the server stops reading a peer that sends without end. An operation
// may answer at once (the parse loop continues) or later (the rest is parsed from a deferred task).
// Answers of one batch of bytes leave in one write.
//
// After something that breaks the framing, or a refusal with a body still to come, the answer says
// `Connection: close` and the connection lingers until the peer has had time to read it.
//
// Invariants:
//   - `call` is set from an admitted head until its answer; `call->running` from the message's end.
//   - a call outlives its connection if the operation has not answered: its `conn` is then NULL.
//   - while `call->running` no byte is given to the parser, so the head's spans stay valid.

#include <assert.h>

#include "base/log.h"
#include "server/server_int.h"

enum { OUT_HIGH = 64 * 1024 }; // stop parsing while more than this waits to be written

enum phase { PHASE_IDLE, PHASE_HEAD, PHASE_BODY };

struct http {
    struct conn *conn;
    struct http1 parser;
    struct call *call; // from an admitted head to its answer, else NULL
    struct buf ahead;  // arrived, but it is not its turn yet
    struct loop_task *resume;
    enum phase phase; // which deadline is set
    bool eof;
};

static const struct conn_proto http;

// Requests are logged at level debug only. A head that is not complete has neither method nor path.
static void log_request(const struct conn *c, const struct http1 *p, int status)
{
    if (log_get_level() < LOG_DEBUG) { // louder, every posted event would bring one of its own
        return;
    }
    bool whole = p->state != HTTP1_HEAD;
    char peer[64];
    struct str path = whole ? http1_target(p) : STR_NULL;
    conn__peer(c, peer, sizeof peer);
    log_debug(LOG_HTTP, "peer=%s method=%s path=%s status=%d", peer,
              whole ? http1_method_name(p) : "-", LOGQ(str_cut(&path, '?')).z, status);
}

// The parser cannot continue: say why and end the connection.
static void refuse_framing(struct conn *c, const struct err *e)
{
    static const enum problem kinds[] = {
        [HTTP1_OK] = PROBLEM_INVALID_REQUEST,
        [HTTP1_MALFORMED] = PROBLEM_INVALID_REQUEST,
        [HTTP1_LINE_TOO_LONG] = PROBLEM_URI_TOO_LONG,
        [HTTP1_HEAD_TOO_LARGE] = PROBLEM_HEADERS_TOO_LARGE,
        [HTTP1_STOPPED] = PROBLEM_TOO_LARGE,
    };
    struct http *h = c->state;
    struct refusal no = {0};
    if (h->parser.fault == HTTP1_STOPPED) {
        request__refuse(&no, PROBLEM_TOO_LARGE, "the body is larger than %zu bytes",
                        c->server->limits.body_bytes);
    } else {
        request__refuse(&no, kinds[h->parser.fault], "%s", e->msg);
    }
    http__refuse(c, &no, false);
}

// ---- parsing -------------------------------------------------------------------------------

static int on_body(void *arg, struct str bytes)
{
    struct http *h = arg;
    assert(h->call != NULL && !h->call->running); // a refused request's body is not parsed
    buf_adds(&h->call->body, bytes);
    return buf_ok(&h->call->body) ? 0 : -1;
}

// The head is complete: serve it or refuse it before its body is read.
static void admit(struct conn *c)
{
    struct http *h = c->state;
    struct refusal no = {0};
    struct asked asked;
    if (!request__admit(c->server, &h->parser, c, &asked, &no)) {
        http__refuse(c, &no, h->parser.state == HTTP1_END && h->parser.keep_alive);
        return;
    }
    if (asked.known) {
        conn__know(c);
    }
    h->call = call__new(c, &h->parser, &asked);
    if (asked.wants_continue && h->parser.state == HTTP1_BODY) {
        buf_addz(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    }
}

static bool may_parse(const struct conn *c)
{
    const struct http *h = c->state;
    size_t high = c->stranger ? 1 : OUT_HIGH; // one answer of theirs a turn
    return (h->call == NULL || !h->call->running) && c->write == NULL && c->out.n < high;
}

static bool is_http(const struct conn *c)
{
    return c->proto == &http && !c->closing;
}

// One step of the parser, and what it leads to. `c` may speak something else afterwards.
static void step(struct conn *c, struct str *bytes)
{
    struct http *h = c->state;
    struct err e;
    if (http1_feed(&h->parser, bytes, &e) < 0) {
        refuse_framing(c, &e);
        return;
    }
    if (h->parser.state != HTTP1_HEAD && h->call == NULL) {
        admit(c);
    }
    if (is_http(c) && h->parser.state == HTTP1_END && h->call != NULL) {
        call__run(c, h->call);
    }
}

static void keep_ahead(struct conn *c, struct str bytes)
{
    struct http *h = c->state;
    buf_adds(&h->ahead, bytes);
    if (h->ahead.n >= c->server->limits.ahead_bytes) {
        conn__read(c, false);
    }
}

static void set_deadline(struct conn *c)
{
    struct http *h = c->state;
    const struct server_limits *l = &c->server->limits;
    uint64_t now = loop_now(c->server->loop);
    if (h->call != NULL && h->call->running) {
        conn__deadline(c, 0);
        return;
    }
    if (http1_between(&h->parser)) {
        h->phase = PHASE_IDLE;
        http1_fini(&h->parser);
        conn__deadline(c, now + (c->stranger ? l->header_ms : l->idle_ms));
    } else if (h->parser.state == HTTP1_BODY) {
        h->phase = PHASE_BODY;
        conn__deadline(c, now + l->body_ms);
    } else if (h->phase != PHASE_HEAD) {
        h->phase = PHASE_HEAD; // from its first byte on: later ones do not buy more time
        conn__deadline(c, now + l->header_ms);
    }
}

static void parse(struct conn *c, struct str bytes)
{
    conn__cork(c, true);
    while (bytes.n != 0 && is_http(c) && may_parse(c)) {
        step(c, &bytes);
    }
    if (is_http(c)) {
        keep_ahead(c, bytes);
        set_deadline(c);
    }
    conn__cork(c, false);
}

static void on_resume(void *arg)
{
    struct http *h = arg;
    struct conn *c = h->conn;
    size_t n;
    h->resume = NULL;
    char *bytes = buf_take(&h->ahead, &n);
    if (!h->eof) {
        conn__read(c, true);
    }
    parse(c, (struct str){bytes, n});
    free(bytes);
    if (is_http(c) && h->eof && h->call == NULL && h->ahead.n == 0) {
        conn__finish(c);
    }
}

static void resume_later(struct conn *c)
{
    struct http *h = c->state;
    if (h->ahead.n != 0 && h->resume == NULL && may_parse(c)) {
        h->resume = loop_defer(c->server->loop, on_resume, h);
    }
}

// ---- the protocol --------------------------------------------------------------------------

static void http_on_read(struct conn *c, struct str bytes)
{
    struct http *h = c->state;
    if (h->ahead.n != 0 || !may_parse(c)) {
        keep_ahead(c, bytes);
    } else {
        parse(c, bytes);
    }
}

static void http_on_eof(struct conn *c)
{
    struct http *h = c->state;
    h->eof = true;
    if (h->call != NULL && (h->call->plugin != NULL || h->call->mount != NULL)) {
        conn__close(c); // a plugin or a mounted part still works, and its answer has no reader
        return;
    }
    if ((h->call == NULL || !h->call->running) && h->ahead.n == 0) {
        conn__finish(c);
    }
}

static void http_on_deadline(struct conn *c)
{
    struct http *h = c->state;
    if (h->phase == PHASE_IDLE && conn__blocked(c)) {
        set_deadline(c); // not idle: the peer still reads its answer
    } else if (h->phase == PHASE_IDLE) {
        conn__close(c);
    } else {
        struct refusal no = {0};
        request__refuse(&no, PROBLEM_REQUEST_TIMEOUT, "the request did not arrive in time");
        http__refuse(c, &no, false);
    }
}

static void http_on_gone(struct conn *c)
{
    struct http *h = c->state;
    if (h->call != NULL && h->call->plugin != NULL) {
        route__cancel(h->call);
        call__free(h->call);
    } else if (h->call != NULL && h->call->mount != NULL) {
        mount__lost(h->call);
        call__free(h->call);
    } else if (h->call != NULL && h->call->running) {
        h->call->conn = NULL;
    } else if (h->call != NULL) {
        call__free(h->call);
    }
    if (h->resume != NULL) {
        loop_cancel(c->server->loop, h->resume);
    }
    http1_fini(&h->parser);
    buf_fini(&h->ahead);
    free(h);
    c->state = NULL;
}

static const struct conn_proto http = {
    .on_read = http_on_read,
    .on_eof = http_on_eof,
    .on_drain = resume_later,
    .on_deadline = http_on_deadline,
    .on_gone = http_on_gone,
};

void http__start(struct conn *c)
{
    struct http *h = xcalloc(1, sizeof *h);
    h->conn = c;
    http1_init(&h->parser, HTTP1_REQUEST, &c->server->head_limits, on_body, h);
    buf_init(&h->ahead, c->server->limits.ahead_bytes + READ_BYTES);
    conn__take(c, &http, h);
    set_deadline(c);
}

void http__reply(struct conn *c, struct reply *reply, bool keep)
{
    struct http *h = c->state;
    assert(c->proto == &http && !c->closing);
    h->call = NULL;
    reply->keep = keep && !c->server->closing && !(h->eof && h->ahead.n == 0);
    reply->old = h->parser.minor == 0;
    c->server->counts.requests++;
    c->server->counts.by_class[(reply->status / 100) % 6]++;
    log_request(c, &h->parser, reply->status);
    respond__write(c, reply);
    if (reply->streamed && !reply->head_only) {
        return;
    }
    if (!reply->keep) {
        conn__finish(c);
        return;
    }
    http1_next(&h->parser, false);
    h->phase = PHASE_IDLE;
    if (!c->corked) {
        set_deadline(c);
        conn__flush(c);
        if (is_http(c)) {
            resume_later(c);
        }
    }
}

void http__refuse(struct conn *c, const struct refusal *no, bool keep)
{
    struct http *h = c->state;
    struct buf body = {.max = 64 * 1024};
    struct reply r = {.status = problems[no->problem].status,
                      .type = "application/problem+json",
                      .allow = no->allow[0] != '\0' ? no->allow : NULL,
                      .retry_after_s = no->retry_after_s,
                      .challenge = no->problem == PROBLEM_UNAUTHORIZED,
                      .head_only = h->parser.method == HTTP_HEAD && h->parser.state != HTTP1_HEAD};
    if (no->page) {
        page__write_refused(&body, no);
        r.type = "text/html; charset=utf-8";
        r.headers = page__headers;
    } else if (no->mount != NULL && no->mount->refused != NULL) {
        no->mount->refused(&body, problems[no->problem].code, no->detail);
        r.type = "application/json";
    } else {
        respond__problem(&body, no);
    }
    r.body = buf_str(&body);
    if (h->call != NULL) {
        call__free(h->call);
        h->call = NULL;
    }
    http__reply(c, &r, keep);
    buf_fini(&body);
}

void http__switch(struct conn *c)
{
    struct http *h = c->state;
    h->call = NULL;
    c->server->counts.requests++;
    c->server->counts.by_class[1]++;
    log_request(c, &h->parser, 101);
}

bool http__idle(const struct conn *c)
{
    const struct http *h = c->state;
    return is_http(c) && h->call == NULL && http1_between(&h->parser) && h->ahead.n == 0;
}

const struct http1 *http__parser(const struct conn *c)
{
    const struct http *h = c->state;
    return &h->parser;
}
