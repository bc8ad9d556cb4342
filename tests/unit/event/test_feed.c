// Readers of one session by its journal.

#include "event/event_int.h"
#include "unit/event/box.h"

enum { SMALL = 16384, LARGE = 1 << 20 };

static const char type[] = "message.delta";
static int64_t written_at; // the time of the event appended last

static void on_appended(void *arg, int status, const struct store_appended *a, const struct err *e)
{
    written_at = a->ts;
    box_note(arg, status, e);
}

/// A session in the store, as agents make them.
static void make_session(struct box *b, const char *id)
{
    char dir[64];
    snprintf(dir, sizeof dir, "sessions/%s", id);
    store_session_new(b->store, str_of(id), str_of(dir), STR("{}"), box_note, b);
    CHECK_INT(box_wait(b), 0);
}

static void append(struct box *b, const char *id, const char *of_type, const char *fields)
{
    struct store_event ev = {.type = str_of(of_type), .fields = str_of(fields)};
    store_append(b->store, str_of(id), &ev, 1, STORE_WRITTEN, on_appended, b);
    CHECK_INT(box_wait(b), 0);
}

static void show(struct box *b, const char *id, uint64_t seq, const char *of_type,
                 const char *fields)
{
    struct event_record ev = {.type = str_of(of_type),
                              .session = str_of(id),
                              .fields = str_of(fields),
                              .seq = seq,
                              .ts = written_at};
    CHECK(event_emit_record(b->log, &ev) != 0);
}

/// Write number `seq` and show it.
static void say(struct box *b, const char *id, uint64_t seq)
{
    char fields[64];
    snprintf(fields, sizeof fields, "\"n\":%llu", (unsigned long long)seq);
    append(b, id, type, fields);
    show(b, id, seq, type, fields);
}

// ---- a reader that checks what it gets ------------------------------------------------------

struct feed {
    struct event_reader *reader;
    uint64_t seq; // the last one it got
    unsigned wakes, failures;
    struct buf got; // of frames that have not ended
};

static void on_wake(void *arg)
{
    ((struct feed *)arg)->wakes++;
}

static void feed_open(struct feed *f, struct box *b, const char *id, uint64_t after, uint64_t shown,
                      const char *turn)
{
    struct event_filter only = {
        .session = str_of(id), .journal = true, .shown = shown, .turn = str_of(turn)};
    *f = (struct feed){.seq = after};
    buf_init(&f->got, SIZE_MAX);
    f->reader = event_reader_open(b->log, after, &only, on_wake, f);
}

static void feed_close(struct feed *f)
{
    event_reader_close(f->reader);
    CHECK_INT(f->got.n, 0); // no frame was torn
    buf_fini(&f->got);
}

/// A frame is the next number of the journal, and its data say the same; or it has none.
static void check_frame(struct feed *f, char *frame)
{
    char want[64];
    if (strncmp(frame, "event: ", 7) == 0) {
        f->failures++;
        return;
    }
    f->seq++;
    snprintf(want, sizeof want, "id: %llu\nevent: ", (unsigned long long)f->seq);
    CHECK(strncmp(frame, want, strlen(want)) == 0);
    snprintf(want, sizeof want, "\ndata: {\"seq\":%llu,\"ts\":\"", (unsigned long long)f->seq);
    CHECK(strstr(frame, want) != NULL);
    CHECK(strstr(frame, "\"id\":") == NULL && strstr(frame, "\"crc\":") == NULL);
}

/// All that there is now, in spans of about `max` bytes.
static void feed_drain(struct feed *f, size_t max)
{
    for (struct str span; (span = event_reader_peek(f->reader, max)).n != 0;
         event_reader_next(f->reader)) {
        buf_adds(&f->got, span);
    }
    (void)buf_z(&f->got); // ends it with a NUL
    char *at = f->got.n != 0 ? f->got.p : NULL, *end;
    size_t used = 0;
    while (at != NULL && (end = strstr(at, "\n\n")) != NULL) {
        *end = '\0';
        check_frame(f, at);
        at = end + 2;
        used = (size_t)(at - f->got.p);
    }
    CHECK_INT(used, f->got.n);
    buf_clear(&f->got);
}

