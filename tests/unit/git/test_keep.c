// The end of work in a worktree in which a model did as it liked: nothing is lost, nothing is run.

#include <unistd.h>

#include "base/path.h"
#include "unit/git/rig.h"

static void begin(void)
{
    rig_begin();
    rig_need_box();
    rig_sh("echo dirty >repo/one"); // the start is a commit of its own
    CHECK_OK(rig_add());
}

/// Commit, and see that the user's state is as before.
static void commit_untouched(void)
{
    const char *before = rig_state(rig.repo);
    CHECK_OK(rig_commit());
    CHECK_STR(rig_state(rig.repo), before);
    CHECK(!rig_exists("canary"));
    CHECK_STR(rig_out("git -C repo fsck --no-dangling 2>&1"), "");
}

static const char *on_branch(const char *path)
{
    return rig_out("git -C repo show 'afloat/bot-1:%s'", path);
}

TEST(uncommitted_work_goes_to_the_branch)
{
    begin();
    rig_sh(
        "cd '%s' && echo work >new && echo two >>two && rm sub/three && chmod +x two && "
        "printf 'x' >\"$(printf 'odd\\n\\377')\" && echo l >x.log && mkdir build && touch build/o",
        rig.dir);
    commit_untouched();
    CHECK(rig.committed.committed);
    CHECK_STR(rig.committed.rescue, "");
    CHECK_STR(rig_out("git -C repo rev-parse afloat/bot-1"), rig.committed.head);
    CHECK_STR(rig_out("git -C repo rev-parse afloat/bot-1^"), rig.added.start);
    CHECK_STR(rig_out("git -C repo log -1 --format=%%s/%%an afloat/bot-1"), "work/The User");
    CHECK_STR(on_branch("new"), "work");
    CHECK_STR(rig_out("git -C repo diff --name-only -z '%s' afloat/bot-1 | od -c | grep -c 377",
                      rig.added.start),
              "1");
    CHECK_INT(rig.committed.ignored.n, 2);
    CHECK(rig_has(&rig.committed.ignored, "x.log") && rig_has(&rig.committed.ignored, "build/"));
    CHECK_STR(rig_out("git -C '%s' status --porcelain", rig.dir), "");
    CHECK_OK(rig_remove());
    CHECK(!rig_exists("home/worktrees/repo/bot-1") && !rig_exists("repo/.git/worktrees"));
    CHECK_STR(on_branch("new"), "work");
    rig_end();
}

TEST(nothing_to_commit_moves_nothing)
{
    begin();
    commit_untouched();
    CHECK(!rig.committed.committed);
    CHECK_STR(rig.committed.head, rig.added.start);
    rig_end();
}

TEST(commits_of_its_own_stay)
{
    begin();
    rig_sh("cd '%s' && echo a >a && git add a && git commit -qm own && echo b >b && git pack-refs "
           "--all",
           rig.dir); // the branch is in a file that a box has to show
    commit_untouched();
    CHECK_STR(rig_out("git -C repo log --format=%%s '%s..afloat/bot-1'", rig.added.start),
              "work\nown");
    rig_end();
}

TEST(a_detached_head_and_another_branch_lose_nothing)
{
    static const char *const ways[] = {
        "git checkout -q --detach",
        "git checkout -q -b afloat/elsewhere",
        "git checkout -q -b elsewhere && echo c >c && git add c && git commit -qm c",
    };
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        begin();
        rig_sh("cd '%s' && %s && echo b >b", rig.dir, ways[i]);
        CHECK_OK(rig_commit());
        CHECK_STR(on_branch("b"), "b");
        CHECK_STR(rig.committed.rescue, "");
        CHECK_STR(rig_out("git -C repo log --format=%%s '%s..afloat/bot-1'", rig.added.start),
                  i == 2 ? "work\nc" : "work");
        rig_end();
    }
}

TEST(work_beside_the_branch_gets_a_branch_of_its_own)
{
    begin();
    rig_sh(
        "cd '%s' && echo a >a && git add a && git commit -qm a && git checkout -q --detach HEAD~1 "
        "&& echo b >b",
        rig.dir);
    commit_untouched();
    CHECK(rig.committed.rescue[0] != '\0');
    CHECK_STR(on_branch("a"), "a");
    CHECK_STR(rig_out("git -C repo show '%s:b'", rig.committed.rescue), "b");
    CHECK_STR(rig_out("git -C repo rev-parse afloat/bot-1"), rig.committed.head);
    rig_end();
}

