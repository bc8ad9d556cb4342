// Many who share builds, with a builder of the test's own and a clock that stands; with the real builder
// where reads fail.

#include <errno.h>
#include <unistd.h>

#include "base/path.h"
#include "env/build.h"
#include "env/gate.h"
#include "env/share.h"
#include "lib/fault.h"
#include "unit/loop.h"
#include "watch/watch.h"

// ---- a builder that does as it is told ---------------------------------------------------------

struct env_build {
    struct env_build_opts o;
    struct env_build *next;
};

static struct {
    struct env_build *running; // the last one that began is the first
    unsigned started, cancelled;
} hand;

static struct env_build *hand_build(const struct env_build_opts *o)
{
    struct env_build *b = xcalloc(1, sizeof *b);
    char *path = path_join(o->root, ".afloat/env.toml");
    struct env_input in = {.path = path, .kind = ENV_FILE, .hashed = true};
    struct buf text;
    buf_init(&text, SIZE_MAX);
    CHECK_INT(path_read(path, &text, NULL), 0);
    sha256_of(buf_str(&text), in.hash);
    buf_fini(&text);
    b->o = *o;
    b->next = hand.running;
    hand.running = b;
    hand.started++;
    o->on_input(&in, o->arg);
    free(path);
    return b;
}

static void hand_remove(struct env_build *b)
{
    struct env_build **at = &hand.running;
    while (*at != b) {
        at = &(*at)->next;
    }
    *at = b->next;
}

static void hand_cancel(struct env_build *b)
{
    hand.cancelled++;
    hand_remove(b);
    free(b);
}

static bool hand_runs_programs(const struct env_build *b)
{
    (void)b;
    return false;
}

static const struct env_builder hand_builder = {hand_build, hand_cancel, hand_runs_programs};

/// End the build that began last; A is `value`, NULL: it fails with `code`.
static void hand_end(const char *value, int code)
{
    struct env_build *b = hand.running;
    struct env_result *r = env_result_new();
    hand_remove(b);
    if (value != NULL) {
        struct env_var v = {"A", arena_strdup(&r->arena, str_of(value))};
        vec_push(&r->set, v);
    }
    b->o.on_done(value != NULL ? r : NULL, value != NULL ? 0 : code, value != NULL ? "" : "no\n",
                 b->o.arg);
    env_result_unref(r);
    free(b);
}

// ---- a share ---------------------------------------------------------------------------------

static struct {
    struct test_clock clock;
    struct loop loop;
    struct watcher *watcher; // NULL: the clock stands
    struct env_share *share;
    unsigned building, ready, answered;
    struct buf heard; // "applied GUEST\n", "failed GUEST\n"
    char value[64];   // of A in the last answer; "none"
} rig;

static int pass(struct env_spec *s, void *arg, struct err *e)
{
    (void)s;
    (void)arg;
    (void)e;
    return 0;
}

static void on_building(void *arg, const char *project, const struct env_building *m)
{
    (void)arg;
    (void)project;
    (void)m;
    rig.building++;
}

static void on_ready(void *arg, const char *project, const struct env_ready *m)
{
    (void)arg;
    (void)project;
    (void)m;
    rig.ready++;
}

static void on_log(void *arg, const char *project, struct str line)
{
    (void)arg;
    (void)project;
    (void)line;
}

static void on_applied(void *arg, void *guest, const struct env_applied *m)
{
    (void)arg;
    buf_addf(&rig.heard, "applied %s%s\n", (const char *)guest, m->added[0] != NULL ? " +" : "");
}

static void on_failed(void *arg, void *guest, const char *project, const struct env_failed *m)
{
    (void)arg;
    (void)project;
    CHECK(m->text != NULL);
    buf_addf(&rig.heard, "failed %s\n", (const char *)guest);
}

static char *put_project(const char *name, const char *text)
{
    char *dir = path_join(test_dir(), name), *afloat = path_join(dir, ".afloat");
    char *path = path_join(afloat, "env.toml");
    CHECK_INT(path_mkdirs(afloat, 0700, NULL), 0);
    CHECK_INT(path_write_atomic(path, str_of(text), 0600, NULL), 0);
    free(afloat);
    free(path);
    return dir;
}

static void rig_open(const struct env_builder *builder)
{
    static const struct env_gate gate = {.check = pass};
    memset(&hand, 0, sizeof hand);
    memset(&rig, 0, sizeof rig);
    buf_init(&rig.heard, SIZE_MAX);
    test_clock_init(&rig.clock);
    CHECK_INT(loop_init(&rig.loop, builder != NULL ? &rig.clock.clock : NULL, NULL), 0);
    rig.watcher = builder != NULL ? NULL : watcher_open(&rig.loop, NULL, NULL);
    struct env_share_opts o = {.loop = &rig.loop,
                               .watcher = rig.watcher,
                               .gate = &gate,
                               .builder = builder,
                               .timeout_ms = 60000,
                               .building = on_building,
                               .ready = on_ready,
                               .log = on_log,
                               .applied = on_applied,
                               .failed = on_failed};
    rig.share = env_share_open(&o);
}

