// The conversation: built while a turn runs, and rebuilt from a journal. Both must be the same.

#include "agent/talk.h"
#include "unit/test.h"

static const char *text_of(struct talk *t, struct buf *out)
{
    buf_clear(out);
    json_write(out, talk_messages(t), 0);
    return buf_z(out);
}

static void add_content(struct talk *t, const char *content)
{
    struct arena a = {0};
    struct json *v;
    CHECK_INT(json_parse(&v, &a, str_of(content), NULL, NULL), 0);
    talk_assistant(t, v, 0);
    arena_fini(&a);
}

/// Replay events, one a line.
static void replay(struct talk *t, struct talk_facts *f, const char *lines)
{
    struct str rest = str_of(lines);
    while (rest.n != 0) {
        struct arena a = {0};
        struct json *ev;
        CHECK_INT(json_parse(&ev, &a, str_cut(&rest, '\n'), NULL, NULL), 0);
        talk_replay(t, f, ev);
        arena_fini(&a);
    }
}

static void check_replay(const char *events, const char *expected)
{
    struct talk *t = talk_new();
    struct talk_facts f = {0};
    struct buf out;
    buf_init(&out, SIZE_MAX);
    replay(t, &f, events);
    CHECK_STR(text_of(t, &out), expected);
    buf_fini(&out);
    talk_facts_fini(&f);
    talk_free(t);
}

#define CALLS                                                                                      \
    "[{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"x\",\"input\":{}},"                          \
    "{\"type\":\"tool_call\",\"id\":\"b\",\"name\":\"y\",\"input\":{}}]"

TEST(results_stand_in_the_order_of_their_calls)
{
    struct talk *t = talk_new();
    struct buf out;
    buf_init(&out, SIZE_MAX);
    talk_user(t, STR("go"), NULL);
    add_content(t, CALLS);
    talk_result(t, STR("b"), STR("second"), true, STR(""));
    talk_result(t, STR("a"), STR("first"), false, STR("exit 1"));
    CHECK_STR(
        text_of(t, &out),
        "[{\"role\":\"user\",\"content\":\"go\"},{\"role\":\"assistant\",\"content\":" CALLS "},"
        "{\"role\":\"tool\",\"content\":["
        "{\"type\":\"tool_result\",\"tool_call_id\":\"a\",\"output\":\"first\\n[failed: exit 1]\","
        "\"success\":false},"
        "{\"type\":\"tool_result\",\"tool_call_id\":\"b\",\"output\":\"second\",\"success\":true}"
        "]}]");
    buf_fini(&out);
    talk_free(t);
}

TEST(a_call_without_a_result_gets_one_that_says_so)
{
    struct talk *t = talk_new();
    struct buf out;
    buf_init(&out, SIZE_MAX);
    add_content(t, CALLS);
    talk_result(t, STR("b"), STR("here"), true, STR(""));
    talk_user(t, STR("next"), NULL);
    CHECK(strstr(text_of(t, &out), "\"tool_call_id\":\"a\",\"output\":\"there is no result") !=
          NULL);
    CHECK(strstr(text_of(t, &out), "\"output\":\"here\"") != NULL);
    buf_fini(&out);
    talk_free(t);
}

TEST(a_journal_gives_the_same_messages_with_reasoning_unchanged)
{
    check_replay(
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"user\",\"text\":\"hi\"}\n"
        "{\"type\":\"turn.started\",\"turn\":\"t1\",\"text\":\"hi\"}\n"
        "{\"type\":\"message.delta\",\"turn\":\"t1\",\"text\":\"he\"}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\",\"text\":\"hello\","
        "\"content\":[{\"type\":\"reasoning\",\"kind\":\"anthropic\",\"data\":{\"sig\":\"s\"}},"
        "{\"type\":\"text\",\"text\":\"hello\"}]}\n"
        "{\"type\":\"turn.completed\",\"turn\":\"t1\",\"text\":\"hello\"}\n",
        "[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":"
        "[{\"type\":\"reasoning\",\"kind\":\"anthropic\",\"data\":{\"sig\":\"s\"}},"
        "{\"type\":\"text\",\"text\":\"hello\"}]}]");
}

TEST(what_was_said_during_tools_is_heard_behind_their_results)
{
    check_replay(
        "{\"type\":\"turn.started\",\"turn\":\"t1\",\"text\":\"go\"}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\",\"text\":\"\","
        "\"content\":[{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"x\",\"input\":{}}]}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"user\",\"text\":\"steer\","
        "\"steer\":true}\n"
        "{\"type\":\"tool.completed\",\"turn\":\"t1\",\"call_id\":\"a\",\"output\":\"out\","
        "\"success\":true}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\",\"text\":\"ok\","
        "\"heard\":1}\n",
        "[{\"role\":\"user\",\"content\":\"go\"},{\"role\":\"assistant\",\"content\":"
        "[{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"x\",\"input\":{}}]},"
        "{\"role\":\"tool\",\"content\":[{\"type\":\"tool_result\",\"tool_call_id\":\"a\","
        "\"output\":\"out\",\"success\":true}]},"
        "{\"role\":\"user\",\"content\":\"steer\"},{\"role\":\"assistant\",\"content\":\"ok\"}]");
}

