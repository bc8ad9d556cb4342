// One call over HTTP, in each of the three formats: good answers, and every fault a server can make.

#include "unit/agent/mock.h"

static const struct mock_format *format; // being tested
static int failures;                     // to answer with before a good answer
static const char *head_lines = "";      // of the failures
static const char *error_body = "{}";
static int error_status = 500;

#define FOR_EACH_FORMAT for (format = mock_formats; format < mock_formats + 3; format++)

static void answer_hello(struct web_conn *conn, const char *head)
{
    (void)head;
    mock_stream(conn, format->hello);
}

static void answer_failures(struct web_conn *conn, const char *head)
{
    if (failures > 0) {
        failures--;
        mock_status(conn, error_status, head_lines, error_body);
    } else {
        answer_hello(conn, head);
    }
}

static void check_hello(void)
{
    bool reasoning = strcmp(format->kind, "anthropic") != 0; // which thought nothing here
    CHECK_INT(mock.dones, 1);
    CHECK_STR(buf_z(&mock.text), "Hi.");
    CHECK_STR(buf_z(&mock.response),
              reasoning ? "[{\"type\":\"text\",\"text\":\"Hi.\"}] end_turn 100/40/7/3"
                        : "[{\"type\":\"text\",\"text\":\"Hi.\"}] end_turn 100/40/7/0");
}

static void check_fault(enum provider_fault fault, unsigned tries, const char *says)
{
    CHECK_INT(mock.fails, 1);
    CHECK_STR(provider_fault_name(mock.why.fault), provider_fault_name(fault));
    CHECK_INT(mock.why.tries, tries);
    if (strstr(mock.why.message, says) == NULL) {
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", mock.why.message, says);
    }
}

// ---- good answers ---------------------------------------------------------------------------

static void answer_checked(struct web_conn *conn, const char *head)
{
    char line[80];
    snprintf(line, sizeof line, "POST %s HTTP/1.1\r\n", format->path);
    CHECK(str_starts(str_of(head), line));
    CHECK(web_header(head, "Content-Type: application/json"));
    if (strcmp(format->kind, "anthropic") == 0) {
        CHECK(web_header(head, "x-api-key: sk-secret-0123456789"));
        CHECK(web_header(head, "anthropic-version: 2023-06-01"));
        CHECK(strcasestr(head, "authorization") == NULL);
    } else {
        CHECK(web_header(head, "Authorization: Bearer sk-secret-0123456789"));
    }
    CHECK(strstr(buf_z(&conn->body), "\"model\":\"m-1\"") != NULL);
    CHECK(strstr(buf_z(&conn->body), "hello") != NULL);
    mock_stream(conn, format->hello);
}

TEST(a_text_streams_and_comes_whole_with_its_usage)
{
    FOR_EACH_FORMAT
    {
        mock_begin(format->kind, answer_checked, NULL);
        mock_ask(NULL);
        check_hello();
        CHECK_INT(mock.deltas, 2);
        mock_end();
    }
}

static void answer_without_end(struct web_conn *conn, const char *head)
{
    (void)head;
    mock_stream_head(conn);
    mock_chunk(conn, format->hello, strlen(format->hello));
}

TEST(an_answer_is_done_before_its_connection_which_is_used_again)
{
    FOR_EACH_FORMAT
    {
        mock_begin(format->kind, answer_without_end, NULL);
        for (int i = 0; i < 3; i++) {
            mock_ask(NULL);
            check_hello();
            mock_stream_end(mock.web.last);
            for (int turn = 0; turn < 100; turn++) { // until it was read
                loop_run_once(&l, false);
            }
        }
        CHECK_INT(mock.web.requests, 3);
        CHECK_INT(mock.web.accepts, 1);
        mock_end();
    }
}

TEST(a_connection_that_does_not_end_after_its_answer_is_closed)
{
    format = &mock_formats[0];
    mock_begin(format->kind, answer_without_end, NULL);
    mock_ask(NULL);
    check_hello();
    CHECK_INT(mock.web.closes, 0);
    test_clock_advance(&now, &l, 2000);
    while (mock.web.closes == 0) {
        loop_run_once(&l, true);
    }
    mock_end();
}

