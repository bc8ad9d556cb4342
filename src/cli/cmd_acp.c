// `afloat acp`: an editor talks to sessions of the hub on our standard streams.

#include <unistd.h>

#include "acp/acp.h"
#include "cli/ask.h"
#include "cli/sent.h"
#include "client/start.h"

static int start(void *arg, struct err *e)
{
    struct cli *c = arg;
    struct start_result r;
    if (args_has(&c->args, FLAG_NO_START)) {
        const char *why = "the hub is not running; 'afloat start' starts it";
        return ask_is_up(c) ? 0 : err_set(e, ERR_UNREACHABLE, "%s", why);
    }
    int rc = start_hub(&c->home, &r, e);
    e->code = rc < 0 ? ERR_UNREACHABLE : 0; // whatever kept it from starting
    return e->code;
}

int cmd_acp(struct cli *c)
{
    struct buf env = {.max = SIZE_MAX}, choices = {.max = SIZE_MAX};
    struct err e = {0};
    struct jw w = {.out = &env};
    int code = sent_write_env(c, &w);
    jw_init(&w, &choices);
    jw_obj(&w);
    sent_write_choices(c, &w);
    if (args_has(&c->args, FLAG_BOT)) {
        jw_kstrz(&w, "bot", args_value(&c->args, FLAG_BOT));
    }
    jw_end_obj(&w);
    struct acp_opts o = {.home = &c->home,
                         .version = c->host->version,
                         .env = buf_str(&env),
                         .choices = {choices.p + 1, choices.n - 2}, // without the braces
                         .in = STDIN_FILENO,
                         .out = STDOUT_FILENO,
                         .start = start,
                         .arg = c};
    if (code == EXIT_OK && acp_run(&o, &e) < 0) {
        code = cli__fail(c, &e);
    }
    buf_fini(&env);
    buf_fini(&choices);
    return code;
}
