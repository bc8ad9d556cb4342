#include <errno.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bind/bind_int.h"
#include "sandbox/bpf_int.h"
#include "unit/bind/rig.h"

TEST(a_program_gives_its_code_and_what_it_said)
{
    rig_open();
    rig_run("local r = exec{cmd = 'sh', args = {'-c', 'cat; echo err >&2; exit 3'}, stdin = 'in'}"
            "say(r.code, r.signal, r.stdout, r.stderr)");
    CHECK(strstr(buf_z(&rig.said), "3 nil in err\n") != NULL);
    rig_run("local r = exec{cmd = '/bin/sh', args = {'-c', 'kill -9 $$'}} say(r.code, r.signal)");
    CHECK(rig_said("nil 9"));
    rig_close();
}

TEST(a_callback_gets_the_result_of_a_program)
{
    rig_open();
    rig_load("a", "say(exec({cmd = 'echo', args = {'hi', 7}}, function(r) say(r.code, r.stdout) "
                  "end)) exec({cmd = '/no/such'}, function(r, why) say(r, why) end)");
    rig_wait("0 hi 7");
    while (strstr(buf_z(&rig.said), "nil exec: cannot start '/no/such'") == NULL) {
        loop_run_once(&l, true);
    }
    rig_close();
}

TEST(arguments_are_not_given_to_a_shell)
{
    rig_open();
    rig_run("say(exec{cmd = 'echo', args = {'$HOME;', '`id`', 'a  b'}}.stdout)");
    CHECK(strstr(buf_z(&rig.said), "$HOME; `id` a  b\n") != NULL);
    rig_close();
}

TEST(the_environment_is_what_was_given_or_an_allow_list)
{
    rig_open();
    setenv("AFLOAT_TEST_KEY", "secret", 1);
    rig_run("local e = exec{cmd = 'env'}.stdout say(e:find('PATH=') ~= nil, e:find('TEST_KEY'))"
            "say(exec{cmd = 'env', env = {A = '1'}, cwd = '/tmp'}.stdout)");
    CHECK(rig_said("true nil"));
    CHECK(strstr(buf_z(&rig.said), "\nA=1\n\n") != NULL);
    rig_run("say(exec{cmd = 'pwd', cwd = '/usr'}.stdout)");
    CHECK(rig_said("/usr"));
    rig_close();
}

TEST(output_is_cut_after_a_mebibyte_and_says_so)
{
    rig_open();
    rig_run("for _, n in ipairs{1048576, 1048577, 3000000} do "
            "local r = exec{cmd = 'head', args = {'-c', n, '/dev/zero'}} "
            "say(#r.stdout, #r.stdout > 1048576 and r.stdout:sub(-18):gsub('\\n', '|')) end");
    CHECK_STR(buf_z(&rig.said), "1048576 false\n1048594 |[cut after 1 MiB]\n"
                                "1048594 |[cut after 1 MiB]\nend\n");
    rig_close();
}

TEST(a_program_that_runs_out_of_time_is_ended)
{
    rig_open();
    rig_run("say(exec{cmd = 'sleep', args = {'600'}, timeout_s = 0.02})");
    CHECK(rig_said("nil exec: 'sleep' ran out of time after 0.02 s"));
    rig_close();
}

TEST(exec_checks_its_options)
{
    rig_open();
    rig_run(
        "for _, o in ipairs{{}, {cmd = 1}, {cmd = 'x', arg = {}}, {cmd = 'x', args = {{}}},"
        "{cmd = 'x', env = {['a=b'] = ''}}, {cmd = 'x', cwd = 'y'}, {cmd='x', env={A='\\0'}}} do "
        "say(select(2, pcall(exec, o))) end say(select(2, pcall(exec, 'ls')))");
    CHECK(strstr(buf_z(&rig.said), "exec: cmd must be a string, not nil") != NULL);
    CHECK(strstr(buf_z(&rig.said), "exec: cmd must be a string, not number") != NULL);
    CHECK(strstr(buf_z(&rig.said), "exec: unknown option 'arg' (did you mean 'args'?)") != NULL);
    CHECK(strstr(buf_z(&rig.said), "exec: an argument must be a string, not table") != NULL);
    CHECK(strstr(buf_z(&rig.said), "exec: 'a=b' cannot be the name of a variable") != NULL);
    CHECK(strstr(buf_z(&rig.said), "exec: cwd must be an absolute path") != NULL);
    CHECK(strstr(buf_z(&rig.said), "exec: the value of a variable must not hold a NUL") != NULL);
    CHECK(strstr(buf_z(&rig.said), "exec: expects a table") != NULL);
    rig_close();
}

