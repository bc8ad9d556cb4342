#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "unit/event/box.h"

static uint64_t emit(struct box *b, const char *type, const char *fields)
{
    return event_emit(b->log, str_of(type), STR_NULL, str_of(fields));
}

// ---- what a reader saw ---------------------------------------------------------------------

struct seen {
    uint64_t ids[4096];
    size_t n;
    unsigned gaps;
    uint64_t from, to; // of the last gap
    unsigned wakes;
};

static void on_wake(void *arg)
{
    ((struct seen *)arg)->wakes++;
}

static uint64_t number(struct str frame, const char *before)
{
    char text[512];
    snprintf(text, sizeof text, STR_FMT, STR_ARG(frame));
    const char *at = strstr(text, before);
    CHECK(at != NULL);
    return strtoull(at + strlen(before), NULL, 10);
}

static void take_frame(struct seen *s, struct str frame)
{
    uint64_t id = number(frame, "id: ");
    CHECK_INT(number(frame, "{\"id\":"), id);
    if (strstr(frame.p, "event: ") == strstr(frame.p, "event: stream.gap")) {
        s->gaps++;
        s->from = number(frame, "\"from\":");
        s->to = number(frame, "\"to\":");
        CHECK_INT(id, s->to);
        return;
    }
    CHECK(s->n < ARRAY_LEN(s->ids));
    s->ids[s->n++] = id;
}

static size_t end_of_frame(struct str s)
{
    const char *end = memmem(s.p, s.n, "\n\n", 2);
    CHECK(end != NULL);
    return (size_t)(end + 2 - s.p);
}

/// All there is now, at most `rounds` peeks.
static void drain(struct event_reader *r, struct seen *s, size_t max, unsigned rounds)
{
    for (; rounds != 0; rounds--) {
        struct str got = event_reader_peek(r, max);
        if (got.n == 0) {
            return;
        }
        while (got.n != 0) {
            size_t n = end_of_frame(got);
            char *frame = str_dup((struct str){got.p, n});
            take_frame(s, (struct str){frame, n});
            free(frame);
            got = str_from(got, n);
        }
        event_reader_next(r);
    }
}

static struct seen seen; // large: not on the stack

// ---- frames --------------------------------------------------------------------------------

TEST(a_frame_is_what_the_contract_says)
{
    struct box b;
    box_open(&b, 0);
    CHECK_INT(event_emit(b.log, STR("user.hi"), STR("s1"), STR("\"a\":1,\n\"b\":\"x\"")), 1);
    struct event_reader *r = event_reader_open(b.log, 0, NULL, on_wake, &seen);
    struct str f = event_reader_peek(r, 4096);
    char *text = str_dup(f);
    CHECK(str_starts(f, "id: 1\nevent: user.hi\ndata: {\"id\":1,\"ts\":\"20"));
    CHECK_STR(strstr(text, "\"type\""),
              "\"type\":\"user.hi\",\"session\":\"s1\",\"a\":1, \"b\":\"x\"}\n\n");
    free(text);
    event_reader_close(r);
    box_close(&b);
}

TEST(an_event_too_large_for_the_ring_is_cut_with_a_marker)
{
    struct box b;
    box_open(&b, 16384);
    char *big = xmalloc(5000);
    memset(big, ' ', 5000);
    memcpy(big, "\"k\":1", 5);
    CHECK_INT(event_emit(b.log, STR("user.big"), STR("s"), (struct str){big, 5000}), 1);
    CHECK_INT(event_emit(b.log, STR("user.fits"), STR("s"), (struct str){big, 1900}), 2);
    free(big);
    struct event_reader *r = event_reader_open(b.log, 0, NULL, on_wake, &seen);
    struct str f = event_reader_peek(r, 1);
    char *text = str_dup(f);
    CHECK(strstr(text, "\"session\":\"s\",\"truncated\":true,\"bytes\":5000}") != NULL);
    free(text);
    event_reader_next(r);
    f = event_reader_peek(r, 1);
    CHECK(f.n > 1900);
    event_reader_close(r);
    box_close(&b);
}

