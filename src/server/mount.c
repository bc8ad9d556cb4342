// A path that another part answers by itself (mount.h).
//
//     call__run ─> mount__run ─> request() ┄┄> mount_reply ──────────────> http.c continues
//                                          └┄> mount_stream ─ mount_send ... mount_end
//
// Until the answer begins the connection speaks HTTP and the call is there, so that headers can be read. A stream
// is another protocol on the connection. In both states the peer may leave at any time. gone() is called from the
// loop's queue, because the part's own mount_send() may be what notices it.
//
// Invariants:
//   - `call` is set until the answer begins, `conn` until the connection is gone.
//   - `leaving` is set exactly while gone() is queued.

#include "server/mount.h"

#include <assert.h>

#include "server/server_int.h"

struct mount_call {
    const struct server_mount *mount;
    struct server *server;
    struct conn *conn;
    struct call *call;
    void *data;
    struct loop_task *leaving;
    bool chunked;
};

static void mount_free(struct mount_call *m)
{
    if (m->leaving != NULL) {
        loop_cancel(m->server->loop, m->leaving);
    }
    free(m);
}

static void on_leave(void *arg)
{
    struct mount_call *m = arg;
    m->leaving = NULL;
    m->mount->gone(m->mount->arg, m);
    mount_free(m);
}

static void lose_peer(struct mount_call *m)
{
    m->conn = NULL;
    m->call = NULL;
    m->leaving = loop_defer(m->server->loop, on_leave, m);
}

// ---- a stream --------------------------------------------------------------------------------

static void on_drain(struct conn *c)
{
    (void)c;
}

static void on_deadline(struct conn *c)
{
    const struct mount_call *m = c->state;
    conn__show_life(c, m->chunked);
}

static void on_gone(struct conn *c)
{
    struct mount_call *m = c->state;
    c->state = NULL;
    if (m != NULL) {
        lose_peer(m);
    }
}

static void on_end(struct conn *c)
{
    const struct mount_call *m = c->state;
    conn__end_stream(c, m->chunked);
}

static const struct conn_proto stream = {
    .on_read = conn__ignore,
    .on_eof = conn__close,
    .on_drain = on_drain,
    .on_deadline = on_deadline,
    .on_gone = on_gone,
    .on_end = on_end,
};

// ---- inside server/ --------------------------------------------------------------------------

const struct server_mount *mount__find(const struct server *s, struct str path)
{
    for (size_t i = 0; i < s->n_mounts; i++) {
        if (str_eqz(path, s->mounts[i]->path)) {
            return s->mounts[i];
        }
    }
    return NULL;
}

void mount__run(struct conn *c, struct call *r)
{
    struct mount_call *m = xcalloc(1, sizeof *m);
    *m = (struct mount_call){
        .mount = r->asked.mount, .server = c->server, .conn = c, .call = r, .chunked = !r->old};
    r->mount = m;
    m->mount->request(m->mount->arg, m);
}

void mount__lost(struct call *r)
{
    struct mount_call *m = r->mount;
    r->mount = NULL;
    lose_peer(m);
}

// ---- public ----------------------------------------------------------------------------------

void server_mount(struct server *s, const struct server_mount *mount)
{
    assert(s->n_mounts < MOUNTS_MAX && s->conns == NULL);
    s->mounts[s->n_mounts++] = mount;
}

const char *mount_method(const struct mount_call *m)
{
    return m->conn != NULL ? http1_method_name(http__parser(m->conn)) : "";
}

struct str mount_body(const struct mount_call *m)
{
    return m->call != NULL ? buf_str(&m->call->body) : STR_NULL;
}

struct str mount_header(const struct mount_call *m, const char *name)
{
    return m->call != NULL ? http1_get(http__parser(m->conn), name) : STR_NULL;
}

void mount_set_data(struct mount_call *m, void *data)
{
    m->data = data;
}

void *mount_data(const struct mount_call *m)
{
    return m->data;
}

/// Begin the answer: the call is over for HTTP.
static struct conn *begin(struct mount_call *m, struct reply *reply)
{
    struct call *r = m->call;
    struct conn *c = m->conn;
    r->mount = NULL;
    m->call = NULL;
    reply->head_only = r->head_only;
    reply->origin = call__origin(r);
    http__reply(c, reply, !reply->streamed && r->keep);
    call__free(r);
    return c;
}

void mount_reply(struct mount_call *m, int status, const char *type, const char *headers,
                 struct str body)
{
    struct reply reply = {.status = status, .type = type, .body = body, .headers = headers};
    if (m->call != NULL) {
        begin(m, &reply);
    }
    mount_free(m);
}

void mount_stream(struct mount_call *m, const char *headers)
{
    struct reply reply = {
        .status = 200, .type = "text/event-stream", .headers = headers, .streamed = true};
    if (m->call == NULL) {
        return; // the peer is gone
    }
    assert(!m->call->head_only); // HEAD is not for streams
    struct conn *c = begin(m, &reply);
    conn__take(c, &stream, m);
    conn__flush(c);
    if (!c->closing) {
        conn__heartbeat(c);
    }
}

void mount_send(struct mount_call *m, struct str frames)
{
    struct conn *c = m->conn;
    if (c == NULL) {
        return;
    }
    assert(c->proto == &stream);
    if (c->out.n > MOUNT_UNREAD) {
        conn__close(c);
        return;
    }
    conn__send_body(c, frames, m->chunked);
}

void mount_end(struct mount_call *m)
{
    struct conn *c = m->conn;
    if (c != NULL) {
        c->state = NULL; // so that gone() is not called
        conn__end_stream(c, m->chunked);
    }
    mount_free(m);
}
