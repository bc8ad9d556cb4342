// Bounds of size, number and time.

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/server/rig.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static int ask_filled(const char *begin, size_t n, const char *end)
{
    char *all = xmalloc(strlen(begin) + n + strlen(end) + 1);
    size_t at = strlen(begin);
    memcpy(all, begin, at);
    memset(all + at, 'a', n);
    memcpy(all + at + n, end, strlen(end) + 1);
    int status = rig_ask_unix(all, NULL, 0);
    free(all);
    return status;
}

TEST(sizes_at_the_bound_pass_and_beyond_it_do_not)
{
    struct server_limits l = server_default_limits;
    l.body_bytes = 1000;
    rig_open(&l);
    CHECK_INT(ask_filled("GET /", 8 * 1024 - 16, " HTTP/1.1\r\nHost: x\r\n\r\n"), 404);
    CHECK_INT(ask_filled("GET /", 8 * 1024 - 15, " HTTP/1.1\r\nHost: x\r\n\r\n"), 414);
    CHECK_INT(ask_filled("GET /healthz HTTP/1.1\r\nHost: x\r\nA: ", 32 * 1024 - 42, "\r\n\r\n"),
              200);
    CHECK_INT(ask_filled("GET /healthz HTTP/1.1\r\nHost: x\r\nA: ", 32 * 1024 - 38, "\r\n\r\n"),
              431);
    CHECK_INT(ask_filled("GET /", 100000, " HTTP/1.1\r\nHost: x\r\n\r\n"), 414);
    CHECK_INT(ask_filled("POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         "Content-Length: 1000\r\n\r\n",
                         1000, ""),
              400); // read, and no JSON
    CHECK_INT(ask_filled("POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         "Content-Length: 1001\r\n\r\n",
                         0, ""),
              413); // before any of it is sent
    CHECK_INT(ask_filled("POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n3e9\r\n",
                         1001, "\r\n0\r\n\r\n"),
              413);
    rig_close();
}

TEST(a_body_of_very_many_fields_takes_no_longer_than_reading_it)
{
    enum { FIELDS = 100000 };
    struct buf body, request;
    buf_init(&body, 4 << 20);
    buf_init(&request, 8 << 20);
    buf_addz(&body, "{\"type\":\"user.x\"");
    for (unsigned i = 0; i < FIELDS; i++) {
        buf_addf(&body, ",\"%x\":1", i);
    }
    buf_addc(&body, '}');
    buf_addf(&request,
             "POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n",
             body.n);
    buf_adds(&request, buf_str(&body));
    rig_open(NULL);
    uint64_t begin = test_cpu_ns();
    CHECK_INT(rig_ask_unix(buf_z(&request), NULL, 0), 400);
    CHECK(test_cpu_ns() - begin < UINT64_C(4000000000));
    rig_close();
    buf_fini(&body);
    buf_fini(&request);
}

TEST(the_answer_to_a_body_too_large_reaches_a_client_that_still_sends)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    static char mega[1 << 20];
    rig_put(fd, "POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Content-Length: 33554432\r\n\r\n");
    for (int i = 0; i < 32; i++) {
        CHECK(rig_send(fd, mega, sizeof mega)); // it is read, though not wanted
    }
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 413);
    CHECK(strstr(buf_z(&a.body), "TOO_LARGE") != NULL);
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(one_connection_too_many_is_told_so)
{
    struct server_limits l = server_default_limits;
    struct answer a;
    l.connections = 3;
    rig_open(&l);
    int fds[4];
    for (size_t i = 0; i < 4; i++) {
        fds[i] = rig_unix();
    }
    rig_read(fds[3], false, &a);
    CHECK_INT(a.head.status, 503);
    CHECK(strstr(buf_z(&a.body), "TOO_BUSY") != NULL);
    CHECK_SPAN(http1_get(&a.head, "retry-after"), "1");
    answer_fini(&a);
    CHECK(rig_at_end(fds[3]));
    CHECK_INT(rig_ask(fds[2], GET("/healthz"), NULL, 0), 200);
    close(fds[0]);
    close(fds[3]);
    rig_turn();
    rig_turn();
    CHECK_INT(rig_ask_unix(GET("/healthz"), NULL, 0), 200);
    close(fds[1]);
    close(fds[2]);
    rig_close();
}

