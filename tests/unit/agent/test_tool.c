// The built-in tools, each called as a session would: in a box, with a lane for files.

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/tool.h"
#include "base/path.h"
#include "base/schema.h"
#include "sandbox/bpf_int.h"
#include "unit/sandbox/boxed.h"

static struct lane *lane;
static char outputs[400];
static const char *environment[] = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "WHO=client",
                                    "TMPDIR=/nonexistent", NULL};

/// What came of a call.
static struct {
    struct tool_job *call;
    struct buf output, progress;
    char error[300];
    bool success;
    int dones;
    uint64_t timeout_ms, memory, processes;
    const char *const *environment; // NULL: the usual one
    const char *call_id;
    bool want_progress;
    void (*on_progress)(void);
} got;

static void on_progress(struct tool_job *c, struct str text, void *arg)
{
    CHECK(c == got.call && arg == &got && got.dones == 0);
    buf_adds(&got.progress, text);
    if (got.on_progress != NULL) {
        got.on_progress();
    }
}

static void on_done(struct tool_job *c, const struct tool_result *r, void *arg)
{
    CHECK(c == got.call && arg == &got);
    got.dones++;
    buf_adds(&got.output, r->output);
    snprintf(got.error, sizeof got.error, "%s", r->error != NULL ? r->error : "");
    CHECK_INT(r->success, r->error == NULL);
    got.success = r->success;
    got.call = NULL;
}

static void begin(void)
{
    boxed_begin(true);
    lane = lane_open(&boxed.loop, "files", 2);
    snprintf(outputs, sizeof outputs, "%s/home/sessions/s/outputs", boxed.base);
    buf_init(&got.output, SIZE_MAX);
    buf_init(&got.progress, SIZE_MAX);
    got.call_id = "call_1";
}

static void end(void)
{
    lane_close(lane);
    buf_fini(&got.output);
    buf_fini(&got.progress);
    boxed_end();
}

static void start(const char *name, const char *input)
{
    struct tool_env env = {
        .loop = &boxed.loop,
        .lane = lane,
        .policy = &boxed.policy,
        .environment = got.environment != NULL ? got.environment : environment,
        .memory = got.memory,
        .processes = got.processes,
        .outputs_dir = outputs,
        .call_id = got.call_id,
        .timeout_ms = got.timeout_ms,
    };
    struct tool_cb cb = {.on_progress = got.want_progress ? on_progress : NULL, .on_done = on_done};
    struct json *v = NULL;
    struct arena a = {0};
    if (strcmp(name, "shell") == 0 || strcmp(name, "search_files") == 0) {
        boxed_need();
    }
    CHECK_INT(json_parse(&v, &a, str_of(input), NULL, NULL), 0);
    buf_clear(&got.output);
    buf_clear(&got.progress);
    got.dones = 0;
    got.call = tool_job_start(&env, tool_find(str_of(name)), v, &cb, &got);
    arena_fini(&a);
    CHECK_INT(got.dones, 0); // never from inside the call
}

static void wait(void)
{
    while (got.dones == 0) {
        loop_run_once(&boxed.loop, true);
    }
    CHECK_INT(got.dones, 1);
}

/// Call a tool and wait for its end. `input` is JSON with ' for ".
static void call(const char *name, const char *input)
{
    char text[4096];
    snprintf(text, sizeof text, "%s", input);
    for (char *p = text; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    start(name, text);
    wait();
}

static void check_good(const char *output)
{
    CHECK_STR(got.error, "");
    CHECK_STR(buf_z(&got.output), output);
}

static void check_bad(const char *says)
{
    CHECK(!got.success);
    if (strstr(got.error, says) == NULL) {
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s' (output: %s)", got.error, says,
                  buf_z(&got.output));
    }
}

// ---- the table -------------------------------------------------------------------------------

TEST(every_tool_has_a_schema_of_ours)
{
    struct arena a = {0};
    size_t n = 0;
    for (; tool_at(n) != NULL; n++) {
        const struct tool *t = tool_at(n);
        struct json *schema = NULL;
        struct err e = {0};
        if (json_parse(&schema, &a, str_of(t->schema), NULL, &e) != 0 ||
            schema_check(schema, &e) != 0) {
            test_fail(__FILE__, __LINE__, "%s: %s", t->name, e.msg);
        }
        CHECK(tool_find(str_of(t->name)) == t && t->description[0] != '\0');
    }
    CHECK_INT(n, 15);
    CHECK(tool_find(STR("nothing")) == NULL);
    arena_fini(&a);
}

