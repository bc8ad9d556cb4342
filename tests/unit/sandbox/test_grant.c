// A granted path stands for the directory that was there first, for the box and for file tools.

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "sandbox/grant.h"
#include "unit/sandbox/boxed.h"

static void move(const char *from, const char *to)
{
    CHECK_INT(rename(boxed_path(from), boxed_path(to)), 0);
}

static void link_to(const char *target, const char *name)
{
    CHECK_INT(symlink(boxed_path(target), boxed_path(name)), 0);
}

static int find(struct grants *g, const char *name)
{
    struct grant found;
    struct err e = {0};
    return grants_find(g, boxed_path(name), &found, &e);
}

TEST(a_path_stands_for_the_directory_that_was_there_first)
{
    boxed_begin(true);
    struct grants *g = grants_new();
    boxed_save("ws/a/f", "");
    boxed_save("ws/b/f", "");
    CHECK_INT(find(g, "ws/a"), 0);
    move("ws/a", "ws/was");
    CHECK_INT(find(g, "ws/a"), ERR_NOT_FOUND);
    move("ws/b", "ws/a");
    CHECK_INT(find(g, "ws/a"), ERR_CONFLICT);
    grants_rest(g); // who rests forgets nothing
    CHECK_INT(find(g, "ws/a"), ERR_CONFLICT);
    move("ws/a", "ws/b");
    link_to("outside", "ws/a");
    CHECK_INT(find(g, "ws/a"), ERR_CONFLICT);
    CHECK_INT(unlink(boxed_path("ws/a")), 0);
    move("ws/was", "ws/a");
    CHECK_INT(find(g, "ws/a"), 0);
    grants_unref(g);
    boxed_end();
}

TEST(a_link_that_a_command_could_have_made_leads_nowhere)
{
    struct err e = {0};
    struct grant found;
    boxed_begin(true);
    struct grants *g = grants_new();
    boxed_save("ws/real/dir/f", "");
    link_to("ws/real", "ws/link");
    CHECK_INT(grants_find(g, boxed_path("ws/link/dir"), &found, &e), ERR_DENIED);
    CHECK(strstr(e.msg, "/ws/link'") != NULL && strstr(e.msg, "/ws/real/dir") != NULL);
    CHECK_INT(find(g, "ws/link"), ERR_DENIED);
    CHECK_INT(grants_find(g, boxed_path("ws/real/./../real//dir/"), &found, &e), 0);
    CHECK_STR(found.path, boxed_path("ws/real/dir"));
    CHECK_INT(find(g, "ws/nothing/dir"), ERR_NOT_FOUND);
    CHECK_INT(find(g, "ws/real/dir/f"), ERR_NOT_FOUND);
    CHECK_INT(grants_find(g, "ws", &found, &e), ERR_INVALID);
    grants_unref(g);
    boxed_end();
}

/// Where root made a link (/home on some systems), the user's grants may pass it.
TEST(a_link_of_roots_is_followed_for_an_ordinary_user)
{
    struct stat st;
    struct grant found;
    boxed_begin_as_nobody();
    if (lstat("/bin", &st) != 0 || !S_ISLNK(st.st_mode) || st.st_uid != 0) {
        boxed_end();
        test_skip("/bin is no link here");
    }
    char *real = realpath("/bin", NULL);
    struct grants *g = grants_new();
    CHECK_INT(grants_find(g, "/bin", &found, NULL), 0);
    CHECK_STR(found.path, real);
    grants_unref(g);
    free(real);
    boxed_end();
}

static void check_refused(void)
{
    struct box *b = NULL;
    struct err e = {0};
    CHECK_INT(box_new(&b, &boxed.policy, &e), ERR_CONFLICT);
    CHECK(strstr(e.msg, "no longer the directory") != NULL);
    CHECK(b == NULL);
}

TEST(a_working_directory_replaced_by_a_command_opens_nothing_else)
{
    char sub[600];
    const char *writable[] = {boxed.ws, NULL};
    boxed_begin(true);
    boxed_save("ws/sub/dir/f", "");
    snprintf(sub, sizeof sub, "%s", boxed_path("ws/sub/dir"));
    boxed.policy.grants = grants_new();
    boxed.policy.working_dir = sub;
    boxed.policy.writable = writable;
    CHECK_INT(boxed_run("mv sub sub2 && mkdir sub && ln -s ../../outside sub/dir"), 0);
    check_refused();
    CHECK_INT(unlink(boxed_path("ws/sub/dir")), 0);
    CHECK_INT(mkdir(boxed_path("ws/sub/dir"), 0755), 0); // of the same name, and another one
    check_refused();
    grants_unref(boxed.policy.grants);
    boxed_end();
}

TEST(a_writable_directory_replaced_by_a_command_opens_nothing_else)
{
    const char *writable[2] = {NULL, NULL};
    char out[600];
    boxed_begin(true);
    boxed_save("ws/a/out/f", "");
    snprintf(out, sizeof out, "%s", boxed_path("ws/a/out"));
    writable[0] = out;
    boxed.policy.writable = writable;
    boxed.policy.grants = grants_new();
    CHECK_INT(boxed_run("mv a b && mkdir a && ln -s ../../outside a/out"), 0);
    check_refused();
    grants_unref(boxed.policy.grants);
    struct box *b = NULL; // nor in a session that begins now
    boxed.policy.grants = NULL;
    CHECK_INT(box_new(&b, &boxed.policy, NULL), ERR_DENIED);
    boxed_end();
}

TEST(the_launcher_refuses_another_directory_in_the_place_of_the_granted_one)
{
    struct boxed_cmd cmd;
    struct box *b = NULL;
    boxed_begin(true);
    CHECK_INT(box_new(&b, &boxed.policy, NULL), 0);
    move("ws", "was");
    CHECK_INT(mkdir(boxed_path("ws"), 0755), 0);
    boxed_start_in(&cmd, "touch pwned", b);
    CHECK_INT(boxed_wait(&cmd), BOXED_NOT_LAUNCHED);
    CHECK_INT(cmd.exit.code, -ENOENT);
    CHECK(!boxed_exists("ws/pwned"));
    boxed_free(&cmd);
    box_free(b);
    boxed_end();
}

TEST(files_move_freely_between_a_working_directory_and_the_tree_around_it)
{
    char sub[600];
    const char *writable[] = {boxed.ws, NULL};
    boxed_begin(true);
    boxed_save("ws/sub/f", "x");
    snprintf(sub, sizeof sub, "%s", boxed_path("ws/sub"));
    boxed.policy.working_dir = sub;
    boxed.policy.writable = writable;
    CHECK_INT(boxed_run("perl -e 'rename(\"sub/f\", \"f\") or die $!'"), 0); // mv would copy
    CHECK(boxed_holds("ws/f", "x"));
    boxed_end();
}
