// HTTP/1.1 messages: llhttp for the grammar, our own eyes on the lines of the head.
//
// llhttp in strict mode refuses most of what request smuggling is made of, but lets a folded header
// line (obs-fold) and a nameless one pass, and takes RTSP and HTTP/0.9 for HTTP. So each byte of a head is looked at
// twice: scan_head() walks its lines (CRLF only, no folding, size bounds) and finds where it ends;
// then exactly those bytes go to llhttp. The raw head is kept in one buffer and llhttp reads it
// there, so names and values are spans of it and nothing is copied twice.
//
//     bytes ──> scan_head ──> head buffer ──> llhttp ──> spans          state HEAD
//     bytes ────────────────────────────────> llhttp ──> on_body        state BODY
//
// Invariants:
//   - what is accepted does not depend on how the bytes were split into calls.
//   - llhttp is fed from `head` while state is HEAD and from the caller's bytes while it is BODY.
//   - it is set up anew for each message: nothing of one message reaches the next.
//
// It does not decide about Host, lengths of bodies or methods: that is the server's.

#include "net/http1.h"

#include <assert.h>

enum { BLANKS_MAX = 4 }; // empty lines in front of a request line (RFC 9112, 2.2)

const struct http1_limits http1_default_limits = {
    .line_bytes = 8 * 1024,
    .head_bytes = 32 * 1024,
    .headers = 100,
};

static uint32_t offset_of(const struct http1 *p, const char *at)
{
    return (uint32_t)(at - p->head.p);
}

static int count_extra(struct http1 *p, size_t n)
{
    p->extra += n;
    if (p->extra > p->limits->head_bytes) {
        p->fault = HTTP1_HEAD_TOO_LARGE;
        return HPE_USER;
    }
    return 0;
}

static int on_target(llhttp_t *ll, const char *at, size_t n)
{
    struct http1 *p = ll->data;
    if (p->target.n == 0) {
        p->target.at = offset_of(p, at);
    }
    p->target.n += (uint32_t)n;
    assert(p->target.at + p->target.n <= p->head.n); // llhttp reads the head where we keep it
    return 0;
}

static int on_version(llhttp_t *ll, const char *at, size_t n)
{
    struct http1 *p = ll->data;
    (void)n;
    if (p->version_at == 0) {
        p->version_at = offset_of(p, at);
    }
    return 0;
}

static int on_field(llhttp_t *ll, const char *at, size_t n)
{
    struct http1 *p = ll->data;
    if (p->state != HTTP1_HEAD) {
        return count_extra(p, n);
    }
    if (p->in_value || p->headers.n == 0) {
        if (p->headers.n == p->limits->headers) {
            p->fault = HTTP1_HEAD_TOO_LARGE;
            return HPE_USER;
        }
        struct http1_header h = {.name.at = offset_of(p, at)};
        vec_push(&p->headers, h);
        p->in_value = false;
    }
    vec_last(&p->headers)->name.n += (uint32_t)n;
    return 0;
}

static int on_field_end(llhttp_t *ll)
{
    struct http1 *p = ll->data;
    if (p->state == HTTP1_HEAD && vec_last(&p->headers)->name.n == 0) {
        llhttp_set_error_reason(ll, "a header field without a name");
        return HPE_USER;
    }
    p->in_value = true;
    return 0;
}

static int on_value(llhttp_t *ll, const char *at, size_t n)
{
    struct http1 *p = ll->data;
    if (p->state != HTTP1_HEAD) {
        return count_extra(p, n);
    }
    struct http1_span *v = &vec_last(&p->headers)->value;
    if (v->n == 0) {
        v->at = offset_of(p, at);
    }
    v->n += (uint32_t)n;
    return 0;
}

static int on_extension(llhttp_t *ll, const char *at, size_t n)
{
    (void)at;
    return count_extra(ll->data, n);
}

// What llhttp knows about the message is read here: it forgets its flags at the message's end.
static int on_head(llhttp_t *ll)
{
    struct http1 *p = ll->data;
    p->method = ll->method;
    p->status = ll->status_code;
    p->minor = ll->http_minor;
    p->chunked = (ll->flags & F_CHUNKED) != 0;
    p->has_length = (ll->flags & F_CONTENT_LENGTH) != 0;
    p->length = p->has_length ? ll->content_length : 0;
    p->keep_alive = llhttp_should_keep_alive(ll) != 0;
    p->state = HTTP1_BODY;
    return p->no_body ? 1 : 0;
}