TEST(an_input_that_does_not_fit_is_a_result)
{
    begin();
    call("shell", "{}");
    check_bad("cmd");
    call("shell", "{'cmd': 5}");
    check_bad("input.cmd");
    call("shell", "{'cmd': 'true', 'command': 'x'}");
    check_bad("command");
    call("shell", "[]");
    check_bad("object");
    call("read_file", "{'path': 'file', 'offset': 0}");
    check_bad("input.offset");
    end();
}

TEST(the_environment_is_the_clients_without_what_is_dropped)
{
    static const char *const client[] = {"PATH=/x",   "API_KEY=1", "my_token=2", "LD_PRELOAD=3",
                                         "KEYLESS=4", "LDX=5",     "EMPTY=",     NULL};
    static const char *const drop[] = {"*KEY", "*TOKEN*", "LD_*", NULL};
    struct arena a = {0};
    const char *const *env = tool_environment(client, drop, &a);
    CHECK_STR(env[0], "PATH=/x");
    CHECK_STR(env[1], "KEYLESS=4");
    CHECK_STR(env[2], "LDX=5");
    CHECK_STR(env[3], "EMPTY=");
    CHECK(env[4] == NULL);
    CHECK(tool_environment(NULL, drop, &a)[0] == NULL);
    CHECK_STR(tool_environment(client, NULL, &a)[1], "API_KEY=1");
    arena_fini(&a);
}

TEST(a_pattern_is_compared_with_the_whole_of_a_long_name)
{
    static const char *const drop[] = {"*_KEY", NULL};
    char name[400];
    memset(name, 'a', sizeof name);
    memcpy(name + sizeof name - 4, "_key", 4);
    CHECK(tool_drops((struct str){name, sizeof name}, drop));
    CHECK(!tool_drops((struct str){name, sizeof name - 1}, drop));
}

// ---- shell -----------------------------------------------------------------------------------

TEST(a_command_says_what_a_terminal_would_have_shown)
{
    begin();
    call("shell", "{'cmd': 'echo one; echo two >&2; echo three; pwd; echo $WHO $TMPDIR'}");
    char expect[500];
    snprintf(expect, sizeof expect, "one\ntwo\nthree\n%s\nclient /tmp\n", boxed.ws);
    check_good(expect);
    call("shell", "{'cmd': 'echo no; exit 3'}");
    check_bad("exit 3");
    CHECK_STR(buf_z(&got.output), "no\n");
    call("shell", "{'cmd': 'kill -9 $$'}");
    check_bad("signal 9");
    call("shell", "{'cmd': '[[ a == a ]] && cat'}"); // bash, and no input
    check_good("");
    end();
}

TEST(a_command_can_run_in_another_directory)
{
    begin();
    boxed_save("ws/sub/f", "");
    call("shell", "{'cmd': 'ls', 'cwd': 'sub'}");
    check_good("f\n");
    call("shell", "{'cmd': 'ls', 'cwd': 'none'}");
    check_bad("none");
    call("shell", "{'cmd': 'ls', 'cwd': '../hidden'}");
    check_bad("hidden");
    call("shell", "{'cmd': 'pwd', 'cwd': '/tmp'}");
    check_good("/tmp\n");
    end();
}

#define DAEMON "setsid -f sh -c 'echo $$ > pid; exec sleep 1000'; while ! test -s pid; do :; done; "

/// The daemon is gone; where its number means anything to us.
static void check_daemon_gone(void)
{
    struct buf text;
    int64_t pid = 0;
    buf_init(&text, 100);
    CHECK_INT(path_read(boxed_path("ws/pid"), &text, NULL), 0);
    CHECK(str_to_i64(str_trim(buf_str(&text)), &pid) && pid > 1);
    CHECK(kill((pid_t)pid, 0) == -1 && errno == ESRCH);
    buf_fini(&text);
}

TEST(a_command_that_takes_too_long_ends_with_all_it_has_started)
{
    begin();
    call("shell", "{'cmd': 'echo before; setsid -f sleep 1000; sleep 1000', 'timeout_s': 0.2}");
    check_bad("timed out after 0.2 s");
    CHECK_STR(buf_z(&got.output), "before\n");
    got.timeout_ms = 100;
    call("shell", "{'cmd': 'sleep 1000'}");
    check_bad("timed out after 0.1 s");
    boxed.policy.mode = BOX_FULL_ACCESS;
    boxed_save("ws/script", DAEMON "sleep 1000");
    call("shell", "{'cmd': 'sh script', 'timeout': 1}");
    check_bad("timed out after 1 s");
    check_daemon_gone();
    end();
}

static void cancel(void)
{
    if (strstr(buf_z(&got.progress), "ready") != NULL) {
        tool_job_cancel(got.call);
    }
}

