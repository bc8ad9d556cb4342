// One call: from the easy handle's bytes to the user's callbacks.
//
// curl calls us from inside its own functions, where no handle may be removed and no client closed.
// So what it brings is only kept here, and handed on from the loop's deferred queue:
//
//     curl ──> on_header ──> headers ──┐
//     curl ──> on_data ────> in ───────┼──> step() ──> on_head, on_body, on_done
//     curl ──> finished, timers ──> rc ┘      └──> curl continues, if `in` was full
//
// Redirects are followed here and not by curl, which would allow https to http after a first hop
// the other way, and would send an x-api-key to whatever host the answer names.
//
// Invariants:
//   - once `over`, rc and e do not change; once `gone`, the client is not touched.
//   - `in` holds at most IN_HIGH plus one piece of curl's (16 KiB) when the body is streamed.
//   - curl is told to wait (`stuck`) only while `in` is full or the user paused, and step() looks
//     after each of them changed.
//   - no byte of a redirect's answer reaches the user.

#include <assert.h>

#include "base/list.h"
#include "net/http_client_int.h"

enum {
    HEAD_MAX = 256 * 1024, // heads and trailers of all hops
    SKIP_MAX = 256 * 1024, // body of a redirect
    IN_HIGH = 64 * 1024,
    HOPS_MAX = 10,
};

static const struct {
    CURLcode code;
    int rc;
    const char *text;
} faults[] = {
    {CURLE_COULDNT_RESOLVE_HOST, UV_EAI_NONAME, "the name of the host has no address"},
    {CURLE_COULDNT_RESOLVE_PROXY, UV_EAI_NONAME, "the name of the proxy has no address"},
    {CURLE_OPERATION_TIMEDOUT, ERR_TIMEOUT, "no connection in time"},
    {CURLE_PEER_FAILED_VERIFICATION, ERR_DENIED, "the certificate is not trusted"},
    {CURLE_SSL_CACERT_BADFILE, ERR_INVALID,
     "the file of trusted certificates cannot be read (install ca-certificates)"},
    {CURLE_SSL_CONNECT_ERROR, UV_EPROTO, "TLS failed"},
    {CURLE_SSL_CIPHER, UV_EPROTO, "TLS failed"},
    {CURLE_HTTP2, UV_EPROTO, "the server broke HTTP/2"},
    {CURLE_HTTP2_STREAM, UV_EPROTO, "the server broke HTTP/2"},
    {CURLE_PARTIAL_FILE, UV_ECONNRESET, "the connection was cut off"},
    {CURLE_GOT_NOTHING, UV_ECONNRESET, "the connection was cut off"},
    {CURLE_RECV_ERROR, UV_ECONNRESET, "the connection was cut off"},
    {CURLE_SEND_ERROR, UV_ECONNRESET, "the connection was cut off"},
    {CURLE_UNSUPPORTED_PROTOCOL, ERR_PARSE, "the answer is not HTTP"},
    {CURLE_WEIRD_SERVER_REPLY, ERR_PARSE, "the answer is not HTTP"},
    {CURLE_BAD_CONTENT_ENCODING, ERR_PARSE, "the answer is not HTTP"},
};

static void step(void *arg);

static void kick(struct http_call *call)
{
    if (call->step == NULL) {
        call->step = loop_defer(call->client->loop, step, call);
    }
}

static void note_byte(struct http_call *call)
{
    call->active_ms = loop_now(call->client->loop);
}

// ---- the head --------------------------------------------------------------------------------

