// Sessions as lists, through the store.

#include <sys/stat.h>

#include "base/path.h"
#include "base/time.h"
#include "bot/history.h"
#include "unit/store/util.h"

static const char rel[] = "bots/b/workspaces/p";

static void add_session(struct box *b, const char *id, const char *slug, int number,
                        const char *summary)
{
    char dir[200], meta[600], when[TIME_TEXT];
    snprintf(dir, sizeof dir, "bots/b/workspaces/%s/history/%s", slug, id);
    snprintf(
        meta, sizeof meta,
        "{\"session_id\":\"%s\",\"session_number\":%d,\"run_id\":\"run%d\",\"state\":\"ended\","
        "\"started_at\":\"%s\",\"duration_secs\":65,\"command_count\":3,"
        "\"response_summary\":\"%s\",\"tokens\":{\"input_tokens\":10,\"output_tokens\":null}}",
        id, number, number / 2, time_format(1763000000000 + number * 1000, when), summary);
    b->answered = false;
    store_session_new(b->store, str_of(id), str_of(dir), str_of(meta), box_done, b);
    CHECK_INT(box_wait(b), 0);
}

/// What came: "number:summary;" of each row.
struct got {
    struct box *b;
    char text[4000];
    char next[128];
};

static void on_page(void *arg, int status, const struct history_page *p, const struct err *e)
{
    struct got *g = arg;
    size_t n = 0;
    g->text[0] = '\0';
    for (size_t i = 0; status == 0 && i < p->n; i++) {
        n += (size_t)snprintf(g->text + MIN(n, sizeof g->text),
                              sizeof g->text - MIN(n, sizeof g->text), "%llu:" STR_FMT ";",
                              (unsigned long long)p->rows[i].number, STR_ARG(p->rows[i].summary));
    }
    snprintf(g->next, sizeof g->next, STR_FMT, STR_ARG(status == 0 ? p->next : STR("")));
    box_done(g->b, status, e);
}

static const char *list(struct got *g, const char *cursor, size_t limit)
{
    g->b->answered = false;
    history_list(g->b->store, str_of(rel), str_of(cursor), limit, on_page, g);
    CHECK_INT(box_wait(g->b), 0);
    return g->text;
}

static int find(struct got *g, const char *which)
{
    g->b->answered = false;
    history_find(g->b->store, str_of(rel), str_of(which), on_page, g);
    return box_wait(g->b);
}

static void open_with_sessions(struct box *b)
{
    box_open(b, NULL);
    add_session(b, "aa11", "p", 1, "first");
    add_session(b, "aa22", "p", 2, "second");
    add_session(b, "bb33", "p", 3, "");
    add_session(b, "12cc", "p", 4, "fourth");
    add_session(b, "ee55", "other", 5, "elsewhere");
}

TEST(sessions_of_a_workspace_are_listed_newest_first_page_by_page)
{
    struct box b;
    struct got g = {.b = &b};
    open_with_sessions(&b);
    CHECK_STR(list(&g, "", 0), "4:fourth;3:;2:second;1:first;");
    CHECK_STR(g.next, "");
    CHECK_STR(list(&g, "", 3), "4:fourth;3:;2:second;");
    char cursor[128];
    snprintf(cursor, sizeof cursor, "%s", g.next);
    CHECK_STR(list(&g, cursor, 3), "1:first;");
    CHECK_INT(box_close(&b), 0);
}

TEST(the_recent_ones_are_those_with_a_summary)
{
    struct box b;
    struct got g = {.b = &b};
    open_with_sessions(&b);
    b.answered = false;
    history_recent(b.store, str_of(rel), 2, STR_NULL, on_page, &g);
    CHECK_INT(box_wait(&b), 0);
    CHECK_STR(g.text, "4:fourth;2:second;");
    b.answered = false;
    history_recent(b.store, str_of(rel), 5, STR("run2"), on_page, &g);
    CHECK_INT(box_wait(&b), 0);
    CHECK_STR(g.text, "2:second;1:first;");
    CHECK_INT(box_close(&b), 0);
}

