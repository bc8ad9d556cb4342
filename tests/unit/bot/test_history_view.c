// One session as text.

#include "bot/history_view.h"
#include "unit/bot/home.h"

static const char events[] =
    "{\"seq\":1,\"type\":\"message.completed\",\"role\":\"user\",\"text\":\"hello\"}\n"
    "{\"seq\":2,\"type\":\"message.delta\",\"text\":\"I'll \"}\n"
    "{\"seq\":3,\"type\":\"message.delta\",\"text\":\"look.\"}\n"
    "{\"seq\":4,\"type\":\"message.delta\",\"reasoning\":\"hm\"}\n"
    "{\"seq\":5,\"type\":\"message.completed\",\"role\":\"assistant\",\"text\":\"I'll look.\"}\n"
    "{\"seq\":6,\"type\":\"tool.called\",\"call_id\":\"c1\",\"tool\":\"shell\",\"input\":{\"cmd\":"
    "\"ls;\\n exit 3\"}}\n"
    "{\"seq\":7,\"type\":\"tool.called\",\"call_id\":\"c2\",\"tool\":\"read_file\",\"input\":{"
    "\"path\":\"a\"}}\n"
    "{\"seq\":8,\"type\":\"tool.completed\",\"call_id\":\"c2\",\"success\":true,\"error\":null,"
    "\"duration_ms\":1}\n"
    "{\"seq\":9,\"type\":\"tool.completed\",\"call_id\":\"c1\",\"success\":false,\"error\":\"exit "
    "3\",\"duration_ms\":44}\n"
    "{\"seq\":10,\"type\":\"tool.called\",\"call_id\":\"c3\",\"tool\":\"shell\",\"input\":{\"cmd\":"
    "\"sleep 9\"}}\n"
    "not an event\n"
    "{\"seq\":11,\"type\":\"message.delta\",\"text\":\"void\"}\n"
    "{\"seq\":12,\"type\":\"message.aborted\"}\n"
    "{\"seq\":13,\"type\":\"message.delta\",\"text\":\"half a \"}\n"
    "{\"seq\":14,\"type\":\"message.delta\",\"text\":\"sentence\"}\n"
    "{\"seq\":15,\"type\":\"message.del";

static void put_session(void)
{
    put_file("s/metadata.json",
             "{\"session_number\": 7, \"model\": \"m\", \"prompt_summary\": \"hello\","
             "\"end_reason\": \"interrupted\", \"duration_secs\": 65}");
    put_file("s/events.jsonl", events);
}

static const char *view(enum history_section section, uint64_t offset, uint64_t limit)
{
    static struct buf b;
    struct err e = {0};
    struct history_wish w = {section, offset, limit};
    buf_fini(&b);
    buf_init(&b, SIZE_MAX);
    if (history_view(&b, NULL, NULL, at("s"), &w, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return buf_z(&b);
}

#define HEADER                                                                                     \
    "# Session 7 (s)\n\n- Model: m\n- Prompt: hello\n- Ended: interrupted\n- Duration: 65s, "      \
    "commands: 3\n"
#define COMMANDS                                                                                   \
    "\n## Commands\n$ ls; exit 3 [exit 3] (44ms)\nread_file {\"path\":\"a\"} [ok] (1ms)\n"         \
    "$ sleep 9 [not finished] (0ms)\n"
#define RESPONSE "\n## Full Response\nI'll look.\n\nhalf a sentence\n"

TEST(a_session_is_rebuilt_from_its_events)
{
    put_session();
    CHECK_STR(view(HISTORY_ALL, 0, 0), HEADER COMMANDS RESPONSE);
    CHECK_STR(view(HISTORY_COMMANDS, 0, 0), HEADER COMMANDS);
    CHECK_STR(view(HISTORY_RESPONSE, 0, 0), HEADER RESPONSE);
}

TEST(pages_are_counted_from_the_end)
{
    put_session();
    CHECK_STR(view(HISTORY_ALL, 0, 2),
              "\nhalf a sentence\n[lines 15-16 of 16] Earlier content: offset=2\n");
    CHECK_STR(view(HISTORY_ALL, 2, 2),
              "## Full Response\nI'll look.\n[lines 13-14 of 16] Earlier content: offset=4\n");
    CHECK_STR(view(HISTORY_ALL, 14, 5), "# Session 7 (s)\n\n[lines 1-2 of 16]\n");
    CHECK_STR(view(HISTORY_ALL, 16, 5), "[lines 0-0 of 16]\n");
    CHECK_STR(view(HISTORY_ALL, UINT64_MAX, UINT64_MAX), "[lines 0-0 of 16]\n");
    CHECK_STR(view(HISTORY_ALL, 0, 16), HEADER COMMANDS RESPONSE);
}

TEST(a_session_without_one_of_its_files_is_shown_as_far_as_it_goes)
{
    struct buf b;
    struct err e = {0};
    struct history_wish w = {0};
    put_file("s/metadata.json", "{");
    CHECK_STR(view(HISTORY_RESPONSE, 0, 0),
              "# Session 0 (s)\n\n- Duration: 0s, commands: 0\n\n## Full Response\n\n");
    buf_init(&b, SIZE_MAX);
    CHECK_INT(history_view(&b, NULL, NULL, at("none"), &w, &e), ERR_NOT_FOUND);
    buf_fini(&b);
}

TEST(of_a_huge_session_the_end_is_shown)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    buf_addz(
        &b, "{\"type\":\"message.completed\",\"role\":\"assistant\",\"text\":\"the beginning\"}\n");
    while (b.n < HISTORY_VIEW_BYTES) {
        buf_addz(&b, "{\"type\":\"log\",\"text\":\"");
        char *room = buf_reserve(&b, 1 << 20);
        memset(room, 'x', 1 << 20);
        buf_grow(&b, 1 << 20);
        buf_addz(&b, "\"}\n");
    }
    buf_addz(&b, "{\"type\":\"message.completed\",\"role\":\"assistant\",\"text\":\"the end\"}\n");
    put_bytes("s/events.jsonl", buf_str(&b));
    buf_fini(&b);
    const char *text = view(HISTORY_RESPONSE, 0, 0);
    CHECK(strstr(text, "the end") != NULL && strstr(text, "the beginning") == NULL);
}

TEST(a_session_is_written_as_json)
{
    struct buf b = {.max = SIZE_MAX}, text = {.max = SIZE_MAX};
    struct jw w = {.out = &b};
    put_session();
    jw_obj(&w);
    CHECK_INT(history_view(&text, &w, NULL, at("s"), &(struct history_wish){0}, NULL), 0);
    buf_fini(&text);
    jw_end_obj(&w);
    CHECK_STR(
        buf_z(&b),
        "{\"commands\":[{\"command\":\"ls; exit 3\",\"done\":true,\"success\":false,"
        "\"error\":\"exit 3\",\"duration_ms\":44},{\"command\":\"read_file "
        "{\\\"path\\\":\\\"a\\\"}\","
        "\"done\":true,\"success\":true,\"error\":null,\"duration_ms\":1},{\"command\":\"sleep 9\","
        "\"done\":false,\"success\":false,\"error\":null,\"duration_ms\":0}],"
        "\"response\":\"I'll look.\\n\\nhalf a sentence\"}");
    buf_fini(&b);
}

TEST(sections_have_names)
{
    enum history_section s;
    CHECK(history_section_parse(STR("commands"), &s) && s == HISTORY_COMMANDS);
    CHECK(history_section_parse(STR("all"), &s) && s == HISTORY_ALL);
    CHECK(!history_section_parse(STR("ALL"), &s));
}
