// What a directory is to git, and what worktrees there are.

#include "unit/git/rig.h"

static const char *in(const char *name)
{
    return arena_printf(&rig.arena, "%s/%s", rig.base, name);
}

TEST(a_checkout_is_known_from_any_directory_in_it)
{
    rig_begin();
    rig_sh("mkdir repo/sub/deep");
    CHECK_OK(rig_look(in("repo/sub/deep")));
    CHECK_STR(rig.look.root, rig.repo);
    CHECK_STR(rig.look.common, in("repo/.git"));
    CHECK_STR(rig.look.git_dir, in("repo/.git"));
    CHECK_STR(rig.look.main_root, rig.repo);
    CHECK_STR(rig.look.branch, "main");
    CHECK_STR(rig.look.head, rig_out("git -C repo rev-parse HEAD"));
    CHECK_STR(rig.look.tree, rig_out("git -C repo rev-parse HEAD^{tree}"));
    CHECK_STR(rig.look.doing, "");
    CHECK(!rig.look.unborn && !rig.look.bare && !rig.look.linked);
    CHECK(!rig.look.has_submodules && !rig.look.sparse);
    rig_end();
}

TEST(a_directory_in_no_repository_is_not_found)
{
    rig_begin();
    CHECK_INT(rig_look(in("home")), ERR_NOT_FOUND);
    CHECK_INT(rig_look(in("repo/.git")), ERR_NOT_FOUND);
    CHECK(rig_look(in("nowhere")) < 0);
    rig_end();
}

TEST(linked_worktrees_share_one_repository)
{
    rig_begin();
    rig_sh("cd repo && git worktree add -q -b other ../linked");
    CHECK_OK(rig_look(in("linked/sub")));
    CHECK_STR(rig.look.root, in("linked"));
    CHECK_STR(rig.look.common, in("repo/.git"));
    CHECK_STR(rig.look.git_dir, in("repo/.git/worktrees/linked"));
    CHECK_STR(rig.look.main_root, rig.repo);
    CHECK_STR(rig.look.branch, "other");
    CHECK(rig.look.linked);
    rig_end();
}

TEST(a_detached_head_has_no_branch)
{
    rig_begin();
    rig_sh("cd repo && git checkout -q --detach && touch HEAD");
    CHECK_OK(rig_look(rig.repo));
    CHECK_STR(rig.look.branch, "");
    CHECK(strlen(rig.look.head) == 40);
    rig_end();
}

TEST(no_commit_yet_and_bare)
{
    rig_begin();
    rig_sh("git init -q -b fresh empty; git init -q --bare bare.git");
    CHECK_OK(rig_look(in("empty")));
    CHECK(rig.look.unborn);
    CHECK_STR(rig.look.branch, "fresh");
    CHECK_STR(rig.look.head, "");
    CHECK_OK(rig_look(in("bare.git")));
    CHECK(rig.look.bare && rig.look.unborn);
    CHECK_STR(rig.look.root, "");
    CHECK_STR(rig.look.main_root, in("bare.git"));
    rig_end();
}

TEST(a_path_of_any_bytes)
{
    rig_begin();
    rig_sh("d=$(printf 'a\\n--afloat\\nb \\377\"')\nmkdir \"$d\" && cp -r repo \"$d/x\"");
    const char *dir = in("a\n--afloat\nb \377\"/x");
    CHECK_OK(rig_look(dir));
    CHECK_STR(rig.look.root, dir);
    CHECK_STR(rig.look.main_root, dir);
    rig_end();
}

TEST(what_is_going_on_is_told)
{
    rig_begin();
    rig_sh("cd repo && git switch -qc side && echo side >one && git commit -qam side && "
           "git switch -q main && echo main >one && git commit -qam main && ! git merge -q side");
    CHECK_OK(rig_look(rig.repo));
    CHECK_STR(rig.look.doing, "merge");
    rig_sh("cd repo && git merge --abort && ! git rebase -q side");
    CHECK_OK(rig_look(rig.repo));
    CHECK_STR(rig.look.doing, "rebase");
    CHECK_STR(rig.look.branch, "");
    rig_end();
}

TEST(submodules_and_sparse_checkouts_are_told)
{
    rig_begin();
    rig_sh("cp -r repo lib && cd repo && git -c protocol.file.allow=always submodule add -q ../lib "
           "lib && git commit -qm lib && git sparse-checkout set sub");
    CHECK_OK(rig_look(rig.repo));
    CHECK(rig.look.has_submodules && rig.look.sparse);
    CHECK_OK(rig_look(in("repo/lib")));
    CHECK_STR(rig.look.root, in("repo/lib"));
    CHECK_STR(rig.look.main_root, in("repo/lib"));
    rig_end();
}

TEST(variables_of_the_caller_do_not_lead_astray)
{
    rig_begin();
    rig_sh("git init -q other");
    setenv("GIT_DIR", in("other/.git"), 1);
    setenv("GIT_WORK_TREE", in("other"), 1);
    CHECK_OK(rig_look(rig.repo));
    CHECK_STR(rig.look.root, rig.repo);
    CHECK_STR(rig.look.common, in("repo/.git"));
    unsetenv("GIT_DIR");
    unsetenv("GIT_WORK_TREE");
    rig_end();
}

TEST(worktrees_are_listed_with_what_they_are)
{
    rig_begin();
    rig_sh("cd repo && git worktree add -q -b other ../linked && git worktree lock ../linked && "
           "git worktree add -q --detach \"$(printf '../odd\\nname')\" && "
           "git worktree add -q -b gone ../gone && rm -r ../gone");
    CHECK_OK(rig_list(in("repo/sub")));
    CHECK_INT(rig.list.n, 4);
    CHECK_STR(rig.list.p[0].path, rig.repo);
    CHECK_STR(rig.list.p[0].branch, "main");
    CHECK_STR(rig.list.p[0].head, rig_out("git -C repo rev-parse HEAD"));
    for (size_t i = 1; i < rig.list.n; i++) {
        const struct git_entry *t = &rig.list.p[i];
        bool odd = strcmp(t->path, in("odd\nname")) == 0;
        bool gone = strcmp(t->path, in("gone")) == 0;
        CHECK(odd || gone || strcmp(t->path, in("linked")) == 0);
        CHECK_STR(t->branch, odd ? "" : gone ? "gone" : "other");
        CHECK_INT(t->prunable, gone);
        CHECK_INT(t->locked, !odd && !gone);
    }
    CHECK_INT(rig_list(in("home")), ERR_NOT_FOUND);
    rig_end();
}
