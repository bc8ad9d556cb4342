// Requests and answers on real sockets.

#include <sys/socket.h>
#include <unistd.h>

#include "unit/server/rig.h"

#define GET(path)  "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define HEAD(path) "HEAD " path " HTTP/1.1\r\nHost: x\r\n\r\n"

TEST(a_request_gets_its_answer_and_the_connection_stays)
{
    char body[512];
    rig_open(NULL);
    int fd = rig_unix();
    CHECK_INT(rig_ask(fd, GET("/healthz"), body, sizeof body), 200);
    CHECK_STR(body, "{\"op\":\"health\",\"params\":{},\"run\":1}");
    CHECK_INT(rig_ask(fd, GET("/healthz"), body, sizeof body), 200);
    CHECK_STR(body, "{\"op\":\"health\",\"params\":{},\"run\":2}");
    close(fd);
    rig_close();
}

TEST(an_answer_has_date_type_length_and_no_sniffing)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, GET("/healthz"));
    rig_read(fd, false, &a);
    CHECK_SPAN(http1_get(&a.head, "date"), "Sun, 15 Nov 2026 05:17:52 GMT");
    CHECK_SPAN(http1_get(&a.head, "content-type"), "application/json");
    CHECK_SPAN(http1_get(&a.head, "x-content-type-options"), "nosniff");
    CHECK_SPAN(http1_get(&a.head, "cache-control"), "no-store");
    CHECK(http1_get(&a.head, "connection").p == NULL);
    CHECK(http1_get(&a.head, "access-control-allow-origin").p == NULL);
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(the_build_is_named_over_the_socket_only)
{
    struct answer a;
    char request[128];
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, GET("/healthz"));
    rig_read(fd, false, &a);
    CHECK_SPAN(http1_get(&a.head, "afloat-build"), "b1");
    answer_fini(&a);
    close(fd);
    fd = rig_tcp();
    snprintf(request, sizeof request, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", rig_host());
    rig_put(fd, request);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 200);
    CHECK(http1_get(&a.head, "afloat-build").p == NULL);
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(pipelined_requests_are_answered_in_order)
{
    struct answer a;
    char want[96];
    rig_open(NULL);
    int fd = rig_unix();
    char all[64 * 40];
    all[0] = '\0';
    for (int i = 1; i <= 40; i++) {
        snprintf(all + strlen(all), sizeof all - strlen(all),
                 "GET /logs?limit=%d HTTP/1.1\r\nHost: x\r\n\r\n", i);
    }
    rig_put(fd, all);
    for (int i = 1; i <= 40; i++) {
        rig_read(fd, false, &a);
        snprintf(want, sizeof want, "{\"op\":\"logs\",\"params\":{\"limit\":%d},\"run\":%d}", i, i);
        CHECK_SPAN(buf_str(&a.body), want);
        answer_fini(&a);
    }
    close(fd);
    rig_close();
}

TEST(a_slow_operation_keeps_those_behind_it_waiting)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, GET("/doctor") GET("/healthz") GET("/doctor") GET("/logs"));
    rig_turn();
    CHECK_INT(rig.n_held, 1);
    CHECK_INT(rig.runs[OP_HEALTH], 0);
    rig_answer(0, 200, "{\"first\":1}");
    rig_read(fd, false, &a);
    CHECK_SPAN(buf_str(&a.body), "{\"first\":1}");
    answer_fini(&a);
    rig_read(fd, false, &a);
    CHECK(strstr(buf_z(&a.body), "health") != NULL);
    answer_fini(&a);
    CHECK_INT(rig.n_held, 1);
    rig_answer(0, 200, "{\"second\":1}");
    rig_read(fd, false, &a);
    CHECK_SPAN(buf_str(&a.body), "{\"second\":1}");
    answer_fini(&a);
    rig_read(fd, false, &a);
    CHECK(strstr(buf_z(&a.body), "logs") != NULL);
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(a_peer_that_pipelines_without_end_is_no_longer_read)
{
    struct server_limits few = server_default_limits;
    few.ahead_bytes = 4096;
    rig_open(&few);
    int fd = rig_unix();
    rig_put(fd, GET("/doctor"));
    static char flood[1 << 16];
    memset(flood, 'x', sizeof flood);
    size_t sent = 0;
    ssize_t n = 1;
    for (int idle = 0; idle<50; idle = n> 0 ? 0 : idle + 1) {
        n = write(fd, flood, sizeof flood);
        sent += n > 0 ? (size_t)n : 0;
        CHECK(sent < 4 << 20); // the kernel's buffers, not our memory
        rig_turn();
    }
    CHECK(!uv_is_active(&rig.server->conns->io.handle));
    close(fd);
    rig_close();
}

