// What a shell says about its environment, with a hub that is there, comes later, or is another one.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/announce.h"
#include "peer.h"
#include "unit/loop.h"

static const char good[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

static struct loop loop;
static struct test_clock test_time;
static char *path;

static struct announce *begin(void)
{
    test_clock_init(&test_time);
    CHECK_INT(loop_init(&loop, &test_time.clock, NULL), 0);
    path = xasprintf("%s/hub.sock", test_dir());
    return announce_open(&loop, path);
}

static void finish(struct announce *a)
{
    announce_close(a);
    TEST_LOOP_END(&loop);
    unlink(path);
    free(path);
}

static pid_t hub_starts(void)
{
    unlink(path);
    return peer_start(path, good, 4096, 7);
}

// Let time pass until the hub, which takes one message, has it; what it was told.
static const char *told(pid_t hub)
{
    char *request = xasprintf("%s.request", path);
    while (access(request, F_OK) != 0) {
        loop_run_once(&loop, false);
        test_clock_advance(&test_time, &loop, 100);
        usleep(1000);
    }
    const char *text = peer_request(hub, path);
    unlink(request);
    free(request);
    return text;
}

TEST(a_hub_that_is_there_is_told_at_once)
{
    struct announce *a = begin();
    pid_t hub = hub_starts();
    announce_send(a, "/env", STR("{\"a\":1}"));
    const char *text = told(hub);
    CHECK(strncmp(text, "POST /env HTTP/1.1\r\n", 20) == 0);
    CHECK(strstr(text, "\r\n\r\n{\"a\":1}") != NULL);
    finish(a);
}

TEST(a_hub_that_comes_later_is_told_the_last_message)
{
    struct announce *a = begin();
    announce_send(a, "/env", STR("{\"a\":1}"));
    test_clock_advance(&test_time, &loop, 20000);
    pid_t hub = hub_starts();
    CHECK(strstr(told(hub), "{\"a\":1}") != NULL);
    finish(a);
}

TEST(another_hub_is_told_again)
{
    struct announce *a = begin();
    pid_t hub = hub_starts();
    announce_send(a, "/env", STR("{\"a\":1}"));
    told(hub);
    hub = hub_starts();
    CHECK(strstr(told(hub), "{\"a\":1}") != NULL);
    announce_send(a, "/env", STR("{\"a\":2}"));
    hub = hub_starts();
    CHECK(strstr(told(hub), "{\"a\":2}") != NULL);
    finish(a);
}

TEST(a_hub_that_never_answers_holds_nobody_up)
{
    struct announce *a = begin();
    unlink(path);
    pid_t hub = peer_start_silent(path, "");
    announce_send(a, "/env", STR("{\"a\":1}"));
    finish(a); // the call ends by its own limit
    kill(hub, SIGKILL);
    CHECK_INT(waitpid(hub, NULL, 0), hub);
}
