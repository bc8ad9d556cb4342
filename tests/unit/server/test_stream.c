// Event streams on connections that read well, badly, or not at all.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/sse.h"
#include "unit/server/rig.h"

#define FOLLOW "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"

// A client: the decoded body goes through the parser of events.
struct client {
    int fd;
    struct http1 http;
    struct sse_parser sse;
    struct buf log; // "id type,"
    size_t events, bytes, gaps;
    uint64_t last; // id seen
    bool ended;
};

static int on_event(void *arg, const struct sse_event *ev)
{
    struct client *c = arg;
    c->events++;
    c->gaps += str_eqz(ev->event, "stream.gap");
    CHECK(str_to_u64(ev->id, &c->last));
    if (c->log.n < 4096) {
        buf_addf(&c->log, STR_FMT " " STR_FMT ",", STR_ARG(ev->id), STR_ARG(ev->event));
    }
    return 0;
}

static int on_body(void *arg, struct str bytes)
{
    struct client *c = arg;
    c->bytes += bytes.n;
    CHECK_INT(sse_feed(&c->sse, bytes, NULL), 0);
    return 0;
}

static void client_open(struct client *c, int fd, const char *request)
{
    *c = (struct client){.fd = fd};
    buf_init(&c->log, 1 << 20);
    sse_init(&c->sse, 1 << 20, on_event, c);
    http1_init(&c->http, HTTP1_RESPONSE, NULL, on_body, c);
    rig_put(fd, request);
}

// Read what is there; true when something was.
static bool client_read(struct client *c)
{
    static char bytes[65536];
    struct err e;
    rig_turn();
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0) {
        CHECK_INT(http1_finish(&c->http, &e), 0);
        c->ended = true;
    }
    struct str rest = {bytes, n > 0 ? (size_t)n : 0};
    while (rest.n != 0) {
        CHECK_INT(http1_feed(&c->http, &rest, &e), 0);
        if (c->http.state == HTTP1_END) {
            c->ended = true;
            break;
        }
    }
    return n > 0;
}

static void client_wait(struct client *c, size_t events)
{
    while (c->events < events) {
        client_read(c);
        CHECK(!c->ended);
    }
}

static void client_close(struct client *c)
{
    close(c->fd);
    http1_fini(&c->http);
    sse_fini(&c->sse);
    buf_fini(&c->log);
    rig_turn();
    rig_turn();
}

static void emit(const char *type, size_t padding)
{
    struct buf fields;
    buf_init(&fields, 1 << 20);
    buf_addz(&fields, "\"pad\":\"");
    for (size_t i = 0; i < padding; i++) {
        buf_addc(&fields, 'x');
    }
    buf_addz(&fields, "\"");
    CHECK(event_emit(rig.events, str_of(type), STR_NULL, buf_str(&fields)) != 0);
    buf_fini(&fields);
}

TEST(a_reader_gets_what_comes)
{
    struct client c;
    rig_open(NULL);
    emit("user.before", 0);
    client_open(&c, rig_unix(), FOLLOW);
    rig_turn();
    emit("user.a", 0);
    emit("user.b", 10);
    client_wait(&c, 2);
    CHECK_SPAN(buf_str(&c.log), "2 user.a,3 user.b,");
    CHECK_SPAN(http1_get(&c.http, "content-type"), "text/event-stream");
    CHECK_SPAN(http1_get(&c.http, "cache-control"), "no-store");
    CHECK_SPAN(http1_get(&c.http, "x-accel-buffering"), "no");
    CHECK(c.http.chunked);
    CHECK_INT(rig.server->counts.streams, 1);
    client_close(&c);
    CHECK_INT(rig.server->counts.streams, 0);
    rig_close();
}

TEST(a_reader_that_comes_back_gets_what_it_missed)
{
    struct client c;
    rig_open(NULL);
    for (int i = 0; i < 5; i++) {
        emit("user.a", 0);
    }
    client_open(&c, rig_unix(), "GET /events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 3\r\n\r\n");
    client_wait(&c, 2);
    emit("user.b", 0);
    client_wait(&c, 3);
    CHECK_SPAN(buf_str(&c.log), "4 user.a,5 user.a,6 user.b,");
    client_close(&c);
    client_open(&c, rig_unix(), "GET /events?after=5&types=user.b HTTP/1.1\r\nHost: x\r\n\r\n");
    client_wait(&c, 1);
    CHECK_SPAN(buf_str(&c.log), "6 user.b,");
    client_close(&c);
    rig_close();
}

