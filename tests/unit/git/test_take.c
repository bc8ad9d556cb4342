// Taking work over: all of it or nothing, and never what the user had not committed.

#include <unistd.h>

#include "unit/git/rig.h"

/// A worktree, work in it as a script, all of it committed, the directory gone.
static void work(const char *user_state, const char *script)
{
    rig_begin();
    rig_need_box();
    rig_sh("cd repo && %s", user_state);
    CHECK_OK(rig_add());
    rig_sh("cd '%s' && %s", rig.dir, script);
    CHECK_OK(rig_commit());
    CHECK_OK(rig_remove());
}

static const char *refs(void)
{
    return rig_out("cd repo && git for-each-ref && cat .git/HEAD .git/logs/HEAD && sha256sum "
                   ".git/index && stat -c %%y .git/index");
}

/// Refused with a conflict at `path`, and nothing has changed.
static void check_refused(int (*take)(void), const char *path)
{
    const char *before = rig_state(rig.repo);
    CHECK_INT(take(), ERR_CONFLICT);
    CHECK_STR(rig_state(rig.repo), before);
    if (path != NULL && !rig_has(&rig.taken.paths, path)) {
        test_fail(__FILE__, __LINE__, "'%s' is not among the paths of: %s", path, rig.err.msg);
    }
}

// ---- apply -----------------------------------------------------------------------------------

TEST(apply_puts_the_work_on_a_dirty_tree)
{
    work("echo mine >>one && echo unt >untracked && git add untracked && rm two",
         "echo theirs >>sub/three && echo new >new && mkdir -p x/y && echo deep >x/y/z && chmod +x "
         "one "
         "&& ln -s one link && printf 'odd' >\"$(printf 'a\\nb\\377')\"");
    const char *before = refs();
    CHECK_OK(rig_apply());
    CHECK_STR(refs(), before);
    CHECK_INT(rig.taken.how, GIT_APPLIED);
    CHECK_INT(rig.taken.paths.n, 6);
    CHECK_STR(
        rig_out("cd repo && cat one sub/three new x/y/z untracked && readlink link && test -x "
                "one && cat \"$(printf 'a\\nb\\377')\" && test ! -e two && echo ' ok'"),
        "one\nmine\nthree\ntheirs\nnew\ndeep\nunt\none\nodd ok");
    CHECK_OK(rig_apply()); // a second time it is all there
    CHECK_INT(rig.taken.how, GIT_NOTHING);
    CHECK_INT(rig.taken.paths.n, 0);
    rig_end();
}

TEST(apply_goes_together_with_what_the_user_did_meanwhile)
{
    work("seq 1 20 >n && git add n && git commit -qm n && echo dirty >one",
         "sed -i s/^3$/three/ n && rm two && echo more >>sub/three");
    rig_sh(
        "cd repo && sed -i s/^18$/eighteen/ n && echo other >other && git add n && git commit -qm "
        "meanwhile");
    const char *before = refs();
    CHECK_OK(rig_apply());
    CHECK_STR(refs(), before);
    CHECK_STR(
        rig_out("cd repo && sed -n '3p;18p' n && cat one other && test ! -e two && echo gone"),
        "three\neighteen\ndirty\nother\ngone");
    rig_end();
}

TEST(a_conflict_changes_nothing)
{
    work("echo dirty >one", "echo theirs >two && echo new >new && echo other >>sub/three");
    rig_sh("echo mine >repo/two");
    check_refused(rig_apply, "two");
    rig_sh("cd repo && git checkout -q two && echo mine >new"); // both have made it
    check_refused(rig_apply, "new");
    rig_sh("cd repo && rm new && rm sub/three"); // deleted here, changed there
    check_refused(rig_apply, "sub/three");
    rig_end();
}

TEST(an_ignored_file_in_the_way_is_the_users)
{
    work("true",
         "echo theirs >x.log && git add -f x.log && mkdir -p build/d && echo o >build/d/o && "
         "git add -f build");
    rig_sh("echo mine >repo/x.log");
    check_refused(rig_apply, "x.log");
    rig_sh("rm repo/x.log && echo file >repo/build"); // a file where a directory comes
    rig_sh("cd repo && printf 'build\\n' >>.git/info/exclude");
    check_refused(rig_apply, "build");
    rig_sh("cd repo && rm build && ln -s ../outside build && mkdir ../outside");
    check_refused(rig_apply, "build");
    CHECK_STR(rig_out("ls -A outside"), "");
    rig_sh("cd repo && rm build && git init -q build"); // a repository of its own
    check_refused(rig_apply, "build");
    rig_sh("cd repo && rm -r build && mkdir build && echo mine >build/mine");
    CHECK_OK(rig_apply());
    CHECK_STR(rig_out("cd repo && cat x.log build/mine build/d/o"), "theirs\nmine\no");
    rig_end();
}

