// The formats themselves: requests as each API wants them, and what streams mean, without a socket.

#include "agent/wire.h"
#include "unit/test.h"

static const struct wire *const wires[] = {&wire_responses, &wire_chat, &wire_anthropic};

// ---- writing --------------------------------------------------------------------------------

static struct arena arena;

static const struct json *parse(const char *text)
{
    struct json *v = NULL;
    struct err e = {0};
    if (json_parse(&v, &arena, str_of(text), NULL, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s in %s", e.msg, text);
    }
    return v;
}

static void check_body(const struct wire *wire, const char *request, const char *expected)
{
    struct buf out;
    struct err e = {0};
    buf_init(&out, SIZE_MAX);
    if (wire_check(parse(request), &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    wire_write(wire, &out, parse(request), STR("m"));
    CHECK_STR(buf_z(&out), expected);
    buf_fini(&out);
}

static const char conversation[] =
    "{\"system\": \"Be brief.\", \"params\": {\"max_tokens\": 9, \"temperature\": 0}, \"tools\": ["
    "{\"name\": \"sh\", \"description\": \"run\", \"input_schema\": {\"type\": \"object\"}}],"
    "\"messages\": ["
    "{\"role\": \"user\", \"content\": \"one\"},"
    "{\"role\": \"user\", \"content\": \"two\"},"
    "{\"role\": \"assistant\", \"content\": ["
    "{\"type\": \"reasoning\", \"kind\": \"openai-responses\", \"data\": {\"type\": \"reasoning\","
    "\"encrypted_content\": \"e\"}},"
    "{\"type\": \"reasoning\", \"kind\": \"anthropic\", \"data\": {\"type\": \"thinking\","
    "\"thinking\": \"t\", \"signature\": \"s\"}},"
    "{\"type\": \"text\", \"text\": \"ok\"},"
    "{\"type\": \"tool_call\", \"id\": \"c1\", \"name\": \"sh\", \"input\": {\"x\": 1}},"
    "{\"type\": \"tool_call\", \"id\": \"c2\", \"name\": \"sh\", \"input\": null}]},"
    "{\"role\": \"system\", \"content\": \"remark\"},"
    "{\"role\": \"tool\", \"content\": ["
    "{\"type\": \"tool_result\", \"tool_call_id\": \"c1\", \"output\": \"r1\"},"
    "{\"type\": \"tool_result\", \"tool_call_id\": \"c2\", \"output\": {\"a\": 1}, \"success\": "
    "false}]},"
    "{\"role\": \"user\", \"content\": [\"\", {\"type\": \"text\", \"text\": \"three\"}]}]}";

TEST(a_conversation_is_written_for_openai_responses)
{
    check_body(
        &wire_responses, conversation,
        "{\"model\":\"m\",\"stream\":true,\"store\":false,\"include\":[\"reasoning.encrypted_"
        "content\"],"
        "\"instructions\":\"Be brief.\",\"tools\":[{\"type\":\"function\",\"name\":\"sh\","
        "\"description\":\"run\",\"parameters\":{\"type\":\"object\"},\"strict\":false}],\"input\":"
        "["
        "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":"
        "\"one\"}]},"
        "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":"
        "\"two\"}]},"
        "{\"type\":\"reasoning\",\"encrypted_content\":\"e\"},"
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
        "\"text\":\"ok\"}]},"
        "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"sh\",\"arguments\":\"{\\\"x\\\":"
        "1}\"},"
        "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"sh\",\"arguments\":\"{}\"},"
        "{\"type\":\"message\",\"role\":\"developer\",\"content\":[{\"type\":\"input_text\","
        "\"text\":\"remark\"}]},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"r1\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c2\",\"output\":\"{\\\"a\\\":1}\"},"
        "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":"
        "\"three\"}]}],"
        "\"max_output_tokens\":9,\"temperature\":0}");
}

TEST(a_conversation_is_written_for_openai_chat)
{
    check_body(
        &wire_chat, conversation,
        "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"messages\":"
        "["
        "{\"role\":\"system\",\"content\":\"Be brief.\"},"
        "{\"role\":\"user\",\"content\":\"one\"},{\"role\":\"user\",\"content\":\"two\"},"
        "{\"role\":\"assistant\",\"content\":\"ok\",\"tool_calls\":["
        "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"sh\",\"arguments\":\"{"
        "\\\"x\\\":1}\"}},"
        "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"sh\",\"arguments\":\"{}\"}}]"
        "},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"r1\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c2\",\"content\":\"{\\\"a\\\":1}\"},"
        "{\"role\":\"system\",\"content\":\"remark\"},"
        "{\"role\":\"user\",\"content\":\"three\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"sh\",\"description\":\"run\","
        "\"parameters\":{\"type\":\"object\"}}}],\"max_tokens\":9,\"temperature\":0}");
}

// Neighbours are one message, results stand first in it, other APIs' reasoning and empty texts are
// left out, the end is marked for the cache.
TEST(a_conversation_is_written_for_anthropic)
{
    check_body(
        &wire_anthropic, conversation,
        "{\"model\":\"m\",\"stream\":true,\"system\":[{\"type\":\"text\",\"text\":\"Be brief.\","
        "\"cache_control\":{\"type\":\"ephemeral\"}}],\"tools\":[{\"name\":\"sh\",\"description\":"
        "\"run\","
        "\"input_schema\":{\"type\":\"object\"}}],\"messages\":["
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},{\"type\":\"text\","
        "\"text\":\"two\"}]},"
        "{\"role\":\"assistant\",\"content\":["
        "{\"type\":\"thinking\",\"thinking\":\"t\",\"signature\":\"s\"},{\"type\":\"text\","
        "\"text\":\"ok\"},"
        "{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"sh\",\"input\":{\"x\":1}},"
        "{\"type\":\"tool_use\",\"id\":\"c2\",\"name\":\"sh\",\"input\":{}}]},"
        "{\"role\":\"user\",\"content\":["
        "{\"type\":\"tool_result\",\"tool_use_id\":\"c1\",\"content\":\"r1\",\"is_error\":false},"
        "{\"type\":\"tool_result\",\"tool_use_id\":\"c2\",\"content\":\"{\\\"a\\\":1}\",\"is_"
        "error\":true},"
        "{\"type\":\"text\",\"text\":\"remark\"},"
        "{\"type\":\"text\",\"text\":\"three\",\"cache_control\":{\"type\":\"ephemeral\"}}]}],"
        "\"max_tokens\":9,\"temperature\":0}");
}

// Chat wants results right behind their calls, even when somebody spoke in between.
TEST(chat_writes_results_before_what_was_said_in_between)
{
    check_body(&wire_chat,
               "{\"messages\": [{\"role\": \"user\", \"content\": [\"late\", "
               "{\"type\": \"tool_result\", \"tool_call_id\": \"c\", \"output\": \"r\"}]}]}",
               "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
               "\"messages\":[{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"r\"},"
               "{\"role\":\"user\",\"content\":\"late\"}]}");
}

TEST(params_replace_what_is_sent_by_itself)
{
    check_body(
        &wire_responses,
        "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], "
        "\"params\": {\"include\": [], \"store\": true}}",
        "{\"model\":\"m\",\"stream\":true,\"input\":[{\"type\":\"message\",\"role\":\"user\","
        "\"content\":[{\"type\":\"input_text\",\"text\":\"x\"}]}],\"include\":[],\"store\":true}");
    check_body(&wire_anthropic, "{\"messages\": [{\"role\": \"user\", \"content\": [\"\"]}]}",
               "{\"model\":\"m\",\"stream\":true,\"max_tokens\":16384,\"messages\":[]}");
}

TEST(what_is_no_request_is_refused_with_its_place)
{
    static const struct {
        const char *request, *says;
    } rows[] = {
        {"[]", "messages must be a list"},
        {"{\"messages\": []}", "at least one"},
        {"{\"messages\": [1]}", "messages[0]: role"},
        {"{\"messages\": [{\"role\": \"bot\", \"content\": \"\"}]}", "messages[0]: role"},
        {"{\"messages\": [{\"role\": \"user\"}]}", "messages[0]: content must be"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"sound\"}]}]}",
         "messages[0]: content of unknown type 'sound'"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "messages[0]: an image needs a text 'url'"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [7]}]}", "unknown type ''"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}, {\"role\": \"assistant\", "
         "\"content\": [{\"type\": \"tool_call\", \"id\": \"c\"}]}]}",
         "messages[1]: a tool_call needs a text 'name'"},
        {"{\"messages\": [{\"role\": \"tool\", \"content\": [{\"type\": \"tool_result\"}]}]}",
         "needs a text 'tool_call_id'"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"tools\": [{}]}",
         "tools: each needs"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"tools\": {}}",
         "tools must be a list"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"params\": []}",
         "params must be"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"system\": 1}",
         "model and system"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};
        CHECK_INT(wire_check(parse(rows[i].request), &e), ERR_INVALID);
        if (strstr(e.msg, rows[i].says) == NULL) {
            test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", e.msg, rows[i].says);
        }
    }
    arena_fini(&arena);
}

