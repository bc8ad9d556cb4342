// The MCP server's life.
//
// A hub that no MCP client uses pays one small struct for it: lists are made on request, events are read while
// there is a session or a listener, and the timer that ends idle sessions runs while there are sessions.

#include "mcpserver/mcpserver.h"

#include "base/random.h"
#include "event/event.h"
#include "mcpserver/mcp_int.h"

static void on_gone(void *server, struct mount_call *m)
{
    struct mcp_link *link = mount_data(m);
    (void)server;
    if (link == NULL) {
        return;
    }
    if (link->kind == MCP_LINK_ENTERING) {
        mcp_view__gone(link);
    } else if (link->kind == MCP_LINK_POST) {
        mcp_post__gone(container_of(link, struct mcp_post, link));
    } else {
        container_of(link, struct mcp_stream, link)->m = NULL;
    }
}

static void on_sweep(void *arg)
{
    struct mcpserver *s = arg;
    uint64_t now = loop_now(s->o.loop);
    for (struct mcp_session *x = s->sessions, *next; x != NULL; x = next) {
        next = x->next;
        bool read = x->own.m != NULL || x->n_posts != 0;
        for (const struct mcp_stream *st = x->streams; st != NULL; st = st->next) {
            read = read || st->m != NULL;
        }
        if (read) {
            x->used_ms = now;
        } else if (now - x->used_ms >= MCP_SESSION_MS) {
            mcp_session__free(x);
        }
    }
    if (s->sessions != NULL) {
        timer_start(&s->sweep, MCP_SWEEP_MS);
    }
}

struct mcpserver *mcpserver_open(const struct mcpserver_opts *o)
{
    struct mcpserver *s = xcalloc(1, sizeof *s);
    s->o = *o;
    s->mount = (struct server_mount){
        .path = "/mcp", .request = mcp_http__request, .gone = on_gone, .arg = s};
    map_init(&s->by_id);
    timer_init(&s->sweep, o->loop, on_sweep, s);
    mcp_view__open(s);
    random_bytes(s->key, sizeof s->key);
    return s;
}

const struct server_mount *mcpserver_mount(const struct mcpserver *s)
{
    return &s->mount;
}

void mcpserver_close(struct mcpserver *s)
{
    if (s == NULL) {
        return;
    }
    for (struct mcp_call *c = s->calls, *next; c != NULL; c = next) {
        next = c->next;
        mcp_call__cancel(c);
    }
    for (struct mcp_call *c = s->calls; c != NULL; c = c->next) {
        c->server = NULL; // an operation still has it; its answer frees it
    }
    while (s->sessions != NULL) {
        mcp_session__free(s->sessions);
    }
    event_reader_close(s->reader);
    timer_stop(&s->sweep);
    mcp_view__close(s);
    map_fini(&s->by_id);
    free(s);
}
