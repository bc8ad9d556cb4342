// Sessions of clients with a handshake, and their streams.
//
//     initialize ─> session ─┬─ own stream: what GET reads (list changes, log lines outside of calls)
//                            └─ a stream for each POST that is answered with more than one message
//
// Every event has an id "STREAM-NUMBER". The last ones of each stream are kept: a reader that comes back names the
// last id that it saw and continues after it. What no client has read yet is kept as well, so a list that changes
// between a client's handshake and its GET is not missed.
//
// Invariants:
//   - `written <= last`; events up to `written` were given to some connection.
//   - `kept` holds consecutive events, the newest of them `last`.

#include <assert.h>

#include "base/list.h"
#include "base/random.h"
#include "mcpserver/mcp_int.h"
#include "net/sse.h"

enum { RETRY_MS = 1000 };

const char *const mcp__versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", NULL};
const char *const mcp__levels[8] = {"debug", "info",     "notice", "warning",
                                    "error", "critical", "alert",  "emergency"};

int mcp__level(struct str name)
{
    return (int)str_lookup(name, mcp__levels, ARRAY_LEN(mcp__levels));
}

// ---- streams --------------------------------------------------------------------------------------

static void stream_init(struct mcp_stream *st, struct mcp_session *x, uint64_t id)
{
    *st = (struct mcp_stream){.link = {MCP_LINK_STREAM}, .session = x, .id = id};
}

static void drop_oldest(struct mcp_stream *st, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        st->kept_bytes -= st->kept.p[i].n;
        free(st->kept.p[i].frame);
    }
    if (n != 0) {
        memmove(st->kept.p, st->kept.p + n, (st->kept.n - n) * sizeof *st->kept.p);
        st->kept.n -= n;
    }
}

/// End the connection that reads it, if there is one.
static void hang_up(struct mcp_stream *st)
{
    struct mount_call *m = st->m;
    st->m = NULL;
    if (m != NULL) {
        mount_end(m);
    }
}

static void stream_fini(struct mcp_stream *st)
{
    hang_up(st);
    drop_oldest(st, st->kept.n);
    vec_fini(&st->kept);
}

/// Give what was not written yet to the reader, if there is one.
static void pump(struct mcp_stream *st)
{
    assert(st->written <= st->last);
    vec_foreach (ev, &st->kept) {
        if (st->m != NULL && ev->number > st->written) {
            mount_send(st->m, (struct str){ev->frame, ev->n});
            st->written = ev->number;
        }
    }
}

void mcp_stream__put(struct mcp_stream *st, struct str message)
{
    char id[48];
    struct buf frame = {.max = SIZE_MAX};
    assert(!st->complete);
    snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)st->id,
             (unsigned long long)++st->last);
    sse_write(&frame, str_of(id), STR_NULL, message);
    struct mcp_event ev = {.number = st->last};
    ev.frame = buf_take(&frame, &ev.n);
    vec_push(&st->kept, ev);
    st->kept_bytes += ev.n;
    pump(st);
    size_t n = 0, bytes = st->kept_bytes;
    while (st->kept.n - n > 1 && (st->kept.n - n > MCP_KEPT_EVENTS || bytes > MCP_KEPT_BYTES)) {
        bytes -= st->kept.p[n++].n;
    }
    drop_oldest(st, n);
}

void mcp_stream__put_once(struct mcp_stream *st, struct str message)
{
    vec_foreach (ev, &st->kept) {
        struct str frame = {ev->frame, ev->n};
        struct str data = str_from(frame, frame.n > message.n + 2 ? frame.n - message.n - 2 : 0);
        if (ev->number > st->written && str_eq(str_trim(data), message)) {
            return;
        }
    }
    mcp_stream__put(st, message);
}

/// A complete stream that was read to its end, or too many of them: forget the oldest.
static void forget_streams(struct mcp_session *x)
{
    size_t n = 0;
    for (struct mcp_stream **at = &x->streams; *at != NULL;) {
        struct mcp_stream *st = *at;
        if (st->complete && st->m == NULL && ++n > MCP_STREAMS) {
            *at = st->next;
            stream_fini(st);
            free(st);
        } else {
            at = &st->next;
        }
    }
}

void mcp_stream__complete(struct mcp_stream *st)
{
    st->complete = true;
    hang_up(st);
    forget_streams(st->session);
}

void mcp_stream__attach(struct mcp_stream *st, struct mount_call *m, uint64_t after)
{
    hang_up(st); // a second reader takes the place of the first
    if (after != UINT64_MAX) {
        st->written = MIN(after, st->last);
    }
    mount_set_data(m, &st->link);
    mount_stream(m, "X-Accel-Buffering: no\r\n");
    st->m = m;
    if (st->session->version ==
        0) { // the newest revision: an id at once, to come back whenever the connection is lost
        struct buf frame = {.max = 128};
        buf_addf(&frame, "id: %llu-%llu\nretry: %d\ndata: \n\n", (unsigned long long)st->id,
                 (unsigned long long)st->written, RETRY_MS);
        mount_send(m, buf_str(&frame));
        buf_fini(&frame);
    }
    pump(st);
    if (st->complete) {
        hang_up(st);
    }
}

