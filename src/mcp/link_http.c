// A server at an address: Streamable HTTP.
//
//     each message ── POST ──> JSON, or a stream of events, or 202
//     since the handshake, where there are sessions ── GET ──> what the server tells on its own
//     close ── DELETE of the session
//
// The headers are filled with secrets on the lane, once, before the first message; until then messages wait. What
// `afloat mcp login` stored is sent along, and renewed when it has ended: before the first message, or, when the server
// refuses it later, by beginning anew. A request that fails ends no other. A session that the server no longer
// knows, and a server that refuses connections, end the link: the owner begins anew.
//
// All servers share the connections of one client, so a server gets a few at a time: further messages wait, an answer's
// stream is closed when the answer has come, and a message that needs none is given up after a while.

#include <assert.h>

#include "base/log.h"
#include "base/redact.h"
#include "config/home.h"
#include "config/secrets.h"
#include "loop/timer.h"
#include "loop/work.h"
#include "mcp/link.h"
#include "net/http_client.h"
#include "net/sse.h"
#include "oauth/oauth.h"
#include "rpc/rpc.h"

enum {
    OWN_HEADERS = 8,
    RESUMES_MAX = 20,
    LISTEN_MS = 1000,
    LISTEN_MAX_MS = 60000,
    CONNECT_MS = 10000,
    TAKE_MS = 30000,    // for a message that needs no answer
    UNDER_WAY_MAX = 16, // POSTs
    POSTS_MAX = 1000,   // those that wait counted
    GOODBYE_MS = 2000,
};

struct link_http {
    struct mcp_link base;
    struct mcp_world *world;
    struct mcp_link_cb cb;
    void *arg;
    char *name, *url, *secrets;
    bool closed, preparing, prepared, ended, modern;
    bool has_own_login;             // `headers` has an Authorization
    struct mcp_pair *headers;       // heap; filled on the lane; the last may be that of the login
    struct oauth_token login;       // without `access`: none
    struct oauth_renewal *renewing; // another token is being asked for; NULL: none is
    size_t n_headers;
    struct err why;
    char *session;    // NULL: none
    char version[16]; // agreed on; "" before
    vec(struct post *) posts;
    struct timer again; // the GET's next try
    uint64_t pause_ms;
    char *heard; // the id of the last event of the GET before; NULL: none
};

/// A request under way, or one that waits for the headers.
struct post {
    struct link_http *l;
    struct http_call *call; // NULL: it waits, or is over
    bool over;              // its answer is being read, for the last time
    int64_t id;
    char *text; // NULL: the GET
    char *method, *about;
    bool events; // the answer is a stream
    char *last;  // the id of its last event before it was cut; NULL: it was not
    unsigned resumes;
    struct timer again; // until it is taken up again
    uint64_t since;     // when it was sent
    int status;
    struct sse_parser sse;
    struct buf body;
};

static struct link_http *of(struct mcp_link *l)
{
    return container_of(l, struct link_http, base);
}

static void post_free_now(void *arg)
{
    struct post *q = arg;
    sse_fini(&q->sse);
    buf_fini(&q->body);
    free(q->text);
    free(q->method);
    free(q->about);
    free(q->last);
    free(q);
}

/// Later: its own text may be what is being read.
static void post_free(struct post *q)
{
    timer_stop(&q->again);
    loop_defer(q->l->world->loop, post_free_now, q);
}

static void drop(struct post *q)
{
    struct link_http *l = q->l;
    vec_drop(&l->posts, q);
    post_free(q);
}

static void free_now(void *arg)
{
    struct link_http *l = arg;
    for (size_t i = 0; i < l->n_headers; i++) {
        char *value = (char *)(uintptr_t)l->headers[i].value;
        explicit_bzero(value, strlen(value));
        free(value);
        free((char *)(uintptr_t)l->headers[i].name);
    }
    free(l->headers);
    oauth_token_fini(&l->login);
    vec_fini(&l->posts);
    free(l->session);
    free(l->heard);
    free(l->name);
    free(l->url);
    free(l->secrets);
    free(l);
}