TEST(an_older_commit_checked_out_is_no_work)
{
    begin();
    rig_sh(
        "cd '%s' && echo a >a && git add a && git commit -qm a && git checkout -q --detach HEAD~1",
        rig.dir);
    commit_untouched();
    CHECK(!rig.committed.committed);
    CHECK_STR(rig.committed.rescue, "");
    CHECK_STR(on_branch("a"), "a");
    rig_end();
}

TEST(a_deleted_branch_is_made_again)
{
    begin();
    rig_sh("cd '%s' && echo a >a && git add a && git commit -qm a && git checkout -q --detach && "
           "git branch -qD afloat/bot-1 && echo b >b",
           rig.dir);
    commit_untouched();
    CHECK_STR(on_branch("a"), "a");
    CHECK_STR(on_branch("b"), "b");
    rig_end();
}

TEST(a_branch_that_points_at_another_does_not_move_that)
{
    for (int full_access = 0; full_access < 2; full_access++) {
        begin();
        rig_sh("echo 'ref: refs/heads/main' >repo/.git/refs/heads/afloat/bot-1 && echo b >'%s/b'",
               rig.dir);
        const char *before = rig_out("git -C repo rev-parse main");
        struct git_worktree w = rig_worktree();
        w.full_access = full_access;
        rig_commit_of(&w);
        CHECK_OK(rig_wait());
        CHECK_STR(rig_out("git -C repo rev-parse main"), before);
        CHECK_STR(on_branch("b"), "b");
        rig_end();
    }
}

TEST(locks_of_a_killed_git_are_no_hindrance)
{
    begin();
    rig_sh("cd '%s' && echo b >b && own=$(git rev-parse --absolute-git-dir) && touch "
           "\"$own/index.lock\" \"$own/HEAD.lock\" && touch "
           "../../../../repo/.git/refs/heads/afloat/bot-1.lock",
           rig.dir);
    commit_untouched();
    CHECK_STR(on_branch("b"), "b");
    rig_end();
}

TEST(a_broken_or_missing_index_is_made_again)
{
    static const char *const ways[] = {"rm \"$own/index\"", "echo garbage >\"$own/index\"",
                                       "rm \"$own/index\" && mkfifo \"$own/index\""};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        begin();
        rig_sh(
            "cd '%s' && own=$(git rev-parse --absolute-git-dir) && echo b >b && echo f >f.log && "
            "git add -f f.log && git commit -qm forced && %s",
            rig.dir, ways[i]);
        CHECK_OK(rig_commit());
        CHECK_STR(on_branch("b"), "b");
        CHECK_STR(on_branch("f.log"), "f");
        CHECK_STR(on_branch("one"), "dirty");
        rig_end();
    }
}

TEST(a_head_that_is_no_file_is_put_right)
{
    begin();
    rig_sh("cd '%s' && own=$(git rev-parse --absolute-git-dir) && echo b >b && rm \"$own/HEAD\" && "
           "mkfifo \"$own/HEAD\"",
           rig.dir);
    CHECK_OK(rig_commit());
    CHECK_STR(on_branch("b"), "b");
    rig_end();
}

TEST(files_that_wait_for_ever_are_taken_away)
{
    begin();
    rig_sh("cd '%s' && echo b >b && mkfifo sub/.gitignore && mkfifo pipe && mkdir d && mkfifo "
           "d/.gitattributes && echo x >d/x",
           rig.dir);
    commit_untouched();
    CHECK_STR(on_branch("d/x"), "x");
    CHECK_OK(rig_remove());
    rig_end();
}

TEST(a_repository_inside_runs_nothing_and_is_told)
{
    begin();
    rig_sh(
        "cd '%s' && git init -q evil && cd evil && git commit -q --allow-empty -m x && echo f >f\n"
        "printf '#!/bin/sh\\ntouch %s/canary\\n' >run && chmod +x run\n"
        "git config core.fsmonitor \"$PWD/run\" && git config core.hooksPath \"$PWD\" && "
        "git config filter.x.clean \"$PWD/run\" && git config core.sshCommand \"$PWD/run\" && "
        "git config diff.external \"$PWD/run\"\n"
        "echo '* filter=x diff=x' >.gitattributes && cp .gitattributes .. && echo b >../b",
        rig.dir, rig.base);
    commit_untouched();
    CHECK(rig_has(&rig.committed.nested, "evil"));
    CHECK_STR(on_branch("b"), "b");
    CHECK_STR(rig_out("git -C repo ls-tree afloat/bot-1 evil"), "");
    CHECK_OK(rig_diff(true, 1 << 20));
    CHECK_OK(rig_measure());
    CHECK(!rig_exists("canary"));
    rig_end();
}

