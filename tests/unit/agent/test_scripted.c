// The scripted model: scenes, their failures, and that it goes the way of a real answer.

#include "agent/scripted.h"
#include "base/path.h"
#include "unit/agent/mock.h"

static char scenario_path[300];

static void write_scenario(const char *text)
{
    snprintf(scenario_path, sizeof scenario_path, "%s/scenario.jsonl", test_dir());
    CHECK_INT(path_write_atomic(scenario_path, str_of(text), 0600, NULL), 0);
}

/// Play `text` (NULL: the built-in scenario) from its first line on.
static void begin(const char *text)
{
    mock_begin("scripted", web_silent, NULL);
    if (text != NULL) {
        write_scenario(text);
        mock.choice.scenario = xstrdup(scenario_path);
    }
}

TEST(scenes_answer_one_request_each_and_then_the_scenario_ends)
{
    begin("{\"text\": \"I'll look.\", \"tool_calls\": [{\"name\": \"shell\", \"input\": {\"cmd\": "
          "\"ls\"}}, {\"name\": \"pwd\"}]}\n\n"
          "{\"text\": \"Done.\", \"usage\": {\"input\": 100, \"cached\": 40, \"output\": 7}}\n");
    mock_ask(NULL);
    CHECK_STR(buf_z(&mock.text), "I'll look.");
    CHECK_INT(mock.deltas, 2);
    CHECK_STR(buf_z(&mock.calls), "call_1_1 shell {\"cmd\":\"ls\"} ok\ncall_1_2 pwd {} ok\n");
    CHECK(strstr(buf_z(&mock.response), " tool_use ") != NULL);
    mock_ask(NULL);
    CHECK_STR(buf_z(&mock.response),
              "[{\"type\":\"text\",\"text\":\"Done.\"}] end_turn 100/40/7/0");
    mock_ask(NULL);
    CHECK_STR(buf_z(&mock.text), "(end of scenario)");
    mock_ask(NULL);
    CHECK_STR(buf_z(&mock.text), "(end of scenario)");
    mock_end();
}

TEST(the_file_is_read_anew_at_each_request)
{
    begin("{\"text\": \"old\"}\n{\"text\": \"old\"}\n");
    mock_ask(NULL);
    CHECK_STR(buf_z(&mock.text), "old");
    write_scenario("{\"text\": \"new\"}\n{\"text\": \"new\"}\n");
    mock_ask(NULL);
    CHECK_STR(buf_z(&mock.text), "new");
    mock_end();
}

TEST(without_a_scenario_the_offline_model_answers)
{
    begin(NULL);
    mock_ask(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}], \"tools\": [{\"name\": "
        "\"list_files\", \"description\": \"\", \"input_schema\": {}}]}");
    CHECK(strstr(buf_z(&mock.text), "scripted demo model") != NULL);
    CHECK_STR(buf_z(&mock.calls), "call_1_1 list_files {} ok\n");
    mock_ask("{\"messages\": [{\"role\": \"user\", \"content\": \"help\"}]}");
    CHECK(strstr(buf_z(&mock.text), "OPENAI_API_KEY") != NULL);
    CHECK_STR(buf_z(&mock.calls), "");
    mock_end();
}

TEST(a_key_that_no_scene_has_is_refused_with_its_line)
{
    static const struct {
        const char *line, *complaint;
    } rows[] = {
        {"{\"txt\": \"a\"}",
         "line 3 of the scenario: a line has no key 'txt'; did you mean 'text'?"},
        {"{\"tool_calls\": [{\"name\": \"x\", \"inputs\": {}}]}",
         "line 3 of the scenario: a tool call has no key 'inputs'"},
        {"{\"usage\": {\"tokens\": 1}}", "line 3 of the scenario: 'usage' has no key 'tokens'"},
        {"{\"error\": {\"status\": 500, \"time\": 2}}",
         "line 3 of the scenario: 'error' has no key 'time'; did you mean 'times'?"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"text\": \"a\"}\n\n%s\n", rows[i].line);
        begin(text);
        mock_ask(NULL);
        mock_ask(NULL);
        CHECK_INT(mock.why.fault, PROVIDER_SCENARIO);
        CHECK(strstr(mock.why.message, rows[i].complaint) != NULL);
        mock_end();
    }
}

TEST(a_scene_fails_as_often_as_it_says_and_then_answers)
{
    begin("{\"error\": {\"status\": 500, \"times\": 2}, \"text\": \"after two failures\"}\n"
          "{\"error\": {\"status\": 429, \"retry_after\": 3}, \"text\": \"after a pause\"}\n"
          "{\"error\": {\"status\": 500, \"times\": 99}, \"text\": \"never\"}\n"
          "{\"error\": {\"status\": 400, \"code\": \"context_length_exceeded\"}}\n");
    mock_ask(NULL);
    CHECK_INT(mock.dones, 1);
    CHECK_INT(mock.retries, 2);
    CHECK_STR(buf_z(&mock.text), "after two failures");
    mock_ask(NULL);
    CHECK_INT(mock.waits[0], 3000);
    CHECK_STR(buf_z(&mock.text), "after a pause");
    mock_ask(NULL);
    CHECK_INT(mock.fails, 1);
    CHECK_INT(mock.why.tries, 5);
    CHECK_INT(mock.why.fault, PROVIDER_OVERLOADED);
    mock_ask(NULL);
    CHECK_INT(mock.why.fault, PROVIDER_CONTEXT);
    mock_end();
}