TEST(files_and_directories_change_places)
{
    work("mkdir d && echo f >d/f && echo p >plain && git add -A && git commit -qm d",
         "rm -r d && echo now >d && rm plain && mkdir plain && echo in >plain/in");
    rig_sh("echo mine >repo/d/x.log"); // ignored, and it would go with its directory
    check_refused(rig_apply, "d");
    rig_sh("rm repo/d/x.log");
    CHECK_OK(rig_apply());
    CHECK_STR(rig_out("cd repo && cat d plain/in"), "now\nin");
    rig_end();
}

TEST(apply_needs_no_history_of_the_branch)
{
    work("echo dirty >one", "echo new >new && git add new && git commit -qm new");
    // the model made it over: the start is no longer beneath it
    rig_sh("cd repo && c=$(git commit-tree afloat/bot-1^{tree} -m over) && git update-ref "
           "refs/heads/afloat/bot-1 $c");
    rig_sh("echo mine >>repo/two");
    CHECK_OK(rig_apply());
    CHECK_STR(rig_out("cd repo && cat one two new"), "dirty\ntwo\nmine\nnew");
    rig_sh("git -C repo status --porcelain");
    CHECK_STR(rig_out("git -C repo status --porcelain"), " M one\n M two\n?? new");
    rig_end();
}

TEST(apply_in_a_sparse_checkout_writes_all_of_it)
{
    work("mkdir far && echo far >far/away && git add -A && git commit -qm far && "
         "git sparse-checkout set --no-cone /one '/sub/' && test ! -e far",
         "git sparse-checkout disable && echo near >>sub/three && echo more >>far/away && echo new "
         ">far/new");
    const char *before = refs();
    CHECK_OK(rig_apply());
    CHECK_STR(refs(), before);
    CHECK_STR(rig_out("cd repo && cat sub/three far/away far/new"), "three\nnear\nfar\nmore\nnew");
    rig_end();
}

TEST(a_write_that_fails_half_way_is_taken_back)
{
    work("echo dirty >one",
         "echo theirs >>two && echo more >>sub/three && mkdir n && echo new >n/new");
    rig_sh(
        "printf '#!/bin/sh\\n"
        "case \"$*\" in *read-tree\\\\ -m*) cd repo && echo half >two && rm sub/three && mkdir n "
        "&& echo ha >n/new; echo fatal: disk full >&2; exit 128;; esac\\n"
        "exec git \"$@\"\\n' >broken-git && chmod +x broken-git && sed -i 's,cd repo,cd %s,' "
        "broken-git",
        rig.repo);
    const char *before =
        rig_out("cd repo && cat one two sub/three && ls -A && sha256sum .git/index");
    rig_use(arena_printf(&rig.arena, "%s/broken-git", rig.base));
    CHECK_INT(rig_apply(), UV_EIO);
    CHECK(strstr(rig.err.msg, "disk full") != NULL);
    CHECK_STR(rig_out("cd repo && cat one two sub/three && ls -A && sha256sum .git/index"), before);
    rig_use(NULL);
    CHECK_OK(rig_apply());
    rig_end();
}

TEST(a_file_that_changes_in_the_last_moment_is_not_overwritten)
{
    work("true", "echo theirs >>two && echo new >new");
    // the user saves a file between our look and our writing
    rig_sh("printf '#!/bin/sh\\n"
           "case \"$*\" in *read-tree\\\\ -m*) echo saved >%s/two;; esac\\nexec git \"$@\"\\n' "
           ">slow-git && chmod +x slow-git",
           rig.repo);
    rig_use(arena_printf(&rig.arena, "%s/slow-git", rig.base));
    CHECK_INT(rig_apply(), ERR_CONFLICT);
    CHECK_STR(rig_out("cat repo/two && ls repo"), "saved\none\nsub\ntwo");
    rig_end();
}

TEST(what_is_gone_is_not_found)
{
    work("true", "echo x >x");
    rig_sh("git -C repo update-ref -d refs/heads/afloat/bot-1");
    CHECK_INT(rig_apply(), ERR_NOT_FOUND);
    CHECK_INT(rig_merge(), ERR_NOT_FOUND);
    rig_end();
}

// ---- merge -----------------------------------------------------------------------------------

TEST(merge_goes_forward_where_it_can)
{
    work("true", "echo new >new && git add new && git commit -qm one && echo two >>two");
    rig_sh("echo keep >repo/untracked");
    CHECK_OK(rig_merge());
    CHECK_INT(rig.taken.how, GIT_FAST_FORWARD);
    CHECK_STR(rig.taken.branch, "main");
    CHECK_STR(rig.taken.head, rig_out("git -C repo rev-parse main"));
    CHECK_STR(rig.taken.head, rig_out("git -C repo rev-parse afloat/bot-1"));
    CHECK_INT(rig.taken.paths.n, 2);
    CHECK_STR(rig_out("cd repo && cat new untracked && git status --porcelain"),
              "new\nkeep\n?? untracked");
    CHECK_OK(rig_merge());
    CHECK_INT(rig.taken.how, GIT_NOTHING);
    rig_end();
}