TEST(filters_of_the_user_run_in_the_box)
{
    setenv("TMPDIR", "/var/tmp", 1); // in a box /tmp is another, and the user's settings lie here
    begin();
    // a filter that the user has set up, reached by attributes that the model wrote: it may do its
    // work, and touch nothing outside
    rig_sh("git config --global filter.up.clean 'touch %s/canary; tr a-z A-Z'\n"
           "cd '%s' && echo '*.up filter=up' >.gitattributes && echo text >a.up",
           rig.base, rig.dir);
    commit_untouched();
    CHECK_STR(on_branch("a.up"), "TEXT");
    rig_end();
}

TEST(a_dot_git_that_was_replaced_is_not_believed)
{
    static const char *const ways[] = {
        "git init -q \"$PWD/../evil\" && rm .git && mv ../evil/.git .git",
        "rm .git && ln -s \"$BASE/repo/.git\" .git",
        "rm .git && echo \"gitdir: $BASE/repo/.git\" >.git",
        "rm .git",
    };
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        begin();
        rig_sh(
            "BASE='%s'; cd '%s' && echo b >b && %s\n"
            "if test -d .git && test ! -L .git; then git config core.fsmonitor 'touch %s/canary'; "
            "fi",
            rig.base, rig.dir, ways[i], rig.base);
        commit_untouched();
        CHECK_STR(on_branch("b"), "b");
        CHECK_OK(rig_remove());
        CHECK(!rig_exists("home/worktrees/repo/bot-1"));
        CHECK(rig_exists("repo/.git/HEAD"));
        rig_end();
    }
}

// ---- its own repository ------------------------------------------------------------------------

TEST(commits_are_in_the_repository_only_when_they_are_kept)
{
    begin();
    const char *before = rig_out("find repo/.git -type f | sort | xargs sha256sum");
    rig_sh(
        "cd '%s' && echo a >a && git add a && git commit -qm a && git tag t && git branch side && "
        "git gc -q && git log main --oneline",
        rig.dir);
    CHECK_STR(rig_out("find repo/.git -type f | sort | xargs sha256sum"), before);
    CHECK_STR(rig_out("git -C '%s' rev-parse --show-toplevel", rig.dir), rig.dir);
    commit_untouched();
    CHECK_STR(on_branch("a"), "a");
    CHECK_STR(rig_out("git -C repo fsck --full --strict --no-dangling 2>&1"), "");
    CHECK_OK(rig_remove());
    CHECK(!rig_exists("home/quarantine/repo/bot-1"));
    rig_end();
}

TEST(many_objects_come_as_one_pack)
{
    begin();
    rig_sh(
        "cd '%s' && for i in $(seq 1 150); do echo $i >n$i; done && git add -A && git commit -qm n",
        rig.dir);
    commit_untouched();
    CHECK_STR(on_branch("n150"), "150");
    CHECK_STR(rig_out("ls repo/.git/objects/pack/*.pack | wc -l"), "1");
    CHECK_STR(rig_out("git -C repo fsck --full --strict --no-dangling 2>&1"), "");
    rig_end();
}

TEST(to_keep_it_twice_is_to_keep_it_once)
{
    begin();
    rig_sh("echo b >'%s/b'", rig.dir);
    CHECK_OK(rig_commit());
    const char *head = rig.committed.head;
    CHECK_OK(rig_commit());
    CHECK(!rig.committed.committed);
    CHECK_STR(rig.committed.head, head);
    CHECK_STR(rig.committed.rescue, "");
    rig_end();
}

