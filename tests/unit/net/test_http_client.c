#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/net/web.h"

static struct web web;
static struct test_clock now;

static void begin(web_fn *answer)
{
    web_begin(NULL);
    web_open(&web, answer);
}

/// With a clock that stands.
static void begin_at_rest(web_fn *answer)
{
    test_clock_init(&now);
    web_begin(&now.clock);
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

// ---- what is sent and what comes back --------------------------------------------------------

static void answer_with_headers(struct web_conn *conn, const char *head)
{
    CHECK(str_starts(str_of(head), "GET /x?y=1 HTTP/1.1\r\n"));
    CHECK(web_header(head, "User-Agent: afloat/test"));
    CHECK(web_header(head, "X-One: a b"));
    CHECK(web_header(head, "X-Empty:"));
    CHECK(strcasestr(head, "accept-encoding") == NULL);
    CHECK(strcasestr(head, "content-") == NULL);
    web_say(conn, "HTTP/1.1 100 Continue\r\nX-No: 1\r\n\r\n"
                  "HTTP/1.1 404 Not Found\r\nX-A:  1 \r\nx-a: 2\r\nX-B:\r\n"
                  "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain");
}

TEST(get_brings_status_headers_and_body_as_they_were_sent)
{
    begin(answer_with_headers);
    struct http_header headers[] = {{STR("X-One"), STR("a b")}, {STR("X-Empty"), STR("")}};
    struct http_request q = get("/x?y=1");
    struct fetch f = {0};
    q.headers = headers;
    q.n_headers = 2;
    fetch(&f, &q, &fetch_collect);
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.status, 404);
    CHECK_STR(buf_z(&f.head), "X-A=1\nx-a=2\nX-B=\nContent-Encoding=gzip\nContent-Length=5\n");
    CHECK_SPAN(buf_str(&f.body), "plain");
    fetch_end(&f);
    finish();
}

static void answer_echo(struct web_conn *conn, const char *head)
{
    char text[128];
    CHECK(web_header(head, "Content-Type: application/json"));
    CHECK(strcasestr(head, "expect:") == NULL);
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", conn->body.n);
    web_say(conn, text);
    web_say_bytes(conn, conn->body.p, conn->body.n);
}

TEST(a_body_of_three_megabytes_is_sent_and_comes_back_equal)
{
    begin(answer_echo);
    size_t n = 3 << 20;
    char *bytes = xmalloc(n);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (char)(i * 7 + i / 1000);
    }
    struct http_header type = {STR("Content-Type"), STR("application/json")};
    struct http_request q = get("/");
    struct fetch f = {0};
    q.method = "POST";
    q.headers = &type;
    q.n_headers = 1;
    q.body = (struct str){bytes, n};
    fetch_begin(&f, &q, &fetch_collect);
    memset(bytes, 0, 100); // it was copied
    fetch_wait(&f);
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.body.n, n);
    CHECK(f.body.p[1] == 7 && memcmp(f.body.p + 100, bytes + 100, n - 100) == 0);
    fetch_end(&f);
    free(bytes);
    finish();
}

static void answer_method(struct web_conn *conn, const char *head)
{
    CHECK(strcasestr(head, "content-type") == NULL);
    web_say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
    if (!str_starts(str_of(head), "HEAD ")) {
        web_say_bytes(conn, head, 3);
    }
}

TEST(other_methods_pass_and_head_has_no_body)
{
    begin(answer_method);
    static const struct {
        const char *method, *body, *length;
    } rows[] = {{"PUT", "PUT", "Content-Length: 0"},
                {"DELETE", "DEL", NULL},
                {"PATCH", "PAT", "Content-Length: 0"},
                {"HEAD", "", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_request q = get("/");
        struct fetch f = {0};
        q.method = rows[i].method;
        fetch(&f, &q, &fetch_collect);
        CHECK_INT(f.rc, 0);
        CHECK_SPAN(buf_str(&f.body), rows[i].body);
        CHECK_INT(strcasestr(buf_z(&web.head), "content-length") != NULL, rows[i].length != NULL);
        fetch_end(&f);
    }
    CHECK_INT(web.accepts, 1);
    finish();
}

TEST(a_body_in_one_byte_chunks_arrives_as_it_is_sent)
{
    begin(web_silent);
    struct http_request q = get("/");
    struct fetch f = {0};
    fetch_begin(&f, &q, &fetch_stream);
    while (web.requests == 0) {
        loop_run_once(&l, true);
    }
    web_say(web.last, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t i = 0; i < 300; i++) {
        const char *piece = "1\r\nx\r\n"; // each byte of it is a write of its own
        for (size_t k = 0; k < 6; k++) {
            web_say_bytes(web.last, piece + k, 1);
            loop_run_once(&l, true);
        }
        while (f.body.n != i + 1) { // before the next one is sent
            loop_run_once(&l, true);
        }
    }
    web_say(web.last, "0\r\nHTTP/1.1: 500\r\nX-Trailer: 1\r\n\r\n");
    fetch_wait(&f);
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.status, 200);
    CHECK_INT(f.bodies, 300);
    fetch_end(&f);
    finish();
}

