// Attempts to get out of the box, each by a real command in a real one. What an attempt could change
// if a wall were missing is only ever a file of the test's own directory or the attempt's own
// process.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/launch.h"
#include "sandbox/bpf_int.h"
#include "unit/sandbox/boxed.h"

/// Run scripts that must all fail.
static void check_refused(const char *const *scripts)
{
    for (; *scripts != NULL; scripts++) {
        int rc = boxed_run(*scripts);
        if (rc <= 0) {
            test_fail(__FILE__, __LINE__, "'%s' ended with %d: %s %s", *scripts, rc,
                      buf_z(&boxed.cmd.out), boxed.cmd.why.msg);
        }
    }
}

struct attempt {
    const char *name;
    int expect;
};

static void check_attempts(const struct attempt *list)
{
    char script[80];
    for (; list->name != NULL; list++) {
        snprintf(script, sizeof script, "exec ./escape %s", list->name);
        int rc = boxed_run(script);
        if (rc != list->expect) {
            test_fail(__FILE__, __LINE__, "%s: %d (%s), not %d: %s%s", list->name, rc,
                      rc > 0 ? strerror(rc) : "it did", list->expect, buf_z(&boxed.cmd.out),
                      boxed.cmd.why.msg);
        }
    }
}

static const char *const write_outside[] = {
    "echo bad > ../outside/safe",
    "echo bad >> ../outside/safe",
    "touch ../outside/new",
    "rm ../outside/safe",
    "mv ../outside ../gone",
    "mkdir ../new",
    "ln ../outside/safe hard",
    "ln -s ../outside/safe link && echo bad > link",
    "ln -s ../outside dir && touch dir/new",
    "rmdir ../ws",
    "mv ../ws ../moved",
    NULL,
};

static void check_outside_is_safe(void)
{
    CHECK(boxed_holds("outside/safe", "safe"));
    CHECK(!boxed_exists("outside/new"));
    CHECK(!boxed_exists("new"));
    CHECK(boxed_exists("ws"));
}

TEST(a_command_works_in_its_working_directory)
{
    boxed_begin(true);
    CHECK_INT(boxed_run("echo yours > file && mkdir d && mv file d/f && ln -s f d/l && cat d/l && "
                        "echo x > /tmp/x && cat /tmp/x && echo > /dev/null && test -e /proc/self"),
              0);
    CHECK_STR(buf_z(&boxed.cmd.out), "yours\nx\n");
    CHECK(boxed_holds("ws/d/f", "yours\n"));
    boxed_end();
}

TEST(what_lies_outside_cannot_be_written)
{
    boxed_begin(true);
    check_refused(write_outside);
    check_outside_is_safe();
    boxed_end();
}

TEST(what_lies_outside_cannot_be_written_when_all_of_it_is_in_tmp)
{
    boxed_begin(false);
    for (const char *const *script = write_outside; *script != NULL; script++) {
        CHECK(boxed_run(*script) >= 0); // some work, in a /tmp of their own
    }
    check_outside_is_safe();
    CHECK_INT(boxed_run("test -f file && echo bad > /tmp/unseen"), 0);
    CHECK_INT(access("/tmp/unseen", F_OK), -1);
    boxed_end();
}

TEST(an_ordinary_user_has_the_same_walls)
{
    static const struct attempt calls[] = {
        {"inet", ENETUNREACH}, {"userns", EPERM}, {"mount", EPERM},     {"ptrace", EPERM},
        {"io_uring", EPERM},   {"bomb", EAGAIN},  {"kill_init", ESRCH}, {NULL, 0},
    };
    static const char *const git[] = {"echo bad > .git/config", "mv .git g", "mkdir .afloat", NULL};
    boxed_begin_as_nobody();
    boxed_save("ws/.git/config", "good");
    check_refused(write_outside);
    check_outside_is_safe();
    check_refused(git);
    CHECK(boxed_holds("ws/.git/config", "good"));
    CHECK(!boxed_exists("ws/.afloat"));
    boxed.process_limit = 64;
    check_attempts(calls);
    boxed_end();
}

TEST(read_only_means_that_nothing_can_be_written)
{
    static const char *const tries[] = {"echo bad > file", "touch new", "rm file", "mkdir .git",
                                        NULL};
    boxed_begin(true);
    boxed.policy.mode = BOX_READ_ONLY;
    check_refused(tries);
    check_refused(write_outside);
    CHECK(boxed_holds("ws/file", "mine"));
    CHECK_INT(boxed_run("cat file; echo x > /tmp/x"), 0);
    boxed_end();
}

