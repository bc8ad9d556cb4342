#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "store/fsck.h"
#include "unit/store/util.h"

static struct fsck_counts counts;
static struct buf report;

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

static void make_home(struct box *b)
{
    log_open(LOG_ERROR, quiet, NULL);
    box_open(b, NULL);
    CHECK_INT(box_begin(b, "s1", "{\"started_at\":\"2026-11-15T05:00:00.000Z\",\"title\":\"t\"}"),
              0);
    CHECK_INT(box_begin(b, "s2", "{\"started_at\":\"2026-11-15T05:00:01.000Z\"}"), 0);
    for (int i = 0; i < 6; i++) {
        CHECK_INT(box_append(b, "s1", "a", "\"word\":\"w\"", STORE_SYNCED), 0);
    }
    CHECK_INT(box_doc_put(b, "choices.json", "{}"), 0);
    CHECK_INT(box_doc_set(b, "state/hub.json", "event_id_mark", "65536"), 0);
    CHECK_INT(box_close(b), 0);
}

static void check(const struct box *b, bool repair)
{
    struct err e;
    buf_init(&report, FSCK_REPORT_MAX);
    if (fsck_run(b->home, repair, &report, &counts, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    struct arena a = {0};
    struct json *v;
    CHECK_INT(json_parse(&v, &a, buf_str(&report), NULL, NULL), 0);
    CHECK_INT(json_int(json_get(v, "found"), -1), counts.found);
    CHECK_INT(json_int(json_get(v, "repaired"), -1), counts.repaired);
    CHECK_INT(json_get(v, "findings")->n, counts.found);
    arena_fini(&a);
}

/// One finding that contains `text`, mended when asked to, and nothing more to find after that.
static void one_finding(const struct box *b, const char *text, const char *kind)
{
    check(b, false);
    if (counts.found != 1 || counts.repaired != 0 || strstr(buf_z(&report), text) == NULL) {
        test_fail(__FILE__, __LINE__, "%s", buf_z(&report));
    }
    CHECK(strstr(buf_z(&report), kind) != NULL);
    buf_fini(&report);
    check(b, false); // looking changes nothing
    CHECK_INT(counts.found, 1);
    buf_fini(&report);
    check(b, true);
    if (counts.repaired != counts.found || counts.found == 0) {
        test_fail(__FILE__, __LINE__, "%s", buf_z(&report));
    }
    buf_fini(&report);
    check(b, false);
    if (counts.found != 0) {
        test_fail(__FILE__, __LINE__, "%s", buf_z(&report));
    }
    buf_fini(&report);
}

TEST(a_whole_home_has_no_findings)
{
    struct box b;
    make_home(&b);
    check(&b, false);
    CHECK_INT(counts.found, 0);
    CHECK_INT(counts.sessions, 2);
    buf_fini(&report);
}

TEST(a_file_in_the_place_of_a_directory_is_set_aside)
{
    static const char *const names[] = {"logs", "bots", "state/versions", "sessions", "state"};
    struct box b;
    struct stat st;
    make_home(&b);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *path = xstrdup(box_path(&b, "%s", names[i]));
        char *away = xasprintf("%s.was", path), *kept = xasprintf("%s.damaged-", path);
        CHECK(rename(path, away) == 0 || errno == ENOENT);
        file_write(path, "mine", 4);
        check(&b, false);
        CHECK(strstr(buf_z(&report), "\"kind\":\"directory\"") != NULL && counts.repaired == 0);
        buf_fini(&report);
        check(&b, true);
        CHECK_INT(counts.repaired, counts.found);
        buf_fini(&report);
        CHECK(lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700);
        CHECK_INT(file_count(kept), 1); // nothing is thrown away
        check(&b, false);
        CHECK_INT(counts.found, 0);
        buf_fini(&report);
        free(kept);
        free(away);
        free(path);
    }
    char *hub = file_text(box_path(&b, "state/hub.json"), NULL);
    CHECK(strstr(hub, "event_id_mark") != NULL); // no event id is given out twice
    free(hub);
}

TEST(a_link_that_leads_to_no_directory_stays)
{
    struct box b;
    make_home(&b);
    CHECK_INT(symlink("/nowhere/at/all", box_path(&b, "bots")), 0);
    for (int repair = 0; repair < 2; repair++) {
        check(&b, repair != 0);
        CHECK(strstr(buf_z(&report), "leads to no directory") != NULL);
        CHECK_INT(counts.repaired, 0);
        buf_fini(&report);
    }
}

TEST(a_torn_end_is_found_and_cut)
{
    struct box b;
    make_home(&b);
    file_append(box_path(&b, "sessions/s1/events.jsonl"), "{\"seq\":7,");
    one_finding(&b, "9 bytes after event 6", "\"torn\"");
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 6);
    CHECK_INT(file_count(box_path(&b, "sessions/s1/events.jsonl.torn-")), 1);
}