TEST(head_has_the_length_of_get_and_no_body)
{
    struct answer get, head;
    rig_open(NULL);
    rig.big = 5000;
    int fd = rig_unix();
    rig_put(fd, GET("/openapi.json"));
    rig_read(fd, false, &get);
    rig_put(fd, HEAD("/openapi.json") GET("/healthz"));
    rig_read(fd, true, &head);
    CHECK_INT(get.head.length, 5000);
    CHECK_INT(head.head.length, 5000);
    CHECK_INT(get.body.n, 5000);
    CHECK_INT(head.body.n, 0);
    answer_fini(&get);
    answer_fini(&head);
    rig_read(fd, false, &get); // the next answer follows at once
    CHECK_INT(get.head.status, 200);
    answer_fini(&get);
    close(fd);
    rig_close();
}

TEST(a_chunked_body_is_read)
{
    char body[512];
    rig_open(NULL);
    CHECK_INT(
        rig_ask_unix("POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n"
                     "5;ext=1\r\n{\"typ\r\nd\r\ne\":\"user.abc\"\r\n1\r\n}\r\n0\r\nX-T: y\r\n\r\n",
                     body, sizeof body),
        201);
    CHECK_STR(body, "{\"id\":7}");
    rig_close();
}

TEST(a_created_thing_has_a_location)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd,
            "POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json; charset=UTF-8\r\n"
            "Content-Length: 17\r\n\r\n{\"type\":\"user.a\"}");
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 201);
    CHECK_SPAN(http1_get(&a.head, "location"), "/events/7");
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(expect_is_answered_before_the_body_is_sent)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, "POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Content-Length: 17\r\nExpect: 100-continue\r\n\r\n");
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 100);
    answer_fini(&a);
    rig_put(fd, "{\"type\":\"user.a\"}");
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 201);
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(a_refused_request_is_told_so_instead_of_continue)
{
    rig_open(NULL);
    CHECK_INT(rig_ask_unix("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n"
                           "Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n",
                           NULL, 0),
              404);
    CHECK_INT(rig_ask_unix("POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n"
                           "Content-Type: application/json\r\nExpect: a-miracle\r\n\r\n",
                           NULL, 0),
              417);
    rig_close();
}

TEST(http_1_0_closes_unless_asked_to_stay)
{
    char body[64];
    rig_open(NULL);
    int fd = rig_unix();
    CHECK_INT(rig_ask(fd, "GET /healthz HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
                      body, sizeof body),
              200);
    CHECK_INT(rig_ask(fd, "GET /healthz HTTP/1.0\r\nHost: x\r\n\r\n", body, sizeof body), 200);
    CHECK(rig_at_end(fd));
    close(fd);
    rig_close();
}

TEST(a_half_closed_client_still_gets_its_answers)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, GET("/doctor") GET("/healthz"));
    shutdown(fd, SHUT_WR);
    rig_turn();
    rig_turn();
    rig_answer(0, 200, "{}");
    rig_read(fd, false, &a);
    answer_fini(&a);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 200);
    answer_fini(&a);
    CHECK(rig_at_end(fd));
    close(fd);
    rig_close();
}

TEST(an_answer_to_a_client_that_left_is_dropped)
{
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, GET("/doctor"));
    rig_turn();
    CHECK_INT(rig.n_held, 1);
    close(fd);
    rig_turn();
    rig_turn();
    rig_answer(0, 200, "{}");
    rig_close();
}