static void answer_tools(struct web_conn *conn, const char *head)
{
    (void)head;
    mock_stream(conn, format->tools);
}

TEST(parallel_tool_calls_come_in_their_order)
{
    FOR_EACH_FORMAT
    {
        mock_begin(format->kind, answer_tools, NULL);
        mock_ask(NULL);
        CHECK_INT(mock.dones, 1);
        CHECK_STR(buf_z(&mock.calls), "c1 a {\"x\":1} ok\nc2 b {} ok\n");
        CHECK_STR(buf_z(&mock.response),
                  "[{\"type\":\"text\",\"text\":\"Hi.\"},"
                  "{\"type\":\"tool_call\",\"id\":\"c1\",\"name\":\"a\",\"input\":{\"x\":1}},"
                  "{\"type\":\"tool_call\",\"id\":\"c2\",\"name\":\"b\",\"input\":{}}]"
                  " tool_use -1/-1/-1/-1");
        mock_end();
    }
}

// ---- bytes in odd shapes --------------------------------------------------------------------

static void answer_one_byte_chunks(struct web_conn *conn, const char *head)
{
    (void)head;
    mock_stream_head(conn);
    for (const char *p = format->hello; *p != '\0'; p++) {
        mock_chunk(conn, p, 1);
    }
    mock_stream_end(conn);
}

TEST(one_byte_chunks_change_nothing)
{
    FOR_EACH_FORMAT
    {
        mock_begin(format->kind, answer_one_byte_chunks, NULL);
        mock_ask(NULL);
        check_hello();
        mock_end();
    }
}

static void answer_crlf(struct web_conn *conn, const char *head)
{
    (void)head;
    mock_stream_head(conn);
    mock_chunk(conn, "\xEF\xBB\xBF", 3);
    for (const char *p = format->hello; *p != '\0'; p++) {
        mock_chunk(conn, *p == '\n' ? "\r\n" : p, *p == '\n' ? 2 : 1);
    }
    mock_stream_end(conn);
}

TEST(crlf_and_a_byte_order_mark_change_nothing)
{
    FOR_EACH_FORMAT
    {
        mock_begin(format->kind, answer_crlf, NULL);
        mock_ask(NULL);
        check_hello();
        mock_end();
    }
}

// "H" of the answer replaced by a character of four bytes, sent in four pieces.
static void answer_split_utf8(struct web_conn *conn, const char *head)
{
    const char *h = strstr(format->hello, "\"H\"") + 1;
    (void)head;
    mock_stream_head(conn);
    mock_chunk(conn, format->hello, (size_t)(h - format->hello));
    for (const char *p = "\xF0\x9F\x9A\xA2"; *p != '\0'; p++) {
        mock_chunk(conn, p, 1);
    }
    mock_chunk(conn, h + 1, strlen(h + 1));
    mock_stream_end(conn);
}

TEST(a_character_split_over_reads_arrives_whole)
{
    FOR_EACH_FORMAT
    {
        mock_begin(format->kind, answer_split_utf8, NULL);
        mock_ask(NULL);
        CHECK_INT(mock.dones, 1);
        CHECK_STR(buf_z(&mock.text), "\xF0\x9F\x9A\xA2i.");
        mock_end();
    }
}

// A delta as large as a whole event may be, or beyond.
static size_t delta_size;

static void answer_large(struct web_conn *conn, const char *head)
{
    const char *h = strstr(format->hello, "\"H\"") + 1;
    char *many = xmalloc(delta_size);
    (void)head;
    memset(many, 'x', delta_size);
    mock_stream_head(conn);
    mock_chunk(conn, format->hello, (size_t)(h - format->hello));
    mock_chunk(conn, many, delta_size);
    mock_chunk(conn, h + 1, strlen(h + 1));
    mock_stream_end(conn);
    free(many);
}