// ---- back-pressure ---------------------------------------------------------------------------

enum { FLOOD = 24 << 20 };

static void answer_flood(struct web_conn *conn, const char *head)
{
    char *bytes = xcalloc(1, FLOOD);
    (void)head;
    web_say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 25165824\r\n\r\n");
    web_say_bytes(conn, bytes, FLOOD);
    free(bytes);
}

static void pause_at_first_piece(struct fetch *f, const char *where)
{
    if (strcmp(where, "body") == 0 && f->bodies == 1) {
        http_client_pause(f->call, true);
    }
}

static void turn(int n)
{
    for (int i = 0; i < n; i++) {
        loop_run_once(&l, false);
    }
}

static void pause_at_head(struct fetch *f, const char *where)
{
    if (strcmp(where, "head") == 0) {
        http_client_pause(f->call, true);
    }
}

static void check_held_back(const struct http_cb *cb)
{
    begin(answer_flood);
    struct http_request q = get("/");
    struct fetch f = {.hook = cb == &fetch_stream ? pause_at_first_piece : pause_at_head};
    q.max_body = FLOOD;
    fetch_begin(&f, &q, cb);
    while (f.heads == 0 || (cb == &fetch_stream && f.bodies == 0)) {
        loop_run_once(&l, true);
    }
    size_t got = f.body.n;
    turn(2000);
    CHECK_INT(f.body.n, got);
    CHECK(uv_stream_get_write_queue_size((uv_stream_t *)&web.last->tcp) > FLOOD / 4);
    http_client_pause(f.call, false);
    CHECK_INT(f.body.n, got); // not from inside the call
    fetch_wait(&f);
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.body.n, FLOOD);
    CHECK(f.most <= 96 * 1024);
    fetch_end(&f);
    finish();
}

TEST(a_paused_call_holds_the_server_back_until_it_goes_on)
{
    check_held_back(&fetch_stream);
    check_held_back(&fetch_collect);
}

TEST(a_call_paused_at_its_head_keeps_body_and_end_for_later)
{
    for (int streamed = 0; streamed < 2; streamed++) {
        begin(web_ok);
        struct http_request q = get("/");
        struct fetch f = {.hook = pause_at_head};
        fetch_begin(&f, &q, streamed != 0 ? &fetch_stream : &fetch_collect);
        while (f.heads == 0) {
            loop_run_once(&l, true);
        }
        turn(200);
        CHECK_INT(f.bodies + f.dones, 0);
        http_client_pause(f.call, false);
        fetch_wait(&f);
        CHECK_INT(f.rc, 0);
        CHECK_SPAN(buf_str(&f.body), "hello");
        fetch_end(&f);
        finish();
    }
}

static void pause_and_go_on(struct fetch *f, const char *where)
{
    if (strcmp(where, "done") != 0) {
        http_client_pause(f->call, true);
        http_client_pause(f->call, false);
    }
}

TEST(pausing_and_going_on_inside_each_callback_loses_nothing)
{
    begin(answer_flood);
    struct http_request q = get("/");
    struct fetch f = {.hook = pause_and_go_on};
    fetch(&f, &q, &fetch_stream);
    CHECK_INT(f.rc, 0);
    CHECK_INT(f.body.n, FLOOD);
    fetch_end(&f);
    finish();
}

// ---- cancel ----------------------------------------------------------------------------------

static const char *cancel_at;

static void cancel_there(struct fetch *f, const char *where)
{
    if (strcmp(where, cancel_at) == 0) {
        http_client_cancel(f->call);
        http_client_cancel(f->call); // twice does no harm in here
        http_client_pause(f->call, false);
    }
}

static void answer_begin_body(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nsome");
}

