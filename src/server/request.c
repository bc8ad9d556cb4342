// May this request be served? All checks that need only its head, in this order:
//
//     framing headers ─> Host ─> target ─> is the Host ours ─> is the Origin ours ─> route
//         ─> caller known? ─> 404, 405 ─> caller allowed? ─> body: size, type, Expect
//
// Names that are not ours are refused before anything is looked up, and strangers before they learn
// which routes exist. A body is refused before it is read.

#include <stdarg.h>

#include "base/log.h"
#include "server/server_int.h"

#define NAME(lit)                                                                                  \
    {                                                                                              \
        lit, sizeof(lit) - 1                                                                       \
    } // STR() is no constant

static const struct {
    struct str name;
    size_t offset;
    bool single; // twice is refused: two readers could believe different ones
} known[] = {
    {NAME("host"), offsetof(struct fields, host), true},
    {NAME("origin"), offsetof(struct fields, origin), true},
    {NAME("authorization"), offsetof(struct fields, authorization), true},
    {NAME("cookie"), offsetof(struct fields, cookie), true},
    {NAME("content-type"), offsetof(struct fields, content_type), true},
    {NAME("expect"), offsetof(struct fields, expect), true},
    {NAME("accept"), offsetof(struct fields, accept), false},
    {NAME("last-event-id"), offsetof(struct fields, last_event_id), true},
    {NAME("idempotency-key"), offsetof(struct fields, idempotency_key), true},
    {NAME("sec-fetch-site"), offsetof(struct fields, fetch_site), true},
    {NAME("sec-fetch-mode"), offsetof(struct fields, fetch_mode), true},
    {NAME("transfer-encoding"), offsetof(struct fields, transfer_encoding), true},
    {NAME("accept-encoding"), offsetof(struct fields, accept_encoding), false},
    {NAME("if-none-match"), offsetof(struct fields, if_none_match), false},
    {NAME("upgrade"), offsetof(struct fields, upgrade), true},
    {NAME("sec-websocket-key"), offsetof(struct fields, ws_key), true},
    {NAME("sec-websocket-version"), offsetof(struct fields, ws_version), true},
};

bool request__refuse(struct refusal *no, enum problem p, const char *fmt, ...)
{
    va_list ap;
    no->problem = p;
    va_start(ap, fmt);
    vsnprintf(no->detail, sizeof no->detail, fmt, ap);
    va_end(ap);
    return false;
}

/// Collect the headers of `struct fields`.
static void take_fields(const struct http1 *p, struct fields *f)
{
    *f = (struct fields){0};
    for (size_t i = 0; i < http1_count(p); i++) {
        struct str name = http1_name(p, i);
        for (size_t k = 0; k < ARRAY_LEN(known); k++) {
            if (name.n != known[k].name.n || !str_caseeqz(name, known[k].name.p)) {
                continue;
            }
            struct str *at = (struct str *)(void *)((char *)f + known[k].offset);
            if (at->p == NULL) {
                *at = http1_value(p, i);
            } else if (known[k].single) {
                f->doubled = known[k].name.p;
            }
            break;
        }
    }
}

bool request__is_json(struct str type)
{
    struct str kind = str_trim(str_cut(&type, ';'));
    struct str charset = str_trim(type);
    bool json = str_caseeqz(kind, "application/json") ||
                (kind.n > 17 && str_starts(kind, "application/") && str_ends(kind, "+json"));
    return json && (charset.n == 0 || str_caseeqz(charset, "charset=utf-8") ||
                    str_caseeqz(charset, "charset=\"utf-8\""));
}

// Refuse the ingredients of request smuggling that llhttp lets through.
static bool check_framing(const struct http1 *p, const struct fields *f, struct refusal *no)
{
    if (p->method == HTTP_CONNECT) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST, "this is not a proxy");
    }
    if (f->doubled != NULL) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST, "the header '%s' came twice",
                               f->doubled);
    }
    if (f->transfer_encoding.p != NULL &&
        (p->minor == 0 || !str_caseeqz(f->transfer_encoding, "chunked"))) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST,
                               "Transfer-Encoding may only be 'chunked', in HTTP/1.1");
    }
    if (f->transfer_encoding.p != NULL && p->has_length) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST,
                               "Content-Length and Transfer-Encoding exclude each other");
    }
    if (!hosts__valid(f->host)) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST,
                               "exactly one valid Host header is required");
    }
    return true;
}