TEST(an_event_of_ten_megabytes_passes_and_its_text_is_bounded)
{
    FOR_EACH_FORMAT
    {
        delta_size = 10 << 20;
        mock_begin(format->kind, answer_large, NULL);
        mock_ask(NULL);
        CHECK_INT(mock.dones, 1);
        CHECK_INT(mock.text.n, (10 << 20) + 2);
        CHECK_INT(mock.left_out, (10 << 20) + 2 - PROVIDER_TEXT_MAX);
        mock_end();
    }
}

TEST(an_event_that_is_too_large_ends_the_call)
{
    FOR_EACH_FORMAT
    {
        delta_size = 11 << 20;
        mock_begin(format->kind, answer_large, NULL);
        mock_ask(NULL);
        check_fault(PROVIDER_TOO_LARGE, 1, "answered too much");
        mock_end();
    }
}

static void answer_head_only(struct web_conn *conn, const char *head)
{
    (void)head;
    mock_stream_head(conn);
}

/// Send the first delta of `hello` so often that `total` bytes of text are told, never further ahead
/// than one piece; returns the most that the heap grew.
static size_t stream_long(size_t total)
{
    const char *h = strstr(format->hello, "\"H\"") + 1;
    const char *begin = h, *end = strstr(h, "\n\n") + 2;
    size_t before = test_heap_bytes(), most = before;
    struct buf events;
    while (strncmp(begin - 6, "\ndata:", 6) != 0) {
        begin--;
    }
    buf_init(&events, SIZE_MAX);
    for (int i = 0; i < 16; i++) {
        buf_addf(&events, "data:%.*s%4096s", (int)(h - begin), begin, "x");
        buf_add(&events, h + 1, (size_t)(end - h - 1));
    }
    while (mock.told < total) {
        uint64_t want = mock.told + 16 * 4096;
        mock_chunk(mock.web.last, events.p, events.n);
        while (mock.told < want && mock.fails == 0) {
            loop_run_once(&l, false);
        }
        CHECK_INT(mock.fails + mock.retries, 0);
        most = MAX(most, test_heap_bytes());
    }
    buf_fini(&events);
    return most - before;
}

TEST(a_hundred_megabytes_of_text_cost_no_memory)
{
    FOR_EACH_FORMAT
    {
        mock_begin(format->kind, answer_head_only, NULL);
        mock.forget = true;
        mock_start(NULL);
        while (mock.web.last == NULL) {
            loop_run_once(&l, false);
        }
        size_t total = (size_t)test_loops(100) << 20, grown = stream_long(total);
        if (grown > 4 << 20) {
            test_fail(__FILE__, __LINE__, "the heap grew by %zu bytes", grown);
        }
        mock_chunk(mock.web.last, format->hello, strlen(format->hello));
        mock_wait();
        CHECK_INT(mock.dones, 1);
        CHECK_INT(mock.left_out, mock.told - PROVIDER_TEXT_MAX);
        CHECK(mock.told >= total);
        mock_end();
    }
}

// ---- refusals -------------------------------------------------------------------------------

static void begin_failures(int n, int status, const char *lines, const char *body)
{
    failures = n;
    error_status = status;
    head_lines = lines;
    error_body = body;
    mock_begin(format->kind, answer_failures, NULL);
    mock_ask(NULL);
}

static void check_waits(int n, uint64_t first)
{
    CHECK_INT(mock.retries, n);
    for (int i = 0; i < n; i++, first *= 2) {
        CHECK(mock.waits[i] >= first * 9 / 10 && mock.waits[i] <= first * 11 / 10);
    }
}

TEST(four_failures_of_the_server_are_waited_out_with_growing_pauses)
{
    static const int statuses[] = {500, 502, 503, 529, 408, 409};
    FOR_EACH_FORMAT
    {
        for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
            begin_failures(4, statuses[i], "", "<html>no</html>");
            check_hello();
            check_waits(4, 200);
            CHECK_INT(mock.web.requests, 5);
            mock_end();
        }
    }
}