// ---- replay --------------------------------------------------------------------------------

TEST(replay_from_any_cursor_has_no_gap_and_no_duplicate)
{
    struct box b;
    box_open(&b, 1 << 20);
    for (int i = 0; i < 1000; i++) {
        CHECK_INT(emit(&b, "user.n", "\"x\":1"), i + 1);
    }
    srand(7);
    for (int round = 0; round < 300; round++) {
        uint64_t after = (uint64_t)rand() % 1001;
        memset(&seen, 0, sizeof seen);
        struct event_reader *r = event_reader_open(b.log, after, NULL, on_wake, &seen);
        drain(r, &seen, 1 + (size_t)rand() % 5000, 10000);
        CHECK_INT(seen.gaps, 0);
        CHECK_INT(seen.n, 1000 - after);
        for (size_t i = 0; i < seen.n; i++) {
            CHECK_INT(seen.ids[i], after + 1 + i);
        }
        event_reader_close(r);
    }
    box_close(&b);
}

TEST(reading_while_the_ring_turns_round_loses_nothing)
{
    struct box b;
    box_open(&b, 16384);
    struct event_reader *r = event_reader_open(b.log, 0, NULL, on_wake, &seen);
    char fields[600] = "\"p\":\"";
    uint64_t last = 0;
    srand(3);
    for (int i = 0; i < 3000; i++) {
        size_t n = (size_t)rand() % 500;
        memset(fields + 5, 'x', n);
        memcpy(fields + 5 + n, "\"", 2);
        last = emit(&b, "user.n", fields);
        if (i % 7 == 0) {
            drain(r, &seen, 3000, 100);
        }
    }
    drain(r, &seen, 3000, 1000);
    CHECK_INT(seen.gaps, 0);
    CHECK_INT(seen.n, 3000);
    for (size_t i = 0; i < seen.n; i++) {
        CHECK_INT(seen.ids[i], i + 1);
    }
    CHECK_INT(last, 3000);
    event_reader_close(r);
    box_close(&b);
}

TEST(only_what_comes_is_read_when_asked_for)
{
    struct box b;
    box_open(&b, 0);
    emit(&b, "user.before", "");
    struct event_reader *r = event_reader_open(b.log, UINT64_MAX, NULL, on_wake, &seen);
    CHECK_INT(event_reader_peek(r, 100).n, 0);
    emit(&b, "user.after", "");
    drain(r, &seen, 100, 10);
    CHECK_INT(seen.n, 1);
    CHECK_INT(seen.ids[0], 2);
    event_reader_close(r);
    box_close(&b);
}

// ---- gaps ----------------------------------------------------------------------------------

TEST(a_slow_reader_gets_one_gap_with_the_ids_it_missed)
{
    struct box b;
    box_open(&b, 16384);
    struct event_reader *r = event_reader_open(b.log, 0, NULL, on_wake, &seen);
    emit(&b, "user.n", "");
    emit(&b, "user.n", "");
    drain(r, &seen, 10000, 1);
    CHECK_INT(seen.n, 2);
    for (int i = 0; i < 1000; i++) {
        emit(&b, "user.n", "");
        if (i % 100 == 99) {
            loop_run_once(&b.loop,
                          false); // wakes look at the reader and may find it has fallen out
        }
    }
    uint64_t first = event_first_id(b.log);
    CHECK(first > 100);
    drain(r, &seen, 1000, 10000);
    CHECK_INT(seen.gaps, 1);
    CHECK_INT(seen.from, 3);
    CHECK_INT(seen.to, first - 1);
    CHECK_INT(seen.ids[2], first);
    CHECK_INT(seen.ids[seen.n - 1], 1002);
    CHECK_INT(seen.n, 2 + 1002 - first + 1);
    event_reader_close(r);
    box_close(&b);
}