static void damage(const struct box *b, const char *from, const char *to)
{
    char *text = file_text(box_path(b, "sessions/s1/events.jsonl"), NULL);
    char *at = strstr(text, from);
    CHECK(at != NULL && strlen(from) == strlen(to));
    memcpy(at, to, strlen(to));
    file_write(box_path(b, "sessions/s1/events.jsonl"), text, strlen(text));
    free(text);
}

TEST(a_damaged_journal_is_rebuilt_from_its_good_lines)
{
    struct box b;
    make_home(&b);
    char *before = file_text(box_path(&b, "sessions/s1/events.jsonl"), NULL);
    damage(&b, "{\"seq\":3,", "{\"seq\":x,");
    check(&b, false);
    CHECK(strstr(buf_z(&report), "damaged at line 3") != NULL);
    buf_fini(&report);
    check(&b, true);
    CHECK(strstr(buf_z(&report), "rebuilt, 1 lost, 0 left out") != NULL);
    buf_fini(&report);
    check(&b, false);
    CHECK_INT(counts.found, 0);
    buf_fini(&report);
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 6);
    char *after = file_text(box_path(&b, "sessions/s1/events.jsonl"), NULL);
    for (int seq = 1; seq <= 6; seq++) { // every good line is as it was
        char start[32];
        snprintf(start, sizeof start, "{\"seq\":%d,", seq);
        const char *was = strstr(before, start), *is = strstr(after, start);
        size_t n = strcspn(was, "\n");
        CHECK_INT(strncmp(was, is, n) == 0, seq != 3);
    }
    CHECK(strstr(after, "\"type\":\"journal.repaired\",\"lost\":true") != NULL);
    CHECK_INT(file_count(box_path(&b, "sessions/s1/events.jsonl.damaged-")), 1);
    free(after);
    free(before);
    box_open(&b, NULL);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), 0);
    CHECK_INT(b.appended.first_seq, 7);
    CHECK_INT(box_close(&b), 0);
}

TEST(lines_that_came_twice_are_left_out_and_kept_aside)
{
    struct box b;
    make_home(&b);
    file_append(box_path(&b, "sessions/s1/events.jsonl"),
                "{\"seq\":2,\"type\":\"again\"}\n{\"seq\":7,\"type\":\"b\"}\n"
                "{\"seq\":900000000,\"type\":\"far\"}\n");
    check(&b, true);
    CHECK(strstr(buf_z(&report), "0 lost, 2 left out") != NULL);
    buf_fini(&report);
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 7);
}

TEST(documents_that_are_not_json_are_set_aside)
{
    struct box b;
    make_home(&b);
    file_write(box_path(&b, "choices.json"), "{\"a\"", 4);
    one_finding(&b, "choices.json", "\"document\"");
    CHECK(!file_exists(box_path(&b, "choices.json")));
    CHECK_INT(file_count(box_path(&b, "choices.json.damaged-")), 1);
}