static void free_if_idle(struct link_http *l)
{
    if (l->closed && !l->preparing && l->renewing == NULL) {
        loop_defer(l->world->loop, free_now, l); // after its posts, and not while one is read
    }
}

static void end(struct link_http *l, const struct err *e)
{
    if (!l->ended && !l->closed) {
        l->ended = true;
        l->cb.on_end(l->arg, e);
    }
}

static void send_waiting(struct link_http *l);

// ---- answers --------------------------------------------------------------------------------

static int on_event(void *arg, const struct sse_event *ev)
{
    struct post *q = arg;
    struct link_http *l = q->l;
    if (l->closed || l->ended) {
        return UV_ECANCELED;
    }
    if (str_eqz(ev->event, "message") && ev->data.n != 0) {
        l->cb.on_text(l->arg, ev->data);
    }
    return l->closed ? UV_ECANCELED : 0;
}

static void on_head(struct http_call *call, const struct http_reply *reply, void *arg)
{
    struct post *q = arg;
    struct link_http *l = q->l;
    struct str type = http_reply_get(reply, "content-type");
    struct str session = http_reply_get(reply, "mcp-session-id");
    (void)call;
    q->status = reply->status;
    q->events = str_starts(type, "text/event-stream") && q->status / 100 == 2;
    if (session.n != 0 && session.n < 1024 && l->session == NULL) {
        l->session = str_dup(session);
    }
}

static void on_body(struct http_call *call, struct str bytes, void *arg)
{
    struct post *q = arg;
    struct link_http *l = q->l;
    struct err e = {0};
    (void)call;
    if (!q->events) {
        buf_adds(&q->body, bytes);
    }
    if (q->events ? sse_feed(&q->sse, bytes, &e) == ERR_TOO_LARGE : !buf_ok(&q->body)) {
        err_set(&e, ERR_TOO_LARGE, "it sent a message above %d MiB", MCP_LINE_MAX >> 20);
        end(l, &e);
    } else if (q->call != NULL && q->events && q->id != 0 && !l->closed && !l->ended &&
               !l->cb.is_open(l->arg, q->id)) { // the answer has come: nothing more is read
        http_client_cancel(q->call);
        q->call = NULL;
        drop(q);
        send_waiting(l);
    }
}

/// Does the body answer the request `id`?
static bool answers(struct str body, int64_t id)
{
    struct arena a = {0};
    struct rpc_packet packet;
    bool found = false;
    if (rpc_parse(&packet, &a, body, NULL) == 0) {
        for (size_t i = 0; i < packet.n && !found; i++) {
            const struct json *own = packet.messages[i].id;
            found = own != NULL && own->type == JSON_INT && own->i == id;
        }
    }
    arena_fini(&a);
    return found;
}

// ---- the login ------------------------------------------------------------------------------

/// A token on its way into the secrets.
struct saving {
    char *path, *name, *text;
};

static void save(void *arg) // on the lane
{
    struct saving *s = arg;
    struct err e = {0};
    if (secrets_set(s->path, s->name, str_of(s->text), &e) < 0) {
        log_warn(LOG_HUB, "secret=%s reason=%s", s->name, LOGQ(str_of(e.msg)).z);
    }
}

static void on_saved(void *arg)
{
    struct saving *s = arg;
    explicit_bzero(s->text, strlen(s->text));
    free(s->path);
    free(s->name);
    free(s->text);
    free(s);
}

static void renew(struct link_http *l, oauth_cb *done)
{
    l->renewing = oauth_renew(l->world->http, l->world->loop, &l->login, done, l);
    vec_push(&l->world->renewing, &l->base);
}

static void stop_renewing(struct link_http *l)
{
    struct mcp_world *w = l->world;
    l->renewing = NULL;
    vec_drop(&w->renewing, &l->base);
}

void mcp_link_http_stop(struct mcp_world *w)
{
    while (w->renewing.n != 0) {
        struct link_http *l = of(w->renewing.p[0]);
        oauth_renew_cancel(l->renewing);
        stop_renewing(l);
        free_if_idle(l);
    }
    vec_fini(&w->renewing);
}

