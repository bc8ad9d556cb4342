// Writing answers: the head, then the body, into the connection's queue.
//
// Every answer says what it is (`nosniff`) and that it is for this caller alone (`no-store`); none
// ever says `Access-Control-Allow-Origin: *`.

#include <assert.h>

#include "server/server_int.h"

// clang-format off
// a status, and its line up to the value of the Date header
#define LINE(lit)         {lit, sizeof(lit) - 1}
#define STATUS(n, reason) {n, LINE("HTTP/1.1 " #n " " reason "\r\nDate: ")}
// clang-format on

static const struct {
    int status;
    struct str line;
} lines[] = {
    STATUS(200, "OK"),
    STATUS(201, "Created"),
    STATUS(202, "Accepted"),
    STATUS(204, "No Content"),
    STATUS(301, "Moved Permanently"),
    STATUS(302, "Found"),
    STATUS(303, "See Other"),
    STATUS(304, "Not Modified"),
    STATUS(400, "Bad Request"),
    STATUS(401, "Unauthorized"),
    STATUS(403, "Forbidden"),
    STATUS(404, "Not Found"),
    STATUS(405, "Method Not Allowed"),
    STATUS(408, "Request Timeout"),
    STATUS(409, "Conflict"),
    STATUS(413, "Content Too Large"),
    STATUS(414, "URI Too Long"),
    STATUS(415, "Unsupported Media Type"),
    STATUS(417, "Expectation Failed"),
    STATUS(429, "Too Many Requests"),
    STATUS(431, "Request Header Fields Too Large"),
    STATUS(500, "Internal Server Error"),
    STATUS(502, "Bad Gateway"),
    STATUS(503, "Service Unavailable"),
    STATUS(504, "Gateway Timeout"),
};

static void add_number(struct buf *out, uint64_t n)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    buf_add(out, digits + at, sizeof digits - at);
}

static void add_line(struct buf *out, struct str name, struct str value)
{
    buf_adds(out, name);
    buf_adds(out, value);
    buf_adds(out, STR("\r\n"));
}

void respond__write(struct conn *c, const struct reply *r)
{
    struct buf *out = &c->out;
    assert(r->status >= 200 && r->status <= 599);
    buf_reserve(out, 512 + r->body.n);
    size_t at = 0;
    while (at < ARRAY_LEN(lines) && lines[at].status != r->status) {
        at++;
    }
    if (at < ARRAY_LEN(lines)) {
        buf_adds(out, lines[at].line);
    } else {
        buf_addf(out, "HTTP/1.1 %d Other\r\nDate: ", r->status);
    }
    buf_add(out, server__date(c->server), DATE_TEXT - 1);
    buf_adds(out, r->caches ? STR("\r\nX-Content-Type-Options: nosniff\r\n")
                            : STR("\r\nCache-Control: no-store\r\n"
                                  "X-Content-Type-Options: nosniff\r\n"));
    if (r->type != NULL) {
        add_line(out, STR("Content-Type: "), str_of(r->type));
    }
    bool bodiless = r->status == 204 || r->status == 304;
    if (r->streamed) {
        buf_adds(out, r->old ? STR("") : STR("Transfer-Encoding: chunked\r\n"));
    } else if (!bodiless) {
        buf_adds(out, STR("Content-Length: "));
        add_number(out, r->body.n);
        buf_adds(out, STR("\r\n"));
    }
    if (!r->keep) {
        buf_adds(out, STR("Connection: close\r\n"));
    } else if (r->old) {
        buf_adds(out, STR("Connection: keep-alive\r\n"));
    }
    if (c->over_socket && c->server->build != NULL) {
        add_line(out, STR("Afloat-Build: "), str_of(c->server->build));
    }
    if (r->location != NULL) {
        add_line(out, STR("Location: "), str_of(r->location));
    }
    if (r->allow != NULL) {
        add_line(out, STR("Allow: "), str_of(r->allow));
    }
    if (r->origin.n != 0) {
        add_line(out, STR("Access-Control-Allow-Origin: "), r->origin);
        buf_adds(out, STR("Vary: Origin\r\n"));
    }
    if (r->retry_after_s != 0) {
        buf_adds(out, STR("Retry-After: "));
        add_number(out, r->retry_after_s);
        buf_adds(out, STR("\r\n"));
    }
    buf_addz(out, r->challenge ? "WWW-Authenticate: Bearer\r\n" : "");
    buf_addz(out, r->headers != NULL ? r->headers : "");
    buf_adds(out, STR("\r\n"));
    if (!r->head_only && !r->streamed && !bodiless) {
        buf_adds(out, r->body);
    }
}

void respond__problem(struct buf *out, const struct refusal *no)
{
    problem_write(out, no->problem, str_of(no->detail), no->hint);
}
