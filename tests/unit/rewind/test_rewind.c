// Going back: what tools and commands did to files is undone byte for byte, and nothing of the user's is.

#include <sys/stat.h>
#include <unistd.h>

#include "rewind/rewind.h"
#include "unit/git/rig.h"

static struct rewind *rewind_hub;
static struct rewind_session *session;
static int calls;
static const char *note;
static int turns;

struct outcome {
    int status;
    char message[300];
    char files
        [4000]; // "path" or "-path" for a deletion, "!" before a conflict; from the repository, one a line
    char not_kept[2000];
};
static struct outcome outcome;

static void open_session(uint64_t max_bytes)
{
    char *dir = xasprintf("%s/home/session", rig.base);
    rig_sh("mkdir -p home/session");
    rewind_hub = rewind_open(&rig.loop);
    rewind_set_git(rewind_hub, rig.git);
    session = rewind_session_open(rewind_hub, dir, rig.repo, max_bytes);
    free(dir);
}

static void close_session(void)
{
    rewind_session_close(session);
    rewind_close(rewind_hub);
    session = NULL;
    loop_run(&rig.loop);
}

static void begin(void)
{
    rig_begin();
    turns = 0;
    open_session(512 << 20);
}

static void end(void)
{
    close_session();
    rig_end();
}

static void on_ready(void *arg, const char *said)
{
    (void)arg;
    calls++;
    note = said != NULL ? arena_strdup(&rig.arena, str_of(said)) : NULL;
}

static void wait_for(int n)
{
    while (calls < n) {
        loop_run_once(&rig.loop, true);
    }
}

static const char *turn_name(int n)
{
    return arena_printf(&rig.arena, "t%d", n);
}

/// A turn whose command is `script`, run in the repository.
static void command(const char *script)
{
    const char *turn = turn_name(++turns);
    calls = 0;
    rewind_turn(session, turn, turns, str_of(script));
    struct rewind_call *c = rewind_before(session, turn, NULL, on_ready, NULL);
    wait_for(1);
    rig_sh("cd repo\n%s", script);
    rewind_after(c, on_ready, NULL);
    wait_for(2);
}

/// A turn whose tool writes `path` (in the repository) by `script`.
static void tool(const char *path, const char *script)
{
    const char *turn = turn_name(++turns);
    const char *paths[] = {arena_printf(&rig.arena, "%s/%s", rig.repo, path), NULL};
    calls = 0;
    rewind_turn(session, turn, turns, str_of(script));
    struct rewind_call *c = rewind_before(session, turn, paths, on_ready, NULL);
    wait_for(1);
    rig_sh("cd repo\n%s", script);
    rewind_after(c, on_ready, NULL);
    wait_for(2);
}

static void on_restored(void *arg, int status, const struct err *e, const struct rewind_result *r)
{
    struct buf files, lines;
    (void)arg;
    calls++;
    buf_init(&files, SIZE_MAX);
    buf_init(&lines, SIZE_MAX);
    outcome = (struct outcome){.status = status};
    snprintf(outcome.message, sizeof outcome.message, "%s", e != NULL ? e->msg : "");
    for (size_t i = 0; i < r->n_files; i++) {
        buf_addf(&files, "%s%s%s\n", r->files[i].conflict ? "!" : "",
                 r->files[i].deletes ? "-" : "", r->files[i].path + strlen(rig.repo) + 1);
    }
    for (size_t i = 0; i < r->not_kept.n; i++) {
        buf_addf(&lines, "%s\n", r->not_kept.p[i]);
    }
    snprintf(outcome.files, sizeof outcome.files, "%s", buf_z(&files));
    snprintf(outcome.not_kept, sizeof outcome.not_kept, "%s", buf_z(&lines));
    buf_fini(&files);
    buf_fini(&lines);
}

static int go_back(const char *to, bool dry_run, bool force)
{
    struct rewind_wish wish = {.to = to,
                               .id = arena_printf(&rig.arena, "r%d", ++turns),
                               .dry_run = dry_run,
                               .force = force};
    calls = 0;
    rewind_restore(session, &wish, on_restored, NULL);
    wait_for(1);
    return outcome.status;
}

