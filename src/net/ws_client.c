// The client's side of a WebSocket: a tunnel of the HTTP client, a handshake, then frames.
//
//     tunnel ready ──> GET ... Upgrade ──> 101? ──> on_open ──> frames ──> on_message
//                                           └ else on_end
//
// A server that is silent for SILENCE_MS is pinged; one that stays so is gone.
//
// Invariants:
//   - on_end is called once, and no callback follows it.
//   - `open` exactly between on_open and the end or our close.

#include "net/ws_client.h"

#include <assert.h>

#include "base/base64.h"
#include "base/random.h"
#include "loop/timer.h"
#include "net/http1.h"
#include "net/ws.h"
#include "net/wskey.h"

enum {
    HANDSHAKE_MS = 30 * 1000,
    CLOSE_MS = 2 * 1000,
    SILENCE_MS = 30 * 1000,
    MESSAGE_MAX = 16 * 1024 * 1024,
    KEY_TEXT = 25,
};

struct ws_client {
    struct http_call *call; // NULL: over
    struct ws_client_cb cb;
    void *arg;
    struct buf head; // the handshake
    char key[KEY_TEXT];
    struct http1 parser; // of the answer to it
    bool shaken;         // that is done
    struct ws_frames *frames;
    struct buf out; // what frames want sent
    struct timer timer;
    bool open, closing, pinged;
    bool busy; // a callback is on the stack
    bool gone; // freed as soon as not busy
};

static void free_now(struct ws_client *w)
{
    timer_stop(&w->timer);
    if (w->call != NULL) {
        http_client_cancel(w->call);
    }
    ws_frames_free(w->frames);
    http1_fini(&w->parser);
    buf_fini(&w->head);
    buf_fini(&w->out);
    free(w);
}

void ws_client_free(struct ws_client *w)
{
    if (w == NULL) {
        return;
    }
    w->gone = true;
    if (!w->busy) {
        free_now(w);
    }
}

/// It is over. `w` may be gone after this.
static void finish(struct ws_client *w, int code, struct str reason, const char *message)
{
    struct ws_client_cb cb = w->cb;
    void *arg = w->arg;
    if (w->call != NULL) {
        http_client_cancel(w->call);
        w->call = NULL;
    }
    timer_stop(&w->timer);
    w->open = false;
    if (!w->gone) {
        cb.on_end(arg, code, reason, message);
    }
}

static void finish_by_peer(struct ws_client *w)
{
    int code = ws_frames_peer_code(w->frames);
    finish(w, code, ws_frames_peer_reason(w->frames),
           code == WS_ABNORMAL ? "the connection was cut off" : NULL);
}

static int flush(struct ws_client *w)
{
    int rc = w->out.n != 0 ? http_client_write(w->call, buf_str(&w->out)) : 0;
    buf_clear(&w->out);
    return rc;
}

static void on_timer(void *arg)
{
    struct ws_client *w = arg;
    if (!w->open) {
        finish(w, WS_ABNORMAL, STR(""),
               w->closing ? "the server did not answer the close" : "no answer to the handshake");
    } else if (w->pinged) {
        finish(w, WS_ABNORMAL, STR(""), "the server has been silent for too long");
    } else {
        w->pinged = true;
        ws_frames_ping(w->frames);
        (void)flush(w); // also when too much waits to be sent already: the peer is silent then, too
        timer_start(&w->timer, SILENCE_MS);
    }
}

// ---- the handshake ------------------------------------------------------------------------------

static void on_ready(struct http_call *call, void *arg)
{
    struct ws_client *w = arg;
    if (http_client_write(call, buf_str(&w->head)) < 0) {
        finish(w, WS_ABNORMAL, STR(""), "the handshake cannot be sent");
    }
}

static bool is_accepted(const struct ws_client *w)
{
    char want[WSKEY_TEXT];
    wskey_accept(str_of(w->key), want);
    return w->parser.status == 101 && str_caseeqz(http1_get(&w->parser, "upgrade"), "websocket") &&
           str_eqz(http1_get(&w->parser, "sec-websocket-accept"), want);
}

static void on_frames_message(void *arg, struct str bytes, bool binary)
{
    struct ws_client *w = arg;
    if (!w->gone && !w->closing) {
        w->cb.on_message(w->arg, bytes, binary);
    }
}

/// Read the head of the answer. True: the rest of `bytes` are frames.
static bool shake(struct ws_client *w, struct str *bytes)
{
    struct err e = {0};
    char why[sizeof e.msg + 64];
    if (w->closing) {
        return false; // closed before it was open: the timer ends it
    }
    if (http1_feed(&w->parser, bytes, &e) < 0) {
        snprintf(why, sizeof why, "the answer to the handshake is not HTTP: %s", e.msg);
        finish(w, WS_ABNORMAL, STR(""), why);
        return false;
    }
    if (w->parser.state == HTTP1_HEAD) {
        return false;
    }
    if (!is_accepted(w)) {
        snprintf(why, sizeof why, "the server refused the WebSocket with status %d",
                 w->parser.status);
        finish(w, WS_ABNORMAL, STR(""), why);
        return false;
    }
    w->shaken = w->open = true;
    w->frames = ws_frames_new(true, MESSAGE_MAX, &w->out, on_frames_message, w);
    timer_start(&w->timer, SILENCE_MS);
    w->cb.on_open(w->arg);
    return !w->gone;
}

