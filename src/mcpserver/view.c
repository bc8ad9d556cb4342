// What a client sees depends on where it works: the plugins of its project, once trusted, beside those of the user.
//
//     header Afloat-Project: DIR ──> a view of that directory, entered first ──> lists, calls, list changes of it
//     no such header ──────────────> the general view: what reaches all projects
//
// A view is entered like a session enters its directory, so its project's plugins are loaded, and left when no client has
// used it for a while: a client of the stateless era has nothing that would keep it open.

#include <assert.h>

#include "agent/agent.h"
#include "base/url.h"
#include "mcpserver/mcp_int.h"

enum { VIEWS_MAX = 64, KEEP_MS = 5 * 60 * 1000, PATH_MAX_BYTES = 4096 };

/// A request that waits until its directory is entered.
struct mcp_entering {
    struct mcp_link link;
    struct mcpserver *server; // NULL: it is closed
    struct mount_call *m;     // NULL: the peer is gone
    char *name;               // as the client wrote it
};

static void view_free(struct mcp_view *v)
{
    assert(v->refs == 0 && v->dir != NULL);
    mcp_lists__free(v);
    free(v->name);
    free(v->dir);
    free(v);
}

static struct mcp_view *find(const struct mcpserver *s, struct str name)
{
    for (struct mcp_view *v = s->views; v != NULL; v = v->next) {
        if (str_eqz(name, v->name)) {
            return v;
        }
    }
    return NULL;
}

static void on_due(void *arg)
{
    struct mcpserver *s = arg;
    uint64_t now = loop_now(s->o.loop);
    for (struct mcp_view **at = &s->views; *at != NULL;) {
        struct mcp_view *v = *at;
        if (v->refs == 0 && now - v->used_ms >= KEEP_MS) {
            *at = v->next;
            assert(s->n_views != 0);
            s->n_views--;
            agent_leave(s->o.agent, v->dir);
            view_free(v);
        } else {
            at = &v->next;
        }
    }
    if (s->views != NULL) {
        timer_start(&s->view_timer, KEEP_MS);
    }
}

/// %XX as in addresses; NULL: it is no absolute path.
static char *decode(struct str name)
{
    struct buf path = {.max = PATH_MAX_BYTES};
    url_decode(&path, name, false);
    bool good =
        buf_ok(&path) && path.n != 0 && path.p[0] == '/' && memchr(path.p, '\0', path.n) == NULL;
    char *out = good ? buf_take(&path, NULL) : NULL;
    buf_fini(&path);
    return out;
}

static void on_entered(void *arg, const char *real_dir)
{
    struct mcp_entering *e = arg;
    struct mcpserver *s = e->server;
    struct mount_call *m = e->m;
    if (s != NULL) {
        vec_drop(&s->entering, e);
    }
    if (s == NULL || real_dir == NULL) {
        if (m != NULL) {
            mount_set_data(m, NULL);
            mcp_http__refuse_rpc(m, 400, RPC_INVALID_REQUEST,
                                 "the header Afloat-Project names no directory that exists");
        }
    } else if (find(s, str_of(e->name)) != NULL) { // another request was faster
        agent_leave(s->o.agent, real_dir);
    } else {
        struct mcp_view *v = xcalloc(1, sizeof *v);
        *v = (struct mcp_view){.name = xstrdup(e->name), .dir = xstrdup(real_dir)};
        v->used_ms = loop_now(s->o.loop);
        v->next = s->views;
        s->views = v;
        s->n_views++;
        mcp_notify__begin(s, v);
        timer_start(&s->view_timer, KEEP_MS);
    }
    free(e->name);
    free(e);
    if (s != NULL && real_dir != NULL && m != NULL) {
        mount_set_data(m, NULL);
        mcp_http__request(s, m);
    }
}

struct mcp_view *mcp_view__of(struct mcpserver *s, struct mount_call *m)
{
    struct str name = mount_header(m, "afloat-project");
    struct mcp_view *v = name.n != 0 ? find(s, name) : &s->all;
    if (v != NULL) {
        v->used_ms = loop_now(s->o.loop);
        return v;
    }
    char *dir = s->n_views < VIEWS_MAX ? decode(name) : NULL;
    if (dir == NULL) {
        mcp_http__refuse_rpc(m, 400, RPC_INVALID_REQUEST,
                             s->n_views < VIEWS_MAX
                                 ? "the header Afloat-Project must be an absolute path"
                                 : "clients work in too many projects");
        return NULL;
    }
    struct mcp_entering *e = xcalloc(1, sizeof *e);
    *e = (struct mcp_entering){
        .link.kind = MCP_LINK_ENTERING, .server = s, .m = m, .name = str_dup(name)};
    mount_set_data(m, &e->link);
    vec_push(&s->entering, e);
    agent_enter(s->o.agent, dir, on_entered, e);
    free(dir);
    return NULL;
}

void mcp_view__gone(struct mcp_link *link)
{
    container_of(link, struct mcp_entering, link)->m = NULL;
}

void mcp_view__open(struct mcpserver *s)
{
    timer_init(&s->view_timer, s->o.loop, on_due, s);
}

void mcp_view__close(struct mcpserver *s)
{
    timer_stop(&s->view_timer);
    vec_foreach (it, &s->entering) {
        (*it)->server = NULL;
    }
    vec_fini(&s->entering);
    while (s->views != NULL) { // the hub stops: agent_leave() is not needed
        struct mcp_view *v = s->views;
        s->views = v->next;
        view_free(v);
    }
    mcp_lists__free(&s->all);
}