TEST(merge_makes_a_commit_when_both_went_on)
{
    work("true", "echo new >new");
    rig_sh("cd repo && git switch -qc topic && echo mine >>one && git commit -qam mine");
    CHECK_OK(rig_merge());
    CHECK_INT(rig.taken.how, GIT_MERGE_COMMIT);
    CHECK_STR(rig.taken.branch, "topic");
    CHECK_STR(rig_out("cd repo && git log -1 --format='%%s %%an' && cat new one && "
                      "git rev-parse HEAD^2 && git rev-parse --abbrev-ref HEAD"),
              arena_printf(&rig.arena,
                           "Merge branch 'afloat/bot-1' The User\nnew\none\nmine\n%s\ntopic",
                           rig.committed.head));
    CHECK_STR(rig_out("git -C repo status --porcelain"), "");
    CHECK_STR(rig_out("git -C repo log --format=%%s main"), "first");
    rig_end();
}

TEST(merge_is_refused_where_it_would_touch_something)
{
    work("true", "echo theirs >>two && echo log >x.log && git add -f x.log");
    rig_sh("echo mine >>repo/one");
    check_refused(rig_merge, "one"); // even where the paths differ
    rig_sh("cd repo && git add one");
    check_refused(rig_merge, "one");
    rig_sh("cd repo && git reset -q --hard && git checkout -q --detach");
    check_refused(rig_merge, NULL);
    rig_sh("cd repo && git switch -q main && echo mine >x.log"); // ignored, in the way
    check_refused(rig_merge, NULL);
    rig_sh("cd repo && rm x.log && echo mine >two && git commit -qam mine");
    check_refused(rig_merge, "two");
    rig_sh(
        "cd repo && git switch -qc side && echo side >one && git commit -qam side && git switch -q "
        "main && echo main >one && git commit -qam main && ! git merge -q side 2>/dev/null");
    check_refused(rig_merge, NULL);
    rig_end();
}

TEST(merge_names_the_untracked_files_that_are_in_the_way)
{
    work("true", "echo new >new && echo b >b && git add new b && git commit -qm one");
    rig_sh("cd repo && echo mine >new && echo mine >b");
    CHECK_INT(rig_merge(), ERR_CONFLICT);
    CHECK(strstr(rig.err.msg, "overwritten by merge: 'b', 'new'") != NULL);
    rig_end();
}

TEST(a_dirty_start_never_gets_onto_a_branch)
{
    work("echo secret >>one && echo unt >untracked",
         "echo a >a && git add a && GIT_AUTHOR_NAME='Some Bot' GIT_AUTHOR_EMAIL=bot@x "
         "GIT_AUTHOR_DATE='@1700000000 +0200' git commit -qm 'first\n\nbody  text\n' && echo two "
         ">>two && git commit -qam second && echo last >last");
    rig_sh(
        "cd repo && git stash -qu && echo meanwhile >m && git add m && git commit -qm meanwhile");
    const char *old = rig_out("git -C repo rev-parse main");
    CHECK_OK(rig_merge());
    CHECK_INT(rig.taken.how, GIT_REPLAYED);
    CHECK_STR(rig_out("cd repo && git log --format='%%s' %s..main", old), "work\nsecond\nfirst");
    CHECK_STR(rig_out("cd repo && git log --format='%%an <%%ae> %%ad|%%B' --date=raw -1 main~2"),
              "Some Bot <bot@x> 1700000000 +0200|first\n\nbody  text\n");
    CHECK_STR(rig_out("cd repo && cat a two last one m && test ! -e untracked && git log --all "
                      "--not --branches='afloat*' --format=%%s --grep=Afloat-Start -- | wc -l && "
                      "git status --porcelain"),
              "a\ntwo\ntwo\nlast\none\nmeanwhile\n0");
    CHECK_STR(rig_out("git -C repo log --format=%%b main | grep -c Afloat-Start || true"), "0");
    CHECK_OK(rig_merge()); // all there
    CHECK_INT(rig.taken.how, GIT_NOTHING);
    rig_end();
}

TEST(a_dirty_start_that_was_committed_by_the_user_merges)
{
    work("echo mine >>one", "sed -i s/mine/ours/ one");
    check_refused(rig_merge, "one"); // still uncommitted
    rig_sh("git -C repo commit -qam mine");
    CHECK_OK(rig_merge());
    CHECK_INT(rig.taken.how, GIT_REPLAYED);
    CHECK_STR(rig_out("cat repo/one"), "one\nours");
    rig_end();
}