TEST(a_large_answer_arrives_whole_and_in_order_though_nobody_reads_at_first)
{
    struct answer a;
    rig_open(NULL);
    rig.big = 8 << 20;
    int fd = rig_unix();
    rig_put(fd, GET("/openapi.json") GET("/healthz"));
    for (int i = 0; i < 20; i++) {
        rig_turn();
    }
    CHECK_INT(rig.runs[OP_HEALTH], 0); // it waits until the first has left
    rig_read(fd, false, &a);
    CHECK_INT(a.body.n, 8 << 20);
    answer_fini(&a);
    rig_read(fd, false, &a);
    CHECK(strstr(buf_z(&a.body), "health") != NULL);
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(other_methods_are_told_what_is_allowed)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, "DELETE /events HTTP/1.1\r\nHost: x\r\n\r\n");
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 405);
    CHECK_SPAN(http1_get(&a.head, "allow"), "GET, HEAD, POST, OPTIONS");
    CHECK_SPAN(http1_get(&a.head, "content-type"), "application/problem+json");
    CHECK(strstr(buf_z(&a.body), "\"code\":\"METHOD_NOT_ALLOWED\"") != NULL);
    answer_fini(&a);
    rig_put(fd, "OPTIONS /feature/a/enable HTTP/1.1\r\nHost: x\r\n\r\n");
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 204);
    CHECK_SPAN(http1_get(&a.head, "allow"), "POST, OPTIONS");
    CHECK(!a.head.has_length);
    answer_fini(&a);
    CHECK_INT(rig_ask(fd, "TRACE /events HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 405);
    CHECK_INT(rig_ask(fd, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 204);
    CHECK_INT(rig_ask(fd, "OPTIONS /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 404);
    close(fd);
    rig_close();
}

TEST(parameters_come_from_path_query_and_body)
{
    static const struct {
        const char *request;
        int status;
        const char *part;
    } table[] = {
        {GET("/logs?limit=5"), 200, "{\"limit\":5}"},
        {GET("/logs"), 200, "\"params\":{}"},
        {GET("/logs?"), 200, "\"params\":{}"},
        {GET("/logs?limit=five"), 400, "must be integer, not string"},
        {GET("/logs?limit=5&limit=6"), 400, "'limit' is given twice"},
        {GET("/logs?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q&r&s&t&u&v&w&x&y&z&A&B&C&D&E&F&G"), 400,
         "the query has more than 32 parameters"},
        {GET("/logs?limt=5"), 400, "did you mean 'limit'?"},
        {GET("/logs?limit=%zz"), 400, "INVALID_REQUEST"},
        {GET("/logs?limit=%00"), 400, "INVALID_REQUEST"},
        {GET("/logs?=5"), 400, "INVALID_REQUEST"},
        {GET("/logs?limit=%35"), 200, "{\"limit\":5}"},
        {GET("/feature/a"), 404, "NOT_FOUND"},
        {"POST /feature/a%20b%2Fc/enable HTTP/1.1\r\nHost: x\r\n\r\n", 200, "\"a b/c\""},
        {"POST /feature/a+b/enable HTTP/1.1\r\nHost: x\r\n\r\n", 200, "\"a+b\""},
        {"POST /feature/5/enable HTTP/1.1\r\nHost: x\r\n\r\n", 200, "{\"name\":\"5\"}"},
        {"POST /feature/%00/enable HTTP/1.1\r\nHost: x\r\n\r\n", 400, "INVALID_REQUEST"},
        {"POST /feature/%ff/enable HTTP/1.1\r\nHost: x\r\n\r\n", 400, "INVALID_REQUEST"},
        {"POST /feature/%4/enable HTTP/1.1\r\nHost: x\r\n\r\n", 400, "INVALID_REQUEST"},
        {"POST /feature/../enable HTTP/1.1\r\nHost: x\r\n\r\n", 404, "NOT_FOUND"},
        {"POST /feature/%2e%2E/enable HTTP/1.1\r\nHost: x\r\n\r\n", 404, "NOT_FOUND"},
        {"POST /feature//enable HTTP/1.1\r\nHost: x\r\n\r\n", 404, "NOT_FOUND"},
        {"POST /feature/a/enable?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "INVALID_REQUEST"},
        {"POST /events HTTP/1.1\r\nHost: x\r\n\r\n", 400, "'type' is missing"},
        {"POST /feature/a/enable HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
         "Content-Length: 12\r\n\r\n{\"name\":\"b\"}",
         400, "comes from the address"},
        {"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: "
         "2\r\n\r\n{}",
         415, "UNSUPPORTED_MEDIA_TYPE"},
        {"POST /events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
         "chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
         415, "UNSUPPORTED_MEDIA_TYPE"},
        {"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
         "Content-Length: 2\r\n\r\n{,",
         400, "INVALID_JSON"},
        {"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/vnd.x+json\r\n"
         "Content-Length: 2\r\n\r\n[]",
         400, "must be an object, not array"},
        {"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 400,
         "must not have a body"},
    };
    char body[1024];
    rig_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        int status = rig_ask_unix(table[i].request, body, sizeof body);
        if (status != table[i].status || strstr(body, table[i].part) == NULL) {
            test_fail(__FILE__, __LINE__, "%s\n -> %d %s", table[i].request, status, body);
        }
    }
    rig_close();
}

TEST(a_closing_server_ends_idle_connections_and_lets_a_request_finish)
{
    struct answer a;
    rig_open(NULL);
    int idle = rig_unix(), busy = rig_unix();
    rig_put(busy, GET("/doctor"));
    rig_turn();
    CHECK_INT(rig.n_held, 1);
    server_close(rig.server, 5000, NULL, NULL);
    rig_turn();
    CHECK(rig_at_end(idle));
    CHECK(access(rig.socket, F_OK) < 0);
    rig_answer(0, 200, "{}");
    rig_read(busy, false, &a);
    CHECK_INT(a.head.status, 200);
    CHECK(!a.head.keep_alive);
    answer_fini(&a);
    CHECK(rig_at_end(busy));
    close(idle);
    close(busy);
    for (int i = 0; i < 5; i++) {
        rig_turn();
    }
    event_close(rig.events);
    rig_turn();
    struct err e;
    CHECK_INT(loop_close(&rig.loop, &e), 0);
}

TEST(an_operation_may_answer_after_the_server_is_gone)
{
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, GET("/doctor"));
    rig_turn();
    struct op_call *late = rig.held[0];
    rig.n_held = 0;
    rig_close();
    op_answer(late, 200, STR("{}"));
    close(fd);
}
