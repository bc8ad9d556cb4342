#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"
#include "base/vec.h"
#include "unit/store/util.h"

static const char meta[] =
    "{\"session_id\":\"s1\",\"started_at\":\"2026-11-15T05:01:12.345Z\",\"state\":\"idle\","
    "\"title\":\"first\"}";

TEST(a_session_is_made_appended_to_and_read)
{
    struct box b;
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    CHECK_INT(box_append(&b, "s1", "turn.started", "\"turn\":\"t1\"", STORE_WRITTEN), 0);
    CHECK_INT(b.appended.first_seq, 1);
    CHECK_INT(b.appended.last_seq, 1);
    CHECK_INT(box_append(&b, "s1", "turn.completed", "\"text\":\"hi\"", STORE_SYNCED), 0);
    CHECK_INT(b.appended.first_seq, 2);
    CHECK(b.appended.ts > 1700000000000);
    CHECK_INT(box_read(&b, "s1", 0, 100), 0);
    CHECK_INT(b.n, 2);
    CHECK_INT(b.next, 2);
    CHECK_INT(box_read(&b, "s1", 2, 100), 0);
    CHECK_INT(b.n, 0);
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 2);
    CHECK_INT(box_close(&b), 0);
}

TEST(a_session_goes_on_after_a_restart)
{
    struct box b;
    for (int i = 0; i < 3; i++) {
        box_open(&b, NULL);
        if (i == 0) {
            CHECK_INT(box_begin(&b, "s1", meta), 0);
        }
        CHECK_INT(box_append(&b, "s1", "a", "", STORE_WRITTEN), 0);
        CHECK_INT(b.appended.first_seq, i + 1);
        CHECK_INT(box_close(&b), 0);
    }
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 3);
}

TEST(sessions_that_do_not_exist_and_ids_that_cannot_are_refused)
{
    struct box b;
    static const char *const ids[] = {"",     "..",  "a/b", ".a", "a.",
                                      "a..b", "a b", "a\n", "é",  "../../x"};
    box_open(&b, NULL);
    CHECK_INT(box_append(&b, "nope", "a", "", STORE_SYNCED), ERR_NOT_FOUND);
    CHECK_INT(box_read(&b, "nope", 0, 1), ERR_NOT_FOUND);
    CHECK_INT(box_meta(&b, "nope", "{}"), ERR_NOT_FOUND);
    CHECK_INT(box_remove(&b, "nope"), ERR_NOT_FOUND);
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        CHECK_INT(box_append(&b, ids[i], "a", "", STORE_SYNCED), ERR_INVALID);
        CHECK_INT(box_begin(&b, ids[i], "{}"), ERR_INVALID);
    }
    static const char *const dirs[] = {"sessions/other",   "x/s1",         "../s1",
                                       "sessions/a/../s1", "/sessions/s1", "sessions//s1",
                                       "bots/b/s1",        "sessions/s1/", ""};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        store_session_new(b.store, STR("s1"), str_of(dirs[i]), str_of(meta), box_done, &b);
        CHECK_INT(box_wait(&b), ERR_INVALID);
    }
    CHECK_INT(box_begin(&b, "s1", "[]"), ERR_INVALID);
    CHECK_INT(box_begin(&b, "s1", "{"), ERR_PARSE);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    CHECK_INT(box_begin(&b, "s1", meta), ERR_CONFLICT);
    CHECK_INT(box_close(&b), 0);
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), ERR_CONFLICT);
    CHECK_INT(box_close(&b), 0);
}

TEST(a_bots_session_lies_in_its_history)
{
    struct box b;
    box_open(&b, NULL);
    store_session_new(b.store, STR("h1"), STR("bots/rev/workspaces/api/history/h1"), str_of(meta),
                      box_done, &b);
    CHECK_INT(box_wait(&b), 0);
    CHECK_INT(box_append(&b, "h1", "a", "", STORE_SYNCED), 0);
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(journal_text_check(box_path(&b, "bots/rev/workspaces/api/history/h1/events.jsonl")),
              1);
    box_open(&b, NULL);
    CHECK_INT(box_append(&b, "h1", "a", "", STORE_SYNCED), 0);
    CHECK_INT(b.appended.first_seq, 2);
    struct store_filter f = {.kind = STR("bot")};
    CHECK_INT(box_list(&b, &f, "", 0), 0);
    CHECK_STR(buf_z(&b.text), "h1 idle first 2\n");
    f = (struct store_filter){.dir = STR("bots/other/")};
    CHECK_INT(box_list(&b, &f, "", 0), 0);
    CHECK_INT(b.n, 0);
    CHECK_INT(box_close(&b), 0);
}

