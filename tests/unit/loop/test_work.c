#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "base/log.h"
#include "loop/work.h"
#include "loop/work_int.h"
#include "unit/loop.h"

static struct loop l;

struct step {
    char name;
    struct lane *lane;
    sem_t *wait_for; // NULL: at once
    sem_t *post;
};

static pthread_mutex_t order_lock = PTHREAD_MUTEX_INITIALIZER;
static char order[64]; // of running
static char done[64];  // of done callbacks

static void add(char *text, size_t size, char c)
{
    size_t n = strlen(text);
    CHECK(n + 1 < size);
    text[n] = c;
    text[n + 1] = '\0';
}

static void run_step(void *arg)
{
    struct step *s = arg;
    if (s->post != NULL) {
        sem_post(s->post);
    }
    if (s->wait_for != NULL) {
        sem_wait(s->wait_for);
    }
    pthread_mutex_lock(&order_lock);
    add(order, sizeof order, s->name);
    pthread_mutex_unlock(&order_lock);
}

static void step_done(void *arg)
{
    add(done, sizeof done, ((struct step *)arg)->name);
}

TEST(jobs_of_a_lane_with_one_thread_run_in_order)
{
    struct step steps[26];
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct lane *lane = lane_open(&l, "journal", 1);
    for (int i = 0; i < 26; i++) {
        steps[i] = (struct step){.name = (char)('a' + i)};
        work_submit(lane, (uint64_t)i % 3, run_step, step_done, &steps[i]);
    }
    CHECK_INT(lane_load(lane), 26);
    lane_close(lane); // what waits still runs
    TEST_LOOP_END(&l);
    CHECK_STR(order, "abcdefghijklmnopqrstuvwxyz");
    CHECK_STR(done, order);
}

TEST(jobs_of_a_lane_with_two_threads_run_at_once)
{
    // Each waits until the other has begun: one thread alone could never finish them.
    sem_t a_began, b_began;
    sem_init(&a_began, 0, 0);
    sem_init(&b_began, 0, 0);
    struct step a = {.name = 'a', .post = &a_began, .wait_for = &b_began};
    struct step b = {.name = 'b', .post = &b_began, .wait_for = &a_began};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct lane *lane = lane_open(&l, "files", 2);
    work_submit(lane, 1, run_step, step_done, &a);
    work_submit(lane, 2, run_step, step_done, &b);
    lane_close(lane);
    TEST_LOOP_END(&l);
    CHECK_INT(strlen(done), 2);
}

static sem_t stuck;

static void release_four(void *arg)
{
    struct step *s = arg;
    step_done(s);
    CHECK_INT(lane_load(s->lane), 4); // the stuck ones, without this one
    for (int i = 0; i < 4; i++) {
        sem_post(&stuck);
    }
}

TEST(a_stuck_key_does_not_fill_the_lane)
{
    struct step dead[4];
    sem_init(&stuck, 0, 0);
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct lane *lane = lane_open(&l, "files", 4);
    for (int i = 0; i < 4; i++) {
        dead[i] = (struct step){.name = 'd', .wait_for = &stuck};
        work_submit(lane, 7, run_step, step_done, &dead[i]);
    }
    // The other key comes through although four jobs of the first wait for what it does when done.
    struct step other = {.name = 'o', .lane = lane};
    work_submit(lane, 8, run_step, release_four, &other);
    lane_close(lane);
    TEST_LOOP_END(&l);
    CHECK_STR(order, "odddd");
    CHECK_STR(done, "odddd");
}

struct crowd {
    pthread_mutex_t lock;
    unsigned now, most;
};

static void join_crowd(void *arg)
{
    struct crowd *c = arg;
    pthread_mutex_lock(&c->lock);
    c->now++;
    c->most = MAX(c->most, c->now);
    pthread_mutex_unlock(&c->lock);
    sched_yield();
    pthread_mutex_lock(&c->lock);
    c->now--;
    pthread_mutex_unlock(&c->lock);
}