// ---- reading --------------------------------------------------------------------------------

static struct buf told; // deltas: t(text) r(reasoning) s: sealed

static void on_delta(void *arg, const struct provider_delta *d)
{
    (void)arg;
    if (d->sealed != NULL) {
        buf_addc(&told, 's');
        return;
    }
    buf_addf(&told, "%c(" STR_FMT ")", d->text.n != 0 ? 't' : 'r',
             STR_ARG(d->text.n != 0 ? d->text : d->reasoning));
}

/// Read events, one a line, and write what came of them: deltas, content, stop reason, bad inputs.
static const char *read_lines(const struct wire *wire, const char *lines)
{
    static struct buf out;
    struct wire_reply r;
    struct str rest = str_of(lines);
    struct err e = {0};
    int rc = 0;
    buf_init(&told, SIZE_MAX);
    buf_fini(&out);
    buf_init(&out, SIZE_MAX);
    wire_reply_init(&r, on_delta, NULL);
    while (rest.n != 0 && rc == 0) {
        struct sse_event ev = {.event = STR("message"), .data = str_cut(&rest, '\n')};
        rc = wire_event(wire, &r, &ev, &e);
    }
    if (rc != 0) {
        buf_addf(&out, "%s", e.msg);
    } else if (r.failed) {
        buf_addf(&out, "failed " STR_FMT "/" STR_FMT "/" STR_FMT, STR_ARG(r.fault.code),
                 STR_ARG(r.fault.type), STR_ARG(r.fault.message));
    } else {
        struct provider_response response;
        wire_reply_finish(&r, wire->kind, &response);
        buf_addf(&out, "%s ", buf_z(&told));
        json_write(&out, &response.content, 0);
        buf_addf(&out, " %s%s", response.stop_reason,
                 r.ended      ? ""
                 : r.finished ? " finished"
                              : " open");
        for (size_t i = 0; i < response.n_tool_calls; i++) {
            if (response.tool_calls[i].bad_input != NULL) {
                buf_addf(&out, " bad: %s", response.tool_calls[i].bad_input);
            }
        }
    }
    wire_reply_fini(&r);
    buf_fini(&told);
    return buf_z(&out);
}