TEST(a_call_can_be_cancelled_inside_each_of_its_callbacks)
{
    static const struct {
        const char *where;
        int heads, bodies, dones;
    } rows[] = {{"head", 1, 0, 0}, {"body", 1, 1, 0}, {"done", 1, 1, 1}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin(strcmp(rows[i].where, "done") == 0 ? web_ok : answer_begin_body);
        struct http_request q = get("/");
        struct fetch f = {.hook = cancel_there};
        q.timeout_ms = q.idle_ms = 20000;
        cancel_at = rows[i].where;
        fetch_begin(&f, &q, &fetch_stream);
        while (f.heads < rows[i].heads || f.bodies < rows[i].bodies || f.dones < rows[i].dones) {
            loop_run_once(&l, true);
        }
        turn(50);
        CHECK(f.heads == rows[i].heads && f.bodies == rows[i].bodies && f.dones == rows[i].dones);
        fetch_end(&f);
        finish();
    }
}

static bool never(const struct fetch *f)
{
    (void)f;
    return true;
}

static bool asked(const struct fetch *f)
{
    (void)f;
    return web.requests == 1;
}

static bool has_body(const struct fetch *f)
{
    return f->body.n != 0;
}

TEST(a_call_can_be_cancelled_from_outside_in_each_state)
{
    static const struct {
        web_fn *answer;
        bool (*reached)(const struct fetch *f);
        void (*hook)(struct fetch *f, const char *where);
        int turns; // after that
    } rows[] = {
        {web_silent, never, NULL, 0},                        // not begun
        {web_silent, never, NULL, 1},                        // connecting
        {web_silent, asked, NULL, 0},                        // waiting for the head
        {answer_begin_body, has_body, NULL, 0},              // in the body
        {answer_flood, has_body, pause_at_first_piece, 300}, // paused, and curl told to wait
        {web_ok, has_body, pause_at_first_piece, 300},       // complete but paused
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin(rows[i].answer);
        struct http_request q = get("/");
        struct fetch f = {.hook = rows[i].hook};
        q.timeout_ms = q.idle_ms = 20000;
        fetch_begin(&f, &q, &fetch_stream);
        while (!rows[i].reached(&f)) {
            loop_run_once(&l, true);
        }
        turn(rows[i].turns);
        CHECK_INT(f.dones, 0);
        http_client_cancel(f.call);
        turn(50);
        CHECK_INT(f.dones, 0);
        fetch_end(&f);
        finish();
    }
}

TEST(a_call_can_be_cancelled_while_news_of_it_wait)
{
    begin(web_ok);
    struct http_request q = get("/");
    struct fetch f = {.hook = pause_at_head};
    fetch_begin(&f, &q, &fetch_stream);
    while (f.heads == 0) {
        loop_run_once(&l, true);
    }
    turn(20);
    http_client_pause(f.call, false);
    http_client_cancel(f.call);
    turn(20);
    CHECK_INT(f.bodies + f.dones, 0);
    fetch_end(&f);
    finish();
}

TEST(a_name_server_that_hangs_holds_up_neither_cancel_nor_time_out)
{
    begin(web_ok);
    struct fetch f = {0}, g = {0};
    struct http_request q = {.url = "http://slow.test/"};
    fetch_begin(&f, &q, &fetch_collect);
    web_dns_await();
    http_client_cancel(f.call); // would wait for ever
    q.connect_ms = 20;
    fetch(&g, &q, &fetch_collect);
    CHECK_INT(g.rc, ERR_TIMEOUT);
    struct http_request other = get("/");
    struct fetch h = {0};
    fetch(&h, &other, &fetch_collect);
    CHECK_INT(h.rc, 0);
    web_dns_release();
    web_dns_release();
    fetch_end(&f);
    fetch_end(&g);
    fetch_end(&h);
    finish();
}

static void close_there(struct fetch *f, const char *where)
{
    (void)f;
    if (strcmp(where, cancel_at) == 0) {
        http_client_close(client);
        client = NULL;
    }
}

TEST(the_client_can_be_closed_inside_each_callback_with_other_calls_under_way)
{
    static const char *const places[] = {"head", "body", "done"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        begin(web_ok);
        struct http_request q = get("/");
        struct fetch f = {.hook = close_there}, others[3] = {{0}};
        struct web silent;
        web_open(&silent, web_silent);
        struct http_request wait = {.url = web_url(&silent, "/"), .idle_ms = 9000};
        cancel_at = places[i];
        for (size_t k = 0; k < ARRAY_LEN(others); k++) {
            fetch_begin(&others[k], &wait, &fetch_collect);
        }
        while (silent.requests < 3) {
            loop_run_once(&l, true);
        }
        fetch_begin(&f, &q, &fetch_stream);
        while (client != NULL) {
            loop_run_once(&l, true);
        }
        while (silent.closes < 3) { // its connections went with it
            loop_run_once(&l, true);
        }
        for (size_t k = 0; k < ARRAY_LEN(others); k++) {
            CHECK_INT(others[k].dones, 0);
            fetch_end(&others[k]);
        }
        fetch_end(&f);
        web_close(&silent);
        finish();
    }
}