/// The new token, NULL when there is none, has come. False: the link was closed meanwhile, and may be freed.
static bool end_renewing(struct link_http *l, const struct oauth_token *t)
{
    stop_renewing(l);
    if (t != NULL && l->world->lane != NULL) {
        struct saving *s = xcalloc(1, sizeof *s);
        struct buf text = {.max = SIZE_MAX};
        oauth_token_write(t, &text);
        *s = (struct saving){.path = xstrdup(l->secrets),
                             .name = oauth_secret_name(l->name),
                             .text = buf_take(&text, NULL)};
        work_submit(l->world->lane, 0, save, on_saved, s);
    }
    if (l->closed) {
        free_if_idle(l);
        return false;
    }
    return true;
}

static void on_renewed_late(void *arg, const struct oauth_token *t, const struct err *e)
{
    struct link_http *l = arg;
    struct err again;
    if (!end_renewing(l, t)) {
        return;
    }
    if (t != NULL) {
        err_set(&again, UV_EPIPE, "its login was renewed");
        end(l, &again);
    } else {
        log_warn(LOG_HUB, "mcp=%s login=lost reason=%s", LOGQ(str_of(l->name)).z,
                 LOGQ(str_of(e->msg)).z);
    }
}

static void listen_on(struct link_http *l);

static void on_listen_again(void *arg)
{
    listen_on(arg);
}

/// The stream of what the server tells on its own has ended.
static void on_unheard(struct link_http *l, const struct post *q, int rc)
{
    if (!l->ended && (rc < 0 || q->status == 200)) { // 405: it has none
        free(l->heard);
        l->heard = str_dup(buf_str(&q->sse.id));
        bool lasted = loop_now(l->world->loop) - q->since > LISTEN_MAX_MS;
        l->pause_ms = lasted ? (uint64_t)LISTEN_MS : MIN(l->pause_ms * 2, (uint64_t)LISTEN_MAX_MS);
        timer_start(&l->again, MIN(MAX(l->pause_ms, q->sse.retry_ms), (uint64_t)LISTEN_MAX_MS));
    }
}

static void on_resume(void *arg)
{
    const struct post *q = arg;
    send_waiting(q->l);
}

/// A stream that ended before the answer, and whose events have ids, is taken up again after the last one.
static bool resume(struct link_http *l, struct post *q)
{
    if (q->id == 0 || l->modern || l->closed || l->ended || !q->events || q->sse.id.n == 0 ||
        q->resumes >= RESUMES_MAX || !l->cb.is_open(l->arg, q->id)) {
        return false;
    }
    q->resumes++;
    q->events = q->over = false;
    uint64_t retry_ms = q->sse.retry_ms;
    free(q->last);
    q->last = str_dup(buf_str(&q->sse.id));
    sse_fini(&q->sse); // the next stream is read by a fresh parser
    sse_init(&q->sse, MCP_LINE_MAX, on_event, q);
    q->sse.retry_ms = retry_ms;
    timer_init(&q->again, l->world->loop, on_resume, q);
    timer_start(&q->again, q->sse.retry_ms != 0 ? MIN(q->sse.retry_ms, (uint64_t)LISTEN_MAX_MS)
                                                : (uint64_t)LISTEN_MS);
    return true;
}

/// The answer to `q` is complete.
static void judge(struct link_http *l, struct post *q)
{
    struct err e = {0};
    bool good = q->status / 100 == 2, answered = answers(buf_str(&q->body), q->id);
    bool unknown =
        l->session != NULL && !l->modern && (q->status == 404 || (q->status == 400 && !answered));
    if (good || answered) {
        if (q->body.n != 0) {
            l->cb.on_text(l->arg, buf_str(&q->body));
        }
        err_set(&e, UV_EPROTO, "it ended the stream without an answer");
    } else if (q->status == 401 || q->status == 403) {
        err_set(&e, ERR_DENIED, "it wants you to log in (HTTP %d): run 'afloat mcp login %s'",
                q->status, l->name);
    } else {
        err_set(&e, UV_EPROTO, "it answered with HTTP %d", q->status);
    }
    if (!l->closed && q->id != 0) {
        l->cb.on_lost(l->arg, q->id, &e); // unless it was answered
    }
    if (q->status == 401 && l->login.refresh != NULL && l->renewing == NULL && !l->closed &&
        !l->ended) { // it refuses the token: get another one, and begin anew with it
        renew(l, on_renewed_late);
    }
    if (unknown && !good) {
        err_set(&e, UV_EPIPE, "it no longer knows our session");
        end(l, &e);
    }
}