/// Read until number `seq`, or the end.
static void feed_until(struct feed *f, struct box *b, uint64_t seq, size_t max)
{
    bool more = true; // is there anything left that the loop waits for?
    feed_drain(f, max);
    while (f->seq < seq && !event_reader_ended(f->reader)) {
        CHECK(more);
        more = loop_run_once(&b->loop, true);
        feed_drain(f, max);
    }
    CHECK_INT(f->seq, seq);
}

static void turn_some(struct box *b)
{
    for (int i = 0; i < 10; i++) {
        loop_run_once(&b->loop, false);
    }
}

// ---- tests ----------------------------------------------------------------------------------

TEST(a_reader_that_keeps_up_is_served_from_memory)
{
    struct box b;
    struct feed f;
    box_open(&b, LARGE);
    feed_open(&f, &b, "s1", 0, 0, ""); // the store has no such session: nothing can be read from it
    for (uint64_t seq = 1; seq <= 100; seq++) {
        show(&b, "s1", seq, type, "\"text\":\"x\"");
        show(&b, "s2", seq, type, "\"text\":\"of another\"");
        turn_some(&b);
        CHECK_INT(f.wakes, seq);
        feed_drain(&f, 4096);
        CHECK_INT(f.seq, seq);
    }
    feed_close(&f);
    feed_open(&f, &b, "s1", 40, 100, ""); // the first of a session finds what the ring has
    feed_drain(&f, 4096);
    CHECK_INT(f.seq, 100);
    feed_close(&f);
    box_close(&b);
}

/// More events of others than a small ring holds.
static void fill_ring(struct box *b)
{
    for (int i = 0; i < 400; i++) {
        event_emit(b->log, STR("user.other"), STR("s9"), STR("\"text\":\"0123456789\""));
    }
}

TEST(a_frame_is_the_same_from_memory_and_from_the_journal)
{
    struct box b;
    struct feed live, late;
    struct str span;
    box_open(&b, SMALL);
    make_session(&b, "s1");
    append(&b, "s1", type, "\"session\":\"s1\",\"turn\":\"t1\",\"text\":\"a\"");
    feed_open(&live, &b, "s1", 0, 0, "");
    show(&b, "s1", 1, type, "\"turn\":\"t1\",\"text\":\"a\"");
    char *from_memory = str_dup(event_reader_peek(live.reader, 4096));
    event_reader_next(live.reader);
    fill_ring(&b);
    feed_open(&late, &b, "s1", 0, 1, "");
    for (bool more = true; (span = event_reader_peek(late.reader, 4096)).n == 0;) {
        CHECK(more);
        more = loop_run_once(&b.loop, true);
    }
    char *from_journal = str_dup(span);
    CHECK_STR(from_memory, from_journal);
    free(from_memory);
    free(from_journal);
    event_reader_close(live.reader);
    event_reader_close(late.reader);
    box_close(&b);
}

TEST(the_journal_fills_the_gap_from_any_number)
{
    enum { OLD = 300, ALL = 340 };
    struct box b;
    box_open(&b, LARGE);
    make_session(&b, "s1");
    for (uint64_t seq = 1; seq <= OLD; seq++) { // from before the ring
        append(&b, "s1", type, "\"n\":1");
    }
    for (uint64_t seq = OLD + 1; seq <= ALL; seq++) {
        say(&b, "s1", seq);
    }
    for (uint64_t after = 0; after <= ALL; after += 20) {
        struct feed f;
        feed_open(&f, &b, "s1", after, ALL, "");
        feed_until(&f, &b, ALL, after % 40 == 0 ? 64 : 4096);
        CHECK_INT(event_reader_peek(f.reader, 64).n, 0);
        feed_close(&f);
    }
    box_close(&b);
}