static int on_content(llhttp_t *ll, const char *at, size_t n)
{
    struct http1 *p = ll->data;
    if (p->on_body != NULL && p->on_body(p->arg, (struct str){at, n}) != 0) {
        p->fault = HTTP1_STOPPED;
        return HPE_USER;
    }
    return 0;
}

static int on_end(llhttp_t *ll)
{
    struct http1 *p = ll->data;
    p->state = HTTP1_END;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_url = on_target,
    .on_version = on_version,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_end,
    .on_header_value = on_value,
    .on_chunk_extension_name = on_extension,
    .on_chunk_extension_value = on_extension,
    .on_headers_complete = on_head,
    .on_body = on_content,
    .on_message_complete = on_end,
};

static int fail(struct http1 *p, enum http1_fault fault, struct err *e, const char *what)
{
    if (p->fault == HTTP1_OK) {
        p->fault = fault;
    }
    int code = p->fault == HTTP1_MALFORMED || p->fault == HTTP1_STOPPED ? ERR_PARSE : ERR_TOO_LARGE;
    return err_set(e, code, "%s", what);
}

static int llhttp_failed(struct http1 *p, struct err *e)
{
    if (p->fault == HTTP1_HEAD_TOO_LARGE) {
        return fail(p, p->fault, e, "too many header fields or trailer bytes");
    }
    const char *reason = llhttp_get_error_reason(&p->parser);
    return fail(p, HTTP1_MALFORMED, e, reason != NULL ? reason : "malformed message");
}

// Find the end of the head in `bytes`: `*n` bytes belong to it. Returns 1 when it is complete, 0
// when more is to come.
static int scan_head(struct http1 *p, struct str bytes, size_t *n, struct err *e)
{
    size_t at = 0;
    while (at < bytes.n) {
        if (p->line_n == 0 && p->lines > 0 && (bytes.p[at] == ' ' || bytes.p[at] == '\t')) {
            return fail(p, HTTP1_MALFORMED, e, "folded header lines are not accepted");
        }
        const char *nl = memchr(bytes.p + at, '\n', bytes.n - at);
        size_t end = nl != NULL ? (size_t)(nl - bytes.p) + 1 : bytes.n;
        p->line_n += (uint32_t)(end - at);
        if (p->lines == 0 && p->line_n > p->limits->line_bytes) {
            return fail(p, HTTP1_LINE_TOO_LONG, e, "the first line is too long");
        }
        if (p->head.n + end > p->limits->head_bytes) {
            return fail(p, HTTP1_HEAD_TOO_LARGE, e, "the header fields are too large");
        }
        const char *before = end >= 2 ? &bytes.p[end - 2] : &p->last;
        bool after_cr = *before == '\r';
        p->last = bytes.p[end - 1];
        at = *n = end;
        if (nl == NULL) {
            return 0;
        }
        if (!after_cr) {
            return fail(p, HTTP1_MALFORMED, e, "a line must end with CR LF");
        }
        bool blank = p->line_n == 2;
        p->line_n = 0;
        if (blank && p->lines > 0) {
            return 1;
        }
        if (blank && ++p->blanks > BLANKS_MAX) {
            return fail(p, HTTP1_MALFORMED, e, "too many empty lines before the message");
        }
        p->lines += !blank;
    }
    return 0;
}