static void on_body(struct http_call *call, struct str bytes, void *arg)
{
    struct ws_client *w = arg;
    (void)call;
    w->busy = true;
    if ((w->shaken || shake(w, &bytes)) && w->call != NULL) {
        w->pinged = false;
        if (!w->closing) {
            timer_start(&w->timer, SILENCE_MS);
        }
        int rc = ws_frames_feed(w->frames, bytes);
        if (!w->gone && w->call != NULL) {
            (void)flush(w); // on_done() reports a broken connection
            if (rc < 0) {
                finish(w, WS_ABNORMAL, STR(""), "the server broke the WebSocket protocol");
            } else if (ws_frames_done(w->frames)) {
                finish_by_peer(w);
            }
        }
    }
    w->busy = false;
    if (w->gone) {
        free_now(w);
    }
}

static void on_done(struct http_call *call, int rc, const struct http_reply *reply,
                    const struct err *e, void *arg)
{
    struct ws_client *w = arg;
    (void)call;
    (void)reply;
    w->call = NULL; // freed when this returns
    w->busy = true;
    if (rc < 0) {
        finish(w, WS_ABNORMAL, STR(""), e->msg);
    } else if (w->frames != NULL) {
        finish_by_peer(w);
    } else {
        finish(w, WS_ABNORMAL, STR(""), "the server closed the connection during the handshake");
    }
    w->busy = false;
    if (w->gone) {
        free_now(w);
    }
}

// ---- beginning ------------------------------------------------------------------------------------

static void make_key(char out[KEY_TEXT])
{
    uint8_t bytes[16];
    struct buf text = {.max = KEY_TEXT};
    random_bytes(bytes, sizeof bytes);
    base64_encode(&text, (struct str){(const char *)bytes, sizeof bytes});
    snprintf(out, KEY_TEXT, "%s", buf_z(&text));
    buf_fini(&text);
}

/// Write the handshake and give the URL to connect to; NULL, and `e`. The caller frees it.
static char *make_head(struct ws_client *w, const struct ws_client_request *q, struct err *e)
{
    struct str url = str_of(q->url);
    bool tls = str_starts(url, "wss://");
    if (!tls && !str_starts(url, "ws://")) {
        err_set(e, ERR_INVALID, "the URL of a WebSocket begins with wss:// or ws://");
        return NULL;
    }
    struct str rest = str_from(url, tls ? 6 : 5);
    size_t n = 0;
    while (n < rest.n && strchr("/?#", rest.p[n]) == NULL) {
        n++;
    }
    struct str host = {rest.p, n}, path = str_from(rest, n);
    path = str_cut(&path, '#');
    bool plain = host.n != 0 && str_index(host, '@') < 0;
    for (size_t i = 0; i < rest.n; i++) {
        plain = plain && rest.p[i] > ' ' && rest.p[i] != 0x7f;
    }
    if (!plain) {
        err_set(e, ERR_INVALID, "the URL of a WebSocket is malformed");
        return NULL;
    }
    buf_addf(&w->head, "GET %s" STR_FMT " HTTP/1.1\r\nHost: " STR_FMT "\r\n",
             path.n == 0 || path.p[0] != '/' ? "/" : "", STR_ARG(path), STR_ARG(host));
    buf_addf(&w->head,
             "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
             "Sec-WebSocket-Version: 13\r\n",
             w->key);
    for (size_t i = 0; i < q->n_headers; i++) {
        buf_addf(&w->head, STR_FMT ": " STR_FMT "\r\n", STR_ARG(q->headers[i].name),
                 STR_ARG(q->headers[i].value));
    }
    buf_addz(&w->head, "\r\n");
    return xasprintf("%s://" STR_FMT "/", tls ? "https" : "http", STR_ARG(host));
}

int ws_client_open(struct ws_client **out, struct http_client *c, struct loop *l,
                   const struct ws_client_request *q, const struct ws_client_cb *cb, void *arg,
                   struct err *e)
{
    static const struct http_cb callbacks = {
        .on_ready = on_ready, .on_body = on_body, .on_done = on_done};
    struct ws_client *w = xcalloc(1, sizeof *w);
    *w = (struct ws_client){.cb = *cb, .arg = arg};
    *out = NULL;
    buf_init(&w->head, 64 * 1024);
    buf_init(&w->out, SIZE_MAX);
    http1_init(&w->parser, HTTP1_RESPONSE, NULL, NULL, NULL);
    timer_init(&w->timer, l, on_timer, w);
    make_key(w->key);
    char *url = make_head(w, q, e);
    struct http_request tunnel = {.url = url,
                                  .headers = q->headers, // checked there
                                  .n_headers = q->n_headers,
                                  .ca_file = q->ca_file,
                                  .tunnel = true};
    int rc = url == NULL ? ERR_INVALID : 0;
    if (rc == 0 && !buf_ok(&w->head)) {
        rc = err_set(e, ERR_TOO_LARGE, "the headers are too large");
    }
    rc = rc == 0 ? http_client_send(&w->call, c, &tunnel, &callbacks, w, e) : rc;
    free(url);
    if (rc < 0) {
        free_now(w);
        return rc;
    }
    timer_start(&w->timer, HANDSHAKE_MS);
    *out = w;
    return 0;
}

int ws_client_send(struct ws_client *w, struct str bytes, bool binary)
{
    assert(!w->gone && (!w->open || w->frames != NULL));
    if (!w->open || w->closing) {
        return UV_ENOTCONN;
    }
    ws_frames_send(w->frames, bytes, binary);
    return flush(w);
}

void ws_client_close(struct ws_client *w, int code, struct str reason)
{
    assert(!w->gone);
    if (w->call == NULL || w->closing) {
        return;
    }
    w->closing = true;
    w->open = false;
    if (w->frames != NULL) {
        ws_frames_close(w->frames, code, reason);
        (void)flush(w);
    }
    timer_start(&w->timer, w->frames != NULL ? CLOSE_MS : 0);
}