static void on_done(struct http_call *call, int rc, const struct http_reply *reply,
                    const struct err *fault, void *arg)
{
    struct post *q = arg;
    struct link_http *l = q->l;
    (void)call;
    (void)reply;
    q->call = NULL;
    q->over = true;
    if (q->text == NULL) {
        on_unheard(l, q, rc);
    } else if (resume(l, q)) {
        return;
    } else if (rc == 0) {
        judge(l, q);
    } else {
        if (q->id != 0) {
            l->cb.on_lost(l->arg, q->id, fault);
        }
        if (!l->closed && rc == UV_ECONNREFUSED) {
            end(l, fault);
        }
    }
    if (!l->closed) { // else it was dropped
        drop(q);
        send_waiting(l);
    }
}

// ---- requests -------------------------------------------------------------------------------

static size_t fill_headers(const struct link_http *l, const struct post *q, struct http_header *h)
{
    size_t n = 0;
    const char *last = q->text == NULL ? l->heard : q->last;
    if (last != NULL && last[0] != '\0') {
        h[n++] = (struct http_header){STR("Last-Event-ID"), str_of(last)};
    }
    h[n++] = (struct http_header){STR("Accept"), q->text != NULL && q->last == NULL
                                                     ? STR("application/json, text/event-stream")
                                                     : STR("text/event-stream")};
    if (q->text != NULL && q->last == NULL) {
        h[n++] = (struct http_header){STR("Content-Type"), STR("application/json")};
    }
    if (l->session != NULL && !l->modern) {
        h[n++] = (struct http_header){STR("Mcp-Session-Id"), str_of(l->session)};
    }
    if (l->version[0] != '\0' || strcmp(q->method, "server/discover") == 0) {
        h[n++] =
            (struct http_header){STR("MCP-Protocol-Version"),
                                 l->version[0] != '\0' ? str_of(l->version) : STR("2026-07-28")};
    }
    if ((l->modern || l->version[0] == '\0') && q->method[0] != '\0') {
        h[n++] = (struct http_header){STR("Mcp-Method"), str_of(q->method)};
    }
    if (l->modern && q->about[0] != '\0') {
        h[n++] = (struct http_header){STR("Mcp-Name"), str_of(q->about)};
    }
    assert(n <= OWN_HEADERS);
    for (size_t i = 0; i < l->n_headers; i++) {
        h[n++] = (struct http_header){str_of(l->headers[i].name), str_of(l->headers[i].value)};
    }
    return n;
}

static void start(struct post *q)
{
    static const struct http_cb cb = {.on_head = on_head, .on_body = on_body, .on_done = on_done};
    struct link_http *l = q->l;
    struct http_header *h = xcalloc(OWN_HEADERS + l->n_headers, sizeof *h);
    bool posts = q->text != NULL && q->last == NULL;
    struct http_request r = {.method = posts ? "POST" : "GET",
                             .url = l->url,
                             .headers = h,
                             .n_headers = fill_headers(l, q, h),
                             .body = posts ? str_of(q->text) : STR_NULL,
                             .timeout_ms = posts && q->id == 0 ? TAKE_MS : 0,
                             .connect_ms = CONNECT_MS};
    struct err e = {0};
    q->since = loop_now(l->world->loop);
    int rc = http_client_send(&q->call, l->world->http, &r, &cb, q, &e);
    free(h);
    if (rc < 0) {
        int64_t id = q->id;
        drop(q);
        if (id != 0) {
            l->cb.on_lost(l->arg, id, &e);
        }
    }
}

