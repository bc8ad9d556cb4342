#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "client/dial.h"
#include "client/interrupt.h"
#include "peer.h"
#include "unit/test.h"

static char *socket_path(void)
{
    return xasprintf("%s/hub.sock", test_dir());
}

static int get(const char *path, struct client_answer *a, struct err *e)
{
    struct client_peer to = {.socket = path};
    return client_call(&to, &(struct client_request){.method = "GET", .path = "/x"}, a, e);
}

TEST(an_answer_arrives_whole_however_it_is_cut)
{
    static const char answer[] =
        "HTTP/1.1 404 Not Found\r\nContent-Type: application/json; charset=utf-8\r\n"
        "Afloat-Build: abc\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n";
    for (size_t piece = 1; piece < sizeof answer; piece += 7) {
        struct client_answer a;
        char *path = socket_path();
        unlink(path);
        pid_t pid = peer_start(path, answer, piece, 0);
        client_answer_init(&a);
        CHECK_INT(get(path, &a, NULL), 0);
        CHECK_INT(a.status, 404);
        CHECK_STR(a.type, "application/json");
        CHECK_STR(a.build, "abc");
        CHECK_SPAN(buf_str(&a.body), "hello, world");
        client_answer_fini(&a);
        peer_request(pid, path);
        free(path);
    }
}

TEST(a_body_that_ends_with_the_connection_is_whole)
{
    struct client_answer a;
    char *path = socket_path();
    pid_t pid = peer_start(path, "HTTP/1.1 200 OK\r\n\r\nall of it", 4096, 0);
    client_answer_init(&a);
    CHECK_INT(get(path, &a, NULL), 0);
    CHECK_SPAN(buf_str(&a.body), "all of it");
    client_answer_fini(&a);
    peer_request(pid, path);
    free(path);
}

