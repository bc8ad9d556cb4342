#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/journal_writer.h"
#include "unit/store/util.h"

static void quiet(void *arg, enum log_level level, enum log_component c, struct str line)
{
    (void)arg;
    (void)level;
    (void)c;
    (void)line;
}

enum { ROUNDS_A_HOME = 25 }; // each of them reads the whole journal, which grows

struct totals {
    char home[512];
    unsigned in_progress; // kills after which more was written than had been acknowledged
    unsigned torn;
    unsigned long long acks, last_seq;
};

static pid_t start(const char *home, int *fd, unsigned seed)
{
    int fds[2];
    CHECK_INT(pipe(fds), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        journal_writer_run(home, "s1", fds[1], seed);
    }
    close(fds[1]);
    *fd = fds[0];
    return pid;
}

static bool next_ack(int fd, struct journal_ack *ack)
{
    return read(fd, ack, sizeof *ack) == (ssize_t)sizeof *ack;
}

/// Let it run for a random number of acknowledgements, kill it, and say what it acknowledged last.
static unsigned long long run_and_kill(struct totals *t)
{
    struct journal_ack ack = {0};
    unsigned long long last = 0;
    int fd;
    unsigned seed = (unsigned)rand();
    pid_t pid = start(t->home, &fd, seed);
    for (int left = rand() % 60; left > 0; left--) {
        CHECK(next_ack(fd, &ack));
        last = ack.last_seq > last ? ack.last_seq : last;
        t->acks++;
    }
    if (rand() % 3 == 0) { // not always right behind an acknowledgement
        nanosleep(&(struct timespec){.tv_nsec = rand() % 3000000}, NULL);
    }
    CHECK_INT(kill(pid, SIGKILL), 0);
    int status;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (next_ack(fd, &ack)) {
        last = ack.last_seq > last ? ack.last_seq : last;
        t->acks++;
    }
    close(fd);
    return last;
}

static void check_after(struct totals *t, unsigned long long acked)
{
    struct box b;
    box_open(&b, t->home);
    int rc = box_read(&b, "s1", acked, 1);
    if (acked > 0 || rc == 0) {
        CHECK_INT(rc, 0);
        uint64_t last = journal_text_check(box_path(&b, "sessions/s1/events.jsonl"));
        CHECK(last >= acked);
        CHECK(last >= t->last_seq);
        t->in_progress += last > acked && acked > 0;
        t->last_seq = last;
        char want[64];
        snprintf(want, sizeof want, "s1   %llu\n", (unsigned long long)last);
        CHECK_INT(box_list(&b, NULL, "", 0), 0);
        CHECK_STR(buf_z(&b.text), want);
    }
    t->torn += b.notices[STORE_REPAIRED];
    CHECK_INT(box_close(&b), 0);
}

TEST(kill_9_at_any_time_loses_nothing_that_was_acknowledged)
{
    struct totals t = {0};
    int rounds = test_loops(25);
    unsigned seed = (unsigned)time(NULL);
    log_open(LOG_ERROR, quiet, NULL);
    (void)test_dir();
    srand(seed);
    for (int i = 0; i < rounds; i++) {
        if (i % ROUNDS_A_HOME == 0) {
            snprintf(t.home, sizeof t.home, "%s/%d", test_dir(), i);
            CHECK_INT(mkdir(t.home, 0700), 0);
            t.last_seq = 0;
        }
        check_after(&t, run_and_kill(&t));
    }
    fprintf(
        stderr,
        "%d kills (seed %u): %llu acknowledged, %llu events, %u hit work in progress, %u torn\n",
        rounds, seed, t.acks, t.last_seq, t.in_progress, t.torn);
    CHECK(t.in_progress > 0);
}
