// A worktree that begins with the user's state, and leaves the user's state as it is.

#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"
#include "unit/git/rig.h"

/// Add, and see that nothing of the user's has changed.
static void add_untouched(void)
{
    const char *before = rig_state(rig.repo);
    CHECK_OK(rig_add());
    CHECK_STR(rig_state(rig.repo), before);
    CHECK_STR(rig.added.dir, rig.dir);
    CHECK_STR(rig.added.base, rig_out("git -C repo rev-parse HEAD"));
    CHECK_STR(rig_out("git -C '%s' rev-parse HEAD", rig.dir), rig.added.start);
    CHECK_STR(rig_out("git -C '%s' symbolic-ref HEAD", rig.dir), "refs/heads/afloat/bot-1");
    CHECK_STR(rig_out("git -C '%s' status --porcelain --ignore-submodules=all", rig.dir), "");
    CHECK_STR(rig_out("git -C repo fsck --no-dangling 2>&1"), "");
}

/// Nothing is left of a worktree that did not come about.
static void check_nothing_left(void)
{
    CHECK_STR(rig_out("git -C repo for-each-ref refs/heads/afloat"), "");
    CHECK_STR(rig_out("ls -A repo/.git/worktrees 2>/dev/null || true"), "");
    CHECK_STR(rig_out("find home/worktrees -mindepth 2 2>/dev/null || true"), "");
}

TEST(a_clean_start_needs_no_commit)
{
    rig_begin();
    add_untouched();
    CHECK(!rig.added.dirty);
    CHECK_STR(rig.added.start, rig.added.base);
    CHECK_STR(rig.added.base_branch, "main");
    CHECK_INT(rig.added.notes.n, 0);
    rig_end();
}

TEST(a_dirty_start_is_a_commit_of_its_own)
{
    rig_begin();
    rig_sh("cd repo && echo more >>one && rm two && echo new >untracked && echo log >x.log");
    add_untouched();
    CHECK(rig.added.dirty);
    CHECK_STR(rig_out("git -C repo rev-parse '%s^'", rig.added.start), rig.added.base);
    CHECK_STR(rig_out("git -C repo log -1 --format='%%(trailers:key=Afloat-Start,valueonly)' '%s'",
                      rig.added.start),
              "yes\n");
    CHECK_STR(rig_out("git -C repo log -1 --format='%%an %%ae' '%s'", rig.added.start),
              "The User user@example.org");
    CHECK_STR(rig_out("cd '%s' && cat one untracked && ls", rig.dir),
              "one\nmore\nnew\none\nsub\nuntracked");
    rig_end();
}

TEST(every_kind_of_change_is_taken_along)
{
    rig_begin();
    rig_sh("cd repo && echo x >exec && git add exec && git commit -qm exec\n"
           "echo staged >staged && git add staged && echo then >>staged\n"
           "git mv one moved && chmod +x exec && ln -s sub/three link && ln -s nowhere broken\n"
           "git add -N two && echo intent >intent && git add -N intent\n"
           "rm sub/three && ln -s ../two sub/three && mkdir empty && echo bin | tr b '\\0' >bin");
    add_untouched();
    CHECK(rig.added.dirty);
    CHECK_STR(
        rig_out("cd '%s' && ls && cat staged moved intent && readlink link broken sub/three "
                "&& test -x exec && cmp bin '%s/bin' && echo same",
                rig.dir, rig.repo),
        "bin\nbroken\nexec\nintent\nlink\nmoved\nstaged\nsub\ntwo\nstaged\nthen\none\nintent\n"
        "sub/three\nnowhere\n../two\nsame");
    rig_end();
}

TEST(names_of_any_bytes_are_taken_along)
{
    rig_begin();
    rig_sh("cd repo\n"
           "for n in 'new\nline' 'quote\"d' \"it's\" ' space ' '-dash' 'back\\slash' '*?[' "
           "\"$(printf '\\377\\376')\" \"$(printf 'tab\\there')\" 'ü' ':(top)x'; do\n"
           "    mkdir -p -- \"./d$n\" && echo \"$n\" >\"./d$n/$n\" && echo \"$n\" >\"./$n\"\ndone");
    add_untouched();
    CHECK_STR(rig_out("diff -r --exclude=.git repo '%s' && echo same", rig.dir), "same");
    rig_end();
}