TEST(what_was_written_and_not_shown_is_seen_by_nobody)
{
    struct box b;
    struct feed f;
    box_open(&b, LARGE);
    make_session(&b, "s1");
    for (int i = 0; i < 3; i++) {
        append(&b, "s1", type, "\"n\":1");
    }
    feed_open(&f, &b, "s1", 0, 2, ""); // the third waits for a sync
    feed_until(&f, &b, 2, 4096);
    append(&b, "s1", type, "\"n\":1");
    turn_some(&b);
    feed_drain(&f, 4096);
    CHECK_INT(f.seq, 2);
    show(&b, "s1", 3, type, "\"n\":1");
    feed_until(&f, &b, 3, 4096);
    show(&b, "s1", 4, type, "\"n\":1");
    feed_until(&f, &b, 4, 4096);
    feed_close(&f);
    box_close(&b);
}

TEST(a_slow_reader_goes_on_from_the_journal_without_a_gap)
{
    enum { ROUNDS = 8, EACH = 60 };
    struct box b;
    struct feed f;
    uint64_t seq = 0;
    box_open(&b, SMALL);
    make_session(&b, "s1");
    feed_open(&f, &b, "s1", 0, 0, "");
    for (int round = 0; round < ROUNDS; round++) {
        event_reader_park(f.reader, round % 2 == 0);
        for (int i = 0; i < EACH; i++) {
            say(&b, "s1", ++seq);
        }
        if (round % 3 == 0) {
            fill_ring(&b);
        }
        if (round % 2 == 1) {
            feed_until(&f, &b, seq, 500);
        }
    }
    CHECK_INT(f.seq, ROUNDS * EACH);
    feed_close(&f);
    box_close(&b);
}

TEST(an_event_that_the_ring_has_not_whole_comes_from_the_journal)
{
    struct box b;
    struct feed f;
    struct buf fields;
    box_open(&b, SMALL);
    make_session(&b, "s1");
    buf_init(&fields, SIZE_MAX);
    buf_addz(&fields, "\"text\":\"");
    for (int i = 0; i < 5000; i++) {
        buf_addc(&fields, 'x');
    }
    buf_addc(&fields, '"');
    feed_open(&f, &b, "s1", 0, 0, "");
    say(&b, "s1", 1);
    append(&b, "s1", type, buf_z(&fields));
    show(&b, "s1", 2, type, buf_z(&fields)); // above an eighth of the ring
    append(&b, "s1", type, "\"text\":\"long\"");
    struct event_record cut = {
        .type = str_of(type), .session = STR("s1"), .seq = 3, .ts = 1, .left_out = 1000};
    CHECK(event_emit_record(b.log, &cut) != 0);
    say(&b, "s1", 4);
    feed_drain(&f, 300);
    CHECK_INT(f.seq, 1);
    feed_until(&f, &b, 4, 300);
    feed_close(&f);
    buf_fini(&fields);
    box_close(&b);
}

TEST(a_reader_of_a_turn_ends_with_it)
{
    static const char ends[] = "\"turn\":\"t2\"";
    struct box b;
    struct feed live, late, other;
    box_open(&b, LARGE);
    make_session(&b, "s1");
    feed_open(&live, &b, "s1", 0, 0, "t2");
    feed_open(&other, &b, "s1", 0, 0, "");
    append(&b, "s1", "turn.completed", "\"turn\":\"t1\"");
    show(&b, "s1", 1, "turn.completed", "\"turn\":\"t1\"");
    append(&b, "s1", "turn.interrupted", ends);
    show(&b, "s1", 2, "turn.interrupted", ends);
    say(&b, "s1", 3);
    feed_drain(&live, 4096);
    CHECK_INT(live.seq, 2);
    CHECK(event_reader_ended(live.reader));
    feed_drain(&other, 4096);
    CHECK(other.seq == 3 && !event_reader_ended(other.reader));
    feed_close(&live);
    feed_close(&other);
    event_close(b.log); // another hub: nothing of it is in memory
    CHECK_INT(event_open(&b.log, &b.loop, b.store, 0, box_note, &b, NULL), 0);
    CHECK_INT(box_wait(&b), 0);
    feed_open(&late, &b, "s1", 0, 3, "t2");
    feed_until(&late, &b, 2, 4096);
    CHECK(event_reader_ended(late.reader));
    feed_close(&late);
    box_close(&b);
}

