// Templates: the table and the files agree; an installation is whole or leaves nothing.

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "lib/fault.h"
#include "template/shipped.h"
#include "template/template.h"
#include "unit/test.h"

static int seen;

static int count_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)path;
    (void)st;
    (void)at;
    seen += kind == FTW_F;
    return 0;
}

static int count_files(const char *dir)
{
    seen = 0;
    nftw(dir, count_one, 8, FTW_PHYS);
    return seen;
}

static const struct template *get(const char *name)
{
    const struct template *t = template_find(str_of(name));
    CHECK(t != NULL);
    return t;
}

TEST(template_table_and_files_agree)
{
    const struct template *t;
    size_t files = 0, shipped = 0;
    for (size_t i = 0; (t = template_at(i)) != NULL; i++) {
        CHECK(template_find(str_of(t->name)) == t);
        CHECK(t->description[0] != '\0' && t->next[0] != '\0');
        CHECK(template_file(t, 0) != NULL);
        for (size_t k = 0; template_file(t, k) != NULL; k++) {
            char *path = template_path(t, template_file(t, k), t->as);
            CHECK(strstr(path, "NAME") == NULL && strstr(path, "..") == NULL && path[0] != '/');
            CHECK(t->project == str_starts(str_of(path), ".afloat/"));
            free(path);
            files++;
        }
    }
    while (shipped_templates[shipped].rel != NULL) {
        shipped++;
    }
    CHECK_INT(files, shipped);
    CHECK(template_find(STR("no-such")) == NULL);
}

TEST(template_name_is_filled_in)
{
    struct buf out = {.max = 1000};
    template_fill(&out, STR("@NAME@ makes @TOOL@_greet; NAME stays"), "my-own");
    CHECK_STR(buf_z(&out), "my-own makes my_own_greet; NAME stays");
    buf_fini(&out);
}

TEST(template_install_is_whole_and_private)
{
    struct err e = {0};
    struct stat st;
    char *file = path_join(test_dir(), "plugins/greet/init.lua");
    CHECK_INT(template_install(get("plugin-lua-dir"), "greet", test_dir(), NULL, &e), 0);
    CHECK(stat(file, &st) == 0 && (st.st_mode & 0777) == 0600);
    int files = count_files(test_dir());
    CHECK_INT(files, 4);
    CHECK_INT(template_install(get("plugin-lua-dir"), "greet", test_dir(), NULL, &e), ERR_CONFLICT);
    CHECK(strstr(e.msg, "exists already") != NULL);
    CHECK_INT(count_files(test_dir()), files);
    free(file);
}

TEST(template_install_fails_without_a_trace)
{
    // each call that may fail, one after the other, until none is left
    for (unsigned long nth = 1;; nth++) {
        struct err e = {0};
        char *root = xasprintf("%s/%lu", test_dir(), nth);
        fault_at(nth, ENOSPC, false);
        int rc = template_install(get("github"), NULL, root, NULL, &e);
        bool failed = fault_hits() != 0;
        fault_off();
        int files = count_files(root);
        free(root);
        if (!failed) {
            CHECK_INT(rc, 0);
            CHECK_INT(files, 4);
            CHECK(nth > 10);
            return;
        }
        // a directory that could not be synced is no reason to take everything back
        CHECK(rc < 0 ? files == 0 && e.msg[0] != '\0' : files == 4);
    }
}

TEST(template_install_takes_back_what_it_placed)
{
    // the first file is placed, the next has to go to a trash that it cannot be moved to
    struct err e = {0};
    struct stat here, there;
    if (stat("/dev/shm", &there) != 0 || stat(test_dir(), &here) != 0 ||
        here.st_dev == there.st_dev) {
        test_skip("no second file system");
    }
    char trash[] = "/dev/shm/afloat-test-XXXXXX";
    CHECK(mkdtemp(trash) != NULL);
    char *mine = path_join(test_dir(), "plugins/github/plugin.json");
    char *dir = path_join(test_dir(), "plugins/github"), *first = path_join(dir, "init.lua");
    CHECK_INT(path_mkdirs(dir, 0700, &e), 0);
    CHECK_INT(path_write_atomic(mine, STR("mine"), 0600, &e), 0);
    CHECK_INT(template_install(get("github"), NULL, test_dir(), trash, &e), ERR_CONFLICT);
    CHECK(strstr(e.msg, "file system") != NULL);
    CHECK(access(first, F_OK) != 0);
    CHECK_INT(count_files(test_dir()), 1);
    char *kept = path_join(trash, "plugins/github"), *up = path_join(trash, "plugins");
    rmdir(kept);
    rmdir(up);
    CHECK_INT(rmdir(trash), 0);
    free(up);
    free(kept);
    free(first);
    free(dir);
    free(mine);
}