TEST(an_interrupted_command_ends)
{
    begin();
    got.want_progress = true;
    got.on_progress = cancel;
    call("shell", "{'cmd': 'echo ready; setsid -f sleep 1000; sleep 1000'}");
    check_bad("interrupted");
    got.on_progress = NULL;
    start("shell", "{\"cmd\": \"touch ran\"}");
    tool_job_cancel(got.call); // before it has begun
    wait();
    check_bad("interrupted");
    CHECK(!boxed_exists("ws/ran"));
    end();
}

TEST(progress_comes_in_whole_characters)
{
    begin();
    got.want_progress = true;
    boxed_save("ws/say", "printf 'a\\303'; sleep 0.1; printf '\\244b\\377c'");
    call("shell", "{'cmd': 'sh say'}");
    check_good("aäb\xef\xbf\xbd"
               "c");
    CHECK_STR(buf_z(&got.progress), "aäb\xef\xbf\xbd"
                                    "c");
    end();
}

TEST(long_output_shows_its_head_and_tail_and_is_kept_whole)
{
    begin();
    struct buf whole;
    char path[450], expect[550];
    call("shell", "{'cmd': 'seq 1 20000'}");
    CHECK_STR(got.error, "");
    CHECK(str_starts(buf_str(&got.output), "1\n2\n3\n"));
    CHECK(str_ends(buf_str(&got.output), "\n19999\n20000\n"));
    CHECK(got.output.n < TOOL_OUTPUT_MAX + 1000 && got.output.n > TOOL_OUTPUT_MAX - 10);
    snprintf(path, sizeof path, "%s/call_1.txt", outputs);
    snprintf(expect, sizeof expect, "\n[%d bytes left out here; the whole output is in %s]\n",
             108894 - TOOL_OUTPUT_MAX, path); // of what seq writes
    CHECK(strstr(buf_z(&got.output), expect) != NULL);
    buf_init(&whole, SIZE_MAX);
    CHECK_INT(path_read(path, &whole, NULL), 0);
    CHECK_INT(whole.n, 108894);
    buf_fini(&whole);
    call("read_file", "{'path': '../home/sessions/s/outputs/call_1.txt', 'limit': 2}");
    check_good("1\n2\n[more follows: go on with offset 3]\n");
    call("shell", "{'cmd': 'cat ../home/sessions/s/outputs/call_1.txt'}");
    check_bad("exit 1");
    end();
}

TEST(the_name_of_an_output_file_stays_in_its_directory)
{
    begin();
    got.call_id = "../../..//etc/x y";
    call("shell", "{'cmd': 'seq 1 20000'}");
    CHECK(strstr(buf_z(&got.output), "outputs/_._.._..__etc_x_y.txt]") != NULL);
    CHECK(boxed_exists("home/sessions/s/outputs/_._.._..__etc_x_y.txt"));
    end();
}

TEST(a_hundred_megabytes_of_output_do_not_become_memory)
{
    begin();
    size_t before = test_heap_bytes(), most = before;
    start("shell", "{\"cmd\": \"head -c 100000000 /dev/zero\"}");
    while (got.dones == 0) {
        loop_run_once(&boxed.loop, true);
        most = MAX(most, test_heap_bytes());
    }
    CHECK_STR(got.error, "");
    CHECK(strstr(buf_z(&got.output), "\n[99967232 bytes left out here; ") != NULL);
    printf("100 MB of output: the heap grew by %zu KB\n", (most - before) / 1024);
    CHECK(most - before <= 2 << 20);
    struct stat st;
    CHECK_INT(stat(boxed_path("home/sessions/s/outputs/call_1.txt"), &st), 0);
    CHECK_INT(st.st_size, 100000000);
    end();
}

TEST(output_that_cannot_be_kept_is_still_shown)
{
    begin();
    boxed_save("home/sessions/s/outputs", "a file where the directory should be");
    call("shell", "{'cmd': 'seq 1 20000'}");
    CHECK_STR(got.error, "");
    CHECK(strstr(buf_z(&got.output), "could not be kept") != NULL);
    CHECK(str_ends(buf_str(&got.output), "\n20000\n"));
    end();
}

TEST(a_failed_command_says_that_the_network_is_off)
{
    begin();
    call("shell", "{'cmd': './escape inet; echo Network is unreachable; exit 1'}");
    check_bad("exit 1");
    CHECK(strstr(buf_z(&got.output), "[the network is off in this sandbox]") != NULL);
    boxed.policy.network = true;
    call("shell", "{'cmd': 'echo Network is unreachable; exit 1'}");
    CHECK(strstr(buf_z(&got.output), "sandbox") == NULL);
    end();
}

