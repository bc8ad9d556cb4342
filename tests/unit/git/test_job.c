// Jobs that fail, hang, talk too much or are cancelled: nothing is left of them.

#include <errno.h>
#include <unistd.h>

#include "base/path.h"
#include "lib/fault.h"
#include "unit/git/rig.h"

static const struct git_add *ask(void)
{
    static const char *const include[] = {".env", NULL};
    static const char *const link[] = {"modules", NULL};
    static struct git_add a;
    a = (struct git_add){.repo = rig.repo,
                         .dir = rig.dir,
                         .branch = "afloat/bot-1",
                         .include = include,
                         .link = link};
    return &a;
}

/// A repository with changes, an ignored file to copy and a directory to link.
static void begin(void)
{
    rig_begin();
    rig_sh("cd repo && echo modules/ >>.gitignore && git commit -qam ignore && echo dirty >one && "
           "echo new >new && echo secret >.env && mkdir modules && git init -q nested && git -C "
           "nested commit -q --allow-empty -m x");
}

static void check_nothing_left(void)
{
    CHECK_STR(rig_out("git -C repo for-each-ref refs/heads/afloat"), "");
    CHECK_STR(rig_out("ls -A repo/.git/worktrees 2>/dev/null || true"), "");
    CHECK_STR(rig_out("find home/worktrees -mindepth 2 2>/dev/null || true"), "");
    CHECK_STR(rig_out("ls -A home/tmp/git 2>/dev/null || true"), "");
}

/// A git whose n-th call fails: instead of its work, or after it.
static void use_failing(bool after)
{
    rig_sh("printf '#!/bin/sh\\nn=$(cat %s/left); echo $((n - 1)) >%s/left\\n"
           "test $n -ne 1 || { %s echo fatal: injected >&2; exit 128; }\\nexec git \"$@\"\\n' "
           ">failing-git && chmod +x failing-git",
           rig.base, rig.base, after ? "git \"$@\" >/dev/null;" : "");
    rig_use(arena_printf(&rig.arena, "%s/failing-git", rig.base));
}

static void fail_at(int n)
{
    rig_sh("echo %d >left", n);
}

static bool has_failed(void)
{
    return atoi(rig_out("cat left")) <= 0;
}

TEST(whichever_command_fails_nothing_is_left_of_a_worktree)
{
    for (int after = 0; after < 2; after++) {
        int points = 0;
        begin();
        use_failing(after);
        const char *before = rig_state(rig.repo);
        for (int n = 1;; n++) {
            fail_at(n);
            int rc = rig_add_with(ask());
            if (!has_failed()) {
                CHECK_INT(rc, 0);
                break;
            }
            points++;
            if (rc == 0) { // one that may fail, such as to ask for settings
                CHECK_OK(rig_remove());
                CHECK_OK(rig_delete("afloat/bot-1", rig.added.start));
            }
            check_nothing_left();
            CHECK_STR(rig_state(rig.repo), before);
        }
        fprintf(stderr, "add, %s: %d points failed\n", after ? "after" : "instead", points);
        CHECK(points >= 8);
        rig_end();
    }
}

TEST(whichever_call_of_ours_fails_nothing_is_left_of_a_worktree)
{
    unsigned long points = 0;
    begin();
    const char *before = rig_state(rig.repo);
    for (unsigned long n = 1;; n++) {
        fault_at(n, EIO, false);
        int rc = rig_add_with(ask());
        unsigned long hits = fault_hits();
        fault_off();
        if (hits == 0) {
            CHECK_INT(rc, 0);
            break;
        }
        points += hits;
        rig_use(NULL); // a directory that could not be removed goes at the next start
        if (rc == 0) { // what could not be copied is a note
            CHECK_OK(rig_remove());
            CHECK_OK(rig_delete("afloat/bot-1", rig.added.start));
        }
        check_nothing_left();
        CHECK_STR(rig_state(rig.repo), before);
    }
    fprintf(stderr, "add: %lu calls failed\n", points);
    CHECK(points != 0);
    rig_end();
}

TEST(wherever_it_is_cancelled_nothing_is_left_of_a_worktree)
{
    int cancelled = 0, step = 7 / test_loops(1) + 1;
    begin();
    const char *before = rig_state(rig.repo);
    for (int turns = 0;; turns += step) {
        rig_start_add(ask());
        for (int i = 0; i < turns && rig.calls == 0; i++) {
            loop_run_once(&rig.loop, true);
        }
        if (rig.calls == 0) {
            git_cancel(rig.job);
            git_cancel(rig.job);
        }
        if (rig_wait() == 0) {
            break;
        }
        CHECK_INT(rig.status, UV_ECANCELED);
        cancelled++;
        check_nothing_left();
        CHECK_STR(rig_state(rig.repo), before);
    }
    fprintf(stderr, "add: cancelled in %d places\n", cancelled);
    CHECK(cancelled > 5);
    rig_end();
}

TEST(whichever_command_fails_no_work_is_lost)
{
    int points = 0;
    begin();
    CHECK_OK(rig_add_with(ask()));
    struct git_worktree w = rig_worktree();
    w.full_access = true; // the failing program is not to be had in a box
    use_failing(false);
    rig_sh("cd '%s' && git add -A && git commit -qm own && echo work >work && git checkout -q "
           "--detach",
           rig.dir);
    for (int n = 1;; n++) {
        fail_at(n);
        rig_commit_of(&w);
        int rc = rig_wait();
        bool failed = has_failed();
        points += failed;
        bool kept = rc == 0 && strcmp(rig_out("git -C repo show afloat/bot-1:work"), "work") == 0;
        CHECK(kept || (rc < 0 && rig_exists("home/worktrees/repo/bot-1/work")));
        if (!failed) {
            break;
        }
        rig_sh("cd '%s' && git update-ref refs/heads/afloat/bot-1 '%s' && git checkout -q --detach "
               "afloat/bot-1 && echo work >work",
               rig.dir, rig.added.start);
    }
    fprintf(stderr, "commit: %d points failed\n", points);
    CHECK(points >= 8);
    rig_end();
}

