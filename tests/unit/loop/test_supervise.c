// What the supervisor promises: when it is over, every descendant is gone.
//
// Each descendant inherits descriptor 3, the write end of a pipe whose read end the test holds.
// Reading its end is proof that nobody is left, without knowing one pid.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop/proc.h"
#include "unit/loop/run.h"

/// `setsid -f` forks and calls setsid(); inside it the same again: a daemon by the book.
#define DAEMON "setsid -f sh -c 'setsid -f sh -c \"echo daemon; exec sleep 1000\" &' "

static int life[2]; // a pipe: read end here, write end in every descendant

static struct proc_opts supervised(const char *script)
{
    struct proc_opts o = shell(script);
    CHECK_INT(pipe2(life, O_CLOEXEC), 0);
    o.supervise = true;
    o.fd3 = life[1];
    return o;
}

/// Nobody holds the write end at this very moment.
static void check_all_gone(void)
{
    char c;
    close(life[1]);
    CHECK_INT(fcntl(life[0], F_SETFL, O_NONBLOCK), 0);
    CHECK_INT(read(life[0], &c, 1), 0);
    close(life[0]);
}

TEST(a_daemon_is_gone_when_its_supervised_program_has_ended)
{
    struct proc_opts o = supervised(DAEMON "; echo main; read -r line");
    struct run r;
    o.in = PROC_PIPE;
    begin();
    start(&r, &o);
    wait_for_output(&r, "daemon");
    CHECK_INT(proc_write(r.p, STR("go\n")), 0); // the main program exits by itself
    loop_run(&l);
    CHECK_INT(r.exits, 1);
    check_all_gone();
    CHECK_INT(r.x.code, 0);
    CHECK_INT(r.x.signal, 0);
    end(&r);
    finish();
}

TEST(a_kill_reaches_a_daemon_of_a_supervised_program)
{
    struct proc_opts o = supervised(DAEMON "; trap '' TERM; cat <&0");
    struct run r;
    o.in = PROC_PIPE;
    begin();
    start(&r, &o);
    wait_for_output(&r, "daemon");
    proc_kill(r.p, SIGKILL);
    loop_run(&l);
    CHECK_INT(r.exits, 1);
    check_all_gone();
    CHECK_INT(r.x.signal, SIGKILL);
    end(&r);
    finish();
}

/// Waits for ever and answers USR1; the quotes are those of the shell around it.
#define ANSWER(word, quote)                                                                        \
    "trap " quote "echo " word quote " USR1; echo ready-" word                                     \
    "; while :; do sleep 1000 & wait; done"

static void check_usr1_reaches(const char *script, const char *near, const char *far)
{
    struct proc_opts o = supervised(script);
    struct run r;
    char ready[32];
    start(&r, &o);
    snprintf(ready, sizeof ready, "ready-%s", near);
    wait_for_output(&r, ready);
    snprintf(ready, sizeof ready, "ready-%s", far);
    wait_for_output(&r, ready);
    buf_clear(&r.out);
    proc_kill(r.p, SIGUSR1);
    wait_for_output(&r, near);
    wait_for_output(&r, far);
    proc_kill(r.p, SIGKILL);
    loop_run(&l);
    check_all_gone();
    end(&r);
}

TEST(another_signal_reaches_every_descendant_and_ends_none_that_handles_it)
{
    begin();
    check_usr1_reaches("setsid -f sh -c '" ANSWER("orphan", "\"") "'\n" ANSWER("main", "'"), "main",
                       "orphan");
    check_usr1_reaches("setsid sh -c '" ANSWER("deep", "\"") "' &\n" ANSWER("main", "'"), "main",
                       "deep");
    finish();
}

TEST(a_signal_reaches_the_child_of_a_thread)
{
    begin();
    check_usr1_reaches(LOOP_ROGUE " thread '" ANSWER("child", "\"") "' &\n" ANSWER("main", "'"),
                       "main", "child");
    finish();
}

TEST(a_descendant_that_ignores_term_is_killed)
{
    struct proc_opts o = supervised("setsid -f sh -c 'trap \"\" TERM; echo deaf; "
                                    "while :; do sleep 1000; done'\nread -r line");
    struct run r;
    o.in = PROC_PIPE;
    begin();
    start(&r, &o);
    wait_for_output(&r, "deaf");
    proc_close_stdin(r.p);
    loop_run(&l);
    CHECK_INT(r.exits, 1);
    check_all_gone();
    CHECK_INT(r.x.code, 1); // of `read` at the end of its input, not of the killed one
    end(&r);
    finish();
}

