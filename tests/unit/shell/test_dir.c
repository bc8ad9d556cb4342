#include <errno.h>
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

TEST(one_that_was_not_quite_dead_is_swept_when_the_next_one_ends)
{
    struct shell_dir a, b;
    struct stat st;
    CHECK_INT(shell_dir_open(&a, test_dir(), NULL), 0);
    CHECK_INT(shell_dir_open(&b, test_dir(), NULL), 0);
    CHECK(shell_dir_is_private(a.path)); // its lock was still held
    close(a.fd);
    shell_dir_close(&b);
    CHECK(lstat(a.path, &st) != 0);
    free(a.path);
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

TEST(a_name_that_a_dead_process_left_is_free_again_and_a_living_one_is_not)
{
    struct shell_dir a, b;
    struct err e = {0};
    struct stat st;
    char *path = at("hook-1"), *left = path_join(path, "env.1");
    CHECK_INT(mkdir(path, 0700), 0);
    CHECK_INT(path_write_atomic(left, STR("secret"), 0600, NULL), 0);
    CHECK_INT(shell_dir_make(&a, path, &e), 0);
    CHECK(lstat(left, &st) != 0);
    CHECK_INT(shell_dir_make(&b, path, &e), -EEXIST);
    CHECK_INT(lstat(path, &st), 0);
    shell_dir_close(&a);
    CHECK(lstat(path, &st) != 0);
    free(left);
    free(path);
}

TEST(a_parent_that_others_may_enter_is_refused_and_what_is_in_it_stays)
{
    struct shell_dir d;
    struct err e = {0};
    struct stat st;
    char *parent = at("open"), *path = path_join(parent, "1"), *link = at("link");
    CHECK_INT(mkdir(parent, 0700), 0);
    CHECK_INT(mkdir(path, 0700), 0);
    CHECK_INT(chmod(parent, 0755), 0);
    CHECK_INT(shell_dir_make(&d, path, &e), ERR_DENIED);
    CHECK_INT(lstat(path, &st), 0);
    CHECK_INT(chmod(parent, 0700), 0);
    CHECK_INT(symlink(parent, link), 0);
    char *through = path_join(link, "2");
    CHECK_INT(shell_dir_make(&d, through, &e), ERR_DENIED);
    free(through);
    free(link);
    free(path);
    free(parent);
}