// ---- .git and .afloat ------------------------------------------------------------------------

TEST(a_repository_cannot_be_changed_renamed_or_removed)
{
    static const char *const tries[] = {
        "echo bad > .git/config",
        "mkdir .git/hooks",
        "touch .git/hooks-new",
        "mv .git g",
        "rm -rf .git",
        "rmdir .git",
        "mkdir d && mv d .git",
        "ln -s /tmp .git/l",
        "echo bad > .afloat/plugins/p.lua",
        "mv .afloat a",
        NULL,
    };
    boxed_begin(true);
    boxed_save("ws/.git/config", "good");
    boxed_save("ws/.afloat/plugins/p.lua", "good");
    check_refused(tries);
    CHECK(boxed_holds("ws/.git/config", "good"));
    CHECK(boxed_holds("ws/.afloat/plugins/p.lua", "good"));
    CHECK(!boxed_exists("ws/.git/hooks"));
    CHECK_INT(boxed_run("cat .git/config"), 0);
    boxed_end();
}

TEST(a_repository_behind_a_link_cannot_be_changed)
{
    static const char *const tries[] = {
        "echo bad > .git/config", "rm .git", "mv .git g", "ln -sfn /tmp .git", "mv real r",
        "echo bad > real/config", NULL,
    };
    boxed_begin(true);
    boxed_save("ws/real/config", "good");
    CHECK_INT(symlink("real", boxed_path("ws/.git")), 0);
    check_refused(tries);
    CHECK(boxed_holds("ws/.git/config", "good"));
    boxed_end();
}

TEST(a_link_that_leads_nowhere_is_refused)
{
    struct box *box;
    struct err e = {0};
    boxed_begin(true);
    CHECK_INT(symlink("later", boxed_path("ws/.git")), 0);
    CHECK_INT(box_new(&box, &boxed.policy, &e), ERR_DENIED);
    CHECK(strstr(e.msg, "is a dangling link") != NULL);
    boxed_end();
}

TEST(a_repository_cannot_appear_and_nothing_is_left_behind)
{
    static const char *const tries[] = {
        "mkdir .git",      "mkdir d && mv d .git",      "ln -s d .git",
        "echo x > .git",   "mkdir .git/hooks",          "rmdir .git",
        "mkdir -p .git/a", "echo x > .afloat/env.toml", NULL,
    };
    boxed_begin(true);
    check_refused(tries);
    CHECK(!boxed_exists("ws/.git"));
    CHECK(!boxed_exists("ws/.afloat"));
    boxed_end();
}

TEST(a_name_is_kept_away_until_the_last_command_of_the_directory_has_ended)
{
    struct boxed_cmd first;
    boxed_begin(true);
    boxed_start(&first, "echo ready; while ! test -e stop; do mkdir .git 2>/dev/null && echo bad; "
                        "done; mkdir .git || echo good");
    boxed_wait_for(&first, "ready");
    CHECK_INT(boxed_run("mkdir .git"), 1); // the second one comes and goes
    CHECK(boxed_exists("ws/.git"));
    boxed_save("ws/stop", "");
    boxed_wait(&first);
    CHECK(strstr(buf_z(&first.out), "bad") == NULL);
    CHECK(strstr(buf_z(&first.out), "good") != NULL);
    CHECK(!boxed_exists("ws/.git"));
    boxed_free(&first);
    boxed_end();
}

TEST(many_commands_at_once_neither_fail_nor_let_a_name_through)
{
    struct boxed_cmd cmds[6];
    boxed_begin(true);
    for (int round = 0; round < test_loops(10); round++) {
        for (size_t i = 0; i < ARRAY_LEN(cmds); i++) {
            boxed_start(&cmds[i], "mkdir .git && exit 1; mkdir .afloat && exit 1; exit 0");
        }
        for (size_t i = 0; i < ARRAY_LEN(cmds); i++) {
            int rc = boxed_wait(&cmds[i]);
            if (rc != 0) {
                test_fail(__FILE__, __LINE__, "%d: %s%s", rc, buf_z(&cmds[i].out), cmds[i].why.msg);
            }
            boxed_free(&cmds[i]);
        }
        CHECK(!boxed_exists("ws/.git") && !boxed_exists("ws/.afloat"));
    }
    boxed_end();
}