TEST(what_is_lost_between_peek_and_next_is_told)
{
    struct box b;
    box_open(&b, 16384);
    struct event_reader *r = event_reader_open(b.log, 0, NULL, on_wake, &seen);
    emit(&b, "user.n", "");
    CHECK(event_reader_peek(r, 1).n != 0); // 1, copied by the caller
    for (int i = 0; i < 1000; i++) {
        emit(&b, "user.n", "");
    }
    loop_run_once(&b.loop, false); // the wake sees that the cursor fell out
    event_reader_next(r);
    drain(r, &seen, 1000, 10000);
    CHECK_INT(seen.gaps, 1);
    CHECK_INT(seen.from, 2);
    CHECK_INT(seen.to, event_first_id(b.log) - 1);

    memset(&seen, 0, sizeof seen); // the same with a gap under way
    struct event_reader *old = event_reader_open(b.log, 5, NULL, on_wake, &seen);
    struct str gap = event_reader_peek(old, 1);
    uint64_t to = number(gap, "\"to\":");
    for (int i = 0; i < 1000; i++) {
        emit(&b, "user.n", "");
    }
    loop_run_once(&b.loop, false);
    event_reader_next(old);
    drain(old, &seen, 1000, 10000);
    CHECK_INT(seen.gaps, 1);
    CHECK_INT(seen.from, to + 1);
    CHECK_INT(seen.to, event_first_id(b.log) - 1);
    event_reader_close(old);
    event_reader_close(r);
    box_close(&b);
}

TEST(an_id_from_the_future_gives_a_gap_and_then_what_comes)
{
    struct box b;
    box_open(&b, 0);
    emit(&b, "user.n", "");
    emit(&b, "user.n", "");
    struct event_reader *r = event_reader_open(b.log, 5000, NULL, on_wake, &seen);
    emit(&b, "user.n", "");
    drain(r, &seen, 1000, 100);
    CHECK_INT(seen.gaps, 1);
    CHECK_INT(seen.from, 1);
    CHECK_INT(seen.to, 2);
    CHECK_INT(seen.n, 1);
    CHECK_INT(seen.ids[0], 3);
    event_reader_close(r);
    box_close(&b);
}

TEST(a_reader_from_before_a_restart_gets_a_gap_and_then_everything)
{
    struct box b;
    box_open(&b, 0);
    for (int i = 0; i < 10; i++) {
        emit(&b, "user.n", "");
    }
    box_close(&b);
    box_open(&b, 0);
    uint64_t first = emit(&b, "user.n", "");
    CHECK(first > 10);
    struct event_reader *r = event_reader_open(b.log, 7, NULL, on_wake, &seen);
    drain(r, &seen, 1000, 100);
    CHECK_INT(seen.gaps, 1);
    CHECK_INT(seen.from, 8);
    CHECK_INT(seen.to, first - 1);
    CHECK_INT(seen.n, 1);
    CHECK_INT(seen.ids[0], first);
    event_reader_close(r);
    box_close(&b);
}

// ---- filters and waking --------------------------------------------------------------------

TEST(filters_choose_by_type_and_session)
{
    struct box b;
    box_open(&b, 0);
    struct event_filter f = {.types = STR("plugin.*,turn.completed"), .session = STR("s1")};
    struct event_reader *r = event_reader_open(b.log, 0, &f, on_wake, &seen);
    event_emit(b.log, STR("plugin.loaded"), STR("s1"), STR("")); // 1
    event_emit(b.log, STR("plugin.loaded"), STR("s2"), STR(""));
    event_emit(b.log, STR("turn.completed"), STR("s1"), STR("")); // 3
    event_emit(b.log, STR("turn.started"), STR("s1"), STR(""));
    event_emit(b.log, STR("plugin.loaded"), STR_NULL, STR(""));
    event_emit(b.log, STR("plugin.error"), STR("s1"), STR("")); // 6
    event_emit(b.log, STR("plugin.needs"), STR("s1"), STR("")); // 7
    drain(r, &seen, 100000, 100);
    CHECK_INT(seen.n, 4);
    CHECK_INT(seen.ids[0], 1);
    CHECK_INT(seen.ids[1], 3);
    CHECK_INT(seen.ids[2], 6);
    CHECK_INT(seen.ids[3], 7);
    event_reader_close(r);
    box_close(&b);
}