TEST(an_event_that_could_not_be_written_is_the_last_one)
{
    struct event_record lost = {
        .type = STR("turn.failed"), .session = STR("s1"), .fields = STR("\"error\":{}")};
    struct box b;
    struct feed before, later;
    box_open(&b, SMALL);
    make_session(&b, "s1");
    feed_open(&before, &b, "s1", 0, 0, "");
    say(&b, "s1", 1);
    event_emit_record(b.log, &lost);
    feed_open(&later, &b, "s1", 0, 1, "");
    feed_until(&before, &b, 1, 4096);
    CHECK(before.failures == 1 && event_reader_ended(before.reader));
    feed_until(&later, &b, 1, 4096);
    CHECK(later.failures == 0 && !event_reader_ended(later.reader)); // that was before its time
    event_emit_record(b.log, &lost);
    fill_ring(&b);
    feed_drain(&later, 4096);
    CHECK(event_reader_ended(later.reader)); // also when the ring has forgotten why
    feed_close(&before);
    feed_close(&later);
    box_close(&b);
}

TEST(readers_of_a_session_that_is_removed_end)
{
    struct box b;
    struct feed waits, reads;
    box_open(&b, LARGE);
    make_session(&b, "s1");
    append(&b, "s1", type, "");
    feed_open(&waits, &b, "s1", 1, 1, "");
    store_session_remove(b.store, STR("s1"), box_note, &b);
    CHECK_INT(box_wait(&b), 0);
    feed_open(&reads, &b, "s1", 0, 1, "");
    event_session_gone(b.log, STR("s1"));
    for (bool more = true; waits.wakes == 0 || reads.wakes == 0;) {
        CHECK(more);
        more = loop_run_once(&b.loop, true);
    }
    CHECK(event_reader_ended(waits.reader) && event_reader_ended(reads.reader));
    feed_close(&waits);
    feed_close(&reads);
    box_close(&b);
}

TEST(a_reader_may_be_closed_while_its_page_is_read)
{
    struct box b;
    struct feed f;
    box_open(&b, LARGE);
    make_session(&b, "s1");
    append(&b, "s1", type, "");
    feed_open(&f, &b, "s1", 0, 1, "");
    feed_close(&f);
    box_close(&b);
}

TEST(an_event_costs_nothing_for_readers_of_other_sessions)
{
    enum { OTHERS = 500 };
    static struct feed others[OTHERS];
    struct box b;
    struct feed f;
    box_open(&b, LARGE);
    for (size_t i = 0; i < OTHERS; i++) {
        char id[16];
        snprintf(id, sizeof id, "o%zu", i);
        feed_open(&others[i], &b, id, 0, 0, "");
    }
    feed_open(&f, &b, "s1", 0, 0, "");
    turn_some(&b);
    for (uint64_t seq = 1; seq <= 10; seq++) {
        show(&b, "s1", seq, type, "");
        // only its own channel is to be told: nobody looks at the others
        CHECK(b.log->due == f.reader->channel && b.log->due->next_due == NULL);
        turn_some(&b);
        feed_drain(&f, 4096);
        CHECK_INT(f.seq, seq);
    }
    show(&b, "o7", 1, type, "");
    turn_some(&b);
    feed_drain(&others[7], 4096);
    CHECK_INT(others[7].seq, 1);
    for (size_t i = 0; i < OTHERS; i++) {
        CHECK_INT(others[i].wakes, i == 7);
        feed_close(&others[i]);
    }
    feed_close(&f);
    box_close(&b);
}