TEST(a_name_left_behind_by_a_power_cut_goes_with_the_next_command)
{
    struct boxed_cmd cmd;
    boxed_begin(true);
    boxed_start(&cmd, "echo ready; sleep 1000");
    boxed_wait_for(&cmd, "ready");
    CHECK(boxed_exists("ws/.git"));
    CHECK_INT(kill(proc_pid(cmd.proc), SIGKILL), 0); // the one who would have taken it away
    CHECK_INT(boxed_wait(&cmd), -SIGKILL);
    CHECK(boxed_exists("ws/.git"));
    CHECK_INT(boxed_run("mkdir .git/hooks"), 1);
    CHECK(!boxed_exists("ws/.git"));
    CHECK(!boxed_exists("ws/.afloat"));
    boxed_free(&cmd);
    boxed_end();
}

TEST(what_a_person_begins_meanwhile_stays)
{
    struct boxed_cmd cmd;
    boxed_begin(true);
    boxed_start(&cmd, "echo ready; while ! test -e stop; do :; done");
    boxed_wait_for(&cmd, "ready");
    boxed_save("ws/.git/config", "by a person");
    boxed_save("ws/stop", "");
    CHECK_INT(boxed_wait(&cmd), 0);
    CHECK(boxed_holds("ws/.git/config", "by a person"));
    boxed_free(&cmd);
    boxed_end();
}

static void make_worktree(void)
{
    static const char script[] =
        "cd ../outside && git init -q -b main repo && cd repo && git config user.name n && "
        "git config user.email e@x && git commit -q --allow-empty -m one && "
        "git worktree add -q -b afloat/bot-1 ../../ws2 && rm -rf ../../ws && mv ../../ws2 ../../ws "
        "&& "
        "git worktree repair ../../ws";
    boxed.policy.mode = BOX_FULL_ACCESS;
    if (boxed_run("git --version") != 0) {
        test_skip("git is not installed");
    }
    if (boxed_run(script) != 0) {
        test_fail(__FILE__, __LINE__, "%s", buf_z(&boxed.cmd.out));
    }
    boxed.policy.mode = BOX_WORKSPACE_WRITE;
}

TEST(in_a_linked_worktree_nothing_of_its_repository_can_be_written)
{
    static const char *const tries[] = {
        "echo bad > ../outside/repo/.git/config",
        "echo bad > ../outside/repo/.git/hooks/post-commit",
        "echo bad > ../outside/repo/.git/HEAD",
        "echo bad > ../outside/repo/.git/objects/info/alternates",
        "rm -r ../outside/repo/.git/objects",
        "rm ../outside/repo/.git/refs/heads/afloat/bot-1",
        "echo text > new && git add new",
        "git commit -q --allow-empty -m two",
        "git hash-object -w /etc/hostname",
        "git update-ref refs/heads/main HEAD~0 0000000000000000000000000000000000000001",
        "git branch afloat/other",
        "git config core.fsmonitor bad",
        "git config --worktree core.fsmonitor bad",
        "echo bad > $(git rev-parse --git-dir)/config.worktree",
        "echo bad > $(git rev-parse --git-dir)/commondir",
        "touch $(git rev-parse --git-dir)/new",
        "mv $(git rev-parse --git-dir) $(git rev-parse --git-dir)x",
        "echo bad > .git",
        "rm .git",
        "mv .git g",
        NULL,
    };
    boxed_begin(true);
    make_worktree();
    check_refused(tries);
    CHECK(!boxed_exists("outside/repo/.git/worktrees/ws2/config.worktree"));
    CHECK(!boxed_exists("outside/repo/.git/hooks/post-commit"));
    CHECK_INT(boxed_run("git status --short && git log --oneline && git diff"), 0);
    boxed_end();
}

