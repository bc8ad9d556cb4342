#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/path.h"
#include "loop/proc.h"
#include "unit/loop/run.h"

// ---- how it starts -------------------------------------------------------------------------

TEST(the_environment_is_exactly_the_one_given)
{
    const char *const argv[] = {"/usr/bin/env", "-0", NULL};
    const char *const env[] = {"B=2", "A=one two", "EMPTY=", NULL};
    struct proc_opts o = {.argv = argv, .env = env, .out = PROC_PIPE};
    struct run r;
    setenv("LEAKED", "from the hub", 1);
    begin();
    start(&r, &o);
    loop_run(&l);
    CHECK_INT(r.out.n, sizeof "B=2\0A=one two\0EMPTY=");
    CHECK(memcmp(r.out.p, "B=2\0A=one two\0EMPTY=", r.out.n) == 0);
    end(&r);
    o.env = NULL;
    start(&r, &o);
    loop_run(&l);
    CHECK_INT(r.out.n, 0);
    CHECK_INT(r.x.code, 0);
    end(&r);
    finish();
}

TEST(the_program_is_looked_up_in_the_path_of_its_own_environment)
{
    const char *const argv[] = {"only-here", NULL};
    char path[300];
    snprintf(path, sizeof path, "PATH=relative::/nonexistent:%s", test_dir());
    const char *const env[] = {path, NULL};
    struct proc_opts o = {.argv = argv, .env = env, .out = PROC_PIPE};
    struct run r;
    char *file = path_join(test_dir(), "only-here");
    CHECK_INT(path_write_atomic(file, STR("#!/bin/sh\necho found\n"), 0700, NULL), 0);
    begin();
    start(&r, &o);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "found\n");
    end(&r);
    o.env = plain_env;
    start(&r, &o);
    end(&r);
    CHECK(!r.x.launched);
    free(file);
    finish();
}

TEST(without_a_path_the_programs_of_the_system_are_found)
{
    const char *const argv[] = {"env", NULL}, *const env[] = {"ONLY=1", NULL};
    struct proc_opts o = {.argv = argv, .env = env, .out = PROC_PIPE};
    struct run r;
    begin();
    start(&r, &o);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "ONLY=1\n");
    end(&r);
    finish();
}

TEST(the_working_directory_is_not_searched_for_programs)
{
    const char *const argv[] = {"planted", NULL};
    const char *const env[] = {"PATH=:.:/usr/bin", NULL};
    struct proc_opts o = {.argv = argv, .env = env, .cwd = test_dir()};
    struct run r;
    char *file = path_join(test_dir(), "planted");
    CHECK_INT(path_write_atomic(file, STR("#!/bin/sh\n"), 0700, NULL), 0);
    begin();
    start(&r, &o);
    end(&r);
    CHECK(!r.x.launched);
    CHECK_INT(r.x.code, -ENOENT);
    free(file);
    finish();
}

TEST(the_working_directory_is_the_one_asked_for)
{
    struct proc_opts o = shell("pwd");
    struct run r;
    begin();
    start(&r, &o);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "/\n");
    end(&r);
    o.cwd = "/usr/bin";
    start(&r, &o);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "/usr/bin\n");
    end(&r);
    finish();
}

static void check_not_launched(bool supervise)
{
    const char *argv[] = {"/nonexistent/program", NULL};
    struct proc_opts o = {.argv = argv, .env = plain_env, .supervise = supervise};
    struct run r;
    start(&r, &o);
    end(&r);
    CHECK(!r.x.launched);
    CHECK_INT(r.x.code, -ENOENT);
    CHECK_STR(r.why, "cannot run '/nonexistent/program': no such file or directory");

    argv[0] = "/etc/passwd";
    start(&r, &o);
    end(&r);
    CHECK(!r.x.launched);
    CHECK_INT(r.x.code, -EACCES);

    argv[0] = "/bin/true";
    o.cwd = "/nonexistent";
    start(&r, &o);
    end(&r);
    CHECK(!r.x.launched);
    CHECK_INT(r.x.code, -ENOENT);
    CHECK_STR(r.why, "cannot enter '/nonexistent': no such file or directory");

    o.cwd = "";
    start(&r, &o);
    end(&r);
    CHECK(!r.x.launched);
    CHECK_INT(r.x.code, -ENOENT);
}