TEST(readers_are_told_once_a_turn_and_only_of_what_fits)
{
    struct box b;
    struct seen none = {0}, parked = {0};
    box_open(&b, 0);
    struct event_reader *r = event_reader_open(b.log, UINT64_MAX, NULL, on_wake, &seen);
    struct event_reader *other = event_reader_open(
        b.log, UINT64_MAX, &(struct event_filter){.types = STR("x.*")}, on_wake, &none);
    struct event_reader *stuck = event_reader_open(b.log, UINT64_MAX, NULL, on_wake, &parked);
    event_reader_park(stuck, true);
    emit(&b, "user.n", "");
    emit(&b, "user.n", "");
    CHECK_INT(seen.wakes, 0); // not from inside the call
    loop_run_once(&b.loop, false);
    CHECK_INT(seen.wakes, 1);
    emit(&b, "user.n", "");
    loop_run_once(&b.loop, false);
    CHECK_INT(seen.wakes, 1); // told already
    CHECK(event_reader_peek(r, 1).n != 0);
    emit(&b, "user.n", "");
    loop_run_once(&b.loop, false);
    CHECK_INT(seen.wakes, 2);
    CHECK_INT(none.wakes, 0);
    CHECK_INT(parked.wakes, 0);
    event_reader_park(stuck, false);
    loop_run_once(&b.loop, false);
    CHECK_INT(parked.wakes, 1);
    event_emit(b.log, STR("x.y"), STR_NULL, STR(""));
    loop_run_once(&b.loop, false);
    CHECK_INT(none.wakes, 1);
    event_reader_close(r);
    event_reader_close(other);
    event_reader_close(stuck);
    box_close(&b);
}

static struct event_reader *pair[2];
static unsigned closes;

static void close_both(void *arg)
{
    (void)arg;
    closes++;
    event_reader_close(pair[0]);
    event_reader_close(pair[1]);
    pair[0] = pair[1] = NULL;
}

TEST(a_reader_may_close_others_when_it_is_told)
{
    struct box b;
    box_open(&b, 0);
    pair[0] = event_reader_open(b.log, UINT64_MAX, NULL, close_both, NULL);
    pair[1] = event_reader_open(b.log, UINT64_MAX, NULL, close_both, NULL);
    emit(&b, "user.n", "");
    loop_run_once(&b.loop, false);
    CHECK_INT(closes, 1);
    box_close(&b);
}

TEST(a_list_gives_objects_and_where_to_go_on)
{
    struct box b;
    struct buf out;
    struct jw w;
    box_open(&b, 0);
    for (int i = 0; i < 10; i++) {
        emit(&b, i % 2 == 0 ? "user.even" : "user.odd", "");
    }
    buf_init(&out, 1 << 20);
    jw_init(&w, &out);
    jw_arr(&w);
    struct event_filter f = {.types = STR("user.odd")};
    uint64_t next = event_list(b.log, 2, &f, 3, &w);
    CHECK_INT(next, 8);
    next = event_list(b.log, next, &f, 3, &w);
    CHECK_INT(next, 10);
    CHECK_INT(event_list(b.log, next, &f, 3, &w), 10);
    jw_end_arr(&w);
    struct arena a = {0};
    struct json *v;
    CHECK_INT(json_parse(&v, &a, buf_str(&out), NULL, NULL), 0);
    CHECK_INT(v->n, 4);
    CHECK_INT(json_int(json_get(json_at(v, 3), "id"), 0), 10);
    arena_fini(&a);
    buf_fini(&out);
    box_close(&b);
}