/// The worktree of a run, as git/quarantine.c makes it.
static void make_quarantine(void)
{
    char script[4096];
    const char *q = boxed_path("home/quarantine/slug/bot-1");
    make_worktree();
    snprintf(
        script, sizeof script,
        "Q='%s'; R=$(git rev-parse --git-dir) && C=$(git rev-parse --git-common-dir) && "
        "mkdir -p $Q/objects/info $Q/refs/heads && echo $C/objects >$Q/objects/info/alternates && "
        "cp $R/HEAD $R/gitdir $Q && git for-each-ref --format='%%(objectname) %%(refname)' "
        ">$Q/packed-refs && cp $C/config $Q/config && echo . >$Q/commondir && echo $R >"
        "$Q/registration && echo \"gitdir: $Q\" >.git && git read-tree HEAD",
        q);
    boxed.policy.mode = BOX_FULL_ACCESS;
    if (boxed_run(script) != 0) {
        test_fail(__FILE__, __LINE__, "%s", buf_z(&boxed.cmd.out));
    }
    boxed.policy.mode = BOX_WORKSPACE_WRITE;
}

TEST(in_the_worktree_of_a_run_git_works_and_its_repository_is_closed)
{
    static const char *const tries[] = {
        "touch ../outside/repo/.git/objects/new",
        "rm -r ../outside/repo/.git/objects",
        "rm ../outside/repo/.git/refs/heads/afloat/bot-1",
        "touch ../outside/repo/.git/worktrees/ws2/new",
        "echo bad > ../outside/repo/.git/config",
        "git config core.fsmonitor bad",
        "echo /etc > $(git rev-parse --git-dir)/commondir",
        "rm $(git rev-parse --git-dir)/commondir",
        "echo bad > $(git rev-parse --git-dir)/gitdir",
        "echo bad > $(git rev-parse --git-dir)/registration",
        "mv $(git rev-parse --git-dir) $(git rev-parse --git-dir)x",
        "echo bad > .git",
        "rm .git",
        "mv .git g",
        NULL,
    };
    boxed_begin(true);
    make_quarantine();
    if (boxed_run("echo text > new && git add new && git commit -q -m two && git log --oneline && "
                  "git branch other && echo more >> new && git stash && git stash pop && "
                  "git worktree list && git gc -q") != 0) {
        test_fail(__FILE__, __LINE__, "%s", buf_z(&boxed.cmd.out));
    }
    CHECK(strstr(buf_z(&boxed.cmd.out), "two") != NULL);
    check_refused(tries);
    boxed.policy.mode = BOX_READ_ONLY; // there it can be read
    CHECK_INT(boxed_run("git log --oneline && git diff"), 0);
    boxed.policy.mode = BOX_WORKSPACE_WRITE;
    boxed_save("home/quarantine/slug/bot-1/gitdir", "/somewhere/else/.git\n");
    CHECK(boxed_run("touch \"$(sed 's/gitdir: //' .git)/new\"") != 0); // it does not name us back
    boxed_end();
}

TEST(a_git_file_that_names_a_directory_which_does_not_name_it_opens_nothing)
{
    static const char *const tries[] = {"touch ../outside/worktrees/x/new",
                                        "touch ../outside/objects/n", NULL};
    char text[400];
    boxed_begin(true);
    boxed_save("outside/worktrees/x/commondir", "../..\n");
    boxed_save("outside/worktrees/x/gitdir", "/somewhere/else/.git\n");
    boxed_save("outside/objects/o", "");
    snprintf(text, sizeof text, "gitdir: %s\n", boxed_path("outside/worktrees/x"));
    boxed_save("ws/.git", text);
    check_refused(tries);
    CHECK(!boxed_exists("outside/worktrees/x/new"));
    boxed_end();
}

// ---- secrets ---------------------------------------------------------------------------------

static const char *const read_secrets[] = {
    "cat ../home/token",       "cat ../home/secrets.json", "cat ../home/trust.json",
    "cat ../hidden/key",       "ls ../home/run/*",         "cat ../home/run/hub.sock",
    "touch ../home/new",       "touch ../hidden/new",      "echo bad > ../home/plugins/p.lua",
    "mkdir ../home/plugins/q", "mv ../home ../h",          NULL,
};

TEST(secrets_sockets_and_hidden_files_are_out_of_reach)
{
    boxed_begin(true);
    check_refused(read_secrets);
    CHECK_INT(boxed_run("cat ../home/plugins/p.lua"), 0); // what may be read can be
    CHECK(boxed_holds("home/plugins/p.lua", "plugin"));
    boxed.policy.network = true;
    check_refused(read_secrets);
    boxed_end();
}