TEST(a_lost_mark_of_event_ids_is_replaced_by_a_later_one)
{
    struct box b;
    make_home(&b);
    file_write(box_path(&b, "state/hub.json"), "{", 1);
    int64_t before = time_wall_ms();
    one_finding(&b, "state/hub.json", "\"document\"");
    char *text = file_text(box_path(&b, "state/hub.json"), NULL);
    struct arena a = {0};
    struct json *v;
    CHECK_INT(json_parse(&v, &a, str_of(text), NULL, NULL), 0);
    CHECK(json_int(json_get(v, "event_id_mark"), 0) >= before);
    arena_fini(&a);
    free(text);
}

TEST(documents_that_no_hub_can_use_are_set_aside)
{
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"choices.json", "[]"},
        {"state/hub.json", "7"},
        {"state/hub.json", "{\"event_id_mark\":\"x\"}"},
        {"state/hub.json", "{\"event_id_mark\":-1}"},
        {"state/hub.json", "{\"event_id_mark\":9223372036854775807}"},
    };
    struct box b;
    make_home(&b);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        file_write(box_path(&b, "%s", cases[i].name), cases[i].text, strlen(cases[i].text));
        one_finding(&b, cases[i].name, "\"document\"");
    }
}

TEST(lost_metadata_is_made_again_from_the_journal)
{
    struct box b;
    make_home(&b);
    CHECK_INT(unlink(box_path(&b, "sessions/s1/metadata.json")), 0);
    check(&b, true);
    CHECK(strstr(buf_z(&report), "\"metadata\"") != NULL);
    buf_fini(&report);
    check(&b, false);
    CHECK_INT(counts.found, 0);
    buf_fini(&report);
    char *text = file_text(box_path(&b, "sessions/s1/metadata.json"), NULL);
    CHECK(strstr(text, "\"session_id\":\"s1\"") != NULL);
    CHECK(strstr(text, "\"started_at\":\"20") != NULL);
    free(text);
}

// What a session began with is in its first event; without its directory it could not go on.
TEST(damaged_metadata_is_set_aside_and_made_again_with_what_the_session_began_with)
{
    static const char *const damages[] = {"", "{\"id\":", "null", "[]", "7", "{\"working_dir\":5}"};
    struct box b;
    log_open(LOG_ERROR, quiet, NULL);
    box_open(&b, NULL);
    CHECK_INT(box_begin(&b, "s1", "{\"working_dir\":\"/w\"}"), 0);
    CHECK_INT(box_append(&b, "s1", "session.created",
                         "\"session\":\"s1\",\"working_dir\":\"/w\",\"model\":\"m\"", STORE_SYNCED),
              0);
    CHECK_INT(box_close(&b), 0);
    for (size_t i = 0; i < ARRAY_LEN(damages); i++) {
        file_write(box_path(&b, "sessions/s1/metadata.json"), damages[i], strlen(damages[i]));
        check(&b, true);
        CHECK(strstr(buf_z(&report), "\"metadata\"") != NULL);
        buf_fini(&report);
        check(&b, false);
        CHECK_INT(counts.found, 0);
        buf_fini(&report);
        char *text = file_text(box_path(&b, "sessions/s1/metadata.json"), NULL);
        CHECK(strstr(text, "\"session_id\":\"s1\"") != NULL);
        CHECK(strstr(text, "\"working_dir\":\"/w\"") != NULL);
        CHECK(strstr(text, "\"model\":\"m\"") != NULL);
        CHECK(strstr(text, "\"started_at\":\"20") != NULL);
        CHECK(strstr(text, "\"crc\"") == NULL);
        free(text);
        CHECK_INT(file_count(box_path(&b, "sessions/s1/metadata.json.damaged-")), i + 1);
    }
}

TEST(what_is_no_file_where_a_file_should_be_is_set_aside)
{
    static const char *const names[] = {"choices.json", "state/hub.json",
                                        "sessions/s1/metadata.json", "sessions/s1/events.jsonl"};
    struct box b;
    make_home(&b);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK_INT(unlink(box_path(&b, "%s", names[i])), 0);
        CHECK_INT(i % 2 == 0 ? mkdir(box_path(&b, "%s", names[i]), 0700)
                             : symlink("/nonexistent/x", box_path(&b, "%s", names[i])),
                  0);
        check(&b, true);
        CHECK(strstr(buf_z(&report), "not a regular file") != NULL);
        CHECK_INT(counts.found, counts.repaired);
        buf_fini(&report);
        check(&b, false);
        if (counts.found != 0) {
            test_fail(__FILE__, __LINE__, "%s: %s", names[i], buf_z(&report));
        }
        buf_fini(&report);
        char *kept = xasprintf("%s.damaged-", names[i]);
        CHECK_INT(file_count(box_path(&b, "%s", kept)), 1);
        free(kept);
    }
}