TEST(reasoning_of_responses_is_shown_and_goes_back_as_it_came)
{
    CHECK_STR(
        read_lines(&wire_responses,
                   "{\"type\":\"response.reasoning_summary_text.delta\",\"delta\":\"hm\"}\n"
                   "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":"
                   "\"reasoning\",\"id\":\"rs\",\"summary\":[],\"encrypted_content\":\"abc\"}}\n"
                   "{\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"type\":"
                   "\"function_call\",\"call_id\":\"c\",\"name\":\"a\",\"arguments\":\"{}\"}}\n"
                   "{\"type\":\"response.completed\",\"response\":{}}"),
        "r(hm)s [{\"type\":\"reasoning\",\"kind\":\"openai-responses\",\"data\":{\"type\":"
        "\"reasoning\",\"id\":\"rs\",\"summary\":[],\"encrypted_content\":\"abc\"}},"
        "{\"type\":\"tool_call\",\"id\":\"c\",\"name\":\"a\",\"input\":{}}] tool_use");
}

TEST(reasoning_that_only_its_server_could_read_stays_behind)
{
    CHECK_STR(
        read_lines(&wire_responses,
                   "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":"
                   "\"reasoning\",\"id\":\"rs\",\"summary\":[]}}\n"
                   "{\"type\":\"response.completed\",\"response\":{}}"),
        " [] end_turn");
}

TEST(models_from_before_reasoning_are_not_asked_for_it)
{
    static const struct {
        const char *model;
        bool asked;
    } rows[] = {{"gpt-4o", false},
                {"gpt-3.5-turbo", false},
                {"gpt-5.1", true},
                {"o4-mini", true},
                {"llama", true}};
    const struct json *request =
        parse("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf out;
        buf_init(&out, SIZE_MAX);
        wire_write(&wire_responses, &out, request, str_of(rows[i].model));
        CHECK_INT(strstr(buf_z(&out), "encrypted_content") != NULL, rows[i].asked);
        buf_fini(&out);
    }
}

