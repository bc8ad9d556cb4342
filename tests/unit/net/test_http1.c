#include "net/http1.h"
#include "unit/test.h"

struct seen {
    struct buf log;
    int ends;
};

static int on_body(void *arg, struct str bytes)
{
    struct seen *s = arg;
    buf_adds(&s->log, bytes);
    return 0;
}

// Feed `text` in pieces of `step` bytes; messages and their ends go to the log.
static int feed(struct seen *s, enum http1_kind kind, const char *text, size_t step, bool finish)
{
    struct http1 p;
    struct err e;
    int rc = 0;
    buf_init(&s->log, 1 << 20);
    http1_init(&p, kind, NULL, on_body, s);
    size_t all = strlen(text);
    for (size_t at = 0; at < all && rc == 0; at += step) {
        struct str bytes = {text + at, MIN(step, all - at)};
        while (bytes.n != 0 && rc == 0) {
            bool in_head = p.state == HTTP1_HEAD;
            rc = http1_feed(&p, &bytes, &e);
            if (rc == 0 && in_head && p.state != HTTP1_HEAD) {
                buf_addf(&s->log, "[%s %d " STR_FMT, http1_method_name(&p), p.status,
                         STR_ARG(http1_target(&p)));
                for (size_t i = 0; i < http1_count(&p); i++) {
                    buf_addf(&s->log, "|" STR_FMT "=" STR_FMT, STR_ARG(http1_name(&p, i)),
                             STR_ARG(http1_value(&p, i)));
                }
                buf_addz(&s->log, "]");
            }
            if (rc == 0 && p.state == HTTP1_END) {
                buf_addz(&s->log, "$");
                http1_next(&p, false);
            }
        }
    }
    if (rc == 0 && finish) {
        rc = http1_finish(&p, &e);
        if (rc == 0 && p.state == HTTP1_END) {
            buf_addz(&s->log, "$");
        }
    }
    http1_fini(&p);
    return rc;
}

// Whatever the split, the log is `want`.
static void check_all_splits(enum http1_kind kind, const char *text, const char *want)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        struct seen s = {.ends = 0};
        CHECK_INT(feed(&s, kind, text, step, false), 0);
        CHECK_SPAN(buf_str(&s.log), want);
        buf_fini(&s.log);
    }
}

TEST(requests_read_the_same_whatever_the_split)
{
    check_all_splits(HTTP1_REQUEST,
                     "\r\nGET /a?b=c HTTP/1.1\r\nHost: x\r\nEmpty:\r\nPad:  y z \t\r\n\r\n"
                     "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
                     "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nTrail: 1\r\n\r\n"
                     "DELETE /d HTTP/1.0\r\n\r\n",
                     "[GET 0 /a?b=c|Host=x|Empty=|Pad=y z]$"
                     "[POST 0 /p|Host=x|Content-Length=5]hello$"
                     "[POST 0 /c|Host=x|Transfer-Encoding=chunked]abcde$"
                     "[DELETE 0 /d]$");
}

TEST(responses_read_the_same_whatever_the_split)
{
    check_all_splits(HTTP1_RESPONSE,
                     "HTTP/1.1 100 Continue\r\n\r\n"
                     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: 1\r\n\r\nok"
                     "HTTP/1.1 204 No Content\r\n\r\n"
                     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwxyz\r\n0\r\n\r\n",
                     "[DELETE 100 ]$[DELETE 200 |Content-Length=2|X=1]ok$[DELETE 204 ]$"
                     "[DELETE 200 |Transfer-Encoding=chunked]wxyz$");
}

TEST(a_response_without_length_ends_with_the_connection)
{
    struct seen s = {.ends = 0};
    CHECK_INT(feed(&s, HTTP1_RESPONSE, "HTTP/1.1 200 OK\r\n\r\nabc", 4, true), 0);
    CHECK_SPAN(buf_str(&s.log), "[DELETE 200 ]abc$");
    buf_fini(&s.log);
}