TEST(a_flood_on_tcp_leaves_the_owners_socket_free)
{
    struct server_limits l = server_default_limits;
    struct rlimit old, few = {.rlim_cur = 128};
    int fds[64];
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &old), 0);
    few.rlim_max = old.rlim_max;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0); // before the server divides them
    rig_open(&l);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &old), 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = rig_tcp();
    }
    CHECK(rig.server->n_conns[false] <= 128 / 4 + 16); // the last are being told so
    CHECK(rig_at_end(fds[63]));
    for (int i = 0; i < 40; i++) {
        CHECK_INT(rig_ask_unix(GET("/healthz"), NULL, 0), 200);
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        close(fds[i]);
    }
    rig_close();
}

TEST(strangers_are_few_and_callers_with_the_token_are_not_counted_among_them)
{
    struct server_limits l = server_default_limits;
    char request[200];
    int known[4], strangers[2];
    l.strangers = 2;
    rig_open(&l);
    snprintf(request, sizeof request,
             "GET /feature HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer " TOKEN "\r\n\r\n",
             rig_host());
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        known[i] = rig_tcp();
        CHECK_INT(rig_ask(known[i], request, NULL, 0), 200);
    }
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
        strangers[i] = rig_tcp();
    }
    CHECK_INT(rig_ask_tcp(request, NULL, 0), 503);
    CHECK_INT(rig_ask(known[0], request, NULL, 0), 200);
    rig_pass(10000);
    CHECK(rig_at_end(strangers[0]));
    CHECK_INT(rig.server->n_strangers, 0);
    CHECK_INT(rig_ask(known[1], request, NULL, 0), 200);
    CHECK_INT(rig_ask_tcp(request, NULL, 0), 200);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        close(known[i]);
    }
    close(strangers[0]);
    close(strangers[1]);
    rig_close();
}

static void check_answers(int fd, const char *request, uint64_t least, uint64_t most)
{
    enum { TIMES = 100 };
    struct buf all;
    buf_init(&all, 1 << 20);
    for (int i = 0; i < TIMES; i++) {
        buf_addz(&all, request);
    }
    uint64_t before = rig.server->counts.requests;
    CHECK_INT(send(fd, all.p, all.n, 0), all.n);
    rig_turn();
    CHECK(rig.server->counts.requests - before >= least);
    CHECK(rig.server->counts.requests - before <= most);
    while (rig.server->counts.requests - before < TIMES) {
        rig_turn();
    }
    buf_fini(&all);
}

TEST(pipelined_requests_of_a_stranger_are_answered_a_few_a_turn)
{
    char request[200];
    rig_open(NULL);
    int stranger = rig_tcp(), known = rig_tcp();
    snprintf(request, sizeof request, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", rig_host());
    check_answers(stranger, request, 1, 3);
    snprintf(request, sizeof request,
             "GET /feature HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer " TOKEN "\r\n\r\n",
             rig_host());
    CHECK_INT(rig_ask(known, request, NULL, 0), 200);
    check_answers(known, request, 50, 100);
    close(stranger);
    close(known);
    rig_close();
}

TEST(connections_over_tcp_are_accepted_a_few_a_turn)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[50];
    rig_open(NULL);
    a.sin_port = htons((uint16_t)strtoul(strrchr(rig_host(), ':') + 1, NULL, 10));
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_INT(connect(fds[i], (const struct sockaddr *)(const void *)&a, sizeof a), 0);
    }
    rig_turn();
    CHECK(rig.server->n_conns[false] >= 1 && rig.server->n_conns[false] <= 3);
    while (rig.server->n_conns[false] < ARRAY_LEN(fds)) {
        rig_turn();
    }
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        close(fds[i]);
    }
    rig_close();
}

