// A real PostgreSQL for unit tests. It refuses to run as root, so root starts it as another user.

#include "lib/pg_server.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"

static char bin[256], dir[300], url[512];
static pid_t server;

/// Run a program of PostgreSQL; it dies with us.
static pid_t start(const char *program, const char *const args[])
{
    char path[300];
    const char *argv[24] = {path}; // initdb looks for postgres beside itself
    size_t n = 1;
    for (; args[n - 1] != NULL; n++) {
        argv[n] = args[n - 1];
    }
    snprintf(path, sizeof path, "%s/%s", bin, program);
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    int log = open("/dev/null", O_RDWR);
    dup2(log, 0);
    dup2(log, 1);
    dup2(log, 2);
    const struct passwd *user = getuid() == 0 ? getpwnam("postgres") : NULL;
    user = user != NULL || getuid() != 0 ? user : getpwnam("nobody");
    bool ok = chdir(dir) == 0 &&
              (user == NULL || (setgid(user->pw_gid) == 0 && setuid(user->pw_uid) == 0));
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    if (ok) {
        execv(path, (char *const *)(const void *)argv);
    }
    _exit(127);
}

static int run(const char *program, const char *const args[])
{
    int status;
    CHECK(waitpid(start(program, args), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void pg_server_again(void)
{
    server = start("postgres",
                   (const char *const[]){"-D", "data", "-k", dir, "-c", "fsync=off", "-c",
                                         "listen_addresses=", "-c", "shared_buffers=16MB", NULL});
    for (int i = 0; i < 600; i++) {
        if (run("pg_isready", (const char *const[]){"-q", "-h", dir, "-U", "boss", "-d", "postgres",
                                                    NULL}) == 0) {
            return;
        }
    }
    test_fail(__FILE__, __LINE__, "PostgreSQL does not come up");
}

void pg_server_stop(void)
{
    kill(server, SIGQUIT);
    CHECK(waitpid(server, NULL, 0) == server);
}

const char *pg_server_start(void)
{
    glob_t found;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0) {
        test_skip("PostgreSQL is not installed: scripts/setup test");
    }
    snprintf(bin, sizeof bin, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
    snprintf(dir, sizeof dir, "%s/pg", test_dir());
    CHECK_INT(chmod(test_dir(), 0755), 0);
    CHECK_INT(mkdir(dir, 0700), 0);
    const struct passwd *user = getuid() == 0 ? getpwnam("postgres") : NULL;
    user = user != NULL || getuid() != 0 ? user : getpwnam("nobody");
    CHECK(user == NULL || chown(dir, user->pw_uid, user->pw_gid) == 0);
    CHECK_INT(
        run("initdb", (const char *const[]){"-D", "data", "-U", "boss", "-A", "trust", "--no-sync",
                                            "-E", "UTF8", "--locale=C.UTF-8", NULL}),
        0);
    pg_server_again();
    atexit(pg_server_stop);
    snprintf(url, sizeof url, "postgresql://boss@/postgres?host=%s", dir);
    return url;
}