TEST(a_machine_without_isolation_runs_nothing_and_says_so)
{
    static struct bpf program;
    const struct bpf_rule rule = {SYS_clone,     SECCOMP_RET_ALLOW,         0, BPF_CLEAR,
                                  CLONE_NEWUSER, SECCOMP_RET_ERRNO | EPERM, 0, 0};
    begin();
    bpf_start(&program);
    bpf_add(&program, &rule);
    bpf_return(&program, SECCOMP_RET_ALLOW);
    CHECK_INT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) | bpf_enter(&program), 0);
    call("shell", "{'cmd': 'touch ran'}");
    check_bad("SANDBOX_UNAVAILABLE: no sandbox: the kernel allows no user namespace here");
    CHECK(!boxed_exists("ws/ran"));
    end();
}

// ---- files -----------------------------------------------------------------------------------

TEST(a_file_is_read_by_lines)
{
    begin();
    boxed_save("ws/lines", "one\ntwo\nthree\nfour");
    call("read_file", "{'path': 'lines'}");
    check_good("one\ntwo\nthree\nfour");
    call("read_file", "{'path': 'lines', 'offset': 2, 'limit': 2}");
    check_good("two\nthree\n[more follows: go on with offset 4]\n");
    call("read_file", "{'path': 'lines', 'offset': 9}");
    check_good("[the file has 4 lines]\n");
    boxed_save("ws/empty", "");
    call("read_file", "{'path': 'empty'}");
    check_good("");
    call("read_file", "{'path': 'none'}");
    check_bad("No such file");
    call("read_file", "{'path': '.'}");
    check_bad("a directory");
    CHECK_INT(mkfifo(boxed_path("ws/pipe"), 0600), 0);
    call("read_file", "{'path': 'pipe'}");
    check_bad("special");
    end();
}

TEST(a_long_file_comes_in_parts)
{
    begin();
    call("shell",
         "{'cmd': 'seq 1 20000 > long; head -c 100000 /dev/zero | tr \\\\\\\\0 x > wide'}");
    check_good("");
    call("read_file", "{'path': 'long', 'limit': 100000}");
    CHECK(got.output.n <= TOOL_OUTPUT_MAX + 100);
    unsigned next = 0;
    const char *more = strstr(buf_z(&got.output), "[more follows: go on with offset ");
    CHECK(more != NULL && sscanf(more, "[more follows: go on with offset %u", &next) == 1);
    char input[100], first[40];
    snprintf(input, sizeof input, "{'path': 'long', 'offset': %u, 'limit': 1}", next);
    call("read_file", input);
    snprintf(first, sizeof first, "%u\n", next);
    CHECK(str_starts(buf_str(&got.output), first));
    call("read_file", "{'path': 'wide'}");
    CHECK(strstr(buf_z(&got.output), "bytes of this line left out]") != NULL);
    CHECK(got.output.n <= TOOL_OUTPUT_MAX + 100);
    end();
}

TEST(a_binary_file_says_so)
{
    begin();
    CHECK_INT(path_write_atomic(boxed_path("ws/bin"), STR("a\0b"), 0644, NULL), 0);
    call("read_file", "{'path': 'bin'}");
    check_bad("binary file (3 bytes)");
    CHECK_INT(path_write_atomic(boxed_path("ws/bin"), STR("a\xff"), 0644, NULL), 0);
    call("edit_file", "{'path': 'bin', 'old': 'a', 'new': 'b'}");
    check_bad("binary file");
    end();
}

TEST(what_is_hidden_cannot_be_read_by_file_tools)
{
    static const char *const paths[] = {
        "../home/token",        "../home/secrets.json",
        "../hidden/key",        "link",
        "dirlink/key",          "/proc/self/environ",
        "/proc/self/fd/0",      "/proc/self/root/etc/passwd",
        "/proc/self/cwd/x",     "/sys/kernel/notes",
        "sub/../../home/token", NULL,
    };
    char input[200];
    begin();
    CHECK_INT(symlink("../home/token", boxed_path("ws/link")), 0);
    CHECK_INT(symlink("../hidden", boxed_path("ws/dirlink")), 0);
    for (size_t i = 0; paths[i] != NULL; i++) {
        snprintf(input, sizeof input, "{'path': '%s'}", paths[i]);
        call("read_file", input);
        CHECK(!got.success && got.output.n == 0);
        call("list_files", input);
        CHECK(!got.success && got.output.n == 0);
    }
    call("list_files", "{'path': '../hidden'}");
    check_bad("hidden");
    call("read_file", "{'path': '../home/plugins/p.lua'}");
    check_good("plugin");
    call("read_file", "{'path': '/etc/passwd', 'limit': 1}");
    CHECK(got.success);
    boxed.policy.mode = BOX_FULL_ACCESS;
    call("read_file", "{'path': '/proc/self/environ'}"); // that of the hub
    check_bad("may not be read");
    end();
}