TEST(an_unmerged_index_stays_unmerged)
{
    rig_begin();
    rig_sh("cd repo && git switch -qc side && echo side >one && git commit -qam side && "
           "git switch -q main && echo main >one && git commit -qam main && ! git merge -q side");
    add_untouched();
    CHECK(rig.added.dirty);
    CHECK_STR(rig_out("cmp repo/one '%s/one' && git -C repo ls-files -u | wc -l", rig.dir), "3");
    rig_end();
}

TEST(works_from_a_linked_worktree_and_a_detached_head)
{
    rig_begin();
    rig_sh("cd repo && git worktree add -q --detach ../linked && echo dirty >../linked/one");
    const char *linked = arena_printf(&rig.arena, "%s/linked", rig.base);
    const char *before = rig_state(linked), *main_before = rig_state(rig.repo);
    CHECK_OK(
        rig_add_with(&(struct git_add){.repo = linked, .dir = rig.dir, .branch = "afloat/bot-1"}));
    CHECK_STR(rig_state(linked), before);
    CHECK_STR(rig_state(rig.repo), main_before);
    CHECK_STR(rig.added.base_branch, "");
    CHECK_STR(rig.added.root, linked);
    CHECK_STR(rig.added.common, arena_printf(&rig.arena, "%s/repo/.git", rig.base));
    CHECK_STR(rig_out("cat '%s/one'", rig.dir), "dirty");
    rig_end();
}

TEST(submodules_and_repositories_inside_are_told)
{
    rig_begin();
    rig_sh("cp -r repo lib && cd repo && git -c protocol.file.allow=always submodule add -q ../lib "
           "lib && git commit -qm lib\n"
           "cp -r ../lib nested && git init -q nested-empty && echo x >nested-empty/x");
    add_untouched();
    CHECK(!rig.added.dirty);
    CHECK(rig_has(&rig.added.notes, "submodules are not checked out in the worktree"));
    CHECK(rig_has(&rig.added.notes,
                  "the repository 'nested' is not in the worktree: git does not track it"));
    CHECK_STR(rig_out("ls -A '%s/lib'; ls '%s'", rig.dir, rig.dir), "lib\none\nsub\ntwo");
    rig_end();
}

TEST(works_inside_a_submodule)
{
    rig_begin();
    rig_sh("cp -r repo lib && cd repo && git -c protocol.file.allow=always submodule add -q ../lib "
           "lib && git commit -qm lib && echo dirty >lib/one");
    const char *lib = arena_printf(&rig.arena, "%s/lib", rig.repo), *before = rig_state(lib);
    CHECK_OK(
        rig_add_with(&(struct git_add){.repo = lib, .dir = rig.dir, .branch = "afloat/bot-1"}));
    CHECK_STR(rig_state(lib), before);
    CHECK_STR(rig_out("cat '%s/one'", rig.dir), "dirty");
    rig_end();
}

TEST(a_sparse_checkout_gives_a_sparse_worktree)
{
    rig_begin();
    rig_sh("cd repo && mkdir far && echo far >far/away && git add -A && git commit -qm far && "
           "git sparse-checkout set sub && test ! -e far && echo new >sub/new");
    const char *before = rig_state(rig.repo);
    CHECK_OK(rig_add());
    CHECK_STR(rig_state(rig.repo), before);
    CHECK(rig.added.dirty);
    CHECK_STR(rig_out("git -C repo ls-tree -r --name-only '%s'", rig.added.start),
              ".gitignore\nfar/away\none\nsub/new\nsub/three\ntwo");
    rig_end();
}

TEST(line_endings_are_the_users_business)
{
    rig_begin();
    rig_sh("cd repo && printf '*.txt text eol=crlf\\n' >.gitattributes && printf 'a\\r\\nb\\r\\n' "
           ">f.txt && git add -A && git commit -qm crlf && printf 'c\\r\\n' >>f.txt");
    add_untouched();
    CHECK(rig.added.dirty);
    CHECK_STR(rig_out("cmp repo/f.txt '%s/f.txt' && echo same", rig.dir), "same");
    rig_end();
}

TEST(a_repository_without_commits_is_refused_with_the_way_out)
{
    rig_begin();
    rig_sh("git init -q empty && git init -q --bare bare.git");
    const char *repos[] = {"empty", "bare.git"};
    for (size_t i = 0; i < ARRAY_LEN(repos); i++) {
        char *path = path_join(rig.base, repos[i]);
        CHECK_INT(
            rig_add_with(&(struct git_add){.repo = path, .dir = rig.dir, .branch = "afloat/bot-1"}),
            ERR_UNSUPPORTED);
        CHECK(strstr(rig.err.msg, i == 0 ? "git commit --allow-empty" : "git worktree add"));
        free(path);
    }
    check_nothing_left();
    rig_end();
}

