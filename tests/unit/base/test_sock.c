#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/sock.h"
#include "unit/test.h"

/// A directory whose path no socket's address can hold; caller frees.
static char *deep_dir(void)
{
    char name[101] = {0};
    memset(name, 'd', sizeof name - 1);
    char *dir = xasprintf("%s/%s/%s", test_dir(), name, name);
    CHECK_INT(path_mkdirs(dir, 0700, NULL), 0);
    return dir;
}

TEST(a_socket_of_any_depth_is_bound_for_its_user_alone_and_reached)
{
    char *dir = deep_dir(), *path = path_join(dir, "s");
    struct stat st;
    int fd = sock_listen(path, NULL);
    CHECK(fd >= 0);
    CHECK_INT(stat(path, &st), 0);
    CHECK_INT(st.st_mode & 07777, 0600);
    int other = sock_connect(path, NULL);
    CHECK(other >= 0);
    int in = accept(fd, NULL, NULL);
    CHECK(in >= 0);
    CHECK(sock_is_ours(in));
    CHECK_INT(sock_bind(path, NULL), -EADDRINUSE);
    close(in);
    close(other);
    close(fd);
    free(path);
    free(dir);
}

TEST(what_cannot_be_the_address_of_a_socket_is_said)
{
    char name[121] = {0};
    memset(name, 'n', sizeof name - 1);
    char *dir = deep_dir(), *path = path_join(dir, name), *absent = path_join(dir, "absent/s");
    struct err e = {0};
    CHECK_INT(sock_bind(path, &e), -ENAMETOOLONG);
    CHECK(strstr(e.msg, "too long for a socket") != NULL);
    CHECK_INT(sock_bind(name, &e), -ENAMETOOLONG);
    CHECK_INT(sock_connect(absent, &e), -ENOENT);
    free(absent);
    free(path);
    free(dir);
}