static void end_head(struct http_call *call)
{
    long status = 0;
    call->curl->easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 && status != 101) {
        return; // another head follows
    }
    call->head_done = true;
    call->reply.status = (int)status;
    call->reply.headers = call->headers.p;
    call->reply.n_headers = call->headers.n;
    bool moved = (status >= 301 && status <= 303) || status == 307 || status == 308;
    call->redirecting =
        call->q.follow_redirects && moved && http_reply_get(&call->reply, "location").n != 0;
    kick(call);
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
    struct http_call *call = arg;
    struct str line = {p, n};
    (void)size; // always 1
    note_byte(call);
    call->head_bytes += n;
    if (call->head_bytes > HEAD_MAX) {
        http_call__fail(call, ERR_TOO_LARGE, "the head of the answer is too large");
        return 0;
    }
    if (call->head_done) {
        return n; // a trailer
    }
    if (str_starts(line, "HTTP/")) {
        call->headers.n = 0;
    } else if (str_trim(line).n == 0) {
        end_head(call);
    } else {
        struct str value = line, name = str_cut(&value, ':');
        // skip a line without a colon or with an empty name, a folded one among them
        if (value.p != NULL && name.n != 0 && name.p[0] != ' ' && name.p[0] != '\t') {
            struct http_header h = {arena_str(&call->arena, name),
                                    arena_str(&call->arena, str_trim(value))};
            vec_push(&call->headers, h);
        }
    }
    return n;
}

// ---- the body --------------------------------------------------------------------------------

bool http_call__is_full(const struct http_call *call)
{
    return call->paused || (call->cb.on_body != NULL && call->in.n >= IN_HIGH);
}

static size_t on_data(char *p, size_t size, size_t n, void *arg)
{
    struct http_call *call = arg;
    (void)size; // always 1
    note_byte(call);
    uint64_t max = call->redirecting ? SKIP_MAX : call->q.max_body;
    if (n > max - call->body_bytes) {
        http_call__fail(call, ERR_TOO_LARGE, "the body of the answer is too large");
        return 0;
    }
    if (!call->redirecting && http_call__is_full(call)) {
        call->stuck = true;
        return CURL_WRITEFUNC_PAUSE; // the same bytes come again
    }
    call->body_bytes += n;
    if (!call->redirecting) {
        buf_add(&call->in, p, n);
        kick(call);
    }
    return n;
}

// ---- the hop ---------------------------------------------------------------------------------

static int open_hop(struct http_call *call, struct err *e)
{
    int rc = http_request__open(call, e);
    if (rc < 0) {
        return rc;
    }
    call->curl_says[0] = '\0';
    call->curl->easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    call->curl->easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->curl_says);
    call->curl->easy_setopt(call->easy, CURLOPT_HEADERFUNCTION, on_header);
    call->curl->easy_setopt(call->easy, CURLOPT_HEADERDATA, call);
    call->curl->easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, on_data);
    call->curl->easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    return http_client__start(call, e);
}

static void end(struct http_call *call, int rc)
{
    assert(!call->over && !call->gone);
    call->rc = rc;
    call->over = true;
    kick(call);
}

/// Go where the answer sends us, unless our rules forbid it.
static int follow(struct http_call *call, struct err *e)
{
    struct http_target next = {0}, *now = &call->target;
    char *url = NULL;
    call->curl->easy_getinfo(call->easy, CURLINFO_REDIRECT_URL, &url);
    if (url == NULL || http_request__target(call, &next, url, NULL) < 0) {
        return err_set(e, ERR_PARSE, "a redirect to something that is no http or https URL");
    }
    if (call->q.same_host && !str_caseeqz(str_of(now->host), next.host)) {
        call->redirecting = false;
        end(call, 0);
        return 0;
    }
    if (call->hops == HOPS_MAX) {
        return err_set(e, ERR_DENIED, "more than %d redirects", HOPS_MAX);
    }
    if (strcmp(now->scheme, "https") == 0 && strcmp(next.scheme, "http") == 0) {
        return err_set(e, ERR_DENIED, "a redirect from https to http is not followed");
    }
    // 303 asks for a GET; after 301 and 302 a POST becomes one as well, as browsers do
    int status = call->reply.status;
    bool post = strcmp(call->q.method, "POST") == 0, head = strcmp(call->q.method, "HEAD") == 0;
    if ((status == 303 && !head) || ((status == 301 || status == 302) && post)) {
        call->q.method = "GET";
        call->q.body = STR_NULL;
    }
    http_client__stop(call);
    bool same_origin = strcmp(now->scheme, next.scheme) == 0 && strcmp(now->port, next.port) == 0 &&
                       str_caseeqz(str_of(now->host), next.host);
    call->crossed = call->crossed || !same_origin;
    call->target = next;
    call->hops++;
    call->head_done = call->redirecting = false;
    call->reply = (struct http_reply){0};
    call->headers.n = 0;
    call->body_bytes = 0;
    call->uploaded = 0;
    return open_hop(call, e);
}