TEST(secrets_inside_the_working_directory_are_out_of_reach)
{
    static const char *const tries[] = {"cat home/token", "cat hidden/key", "rm -rf home",
                                        "mv hidden h",    "touch home/new", NULL};
    boxed_begin(true);
    boxed.policy.working_dir = boxed.base;
    snprintf(boxed.ws, sizeof boxed.ws, "%s", boxed.base);
    check_refused(tries);
    CHECK_INT(boxed_run("touch new && cat home/plugins/p.lua"), 0);
    CHECK(boxed_holds("home/token", "TOKEN"));
    boxed_end();
}

TEST(a_secret_that_is_replaced_while_a_command_runs_stays_out_of_reach)
{
    struct boxed_cmd cmd;
    boxed_begin(true);
    boxed_start(&cmd, "echo ready; while ! test -e go; do :; done; "
                      "cat ../home/secrets.json ../hidden/key");
    boxed_wait_for(&cmd, "ready");
    boxed_save("home/secrets.json", "SECRET2"); // by rename
    boxed_save("hidden/key", "KEY2");
    boxed_save("ws/go", "");
    CHECK(boxed_wait(&cmd) > 0);
    CHECK(strstr(buf_z(&cmd.out), "SECRET") == NULL);
    CHECK(strstr(buf_z(&cmd.out), "KEY") == NULL);
    boxed_free(&cmd);
    boxed_end();
}

// ---- system calls, other processes -----------------------------------------------------------

TEST(system_calls_that_lead_out_are_refused)
{
    static const struct attempt calls[] = {
        {"inet", ENETUNREACH},
        {"udp6", ENETUNREACH},
        {"unix", ENETUNREACH},
        {"netlink", ENETUNREACH},
        {"pair", 0},
        {"ptrace", EPERM},
        {"peek", EPERM},
        {"userns", EPERM},
        {"clone", EPERM},
        {"mount", EPERM},
        {"remount", EPERM},
        {"umount", EPERM},
        {"io_uring", EPERM},
        {"bpf", EPERM},
        {"handle", EPERM},
        {"keys", EPERM},
        {"init_environ", EACCES},
        {"init_root", EACCES},
        {"init_mem", EACCES},
        {"kill_init", ESRCH},
        {NULL, 0},
    };
    boxed_begin(true);
    check_attempts(calls);
    boxed_end();
}

TEST(the_network_is_there_when_allowed)
{
    static const struct attempt calls[] = {{"inet", 0}, {"udp6", 0}, {"unix", 0}, {NULL, 0}};
    boxed_begin(true);
    boxed.policy.network = true;
    check_attempts(calls);
    boxed_end();
}

TEST(the_machine_cannot_be_steered_through_proc_and_devices)
{
    boxed_begin(true);
    CHECK(boxed_run("exec ./escape sysrq") > 0);
    CHECK(boxed_run("exec ./escape core_pattern") > 0);
    CHECK(boxed_run("exec ./escape device") > 0);
    CHECK_INT(boxed_run("ls /dev | grep -v -x -E 'fd|full|null|ptmx|pts|random|shm|std(in|out|err)|"
                        "tty|urandom|zero'"),
              1);
    boxed_end();
}

TEST(every_wall_stands_although_another_stands_before_it)
{
    const char *caps = geteuid() == 0 ? "000000000000001b" : "0000000000000000";
    char script[200];
    boxed_begin(true);
    // the view is read-only, whatever Landlock says
    CHECK_INT(boxed_run("awk '$5 == \"/\" && $6 ~ /^ro/ { n++ } END { exit n != 1 }' "
                        "/proc/self/mountinfo"),
              0);
    // no privilege over it, whatever the filter says
    snprintf(script, sizeof script, "grep '^CapEff:.%s' /proc/self/status", caps);
    CHECK_INT(boxed_run(script), 0);
    CHECK_INT(boxed_run("grep '^CapBnd:.000000000000001b' /proc/self/status"), 0);
    CHECK_INT(boxed_run("grep '^NoNewPrivs:.1' /proc/self/status"), 0);
    // and Landlock, whatever the view says
    CHECK_INT(boxed_run("exec ./escape whiteout"), EACCES);
    boxed_end();
}

/// Where a container covers parts of /proc nobody gets a fresh one.
static bool can_mount_proc(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) != 0) {
            _exit(1);
        }
        pid = fork();
        if (pid == 0) {
            _exit(mount("proc", "/proc", "proc", 0, NULL) == 0 ? 0 : 1);
        }
        waitpid(pid, &status, 0);
        _exit(status == 0 ? 0 : 1);
    }
    return waitpid(pid, &status, 0) == pid && status == 0;
}

