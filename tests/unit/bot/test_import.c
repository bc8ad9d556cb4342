// An openbot home is taken over, and nothing of ours is lost.

#include <sys/stat.h>
#include <unistd.h>

#include "bot/catalog.h"
#include "bot/history_view.h"
#include "bot/import.h"
#include "bot/memory.h"
#include "unit/bot/home.h"
#include "unit/store/util.h"

static struct import_report report;

static int import(struct err *e)
{
    import_report_fini(&report);
    report = (struct import_report){0};
    return import_openbot(&report, NULL, at("home"), at("open"), NULL, e);
}

/// What the report says about `name`: its message, "" without one, NULL when it is not there.
static const char *said(enum import_outcome outcome, const char *kind, const char *name)
{
    vec_foreach (it, &report.items) {
        if (it->outcome == outcome && strcmp(it->kind, kind) == 0 && strcmp(it->name, name) == 0) {
            return it->message != NULL ? it->message : "";
        }
    }
    return NULL;
}

static void put_openbot(void)
{
    put_file("open/skills/shared.md",
             "---\nname: shared\nsource: a/b/c\ninstalled_at: 2026\n---\nbody");
    put_file("open/bots/rev/config.md",
             "+++\ndescription = \"d\"\nmax_iterations = 5\nsandbox = \"workspace-write\"\n"
             "stop_phrase = \"TASK COMPLETE\"\n+++\nReview.\n");
    put_file("open/bots/rev/memory.json", "{\"entries\": {\"g\": \"global\", \"k\": \"loses\"}}");
    put_file("open/bots/rev/skills/own/SKILL.md", "own body");
    put_file("open/bots/rev/skills/own/more.txt", "more");
    put_file("open/bots/rev/workspaces/api/memory.json", "{\"entries\": {\"k\": \"v\"}}");
    put_file("open/bots/rev/workspaces/api/history/t1-s2/metadata.json",
             "{\"session_id\": \"t1-s2\", \"session_number\": 2, \"started_at\": "
             "\"2026-01-02T03:04:05Z\","
             "\"duration_secs\": 65, \"model\": \"m\", \"prompt_summary\": \"Review...\","
             "\"response_summary\": \"All good.\", \"action\": \"merged x into y\","
             "\"tokens\": {\"input_tokens\": 5}, \"command_count\": 1}");
    put_file(
        "open/bots/rev/workspaces/api/history/t1-s2/events.jsonl",
        "{\"type\":\"message\",\"content\":\"Hel\"}\n{\"type\":\"message\",\"content\":\"lo.\"}\n"
        "{\"type\":\"command\",\"command\":\"make\",\"exit_code\":2,\"duration_ms\":7}\nbroken\n"
        "{\"type\":\"token_count\",\"input_tokens\":5}\n{\"type\":\"message\",\"content\":\"Bye.\"}"
        "\n");
    put_file("open/bots/rev/workspaces/api/history/old-s1.json",
             "{\"session_number\": 1, \"started_at\": \"2025-01-02T03:04:05+01:00\", "
             "\"duration_secs\": 1,"
             "\"response_summary\": \"Old one.\", \"response\": \"Old text.\","
             "\"commands\": [{\"command\": \"ls\", \"exit_code\": 0, \"duration_ms\": 3}]}");
}

TEST(an_openbot_home_is_taken_over)
{
    struct catalog c;
    struct catalog_bot *b;
    struct memory m;
    put_openbot();
    CHECK_INT(import(NULL), 0);
    CHECK_INT(report.counts[IMPORT_FAILED], 0);
    CHECK_INT(report.counts[IMPORT_TAKEN], 7);
    CHECK_INT(catalog_read(&c, at("home"), NULL, NULL, NULL), 0);
    catalog_judge(&c, NULL);
    CHECK_INT(catalog_find(&c, STR("rev"), &b, NULL), 0);
    CHECK_INT(b->status, 0);
    CHECK_INT(b->config.max_iterations, 5);
    CHECK_STR(b->config.stop_phrase, "TASK COMPLETE");
    CHECK_STR(b->config.instructions, "Review.");
    catalog_fini(&c);
    CHECK_INT(memory_load(&m, NULL, at("home/bots/rev/workspaces/api"), NULL), 0);
    CHECK_INT(m.list.n, 2);
    CHECK_SPAN(memory_find(&m, STR("k"))->text, "v"); // the workspace's own
    CHECK_SPAN(memory_find(&m, STR("g"))->text, "global");
    memory_fini(&m);
    CHECK(strstr(text_of(at("home/skills/shared.md")), "installed_at: 2026") != NULL);
    CHECK_STR(text_of(at("home/bots/rev/skills/own/more.txt")), "more");
}

