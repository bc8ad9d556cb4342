// `afloat shell`: what was asked for, as src/shell takes it.

#include <limits.h>
#include <unistd.h>

#include "cli/cli_int.h"
#include "cli/shell_config.h"
#include "shell/shell.h"

static int read_options(struct cli *c, struct shell_opts *o, struct err *e)
{
    const char *status = args_value(&c->args, FLAG_STATUS);
    struct shell_config config = shell_config_read(c, o->cwd);
    o->status = config.status;
    o->marker = config.marker;
    o->build_timeout_ms = config.build_timeout_ms;
    if (status != NULL) {
        status_mode_of(status, &o->status); // one of flags.def: others were refused
    }
    if (o->string != NULL && c->args.words.n != 0) {
        return err_set(e, ERR_USAGE, "'shell' takes either -c or a program, not both");
    }
    return home_prepare(&c->home, e);
}

int cmd_shell(struct cli *c)
{
    char cwd[PATH_MAX];
    struct err e = {0};
    struct shell_opts o = {.home = &c->home,
                           .cwd = getcwd(cwd, sizeof cwd),
                           .program = args_value(&c->args, FLAG_SHELL),
                           .string = args_value(&c->args, FLAG_STRING),
                           .reload = !args_has(&c->args, FLAG_NO_RELOAD),
                           .may_ask = !args_has(&c->args, FLAG_NO_INPUT),
                           .quiet = args_has(&c->args, FLAG_QUIET)};
    int rc =
        o.cwd == NULL ? err_sys(&e, "cannot find the working directory") : read_options(c, &o, &e);
    if (rc == 0) {
        size_t n = c->args.words.n;
        char **words = n != 0 ? xcalloc(n + 1, sizeof *words) : NULL;
        for (size_t i = 0; i < n; i++) { // exec wants the strings of our own argv without const
            memcpy(&words[i], &c->args.words.p[i], sizeof *words);
        }
        o.words = words;
        rc = shell_run(&o, &e);
        free(words);
    }
    return rc < 0 ? cli__fail(c, &e) : rc;
}