static int feed_head(struct http1 *p, struct str *bytes, struct err *e)
{
    size_t n = 0, base = p->head.n;
    int complete = scan_head(p, *bytes, &n, e);
    if (complete < 0) {
        return complete;
    }
    buf_add(&p->head, bytes->p, n);
    *bytes = str_from(*bytes, n);
    llhttp_errno_t rc = llhttp_execute(&p->parser, p->head.p + base, n);
    if (rc != HPE_OK && rc != HPE_PAUSED && rc != HPE_PAUSED_UPGRADE) {
        return llhttp_failed(p, e);
    }
    if ((complete == 1) != (p->state != HTTP1_HEAD)) {
        return fail(p, HTTP1_MALFORMED, e, "the head does not end where its lines do");
    }
    // llhttp also knows RTSP, ICE, HTTP/0.9 and 2.0
    bool http1 = p->parser.http_major == 1 && p->parser.http_minor <= 1 && p->version_at >= 5 &&
                 memcmp(p->head.p + p->version_at - 5, "HTTP/", 5) == 0;
    if (complete == 1 && !http1) {
        return fail(p, HTTP1_MALFORMED, e, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    }
    // one space on each side of the target: llhttp skips several
    const struct http1_span t = p->target;
    bool spaced = p->parser.type == HTTP_RESPONSE ||
                  (t.at >= 2 && p->head.p[t.at - 2] != ' ' && t.at + t.n + 1 == p->version_at - 5);
    if (complete == 1 && !spaced) {
        return fail(p, HTTP1_MALFORMED, e, "the request line has more than two spaces");
    }
    return 0;
}

static struct str text(const struct http1 *p, struct http1_span s)
{
    return (struct str){p->head.p + s.at, s.n};
}

void http1_init(struct http1 *p, enum http1_kind kind, const struct http1_limits *limits,
                http1_body *on_body, void *arg)
{
    *p = (struct http1){
        .limits = limits != NULL ? limits : &http1_default_limits, .on_body = on_body, .arg = arg};
    buf_init(&p->head, p->limits->head_bytes);
    llhttp_init(&p->parser, kind == HTTP1_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
    p->parser.data = p;
}

void http1_next(struct http1 *p, bool no_body)
{
    llhttp_type_t kind = (llhttp_type_t)p->parser.type;
    llhttp_init(&p->parser, kind, &settings);
    p->parser.data = p;
    buf_clear(&p->head);
    p->headers.n = 0;
    p->target = (struct http1_span){0};
    p->version_at = p->lines = p->line_n = p->blanks = 0;
    p->extra = 0;
    p->last = 0;
    p->in_value = false;
    p->no_body = no_body;
    p->state = HTTP1_HEAD;
    p->fault = HTTP1_OK;
}

void http1_fini(struct http1 *p)
{
    buf_fini(&p->head);
    vec_fini(&p->headers);
}

int http1_feed(struct http1 *p, struct str *bytes, struct err *e)
{
    if (p->fault != HTTP1_OK) {
        return fail(p, p->fault, e, "the message was malformed before");
    }
    if (bytes->n == 0 || p->state == HTTP1_END) {
        return 0;
    }
    if (p->state == HTTP1_HEAD) {
        return feed_head(p, bytes, e);
    }
    llhttp_errno_t rc = llhttp_execute(&p->parser, bytes->p, bytes->n);
    if (rc == HPE_OK) {
        *bytes = STR_NULL;
    } else if (rc == HPE_PAUSED || rc == HPE_PAUSED_UPGRADE) {
        *bytes = str_from(*bytes, (size_t)(llhttp_get_error_pos(&p->parser) - bytes->p));
    } else {
        return llhttp_failed(p, e);
    }
    return 0;
}

int http1_finish(struct http1 *p, struct err *e)
{
    if (p->state == HTTP1_END || http1_between(p)) {
        return 0;
    }
    if (p->state == HTTP1_HEAD) {
        return fail(p, HTTP1_MALFORMED, e, "the connection ended within a head");
    }
    llhttp_errno_t rc = llhttp_finish(&p->parser);
    if (p->state != HTTP1_END || (rc != HPE_OK && rc != HPE_PAUSED)) {
        return fail(p, HTTP1_MALFORMED, e, "the connection ended within a body");
    }
    return 0;
}

bool http1_between(const struct http1 *p)
{
    return p->state == HTTP1_HEAD && p->lines == 0 && p->line_n == 0;
}

struct str http1_target(const struct http1 *p)
{
    return text(p, p->target);
}

const char *http1_method_name(const struct http1 *p)
{
    return llhttp_method_name((llhttp_method_t)p->method);
}

size_t http1_count(const struct http1 *p)
{
    return p->headers.n;
}

struct str http1_name(const struct http1 *p, size_t i)
{
    assert(i < p->headers.n);
    return text(p, p->headers.p[i].name);
}

struct str http1_value(const struct http1 *p, size_t i)
{
    assert(i < p->headers.n);
    return str_trim(text(p, p->headers.p[i].value));
}

struct str http1_get(const struct http1 *p, const char *name)
{
    for (size_t i = 0; i < p->headers.n; i++) {
        if (str_caseeqz(http1_name(p, i), name)) {
            return http1_value(p, i);
        }
    }
    return STR_NULL;
}

bool http1_is_token(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL)) {
            return false;
        }
    }
    return s.n != 0;
}

bool http1_is_value(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}
