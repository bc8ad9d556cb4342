// What a policy becomes: rules, and answers for tools that run in the hub.

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "loop/launch.h"
#include "unit/sandbox/boxed.h"

static struct box *open_box(void)
{
    struct box *b = NULL;
    struct err e = {0};
    if (box_new(&b, &boxed.policy, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    return b;
}

static void check_refused(const char *says)
{
    struct box *b = NULL;
    struct err e = {0};
    CHECK_INT(box_new(&b, &boxed.policy, &e), ERR_DENIED);
    CHECK(b == NULL);
    if (strstr(e.msg, says) == NULL) {
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", e.msg, says);
    }
}

TEST(modes_have_names)
{
    enum box_mode mode;
    CHECK(box_mode_parse(STR("workspace-write"), &mode) && mode == BOX_WORKSPACE_WRITE);
    CHECK(box_mode_parse(STR("read-only"), &mode) && mode == BOX_READ_ONLY);
    CHECK(!box_mode_parse(STR("none"), &mode));
    CHECK_STR(box_mode_name(BOX_FULL_ACCESS), "danger-full-access");
}

TEST(a_moved_directory_does_not_count_as_a_kernel_without_sandbox)
{
    struct err e = {0};
    CHECK_INT(box_explain(LAUNCH_NO_MOUNT, ENOENT, BOX_INSTEAD, &e), ERR_CONFLICT);
    CHECK(strstr(e.msg, "moved or replaced") != NULL && strstr(e.msg, "nothing was run") != NULL);
    CHECK_INT(box_explain(LAUNCH_NO_MOUNT, EPERM, BOX_INSTEAD, &e), ERR_UNSUPPORTED);
}

TEST(questions_are_answered_by_the_innermost_rule)
{
    static const struct {
        const char *path;
        bool read, write;
    } rows[] = {
        {"ws", true, true},
        {"ws/a/b", true, true},
        {"wsx", true, false},
        {"outside/safe", true, false},
        {"ws/.git", true, false},
        {"ws/.git/hooks/x", true, false},
        {"ws/.gitignore", true, true},
        {"ws/.afloat/env.toml", true, false},
        {"ws/deep/.git/config", true, false},
        {"home/token", false, false},
        {"home/secrets.json", false, false},
        {"home/sessions/s/events.jsonl", false, false},
        {"home/plugins/p.lua", true, false},
        {"home/run/hub.sock", false, false},
        {"hidden", false, false},
        {"hidden/key", false, false},
        {"hiddenx", true, false},
    };
    boxed_begin(true);
    boxed_save("ws/.git/config", "");
    struct box *b = open_box();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *path = boxed_path(rows[i].path), *why = NULL;
        if (box_may_read(b, path, &why) != rows[i].read ||
            box_may_write(b, path, &why) != rows[i].write) {
            test_fail(__FILE__, __LINE__, "%s: %s", rows[i].path, why != NULL ? why : "both");
        }
    }
    box_free(b);
    boxed.policy.mode = BOX_READ_ONLY;
    b = open_box();
    CHECK(!box_may_write(b, boxed_path("ws/a"), NULL) && box_may_read(b, boxed_path("ws/a"), NULL));
    box_free(b);
    boxed.policy.mode = BOX_FULL_ACCESS;
    b = open_box();
    CHECK(box_rules(b) == NULL && box_network(b));
    CHECK(box_may_write(b, boxed_path("home/token"), NULL));
    box_free(b);
    boxed_end();
}

TEST(directories_that_are_not_for_writing_are_refused)
{
    boxed_begin(true);
    boxed_save("ws/.git/x/y", "");
    boxed_save("home/worktrees/slug/bot-1/f", "");
    boxed.policy.working_dir = boxed_path("ws/.git/x");
    check_refused("tools may not write");
    boxed.policy.working_dir = boxed_path("home/plugins");
    check_refused("tools may not write");
    static const char *const bare[] = {"bare.git", "bare.git/hooks"};
    boxed_save("bare.git/HEAD", "ref: refs/heads/main\n");
    boxed_save("bare.git/objects/x", "");
    boxed_save("bare.git/refs/heads/main", "");
    boxed_save("bare.git/hooks/x", "");
    for (size_t i = 0; i < ARRAY_LEN(bare); i++) { // what git runs for the user is in there
        const char *why;
        boxed.policy.working_dir = boxed_path(bare[i]);
        check_refused("tools may not write");
        CHECK_INT(box_choose_mode(BOX_WORKSPACE_WRITE, boxed_path(bare[i]), boxed.home, &why),
                  BOX_READ_ONLY);
        CHECK(strstr(why, "bare repository") != NULL);
    }
    boxed.policy.working_dir = boxed.hidden;
    check_refused("hidden");
    boxed.policy.working_dir = "/";
    check_refused("'/'");
    boxed.policy.working_dir = boxed_path("home/worktrees/slug/bot-1");
    struct box *b = open_box();
    CHECK(box_may_write(b, boxed_path("home/worktrees/slug/bot-1/f"), NULL));
    CHECK(!box_may_read(b, boxed_path("home/worktrees/slug/bot-2/f"), NULL));
    box_free(b);
    boxed_end();
}

TEST(a_worktree_in_the_home_of_afloat_can_be_worked_in)
{
    boxed_begin(true);
    boxed_save("home/worktrees/slug/bot-1/f", "");
    boxed_save("home/worktrees/slug/bot-2/f", "");
    snprintf(boxed.ws, sizeof boxed.ws, "%s", boxed_path("home/worktrees/slug/bot-1"));
    CHECK_INT(boxed_run("echo x > f && ! ls ../bot-2 && ! cat ../../../token && ! touch ../n"), 0);
    CHECK(boxed_holds("home/worktrees/slug/bot-1/f", "x\n"));
    boxed_end();
}

TEST(read_only_shows_all_of_a_worktree_when_the_work_is_further_down)
{
    char tree[600], below[600];
    const char *writable[] = {tree, NULL};
    boxed_begin(true);
    boxed_save("home/worktrees/slug/bot-1/sub/f", "");
    boxed_save("home/worktrees/slug/bot-1/g", "");
    boxed_save("home/worktrees/slug/bot-2/f", "");
    snprintf(tree, sizeof tree, "%s", boxed_path("home/worktrees/slug/bot-1"));
    snprintf(below, sizeof below, "%s", boxed_path("home/worktrees/slug/bot-1/sub"));
    boxed.policy.mode = BOX_READ_ONLY;
    boxed.policy.working_dir = below;
    boxed.policy.writable = writable;
    struct box *b = open_box();
    CHECK(box_may_read(b, boxed_path("home/worktrees/slug/bot-1/g"), NULL));
    CHECK(!box_may_write(b, boxed_path("home/worktrees/slug/bot-1/g"), NULL));
    CHECK(!box_may_read(b, boxed_path("home/worktrees/slug/bot-2/f"), NULL));
    box_free(b);
    boxed_end();
}

TEST(a_program_has_a_directory_of_its_own_in_the_home_in_any_mode)
{
    boxed_begin(true);
    boxed_need();
    boxed_save("home/sessions/x/engine/kept", "mine");
    boxed.policy.own = boxed_path("home/sessions/x/engine");
    char own[400];
    snprintf(own, sizeof own, "%s", boxed.policy.own);
    boxed.policy.own = own;
    for (int mode = BOX_READ_ONLY; mode <= BOX_WORKSPACE_WRITE; mode++) {
        char script[900];
        boxed.policy.mode = (enum box_mode)mode;
        snprintf(script, sizeof script, "cat %s/kept && echo new > %s/made", own, own);
        CHECK_INT(boxed_run(script), 0);
        CHECK(boxed_holds("home/sessions/x/engine/made", "new\n"));
        snprintf(script, sizeof script, "cat %s/../../../token", own);
        CHECK(boxed_run(script) > 0); // the rest of the home stays out of reach
    }
    boxed_end();
}

TEST(more_directories_can_be_opened)
{
    const char *more[] = {NULL, "/nonexistent/for/sure", NULL};
    boxed_begin(true);
    more[0] = boxed_path("outside");
    boxed.policy.writable = more;
    CHECK_INT(boxed_run("echo x > ../outside/safe && ! mkdir ../outside/.git"), 0);
    CHECK(boxed_holds("outside/safe", "x\n"));
    CHECK(!boxed_exists("outside/.git"));
    boxed_end();
}

TEST(tmp_is_the_sessions_own)
{
    char tmp[300];
    boxed_begin(true);
    boxed_save("home/sessions/s/tmp/old", "kept");
    snprintf(tmp, sizeof tmp, "%s", boxed_path("home/sessions/s/tmp"));
    boxed.policy.tmp_dir = tmp;
    CHECK_INT(boxed_run("cat /tmp/old && echo x > /tmp/new"), 0);
    CHECK(boxed_holds("home/sessions/s/tmp/new", "x\n"));
    struct box *b = open_box();
    char *path = box_map(b, "/tmp/a/../b");
    CHECK(str_ends(str_of(path), "/home/sessions/s/tmp/b") && box_may_write(b, path, NULL));
    free(path);
    CHECK(!box_may_read(b, "/tmp/b", NULL));
    box_free(b);
    boxed.policy.tmp_dir = NULL;
    b = open_box();
    CHECK(box_map(b, "/tmp/b") == NULL);
    CHECK(box_map(b, boxed_path("ws/../../../../../../../tmp/b")) == NULL);
    path = box_map(b, boxed_path("ws/x/..//a"));
    CHECK_STR(path, boxed_path("ws/x/..//a"));
    free(path);
    path = box_map(b, boxed_path("ws/x/.//a/"));
    CHECK_STR(path, boxed_path("ws/x/a"));
    free(path);
    box_free(b);
    boxed_end();
}

TEST(the_machines_devices_and_shared_memory_are_hidden)
{
    char dir[] = "/dev/shm/afloat-test-XXXXXX";
    struct box *b;
    struct err e;
    boxed_begin(true);
    b = open_box();
    CHECK(!box_may_read(b, "/dev/shm/x", NULL) && !box_may_read(b, "/dev/sda", NULL));
    box_free(b);
    CHECK(mkdtemp(dir) != NULL);
    boxed.policy.working_dir = dir;
    CHECK_INT(box_new(&b, &boxed.policy, &e), ERR_DENIED);
    CHECK(strstr(e.msg, "work somewhere else") != NULL);
    CHECK_INT(rmdir(dir), 0);
    boxed_end();
}

TEST(a_home_directory_is_not_a_workspace_unless_asked_for)
{
    const char *why;
    boxed_begin(true);
    setenv("HOME", boxed.ws, 1);
    CHECK_INT(box_choose_mode(BOX_WORKSPACE_WRITE, boxed.ws, boxed.home, &why), BOX_READ_ONLY);
    CHECK(strstr(why, "your home") != NULL);
    CHECK_INT(box_choose_mode(BOX_WORKSPACE_WRITE, boxed.base, boxed.home, &why), BOX_READ_ONLY);
    CHECK(strstr(why, "Afloat") != NULL);
    CHECK_INT(box_choose_mode(BOX_WORKSPACE_WRITE, "/", boxed.home, &why), BOX_READ_ONLY);
    CHECK(why != NULL);
    CHECK_INT(box_choose_mode(BOX_WORKSPACE_WRITE, boxed_path("outside"), boxed.home, &why),
              BOX_WORKSPACE_WRITE);
    CHECK(why == NULL);
    boxed_end();
}

// ---- what must stay where it is ---------------------------------------------------------------

TEST(a_hidden_directory_cannot_be_moved_out_from_under_its_cover)
{
    char secrets[600];
    const char *hide[] = {secrets, NULL};
    boxed_begin(true);
    boxed_save("ws/conf/deep/secrets/key", "canary");
    boxed_save("ws/conf/plain", "");
    snprintf(secrets, sizeof secrets, "%s", boxed_path("ws/conf/deep/secrets"));
    boxed.policy.hide = hide;
    CHECK_INT(boxed_run("! mv conf conf2 && ! mv conf/deep deep && ! rm -r conf/deep"), 0);
    CHECK_INT(boxed_run("mv conf/plain . && touch conf/new conf/deep/new && ! cat */*/*/key"), 0);
    CHECK(boxed_holds("ws/conf/deep/secrets/key", "canary"));
    CHECK(boxed_exists("ws/conf/deep/new") && boxed_exists("ws/plain"));
    boxed_end();
}

/// Commands cannot change it, and a tool that runs in the hub is told why.
static void check_guarded(const char *script, const char *const *files)
{
    struct box *b;
    CHECK_INT(boxed_run(script), 0);
    b = open_box();
    for (size_t i = 0; files[i] != NULL; i++) {
        const char *why = "nothing";
        if (box_may_write(b, boxed_path(files[i]), &why) ||
            strstr(why, "outside of the sandbox") == NULL) {
            test_fail(__FILE__, __LINE__, "%s: %s", files[i], why);
        }
    }
    CHECK(box_may_write(b, boxed_path("ws/other"), NULL));
    box_free(b);
}

TEST(what_runs_outside_cannot_be_written_moved_or_replaced)
{
    char script[600], plugin[600];
    const char *guard[] = {script, plugin, NULL};
    static const char *const files[] = {"ws/sub/env.sh", "ws/sub/plugin/init.lua", "ws/sub/plugin",
                                        NULL};
    boxed_begin(true);
    boxed_save("ws/sub/env.sh", "good");
    boxed_save("ws/sub/plugin/init.lua", "good");
    snprintf(script, sizeof script, "%s", boxed_path("ws/sub/env.sh"));
    snprintf(plugin, sizeof plugin, "%s", boxed_path("ws/sub/plugin"));
    boxed.policy.guard = guard;
    check_guarded(
        "! echo bad > sub/env.sh; ! rm sub/env.sh; ! mv sub sub2; ! mv sub/plugin p; "
        "! touch sub/plugin/more.lua; echo bad > new && ! mv new sub/env.sh && touch sub/ok",
        files);
    CHECK(boxed_holds("ws/sub/env.sh", "good") && boxed_holds("ws/sub/plugin/init.lua", "good"));
    CHECK(!boxed_exists("ws/sub/plugin/more.lua") && boxed_exists("ws/sub/ok"));
    boxed_end();
}

TEST(links_to_what_runs_outside_are_kept_too)
{
    char script[600];
    const char *guard[] = {script, NULL};
    static const char *const files[] = {"ws/shared/env/env.sh", "ws/conf", NULL};
    boxed_begin(true);
    boxed_save("ws/shared/env/env.sh", "good");
    CHECK_INT(symlink("shared/env", boxed_path("ws/conf")), 0);
    snprintf(script, sizeof script, "%s", boxed_path("ws/conf/env.sh"));
    boxed.policy.guard = guard;
    check_guarded(
        "! rm conf; ! ln -sfn other conf; ! mv conf c; ! mv shared s; ! echo bad > conf/env.sh",
        files);
    CHECK(boxed_holds("ws/conf/env.sh", "good"));
    boxed_end();
}

TEST(what_would_run_outside_does_not_appear)
{
    char dotenv[600], deep[600];
    const char *guard[] = {dotenv, deep, NULL};
    static const char *const files[] = {"ws/.env", "ws/conf/env.sh", NULL};
    boxed_begin(true);
    boxed_save("ws/f", "");
    snprintf(dotenv, sizeof dotenv, "%s", boxed_path("ws/.env"));
    snprintf(deep, sizeof deep, "%s", boxed_path("ws/conf/env.sh"));
    boxed.policy.guard = guard;
    check_guarded("! echo bad > .env; rm -f .env; ! mv f .env; ! mkdir conf; ! touch conf/env.sh",
                  files);
    CHECK(!boxed_exists("ws/.env") && !boxed_exists("ws/conf"));
    boxed_end();
}

TEST(a_hundred_files_may_be_kept_from_appearing)
{
    enum { MANY = 100 };
    const char *guard[MANY + 1] = {NULL};
    boxed_begin(true);
    for (size_t i = 0; i < MANY; i++) {
        guard[i] = xasprintf("%s/.env%zu", boxed.ws, i);
    }
    boxed.policy.guard = guard;
    CHECK_INT(boxed_run("! echo bad > .env0 && ! echo bad > .env99 && echo good > .env"), 0);
    CHECK(!boxed_exists("ws/.env0") && !boxed_exists("ws/.env99") && boxed_exists("ws/.env"));
    for (size_t i = 0; i < MANY; i++) {
        free((char *)(uintptr_t)guard[i]);
    }
    boxed_end();
}

TEST(what_is_hidden_stays_so_when_it_is_replaced_or_made_while_a_command_runs)
{
    struct boxed_cmd cmd;
    char file[600], later[600], dir[600];
    const char *hide[] = {file, later, dir, NULL};
    boxed_begin(true);
    boxed_save("user/.netrc", "old canary");
    boxed_save("user/.ssh/key", "old canary");
    boxed_save("user/.profile", "seen");
    snprintf(file, sizeof file, "%s", boxed_path("user/.netrc"));
    snprintf(later, sizeof later, "%s", boxed_path("user/.later"));
    snprintf(dir, sizeof dir, "%s", boxed_path("user/.ssh"));
    boxed.policy.hide = hide;
    CHECK_INT(mkfifo(boxed_path("ws/go"), 0600), 0);
    boxed_start(&cmd, "cd ../user; cat .profile; echo ready; cat ../ws/go; "
                      "cat .netrc .later .ssh/key; cat .profile");
    boxed_wait_for(&cmd, "ready");
    boxed_save("user/.netrc", "new canary"); // by rename
    boxed_save("user/.later", "new canary");
    CHECK_INT(rename(dir, boxed_path("user/.ssh.old")), 0);
    boxed_save("user/.ssh/key", "new canary");
    boxed_save("ws/other", "");
    FILE *go = fopen(boxed_path("ws/go"), "w");
    CHECK_INT(fclose(go), 0);
    CHECK_INT(boxed_wait(&cmd), 0);
    CHECK(strstr(buf_z(&cmd.out), "canary") == NULL);
    CHECK(strstr(strstr(buf_z(&cmd.out), "ready"), "seen") != NULL); // its neighbour can be read
    boxed_free(&cmd);
    boxed_end();
}

TEST(no_file_gets_the_rights_of_its_owner)
{
    struct stat st;
    boxed_begin(true);
    CHECK_INT(boxed_run("echo x > f; ! chmod u+s f; ! chmod g+s f; ! chmod 6755 f; chmod 755 f"),
              0);
    CHECK_INT(
        boxed_run("perl -e 'use Fcntl; sysopen(F, \"g\", O_CREAT | O_WRONLY, 04755) and exit 1; "
                  "sysopen(F, \"h\", O_CREAT | O_WRONLY, 0755) or exit 2; "
                  "sysopen(F, \"h\", O_RDONLY, 04755) or exit 3'"),
        0);
    CHECK_INT(stat(boxed_path("ws/f"), &st), 0);
    CHECK_INT(st.st_mode & 07777, 0755);
    CHECK(!boxed_exists("ws/g"));
    boxed_end();
}

TEST(a_command_that_takes_too_much_memory_is_ended_and_says_so)
{
    boxed_begin(true);
    boxed.memory_limit = 64 << 20;
    CHECK_INT(boxed_run("perl -e '$x = \"x\" x (256 << 20); print \"got it\\n\"; sleep 100'"),
              -SIGKILL);
    CHECK_INT(boxed.cmd.exit.limit, LAUNCH_LIMIT_MEMORY);
    // orphans that end all the time do not put the look off
    CHECK_INT(boxed_run("(while :; do (sleep .02 &); done) & "
                        "perl -e '$x = \"x\" x (256 << 20); sleep 100'"),
              -SIGKILL);
    CHECK_INT(boxed.cmd.exit.limit, LAUNCH_LIMIT_MEMORY);
    CHECK_INT(boxed_run("perl -e '$x = \"x\" x (16 << 20); fork for 1 .. 3; sleep 1'"), 0);
    CHECK_INT(boxed.cmd.exit.limit, 0); // pages that a fork shares count once
    boxed.memory_limit = 0;
    boxed_end();
}