// ---- the end ---------------------------------------------------------------------------------

/// curl's message may quote the server: keep it printable.
static const char *detail(struct http_call *call, CURLcode code)
{
    for (char *p = call->curl_says; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~') {
            *p = '?';
        }
    }
    return call->curl_says[0] != '\0' ? call->curl_says : call->curl->easy_strerror(code);
}

static void fail_by_code(struct http_call *call, CURLcode code)
{
    char why[CURL_ERROR_SIZE + 64];
    size_t i = 0;
    while (i < ARRAY_LEN(faults) && faults[i].code != code) {
        i++;
    }
    if (code == CURLE_COULDNT_CONNECT) {
        long number = 0;
        call->curl->easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &number);
        int rc = number > 0 && number < 4096 ? -(int)number : UV_EHOSTUNREACH;
        snprintf(why, sizeof why, "cannot connect: %s", uv_strerror(rc));
        http_call__fail(call, rc, why);
    } else if (i < ARRAY_LEN(faults)) {
        snprintf(why, sizeof why, "%s (%s)", faults[i].text, detail(call, code));
        http_call__fail(call, faults[i].rc, why);
    } else {
        http_call__fail(call, UV_EIO, detail(call, code));
    }
}

/// Time is up: what waits for a paused user is dropped, or on_done would wait as well.
static void fail_timeout(struct http_call *call, const char *what, uint64_t ms)
{
    char why[80];
    if (!call->over) {
        buf_clear(&call->in);
        call->paused = false;
    }
    snprintf(why, sizeof why, "%s within %llu ms", what, (unsigned long long)ms);
    http_call__fail(call, ERR_TIMEOUT, why);
}

static void on_total(void *arg)
{
    struct http_call *call = arg;
    fail_timeout(call, "no complete answer", call->q.timeout_ms);
}

