#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "shell/dir.h"
#include "unit/test.h"

static char *at(const char *name)
{
    return path_join(test_dir(), name);
}

TEST(a_directory_is_private_and_goes_with_all_in_it)
{
    struct shell_dir d;
    struct stat st;
    CHECK_INT(shell_dir_open(&d, test_dir(), NULL), 0);
    CHECK_INT(lstat(d.path, &st), 0);
    CHECK_INT(st.st_mode & 0777, 0700);
    CHECK(shell_dir_is_private(d.path));
    char *sub = path_join(d.path, "zsh"), *file = path_join(sub, ".zshrc");
    char *path = xstrdup(d.path);
    CHECK_INT(mkdir(sub, 0700), 0);
    CHECK_INT(path_write_atomic(file, STR("x"), 0600, NULL), 0);
    shell_dir_close(&d);
    CHECK(lstat(path, &st) != 0);
    free(path);
    free(sub);
    free(file);
}

TEST(a_living_session_is_not_swept)
{
    struct shell_dir a, b;
    CHECK_INT(shell_dir_open(&a, test_dir(), NULL), 0);
    CHECK_INT(shell_dir_open(&b, test_dir(), NULL), 0);
    CHECK(shell_dir_is_private(a.path));
    CHECK(strcmp(a.id, b.id) != 0);
    shell_dir_close(&a);
    shell_dir_close(&b);
}

TEST(a_dead_one_is_swept_and_links_are_not_followed)
{
    struct shell_dir a, b;
    struct stat st;
    char *keep = at("keep"), *file = at("keep/file");
    CHECK_INT(mkdir(keep, 0700), 0);
    CHECK_INT(path_write_atomic(file, STR("x"), 0600, NULL), 0);
    CHECK_INT(shell_dir_open(&a, test_dir(), NULL), 0);
    char *link = path_join(a.path, "link");
    CHECK_INT(symlink(keep, link), 0);
    close(a.fd); // as when its process dies
    CHECK_INT(shell_dir_open(&b, test_dir(), NULL), 0);
    CHECK(lstat(a.path, &st) != 0);
    CHECK_INT(lstat(file, &st), 0);
    shell_dir_close(&b);
    free(a.path);
    free(link);
    free(keep);
    free(file);
}

TEST(a_link_or_an_open_directory_is_refused)
{
    struct shell_dir d;
    struct err e;
    char *shell = at("shell"), *other = at("other");
    CHECK_INT(mkdir(other, 0700), 0);
    CHECK_INT(symlink(other, shell), 0);
    CHECK_INT(shell_dir_open(&d, test_dir(), &e), ERR_DENIED);
    CHECK_INT(unlink(shell), 0);
    CHECK_INT(mkdir(shell, 0700), 0);
    CHECK_INT(chmod(shell, 0711), 0);
    CHECK_INT(shell_dir_open(&d, test_dir(), &e), ERR_DENIED);
    CHECK(strstr(e.msg, "chmod 700") != NULL);
    free(shell);
    free(other);
}