TEST(a_program_that_cannot_run_is_told_from_one_that_failed)
{
    struct proc_opts o = shell("exit 127");
    struct run r;
    begin();
    check_not_launched(false);
    check_not_launched(true);
    start(&r, &o);
    end(&r);
    CHECK(r.x.launched);
    CHECK_INT(r.x.code, 127);
    finish();
}

static void check_endings(bool supervise)
{
    struct proc_opts o = shell("exit 42");
    struct run r;
    o.supervise = supervise;
    start(&r, &o);
    end(&r);
    CHECK(r.x.launched && r.x.why == NULL);
    CHECK_INT(r.x.code, 42);
    CHECK_INT(r.x.signal, 0);
    CHECK_INT(r.out_ends, 1);
    CHECK_INT(r.err_ends, 1);

    o = shell("kill -USR1 $$");
    o.supervise = supervise;
    start(&r, &o);
    end(&r);
    CHECK_INT(r.x.code, -1);
    CHECK_INT(r.x.signal, SIGUSR1);
}

TEST(the_exit_status_and_the_signal_are_told)
{
    begin();
    check_endings(false);
    check_endings(true);
    finish();
}

TEST(a_missing_launcher_is_an_error_that_names_it)
{
    struct err e;
    CHECK_INT(proc_setup_at("/nonexistent/afloat-launch", &e), -ENOENT);
    CHECK(strstr(e.msg, "'/nonexistent/afloat-launch'") != NULL);
}

TEST(a_replaced_launcher_is_not_used_before_the_next_start)
{
    struct proc_opts o = shell("echo old");
    struct run r;
    struct err e;
    struct buf program;
    char *path = path_join(test_dir(), "afloat-launch");
    buf_init(&program, 64 << 20);
    CHECK_INT(path_read(LOOP_LAUNCHER, &program, NULL), 0);
    CHECK_INT(path_write_atomic(path, buf_str(&program), 0700, NULL), 0);
    CHECK_INT(loop_init(&l, NULL, NULL), 0);
    CHECK_INT(proc_setup_at(path, &e), 0);
    CHECK_INT(path_write_atomic(path, STR("#!/bin/sh\necho new\n"), 0700, NULL), 0);
    start(&r, &o);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "old\n");
    end(&r);
    buf_fini(&program);
    free(path);
    finish();
}

TEST(too_many_arguments_are_an_error_of_the_call)
{
    char *big = xmalloc(200000);
    memset(big, 'x', 199999);
    big[199999] = '\0'; // the kernel takes 128 KiB at most
    const char *const argv[] = {"/bin/true", big, NULL};
    struct proc_opts o = {.argv = argv, .out = PROC_PIPE, .in = PROC_PIPE};
    struct proc *p;
    struct err e;
    struct run r = {0};
    begin();
    CHECK_INT(proc_spawn(&p, &l, &o, &callbacks, &r, &e), UV_E2BIG);
    CHECK(p == NULL);
    free(big);
    finish();
    CHECK_INT(r.exits, 0);
}

// ---- what it is given ----------------------------------------------------------------------

TEST(the_child_leads_a_session_of_its_own)
{
    // Fields of stat after the name: state, parent, group, session.
    struct proc_opts o = shell("read -r line </proc/$$/stat; set -- ${line##*) }; "
                               "[ $3 = $$ ] && [ $4 = $$ ] && echo leader");
    struct run r;
    begin();
    for (int supervise = 0; supervise < 2; supervise++) {
        o.supervise = supervise != 0;
        start(&r, &o);
        loop_run(&l);
        CHECK_STR(buf_z(&r.out), "leader\n");
        end(&r);
    }
    finish();
}

TEST(limits_are_those_asked_for)
{
    struct proc_opts o = shell("ulimit -Sn; ulimit -Sc; ulimit -Hc; ulimit -v; ulimit -t; "
                               "ulimit -f; ulimit -Hf");
    struct run r;
    o.file_limit = 77;
    o.memory_limit = 1 << 30;
    o.cpu_limit_s = 9;
    o.process_limit = 5000;
    o.file_size_limit = 1 << 20;
    begin();
    start(&r, &o);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "77\n0\n0\n1048576\n9\n2048\n2048\n");
    end(&r);
    o = shell("grep -c 'Max processes  *5000  *5000 ' /proc/self/limits");
    o.process_limit = 5000;
    start(&r, &o);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "1\n");
    end(&r);
    finish();
}