static void write_health(void *arg, bool over_socket, struct jw *w)
{
    (void)arg;
    (void)over_socket;
    jw_obj(w);
    jw_end_obj(w);
}

TEST(a_flood_on_tcp_leaves_the_owner_the_door_while_the_loop_is_held_up)
{
    int tcp[80];
    char answer[16];
    rig_open(NULL);
    rig.stalled = true;
    for (size_t i = 0; i < ARRAY_LEN(tcp); i++) {
        tcp[i] = rig_tcp();
    }
    server_stalled(rig.server, write_health, NULL);
    int fd = rig_unix();
    rig_put(fd, GET("/healthz"));
    server_stalled(rig.server, write_health, NULL);
    CHECK_INT(recv(fd, answer, sizeof answer, MSG_DONTWAIT), sizeof answer);
    CHECK(memcmp(answer, "HTTP/1.1 200 OK\r", sizeof answer) == 0);
    rig.stalled = false;
    server_stall_ended(rig.server);
    close(fd);
    for (size_t i = 0; i < ARRAY_LEN(tcp); i++) {
        close(tcp[i]);
    }
    rig_close();
}

TEST(a_silent_connection_is_closed_after_the_idle_time)
{
    rig_open(NULL);
    int fd = rig_unix();
    rig_pass(74000);
    CHECK_INT(rig_ask(fd, GET("/healthz"), NULL, 0), 200);
    rig_pass(74000);
    CHECK_INT(rig_ask(fd, GET("/healthz"), NULL, 0), 200);
    CHECK_INT(rig.server->n_conns[true], 1);
    rig_pass(76000);
    CHECK(rig_at_end(fd));
    CHECK_INT(rig.server->n_conns[true], 0);
    close(fd);
    rig_close();
}

TEST(a_head_that_trickles_in_is_ended_ten_seconds_after_its_first_byte)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, "GET /healthz HTTP/1.1\r\n");
    for (int i = 0; i < 9; i++) {
        rig_pass(1000);
        rig_put(fd, "A: b\r\n");
    }
    CHECK_INT(recv(fd, &a, 1, MSG_DONTWAIT), -1);
    rig_pass(1000);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 408);
    CHECK(strstr(buf_z(&a.body), "REQUEST_TIMEOUT") != NULL);
    answer_fini(&a);
    CHECK(rig_at_end(fd));
    close(fd);
    rig_close();
}

TEST(a_late_request_after_head_is_told_so_with_a_body)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    CHECK_INT(rig_ask(fd, "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 200);
    rig_put(fd, "GET /healthz HT");
    rig_pass(10000);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 408);
    CHECK(a.body.n != 0);
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(the_time_of_a_head_begins_anew_with_each_request)
{
    rig_open(NULL);
    int fd = rig_unix();
    for (int i = 0; i < 4; i++) {
        rig_put(fd, "GET /healthz HTTP/1.1\r\n");
        rig_pass(9000);
        CHECK_INT(rig_ask(fd, "Host: x\r\n\r\n", NULL, 0), 200);
    }
    close(fd);
    rig_close();
}

TEST(a_body_may_be_slow_but_not_stand_still)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, "POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Content-Length: 17\r\n\r\n");
    for (const char *p = "{\"type\":"; *p != '\0'; p++) {
        rig_pass(29000);
        rig_send(fd, p, 1);
    }
    rig_pass(31000);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 408);
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(an_operation_may_take_as_long_as_it_needs)
{
    struct answer a;
    rig_open(NULL);
    int fd = rig_unix();
    rig_put(fd, GET("/doctor"));
    rig_turn();
    rig_pass(3600 * 1000);
    rig_answer(0, 200, "{\"late\":true}");
    rig_read(fd, false, &a);
    CHECK_SPAN(buf_str(&a.body), "{\"late\":true}");
    answer_fini(&a);
    close(fd);
    rig_close();
}

