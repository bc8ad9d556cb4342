// One POST: messages in, answers out.
//
//     one answer, nothing before it ──────> the body is that JSON
//     a batch ────────────────────────────> the body is an array, when all are there
//     a call tells or asks something first ─> the body becomes an event stream, and the answers follow in it
//
// With a session the stream is one of the session's and outlives the connection: the calls continue, and the client may
// come back for the rest. Without a session (the stateless era) a closed connection cancels the calls.

#include <assert.h>

#include "mcpserver/mcp_int.h"
#include "net/sse.h"

struct mcp_post *mcp_post__new(struct mcpserver *s, struct mcp_view *view,
                               struct mcp_session *session, struct mount_call *m)
{
    struct mcp_post *p = xcalloc(1, sizeof *p);
    p->link.kind = MCP_LINK_POST;
    p->server = s;
    p->session = session;
    p->view = view;
    view->refs++;
    p->m = m;
    buf_init(&p->answers, SIZE_MAX);
    mount_set_data(m, &p->link);
    if (session != NULL) {
        session->n_posts++;
    }
    return p;
}

static void send_frame(struct mcp_post *p, struct str message)
{
    struct buf frame = {.max = SIZE_MAX};
    if (p->stream != NULL) {
        mcp_stream__put(p->stream, message);
    } else if (p->m != NULL) {
        sse_write(&frame, STR_NULL, STR_NULL, message);
        mount_send(p->m, buf_str(&frame));
        buf_fini(&frame);
    }
}

/// All answers are there.
static void finish(struct mcp_post *p)
{
    struct mount_call *m = p->m;
    p->m = NULL;
    if (p->stream != NULL) {
        mcp_stream__complete(p->stream);
    } else if (m != NULL && p->streams) {
        mount_end(m);
    } else if (m != NULL && p->answers.n == 0) {
        mount_reply(m, 202, NULL, p->headers, STR_NULL);
    } else if (m != NULL) {
        if (p->batch) {
            buf_addc(&p->answers, ']');
        }
        mount_reply(m, p->batch ? 200 : p->status, "application/json", p->headers,
                    buf_str(&p->answers));
    }
    assert(p->open == 0 && p->view->refs != 0);
    if (p->session != NULL) {
        p->session->n_posts--;
    }
    p->view->refs--;
    buf_fini(&p->answers);
    arena_fini(&p->arena);
    free(p);
}

void mcp_post__answer(struct mcp_post *p, int status, struct str message)
{
    assert(p->open != 0);
    p->status = message.n != 0 ? status : p->status;
    if (message.n != 0 && p->streams) {
        send_frame(p, message);
    } else if (message.n != 0) {
        buf_addz(&p->answers, !p->batch ? "" : p->answers.n == 0 ? "[" : ",");
        buf_adds(&p->answers, message);
    }
    if (--p->open == 0) {
        finish(p);
    }
}

bool mcp_post__send(struct mcp_post *p, struct str message)
{
    if (!p->streams && (!p->takes_stream || p->m == NULL)) {
        return false;
    }
    if (!p->streams) {
        p->streams = true;
        if (p->session != NULL) {
            p->stream = mcp_session__stream(p->session);
            mcp_stream__attach(p->stream, p->m, 0);
            p->m = NULL; // the stream has it
        } else {
            mount_stream(p->m, "X-Accel-Buffering: no\r\n");
        }
    }
    send_frame(p, message);
    return true;
}

void mcp_post__gone(struct mcp_post *p)
{
    p->m = NULL;
    if (p->session != NULL) {
        return; // its calls continue; their answer is kept in the stream, if there is one
    }
    const struct mcpserver *s = p->server;
    for (size_t left = p->open; left != 0; left--) { // the last one frees the post
        struct mcp_call *c = s->calls;
        while (c->post != p) {
            c = c->next;
        }
        mcp_call__cancel(c);
    }
}