static unsigned mode_of(const char *name)
{
    struct stat st;
    CHECK_INT(stat(boxed_path(name), &st), 0);
    return st.st_mode & 07777;
}

TEST(a_file_is_written_with_its_directories_and_keeps_its_mode)
{
    begin();
    call("write_file", "{'path': 'a/b/c', 'content': 'new'}");
    CHECK(got.success && boxed_holds("ws/a/b/c", "new"));
    CHECK_INT(chmod(boxed_path("ws/a/b/c"), 0750), 0);
    call("write_file", "{'path': 'a/b/c', 'content': ''}");
    CHECK(got.success && boxed_holds("ws/a/b/c", ""));
    CHECK_INT(mode_of("ws/a/b/c"), 0750);
    CHECK_INT(symlink("a/b/c", boxed_path("ws/inner")), 0);
    call("write_file", "{'path': 'inner', 'content': 'through'}");
    CHECK(got.success && boxed_holds("ws/a/b/c", "through"));
    struct stat st;
    CHECK(lstat(boxed_path("ws/inner"), &st) == 0 && S_ISLNK(st.st_mode));
    call("write_file", "{'path': 'a', 'content': ''}");
    check_bad("'");
    end();
}

TEST(a_file_may_be_called_deleted)
{
    begin();
    boxed_save("ws/x (deleted)", "here");
    call("read_file", "{'path': 'x (deleted)'}");
    check_good("here");
    call("edit_file", "{'path': 'x (deleted)', 'old': 'here', 'new': 'there'}");
    CHECK(got.success && boxed_holds("ws/x (deleted)", "there"));
    call("write_file", "{'path': 'd (deleted)/y', 'content': 'new'}");
    CHECK(got.success);
    call("list_files", "{'path': 'd (deleted)'}");
    check_good("y\n");
    end();
}

TEST(a_file_keeps_its_group)
{
    struct stat st;
    gid_t groups[64] = {4242};
    begin();
    int n = geteuid() == 0 ? 1 : getgroups(ARRAY_LEN(groups), groups);
    for (int i = 0; i < n; i++) {
        CHECK_INT(chown(boxed_path("ws/file"), (uid_t)-1, groups[i]), 0);
        call("edit_file", "{'path': 'file', 'old': 'mine', 'new': 'mine'}");
        CHECK(got.success && stat(boxed_path("ws/file"), &st) == 0 && st.st_gid == groups[i]);
    }
    end();
}

TEST(a_file_of_another_user_that_could_be_replaced_is_told_as_written)
{
    if (geteuid() != 0) {
        test_skip("only root makes files of another user");
    }
    setenv("TMPDIR", "/var/tmp", 1);
    char *ws = path_join(test_dir(), "ws"), *theirs = path_join(ws, "theirs");
    CHECK_INT(path_mkdirs(ws, 0777, NULL), 0);
    CHECK_INT(path_write_atomic(theirs, STR("old"), 0644, NULL), 0);
    boxed_begin_as_nobody();
    boxed_end();
    begin();
    call("edit_file", "{'path': 'theirs', 'old': 'old', 'new': 'new'}");
    CHECK_STR(got.error, "");
    CHECK(boxed_holds("ws/theirs", "new"));
    end();
    free(theirs);
    free(ws);
}