TEST(the_soft_file_limit_of_the_start_is_given_back)
{
    struct proc_opts o = shell("ulimit -Sn");
    struct run r;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = 100;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &files), 0);
    begin();
    files.rlim_cur = 300; // as the hub does once it runs
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &files), 0);
    start(&r, &o);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "100\n");
    end(&r);
    finish();
}

TEST(no_other_descriptor_reaches_the_child)
{
    struct proc_opts o = shell("cd /proc/self/fd && echo *");
    struct run r;
    int leaks[20];
    for (size_t i = 0; i < ARRAY_LEN(leaks); i++) {
        leaks[i] = open("/dev/null", O_RDONLY); // without O_CLOEXEC
    }
    begin();
    for (int supervise = 0; supervise < 2; supervise++) {
        o.supervise = supervise != 0;
        start(&r, &o);
        loop_run(&l);
        CHECK_STR(buf_z(&r.out), "0 1 2 3\n"); // 3 is the directory that the shell reads
        end(&r);
    }
    finish();
    for (size_t i = 0; i < ARRAY_LEN(leaks); i++) {
        close(leaks[i]);
    }
}

TEST(descriptor_three_is_passed_when_asked_for)
{
    struct proc_opts o = shell("echo through three >&3");
    struct run r;
    int fds[2];
    char text[32] = "";
    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    begin();
    for (int supervise = 0; supervise < 2; supervise++) {
        o.supervise = supervise != 0;
        o.fd3 = fds[1];
        start(&r, &o);
        end(&r);
        CHECK_INT(read(fds[0], text, sizeof text - 1), 14);
        CHECK_STR(text, "through three\n");
    }
    o.fd3 = 0;
    start(&r, &o);
    end(&r);
    CHECK(r.x.code != 0); // there is no descriptor 3
    close(fds[0]);
    close(fds[1]);
    finish();
}

TEST(signals_are_at_their_defaults_in_the_child)
{
    struct proc_opts o = shell("exec cat /proc/self/status");
    struct run r;
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    sigaddset(&some, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &some, NULL);
    signal(SIGHUP, SIG_IGN);
    signal(SIGRTMIN + 4, SIG_IGN);
    begin();
    for (int supervise = 0; supervise < 2; supervise++) {
        o.supervise = supervise != 0;
        start(&r, &o);
        loop_run(&l);
        CHECK(strstr(buf_z(&r.out), "SigBlk:\t0000000000000000\n") != NULL);
        CHECK(strstr(buf_z(&r.out), "SigIgn:\t0000000000000000\n") != NULL);
        CHECK(strstr(buf_z(&r.out), "SigCgt:\t0000000000000000\n") != NULL);
        end(&r);
    }
    finish();
}

