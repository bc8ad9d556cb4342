#include <errno.h>
#include <unistd.h>

#include "client/async.h"
#include "peer.h"
#include "unit/loop.h"
#include "unit/test.h"

struct seen {
    struct async *a;
    int rc, status, dones;
    struct buf text; // bodies and events, one after the other
    bool leave;      // close at the first event
};

static void on_done(int rc, const struct client_answer *a, const struct err *e, void *arg)
{
    struct seen *s = arg;
    (void)e;
    s->rc = rc;
    s->status = a->status;
    s->dones++;
    buf_adds(&s->text, buf_str(&a->body));
    s->a = NULL;
}

static void on_event(const struct client_event *ev, void *arg)
{
    struct seen *s = arg;
    buf_addf(&s->text, "[" STR_FMT " " STR_FMT " " STR_FMT "]", STR_ARG(ev->id), STR_ARG(ev->type),
             STR_ARG(ev->data));
    if (s->leave) {
        async_close(s->a);
        s->a = NULL;
    }
}

static void ask(struct seen *s, const char *answer, size_t piece, bool stream)
{
    char *path = xasprintf("%s/hub.sock", test_dir());
    struct client_peer to = {.socket = path};
    struct client_request r = {.method = "POST", .path = "/x", .body = STR("{\"a\":1}")};
    struct loop l;
    unlink(path);
    pid_t pid = peer_start(path, answer, piece, 7);
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    buf_init(&s->text, SIZE_MAX);
    CHECK_INT(async_open(&s->a, &l, &to, &r, stream ? on_event : NULL, on_done, s, NULL), 0);
    loop_run(&l);
    CHECK(s->a == NULL);
    TEST_LOOP_END(&l);
    CHECK(strstr(peer_request(pid, path), "\r\n\r\n{\"a\":1}") != NULL);
    free(path);
}

TEST(an_answer_on_a_loop_arrives_whole_however_it_is_cut)
{
    static const char answer[] = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 Not Found\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for (size_t piece = 1; piece < sizeof answer; piece += 23) {
        struct seen s = {.rc = 1};
        ask(&s, answer, piece, false);
        CHECK_INT(s.rc, 0);
        CHECK_INT(s.status, 404);
        CHECK_INT(s.dones, 1);
        CHECK_STR(buf_z(&s.text), "hello");
        buf_fini(&s.text);
    }
}

static const char stream[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                             "id: 1\nevent: a\ndata: x\n\nid: 2\nevent: b\ndata: y\n\n";

TEST(a_stream_on_a_loop_comes_event_by_event)
{
    struct seen s = {.rc = 1};
    ask(&s, stream, 9, true);
    CHECK_INT(s.rc, 0);
    CHECK_STR(buf_z(&s.text), "[1 a x][2 b y]");
    buf_fini(&s.text);
}

TEST(a_stream_may_be_closed_from_inside_its_event)
{
    struct seen s = {.leave = true};
    ask(&s, stream, 4096, true);
    CHECK_INT(s.dones, 0);
    CHECK_STR(buf_z(&s.text), "[1 a x]");
    buf_fini(&s.text);
}

TEST(a_hub_that_breaks_off_on_a_loop_is_told)
{
    struct seen s = {0};
    ask(&s, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", 4096, false);
    CHECK_INT(s.rc, -ECONNRESET);
    buf_fini(&s.text);
}

TEST(without_a_hub_a_request_on_a_loop_fails_at_once)
{
    struct client_peer to = {.socket = "/nowhere/hub.sock"};
    struct client_request r = {.method = "GET", .path = "/x"};
    struct async *a;
    struct loop l;
    struct err e = {0};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(async_open(&a, &l, &to, &r, NULL, on_done, NULL, &e), ERR_UNREACHABLE);
    CHECK(a == NULL);
    TEST_LOOP_END(&l);
}