TEST(file_tools_write_where_commands_may)
{
    static const struct {
        const char *path, *says;
    } rows[] = {
        {"../outside/safe", "outside the working directory"},
        {"../outside/new", "outside the working directory"},
        {"../outside/x/y/new", "outside the working directory"},
        {"out", "outside the working directory"},
        {"outdir/new", "outside the working directory"},
        {"dangling", "leads nowhere"},
        {".git/config", ".git"},
        {".git/hooks/x", ".git"},
        {".git", ".git"},
        {".afloat/plugins/p.lua", ".afloat"},
        {"deep/.git/config", ".git"},
        {"gitlink/config", ".git"},
        {"../home/token", "hidden"},
        {"../home/plugins/p.lua", "tools may not write"},
        {"../hidden/key", "hidden"},
        {"/proc/self/comm", "'"},
        {"/etc/afloat-no", "outside"},
        {"/tmp/x", "gets its own empty"},
    };
    char input[200];
    begin();
    boxed_save("ws/.git/config", "good");
    CHECK_INT(symlink("../outside/safe", boxed_path("ws/out")), 0);
    CHECK_INT(symlink("../outside", boxed_path("ws/outdir")), 0);
    CHECK_INT(symlink("../outside/later", boxed_path("ws/dangling")), 0);
    CHECK_INT(symlink(".git", boxed_path("ws/gitlink")), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        snprintf(input, sizeof input, "{'path': '%s', 'content': 'bad'}", rows[i].path);
        call("write_file", input);
        check_bad(rows[i].says);
    }
    CHECK(boxed_holds("outside/safe", "safe") && boxed_holds("ws/.git/config", "good"));
    CHECK(!boxed_exists("outside/new") && !boxed_exists("outside/later"));
    CHECK(!boxed_exists("outside/x") && !boxed_exists("ws/.afloat"));
    CHECK(boxed_holds("home/plugins/p.lua", "plugin") && boxed_holds("home/token", "TOKEN"));
    call("edit_file", "{'path': 'out', 'old': 'safe', 'new': 'bad'}");
    check_bad("outside the working directory");
    boxed.policy.mode = BOX_READ_ONLY;
    call("write_file", "{'path': 'file', 'content': 'bad'}");
    check_bad("read-only");
    CHECK(boxed_holds("ws/file", "mine"));
    end();
}

TEST(a_link_is_followed_before_the_way_up)
{
    begin();
    boxed_save("ws/docs/a", "of docs");
    boxed_save("ws/a", "of ws");
    boxed_save("ws/docs/deep/x", "");
    boxed_save("ws/docs/side/here", "");
    CHECK_INT(symlink("docs/deep", boxed_path("ws/x")), 0);
    CHECK_INT(symlink(boxed_path("ws/docs/deep"), boxed_path("ws/y")), 0);
    CHECK_INT(symlink("../hidden/deep", boxed_path("ws/h")), 0);
    CHECK_INT(symlink("../outside/safe", boxed_path("ws/s")), 0);
    CHECK_INT(path_mkdirs(boxed_path("hidden/deep"), 0700, NULL), 0);
    call("read_file", "{'path': 'x/../a'}");
    check_good("of docs");
    call("read_file", "{'path': 'y/.././/a'}");
    check_good("of docs");
    call("edit_file", "{'path': 'x/../a', 'old': 'of', 'new': 'in'}");
    CHECK(got.success && boxed_holds("ws/docs/a", "in docs") && boxed_holds("ws/a", "of ws"));
    call("write_file", "{'path': 'x/../b', 'content': 'new'}");
    CHECK(got.success && boxed_holds("ws/docs/b", "new") && !boxed_exists("ws/b"));
    call("write_file", "{'path': 'x/..//./n//./m/f', 'content': 'new'}");
    CHECK(got.success && boxed_holds("ws/docs/n/m/f", "new") && !boxed_exists("ws/n"));
    call("write_file", "{'path': 'x/../../c', 'content': 'new'}");
    CHECK(got.success && boxed_holds("ws/c", "new"));
    call("write_file", "{'path': 'none/../d', 'content': 'bad'}");
    check_bad("goes up from a directory that does not exist");
    call("write_file", "{'path': 'x/../../../out', 'content': 'bad'}");
    check_bad("outside the working directory");
    call("write_file", "{'path': 's/../../new', 'content': 'bad'}");
    check_bad("cannot open");
    CHECK(!boxed_exists("ws/d") && !boxed_exists("out") && !boxed_exists("new"));
    call("list_files", "{'path': 'x/../side'}");
    check_good("here\n");
    call("read_file", "{'path': 'h/../key'}");
    check_bad("hidden");
    call("list_files", "{'path': 'h/..'}");
    check_bad("hidden");
    end();
}

TEST(a_command_runs_where_a_link_before_the_way_up_leads)
{
    begin();
    boxed_need();
    boxed_save("ws/docs/deep/x", "");
    boxed_save("ws/docs/side/here", "needle\n");
    CHECK_INT(path_mkdirs(boxed_path("ws/side"), 0700, NULL), 0);
    CHECK_INT(path_mkdirs(boxed_path("hidden/deep"), 0700, NULL), 0);
    CHECK_INT(symlink("docs/deep", boxed_path("ws/x")), 0);
    CHECK_INT(symlink("../hidden/deep", boxed_path("ws/h")), 0);
    call("shell", "{'cmd': 'ls', 'cwd': 'x/../side'}");
    check_good("here\n");
    call("shell", "{'cmd': 'ls', 'cwd': 'h/..'}");
    check_bad("hidden");
    call("search_files", "{'pattern': 'needle', 'path': 'x/../side'}");
    check_good("x/../side/here:1:needle\n");
    call("search_files", "{'pattern': 'KEY', 'path': 'h/..'}");
    CHECK(strstr(buf_z(&got.output), "KEY") == NULL);
    end();
}

