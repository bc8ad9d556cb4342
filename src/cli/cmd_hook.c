// `afloat hook` and the process that it has started in the background.

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/cli_int.h"
#include "cli/shell_config.h"
#include "loop/proc.h"
#include "shell/dir.h"
#include "shell/hook.h"

// $AFLOAT_RUNTIME/hook, where shells and their processes meet.
static int meeting_place(struct cli *c, char **out, struct err *e)
{
    *out = path_join(c->home.runtime, "hook");
    int rc = home_prepare(&c->home, e);
    rc = rc == 0 ? path_mkdirs(*out, 0700, e) : rc;
    return rc == 0 && !shell_dir_is_private(*out)
               ? err_set(e, ERR_DENIED, "'%s' is a link or open to others; remove it", *out)
               : rc;
}

int cmd_hook(struct cli *c)
{
    enum env_dialect d;
    struct err e = {0};
    char *program, *place = NULL;
    const char *name = args_word(&c->args, 0);
    if (!env_dialect_of(name, &d) || d == ENV_SH) {
        err_set(&e, ERR_USAGE, "'hook' takes bash, zsh or fish, not '%s'", name);
        return cli__fail(c, &e);
    }
    program = path_own_program(&e);
    int rc = program == NULL ? e.code : meeting_place(c, &place, &e);
    if (rc == 0) {
        struct buf text = {.max = SIZE_MAX};
        hook_text(d, program, place, &text);
        out_add(&c->out, buf_str(&text));
        buf_fini(&text);
    }
    free(place);
    free(program);
    return rc == 0 ? EXIT_OK : cli__fail(c, &e);
}

static int serve(struct cli *c, enum env_dialect d, int pid, struct err *e)
{
    struct env_gate gate;
    int rc = proc_setup(e);
    if (rc != 0) {
        return rc;
    }
    env_gate_trust_init(&gate, c->home.dir);
    struct hook_opts o = {.dialect = d,
                          .dir = args_word(&c->args, 1),
                          .root = args_word(&c->args, 2),
                          .pid = pid,
                          .base = (const char *const *)environ,
                          .gate = &gate,
                          .build_timeout_ms =
                              shell_config_read(c, args_word(&c->args, 2)).build_timeout_ms,
                          .socket = c->home.socket};
    rc = hook_serve(&o, e);
    env_gate_trust_fini(&gate);
    proc_teardown();
    return rc;
}

int cmd_env_serve(struct cli *c)
{
    enum env_dialect d;
    int64_t pid;
    struct err e = {0};
    int rc = 0;
    if (!env_dialect_of(args_word(&c->args, 0), &d) ||
        !str_to_i64(str_of(args_word(&c->args, 3)), &pid) || pid <= 1 || pid > INT_MAX) {
        rc = err_set(&e, ERR_USAGE, "'env serve' is for the lines of 'afloat hook'");
    }
    rc = rc == 0 ? serve(c, d, (int)pid, &e) : rc;
    return rc == 0 ? EXIT_OK : cli__fail(c, &e);
}
