#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "lib/fault.h"
#include "shell/offers.h"
#include "unit/loop.h"

// The test plays the shell: it reads `pending` and answers with files.

static struct loop l;
static struct shell_dir dir;
static struct offers *offers;
static uint64_t acked_id;
static int acked_status, acks, asks;

static void on_acked(uint64_t id, int status, void *arg)
{
    (void)arg;
    acked_id = id;
    acked_status = status;
    acks++;
}

static void on_asked(void *arg)
{
    (void)arg;
    asks++;
}

static void begin(void)
{
    static const struct offers_cb cb = {.acked = on_acked, .asked = on_asked};
    CHECK_INT(shell_dir_open(&dir, test_dir(), NULL), 0);
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    offers = offers_open(&l, &dir, &cb, NULL);
}

static void finish(void)
{
    offers_close(offers);
    TEST_LOOP_END(&l);
    shell_dir_close(&dir);
}

static const char *content(const char *name)
{
    static struct buf b;
    static char text[4096];
    char *path = path_join(dir.path, name);
    buf_init(&b, sizeof text - 1);
    snprintf(text, sizeof text, "%s", path_read(path, &b, NULL) == 0 ? buf_z(&b) : "(none)");
    buf_fini(&b);
    free(path);
    return text;
}

static void say(const char *name, const char *text)
{
    int fd = openat(dir.fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void wait_for(const int *count, int want)
{
    while (*count < want) {
        loop_run_once(&l, true);
    }
}

TEST(an_offer_is_a_line_and_a_file_until_it_is_acknowledged)
{
    uint64_t id;
    begin();
    CHECK_STR(content("pending"), "(none)");
    CHECK_INT(offers_env(offers, STR("text of it"), &id, NULL), 0);
    CHECK_STR(content("pending"), "1 env env.1\n");
    CHECK_STR(content("env.1"), "text of it");
    say("ack.1", "0\n");
    wait_for(&acks, 1);
    CHECK_INT(acked_id, id);
    CHECK_INT(acked_status, 0);
    CHECK_STR(content("pending"), "(none)");
    CHECK_STR(content("env.1"), "(none)");
    CHECK_STR(content("ack.1"), "(none)");
    finish();
}

TEST(only_the_newest_environment_waits)
{
    uint64_t first, second, task;
    begin();
    CHECK_INT(offers_env(offers, STR("old"), &first, NULL), 0);
    CHECK_INT(offers_task(offers, "setup", STR("run"), &task, NULL), 0);
    CHECK_INT(offers_env(offers, STR("new"), &second, NULL), 0);
    CHECK_STR(content("pending"), "2 task task.2 setup\n3 env env.3\n");
    CHECK_STR(content("env.1"), "(none)");
    say("ack.1", "0\n"); // the shell was just at it: too late to matter
    say("ack.3", "1\n");
    wait_for(&acks, 1);
    CHECK_INT(acked_id, second);
    CHECK_INT(acked_status, 1);
    CHECK_STR(content("pending"), "2 task task.2 setup\n");
    finish();
}

TEST(an_answer_that_is_not_whole_is_waited_for)
{
    uint64_t id;
    begin();
    CHECK_INT(offers_env(offers, STR("x"), &id, NULL), 0);
    say("ack.1", "");
    say("ask.reload", "key\n");
    wait_for(&asks, 1);
    CHECK_INT(acks, 0);
    say("ack.1", "0\n");
    wait_for(&acks, 1);
    finish();
}

TEST(a_note_is_one_line_and_commands_no_terminal)
{
    begin();
    CHECK_INT(offers_note(offers, "state", STR("first"), NULL), 0);
    CHECK_INT(offers_note(offers, "state", STR("two\nlines \033[2J\007end"), NULL), 0);
    CHECK_STR(content("pending"), "2 note two\\nlines \\x1b[2J\\x07end\n");
    finish();
}

TEST(tasks_that_wait_are_counted_by_name)
{
    uint64_t id;
    begin();
    CHECK_INT(offers_task(offers, "set\nup", STR("run"), &id, NULL), 0);
    CHECK_INT(offers_task(offers, "set\nup", STR("run"), &id, NULL), 0);
    CHECK_INT(offers_task(offers, "other", STR("run"), &id, NULL), 0);
    CHECK_INT(offers_count_task(offers, "set\nup"), 2);
    say("ack.1", "0\n");
    wait_for(&acks, 1);
    CHECK_INT(offers_count_task(offers, "set\nup"), 1);
    CHECK_INT(offers_count_task(offers, "setup"), 0);
    finish();
}

TEST(hostile_answers_are_no_harm)
{
    uint64_t id;
    begin();
    CHECK_INT(offers_env(offers, STR("x"), &id, NULL), 0);
    char *fifo = path_join(dir.path, "ask.reload"), *link = path_join(dir.path, "ack.1");
    CHECK_INT(mkfifo(fifo, 0600), 0); // nobody writes: reading it would wait for ever
    CHECK_INT(symlink("/dev/zero", link), 0);
    for (int i = 0; i < 20; i++) {
        say("poke", "x");
        loop_run_once(&l, false);
    }
    CHECK_INT(acks + asks, 0);
    CHECK_INT(unlink(link), 0);
    say("ack.1", "no number\n");
    wait_for(&acks, 1);
    CHECK_INT(acked_status, -1);
    free(fifo);
    free(link);
    finish();
}

/// Every line of `pending` names a file that is there and holds one of the texts.
static void check_whole(const char *a, const char *b)
{
    unsigned id;
    char name[40], line[200];
    snprintf(line, sizeof line, "%s", content("pending"));
    CHECK_INT(sscanf(line, "%u env %39s", &id, name), 2);
    const char *text = content(name);
    CHECK(strcmp(text, a) == 0 || strcmp(text, b) == 0);
}

TEST(on_a_full_disk_what_waited_still_waits)
{
    unsigned long points = 0;
    uint64_t id, first;
    begin();
    CHECK_INT(offers_env(offers, STR("old"), &first, NULL), 0);
    for (unsigned long n = 1;; n++) {
        id = 0;
        fault_at(n, ENOSPC, n % 2 == 0);
        int rc = offers_env(offers, STR("new"), &id, NULL);
        unsigned long hits = fault_hits();
        fault_off();
        CHECK((rc == 0) == (id != 0));
        check_whole(rc == 0 ? "new" : "old", "new");
        if (hits == 0) {
            break;
        }
        points++;
    }
    printf("%lu points failed\n", points);
    CHECK(points > 0);
    finish();
}

TEST(closing_leaves_nothing)
{
    uint64_t id;
    begin();
    CHECK_INT(offers_env(offers, STR("SECRET=1"), &id, NULL), 0);
    offers_close(offers);
    offers = NULL;
    CHECK_STR(content("pending"), "(none)");
    CHECK_STR(content("env.1"), "(none)");
    finish();
}