TEST(a_peer_that_does_not_read_its_answer_is_let_go)
{
    static char bytes[4096];
    rig_open(NULL);
    rig.big = 8 << 20;
    int fd = rig_unix();
    rig_put(fd, GET("/openapi.json"));
    for (int i = 0; i < 10; i++) {
        rig_turn();
    }
    CHECK_INT(rig.server->n_conns[true], 1);
    rig_pass(29000);
    for (int i = 0; i < 200; i++) { // some progress buys time
        CHECK(recv(fd, bytes, sizeof bytes, 0) > 0);
        rig_turn();
    }
    rig_pass(2000);
    CHECK_INT(rig.server->n_conns[true], 1);
    rig_pass(31000);
    CHECK_INT(rig.server->n_conns[true], 0);
    close(fd);
    rig_close();
}

// Read the answer to `request` at a pace that takes minutes, but never stands still.
static void check_slow_reader(const char *request)
{
    static char bytes[32 * 1024];
    size_t got = 0;
    rig_open(NULL);
    rig.big = 4 << 20;
    int fd = rig_unix();
    rig_put(fd, request);
    rig_turn();
    for (ssize_t n; got <= rig.big && (n = recv(fd, bytes, sizeof bytes, 0)) > 0;) {
        got += (size_t)n;
        rig_pass(2000);
    }
    CHECK(got > rig.big); // the head counts too
    close(fd);
    rig_close();
}

TEST(a_slow_reader_gets_the_whole_answer)
{
    check_slow_reader(GET("/openapi.json"));
}

TEST(a_slow_reader_gets_the_whole_last_answer)
{
    check_slow_reader("GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

TEST(connections_dropped_at_any_point_leave_nothing_behind)
{
    char request[1024], who[160];
    unsigned seed = 12345;
    rig_open(NULL);
    snprintf(who, sizeof who, "Host: %s\r\nAuthorization: Bearer " TOKEN "\r\n", rig_host());
    int all = snprintf(request, sizeof request,
                       "GET /openapi.json HTTP/1.1\r\n%s\r\n"
                       "POST /feature/abc/disable HTTP/1.1\r\n%sContent-Type: application/json\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
                       "GET /events HTTP/1.1\r\n%s\r\n",
                       who, who, who);
    rig.big = 300000;
    for (int i = 0; i < 1000; i++) {
        seed = seed * 1103515245 + 12345;
        size_t n = seed / 65536 % ((size_t)all + 1);
        int fd = i % 2 == 0 ? rig_unix() : rig_tcp();
        rig_send(fd, request, n);
        if (i % 3 == 0) { // reset instead of end
            struct linger hard = {.l_onoff = 1};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        }
        if (i % 5 == 0 && rig.n_held != 0) {
            rig_answer(0, 200, "{}");
        }
        close(fd);
        rig_turn();
        while (rig.n_held > 20) {
            rig_answer(0, 200, "{}");
        }
    }
    for (int i = 0; i < 10; i++) {
        rig_turn();
    }
    while (rig.n_held != 0) {
        rig_answer(0, 200, "{}");
    }
    rig_pass(4000);
    rig_turn();
    CHECK_INT(rig.server->n_conns[true] + rig.server->n_conns[false], 0);
    CHECK_INT(rig.server->n_strangers, 0);
    CHECK(rig.server->calls == NULL);
    CHECK_INT(rig.server->counts.streams, 0);
    rig_close();
}

TEST(an_idle_connection_is_small)
{
    CHECK(sizeof(struct conn) < 700);
    rig_open(NULL);
    int fd = rig_unix();
    CHECK_INT(rig_ask(fd, GET("/healthz"), NULL, 0), 200);
    CHECK(rig.server->conns->out.p == NULL);
    close(fd);
    rig_close();
}