static struct fetch chained;

static void send_another(struct fetch *f, const char *where)
{
    (void)f;
    if (strcmp(where, "body") == 0) {
        struct http_request q = get("/second");
        fetch_begin(&chained, &q, &fetch_collect);
    }
}

TEST(a_call_can_begin_inside_the_callback_of_another)
{
    begin(web_ok);
    struct http_request q = get("/first");
    struct fetch f = {.hook = send_another};
    fetch(&f, &q, &fetch_stream);
    fetch_wait(&chained);
    CHECK_INT(chained.rc, 0);
    CHECK_SPAN(buf_str(&chained.body), "hello");
    fetch_end(&f);
    fetch_end(&chained);
    finish();
}

// ---- time ------------------------------------------------------------------------------------

TEST(a_call_ends_when_its_whole_time_is_up_even_while_paused)
{
    for (int paused = 0; paused < 2; paused++) {
        begin_at_rest(answer_begin_body);
        struct http_request q = get("/");
        struct fetch f = {.hook = paused != 0 ? pause_at_first_piece : NULL};
        q.timeout_ms = 5000;
        fetch_begin(&f, &q, &fetch_stream);
        while (f.bodies == 0) {
            loop_run_once(&l, true);
        }
        test_clock_advance(&now, &l, 4999);
        turn(20);
        CHECK_INT(f.dones, 0);
        test_clock_advance(&now, &l, 1);
        fetch_wait(&f);
        CHECK_INT(f.rc, ERR_TIMEOUT);
        CHECK_STR(f.e.msg, "request to '127.0.0.1' failed: no complete answer within 5000 ms");
        fetch_end(&f);
        finish();
    }
}

TEST(a_stalled_answer_ends_but_one_with_a_byte_now_and_then_goes_on)
{
    begin_at_rest(answer_begin_body);
    struct http_request q = get("/");
    struct fetch f = {0};
    q.idle_ms = 1000;
    fetch_begin(&f, &q, &fetch_stream);
    while (f.bodies == 0) {
        loop_run_once(&l, true);
    }
    for (size_t i = 0; i < 10; i++) {
        size_t had = f.body.n;
        test_clock_advance(&now, &l, 900);
        web_say(web.last, "x");
        while (f.body.n == had) {
            CHECK_INT(f.dones, 0);
            loop_run_once(&l, true);
        }
    }
    http_client_pause(f.call, true); // our own pause is not the server's fault
    test_clock_advance(&now, &l, 60000);
    turn(20);
    CHECK_INT(f.dones, 0);
    http_client_pause(f.call, false);
    test_clock_advance(&now, &l, 999);
    turn(20);
    CHECK_INT(f.dones, 0);
    test_clock_advance(&now, &l, 1);
    fetch_wait(&f);
    CHECK_INT(f.rc, ERR_TIMEOUT);
    CHECK_STR(f.e.msg, "request to '127.0.0.1' failed: no byte came or went within 1000 ms");
    fetch_end(&f);
    finish();
}

TEST(an_upload_that_moved_is_no_stall_until_it_stops_moving)
{
    begin_at_rest(web_silent);
    size_t n = 32 << 20; // more than the kernel takes
    char *bytes = xcalloc(1, n);
    struct http_request q = get("/");
    struct fetch f = {0};
    web.deaf = true;
    q.method = "POST";
    q.body = (struct str){bytes, n};
    q.idle_ms = 1000;
    fetch_begin(&f, &q, &fetch_collect);
    free(bytes);
    while (web.accepts == 0) {
        loop_run_once(&l, true);
    }
    turn(500);
    test_clock_advance(&now, &l, 1000);
    turn(20);
    CHECK_INT(f.dones, 0);
    test_clock_advance(&now, &l, 1000);
    fetch_wait(&f);
    CHECK_INT(f.rc, ERR_TIMEOUT);
    fetch_end(&f);
    finish();
}

TEST(a_server_that_does_not_accept_is_given_up_after_connect_ms)
{
    begin(web_ok);
    int fd = socket(AF_INET, SOCK_STREAM, 0), fill[4];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    CHECK(bind(fd, (struct sockaddr *)&a, n) == 0 && listen(fd, 0) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    for (size_t i = 0; i < ARRAY_LEN(fill); i++) { // a full queue: the kernel drops what else comes
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fill[i], (struct sockaddr *)&a, n);
    }
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(a.sin_port));
    struct http_request q = {.url = url, .connect_ms = 30};
    check_fails(&q, ERR_TIMEOUT, "no connection in time");
    for (size_t i = 0; i < ARRAY_LEN(fill); i++) {
        close(fill[i]);
    }
    close(fd);
    finish();
}

