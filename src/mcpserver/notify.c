// Lists that changed: from the hub's events to the clients that follow them.
//
//     tools.changed, prompts.changed, resources.changed, resource.updated ─┬─> own stream of each session
//                                                                         └─> subscriptions/listen that asks for it
//
// The events are those of the hub's one stream: MCP clients and readers of /events are told of the same changes,
// once for each. They are read only while there is a session or a listener. An event is passed on only if the list
// that clients see has changed: tools of MCP servers change `tools.changed` but not our list, and settings
// that allow other operations change our list without it.

#include <assert.h>

#include "base/list.h"
#include "event/event.h"
#include "mcpserver/mcp_int.h"
#include "net/sse.h"

static const char TYPES[] =
    "tools.changed,prompts.changed,resources.changed,resource.updated,config.changed";

/// What a client is told of each list.
static const struct {
    const char *event, *method, *filter;
    enum mcp_list list;
} changes[] = {
    {"tools.changed", "notifications/tools/list_changed", "toolsListChanged", MCP_TOOLS},
    {"prompts.changed", "notifications/prompts/list_changed", "promptsListChanged", MCP_PROMPTS},
    {"resources.changed", "notifications/resources/list_changed", "resourcesListChanged",
     MCP_RESOURCES},
};

/// Write a notification; `subscription` (the id of a listener's request) and `uri` may be NULL.
static void write_note(struct buf *out, const char *method, const struct json *subscription,
                       const struct json *uri)
{
    struct jw w = {.out = out};
    rpc_begin_request(&w, NULL, method);
    jw_obj(&w);
    if (uri != NULL) {
        jw_kvalue(&w, "uri", uri);
    }
    if (subscription != NULL) {
        jw_kobj(&w, "_meta");
        jw_kvalue(&w, MCP_META "subscriptionId", subscription);
        jw_end_obj(&w);
    }
    jw_end_obj(&w);
    rpc_end(&w);
}

static void tell_listener(struct mcp_listener *l, const char *method, const struct json *uri)
{
    struct buf out = {.max = SIZE_MAX};
    write_note(&out, method, l->call->id, uri);
    mcp_post__send(l->call->post, buf_str(&out));
    buf_fini(&out);
}

static void tell_list(struct mcpserver *s, const struct mcp_view *v, size_t which)
{
    struct buf out = {.max = 256};
    write_note(&out, changes[which].method, NULL, NULL);
    for (struct mcp_session *x = s->sessions; x != NULL; x = x->next) {
        if (x->view == v) {
            mcp_stream__put_once(&x->own, buf_str(&out));
        }
    }
    buf_fini(&out);
    for (struct mcp_listener *l = s->listeners; l != NULL; l = l->next) {
        if (l->call->view == v && (l->lists >> changes[which].list & 1) != 0) {
            tell_listener(l, changes[which].method, NULL);
        }
    }
}

static void tell_updated(struct mcpserver *s, const struct json *uri)
{
    static const char method[] = "notifications/resources/updated";
    struct buf out = {.max = SIZE_MAX};
    write_note(&out, method, NULL, uri);
    for (struct mcp_session *x = s->sessions; x != NULL; x = x->next) {
        if (map_get(&x->subscribed, uri->s) != NULL) {
            mcp_stream__put_once(&x->own, buf_str(&out));
        }
    }
    buf_fini(&out);
    for (struct mcp_listener *l = s->listeners; l != NULL; l = l->next) {
        json_foreach_item (it, l->uris) {
            if (json_equal(it, uri)) {
                tell_listener(l, method, uri);
                break;
            }
        }
    }
}

/// Remember what clients see of a list now. True: it is another one than when they were told last.
static bool note_list(struct mcpserver *s, struct mcp_view *v, enum mcp_list which)
{
    uint64_t now = map_hash(mcp_lists__text(s, v, which));
    if (which == MCP_RESOURCES) {
        now = now * 3 + map_hash(mcp_lists__text(s, v, MCP_TEMPLATES));
    }
    bool differs = now != v->told[which];
    v->told[which] = now;
    return differs;
}

void mcp_notify__begin(struct mcpserver *s, struct mcp_view *v)
{
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        note_list(s, v, changes[i].list);
    }
}

static struct mcp_view *next_view(struct mcpserver *s, const struct mcp_view *v)
{
    return v == &s->all ? s->views : v->next;
}

/// Events of one turn.
struct batch {
    struct mcpserver *server;
    size_t n[ARRAY_LEN(changes)]; // changes of each list
};

