#include <sys/stat.h>
#include <unistd.h>

#include "unit/trust/util.h"

static void check_place(const char *dir, const char *root, const char *where)
{
    struct trust_place p = place(dir);
    CHECK_STR(p.root, at(root));
    CHECK_STR(p.place, at(where));
    trust_place_fini(&p);
}

static void check_none(const char *dir)
{
    struct trust_place p;
    struct err e;
    CHECK_INT(trust_place_of(&p, at("home"), at(dir), &e), ERR_NOT_FOUND);
    CHECK(p.root == NULL && p.place == NULL);
}

TEST(the_nearest_directory_with_a_mark_is_the_root)
{
    put_repo("repo");
    put_dir("repo/a/b/c");
    put_dir("repo/a/b/.afloat");
    check_place("repo", "repo", "repo");
    check_place("repo/a", "repo", "repo");
    check_place("repo/a/b/c", "repo/a/b", "repo/a/b");
}

TEST(a_link_to_a_project_is_the_project)
{
    put_repo("repo");
    put_dir("repo/sub");
    put_link("alias", "repo/sub");
    check_place("alias", "repo", "repo");
}

TEST(the_users_own_home_makes_no_project)
{
    struct trust_place p;
    put_dir("home/plugins");
    put_dir("user/work");
    CHECK_INT(symlink(at("home"), at("user/.afloat")), 0);
    put_dir("me/.afloat");
    put_dir("me/code");
    CHECK_INT(setenv("HOME", at("me"), 1), 0);
    CHECK_INT(trust_place_of(&p, at("home"), at("user/work"), NULL), ERR_NOT_FOUND);
    CHECK_INT(trust_place_of(&p, at("home"), at("me/code"), NULL), ERR_NOT_FOUND);
    put_dir("me/code/.afloat");
    check_place("me/code", "me/code", "me/code");
}

TEST(a_directory_that_is_in_no_project_is_told_so)
{
    struct trust_place p;
    struct err e;
    put_dir("plain/sub");
    CHECK_INT(trust_place_of(&p, NULL, at("plain/sub"), &e), ERR_NOT_FOUND);
    CHECK(strstr(e.msg, "not in a project") != NULL);
    CHECK_INT(trust_place_of(&p, NULL, at("nowhere"), &e), ERR_NOT_FOUND);
    put(".afloat-not", "");
    put("file/.afloat", "a file is no mark");
    check_none("file");
}

TEST(a_linked_worktree_counts_as_its_repository)
{
    put_repo("repo");
    put_worktree("repo", "tree", "tree");
    put_dir("tree/sub/.afloat");
    put_dir("tree/x");
    check_place("tree/x", "tree", "repo");
    check_place("tree/sub", "tree/sub", "repo/sub");
}

TEST(a_worktree_of_a_bare_repository_counts_as_that)
{
    char text[4300];
    put("bare.git/HEAD", "ref: refs/heads/main\n");
    put("bare.git/worktrees/t/commondir", "../..\n");
    snprintf(text, sizeof text, "%s/t/.git\n", test_dir());
    put("bare.git/worktrees/t/gitdir", text);
    put("t/.git", "gitdir: ../bare.git/worktrees/t\n");
    check_place("t", "t", "bare.git");
}

TEST(a_checkout_that_claims_to_be_bare_has_no_worktrees)
{
    char text[4300];
    put_repo("repo");
    put("repo/worktrees/x/commondir", "../..\n");
    snprintf(text, sizeof text, "%s/repo/src/.git\n", test_dir());
    put("repo/worktrees/x/gitdir", text);
    put("repo/src/.git", "gitdir: ../worktrees/x\n");
    check_place("repo/src", "repo/src", "repo/src");
    put("plain/worktrees/x/commondir", "../..\n");
    put_dir("plain/deep/.afloat"); // a project below what claims to be the repository
    snprintf(text, sizeof text, "%s/copy/.git\n", test_dir());
    put("plain/worktrees/x/gitdir", text);
    put("copy/.git", "gitdir: ../plain/worktrees/x\n");
    put_dir("copy/deep/.afloat");
    check_place("copy/deep", "copy/deep", "copy/deep");
}

TEST(the_worktree_of_a_run_counts_as_its_repository)
{
    char text[4300];
    put_repo("repo");
    put_worktree("repo", "tree", "tree");
    put("tree/.git", "gitdir: ../quarantine\n");
    snprintf(text, sizeof text, "%s/repo/.git/worktrees/tree\n", test_dir());
    put("quarantine/registration", text);
    put("quarantine/commondir", ".\n");
    check_place("tree", "tree", "repo");
    put("evil/.git", "gitdir: ../quarantine\n"); // the repository does not name it
    check_place("evil", "evil", "evil");
}

TEST(a_git_file_that_the_repository_does_not_know_is_not_believed)
{
    char text[4300];
    put_repo("repo");
    put_worktree("repo", "tree", "tree");
    // a download that calls itself the worktree
    snprintf(text, sizeof text, "gitdir: %s/repo/.git/worktrees/tree\n", test_dir());
    put("evil/.git", text);
    check_place("evil", "evil", "evil");
    // one that brings its own entry, which names the repository as its common directory
    put("evil2/.git", "gitdir: entry\n");
    snprintf(text, sizeof text, "%s/repo/.git\n", test_dir());
    put("evil2/entry/commondir", text);
    snprintf(text, sizeof text, "%s/evil2/.git\n", test_dir());
    put("evil2/entry/gitdir", text);
    check_place("evil2", "evil2", "evil2");
    // and one that gets into the place's directory by a link
    put_link("evil3/.git", "../tree/.git");
    check_place("evil3", "evil3", "evil3");
}

TEST(a_git_file_may_hold_anything)
{
    static const char *const texts[] = {
        "",
        "gitdir:",
        "gitdir: \n",
        "gitdir: /\n",
        "gitdir: .git\n",
        "nonsense\n",
        "gitdir: ../..",
        "gitdir: /dev/zero",
        "gitdir: /proc/self/root\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        put("odd/.git", texts[i]);
        check_place("odd", "odd", "odd");
    }
    CHECK_INT(unlink(at("odd/.git")), 0);
    CHECK_INT(mkfifo(at("odd/.git"), 0600), 0); // must not hang
    check_place("odd", "odd", "odd");
    CHECK_INT(unlink(at("odd/.git")), 0);
    put_link("odd/.git", ".git");
    check_place("odd", "odd", "odd");
    char big[20000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    memcpy(big, "gitdir: ", 8);
    put("large/.git", big);
    check_place("large", "large", "large");
}
