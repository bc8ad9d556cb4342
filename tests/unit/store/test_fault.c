#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"
#include "lib/fault.h"
#include "store/move.h"
#include "unit/store/util.h"

// Every wrapped call of a whole life of a store fails once, one after the other. Each time the caller
// either got an error or everything is right; what was acknowledged is there afterwards; nothing that
// was whole before is broken.

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

struct outcome {
    bool made;
    bool meta;         // the second metadata was acknowledged
    bool document;     // so was the change of the document
    uint64_t last_seq; // acknowledged
    unsigned errors;   // told to the caller
};

static void seed_home(struct box *b, const char *home)
{
    CHECK_INT(mkdir(home, 0700), 0);
    box_open(b, home);
    CHECK_INT(box_begin(b, "old", "{\"started_at\":\"2026-11-15T05:00:00.000Z\"}"), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(box_append(b, "old", "a", "\"x\":1", STORE_SYNCED), 0);
    }
    CHECK_INT(box_doc_put(b, "choices.json", "{\"kept\":true}"), 0);
    CHECK_INT(box_close(b), 0);
}

static int told(struct outcome *o, int status)
{
    o->errors += status < 0;
    return status;
}

static void append_all(struct box *b, struct outcome *o, const char *id)
{
    for (int i = 0; i < 4; i++) {
        int rc = told(o, box_append(b, id, "a", "\"text\":\"some words\"",
                                    i % 2 == 0 ? STORE_WRITTEN : STORE_SYNCED));
        if (rc == 0 && strcmp(id, "new") == 0) {
            CHECK_INT(b->appended.first_seq, b->appended.last_seq);
            o->last_seq = b->appended.last_seq;
        }
    }
}

static struct outcome live(const char *home, unsigned long n, int error, bool forever)
{
    struct box b;
    struct outcome o = {0};
    fault_at(n, error, forever);
    if (told(&o, box_try_open(&b, home)) == 0) {
        o.made = told(&o, box_begin(&b, "new", "{\"title\":\"t1\"}")) == 0;
        append_all(&b, &o, "old");
        if (o.made) {
            append_all(&b, &o, "new");
            o.meta = told(&o, box_meta(&b, "new", "{\"title\":\"t2\"}")) == 0;
            told(&o, box_read(&b, "new", 0, 10));
        }
        o.document = told(&o, box_doc_set(&b, "choices.json", "added", "1")) == 0;
        told(&o, box_list(&b, NULL, "", 0));
    }
    told(&o, box_close(&b));
    for (size_t k = 0; k < ARRAY_LEN(b.notices); k++) {
        o.errors += b.notices[k]; // what the store did by itself is told this way
    }
    return o;
}

static void check_document(struct box *b, const struct outcome *o)
{
    CHECK_INT(box_doc_get(b, "choices.json"), 0);
    CHECK(strstr(buf_z(&b->text), "\"kept\": true") != NULL ||
          strstr(buf_z(&b->text), "\"kept\":true") != NULL);
    CHECK(!o->document || strstr(buf_z(&b->text), "\"added\": 1") != NULL);
}

static void check_after(const char *home, const struct outcome *o)
{
    struct box b;
    box_open(&b, home);
    CHECK_INT(box_append(&b, "old", "z", "", STORE_SYNCED), 0);
    CHECK(b.appended.first_seq >= 4);
    CHECK_INT(journal_text_check(box_path(&b, "sessions/old/events.jsonl")), b.appended.last_seq);
    if (o->made) {
        CHECK_INT(box_append(&b, "new", "z", "", STORE_SYNCED), 0);
        CHECK(b.appended.first_seq > o->last_seq);
        CHECK_INT(journal_text_check(box_path(&b, "sessions/new/events.jsonl")),
                  b.appended.last_seq);
        CHECK_INT(box_list(&b, &(struct store_filter){.id = STR("new")}, "", 0), 0);
        CHECK_INT(b.n, 1);
        CHECK(!o->meta || strstr(buf_z(&b.text), " t2 ") != NULL);
    }
    check_document(&b, o);
    CHECK_INT(box_close(&b), 0);
}

/// Fail call 1, 2, ... until none is left to fail; returns how many failed.
static unsigned fail_each(int error, bool forever)
{
    unsigned points = 0;
    for (unsigned long n = 1;; n++) {
        struct box b;
        char home[512];
        snprintf(home, sizeof home, "%s/home", test_dir());
        seed_home(&b, home);
        struct outcome o = live(home, n, error, forever);
        unsigned long hits = fault_hits();
        fault_off();
        if (hits != 0 && o.errors == 0) { // nobody was told: then all of it has to be there
            CHECK(o.made && o.meta && o.document);
            CHECK_INT(o.last_seq, 4);
        }
        check_after(home, &o);
        CHECK_INT(path_remove_tree(home, NULL), 0);
        if (hits == 0) {
            CHECK_INT(o.errors, 0);
            return points;
        }
        points++;
    }
}

static void run(const char *name, int error, bool forever)
{
    log_open(LOG_ERROR, quiet, NULL);
    unsigned points = fail_each(error, forever);
    fprintf(stderr, "%s: %u points failed\n", name, points);
    CHECK(points > 0);
}

TEST(a_full_disk_at_any_call_is_told_and_breaks_nothing)
{
    run("ENOSPC from call n on", ENOSPC, true);
}

TEST(one_failed_call_anywhere_is_told_and_breaks_nothing)
{
    run("EIO at call n", EIO, false);
}

TEST(a_broken_disk_at_any_call_is_told_and_breaks_nothing)
{
    run("EIO from call n on", EIO, true);
}

TEST(an_export_that_fails_leaves_nothing_behind)
{
    struct box b;
    char home[512], file[600];
    unsigned points = 0;
    snprintf(home, sizeof home, "%s/home", test_dir());
    snprintf(file, sizeof file, "%s/export", test_dir());
    seed_home(&b, home);
    for (bool failed = true; failed; points += failed) {
        struct err e;
        struct move_counts n;
        fault_at(points + 1, EIO, false);
        int rc = move_export(&(struct move_side){.home = home}, file, &n, NULL, NULL, &e);
        failed = fault_hits() != 0;
        fault_off();
        CHECK_INT(rc < 0, failed);
        CHECK_INT(access(file, F_OK) == 0, !failed);
    }
    CHECK(points > 5);
}

TEST(an_import_that_fails_can_be_begun_again)
{
    struct box b;
    char home[512], file[600], other[600];
    unsigned points = 0;
    struct err e;
    struct move_counts n;
    snprintf(home, sizeof home, "%s/home", test_dir());
    snprintf(file, sizeof file, "%s/export", test_dir());
    snprintf(other, sizeof other, "%s/other", test_dir());
    seed_home(&b, home);
    CHECK_INT(move_export(&(struct move_side){.home = home}, file, &n, NULL, NULL, &e), 0);
    for (bool failed = true; failed; points += failed) {
        const struct move_side to = {.home = other};
        CHECK_INT(mkdir(other, 0700), 0);
        fault_at(points + 1, EIO, false);
        int rc = move_import(&to, file, &n, NULL, NULL, &e);
        failed = fault_hits() != 0;
        fault_off();
        CHECK_INT(rc < 0, failed);
        CHECK_INT(move_import(&to, file, &n, NULL, NULL, &e), 0);
        CHECK_INT(n.sessions, 1);
        CHECK_INT(n.events, 3);
        CHECK_INT(n.documents, 1);
        CHECK_INT(path_remove_tree(other, NULL), 0);
    }
    CHECK(points > 5);
}