TEST(a_session_is_found_by_number_by_id_or_by_its_beginning)
{
    struct box b;
    struct got g = {.b = &b};
    open_with_sessions(&b);
    CHECK_INT(find(&g, "2"), 0);
    CHECK_STR(g.text, "2:second;");
    CHECK_INT(find(&g, "#4"), 0);
    CHECK_STR(g.text, "4:fourth;");
    CHECK_INT(find(&g, "bb33"), 0);
    CHECK_STR(g.text, "3:;");
    CHECK_INT(find(&g, "bb"), 0);
    CHECK_STR(g.text, "3:;");
    CHECK_INT(find(&g, "12"), 0); // no such number, but one id begins so
    CHECK_STR(g.text, "4:fourth;");
    CHECK_INT(find(&g, "aa"), ERR_CONFLICT);
    CHECK_STR(b.err.msg, "2 sessions begin with 'aa': type more of it");
    CHECK_INT(find(&g, "ee55"), ERR_NOT_FOUND); // of another workspace
    CHECK_INT(find(&g, "99"), ERR_NOT_FOUND);
    CHECK_INT(find(&g, "\n%s'\""), ERR_NOT_FOUND);
    CHECK_INT(box_close(&b), 0);
}

TEST(metadata_that_is_damaged_gives_a_row_with_the_id_alone)
{
    static const char *const bad[] = {"", "{", "[]", "{\"session_number\":-4,\"tokens\":7}"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct arena a = {0};
        struct store_row r = {.id = STR("x"), .meta = str_of(bad[i])};
        struct history_row row = history_row_of(&r, &a);
        CHECK_SPAN(row.id, "x");
        CHECK_INT(row.number, 0);
        CHECK_INT(row.input_tokens, -1);
        CHECK_INT(row.summary.n, 0);
        arena_fini(&a);
    }
}

static const char *line(const char *text, size_t max)
{
    static struct buf b;
    buf_fini(&b);
    buf_init(&b, SIZE_MAX);
    history_write_line(&b, str_of(text), max);
    return buf_z(&b);
}