static void rig_close(void)
{
    env_share_close(rig.share);
    watcher_close(rig.watcher);
    TEST_LOOP_END(&rig.loop);
    CHECK(hand.running == NULL);
    buf_fini(&rig.heard);
}

static void wait_for(const unsigned *counter, unsigned n)
{
    while (*counter < n) {
        loop_run_once(&rig.loop, true);
    }
}

static void take(void *arg, const char *const *vars)
{
    (void)arg;
    rig.answered++;
    strcpy(rig.value, "none");
    for (; *vars != NULL; vars++) {
        if (strncmp(*vars, "A=", 2) == 0) {
            snprintf(rig.value, sizeof rig.value, "%s", *vars + 2);
        }
    }
}

static struct env_guest *come(const char *dir, const char *base, const char *name)
{
    const char *const vars[] = {base, NULL};
    return env_guest_new(rig.share, dir, vars, (void *)(uintptr_t)name);
}

// ---- tests -----------------------------------------------------------------------------------

TEST(guests_with_the_same_directory_and_environment_share_one_build)
{
    rig_open(&hand_builder);
    char *dir = put_project("p", "");
    struct env_guest *a = come(dir, "X=1", "a"), *b = come(dir, "X=1", "b");
    struct env_guest *c = come(dir, "X=2", "c");
    env_guest_ask(a, take, NULL);
    env_guest_ask(b, take, NULL);
    env_guest_ask(c, take, NULL);
    wait_for(&hand.started, 2);
    CHECK_INT(rig.answered, 0);
    hand_end("one", 0);
    wait_for(&rig.answered, 1);
    hand_end("two", 0);
    wait_for(&rig.answered, 3);
    CHECK_INT(hand.started, 2);
    CHECK_INT(rig.ready, 2);
    struct env_guest *late = come(dir, "X=1", "late"); // has it at once
    env_guest_ask(late, take, NULL);
    wait_for(&rig.answered, 4);
    CHECK_INT(hand.started, 2);
    CHECK(strcmp(rig.value, "none") != 0);
    CHECK(strstr(buf_str(&rig.heard).p, "applied late +") != NULL);
    env_guest_free(a);
    env_guest_free(b);
    env_guest_free(c);
    env_guest_free(late);
    rig_close();
    free(dir);
}

TEST(the_last_guest_takes_the_build_along_at_any_moment)
{
    char *dir = put_project("p", "");
    for (int turns = 0; turns < 12;
         turns++) { // while it is looked for, found, built, and after that
        rig_open(&hand_builder);
        struct env_guest *a = come(dir, "X=1", "a"), *b = come(dir, "X=1", "b");
        env_guest_ask(a, take, NULL);
        for (int i = 0; i < turns / 2; i++) {
            loop_run_once(&rig.loop, hand.running == NULL && i < 2);
        }
        if (turns > 8 && hand.running != NULL) {
            hand_end("1", 0);
            env_guest_ask(a, take, NULL); // files are being looked at
        }
        env_guest_free(turns % 2 != 0 ? a : b);
        env_guest_free(turns % 2 != 0 ? b : a);
        rig_close();
        CHECK(rig.answered <= 1);
    }
    free(dir);
}

TEST(a_guest_that_moves_is_answered_from_where_it_went)
{
    rig_open(&hand_builder);
    char *p = put_project("p", ""), *q = put_project("q", "");
    const char *const vars[] = {"X=1", NULL};
    struct env_guest *g = come(p, "X=1", "g");
    env_guest_ask(g, take, NULL);
    wait_for(&hand.started, 1);
    env_guest_move(g, p, vars); // as before
    CHECK_INT(hand.cancelled, 0);
    env_guest_move(g, q, vars);
    CHECK_INT(hand.cancelled, 1);
    wait_for(&hand.started, 2);
    hand_end("of q", 0);
    wait_for(&rig.answered, 1);
    CHECK_STR(rig.value, "of q");
    env_guest_move(g, test_dir(), vars);
    env_guest_ask(g, take, NULL);
    wait_for(&rig.answered, 2);
    CHECK_STR(rig.value, "none");
    env_guest_free(g);
    rig_close();
    free(p);
    free(q);
}