TEST(an_empty_directory_is_removed)
{
    struct box b;
    make_home(&b);
    CHECK_INT(unlink(box_path(&b, "sessions/s2/metadata.json")), 0);
    CHECK_INT(unlink(box_path(&b, "sessions/s2/events.jsonl")), 0);
    check(&b, true);
    CHECK(strstr(buf_z(&report), "\"empty\"") != NULL);
    buf_fini(&report);
    CHECK(!file_exists(box_path(&b, "sessions/s2")));
}

TEST(files_that_were_never_finished_are_removed)
{
    struct box b;
    make_home(&b);
    file_write(box_path(&b, "sessions/s1/.afloat-0123456789abcdef.tmp"), "{", 1);
    one_finding(&b, "sessions/s1/.afloat-0123456789abcdef.tmp", "\"leftover\"");
    CHECK(!file_exists(box_path(&b, "sessions/s1/.afloat-0123456789abcdef.tmp")));
}

TEST(a_damaged_index_is_found_and_made_again)
{
    struct box b;
    make_home(&b);
    char *junk = xcalloc(1, 5000);
    memset(junk, 'x', 5000);
    file_write(box_path(&b, "state/index.sqlite"), junk, 5000);
    free(junk);
    check(&b, false);
    CHECK(counts.found >= 1 && counts.repaired == 0);
    CHECK_INT(file_count(box_path(&b, "state/index.sqlite.damaged-")), 0);
    buf_fini(&report);
    check(&b, true);
    buf_fini(&report);
    check(&b, false);
    CHECK_INT(counts.found, 0);
    buf_fini(&report);
    box_open(&b, NULL);
    CHECK_INT(box_list(&b, NULL, "", 0), 0);
    CHECK_STR(buf_z(&b.text), "s2   0\ns1  t 6\n");
    CHECK_INT(box_close(&b), 0);
}

enum { PAGE = 4096 };

/// Damage one page of the index, but not its first, which every opening reads.
static void damage_page(const struct box *b, long page)
{
    char junk[PAGE];
    memset(junk, 'x', sizeof junk);
    FILE *f = fopen(box_path(b, "state/index.sqlite"), "r+");
    CHECK(f != NULL && fseek(f, page * PAGE, SEEK_SET) == 0);
    CHECK_INT(fwrite(junk, 1, sizeof junk, f), sizeof junk);
    fclose(f);
}

TEST(a_page_of_the_index_that_is_damaged_is_found_by_the_next_start_and_by_fsck)
{
    struct box b;
    make_home(&b);
    for (long page = 1; page < 4; page++) { // the table, and its two indexes
        damage_page(&b, page);
        check(&b, false);
        CHECK(counts.found >= 1 && counts.repaired == 0);
        buf_fini(&report);
        check(&b, true);
        CHECK_INT(counts.repaired, counts.found);
        buf_fini(&report);
        check(&b, false);
        CHECK_INT(counts.found, 0);
        buf_fini(&report);
        damage_page(&b, page);
        box_open(&b, NULL);
        CHECK_INT(b.notices[STORE_REBUILT], 1);
        CHECK_INT(box_list(&b, NULL, "", 0), 0);
        CHECK_STR(buf_z(&b.text), "s2   0\ns1  t 6\n");
        CHECK_INT(box_close(&b), 0);
    }
}

TEST(rows_that_differ_from_the_files_are_made_again)
{
    struct box b;
    make_home(&b);
    file_write(box_path(&b, "sessions/s1/metadata.json"), "{\"title\":\"other\"}", 17);
    one_finding(&b, "the index says something else", "\"index\"");
}