/// What a model may do to its own repository: the files are kept, and nothing happens elsewhere.
TEST(a_repository_that_was_tampered_with_harms_nobody)
{
    static const char *const ways[] = {
        "rm -rf $Q/objects/?? $Q/objects/pack && echo /nonexistent >$Q/objects/info/alternates",
        "echo $BASE/elsewhere/.git/objects >$Q/objects/info/alternates",
        "rm -rf $Q/objects && ln -s $BASE/elsewhere/.git/objects $Q/objects",
        "rm -rf $Q/refs && ln -s $BASE/elsewhere/.git/refs $Q/refs",
        "echo garbage >$Q/packed-refs",
        "echo garbage >$Q/HEAD",
        "rm -f $Q/HEAD && ln -s $BASE/secret $Q/HEAD",
        "rm -rf $Q/objects $Q/refs $Q/HEAD",
        "rm -rf $Q",
        "rm $Q/commondir && echo $BASE/elsewhere/.git >$Q/commondir",
        "mkdir $Q/hooks && cp $BASE/run $Q/hooks/post-index-change",
        "git update-ref refs/heads/main HEAD && git update-ref refs/heads/afloat/other HEAD",
        "git symbolic-ref refs/heads/afloat/bot-1 refs/heads/main",
    };
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        begin();
        rig_sh("git -C repo branch afloat/other main && git init -q elsewhere && cd elsewhere && "
               "git commit -q --allow-empty -m x && cd .. && echo s >secret && "
               "printf '#!/bin/sh\ntouch %s/canary\n' >run && chmod +x run && "
               "git -C elsewhere config core.fsmonitor %s/run",
               rig.base, rig.base);
        const char *before =
            rig_out("git -C repo for-each-ref | grep -v bot-1; ls -R elsewhere/.git");
        rig_sh("BASE='%s'; Q='%s'; cd '%s' && echo a >a && git add a && git commit -qm a && "
               "git update-index --split-index; echo b >b && %s",
               rig.base, rig.quarantine, rig.dir, ways[i]);
        commit_untouched();
        CHECK_STR(on_branch("b"), "b");
        CHECK_STR(on_branch("a"), "a");
        CHECK_STR(rig_out("git -C repo for-each-ref | grep -v bot-1; ls -R elsewhere/.git"),
                  before);
        CHECK_STR(rig_out("git -C repo fsck --full --strict --no-dangling 2>&1"), "");
        CHECK(!rig_exists("canary"));
        rig_end();
    }
}

TEST(objects_that_are_not_well_formed_are_refused)
{
    begin();
    rig_sh("cd '%s' && blob=$(echo evil | git hash-object -w --stdin) && "
           "tree=$(printf '100644 blob %%s\tconfig\n' $blob | git mktree) && "
           "python3 -c \"import sys; sys.stdout.buffer.write(b'40000 .git' + bytes([0]) + "
           "bytes.fromhex('$tree'))\" | git hash-object -t tree -w --stdin --literally >../tree && "
           "git update-ref HEAD $(git commit-tree -p HEAD -m evil $(cat ../tree)) && echo b >b",
           rig.dir);
    const char *before = rig_out("git -C repo for-each-ref");
    CHECK(rig_commit() < 0);
    CHECK(strstr(rig.err.msg, "the repository refuses") != NULL);
    CHECK_STR(rig_out("git -C repo for-each-ref"), before);
    CHECK_STR(rig_out("cat '%s/b'", rig.dir), "b");
    rig_end();
}

TEST(other_branches_and_a_stash_made_there_are_kept_too)
{
    begin();
    rig_sh("cd '%s' && git checkout -q -b side && echo s >s && git add s && git commit -qm side && "
           "git checkout -q afloat/bot-1 && echo t >>two && git stash -q && echo b >b",
           rig.dir);
    commit_untouched();
    CHECK_STR(on_branch("b"), "b");
    CHECK(rig.committed.rescue[0] != '\0');
    CHECK_INT(rig.committed.notes.n, 1);
    CHECK_STR(
        rig_out("for b in $(git -C repo for-each-ref --format='%%(refname)' "
                "'refs/heads/afloat/bot-1-rescue-*'); do git -C repo diff --name-only '%s' $b; "
                "done | sort",
                rig.added.start),
        "s\ntwo");
    rig_end();
}

TEST(a_branch_that_the_user_has_moved_stays_the_users)
{
    begin();
    rig_sh(
        "git -C repo update-ref refs/heads/afloat/bot-1 $(git -C repo commit-tree -p main -m mine "
        "main^{tree}) && echo b >'%s/b'",
        rig.dir);
    const char *mine = rig_out("git -C repo rev-parse afloat/bot-1");
    commit_untouched();
    CHECK_STR(rig_out("git -C repo rev-parse afloat/bot-1"), mine);
    CHECK_STR(rig_out("git -C repo show '%s:b'", rig.committed.rescue), "b");
    rig_end();
}

