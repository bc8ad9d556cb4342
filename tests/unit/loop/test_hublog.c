#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/vec.h"
#include "loop/hublog.h"
#include "unit/loop.h"
#include "unit/test.h"

static char *log_path(void)
{
    return path_join(test_dir(), "hub.log");
}

static size_t count_lines(const char *path)
{
    struct buf b;
    size_t n = 0;
    buf_init(&b, 1 << 20);
    CHECK_INT(path_read(path, &b, NULL), 0);
    for (size_t i = 0; i < b.n; i++) {
        n += b.p[i] == '\n';
    }
    buf_fini(&b);
    return n;
}

TEST(the_log_is_rotated_by_size_and_keeps_four_files)
{
    char *path = log_path(), name[4200];
    struct hublog *h;
    struct stat st;
    CHECK_INT(hublog_open(&h, path, 1000, NULL), 0);
    for (int i = 0; i < 200; i++) {
        log_warn(LOG_HUB, "line=%d text=0123456789012345678901234567890123456789", i);
    }
    hublog_close(h);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, i == 0 ? "%s%.0d" : "%s.%d", path, i);
        CHECK_INT(stat(name, &st), 0);
        CHECK(st.st_size > 0 && st.st_size <= 1000);
        CHECK_INT(st.st_mode & 0777, 0600);
    }
    snprintf(name, sizeof name, "%s.4", path);
    CHECK(stat(name, &st) < 0);
    free(path);
}

TEST(a_log_that_cannot_be_opened_when_it_is_rotated_goes_on_later)
{
    char *dir = path_join(test_dir(), "logs"), *path = path_join(dir, "hub.log");
    char *away = path_join(test_dir(), "away");
    struct hublog *h;
    CHECK_INT(path_mkdirs(dir, 0700, NULL), 0);
    CHECK_INT(hublog_open(&h, path, 100, NULL), 0);
    log_warn(LOG_HUB, "first line of the log, which fills most of what a file may hold");
    CHECK_INT(rename(dir, away), 0);
    log_warn(LOG_HUB, "lost: this line needs another file, and there is no directory for it");
    CHECK_INT(rename(away, dir), 0);
    CHECK_INT(unlink(path), 0);
    log_warn(LOG_HUB, "last");
    hublog_close(h);
    CHECK_INT(count_lines(path), 1);
    free(away);
    free(path);
    free(dir);
}

/// Log some lines with a socket as stderr that `named` calls the journal; what came out of it.
static void log_to_socket(bool named, char *out, size_t size)
{
    char *path = log_path(), name[64];
    int pair[2], before = dup(STDERR_FILENO);
    struct hublog *h;
    struct stat st;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    dup2(pair[1], STDERR_FILENO);
    fstat(STDERR_FILENO, &st);
    snprintf(name, sizeof name, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino + !named);
    setenv("JOURNAL_STREAM", name, 1);
    int rc = hublog_open(&h, path, 1 << 20, NULL);
    log_set_level(LOG_INFO);
    log_info(LOG_HUB, "ready pid=1");
    log_info(LOG_HTTP, "method=GET");
    log_warn(LOG_HTTP, "slow=yes");
    log_error(LOG_STORE, "disk=full");
    hublog_close(h);
    unsetenv("JOURNAL_STREAM");
    dup2(before, STDERR_FILENO);
    close(before);
    close(pair[1]);
    CHECK_INT(rc, 0);
    CHECK_INT(count_lines(path), 4);
    ssize_t n = recv(pair[0], out, size - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    close(pair[0]);
    free(path);
}

TEST(the_journal_of_systemd_gets_the_hubs_life_and_what_went_wrong)
{
    char said[1000];
    log_to_socket(true, said, sizeof said);
    CHECK_STR(said, "<6>hub ready pid=1\n<4>http slow=yes\n<3>store disk=full\n");
}

TEST(another_stderr_than_the_journal_gets_no_lines)
{
    char said[1000];
    log_to_socket(false, said, sizeof said);
    CHECK_STR(said, "");
}

static void write_lines(struct hublog *h, size_t limit, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_arr(&w);
    hublog_lines(h, limit, &w);
    jw_end_arr(&w);
}

TEST(the_last_lines_are_kept_in_memory)
{
    char *path = log_path();
    struct hublog *h;
    struct buf out;
    struct arena a = {0};
    struct json *v;
    buf_init(&out, 1 << 20);
    CHECK_INT(hublog_open(&h, path, 1 << 20, NULL), 0);
    for (int i = 0; i < 1500; i++) {
        log_warn(LOG_STORE, "n=%d", i);
    }
    write_lines(h, 2, &out);
    CHECK_INT(json_parse(&v, &a, buf_str(&out), NULL, NULL), 0);
    CHECK_INT(v->n, 2);
    CHECK_SPAN(json_str(json_ptr(v, "/1/text"), NULL), "n=1499");
    CHECK_SPAN(json_str(json_ptr(v, "/0/component"), NULL), "store");
    CHECK_SPAN(json_str(json_ptr(v, "/0/level"), NULL), "warn");
    buf_clear(&out);
    write_lines(h, 5000, &out);
    CHECK_INT(json_parse(&v, &a, buf_str(&out), NULL, NULL), 0);
    CHECK_INT(v->n, 1000);
    hublog_close(h);
    arena_fini(&a);
    buf_fini(&out);
    free(path);
}

static vec(char *) emitted;

static void note(void *arg, enum log_level level, const char *component, struct str text)
{
    (void)arg;
    CHECK(level <= LOG_INFO && strcmp(component, "hub") == 0);
    vec_push(&emitted, str_dup(text));
}

static void *log_some(void *arg)
{
    for (int i = 0; i < 100; i++) {
        log_warn(LOG_HUB, "thread=%s n=%d", (const char *)arg, i);
    }
    return NULL;
}

TEST(lines_of_other_threads_reach_the_stream_on_the_loop_thread)
{
    char *path = log_path();
    struct hublog *h;
    struct loop l;
    pthread_t a, b;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(hublog_open(&h, path, 1 << 20, NULL), 0);
    CHECK_INT(hublog_attach(h, &l, note, NULL, NULL), 0);
    pthread_create(&a, NULL, log_some, (char[]){"a"});
    pthread_create(&b, NULL, log_some, (char[]){"b"});
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    CHECK_INT(emitted.n, 0);
    hublog_detach(h);
    CHECK_INT(emitted.n, 200);
    CHECK_INT(count_lines(path), 200);
    log_warn(LOG_HUB, "after");
    CHECK_INT(emitted.n, 200);
    TEST_LOOP_END(&l);
    hublog_close(h);
    vec_foreach (s, &emitted) {
        free(*s);
    }
    vec_fini(&emitted);
    free(path);
}

TEST(a_flood_is_bounded_in_the_stream_and_complete_in_the_file)
{
    char *path = log_path();
    struct hublog *h;
    struct loop l;
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(hublog_open(&h, path, 1 << 20, NULL), 0);
    CHECK_INT(hublog_attach(h, &l, note, NULL, NULL), 0);
    for (int i = 0; i < 3000; i++) {
        log_warn(LOG_HUB, "n=%d", i);
    }
    hublog_detach(h);
    CHECK_INT(emitted.n, 1000);
    CHECK_INT(count_lines(path), 3001); // and one that says how many were left out
    TEST_LOOP_END(&l);
    hublog_close(h);
    vec_foreach (s, &emitted) {
        free(*s);
    }
    vec_fini(&emitted);
    free(path);
}