TEST(all_file_tools_know_the_home_directory)
{
    begin();
    boxed_save("ws/~/f", "wrong needle\n");
    boxed_save("outside/f", "right needle\n");
    setenv("HOME", boxed_path("outside"), 1);
    call("read_file", "{'path': '~/f'}");
    check_good("right needle\n");
    call("search_files", "{'pattern': 'needle', 'path': '~'}");
    CHECK(strstr(buf_z(&got.output), "/outside/f:1:right needle\n") != NULL);
    CHECK(strstr(buf_z(&got.output), "wrong") == NULL);
    end();
}

TEST(a_directory_that_is_swapped_meanwhile_does_not_lead_outside)
{
    struct boxed_cmd swapper;
    int good = 0;
    begin();
    boxed_save("ws/d/safe", "inner");
    CHECK_INT(symlink("../outside", boxed_path("ws/link")), 0);
    boxed_start(&swapper, "exec ./escape swap");
    boxed_wait_for(&swapper, "ready");
    for (int i = 0; i < test_loops(300); i++) {
        call("write_file", "{'path': 'd/safe', 'content': 'bad'}");
        good += got.success;
        call("edit_file", "{'path': 'd/safe', 'old': 'safe', 'new': 'bad'}");
        CHECK(boxed_holds("outside/safe", "safe"));
    }
    CHECK(good > 0 && boxed_holds("outside/safe", "safe"));
    boxed_save("ws/stop", "");
    CHECK_INT(boxed_wait(&swapper), 0);
    boxed_free(&swapper);
    end();
}

TEST(files_of_tmp_are_those_that_commands_see)
{
    char tmp[400];
    begin();
    snprintf(tmp, sizeof tmp, "%s", boxed_path("home/sessions/s/tmp"));
    CHECK_INT(path_mkdirs(tmp, 0700, NULL), 0);
    boxed.policy.tmp_dir = tmp;
    call("write_file", "{'path': '/tmp/x', 'content': 'shared'}");
    CHECK(got.success);
    call("shell", "{'cmd': 'cat /tmp/x; echo more >> /tmp/x'}");
    check_good("shared");
    call("read_file", "{'path': '/tmp/x'}");
    check_good("sharedmore\n");
    end();
}

TEST(an_edit_replaces_exactly_what_was_meant)
{
    begin();
    boxed_save("ws/code", "a = 1;\nb = 1;\n");
    call("edit_file", "{'path': 'code', 'old': 'a = 1', 'new': 'a = 2'}");
    CHECK(got.success && boxed_holds("ws/code", "a = 2;\nb = 1;\n"));
    call("edit_file", "{'path': 'code', 'old': ';', 'new': ''}");
    check_bad("occurs 2 times");
    call("edit_file", "{'path': 'code', 'old': ';', 'new': ' ;', 'all': true}");
    CHECK(got.success && boxed_holds("ws/code", "a = 2 ;\nb = 1 ;\n"));
    call("edit_file", "{'path': 'code', 'old': 'zzz', 'new': ''}");
    check_bad("does not occur");
    boxed_save("ws/none", "");
    call("edit_file", "{'path': 'none', 'old': 'zzz', 'new': ''}");
    check_bad("does not occur");
    end();
}

TEST(an_edit_keeps_the_line_ends_of_a_file)
{
    begin();
    boxed_save("ws/dos", "a\r\nb\r\nc");
    call("edit_file", "{'path': 'dos', 'old': 'a\\nb', 'new': 'A\\n2\\nB'}");
    CHECK(got.success && boxed_holds("ws/dos", "A\r\n2\r\nB\r\nc"));
    call("edit_file",
         "{'path': 'dos', 'old': 'A\\r\\n2', 'new': 'x\\ny'}"); // has a CR: taken as it is
    CHECK(got.success && boxed_holds("ws/dos", "x\r\ny\r\nB\r\nc"));
    boxed_save("ws/mixed", "a\nb\r\n");
    call("edit_file", "{'path': 'mixed', 'old': 'a', 'new': 'a\\n1'}");
    CHECK(got.success && boxed_holds("ws/mixed", "a\n1\nb\r\n"));
    end();
}

