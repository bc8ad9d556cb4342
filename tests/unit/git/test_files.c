// Removing a directory that a model has filled.

#include <sys/stat.h>
#include <unistd.h>

#include "unit/git/rig.h"

static void begin(void)
{
    rig_begin();
    CHECK_OK(rig_add());
}

static void check_removed(void)
{
    CHECK_OK(rig_remove());
    CHECK(!rig_exists("home/worktrees/repo/bot-1"));
    CHECK(!rig_exists("repo/.git/worktrees"));
}

TEST(removal_does_not_follow_links)
{
    begin();
    rig_sh("mkdir outside && echo safe >outside/safe && cd '%s' && ln -s '%s/outside' out && ln -s "
           "../../../../repo repo && ln -s / root && mkdir d && ln -s .. d/up && ln -s loop loop",
           rig.dir, rig.base);
    const char *before = rig_out("cat outside/safe repo/one");
    check_removed();
    CHECK_STR(rig_out("cat outside/safe repo/one"), before);
    rig_end();
}

TEST(a_link_in_the_place_of_the_directory_is_removed_alone)
{
    begin();
    rig_sh("mkdir outside && echo safe >outside/safe && rm -r '%s' && ln -s '%s/outside' '%s'",
           rig.dir, rig.base, rig.dir);
    check_removed();
    CHECK(rig_exists("outside/safe"));
    rig_end();
}

TEST(directories_without_permissions_are_removed)
{
    begin();
    rig_sh("cd '%s' && mkdir -p a/b/c && touch a/b/c/f && chmod 0 a/b/c && chmod 0500 a/b && chmod "
           "0 a",
           rig.dir);
    check_removed();
    rig_end();
}

TEST(any_depth_and_any_name_is_removed)
{
    begin();
    char name[201], odd[] = "odd\n\377 \"";
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK_INT(chdir(rig.dir), 0);
    for (int i = 0; i < 3000; i++) { // far beyond PATH_MAX and the limit of open files
        CHECK_INT(mkdir(i % 2 ? odd : name, 0700), 0);
        CHECK_INT(chdir(i % 2 ? odd : name), 0);
    }
    CHECK_INT(chdir("/"), 0);
    check_removed();
    rig_end();
}

TEST(many_files_and_special_ones_are_removed)
{
    begin();
    rig_sh(
        "cd '%s' && mkfifo pipe && mkdir many && cd many && seq 1 5000 | xargs touch && for i in "
        "$(seq 1 100); do mkdir d$i; touch d$i/f; done",
        rig.dir);
    check_removed();
    rig_end();
}

TEST(a_deep_tree_is_measured_as_far_as_it_goes)
{
    begin();
    rig_need_box();
    CHECK_INT(chdir(rig.dir), 0);
    for (int i = 0; i < 300; i++) {
        CHECK_INT(mkdir("d", 0700), 0);
        CHECK_INT(chdir("d"), 0);
    }
    CHECK_INT(chdir("/"), 0);
    CHECK_OK(rig_measure());
    CHECK(rig.measure.partial);
    rig_end();
}
