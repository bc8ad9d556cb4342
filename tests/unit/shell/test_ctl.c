#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/path.h"
#include "base/sock.h"
#include "base/time.h"
#include "client/dial.h"
#include "client/interrupt.h"
#include "shell/ctl.h"
#include "shell/ctl_server.h"
#include "unit/loop.h"

// The caller blocks, so it has a thread; the loop is ours.

static struct loop l;
static struct shell_dir dir;
static struct ctl_server *server;
static struct ctl_call *kept;
static int asked;

static void on_call(struct ctl_call *call, const char *op, const char *arg, void *data)
{
    (void)data;
    asked++;
    if (strcmp(op, "later") == 0) {
        kept = call;
    } else if (strcmp(op, "fail") == 0) {
        ctl_fail(call, ERR_CONFLICT, "it is busy");
    } else {
        char text[200];
        snprintf(text, sizeof text, "{\"op\":\"%s\",\"arg\":\"%s\"}", op, arg != NULL ? arg : "-");
        ctl_answer(call, str_of(text));
    }
}

static void begin(void)
{
    CHECK_INT(shell_dir_open(&dir, test_dir(), NULL), 0);
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(ctl_server_open(&server, &l, &dir, on_call, NULL, NULL), 0);
}

static void finish(void)
{
    ctl_server_close(server);
    TEST_LOOP_END(&l);
    shell_dir_close(&dir);
}

struct caller {
    pthread_t thread;
    const char *op, *arg;
    struct buf answer;
    struct err e;
    int rc;
    uv_async_t done;
    bool over;
};

static void on_done(uv_async_t *h)
{
    struct caller *c = h->data;
    c->over = true;
    uv_close((uv_handle_t *)h, NULL);
}

static void *call(void *arg)
{
    struct caller *c = arg;
    c->rc = ctl_call(dir.path, c->op, c->arg, &c->answer, &c->e);
    uv_async_send(&c->done);
    return NULL;
}

static void start(struct caller *c, const char *op, const char *arg)
{
    *c = (struct caller){.op = op, .arg = arg};
    buf_init(&c->answer, CTL_ANSWER_MAX);
    CHECK_INT(uv_async_init(&l.uv, &c->done, on_done), 0);
    c->done.data = c;
    CHECK_INT(pthread_create(&c->thread, NULL, call, c), 0);
}

static void wait_over(struct caller *c)
{
    while (!c->over) {
        loop_run_once(&l, true);
    }
    CHECK_INT(pthread_join(c->thread, NULL), 0);
}

TEST(a_question_is_answered)
{
    struct caller c;
    begin();
    start(&c, "status", "x y");
    wait_over(&c);
    CHECK_INT(c.rc, 0);
    CHECK_STR(buf_z(&c.answer), "{\"op\":\"status\",\"arg\":\"x y\"}\n");
    buf_fini(&c.answer);
    finish();
}

TEST(a_failure_comes_back_with_its_text)
{
    struct caller c;
    begin();
    start(&c, "fail", NULL);
    wait_over(&c);
    CHECK_INT(c.rc, ERR_CONFLICT);
    CHECK_STR(c.e.msg, "it is busy");
    buf_fini(&c.answer);
    finish();
}

TEST(an_answer_may_come_later)
{
    struct caller a, b;
    begin();
    start(&a, "later", NULL);
    while (kept == NULL) {
        loop_run_once(&l, true);
    }
    start(&b, "now", NULL);
    wait_over(&b);
    CHECK(!a.over);
    ctl_answer(kept, STR("{}"));
    wait_over(&a);
    CHECK_INT(a.rc, 0);
    buf_fini(&a.answer);
    buf_fini(&b.answer);
    finish();
}

static int dial(void)
{
    char *sock = path_join(dir.path, "ctl.sock");
    int fd = dial_unix(sock, interrupt_deadline(5000), NULL);
    CHECK(fd >= 0);
    free(sock);
    return fd;
}

TEST(an_asker_who_left_is_answered_in_vain)
{
    begin();
    int fd = dial();
    CHECK_INT(send(fd, "{\"op\":\"later\"}\n", 15, 0), 15);
    while (kept == NULL) {
        loop_run_once(&l, true);
    }
    close(fd);
    for (int i = 0; i < 20; i++) {
        loop_run_once(&l, false);
    }
    ctl_answer(kept, STR("{}"));
    finish();
}

TEST(closing_ends_calls_that_wait)
{
    struct caller c;
    begin();
    start(&c, "later", NULL);
    while (kept == NULL) {
        loop_run_once(&l, true);
    }
    ctl_server_close(server);
    server = NULL;
    wait_over(&c);
    CHECK_INT(c.rc, ERR_UNREACHABLE);
    buf_fini(&c.answer);
    finish();
}

TEST(nonsense_and_floods_are_refused)
{
    static char block[8192];
    begin();
    int fd = dial();
    CHECK_INT(send(fd, "not json\n", 9, 0), 9);
    int flood = dial();
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 200; i++) {
        ssize_t n = send(flood, block, sizeof block, MSG_NOSIGNAL);
        (void)n;
        loop_run_once(&l, false);
    }
    CHECK_INT(asked, 0);
    ssize_t n = 0;
    while ((n = recv(fd, block, sizeof block, 0)) < 0) {
        loop_run_once(&l, false);
    }
    CHECK(memmem(block, (size_t)n, "error_code", 10) != NULL);
    while (recv(flood, block, sizeof block, 0) > 0) {
    }
    close(fd);
    close(flood);
    finish();
}

TEST(without_a_shell_there_is_nobody_to_ask)
{
    struct err e;
    struct buf answer;
    buf_init(&answer, CTL_ANSWER_MAX);
    CHECK_INT(ctl_call(test_dir(), "status", NULL, &answer, &e), ERR_UNREACHABLE);
    unsetenv("AFLOAT_RELOAD_FILE");
    CHECK(ctl_find() == NULL);
    setenv("AFLOAT_RELOAD_FILE", "/tmp/pending", 1); // not ours alone
    CHECK(ctl_find() == NULL);
    CHECK(ctl_find_project(test_dir(), "/") == NULL);
    buf_fini(&answer);
}

// A shell that is stopped: the kernel takes connections for it, and nothing is answered.
TEST(a_shell_that_does_not_answer_holds_up_no_search)
{
    struct shell_dir silent;
    CHECK_INT(shell_dir_open(&silent, test_dir(), NULL), 0);
    char *path = path_join(silent.path, "ctl.sock");
    int fd = sock_listen(path, NULL);
    CHECK(fd >= 0);
    uint64_t began = time_mono_ns();
    CHECK(ctl_find_project(test_dir(), "/p") == NULL);
    CHECK(time_mono_ns() - began < UINT64_C(60000000000));
    close(fd);
    free(path);
    shell_dir_close(&silent);
}
