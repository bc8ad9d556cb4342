#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/log.h"
#include "base/time.h"
#include "store/catchup.h"
#include "store/index.h"
#include "unit/store/util.h"

#ifdef __SANITIZE_THREAD__ // every access is watched: some ten times slower
enum { LIST_BUDGET_MS = 500 };
#else
enum { LIST_BUDGET_MS = 50 };
#endif

static char path[512];

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

static struct index *open_index(const char *name)
{
    struct index *x;
    bool fresh;
    char why[INDEX_WHY];
    struct err e;
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    if (index_open(&x, path, &fresh, why, &e) < 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return x;
}

static int add_row(void *arg, const struct index_row *r)
{
    buf_addf(arg,
             STR_FMT "|" STR_FMT "|" STR_FMT "|" STR_FMT "|" STR_FMT "|" STR_FMT
                     "|%lld|%lld|%llu|%llu|%llu|%llu\n",
             STR_ARG(r->row.id), STR_ARG(r->row.dir), STR_ARG(r->row.kind), STR_ARG(r->row.state),
             STR_ARG(r->row.title), STR_ARG(r->row.meta), (long long)r->row.started_at,
             (long long)r->row.updated_at, (unsigned long long)r->row.last_seq,
             (unsigned long long)r->mark.seq, (unsigned long long)r->mark.at,
             (unsigned long long)r->ino);
    return 0;
}

static char *all_rows(const char *name)
{
    struct buf out;
    struct index *x = open_index(name);
    buf_init(&out, 16 << 20);
    CHECK_INT(index_each(x, add_row, &out, NULL), 0);
    index_close(x);
    buf_addc(&out, ' ');
    return buf_take(&out, NULL);
}

static void make_sessions(struct box *b, int n)
{
    for (int i = 0; i < n; i++) {
        char id[16], text[200], ts[TIME_TEXT];
        snprintf(id, sizeof id, "s%d", i);
        snprintf(text, sizeof text, "{\"started_at\":\"%s\",\"state\":\"idle\",\"title\":\"é %d\"}",
                 time_format(1763000000000 + i, ts), i);
        CHECK_INT(box_begin(b, id, text), 0);
        for (int k = 0; k < i % 4; k++) {
            CHECK_INT(box_append(b, id, "a", "\"x\":1", k % 2 ? STORE_SYNCED : STORE_WRITTEN), 0);
        }
    }
}

TEST(an_index_made_again_equals_the_one_that_was_kept)
{
    struct box b;
    log_open(LOG_ERROR, quiet, NULL);
    box_open(&b, NULL);
    make_sessions(&b, 20);
    CHECK_INT(box_meta(&b, "s3", "{\"started_at\":\"2026-01-01T00:00:00Z\",\"state\":\"ended\"}"),
              0);
    CHECK_INT(box_remove(&b, "s4"), 0);
    CHECK_INT(box_close(&b), 0);
    char *kept = all_rows("state/index.sqlite");
    CHECK(strlen(kept) > 19 * 100);
    CHECK_INT(unlink(path), 0);
    box_open(&b, NULL);
    CHECK_INT(box_list(&b, NULL, "", 0), 0);
    CHECK_INT(b.n, 19);
    CHECK_INT(box_close(&b), 0);
    char *again = all_rows("state/index.sqlite");
    CHECK_STR(again, kept);
    free(again);
    free(kept);
}

TEST(a_damaged_index_is_set_aside_and_made_again)
{
    static const char *const damages[] = {"this is no database, it is a text of some length",
                                          "SQLite format 3", ""};
    for (size_t i = 0; i < 2; i++) {
        struct box b;
        char home[512];
        log_open(LOG_ERROR, quiet, NULL);
        snprintf(home, sizeof home, "%s", test_dir());
        box_open(&b, NULL);
        if (i == 0) {
            make_sessions(&b, 5);
        }
        CHECK_INT(box_close(&b), 0);
        char *bytes = xcalloc(1, 8192);
        memcpy(bytes, damages[i], strlen(damages[i]));
        file_write(box_path(&b, "state/index.sqlite"), bytes, 8192);
        free(bytes);
        box_open(&b, NULL);
        CHECK_INT(box_list(&b, NULL, "", 0), 0);
        CHECK_INT(b.n, 5);
        CHECK_INT(b.notices[STORE_REBUILT], 1);
        CHECK_INT(box_close(&b), 0);
        CHECK_INT(file_count(box_path(&b, "state/index.sqlite.damaged-")), i + 1);
    }
}

TEST(what_is_no_file_in_place_of_the_index_is_set_aside)
{
    for (int i = 0; i < 2; i++) {
        struct box b;
        log_open(LOG_ERROR, quiet, NULL);
        box_open(&b, NULL);
        if (i == 0) {
            make_sessions(&b, 5);
        }
        CHECK_INT(box_close(&b), 0);
        CHECK_INT(unlink(box_path(&b, "state/index.sqlite")), 0);
        CHECK_INT(i == 0 ? mkdir(box_path(&b, "state/index.sqlite"), 0700)
                         : symlink("/nonexistent/x", box_path(&b, "state/index.sqlite")),
                  0);
        box_open(&b, NULL);
        CHECK_INT(box_list(&b, NULL, "", 0), 0);
        CHECK_INT(b.n, 5);
        CHECK_INT(box_close(&b), 0);
        CHECK_INT(file_count(box_path(&b, "state/index.sqlite.damaged-")), i + 1);
    }
}

TEST(an_index_of_an_older_program_is_made_again_and_a_check_leaves_it)
{
    struct box b;
    sqlite3 *db;
    struct index *x;
    struct err e;
    log_open(LOG_ERROR, quiet, NULL);
    box_open(&b, NULL);
    make_sessions(&b, 5);
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(sqlite3_open(box_path(&b, "state/index.sqlite"), &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "PRAGMA user_version=1", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    CHECK_INT(index_open_as_is(&x, box_path(&b, "state/index.sqlite"), &e), ERR_CORRUPT);
    CHECK(strstr(e.msg, "schema 1") != NULL);
    box_open(&b, NULL);
    CHECK_INT(box_list(&b, NULL, "", 0), 0);
    CHECK_INT(b.n, 5);
    CHECK_INT(box_close(&b), 0);
}

TEST(an_index_from_a_newer_program_is_refused_and_kept)
{
    struct box b;
    sqlite3 *db;
    log_open(LOG_ERROR, quiet, NULL);
    box_open(&b, NULL);
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(sqlite3_open(box_path(&b, "state/index.sqlite"), &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "PRAGMA user_version=99", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    CHECK_INT(box_try_open(&b, NULL), ERR_UNSUPPORTED);
    CHECK(strstr(b.err.msg, "newer afloat (schema 99") != NULL);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), ERR_UNSUPPORTED);
    CHECK_INT(box_doc_put(&b, "choices.json", "{}"), 0); // documents need no index
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(file_count(box_path(&b, "state/index.sqlite.damaged-")), 0);
}

static void change_index(const struct box *b, const char *sql)
{
    sqlite3 *db;
    CHECK_INT(sqlite3_open(box_path(b, "state/index.sqlite"), &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(a_session_that_cannot_be_listed_is_not_made)
{
    struct box b;
    box_open(&b, NULL);
    change_index(&b, "CREATE TRIGGER no BEFORE INSERT ON sessions"
                     " BEGIN SELECT RAISE(ABORT, 'no room'); END");
    CHECK(box_begin(&b, "s1", "{}") < 0);
    CHECK(strstr(b.err.msg, "no room") != NULL);
    CHECK(!file_exists(box_path(&b, "sessions/s1")));
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), ERR_NOT_FOUND);
    change_index(&b, "DROP TRIGGER no");
    CHECK_INT(box_begin(&b, "s1", "{}"), 0);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), 0);
    CHECK_INT(box_close(&b), 0);
}

TEST(file_systems_of_other_machines_are_refused)
{
    const char *name;
    CHECK(index_fs_refused(NFS_SUPER_MAGIC, &name));
    CHECK_STR(name, "NFS");
    CHECK(index_fs_refused(SMB2_SUPER_MAGIC, &name));
    CHECK(index_fs_refused(CIFS_SUPER_MAGIC, &name));
    CHECK(!index_fs_refused(EXT4_SUPER_MAGIC, &name));
    CHECK(!index_fs_refused(TMPFS_MAGIC, &name));
    CHECK(!index_fs_refused(BTRFS_SUPER_MAGIC, &name));
}

TEST(catching_up_reads_only_what_is_new)
{
    struct box b;
    struct catchup_stats stats;
    static const char line[] =
        "{\"seq\":3001,\"ts\":\"2026-11-15T05:01:12.345Z\",\"type\":\"b\"}\n";
    box_open(&b, NULL);
    make_sessions(&b, 10);
    struct store_event ev[100];
    for (size_t i = 0; i < 100; i++) {
        ev[i] = (struct store_event){STR("a"), STR("\"text\":\"some words, some words\"")};
    }
    for (int i = 0; i < 30; i++) {
        store_append(b.store, STR("s0"), ev, 100, STORE_SYNCED, box_appended, &b);
        CHECK_INT(box_wait(&b), 0);
    }
    CHECK_INT(box_close(&b), 0);
    struct index *x = open_index("state/index.sqlite");
    CHECK_INT(catchup_run(x, b.home, NULL, NULL, &stats, NULL), 0);
    CHECK_INT(stats.sessions, 10);
    CHECK_INT(stats.changed, 0);
    CHECK_INT(stats.bytes_read, 0);
    file_append(box_path(&b, "sessions/s0/events.jsonl"), line);
    CHECK_INT(catchup_run(x, b.home, NULL, NULL, &stats, NULL), 0);
    CHECK_INT(stats.changed, 1);
    CHECK_INT(stats.bytes_read, strlen(line));
    index_close(x);
}

TEST(ten_thousand_sessions_are_listed_quickly)
{
    struct index *x = open_index("big.sqlite");
    struct store_rows rows;
    struct arena a = {0};
    char id[16];
    CHECK_INT(index_begin(x, NULL), 0);
    for (int i = 0; i < 10000; i++) {
        snprintf(id, sizeof id, "s%05d", i);
        struct index_row r = {
            .row = {.id = str_of(id),
                    .dir = STR("sessions/x"),
                    .kind = STR("session"),
                    .state = i % 10 ? STR("ended") : STR("idle"),
                    .title = STR("some title"),
                    .meta =
                        STR("{\"session_id\":\"x\",\"model\":\"m\",\"engine\":\"native\","
                            "\"prompt_summary\":\"what was asked, in a line of usual length\"}"),
                    .started_at = i}};
        CHECK_INT(index_put(x, &r, NULL), 0);
    }
    CHECK_INT(index_commit(x, NULL), 0);
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t t = test_cpu_ns();
        CHECK_INT(index_list(x, NULL, STR(""), 0, &rows, &a, NULL), 0);
        best = MIN(best, test_cpu_ns() - t);
        CHECK_INT(rows.n, 10000);
        CHECK_SPAN(rows.rows[0].id, "s09999");
        CHECK_INT(rows.next.n, 0);
        arena_fini(&a);
    }
    fprintf(stderr, "10,000 sessions listed in %.1f ms\n", (double)best / 1e6);
    CHECK(best <= LIST_BUDGET_MS * UINT64_C(1000000));
    CHECK_INT(
        index_list(x, &(struct store_filter){.state = STR("idle")}, STR(""), 20, &rows, &a, NULL),
        0);
    CHECK_INT(rows.n, 20);
    CHECK_SPAN(rows.rows[1].id, "s09980");
    CHECK(rows.next.n != 0);
    arena_fini(&a);
    index_close(x);
}