/// Files with modes, targets and contents; no times.
static const char *tree(void)
{
    return rig_out("cd repo\n"
                   "find . -name .git -prune -o -printf '%%p %%y %%m %%l\\n' | sort\n"
                   "find . -name .git -prune -o -type f -print0 | sort -z | xargs -0r sha256sum\n");
}

static void check_back(const char *to, const char *before)
{
    if (go_back(to, false, false) != 0) {
        test_fail(__FILE__, __LINE__, "rewind failed: %s\n%s", outcome.message, outcome.files);
    }
    CHECK_STR(tree(), before);
}

// ---- file tools ---------------------------------------------------------------------------------

TEST(files_that_tools_wrote_go_back)
{
    begin();
    const char *first = tree();
    tool("one", "echo changed >one");
    const char *second = tree();
    tool("new/deep/file", "mkdir -p new/deep; echo new >new/deep/file; chmod 755 new/deep/file");
    tool("two", "rm two");
    check_back("t2", second);
    CHECK_STR(outcome.files, "-new/deep/file\ntwo\n");
    check_back("t1", first);
    CHECK_INT(go_back("t1", false, false), 0); // a second time there is nothing to do
    CHECK_STR(outcome.files, "");
    end();
}

TEST(a_rewind_can_be_taken_back)
{
    begin();
    const char *first = tree();
    tool("one", "echo changed >one");
    tool("three", "echo three >three");
    const char *last = tree();
    check_back("t1", first);
    check_back("r3", last);
    check_back("t1", first);
    end();
}

TEST(a_file_that_somebody_changed_since_is_a_conflict)
{
    begin();
    tool("one", "echo changed >one");
    tool("two", "echo changed >two");
    rig_sh("echo mine >repo/one");
    const char *before = tree();
    CHECK_INT(go_back("t1", false, false), ERR_CONFLICT);
    CHECK_STR(outcome.files, "!one\ntwo\n");
    CHECK_STR(tree(), before);
    CHECK_INT(go_back("t1", true, false), 0); // a dry run tells and changes nothing
    CHECK_STR(outcome.files, "!one\ntwo\n");
    CHECK_STR(tree(), before);
    CHECK_INT(go_back("t1", false, true), 0);
    CHECK_STR(rig_out("cat repo/one repo/two"), "one\ntwo");
    CHECK_INT(go_back("r5", false, false), 0); // what was overwritten is kept
    CHECK_STR(tree(), before);
    end();
}

TEST(an_edit_of_the_user_before_the_turn_is_not_touched)
{
    begin();
    rig_sh("echo mine >repo/one");
    const char *before = tree();
    command("echo theirs >>one; echo theirs >two");
    rig_sh("echo later >repo/sub/three");
    CHECK_INT(go_back("t1", false, false), 0);
    CHECK_STR(outcome.files, "one\ntwo\n");
    rig_sh("echo three >repo/sub/three");
    CHECK_STR(tree(), before);
    end();
}

// ---- commands -----------------------------------------------------------------------------------

TEST(what_commands_did_goes_back)
{
    static const char *const scripts[] = {
        "echo changed >one",
        "rm one; rm -r sub",
        "mv one renamed; mkdir d; mv two d/two",
        "chmod 755 one",
        "ln -s one link; rm two; ln -s sub/three two",
        "rm -r sub; ln -s /nowhere sub",
        "printf 'a\\0b\\n' >binary; : >empty; mkdir empty-directory; echo x >'name with spaces'",
        "echo secret >.env; mkdir -p build; echo big >build/out; echo noise >a.log",
        "printf 'x' >\"$(printf 'bad\\377name')\"",
        "rm .gitignore; echo one >two",
        "git config user.name x; echo staged >one; git add one; git commit -qm second; echo more "
        ">one",
        "git rm -q one two; git commit -qm gone",
    };
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        begin();
        rig_sh("cd repo; echo mine >untracked; echo mine >>sub/three; echo old >.env; mkdir build; "
               "echo "
               "keep >build/mine");
        const char *before = rig_out("cd repo; rm -rf build; true") != NULL ? tree() : NULL;
        command(scripts[i]);
        CHECK(note == NULL);
        CHECK_INT(go_back("t1", false, false), 0);
        rig_sh("cd repo; rm -rf build empty-directory");
        if (strcmp(tree(), before) != 0) {
            test_fail(__FILE__, __LINE__, "after '%s':\n%s\nbefore:\n%s", scripts[i], tree(),
                      before);
        }
        end();
    }
}

