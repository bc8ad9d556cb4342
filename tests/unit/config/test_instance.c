#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "config/instance.h"
#include "unit/test.h"

static void resolve(struct home *h, const char *name)
{
    char *dir = path_join(test_dir(), name);
    CHECK_INT(home_resolve(h, dir, NULL), 0);
    CHECK_INT(home_prepare(h, NULL), 0);
    free(dir);
}

TEST(only_one_can_be_the_hub_of_a_home)
{
    struct home h;
    struct instance first, second;
    struct err e;
    resolve(&h, "home");
    CHECK_INT(instance_take(&first, &h, &e), 0);
    CHECK_INT(instance_take(&second, &h, &e), ERR_CONFLICT);
    char pid[32];
    snprintf(pid, sizeof pid, "(pid %ld)", (long)getpid());
    CHECK(strstr(e.msg, pid) != NULL);
    instance_release(&first, &h);
    CHECK_INT(instance_take(&second, &h, &e), 0);
    instance_release(&second, &h);
    CHECK(access(h.pid, F_OK) < 0);
    home_fini(&h);
}

TEST(the_locks_of_a_killed_hub_are_free)
{
    struct home h;
    struct instance in;
    int up[2];
    resolve(&h, "home");
    CHECK_INT(pipe(up), 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK_INT(instance_take(&in, &h, NULL), 0);
        CHECK_INT(instance_announce(&in, NULL), 0);
        CHECK_INT(write(up[1], "x", 1), 1);
        pause();
    }
    char byte;
    CHECK_INT(read(up[0], &byte, 1), 1);
    CHECK_INT(instance_take(&in, &h, NULL), ERR_CONFLICT);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_INT(access(h.pid, F_OK), 0); // left behind, and no obstacle
    CHECK_INT(instance_take(&in, &h, NULL), 0);
    instance_release(&in, &h);
    home_fini(&h);
}

TEST(two_homes_cannot_share_a_runtime_directory)
{
    struct home a, b;
    struct instance first, second;
    struct err e;
    char *runtime = path_join(test_dir(), "run");
    setenv("AFLOAT_RUNTIME", runtime, 1);
    resolve(&a, "a");
    resolve(&b, "b");
    CHECK_INT(instance_take(&first, &a, &e), 0);
    CHECK_INT(instance_take(&second, &b, &e), ERR_CONFLICT);
    CHECK(strstr(e.msg, "runtime directory") != NULL);
    CHECK_INT(instance_take(&second, &b, &e), ERR_CONFLICT); // and its home's lock was given back
    instance_release(&first, &a);
    home_fini(&a);
    home_fini(&b);
    free(runtime);
}