TEST(what_was_said_too_late_is_heard_behind_the_answer)
{
    check_replay(
        "{\"type\":\"turn.started\",\"turn\":\"t1\",\"text\":\"go\"}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"user\",\"text\":\"late\","
        "\"steer\":true}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\","
        "\"text\":\"one\"}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\","
        "\"text\":\"two\",\"heard\":1}\n",
        "[{\"role\":\"user\",\"content\":\"go\"},{\"role\":\"assistant\",\"content\":\"one\"},"
        "{\"role\":\"user\",\"content\":\"late\"},"
        "{\"role\":\"assistant\",\"content\":\"two\"}]");
}

TEST(an_answer_that_a_message_cuts_off_stands_before_it)
{
    check_replay(
        "{\"type\":\"turn.started\",\"turn\":\"t1\",\"text\":\"go\"}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"user\",\"text\":\"one\","
        "\"steer\":true}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\","
        "\"text\":\"half of\",\"cut\":true}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"user\",\"text\":\"two\","
        "\"steer\":true}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\","
        "\"text\":\"ok\",\"heard\":2}\n"
        "{\"type\":\"turn.interrupted\",\"turn\":\"t1\",\"step\":2}\n",
        "[{\"role\":\"user\",\"content\":\"go\"},{\"role\":\"assistant\",\"content\":\"half of\"},"
        "{\"role\":\"user\",\"content\":\"one\"},{\"role\":\"user\",\"content\":\"two\"},"
        "{\"role\":\"assistant\",\"content\":\"ok\"},{\"role\":\"system\",\"content\":"
        "\"[the user interrupted the turn before this point]\"}]");
}

TEST(a_changed_message_a_summary_and_an_interrupt_are_replayed)
{
    check_replay(
        "{\"type\":\"turn.started\",\"turn\":\"t1\",\"text\":\"a\"}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"user\",\"text\":\"A\","
        "\"original_text\":\"a\"}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\",\"text\":\"one\"}\n"
        "{\"type\":\"turn.started\",\"turn\":\"t2\",\"text\":\"b\"}\n"
        "{\"type\":\"session.compacted\",\"turn\":\"t2\",\"summary\":\"sum\",\"kept\":1}\n"
        "{\"type\":\"turn.interrupted\",\"turn\":\"t2\",\"step\":1}\n",
        "[{\"role\":\"user\",\"content\":\"[Summary of the conversation so far]\\nsum\"},"
        "{\"role\":\"user\",\"content\":\"b\"},{\"role\":\"system\",\"content\":"
        "\"[the user interrupted the turn before this point]\"}]");
}

TEST(steering_that_was_heard_before_a_summary_is_what_is_kept)
{
    check_replay(
        "{\"type\":\"turn.started\",\"turn\":\"t1\",\"text\":\"a\"}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\",\"text\":"
        "\"one\"}\n"
        "{\"type\":\"tool.completed\",\"turn\":\"t1\",\"call_id\":\"c1\",\"output\":\"out\"}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"user\",\"text\":\"steer\","
        "\"steer\":true}\n"
        "{\"type\":\"session.compacted\",\"turn\":\"t1\",\"summary\":\"sum\",\"kept\":1,"
        "\"heard\":1}\n"
        "{\"type\":\"message.completed\",\"turn\":\"t1\",\"role\":\"assistant\",\"text\":\"ok\","
        "\"heard\":1}\n",
        "[{\"role\":\"user\",\"content\":\"[Summary of the conversation so far]\\nsum\"},"
        "{\"role\":\"user\",\"content\":\"steer\"},{\"role\":\"assistant\",\"content\":\"ok\"}]");
}

TEST(facts_go_on_where_the_journal_ends)
{
    struct talk *t = talk_new();
    struct talk_facts f = {0};
    replay(t, &f,
           "{\"type\":\"message.completed\",\"turn\":\"t7\",\"role\":\"user\",\"text\":\"a\"}\n"
           "{\"type\":\"message.completed\",\"turn\":\"t8\",\"role\":\"user\",\"text\":\"b\"}\n"
           "{\"type\":\"turn.completed\",\"turn\":\"t7\",\"request\":4}\n"
           "{\"type\":\"usage.updated\",\"usage\":{\"input\":5,\"cached\":null,\"output\":2,"
           "\"reasoning\":0,\"cost_usd\":null},\"request\":5}\n"
           "{\"type\":\"permission.requested\",\"request_id\":\"p3\"}\n");
    CHECK_INT(f.turns, 8);
    CHECK_INT(f.requests, 5);
    CHECK_INT(f.asks, 3);
    CHECK_INT(f.usage.input, 5);
    CHECK_INT(f.usage.cached, -1);
    CHECK_INT(f.open.n, 1);
    CHECK_STR(f.open.p[0], "t8");
    talk_facts_fini(&f);
    talk_free(t);
}