/// Whichever command fails, taking over is done whole or not at all.
static void check_take(int (*take)(void), bool after, bool merge)
{
    int points = 0;
    begin();
    rig_sh("%s", merge ? "cd repo && git add one new && git commit -qm mine" : "true");
    CHECK_OK(rig_add_with(ask()));
    rig_sh("cd '%s' && echo theirs >>two && echo added >added && rm sub/three", rig.dir);
    struct git_worktree w = rig_worktree();
    w.full_access = true;
    rig_commit_of(&w);
    CHECK_OK(rig_wait());
    CHECK_OK(rig_remove());
    rig_sh("%s", merge ? "cd repo && echo m >m && git add m && git commit -qm m" : "true");
    use_failing(after);
    const char *files =
        "cd repo && cat one two new && ls && git rev-parse HEAD && git diff --cached "
        "--name-status";
    const char *before = rig_out("%s", files);
    for (int n = 1;; n++) {
        fail_at(n);
        int rc = take();
        bool failed = has_failed();
        points += failed;
        if (rc == 0) {
            CHECK_STR(rig_out("cd repo && tail -n1 two && cat added && test ! -e sub/three"),
                      "theirs\nadded");
        } else if (strcmp(rig_out("%s", files), before) != 0) {
            // git did it and then said that it had not: it must be whole
            CHECK(after && merge);
            CHECK_STR(rig_out("cd repo && tail -n1 two && cat added && test ! -e sub/three"),
                      "theirs\nadded");
            break;
        }
        if (!failed) {
            CHECK_INT(rc, 0);
            break;
        }
        if (rc == 0) {
            rig_sh("cd repo && %s",
                   merge ? "git reset -q --hard HEAD^" : "git checkout -q two sub && rm added");
        }
    }
    fprintf(stderr, "%s, %s: %d points failed\n", merge ? "merge" : "apply",
            after ? "after" : "instead", points);
    CHECK(points >= 8);
    rig_end();
}

TEST(whichever_command_fails_apply_is_all_or_nothing)
{
    check_take(rig_apply, false, false);
}

TEST(whichever_command_fails_after_its_work_apply_is_all_or_nothing)
{
    check_take(rig_apply, true, false);
}

TEST(whichever_command_fails_merge_is_all_or_nothing)
{
    check_take(rig_merge, false, true);
}

TEST(whichever_command_fails_after_its_work_merge_is_all_or_nothing)
{
    check_take(rig_merge, true, true);
}

TEST(a_git_that_is_missing_says_so)
{
    rig_begin();
    rig_use("no-such-git");
    CHECK_INT(rig_look(rig.repo), ERR_UNSUPPORTED);
    CHECK(strstr(rig.err.msg, "is git installed?") != NULL);
    rig_end();
}

TEST(a_git_that_talks_too_much_is_stopped)
{
    rig_begin();
    rig_sh("printf '#!/bin/sh\\nexec yes\\n' >yes-git && chmod +x yes-git");
    rig_use(arena_printf(&rig.arena, "%s/yes-git", rig.base));
    CHECK_INT(rig_list(rig.repo), ERR_TOO_LARGE);
    rig_end();
}

TEST(a_git_that_hangs_is_ended)
{
    rig_begin();
    rig_sh("printf '#!/bin/sh\\ntrap \"\" TERM; echo $$ >>%s/pids; sleep 1000\\n' >slow-git && "
           "chmod +x slow-git",
           rig.base);
    rig.timeout_ms = 50;
    rig_use(arena_printf(&rig.arena, "%s/slow-git", rig.base));
    CHECK_INT(rig_look(rig.repo), ERR_TIMEOUT);
    CHECK_STR(rig_out("for p in $(cat pids); do test ! -d /proc/$p || echo alive; done"), "");
    rig_end();
}

TEST(closing_ends_what_is_under_way)
{
    begin();
    rig_start_add(ask());
    while (rig_out("ls home/tmp/git")[0] == '\0') {
        loop_run_once(&rig.loop, true);
    }
    git_close(rig.git);
    rig.git = NULL;
    CHECK_INT(rig_wait(), UV_ECANCELED);
    check_nothing_left();
    rig_end();
}

TEST(what_a_killed_hub_left_is_cleared)
{
    rig_begin();
    rig_sh("mkdir -p home/tmp/git/job-abc && touch home/tmp/git/job-abc/index");
    rig_use(NULL);
    CHECK_STR(rig_out("ls -A home/tmp/git"), "");
    rig_end();
}

TEST(many_worktrees_of_one_repository_at_once)
{
    enum { MANY = 20 };
    begin();
    char dir[MANY][512], branch[MANY][64];
    for (int i = 0; i < MANY; i++) {
        snprintf(dir[i], sizeof dir[i], "%s/home/worktrees/repo/many-%d", rig.base, i);
        snprintf(branch[i], sizeof branch[i], "afloat/many-%d", i);
        rig_start_more(&(struct git_add){.repo = rig.repo, .dir = dir[i], .branch = branch[i]});
    }
    rig_wait_more(MANY);
    CHECK_STR(rig_out("git -C repo branch --list 'afloat/many-*' | wc -l"), "20");
    CHECK_STR(rig_out("git -C repo fsck --no-dangling 2>&1; cat home/worktrees/repo/*/one | uniq"),
              "dirty");
    rig_end();
}
