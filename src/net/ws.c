// WebSocket frames: wslay knows frames, masks, fragments and UTF-8; here it gets bytes and leaves them.
//
//     feed(bytes) ──> wslay ──> message()         send(), ping(), close() ──> wslay ──> out
//
// Invariant: everything that wslay has queued is in `out` when a function of ours returns.

#include "net/ws.h"

#include <assert.h>
#include <stdlib.h>
#include <wslay/wslay.h>

#include "base/random.h"

struct ws_frames {
    wslay_event_context_ptr ctx;
    struct buf *out;
    ws_message *cb;
    void *arg;
    struct str in; // what wslay has not read, during feed()
    int code;      // of the peer's close
    struct buf reason;
    bool broken;
};

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *to, size_t n, int flags, void *arg)
{
    struct ws_frames *f = arg;
    (void)flags;
    if (f->in.n == 0) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    n = MIN(n, f->in.n);
    memcpy(to, f->in.p, n);
    f->in = str_from(f->in, n);
    return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *bytes, size_t n, int flags,
                       void *arg)
{
    struct ws_frames *f = arg;
    (void)ctx;
    (void)flags;
    buf_add(f->out, bytes, n);
    return (ssize_t)n;
}

static int on_mask(wslay_event_context_ptr ctx, uint8_t *out, size_t n, void *arg)
{
    (void)ctx;
    (void)arg;
    random_bytes(out, n);
    return 0;
}

static void on_msg(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                   void *arg)
{
    struct ws_frames *f = arg;
    struct str bytes = {(const char *)m->msg, m->msg_length};
    (void)ctx;
    if (m->opcode == WSLAY_CONNECTION_CLOSE) {
        f->code = m->status_code != 0 ? m->status_code : WS_NORMAL;
        buf_clear(&f->reason);
        buf_adds(&f->reason, str_from(bytes, MIN(bytes.n, (size_t)2))); // after its code
    } else if (m->opcode == WSLAY_TEXT_FRAME || m->opcode == WSLAY_BINARY_FRAME) {
        f->cb(f->arg, bytes, m->opcode == WSLAY_BINARY_FRAME);
    }
}

static void flush(struct ws_frames *f)
{
    f->broken = wslay_event_send(f->ctx) != 0 || f->broken;
}

struct ws_frames *ws_frames_new(bool client, size_t max, struct buf *out, ws_message *cb, void *arg)
{
    static const struct wslay_event_callbacks callbacks = {.recv_callback = on_recv,
                                                           .send_callback = on_send,
                                                           .genmask_callback = on_mask,
                                                           .on_msg_recv_callback = on_msg};
    struct ws_frames *f = xcalloc(1, sizeof *f);
    assert(out != NULL && cb != NULL && max != 0);
    *f = (struct ws_frames){.out = out, .cb = cb, .arg = arg, .code = WS_ABNORMAL};
    buf_init(&f->reason, 256);
    int rc = client ? wslay_event_context_client_init(&f->ctx, &callbacks, f)
                    : wslay_event_context_server_init(&f->ctx, &callbacks, f);
    if (rc != 0) {
        abort(); // out of memory
    }
    wslay_event_config_set_max_recv_msg_length(f->ctx, max);
    return f;
}

void ws_frames_free(struct ws_frames *f)
{
    if (f != NULL) {
        wslay_event_context_free(f->ctx);
        buf_fini(&f->reason);
        free(f);
    }
}

int ws_frames_feed(struct ws_frames *f, struct str bytes)
{
    assert(f->in.n == 0); // not from inside a message
    f->in = bytes;
    int rc = wslay_event_recv(f->ctx);
    f->in = STR_NULL;
    flush(f);
    return rc != 0 ? ERR_PARSE : 0;
}

static void queue(struct ws_frames *f, int opcode, struct str bytes)
{
    struct wslay_event_msg m = {(uint8_t)opcode, (const uint8_t *)bytes.p, bytes.n};
    wslay_event_queue_msg(f->ctx, &m);
    flush(f);
}

void ws_frames_send(struct ws_frames *f, struct str bytes, bool binary)
{
    queue(f, binary ? WSLAY_BINARY_FRAME : WSLAY_TEXT_FRAME, bytes);
}

void ws_frames_ping(struct ws_frames *f)
{
    queue(f, WSLAY_PING, STR_NULL);
}

void ws_frames_close(struct ws_frames *f, int code, struct str reason)
{
    wslay_event_queue_close(f->ctx, (uint16_t)code, (const uint8_t *)reason.p,
                            MIN(reason.n, (size_t)120));
    flush(f);
}

bool ws_frames_done(const struct ws_frames *f)
{
    return f->broken || (!wslay_event_want_read(f->ctx) && !wslay_event_want_write(f->ctx));
}

int ws_frames_peer_code(const struct ws_frames *f)
{
    return f->code;
}

struct str ws_frames_peer_reason(const struct ws_frames *f)
{
    return buf_str(&f->reason);
}