TEST(an_index_that_leads_elsewhere_is_not_read)
{
    begin();
    rig_sh("echo secret >secret && rm '%s/index' && ln -s '%s/secret' '%s/index' && echo b >'%s/b'",
           rig.quarantine, rig.base, rig.quarantine, rig.dir);
    CHECK(rig_diff(true, 1 << 20) < 0);
    CHECK_OK(rig_commit());
    CHECK_STR(on_branch("b"), "b");
    CHECK_STR(rig_out("cat secret"), "secret");
    rig_end();
}

TEST(without_a_box_it_is_the_same)
{
    begin();
    rig_sh("cd '%s' && echo b >b && rm .git && mkdir .git", rig.dir);
    struct git_worktree w = rig_worktree();
    w.full_access = true;
    rig_commit_of(&w);
    CHECK_OK(rig_wait());
    CHECK_STR(on_branch("b"), "b");
    rig_end();
}

TEST(links_that_were_made_for_it_are_not_its_work)
{
    static const char *const link[] = {"modules", NULL};
    rig_begin();
    rig_need_box();
    rig_sh("cd repo && echo modules/ >>.gitignore && git commit -qam i && mkdir modules && touch "
           "modules/m");
    CHECK_OK(rig_add_with(&(struct git_add){
        .repo = rig.repo, .dir = rig.dir, .branch = "afloat/bot-1", .link = link}));
    CHECK(rig_exists("home/worktrees/repo/bot-1/modules/m"));
    CHECK_OK(rig_commit());
    CHECK(!rig.committed.committed);
    CHECK_OK(rig_remove());
    CHECK(rig_exists("repo/modules/m"));
    rig_end();
}

TEST(a_worktree_that_is_gone_says_so)
{
    begin();
    rig_sh("rm -r '%s'", rig.dir);
    CHECK_INT(rig_commit(), ERR_NOT_FOUND);
    CHECK_OK(rig_remove()); // the registration
    CHECK(!rig_exists("repo/.git/worktrees"));
    CHECK_OK(rig_remove());
    rig_end();
}

TEST(only_a_branch_that_is_where_we_left_it_is_deleted)
{
    begin();
    rig_sh("cd '%s' && echo b >b", rig.dir);
    CHECK_OK(rig_commit());
    CHECK_INT(rig_delete("afloat/bot-1", rig.committed.head), ERR_CONFLICT); // checked out
    CHECK_OK(rig_remove());
    CHECK_INT(rig_delete("afloat/bot-1", rig.added.start), ERR_CONFLICT); // moved
    CHECK_STR(on_branch("b"), "b");
    CHECK_OK(rig_delete("afloat/bot-1", rig.committed.head));
    CHECK_STR(rig_out("git -C repo branch --list 'afloat/*'"), "");
    CHECK_OK(rig_delete("afloat/bot-1", rig.committed.head));
    rig_end();
}

TEST(what_would_be_lost_is_counted)
{
    begin();
    rig_sh("cd '%s' && echo a >a && git add a && git commit -qm a && echo b >b && echo b >>two && "
           "mkdir n && echo n >n/n && head -c 100000 /dev/zero >n/large",
           rig.dir);
    CHECK_OK(rig_measure());
    CHECK_INT(rig.measure.uncommitted, 4);
    CHECK_INT(rig.measure.commits, 2); // the start and `a`
    CHECK(rig.measure.bytes >= 100000 && !rig.measure.partial);
    CHECK(rig.measure.changed_ms > 1700000000000);
    rig_sh("git -C '%s' branch keep afloat/bot-1", rig.dir);
    CHECK_OK(rig_measure());
    CHECK_INT(rig.measure.commits, 0);
    rig_end();
}

// ---- what came of it -------------------------------------------------------------------------

