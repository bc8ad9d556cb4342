// `afloat shell`: what was asked for, as src/shell takes it.

#include <limits.h>
#include <unistd.h>

#include "cli/cli_int.h"
#include "config/config.h"
#include "shell/shell.h"

/// The user's settings; a broken file is no reason to be without a shell.
static bool wants_marker(struct cli *c)
{
    struct config_sources src = {.home = &c->home, .env = (const char *const *)environ};
    struct config *config = NULL;
    struct config_diags diags;
    struct err e;
    config_diags_init(&diags);
    bool marker = true;
    if (config_load(&config, &src, &diags, &e) == 0) {
        marker = config_bool(config, "shell.marker");
    } else {
        out_note(&c->out, "%s", e.msg);
    }
    config_free(config);
    config_diags_fini(&diags);
    return marker;
}

static int read_options(struct cli *c, struct shell_opts *o, struct err *e)
{
    const char *status = args_value(&c->args, FLAG_STATUS);
    if (status != NULL && !status_mode_of(status, &o->status)) {
        return err_set(e, ERR_USAGE, "'--status' takes prompt, row or none, not '%s'", status);
    }
    if (o->string != NULL && c->args.words.n != 0) {
        return err_set(e, ERR_USAGE, "'shell' takes either -c or a program, not both");
    }
    return home_prepare(&c->home, e);
}

/// argv of the program, NULL-terminated; NULL without one. Strings are those of our own argv.
static char **program_words(const struct args *a)
{
    char **words = a->words.n != 0 ? xcalloc(a->words.n + 1, sizeof *words) : NULL;
    for (size_t i = 0; i < a->words.n; i++) {
        memcpy(&words[i], &a->words.p[i], sizeof *words); // exec wants them without const
    }
    return words;
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
        char **words = program_words(&c->args);
        o.words = words;
        o.marker = wants_marker(c);
        rc = shell_run(&o, &e);
        free(words);
    }
    return rc < 0 ? cli__fail(c, &e) : rc;
}