TEST(a_hostile_journal_is_survived)
{
    static const char *const lines[] = {
        "{\"type\":\"message.completed\",\"role\":\"assistant\"}",
        "{\"type\":\"message.completed\",\"role\":\"assistant\",\"content\":7,\"heard\":-5}",
        "{\"type\":\"message.completed\",\"role\":\"user\",\"text\":[],\"original_text\":\"x\"}",
        "{\"type\":\"tool.completed\"}",
        "{\"type\":\"session.compacted\",\"kept\":-1}",
        "{\"type\":\"session.compacted\",\"kept\":99999}",
        "{\"type\":\"usage.updated\",\"usage\":\"no\"}",
        "{\"type\":\"turn.interrupted\",\"step\":1}",
        "{\"type\":7}",
        "[]",
    };
    struct talk *t = talk_new();
    struct talk_facts f = {0};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        replay(t, &f, lines[i]);
        CHECK(talk_messages(t)->type == JSON_ARR);
    }
    CHECK_INT(talk_trim(t, 10), 0);
    talk_facts_fini(&f);
    talk_free(t);
}

TEST(long_results_are_cut_at_a_character)
{
    struct talk *t = talk_new();
    struct buf out;
    buf_init(&out, SIZE_MAX);
    add_content(t, CALLS);
    talk_result(t, STR("a"), STR("aaa\xc3\xa4zzz"), true, STR(""));
    talk_result(t, STR("b"), STR("short"), true, STR(""));
    CHECK_INT(talk_trim(t, 5), 1); // of the two, one is longer
    CHECK(strstr(text_of(t, &out), "aaa\xc3\xa4\\n[3 bytes left out]") != NULL);
    CHECK_INT(talk_tail(t), 0);
    buf_fini(&out);
    talk_free(t);
}

TEST(a_message_as_text_shows_each_part_cut_and_on_its_own_line)
{
    struct talk *t = talk_new();
    struct buf out = {.max = SIZE_MAX};
    talk_user(t, STR("hello there"), NULL);
    add_content(t, "[{\"type\":\"reasoning\",\"kind\":\"x\",\"data\":{}},"
                   "{\"type\":\"text\",\"text\":\"I look.\"},"
                   "{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"ls\",\"input\":{\"p\":1}}]");
    talk_result(t, STR("a"), STR("one"), true, STR(""));
    const struct json *messages = talk_messages(t);
    for (size_t i = 0; i < messages->n; i++) {
        talk_write_content(&out, &messages->items[i], 7);
    }
    CHECK_STR(buf_z(&out), "hello t [4 bytes left out]\nI look.\n[called ls {\"p\":1}]\none\n");
    buf_fini(&out);
    talk_free(t);
}

TEST(calls_without_a_result_are_known_until_their_turn_ends)
{
    struct talk *t = talk_new();
    struct talk_facts f = {0};
    replay(t, &f,
           "{\"type\":\"tool.called\",\"turn\":\"t1\",\"call_id\":\"a\",\"tool\":\"shell\"}\n"
           "{\"type\":\"tool.called\",\"turn\":\"t1\",\"call_id\":\"b\",\"tool\":\"shell\"}\n"
           "{\"type\":\"tool.completed\",\"turn\":\"t1\",\"call_id\":\"a\",\"success\":true}\n");
    CHECK_INT(f.running.n, 1);
    CHECK_STR(f.running.p[0].id, "b");
    CHECK_STR(f.running.p[0].turn, "t1");
    static const struct {
        const char *event;
        bool waits;
    } asked[] = {
        {"{\"type\":\"permission.requested\",\"call\":{\"tool_call_id\":\"b\",\"tool_name\":"
         "\"sample\"}}\n",
         false},
        {"{\"type\":\"permission.requested\",\"call\":{\"tool_call_id\":\"b\",\"tool_name\":"
         "\"shell\"}}\n",
         true},
        {"{\"type\":\"permission.decided\",\"call_id\":\"c\"}\n", true},
        {"{\"type\":\"permission.decided\",\"call_id\":\"b\"}\n", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        replay(t, &f, asked[i].event);
        CHECK_INT(f.running.p[0].waits, asked[i].waits);
    }
    replay(t, &f, "{\"type\":\"turn.failed\",\"turn\":\"t1\"}\n");
    CHECK_INT(f.running.n, 0);
    talk_facts_fini(&f);
    talk_free(t);
}