/// Send what waits, as far as there is room.
static void send_waiting(struct link_http *l)
{
    size_t under_way = 0;
    vec_foreach (it, &l->posts) {
        under_way += (*it)->call != NULL && (*it)->text != NULL;
    }
    for (size_t i = 0; l->prepared && !l->closed && !l->ended && i < l->posts.n;) {
        struct post *q = l->posts.p[i];
        bool room = q->text == NULL || under_way < UNDER_WAY_MAX;
        if (q->call == NULL && !q->over && !timer_running(&q->again) && room) {
            under_way += q->text != NULL;
            start(q);
        }
        i += i < l->posts.n && l->posts.p[i] == q; // else it failed and was dropped
    }
}

static void add(struct link_http *l, struct str text, const struct mcp_about *about)
{
    struct post *q = xcalloc(1, sizeof *q);
    struct err e;
    q->l = l;
    q->id = about->id;
    q->text = text.p != NULL ? str_dup(text) : NULL;
    q->method = xstrdup(about->method != NULL ? about->method : "");
    q->about = str_dup(about->name);
    for (char *p = q->about; *p != '\0'; p++) { // a header has one line
        *p = (unsigned char)*p < ' ' || *p == 0x7F ? '?' : *p;
    }
    buf_init(&q->body, MCP_LINE_MAX);
    sse_init(&q->sse, MCP_LINE_MAX, on_event, q);
    vec_push(&l->posts, q);
    if (l->posts.n > POSTS_MAX) {
        err_set(&e, UV_ENOBUFS, "more than %d messages wait to be sent to it", POSTS_MAX);
        end(l, &e);
    } else {
        send_waiting(l);
    }
}

static void listen_on(struct link_http *l)
{
    add(l, STR_NULL, &(struct mcp_about){0});
}

// ---- before the first -----------------------------------------------------------------------

static void prepare(void *arg) // on the lane
{
    struct link_http *l = arg;
    for (size_t i = 0; l->why.code == 0 && i < l->n_headers; i++) {
        char *value = NULL;
        l->why.code = mcp_fill_secrets(l->secrets, l->headers[i].value, &value, &l->why);
        if (value != NULL) {
            free((char *)(uintptr_t)l->headers[i].value);
            l->headers[i].value = value;
        }
    }
    char *name = oauth_secret_name(l->name), *kept = NULL;
    if (l->why.code == 0 && !l->has_own_login && secrets_get(l->secrets, name, &kept, NULL) == 0) {
        if (oauth_token_read(&l->login, str_of(kept), NULL) < 0 ||
            !oauth_is_for(l->login.resource, l->url)) { // the address was another one then
            oauth_token_fini(&l->login);
        }
        explicit_bzero(kept, strlen(kept));
    }
    free(kept);
    free(name);
}

/// Everything is there: what waited is sent.
static void begin(struct link_http *l)
{
    l->prepared = true;
    if (l->login.access != NULL) {
        redact_add(str_of(l->name), str_of(l->login.access));
        redact_add(str_of(l->name), str_of(l->login.refresh));
        l->headers[l->n_headers++] =
            (struct mcp_pair){xstrdup("Authorization"), xasprintf("Bearer %s", l->login.access)};
    }
    send_waiting(l);
}

static void on_renewed(void *arg, const struct oauth_token *t, const struct err *e)
{
    struct link_http *l = arg;
    struct buf text = {.max = SIZE_MAX};
    struct err why;
    if (!end_renewing(l, t)) {
        return;
    }
    if (t == NULL) {
        err_set(&why, ERR_DENIED, "%.140s: run 'afloat mcp login %.60s'", e->msg, l->name);
        end(l, &why);
    } else {
        oauth_token_write(t, &text);
        oauth_token_fini(&l->login);
        (void)!oauth_token_read(&l->login, buf_str(&text), NULL);
        explicit_bzero(text.p, text.n);
        begin(l);
    }
    buf_fini(&text);
}