TEST(a_branch_that_is_there_stays_as_it_is)
{
    rig_begin();
    rig_sh("git -C repo branch afloat/bot-1");
    const char *before = rig_out("git -C repo rev-parse afloat/bot-1");
    CHECK_INT(rig_add(), ERR_CONFLICT);
    CHECK_STR(rig_out("git -C repo rev-parse afloat/bot-1"), before);
    CHECK(!rig_exists("home/worktrees/repo/bot-1"));
    rig_sh("git -C repo branch -D afloat/bot-1 && mkdir -p '%s' && touch '%s/mine'", rig.dir,
           rig.dir);
    CHECK_INT(rig_add(), ERR_CONFLICT);
    CHECK(rig_exists("home/worktrees/repo/bot-1/mine"));
    CHECK_STR(rig_out("git -C repo branch --list 'afloat/*'"), "");
    rig_end();
}

TEST(a_branch_can_be_taken_up_again)
{
    rig_begin();
    rig_need_box();
    CHECK_OK(rig_add());
    rig_sh("cd '%s' && echo work >work && git add work && git commit -qm work", rig.dir);
    CHECK_OK(rig_commit());
    CHECK_OK(rig_remove());
    rig_sh("git -C repo pack-refs --all --prune");
    struct git_add again = {
        .repo = rig.repo, .dir = rig.dir, .branch = "afloat/bot-1", .from = GIT_FROM_BRANCH};
    CHECK_OK(rig_add_with(&again));
    CHECK_STR(rig_out("cat '%s/work'", rig.dir), "work");
    again.dir = arena_printf(&rig.arena, "%s-2", rig.dir);
    CHECK_INT(rig_add_with(&again), ERR_CONFLICT); // checked out already
    CHECK(!rig_exists("home/worktrees/repo/bot-1-2"));
    CHECK_STR(rig_out("git -C repo rev-parse afloat/bot-1^{tree} >/dev/null && echo there"),
              "there");
    again.branch = "afloat/never";
    CHECK_INT(rig_add_with(&again), ERR_NOT_FOUND);
    rig_end();
}

TEST(a_worktree_can_begin_at_a_commit)
{
    rig_begin();
    rig_sh("cd repo && echo 2 >one && git commit -qam second && echo dirty >one");
    struct git_add at = {.repo = rig.repo,
                         .dir = rig.dir,
                         .branch = "afloat/bot-1",
                         .from = GIT_FROM_COMMIT,
                         .base = "HEAD~1"};
    CHECK_OK(rig_add_with(&at));
    CHECK(!rig.added.dirty);
    CHECK_STR(rig_out("cat '%s/one'", rig.dir), "one");
    at.base = "--help";
    at.branch = "afloat/bot-2";
    at.dir = arena_printf(&rig.arena, "%s-2", rig.dir);
    CHECK_INT(rig_add_with(&at), ERR_NOT_FOUND);
    rig_end();
}

TEST(ignored_files_are_copied_and_linked_as_asked)
{
    static const char *const include[] = {".env", "build/*.cfg", NULL};
    static const char *const link[] = {"modules", "one", "../out", "missing", NULL};
    rig_begin();
    rig_sh("cd repo && echo modules/ >>.gitignore && git commit -qam ignore\n"
           "echo secret >.env && chmod 600 .env && echo deep >sub/.env && echo x >x.log\n"
           "mkdir -p build modules/m && echo c >build/a.cfg && echo o >build/b.o && echo m "
           ">modules/m/f");
    const char *before = rig_state(rig.repo);
    CHECK_OK(rig_add_with(&(struct git_add){.repo = rig.repo,
                                            .dir = rig.dir,
                                            .branch = "afloat/bot-1",
                                            .include = include,
                                            .link = link}));
    CHECK_STR(rig_state(rig.repo), before);
    CHECK_STR(
        rig_out("cd '%s' && cat .env sub/.env build/a.cfg modules/m/f one && stat -c %%a .env "
                "&& ls build && readlink modules",
                rig.dir),
        arena_printf(&rig.arena, "secret\ndeep\nc\nm\none\n600\na.cfg\n%s/modules", rig.repo));
    CHECK(rig_has(&rig.added.notes, "'../out' is not a path below the root; it was not linked"));
    CHECK(!rig_exists("home/worktrees/repo/out"));
    rig_end();
}