TEST(the_fifth_failure_is_the_last)
{
    FOR_EACH_FORMAT
    {
        begin_failures(100, 500, "", "{\"error\":{\"message\":\"high demand\"}}");
        check_fault(PROVIDER_OVERLOADED, 5, "'mock' answered with status 500: high demand");
        CHECK_INT(mock.why.status, 500);
        CHECK_INT(mock.web.requests, 5);
        check_waits(4, 200);
        mock_end();
    }
}

TEST(retry_after_is_the_least_that_is_waited)
{
    FOR_EACH_FORMAT
    {
        begin_failures(1, 429, "Retry-After: 2\r\n", "{}");
        check_hello();
        CHECK_INT(mock.retries, 1);
        CHECK_INT(mock.waits[0], 2000);
        CHECK_INT(mock.why.fault, PROVIDER_RATE_LIMITED);
        mock_end();
    }
}

TEST(a_pause_is_found_in_whatever_form_it_is_asked_for)
{
    static const struct {
        const char *lines, *body;
        uint64_t ms;
    } rows[] = {
        {"retry-after-ms: 1500\r\nretry-after: 9\r\n", "{}", 1500},
        {"retry-after: 90\r\n", "{}", 90000}, // more than all our patience: theirs counts
        {"retry-after: 0.75\r\n", "{}", 750},
        {"retry-after: Thu, 01 Jan 2026 00:00:05 GMT\r\n", "{}", 5000},
        {"x-ratelimit-remaining-requests: 3\r\nx-ratelimit-reset-requests: 9s\r\n"
         "x-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 1m2.5s\r\n",
         "{}", 62500},
        {"anthropic-ratelimit-requests-remaining: 0\r\n"
         "anthropic-ratelimit-requests-reset: 2026-01-01T00:00:07Z\r\n",
         "{}", 7000},
        {"", "{\"error\":{\"message\":\"Please try again in 11.054s.\"}}", 11054},
    };
    format = &mock_formats[0];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin_failures(1, 429, rows[i].lines, rows[i].body);
        check_hello();
        CHECK_INT(mock.retries, 1);
        if (mock.waits[0] < rows[i].ms || mock.waits[0] > rows[i].ms + 1000) {
            test_fail(__FILE__, __LINE__, "row %zu waits %llu", i,
                      (unsigned long long)mock.waits[0]);
        }
        mock_end();
    }
}

TEST(a_pause_that_says_nothing_is_none)
{
    static const char *const lines[] = {
        "retry-after: soon\r\n",
        "retry-after: -5\r\n",
        "retry-after: 5 parsecs\r\n",
        "retry-after: Thu, 01 Jan 2026 00:00\r\n",
        "retry-after: Thu, 01 Jan 2025 00:00:05 GMT\r\n",
        "retry-after-ms: .\r\n",
        "x-ratelimit-remaining-tokens: 0\r\nx-ratelimit-reset-tokens: 7 moons\r\n",
    };
    format = &mock_formats[0];
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        begin_failures(1, 429, lines[i], "{}");
        check_hello();
        check_waits(1, 200);
        mock_end();
    }
}

TEST(a_pause_that_nobody_would_wait_for_ends_the_call)
{
    format = &mock_formats[1];
    begin_failures(1, 429, "Retry-After: 999999999999999999999999999\r\n", "{}");
    check_fault(PROVIDER_RATE_LIMITED, 1, "429");
    mock_end();
    begin_failures(1, 429, "Retry-After: 86400\r\n", "{}");
    check_fault(PROVIDER_RATE_LIMITED, 1, "429");
    CHECK_INT(mock.why.retry_after_ms, 86400000);
    mock_end();
}

TEST(too_many_requests_without_retry_after_are_tried_again)
{
    FOR_EACH_FORMAT
    {
        begin_failures(2, 429, "", "{\"error\":{\"code\":\"rate_limit_exceeded\"}}");
        check_hello();
        check_waits(2, 200);
        mock_end();
    }
}

