// Servers and callers that mean no good, and what is not there.

#include "net/curl_api.h"
#include "unit/net/web.h"

static struct web web;

static void begin(web_fn *answer)
{
    web_begin(NULL);
    web_open(&web, answer);
}

static void finish(void)
{
    web_close(&web);
    web_end();
}

static struct http_request get(const char *path)
{
    return (struct http_request){.url = web_url(&web, path)};
}

static void check_fails(const struct http_request *q, int rc, const char *says)
{
    struct fetch f = {0};
    fetch(&f, q, &fetch_collect);
    CHECK_INT(f.rc, rc);
    if (strstr(f.e.msg, says) == NULL) {
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", f.e.msg, says);
    }
    fetch_end(&f);
}

static void check_answer_fails(web_fn *answer, int rc, const char *says)
{
    begin(answer);
    struct http_request q = get("/");
    check_fails(&q, rc, says);
    finish();
}

static void answer_begin_body(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nsome");
}

// ---- hostile servers -------------------------------------------------------------------------

static void answer_endless(struct web_conn *conn, const char *head)
{
    char piece[1000];
    (void)head;
    memset(piece, 'x', sizeof piece);
    web_say(conn, "HTTP/1.1 200 OK\r\n\r\n");
    for (int i = 0; i < 20; i++) {
        web_say_bytes(conn, piece, sizeof piece);
    }
}

TEST(a_body_beyond_its_bound_ends_the_call)
{
    for (int streamed = 0; streamed < 2; streamed++) {
        begin(answer_endless);
        struct http_request q = get("/");
        struct fetch f = {0};
        q.max_body = 9999;
        fetch(&f, &q, streamed != 0 ? &fetch_stream : &fetch_collect);
        CHECK_INT(f.rc, ERR_TOO_LARGE);
        CHECK_STR(f.e.msg, "request to '127.0.0.1' failed: the body of the answer is too large");
        CHECK(f.body.n <= 9999);
        fetch_end(&f);
        finish();
    }
}

static void answer_exactly(struct web_conn *conn, const char *head)
{
    char piece[1000];
    (void)head;
    memset(piece, 'x', sizeof piece);
    web_say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        web_say_bytes(conn, piece, sizeof piece);
    }
}

TEST(a_body_of_exactly_its_bound_is_taken)
{
    begin(answer_exactly);
    struct http_request q = get("/");
    struct fetch f = {0};
    q.max_body = 10000;
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.body.n, 10000);
    fetch_end(&f);
    finish();
}

static void answer_many_headers(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 14000; i++) {
        web_say(conn, "X-Header: 0123456789\r\n");
    }
}

static void answer_many_interim(struct web_conn *conn, const char *head)
{
    (void)head;
    for (int i = 0; i < 7000; i++) {
        web_say(conn, "HTTP/1.1 103 Early Hints\r\nX-A: 0123456789\r\n\r\n");
    }
}

static void answer_many_trailers(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
    for (int i = 0; i < 14000; i++) {
        web_say(conn, "X-Header: 0123456789\r\n");
    }
}

TEST(a_head_without_end_ends_the_call)
{
    check_answer_fails(answer_many_headers, ERR_TOO_LARGE, "head of the answer is too large");
}

TEST(interim_heads_without_end_end_the_call)
{
    check_answer_fails(answer_many_interim, ERR_TOO_LARGE, "head of the answer is too large");
}

TEST(trailers_without_end_end_the_call)
{
    check_answer_fails(answer_many_trailers, ERR_TOO_LARGE, "head of the answer is too large");
}

static void answer_garbage(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn, "SSH-2.0-OpenSSH\r\n\r\n");
}

TEST(an_answer_that_is_not_http_is_refused)
{
    check_answer_fails(answer_garbage, ERR_PARSE, "the answer is not HTTP");
}

static void answer_cut(struct web_conn *conn, const char *head)
{
    answer_begin_body(conn, head);
    web_hang_up(conn);
}

static void answer_cut_chunk(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n9\r\nxx");
    web_hang_up(conn);
}

static void answer_nothing(struct web_conn *conn, const char *head)
{
    (void)head;
    web_hang_up(conn);
}

TEST(an_answer_that_is_cut_off_is_told_from_a_complete_one)
{
    check_answer_fails(answer_cut, UV_ECONNRESET, "cut off");
    check_answer_fails(answer_cut_chunk, UV_ECONNRESET, "cut off");
    check_answer_fails(answer_nothing, UV_ECONNRESET, "cut off");
}

TEST(what_came_before_the_cut_is_delivered_first)
{
    begin(answer_cut);
    struct http_request q = get("/");
    struct fetch f = {0};
    fetch(&f, &q, &fetch_stream);
    CHECK_INT(f.rc, UV_ECONNRESET);
    CHECK_SPAN(buf_str(&f.body), "some");
    fetch_end(&f);
    finish();
}

static void pause_at_head(struct fetch *f, const char *where)
{
    if (strcmp(where, "head") == 0) {
        http_client_pause(f->call, true);
    }
}

