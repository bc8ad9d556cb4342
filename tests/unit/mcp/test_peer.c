#include "mcp/peer.h"
#include "unit/loop.h"

// A link whose far end is the test.
struct wire {
    struct mcp_link link;
    struct buf sent; // messages, one a line
    int64_t forgotten;
    bool closed;
};

static struct wire *of(struct mcp_link *l)
{
    return container_of(l, struct wire, link);
}

static void wire_send(struct mcp_link *l, struct str text, const struct mcp_about *about)
{
    (void)about;
    buf_adds(&of(l)->sent, text);
    buf_addc(&of(l)->sent, '\n');
}

static void wire_forget(struct mcp_link *l, int64_t id)
{
    of(l)->forgotten = id;
}

static void wire_close(struct mcp_link *l)
{
    of(l)->closed = true;
}

static const struct mcp_link_ops wire_ops = {
    .send = wire_send, .forget = wire_forget, .close = wire_close};

struct rig {
    struct test_clock clock;
    struct loop loop;
    struct wire wire;
    struct mcp_peer *peer;
    int ready, ends, changes, answers, status;
    char why[240], progress[40];
    struct mcp_request request;
};

static void on_ready(void *arg)
{
    ((struct rig *)arg)->ready++;
}

static void on_changed(void *arg, enum mcp_list list)
{
    ((struct rig *)arg)->changes += list == MCP_TOOLS ? 1 : 100;
}

static void on_end(void *arg, const struct err *e)
{
    struct rig *r = arg;
    r->ends++;
    snprintf(r->why, sizeof r->why, "%s", e->msg);
}

static void on_answer(struct mcp_request *q, int status, const struct json *result,
                      const struct err *e)
{
    struct rig *r = q->arg;
    (void)result;
    r->answers++;
    r->status = status;
    snprintf(r->why, sizeof r->why, "%s", e != NULL ? e->msg : "");
}

static void on_progress(struct mcp_request *q, struct str text)
{
    struct rig *r = q->arg;
    snprintf(r->progress, sizeof r->progress, STR_FMT, STR_ARG(text));
}

static void rig_open(struct rig *r)
{
    static const struct mcp_peer_cb cb = {
        .on_ready = on_ready, .on_changed = on_changed, .on_end = on_end};
    *r = (struct rig){.wire = {.link.ops = &wire_ops}};
    test_clock_init(&r->clock);
    CHECK_INT(loop_init(&r->loop, &r->clock.clock, NULL), 0);
    buf_init(&r->wire.sent, SIZE_MAX);
    r->peer = mcp_peer_over(&r->loop, &r->wire.link, 5000, &cb, r);
    r->request = (struct mcp_request){.done = on_answer, .arg = r, .timeout_ms = 1000};
}

static void rig_close(struct rig *r)
{
    mcp_peer_close(r->peer);
    CHECK(r->wire.closed);
    test_loop_settle(&r->loop);
    buf_fini(&r->wire.sent);
    CHECK_INT(loop_close(&r->loop, NULL), 0);
}

static void say(struct rig *r, const char *text)
{
    mcp_peer_text(r->peer, str_of(text));
    test_loop_settle(&r->loop);
}

static bool sent(const struct rig *r, const char *part)
{
    return strstr(buf_z(&r->wire.sent), part) != NULL;
}

#define HELLO                                                                                      \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\","                \
    "\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"2\"}}}"

TEST(the_handshake_agrees_on_a_revision)
{
    struct rig r;
    rig_open(&r);
    CHECK(sent(&r, "\"method\":\"initialize\"") && sent(&r, "\"2025-11-25\""));
    say(&r, HELLO);
    CHECK(r.ready == 1 && sent(&r, "notifications/initialized"));
    CHECK_STR(mcp_peer_version(r.peer), "2025-06-18");
    CHECK_STR(mcp_peer_title(r.peer), "s 2");
    CHECK(mcp_peer_has(r.peer, MCP_TOOLS) && !mcp_peer_has(r.peer, MCP_PROMPTS));
    rig_close(&r);
}

