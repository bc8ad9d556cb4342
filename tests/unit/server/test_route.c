// Requests that a plugin answers: a real server, a real generation, and a route whose handler is ours, so
// that it can answer at once, later, never or wrongly.

#include <sys/socket.h>
#include <unistd.h>

#include "gen/engine.h"
#include "gen/route.h"
#include "unit/server/rig.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"

static struct {
    bool later; // the handler keeps the call
    struct gen_route_call *held;
    unsigned calls, cancels;
    int status;
    struct gen_pair headers[2];
    size_t n_headers;
    struct str body;
    int fault; // the handler fails with this code
    char seen[512];
} route;

// ---- the plugin ------------------------------------------------------------------------------

static void give(struct gen_route_call *c)
{
    struct err e = {0};
    if (route.fault != 0) {
        err_set(&e, route.fault, "no luck");
        c->done(c, 0, NULL, 0, STR_NULL, &e);
    } else {
        c->done(c, route.status, route.headers, route.n_headers, route.body, NULL);
    }
}

static void note(const struct gen_route_call *c)
{
    int n = snprintf(route.seen, sizeof route.seen,
                     STR_FMT " " STR_FMT "?" STR_FMT " " STR_FMT " [" STR_FMT "]",
                     STR_ARG(c->method), STR_ARG(c->path), STR_ARG(c->query),
                     STR_ARG(c->n_params != 0 ? c->params[0].value : STR("-")), STR_ARG(c->body));
    for (size_t i = 0; i < c->n_headers; i++) {
        n += snprintf(route.seen + n, sizeof route.seen - (size_t)n, " " STR_FMT "=" STR_FMT,
                      STR_ARG(c->headers[i].name), STR_ARG(c->headers[i].value));
    }
}

static void on_call(void *data, struct gen_route_call *c)
{
    (void)data;
    route.calls++;
    note(c);
    if (route.later) {
        route.held = c;
    } else {
        give(c);
    }
}

static void on_cancel(void *data, struct gen_route_call *c)
{
    (void)data;
    CHECK(c == route.held);
    route.held = NULL;
    route.cancels++;
}

static const struct gen_route face = {.call = on_call, .cancel = on_cancel};

static void prepare(void *arg, struct gen_source *src, const struct gen_request *req)
{
    (void)arg;
    (void)req;
    gen_prepared(src, true);
}

static void stage(void *arg, struct gen_stage *s)
{
    static const char *const names[] = {"GET /a/:x", "POST /a/:x"};
    struct gen_unit_spec spec = {.name = "demo", .layer = "user", .host = "hub"};
    struct gen_unit *u = gen_stage_unit(s, &spec);
    (void)arg;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct gen_item_spec it = {.kind = GEN_ROUTE, .name = str_of(names[i]), .face = &face};
        CHECK_INT(gen_unit_add(u, &it, NULL, NULL), 0);
    }
    CHECK(gen_stage_put(s, u));
}

static void nothing(void *arg)
{
    (void)arg;
}

static void on_loaded(const struct gen_report *r, void *arg)
{
    *(bool *)arg = r != NULL;
}

static void open_all(void)
{
    static const struct gen_source_ops source = {
        .name = "test", .prepare = prepare, .stage = stage, .commit = nothing, .abort = nothing};
    bool loaded = false;
    rig_open(NULL);
    memset(&route, 0, sizeof route);
    route.status = 200;
    route.body = STR("hello");
    rig.engine = gen_open(&rig.loop, NULL, NULL);
    gen_source_add(rig.engine, &source, NULL);
    gen_request(rig.engine, &(struct gen_request){.trigger = "start", .wait_all = true}, on_loaded,
                &loaded);
    while (!loaded) {
        rig_turn();
    }
}

static void on_gone(void *arg)
{
    *(bool *)arg = true;
}

static void close_all(void)
{
    bool gone = false;
    gen_close(rig.engine, on_gone, &gone);
    for (int i = 0; i < 100 && !gone; i++) {
        rig_turn();
    }
    CHECK(gone); // nothing is pinned any more
    rig.engine = NULL;
    rig_close();
}

// ---- tests -----------------------------------------------------------------------------------

TEST(a_handler_gets_the_request_as_it_came_but_not_the_hubs_secrets)
{
    open_all();
    char body[256];
    CHECK_INT(
        rig_ask_unix("POST /api/plugins/demo/a/b%20c?q=%31 HTTP/1.1\r\nHost: x\r\nX-Mine: Yes\r\n"
                     "Authorization: Bearer t\r\nCookie: afloat=c\r\nContent-Type: text/plain\r\n"
                     "Content-Length: 3\r\n\r\nabc",
                     body, sizeof body),
        200);
    CHECK_STR(body, "hello");
    CHECK_STR(route.seen, "POST /a/b c?q=%31 b c [abc] host=x x-mine=Yes content-type=text/plain "
                          "content-length=3");
    close_all();
}