// The kernel reports an error on the socket while there is still much to read from it.
static void check_reset(const struct http_cb *cb, size_t wanted)
{
    enum { N = 100 * 1000 };
    static char bytes[N];
    begin(web_silent);
    struct http_request q = get("/");
    struct fetch f = {.hook = pause_at_head};
    fetch_begin(&f, &q, cb);
    while (web.requests == 0) {
        loop_run_once(&l, true);
    }
    web_say(web.last, "HTTP/1.1 200 OK\r\n\r\n");
    while (f.heads == 0) {
        loop_run_once(&l, true);
    }
    web_say_bytes(web.last, bytes, N);
    while (uv_stream_get_write_queue_size((uv_stream_t *)&web.last->tcp) != 0) {
        loop_run_once(&l, true); // it fits into our buffer in the kernel
    }
    web_reset(web.last);
    loop_run_once(&l, false);
    http_client_pause(f.call, false);
    fetch_wait(&f);
    CHECK_INT(f.rc, UV_ECONNRESET);
    CHECK_INT(f.body.n, wanted);
    fetch_end(&f);
    finish();
}

TEST(what_came_before_a_reset_is_delivered_as_well)
{
    check_reset(&fetch_stream, 100 * 1000);
    check_reset(&fetch_collect, 0); // nothing is complete, so nothing is shown
}

TEST(a_port_where_nobody_listens_is_refused_in_plain_words)
{
    begin(web_ok);
    struct http_request q = get("/");
    uv_close((uv_handle_t *)&web.tcp, NULL);
    check_fails(&q, UV_ECONNREFUSED,
                "request to '127.0.0.1' failed: cannot connect: connection refused");
    buf_fini(&web.head);
    web_end();
}

TEST(a_name_without_address_is_told)
{
    begin(web_ok);
    struct http_request q = {.url = "http://missing.test/"};
    check_fails(&q, UV_EAI_NONAME, "'missing.test' failed: the name of the host has no address");
    finish();
}

// ---- hostile callers -------------------------------------------------------------------------

static void check_refused(const struct http_request *q, const char *says)
{
    struct http_call *call = (void *)&web;
    struct err e = {0};
    CHECK_INT(http_client_send(&call, client, q, &fetch_collect, NULL, &e), ERR_INVALID);
    CHECK(call == NULL);
    if (strstr(e.msg, says) == NULL) {
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", e.msg, says);
    }
}

TEST(urls_that_are_not_http_or_https_are_refused)
{
    begin(web_ok);
    static const char *const rows[][2] = {
        {"example.com/x", "a URL begins with https:// or http://"},
        {"", "URL"},
        {"file:///etc/passwd", "only http and https"},
        {"ftp://127.0.0.1/", "only http and https"},
        {"gopher://127.0.0.1/", "only http and https"},
        {"http://", "the URL is malformed"},
        {"http://127.0.0.1/a b", "the URL is malformed"},
        {"http://127.0.0.1/a\r\nX: 1", "the URL is malformed"},
        {"http://127.0.0.1:99999/", "the URL is malformed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_request q = {.url = rows[i][0]};
        check_refused(&q, rows[i][1]);
    }
    finish();
}

TEST(line_breaks_in_headers_and_methods_are_refused)
{
    begin(web_ok);
    const struct {
        struct http_header h;
        const char *says;
    } rows[] = {
        {{STR("X-A"), STR("1\r\nX-B: 2")}, "the value of header 'X-A' holds a control character"},
        {{STR("X-A"), STR("1\n2")}, "control character"},
        {{STR("X-A"), STR("1\r2")}, "control character"},
        {{STR("X-A"), STR("1\0002")}, "control character"},
        {{STR("X-A: 1\r\nX-B"), STR("2")}, "a header name"},
        {{STR("X A"), STR("2")}, "a header name"},
        {{STR("X:"), STR("2")}, "a header name"},
        {{STR("X\0"), STR("2")}, "a header name"},
        {{STR(""), STR("2")}, "a header name"},
        {{STR("content-LENGTH"), STR("2")}, "cannot be set"},
        {{STR("Transfer-Encoding"), STR("chunked")}, "cannot be set"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_request q = get("/");
        q.headers = &rows[i].h;
        q.n_headers = 1;
        check_refused(&q, rows[i].says);
    }
    struct http_request q = get("/");
    q.method = "GET / HTTP/1.1\r\nX: 1\r\n\r\nGET";
    check_refused(&q, "the method");
    q.method = "HEAD";
    q.body = STR("x");
    check_refused(&q, "HEAD");
    CHECK_INT(l.n_timers, 0);
    finish();
}

// ---- the library -----------------------------------------------------------------------------

TEST(a_missing_libcurl_is_an_error_that_says_what_to_install)
{
    struct curl_api api;
    struct err e;
    CHECK_INT(curl_api_load(&api, "libcurl-that-is-not-there.so.4", &e), ERR_UNSUPPORTED);
    CHECK_STR(e.msg, "HTTPS needs libcurl: install libcurl4 (cannot load "
                     "'libcurl-that-is-not-there.so.4')");
    CHECK_INT(curl_api_load(&api, "libc.so.6", &e), ERR_UNSUPPORTED);
    CHECK_STR(e.msg, "this libcurl has no 'curl_global_init': install libcurl4 7.87 or newer");
}