TEST(a_server_of_the_stateless_era_is_found_by_its_refusal)
{
    struct rig r;
    rig_open(&r);
    say(&r, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no\"}}");
    CHECK(sent(&r, "server/discover") && sent(&r, "io.modelcontextprotocol/protocolVersion"));
    say(&r, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"supportedVersions\":[\"2026-07-28\"],"
            "\"capabilities\":{\"tools\":{}}}}");
    CHECK(r.ready == 1 && sent(&r, "subscriptions/listen"));
    CHECK_STR(mcp_peer_version(r.peer), "2026-07-28");
    rig_close(&r);
}

TEST(a_revision_that_nobody_knows_ends_it)
{
    struct rig r;
    rig_open(&r);
    say(&r, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"1999-01-01\"}}");
    CHECK(r.ready == 0 && r.ends == 1 && strstr(r.why, "1999-01-01") != NULL);
    rig_close(&r);
}

TEST(a_handshake_without_an_answer_names_what_was_printed_instead)
{
    struct rig r;
    rig_open(&r);
    say(&r, "Listening...");
    test_clock_advance(&r.clock, &r.loop, 5000);
    test_loop_settle(&r.loop);
    CHECK(r.ends == 1 && strstr(r.why, "no answer within 5 s; it printed 'Listening...'") != NULL);
    rig_close(&r);
}

TEST(a_request_is_answered_once_in_time_or_not_at_all)
{
    struct rig r;
    rig_open(&r);
    say(&r, HELLO);
    r.request.progress = on_progress;
    mcp_peer_ask(r.peer, &r.request, "tools/call", STR("\"name\":\"x\""), STR("x"));
    CHECK(sent(&r, "\"_meta\":{\"progressToken\":2}"));
    test_clock_advance(&r.clock, &r.loop, 900);
    say(&r, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":"
            "{\"progressToken\":2,\"message\":\"half\"}}");
    CHECK_STR(r.progress, "half");
    test_clock_advance(&r.clock, &r.loop, 900); // progress began the time anew
    CHECK_INT(r.answers, 0);
    test_clock_advance(&r.clock, &r.loop, 200);
    CHECK_INT(r.status, ERR_TIMEOUT);
    CHECK(r.wire.forgotten == 2 && sent(&r, "notifications/cancelled"));
    say(&r, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
    CHECK_INT(r.answers, 1);
    mcp_peer_ask(r.peer, &r.request, "tools/call", STR_NULL, STR_NULL);
    mcp_peer_cancel(r.peer, &r.request);
    say(&r, "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
    CHECK_INT(r.answers, 1);
    rig_close(&r);
}

TEST(changes_are_told_and_requests_of_the_server_are_answered)
{
    struct rig r;
    rig_open(&r);
    say(&r, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
    CHECK_INT(r.changes, 0); // before the handshake it has no lists
    say(&r, HELLO);
    say(&r, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"},"
            "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}]");
    CHECK(r.changes == 1 && sent(&r, "\"id\":\"p\",\"result\":{}"));
    say(&r, "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"sampling/createMessage\"}");
    CHECK(sent(&r, "-32601"));
    rig_close(&r);
}

TEST(a_flood_ends_it_and_open_requests_hear_of_it)
{
    struct rig r;
    rig_open(&r);
    say(&r, HELLO);
    mcp_peer_ask(r.peer, &r.request, "tools/call", STR_NULL, STR_NULL);
    for (int i = 0; i <= MCP_FLOOD_N; i++) {
        mcp_peer_text(r.peer, STR("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"));
    }
    test_loop_settle(&r.loop);
    CHECK(r.ends == 1 && r.answers == 1 &&
          strstr(r.why, "messages that were not requested") != NULL);
    mcp_peer_ask(r.peer, &r.request, "tools/call", STR_NULL, STR_NULL); // too late
    test_loop_settle(&r.loop);
    CHECK(r.ends == 1 && r.answers == 2);
    rig_close(&r);
}