TEST(metadata_is_replaced_and_listed)
{
    struct box b;
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    CHECK_INT(box_meta(&b, "s1", "{\"state\":\"ended\",\"title\":\"t2\"}"), 0);
    CHECK_INT(box_list(&b, NULL, "", 0), 0);
    CHECK_STR(buf_z(&b.text), "s1 ended t2 0\n");
    char *text = file_text(box_path(&b, "sessions/s1/metadata.json"), NULL);
    CHECK_STR(text, "{\"state\":\"ended\",\"title\":\"t2\"}\n");
    free(text);
    CHECK_INT(box_meta(&b, "s1", "nope"), ERR_PARSE);
    CHECK_INT(box_list(&b, &(struct store_filter){.state = STR("ended")}, "", 0), 0);
    CHECK_INT(b.n, 1);
    CHECK_INT(box_list(&b, &(struct store_filter){.state = STR("idle")}, "", 0), 0);
    CHECK_INT(b.n, 0);
    CHECK_INT(box_close(&b), 0);
}

TEST(a_removed_session_is_gone_with_its_files)
{
    struct box b;
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_WRITTEN), 0);
    CHECK_INT(box_remove(&b, "s1"), 0);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_WRITTEN), ERR_NOT_FOUND);
    CHECK_INT(box_list(&b, NULL, "", 0), 0);
    CHECK_INT(b.n, 0);
    CHECK(!file_exists(box_path(&b, "sessions/s1")));
    CHECK_INT(box_begin(&b, "s1", meta), 0); // the id is free again
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(file_count(box_path(&b, "trash/s1")), 0);
}

// ---- order and grouping --------------------------------------------------------------------

struct order {
    uint64_t last;
    unsigned n;
};

static void in_order(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    struct order *o = arg;
    (void)e;
    CHECK_INT(status, 0);
    CHECK_INT(a->first_seq, o->last + 1);
    o->last = a->last_seq;
    o->n++;
}

TEST(many_appends_of_one_session_keep_their_order)
{
    struct box b;
    struct order o = {0};
    struct store_event ev[3] = {
        {STR("a"), STR("\"x\":1")}, {STR("b"), STR("")}, {STR("c"), STR("")}};
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    for (int i = 0; i < 2000; i++) {
        store_append(b.store, STR("s1"), ev, 1 + (size_t)i % 3, STORE_WRITTEN, in_order, &o);
        if (i % 100 == 0) {
            loop_run_once(&b.loop, false);
        }
    }
    CHECK_INT(box_read(&b, "s1", 0, 1), 0); // a read sees all that was asked for before it
    CHECK_INT(o.n, 2000);
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), o.last);
}

TEST(one_bad_event_fails_its_own_append_and_leaves_no_hole)
{
    struct box b;
    struct order o = {0};
    struct store_event good = {STR("a"), STR("")},
                       bad[2] = {{STR("a"), STR("")}, {STR("a"), STR("x")}};
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    store_append(b.store, STR("s1"), &good, 1, STORE_WRITTEN, in_order, &o);
    store_append(b.store, STR("s1"), bad, 2, STORE_WRITTEN, box_appended, &b);
    store_append(b.store, STR("s1"), &good, 1, STORE_SYNCED, in_order, &o);
    CHECK_INT(box_wait(&b), ERR_PARSE);
    CHECK_INT(b.appended.first_seq, 0);
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(o.n, 2);
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 2);
}

TEST(an_append_is_written_before_its_callback)
{
    struct box b;
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    for (unsigned i = 1; i <= 50; i++) {
        CHECK_INT(box_append(&b, "s1", "a", "", i % 2 ? STORE_WRITTEN : STORE_SYNCED), 0);
        CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), i);
    }
    CHECK_INT(box_close(&b), 0);
}

TEST(too_much_waiting_is_refused_not_kept)
{
    struct box b;
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    size_t n = 20 << 20;
    char *big = xmalloc(n + 1);
    memset(big, 'a', n);
    memcpy(big, "\"x\":\"", 5);
    memcpy(big + n - 1, "\"", 2);
    struct order o = {0};
    struct store_event ev = {STR("a"), {big, n}};
    for (int i = 0; i < 3; i++) {
        store_append(b.store, STR("s1"), &ev, 1, STORE_WRITTEN, in_order, &o);
    }
    store_append(b.store, STR("s1"), &ev, 1, STORE_WRITTEN, box_appended, &b);
    CHECK_INT(box_wait(&b), UV_ENOBUFS);
    CHECK_INT(o.n, 3);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_WRITTEN), 0);
    CHECK_INT(b.appended.first_seq, 4);
    free(big);
    CHECK_INT(box_close(&b), 0);
}

// ---- many sessions -------------------------------------------------------------------------

static size_t open_descriptors(void)
{
    return file_count("/proc/self/fd/");
}

TEST(a_thousand_sessions_keep_few_journals_open)
{
    struct box b;
    char id[32];
    box_open(&b, NULL);
    size_t before = open_descriptors();
    for (int i = 0; i < 300; i++) {
        snprintf(id, sizeof id, "s%d", i);
        CHECK_INT(box_begin(&b, id, meta), 0);
        CHECK_INT(box_append(&b, id, "a", "", STORE_SYNCED), 0);
    }
    CHECK(open_descriptors() <= before + 64 + 8);
    CHECK_INT(box_append(&b, "s0", "a", "", STORE_SYNCED), 0);
    CHECK_INT(b.appended.first_seq, 2);
    CHECK_INT(box_list(&b, NULL, "", 0), 0);
    CHECK_INT(b.n, 300);
    CHECK_INT(box_close(&b), 0);
}