TEST(an_answer_that_is_none_is_a_failure_of_the_plugin)
{
    static const struct {
        int status;
        const char *name, *value;
    } bad[] = {
        {0x7fffffff, "x", "y"},
        {-1, "x", "y"},
        {101, "x", "y"},
        {199, "x", "y"},
        {600, "x", "y"},
        {200, "", "y"},
        {200, "a b", "y"},
        {200, "a:", "y"},
        {200, "a\r\nb", "y"},
        {200, "x", "a\r\nX-B: b"},
        {200, "x", "a\nb"},
        {200, "x", "a\x7f"},
        {200, "Content-Length", "1"},
        {200, "transfer-encoding", "chunked"},
        {200, "CONNECTION", "close"},
        {200, "Access-Control-Allow-Origin", "*"},
        {200, "Set-Cookie", "afloat=1"},
        {200, "set-cookie", "  afloat=1; Path=/"},
    };
    open_all();
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char body[512];
        route.status = bad[i].status;
        route.headers[0] = (struct gen_pair){str_of(bad[i].name), str_of(bad[i].value)};
        route.n_headers = 1;
        CHECK_INT(rig_ask_unix(GET("/api/plugins/demo/a/b"), body, sizeof body), 500);
        CHECK(strstr(body, "PLUGIN_FAILED") != NULL && strstr(body, "X-B") == NULL);
    }
    close_all();
}

TEST(headers_of_the_handler_are_sent_and_its_caching_wins)
{
    struct answer a;
    open_all();
    route.headers[0] = (struct gen_pair){STR("Cache-Control"), STR("max-age=5")};
    route.headers[1] = (struct gen_pair){STR("Content-Type"), STR("text/x-demo")};
    route.n_headers = 2;
    int fd = rig_unix();
    rig_put(fd, GET("/api/plugins/demo/a/b"));
    rig_read(fd, false, &a);
    CHECK_SPAN(http1_get(&a.head, "cache-control"), "max-age=5");
    CHECK_SPAN(http1_get(&a.head, "content-type"), "text/x-demo");
    CHECK_SPAN(http1_get(&a.head, "x-content-type-options"), "nosniff");
    answer_fini(&a);
    close(fd);
    close_all();
}

TEST(faults_have_their_own_problems)
{
    static const struct {
        int fault, status;
        const char *code;
    } faults[] = {{ERR_TIMEOUT, 504, "PLUGIN_TIMEOUT"},
                  {ERR_DENIED, 503, "HOOK_DISABLED"},
                  {ERR_INVALID, 500, "PLUGIN_FAILED"}};
    char body[512];
    open_all();
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        route.fault = faults[i].fault;
        CHECK_INT(rig_ask_unix(GET("/api/plugins/demo/a/b"), body, sizeof body), faults[i].status);
        CHECK(strstr(body, faults[i].code) != NULL && strstr(body, "no luck") != NULL);
    }
    close_all();
}

TEST(what_is_not_there_runs_nothing)
{
    static const struct {
        const char *request;
        int status;
    } asked[] = {
        {GET("/api/plugins/demo/b"), 404},
        {GET("/api/plugins/nobody/a/b"), 404},
        {GET("/api/plugins/demo"), 404},
        {GET("/api/plugins/"), 404},
        {GET("/api/plugins/demo/a/%zz"), 400},
        {GET("/api/plugins/demo/a/%00"), 400},
        {GET("/api/plugins/demo/a/.."), 400},
        {GET("/api/plugins/demo/a/%2e%2e"), 400},
        {"DELETE /api/plugins/demo/a/b HTTP/1.1\r\nHost: x\r\n\r\n", 405},
    };
    open_all();
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        CHECK_INT(rig_ask_unix(asked[i].request, NULL, 0), asked[i].status);
    }
    CHECK_INT((int)route.calls, 0);
    close_all();
}

TEST(strangers_do_not_reach_a_handler)
{
    char request[256];
    open_all();
    snprintf(request, sizeof request, "GET /api/plugins/demo/a/b HTTP/1.1\r\nHost: %s\r\n\r\n",
             rig_host());
    CHECK_INT(rig_ask_tcp(request, NULL, 0), 401);
    CHECK_INT((int)route.calls, 0);
    close_all();
}

TEST(a_late_answer_reaches_its_client_and_the_connection_goes_on)
{
    struct answer a;
    open_all();
    route.later = true;
    int fd = rig_unix();
    rig_put(fd, GET("/api/plugins/demo/a/b"));
    while (route.held == NULL) {
        rig_turn();
    }
    give(route.held);
    rig_read(fd, false, &a);
    CHECK_INT(a.head.status, 200);
    answer_fini(&a);
    CHECK_INT(rig_ask(fd, GET("/healthz"), NULL, 0), 200);
    close(fd);
    close_all();
}

TEST(a_client_that_leaves_cancels_its_call)
{
    open_all();
    route.later = true;
    int fd = rig_unix();
    rig_put(fd, GET("/api/plugins/demo/a/b"));
    while (route.held == NULL) {
        rig_turn();
    }
    close(fd);
    for (int i = 0; i < 100 && route.cancels == 0; i++) {
        rig_turn();
    }
    CHECK_INT((int)route.cancels, 1);
    close_all();
}