TEST(refusals_that_will_not_change_are_not_repeated)
{
    static const struct {
        int status;
        const char *body;
        enum provider_fault fault;
    } rows[] = {
        {429, "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"x\"}}", PROVIDER_QUOTA},
        {429,
         "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"x\","
         "\"details\":{\"error_code\":\"enforced_spend_limit_reached\"}}}",
         PROVIDER_QUOTA},
        {402, "{}", PROVIDER_QUOTA},
        {400, "{\"error\":{\"type\":\"billing_error\"}}", PROVIDER_QUOTA},
        {400, "{\"error\":{\"message\":\"Your credit balance is too low\"}}", PROVIDER_QUOTA},
        {400, "{\"error\":{\"code\":\"context_length_exceeded\"}}", PROVIDER_CONTEXT},
        {400,
         "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
         "\"prompt is too long: 210000 tokens > 200000 maximum\"}}",
         PROVIDER_CONTEXT},
        {413, "{\"type\":\"error\",\"error\":{\"type\":\"request_too_large\"}}", PROVIDER_CONTEXT},
        {400, "{\"error\":{\"message\":\"This model's maximum context length is 8192\"}}",
         PROVIDER_CONTEXT},
        {401, "{\"error\":{\"code\":\"invalid_api_key\"}}", PROVIDER_AUTH},
        {403, "{}", PROVIDER_AUTH},
        {400, "{\"error\":\"no such thing\"}", PROVIDER_REJECTED},
        {404, "nothing here", PROVIDER_REJECTED},
        {301, "", PROVIDER_REJECTED},
    };
    FOR_EACH_FORMAT
    {
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            begin_failures(1, rows[i].status, "", rows[i].body);
            check_fault(rows[i].fault, 1, "'mock' answered with status");
            CHECK_INT(mock.web.requests, 1);
            mock_end();
        }
    }
}

TEST(an_error_in_a_good_status_without_a_stream_is_an_error)
{
    FOR_EACH_FORMAT
    {
        begin_failures(1, 200, "", "{\"error\":{\"code\":\"context_length_exceeded\"}}");
        check_fault(PROVIDER_CONTEXT, 1, "context_length_exceeded");
        mock_end();
    }
}

// ---- streams that go wrong ------------------------------------------------------------------

static void (*go_wrong)(struct web_conn *conn);

static void answer_wrong_then_hello(struct web_conn *conn, const char *head)
{
    if (failures > 0) {
        failures--;
        mock_stream_head(conn);
        go_wrong(conn);
    } else {
        answer_hello(conn, head);
    }
}

static size_t before_end(void) // of the events of `hello`, all but the last
{
    size_t n = strlen(format->hello) - 2;
    while (strncmp(format->hello + n - 2, "\n\n", 2) != 0) {
        n--;
    }
    return n;
}

static void cut_off(struct web_conn *conn)
{
    const char *h = strstr(format->hello, "\"H\"");
    mock_chunk(conn, format->hello, (size_t)(h + 8 - format->hello));
    web_hang_up(conn);
}

static void cut_off_rudely(struct web_conn *conn)
{
    web_reset(conn);
}

static void garbage(struct web_conn *conn)
{
    static const char text[] =
        "data: {\"type\": \"response.output_text.delta\", \"choices\": [}\n\n";
    mock_chunk(conn, text, sizeof text - 1);
    mock_chunk(conn, format->hello, strlen(format->hello));
    mock_stream_end(conn);
}

static void noise(struct web_conn *conn)
{
    static const char text[] = "\x01\x02\xff\xfe\n\n<html>\ndata\n\ndata: maybe\n\nid: 7\n\n";
    mock_chunk(conn, text, sizeof text - 1);
    mock_stream_end(conn);
}

static void bad_utf8(struct web_conn *conn)
{
    const char *h = strstr(format->hello, "\"H\"") + 1;
    mock_chunk(conn, format->hello, (size_t)(h - format->hello));
    mock_chunk(conn, "\xC3", 1);
    mock_chunk(conn, h + 1, strlen(h + 1));
    mock_stream_end(conn);
}