TEST(thinking_of_anthropic_goes_back_with_its_signature)
{
    CHECK_STR(
        read_lines(&wire_anthropic,
                   "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
                   "\"thinking\"}}\n"
                   "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_"
                   "delta\",\"thinking\":\"h\"}}\n"
                   "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_"
                   "delta\",\"thinking\":\"m\"}}\n"
                   "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_"
                   "delta\",\"signature\":\"S1\"}}\n"
                   "{\"type\":\"content_block_stop\",\"index\":0}\n"
                   "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":"
                   "\"redacted_thinking\",\"data\":\"zz\"}}\n"
                   "{\"type\":\"content_block_stop\",\"index\":1}\n"
                   "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}"),
        "r(h)r(m)ss "
        "[{\"type\":\"reasoning\",\"kind\":\"anthropic\",\"data\":{\"type\":\"thinking\","
        "\"thinking\":\"hm\",\"signature\":\"S1\"}},{\"type\":\"reasoning\",\"kind\":\"anthropic\","
        "\"data\":{\"type\":\"redacted_thinking\",\"data\":\"zz\"}}] end_turn finished");
}

/// Tokens of reasoning after these events.
static int64_t read_reasoning(const char *details)
{
    struct wire_reply r;
    char lines[4][256] = {
        "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\","
        "\"thinking\":\"123456789\"}}",
        "{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\","
        "\"text\":\"abc\"}}"};
    buf_init(&told, SIZE_MAX);
    wire_reply_init(&r, on_delta, NULL);
    snprintf(lines[2], sizeof lines[2],
             "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{"
             "\"output_tokens\":40%s}}",
             details);
    for (size_t i = 0; i < 3; i++) {
        struct sse_event ev = {.event = STR("message"), .data = str_of(lines[i])};
        CHECK_INT(wire_event(&wire_anthropic, &r, &ev, NULL), 0);
    }
    int64_t n = r.usage.reasoning;
    CHECK_INT(r.usage.output, 40);
    wire_reply_fini(&r);
    buf_fini(&told);
    return n;
}

TEST(reasoning_of_anthropic_is_counted)
{
    CHECK_INT(read_reasoning(""), 30); // 9 of 12 bytes
    CHECK_INT(read_reasoning(",\"output_tokens_details\":{\"thinking_tokens\":17}"), 17);
}