TEST(a_program_in_a_sandbox_writes_only_its_directory_and_has_no_network)
{
    rig_open();
    CHECK_INT(mkdir(rig_path("ws"), 0755), 0);
    CHECK_INT(mkdir(rig_path("beside"), 0755), 0);
    static const char script[] =
        "local function sh(mode, text, ...) local r, why = exec{cmd = 'sh', args = {'-c', text, "
        "'sh', ...}, cwd = '%s', sandbox = mode} say(r and r.code == 0, why) end "
        "local python = 'import socket; socket.socket()' "
        "sh(true, 'pwd > inside') sh(true, 'echo x > \"$1/outside\"', '%s') "
        "sh(true, 'python3 -c \"$1\"', python) sh(false, 'echo x > \"$1/outside\"', '%s') "
        "sh('read-only', 'echo x > again') sh('read-only', 'cat inside') "
        "sh('workspace-write', 'echo x > again')";
    rig_run(rig_code(script, rig_path("ws"), rig_path("beside"), rig_path("beside")));
    CHECK_STR(buf_z(&rig.said),
              "true nil\nfalse nil\nfalse nil\ntrue nil\nfalse nil\ntrue nil\ntrue nil\nend\n");
    rig_close();
}

TEST(a_sandbox_without_a_directory_writes_nothing)
{
    rig_open();
    rig_run(
        rig_code("local r = exec{cmd = 'sh', args = {'-c', 'pwd; touch %s/no || touch /tmp/yes'}, "
                 "sandbox = true} say(r.code, r.stdout)",
                 test_dir()));
    CHECK_STR(buf_z(&rig.said), "0 /\n\nend\n");
    rig_close();
}

TEST(a_sandbox_that_cannot_be_had_runs_nothing)
{
    rig_open();
    rig_run(
        rig_code("local ran = '%s' for _, cwd in ipairs{'/', '%s', '/no/such'} do "
                 "say(exec{cmd = 'touch', args = {ran}, cwd = cwd, sandbox = true}) end "
                 "for _, o in ipairs{{sandbox = 'workspace-write'}, {sandbox = 1, cwd = '/'}, "
                 "{sandbox = 'danger-full-access', cwd = '/'}} do o.cmd = 'touch' o.args = {ran} "
                 "say(select(2, pcall(exec, o))) end say(fs.exists(ran))",
                 rig_path("ran"), rig_path("")));
    CHECK(rig_said("nil exec: cannot start 'touch': the working directory is /: name another cwd, "
                   "or use sandbox = \"read-only\""));
    CHECK(strstr(buf_z(&rig.said), "the working directory holds Afloat's own files") != NULL);
    CHECK(strstr(buf_z(&rig.said), "the working directory '/no/such' is gone") != NULL);
    CHECK(strstr(buf_z(&rig.said), "exec: sandbox \"workspace-write\" needs a cwd") != NULL);
    CHECK(strstr(buf_z(&rig.said), "'sandbox' as true or a mode") != NULL);
    CHECK(strstr(buf_z(&rig.said), "exec: sandbox must be true, \"workspace-write\"") != NULL);
    CHECK(strstr(buf_z(&rig.said), "\nfalse\nend\n") != NULL);
    rig_close();
}