// ---- ids -----------------------------------------------------------------------------------

TEST(a_mark_that_makes_no_sense_is_refused)
{
    struct box b;
    char path[512];
    static const char *const texts[] = {"{\"event_id_mark\":-3}", "{\"event_id_mark\":\"x\"}",
                                        "{\"event_id_mark\":9223372036854775807}", "{"};
    box_open(&b, 0);
    box_close(&b);
    snprintf(path, sizeof path, "%s/state/hub.json", test_dir());
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        FILE *f = fopen(path, "w");
        CHECK(f != NULL);
        fputs(texts[i], f);
        fclose(f);
        CHECK_INT(box_try_open(&b, 0), ERR_CORRUPT);
        CHECK_INT(emit(&b, "user.n", ""), 0);
        box_close(&b);
    }
}

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

TEST(no_id_is_given_out_that_is_not_reserved_on_disk)
{
    struct box b;
    char path[512];
    uint64_t id = 0, given = 0;
    log_open(LOG_ERROR, quiet, NULL);
    box_open(&b, 0);
    snprintf(path, sizeof path, "%s/state/hub.json", test_dir());
    FILE *f = fopen(path, "w"); // damaged: no further block can be reserved
    CHECK(f != NULL);
    fputs("{", f);
    fclose(f);
    while ((id = emit(&b, "user.n", "")) != 0) {
        given = id;
        if (given % 1000 == 0) {
            loop_run_once(&b.loop, false);
        }
        CHECK(given < 200000);
    }
    CHECK_INT(given, 65536);
    CHECK_INT(event_last_id(b.log), given);
    box_close(&b);
    log_open(LOG_WARN, NULL, NULL);
}

static void got(void *arg, int status, struct str json, const struct err *e)
{
    (void)json;
    box_note(arg, status, e);
}

TEST(the_next_block_is_reserved_before_the_first_is_used_up)
{
    struct box b;
    box_open(&b, 0);
    for (uint64_t i = 1; i <= 200000; i++) {
        CHECK_INT(emit(&b, "user.n", ""), i);
        if (i % 20000 == 0) { // answered behind a reservation that is under way
            store_doc_get(b.store, STR("state/hub.json"), got, &b);
            CHECK_INT(box_wait(&b), 0);
        }
    }
    box_close(&b);
}

/// Emit until killed, telling each id on `fd` before the next.
static _Noreturn void child(int fd, unsigned n)
{
    struct box b;
    box_open(&b, 16384);
    for (unsigned i = 0; i < n; i++) {
        uint64_t id = emit(&b, "user.n", "");
        if (write(fd, &id, sizeof id) != (ssize_t)sizeof id) {
            _exit(1);
        }
    }
    for (;;) {
        pause();
    }
}

TEST(ids_are_never_reused_across_kills)
{
    uint64_t last = 0;
    unsigned killed_early = 0;
    (void)test_dir();
    srand(11);
    for (int round = 0; round < 50; round++) {
        int fds[2];
        CHECK_INT(pipe(fds), 0);
        unsigned want = 1 + (unsigned)rand() % 20;
        pid_t pid = fork();
        if (pid == 0) {
            close(fds[0]);
            child(fds[1], want);
        }
        close(fds[1]);
        uint64_t id;
        unsigned got = 0, stop = (unsigned)rand() % (want + 1);
        if (stop == 0) { // killed somewhere while it opens
            usleep((useconds_t)rand() % 5000);
        }
        while (got < stop && read(fds[0], &id, sizeof id) == (ssize_t)sizeof id) {
            CHECK(id > last);
            last = id;
            got++;
        }
        CHECK_INT(got, stop);
        CHECK_INT(kill(pid, SIGKILL), 0);
        CHECK_INT(waitpid(pid, NULL, 0), pid);
        while (read(fds[0], &id, sizeof id) == (ssize_t)sizeof id) {
            CHECK(id > last);
            last = id;
            killed_early++;
        }
        close(fds[0]);
    }
    fprintf(stderr, "50 restarts by kill -9, last id %llu, %u events were in the pipe\n",
            (unsigned long long)last, killed_early);
}