TEST(replaying_stops_at_a_conflict_with_nothing_changed)
{
    work("echo mine >>one", "echo fine >fine && git add fine && git commit -qm fine && sed -i "
                            "s/mine/ours/ one");
    rig_sh("cd repo && git checkout -q one"); // what the work builds on is thrown away
    check_refused(rig_merge, "one");
    rig_end();
}

TEST(a_branch_that_was_made_over_is_not_merged)
{
    work("echo secret >>one", "git commit -q --amend -m mine && echo x >x");
    rig_sh("cd repo && git checkout -q one");
    check_refused(rig_merge, NULL);
    CHECK(strstr(rig.err.msg, "apply it") != NULL);
    rig_end();
}

TEST(hooks_of_the_repository_are_not_run_by_taking_over)
{
    work("true", "echo new >new");
    rig_sh(
        "cd repo && for h in post-merge pre-merge-commit post-checkout post-index-change "
        "reference-transaction; do printf '#!/bin/sh\\ntouch %s/canary\\n' >.git/hooks/$h; chmod "
        "+x .git/hooks/$h; done",
        rig.base);
    CHECK_OK(rig_apply());
    rig_sh("rm repo/new");
    CHECK_OK(rig_merge());
    CHECK(!rig_exists("canary"));
    rig_end();
}

TEST(work_on_a_rescue_branch_is_taken_over_with_the_rest)
{
    for (int merge = 0; merge < 2; merge++) {
        rig_begin();
        rig_need_box();
        rig_sh("cd repo && echo wip >wip");
        CHECK_OK(rig_add());
        rig_sh("cd '%s' && echo a >a && git add a && git commit -qm a && git checkout -q --detach "
               "main "
               "&& echo m >m && git add m && git commit -qm m",
               rig.dir);
        CHECK_OK(rig_commit());
        CHECK(rig.committed.rescue[0] != '\0');
        CHECK_OK(rig_diff(false, 1 << 20));
        CHECK_INT(rig.diff.n_changes, 2);
        CHECK_STR(rig.diff.changes[0].path, "a");
        CHECK_STR(rig.diff.changes[1].path, "m");
        CHECK_OK(merge ? rig_merge() : rig_apply());
        CHECK_STR(rig_out("cd repo && cat a m wip"), "a\nm\nwip");
        CHECK_STR(rig_out("git -C repo log --format=%%s | grep -c working || true"), "0");
        rig_end();
    }
}

TEST(a_rescue_branch_that_was_deleted_is_said_to_be_gone)
{
    rig_begin();
    rig_need_box();
    CHECK_OK(rig_add());
    rig_sh(
        "cd '%s' && echo a >a && git add a && git commit -qm a && git checkout -q --detach main && "
        "echo m >m && git add m && git commit -qm m",
        rig.dir);
    CHECK_OK(rig_commit());
    rig_sh("git -C repo branch -q -D '%s'", rig.committed.rescue);
    for (int merge = 0; merge < 2; merge++) {
        CHECK_INT(merge ? rig_merge() : rig_apply(), ERR_NOT_FOUND);
        CHECK(strstr(rig.err.msg, rig.committed.rescue) != NULL);
        CHECK(strstr(rig.err.msg, "do not go together") == NULL);
    }
    CHECK_OK(rig_diff(false, 1 << 20)); // of the branch alone
    CHECK_STR(rig.diff.changes[0].path, "a");
    rig_end();
}

TEST(work_on_two_branches_that_do_not_go_together_is_a_conflict)
{
    rig_begin();
    rig_need_box();
    CHECK_OK(rig_add());
    rig_sh("cd '%s' && echo a >one && git commit -qam a && git checkout -q --detach HEAD~1 && "
           "echo b >one && git commit -qam b",
           rig.dir);
    CHECK_OK(rig_commit());
    CHECK_OK(rig_diff(false, 1 << 20)); // of the branch alone
    CHECK_INT(rig.diff.added, 1);
    CHECK_INT(rig_apply(), ERR_CONFLICT);
    CHECK(strstr(rig.err.msg, "by hand") != NULL);
    CHECK_STR(rig_out("cat repo/one"), "one");
    rig_end();
}

TEST(merge_lands_on_the_branch_that_was_asked_for)
{
    rig_begin();
    rig_need_box();
    CHECK_OK(rig_add());
    rig_sh("echo a >'%s/a'", rig.dir);
    CHECK_OK(rig_commit());
    rig_sh("git -C repo checkout -q -b release");
    rig.into = "main";
    CHECK_INT(rig_merge(), ERR_CONFLICT);
    CHECK(!rig_exists("repo/a"));
    rig_sh("git -C repo checkout -q main");
    CHECK_OK(rig_merge());
    CHECK(rig_exists("repo/a"));
    rig_end();
}