TEST(other_processes_cannot_be_seen)
{
    char script[120];
    boxed_begin(true);
    snprintf(script, sizeof script, "! kill -0 %d", (int)getpid());
    CHECK_INT(boxed_run(script), 0);
    if (!can_mount_proc() || getpid() < 100) {
        test_skip("parts of /proc are covered here");
    }
    snprintf(script, sizeof script, "test -d /proc/1 && ! test -d /proc/%d", (int)getpid());
    CHECK_INT(boxed_run(script), 0);
    boxed_end();
}

/// A pipe whose write end everyone in the box inherits.
static int open_life(void)
{
    int fds[2];
    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    boxed.fd3 = fds[1];
    return fds[0];
}

/// Wait until nobody holds it.
static void check_life_ends(int life)
{
    struct pollfd p = {.fd = life, .events = POLLIN};
    char c;
    close(boxed.fd3);
    CHECK_INT(poll(&p, 1, 20000), 1);
    CHECK_INT(read(life, &c, 1), 0);
    close(life);
}

TEST(a_daemon_ends_with_the_command)
{
    boxed_begin(true);
    int life = open_life();
    CHECK_INT(boxed_run("mkfifo up; setsid -f sh -c 'setsid -f sh -c \"echo x > up; sleep 1000\"'; "
                        "read -r line < up; exit 3"),
              3);
    check_life_ends(life);
    boxed_end();
}

TEST(a_fork_bomb_is_bounded)
{
    boxed_begin(true);
    boxed.process_limit = 64;
    int rc = boxed_run("exec ./escape bomb");
    CHECK(rc == EAGAIN || rc == -SIGKILL); // root has no limit of its own and is ended
    boxed_end();
}

TEST(a_killed_supervisor_takes_the_command_with_it)
{
    struct boxed_cmd cmd;
    boxed_begin(true);
    int life = open_life();
    boxed_start(&cmd, "trap '' TERM; setsid -f sleep 1000; echo ready; while :; do sleep 1; done");
    boxed_wait_for(&cmd, "ready");
    CHECK_INT(kill(proc_pid(cmd.proc), SIGKILL), 0);
    CHECK_INT(boxed_wait(&cmd), -SIGKILL);
    check_life_ends(life);
    boxed_free(&cmd);
    boxed_end();
}

// ---- a machine that cannot -------------------------------------------------------------------

/// From here on a system call fails for us and all we start, as on a machine without it.
static void lose_call(const struct bpf_rule *rule)
{
    static struct bpf program;
    bpf_start(&program);
    bpf_add(&program, rule);
    bpf_return(&program, SECCOMP_RET_ALLOW);
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(bpf_enter(&program), 0);
}

static void check_not_run(int kind, const char *says)
{
    struct err e = {0};
    CHECK_INT(boxed_run("touch ran"), BOXED_NOT_LAUNCHED);
    CHECK_INT(boxed.cmd.exit.no_box, kind);
    CHECK(!boxed_exists("ws/ran"));
    CHECK(!boxed_exists("ws/.git"));
    CHECK_INT(box_explain(kind, -boxed.cmd.exit.code, BOX_INSTEAD, &e), ERR_UNSUPPORTED);
    CHECK(strstr(e.msg, says) != NULL);
    CHECK(strstr(e.msg, "danger-full-access") != NULL);
    boxed.policy.mode = BOX_FULL_ACCESS;
    CHECK_INT(boxed_run("touch ran"), 0); // the way out
    boxed_end();
}

TEST(without_user_namespaces_nothing_is_run)
{
    boxed_begin(true);
    lose_call(&(struct bpf_rule){SYS_clone, SECCOMP_RET_ALLOW, 0, BPF_CLEAR, CLONE_NEWUSER,
                                 SECCOMP_RET_ERRNO | EPERM, 0, 0});
    check_not_run(LAUNCH_NO_NAMESPACE, "no user namespace");
}

TEST(without_mounts_nothing_is_run)
{
    boxed_begin(true);
    lose_call(&(struct bpf_rule){.nr = SYS_mount_setattr, .verdict = SECCOMP_RET_ERRNO | EPERM});
    check_not_run(LAUNCH_NO_MOUNT, "refuses a mount");
}

