// The way of an engine to its model: a provider on loopback, the gateway between, a client in the engine's place.

#include "engine/gateway.h"
#include "unit/net/web.h"

static struct web provider;
static struct engine_world *world;
static struct gateway *gateway;

static void begin(const char *kind, web_fn *answer)
{
    static char base[100], kind_text[40], key[] = "sk-provider";
    struct err e = {0};
    web_begin(NULL);
    web_open(&provider, answer);
    world = engine_world_open(&l, client, "1.0", "/nowhere");
    snprintf(base, sizeof base, "http://127.0.0.1:%d/base", provider.port);
    snprintf(kind_text, sizeof kind_text, "%s", kind);
    struct provider_choice choice = {.kind = kind_text, .base_url = base, .key = key};
    struct engine_spec q = {.session = "s1", .choice = &choice};
    gateway = gateway_open(world, &q, false, &e);
    CHECK(gateway != NULL);
}

static void end(void)
{
    gateway_close(gateway);
    engine_world_close(world);
    web_close(&provider);
    web_end();
}

/// POST it with that key.
static void ask(struct fetch *f, const char *path, const char *header, const char *prefix,
                const char *key)
{
    char url[200], value[200];
    snprintf(url, sizeof url, "%s%s", gateway_url(gateway), path);
    snprintf(value, sizeof value, "%s%s", prefix, key);
    struct http_header headers[] = {{str_of(header), str_of(value)},
                                    {STR("Content-Type"), STR("application/json")},
                                    {STR("X-Extra"), STR("kept")}};
    struct http_request q = {.method = "POST",
                             .url = url,
                             .headers = headers,
                             .n_headers = ARRAY_LEN(headers),
                             .body = STR("{\"model\":\"m\"}")};
    fetch(f, &q, &fetch_stream);
}

static void stream(struct web_conn *conn, const char *head)
{
    CHECK(strstr(head, "POST /base/responses?x=1 HTTP/1.1") != NULL);
    CHECK(web_header(head, "authorization: Bearer sk-provider"));
    CHECK(web_header(head, "X-Extra: kept"));
    CHECK_STR(buf_z(&conn->body), "{\"model\":\"m\"}");
    web_say(conn, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nretry-after: 7\r\n"
                  "set-cookie: a=b\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
    web_say(conn, "6\r\n world\r\n0\r\n\r\n");
}

TEST(a_request_is_passed_on_with_the_providers_key)
{
    begin("openai-responses", stream);
    struct fetch f = {0};
    ask(&f, "/v1/responses?x=1", "Authorization", "Bearer ", gateway_key(gateway));
    CHECK_INT(f.status, 200);
    CHECK_STR(buf_z(&f.body), "hello world");
    CHECK(strstr(buf_z(&provider.head), gateway_key(gateway)) == NULL);
    fetch_end(&f);
    end();
}

TEST(a_request_without_the_key_is_refused)
{
    static const char *const keys[] = {"", "sk-provider", "0123"};
    begin("openai-responses", web_ok);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct fetch f = {0};
        ask(&f, "/v1/responses", "Authorization", "Bearer ", keys[i]);
        CHECK_INT(f.status, 401);
        fetch_end(&f);
    }
    CHECK_INT(provider.requests, 0);
    end();
}

TEST(only_requests_to_the_model_are_passed_on)
{
    static const char *const paths[] = {"/v1/files", "/v1/responses/../files", "/v1/messages", "/"};
    begin("openai-responses", web_ok);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct fetch f = {0};
        ask(&f, paths[i], "Authorization", "Bearer ", gateway_key(gateway));
        CHECK_INT(f.status, 404);
        fetch_end(&f);
    }
    CHECK_INT(provider.requests, 0);
    end();
}

static void answer_anthropic(struct web_conn *conn, const char *head)
{
    CHECK(strstr(head, "POST /base/v1/messages HTTP/1.1") != NULL);
    CHECK(web_header(head, "x-api-key: sk-provider"));
    web_say(conn, "HTTP/1.1 529 Overloaded\r\ncontent-length: 4\r\n\r\nbusy");
}

TEST(what_a_provider_refuses_is_passed_back_as_it_is)
{
    begin("anthropic", answer_anthropic);
    struct fetch f = {0};
    ask(&f, "/v1/messages", "x-api-key", "", gateway_key(gateway));
    CHECK_INT(f.status, 529);
    CHECK_STR(buf_z(&f.body), "busy");
    fetch_end(&f);
    end();
}

static void cut(struct web_conn *conn, const char *head)
{
    (void)head;
    web_say(conn, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
    web_hang_up(conn);
}

TEST(a_stream_that_is_cut_is_cut_for_the_engine_too)
{
    begin("openai-responses", cut);
    struct fetch f = {0};
    ask(&f, "/v1/responses", "Authorization", "Bearer ", gateway_key(gateway));
    CHECK(f.rc < 0);
    CHECK_STR(buf_z(&f.body), "hello");
    fetch_end(&f);
    end();
}