TEST(without_landlock_nothing_is_run_in_a_sandbox)
{
    static struct bpf program;
    rig_open();
    CHECK_INT(mkdir(rig_path("ws"), 0755), 0);
    bpf_start(&program);
    bpf_add(&program, &(struct bpf_rule){.nr = SYS_landlock_create_ruleset,
                                         .verdict = SECCOMP_RET_ERRNO | ENOSYS});
    bpf_return(&program, SECCOMP_RET_ALLOW);
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_INT(bpf_enter(&program), 0);
    rig_run(rig_code("local ws = '%s' say(exec{cmd = 'touch', args = {'ran'}, cwd = ws, sandbox = "
                     "true}) say(fs.exists(ws .. '/ran'))",
                     rig_path("ws")));
    CHECK(strstr(buf_z(&rig.said), "nil exec: cannot start 'touch': no sandbox: the kernel has no "
                                   "Landlock") != NULL);
    CHECK(strstr(buf_z(&rig.said), "or leave 'sandbox' out") != NULL);
    CHECK(strstr(buf_z(&rig.said), "danger-full-access") == NULL);
    CHECK(rig_said("false"));
    rig_close();
}

static void hold_lane(void *arg)
{
    sem_wait(arg);
}

static void lane_is_free(void *arg)
{
    (void)arg;
}

/// Run `lua` while its sandbox cannot be made, as if the directory were on a mount that does not answer, until time is up.
static void exec_late(const char *lua)
{
    enum { HELD = 8 }; // more than the lane has threads
    sem_t go;
    rig_open();
    CHECK_INT(mkdir(rig_path("ws"), 0755), 0);
    CHECK_INT(sem_init(&go, 0, 0), 0);
    rig_load("a", rig_code("local touch = {cmd = 'touch', args = {'ran'}, cwd = '%s', "
                           "sandbox = true, timeout_s = 0.05} "
                           "events.on('feature.changed', function() %s end)",
                           rig_path("ws"), lua));
    for (int i = 0; i < HELD; i++) {
        work_submit(rig.bind->files, work_mount_key(rig_path("ws")), hold_lane, lane_is_free, &go);
    }
    event_emit(rig.events, STR("feature.changed"), STR_NULL, STR("\"name\":\"x\""));
    rig_wait("ended nil exec: 'touch' ran out of time after 0.05 s");
    for (int i = 0; i < HELD; i++) {
        sem_post(&go);
    }
    rig_run(rig_code("say('code', exec{cmd = 'true', cwd = '%s', sandbox = true}.code)",
                     rig_path("ws"))); // made after the other one
    CHECK(rig_said("code 0"));
    CHECK(access(rig_path("ws/ran"), F_OK) != 0);
    rig_close();
    sem_destroy(&go);
}

TEST(the_time_to_make_a_sandbox_counts)
{
    exec_late("exec(touch, function(...) say('ended', ...) end)");
}

TEST(the_time_to_make_a_sandbox_counts_for_code_that_waits)
{
    exec_late("say('ended', exec(touch))");
}

TEST(code_that_leaves_while_its_sandbox_is_made_is_forgotten)
{
    rig_open();
    CHECK_INT(mkdir(rig_path("ws"), 0755), 0);
    rig_load("a",
             rig_code("exec({cmd = 'true', cwd = '%s', sandbox = true}, function() say('late') "
                      "end)",
                      rig_path("ws")));
    rig_remove("a");
    rig_run("say(exec{cmd = 'true'}.code)");
    CHECK(!rig_said("late"));
    rig_close();
}

TEST(arguments_and_variables_of_a_program_are_bounded)
{
    rig_open();
    rig_run("local s, many, env = ('x'):rep(100000), {}, {} for i = 1, 30 do many[i] = s env['V' "
            ".. i] = s end "
            "say(pcall(exec, {cmd = 'true', args = many})) "
            "say(pcall(exec, {cmd = 'true', env = env})) say('end')");
    CHECK(rig_said("false exec: 'args' is larger than 2 MiB: give large texts as stdin"));
    CHECK(rig_said("false exec: 'env' is larger than 2 MiB: give large texts as stdin"));
    rig_close();
}

