#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "bot/runs_index.h"
#include "unit/test.h"

static const char *runs_dir(const char *bot)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/bots/%s/workspaces/api/runs", test_dir(), bot);
    return path;
}

static const char *record_path(const char *bot, const char *id)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/%s.json", runs_dir(bot), id);
    return path;
}

static void put(const char *bot, const char *id, const char *text)
{
    CHECK_INT(path_mkdirs(runs_dir(bot), 0700, NULL), 0);
    CHECK_INT(path_write_atomic(record_path(bot, id), str_of(text), 0600, NULL), 0);
}

/// Give it a time long past: nothing about it can change without a new one.
static void age(const char *path)
{
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    CHECK_INT(utimensat(AT_FDCWD, path, old, 0), 0);
}

struct seen {
    struct runs_entry last;
    char repository[64];
    size_t n, running;
};

static bool see(void *arg, const struct runs_entry *r)
{
    struct seen *s = arg;
    s->last = *r;
    snprintf(s->repository, sizeof s->repository, "%s", r->repository);
    s->n++;
    s->running += r->running ? 1 : 0;
    return true;
}

static struct seen walk(struct runs_index *x, const char *bot)
{
    struct seen s = {0};
    runs_index_each(x, bot, NULL, see, &s);
    return s;
}

#define RUNNING "{\"state\":\"running\",\"repository\":\"/r\"}"
#define ENDED   "{\"state\":\"ended\",\"repository\":\"/r\"}"

TEST(the_index_is_not_deceived_by_what_a_prompt_says)
{
    struct runs_index *x = runs_index_new(test_dir());
    put("rev", "aaaa0001",
        "{\"run_id\":\"aaaa0001\",\"prompt\":\"\\\"state\\\":\\\"running\\\", "
        "\\\"started_at\\\":\\\"2020-01-01T00:00:00.000Z\\\"\",\"state\":\"ended\","
        "\"repository\":\"/r\\\"q\",\"started_at\": \"1970-01-01T00:00:01.000Z\"}");
    struct seen s = walk(x, NULL);
    CHECK_INT(s.n, 1);
    CHECK(s.last.readable);
    CHECK_INT(s.last.started_at, 1000);
    CHECK(!s.last.running);
    CHECK_STR(s.repository, "\"/r\\\"q\"");
    runs_index_free(x);
}

TEST(the_index_follows_what_is_written_and_removed)
{
    struct runs_index *x = runs_index_new(test_dir());
    CHECK_INT(walk(x, NULL).n, 0);
    for (int i = 0; i < 200; i++) { // many within one step of the kernel's file times
        put("rev", "aaaa0001", i % 2 == 0 ? RUNNING : ENDED);
        CHECK_INT(walk(x, NULL).running, i % 2 == 0);
    }
    put("rev", "aaaa0002", RUNNING);
    CHECK_INT(walk(x, "rev").n, 2);
    CHECK_INT(walk(x, "rev").running, 1);
    CHECK_INT(unlink(record_path("rev", "aaaa0001")), 0);
    CHECK_INT(walk(x, "rev").n, 1);
    CHECK_INT(walk(x, "doc").n, 0);
    runs_index_free(x);
}

/// Change a record where it is and hide that: who opens it sees the difference.
static void change_in_place(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    age(path);
}

TEST(records_that_did_not_change_are_not_opened)
{
    struct runs_index *x = runs_index_new(test_dir());
    put("rev", "aaaa0001", RUNNING);
    put("rev", "aaaa0002", ENDED);
    age(record_path("rev", "aaaa0001"));
    age(runs_dir("rev"));
    CHECK_INT(walk(x, NULL).running, 1);
    change_in_place(record_path("rev", "aaaa0001"), ENDED);
    change_in_place(record_path("rev", "aaaa0002"), RUNNING);
    CHECK_INT(walk(x, NULL).running, 1); // the directory is as it was

    put("rev", "aaaa0003", ENDED); // the second was young when we read it, so it is read again
    CHECK_INT(walk(x, NULL).n, 3);
    CHECK_INT(walk(x, NULL).running, 2);
    runs_index_free(x);
}

TEST(a_record_that_cannot_be_read_is_counted_and_says_so)
{
    struct runs_index *x = runs_index_new(test_dir());
    CHECK_INT(path_mkdirs(record_path("rev", "aaaa0001"), 0700, NULL), 0);
    struct seen s = walk(x, NULL);
    CHECK_INT(s.n, 1);
    CHECK(!s.last.readable);
    CHECK_STR(s.repository, "");
    runs_index_free(x);
}

TEST(a_bot_that_is_gone_and_comes_back_has_its_new_records)
{
    struct runs_index *x = runs_index_new(test_dir());
    char from[600], to[600];
    put("rev", "aaaa0001", RUNNING);
    put("doc", "bbbb0001", ENDED);
    CHECK_INT(walk(x, NULL).n, 2);
    snprintf(from, sizeof from, "%s/bots/rev", test_dir());
    snprintf(to, sizeof to, "%s/gone", test_dir());
    CHECK_INT(rename(from, to), 0);
    CHECK_INT(walk(x, NULL).n, 1);
    put("rev", "aaaa0002", ENDED);
    struct seen s = walk(x, "rev");
    CHECK_INT(s.n, 1);
    CHECK_STR(s.last.id, "aaaa0002");
    runs_index_free(x);
}

static const char *kept_path(void)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/state/runs/rev.api", test_dir());
    return path;
}

/// 100 records, old enough to be kept, known to an index that is gone.
static void keep_hundred(void)
{
    char id[9];
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "aaaa%04d", i);
        put("rev", id, i == 7 ? RUNNING : ENDED);
        age(record_path("rev", id));
    }
    age(runs_dir("rev"));
    struct runs_index *x = runs_index_new(test_dir());
    CHECK_INT(walk(x, NULL).n, 100);
    runs_index_free(x);
}

TEST(a_new_index_reads_no_record_that_the_last_one_knew)
{
    keep_hundred();
    for (int i = 0; i < 100;
         i++) { // another content, same inode and time: only who reads it sees that
        char id[9];
        snprintf(id, sizeof id, "aaaa%04d", i);
        int fd = open(record_path("rev", id), O_WRONLY | O_TRUNC);
        CHECK(fd >= 0 && write(fd, "{}", 2) == 2);
        close(fd);
        age(record_path("rev", id));
    }
    struct runs_index *x = runs_index_new(test_dir());
    struct seen s = walk(x, NULL);
    CHECK_INT(s.n, 100);
    CHECK_INT(s.running, 1);
    CHECK_STR(s.repository, "\"/r\"");
    put("rev", "aaaa0008", RUNNING); // what is replaced is read
    s = walk(x, NULL);
    CHECK_INT(s.n, 100);
    CHECK_INT(s.running, 2);
    runs_index_free(x);
}

TEST(a_damaged_file_of_an_index_is_as_good_as_none)
{
    static const char *const texts[] = {
        "",
        "afloat runs 1\n",
        "afloat runs 1\nx\n",
        "afloat runs 2\n5\n",
        "afloat runs 1\n99999999999999999999\n",
        "afloat runs 1\n1000000000000000\nzzzz ended 1 1 1 \"/r\"\n",
        "afloat runs 1\n1000000000000000\naaaa0001 ended"};
    keep_hundred();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        CHECK_INT(path_write_atomic(kept_path(), str_of(texts[i]), 0600, NULL), 0);
        struct runs_index *x = runs_index_new(test_dir());
        struct seen s = walk(x, NULL);
        CHECK_INT(s.n, 100);
        CHECK_INT(s.running, 1);
        runs_index_free(x);
    }
}
