#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/fault.h"
#include "store/session.h"
#include "store/session_request_int.h"
#include "unit/store/util.h"

static const char meta[] = "{\"started_at\":\"2026-11-15T05:01:12.345Z\"}";

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

static void open_session(struct box *b)
{
    log_open(LOG_ERROR, quiet, NULL);
    box_open(b, NULL);
    CHECK_INT(box_begin(b, "s1", meta), 0);
    CHECK_INT(box_append(b, "s1", "a", "", STORE_SYNCED), 0);
}

static unsigned failures, successes;

static void tally(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    (void)arg;
    CHECK_INT(a->first_seq != 0, 1); // the events are there, whatever the sync said
    failures += status == -EIO;
    successes += status == 0;
    CHECK(status == 0 || strstr(e->msg, "cannot sync") != NULL);
}

static const struct store_event one = {{"a", 1}, {NULL, 0}};

TEST(a_failed_sync_fails_every_append_that_waits_for_it)
{
    struct box b;
    open_session(&b);
    fault_at(2, EIO, false); // the write, then its sync
    for (int i = 0; i < 5; i++) {
        store_append(b.store, STR("s1"), &one, 1, STORE_SYNCED, tally, NULL);
    }
    while (failures + successes < 5) {
        loop_run_once(&b.loop, true);
    }
    CHECK_INT(fault_hits(), 1);
    fault_off();
    CHECK_INT(failures, 5);
    CHECK_INT(b.notices[STORE_SYNC_FAILED], 1);
    CHECK_INT(box_close(&b), -EIO); // what was never synced is told once more at the end
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 6);
}

static unsigned long calls_of_one_synced_append(struct box *b)
{
    fault_at(1000000, EIO, false);
    CHECK_INT(box_append(b, "s1", "a", "", STORE_SYNCED), 0);
    unsigned long calls = fault_calls();
    fault_off();
    return calls;
}

TEST(after_a_failed_sync_the_events_are_written_again_before_anything_else)
{
    struct box b;
    open_session(&b);
    CHECK_INT(calls_of_one_synced_append(&b), 2); // pwrite, fdatasync
    fault_at(2, EIO, false);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), -EIO);
    CHECK_INT(b.appended.first_seq, 3);
    unsigned long calls = calls_of_one_synced_append(&b);
    CHECK(calls >= 5); // read back, write again, write, sync
    CHECK_INT(b.appended.first_seq, 4);
    CHECK_INT(calls_of_one_synced_append(&b), 2); // and all is well
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 5);
}

TEST(while_the_events_cannot_be_written_again_every_append_fails)
{
    struct box b;
    open_session(&b);
    fault_at(2, EIO, true); // the sync, and everything after it
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), -EIO);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), -EIO);
    CHECK_INT(b.appended.first_seq, 0);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_WRITTEN), -EIO);
    fault_off();
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), 0);
    CHECK_INT(b.appended.first_seq, 3);
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 3);
}

TEST(events_lost_by_a_failed_sync_are_noticed)
{
    struct box b;
    open_session(&b);
    fault_at(2, EIO, false);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), -EIO);
    fault_off();
    size_t n; // as a kernel may do that gave its dirty pages up: the old bytes are back
    char *text = file_text(box_path(&b, "sessions/s1/events.jsonl"), &n);
    memset(text + n - 20, 0, 20);
    FILE *f = fopen(box_path(&b, "sessions/s1/events.jsonl"), "r+");
    CHECK(f != NULL && fwrite(text, 1, n, f) == n && fclose(f) == 0);
    free(text);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_SYNCED), ERR_CORRUPT);
    CHECK(strstr(b.err.msg, "lost events") != NULL);
    CHECK_INT(box_close(&b), -EIO);
}

TEST(a_failed_sync_of_deltas_is_told_and_not_forgotten)
{
    struct box b;
    open_session(&b);
    fault_at(2, EIO, false);
    CHECK_INT(box_append(&b, "s1", "message.delta", "", STORE_WRITTEN), 0);
    while (b.notices[STORE_SYNC_FAILED] == 0) { // within 50 ms, by itself
        loop_run_once(&b.loop, true);
    }
    fault_off();
    CHECK(calls_of_one_synced_append(&b) >= 5);
    CHECK_INT(box_close(&b), 0);
}