TEST(hooks_and_monitors_of_a_repository_are_not_run)
{
    rig_begin();
    rig_sh(
        "cd repo && for h in post-checkout reference-transaction pre-commit post-index-change; "
        "do printf '#!/bin/sh\\ntouch %s/canary\\n' >.git/hooks/$h; chmod +x .git/hooks/$h; done\n"
        "printf '#!/bin/sh\\ntouch %s/canary\\n' >../monitor; chmod +x ../monitor\n"
        "git config core.fsmonitor '%s/monitor' && git config commit.gpgSign true && "
        "git config gpg.program '%s/monitor'",
        rig.base, rig.base, rig.base, rig.base);
    rig_sh("rm -f canary; echo dirty >repo/one");
    CHECK_OK(rig_add());
    CHECK(rig.added.dirty);
    CHECK(!rig_exists("canary"));
    rig_end();
}

TEST(without_a_name_commits_are_ours)
{
    rig_begin();
    rig_sh("git config --global --unset user.name && git config --global --unset user.email && "
           "git config --global user.useConfigOnly true && echo dirty >repo/one");
    CHECK_OK(rig_add());
    CHECK_STR(rig_out("git -C repo log -1 --format='%%an %%ae %%cn %%ce' '%s'", rig.added.start),
              "afloat afloat@localhost afloat afloat@localhost");
    rig_end();
}

TEST(a_file_changed_in_the_same_moment_as_the_index_is_seen)
{
    rig_begin();
    // same size, same time as the index has noted: only the index's own time tells
    rig_sh("cd repo && printf aaa >racy && git add racy && git commit -qm racy\n"
           "printf aaa >racy && touch -d '2026-01-01 00:00:00' racy && git add racy\n"
           "touch -d '2026-01-01 00:00:00' .git/index\n"
           "printf bbb >racy && touch -d '2026-01-01 00:00:00' racy");
    rig_sh("cd repo && git config core.trustctime false");
    CHECK_OK(rig_add());
    CHECK_STR(rig_out("cat '%s/racy'", rig.dir), "bbb");
    rig_end();
}

TEST(a_split_index_stays_whole)
{
    rig_begin();
    rig_sh("cd repo && git config core.splitIndex true && git update-index --split-index && "
           "echo dirty >one && for i in $(seq 1 50); do echo new >new$i; done");
    add_untouched();
    CHECK_STR(rig_out("cat '%s/one' '%s/new50'", rig.dir, rig.dir), "dirty\nnew");
    rig_end();
}

TEST(a_file_that_cannot_be_read_is_a_note)
{
    rig_begin();
    if (geteuid() == 0) {
        rig_sh("cd repo && git init -q hollow && echo dirty >one"); // no commit: add says error
    } else {
        rig_sh("cd repo && echo x >closed && chmod 0 closed && echo dirty >one");
    }
    CHECK_OK(rig_add());
    CHECK(rig.added.notes.n == 1);
    CHECK_STR(rig_out("cat '%s/one'", rig.dir), "dirty");
    rig_end();
}

static double elapsed_ms(uint64_t since)
{
    return (double)(uv_hrtime() - since) / 1e6;
}

TEST(the_start_takes_little_longer_than_git_itself)
{
    enum { FILES = 1000 }; // 5,000 in `bench/run bots-start`
    double best[2] = {1e9, 1e9};
    rig_begin();
    rig_sh("cd repo && for d in $(seq 1 %d); do mkdir d$d; for f in $(seq 1 100); do echo \"$d $f "
           "some "
           "text of a file\" >d$d/f$f; done; done; git add -A; git commit -qm many",
           FILES / 100);
    for (int i = 0; i < test_loops(1); i++) {
        uint64_t begin = uv_hrtime();
        rig_sh("git -C repo worktree add -q -b plain ../plain");
        best[0] = MIN(best[0], elapsed_ms(begin));
        rig_sh("git -C repo worktree remove --force ../plain && git -C repo branch -qD plain");
        begin = uv_hrtime();
        CHECK_OK(rig_add());
        best[1] = MIN(best[1], elapsed_ms(begin));
        CHECK_OK(rig_remove());
        CHECK_OK(rig_delete("afloat/bot-1", rig.added.start));
    }
    fprintf(stderr, "%d files: git %.0f ms, ours %.0f ms, ratio %.2f\n", FILES, best[0], best[1],
            best[1] / best[0]);
    CHECK(best[1] < best[0] * 4 + 500); // says that nothing grows with the files, on a busy machine
    rig_end();
}