TEST(an_interim_answer_is_passed_over)
{
    struct client_answer a;
    char *path = socket_path();
    pid_t pid = peer_start(path,
                           "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                           4096, 0);
    client_answer_init(&a);
    CHECK_INT(get(path, &a, NULL), 0);
    CHECK_INT(a.status, 200);
    CHECK_SPAN(buf_str(&a.body), "ok");
    client_answer_fini(&a);
    peer_request(pid, path);
    free(path);
}

TEST(a_request_says_what_it_must)
{
    struct client_answer a;
    char *path = socket_path();
    const char *headers[] = {"Host: other", "X-One: 1", NULL};
    struct client_request r = {
        .method = "POST", .path = "/x?y=1", .headers = headers, .body = STR("{\"a\":1}")};
    pid_t pid = peer_start(path, "HTTP/1.1 204 No Content\r\n\r\n", 4096, 7);
    client_answer_init(&a);
    CHECK_INT(client_call(&(struct client_peer){.socket = path}, &r, &a, NULL), 0);
    CHECK_INT(a.status, 204);
    CHECK_STR(peer_request(pid, path), "POST /x?y=1 HTTP/1.1\r\nAccept: application/json\r\n"
                                       "Content-Type: application/json\r\nContent-Length: 7\r\n"
                                       "Host: other\r\nX-One: 1\r\nConnection: close\r\n\r\n"
                                       "{\"a\":1}");
    client_answer_fini(&a);
    free(path);
}

TEST(a_request_that_would_become_two_is_not_sent)
{
    static const struct {
        const char *method, *path, *header;
    } rows[] = {
        {"GET", "/x\r\nX: y", NULL}, {"GET", "/x y", NULL},        {"GET", "x", NULL},
        {"GET", "/\x7f", NULL},      {"GET\r\n", "/", NULL},       {"", "/", NULL},
        {"get", "/", NULL},          {"GET", "/", "A: b\r\nC: d"}, {"GET", "/", "no colon"},
    };
    struct client_peer to = {.socket = "/nowhere"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *headers[] = {rows[i].header, NULL};
        struct client_request r = {
            .method = rows[i].method, .path = rows[i].path, .headers = headers};
        struct client_answer a;
        client_answer_init(&a);
        CHECK_INT(client_call(&to, &r, &a, NULL), ERR_INVALID);
        client_answer_fini(&a);
    }
}

TEST(nobody_there_and_a_broken_answer_are_told_apart)
{
    struct client_answer a;
    struct err e;
    char *path = socket_path();
    client_answer_init(&a);
    CHECK_INT(get(path, &a, &e), ERR_UNREACHABLE);
    pid_t pid = peer_start(path, "", 1, 0);
    CHECK_INT(get(path, &a, &e), -ECONNRESET);
    peer_request(pid, path);
    CHECK_INT(get(path, &a, &e), ERR_UNREACHABLE); // the file is there, the listener is not
    unlink(path);
    pid = peer_start(path, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", 4096, 0);
    CHECK_INT(get(path, &a, &e), -ECONNRESET);
    peer_request(pid, path);
    unlink(path);
    pid = peer_start(path, "SSH-2.0-OpenSSH_9\r\n\r\n", 4096, 0);
    CHECK(get(path, &a, &e) < 0);
    peer_request(pid, path);
    client_answer_fini(&a);
    free(path);
}

TEST(a_hub_that_never_answers_times_out)
{
    struct client_answer a;
    char *path = socket_path();
    struct client_request r = {.method = "GET", .path = "/x", .timeout_ms = 50};
    pid_t pid = peer_start_silent(path, "HTTP/1.1 200 OK\r\nContent-Le");
    client_answer_init(&a);
    CHECK_INT(client_call(&(struct client_peer){.socket = path}, &r, &a, NULL), ERR_TIMEOUT);
    client_answer_fini(&a);
    peer_kill(pid);
    free(path);
}

TEST(a_path_longer_than_the_kernel_takes_is_reached)
{
    char dir[512];
    struct client_answer a;
    int n = snprintf(dir, sizeof dir, "%s/", test_dir());
    memset(dir + n, 'd', 150);
    dir[n + 150] = '\0';
    CHECK_INT(mkdir(dir, 0700), 0);
    char *path = xasprintf("%s/hub.sock", dir);
    CHECK(strlen(path) > 107);
    pid_t pid = peer_start(path, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 4096, 0);
    client_answer_init(&a);
    CHECK_INT(get(path, &a, NULL), 0);
    CHECK_SPAN(buf_str(&a.body), "ok");
    client_answer_fini(&a);
    peer_request(pid, path);
    free(path);
}

// ---- streams -------------------------------------------------------------------------------

struct seen {
    int n, stop_at;
    char text[256];
};

static int on_event(const struct client_event *ev, void *arg)
{
    struct seen *s = arg;
    size_t at = strlen(s->text);
    snprintf(s->text + at, sizeof s->text - at, "[%.*s %.*s %.*s]", (int)ev->id.n, ev->id.p,
             (int)ev->type.n, ev->type.p, (int)ev->data.n, ev->data.p);
    return ++s->n == s->stop_at ? 77 : 0;
}

static const char stream[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    "id: 1\nevent: a\ndata: {}\n\n: comment\n\nid: 2\nevent: b\ndata: x\n\n";

static int follow(const char *path, struct seen *s, struct err *e)
{
    struct client_answer a;
    client_answer_init(&a);
    int rc = client_stream(&(struct client_peer){.socket = path},
                           &(struct client_request){.method = "GET", .path = "/events"}, &a,
                           on_event, s, e);
    client_answer_fini(&a);
    return rc;
}

TEST(events_come_one_by_one_until_the_stream_ends)
{
    char *path = socket_path();
    struct seen s = {0};
    pid_t pid = peer_start(path, stream, 3, 0);
    CHECK_INT(follow(path, &s, NULL), 0);
    CHECK_STR(s.text, "[1 a {}][2 b x]");
    peer_request(pid, path);
    free(path);
}

TEST(a_callback_ends_the_stream_with_its_own_answer)
{
    char *path = socket_path();
    struct seen s = {.stop_at = 1};
    pid_t pid = peer_start_silent(path, stream);
    CHECK_INT(follow(path, &s, NULL), 77);
    CHECK_STR(s.text, "[1 a {}]");
    kill(pid, SIGKILL);
    peer_request(pid, path);
    free(path);
}

TEST(a_refused_stream_is_an_answer_with_a_body)
{
    char *path = socket_path();
    struct client_answer a;
    struct seen s = {0};
    pid_t pid = peer_start(path,
                           "HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\n"
                           "Content-Length: 2\r\n\r\n{}",
                           4096, 0);
    client_answer_init(&a);
    CHECK_INT(client_stream(&(struct client_peer){.socket = path},
                            &(struct client_request){.method = "GET", .path = "/events"}, &a,
                            on_event, &s, NULL),
              0);
    CHECK_INT(a.status, 403);
    CHECK_SPAN(buf_str(&a.body), "{}");
    CHECK_INT(s.n, 0);
    client_answer_fini(&a);
    peer_request(pid, path);
    free(path);
}

static int wake_in_callback(const struct client_event *ev, void *arg)
{
    const int *pipe_in = arg;
    (void)ev;
    return write(*pipe_in, "x", 1) == 1 ? 0 : 77;
}

static int leave_stream(struct client_watch *w)
{
    return w->fds[0].revents != 0 ? -EAGAIN : 0;
}

TEST(a_stream_is_left_when_something_else_can_be_read)
{
    char *path = socket_path();
    struct client_answer a;
    int fds[2];
    CHECK_INT(pipe(fds), 0);
    pid_t pid = peer_start_silent(path, stream);
    struct client_watch watch = {.fds = {{.fd = fds[0], .events = POLLIN}, {.fd = -1}},
                                 .run = leave_stream};
    struct client_request r = {.method = "GET", .path = "/events", .watch = &watch};
    client_answer_init(&a);
    CHECK_INT(client_stream(&(struct client_peer){.socket = path}, &r, &a, wake_in_callback,
                            &fds[1], NULL),
              -EAGAIN);
    client_answer_fini(&a);
    kill(pid, SIGKILL);
    peer_request(pid, path);
    close(fds[0]);
    close(fds[1]);
    free(path);
}

// Ticks that came after the first event.
struct clock {
    struct client_watch watch;
    bool begun;
    int n;
};

static int begin_clock(const struct client_event *ev, void *arg)
{
    struct clock *c = arg;
    (void)ev;
    c->begun = true;
    return 0;
}

static int count_to_three(struct client_watch *w)
{
    struct clock *c = container_of(w, struct clock, watch);
    w->due_ns = interrupt_deadline(1);
    c->n += c->begun;
    return c->n == 3 ? -EAGAIN : 0;
}

TEST(a_clock_runs_beside_a_stream)
{
    char *path = socket_path();
    struct client_answer a;
    pid_t pid = peer_start_silent(path, stream);
    struct clock c = {.watch = {.fds = {{.fd = -1}, {.fd = -1}},
                                .due_ns = interrupt_deadline(1),
                                .run = count_to_three}};
    struct client_request r = {.method = "GET", .path = "/events", .watch = &c.watch};
    client_answer_init(&a);
    CHECK_INT(client_stream(&(struct client_peer){.socket = path}, &r, &a, begin_clock, &c, NULL),
              -EAGAIN);
    client_answer_fini(&a);
    kill(pid, SIGKILL);
    peer_request(pid, path);
    free(path);
}

// ---- interrupts ----------------------------------------------------------------------------

static int interrupt_in_callback(const struct client_event *ev, void *arg)
{
    (void)ev;
    (void)arg;
    raise(SIGINT); // blocked outside of waits: it must end the next one
    return 0;
}

TEST(a_signal_between_two_waits_is_not_lost)
{
    char *path = socket_path();
    struct client_answer a;
    pid_t pid = peer_start_silent(path, stream);
    interrupt_catch();
    client_answer_init(&a);
    CHECK_INT(client_stream(&(struct client_peer){.socket = path},
                            &(struct client_request){.method = "GET", .path = "/events"}, &a,
                            interrupt_in_callback, NULL, NULL),
              -EINTR);
    CHECK_INT(interrupt_seen(), SIGINT);
    CHECK_INT(interrupt_pause(60000), -EINTR); // and stays seen
    client_answer_fini(&a);
    kill(pid, SIGKILL);
    peer_request(pid, path);
    free(path);
}

TEST(an_ignored_signal_stays_ignored)
{
    signal(SIGHUP, SIG_IGN);
    interrupt_catch();
    raise(SIGHUP);
    CHECK_INT(interrupt_pause(1), 0);
    CHECK_INT(interrupt_seen(), 0);
}

// ---- TCP -----------------------------------------------------------------------------------

TEST(tcp_addresses_are_numbers_with_a_port)
{
    static const char *const bad[] = {
        "", "127.0.0.1", ":80", "127.0.0.1:", "example.com:80", "127.0.0.1:http", "[::1:80"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_INT(dial_tcp(bad[i], interrupt_deadline(1000), NULL), ERR_INVALID);
    }
}

TEST(tcp_reaches_a_listener_and_misses_an_absent_one)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof sa;
    char address[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(bind(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)&sa, &n), 0);
    snprintf(address, sizeof address, "localhost:%d", ntohs(sa.sin_port));
    CHECK_INT(dial_tcp(address, interrupt_deadline(5000), NULL), ERR_UNREACHABLE);
    CHECK_INT(listen(fd, 1), 0);
    int c = dial_tcp(address, interrupt_deadline(5000), NULL);
    CHECK(c >= 0);
    close(c);
    close(fd);
}