static void count_wake(void *arg)
{
    ++*(unsigned *)arg;
}

static void turn_all(struct box *b)
{
    for (int i = 0; i < 10; i++) {
        loop_run_once(&b->loop, false);
    }
}

static void read_all(struct event_reader **r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        while (event_reader_peek(r[i], 4096).n != 0) {
            event_reader_next(r[i]);
        }
    }
}

TEST(with_many_readers_the_wakes_of_a_busy_stream_keep_a_distance)
{
    enum { READERS = 2000, DISTANCE_MS = 8 };
    static struct event_reader *r[READERS];
    struct test_clock clock;
    struct box b;
    unsigned wakes = 0;
    test_clock_init(&clock);
    box_clock = &clock.clock;
    box_open(&b, 1 << 20);
    for (size_t i = 0; i < READERS; i++) {
        r[i] = event_reader_open(b.log, UINT64_MAX, NULL, count_wake, &wakes);
    }
    test_clock_advance(&clock, &b.loop, 1000);
    emit(&b, "user.a", "");
    turn_all(&b);
    CHECK_INT(wakes, READERS); // after a silence: at once
    read_all(r, READERS);
    emit(&b, "user.b", "");
    turn_all(&b);
    test_clock_advance(&clock, &b.loop, DISTANCE_MS - 1);
    turn_all(&b);
    CHECK_INT(wakes, READERS);
    emit(&b, "user.c", ""); // goes with the one that waits
    test_clock_advance(&clock, &b.loop, 1);
    turn_all(&b);
    CHECK_INT(wakes, 2 * READERS);
    read_all(r, READERS);
    for (size_t i = 1; i < READERS; i++) {
        event_reader_close(r[i]);
    }
    emit(&b, "user.d", "");
    turn_all(&b);
    CHECK_INT(wakes, 2 * READERS + 1); // alone again: at once
    event_reader_close(r[0]);
    emit(&b, "user.e", "");
    box_close(&b);
}

// Wakes that come in one turn of the loop: it has two places for deferred work.
static unsigned wakes_of_a_turn(struct box *b, const unsigned *wakes)
{
    unsigned before = *wakes;
    loop_run_once(&b->loop, false);
    return *wakes - before;
}

TEST(a_round_of_wakes_lets_others_have_their_turn)
{
    enum { READERS = 2000 };
    static struct event_reader *r[READERS];
    struct box b;
    unsigned wakes = 0, late = 0, turns = 0;
    box_open(&b, 1 << 20);
    for (size_t i = 0; i < READERS; i++) {
        r[i] = event_reader_open(b.log, UINT64_MAX, NULL, count_wake, &wakes);
    }
    emit(&b, "user.a", "");
    for (; wakes < READERS / 2; turns++) {
        CHECK(wakes_of_a_turn(&b, &wakes) <= READERS / 3);
    }
    CHECK(turns > 1 && wakes < READERS);
    read_all(r, READERS / 2);
    // for those that were told, and for one that comes while the round is under way
    struct event_reader *more = event_reader_open(b.log, 0, NULL, count_wake, &late);
    emit(&b, "user.b", "");
    while (wakes < READERS + READERS / 2 || late == 0) { // each of the first half is told again
        turn_all(&b);
    }
    CHECK_INT(late, 1);
    for (size_t i = 0; i < READERS; i++) {
        struct str span = event_reader_peek(r[i], 1 << 16);
        CHECK(memmem(span.p, span.n, "user.b", 6) != NULL);
        event_reader_close(r[i]);
    }
    event_reader_close(more);
    box_close(&b);
}