TEST(a_file_and_a_directory_of_one_name_follow_each_other)
{
    static const char *const scripts[] = {
        "echo x >new", "rm new; mkdir -p new/deep; echo x >new/deep/file; echo x >new/other",
        "rm one; mkdir one; echo x >one/file", "rm -r one new; echo y >one; echo y >new",
        "rm one; mkdir one"};
    const char *states[ARRAY_LEN(scripts) + 1];
    for (size_t to = 0; to < ARRAY_LEN(scripts); to++) {
        begin();
        for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
            states[i] = tree();
            command(scripts[i]);
            CHECK(note == NULL);
        }
        check_back(turn_name((int)to + 1), states[to]);
        end();
    }
}

TEST(a_directory_with_other_files_in_it_is_a_conflict)
{
    begin();
    command("rm one; mkdir one; echo x >one/file");
    rig_sh("mkdir repo/one/deep; echo mine >repo/one/deep/mine");
    const char *before = tree();
    CHECK_INT(go_back("t1", false, false), ERR_CONFLICT);
    CHECK_STR(outcome.files, "!one\n-one/file\n");
    CHECK_STR(tree(), before);
    end();
}

TEST(a_private_file_stays_private)
{
    begin();
    rig_sh("cd repo; chmod 600 one; chmod 700 two; git config core.filemode true; git add two; git "
           "commit -qm two");
    const char *before = tree();
    command("echo changed >one; echo changed >two");
    check_back("t1", before);
    command("echo changed >two; chmod 640 two");
    CHECK_INT(go_back("t3", false, false), 0);
    CHECK_STR(rig_out("cd repo; cat two; stat -c %%a one two"),
              rig_out("cd repo; git show HEAD:two; "
                      "echo 600; echo 755"));
    end();
}

TEST(commands_of_several_turns_go_back_one_by_one)
{
    const char *states[6];
    begin();
    for (int i = 0; i < 5; i++) {
        states[i] = tree();
        command(arena_printf(&rig.arena, "echo %d >>one; echo %d >new-%d; rm -f new-%d", i, i, i,
                             i - 1));
    }
    states[5] = tree();
    for (int i = 4; i >= 0; i--) {
        check_back(turn_name(i + 1), states[i]);
    }
    check_back("r6", states[5]);
    end();
}

TEST(tools_and_commands_go_back_together)
{
    begin();
    const char *first = tree();
    tool("one", "echo a >one");
    command("echo b >>one; echo c >two");
    const char *third = tree();
    tool("two", "echo d >>two");
    command("rm one");
    check_back("t3", third);
    check_back("t1", first);
    end();
}

TEST(line_ends_and_filters_of_a_checkout_come_back)
{
    begin();
    rig_sh("cd repo; echo '*.txt text eol=crlf' >.gitattributes; printf 'a\\r\\nb\\r\\n' >x.txt; "
           "git add -A; "
           "git commit -qm eol");
    const char *before = tree();
    command("rm x.txt");
    check_back("t1", before);
    end();
}

TEST(the_users_repository_stays_as_it_is)
{
    begin();
    rig_sh("cd repo; echo staged >one; git add one; echo more >>one; echo u >untracked");
    const char *before = rig_state(rig.repo);
    command("true");
    command("true");
    command("true");
    CHECK_STR(rig_state(rig.repo), before);
    end();
}

TEST(an_unchanged_checkout_is_not_looked_at_again)
{
    rig_begin();
    rig_sh("printf '#!/bin/sh\\necho x >>%s/asked\\nexec git \"$@\"\\n' >counting; chmod 755 "
           "counting; : >asked",
           rig.base);
    rig_use(arena_printf(&rig.arena, "%s/counting", rig.base));
    turns = 0;
    open_session(512 << 20);
    command("true"); // arms the wire
    command("true"); // looks once more: from here on the wire is sure
    const char *asked = rig_out("wc -l <asked");
    command("true");
    CHECK_STR(rig_out("wc -l <asked"), asked);
    rig_sh("echo mine >repo/one");
    const char *before = tree();
    command("echo theirs >one");
    CHECK(strcmp(rig_out("wc -l <asked"), asked) != 0);
    check_back("t4", before);
    end();
}