static void on_idle(void *arg)
{
    struct http_call *call = arg;
    curl_off_t uploaded = call->uploaded;
    if (call->easy != NULL) {
        call->curl->easy_getinfo(call->easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
    }
    if (uploaded != call->uploaded) {
        call->uploaded = uploaded;
        note_byte(call);
    }
    uint64_t quiet = loop_now(call->client->loop) - call->active_ms;
    if (quiet >= call->q.idle_ms) {
        fail_timeout(call, "no byte came or went", call->q.idle_ms);
    } else {
        timer_start(&call->idle, call->q.idle_ms - quiet);
    }
}

static void start_idle(struct http_call *call)
{
    note_byte(call);
    if (call->q.idle_ms != 0 && !call->over) {
        timer_start(&call->idle, call->q.idle_ms);
    }
}

// ---- to the user -----------------------------------------------------------------------------

static bool may_tell(const struct http_call *call)
{
    return !call->gone && !call->paused;
}

/// Whatever is under way for the call ends; only its memory is left.
static void leave(struct http_call *call)
{
    struct http_client *c = call->client;
    assert(!call->gone);
    http_client__stop(call);
    timer_stop(&call->total);
    timer_stop(&call->idle);
    if (call->step != NULL) {
        loop_cancel(c->loop, call->step);
    }
    list_remove(&c->calls, call);
    call->gone = true;
}

static void free_call(struct http_call *call)
{
    assert(call->gone && !call->busy && call->easy == NULL);
    arena_fini(&call->arena);
    vec_fini(&call->headers);
    buf_fini(&call->in);
    free(call);
}

static void step(void *arg)
{
    struct http_call *call = arg;
    call->step = NULL;
    if (call->over) {
        http_client__stop(call);
        timer_stop(&call->total);
        timer_stop(&call->idle);
    }
    if (call->connected && call->tunnel == NULL && !call->over) {
        struct err e = {0};
        if (http_tunnel__open(call, &e) < 0) {
            http_call__fail(call, e.code, e.msg);
        }
    }
    call->busy = true; // each callback may pause or cancel the call
    if (may_tell(call) && call->tunnel != NULL && !call->head_told) {
        call->head_told = true;
        call->cb.on_ready(call, call->arg);
    }
    if (may_tell(call) && call->head_done && !call->redirecting && !call->head_told) {
        call->head_told = true;
        if (call->cb.on_head != NULL) {
            call->cb.on_head(call, &call->reply, call->arg);
        }
    }
    if (may_tell(call) && call->cb.on_body != NULL && call->in.n != 0) {
        call->cb.on_body(call, buf_str(&call->in), call->arg);
        buf_clear(&call->in);
    }
    if (may_tell(call) && call->over) {
        struct http_reply reply = call->head_told ? call->reply : (struct http_reply){0};
        reply.body = call->rc == 0 ? buf_str(&call->in) : STR_NULL;
        call->cb.on_done(call, call->rc, &reply, &call->e, call->arg);
        if (!call->gone) {
            leave(call);
        }
    }
    call->busy = false;
    if (call->gone) {
        free_call(call);
    } else if (call->stuck && !http_call__is_full(call) && call->easy != NULL) {
        call->stuck = false;
        call->curl->easy_pause(call->easy, CURLPAUSE_CONT); // on_data may be called from in here
    } else if (call->tunnel != NULL && !call->over) {
        http_tunnel__resume(call);
    }
}

int http_call__open(struct http_call **out, struct http_client *c, const struct http_request *q,
                    const struct http_cb *cb, void *arg, struct err *e)
{
    struct http_call *call = xcalloc(1, sizeof *call);
    *call = (struct http_call){.client = c, .cb = *cb, .arg = arg, .curl = c->curl};
    list_add(&c->calls, call);
    buf_init(&call->in, SIZE_MAX); // on_data() keeps to max_body
    timer_init(&call->total, c->loop, on_total, call);
    timer_init(&call->idle, c->loop, on_idle, call);
    int rc = http_request__copy(call, q, e);
    if (rc == 0) {
        rc = open_hop(call, e);
    }
    if (rc < 0) {
        leave(call);
        free_call(call);
        return rc;
    }
    if (q->timeout_ms != 0) {
        timer_start(&call->total, q->timeout_ms);
    }
    start_idle(call);
    *out = call;
    return 0;
}

void http_call__finished(struct http_call *call, CURLcode code)
{
    struct err e = {0};
    if (call->over) {
        return;
    }
    if (code != CURLE_OK) {
        fail_by_code(call, code);
    } else if (call->q.tunnel) {
        call->connected = true;
        kick(call);
    } else if (!call->redirecting) {
        end(call, 0);
    } else if (follow(call, &e) < 0) {
        http_call__fail(call, e.code, e.msg);
    }
}

void http_call__fail(struct http_call *call, int code, const char *why)
{
    if (!call->over) {
        err_set(&call->e, code, "request to '%s' failed: %s", call->target.host, why);
        end(call, code);
    }
}

void http_call__take(struct http_call *call, struct str bytes)
{
    note_byte(call);
    buf_adds(&call->in, bytes);
    kick(call);
}

void http_call__end(struct http_call *call)
{
    end(call, 0);
}

struct str http_reply_get(const struct http_reply *reply, const char *name)
{
    for (size_t i = 0; i < reply->n_headers; i++) {
        if (str_caseeqz(reply->headers[i].name, name)) {
            return reply->headers[i].value;
        }
    }
    return STR_NULL;
}

void http_client_cancel(struct http_call *call)
{
    if (call->gone) {
        return; // twice inside one of its callbacks
    }
    leave(call);
    if (!call->busy) {
        free_call(call);
    }
}

void http_client_pause(struct http_call *call, bool paused)
{
    if (call->gone || call->paused == paused) {
        return;
    }
    call->paused = paused;
    if (paused) {
        timer_stop(&call->idle);
    } else {
        start_idle(call);
        kick(call);
    }
}