TEST(no_key_ever_gets_more_threads_than_its_share)
{
    static const unsigned share[] = {0, 1, 1, 2, 2, 3, 3, 4, 4};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    for (unsigned threads = 1; threads < ARRAY_LEN(share); threads++) {
        struct crowd c[2] = {{.lock = PTHREAD_MUTEX_INITIALIZER},
                             {.lock = PTHREAD_MUTEX_INITIALIZER}};
        struct lane *lane = lane_open(&l, "files", threads);
        for (unsigned i = 0; i < 400; i++) {
            work_submit(lane, i % 2, join_crowd, NULL, &c[i % 2]);
        }
        lane_close(lane);
        loop_run(&l);
        CHECK(c[0].most >= 1 && c[0].most <= share[threads]);
        CHECK(c[1].most >= 1 && c[1].most <= share[threads]);
    }
    TEST_LOOP_END(&l);
}

static sem_t first_may_end;

static void free_first(void *arg)
{
    step_done(arg);
    sem_post(&first_may_end);
}

TEST(done_is_called_in_the_order_of_finishing)
{
    sem_init(&first_may_end, 0, 0);
    struct step first = {.name = '1', .wait_for = &first_may_end}, second = {.name = '2'};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct lane *lane = lane_open(&l, "files", 2);
    work_submit(lane, 1, run_step, step_done, &first);
    work_submit(lane, 2, run_step, free_first, &second);
    lane_close(lane);
    TEST_LOOP_END(&l);
    CHECK_STR(done, "21");
}

static void submit_next(void *arg)
{
    struct step *s = arg;
    step_done(s);
    if (s->name == 'c') {
        lane_close(s->lane); // from inside done
        return;
    }
    s->name++;
    work_submit(s->lane, 0, run_step, submit_next, s);
}

TEST(done_may_submit_and_close)
{
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct step s = {.name = 'a', .lane = lane_open(&l, "store", 1)};
    work_submit(s.lane, 0, run_step, submit_next, &s);
    TEST_LOOP_END(&l);
    CHECK_STR(order, "abc");
    CHECK_STR(done, "abc");
}

TEST(a_lane_has_no_thread_before_its_first_job)
{
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct lane *lane = lane_open(&l, "idle", 4);
    CHECK_INT(lane__threads(lane), 0);
    CHECK(!loop_run(&l)); // and it does not keep the loop alive
    lane_close(lane);
    TEST_LOOP_END(&l);
}

static NORETURN void too_late(void *arg)
{
    test_fail(__FILE__, __LINE__, "%s", (const char *)arg);
}

TEST(an_idle_thread_ends_and_the_next_job_gets_a_new_one)
{
    static char message[] = "the idle thread did not end";
    struct timer guard;
    struct step a = {.name = 'a'}, b = {.name = 'b'};
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    timer_init(&guard, &l, too_late, message);
    timer_start(&guard, 60000);
    struct lane *lane = lane__open(&l, "brief", 2, 1);
    work_submit(lane, 0, run_step, step_done, &a);
    while (lane_load(lane) != 0 || lane__threads(lane) != 0) {
        loop_run_once(&l, true); // a thread that ends wakes the loop
    }
    work_submit(lane, 0, run_step, step_done, &b);
    CHECK_INT(lane__threads(lane), 1);
    lane_close(lane);
    timer_stop(&guard);
    TEST_LOOP_END(&l);
    CHECK_STR(done, "ab");
}

TEST(closing_waits_for_threads_that_have_nothing_to_do)
{
    static struct step steps[8];
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    for (int round = 0; round < 50; round++) {
        struct lane *lane = lane_open(&l, "files", 8);
        for (unsigned i = 0; i < 8; i++) {
            work_submit(lane, i, run_step, NULL, &steps[i]);
        }
        loop_run(&l); // all done, and eight threads wait for more
        order[0] = '\0';
        lane_close(lane);
        loop_run(&l);
    }
    TEST_LOOP_END(&l);
}

static void read_mask(void *arg)
{
    pthread_sigmask(SIG_BLOCK, NULL, arg);
}

