// What is sent: a request is checked, copied, and turned into an easy handle of curl, once per hop.
//
// Everything a caller gives may come from a plugin or a model. curl passes header lines and methods
// on as they are, so a line break in them would be a second request: names and methods must be
// tokens, values free of control characters. Content-Length and Transfer-Encoding belong to us,
// because a body framed in two ways is read in two ways.
//
// Invariant: an easy handle speaks http and https only and verifies certificates and names; there is
// no option that changes this. It follows no redirects: http_call.c does, by our rules.

#include <sys/socket.h>

#include "net/address.h"
#include "net/http1.h"
#include "net/http_client_int.h"

enum { CONNECT_MS = 30 * 1000, COLLECT_MAX = 8 << 20 };

static const struct {
    CURLoption option;
    long value;
} fixed_options[] = {
    {CURLOPT_NOSIGNAL, 1},
    {CURLOPT_QUICK_EXIT, 1}, // do not wait for name servers when a call ends
    {CURLOPT_FOLLOWLOCATION, 0},
    {CURLOPT_SSL_VERIFYPEER, 1},
    {CURLOPT_SSL_VERIFYHOST, 2},
    {CURLOPT_PROXY_SSL_VERIFYPEER, 1},
    {CURLOPT_PROXY_SSL_VERIFYHOST, 2},
    {CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2},
    {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS},
    {CURLOPT_HTTP_CONTENT_DECODING, 0},
    {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1}, // of proxies
    {CURLOPT_TCP_KEEPALIVE, 1},
    {CURLOPT_MAXAGE_CONN, 60},
};

static int check_request(const struct http_request *q, struct err *e)
{
    if (!http1_is_token(str_of(q->method))) {
        return err_set(e, ERR_INVALID, "the method is empty or holds a forbidden character");
    }
    if (strcmp(q->method, "HEAD") == 0 && q->body.p != NULL) {
        return err_set(e, ERR_INVALID, "a HEAD request cannot have a body");
    }
    for (size_t i = 0; i < q->n_headers; i++) {
        struct str name = q->headers[i].name;
        if (!http1_is_token(name)) {
            return err_set(e, ERR_INVALID, "a header name is empty or holds a forbidden character");
        }
        if (!http1_is_value(q->headers[i].value)) {
            return err_set(e, ERR_INVALID,
                           "the value of header '" STR_FMT "' holds a control character",
                           STR_ARG(name));
        }
        if (str_caseeqz(name, "content-length") || str_caseeqz(name, "transfer-encoding")) {
            return err_set(e, ERR_INVALID,
                           "header '" STR_FMT "' is made from the body and cannot be set",
                           STR_ARG(name));
        }
    }
    return 0;
}

static char *copy_z(struct arena *a, const char *z)
{
    return z != NULL ? arena_strdup(a, str_of(z)) : NULL;
}

/// A part of a URL as a string in the arena; NULL when it has none.
static const char *url_part(struct http_call *call, CURLU *u, CURLUPart part)
{
    char *text = NULL;
    if (call->curl->url_get(u, part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) {
        return NULL;
    }
    const char *copy = arena_strdup(&call->arena, str_of(text));
    call->curl->free(text);
    return copy;
}

/// Does a header go to this hop? Credentials stay behind once the origin changed, and what describes a
/// body goes with one.
static bool goes_along(const struct http_call *call, struct str name)
{
    bool of_body = name.n > 8 && str_caseeqz((struct str){name.p, 8}, "content-");
    bool plain = str_caseeqz(name, "accept") || str_caseeqz(name, "content-type") ||
                 str_caseeqz(name, "content-language") ||
                 (name.n > 7 && str_caseeqz((struct str){name.p, 7}, "accept-"));
    return (!call->crossed || plain) && (!of_body || call->q.body.p != NULL);
}

static bool add_line(struct http_call *call, const char *line)
{
    struct curl_slist *more = call->curl->slist_append(call->lines, line);
    if (more != NULL) {
        call->lines = more;
    }
    return more != NULL;
}

/// The header lines for curl, where "Name:" takes a header of curl's own away and "Name;" is how a
/// header without value is written.
static bool make_lines(struct http_call *call)
{
    bool typed = false, ok = add_line(call, "Expect:");
    for (size_t i = 0; ok && i < call->q.n_headers; i++) {
        const struct http_header *h = &call->q.headers[i];
        if (!goes_along(call, h->name)) {
            continue;
        }
        typed = typed || str_caseeqz(h->name, "content-type");
        char *line = str_trim(h->value).n == 0
                         ? xasprintf(STR_FMT ";", STR_ARG(h->name))
                         : xasprintf(STR_FMT ": " STR_FMT, STR_ARG(h->name), STR_ARG(h->value));
        ok = add_line(call, line);
        free(line);
    }
    return ok && (typed || add_line(call, "Content-Type:"));
}

#define SET(call, option, value)                                                                   \
    ((call)->curl->easy_setopt((call)->easy, option, value) == CURLE_OK)

static bool set_method(struct http_call *call)
{
    const struct http_request *q = &call->q;
    bool wants_body = strcmp(q->method, "POST") == 0 || strcmp(q->method, "PUT") == 0 ||
                      strcmp(q->method, "PATCH") == 0;
    if (strcmp(q->method, "HEAD") == 0) {
        return SET(call, CURLOPT_NOBODY, 1L);
    }
    if ((q->body.p != NULL || wants_body) &&
        (!SET(call, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.n) ||
         !SET(call, CURLOPT_POSTFIELDS, q->body.p != NULL ? q->body.p : ""))) {
        return false;
    }
    return SET(call, CURLOPT_CUSTOMREQUEST, q->method);
}

/// curl is about to connect: check the address itself, since a name can mean another one each time.
static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct http_call *call = arg;
    char text[ADDRESS_TEXT], why[ADDRESS_TEXT + 80];
    (void)purpose;
    if (address_is_public(&a->addr)) {
        return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
    }
    snprintf(why, sizeof why, "its address %s is of this machine or its networks",
             address_text(&a->addr, text));
    http_call__fail(call, ERR_DENIED, why);
    return CURL_SOCKET_BAD;
}