TEST(a_scene_can_be_cut_in_the_middle)
{
    begin("{\"error\": {\"cut\": true}, \"text\": \"one two three four\"}\n");
    mock_ask(NULL);
    CHECK_INT(mock.retries, 1);
    CHECK_INT(mock.why.fault, PROVIDER_CUT);
    CHECK(mock.deltas > 4); // some of the first try, all of the second
    CHECK_STR(buf_z(&mock.text), "one two three four");
    mock_end();
}

TEST(a_scene_that_expects_other_words_says_which)
{
    begin("{\"when\": \"hello\", \"text\": \"a\"}\n"
          "{\"when\": \"file.txt\", \"text\": \"b\"}\n{\"when\": \"goodbye\", \"text\": \"c\"}\n");
    mock_ask(NULL);
    CHECK_STR(buf_z(&mock.text), "a");
    mock_ask(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}, {\"role\": \"tool\", "
        "\"content\": [{\"type\": \"tool_result\", \"tool_call_id\": \"c\", \"output\": \"x\"}, "
        "{\"type\": \"tool_result\", \"tool_call_id\": \"d\", \"output\": \"file.txt\"}]}]}");
    CHECK_STR(buf_z(&mock.text), "b");
    mock_ask(NULL);
    CHECK_INT(mock.fails, 1);
    CHECK_INT(mock.why.fault, PROVIDER_SCENARIO);
    CHECK(strstr(mock.why.message, "line 3 of the scenario expects 'goodbye'") != NULL);
    CHECK(strstr(mock.why.message, "hello") != NULL);
    mock_end();
}

TEST(a_scenario_that_cannot_be_played_says_why_and_is_not_repeated)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"{\"text\": 7}", "line 1 of the scenario: 'text' must be of type string"},
        {"{\"text\": ", "line 1 of the scenario"},
        {"[]", "must be an object"},
        {"{\"tool_calls\": [{}]}", "needs a 'name'"},
        {NULL, "scenario.jsonl"}, // no such file
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        begin(rows[i].text != NULL ? rows[i].text : "");
        if (rows[i].text == NULL) {
            CHECK_INT(remove(scenario_path), 0);
        }
        mock_ask(NULL);
        CHECK_INT(mock.fails, 1);
        CHECK_INT(mock.retries, 0);
        CHECK_INT(mock.why.fault, PROVIDER_SCENARIO);
        if (strstr(mock.why.message, rows[i].says) == NULL) {
            test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", mock.why.message, rows[i].says);
        }
        mock_end();
    }
}

// ---- time -----------------------------------------------------------------------------------

static void settle(void)
{
    while (mock.deltas + mock.dones == 0) {
        loop_run_once(&l, false);
    }
}

TEST(words_come_one_by_one_after_the_delay)
{
    begin("{\"text\": \"one two three\", \"delay_ms\": 100, \"delta_ms\": 10}");
    mock_start(NULL);
    while (l.n_timers < 2) { // idle and the delay
        loop_run_once(&l, false);
    }
    test_clock_advance(&now, &l, 99);
    CHECK_INT(mock.deltas, 0);
    test_clock_advance(&now, &l, 1 + 10);
    settle();
    CHECK_STR(buf_z(&mock.text), "one ");
    test_clock_advance(&now, &l, 10);
    CHECK_STR(buf_z(&mock.text), "one two ");
    provider_pause(mock.call, true);
    test_clock_advance(&now, &l, 1000);
    CHECK_STR(buf_z(&mock.text), "one two ");
    provider_pause(mock.call, false);
    while (mock.dones == 0) {
        loop_run_once(&l, false);
        test_clock_advance(&now, &l, 10);
    }
    CHECK_STR(buf_z(&mock.text), "one two three");
    mock_end();
}

TEST(a_scripted_call_can_be_cancelled_while_its_file_is_read)
{
    begin("{\"text\": \"one two\"}");
    for (bool reading = false; !reading;) {
        mock_reset();
        mock_start(NULL);
        loop_run_once(&l, false); // the first try has begun
        reading = mock.deltas + mock.dones + mock.fails == 0;
        if (!reading) { // the thread was faster than we
            mock_wait();
        }
    }
    provider_cancel(mock.call);
    mock_end();
    CHECK_INT(mock.deltas + mock.dones + mock.fails, 0);
}

// ---- through the same parser ----------------------------------------------------------------

TEST(reasoning_goes_back_like_that_of_a_real_answer)
{
    begin("{\"reasoning\": \"hm\", \"text\": \"ok\"}");
    mock_ask(NULL);
    CHECK_STR(buf_z(&mock.reasoning), "hm");
    CHECK(strstr(buf_z(&mock.response), "\"kind\":\"openai-responses\"") != NULL);
    CHECK(strstr(buf_z(&mock.response), "\"encrypted_content\":\"scripted\"") != NULL);
    mock_end();
}

TEST(input_written_as_text_reaches_the_parser_as_it_is)
{
    begin("{\"tool_calls\": [{\"name\": \"a\", \"input\": \"{broken\"}]}");
    mock_ask(NULL);
    CHECK(strstr(buf_z(&mock.calls), "call_1_1 a {} the input is not JSON") != NULL);
    mock_end();
}