TEST(a_directory_is_listed_in_order_and_depth)
{
    begin();
    boxed_save("ws/b/x/y", "");
    boxed_save("ws/b/w", "");
    boxed_save("ws/.git/config", "");
    CHECK_INT(symlink("b", boxed_path("ws/l")), 0);
    call("list_files", "{}");
    check_good(".git/\nb/\nescape\nfile\nl@\n");
    call("list_files", "{'depth': 3}");
    check_good(".git/\nb/\nb/w\nb/x/\nb/x/y\nescape\nfile\nl@\n");
    call("list_files", "{'path': 'b/x'}");
    check_good("y\n");
    call("list_files", "{'path': 'file'}");
    check_bad("not a directory");
    call("list_files", "{'path': '..', 'depth': 3}");
    CHECK(strstr(buf_z(&got.output), "hidden/\n") != NULL);
    CHECK(strstr(buf_z(&got.output), "key") == NULL && strstr(buf_z(&got.output), "token") == NULL);
    end();
}

TEST(files_are_searched_inside_the_box)
{
    begin();
    boxed_save("ws/src/a.c", "int main\nint other\n");
    boxed_save("ws/src/b.h", "int main;\n");
    boxed_save("ws/.git/c", "int main\n");
    call("search_files", "{'pattern': 'int m[a-z]+', 'path': 'src'}");
    CHECK(strstr(buf_z(&got.output), "src/a.c:1:int main\n") != NULL);
    CHECK(strstr(buf_z(&got.output), "src/b.h:1:int main;\n") != NULL);
    call("search_files", "{'pattern': 'int main', 'glob': '*.c'}");
    check_good("./src/a.c:1:int main\n");
    call("search_files", "{'pattern': 'never there'}");
    check_good("no matches\n");
    call("search_files", "{'pattern': '('}");
    check_bad("exit 2");
    call("search_files", "{'pattern': '.', 'path': '../hidden'}");
    CHECK(strstr(buf_z(&got.output), "KEY") == NULL);
    call("search_files", "{'pattern': '--', 'path': '-'}");
    check_bad("exit 2");
    end();
}

TEST(searching_needs_no_path_and_waits_for_no_fifo)
{
    static const char *const none[] = {"LANG=C.UTF-8", NULL};
    begin();
    boxed_save("ws/f", "needle\n");
    CHECK_INT(mkfifo(boxed_path("ws/pipe"), 0600), 0);
    got.environment = none;
    call("search_files", "{'pattern': 'needle'}");
    CHECK_STR(buf_z(&got.output), "./f:1:needle\n");
    got.timeout_ms = 5000;
    call("search_files", "{'pattern': 'needle', 'path': 'pipe'}");
    CHECK(got.success);
    CHECK_STR(buf_z(&got.output), "no matches\n");
    got.environment = NULL;
    end();
}

TEST(a_name_with_a_nul_is_refused)
{
    static const char *const rows[][2] = {
        {"shell", "{'cmd': 'true', 'cwd': '/tmp\\u0000/../etc'}"},
        {"shell", "{'cmd': 'true', 'cwd': 'a\\u0000b'}"},
        {"read_file", "{'path': 'f\\u0000'}"},
        {"write_file", "{'path': 'f\\u0000.txt', 'content': ''}"},
        {"list_files", "{'path': '.\\u0000'}"},
        {"search_files", "{'pattern': 'x', 'path': '.\\u0000'}"},
    };
    begin();
    boxed_save("ws/f", "");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        call(rows[i][0], rows[i][1]);
        CHECK(!got.success);
    }
    end();
}

TEST(a_command_that_passes_a_limit_is_told_which)
{
    begin();
    got.memory = 64 << 20;
    got.processes = 16;
    boxed_save("ws/eat", "$x = 'x' x (256 << 20); sleep 100;");
    call("shell", "{'cmd': 'perl eat'}");
    CHECK(!got.success && strstr(got.error, "64 MiB of memory ([limits] command_mb)") != NULL);
    if (geteuid() == 0) { // everybody else is stopped by fork()
        call("shell", "{'cmd': 'for i in $(seq 40); do sleep 100 & done; wait'}");
        CHECK(!got.success &&
              strstr(got.error, "16 processes ([limits] command_processes)") != NULL);
    }
    got.memory = got.processes = 0;
    end();
}

TEST(rights_of_the_owner_are_not_kept_when_a_file_is_written)
{
    struct stat st;
    begin();
    boxed_save("ws/f", "old");
    CHECK_INT(chmod(boxed_path("ws/f"), 06755), 0);
    call("write_file", "{'path': 'f', 'content': 'new'}");
    CHECK_INT(stat(boxed_path("ws/f"), &st), 0);
    CHECK_INT(st.st_mode & 07777, 0755);
    end();
}