TEST(outside_of_a_checkout_it_says_what_is_not_kept)
{
    begin();
    rig_sh("rm -rf repo/.git");
    command("echo changed >one");
    CHECK(note != NULL);
    CHECK_INT(go_back("t1", false, false), 0);
    CHECK_STR(outcome.files, "");
    CHECK_STR(outcome.not_kept, "what its commands changed\n");
    CHECK_STR(rig_out("cat repo/one"), "changed");
    end();
}

TEST(a_large_file_is_named_as_not_kept)
{
    begin();
    rig_sh("head -c 17000000 /dev/zero >repo/large");
    command("echo x >>large; echo x >one");
    CHECK_INT(go_back("t1", false, false), 0);
    CHECK_STR(outcome.files, "one\n");
    CHECK_STR(outcome.not_kept, arena_printf(&rig.arena, "%s/large\n", rig.repo));
    end();
}

// ---- what goes wrong ----------------------------------------------------------------------------

TEST(a_command_that_a_kill_interrupted_is_settled_later)
{
    begin();
    rig_sh("echo mine >>repo/two");
    const char *before = tree();
    calls = 0;
    rewind_turn(session, "t1", 1, STR("x"));
    struct rewind_call *c = rewind_before(session, "t1", NULL, on_ready, NULL);
    wait_for(1);
    rig_sh("cd repo; echo half >one; echo half >>two; echo half >new");
    // another hub knows only the files that a killed one leaves
    struct rewind_session *killed = session;
    rig_sh("cp -r home/session home/left");
    char *dir = xasprintf("%s/home/left", rig.base);
    session = rewind_session_open(rewind_hub, dir, rig.repo, 512 << 20);
    free(dir);
    check_back("t1", before);
    calls = 0;
    rewind_after(c, on_ready, NULL);
    wait_for(1);
    rewind_session_close(killed);
    end();
}

TEST(a_torn_line_loses_nothing_but_itself)
{
    begin();
    const char *before = tree();
    tool("one", "echo changed >one");
    rig_sh("printf '{\"turn\":\"t9\",\"chan' >>home/session/rewind.jsonl");
    tool("two", "echo changed >two");
    check_back("t1", before);
    end();
}

TEST(a_damaged_content_is_told_and_the_rest_comes_back)
{
    begin();
    tool("one", "echo changed >one");
    tool("two", "echo changed >two");
    rig_sh("cd home/session/kept; for f in *; do grep -q one $f && echo x >>$f; done; true");
    CHECK_INT(go_back("t1", false, false), ERR_CORRUPT);
    CHECK(strstr(outcome.message, "/one' was not restored") != NULL);
    CHECK_STR(rig_out("cat repo/one repo/two"), "changed\ntwo");
    end();
}

TEST(a_link_put_in_the_way_leads_nowhere)
{
    begin();
    tool("sub/three", "echo changed >sub/three");
    rig_sh("mkdir outside; echo safe >outside/three; rm -r repo/sub; ln -s ../outside repo/sub");
    CHECK(go_back("t1", false, true) != 0);
    CHECK_STR(rig_out("cat outside/three"), "safe");
    end();
}

TEST(what_is_not_kept_any_more_is_refused)
{
    begin();
    close_session();
    open_session(100000);
    rig_sh("head -c 90000 /dev/zero >repo/a; head -c 90001 /dev/zero >repo/b");
    tool("a", "echo x >a");
    tool("b", "echo x >b");
    CHECK_INT(go_back("t1", false, false), ERR_NOT_FOUND);
    CHECK(strstr(outcome.message, "checkpoint_mb") != NULL);
    CHECK_INT(go_back("t2", false, false), 0);
    CHECK_INT(go_back("nowhere", false, false), ERR_NOT_FOUND);
    end();
}