static int on_event(void *arg, const struct sse_event *ev)
{
    struct batch *b = arg;
    struct arena a = {0};
    struct json *data;
    bool any = str_eqz(ev->event, "stream.gap"); // whatever it was, it may have been a change
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        b->n[i] += any || str_eqz(ev->event, changes[i].event);
    }
    b->n[0] += str_eqz(ev->event, "config.changed");
    if (str_eqz(ev->event, "resource.updated")) {
        if (json_parse(&data, &a, ev->data, NULL, NULL) == 0) {
            const struct json *uri = json_get(data, "uri");
            if (uri != NULL && uri->type == JSON_STR) {
                tell_updated(b->server, uri);
            }
        }
        arena_fini(&a);
    }
    return 0;
}

static void on_wake(void *arg)
{
    struct mcpserver *s = arg;
    struct batch b = {.server = s};
    struct sse_parser p;
    struct str span;
    while ((span = event_reader_peek(s->reader, 64 * 1024)).n != 0) {
        char *frames = str_dup(span); // telling may emit events
        size_t n = span.n;
        event_reader_next(s->reader);
        sse_init(&p, SIZE_MAX, on_event, &b);
        int rc = sse_feed(&p, (struct str){frames, n}, NULL);
        assert(rc == 0); // the frames are ours
        (void)rc;
        sse_fini(&p);
        free(frames);
    }
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        for (struct mcp_view *v = &s->all; v != NULL; v = next_view(s, v)) {
            bool differs = b.n[i] != 0 && note_list(s, v, changes[i].list);
            for (size_t k = 0; differs && k < b.n[i]; k++) { // one for each commit
                tell_list(s, v, i);
            }
        }
    }
}

void mcp_notify__watch(struct mcpserver *s)
{
    bool wanted = s->sessions != NULL || s->listeners != NULL;
    if (wanted && s->reader == NULL) {
        struct event_filter f = {.types = str_of(TYPES)};
        s->reader = event_reader_open(s->o.events, UINT64_MAX, &f, on_wake, s);
        for (struct mcp_view *v = &s->all; v != NULL; v = next_view(s, v)) {
            mcp_notify__begin(s, v);
        }
    } else if (!wanted && s->reader != NULL) {
        event_reader_close(s->reader);
        s->reader = NULL;
    }
}

// ---- subscriptions/listen -----------------------------------------------------------------------------

/// The first message: what of the wishes is honoured.
static bool acknowledge(struct mcp_call *c, const struct mcp_listener *l)
{
    struct buf out = {.max = SIZE_MAX};
    struct jw w = {.out = &out};
    rpc_begin_request(&w, NULL, "notifications/subscriptions/acknowledged");
    jw_obj(&w);
    jw_kobj(&w, "notifications");
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        if ((l->lists >> changes[i].list & 1) != 0) {
            jw_kbool(&w, changes[i].filter, true);
        }
    }
    if (l->uris != NULL) {
        jw_kvalue(&w, "resourceSubscriptions", l->uris);
    }
    jw_end_obj(&w);
    jw_kobj(&w, "_meta");
    jw_kvalue(&w, MCP_META "subscriptionId", c->id);
    jw_end_obj(&w);
    jw_end_obj(&w);
    rpc_end(&w);
    bool sent = mcp_post__send(c->post, buf_str(&out));
    buf_fini(&out);
    return sent;
}

void mcp_notify__listen(struct mcp_call *c)
{
    struct mcpserver *s = c->server;
    const struct json *wanted = json_get(c->params, "notifications");
    const struct json *uris = json_get(wanted, "resourceSubscriptions");
    struct mcp_listener *l = arena_calloc(&c->arena, 1, sizeof *l);
    if (wanted == NULL || wanted->type != JSON_OBJ || s->n_listeners >= MCP_LISTENERS) {
        mcp_call__fail(c, RPC_INVALID_PARAMS, NULL,
                       s->n_listeners >= MCP_LISTENERS ? "too many subscriptions"
                                                       : "'notifications' is not an object");
        return;
    }
    l->call = c;
    l->uris = uris != NULL && uris->type == JSON_ARR ? uris : NULL;
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        if (json_bool(json_get(wanted, changes[i].filter), false)) {
            l->lists |= 1U << changes[i].list;
        }
    }
    if (!acknowledge(c, l)) {
        mcp_call__fail(c, RPC_INVALID_REQUEST, NULL, "the client must accept text/event-stream");
        return;
    }
    list_add(&s->listeners, l);
    s->n_listeners++;
    mcp_notify__watch(s);
}

void mcp_notify__forget(struct mcpserver *s, struct mcp_call *c)
{
    for (struct mcp_listener *l = s->listeners; l != NULL; l = l->next) {
        if (l->call == c) {
            assert(s->n_listeners != 0);
            list_remove(&s->listeners, l);
            s->n_listeners--;
            mcp_notify__watch(s);
            return;
        }
    }
}