TEST(streams_go_where_they_are_told)
{
    const char *const argv[] = {"/bin/sh", "-c", "cat; echo err >&2", NULL};
    char *in = path_join(test_dir(), "in"), *out = path_join(test_dir(), "out");
    CHECK_INT(path_write_atomic(in, STR("from a file"), 0600, NULL), 0);
    int in_fd = open(in, O_RDONLY | O_CLOEXEC);
    int out_fd = open(out, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct proc_opts o = {.argv = argv, .env = plain_env, .in = PROC_FD, .in_fd = in_fd};
    struct run r;
    char text[32] = "";
    o.out = o.err = PROC_FD;
    o.out_fd = o.err_fd = out_fd;
    begin();
    start(&r, &o);
    end(&r);
    CHECK_INT(pread(out_fd, text, sizeof text - 1, 0), 15);
    CHECK_STR(text, "from a fileerr\n");
    close(in_fd);
    close(out_fd);
    free(in);
    free(out);
    finish();
}

// ---- streams -------------------------------------------------------------------------------

TEST(ten_megabytes_of_output_arrive_intact)
{
    struct proc_opts o = shell("seq 1 1400000");
    struct run r;
    begin();
    start(&r, &o);
    loop_run(&l);
    CHECK(r.out.n > 10000000);
    const char *at = buf_z(&r.out);
    for (long i = 1; i <= 1400000; i++) {
        char *next;
        CHECK_INT(strtol(at, &next, 10), i);
        CHECK_INT(*next, '\n');
        at = next + 1;
    }
    CHECK_INT(*at, '\0');
    end(&r);
    finish();
}

TEST(what_is_written_to_stdin_comes_back_from_cat)
{
    const char *const argv[] = {"cat", NULL};
    struct proc_opts o = {.argv = argv, .env = plain_env, .in = PROC_PIPE, .out = PROC_PIPE};
    struct run r;
    char *bytes = xmalloc(3 << 20);
    for (size_t i = 0; i < 3 << 20; i++) {
        bytes[i] = (char)(i * 31 >> 3);
    }
    begin();
    start(&r, &o);
    CHECK_INT(proc_write(r.p, STR("hello\n")), 0);
    wait_for_output(&r, "hello\n");
    CHECK_INT(proc_write(r.p, (struct str){bytes, 3 << 20}), 0);
    proc_close_stdin(r.p); // after all of it
    CHECK_INT(proc_write(r.p, STR("too late")), 0);
    loop_run(&l);
    CHECK_INT(r.out.n, 6 + (3 << 20));
    CHECK(memcmp(r.out.p + 6, bytes, 3 << 20) == 0);
    CHECK_INT(r.x.code, 0);
    end(&r);
    free(bytes);
    finish();
}

TEST(stdin_is_a_pipe_that_can_be_opened_by_name)
{
    const char *const argv[] = {"cat", "/dev/stdin", NULL};
    struct proc_opts o = {.argv = argv, .env = plain_env, .in = PROC_PIPE, .out = PROC_PIPE};
    struct run r;
    begin();
    start(&r, &o);
    CHECK_INT(proc_write(r.p, STR("by name")), 0);
    proc_close_stdin(r.p);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "by name");
    end(&r);
    finish();
}

TEST(the_queue_for_stdin_is_bounded)
{
    struct proc_opts o = shell("read -r line");
    struct run r;
    char *bytes = xcalloc(1, 12 << 20);
    o.in = PROC_PIPE;
    begin();
    start(&r, &o);
    CHECK_INT(proc_write(r.p, (struct str){bytes, 12 << 20}), 0);
    CHECK_INT(proc_write(r.p, (struct str){bytes, 12 << 20}), UV_ENOBUFS);
    proc_kill(r.p, SIGKILL);
    end(&r);
    CHECK_INT(r.x.signal, SIGKILL);
    free(bytes);
    finish();
}

TEST(writing_to_a_child_that_does_not_read_is_ignored)
{
    struct proc_opts o = shell("exec <&-; echo closed; read -r line <&3; exit 5");
    struct run r;
    int fds[2];
    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    o.in = PROC_PIPE;
    o.fd3 = fds[0];
    begin();
    start(&r, &o);
    wait_for_output(&r, "closed");
    for (int i = 0; i < 3; i++) {
        CHECK_INT(proc_write(r.p, STR("anyone there?")), 0);
        loop_run_once(&l, false);
    }
    close(fds[1]);
    end(&r);
    CHECK_INT(r.x.code, 5);
    close(fds[0]);
    finish();
}

static bool is_blocked(int pid)
{
    char path[64], state[512];
    snprintf(path, sizeof path, "/proc/%d/wchan", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, state, sizeof state - 1);
    close(fd);
    state[n > 0 ? n : 0] = '\0';
    return strstr(state, "pipe") != NULL;
}

TEST(a_paused_child_fills_its_pipe_and_waits)
{
    const char *const argv[] = {"/usr/bin/head", "-c", "1000000", "/dev/zero", NULL};
    struct proc_opts o = {.argv = argv, .env = plain_env, .out = PROC_PIPE};
    struct run r;
    begin();
    start(&r, &o);
    r.pause_after = 1;
    while (r.out.n == 0) {
        CHECK(loop_run_once(&l, true));
    }
    size_t got = r.out.n;
    while (!is_blocked(proc_pid(r.p))) { // it can go no further
        loop_run_once(&l, false);
    }
    CHECK_INT(r.out.n, got);
    CHECK(got < 200000);
    r.pause_after = 0;
    proc_pause(r.p, false);
    proc_pause(r.p, false); // twice is once
    loop_run(&l);
    CHECK_INT(r.out.n, 1000000);
    end(&r);
    finish();
}