// ---- sessions -------------------------------------------------------------------------------------

const struct json *mcp_session__client(struct arena *a, const struct json *info,
                                       const struct json *can)
{
    struct json *client = arena_calloc(a, 1, sizeof *client);
    static const struct json none = {.type = JSON_OBJ};
    client->type = JSON_OBJ;
    client->members = arena_calloc(a, 3, sizeof *client->members);
    for (size_t i = 0; i < 2; i++) {
        static const char *const names[] = {"name", "version"};
        const struct json *v = json_get(info, names[i]);
        if (v != NULL && v->type == JSON_STR) {
            client->members[client->n++] =
                (struct json_member){str_of(names[i]), *json_clone(a, v)};
        }
    }
    client->members[client->n++] =
        (struct json_member){STR("capabilities"), *json_clone(a, can != NULL ? can : &none)};
    return client;
}

/// Make room: end the session that was not used for the longest time and has no reader. False: all have one.
static bool make_room(struct mcpserver *s)
{
    struct mcp_session *oldest = NULL;
    if (s->n_sessions < MCP_SESSIONS) {
        return true;
    }
    for (struct mcp_session *x = s->sessions; x != NULL; x = x->next) {
        if (x->own.m == NULL && x->n_posts == 0 &&
            (oldest == NULL || x->used_ms < oldest->used_ms)) {
            oldest = x;
        }
    }
    if (oldest != NULL) {
        mcp_session__free(oldest);
    }
    return oldest != NULL;
}

struct mcp_session *mcp_session__new(struct mcpserver *s, struct mcp_view *view, size_t version,
                                     const struct json *params)
{
    if (!make_room(s)) {
        return NULL;
    }
    struct mcp_session *x = xcalloc(1, sizeof *x);
    x->server = s;
    x->view = view;
    view->refs++;
    random_hex(x->id, sizeof x->id);
    x->version = version;
    x->client = mcp_session__client(&x->arena, json_get(params, "clientInfo"),
                                    json_get(params, "capabilities"));
    x->level = mcp__level(STR("info"));
    stream_init(&x->own, x, 0);
    map_init(&x->subscribed);
    x->used_ms = loop_now(s->o.loop);
    list_add(&s->sessions, x);
    if (s->n_sessions++ == 0) {
        timer_start(&s->sweep, MCP_SWEEP_MS);
    }
    map_set(&s->by_id, str_of(x->id), x);
    mcp_notify__watch(s);
    return x;
}

struct mcp_session *mcp_session__find(struct mcpserver *s, struct str id)
{
    struct mcp_session *x = map_get(&s->by_id, id);
    if (x != NULL) {
        x->used_ms = loop_now(s->o.loop);
    }
    return x;
}

void mcp_session__free(struct mcp_session *x)
{
    struct mcpserver *s = x->server;
    for (struct mcp_call *c = s->calls, *next; c != NULL; c = next) {
        next = c->next;
        if (c->post != NULL && c->post->session == x) {
            mcp_call__cancel(c);
        }
    }
    assert(x->n_posts == 0); // their calls were all there was to wait for
    assert(s->n_sessions != 0 && x->view->refs != 0);
    map_remove(&s->by_id, str_of(x->id));
    list_remove(&s->sessions, x);
    s->n_sessions--;
    x->view->refs--;
    x->view->used_ms = loop_now(s->o.loop);
    stream_fini(&x->own);
    while (x->streams != NULL) {
        struct mcp_stream *st = x->streams;
        x->streams = st->next;
        stream_fini(st);
        free(st);
    }
    map_fini(&x->subscribed);
    arena_fini(&x->arena);
    free(x);
    mcp_notify__watch(s);
}

struct mcp_stream *mcp_session__stream(struct mcp_session *x)
{
    struct mcp_stream *st = xcalloc(1, sizeof *st);
    stream_init(st, x, ++x->last_stream);
    st->next = x->streams;
    x->streams = st;
    return st;
}

struct mcp_stream *mcp_session__resume(struct mcp_session *x, struct str last_event_id,
                                       uint64_t *after)
{
    uint64_t id;
    struct str stream = str_cut(&last_event_id, '-');
    if (!str_to_u64(stream, &id) || !str_to_u64(last_event_id, after)) {
        return NULL;
    }
    struct mcp_stream *st = id == 0 ? &x->own : x->streams;
    while (st != NULL && st->id != id) {
        st = st->next;
    }
    return st;
}