TEST(a_full_disk_fails_the_append_and_leaves_whole_lines)
{
    struct box b;
    open_session(&b);
    fault_at(1, ENOSPC, true);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_WRITTEN), -ENOSPC);
    CHECK(strstr(b.err.msg, "cannot write") != NULL);
    CHECK_INT(b.appended.first_seq, 0);
    fault_off();
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_WRITTEN), 0);
    CHECK_INT(b.appended.first_seq, 2);
    CHECK_INT(box_close(&b), 0);
    CHECK_INT(journal_text_check(box_path(&b, "sessions/s1/events.jsonl")), 2);
}

/// The file may grow by `more` bytes only: a write beyond is done in part, as on a full disk.
static void limit_file(const char *path, off_t more)
{
    struct stat st;
    CHECK_INT(stat(path, &st), 0);
    struct rlimit r = {.rlim_cur = (rlim_t)(st.st_size + more), .rlim_max = RLIM_INFINITY};
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static void unlimit_file(void)
{
    struct rlimit r = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    CHECK_INT(setrlimit(RLIMIT_FSIZE, &r), 0);
}

TEST(a_write_done_in_part_is_cut_back_before_anything_else)
{
    struct box b;
    char journal[600];
    signal(SIGXFSZ, SIG_IGN);
    open_session(&b);
    snprintf(journal, sizeof journal, "%s", box_path(&b, "sessions/s1/events.jsonl"));
    for (int i = 0; i < 40; i++) { // larger than any other file here
        char text[9000];
        snprintf(text, sizeof text, "\"x\":\"%08000d\"", 0);
        CHECK_INT(box_append(&b, "s1", "a", text, STORE_SYNCED), 0);
    }
    limit_file(journal, 10);
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_WRITTEN), -EFBIG);
    unlimit_file();
    CHECK_INT(journal_text_check(journal), 41); // nothing of it is left

    limit_file(journal, 10);
    fault_at(3, EIO, false); // part of it is written, no more is, and it cannot be cut back
    CHECK_INT(box_append(&b, "s1", "a", "", STORE_WRITTEN), -EFBIG);
    CHECK_INT(fault_hits(), 1);
    fault_off();
    unlimit_file();
    CHECK_INT(box_append(&b, "s1", "b", "", STORE_SYNCED), 0);
    CHECK_INT(b.appended.first_seq, 42);
    CHECK_INT(journal_text_check(journal), 42);
    CHECK_INT(box_close(&b), 0);
}

// ---- lanes of the test's own: syncs that do not end until told to --------------------------

static sem_t gate;

static void hold(void *arg)
{
    (void)arg;
    while (sem_wait(&gate) != 0) {
    }
}

struct rig {
    struct loop loop;
    struct lane *write, *sync, *files;
    struct indexer *index;
    struct sessions *ss;
    unsigned made, written, synced;
    bool idle;
};

static void rig_ready(void *arg, int status, const struct err *e)
{
    (void)arg;
    (void)e;
    CHECK_INT(status, 0);
}

static unsigned sync_failures;

static void rig_notice(void *arg, const struct store_notice *n)
{
    (void)arg;
    sync_failures += n->kind == STORE_SYNC_FAILED;
}

static void rig_idle(void *arg)
{
    ((struct rig *)arg)->idle = true;
}

static void rig_made(void *arg, int status, const struct err *e)
{
    (void)e;
    CHECK_INT(status, 0);
    ((struct rig *)arg)->made++;
}

static void rig_written(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    (void)a;
    (void)e;
    CHECK_INT(status, 0);
    ((struct rig *)arg)->written++;
}

static void rig_synced(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    (void)a;
    (void)e;
    CHECK_INT(status, 0);
    ((struct rig *)arg)->synced++;
}

static void rig_new(struct rig *r, struct str id, struct str dir)
{
    sessions_request(r->ss, id, session_request__new(id, dir, str_of(meta), rig_made, r));
}

static void rig_append(struct rig *r, const char *id, enum store_durability durability,
                       store_append_cb *cb, void *arg)
{
    sessions_request(r->ss, str_of(id), session_request__append(&one, 1, durability, cb, arg));
}