TEST(a_cut_off_message_is_noticed)
{
    static const char *const cut[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "HTTP/1.1 200 OK\r\nCont",
    };
    for (size_t i = 0; i < ARRAY_LEN(cut); i++) {
        struct seen s = {.ends = 0};
        CHECK(feed(&s, HTTP1_RESPONSE, cut[i], 7, true) < 0);
        buf_fini(&s.log);
    }
}

TEST(the_answer_to_head_has_no_body)
{
    struct http1 p;
    struct err e;
    http1_init(&p, HTTP1_RESPONSE, NULL, NULL, NULL);
    http1_next(&p, true);
    struct str bytes =
        STR("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nHTTP/1.1 404 Not Found\r\n");
    CHECK_INT(http1_feed(&p, &bytes, &e), 0);
    CHECK_INT(p.state, HTTP1_END);
    CHECK_INT(p.length, 99);
    CHECK_SPAN(bytes, "HTTP/1.1 404 Not Found\r\n");
    http1_fini(&p);
}

TEST(malformed_messages_are_refused_whatever_the_split)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\nHost: x\n\n",
        "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nA:\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n \r\n\r\n",
        "GET / HTTP/1.1\r\n Host: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        "GET / HTTP/1.1\r\nHo st: x\r\n\r\n",
        "GET / HTTP/1.1\r\n: x\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\x01\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
        "GET / HTTP/1.1\r\nA\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.2\r\n\r\n",
        "GET / HTTP/0.9\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / RTSP/1.0\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "GET / http/1.1\r\n\r\n",
        "get / HTTP/1.1\r\n\r\n",
        "FOO / HTTP/1.1\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\r\n\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nContent-Length: 5,5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nContent-Length: 0x5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nContent-Length: 5 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nContent-Length:\r\n\r\nhello",
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        for (size_t step = 1; step <= strlen(bad[i]); step++) {
            struct seen s = {.ends = 0};
            if (feed(&s, HTTP1_REQUEST, bad[i], step, false) == 0) {
                test_fail(__FILE__, __LINE__, "taken in steps of %zu: %s", step, bad[i]);
            }
            buf_fini(&s.log);
        }
    }
}

static void check_too_large(const char *begin, char fill, size_t n, enum http1_fault fault)
{
    struct http1 p;
    struct err e;
    struct buf all;
    buf_init(&all, 1 << 20);
    buf_addz(&all, begin);
    for (size_t i = 0; i < n; i++) {
        buf_addc(&all, fill);
    }
    http1_init(&p, HTTP1_REQUEST, NULL, NULL, NULL);
    struct str bytes = buf_str(&all);
    int rc = 0;
    while (bytes.n != 0 && rc == 0) {
        struct str piece = {bytes.p, MIN(bytes.n, 1000)};
        size_t before = piece.n;
        rc = http1_feed(&p, &piece, &e);
        bytes = str_from(bytes, before - piece.n);
    }
    CHECK(rc < 0);
    CHECK_INT(p.fault, fault);
    http1_fini(&p);
    buf_fini(&all);
}

TEST(what_is_too_large_is_refused_by_its_kind)
{
    check_too_large("GET /", 'a', 9000, HTTP1_LINE_TOO_LONG);
    check_too_large("GET / HTTP/1.1\r\nA: ", 'a', 33000, HTTP1_HEAD_TOO_LARGE);
    check_too_large("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;", 'a', 33000,
                    HTTP1_HEAD_TOO_LARGE);
    check_too_large("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ", 'a', 33000,
                    HTTP1_HEAD_TOO_LARGE);
}

TEST(too_many_headers_are_refused)
{
    struct http1 p;
    struct err e;
    struct buf all;
    buf_init(&all, 1 << 20);
    buf_addz(&all, "GET / HTTP/1.1\r\n");
    for (size_t i = 0; i <= http1_default_limits.headers; i++) {
        buf_addf(&all, "h%zu: 1\r\n", i);
    }
    buf_addz(&all, "\r\n");
    http1_init(&p, HTTP1_REQUEST, NULL, NULL, NULL);
    struct str bytes = buf_str(&all);
    CHECK(http1_feed(&p, &bytes, &e) < 0);
    CHECK_INT(p.fault, HTTP1_HEAD_TOO_LARGE);
    http1_fini(&p);
    buf_fini(&all);
}