TEST(a_stream_says_that_its_connection_ends_with_it)
{
    struct client c;
    rig_open(NULL);
    client_open(&c, rig_unix(), FOLLOW);
    emit("user.a", 0);
    client_wait(&c, 1);
    CHECK(!c.http.keep_alive); // else a client could send its next request on it
    client_close(&c);
    rig_close();
}

TEST(an_old_client_gets_a_stream_that_ends_with_the_connection)
{
    struct client c;
    rig_open(NULL);
    client_open(&c, rig_unix(), "GET /events HTTP/1.0\r\nHost: x\r\n\r\n");
    rig_turn();
    emit("user.a", 0);
    client_wait(&c, 1);
    CHECK(!c.http.chunked);
    client_close(&c);
    rig_close();
}

TEST(accept_chooses_between_stream_and_list)
{
    char body[64];
    rig_open(NULL);
    CHECK_INT(rig_ask_unix("GET /events HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n",
                           body, sizeof body),
              200);
    CHECK_STR(body, "{\"events\":[]}");
    CHECK_INT(rig_ask_unix("HEAD /events HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 200);
    CHECK_INT(rig.server->counts.streams, 0);
    rig_close();
}

TEST(a_silent_stream_has_a_heartbeat_and_a_busy_one_has_none)
{
    struct client c;
    rig_open(NULL);
    client_open(&c, rig_unix(), FOLLOW);
    client_read(&c);
    CHECK_INT(c.bytes, 0);
    rig_pass(14999);
    client_read(&c);
    CHECK_INT(c.bytes, 0);
    rig_pass(1);
    client_read(&c);
    CHECK_INT(c.bytes, strlen(": still here\n\n"));
    size_t before = c.bytes;
    rig_pass(10000);
    emit("user.a", 0);
    client_wait(&c, 1);
    before = c.bytes;
    rig_pass(10000); // 20 s after the comment, 10 s after the event
    client_read(&c);
    CHECK_INT(c.bytes, before);
    rig_pass(5000);
    client_read(&c);
    CHECK(c.bytes > before);
    client_close(&c);
    rig_close();
}

TEST(a_reader_that_leaves_is_noticed_though_nothing_is_sent)
{
    struct client c;
    rig_open(NULL);
    client_open(&c, rig_unix(), FOLLOW);
    rig_turn();
    CHECK_INT(rig.server->counts.streams, 1);
    shutdown(c.fd, SHUT_WR);
    rig_turn();
    rig_turn();
    CHECK_INT(rig.server->counts.streams, 0);
    client_close(&c);
    rig_close();
}

TEST(a_reader_that_talks_too_much_is_let_go)
{
    static char talk[8192];
    struct client c;
    rig_open(NULL);
    client_open(&c, rig_unix(), FOLLOW);
    rig_turn();
    for (int i = 0; i < 8; i++) {
        rig_send(c.fd, talk, sizeof talk);
    }
    CHECK_INT(rig.server->counts.streams, 1);
    rig_send(c.fd, talk, 1);
    rig_turn();
    CHECK_INT(rig.server->counts.streams, 0);
    client_close(&c);
    rig_close();
}

TEST(frames_survive_partial_writes_whole_and_in_order)
{
    struct client c;
    rig_open(NULL);
    int fd = rig_unix(), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    client_open(&c, fd, FOLLOW);
    rig_turn();
    for (int i = 0; i < 200; i++) {
        emit("user.a", 3000); // 600 KB: more than the socket, less than the ring
        rig_turn();
    }
    CHECK(conn__blocked(rig.server->conns));
    client_wait(&c, 200);
    CHECK(str_starts(buf_str(&c.log), "1 user.a,2 user.a,3 user.a,"));
    CHECK(c.bytes > 600000);
    client_close(&c);
    rig_close();
}

// Bytes we hold for the newest connection.
static size_t held(void)
{
    const struct conn *c = rig.server->conns;
    return uv_stream_get_write_queue_size(&c->io.stream) + c->out.cap;
}

TEST(a_reader_that_never_reads_costs_one_span_and_is_let_go)
{
    struct client c[15];
    rig_open(NULL);
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        client_open(&c[i], rig_unix(), FOLLOW);
        rig_turn();
        for (size_t k = 0; k < i * 5;
             k++) { // so that its socket is full at another place each time
            emit("user.a", 3000);
            rig_turn();
        }
        for (int k = 0; k < 100; k++) {
            emit("user.a", 3000);
        }
        rig_turn();
        CHECK(conn__blocked(rig.server->conns));
        CHECK(held() <= 70 * 1024);
    }
    CHECK_INT(rig.server->counts.streams, ARRAY_LEN(c));
    rig_pass(31000);
    CHECK_INT(rig.server->counts.streams, 0);
    CHECK_INT(rig.server->n_conns[true], 0);
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        client_close(&c[i]);
    }
    rig_close();
}

