#include "unit/sandbox/boxed.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "unit/sandbox/sandbox_programs.h" // made by meson: where the launcher lies

enum { NOBODY = 65534 };

struct boxed boxed;

static void on_output(struct proc *p, int which, struct str bytes, void *arg)
{
    struct boxed_cmd *cmd = arg;
    (void)p;
    (void)which;
    buf_adds(&cmd->out, bytes);
}

static void on_exit_cb(struct proc *p, const struct proc_exit *x, void *arg)
{
    struct boxed_cmd *cmd = arg;
    CHECK(p == cmd->proc);
    cmd->proc = NULL;
    cmd->exit = *x;
    if (x->why != NULL) {
        err_set(&cmd->why, x->code, "%s", x->why);
    }
}

static void on_listen(struct proc *p, uv_stream_t *from, void *arg)
{
    (void)p;
    (void)arg;
    boxed.on_listen(from);
}

static void make_base(void)
{
    snprintf(boxed.base, sizeof boxed.base, "%s", test_dir());
    snprintf(boxed.ws, sizeof boxed.ws, "%s/ws", boxed.base);
    snprintf(boxed.home, sizeof boxed.home, "%s/home", boxed.base);
    snprintf(boxed.runtime, sizeof boxed.runtime, "%s/home/run", boxed.base);
    snprintf(boxed.hidden, sizeof boxed.hidden, "%s/hidden", boxed.base);
    boxed_save("ws/file", "mine");
    boxed_save("outside/safe", "safe");
    boxed_save("home/token", "TOKEN");
    boxed_save("home/secrets.json", "SECRET");
    boxed_save("home/trust.json", "{}");
    boxed_save("home/plugins/p.lua", "plugin");
    boxed_save("home/run/hub.sock", "SOCKET");
    boxed_save("hidden/key", "KEY");
    char *tool = path_join(boxed.ws, "escape");
    struct buf program;
    buf_init(&program, SIZE_MAX);
    CHECK_INT(path_read(SANDBOX_ESCAPE, &program, NULL), 0);
    CHECK_INT(path_write_atomic(tool, buf_str(&program), 0755, NULL), 0);
    buf_fini(&program);
    free(tool);
}

static void spawn(struct boxed_cmd *cmd, const char *script, const struct box *box)
{
    static const struct proc_cb cb = {
        .on_output = on_output, .on_listen = on_listen, .on_exit = on_exit_cb};
    static const char *const env[] = {"PATH=/usr/bin:/bin", "HOME=/nonexistent",
                                      "GIT_CONFIG_NOSYSTEM=1", NULL};
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct err e = {0};
    struct proc_opts opts = {
        .argv = argv,
        .env = env,
        .cwd = boxed.ws,
        .out = PROC_PIPE,
        .err = PROC_STDOUT,
        .supervise = true,
        .box = box_rules(box),
        .network = box_network(box) && boxed.on_listen == NULL,
        .loopback = boxed.on_listen != NULL,
        .process_limit = boxed.process_limit,
        .box_memory = boxed.memory_limit,
        .fd3 = boxed.fd3,
    };
    if (proc_spawn(&cmd->proc, &boxed.loop, &opts, &cb, cmd, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
}

/// Is there a box to be had on this machine at all?
static void look_for_box(void)
{
    struct boxed_cmd cmd = {0};
    struct box *box = NULL;
    CHECK_INT(box_new(&box, &boxed.policy, NULL), 0);
    buf_init(&cmd.out, SIZE_MAX);
    spawn(&cmd, "true", box);
    boxed.missing = boxed_wait(&cmd) < 0 ? cmd.why : (struct err){0};
    box_free(box);
    boxed_free(&cmd);
}

void boxed_begin(bool outside_tmp)
{
    struct err e = {0};
    if (proc_setup_at(SANDBOX_LAUNCHER, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    CHECK_INT(loop_init(&boxed.loop, NULL, NULL), 0);
    setenv("TMPDIR", outside_tmp ? "/var/tmp" : "/tmp", 1); // where test_dir() will be
    make_base();
    boxed.hide[0] = boxed.hidden;
    boxed.policy = (struct box_policy){
        .mode = BOX_WORKSPACE_WRITE,
        .working_dir = boxed.ws,
        .hide = boxed.hide,
        .home = boxed.home,
        .runtime = boxed.runtime,
    };
    look_for_box();
}

void boxed_need(void)
{
    if (boxed.missing.code != 0) {
        test_skip(boxed.missing.msg);
    }
}

void boxed_begin_as_nobody(void)
{
    setenv("TMPDIR", "/var/tmp", 1);
    if (geteuid() == 0) {
        CHECK_INT(chown(test_dir(), NOBODY, NOBODY), 0);
        CHECK_INT(setgroups(0, NULL) | setgid(NOBODY) | setuid(NOBODY), 0);
        CHECK_INT(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0); // the sanitizer looks at its own process
    }
    if (access(SANDBOX_LAUNCHER, X_OK) != 0) {
        test_skip("an ordinary user cannot reach the launcher");
    }
    boxed_begin(true);
}

void boxed_end(void)
{
    boxed_free(&boxed.cmd);
    TEST_LOOP_END(&boxed.loop);
    proc_teardown();
}

const char *boxed_path(const char *name)
{
    static char paths[4][600];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", boxed.base, name);
    return path;
}

void boxed_save(const char *name, const char *text)
{
    const char *path = boxed_path(name);
    char *dir = str_dup(path_dir(str_of(path)));
    CHECK_INT(path_mkdirs(dir, 0755, NULL), 0);
    CHECK_INT(path_write_atomic(path, str_of(text), 0644, NULL), 0);
    free(dir);
}

bool boxed_holds(const char *name, const char *text)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    bool same = path_read(boxed_path(name), &b, NULL) == 0 && str_eqz(buf_str(&b), text);
    buf_fini(&b);
    return same;
}

bool boxed_exists(const char *name)
{
    struct stat st;
    return lstat(boxed_path(name), &st) == 0;
}

void boxed_start_in(struct boxed_cmd *cmd, const char *script, const struct box *box)
{
    boxed_need();
    *cmd = (struct boxed_cmd){0};
    buf_init(&cmd->out, SIZE_MAX);
    spawn(cmd, script, box);
}

void boxed_start(struct boxed_cmd *cmd, const char *script)
{
    struct box *box = NULL;
    struct err e = {0};
    boxed_need();
    if (box_new(&box, &boxed.policy, &e) != 0) {
        test_fail(__FILE__, __LINE__, "%s", e.msg);
    }
    boxed_start_in(cmd, script, box);
    box_free(box);
}

void boxed_wait_for(struct boxed_cmd *cmd, const char *text)
{
    while (strstr(buf_z(&cmd->out), text) == NULL) {
        if (cmd->proc == NULL) {
            test_fail(__FILE__, __LINE__, "ended without '%s': %s%s", text, buf_z(&cmd->out),
                      cmd->why.msg);
        }
        loop_run_once(&boxed.loop, true);
    }
}

int boxed_wait(struct boxed_cmd *cmd)
{
    while (cmd->proc != NULL) {
        loop_run_once(&boxed.loop, true);
    }
    if (!cmd->exit.launched) {
        return BOXED_NOT_LAUNCHED;
    }
    return cmd->exit.signal != 0 ? -cmd->exit.signal : cmd->exit.code;
}

void boxed_free(struct boxed_cmd *cmd)
{
    buf_fini(&cmd->out);
}

int boxed_run(const char *script)
{
    boxed_free(&boxed.cmd);
    boxed_start(&boxed.cmd, script);
    return boxed_wait(&boxed.cmd);
}
