// `afloat pty attach`, and what else ends in a terminal that is shown here.

#include "cli/pty_attach.h"

#include <unistd.h>

#include "client/travel.h"
#include "config/config.h"
#include "keep/attach.h"
#include "pty/tty.h"

/// "ctrl+\" as the byte that the key sends.
static int detach_key(struct cli *c)
{
    struct config *config = travel_config(&c->home, false, NULL);
    const char *name = config != NULL ? config_str(config, "pty.detach") : "";
    bool fits = strlen(name) == 6 && strncasecmp(name, "ctrl+", 5) == 0 && (name[5] & 31) != 0 &&
                name[5] > '@';
    int key = fits ? name[5] & 31 : 28;
    config_free(config);
    return key;
}

int pty_attach(struct cli *c, const char *id)
{
    struct attach_end end;
    struct err e = {0};
    if (!tty_in_foreground(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        out_error(&c->out,
                  "'pty attach' needs a terminal; 'afloat api GET /pty/%s/screen' prints "
                  "what the terminal shows",
                  id);
        return EXIT_USAGE;
    }
    char *socket = xasprintf("%s/pty/%s.sock", c->home.runtime, id); // of its keeper
    int rc = attach_run(socket, detach_key(c), &end, &e);
    free(socket);
    if (rc < 0) {
        return cli__fail(c, &e);
    }
    if (end.ended) {
        out_note(&c->out, "the program in terminal %s ended with status %d", id, end.status);
        return end.status;
    }
    if (end.detached) {
        out_note(&c->out, "detached; return with 'afloat pty attach %s'", id);
        return EXIT_OK;
    }
    out_error(&c->out, "lost the terminal %s%s%s", id, end.why[0] != '\0' ? ": " : "", end.why);
    return EXIT_FAILED;
}
