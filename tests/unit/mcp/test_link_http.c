#include "config/home.h"
#include "loop/work.h"
#include "mcp/link.h"
#include "unit/net/web.h"

static struct web web;
static struct lane *lane;
static struct home home;
static struct mcp_world world;
static struct mcp_spec *spec;
static struct mcp_link *server;
static int texts, losses;

/// Whatever comes, nobody waits for the answer to request 1 any more.
static void on_text(void *arg, struct str text)
{
    (void)arg;
    (void)text;
    texts++;
    server->ops->forget(server, 1);
}

static void on_lost(void *arg, int64_t id, const struct err *e)
{
    (void)arg;
    (void)id;
    (void)e;
    losses++;
}

static bool is_open(void *arg, int64_t id)
{
    (void)arg;
    (void)id;
    return false;
}

static void on_end(void *arg, const struct err *e)
{
    (void)arg;
    test_fail(__FILE__, __LINE__, "the link ended: %s", e->msg);
}

static const struct mcp_link_cb callbacks = {
    .on_text = on_text, .on_lost = on_lost, .is_open = is_open, .on_end = on_end};

/// Send a request to a server that answers as `answer` does, until its first text has come.
static void check_forgotten(web_fn *answer)
{
    struct err e;
    struct json *v;
    struct arena a = {0};
    char text[80];
    web_begin(NULL);
    web_open(&web, answer);
    lane = lane_open(&l, "mcp", 1);
    home.secrets = (char[]){"/nonexistent/secrets.json"};
    world = (struct mcp_world){.loop = &l, .lane = lane, .http = client, .home = &home};
    snprintf(text, sizeof text, "{\"url\":\"%s\"}", web_url(&web, "/mcp"));
    CHECK_INT(json_parse(&v, &a, str_of(text), NULL, &e), 0);
    spec = mcp_spec_new("s", NULL, v, STR_NULL);
    server = mcp_link_http(&world, spec, &callbacks, NULL);
    server->ops->send(server, STR("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}"),
                      &(struct mcp_about){.id = 1, .method = "m"});
    while (texts == 0) {
        loop_run_once(&l, true);
    }
    loop_run_once(&l, false);
    loop_run_once(&l, false);
    server->ops->close(server);
    lane_close(lane);
    mcp_spec_free(spec);
    arena_fini(&a);
    web_close(&web);
    web_end();
}

static void answer_with_event(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                  "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n");
}

static void answer_with_body(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
}

TEST(a_request_that_is_given_up_while_its_stream_is_read_is_freed_once)
{
    check_forgotten(answer_with_event);
}

TEST(a_request_that_is_given_up_while_its_answer_is_read_is_freed_once)
{
    check_forgotten(answer_with_body);
}