TEST(the_diff_is_of_the_work_alone)
{
    begin();
    rig_sh("cd '%s' && echo a >a && echo two >>two && rm sub/three && printf '\\0\\1' >bin && "
           "ln -sf a one",
           rig.dir);
    CHECK_OK(rig_diff(true, 1 << 20));
    struct git_diff live = rig.diff;
    CHECK_INT(live.commits, 0);
    CHECK_STR(rig_out("git -C '%s' status --porcelain | wc -l", rig.dir), "5"); // as it was
    CHECK_OK(rig_commit());
    CHECK_OK(rig_diff(false, 1 << 20));
    CHECK_INT(rig.diff.commits, 1);
    CHECK_INT(rig.diff.n_changes, 5);
    CHECK(str_eq(rig.diff.patch, live.patch) && !rig.diff.patch_cut);
    static const struct git_change want[] = {{.path = "a", .kind = 'A', .added = 1},
                                             {.path = "bin", .kind = 'A', .binary = true},
                                             {.path = "one", .kind = 'T', .added = 1, .removed = 1},
                                             {.path = "sub/three", .kind = 'D', .removed = 1},
                                             {.path = "two", .kind = 'M', .added = 1}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        CHECK_STR(rig.diff.changes[i].path, want[i].path);
        CHECK_INT(rig.diff.changes[i].kind, want[i].kind);
        CHECK_INT(rig.diff.changes[i].added, want[i].added);
        CHECK_INT(rig.diff.changes[i].removed, want[i].removed);
        CHECK_INT(rig.diff.changes[i].binary, want[i].binary);
        CHECK_STR(live.changes[i].path, want[i].path);
    }
    CHECK_INT(rig.diff.added, 3);
    CHECK_INT(rig.diff.removed, 2);
    CHECK_STR(rig.diff.touches, "");
    char *patch = path_join(rig.base, "patch");
    CHECK_INT(path_write_atomic(patch, rig.diff.patch, 0600, NULL), 0);
    free(patch);
    rig_sh(
        "git -C repo worktree add -q --detach ../try '%s' && cd try && git apply --index ../patch "
        "&& test \"$(git write-tree)\" = \"$(git rev-parse afloat/bot-1^{tree})\"",
        rig.added.start);
    rig_end();
}

TEST(the_diff_of_live_work_does_not_believe_the_worktree)
{
    begin();
    rig_sh("cd '%s' && rm .git && git init -q && git commit -q --allow-empty -m evil && echo b >b",
           rig.dir);
    struct git_diff_opts opts = {.of = rig_worktree()};
    opts.of.full_access = true; // in a box it could not have done so
    rig_diff_of(&opts);
    CHECK_OK(rig_wait());
    CHECK_INT(rig.diff.n_changes, 1);
    CHECK_STR(rig.diff.changes[0].path, "b");
    rig_end();
}

TEST(a_long_diff_is_cut_at_a_line)
{
    begin();
    rig_sh("cd '%s' && seq 1 20000 >a", rig.dir);
    CHECK_OK(rig_diff(true, 1000));
    CHECK(rig.diff.patch_cut && rig.diff.patch.n <= 1000 && rig.diff.patch.n > 900);
    CHECK_INT(rig.diff.patch.p[rig.diff.patch.n - 1], '\n');
    CHECK_INT(rig.diff.added, 20000);
    CHECK_OK(rig_diff(true, 0));
    CHECK_INT(rig.diff.patch.n, 0);
    CHECK_STR(rig_out("ls home/quarantine/repo/bot-1 | grep -c afloat || true"), "0");
    rig_end();
}

TEST(a_branch_that_is_gone_has_no_diff)
{
    begin();
    CHECK_OK(rig_remove());
    CHECK_OK(rig_delete("afloat/bot-1", rig.added.start));
    CHECK_INT(rig_diff(false, 0), ERR_NOT_FOUND);
    rig_end();
}

TEST(what_only_a_person_takes_over)
{
    static const char *const yes[] = {
        ".afloat/x",     ".AFLOAT/plugins/p.lua", ".gitmodules",
        "a/.gitmodules", "a/b/.GitAttributes",    ".github/workflows/x",
        "AGENTS.md",     "docs/agents.MD",        ".github",
        "a/CLAUDE.md"};
    static const char *const no[] = {"afloat/x",     "a/.github/x",   "AGENTS.md/x",
                                     "a/.gitignore", "AGENTS.md.bak", ""};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        CHECK(git_is_protected(str_of(yes[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        CHECK(!git_is_protected(str_of(no[i])));
    }
    begin();
    rig_sh("cd '%s' && mkdir -p sub/deep && echo x >sub/deep/.gitattributes", rig.dir);
    CHECK_OK(rig_commit());
    CHECK_OK(rig_diff(false, 0));
    CHECK_STR(rig.diff.touches, "sub/deep/.gitattributes");
    rig_end();
}