TEST(a_line_is_cut_between_characters)
{
    CHECK_STR(line("short", 10), "short");
    CHECK_STR(line("exactly10!", 10), "exactly10!");
    CHECK_STR(line("exactly 10!", 10), "exactly...");
    CHECK_STR(line("  two\n\n lines\t ", 20), "two lines");
    CHECK_STR(line("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 4), "\xC3\xA9...");
    CHECK_STR(line("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 4), "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9");
    CHECK_STR(
        line("\xF0\x9F\x98\x80\xF0\x9F\x98\x80\xF0\x9F\x98\x80\xF0\x9F\x98\x80\xF0\x9F\x98\x80", 4),
        "\xF0\x9F\x98\x80...");
    CHECK_STR(line("a\xFF"
                   "b\x1B[31m",
                   20),
              "a\xEF\xBF\xBD"
              "b [31m");
    CHECK_STR(line("\xE2\x80\xA8x", 5), "x"); // a line separator is no way to begin a new line
}

TEST(the_table_has_a_line_for_each_session)
{
    struct buf b;
    struct history_row rows[] = {
        {.number = 12,
         .started_at = 1763000000000,
         .duration_secs = 65,
         .commands = 3,
         .summary = STR("Fixed the bug that made every second build fail on machines without a "
                        "clock and so on")},
        {.number = 2,
         .started_at = 1763000000000,
         .duration_secs = 7300,
         .prompt = STR("look\nhere")},
    };
    buf_init(&b, SIZE_MAX);
    history_write_table(&b, rows, ARRAY_LEN(rows));
    CHECK_STR(buf_z(&b),
              "Session  Date              Duration  Commands  Summary\n"
              "12       2025-11-13 02:13  1m05s     3         Fixed the bug that made every second "
              "build fail on machines without a clock a...\n"
              "2        2025-11-13 02:13  2h01m     0         look here\n"
              "2 sessions\n");
    buf_clear(&b);
    history_write_table(&b, NULL, 0);
    CHECK_STR(buf_z(&b), "There are no sessions yet.\n");
    buf_fini(&b);
}

TEST(sessions_put_there_by_others_are_known_after_a_rescan)
{
    struct box b;
    struct got g = {.b = &b};
    open_with_sessions(&b);
    CHECK_INT(system(NULL) != 0, 1);
    char command[2000];
    snprintf(command, sizeof command,
             "cd '%s/%s/history' && mkdir new && echo "
             "'{\"session_number\":9,\"response_summary\":\"new\","
             "\"started_at\":\"2026-01-01T00:00:00.000Z\"}' > new/metadata.json && rm -r aa11",
             b.home, rel);
    CHECK_INT(system(command), 0);
    CHECK_STR(list(&g, "", 0), "4:fourth;3:;2:second;1:first;"); // the index cannot know
    b.answered = false;
    store_rescan(b.store, STR("bots/b/"), box_done, &b);
    CHECK_INT(box_wait(&b), 0);
    CHECK_STR(list(&g, "", 0), "9:new;4:fourth;3:;2:second;");
    CHECK_INT(box_append(&b, "aa22", "a", "", STORE_SYNCED), 0); // in use all the time
    CHECK_INT(box_close(&b), 0);
}

// ---- many -----------------------------------------------------------------------------------------

enum { MANY = 10000 };

/// Files as a session leaves them, without the syncs.
static void write_many(const char *home)
{
    char path[1024], when[TIME_TEXT], pad[900];
    memset(pad, 'x', sizeof pad - 1);
    pad[sizeof pad - 1] = '\0';
    for (int i = 1; i <= MANY; i++) {
        snprintf(path, sizeof path, "%s/%s/history/s%05d", home, rel, i);
        CHECK_INT(mkdir(path, 0700), 0);
        strncat(path, "/metadata.json", sizeof path - strlen(path) - 1);
        FILE *f = fopen(path, "w");
        CHECK(f != NULL);
        fprintf(f,
                "{\"session_id\":\"s%05d\",\"session_number\":%d,\"started_at\":\"%s\",\"state\":"
                "\"ended\",\"response_summary\":\"did %d\",\"duration_secs\":3,\"command_count\":4,"
                "\"tokens\":{\"input_tokens\":1},\"env\":{\"PATH\":\"%s\"}}",
                i, i, time_format(1763000000000 + i * 1000, when), i, pad);
        CHECK_INT(fclose(f), 0);
    }
}

static double ms_since(uint64_t start)
{
    return (double)(test_cpu_ns() - start) / 1e6;
}

TEST(ten_thousand_sessions_are_no_reason_to_wait)
{
    struct box b;
    struct got g = {.b = &b};
    box_open(&b, NULL);
    CHECK_STR(list(&g, "", 1), ""); // the store has seen the home: it must not see half a file
    CHECK_INT(path_mkdirs(box_path(&b, "%s/history", rel), 0700, NULL), 0);
    write_many(b.home);
    store_rescan(b.store, STR("bots/"), box_done, &b);
    CHECK_INT(box_wait(&b), 0);
    uint64_t start = test_cpu_ns();
    history_recent(b.store, str_of(rel), 5, STR_NULL, on_page, &g);
    CHECK_INT(box_wait(&b), 0);
    double recent = ms_since(start);
    CHECK_STR(g.text, "10000:did 10000;9999:did 9999;9998:did 9998;9997:did 9997;9996:did 9996;");
    start = test_cpu_ns();
    list(&g, "", 100);
    double page = ms_since(start);
    start = test_cpu_ns();
    CHECK_INT(find(&g, "1"), 0);
    CHECK_STR(g.text, "1:did 1;");
    fprintf(stderr,
            "of %d sessions: the last five in %.1f ms, a page in %.1f ms, the first in %.1f ms\n",
            MANY, recent, page, ms_since(start));
    CHECK(recent < 100 && page < 100); // of the processor: not by reading ten thousand files
    CHECK_INT(box_close(&b), 0);
}
