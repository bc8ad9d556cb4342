// A terminal over a WebSocket: GET /pty/{id} with `Upgrade: websocket`.
//
//     browser ── binary: keys ──────────────────────> keeper
//             ── text: {"type":"resize"} ───────────>
//             <── text: {"type":"snapshot"}, binary ── snapshot, then output
//             <── text: {"type":"exit"} ──────────────
//
// net/ws.c knows frames and masks; bytes come from and go to the connection. Each WebSocket has a connection of
// its own to the keeper. While the peer does not take what was sent, the keeper is not read: it then holds the
// program back for a moment, and later sends a new snapshot in place of what was missed.

#include "net/ws.h"

#include <unistd.h>

#include "base/json.h"
#include "base/sock.h"
#include "keep/chan.h"
#include "keep/terms.h"
#include "net/wskey.h"
#include "server/server_int.h"

enum { MESSAGE_MAX = 1 << 20, HISTORY_ROWS = 1000 };

struct ws {
    struct conn *conn;
    struct ws_frames *frames; // write into the connection's queue
    struct chan *chan;        // to the keeper; NULL when it is gone
    bool ending;
};

static const struct conn_proto ws_proto;

static bool is_ws(const struct conn *c)
{
    return c->proto == &ws_proto && !c->closing;
}

// ---- frames --------------------------------------------------------------------------------

/// Send what is queued, and end the connection when both sides are done.
static void flush(struct ws *w)
{
    struct conn *c = w->conn;
    conn__flush(c);
    if (c->closing) {
        return;
    }
    if (ws_frames_done(w->frames)) {
        conn__finish(c);
        return;
    }
    if (w->chan != NULL) {
        chan_pause(w->chan, conn__blocked(c));
    }
}

static void queue(struct ws *w, struct str bytes, bool binary)
{
    if (!w->conn->closing) {
        ws_frames_send(w->frames, bytes, binary);
    }
}

static void end(struct ws *w, int code)
{
    if (!w->ending) {
        w->ending = true;
        chan_close(w->chan);
        w->chan = NULL;
        if (!w->conn->closing) {
            ws_frames_close(w->frames, code, STR_NULL);
        }
    }
}

// ---- from the keeper -----------------------------------------------------------------------

static void on_snapshot(struct ws *w, struct str p)
{
    uint64_t offset, rows, cols;
    char text[128];
    if (wire_get(&p, 8, &offset) && wire_get(&p, 2, &rows) && wire_get(&p, 2, &cols)) {
        snprintf(text, sizeof text,
                 "{\"type\":\"snapshot\",\"offset\":%llu,\"rows\":%d,\"cols\":%d}",
                 (unsigned long long)offset, (int)rows, (int)cols);
        queue(w, str_of(text), false);
        queue(w, p, true);
    }
}

static void on_msg(struct chan *c, const struct wire_msg *m, void *arg)
{
    struct ws *w = arg;
    struct str p = m->payload;
    uint64_t rows, cols, status;
    char text[64];
    (void)c;
    if (m->type == WIRE_SNAPSHOT) {
        on_snapshot(w, p);
    } else if (m->type == WIRE_OUTPUT && p.n >= 8) {
        queue(w, str_from(p, 8), true);
    } else if (m->type == WIRE_RESIZE && wire_get(&p, 2, &rows) && wire_get(&p, 2, &cols)) {
        snprintf(text, sizeof text, "{\"type\":\"resize\",\"rows\":%d,\"cols\":%d}", (int)rows,
                 (int)cols);
        queue(w, str_of(text), false);
    } else if (m->type == WIRE_EXIT && wire_get(&p, 4, &status)) {
        snprintf(text, sizeof text, "{\"type\":\"exit\",\"status\":%d}", (int)status);
        queue(w, str_of(text), false);
        end(w, WS_NORMAL);
    } else if (m->type == WIRE_REFUSED) {
        end(w, WS_GOING);
    }
    flush(w);
}

static void on_keeper_end(struct chan *c, void *arg)
{
    struct ws *w = arg;
    (void)c;
    end(w, WS_GOING);
    flush(w);
}

static const struct chan_cb keeper_cb = {.on_msg = on_msg, .on_end = on_keeper_end};

// ---- from the peer -------------------------------------------------------------------------

static void on_control(struct ws *w, struct str text)
{
    struct arena a = {0};
    struct json *v;
    if (json_parse(&v, &a, text, NULL, NULL) == 0 &&
        str_eqz(json_str(json_get(v, "type"), ""), "resize")) {
        int64_t rows = json_int(json_get(v, "rows"), 0), cols = json_int(json_get(v, "cols"), 0);
        chan_resize(w->chan, (uint16_t)MAX(0, MIN(rows, 65535)),
                    (uint16_t)MAX(0, MIN(cols, 65535)));
    }
    arena_fini(&a);
}