// "http://authority/path": take scheme and authority off. False when it has another form.
static bool cut_authority(struct str *rest, struct str *authority)
{
    bool secure = str_starts(*rest, "https://");
    if (!secure && !str_starts(*rest, "http://")) {
        return false;
    }
    *rest = str_from(*rest, secure ? 8 : 7);
    size_t n = 0;
    while (n < rest->n && rest->p[n] != '/' && rest->p[n] != '?') {
        n++;
    }
    *authority = (struct str){rest->p, n};
    *rest = n < rest->n ? str_from(*rest, n) : STR("/");
    return true;
}

/// Split the request target into path and query. False: `no` says why.
static bool split_target(struct str target, struct str host, bool options, struct str *path,
                         struct str *query, struct refusal *no)
{
    struct str rest = target, authority;
    bool star = options && str_eqz(target, "*");
    if (str_index(target, '#') >= 0) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST, "the address must not contain '#'");
    }
    if (cut_authority(&rest, &authority) &&
        (host.n == 0 || authority.n != host.n || strncasecmp(authority.p, host.p, host.n) != 0)) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST,
                               "the address and the Host header name different hosts");
    }
    if (!star && (rest.n == 0 || rest.p[0] != '/')) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST, "the address must begin with '/'");
    }
    *path = str_cut(&rest, '?');
    *query = rest;
    return true;
}

// Refused names are logged up to a limit per peer. It is not the limit of failed authentications: a page of another site
// must not use that one up.
static void log_stranger(struct server *s, const struct conn *c, const char *what, struct str value)
{
    char peer[64], key[80];
    conn__peer(c, peer, sizeof peer);
    snprintf(key, sizeof key, "names of %s", peer);
    if (auth__failed(s->auth, str_of(key)) == 0) {
        log_warn(LOG_AUTH, "msg=\"%s not allowed\" peer=%s value=%s", what, peer, LOGQ(value).z);
    }
}

static bool check_host(struct server *s, const struct conn *c, const struct fields *f,
                       struct refusal *no)
{
    if (c->over_socket || hosts__allows(&s->hosts, f->host)) {
        return true;
    }
    log_stranger(s, c, "host", f->host);
    no->hint = "open it under a listed name, or add this one to allowed_hosts in config.toml";
    return request__refuse(no, PROBLEM_HOST_NOT_ALLOWED,
                           "'" STR_FMT "' is not a name of this hub: open it as %s, or add the "
                           "name to allowed_hosts in config.toml",
                           (int)MIN(f->host.n, 100), f->host.p, s->tcp_address);
}

// Browsers say where a request comes from. A navigation (a typed address, a followed link) carries
// no Origin and is let through: what it may see is decided by the cookie, which is SameSite=Strict.
static bool check_origin(struct server *s, const struct conn *c, const struct http1 *p,
                         struct asked *q, struct refusal *no)
{
    struct str site = q->fields.fetch_site, origin = q->fields.origin;
    if (origin.p != NULL && hosts__allows_origin(&s->hosts, origin)) {
        q->cors = true;
        return true;
    }
    bool navigates = str_eqz(q->fields.fetch_mode, "navigate") &&
                     (p->method == HTTP_GET || p->method == HTTP_HEAD);
    bool foreign = str_eqz(site, "cross-site") || str_eqz(site, "same-site");
    if (origin.p == NULL && (!foreign || navigates)) {
        return true;
    }
    struct str shown = origin.p != NULL ? origin : site;
    log_stranger(s, c, "origin", shown);
    no->hint = "open the page under a listed name, or add its host to allowed_hosts in config.toml";
    return request__refuse(no, PROBLEM_ORIGIN_NOT_ALLOWED,
                           "pages of '" STR_FMT "' may not call this hub: open it under its own "
                           "address, or add the host to allowed_hosts in config.toml",
                           (int)MIN(shown.n, 100), shown.p);
}