static const char *view(const char *id)
{
    static struct buf b;
    struct err e = {0};
    struct history_wish w = {0};
    buf_fini(&b);
    buf_init(&b, SIZE_MAX);
    if (history_view(&b, NULL, NULL, at("home/bots/rev/workspaces/api/history/%s", id), &w, &e) <
        0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return buf_z(&b);
}

TEST(sessions_of_both_forms_become_sessions_of_ours)
{
    put_openbot();
    CHECK_INT(import(NULL), 0);
    CHECK_STR(view("t1-s2"),
              "# Session 2 (t1-s2)\n\n- Model: m\n- Prompt: Review...\n- Summary: All good.\n"
              "- Action: merged x into y\n- Ended: complete\n- Duration: 65s, commands: 1\n"
              "\n## Commands\n$ make [exit 2] (7ms)\n\n## Full Response\nHello.\n\nBye.\n");
    CHECK_STR(view("old-s1"), "# Session 1 (old-s1)\n\n- Summary: Old one.\n- Ended: complete\n"
                              "- Duration: 1s, commands: 1\n\n## Commands\n$ ls [ok] (3ms)\n"
                              "\n## Full Response\nOld text.\n");
    CHECK_INT(journal_text_check(at("home/bots/rev/workspaces/api/history/t1-s2/events.jsonl")), 8);
    CHECK_STR(text_of(at("home/bots/rev/workspaces/api/session_number")), "2\n");
}

TEST(imported_sessions_are_known_to_the_store)
{
    struct box b;
    put_openbot();
    make_dir("home");
    box_open(&b, at("home"));
    CHECK_INT(import(NULL), 0);
    b.answered = false;
    store_rescan(b.store, STR("bots/"), box_done, &b);
    CHECK_INT(box_wait(&b), 0);
    CHECK_INT(box_list(&b, &(struct store_filter){.kind = STR("bot")}, "", 0), 0);
    CHECK_STR(buf_z(&b.text), "t1-s2 ended  8\nold-s1 ended  5\n");
    CHECK_INT(box_close(&b), 0);
}

TEST(a_second_import_does_nothing_new)
{
    put_openbot();
    CHECK_INT(import(NULL), 0);
    put_file("home/bots/rev/config.md", "Mine now.");
    put_file("open/bots/rev/workspaces/api/memory.json",
             "{\"entries\": {\"k\": \"other\", \"n\": \"new\"}}");
    CHECK_INT(import(NULL), 0);
    CHECK_INT(report.counts[IMPORT_TAKEN], 1); // the one key that is new
    CHECK_INT(report.counts[IMPORT_FAILED], 0);
    CHECK_INT(report.counts[IMPORT_KEPT], 6);
    CHECK_STR(text_of(at("home/bots/rev/config.md")), "Mine now.");
    CHECK(strstr(text_of(at("home/bots/rev/workspaces/api/memory.json")), "\"v\"") != NULL);
    CHECK_INT(count_in(at("home/bots/rev/workspaces/api/history")), 2);
}

TEST(memory_that_cannot_be_taken_is_never_counted_as_taken)
{
    put_file("open/bots/rev/config.md", "Review.");
    put_file("open/bots/rev/workspaces/api/memory.json", "{\"entries\": {\"\": 6}}");
    CHECK_INT(import(NULL), 0);
    CHECK(said(IMPORT_FAILED, "memory", "rev/api") != NULL);
    put_file("open/bots/rev/workspaces/api/memory.json", "{\"entries\": {\"\": 6, \"k\": \"v\"}}");
    CHECK_INT(import(NULL), 0);
    CHECK_STR(said(IMPORT_WARNED, "memory", "rev/api"),
              "1 added, 1 not taken: no key, too large or too many");
    CHECK_INT(import(NULL), 0); // what could be taken is there
    CHECK_STR(said(IMPORT_KEPT, "memory", "rev/api"),
              "0 added, 1 not taken: no key, too large or too many");
}

TEST(numbers_that_are_used_here_are_not_used_again)
{
    put_openbot();
    put_file("home/bots/rev/workspaces/api/history/mine/metadata.json", "{\"session_number\": 2}");
    CHECK_INT(import(NULL), 0);
    CHECK(strstr(view("t1-s2"), "# Session 3 ") != NULL);
    CHECK(strstr(view("old-s1"), "# Session 1 ") != NULL);
    CHECK_STR(text_of(at("home/bots/rev/workspaces/api/session_number")), "3\n");
}

TEST(settings_that_we_cannot_read_are_kept_as_comments)
{
    put_file("open/bots/rev/config.md",
             "+++\nmodel = \"m\"\nsandbox = \"anything\"\nsleep_secs = \"x\"\n+++\nBody\n");
    put_file("open/bots/worse/config.md", "+++\nmodel = \"m\"\nthis is no TOML\n+++\nBody\n");
    put_file("open/bots/unknown/config.md", "+++\nmodle = \"m\"\n+++\nBody\n");
    put_file("open/bots/open/config.md", "+++\nmodel = \"m\"\n");
    CHECK_INT(import(NULL), 0);
    CHECK_STR(text_of(at("home/bots/rev/config.md")),
              "+++\nmodel = \"m\"\n# sandbox = \"anything\"\n# sleep_secs = \"x\"\n+++\nBody\n");
    CHECK(strstr(said(IMPORT_WARNED, "bot", "rev"), "sandbox") != NULL);
    CHECK_STR(text_of(at("home/bots/worse/config.md")),
              "+++\nmodel = \"m\"\n# this is no TOML\n+++\nBody\n");
    CHECK(strstr(said(IMPORT_WARNED, "bot", "unknown"), "did you mean 'model'?") != NULL);
    CHECK(strstr(said(IMPORT_FAILED, "bot", "open"), "closes them") != NULL);
}

TEST(hostile_homes_are_told_and_stop_nothing)
{
    put_openbot();
    put_file("secret", "{\"entries\": {\"secret\": \"x\"}}");
    put_file("open/bots/..hidden/config.md", "x");
    put_file("open/bots/Bad Name/config.md", "x");
    put_file("open/bots/a-file", "x");
    put_file("open/bots/links/config.md", "x");
    CHECK_INT(symlink(at("secret"), at("open/skills/leak.md")), 0);
    make_dir("open/bots/links/workspaces/w/history/bad-json");
    CHECK_INT(symlink(at("secret"), at("open/bots/links/workspaces/w/memory.json")), 0);
    CHECK_INT(symlink(at("open/bots/rev"), at("open/bots/again")), 0);
    put_file("open/bots/links/workspaces/w/history/bad-json/metadata.json", "{");
    put_file("open/bots/links/workspaces/w/history/list/metadata.json", "[]");
    CHECK_INT(symlink(at("secret"), at("open/bots/links/workspaces/w/history/x.json")), 0);
    make_dir("open/bots/links/workspaces/w/history/fifo");
    CHECK_INT(mkfifo(at("open/bots/links/workspaces/w/history/fifo/metadata.json"), 0600), 0);
    put_file("open/bots/links/workspaces/w/history/ok/metadata.json",
             "{\"session_number\": 99999999999, \"started_at\": \"never\", \"duration_secs\": -5,"
             "\"tokens\": 7, \"response_summary\": {\"x\": 1}}");
    put_file("open/bots/links/workspaces/Bad Slug/memory.json", "{}");
    CHECK_INT(import(NULL), 0);
    CHECK(said(IMPORT_TAKEN, "bot", "rev") != NULL);
    CHECK(strstr(said(IMPORT_FAILED, "skill", "leak.md"), "symbolic link") != NULL);
    CHECK(said(IMPORT_FAILED, "bot", "Bad Name") != NULL);
    CHECK(said(IMPORT_FAILED, "bot", "a-file") != NULL);
    CHECK(said(IMPORT_FAILED, "bot", "again") != NULL);
    CHECK(said(IMPORT_FAILED, "memory", "links/w") != NULL);
    CHECK(said(IMPORT_FAILED, "memory", "links/Bad Slug") != NULL);
    CHECK(said(IMPORT_FAILED, "session", "links/w/bad-json") != NULL);
    CHECK(said(IMPORT_FAILED, "session", "links/w/list") != NULL);
    CHECK(said(IMPORT_FAILED, "session", "links/w/x") != NULL);
    CHECK(said(IMPORT_FAILED, "session", "links/w/fifo") != NULL);
    CHECK(said(IMPORT_TAKEN, "session", "links/w/ok") != NULL);
    CHECK(strstr(text_of(at("home/bots/links/workspaces/w/history/ok/metadata.json")),
                 "\"session_number\":1,") != NULL);
    CHECK(!is_there(at("home/skills/leak.md")) &&
          !is_there(at("home/bots/links/workspaces/w/memory.json")));
    CHECK_INT(count_in(at("home/bots/links/workspaces/w/history")), 1);
}

TEST(a_directory_that_is_no_openbot_home_is_refused)
{
    struct err e = {0};
    make_dir("open");
    CHECK_INT(import(&e), ERR_NOT_FOUND);
    CHECK(strstr(e.msg, "neither bots/ nor skills/") != NULL);
    CHECK(!is_there(at("home/bots")));
}

TEST(a_report_is_written_as_json)
{
    struct buf b;
    struct jw w;
    put_file("open/skills/s.md", "x");
    put_file("open/skills/t.md", "+++\n");
    CHECK_INT(import(NULL), 0);
    buf_init(&b, SIZE_MAX);
    jw_init(&w, &b);
    import_write(&report, &w);
    CHECK_STR(
        buf_z(&b),
        "{\"taken\":1,\"kept\":0,\"warned\":1,\"failed\":0,\"items\":[{\"outcome\":\"taken\","
        "\"kind\":\"skill\",\"name\":\"s.md\"},{\"outcome\":\"warned\",\"kind\":\"skill\","
        "\"name\":\"t.md\",\"message\":\"the front matter of skill 'skill' is not closed\"}]}");
    buf_fini(&b);
}