TEST(a_failure_is_told_to_each_once_and_what_was_good_stays)
{
    rig_open(&hand_builder);
    char *dir = put_project("p", "");
    struct env_guest *a = come(dir, "X=1", "a");
    env_guest_ask(a, take, NULL);
    wait_for(&hand.started, 1);
    hand_end(NULL, ERR_DENIED);
    wait_for(&rig.answered, 1);
    CHECK_STR(rig.value, "none");
    struct env_guest *b = come(dir, "X=1", "b");
    env_guest_ask(b, take, NULL);
    wait_for(&rig.answered, 2);
    free(put_project("p", "[env]\n")); // built again, refused again: nothing new for either
    env_guest_ask(a, take, NULL);
    wait_for(&hand.started, 2);
    hand_end(NULL, ERR_DENIED);
    wait_for(&rig.answered, 3);
    buf_addc(&rig.heard, '\0');
    CHECK_STR(rig.heard.p, "failed a\nfailed b\n");
    env_guest_free(a);
    env_guest_free(b);
    rig_close();
    free(dir);
}

TEST(a_first_build_that_never_ends_does_not_hold_a_command_for_ever)
{
    rig_open(&hand_builder);
    char *dir = put_project("p", "");
    struct env_guest *g = come(dir, "X=1", "g");
    env_guest_ask(g, take, NULL);
    wait_for(&hand.started, 1);
    test_clock_advance(&rig.clock, &rig.loop, 50000);
    env_guest_ask(g, take, NULL); // does not begin the wait anew
    test_clock_advance(&rig.clock, &rig.loop, 10000);
    CHECK_INT(rig.answered, 0);
    test_clock_advance(&rig.clock, &rig.loop, 10000);
    CHECK_INT(rig.answered, 2);
    CHECK_STR(rig.value, "none");
    hand_end("late", 0);
    env_guest_ask(g, take, NULL);
    wait_for(&rig.answered, 3);
    CHECK_STR(rig.value, "late");
    env_guest_free(g);
    rig_close();
    free(dir);
}

static struct env_guest *forgetter;
static int marks[3];

static void forget_others(void *arg, const char *const *vars)
{
    (void)vars;
    rig.answered++;
    for (int i = 0; i < 3; i++) {
        if (arg != &marks[i]) {
            env_guest_forget(forgetter, &marks[i]);
        }
    }
}

TEST(who_is_forgotten_during_an_answer_gets_none)
{
    rig_open(&hand_builder);
    char *dir = put_project("p", "");
    forgetter = come(dir, "X=1", "g");
    for (int i = 0; i < 3; i++) {
        env_guest_ask(forgetter, forget_others, &marks[i]);
    }
    wait_for(&hand.started, 1);
    hand_end("1", 0);
    wait_for(&rig.answered, 1);
    test_loop_settle(&rig.loop);
    CHECK_INT(rig.answered, 1);
    env_guest_free(forgetter);
    rig_close();
    free(dir);
}

TEST(whatever_cannot_be_read_an_answer_comes_once_and_a_save_mends_it)
{
    unsigned long failed = 0, hits = 1;
    for (unsigned long n = 1; hits != 0; n++) {
        rig_open(NULL);
        char *dir = put_project("p", "[env]\nA = '1'\n");
        fault_at(n, EIO, false);
        struct env_guest *g = come(dir, "X=1", "g");
        env_guest_ask(g, take, NULL);
        wait_for(&rig.answered, 1);
        hits = fault_hits();
        fault_off();
        failed += hits != 0;
        CHECK(strcmp(rig.value, "1") == 0 || (hits != 0 && strcmp(rig.value, "none") == 0));
        free(put_project("p", "[env]\nA = '2'\n"));
        for (unsigned asked = 1; strcmp(rig.value, "2") != 0; asked++) { // it has to be seen first
            env_guest_ask(g, take, NULL);
            wait_for(&rig.answered, asked + 1);
            CHECK_INT(rig.answered, asked + 1);
        }
        env_guest_free(g);
        rig_close();
        free(dir);
    }
    printf("points that failed: %lu\n", failed);
    CHECK(failed != 0);
}

static struct env_guest *leaving[3];

/// The first answer frees its own guest and another one, the next one the last.
static void free_some(void *arg, const char *const *vars)
{
    (void)vars;
    rig.answered++;
    for (int i = 0; i < 3; i++) {
        if (arg == &leaving[i] || i == 1) {
            env_guest_free(leaving[i]);
            leaving[i] = NULL;
        }
    }
}

TEST(an_answer_may_free_guests_and_their_place)
{
    rig_open(&hand_builder);
    char *dir = put_project("p", "");
    for (int i = 0; i < 3; i++) {
        leaving[i] = come(dir, "X=1", "g");
        env_guest_ask(leaving[i], free_some, &leaving[i]);
        env_guest_ask(leaving[i], free_some, &leaving[i]);
    }
    wait_for(&hand.started, 1);
    while (rig.loop.n_timers < 3) { // of each guest in the place: all three are there
        loop_run_once(&rig.loop, true);
    }
    hand_end("1", 0);
    wait_for(&rig.answered, 2);
    test_loop_settle(&rig.loop);
    CHECK_INT(rig.answered, 2);
    rig_close();
    free(dir);
}