static void on_message(void *arg, struct str bytes, bool binary)
{
    struct ws *w = arg;
    if (w->chan == NULL) {
        return;
    }
    if (!binary) {
        on_control(w, bytes);
    }
    while (binary && bytes.n != 0) {
        struct str piece = {bytes.p, MIN(bytes.n, (size_t)WIRE_TO_KEEPER / 2)};
        chan_send(w->chan, WIRE_INPUT, piece, STR_NULL);
        bytes = str_from(bytes, piece.n);
    }
}

static void ws_on_read(struct conn *c, struct str bytes)
{
    struct ws *w = c->state;
    if (ws_frames_feed(w->frames, bytes) < 0) {
        conn__close(c);
        return;
    }
    flush(w);
}

static void ws_on_drain(struct conn *c)
{
    struct ws *w = c->state;
    if (w->chan != NULL) {
        chan_pause(w->chan, false);
    }
}

/// Silent for a while: a ping shows whether the peer is there.
static void ws_on_deadline(struct conn *c)
{
    struct ws *w = c->state;
    if (!conn__blocked(c)) {
        ws_frames_ping(w->frames);
        flush(w);
    }
    if (is_ws(c)) {
        conn__heartbeat(c);
    }
}

static void ws_on_gone(struct conn *c)
{
    struct ws *w = c->state;
    chan_close(w->chan);
    ws_frames_free(w->frames);
    free(w);
    c->state = NULL;
}

static void ws_on_end(struct conn *c)
{
    struct ws *w = c->state;
    end(w, WS_GOING);
    flush(w);
    if (is_ws(c)) {
        conn__finish(c);
    }
}

static const struct conn_proto ws_proto = {
    .on_read = ws_on_read,
    .on_eof = conn__close,
    .on_drain = ws_on_drain,
    .on_deadline = ws_on_deadline,
    .on_gone = ws_on_gone,
    .on_end = ws_on_end,
};

// ---- the handshake -------------------------------------------------------------------------

bool ws__is_asked(const struct asked *q)
{
    return q->match.op == &ops[OP_PTY_SHOW] && str_caseeqz(q->fields.upgrade, "websocket");
}

/// A browser sends its cookie with a WebSocket of any site, so the page must be one of ours.
static bool check(const struct asked *q, struct refusal *no)
{
    if (q->by_cookie && !q->cors) {
        return request__refuse(no, PROBLEM_ORIGIN_NOT_ALLOWED,
                               "a WebSocket by cookie needs an Origin header of this hub");
    }
    if (q->fields.ws_key.n != 24 || !str_eqz(q->fields.ws_version, "13")) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST,
                               "a WebSocket needs Sec-WebSocket-Key and Sec-WebSocket-Version 13");
    }
    return true;
}

static int open_keeper(struct ws *w, const struct term *t, const struct json *params, struct err *e)
{
    int64_t offset = json_int(json_get(params, "offset"), -1);
    int fd = sock_connect(term_socket(t), e);
    int rc =
        fd < 0 ? fd
               : chan_open(&w->chan, w->conn->server->loop, fd, WIRE_FROM_KEEPER, &keeper_cb, w, e);
    if (rc < 0) {
        return rc;
    }
    chan_attach(w->chan, offset, HISTORY_ROWS, 0, 0); // its size comes later, if it has one
    return 0;
}

/// Find the terminal and connect to its keeper. NULL: `no` says why.
static struct ws *open_ws(struct conn *c, const struct json *params, struct refusal *no)
{
    struct terms *all = api_terms(c->server->api);
    struct err e = {0};
    const struct term *t =
        all != NULL ? terms_find(all, json_str(json_get(params, "id"), ""), &e) : NULL;
    if (t == NULL) {
        request__refuse(no, PROBLEM_NOT_FOUND, "%s", e.msg);
        return NULL;
    }
    struct ws *w = xcalloc(1, sizeof *w);
    w->conn = c;
    w->frames = ws_frames_new(false, MESSAGE_MAX, &c->out, on_message, w);
    if (open_keeper(w, t, params, &e) < 0) {
        ws_frames_free(w->frames);
        free(w);
        request__refuse(no, PROBLEM_NOT_FOUND, "%s", e.msg);
        return NULL;
    }
    return w;
}

void ws__start(struct conn *c, struct call *r, const struct json *params)
{
    struct refusal no = {0};
    char key[WSKEY_TEXT];
    struct ws *w = check(&r->asked, &no) ? open_ws(c, params, &no) : NULL;
    if (w == NULL) {
        http__refuse(c, &no, false);
        return;
    }
    wskey_accept(r->asked.fields.ws_key, key);
    http__switch(c);
    buf_addf(&c->out,
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Accept: %s\r\n\r\n",
             key);
    call__free(r);
    conn__take(c, &ws_proto, w);
    conn__heartbeat(c);
    conn__flush(c);
}