TEST(servers_that_speak_chat_in_their_own_way_are_understood)
{
    static const struct {
        const char *lines, *expected;
    } rows[] = {
        // reasoning under either name
        {"{\"choices\":[{\"delta\":{\"reasoning_content\":\"a\"}}]}\n"
         "{\"choices\":[{\"delta\":{\"reasoning\":\"b\",\"content\":\"c\"}}]}\n[DONE]",
         "r(a)r(b)t(c) [{\"type\":\"text\",\"text\":\"c\"}] end_turn"},
        // no index, arguments as an object, no id
        {"{\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"a\",\"arguments\":{"
         "\"x\":1}}}]},"
         "\"finish_reason\":\"tool_calls\"}]}",
         " [{\"type\":\"tool_call\",\"id\":\"call_0_1\",\"name\":\"a\",\"input\":{\"x\":1}}] "
         "tool_use finished"},
        // the same index for two calls
        {"{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{"
         "\"name\":\"a\",\"arguments\":\"{}\"}},"
         "{\"index\":0,\"id\":\"2\",\"function\":{\"name\":\"b\",\"arguments\":\"{}\"}}]}}]}\n["
         "DONE]",
         " [{\"type\":\"tool_call\",\"id\":\"1\",\"name\":\"a\",\"input\":{}},"
         "{\"type\":\"tool_call\",\"id\":\"2\",\"name\":\"b\",\"input\":{}}] tool_use"},
        // the name again with each piece
        {"{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{"
         "\"name\":\"a\",\"arguments\":\"{\"}}]}}]}\n"
         "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{"
         "\"name\":\"a\",\"arguments\":\"}\"}}]}}]}\n[DONE]",
         " [{\"type\":\"tool_call\",\"id\":\"1\",\"name\":\"a\",\"input\":{}}] tool_use"},
        {"{\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"length\"}]}",
         "t(x) [{\"type\":\"text\",\"text\":\"x\"}] max_tokens finished"},
        {"[DONE]", " [] end_turn open"}, // an end of nothing
        {"{\"error\":{\"code\":429,\"message\":\"slow\"}}", "failed 429//slow"},
        {"{\"error\":\"down\"}", "failed //down"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_STR(read_lines(&wire_chat, rows[i].lines), rows[i].expected);
    }
}

TEST(an_answer_that_comes_whole_at_the_end_is_taken_once)
{
    CHECK_STR(
        read_lines(
            &wire_responses,
            "{\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"message\","
            "\"content\":[{\"type\":\"output_text\",\"text\":\"Hi\"}]}]}}"),
        "t(Hi) [{\"type\":\"text\",\"text\":\"Hi\"}] end_turn");
    CHECK_STR(
        read_lines(&wire_responses,
                   "{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"Hi\"}\n"
                   "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":"
                   "\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hi\"}]}}\n"
                   "{\"type\":\"response.incomplete\",\"response\":{\"incomplete_details\":"
                   "{\"reason\":\"max_output_tokens\"},\"output\":[{\"type\":\"message\"}]}}"),
        "t(Hi) [{\"type\":\"text\",\"text\":\"Hi\"}] max_tokens");
}

TEST(input_that_is_no_object_is_marked_and_never_passed_on)
{
    static const struct {
        const char *arguments, *says;
    } rows[] = {
        {"{\\\"cmd\\\": \\\"rm -r", "bad: the input is not JSON"},
        {"[1]", "bad: the input is of type array and must be an object"},
        {"null", "bad: the input is of type null"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char line[400];
        snprintf(
            line, sizeof line,
            "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"a\","
            "\"arguments\":\"%s\"}}]}}]}\n[DONE]",
            rows[i].arguments);
        const char *out = read_lines(&wire_chat, line);
        CHECK(strstr(out, "\"input\":{}}] tool_use bad: ") != NULL);
        CHECK(strstr(out, rows[i].says) != NULL);
    }
}

// A request or a record that holds the input is some levels deeper, and must still be read.
TEST(input_that_is_too_deep_to_go_back_is_marked)
{
    for (int depth = 64; depth <= 65; depth++) {
        struct buf line = {.max = SIZE_MAX};
        buf_addz(&line, "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"1\",\"function\":{"
                        "\"name\":\"a\",\"arguments\":\"{\\\"a\\\":");
        for (int i = 1; i < depth; i++) {
            buf_addc(&line, '[');
        }
        for (int i = 1; i < depth; i++) {
            buf_addc(&line, ']');
        }
        buf_addz(&line, "}\"}}]}}]}\n[DONE]");
        const char *out = read_lines(&wire_chat, buf_z(&line));
        bool bad = strstr(out, "bad: the input is not JSON: ") != NULL;
        CHECK(bad == (depth == 65));
        CHECK(!bad || strstr(out, "nested deeper than 64 levels") != NULL);
        buf_fini(&line);
    }
}

TEST(events_of_unknown_shape_change_nothing)
{
    static const char lines[] =
        "\nping\n{}\n{\"type\":7}\n{\"type\":\"response.new_thing\",\"delta\":[]}\n"
        "{\"choices\":7}\n{\"choices\":[7]}\n{\"choices\":[{\"delta\":[]}]}\n"
        "{\"type\":\"content_block_delta\",\"index\":5,\"delta\":{\"type\":"
        "\"input_json_delta\",\"partial_json\":\"x\"}}\n"
        "{\"type\":\"response.output_item.done\",\"item\":{\"type\":\"new\"}}\n"
        "{\"type\":\"response.output_item.done\"}\n"
        "{\"type\":\"message_start\"}\n{\"type\":\"content_block_stop\"}";
    for (size_t i = 0; i < ARRAY_LEN(wires); i++) {
        CHECK_STR(read_lines(wires[i], lines), " [] end_turn open");
    }
}

// ---- bounds ---------------------------------------------------------------------------------

static void on_delta_quiet(void *arg, const struct provider_delta *d)
{
    *(size_t *)arg += d->text.n;
}

static int feed_until_refused(const struct wire *wire, const char *line, int at_most)
{
    struct wire_reply r;
    struct err e = {0};
    size_t n = 0;
    int rc = 0, i = 0;
    wire_reply_init(&r, on_delta_quiet, &n);
    for (; i < at_most && rc == 0; i++) {
        struct sse_event ev = {.data = str_of(line)};
        rc = wire_event(wire, &r, &ev, &e);
    }
    CHECK_INT(rc, ERR_TOO_LARGE);
    wire_reply_fini(&r);
    return i;
}

TEST(an_answer_of_endless_calls_or_inputs_is_refused)
{
    char *line = xmalloc(1 << 20);
    memset(line, 'x', (1 << 20) - 1);
    line[(1 << 20) - 1] = '\0';
    const char *head = "{\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"1\",\"function\":"
                       "{\"name\":\"a\",\"arguments\":\"";
    const char *tail = "\"}}]}}]}";
    memcpy(line, head, strlen(head));
    memcpy(line + (1 << 20) - 1 - strlen(tail), tail, strlen(tail));
    CHECK(feed_until_refused(&wire_chat, line, 40) <= 17);
    free(line);
    CHECK(feed_until_refused(&wire_anthropic,
                             "{\"type\":\"content_block_start\",\"index\":1,\"content_block\":"
                             "{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"a\"}}",
                             5000) <= 1025);
}