static void empty(struct web_conn *conn)
{
    mock_stream_end(conn);
}

// Some text, then an error that the format puts into the stream.
static void error_in_stream(struct web_conn *conn, const char *code)
{
    const char *gap = strstr(format->error, "CODE");
    mock_chunk(conn, format->error, (size_t)(gap - format->error));
    mock_chunk(conn, code, strlen(code));
    mock_chunk(conn, gap + 4, strlen(gap + 4));
}

static void overloaded(struct web_conn *conn)
{
    error_in_stream(conn, "overloaded_error");
}

TEST(a_stream_that_goes_wrong_is_asked_for_again)
{
    static const struct {
        void (*wrong)(struct web_conn *conn);
        enum provider_fault fault;
    } rows[] = {
        {cut_off, PROVIDER_CUT},           {cut_off_rudely, PROVIDER_UNREACHABLE},
        {garbage, PROVIDER_CUT},           {noise, PROVIDER_CUT},
        {bad_utf8, PROVIDER_CUT},          {empty, PROVIDER_CUT},
        {overloaded, PROVIDER_OVERLOADED},
    };
    FOR_EACH_FORMAT
    {
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            go_wrong = rows[i].wrong;
            failures = 1;
            mock_begin(format->kind, answer_wrong_then_hello, NULL);
            mock_ask(NULL);
            check_hello();
            check_waits(1, 200);
            bool cut = mock.why.fault == PROVIDER_CUT && rows[i].wrong == cut_off_rudely;
            CHECK(cut || mock.why.fault == rows[i].fault);
            mock_end();
        }
    }
}

TEST(a_stream_that_stays_wrong_fails_in_the_end)
{
    FOR_EACH_FORMAT
    {
        go_wrong = garbage;
        failures = 100;
        mock_begin(format->kind, answer_wrong_then_hello, NULL);
        mock_ask(NULL);
        check_fault(PROVIDER_CUT, 5, "not JSON");
        CHECK_INT(mock.web.requests, 5);
        mock_end();
    }
}

static void quota_in_stream(struct web_conn *conn)
{
    error_in_stream(conn, "insufficient_quota");
}

TEST(an_error_inside_the_stream_is_judged_like_any_other)
{
    FOR_EACH_FORMAT
    {
        go_wrong = quota_in_stream;
        failures = 1;
        mock_begin(format->kind, answer_wrong_then_hello, NULL);
        mock_ask(NULL);
        check_fault(PROVIDER_QUOTA, 1, "'mock' failed while it answered: bad luck");
        mock_end();
    }
}

// All events but the last, then a clean end.
static void no_end_marker(struct web_conn *conn)
{
    mock_chunk(conn, format->hello, before_end());
    mock_stream_end(conn);
}

TEST(a_missing_end_marker_is_a_cut_unless_the_format_has_said_that_it_is_done)
{
    FOR_EACH_FORMAT
    {
        bool said = strcmp(format->kind, "openai-responses") != 0; // a stop reason came before
        go_wrong = no_end_marker;
        failures = 1;
        mock_begin(format->kind, answer_wrong_then_hello, NULL);
        mock_ask(NULL);
        check_hello();
        CHECK_INT(mock.retries, said ? 0 : 1);
        mock_end();
    }
}

// The calls were complete, the answer was not.
static void cut_behind_tools(struct web_conn *conn)
{
    size_t n = strlen(format->tools) - 2;
    int events = strcmp(format->kind, "openai-responses") == 0 ? 1 : 2; // stop reason and marker
    while (events > 0) {
        n--;
        events -= strncmp(format->tools + n - 2, "\n\n", 2) == 0;
    }
    mock_chunk(conn, format->tools, n);
    mock_stream_end(conn);
}

