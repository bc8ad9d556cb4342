// `afloat tui`, and `afloat` alone on a terminal.

#include <unistd.h>

#include "cli/ask.h"
#include "pty/tty.h"

int cmd_tui(struct cli *c)
{
    const char *asked = args_value(&c->args, FLAG_CWD), *term = getenv("TERM");
    bool simple = term == NULL || term[0] == '\0' || strcmp(term, "dumb") == 0;
    struct err e = {0};
    if (!c->out.terminal || !tty_in_foreground(STDIN_FILENO)) {
        err_set(&e, ERR_USAGE,
                "the full-screen interface needs a terminal; 'afloat chat' does not");
        return cli__fail(c, &e);
    }
    if (args_has(&c->args, FLAG_PLAIN) || simple) {
        setenv("TERM", "dumb", 1); // where the chat writes line by line
        return cmd_chat(c);
    }
    char *project = realpath(asked != NULL ? asked : ".", NULL);
    if (project == NULL) {
        err_sys(&e, "cannot open '%s'", asked != NULL ? asked : ".");
        return cli__fail(c, &e);
    }
    int code = ask_ensure_hub(c);
    if (code == EXIT_OK) {
        struct cli_tui_opts o = {.home = &c->home,
                                 .project = project,
                                 .color = c->out.color,
                                 .safe = args_has(&c->args, FLAG_SAFE)};
        code = c->host->run_tui(&o, &e) < 0 ? cli__fail(c, &e) : EXIT_OK;
    }
    free(project);
    return code;
}