TEST(os_execute_and_io_popen_wait_without_blocking)
{
    rig_open();
    rig_run("say(os.execute()) say(os.execute('exit 3')) say(os.execute('true'))"
            "local f = io.popen('echo one; echo two; exit 4') for s in f:lines() do say(s) end "
            "say(f:close()) say(pcall(io.popen, 'cat', 'w'))");
    CHECK(rig_said("true"));
    CHECK(rig_said("nil exit 3"));
    CHECK(rig_said("true exit 0"));
    CHECK(rig_said("one") && rig_said("two"));
    CHECK(rig_said("nil exit 4"));
    CHECK(strstr(buf_z(&rig.said), "commands can only be read from") != NULL);
    CHECK(strstr(rig_fault("a", "os.execute('true')"), "cannot wait here") != NULL);
    CHECK(strstr(rig_fault("a", "os.exit(0)"), "os.exit") != NULL);
    rig_close();
}

TEST(the_files_of_io_are_counted)
{
    rig_open();
    rig_write("file", "text\n");
    rig_run(rig_code("local held = {}\n"
                     "for i = 1, 256 do held[i] = assert(io.open('%s')) end\n"
                     "say(io.open('%s')) say((pcall(io.lines, '%s'))) say((io.tmpfile()))\n"
                     "held[1]:close() held[1] = assert(io.open('%s')) held = nil\n"
                     "for i = 1, 1000 do assert(io.open('%s')) end say('collected')\n"
                     "for i = 1, 1000 do for l in io.lines('%s') do break end end say('closed')",
                     rig_path("file"), rig_path("file"), rig_path("file"), rig_path("file"),
                     rig_path("file"), rig_path("file")));
    CHECK_STR(buf_z(&rig.said), "nil io.open: no more than 256 open files at once\nfalse\nnil\n"
                                "collected\nclosed\nend\n");
    rig_close();
}

TEST(modules_are_not_looked_for_in_pipes)
{
    rig_open();
    CHECK_INT(mkfifo(rig_path("fifo"), 0600), 0);
    rig_write("mod.lua", "return 7\n");
    char *fifo = xstrdup(rig_path("fifo")), *dir = xstrdup(rig_path(""));
    rig_run(rig_code("say((package.searchpath('x', '%s'))) say((package.loadlib('%s', '*')))"
                     "package.cpath = '%s' package.path = '%s;%s/?.lua'"
                     "say((pcall(require, 'x'))) say((pcall(require, 'x.y'))) say((require('mod')))"
                     "say(select(2, package.searchpath('a.b', '/no/?;/none/?.lua')))",
                     fifo, fifo, fifo, fifo, dir));
    CHECK_STR(buf_z(&rig.said), "nil\nnil\nfalse\nfalse\n7\n"
                                "\n\tno file '/no/a/b'\n\tno file '/none/a/b.lua'\nend\n");
    free(fifo);
    free(dir);
    rig_close();
}

TEST(the_files_of_io_do_not_stop_the_loop)
{
    rig_open();
    CHECK_INT(mkfifo(rig_path("fifo"), 0600), 0);
    rig_write("file", "text\n");
    char *fifo = xstrdup(rig_path("fifo"));
    rig_run(rig_code("say(io.open('%s')) say((pcall(io.lines, '%s'))) say((pcall(io.input, '%s')))"
                     "say((pcall(io.output, '%s'))) say((io.open('%s', 'w')))"
                     "say(io.open('%s'):read('l')) for l in io.lines('%s') do say(l) end "
                     "say(io.open('/dev/null'):read('a') == '') say((io.open('/no/such')))",
                     fifo, fifo, fifo, fifo, fifo, rig_path("file"), rig_path("file")));
    char *want =
        xasprintf("nil io.open: '%s' is not a regular file and could block the hub; use exec\n"
                  "false\nfalse\nfalse\nnil\ntext\ntext\ntrue\nnil\nend\n",
                  fifo);
    CHECK_STR(buf_z(&rig.said), want);
    free(want);
    free(fifo);
    rig_close();
}