TEST(tool_calls_of_a_cut_answer_are_never_handed_out)
{
    FOR_EACH_FORMAT
    {
        go_wrong = cut_behind_tools;
        failures = 1;
        mock_begin(format->kind, answer_wrong_then_hello, NULL);
        mock_ask(NULL);
        check_hello();
        CHECK_INT(mock.retries, 1);
        CHECK_STR(buf_z(&mock.calls), "");
        mock_end();
    }
}

TEST(without_on_retry_a_try_that_has_spoken_is_the_last)
{
    FOR_EACH_FORMAT
    {
        go_wrong = overloaded;
        failures = 1;
        mock_begin(format->kind, answer_wrong_then_hello, NULL);
        mock.no_retry = true;
        mock_ask(NULL);
        check_fault(PROVIDER_OVERLOADED, 1, "bad luck");
        mock_end();
    }
}

// ---- time -----------------------------------------------------------------------------------

static const char *const idle_10s[] = {"retry.idle_ms=10000", "retry.tries=2", NULL};

// Let time pass in steps, with whatever the server does meanwhile.
static void pass(uint64_t ms, void (*meanwhile)(void))
{
    for (uint64_t t = 0; t < ms && mock.dones + mock.fails == 0; t += 1000) {
        if (meanwhile != NULL && mock.web.last != NULL) {
            meanwhile();
        }
        for (int i = 0; i < 50; i++) {
            loop_run_once(&l, false);
        }
        test_clock_advance(&now, &l, 1000);
    }
}

static size_t dripped;
static int dripped_to; // which request

static void drip_head(void)
{
    static const char *const pieces[] = {"HTTP/1.1 200", " OK\r\nX-", "a: ", "b"};
    dripped = dripped_to == mock.web.requests ? dripped + 1 : 0;
    dripped_to = mock.web.requests;
    web_say(mock.web.last, pieces[MIN(dripped, ARRAY_LEN(pieces) - 1)]);
}

static void drip_body(void)
{
    web_say(mock.web.last, "1\r\nx\r\n");
}

TEST(a_server_that_says_nothing_or_drips_bytes_is_left_after_the_idle_time)
{
    static const struct {
        web_fn *answer;
        void (*meanwhile)(void);
    } rows[] = {{web_silent, NULL},
                {answer_head_only, NULL},
                {web_silent, drip_head},
                {answer_head_only, drip_body}};
    FOR_EACH_FORMAT
    {
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
            mock_begin(format->kind, rows[i].answer, idle_10s);
            dripped_to = 0;
            mock_start(NULL);
            pass(100 * 1000, rows[i].meanwhile);
            check_fault(PROVIDER_IDLE, 2, "silent for 10 s");
            CHECK_INT(mock.web.requests, 2);
            mock_end();
        }
    }
}

static void comment(void)
{
    web_say(mock.web.last, "d\r\n: keep-alive\n\r\n");
}

TEST(keep_alives_are_progress)
{
    format = &mock_formats[1];
    mock_begin(format->kind, answer_head_only, idle_10s);
    mock_start(NULL);
    pass(60 * 1000, comment);
    CHECK_INT(mock.fails + mock.retries, 0);
    mock_chunk(mock.web.last, format->hello, strlen(format->hello));
    mock_wait();
    check_hello();
    mock_end();
}

TEST(no_try_begins_a_minute_after_the_first_failure)
{
    static const char *const settings[] = {"retry.idle_ms=40000", "retry.tries=50", NULL};
    format = &mock_formats[0];
    mock_begin(format->kind, web_silent, settings);
    mock_start(NULL);
    pass(1000 * 1000, NULL);
    check_fault(PROVIDER_IDLE, 3, "silent"); // at 40 s, 80 s and, after 60 s, no more
    mock_end();
}

// ---- cancelling and pausing -----------------------------------------------------------------

static void cancel_now(const char *where)
{
    (void)where;
    provider_cancel(mock.call);
    mock.call = NULL;
    mock.hook = NULL;
}

static void settle(void)
{
    for (int i = 0; i < 200; i++) {
        loop_run_once(&l, false);
    }
}

