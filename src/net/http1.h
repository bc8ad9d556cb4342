#pragma once

#include <llhttp.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

// HTTP/1.1 messages as a push parser, for requests (the server) and responses (clients, providers).
// Bytes go in as they arrive; the parser stops after the head and after the end of the message, so
// that the caller can look, refuse or wait before the next byte is read:
//
//     while (bytes.n != 0) {
//         if (http1_feed(p, &bytes, &e) < 0)   -> p->fault says which kind
//         if (p->state == HTTP1_BODY) ...      -> the head is complete, the body follows
//         if (p->state == HTTP1_END) ...       -> the message is complete; http1_next() begins another
//     }

enum http1_kind { HTTP1_REQUEST, HTTP1_RESPONSE };
enum http1_state { HTTP1_HEAD, HTTP1_BODY, HTTP1_END };

enum http1_fault {
    HTTP1_OK,
    HTTP1_MALFORMED,      // not HTTP/1.x as we accept it
    HTTP1_LINE_TOO_LONG,  // the first line
    HTTP1_HEAD_TOO_LARGE, // all of the head, or a trailer or chunk extension
    HTTP1_STOPPED,        // the body callback did not want more
};

struct http1_limits {
    size_t line_bytes; // of the request or status line
    size_t head_bytes; // of the whole head; also of trailers, and of chunk extensions
    size_t headers;    // how many
};
extern const struct http1_limits http1_default_limits;

/// Decoded bytes of the body, borrowed for the call. Anything but 0 ends the parse (HTTP1_STOPPED).
typedef int http1_body(void *arg, struct str bytes);

struct http1_span {
    uint32_t at, n; // in `head`
};
struct http1_header {
    struct http1_span name, value;
};

/// A parser in the caller's storage. Once the head is complete (state BODY or END) the members up
/// to `private` may be read; spans and strings stay valid until http1_next() or http1_fini().
struct http1 {
    enum http1_state state;
    enum http1_fault fault;
    unsigned method; // HTTP_GET, ... of llhttp.h
    int status;      // of a response
    uint8_t minor;   // HTTP/1.minor
    bool keep_alive; // the peer keeps the connection after this message
    bool chunked;
    bool has_length;
    uint64_t length; // Content-Length, when has_length

    // private
    const struct http1_limits *limits;
    http1_body *on_body;
    void *arg;
    llhttp_t parser;
    struct buf head; // the raw head
    vec(struct http1_header) headers;
    struct http1_span target;
    uint32_t version_at;
    uint32_t lines, line_n, blanks; // of the head so far
    size_t extra;                   // bytes of trailers and chunk extensions
    char last;                      // byte before the next one
    bool in_value, no_body;
};

/// `limits` NULL: http1_default_limits. `limits` and `arg` are borrowed; on_body may be NULL.
void http1_init(struct http1 *p, enum http1_kind kind, const struct http1_limits *limits,
                http1_body *on_body, void *arg);
/// Free its memory. A parser between two messages may be fed again after this.
void http1_fini(struct http1 *p);

/// Begin the next message. `no_body`: it is the answer to a HEAD request, whatever its head says.
void http1_next(struct http1 *p, bool no_body);

/// Take bytes in and move `*bytes` past what was taken. Returns after the head, after the message
/// or when all is taken; in state END nothing is taken. On failure (negative) `p->fault` is set, the
/// connection's framing is lost and `e` says what was wrong.
int http1_feed(struct http1 *p, struct str *bytes, struct err *e) MUST_CHECK;
/// The peer closed its side. 0 when that ends the message or none was begun, else negative.
int http1_finish(struct http1 *p, struct err *e) MUST_CHECK;
/// True while no byte of the next message has arrived.
bool http1_between(const struct http1 *p);

/// The target of a request as it was sent; the name of its method.
struct str http1_target(const struct http1 *p);
const char *http1_method_name(const struct http1 *p);
/// How many headers there are; the name of one, and its value without blanks at both ends.
size_t http1_count(const struct http1 *p);
struct str http1_name(const struct http1 *p, size_t i);
struct str http1_value(const struct http1 *p, size_t i);
/// The value of the first header `name` (ASCII case ignored); `p` NULL in it when there is none.
struct str http1_get(const struct http1 *p, const char *name);

/// May `s` be the name of a header, or a method?
bool http1_is_token(struct str s);
/// May `s` be the value of a header? Control characters would begin another one.
bool http1_is_value(struct str s);