TEST(lists_are_newest_first_and_pages_meet_without_gap)
{
    struct box b;
    char id[32], text[200], ts[TIME_TEXT];
    box_open(&b, NULL);
    for (int i = 0; i < 25; i++) {
        snprintf(id, sizeof id, "s%02d", i);
        snprintf(text, sizeof text, "{\"started_at\":\"%s\",\"title\":\"t\"}",
                 time_format(1763000000000 + (i / 3) * 1000, ts)); // some share their time
        CHECK_INT(box_begin(&b, id, text), 0);
    }
    char cursor[128] = "";
    int expect = 24;
    do {
        CHECK_INT(box_list(&b, NULL, cursor, 4), 0);
        CHECK(b.n <= 4);
        struct str rest = buf_str(&b.text);
        while (rest.n != 0) {
            snprintf(id, sizeof id, "s%02d ", expect--);
            CHECK(str_starts(str_cut(&rest, '\n'), id));
        }
        snprintf(cursor, sizeof cursor, "%s", b.cursor);
    } while (cursor[0] != '\0');
    CHECK_INT(expect, -1);
    CHECK_INT(box_list(&b, NULL, "nonsense", 4), ERR_INVALID);
    CHECK_INT(box_list(&b, NULL, "12:../x", 4), ERR_INVALID);
    CHECK_INT(box_list(&b, &(struct store_filter){.id = STR("s07")}, "", 4), 0);
    CHECK_STR(buf_z(&b.text), "s07  t 0\n");
    CHECK_INT(box_close(&b), 0);
}

// ---- torn and damaged journals through the store -------------------------------------------

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

TEST(a_torn_end_is_reported_at_the_next_start)
{
    struct box b;
    log_open(LOG_ERROR, quiet, NULL);
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), 0);
    CHECK_INT(box_close(&b), 0);
    file_append(box_path(&b, "sessions/s1/events.jsonl"), "{\"seq\":2,\"ty");
    box_open(&b, NULL);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), 0);
    CHECK_INT(b.appended.first_seq, 2);
    CHECK_INT(b.notices[STORE_REPAIRED], 1);
    CHECK_INT(b.last_notice.bytes_cut, 12);
    CHECK_INT(b.last_notice.last_seq, 1);
    CHECK_INT(file_count(box_path(&b, "sessions/s1/events.jsonl.torn-")), 1);
    CHECK_INT(box_close(&b), 0);
}

TEST(a_damaged_journal_is_told_listed_and_goes_on)
{
    struct box b;
    log_open(LOG_ERROR, quiet, NULL);
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    CHECK_INT(box_begin(&b, "s2", meta), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), 0);
    }
    CHECK_INT(box_close(&b), 0);
    char *text = file_text(box_path(&b, "sessions/s1/events.jsonl"), NULL);
    memcpy(strstr(text, "\"seq\":2"), "\"sex\"", 5);
    file_write(box_path(&b, "sessions/s1/events.jsonl"), text, strlen(text));
    file_append(box_path(&b, "sessions/s1/events.jsonl"), "x"); // so that it is looked at
    free(text);
    CHECK_INT(unlink(box_path(&b, "state/index.sqlite")), 0); // and no mark is known
    box_open(&b, NULL);
    CHECK_INT(box_append(&b, "s2", "a", "", STORE_SYNCED), 0);
    CHECK_INT(b.notices[STORE_DAMAGED], 1);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), 0);
    CHECK_INT(b.appended.first_seq, 4);
    CHECK_INT(box_list(&b, NULL, "", 0), 0);
    CHECK(strstr(b.damage, "line 2") != NULL);
    CHECK_INT(b.notices[STORE_DAMAGED], 1);
    CHECK_INT(box_close(&b), 0);
}

TEST(what_happened_while_the_index_was_away_is_found)
{
    struct box b;
    log_open(LOG_ERROR, quiet, NULL);
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", meta), 0);
    CHECK_INT(box_begin(&b, "s2", meta), 0);
    CHECK_INT(box_begin(&b, "s3", meta), 0);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), 0);
    CHECK_INT(box_close(&b), 0);
    file_append(box_path(&b, "sessions/s1/events.jsonl"), // another program went on
                "{\"seq\":2,\"ts\":\"2026-11-15T05:01:12.345Z\",\"type\":\"b\"}\n");
    CHECK_INT(unlink(box_path(&b, "sessions/s2/metadata.json")), 0);
    file_write(box_path(&b, "sessions/s2/metadata.json"), "{\"title\":\"new\"}", 15);
    CHECK_INT(rename(box_path(&b, "sessions/s3"), "/dev/null/x"), -1);
    char *from = xstrdup(box_path(&b, "sessions/s3"));
    CHECK_INT(rename(from, box_path(&b, "sessions/s4")), 0);
    free(from);
    box_open(&b, NULL);
    CHECK_INT(box_list(&b, NULL, "", 0), 0);
    CHECK_STR(buf_z(&b.text), "s4 idle first 0\ns1 idle first 2\ns2  new 0\n");
    CHECK_INT(box_close(&b), 0);
}