static size_t n_fds(void)
{
    size_t n = 0;
    for (int i = 0; i < 1024; i++) {
        n += fcntl(i, F_GETFD) != -1;
    }
    return n;
}

TEST(a_minute_after_the_last_call_neither_timer_nor_connection_is_left)
{
    begin_at_rest(web_ok);
    size_t before = n_fds();
    CHECK_INT(l.n_timers, 0);
    struct http_request q = get("/");
    for (int i = 0; i < 2; i++) {
        struct fetch f = {0};
        fetch(&f, &q, &fetch_collect);
        turn(20);
        CHECK_INT(l.n_timers, 1);
        test_clock_advance(&now, &l, 59999);
        turn(20);
        CHECK_INT(web.closes, i);
        test_clock_advance(&now, &l, 1);
        while (web.closes == i) {
            loop_run_once(&l, true);
        }
        turn(20);
        CHECK_INT(l.n_timers, 0);
        CHECK_INT(n_fds(), before);
        fetch_end(&f);
    }
    CHECK_INT(web.accepts, 2);
    finish();
}

TEST(a_call_that_begins_within_that_minute_keeps_the_connections)
{
    begin_at_rest(web_ok);
    struct http_request q = get("/");
    struct fetch f = {0}, g = {0};
    fetch(&f, &q, &fetch_collect);
    test_clock_advance(&now, &l, 59999);
    web.answer = web_silent;
    fetch_begin(&g, &q, &fetch_collect);
    while (web.requests < 2) {
        loop_run_once(&l, true);
    }
    test_clock_advance(&now, &l, 100 * 1000);
    turn(20);
    web_ok(web.last, "");
    fetch_wait(&g);
    CHECK_INT(g.rc, 0);
    CHECK_INT(web.accepts, 1);
    fetch_end(&f);
    fetch_end(&g);
    finish();
}

// ---- many ------------------------------------------------------------------------------------

TEST(calls_after_each_other_share_one_connection)
{
    begin(web_ok);
    struct http_request q = get("/");
    for (int i = 0; i < 20; i++) {
        struct fetch f = {0};
        fetch(&f, &q, &fetch_collect);
        CHECK_INT(f.rc, 0);
        fetch_end(&f);
    }
    CHECK_INT(web.requests, 20);
    CHECK_INT(web.accepts, 1);
    finish();
}

static void answer_all_at_once(struct web_conn *conn, const char *head)
{
    (void)conn;
    if (web.requests == 100) { // all are under way together
        for (struct web_conn *c = web.conns; c != NULL; c = c->next) {
            web_ok(c, head);
        }
    }
}

TEST(a_hundred_calls_are_under_way_together)
{
    begin(answer_all_at_once);
    struct http_request q = get("/");
    static struct fetch f[100];
    for (size_t i = 0; i < 100; i++) {
        fetch_begin(&f[i], &q, &fetch_collect);
    }
    for (size_t i = 0; i < 100; i++) {
        fetch_wait(&f[i]);
        CHECK_INT(f[i].rc, 0);
        CHECK_SPAN(buf_str(&f[i].body), "hello");
        fetch_end(&f[i]);
    }
    CHECK_INT(web.accepts, 100);
    finish();
}

TEST(without_descriptors_a_call_fails_and_the_next_one_works)
{
    begin(web_ok);
    struct http_request q = get("/");
    struct fetch f = {0};
    fetch(&f, &q, &fetch_collect); // libcurl is loaded
    http_client_close(client);
    client = http_client_open(&l, "afloat/test");
    struct rlimit limit, none;
    struct err e = {0};
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = limit.rlim_max};
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct fetch g = {.on = client};
    buf_init(&g.head, 100);
    buf_init(&g.body, 100);
    if (http_client_send(&g.call, client, &q, &fetch_collect, &g, &e) == 0) {
        fetch_wait(&g);
        CHECK(g.rc < 0 && strstr(g.e.msg, "failed") != NULL);
    }
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct fetch h = {0};
    fetch(&h, &q, &fetch_collect);
    CHECK_INT(h.rc, 0);
    fetch_end(&f);
    fetch_end(&g);
    fetch_end(&h);
    finish();
}
