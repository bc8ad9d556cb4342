#include "unit/agent/mock.h"

#include "base/path.h"

struct mock mock;
struct test_clock now;

const struct mock_format mock_formats[3] = {
    {
        "openai-responses",
        "/responses",
        "event: response.created\ndata: "
        "{\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n"
        "event: response.output_text.delta\n"
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"H\"}\n\n"
        "event: response.output_text.delta\n"
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"i.\"}\n\n"
        "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":"
        "\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hi."
        "\"}]}}\n\n"
        "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":100,"
        "\"input_tokens_details\":{\"cached_tokens\":40},\"output_tokens\":7,"
        "\"output_tokens_details\":{\"reasoning_tokens\":3}}}}\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Hi.\"}\n\n"
        "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":"
        "\"function_call\",\"call_id\":\"c1\",\"name\":\"a\",\"arguments\":\"{\\\"x\\\":1}\"}}\n\n"
        "data: {\"type\":\"response.output_item.done\",\"output_index\":2,\"item\":{\"type\":"
        "\"function_call\",\"call_id\":\"c2\",\"name\":\"b\",\"arguments\":\"\"}}\n\n"
        "data: {\"type\":\"response.completed\",\"response\":{}}\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"delta\":\"H\"}\n\n"
        "data: "
        "{\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"CODE\",\"message\":"
        "\"bad luck\"}}}\n\n",
    },
    {
        "openai-chat",
        "/chat/completions",
        "data: "
        "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
        ": keep-alive\n\n"
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"H\"}}],\"usage\":null}\n\n"
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"i.\"}}]}\n\n"
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"prompt_tokens_details\":"
        "{\"cached_tokens\":40},\"completion_tokens\":7,\"completion_tokens_details\":"
        "{\"reasoning_tokens\":3}}}\n\n"
        "data: [DONE]\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi.\"}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"function\":"
        "{\"name\":\"a\",\"arguments\":\"\"}}]}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"c2\",\"function\":"
        "{\"name\":\"b\",\"arguments\":\"\"}},{\"index\":0,\"function\":{\"arguments\":\"{"
        "\\\"x\\\"\"}}]}}]}"
        "\n\n"
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
        "\":1}\"}}]}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
        "data: [DONE]\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"H\"}}]}\n\n"
        "data: {\"error\":{\"code\":\"CODE\",\"message\":\"bad luck\"}}\n\n",
    },
    {
        "anthropic",
        "/v1/messages",
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":"
        "{\"input_tokens\":50,\"cache_read_input_tokens\":40,\"cache_creation_input_tokens\":10,"
        "\"output_tokens\":1}}}\n\n"
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
        "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
        "event: ping\ndata: {\"type\": \"ping\"}\n\n"
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
        "\"text\":\"H\"}}\n\n"
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
        "\"text\":\"i.\"}}\n\n"
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":"
        "{\"output_tokens\":7}}\n\n"
        "data: {\"type\":\"message_stop\"}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","
        "\"text\":\"Hi.\"}}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":"
        "\"tool_use\",\"id\":\"c1\",\"name\":\"a\",\"input\":{}}}\n\n"
        "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"
        "\"input_json_delta\",\"partial_json\":\"{\\\"x\\\"\"}}\n\n"
        "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":"
        "\"input_json_delta\",\"partial_json\":\":1}\"}}\n\n"
        "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n"
        "data: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":"
        "\"tool_use\",\"id\":\"c2\",\"name\":\"b\",\"input\":{}}}\n\n"
        "data: {\"type\":\"content_block_stop\",\"index\":2}\n\n"
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n"
        "data: {\"type\":\"message_stop\"}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","
        "\"text\":\"H\"}}\n\n"
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"CODE\",\"message\":"
        "\"bad luck\"}}\n\n",
    },
};

// ---- what comes back ------------------------------------------------------------------------

static void run_hook(const char *where)
{
    if (mock.hook != NULL) {
        mock.hook(where);
    }
}

static void on_delta(struct provider_call *call, const struct provider_delta *d, void *arg)
{
    CHECK(arg == &mock && call == mock.call);
    CHECK((d->text.n != 0) + (d->reasoning.n != 0) + (d->sealed != NULL) == 1);
    mock.deltas++;
    mock.told += d->text.n;
    buf_adds(&mock.text, mock.forget ? STR_NULL : d->text);
    buf_adds(&mock.reasoning, d->reasoning);
    run_hook("delta");
}

static void on_retry(struct provider_call *call, const struct provider_error *why, uint64_t wait_ms,
                     void *arg)
{
    CHECK(arg == &mock && call == mock.call && mock.retries < 16);
    mock.waits[mock.retries++] = wait_ms;
    mock.why = *why;
    buf_clear(&mock.text);
    buf_clear(&mock.reasoning);
    run_hook("retry");
}