// Find out which kind of target is meant; check_route() finds out whether it exists.
static void find_target(const struct server *s, const struct http1 *p, struct asked *q)
{
    static const struct {
        unsigned http;
        enum op_method op;
    } methods[] = {{HTTP_GET, OP_GET}, {HTTP_HEAD, OP_GET},    {HTTP_POST, OP_POST},
                   {HTTP_PUT, OP_PUT}, {HTTP_PATCH, OP_PATCH}, {HTTP_DELETE, OP_DELETE}};
    size_t method = 0;
    while (method < ARRAY_LEN(methods) && methods[method].http != p->method) {
        method++;
    }
    if (str_eqz(q->path, "/")) {
        struct str query = p->method == HTTP_GET ? q->query : STR_NULL;
        while (query.n != 0 && q->code.n == 0) {
            struct str pair = str_cut(&query, '&');
            q->code = str_starts(pair, "code=") ? str_from(pair, 5) : STR_NULL;
        }
        q->match.methods = 1U << OP_GET;
        q->target = q->code.n != 0 ? TARGET_CODE : TARGET_PAGE;
    } else if (str_eqz(q->path, "*")) {
        q->match.methods = 1U << OP_GET | 1U << OP_POST;
    } else if ((q->asset = page__asset(s, q->path)) != NULL) {
        q->match.methods = 1U << OP_GET;
        q->target = TARGET_ASSET;
    } else if (front__is(q->path)) {
        q->match.methods = 1U << OP_GET;
        q->target = TARGET_FRONT;
    } else if (route__is(q->path)) {
        q->match.methods = (1U << (OP_DELETE + 1)) - 1;
        q->target = TARGET_PLUGIN;
    } else if ((q->mount = mount__find(s, q->path)) != NULL) {
        q->match.methods = (1U << (OP_DELETE + 1)) - 1;
        q->target = TARGET_MOUNT;
    } else {
        bool known_method = method < ARRAY_LEN(methods);
        router__match(&s->router, known_method ? methods[method].op : OP_GET, q->path, &q->match);
        q->match.op = known_method ? q->match.op : NULL;
        q->target = TARGET_OP;
    }
    if (p->method == HTTP_OPTIONS) {
        q->target = TARGET_OPTIONS;
    }
}

bool request__unauthorized(struct server *s, const struct conn *c, struct refusal *no,
                           const char *why)
{
    char peer[64];
    conn__peer(c, peer, sizeof peer);
    s->counts.auth_failures++;
    no->retry_after_s = auth__failed(s->auth, str_of(peer));
    if (no->retry_after_s != 0) {
        return request__refuse(no, PROBLEM_RATE_LIMITED, "too many failures: wait %u s",
                               no->retry_after_s);
    }
    log_warn(LOG_AUTH, "msg=\"not authenticated\" peer=%s reason=%s", peer, LOGQ(str_of(why)).z);
    no->hint = "send the token as 'Authorization: Bearer ...' (afloat token show), or run "
               "'afloat open' for the browser";
    return request__refuse(no, PROBLEM_UNAUTHORIZED, "%s", why);
}

static bool check_caller(struct server *s, const struct conn *c, const struct http1 *p,
                         struct asked *q, struct refusal *no)
{
    bool preflight = q->target == TARGET_OPTIONS && q->cors; // browsers send these without secrets
    bool open = preflight || q->target == TARGET_CODE ||
                (q->match.op != NULL && (q->match.op->flags & OP_OPEN) != 0);
    if (c->over_socket || open) {
        return true;
    }
    enum auth_answer who = auth__check(s->auth, q->fields.authorization, q->fields.cookie);
    if (who == AUTH_NONE || who == AUTH_WRONG) {
        no->page = q->target == TARGET_PAGE;
        return request__unauthorized(s, c, no,
                                     who == AUTH_NONE ? "no token and no cookie was sent"
                                                      : "the token or cookie is not valid");
    }
    q->known = true;
    q->by_cookie = who == AUTH_COOKIE;
    bool safe = p->method == HTTP_GET || p->method == HTTP_HEAD;
    if (q->by_cookie && !safe && !q->cors) {
        return request__refuse(no, PROBLEM_ORIGIN_NOT_ALLOWED,
                               "a change by cookie needs an Origin header of this hub");
    }
    return true;
}