/// A connection of its own: one that was made for another request may lead anywhere, and so does a proxy.
static bool set_public(struct http_call *call)
{
    return SET(call, CURLOPT_OPENSOCKETFUNCTION, on_open_socket) &&
           SET(call, CURLOPT_OPENSOCKETDATA, call) && SET(call, CURLOPT_FRESH_CONNECT, 1L) &&
           SET(call, CURLOPT_FORBID_REUSE, 1L) && SET(call, CURLOPT_PROXY, "");
}

static bool set_options(struct http_call *call)
{
    const struct http_request *q = &call->q;
    long connect_ms = (long)MIN(q->connect_ms, (uint64_t)INT32_MAX);
    for (size_t i = 0; i < ARRAY_LEN(fixed_options); i++) {
        if (!SET(call, fixed_options[i].option, fixed_options[i].value)) {
            return false;
        }
    }
    return SET(call, CURLOPT_PROTOCOLS_STR, "http,https") &&
           SET(call, CURLOPT_REDIR_PROTOCOLS_STR, "http,https") &&
           SET(call, CURLOPT_URL, call->target.url) &&
           SET(call, CURLOPT_USERAGENT, call->client->user_agent) &&
           SET(call, CURLOPT_HTTPHEADER, call->lines) &&
           SET(call, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) &&
           (q->proxy == NULL || SET(call, CURLOPT_PROXY, q->proxy)) &&
           (!q->public_only || set_public(call)) &&
           (!q->tunnel || (SET(call, CURLOPT_CONNECT_ONLY, 1L) &&
                           SET(call, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
                           SET(call, CURLOPT_HTTPPROXYTUNNEL, 1L))) &&
           (q->socket == NULL || SET(call, CURLOPT_UNIX_SOCKET_PATH, q->socket)) &&
           (q->ca_file == NULL ||
            (SET(call, CURLOPT_CAINFO, q->ca_file) && SET(call, CURLOPT_PROXY_CAINFO, q->ca_file) &&
             SET(call, CURLOPT_CAPATH, NULL)));
}

int http_request__copy(struct http_call *call, const struct http_request *q, struct err *e)
{
    struct arena *a = &call->arena;
    struct http_header *headers = arena_calloc(a, q->n_headers + 1, sizeof *headers);
    for (size_t i = 0; i < q->n_headers; i++) {
        headers[i].name = arena_str(a, q->headers[i].name);
        headers[i].value = arena_str(a, q->headers[i].value);
    }
    call->q = *q;
    call->q.method = q->method != NULL ? copy_z(a, q->method) : "GET";
    call->q.headers = headers;
    call->q.proxy = copy_z(a, q->proxy);
    call->q.socket = copy_z(a, q->socket);
    call->q.ca_file = copy_z(a, q->ca_file);
    call->q.body = q->body.p != NULL ? arena_str(a, q->body) : STR_NULL;
    call->q.connect_ms = q->connect_ms != 0 ? q->connect_ms : CONNECT_MS;
    if (q->max_body == 0) {
        call->q.max_body = call->cb.on_body != NULL ? UINT64_MAX : COLLECT_MAX;
    }
    int rc = check_request(&call->q, e);
    return rc < 0 ? rc : http_request__target(call, &call->target, q->url, e);
}

int http_request__target(struct http_call *call, struct http_target *t, const char *url,
                         struct err *e)
{
    CURLU *u = call->curl->url();
    CURLUcode rc = call->curl->url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME);
    if (rc != CURLUE_OK) {
        call->curl->url_cleanup(u);
        if (rc == CURLUE_BAD_SCHEME) {
            return err_set(e, ERR_INVALID, "a URL begins with https:// or http://");
        }
        return err_set(e, ERR_INVALID, "the URL is malformed: %s", call->curl->url_strerror(rc));
    }
    *t = (struct http_target){
        .url = arena_strdup(&call->arena, str_of(url)),
        .scheme = url_part(call, u, CURLUPART_SCHEME),
        .host = url_part(call, u, CURLUPART_HOST),
        .port = url_part(call, u, CURLUPART_PORT),
    };
    call->curl->url_cleanup(u);
    if (t->scheme == NULL || (strcmp(t->scheme, "https") != 0 && strcmp(t->scheme, "http") != 0)) {
        return err_set(e, ERR_INVALID, "only http and https URLs can be requested, not '%s'",
                       t->scheme != NULL ? t->scheme : "");
    }
    if (t->host == NULL || t->host[0] == '\0') {
        return err_set(e, ERR_INVALID, "the URL names no host");
    }
    return 0;
}

int http_request__open(struct http_call *call, struct err *e)
{
    call->easy = call->curl->easy_init();
    if (call->easy != NULL && make_lines(call) && set_options(call) && set_method(call)) {
        return 0;
    }
    http_client__stop(call);
    return err_set(e, ERR_INVALID, "libcurl refused the request to '%s'", call->target.host);
}