static void on_done(struct provider_call *call, const struct provider_response *r, void *arg)
{
    CHECK(arg == &mock && call == mock.call && mock.dones + mock.fails == 0);
    mock.dones++;
    mock.left_out = r->text_left_out;
    if (r->text_left_out == 0) {
        CHECK(str_eq(r->text, buf_str(&mock.text)));
    }
    json_write(&mock.response, &r->content, 0);
    buf_addf(&mock.response, " %s %lld/%lld/%lld/%lld", r->stop_reason, (long long)r->usage.input,
             (long long)r->usage.cached, (long long)r->usage.output, (long long)r->usage.reasoning);
    for (size_t i = 0; i < r->n_tool_calls; i++) {
        const struct provider_tool_call *c = &r->tool_calls[i];
        buf_addf(&mock.calls, STR_FMT " " STR_FMT " ", STR_ARG(c->id), STR_ARG(c->name));
        json_write(&mock.calls, c->input, 0);
        buf_addf(&mock.calls, " %s\n", c->bad_input != NULL ? c->bad_input : "ok");
    }
    mock.call = NULL;
}

static void on_fail(struct provider_call *call, const struct provider_error *why, void *arg)
{
    CHECK(arg == &mock && call == mock.call && mock.dones + mock.fails == 0);
    mock.fails++;
    mock.why = *why;
    mock.call = NULL;
}

// ---- beginning and asking -------------------------------------------------------------------

void mock_reset(void)
{
    mock.deltas = mock.retries = mock.dones = mock.fails = 0;
    mock.left_out = mock.told = 0;
    mock.why = (struct provider_error){0};
    buf_clear(&mock.text);
    buf_clear(&mock.reasoning);
    buf_clear(&mock.response);
    buf_clear(&mock.calls);
}

static void choose(const char *kind, const char *const *settings)
{
    static const char *const env[] = {"MOCK_KEY=sk-secret-0123456789", NULL};
    char path[300], text[400];
    snprintf(path, sizeof path, "%s/config.toml", test_dir());
    snprintf(text, sizeof text,
             "[model]\nprovider = 'mock'\n[providers.mock]\nkind = '%s'\nbase_url = '%s'\n"
             "api_key_env = 'MOCK_KEY'\nmodel = 'm-1'\n",
             kind, web_url(&mock.web, ""));
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, NULL), 0);
    struct home home = {.dir = (char *)(uintptr_t)test_dir()};
    struct config_sources src = {.system_path = path, .flags = settings};
    struct provider_wish wish = {.env = env, .home = &home};
    struct config_diags diags;
    struct config *c = NULL;
    struct err e = {0};
    config_diags_init(&diags);
    if (config_load(&c, &src, &diags, &e) != 0 ||
        providers_resolve(&mock.choice, c, &wish, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    config_diags_fini(&diags);
    config_free(c);
}

void mock_begin(const char *kind, web_fn *answer, const char *const *settings)
{
    test_clock_init(&now);
    web_begin(&now.clock);
    mock = (struct mock){0};
    web_open(&mock.web, answer);
    mock.service = providers_open(&l, client);
    buf_init(&mock.text, SIZE_MAX);
    buf_init(&mock.reasoning, SIZE_MAX);
    buf_init(&mock.response, SIZE_MAX);
    buf_init(&mock.calls, SIZE_MAX);
    choose(kind, settings);
}

void mock_end(void)
{
    providers_close(mock.service);
    provider_choice_fini(&mock.choice);
    buf_fini(&mock.text);
    buf_fini(&mock.reasoning);
    buf_fini(&mock.response);
    buf_fini(&mock.calls);
    web_close(&mock.web);
    web_end();
}

void mock_start(const char *request)
{
    static const char hello[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}";
    struct provider_cb cb = {on_delta, mock.no_retry ? NULL : on_retry, on_done, on_fail};
    struct json *v = NULL;
    struct arena a = {0};
    struct err e = {0};
    CHECK_INT(json_parse(&v, &a, str_of(request != NULL ? request : hello), NULL, &e), 0);
    struct provider_ask ask = {.choice = &mock.choice, .request = v, .n = ++mock.asked};
    if (provider_start(&mock.call, mock.service, &ask, &cb, &mock, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    arena_fini(&a);
    CHECK_INT(mock.dones + mock.fails + mock.deltas, 0); // never from inside the call
}

void mock_wait(void)
{
    int seen = mock.retries;
    while (mock.dones + mock.fails == 0) {
        loop_run_once(&l, false);
        if (mock.retries > seen) {
            seen++;
            test_clock_advance(&now, &l, mock.waits[seen - 1]);
        }
    }
}

void mock_ask(const char *request)
{
    mock_reset();
    mock_start(request);
    mock_wait();
}

// ---- answering ------------------------------------------------------------------------------

void mock_stream_head(struct web_conn *conn)
{
    web_say(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n");
}

void mock_chunk(struct web_conn *conn, const char *p, size_t n)
{
    char size[24];
    snprintf(size, sizeof size, "%zx\r\n", n);
    web_say(conn, size);
    web_say_bytes(conn, p, n);
    web_say(conn, "\r\n");
}

void mock_stream_end(struct web_conn *conn)
{
    web_say(conn, "0\r\n\r\n");
}

void mock_stream(struct web_conn *conn, const char *events)
{
    mock_stream_head(conn);
    mock_chunk(conn, events, strlen(events));
    mock_stream_end(conn);
}

void mock_status(struct web_conn *conn, int status, const char *headers, const char *body)
{
    char head[512];
    snprintf(
        head, sizeof head,
        "HTTP/1.1 %d Whatever\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n",
        status, headers, strlen(body));
    web_say(conn, head);
    web_say(conn, body);
}