static bool check_route(const struct conn *c, const struct http1 *p, const struct asked *q,
                        struct refusal *no)
{
    bool gets = p->method == HTTP_GET || p->method == HTTP_HEAD;
    bool known_path = q->match.methods != 0;
    if ((q->target == TARGET_OPTIONS || q->target == TARGET_PLUGIN || q->target == TARGET_MOUNT) &&
        known_path) {
        return true;
    }
    if (!known_path) {
        return request__refuse(no, PROBLEM_NOT_FOUND, "there is no '" STR_FMT "'",
                               (int)MIN(q->path.n, 200), q->path.p);
    }
    if (q->target == TARGET_OP ? q->match.op == NULL : !gets) {
        router__allow(q->match.methods, no->allow, sizeof no->allow);
        return request__refuse(no, PROBLEM_METHOD_NOT_ALLOWED, "%s is not allowed for this address",
                               http1_method_name(p));
    }
    if (q->target == TARGET_OP && (q->match.op->flags & OP_SOCKET) != 0 && !c->over_socket) {
        return request__refuse(no, PROBLEM_FORBIDDEN,
                               "this operation is allowed over the hub's socket only");
    }
    return true;
}

static bool check_body(const struct server *s, const struct http1 *p, struct asked *q,
                       struct refusal *no)
{
    bool has_body = p->chunked || p->length != 0;
    // a plugin or a mounted part decides itself which bodies it takes
    bool any = q->target == TARGET_PLUGIN || q->target == TARGET_MOUNT;
    bool takes = any || (q->target == TARGET_OP && op_takes_body(q->match.op));
    struct str expect = q->fields.expect;
    if (p->length > s->limits.body_bytes) {
        return request__refuse(no, PROBLEM_TOO_LARGE, "the body is larger than %zu bytes",
                               s->limits.body_bytes);
    }
    if (has_body && !takes) {
        return request__refuse(no, PROBLEM_INVALID_REQUEST, "%s must not have a body here",
                               http1_method_name(p));
    }
    if (!any && p->length != 0 && !request__is_json(q->fields.content_type)) {
        return request__refuse(no, PROBLEM_UNSUPPORTED_MEDIA_TYPE,
                               "the body must be application/json");
    }
    if (expect.p != NULL && p->minor != 0) {
        q->wants_continue = str_caseeqz(expect, "100-continue");
        if (!q->wants_continue) {
            return request__refuse(no, PROBLEM_EXPECTATION_FAILED,
                                   "only 'Expect: 100-continue' is supported");
        }
    }
    return true;
}

bool request__admit(struct server *s, const struct http1 *p, const struct conn *c, struct asked *q,
                    struct refusal *no)
{
    *q = (struct asked){0};
    if (s->closing) {
        return request__refuse(no, PROBLEM_STOPPING, "the hub is stopping");
    }
    q->target_text = http1_target(p);
    take_fields(p, &q->fields);
    if (!check_framing(p, &q->fields, no) ||
        !split_target(q->target_text, q->fields.host, p->method == HTTP_OPTIONS, &q->path,
                      &q->query, no) ||
        !check_host(s, c, &q->fields, no) || !check_origin(s, c, p, q, no)) {
        return false;
    }
    find_target(s, p, q);
    no->mount = q->mount;
    if (!check_caller(s, c, p, q, no) || !check_route(c, p, q, no) || !check_body(s, p, q, no)) {
        return false;
    }
    struct str key = q->fields.idempotency_key;
    bool fits = key.p == NULL || (key.n != 0 && key.n <= 255);
    for (size_t i = 0; i < key.n; i++) {
        fits = fits && key.p[i] > ' ' && key.p[i] < 0x7f;
    }
    return fits || request__refuse(no, PROBLEM_INVALID_REQUEST,
                                   "an Idempotency-Key has 1 to 255 visible characters");
}