static void rig_open(struct rig *r)
{
    memset(r, 0, sizeof *r);
    CHECK_INT(sem_init(&gate, 0, 0), 0);
    CHECK_INT(loop_init(&r->loop, NULL, NULL), 0);
    r->write = lane_open(&r->loop, "write", 1);
    r->sync = lane_open(&r->loop, "sync", 1);
    r->files = lane_open(&r->loop, "files", 2);
    struct indexer_cb cb = {rig_ready, rig_notice, rig_idle, r};
    r->index = indexer_open(&r->loop, test_dir(), &cb);
    struct sessions_opts o = {.loop = &r->loop,
                              .home = test_dir(),
                              .write = r->write,
                              .sync = r->sync,
                              .files = r->files,
                              .index = r->index,
                              .open_max = 8,
                              .sync_ms = 50,
                              .notice = rig_notice,
                              .idle = rig_idle,
                              .arg = r};
    r->ss = sessions_open(&o);
    rig_new(r, STR("s1"), STR("sessions/s1"));
    rig_new(r, STR("s2"), STR("sessions/s2"));
    while (r->made < 2) {
        loop_run_once(&r->loop, true);
    }
}

static void rig_close(struct rig *r)
{
    sessions_drain(r->ss);
    while (sessions_held(r->ss) != 0 || indexer_busy(r->index)) {
        loop_run_once(&r->loop, true);
    }
    CHECK_INT(sessions_close(r->ss, NULL), 0);
    indexer_close(r->index);
    lane_close(r->write);
    lane_close(r->sync);
    lane_close(r->files);
    while (loop_run(&r->loop)) {
    }
    CHECK_INT(loop_close(&r->loop, NULL), 0);
}

TEST(waiting_for_a_sync_delays_no_delta)
{
    struct rig r;
    rig_open(&r);
    work_submit(r.sync, 0, hold, NULL, NULL); // the disk does not answer
    rig_append(&r, "s1", STORE_SYNCED, rig_synced, &r);
    for (unsigned i = 1; i <= 20; i++) {
        rig_append(&r, i % 2 ? "s1" : "s2", STORE_WRITTEN, rig_written, &r);
        while (r.written < i) { // ends only because these do not wait
            loop_run_once(&r.loop, true);
        }
    }
    CHECK_INT(r.synced, 0);
    sem_post(&gate);
    while (r.synced == 0) {
        loop_run_once(&r.loop, true);
    }
    rig_close(&r);
}

TEST(requests_that_arrive_during_a_sync_share_the_next_one)
{
    struct rig r;
    rig_open(&r);
    work_submit(r.sync, 0, hold, NULL, NULL);
    fault_at(1000000, EIO, false);
    for (unsigned i = 1; i <= 30; i++) { // each written on its own
        rig_append(&r, "s1", STORE_SYNCED, rig_synced, &r);
        rig_append(&r, "s1", STORE_WRITTEN, rig_written, &r);
        while (r.written < i) {
            loop_run_once(&r.loop, true);
        }
    }
    CHECK_INT(r.synced, 0);
    unsigned long writes = fault_calls();
    CHECK_INT(writes, 30);
    sem_post(&gate);
    while (r.synced < 30) {
        loop_run_once(&r.loop, true);
    }
    unsigned long syncs = fault_calls() - writes;
    fault_off();
    CHECK_INT(syncs, 2); // one asked for by the first, one shared by all others
    rig_close(&r);
}

static void rig_told(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    CHECK_INT(status, -EIO);
    CHECK(a->first_seq != 0 && strstr(e->msg, "cannot sync") != NULL);
    *(bool *)arg = true;
}

TEST(an_append_that_is_being_written_while_a_sync_fails_is_answered)
{
    struct rig r;
    bool told = false;
    log_open(LOG_ERROR, quiet, NULL);
    rig_open(&r);
    rig_append(&r, "s1", STORE_WRITTEN, rig_written, &r);
    while (r.written == 0) {
        loop_run_once(&r.loop, true);
    }
    work_submit(r.write, 0, hold, NULL, NULL);
    rig_append(&r, "s1", STORE_SYNCED, rig_told, &told);
    fault_at(1, EIO, false);
    while (sync_failures == 0) { // that of the first one, by the timer
        loop_run_once(&r.loop, true);
    }
    fault_off();
    sem_post(&gate);
    while (!told) {
        loop_run_once(&r.loop, true);
    }
    rig_append(&r, "s1", STORE_SYNCED, rig_synced, &r);
    while (r.synced == 0) { // the next one mends it
        loop_run_once(&r.loop, true);
    }
    rig_close(&r);
}