TEST(without_landlock_nothing_is_run)
{
    boxed_begin(true);
    lose_call(&(struct bpf_rule){.nr = SYS_landlock_create_ruleset,
                                 .verdict = SECCOMP_RET_ERRNO | ENOSYS});
    check_not_run(LAUNCH_NO_LANDLOCK, "no Landlock");
}

TEST(without_a_filter_nothing_is_run)
{
    boxed_begin(true);
    lose_call(&(struct bpf_rule){SYS_prctl, SECCOMP_RET_ERRNO | EINVAL, 0, BPF_EQUAL,
                                 PR_SET_SECCOMP, SECCOMP_RET_ALLOW, 0, 0});
    check_not_run(LAUNCH_NO_FILTER, "system call filter");
}

// ---- a network of its own -------------------------------------------------------------------------

static uv_tcp_t listener, caller;
static unsigned n_callers;

static void close_caller(uv_write_t *w, int status)
{
    (void)status;
    uv_close((uv_handle_t *)w->handle, NULL);
}

/// Say hello to who calls.
static void on_caller(uv_stream_t *server, int status)
{
    static uv_write_t w;
    static char hello[] = "hello from outside\n";
    uv_buf_t text = uv_buf_init(hello, sizeof hello - 1);
    CHECK_INT(status, 0);
    n_callers++;
    uv_tcp_init(&boxed.loop.uv, &caller);
    CHECK_INT(uv_accept(server, (uv_stream_t *)&caller), 0);
    CHECK_INT(uv_write(&w, (uv_stream_t *)&caller, &text, 1, close_caller), 0);
}

static void take_listener(uv_stream_t *from)
{
    uv_tcp_init(&boxed.loop.uv, &listener);
    CHECK_INT(uv_accept(from, (uv_stream_t *)&listener), 0);
    CHECK_INT(uv_listen((uv_stream_t *)&listener, 4, on_caller), 0);
}

static void on_gone(uv_handle_t *h)
{
    *(bool *)h->data = true;
}

/// Run it, and close what it gave us.
static int run_on_loopback(const char *script)
{
    bool gone = false;
    int rc = boxed_run(script);
    listener.data = &gone;
    uv_close((uv_handle_t *)&listener, on_gone);
    while (!gone) {
        loop_run_once(&boxed.loop, false);
    }
    return rc;
}

TEST(a_box_with_a_network_of_its_own_reaches_the_hub_and_nobody_else)
{
    static uv_tcp_t host;
    struct sockaddr_in at;
    int n = sizeof at;
    char script[200];
    boxed_begin(true);
    boxed_need();
    n_callers = 0;
    uv_ip4_addr("127.0.0.1", 0, &at);
    uv_tcp_init(&boxed.loop.uv, &host); // a service of the machine
    CHECK_INT(uv_tcp_bind(&host, (const struct sockaddr *)&at, 0), 0);
    CHECK_INT(uv_listen((uv_stream_t *)&host, 4, on_caller), 0);
    CHECK_INT(uv_tcp_getsockname(&host, (struct sockaddr *)&at, &n), 0);
    boxed.on_listen = take_listener;
    snprintf(script, sizeof script, "exec bash -c 'cat </dev/tcp/127.0.0.1/%d'", LAUNCH_PORT);
    CHECK_INT(run_on_loopback(script), 0);
    CHECK_STR(buf_z(&boxed.cmd.out), "hello from outside\n");
    CHECK_INT(n_callers, 1);
    snprintf(script, sizeof script, "exec bash -c 'cat </dev/tcp/127.0.0.1/%d'",
             ntohs(at.sin_port));
    CHECK(run_on_loopback(script) > 0); // the machine's own 127.0.0.1 is another one
    CHECK_INT(n_callers, 1);
    CHECK_INT(run_on_loopback("exec ./escape unix"), ENETUNREACH);
    CHECK_INT(run_on_loopback("exec ./escape netlink"), ENETUNREACH);
    CHECK_INT(run_on_loopback("exec ./escape udp6"), ENETUNREACH);
    CHECK_INT(run_on_loopback("exec ./escape userns"), EPERM);
    uv_close((uv_handle_t *)&host, NULL);
    boxed.on_listen = NULL;
    boxed_end();
}