TEST(a_reader_that_falls_behind_is_told_what_it_missed)
{
    struct client c;
    rig_open(NULL);
    client_open(&c, rig_unix(), FOLLOW);
    rig_turn();
    for (int i = 0; i < 2000; i++) {
        emit("user.a", 3000);
        rig_turn();
    }
    size_t before = SIZE_MAX;
    while (before != c.events) {
        before = c.events;
        while (client_read(&c)) {
        }
        client_read(&c);
    }
    CHECK(c.gaps == 1 && c.events < 2000);
    CHECK_INT(c.last, 2000);
    emit("user.last", 0);
    size_t n = c.events;
    buf_clear(&c.log);
    client_wait(&c, n + 1);
    CHECK_SPAN(buf_str(&c.log), "2001 user.last,");
    CHECK_INT(rig.server->counts.streams, 1);
    client_close(&c);
    rig_close();
}

TEST(a_long_replay_lets_others_have_their_turn)
{
    struct client c;
    char request[] = "GET /events?after=0 HTTP/1.1\r\nHost: x\r\n\r\n";
    rig_open(NULL);
    for (int i = 0; i < 300; i++) {
        emit("user.a", 3000);
    }
    client_open(&c, rig_unix(), request);
    CHECK_INT(rig_ask_unix("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", NULL, 0), 200);
    client_wait(&c, 300);
    client_close(&c);
    rig_close();
}

/// Close the server while `c` follows; the stream ends with its last chunk.
static void check_closing(struct client *c)
{
    struct err e;
    rig.n_held = 0;
    server_close(rig.server, 1000, NULL, NULL);
    while (!c->ended) {
        client_read(c);
    }
    CHECK_INT(c->http.state, HTTP1_END);
    client_close(c);
    for (int i = 0; i < 5; i++) {
        rig_turn();
    }
    event_close(rig.events);
    rig_turn();
    CHECK_INT(loop_close(&rig.loop, &e), 0);
}

TEST(a_closing_server_ends_streams_properly)
{
    struct client c;
    rig_open(NULL);
    client_open(&c, rig_unix(), FOLLOW);
    rig_turn();
    emit("user.a", 0);
    client_wait(&c, 1);
    check_closing(&c);
}

TEST(a_closing_server_ends_the_stream_of_a_slow_reader_properly)
{
    struct client c;
    rig_open(NULL);
    client_open(&c, rig_unix(), FOLLOW);
    rig_turn();
    while (!conn__blocked(rig.server->conns)) {
        emit("user.a", 3000);
        rig_turn();
    }
    check_closing(&c);
}

TEST(many_readers_get_everything)
{
    enum { READERS = 200, EVENTS = 50 };
    static struct client c[READERS];
    char over_tcp[256];
    rig_open(NULL);
    snprintf(over_tcp, sizeof over_tcp,
             "GET /events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer " TOKEN "\r\n\r\n",
             rig_host());
    for (size_t i = 0; i < READERS; i++) {
        bool tcp = i % 2 == 0;
        client_open(&c[i], tcp ? rig_tcp() : rig_unix(), tcp ? over_tcp : FOLLOW);
    }
    while (rig.server->counts.streams < READERS) {
        rig_turn();
    }
    for (int i = 0; i < EVENTS; i++) {
        emit("user.a", 100);
        if (i % 7 == 0) {
            rig_turn();
        }
    }
    for (size_t i = 0; i < READERS; i++) {
        client_wait(&c[i], EVENTS);
        client_close(&c[i]);
    }
    rig_close();
}