TEST(a_stopped_descendant_is_woken_to_end)
{
    struct proc_opts o = supervised("setsid -f sh -c 'trap \"echo goodbye; exit\" TERM; "
                                    "echo stopping; kill -STOP $$; sleep 1000'\nread -r line");
    struct run r;
    o.in = PROC_PIPE;
    begin();
    start(&r, &o);
    wait_for_output(&r, "stopping");
    proc_close_stdin(r.p);
    loop_run(&l);
    CHECK_INT(r.exits, 1);
    check_all_gone();
    CHECK(strstr(buf_z(&r.out), "goodbye") != NULL);
    end(&r);
    finish();
}

TEST(a_fork_bomb_is_ended)
{
    // 40 processes alive, each of which replaces itself for ever.
    struct proc_opts o = supervised("bomb() { trap '' TERM HUP; while :; do (:) & wait; done; }\n"
                                    "i=0; while [ $i -lt 40 ]; do setsid -f true; bomb & "
                                    "i=$((i+1)); done; echo armed; wait");
    struct run r;
    begin();
    start(&r, &o);
    wait_for_output(&r, "armed");
    proc_kill(r.p, SIGKILL);
    loop_run(&l);
    CHECK_INT(r.exits, 1);
    check_all_gone();
    end(&r);
    finish();
}

TEST(processes_that_replace_themselves_are_ended)
{
    // Each starts the next one and exits: whoever is seen may be gone when the signal comes. One
    // sweep gets all of them about every second time.
    begin();
    for (int i = 0; i < 6; i++) {
        struct proc_opts o = supervised(LOOP_ROGUE " hop 20; echo armed; sleep 1000");
        struct run r;
        start(&r, &o);
        wait_for_output(&r, "armed");
        proc_kill(r.p, SIGKILL);
        loop_run(&l);
        CHECK_INT(r.exits, 1);
        check_all_gone();
        end(&r);
    }
    finish();
}

TEST(a_deep_chain_of_processes_is_ended)
{
    struct proc_opts o = supervised("deep() { if [ $1 -gt 0 ]; then (deep $(($1-1)); :); else "
                                    "echo bottom; sleep 1000; fi; }; deep 200");
    struct run r;
    begin();
    start(&r, &o);
    wait_for_output(&r, "bottom");
    proc_kill(r.p, SIGKILL);
    loop_run(&l);
    check_all_gone();
    end(&r);
    finish();
}

TEST(the_supervisor_does_not_keep_the_streams_open)
{
    // The program closes its output and lives on: the end must come although the supervisor lives.
    struct proc_opts o = supervised("exec >&- 2>&-; read -r line");
    struct run r;
    o.in = PROC_PIPE;
    begin();
    start(&r, &o);
    while (r.out_ends == 0 || r.err_ends == 0) {
        CHECK(loop_run_once(&l, true));
    }
    CHECK_INT(r.exits, 0);
    proc_close_stdin(r.p);
    end(&r);
    check_all_gone();
    finish();
}

TEST(the_program_dies_with_its_supervisor)
{
    struct proc_opts o = supervised("echo ready; exec sleep 1000");
    struct run r;
    char c;
    begin();
    start(&r, &o);
    wait_for_output(&r, "ready");
    CHECK_INT(kill(proc_pid(r.p), SIGKILL), 0);
    loop_run(&l);
    CHECK_INT(r.exits, 1);
    CHECK_INT(r.x.code, -1);
    CHECK_INT(r.x.signal, SIGKILL);
    close(life[1]);
    CHECK_INT(read(life[0], &c, 1), 0); // waits for the program's end
    close(life[0]);
    end(&r);
    finish();
}

/// Start tests/unit/loop/spawner.c without the loop: what it stands for is another process.
static pid_t start_spawner(const char *script, int out)
{
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out, STDOUT_FILENO);
        dup2(life[1], 3);
        execl(LOOP_SPAWNER, "spawner", LOOP_LAUNCHER, script, (char *)NULL);
        _exit(126);
    }
    return pid;
}

TEST(a_hub_killed_with_nine_leaves_no_descendant_behind)
{
    int out[2];
    char text[256] = "", c;
    size_t n = 0;
    CHECK_INT(pipe(life), 0);
    CHECK_INT(pipe2(out, O_CLOEXEC), 0);
    fcntl(life[0], F_SETFD, FD_CLOEXEC);
    pid_t hub =
        start_spawner(DAEMON "; trap '' TERM; echo main; while :; do sleep 1000; done", out[1]);
    close(out[1]);
    close(life[1]);
    while (strstr(text, "daemon") == NULL || strstr(text, "main") == NULL) {
        ssize_t got = read(out[0], text + n, sizeof text - 1 - n);
        CHECK(got > 0);
        n += (size_t)got;
    }
    kill(hub, SIGKILL);
    CHECK_INT(waitpid(hub, NULL, 0), hub);
    CHECK_INT(read(life[0], &c, 1), 0); // waits for the last one
    close(out[0]);
    close(life[0]);
}