TEST(a_paused_child_that_has_exited_waits_with_its_output_and_end)
{
    struct proc_opts o = shell("echo last words");
    struct run r;
    begin();
    start(&r, &o);
    proc_pause(r.p, true);
    loop_run(&l); // nothing is active once it is gone: only we hold it back
    CHECK_INT(r.exits, 0);
    CHECK_INT(r.out.n, 0);
    proc_pause(r.p, false);
    loop_run(&l);
    CHECK_STR(buf_z(&r.out), "last words\n");
    end(&r);
    finish();
}

TEST(a_grandchild_that_keeps_the_pipe_does_not_hold_back_the_end)
{
    // It ends when its own stdin, a pipe that we hold, is closed.
    struct proc_opts o = shell("echo before; cat <&3 >/dev/null & echo pid $!");
    struct run r;
    int fds[2];
    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    o.fd3 = fds[0];
    begin();
    start(&r, &o);
    loop_run(&l);
    CHECK_INT(r.exits, 1);
    CHECK_INT(r.out_ends, 1);
    CHECK(str_starts(buf_str(&r.out), "before\npid "));
    pid_t left = (pid_t)strtol(buf_z(&r.out) + strlen("before\npid "), NULL, 10);
    CHECK_INT(kill(left, 0), 0); // it did hold the pipe
    close(fds[1]);
    close(fds[0]);
    end(&r);
    finish();
}

TEST(a_grandchild_that_writes_for_ever_does_not_hold_back_the_end)
{
    struct proc_opts o = shell("yes & head -c 100 /dev/zero");
    struct run r;
    begin();
    start(&r, &o);
    loop_run(&l); // `yes` ends when nobody can read it any more
    CHECK_INT(r.exits, 1);
    CHECK_INT(r.out_ends, 1);
    end(&r);
    finish();
}

// ---- ending --------------------------------------------------------------------------------

TEST(a_kill_reaches_the_whole_group)
{
    struct proc_opts o = shell("sleep 1000 & echo ready; wait");
    struct run r;
    int fds[2];
    char c;
    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    o.fd3 = fds[1];
    begin();
    start(&r, &o);
    close(fds[1]);
    wait_for_output(&r, "ready");
    proc_kill(r.p, SIGTERM);
    end(&r);
    CHECK_INT(r.x.signal, SIGTERM);
    CHECK_INT(read(fds[0], &c, 1), 0); // the end comes when the last holder of descriptor 3 is gone
    close(fds[0]);
    finish();
}

TEST(a_kill_right_after_the_start_is_not_lost)
{
    struct proc_opts o = shell("exec sleep 1000");
    struct run r;
    begin();
    for (int i = 0; i < 20; i++) {
        o.supervise = i % 2 != 0;
        start(&r, &o);
        proc_kill(r.p, SIGTERM);
        end(&r);
        CHECK_INT(r.x.signal, SIGTERM);
    }
    finish();
}

static void check_end_kills(bool supervise)
{
    struct proc_opts o =
        shell("trap 'echo got term' TERM; echo ready; while :; do read x <&3; done");
    struct run r;
    int fds[2];
    CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
    o.fd3 = fds[0];
    o.supervise = supervise;
    start(&r, &o);
    wait_for_output(&r, "ready");
    proc_end(r.p, 50);
    loop_run(&l);
    CHECK(strstr(buf_z(&r.out), "got term") != NULL);
    CHECK_INT(r.x.signal, SIGKILL);
    end(&r);
    close(fds[0]);
    close(fds[1]);
}

TEST(ending_asks_first_and_then_kills)
{
    begin();
    check_end_kills(false);
    check_end_kills(true);
    finish();
}

TEST(a_grace_period_that_was_not_needed_does_not_hold_the_loop)
{
    struct proc_opts o = shell("echo ready; sleep 1000");
    struct run r;
    begin();
    start(&r, &o);
    wait_for_output(&r, "ready");
    proc_end(r.p, 3600000);
    end(&r); // returns when nothing is left to do
    CHECK_INT(r.x.signal, SIGTERM);
    finish();
}
