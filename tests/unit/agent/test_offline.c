// The offline model: which request of a user becomes which tool call, and what it says then.

#include "agent/offline.h"
#include "unit/test.h"

static struct arena arena;

/// The scene for a user who said `said`, when `results` (JSON, comma-separated; "" for none) came since.
static const struct json *ask(const char *said, const char *results, const char *more_tools)
{
    static char text[4000];
    struct json *request;
    snprintf(text, sizeof text,
             "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}%s%s], \"tools\": ["
             "{\"name\": \"list_files\"}, {\"name\": \"read_file\"}, {\"name\": \"write_file\"}, "
             "{\"name\": \"edit_file\"}, {\"name\": \"search_files\"}, {\"name\": \"shell\"}%s]}",
             said, *results != '\0' ? ", " : "", results, more_tools);
    CHECK_INT(json_parse(&request, &arena, str_of(text), NULL, NULL), 0);
    return offline_scene(&arena, request);
}

static const char *call_of(const struct json *scene)
{
    const struct json *call = json_at(json_get(scene, "tool_calls"), 0);
    struct buf out;
    buf_init(&out, SIZE_MAX);
    buf_addf(&out, STR_FMT " ", STR_ARG(json_str(json_get(call, "name"), "none")));
    json_write(&out, json_get(call, "input"), 0);
    const char *text = arena_strdup(&arena, buf_str(&out));
    buf_fini(&out);
    return text;
}

static bool says(const struct json *scene, const char *words)
{
    struct str text = json_str(json_get(scene, "text"), "");
    return memmem(text.p, text.n, words, strlen(words)) != NULL;
}

#define RESULT(success, output)                                                                    \
    "{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_call\", \"id\": \"c\", \"name\": "  \
    "\"read_file\", \"input\": {}}]}, {\"role\": \"tool\", \"content\": [{\"type\": "              \
    "\"tool_result\", \"tool_call_id\": \"c\", \"success\": " success ", \"output\": \"" output    \
    "\"}]}"

TEST(each_request_becomes_the_call_it_asks_for)
{
    static const struct {
        const char *said, *call;
    } rows[] = {
        {"hello", "list_files {}"},
        {"List the files, please.", "list_files {}"},
        {"list the files of src/agent", "list_files {\"path\":\"src/agent\"}"},
        {"read README.md.", "read_file {\"path\":\"README.md\"}"},
        {"What is in `docs/arch.md`?", "read_file {\"path\":\"docs/arch.md\"}"},
        {"search for \\\"TODO\\\"", "search_files {\"pattern\":\"TODO\"}"},
        {"write \\\"hello there\\\" to notes.txt",
         "write_file {\"path\":\"notes.txt\",\"content\":\"hello there\\n\"}"},
        {"replace \\\"a b\\\" with \\\"c\\\" in notes.txt",
         "edit_file {\"path\":\"notes.txt\",\"old\":\"a b\",\"new\":\"c\"}"},
        {"run `git status`", "shell {\"cmd\":\"git status\"}"},
        {"what is Afloat?", "none null"},
        {"an unclosed \\\"quote", "list_files {}"},
        {"", "list_files {}"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_STR(call_of(ask(rows[i].said, "", "")), rows[i].call);
    }
    arena_fini(&arena);
}

TEST(an_answer_without_a_call_says_that_it_is_the_offline_demo)
{
    const struct json *scenes[] = {
        ask("read a.txt", RESULT("true", "first line"), ""),
        ask("read a.txt", RESULT("false", "no such file"), ""),
        ask("write a plugin", "", ""), // plugin_save is not offered
        ask("help", "", ""),
    };
    for (size_t i = 0; i < ARRAY_LEN(scenes); i++) {
        CHECK_STR(call_of(scenes[i]), "none null");
        CHECK(says(scenes[i], "This is the offline demo"));
    }
    CHECK(says(scenes[0], "first line"));
    CHECK(says(scenes[1], "did not work") && says(scenes[1], "no such file"));
    CHECK(says(scenes[2], "`plugin_save`, which this session does not offer"));
    arena_fini(&arena);
}

TEST(a_long_result_is_told_in_part)
{
    const struct json *scene =
        ask("read a.txt",
            RESULT("true", "1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n10\\n11\\n12\\nthirteen"), "");
    CHECK(says(scene, "\n12\n```\n(and more)") && !says(scene, "thirteen"));
    arena_fini(&arena);
}

TEST(a_plugin_that_is_asked_for_as_a_file_is_sent_in_the_answer)
{
    const struct json *scene =
        ask("Write a plugin for Afloat in Lua, named 'tide'. What it has to do: say "
            "\\\"high\\\"\\n\\nAnswer with the whole file in one ```lua block.",
            "", ", {\"name\": \"plugin_save\"}");
    CHECK_STR(call_of(scene), "none null");
    CHECK(says(scene, "```lua\nlocal purpose = \"say \\\"high\\\"\"\n"));
    CHECK(says(scene, "name = \"tide\""));
    arena_fini(&arena);
}

TEST(a_plugin_is_written_and_its_tool_used)
{
    const char *more = ", {\"name\": \"plugin_save\"}";
    CHECK(strstr(call_of(ask("write a plugin", "", more)), "plugin_save {\"name\":\"dice\"") !=
          NULL);
    CHECK(strstr(call_of(ask("write a plugin", "", more)), "function(ctx, input)") != NULL);
    CHECK_STR(call_of(ask("write a plugin", RESULT("true", "ok"), more)), "roll_dice {}");
    const struct json *end =
        ask("write a plugin", RESULT("true", "ok") ", " RESULT("true", "the die shows 4"), more);
    CHECK(says(end, "the die shows 4") && says(end, "plugin enable improvements/dice"));
    arena_fini(&arena);
}

TEST(the_instructions_of_a_bot_are_not_words_of_the_user)
{
    const char *prompt =
        "Write reviews.\\n\\n## Status\\n- Project: api\\n- Branch: afloat/carp-1a2b\\n\\n"
        "## Instructions\\nUse `merge` to merge.";
    CHECK_STR(call_of(ask(prompt, "", ", {\"name\": \"write_file\"}")), "list_files {}");
    arena_fini(&arena);
}

TEST(a_run_of_a_bot_is_completed)
{
    const char *more = ", {\"name\": \"session_complete\"}";
    const char *prompt =
        "You fix things.\\n\\n## Status\\n- read x.md\\n\\n## User Input\\n> what is "
        "Afloat?\\n\\n## Instructions\\n> list files";
    CHECK(strstr(call_of(ask(prompt, "", more)), "session_complete {\"action\":\"review\"") !=
          NULL);
    arena_fini(&arena);
}