static void on_prepared(void *arg)
{
    struct link_http *l = arg;
    bool late = l->login.expires_at != 0 && l->login.expires_at < loop_wall(l->world->loop) / 1000;
    l->preparing = false;
    if (l->closed) {
        free_if_idle(l);
    } else if (l->why.code != 0) {
        end(l, &l->why);
    } else if (late && l->login.refresh != NULL) {
        renew(l, on_renewed);
    } else {
        begin(l);
    }
}

// ---- the link -------------------------------------------------------------------------------

static void link_send(struct mcp_link *base, struct str text, const struct mcp_about *about)
{
    struct link_http *l = of(base);
    if (!l->ended) {
        add(l, text, about);
    }
}

static void link_forget(struct mcp_link *base, int64_t id)
{
    struct link_http *l = of(base);
    vec_foreach (it, &l->posts) {
        struct post *q = *it;
        if (q->id == id && !q->over) { // on_done() drops those
            if (q->call != NULL) {
                http_client_cancel(q->call);
                q->call = NULL;
            }
            drop(q);
            send_waiting(l);
            return;
        }
    }
}

static void link_agreed(struct mcp_link *base, const char *version, bool modern)
{
    struct link_http *l = of(base);
    snprintf(l->version, sizeof l->version, "%s", version);
    l->modern = modern;
    if (!modern) {
        listen_on(l);
    }
}

static void on_goodbye(struct http_call *call, int rc, const struct http_reply *reply,
                       const struct err *e, void *arg)
{
    (void)call;
    (void)rc;
    (void)reply;
    (void)e;
    (void)arg;
}

static void say_goodbye(struct link_http *l)
{
    static const struct http_cb cb = {.on_done = on_goodbye};
    struct post q = {.l = l, .method = (char[]){""}, .about = (char[]){""}};
    struct http_header *h = xcalloc(OWN_HEADERS + l->n_headers, sizeof *h);
    struct http_request r = {.method = "DELETE",
                             .url = l->url,
                             .headers = h,
                             .n_headers = fill_headers(l, &q, h),
                             .timeout_ms = GOODBYE_MS};
    struct http_call *call;
    (void)!http_client_send(&call, l->world->http, &r, &cb, NULL, NULL);
    free(h);
}

static void link_close(struct mcp_link *base)
{
    struct link_http *l = of(base);
    assert(!l->closed);
    l->closed = true;
    timer_stop(&l->again);
    if (l->session != NULL && !l->modern && l->world->http != NULL) {
        say_goodbye(l);
    }
    while (l->posts.n != 0) {
        struct post *q = vec_pop(&l->posts);
        if (q->call != NULL) {
            http_client_cancel(q->call);
        }
        post_free(q);
    }
    free_if_idle(l);
}

static const struct mcp_link_ops ops = {
    .send = link_send, .forget = link_forget, .agreed = link_agreed, .close = link_close};

struct mcp_link *mcp_link_http(struct mcp_world *w, const struct mcp_spec *s,
                               const struct mcp_link_cb *cb, void *arg)
{
    struct link_http *l = xcalloc(1, sizeof *l);
    assert(s->url != NULL);
    l->base.ops = &ops;
    l->world = w;
    l->cb = *cb;
    l->arg = arg;
    l->name = xstrdup(s->name);
    l->url = xstrdup(s->url);
    l->secrets = xstrdup(w->home->secrets);
    l->pause_ms = LISTEN_MS;
    l->headers = xcalloc(s->n_headers + 2, sizeof *l->headers);
    l->n_headers = s->n_headers;
    for (size_t i = 0; i < s->n_headers; i++) {
        l->headers[i] =
            (struct mcp_pair){xstrdup(s->headers[i].name), xstrdup(s->headers[i].value)};
        l->has_own_login |= str_caseeqz(str_of(s->headers[i].name), "authorization");
    }
    l->has_own_login |= s->project != NULL || s->session != NULL; // they get no login of the user's
    timer_init(&l->again, w->loop, on_listen_again, l);
    l->preparing = true;
    work_submit(w->lane, 0, prepare, on_prepared, l);
    return &l->base;
}