TEST(a_call_can_be_cancelled_at_every_point)
{
    FOR_EACH_FORMAT
    {
        go_wrong = overloaded;
        failures = 1;
        mock_begin(format->kind, answer_wrong_then_hello, NULL);
        mock_start(NULL);
        cancel_now("before its first try");
        settle();
        CHECK_INT(mock.web.requests, 0);

        mock.hook = cancel_now; // in a delta
        mock_start(NULL);
        settle();
        CHECK_INT(mock.deltas, 1);

        failures = 1;
        error_status = 500;
        mock.web.answer = answer_failures;
        mock_reset();
        mock.hook = cancel_now; // in on_retry
        mock_start(NULL);
        settle();
        CHECK_INT(mock.retries, 1);

        failures = 1;
        mock_reset();
        mock_start(NULL); // while it waits for the next try
        settle();
        CHECK_INT(mock.retries, 1);
        cancel_now("");
        test_clock_advance(&now, &l, 10000);
        settle();

        mock.web.answer = web_silent;
        mock_reset();
        mock_start(NULL); // while the server thinks
        settle();
        cancel_now("");
        settle();
        CHECK_INT(mock.dones + mock.fails, 0);
        mock_end();
    }
}

static void answer_two_in_one(struct web_conn *conn, const char *head)
{
    (void)head;
    mock_stream(conn,
                "data: {\"choices\":[{\"delta\":{\"reasoning\":\"a\",\"content\":\"b\"}}]}\n\n"
                "data: {\"choices\":[{\"delta\":{\"content\":\"c\"}}]}\n\n");
}

TEST(after_a_cancel_not_even_the_rest_of_its_event_is_told)
{
    format = &mock_formats[1];
    mock_begin(format->kind, answer_two_in_one, NULL);
    mock.hook = cancel_now;
    mock_start(NULL);
    settle();
    CHECK_STR(buf_z(&mock.reasoning), "a");
    CHECK_STR(buf_z(&mock.text), "");
    mock_end();
}

TEST(while_paused_nothing_comes_and_no_time_is_counted)
{
    format = &mock_formats[2];
    mock_begin(format->kind, answer_head_only, idle_10s);
    mock_start(NULL);
    settle();
    provider_pause(mock.call, true);
    mock_chunk(mock.web.last, format->hello, strlen(format->hello));
    settle();
    test_clock_advance(&now, &l, 100 * 1000);
    settle();
    CHECK_INT(mock.deltas + mock.retries + mock.fails, 0);
    provider_pause(mock.call, false);
    mock_wait();
    check_hello();
    mock_end();
}

// ---- secrets --------------------------------------------------------------------------------

TEST(a_key_that_a_server_repeats_is_in_no_message)
{
    FOR_EACH_FORMAT
    {
        begin_failures(1, 401, "",
                       "{\"error\":{\"message\":\"Incorrect key sk-secret-0123456789 provided\"}}");
        check_fault(PROVIDER_AUTH, 1, "Incorrect key [redacted mock]");
        CHECK(strstr(mock.why.message, "0123456789") == NULL);
        mock_end();
    }
}

TEST(an_address_where_nobody_listens_is_unreachable_after_all_tries)
{
    FOR_EACH_FORMAT
    {
        mock_begin(format->kind, answer_hello, NULL);
        uv_tcp_t probe; // a port of our own that does not listen
        struct sockaddr_in a;
        int n = sizeof a;
        uv_ip4_addr("127.0.0.1", 0, &a);
        uv_tcp_init(&l.uv, &probe);
        CHECK_INT(uv_tcp_bind(&probe, (const struct sockaddr *)&a, 0), 0);
        CHECK_INT(uv_tcp_getsockname(&probe, (struct sockaddr *)&a, &n), 0);
        free(mock.choice.base_url);
        mock.choice.base_url = xasprintf("http://127.0.0.1:%d", ntohs(a.sin_port));
        mock_ask(NULL);
        check_fault(PROVIDER_UNREACHABLE, 5, "'mock' cannot be reached");
        uv_close((uv_handle_t *)&probe, NULL);
        mock_end();
    }
}