TEST(threads_of_a_lane_block_all_signals)
{
    sigset_t mask, before, after;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    struct lane *lane = lane_open(&l, "files", 1);
    work_submit(lane, 0, read_mask, NULL, &mask);
    lane_close(lane);
    TEST_LOOP_END(&l);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    CHECK(sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGCHLD) == 1);
    CHECK_INT(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

struct sum {
    unsigned in, out; // `in` on a thread, then `out` on the loop thread
};

static void sum_work(void *arg)
{
    ((struct sum *)arg)->in++;
}

static void sum_done(void *arg)
{
    struct sum *s = arg;
    CHECK_INT(s->in, 1);
    s->out++;
}

TEST(a_thousand_jobs_in_three_lanes_are_all_done_once)
{
    static struct sum sums[1000];
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct lane *lanes[] = {lane_open(&l, "a", 1), lane_open(&l, "b", 2),
                            lane__open(&l, "c", 5, 0)};
    for (unsigned i = 0; i < 1000; i++) {
        work_submit(lanes[i % 3], i % 7, sum_work, sum_done, &sums[i]);
        if (i % 50 == 0) {
            loop_run_once(&l, false);
        }
    }
    for (unsigned i = 0; i < 3; i++) {
        lane_close(lanes[i]);
    }
    TEST_LOOP_END(&l);
    for (unsigned i = 0; i < 1000; i++) {
        CHECK_INT(sums[i].out, 1);
    }
}

TEST(without_a_single_thread_the_work_is_still_done)
{
    struct step a = {.name = 'a'}, b = {.name = 'b'};
    pthread_attr_t attr;
    log_set_level(LOG_ERROR); // the warning is expected
    CHECK_INT(pthread_getattr_default_np(&attr), 0);
    CHECK_INT(pthread_attr_setstacksize(&attr, (size_t)1 << 50), 0); // no system has that much
    CHECK_INT(pthread_setattr_default_np(&attr), 0);
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    struct lane *lane = lane_open(&l, "files", 2);
    work_submit(lane, 0, run_step, step_done, &a);
    CHECK_INT(lane__threads(lane), 0);
    work_submit(lane, 0, run_step, step_done, &b);
    CHECK_STR(done, ""); // still only from the loop
    lane_close(lane);
    TEST_LOOP_END(&l);
    CHECK_STR(done, "ab");
}

static const char table[] = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
                            "23 22 0:20 / /proc rw - proc proc rw\n"
                            "30 22 0:44 / /mnt/dead rw - nfs server:/x rw\n"
                            "31 22 0:45 / /mnt/with\\040space rw - nfs server:/y rw\n"
                            "32 22 254:0 /srv /mnt/bind rw - ext4 /dev/vda rw\n"
                            "33 30 0:50 / /mnt/dead rw - tmpfs over rw\n"
                            "a line that is not one\n"
                            "34 22 what / /mnt/odd rw - x y rw\n"
                            "35";

static uint64_t key_of(const char *path)
{
    return mount__key(str_of(table), path);
}

TEST(a_mount_key_is_that_of_the_longest_mount_point)
{
    uint64_t root = key_of("/home/user");
    CHECK(root != 0);
    CHECK_INT(key_of("/"), root);
    CHECK_INT(key_of("/mnt"), root);
    CHECK_INT(key_of("/mnt/deadly"), root); // only whole names
    CHECK_INT(key_of("/mnt/bind/x"), root); // one file system, one key
    CHECK(key_of("/proc") != root);
    CHECK(key_of("/mnt/with space/f") != root);
    CHECK(key_of("/mnt/with space/f") != key_of("/proc"));
    CHECK_INT(key_of("/mnt/dead/x"), (uint64_t)50 + 1); // the one mounted last covers the others
    CHECK_INT(key_of("/mnt/odd"), 0);
}

TEST(the_mount_table_of_this_system_has_a_key_for_proc)
{
    CHECK(work_mount_key("/proc/self") != 0);
    CHECK_INT(work_mount_key("/proc/self/../version"), work_mount_key("/proc"));
    CHECK(work_mount_key("/proc") != work_mount_key("/"));
    CHECK_INT(work_mount_key("relative"), 0);
}
